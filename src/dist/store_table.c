/*
** store_table.c - implements store_table.h by a hash table that counts and limits its bytes.
*/
#include "dist/store_table.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/hash.h"

enum { BUCKETS = 4096 };
/* the largest total size in bytes of all keys, values and incomplete requests */
#define MOST ((int64_t)4 << 30)

typedef struct Entry {
  struct Entry *next;
  tli_Value *value; /* the value of the key (owned reference) */
  uint32_t size;
  char key[];
} Entry;

struct tli_StoreTable {
  Entry *buckets[BUCKETS];
  int64_t count, bytes, version;
};

tli_StoreTable *tli_table_new(void) {
  tli_StoreTable *t = calloc(1, sizeof *t);
  if (t == NULL) return tli_fail_null(TL_EMEM, "store: out of memory");
  return t;
}

bool tli_table_reserve(tli_StoreTable *t, int64_t bytes) {
  if (bytes > MOST - t->bytes) return false;
  t->bytes += bytes;
  return true;
}

void tli_table_return(tli_StoreTable *t, int64_t bytes) { t->bytes -= bytes; }

static void *get(tli_StoreTable *t, size_t bytes) {
  if (!tli_table_reserve(t, (int64_t)bytes)) return NULL;
  void *block = malloc(bytes);
  if (block == NULL) tli_table_return(t, (int64_t)bytes);
  return block;
}

tli_Value *tli_value_new(tli_StoreTable *t, uint32_t size) {
  tli_Value *v = get(t, sizeof *v + size);
  if (v) *v = (tli_Value){.refs = 1, .size = size};
  return v;
}

void tli_value_release(tli_StoreTable *t, tli_Value *v) {
  if (v == NULL || --v->refs > 0) return;
  tli_table_return(t, (int64_t)(sizeof *v + v->size));
  free(v);
}

/* Finds a key by its hash, and returns the address of the pointer to its entry, through which the
** entry can be removed. The pointer is NULL if the table does not have the key. */
static Entry **find(tli_StoreTable *t, const char *key, uint32_t size) {
  Entry **at = &t->buckets[tli_hash(TLI_HASH_SEED, key, size) % BUCKETS];
  while (*at && ((*at)->size != size || memcmp((*at)->key, key, size) != 0)) at = &(*at)->next;
  return at;
}

tli_Value *tli_table_get(tli_StoreTable *t, const char *key, uint32_t size) {
  const Entry *e = *find(t, key, size);
  return e ? e->value : NULL;
}

bool tli_table_put(tli_StoreTable *t, const char *key, uint32_t size, tli_Value *v) {
  if (v == NULL) return false;
  Entry **at = find(t, key, size);
  if (*at == NULL) {
    Entry *e = get(t, sizeof *e + size);
    if (e == NULL) {
      tli_value_release(t, v);
      return false;
    }
    *e = (Entry){.size = size};
    memcpy(e->key, key, size);
    *at = e;
    t->count++;
  }
  tli_value_release(t, (*at)->value);
  (*at)->value = v;
  t->version++;
  return true;
}

static void take_out(tli_StoreTable *t, Entry **at) {
  Entry *e = *at;
  *at = e->next;
  tli_value_release(t, e->value);
  tli_table_return(t, (int64_t)(sizeof *e + e->size));
  free(e);
  t->count--;
}

bool tli_table_delete(tli_StoreTable *t, const char *key, uint32_t size) {
  Entry **at = find(t, key, size);
  if (*at == NULL) return false;
  take_out(t, at);
  return true;
}

int64_t tli_table_clear(tli_StoreTable *t, const char *prefix, uint32_t size) {
  int64_t before = t->count;
  for (int i = 0; i < BUCKETS; i++)
    for (Entry **at = &t->buckets[i]; *at;) {
      bool begins = (*at)->size >= size && memcmp((*at)->key, prefix, size) == 0;
      if (begins)
        take_out(t, at);
      else
        at = &(*at)->next;
    }
  return before - t->count;
}

int64_t tli_table_count(const tli_StoreTable *t) { return t->count; }
int64_t tli_table_version(const tli_StoreTable *t) { return t->version; }

void tli_table_free(tli_StoreTable *t) {
  if (t == NULL) return;
  tli_table_clear(t, "", 0);
  free(t);
}
