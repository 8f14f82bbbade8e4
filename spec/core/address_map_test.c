/*
** address_map_test.c - compares the hash table in core/memory/address_map.h with a plain array of
** flags.
*/
#include "test.h"

enum { KEYS = 700 };

/* bytes and memory blocks that the map currently uses */
static int64_t held, blocks;
static bool empty_handed;

static void *get(size_t bytes) {
  void *block = empty_handed ? NULL : malloc(bytes);
  if (block == NULL) return NULL;
  memset(block, 0xa5, bytes);
  held += (int64_t)bytes;
  blocks++;
  return block;
}

static void put(void *block, size_t bytes) {
  held -= (int64_t)bytes;
  blocks--;
  free(block);
}

typedef struct Entry {
  const void *key;
  int64_t value;
} Entry;

#define MAP test
#define MAP_ENTRY Entry
#define MAP_GET(n) get(n)
#define MAP_PUT(p, n) put(p, n)
#include "core/memory/address_map.h"

/* Returns addresses like those of an allocator: close together, with zero low bits. */
static const void *address(int i, int unit) {
  return (const void *)(uintptr_t)(0x7f0000000000u + (uintptr_t)(i + 1) * (uintptr_t)unit);
}

TEST(test_an_empty_map_has_nothing_and_no_memory) {
  test_Map map = {0};
  CHECK(test_find(&map, address(1, 64)) == NULL);
  test_clear(&map);
  CHECK(blocks == 0 && held == 0);
}

TEST(test_a_new_entry_is_zero_and_found_again) {
  test_Map map = {0};
  Entry *entry = test_add(&map, address(3, 64));
  CHECK(entry && entry->key == address(3, 64) && entry->value == 0);
  entry->value = 7;
  CHECK(test_add(&map, address(3, 64))->value == 7);
  CHECK(test_find(&map, address(3, 64))->value == 7 && test_find(&map, address(4, 64)) == NULL);
  CHECK(map.n == 1);
  test_clear(&map);
  CHECK(map.n == 0 && map.size == 0 && blocks == 0 && held == 0);
}

/* Checks that the map has exactly the keys that are marked in `there`, with the right values. */
static void check_same(const test_Map *map, const bool *there, int unit) {
  size_t n = 0;
  for (int i = 0; i < KEYS; i++) {
    const Entry *entry = test_find(map, address(i, unit));
    CHECK_AT(i, (entry != NULL) == there[i]);
    CHECK_AT(i, entry == NULL || entry->value == i);
    n += there[i];
  }
  CHECK(map->n == n && 2 * map->n <= map->size);
  size_t taken = 0;
  for (size_t i = 0; i < map->size; i++) taken += map->places[i].key != NULL;
  CHECK(taken == n);
}

TEST(test_adding_and_removing_at_random) {
  static const int units[] = {1, 16, 64, 512, 4096, 1 << 21};
  for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
    test_Map map = {0};
    bool there[KEYS] = {false};
    for (int step = 0; step < 20000; step++) {
      /* the map grows nearly full and shrinks nearly empty in turn */
      int i = (int)test_random(KEYS);
      bool add = test_random(4) != 0;
      if (step / 3000 % 2 == 1) add = !add;
      if (add) {
        test_add(&map, address(i, units[u]))->value = i;
        there[i] = true;
      } else if (there[i]) {
        test_remove(&map, test_find(&map, address(i, units[u])));
        there[i] = false;
      }
      if (step % 997 == 0) check_same(&map, there, units[u]);
    }
    check_same(&map, there, units[u]);
    test_clear(&map);
  }
  CHECK(blocks == 0 && held == 0);
}

TEST(test_many_that_come_and_go_need_no_more_room) {
  test_Map map = {0};
  for (int i = 0; i < 100000; i++) {
    CHECK(test_add(&map, address(i, 64)) != NULL);
    if (i >= 20) test_remove(&map, test_find(&map, address(i - 20, 64)));
  }
  CHECK(map.n == 20 && map.size == 64);
  test_clear(&map);
}

TEST(test_without_memory_the_map_stays_as_it_was) {
  test_Map map = {0};
  empty_handed = true;
  CHECK(test_add(&map, address(0, 64)) == NULL && map.n == 0);
  empty_handed = false;
  for (int i = 0; i < 32; i++) test_add(&map, address(i, 64))->value = i;
  empty_handed = true;
  CHECK(test_add(&map, address(32, 64)) == NULL);
  CHECK(map.n == 32);
  for (int i = 0; i < 32; i++) CHECK_AT(i, test_find(&map, address(i, 64))->value == i);
  empty_handed = false;
  test_clear(&map);
  CHECK(blocks == 0 && held == 0);
}

int main(void) { return test_all(); }
