/*
** store.h - a small table of keys and values that the processes of a program have in
** common, by which they find one another. One of them serves it by TCP, from a thread.
**
** Keys have up to 1000 bytes, values up to 64 MB, all together up to 4 GB. All waits end at a
** deadline, with a failure that names the key. What it promises on an open network, and what it does
** not, is told by README.md beside this file.
*/
#ifndef TLI_STORE_H
#define TLI_STORE_H

#include "core/error.h"

typedef struct tli_StoreServer tli_StoreServer;
typedef struct tli_Store tli_Store;

/* Begins to serve at an address of this machine; port 0 takes a free one. Whoever connects has to
** prove that it knows the secret (secret.h). NULL: there is none, and the address must be of this
** machine alone, where processes of other users are refused as far as the system tells them apart;
** TLI_STORE_TRUST: there is none, and whoever reaches the address is trusted. */
tli_StoreServer *tli_store_serve(const char *host, int port, const char *secret) TL_MUSTCHECK;
int tli_store_server_port(const tli_StoreServer *server);
/* Ends it, for everybody. NULL is fine. */
void tli_store_server_stop(tli_StoreServer *server);

#define TLI_STORE_TRUST ""

/* A connection; tried for `timeout` nanoseconds. Of one thread at a time. The other side must say
** within a few seconds that it serves a store and prove that it knows the secret, too; else the
** failure, of kind TL_EARG, says that another program has the port, or another job. */
tli_Store *tli_store_connect(const char *host, int port, const char *secret, int64_t timeout)
    TL_MUSTCHECK;
/* One more connection to the same store. */
tli_Store *tli_store_connect_again(const tli_Store *store, int64_t timeout) TL_MUSTCHECK;
void tli_store_close(tli_Store *store); /* NULL is fine */

/* Sets a key, and wakes who waits for it. */
bool tli_store_set(tli_Store *s, const char *key, const void *value, size_t size) TL_MUSTCHECK;
/* The value, once there is one, in memory that the caller frees (free), with a byte 0 behind. */
char *tli_store_get(tli_Store *s, const char *key, size_t *size, int64_t timeout) TL_MUSTCHECK;
/* Waits until there is a value. */
bool tli_store_wait(tli_Store *s, const char *key, int64_t timeout) TL_MUSTCHECK;
/* Puts bytes behind a key's value, which is empty where there is none. */
bool tli_store_append(tli_Store *s, const char *key, const void *value, size_t size) TL_MUSTCHECK;
/* Sets a key if its value is the first `expected` bytes of `both`, or if it has none and `expected`
** is 0, to the others; all in one. Gives what the key has then, as tli_store_get does; without a
** value, what was expected. */
char *tli_store_compare_set(tli_Store *s, const char *key, const char *both, size_t bytes,
                            size_t expected, size_t *size) TL_MUSTCHECK;
/* Adds to a number, 0 where there is none, which is kept as its decimal text. */
bool tli_store_add(tli_Store *s, const char *key, int64_t amount, int64_t *sum) TL_MUSTCHECK;
bool tli_store_check(tli_Store *s, const char *key, bool *there) TL_MUSTCHECK;
bool tli_store_delete(tli_Store *s, const char *key, bool *was_there) TL_MUSTCHECK;
bool tli_store_count(tli_Store *s, int64_t *n) TL_MUSTCHECK;
/* Deletes all keys that begin so; *n: how many. */
bool tli_store_clear(tli_Store *s, const char *prefix, int64_t *n) TL_MUSTCHECK;

/* ---- what both sides send (store.c, store_server.c); all integers as this machine has
** them, which the first one shows ---- */

enum {
  TLI_STORE_SET,
  TLI_STORE_GET,
  TLI_STORE_WAIT,
  TLI_STORE_ADD,
  TLI_STORE_CHECK,
  TLI_STORE_DELETE,
  TLI_STORE_COUNT,
  TLI_STORE_APPEND,
  TLI_STORE_COMPARE, /* its value: what is expected, of `number` bytes, and what is desired */
  TLI_STORE_CLEAR,
  /* The first one; the answer's number is TLI_STORE_MAGIC, its status as well. Its value is the
  ** server's challenge where that has a secret. Then comes ... */
  TLI_STORE_GREET,
  TLI_STORE_PROVE /* ... the client's, with its proof; the answer's value is the server's proof */
};
enum { TLI_STORE_OK, TLI_STORE_LATE, TLI_STORE_REFUSED, TLI_STORE_STRANGER };
#define TLI_STORE_MAGIC 0x746c7334u
#define TLI_STORE_KEY 1000u
#define TLI_STORE_VALUE (64u << 20)

typedef struct tli_StoreRequest { /* then the key, then the value */
  uint32_t magic, what;
  uint32_t key, value; /* bytes */
  int64_t number;      /* to add; of waits the timeout in nanoseconds; see TLI_STORE_COMPARE */
} tli_StoreRequest;

typedef struct tli_StoreAnswer { /* then the value */
  uint32_t status, value;
  int64_t number;
} tli_StoreAnswer;

#endif
