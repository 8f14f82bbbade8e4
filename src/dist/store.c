/*
** store.c - the client side of a store: connecting, requests and their answers.
*/
#include "dist/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/platform.h"
#include "core/platform/share.h"
#include "core/platform/socket.h"
#include "dist/secret.h"

/* The time in nanoseconds that an answer may take in addition to the request's own timeout. */
#define GRACE INT64_C(10000000000)

struct tli_Store {
  int socket, port;
  char host[128], secret[TLI_SECRET_ROOM];
  bool has_secret, trusts;
  bool broken;
};

/* ---- meeting --------------------------------------------------------------------- */

/* The limits for the exchange at the start of a connection, the greeting. It may take the rest of
** the connection's timeout, but at least GREETING nanoseconds, since the store may be waiting for a
** processor. It may take at most LONGEST_GREETING, since a program that is no store may never
** answer. AGAIN is the delay before another attempt if the other side closes the connection first,
** as a store does while it ends. */
#define GREETING INT64_C(3000000000)
#define LONGEST_GREETING INT64_C(30000000000)
#define AGAIN INT64_C(500000000)

typedef enum Peer { A_STORE, NO_STORE, GONE, INTERRUPTED, WRONG_SECRET } Peer;

/* Writes to `how` why a client and a store did not connect: an answer that is not a store's, or an
** error of the connection. */
static Peer no_answer(bool came, int64_t deadline, char *how, size_t size) {
  if (!came && tl_error_kind() == TL_EINTERRUPT) return INTERRUPTED;
  snprintf(how, size, "%s", came ? "its answer differs" : tl_error());
  return came || tli_now_ns() >= deadline ? NO_STORE : GONE;
}

static Peer differ(char *how, size_t size, const char *text) {
  snprintf(how, size, "%s", text);
  return WRONG_SECRET;
}

/* Exchanges the proofs of both sides. The client's proof comes first, so a program that sends no
** valid proof learns nothing from the server. */
static Peer prove(const tli_Store *s, const unsigned char *challenge, int64_t deadline, char *how,
                  size_t size) {
  struct {
    tli_StoreRequest r;
    unsigned char answer[TLI_CHALLENGE], proof[TLI_SHA256_BYTES];
  } mine = {.r = {TLI_STORE_MAGIC, TLI_STORE_PROVE, 0, TLI_CHALLENGE + TLI_SHA256_BYTES, 0}};
  unsigned char proof[TLI_SHA256_BYTES], theirs[TLI_SHA256_BYTES];
  tli_StoreAnswer a = {0};
  if (!tli_entropy(mine.answer, sizeof mine.answer))
    return differ(how, size, "the system gives no random bytes");
  tli_secret_prove(s->secret, TLI_SECRET_CLIENT, challenge, mine.answer, mine.proof);
  tli_secret_prove(s->secret, TLI_SECRET_SERVER, challenge, mine.answer, proof);
  bool came = tli_socket_send(s->socket, &mine, sizeof mine, deadline) &&
              tli_socket_receive(s->socket, &a, sizeof a, deadline);
  if (came && a.status == TLI_STORE_STRANGER)
    return differ(how, size, "the secret of the store there is another one than this process has");
  bool is_proof = came && a.status == TLI_STORE_OK && a.value == sizeof theirs;
  if (is_proof) came = tli_socket_receive(s->socket, theirs, sizeof theirs, deadline);
  if (!is_proof || !came) return no_answer(came, deadline, how, size);
  if (tli_secret_same(proof, theirs)) return A_STORE;
  return differ(how, size, "the store there does not know the secret that this process has");
}

static const char another_user[] =
    "the store there belongs to another user, and there is no secret: set TLUA_SECRET for all "
    "processes";

/* Decides whether to accept a store that demands no secret. */
static Peer accept_open(const tli_Store *s, char *how, size_t size) {
  if (s->has_secret)
    return differ(
        how, size,
        "the store there has no secret, and this process has one: set TLUA_SECRET for both");
  if (!s->trusts && tli_socket_is_foreign(s->socket)) return differ(how, size, another_user);
  if (s->trusts || tli_socket_is_local(s->socket)) return A_STORE;
  return differ(
      how, size,
      "the store there is on another machine and has no secret: set TLUA_SECRET for both, "
      "or TLUA_SECRET=none where all of the network is trusted");
}

