/*
** addresses.h - a hash map from addresses to int32 numbers, allocated in a memory region.
*/
#ifndef TLI_GRAPH_ADDRESSES_H
#define TLI_GRAPH_ADDRESSES_H

#include "graph/call_graph.h"

/* The hash table uses open addressing; its number of slots is a power of 2. */
typedef struct tli_Addresses {
  const void **keys; /* key of each slot; NULL in a free slot */
  int32_t *numbers;
  int64_t size, used;
} tli_Addresses;

static inline int64_t tli_addresses_place(const tli_Addresses *m, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
  int64_t i = (int64_t)(hash >> 20) & (m->size - 1);
  while (m->keys[i] != NULL && m->keys[i] != key) i = (i + 1) & (m->size - 1);
  return i;
}

/* Returns the number of an address; -1 if the map does not have it. */
static inline int32_t tli_addresses_find(const tli_Addresses *m, const void *key) {
  if (m->size == 0) return -1;
  int64_t i = tli_addresses_place(m, key);
  return m->keys[i] ? m->numbers[i] : -1;
}

/* Maps an address to a number, and replaces the address's earlier number. */
static inline bool tli_addresses_put(tli_Region *r, tli_Addresses *m, const void *key,
                                     int32_t number) {
  if (2 * m->used >= m->size) {
    tli_Addresses more = {.size = m->size > 0 ? 2 * m->size : 64, .used = m->used};
    more.keys = tli_region_get(r, more.size, sizeof *more.keys);
    more.numbers = tli_region_get(r, more.size, sizeof *more.numbers);
    if (more.keys == NULL || more.numbers == NULL) return false;
    for (int64_t k = 0; k < m->size; k++) {
      if (m->keys[k] == NULL) continue;
      int64_t i = tli_addresses_place(&more, m->keys[k]);
      more.keys[i] = m->keys[k];
      more.numbers[i] = m->numbers[k];
    }
    *m = more;
  }
  int64_t i = tli_addresses_place(m, key);
  if (m->keys[i] == NULL) m->used++;
  m->keys[i] = key;
  m->numbers[i] = number;
  return true;
}

#endif
