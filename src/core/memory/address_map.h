/*
** address_map.h - a hash map from addresses to entries of any type, by open addressing with linear
** probing. The file is a template. A source file includes it once for each map that it needs, after
** it has defined these macros:
**
**   MAP            the prefix of the map's type and functions, such as owners
**   MAP_ENTRY      the type of an entry, a struct with a member `const void *key`
**   MAP_GET(n)     returns n bytes, which need not be zero, or NULL
**   MAP_PUT(p, n)  frees the n bytes at p
**
** A map full of zeros is empty and holds no memory. At most half of the slots are taken. Removing
** an entry leaves no mark in its slot; entries behind it move into the gap instead. So a map keeps
** its size even if many entries come and go. Pointers to entries are valid until an entry is added
** or removed.
*/
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAP_JOIN2(a, b) a##_##b
#define MAP_JOIN(a, b) MAP_JOIN2(a, b)
#define MAP_NAME(name) MAP_JOIN(MAP, name)
#define MAP_STRUCT MAP_NAME(Map)

typedef struct MAP_STRUCT {
  MAP_ENTRY *places; /* array of slots (owned); the key of a free slot is NULL */
  size_t size;       /* number of slots: a power of two, or 0 */
  size_t n;          /* number of entries */
} MAP_STRUCT;

/* Returns the index of the slot where the search for a key begins. Addresses of blocks end in
** zeros, so the hash is taken from the product's upper half, which depends on all bits of the
** address. */
static inline size_t MAP_NAME(home)(const MAP_STRUCT *map, const void *key) {
  return (size_t)((uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (map->size - 1);
}

/* Returns the key's slot, or the free slot for the key if the map does not have it. The map must
** have slots. */
static inline MAP_ENTRY *MAP_NAME(place)(const MAP_STRUCT *map, const void *key) {
  size_t i = MAP_NAME(home)(map, key);
  while (map->places[i].key && map->places[i].key != key) i = (i + 1) & (map->size - 1);
  return &map->places[i];
}

/* Returns the key's entry, or NULL. */
static inline MAP_ENTRY *MAP_NAME(find)(const MAP_STRUCT *map, const void *key) {
  if (map->n == 0) return NULL;
  MAP_ENTRY *entry = MAP_NAME(place)(map, key);
  return entry->key ? entry : NULL;
}

/* Makes room for one more entry, so that the next `add` cannot fail. Returns false and leaves the
** map unchanged if memory is exhausted. */
__attribute__((unused)) static bool MAP_NAME(reserve)(MAP_STRUCT *map) {
  if (2 * (map->n + 1) <= map->size) return true;
  MAP_STRUCT larger = {NULL, map->size ? 2 * map->size : 64, map->n};
  size_t bytes = larger.size * sizeof(MAP_ENTRY);
  if ((larger.places = MAP_GET(bytes)) == NULL) return false;
  memset(larger.places, 0, bytes);
  for (size_t i = 0; i < map->size; i++)
    if (map->places[i].key) *MAP_NAME(place)(&larger, map->places[i].key) = map->places[i];
  if (map->places) MAP_PUT(map->places, map->size * sizeof(MAP_ENTRY));
  *map = larger;
  return true;
}

/* Returns the key's entry. A new entry is zero except for its key. Returns NULL if memory is
** exhausted. The key is not NULL. */
static inline MAP_ENTRY *MAP_NAME(add)(MAP_STRUCT *map, const void *key) {
  if (!MAP_NAME(reserve)(map)) return NULL;
  MAP_ENTRY *entry = MAP_NAME(place)(map, key);
  if (entry->key == NULL) {
    entry->key = key;
    map->n++;
  }
  return entry;
}

/* Removes an entry from the map. The entries behind it, up to the next free slot, are looked at in
** turn: an entry whose search begins at the gap or before it moves into the gap. */
__attribute__((unused)) static void MAP_NAME(remove)(MAP_STRUCT *map, MAP_ENTRY *entry) {
  size_t mask = map->size - 1, gap = (size_t)(entry - map->places);
  for (size_t i = (gap + 1) & mask; map->places[i].key; i = (i + 1) & mask) {
    size_t home = MAP_NAME(home)(map, map->places[i].key);
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    map->places[gap] = map->places[i];
    gap = i;
  }
  memset(&map->places[gap], 0, sizeof(MAP_ENTRY));
  map->n--;
}

/* Empties the map and frees its memory. */
static inline void MAP_NAME(clear)(MAP_STRUCT *map) {
  if (map->places) MAP_PUT(map->places, map->size * sizeof(MAP_ENTRY));
  *map = (MAP_STRUCT){0};
}

#undef MAP_STRUCT
#undef MAP_NAME
#undef MAP_JOIN
#undef MAP_JOIN2
#undef MAP
#undef MAP_ENTRY
#undef MAP_GET
#undef MAP_PUT
