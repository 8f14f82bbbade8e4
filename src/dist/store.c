/*
** store.c - the side of a store that asks.
*/
#include "dist/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform.h"
#include "core/socket.h"

/* What an answer may take beyond the time that was asked for. */
#define GRACE INT64_C(10000000000)

struct tli_Store {
  int socket, port;
  char host[128];
  bool broken;
};

tli_Store *tli_store_connect(const char *host, int port, int64_t timeout) {
  tli_Store *s = calloc(1, sizeof *s);
  if (s == NULL) return tli_fail_null(TL_EMEM, "store: out of memory");
  snprintf(s->host, sizeof s->host, "%s", host);
  s->port = port;
  s->socket = tli_socket_connect(host, port, tli_now_ns() + timeout);
  if (s->socket != TLI_NOSOCKET) return s;
  free(s);
  return NULL;
}

tli_Store *tli_store_connect_again(const tli_Store *s, int64_t timeout) {
  return tli_store_connect(s->host, s->port, timeout);
}

void tli_store_close(tli_Store *s) {
  if (s == NULL) return;
  tli_socket_close(s->socket);
  free(s);
}

static bool lost(tli_Store *s, const char *what, const char *key) {
  char why[160];
  s->broken = true;
  if (tl_error_kind() == TL_EINTERRUPT) return false;
  snprintf(why, sizeof why, "%s", tl_error());
  return tli_fail(TL_EIO, "store %s:%d: %s of '%.200s': %s", s->host, s->port, what, key, why);
}

/* What it was asked for, in words. */
static const char *const names[] = {"set", "get", "wait", "add", "check", "delete", "count"};

/* Sends a request and receives the answer, but for its value. */
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
    return tli_fail(TL_EIO, "store %s:%d: nobody has set '%.200s' within %.3g s", s->host, s->port,
                    key, (double)timeout / 1e9);
  if (a->status != TLI_STORE_OK)
    return tli_fail(TL_EMEM, "store %s:%d: no room for '%.200s'", s->host, s->port, key);
  return true;
}

bool tli_store_set(tli_Store *s, const char *key, const void *value, size_t size) {
  tli_StoreAnswer a;
  return ask(s, TLI_STORE_SET, key, value, size, 0, 0, &a);
}

char *tli_store_get(tli_Store *s, const char *key, size_t *size, int64_t timeout) {
  tli_StoreAnswer a;
  TL_TRY_NULL(ask(s, TLI_STORE_GET, key, "", 0, timeout, timeout, &a));
  char *value = a.value <= TLI_STORE_VALUE ? malloc((size_t)a.value + 1) : NULL;
  if (value == NULL) {
    s->broken = true; /* the value was not read */
    return tli_fail_null(TL_EMEM, "store: no memory for the value of '%.200s'", key);
  }
  if (!tli_socket_receive(s->socket, value, a.value, tli_now_ns() + GRACE)) {
    free(value);
    lost(s, "get", key);
    return NULL;
  }
  value[a.value] = '\0';
  if (size) *size = a.value;
  return value;
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
