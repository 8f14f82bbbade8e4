/*
** address_map.h - a hash map from addresses to entries of any type, by open addressing with linear
** probing. The file is a template: a program file includes it once for each map that it needs,
** having defined
**
**   MAP           the prefix of the map's type and functions, such as owners
**   MAP_ENTRY     the type of an entry, a struct with a member `const void *key`
**   MAP_GET(n)    gives n bytes, or NULL; what it gives need not be zero
**   MAP_PUT(p, n) takes the n bytes at p back
**
** A map full of zeros is empty and holds no memory. At most half of the places are taken. Removing
** an entry moves the entries behind it forward, so that no mark stays where it was, and a map
** through which many entries come and go keeps its size. Pointers to entries are valid until an
** entry is added or removed.
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
  MAP_ENTRY *places; /* owned; a free one has the key NULL */
  size_t size;       /* number of places: a power of two, or 0 */
  size_t n;          /* number of entries */
} MAP_STRUCT;

/* Addresses of blocks end in zeros; the product's upper half depends on all their bits. */
static inline size_t MAP_NAME(home)(const MAP_STRUCT *map, const void *key) {
  return (size_t)((uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (map->size - 1);
}

/* Returns the key's place, or the free place where it would go; the map must have places. */
static inline MAP_ENTRY *MAP_NAME(place)(const MAP_STRUCT *map, const void *key) {
  size_t i = MAP_NAME(home)(map, key);
  while (map->places[i].key && map->places[i].key != key) i = (i + 1) & (map->size - 1);
  return &map->places[i];
}

/* The key's entry, or NULL. */
static inline MAP_ENTRY *MAP_NAME(find)(const MAP_STRUCT *map, const void *key) {
  if (map->n == 0) return NULL;
  MAP_ENTRY *entry = MAP_NAME(place)(map, key);
  return entry->key ? entry : NULL;
}

/* Makes room for one more entry; returns false, and leaves the map unchanged, without memory. */
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

/* The key's entry, which is new and zero but for its key if there was none; NULL where there is no
** memory for one. The key is not NULL. */
static inline MAP_ENTRY *MAP_NAME(add)(MAP_STRUCT *map, const void *key) {
  if (!MAP_NAME(reserve)(map)) return NULL;
  MAP_ENTRY *entry = MAP_NAME(place)(map, key);
  if (entry->key == NULL) {
    entry->key = key;
    map->n++;
  }
  return entry;
}

/* Removes an entry of the map. Each entry behind it, up to the next free place, moves into the gap
** if its search begins at the gap or before. */
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

/* Gives the memory back; the map is empty then. */
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
