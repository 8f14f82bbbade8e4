/*
** store_table.h - the keys and values of a store, used by the thread that serves it.
*/
#ifndef TLI_STORE_TABLE_H
#define TLI_STORE_TABLE_H

#include "tlua.h"

/* A value of the table. A reference count lets an answer send the value without a copy. */
typedef struct tli_Value {
  int refs;
  uint32_t size;
  char data[];
} tli_Value;

typedef struct tli_StoreTable tli_StoreTable;

tli_StoreTable *tli_table_new(void) TL_MUSTCHECK;
/* Frees a table; no value of the table may be in use. Accepts NULL. */
void tli_table_free(tli_StoreTable *t);

/* Returns a value of `size` uninitialised bytes with one reference; NULL if the table has no
** room. */
tli_Value *tli_value_new(tli_StoreTable *t, uint32_t size) TL_MUSTCHECK;
/* Releases a reference to a value. Accepts NULL. */
void tli_value_release(tli_StoreTable *t, tli_Value *v);

/* Counts further memory of the server as used bytes of the table. Returns false if the table's
** limit leaves no room for them. */
bool tli_table_reserve(tli_StoreTable *t, int64_t bytes) TL_MUSTCHECK;
void tli_table_return(tli_StoreTable *t, int64_t bytes);

/* Returns the value of a key (borrowed), or NULL. */
tli_Value *tli_table_get(tli_StoreTable *t, const char *key, uint32_t size) TL_MUSTCHECK;
/* Sets a key to a value; takes over the caller's reference to the value. Returns false if the value
** is NULL, because it could not be created, or if there is no room for the key. */
bool tli_table_put(tli_StoreTable *t, const char *key, uint32_t size, tli_Value *v) TL_MUSTCHECK;
bool tli_table_delete(tli_StoreTable *t, const char *key, uint32_t size);
/* Deletes all keys with the given prefix; returns the number of deleted keys. */
int64_t tli_table_clear(tli_StoreTable *t, const char *prefix, uint32_t size);
int64_t tli_table_count(const tli_StoreTable *t);
/* Returns a number that each tli_table_put increments, so that a waiting request looks up its key
** only after a key was set. */
int64_t tli_table_version(const tli_StoreTable *t);

#endif
