/*
** store_table.h - the keys and values of a store, in the thread that serves it.
*/
#ifndef TLI_STORE_TABLE_H
#define TLI_STORE_TABLE_H

#include "tlua.h"

/* Counted, so that an answer that is being sent keeps its value without a copy. */
typedef struct tli_Value {
  int refs;
  uint32_t size;
  char data[];
} tli_Value;

typedef struct tli_StoreTable tli_StoreTable;

tli_StoreTable *tli_table_new(void) TL_MUSTCHECK;
void tli_table_free(tli_StoreTable *t); /* NULL is fine; of its values nobody has any */

/* Uninitialised bytes; NULL: no room. One reference, of the caller's. */
tli_Value *tli_value_new(tli_StoreTable *t, uint32_t size) TL_MUSTCHECK;
void tli_value_release(tli_StoreTable *t, tli_Value *v); /* NULL is fine */

/* Counts bytes of the server's other than values, for a while; false: no room. */
bool tli_table_reserve(tli_StoreTable *t, int64_t bytes) TL_MUSTCHECK;
void tli_table_return(tli_StoreTable *t, int64_t bytes);

/* Borrowed, NULL where there is none. */
tli_Value *tli_table_get(tli_StoreTable *t, const char *key, uint32_t size) TL_MUSTCHECK;
/* Takes the reference to the value, which may be NULL for what could not be made: false then, and
** where there is no room for the key. */
bool tli_table_put(tli_StoreTable *t, const char *key, uint32_t size, tli_Value *v) TL_MUSTCHECK;
bool tli_table_delete(tli_StoreTable *t, const char *key, uint32_t size);
/* Deletes all keys that begin so; how many. */
int64_t tli_table_clear(tli_StoreTable *t, const char *prefix, uint32_t size);
int64_t tli_table_count(const tli_StoreTable *t);
/* Counts changes, so that who waits for a key looks only after one. */
int64_t tli_table_version(const tli_StoreTable *t);

#endif
