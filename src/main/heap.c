/*
** heap.c - creates a lua_State that allocates small objects from free lists. Most small objects,
** such as the userdata of a tensor or the table of a shape, are short-lived. Objects of at most
** LIMIT bytes come from free lists, one for each size. Allocating and freeing such an object takes
** a few instructions and no lock, since a state belongs to one thread. Larger objects come from
** malloc. Small objects are cut from larger chunks, which are freed when the state is closed.
*/
#include "main/heap.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 16 /* alignment of all blocks; Lua expects the alignment that malloc guarantees */
#define LIMIT 256
#define CHUNK 65536

typedef struct Block {
  struct Block *next;
} Block;

typedef struct Chunk {
  _Alignas(STEP) struct Chunk *next;
} Chunk;

typedef struct Heap {
  Block *blocks[LIMIT / STEP]; /* free lists: blocks[i] has blocks of (i + 1) * STEP bytes */
  Chunk *chunks;
  char *rest, *end; /* the unused part of the newest chunk */
  enum { WARN_START, WARN_MORE, WARN_OFF } warn;
} Heap;

/* ---- memory ---- */

/* With a sanitizer all objects are allocated by malloc, so that the sanitizer can check them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static bool is_small(size_t bytes) { return bytes == 0; }
#else
static bool is_small(size_t bytes) { return bytes <= LIMIT; }
#endif

static size_t list_of(size_t bytes) { return (bytes - 1) / STEP; }

static bool grow(Heap *h) {
  Chunk *chunk = malloc(CHUNK);
  if (chunk == NULL) return false;
  /* puts the unused part of the old chunk into the free lists */
  for (; h->end - h->rest >= STEP; h->rest += STEP) {
    Block *block = (Block *)h->rest;
    block->next = h->blocks[0];
    h->blocks[0] = block;
  }
  chunk->next = h->chunks;
  h->chunks = chunk;
  h->rest = (char *)(chunk + 1);
  h->end = (char *)chunk + CHUNK;
  return true;
}

static void *take(Heap *h, size_t bytes) {
  if (!is_small(bytes)) return malloc(bytes);
  size_t i = list_of(bytes);
  Block *block = h->blocks[i];
  if (block) {
    h->blocks[i] = block->next;
    return block;
  }
  size_t whole = (i + 1) * STEP;
  if ((size_t)(h->end - h->rest) < whole && !grow(h)) return NULL;
  void *fresh = h->rest;
  h->rest += whole;
  return fresh;
}

static void give(Heap *h, void *memory, size_t bytes) {
  if (!is_small(bytes)) {
    free(memory);
    return;
  }
  Block *block = memory;
  block->next = h->blocks[list_of(bytes)];
  h->blocks[list_of(bytes)] = block;
}

/* Implements lua_Alloc. If `memory` is NULL, `old` is not a size but the kind of the new object. */
static void *allocate(void *heap, void *memory, size_t old, size_t bytes) {
  Heap *h = heap;
  if (memory == NULL) return bytes ? take(h, bytes) : NULL;
  if (bytes == 0) {
    give(h, memory, old);
    return NULL;
  }
  if (!is_small(old) && !is_small(bytes)) return realloc(memory, bytes);
  if (is_small(old) && is_small(bytes) && list_of(old) == list_of(bytes)) return memory;
  void *moved = take(h, bytes);
  if (moved == NULL) return NULL;
  memcpy(moved, memory, old < bytes ? old : bytes);
  give(h, memory, old);
  return moved;
}

/* ---- warnings ---- */

/* Prints warnings as Lua's own warning function does, all pieces of a message on one line. Unlike
** in `lua`, warnings are on at the start; warn("@off") turns them off. */
static void warn(void *heap, const char *piece, int more) {
  Heap *h = heap;
  if (h->warn != WARN_MORE && !more && piece[0] == '@') {
    if (strcmp(piece, "@on") == 0) h->warn = WARN_START;
    if (strcmp(piece, "@off") == 0) h->warn = WARN_OFF;
    return;
  }
  if (h->warn == WARN_OFF) return;
  fprintf(stderr, "%s%s%s", h->warn == WARN_START ? "Lua warning: " : "", piece, more ? "" : "\n");
  fflush(stderr);
  h->warn = more ? WARN_MORE : WARN_START;
}

/* ---- the state ---- */

static Heap the_heap; /* the heap of the program's only state */

lua_State *tli_heap_newstate(void) {
#if LUA_VERSION_NUM >= 505
  lua_State *L = lua_newstate(allocate, &the_heap, luaL_makeseed(NULL));
#else
  lua_State *L = lua_newstate(allocate, &the_heap);
#endif
  if (L) lua_setwarnf(L, warn, &the_heap);
  return L;
}

void tli_heap_close(lua_State *L) {
  lua_close(L);
  while (the_heap.chunks) {
    Chunk *chunk = the_heap.chunks;
    the_heap.chunks = chunk->next;
    free(chunk);
  }
}