/* Determines whether the other side is a store. If not, `how` describes the bytes that it has sent.
** The first bytes are read separately, because a program that is no store may send fewer bytes than
** an answer has. */
static Peer greet(const tli_Store *s, int64_t deadline, char *how, size_t size) {
  tli_StoreRequest r = {.magic = TLI_STORE_MAGIC, .what = TLI_STORE_GREET};
  tli_StoreAnswer a = {0};
  unsigned char challenge[TLI_CHALLENGE];
  size_t first = sizeof a.status;
  bool came = tli_socket_send(s->socket, &r, sizeof r, deadline) &&
              tli_socket_receive(s->socket, &a, first, deadline);
  if (came && a.status == TLI_STORE_STRANGER) return differ(how, size, another_user);
  if (came && a.status == TLI_STORE_MAGIC)
    came = tli_socket_receive(s->socket, (char *)&a + first, sizeof a - first, deadline);
  bool asks = a.value == sizeof challenge;
  if (!came || a.status != TLI_STORE_MAGIC || a.number != TLI_STORE_MAGIC || (a.value && !asks))
    return no_answer(came, deadline, how, size);
  if (!asks) return accept_open(s, how, size);
  if (!tli_socket_receive(s->socket, challenge, sizeof challenge, deadline))
    return no_answer(false, deadline, how, size);
  if (s->has_secret) return prove(s, challenge, deadline, how, size);
  return differ(how, size,
                "the store there asks for the job's secret, and this process has none: set "
                "TLUA_SECRET as it is there, or give --secret-file");
}

static bool open_socket(tli_Store *s, int64_t timeout) {
  int64_t begun = tli_now_ns(), taken = 0;
  char how[200];
  for (;;) {
    s->socket = tli_socket_connect(s->host, s->port, begun + timeout);
    if (s->socket == TLI_NOSOCKET) return false;
    int64_t now = tli_now_ns();
    if (taken == 0) taken = now;
    /* timeouts are at most INT64_MAX / 4, so the sum does not overflow */
    int64_t left = begun + timeout - now;
    if (left < GREETING) left = GREETING;
    if (left > LONGEST_GREETING) left = LONGEST_GREETING;
    Peer peer = greet(s, now + left, how, sizeof how);
    if (peer == A_STORE) return true;
    tli_socket_close(s->socket);
    if (peer == INTERRUPTED) return false;
    if (peer == WRONG_SECRET) return tli_fail(TL_EARG, "%s:%d: %s", s->host, s->port, how);
    if (peer == NO_STORE || tli_now_ns() >= taken + AGAIN) break;
    atomic_uint none = 0;
    tli_word_wait(&none, 0, 10000000);
  }
  return tli_fail(TL_EARG,
                  "%s:%d: the answer is not from a store of this version of tlua (%s): does "
                  "another program have the port?",
                  s->host, s->port, how);
}

static void store_free(tli_Store *s) {
  tli_secret_forget(s->secret, sizeof s->secret);
  free(s);
}

tli_Store *tli_store_connect(const char *host, int port, const char *secret, int64_t timeout) {
  bool has_secret = secret && *secret;
  if (has_secret) TL_TRY_NULL(tli_secret_check("store", secret));
  tli_Store *s = calloc(1, sizeof *s);
  if (s == NULL) return tli_fail_null(TL_EMEM, "store: out of memory");
  snprintf(s->host, sizeof s->host, "%s", host);
  s->port = port;
  s->has_secret = has_secret;
  s->trusts = secret && !has_secret;
  if (has_secret) snprintf(s->secret, sizeof s->secret, "%s", secret);
  if (open_socket(s, timeout)) return s;
  store_free(s);
  return NULL;
}

tli_Store *tli_store_connect_again(const tli_Store *s, int64_t timeout) {
  const char *secret = s->has_secret ? s->secret : s->trusts ? TLI_STORE_TRUST : NULL;
  return tli_store_connect(s->host, s->port, secret, timeout);
}

void tli_store_close(tli_Store *s) {
  if (s == NULL) return;
  tli_socket_close(s->socket);
  store_free(s);
}

static bool lost(tli_Store *s, const char *what, const char *key) {
  char why[160];
  s->broken = true;
  if (tl_error_kind() == TL_EINTERRUPT) return false;
  snprintf(why, sizeof why, "%s", tl_error());
  return tli_fail(TL_EIO, "store %s:%d: %s of '%.200s': %s", s->host, s->port, what, key, why);
}

/* The requests' names in messages. */
static const char *const names[] = {"set",    "get",   "wait",   "add",         "check",
                                    "delete", "count", "append", "compare_set", "clear"};

