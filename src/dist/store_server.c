/*
** store_server.c - who serves a store: one thread for all connections. Requests come
** whole into a buffer; one that waits for a key is answered when that is set.
*/
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform.h"
#include "core/share.h"
#include "core/socket.h"
#include "dist/store.h"

typedef struct Entry {
  struct Entry *next;
  char *key, *value; /* owned */
  uint32_t key_size, value_size;
} Entry;

typedef struct Client {
  int socket;
  bool gone, waits;
  int64_t deadline; /* of the wait */
  char *data;       /* owned: what has come of the next request */
  size_t size, room;
} Client;

enum { BUCKETS = 1024 };

struct tli_StoreServer {
  int listener, port;
  int bell[2];
  atomic_bool stop;
  atomic_uint ended;
  Client *clients; /* owned; the thread's from here on */
  int n, room;
  Entry *entries[BUCKETS];
  int64_t count;
};

/* ---- the table ------------------------------------------------------------------- */

static Entry **find(tli_StoreServer *s, const char *key, uint32_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)key[i]) * 0x100000001b3u;
  Entry **at = &s->entries[hash % BUCKETS];
  while (*at && ((*at)->key_size != size || memcmp((*at)->key, key, size) != 0)) at = &(*at)->next;
  return at;
}

static void entry_free(Entry *e) {
  free(e->key);
  free(e->value);
  free(e);
}

static char *copy_of(const char *data, uint32_t size) {
  char *copy = malloc(size > 0 ? size : 1);
  if (copy) memcpy(copy, data, size);
  return copy;
}

static bool put(tli_StoreServer *s, const char *key, uint32_t key_size, const char *value,
                uint32_t size) {
  Entry **at = find(s, key, key_size);
  char *copy = copy_of(value, size);
  if (copy == NULL) return false;
  if (*at == NULL) {
    Entry *e = calloc(1, sizeof *e);
    if (e) e->key = copy_of(key, key_size);
    if (e == NULL || e->key == NULL) {
      free(e);
      free(copy);
      return false;
    }
    e->key_size = key_size;
    *at = e;
    s->count++;
  }
  free((*at)->value);
  (*at)->value = copy;
  (*at)->value_size = size;
  return true;
}

static bool take_away(tli_StoreServer *s, const char *key, uint32_t size) {
  Entry **at = find(s, key, size), *e = *at;
  if (e == NULL) return false;
  *at = e->next;
  entry_free(e);
  s->count--;
  return true;
}

/* The decimal number in an entry, 0 if it is none. */
static int64_t number_in(const Entry *e) {
  char text[32];
  if (e == NULL || e->value_size >= sizeof text) return 0;
  memcpy(text, e->value, e->value_size);
  text[e->value_size] = '\0';
  return strtoll(text, NULL, 10);
}

/* ---- requests -------------------------------------------------------------------- */

/* Nobody may hold the others up by not reading: a few seconds, then it is gone. */
static void answer(Client *c, uint32_t status, int64_t number, const char *value, uint32_t size) {
  tli_StoreAnswer a = {status, size, number};
  int64_t deadline = tli_now_ns() + 5000000000;
  c->waits = false;
  c->gone = !tli_socket_send(c->socket, &a, sizeof a, deadline) ||
            !tli_socket_send(c->socket, value, size, deadline);
}

static bool waits_for(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key,
                      int64_t now) {
  const Entry *e = *find(s, key, r->key);
  if (e) {
    bool value = r->what == TLI_STORE_GET;
    answer(c, TLI_STORE_OK, 0, value ? e->value : "", value ? e->value_size : 0);
    return false;
  }
  if (!c->waits) {
    c->waits = true;
    c->deadline = r->number > INT64_MAX - now ? INT64_MAX : now + r->number;
  }
  if (now < c->deadline) return true;
  answer(c, TLI_STORE_LATE, 0, "", 0);
  return false;
}

