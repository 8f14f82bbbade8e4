/*
** hash.h - FNV-1a with 64 bits, the hash function that all hash tables with keys of bytes use.
*/
#ifndef TLI_HASH_H
#define TLI_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TLI_HASH_SEED UINT64_C(0xcbf29ce484222325) /* the hash of zero bytes of input */

/* Continues a hash with further bytes. */
static inline uint64_t tli_hash(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *at = data;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  return hash;
}

#endif
