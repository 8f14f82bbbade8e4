/*
** secret.h - the shared secret of a job's processes. Each side of a connection proves that it knows
** the secret: it sends an HMAC-SHA256 of random bytes that both sides have chosen. The secret
** itself is never sent.
*/
#ifndef TLI_SECRET_H
#define TLI_SECRET_H

#include "core/platform/private_file.h"
#include "dist/sha256.h"

enum {
  TLI_SECRET_LEAST = 16, /* the smallest number of characters of a secret */
  TLI_SECRET_ROOM = 512, /* size in bytes of a buffer for a secret, including the terminating 0 */
  TLI_CHALLENGE = 32     /* number of random bytes that each side sends */
};

/* Creates a secret: 64 hexadecimal digits from the system's random bytes. */
bool tli_secret_make(char out[TLI_SECRET_ROOM]) TL_MUSTCHECK;
/* Checks that a secret has an allowed length; `where` names the secret's origin in the message. */
bool tli_secret_check(const char *where, const char *secret) TL_MUSTCHECK;
/* Reads a secret from the first line of a file; refuses a file that another user may read. */
bool tli_secret_read(const char *path, char out[TLI_SECRET_ROOM]) TL_MUSTCHECK;
/* Overwrites a copy of a secret that is no longer needed. */
void tli_secret_forget(char *secret, size_t bytes);

typedef enum tli_SecretSide { TLI_SECRET_CLIENT, TLI_SECRET_SERVER } tli_SecretSide;

/* Computes one side's proof for a connection. `challenge` is the server's random text, `answer` the
** client's. */
void tli_secret_prove(const char *secret, tli_SecretSide side,
                      const unsigned char challenge[TLI_CHALLENGE],
                      const unsigned char answer[TLI_CHALLENGE],
                      unsigned char proof[TLI_SHA256_BYTES]);
/* Compares two proofs. The time that this takes does not depend on the position of the first
** difference, so it reveals nothing about the proof. */
bool tli_secret_same(const unsigned char a[TLI_SHA256_BYTES],
                     const unsigned char b[TLI_SHA256_BYTES]);

#endif