static void add(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key) {
  char text[32];
  int64_t sum = (int64_t)((uint64_t)number_in(*find(s, key, r->key)) + (uint64_t)r->number);
  int n = snprintf(text, sizeof text, "%lld", (long long)sum);
  bool ok = put(s, key, r->key, text, (uint32_t)n);
  answer(c, ok ? TLI_STORE_OK : TLI_STORE_REFUSED, sum, "", 0);
}

static void append(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key,
                   const char *value) {
  const Entry *e = *find(s, key, r->key);
  uint32_t before = e ? e->value_size : 0;
  char *both = before <= TLI_STORE_VALUE - r->value ? malloc((size_t)before + r->value + 1) : NULL;
  if (both && before > 0) memcpy(both, e->value, before);
  if (both && r->value > 0) memcpy(both + before, value, r->value);
  bool ok = both && put(s, key, r->key, both, before + r->value);
  free(both);
  answer(c, ok ? TLI_STORE_OK : TLI_STORE_REFUSED, 0, "", 0);
}

static void compare(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key,
                    const char *value) {
  if (r->number < 0 || r->number > r->value) {
    c->gone = true;
    return;
  }
  uint32_t n = (uint32_t)r->number;
  const Entry *e = *find(s, key, r->key);
  bool same = e ? e->value_size == n && memcmp(e->value, value, n) == 0 : n == 0;
  if (same && !put(s, key, r->key, value + n, r->value - n))
    answer(c, TLI_STORE_REFUSED, 0, "", 0);
  else if (same)
    answer(c, TLI_STORE_OK, 0, value + n, r->value - n);
  else
    answer(c, TLI_STORE_OK, 0, e ? e->value : value, e ? e->value_size : n);
}

/* Answers the request at the front of what has come; false if it has to wait. */
static bool serve(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, int64_t now) {
  const char *key = c->data + sizeof *r, *value = key + r->key;
  switch (r->what) {
  case TLI_STORE_SET:
    answer(c, put(s, key, r->key, value, r->value) ? TLI_STORE_OK : TLI_STORE_REFUSED, 0, "", 0);
    return true;
  case TLI_STORE_GET:
  case TLI_STORE_WAIT: return !waits_for(s, c, r, key, now);
  case TLI_STORE_ADD: add(s, c, r, key); return true;
  case TLI_STORE_APPEND: append(s, c, r, key, value); return true;
  case TLI_STORE_COMPARE: compare(s, c, r, key, value); return true;
  case TLI_STORE_CHECK: answer(c, TLI_STORE_OK, *find(s, key, r->key) != NULL, "", 0); return true;
  case TLI_STORE_DELETE: answer(c, TLI_STORE_OK, take_away(s, key, r->key), "", 0); return true;
  case TLI_STORE_COUNT: answer(c, TLI_STORE_OK, s->count, "", 0); return true;
  case TLI_STORE_GREET: answer(c, TLI_STORE_MAGIC, TLI_STORE_MAGIC, "", 0); return true;
  default: c->gone = true; return true;
  }
}

/* Whether a whole request has come; a senseless one ends the connection. */
static bool whole(Client *c, tli_StoreRequest *r) {
  if (c->gone || c->size < sizeof *r) return false;
  memcpy(r, c->data, sizeof *r);
  if (r->magic != TLI_STORE_MAGIC || r->key > TLI_STORE_KEY || r->value > TLI_STORE_VALUE) {
    c->gone = true;
    return false;
  }
  return c->size >= sizeof *r + r->key + r->value;
}

static void serve_all(tli_StoreServer *s, Client *c, int64_t now) {
  tli_StoreRequest r;
  while (whole(c, &r) && serve(s, c, &r, now)) {
    size_t used = sizeof r + r.key + r.value;
    c->size -= used;
    memmove(c->data, c->data + used, c->size);
  }
}

static void receive(Client *c) {
  int64_t n;
  do {
    if (c->room - c->size < 4096) {
      size_t room = 2 * c->room + 8192;
      char *data = room > 2 * (TLI_STORE_VALUE + 8192) ? NULL : realloc(c->data, room);
      if (data == NULL) {
        c->gone = true;
        return;
      }
      c->data = data;
      c->room = room;
    }
    n = tli_socket_take(c->socket, c->data + c->size, c->room - c->size);
    if (n < 0) c->gone = true;
    if (n > 0) c->size += (size_t)n;
  } while (n > 0 && c->size < TLI_STORE_VALUE + 8192);
}

