/*
** secret.c - implements secret.h: reads secrets, and computes the proofs that a process knows a
** secret.
*/
#include "dist/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/platform.h"

bool tli_secret_make(char out[TLI_SECRET_ROOM]) {
  unsigned char bytes[32];
  if (!tli_entropy(bytes, sizeof bytes))
    return tli_fail(TL_EIO, "the system gives no random bytes for a secret: %s", strerror(errno));
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  tli_secret_forget((char *)bytes, sizeof bytes);
  return true;
}

bool tli_secret_check(const char *where, const char *secret) {
  size_t n = strlen(secret);
  if (n >= TLI_SECRET_LEAST && n < TLI_SECRET_ROOM) return true;
  return tli_fail(TL_EARG, "%s: expected a secret of %d to %d characters, got %zu", where,
                  TLI_SECRET_LEAST, TLI_SECRET_ROOM - 1, n);
}

bool tli_secret_read(const char *path, char out[TLI_SECRET_ROOM]) {
  if (tli_private_file_read(path, out, TLI_SECRET_ROOM) != TLI_PRIVATE_READ) return false;
  out[strcspn(out, "\r\n")] = '\0';
  return tli_secret_check(path, out);
}

void tli_secret_forget(char *secret, size_t bytes) {
  volatile char *at = secret;
  while (bytes > 0) at[--bytes] = 0;
}

void tli_secret_prove(const char *secret, tli_SecretSide side,
                      const unsigned char challenge[TLI_CHALLENGE],
                      const unsigned char answer[TLI_CHALLENGE],
                      unsigned char proof[TLI_SHA256_BYTES]) {
  /* length of a label. Each side puts a label of its own into its proof, so that no program can
  ** pass by returning the proof that it was sent */
  enum { LABEL = 16 };
  static const char labels[][LABEL + 1] = {"tlua store asks ", "tlua store gives"};
  unsigned char text[LABEL + 2 * TLI_CHALLENGE];
  memcpy(text, labels[side], LABEL);
  memcpy(text + LABEL, challenge, TLI_CHALLENGE);
  memcpy(text + LABEL + TLI_CHALLENGE, answer, TLI_CHALLENGE);
  tli_hmac_sha256(secret, strlen(secret), text, sizeof text, proof);
}

bool tli_secret_same(const unsigned char a[TLI_SHA256_BYTES],
                     const unsigned char b[TLI_SHA256_BYTES]) {
  unsigned char difference = 0;
  for (int i = 0; i < TLI_SHA256_BYTES; i++) difference |= a[i] ^ b[i];
  return difference == 0;
}
