/*
** secret.h - what the processes of a job know and nobody else. Each side of a connection proves
** that it knows it, by HMAC-SHA256 of random bytes of both sides; it is never sent.
*/
#ifndef TLI_SECRET_H
#define TLI_SECRET_H

#include "core/platform/private_file.h"
#include "dist/sha256.h"

enum {
  TLI_SECRET_LEAST = 16, /* characters */
  TLI_SECRET_ROOM = 512, /* with the byte 0 behind */
  TLI_CHALLENGE = 32     /* random bytes of each side */
};

/* A new one: 64 hexadecimal digits of the system's randomness. */
bool tli_secret_make(char out[TLI_SECRET_ROOM]) TL_MUSTCHECK;
/* Whether the text will do; `where` is for the message: where it comes from. */
bool tli_secret_check(const char *where, const char *secret) TL_MUSTCHECK;
/* The first line of a file that no other user may read. */
bool tli_secret_read(const char *path, char out[TLI_SECRET_ROOM]) TL_MUSTCHECK;
/* Overwrites a copy that is of no use any more. */
void tli_secret_forget(char *secret, size_t bytes);

typedef enum tli_SecretSide { TLI_SECRET_CLIENT, TLI_SECRET_SERVER } tli_SecretSide;

/* Which side knows it, and of which connection: `challenge` is the server's, `answer` the client's. */
void tli_secret_prove(const char *secret, tli_SecretSide side,
                      const unsigned char challenge[TLI_CHALLENGE],
                      const unsigned char answer[TLI_CHALLENGE],
                      unsigned char proof[TLI_SHA256_BYTES]);
/* Compares proofs in a time that does not tell where they differ. */
bool tli_secret_same(const unsigned char a[TLI_SHA256_BYTES],
                     const unsigned char b[TLI_SHA256_BYTES]);

#endif