/* ---- the thread ------------------------------------------------------------------ */

static void accept_all(tli_StoreServer *s) {
  int socket;
  while ((socket = tli_socket_accept(s->listener)) != TLI_NOSOCKET) {
    if (s->n == s->room) {
      int room = 2 * s->room + 16;
      Client *more = realloc(s->clients, (size_t)room * sizeof *more);
      if (more == NULL) {
        tli_socket_close(socket);
        return;
      }
      s->clients = more;
      s->room = room;
    }
    s->clients[s->n++] = (Client){.socket = socket};
  }
}

static void drop_gone(tli_StoreServer *s) {
  int kept = 0;
  for (int i = 0; i < s->n; i++) {
    if (s->clients[i].gone) {
      tli_socket_close(s->clients[i].socket);
      free(s->clients[i].data);
    } else {
      s->clients[kept++] = s->clients[i];
    }
  }
  s->n = kept;
}

static void turn(tli_StoreServer *s, int *sockets, bool *ready) {
  int64_t deadline = INT64_MAX;
  sockets[0] = s->listener;
  sockets[1] = s->bell[0];
  for (int i = 0; i < s->n; i++) {
    sockets[i + 2] = s->clients[i].socket;
    if (s->clients[i].waits && s->clients[i].deadline < deadline) deadline = s->clients[i].deadline;
  }
  int n = s->n;
  tli_socket_poll(sockets, n + 2, ready, deadline);
  int64_t now = tli_now_ns();
  for (int i = 0; i < n; i++)
    if (ready[i + 2]) receive(&s->clients[i]);
  /* what one sets another may wait for, so all are looked at; twice, for what the last sets */
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < n; i++) serve_all(s, &s->clients[i], now);
  if (ready[0]) accept_all(s);
  drop_gone(s);
}

static void run(void *context) {
  tli_StoreServer *s = context;
  while (!atomic_load(&s->stop)) {
    int *sockets = malloc((size_t)(s->n + 2) * sizeof *sockets);
    bool *ready = malloc((size_t)(s->n + 2) * sizeof *ready);
    if (sockets && ready) turn(s, sockets, ready);
    free(sockets);
    free(ready);
  }
  for (int i = 0; i < s->n; i++) s->clients[i].gone = true;
  drop_gone(s);
  atomic_store(&s->ended, 1);
  tli_word_wake(&s->ended);
}

static void server_free(tli_StoreServer *s) {
  for (int i = 0; i < BUCKETS; i++)
    for (Entry *e = s->entries[i], *next; e; e = next) {
      next = e->next;
      entry_free(e);
    }
  tli_socket_close(s->listener);
  tli_socket_close(s->bell[0]);
  tli_socket_close(s->bell[1]);
  free(s->clients);
  free(s);
}

tli_StoreServer *tli_store_serve(const char *host, int port) {
  tli_StoreServer *s = calloc(1, sizeof *s);
  if (s == NULL) return tli_fail_null(TL_EMEM, "store: out of memory");
  s->bell[0] = s->bell[1] = TLI_NOSOCKET;
  s->port = port;
  s->listener = tli_socket_listen(host, &s->port);
  bool ok = s->listener != TLI_NOSOCKET && tli_socket_pair(s->bell);
  if (ok && !tli_thread_start(run, s)) ok = tli_fail(TL_EMEM, "store: no thread to serve it");
  if (ok) return s;
  server_free(s);
  return NULL;
}

int tli_store_server_port(const tli_StoreServer *server) { return server->port; }

void tli_store_server_stop(tli_StoreServer *s) {
  if (s == NULL) return;
  atomic_store(&s->stop, true);
  if (!tli_socket_send(s->bell[1], "", 1, tli_now_ns() + 1000000000)) tli_error_clear();
  while (atomic_load(&s->ended) == 0) tli_word_wait(&s->ended, 0, 100000000);
  server_free(s);
}
