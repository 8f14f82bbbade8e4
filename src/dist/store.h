/*
** store.h - a small table of keys and values. The processes of a program share the table, and find
** one another through it. A thread of one process serves the table by TCP.
**
** Keys have up to 1000 bytes, values up to 64 MB, and all of them together up to 4 GB. All waits
** end at a deadline, with an error that names the key. README.md in this folder lists the
** guarantees of a store on an open network, and their limits.
*/
#ifndef TLI_STORE_H
#define TLI_STORE_H

#include "core/error.h"

typedef struct tli_StoreServer tli_StoreServer;
typedef struct tli_Store tli_Store;

/* Begins to serve a store at an address of this machine. If the port is 0, the system chooses a
** free one. Clients have to prove that they know the secret (secret.h). If the secret is NULL,
** clients need none; the address must then be reachable only from this machine, and processes of
** other users are refused if the system can tell the user. If the secret is TLI_STORE_TRUST, every
** client is trusted. */
tli_StoreServer *tli_store_serve(const char *host, int port, const char *secret) TL_MUSTCHECK;
int tli_store_server_port(const tli_StoreServer *server);
/* Returns whether a connection could not be accepted because too many files were open. */
bool tli_store_server_lacked_files(const tli_StoreServer *server);
/* Stops serving the store to all clients. Accepts NULL. */
void tli_store_server_stop(tli_StoreServer *server);

#define TLI_STORE_TRUST ""

/* Connects within `timeout` nanoseconds. A connection belongs to one thread at a time. Once
** connected, the server must answer within at most 30 seconds that it is a store, and must prove
** that it knows the secret, too. Otherwise the function fails with kind TL_EARG, and the message
** says that another program or another job uses the port. */
tli_Store *tli_store_connect(const char *host, int port, const char *secret, int64_t timeout)
    TL_MUSTCHECK;
/* Opens another connection to the same store. */
tli_Store *tli_store_connect_again(const tli_Store *store, int64_t timeout) TL_MUSTCHECK;
void tli_store_close(tli_Store *store); /* Closes a connection. Accepts NULL. */

/* Sets a key, and wakes clients that wait for it. */
bool tli_store_set(tli_Store *s, const char *key, const void *value, size_t size) TL_MUSTCHECK;
/* Waits until a key has a value. Returns the value, with a terminating 0, in a block for free(). */
char *tli_store_get(tli_Store *s, const char *key, size_t *size, int64_t timeout) TL_MUSTCHECK;
/* Waits until the key has a value. */
bool tli_store_wait(tli_Store *s, const char *key, int64_t timeout) TL_MUSTCHECK;
/* Appends bytes to the value of a key. If the key does not exist, its value counts as empty. */
bool tli_store_append(tli_Store *s, const char *key, const void *value, size_t size) TL_MUSTCHECK;
/* Atomically sets a key to the desired value if the key has the expected value, or if the key does
** not exist and `expected` is 0. `both` consists of the expected value, which has `expected` bytes,
** and the desired value. Returns the key's value afterwards like tli_store_get; if the key has
** none, returns the expected value. */
char *tli_store_compare_set(tli_Store *s, const char *key, const char *both, size_t bytes,
                            size_t expected, size_t *size) TL_MUSTCHECK;
/* Adds to the number stored under a key, or to 0 if the key does not exist. The number is stored as
** decimal text. */
bool tli_store_add(tli_Store *s, const char *key, int64_t amount, int64_t *sum) TL_MUSTCHECK;
bool tli_store_check(tli_Store *s, const char *key, bool *there) TL_MUSTCHECK;
bool tli_store_delete(tli_Store *s, const char *key, bool *was_there) TL_MUSTCHECK;
bool tli_store_count(tli_Store *s, int64_t *n) TL_MUSTCHECK;
/* Deletes all keys that begin with the prefix; *n receives the number of deleted keys. */
bool tli_store_clear(tli_Store *s, const char *prefix, int64_t *n) TL_MUSTCHECK;

/* ---- the protocol (store.c, store_server.c); integers are in the machine's byte order, which
** the magic number shows ---- */

enum {
  TLI_STORE_SET,
  TLI_STORE_GET,
  TLI_STORE_WAIT,
  TLI_STORE_ADD,
  TLI_STORE_CHECK,
  TLI_STORE_DELETE,
  TLI_STORE_COUNT,
  TLI_STORE_APPEND,
  /* compare and set: the request's value is the expected value, which has `number` bytes, followed
  ** by the desired value */
  TLI_STORE_COMPARE,
  TLI_STORE_CLEAR,
  /* The first request of a connection. The answer's number and status are TLI_STORE_MAGIC. If the
  ** server has a secret, the answer's value is the server's challenge, and the client must send
  ** TLI_STORE_PROVE next. */
  TLI_STORE_GREET,
  /* The second request has the client's challenge and its proof. The answer's value is the server's
  ** proof. */
  TLI_STORE_PROVE
};
enum { TLI_STORE_OK, TLI_STORE_LATE, TLI_STORE_REFUSED, TLI_STORE_STRANGER };
#define TLI_STORE_MAGIC 0x746c7334u
#define TLI_STORE_KEY 1000u
#define TLI_STORE_VALUE (64u << 20)

/* A request's header. The bytes of the key and of the value follow it. */
typedef struct tli_StoreRequest {
  uint32_t magic, what;
  uint32_t key, value; /* sizes of the key and the value in bytes */
  /* the number to add, or a timeout in nanoseconds, or the number described at TLI_STORE_COMPARE */
  int64_t number;
} tli_StoreRequest;

typedef struct tli_StoreAnswer { /* An answer's header. The bytes of the value follow it. */
  uint32_t status, value;
  int64_t number;
} tli_StoreAnswer;

#endif
