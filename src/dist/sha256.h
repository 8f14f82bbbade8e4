/*
** sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). They serve to prove that a process
** knows a secret.
*/
#ifndef TLI_SHA256_H
#define TLI_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { TLI_SHA256_BYTES = 32, TLI_SHA256_BLOCK = 64 };

typedef struct tli_Sha256 {
  uint32_t state[8];
  uint64_t bytes;
  /* the last, incomplete block, which holds `bytes` % 64 bytes */
  unsigned char block[TLI_SHA256_BLOCK];
} tli_Sha256;

void tli_sha256_begin(tli_Sha256 *s);
void tli_sha256_add(tli_Sha256 *s, const void *data, size_t bytes);
void tli_sha256_end(tli_Sha256 *s, unsigned char out[TLI_SHA256_BYTES]);

void tli_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                     unsigned char out[TLI_SHA256_BYTES]);

#endif