/* Sends a request, and receives the header of the answer. The caller must receive the answer's
** value. */
static bool ask(tli_Store *s, uint32_t what, const char *key, const void *value, size_t size,
                int64_t number, int64_t timeout, tli_StoreAnswer *a) {
  size_t length = strlen(key);
  if (s->broken)
    return tli_fail(TL_EIO, "store %s:%d: the connection was lost before", s->host, s->port);
  if (length > TLI_STORE_KEY || size > TLI_STORE_VALUE)
    return tli_fail(TL_EARG, "store: expected a key of up to %u bytes and a value of up to %u",
                    TLI_STORE_KEY, TLI_STORE_VALUE);
  tli_StoreRequest r = {TLI_STORE_MAGIC, what, (uint32_t)length, (uint32_t)size, number};
  int64_t now = tli_now_ns(), deadline = now + GRACE;
  if (timeout < INT64_MAX - deadline) deadline += timeout;
  bool ok = tli_socket_send(s->socket, &r, sizeof r, deadline) &&
            tli_socket_send(s->socket, key, length, deadline) &&
            tli_socket_send(s->socket, value, size, deadline) &&
            tli_socket_receive(s->socket, a, sizeof *a, deadline);
  if (!ok) return lost(s, names[what], key);
  if (a->status == TLI_STORE_LATE)
    return tli_fail(TL_EIO, "store %s:%d: no process has set '%.200s' within %.3g s", s->host,
                    s->port, key, (double)timeout / 1e9);
  if (a->status != TLI_STORE_OK)
    return tli_fail(TL_EMEM, "store %s:%d: no room for '%.200s'", s->host, s->port, key);
  return true;
}

bool tli_store_set(tli_Store *s, const char *key, const void *value, size_t size) {
  tli_StoreAnswer a;
  return ask(s, TLI_STORE_SET, key, value, size, 0, 0, &a);
}

/* Receives the value of an answer. */
static char *receive_value(tli_Store *s, uint32_t what, const char *key, const tli_StoreAnswer *a,
                           size_t *size) {
  char *value = a->value <= TLI_STORE_VALUE ? malloc((size_t)a->value + 1) : NULL;
  if (value == NULL) {
    /* the value of the answer was not read, so the connection cannot be used any more */
    s->broken = true;
    return tli_fail_null(TL_EMEM, "store: no memory for the value of '%.200s'", key);
  }
  if (!tli_socket_receive(s->socket, value, a->value, tli_now_ns() + GRACE)) {
    free(value);
    lost(s, names[what], key);
    return NULL;
  }
  value[a->value] = '\0';
  if (size) *size = a->value;
  return value;
}

char *tli_store_get(tli_Store *s, const char *key, size_t *size, int64_t timeout) {
  tli_StoreAnswer a;
  TL_TRY_NULL(ask(s, TLI_STORE_GET, key, "", 0, timeout, timeout, &a));
  return receive_value(s, TLI_STORE_GET, key, &a, size);
}

char *tli_store_compare_set(tli_Store *s, const char *key, const char *both, size_t bytes,
                            size_t expected, size_t *size) {
  tli_StoreAnswer a;
  TL_TRY_NULL(ask(s, TLI_STORE_COMPARE, key, both, bytes, (int64_t)expected, 0, &a));
  return receive_value(s, TLI_STORE_COMPARE, key, &a, size);
}

bool tli_store_append(tli_Store *s, const char *key, const void *value, size_t size) {
  tli_StoreAnswer a;
  return ask(s, TLI_STORE_APPEND, key, value, size, 0, 0, &a);
}

bool tli_store_wait(tli_Store *s, const char *key, int64_t timeout) {
  tli_StoreAnswer a;
  return ask(s, TLI_STORE_WAIT, key, "", 0, timeout, timeout, &a);
}

bool tli_store_add(tli_Store *s, const char *key, int64_t amount, int64_t *sum) {
  tli_StoreAnswer a;
  TL_TRY(ask(s, TLI_STORE_ADD, key, "", 0, amount, 0, &a));
  *sum = a.number;
  return true;
}

bool tli_store_check(tli_Store *s, const char *key, bool *there) {
  tli_StoreAnswer a;
  TL_TRY(ask(s, TLI_STORE_CHECK, key, "", 0, 0, 0, &a));
  *there = a.number != 0;
  return true;
}

bool tli_store_delete(tli_Store *s, const char *key, bool *was_there) {
  tli_StoreAnswer a;
  TL_TRY(ask(s, TLI_STORE_DELETE, key, "", 0, 0, 0, &a));
  *was_there = a.number != 0;
  return true;
}

bool tli_store_count(tli_Store *s, int64_t *n) {
  tli_StoreAnswer a;
  TL_TRY(ask(s, TLI_STORE_COUNT, "", "", 0, 0, 0, &a));
  *n = a.number;
  return true;
}

bool tli_store_clear(tli_Store *s, const char *prefix, int64_t *n) {
  tli_StoreAnswer a;
  TL_TRY(ask(s, TLI_STORE_CLEAR, prefix, "", 0, 0, 0, &a));
  *n = a.number;
  return true;
}
