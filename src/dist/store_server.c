/*
** store_server.c - the server of a store: one thread serves all connections. No connection can
** delay the others: sockets never block, only a few requests of each connection are answered in
** each turn, and a connection that does not read its answer is not served until it does. A client
** that has not proved that it knows the secret is called a stranger. Strangers get only a limited
** time, number of bytes, and number of connections (see README.md).
*/
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/platform.h"
#include "core/platform/share.h"
#include "core/platform/socket.h"
#include "dist/secret.h"
#include "dist/store.h"
#include "dist/store_table.h"

#define SECOND INT64_C(1000000000)
/* the time that a client has for proving that it knows the secret */
#define INTRODUCTION (10 * SECOND)
/* the shorter limit that applies while there are as many strangers as allowed */
#define CROWDED SECOND
#define STALLED (60 * SECOND) /* the longest time without progress while a client reads an answer */
/* the delay before the server accepts connections again after it ran out of file descriptors */
#define BREATH (SECOND / 10)
enum {
  CLIENTS = 32768, /* the largest number of connections */
  STRANGERS = 256, /* the largest number of connections that have not proved the secret */
  /* number of file descriptors that the server leaves for the rest of the program */
  SPARE_FILES = 64,
  /* the largest number of requests of one connection that are answered in one pass of a turn */
  AT_ONCE = 16,
  /* the largest number of bytes that one connection may send to the server in one turn */
  CHUNK = 65536
};

typedef enum State { NEW, CHALLENGED, KNOWN } State;

/* An answer that is being sent: a header with a short value, followed by a long value. */
typedef struct Output {
  char head[sizeof(tli_StoreAnswer) + TLI_CHALLENGE];
  /* total size of header and values, and the number of bytes sent so far */
  size_t bytes, sent;
  size_t head_bytes;
  /* the long value that follows the header (owned reference); NULL if there is none */
  tli_Value *value;
} Output;

typedef struct Client {
  int socket;
  State state;
  bool gone;
  bool parts;       /* whether the connection is closed once the answer is sent */
  bool waits;       /* whether the connection's request waits for a key */
  int64_t deadline; /* the time at which the wait ends */
  int64_t version;  /* version of the table when the key was last looked up */
  /* the time when the client arrived or, later, when it last made progress in reading an answer */
  int64_t since;
  unsigned char challenge[TLI_CHALLENGE];
  char *data; /* a buffer with bytes of the next requests (owned) */
  /* the buffer has `room` bytes; `size` bytes of requests begin at index `begin` */
  size_t begin, size, room;
  Output out;
} Client;

struct tli_StoreServer {
  int listener, port;
  int wake_sockets[2];
  atomic_bool stop, lacked_files;
  atomic_uint ended;
  bool has_secret, trusts;
  char secret[TLI_SECRET_ROOM];
  /* all connections (owned); only the server's thread uses this field and those after it */
  Client **clients;
  int n, room, most, most_strangers;
  int64_t pause;         /* the time before which no connections are accepted */
  bool more;             /* whether complete requests may remain for the next turn */
  tli_StoreTable *table; /* owned */
};

/* ---- answers --------------------------------------------------------------------- */

static bool is_sending(const Client *c) { return c->out.sent < c->out.bytes; }

static void end_output(tli_StoreServer *s, Client *c) {
  tli_value_release(s->table, c->out.value);
  c->out = (Output){.value = NULL};
  if (c->parts) c->gone = true;
}

/* Restarts the time limit of a client that has proved the secret. */
static void touch(Client *c) {
  if (c->state == KNOWN) c->since = tli_now_ns();
}

/* Sends as many bytes as the socket accepts. */
static void flush(tli_StoreServer *s, Client *c) {
  Output *o = &c->out;
  while (is_sending(c)) {
    bool in_head = o->sent < o->head_bytes;
    const char *from = in_head ? o->head + o->sent : o->value->data + (o->sent - o->head_bytes);
    size_t bytes = in_head ? o->head_bytes - o->sent : o->bytes - o->sent;
    int64_t n = tli_socket_give(c->socket, from, bytes);
    if (n == 0) return;
    if (n < 0) {
      c->gone = true;
      return;
    }
    o->sent += (size_t)n;
    touch(c);
  }
  end_output(s, c);
}

/* Sends an answer whose value has at most TLI_CHALLENGE bytes. */
static void answer_bytes(tli_StoreServer *s, Client *c, uint32_t status, int64_t number,
                         const void *bytes, uint32_t size) {
  tli_StoreAnswer a = {status, size, number};
  c->waits = false;
  touch(c);
  memcpy(c->out.head, &a, sizeof a);
  if (size > 0) memcpy(c->out.head + sizeof a, bytes, size);
  c->out.head_bytes = c->out.bytes = sizeof a + size;
  flush(s, c);
}

static void answer(tli_StoreServer *s, Client *c, uint32_t status, int64_t number) {
  answer_bytes(s, c, status, number, NULL, 0);
}

static void answer_value(tli_StoreServer *s, Client *c, tli_Value *v) {
  tli_StoreAnswer a = {TLI_STORE_OK, v->size, 0};
  c->waits = false;
  touch(c);
  memcpy(c->out.head, &a, sizeof a);
  c->out.head_bytes = sizeof a;
  c->out.bytes = sizeof a + v->size;
  c->out.value = v;
  v->refs++;
  flush(s, c);
}

static void answer_done(tli_StoreServer *s, Client *c, bool done, int64_t number) {
  answer(s, c, done ? TLI_STORE_OK : TLI_STORE_REFUSED, number);
}

/* ---- requests -------------------------------------------------------------------- */

/* Concatenates two byte strings to a value. Returns NULL if the table has no room for the
** result. */
static tli_Value *join(tli_StoreServer *s, const char *a, uint32_t n, const char *b, uint32_t m) {
  tli_Value *v = n <= TLI_STORE_VALUE - m ? tli_value_new(s->table, n + m) : NULL;
  if (v && n > 0) memcpy(v->data, a, n);
  if (v && m > 0) memcpy(v->data + n, b, m);
  return v;
}

/* Returns the number in a value, which is stored as decimal text; 0 if the value is not a
** number. */
static int64_t number_in(const tli_Value *v) {
  char text[32];
  if (v == NULL || v->size >= sizeof text) return 0;
  memcpy(text, v->data, v->size);
  text[v->size] = '\0';
  return strtoll(text, NULL, 10);
}

static bool put(tli_StoreServer *s, const tli_StoreRequest *r, const char *key, tli_Value *v) {
  return tli_table_put(s->table, key, r->key, v);
}

/* Returns whether the client's request must still wait, because its key has no value yet. */
static bool waits_for(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key,
                      int64_t now) {
  int64_t version = tli_table_version(s->table);
  bool look = !c->waits || c->version != version;
  tli_Value *v = look ? tli_table_get(s->table, key, r->key) : NULL;
  c->version = version;
  if (v && r->what == TLI_STORE_GET)
    answer_value(s, c, v);
  else if (v)
    answer(s, c, TLI_STORE_OK, 0);
  if (v) return false;
  if (!c->waits) c->deadline = r->number > INT64_MAX - now ? INT64_MAX : now + r->number;
  c->waits = true;
  if (now < c->deadline) return true;
  answer(s, c, TLI_STORE_LATE, 0);
  return false;
}

static void add(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key) {
  char text[32];
  const tli_Value *old = tli_table_get(s->table, key, r->key);
  int64_t sum = (int64_t)((uint64_t)number_in(old) + (uint64_t)r->number);
  int n = snprintf(text, sizeof text, "%lld", (long long)sum);
  answer_done(s, c, put(s, r, key, join(s, text, (uint32_t)n, NULL, 0)), sum);
}

static void append(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key,
                   const char *value) {
  const tli_Value *old = tli_table_get(s->table, key, r->key);
  answer_done(s, c,
              put(s, r, key, join(s, old ? old->data : NULL, old ? old->size : 0, value, r->value)),
              0);
}

static void compare(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, const char *key,
                    const char *value) {
  if (r->number < 0 || r->number > r->value) {
    c->gone = true;
    return;
  }
  uint32_t n = (uint32_t)r->number;
  tli_Value *old = tli_table_get(s->table, key, r->key);
  bool same = old ? old->size == n && memcmp(old->data, value, n) == 0 : n == 0;
  if (old && !same) {
    answer_value(s, c, old);
    return;
  }
  tli_Value *now = same ? join(s, value + n, r->value - n, NULL, 0) : join(s, value, n, NULL, 0);
  if (same && now) now->refs++; /* the table and this function hold one reference each */
  if (same ? put(s, r, key, now) : now != NULL)
    answer_value(s, c, now);
  else
    answer(s, c, TLI_STORE_REFUSED, 0);
  tli_value_release(s->table, now);
}

/* ---- authentication ------------------------------------------------------------------ */

/* Answers the first request of a connection. Without a secret, all users of this machine can reach
** the port, so connections of other users are refused if the system tells which user has opened a
** connection. */
static void greet(tli_StoreServer *s, Client *c) {
  if (!s->has_secret && !s->trusts && tli_socket_is_foreign(c->socket)) {
    c->parts = true;
    answer(s, c, TLI_STORE_STRANGER, 0);
  } else if (!s->has_secret) {
    c->state = KNOWN;
    answer(s, c, TLI_STORE_MAGIC, TLI_STORE_MAGIC);
  } else if (!tli_entropy(c->challenge, sizeof c->challenge)) {
    c->gone = true;
  } else {
    c->state = CHALLENGED;
    answer_bytes(s, c, TLI_STORE_MAGIC, TLI_STORE_MAGIC, c->challenge, sizeof c->challenge);
  }
}

static void judge(tli_StoreServer *s, Client *c, const char *value) {
  unsigned char theirs[TLI_CHALLENGE], proof[TLI_SHA256_BYTES], expected[TLI_SHA256_BYTES];
  memcpy(theirs, value, sizeof theirs);
  memcpy(proof, value + sizeof theirs, sizeof proof);
  tli_secret_prove(s->secret, TLI_SECRET_CLIENT, c->challenge, theirs, expected);
  if (!tli_secret_same(proof, expected)) {
    c->parts = true;
    answer(s, c, TLI_STORE_STRANGER, 0);
    return;
  }
  c->state = KNOWN;
  tli_secret_prove(s->secret, TLI_SECRET_SERVER, c->challenge, theirs, expected);
  answer_bytes(s, c, TLI_STORE_OK, 0, expected, sizeof expected);
}

/* ---- serving --------------------------------------------------------------------- */

/* Answers the request r, the first in the buffer. Returns false if the request must wait. */
static bool serve(tli_StoreServer *s, Client *c, const tli_StoreRequest *r, int64_t now) {
  const char *key = c->data + c->begin + sizeof *r, *value = key + r->key;
  switch (r->what) {
  case TLI_STORE_SET:
    answer_done(s, c, put(s, r, key, join(s, value, r->value, NULL, 0)), 0);
    break;
  case TLI_STORE_GET:
  case TLI_STORE_WAIT: return !waits_for(s, c, r, key, now);
  case TLI_STORE_ADD: add(s, c, r, key); break;
  case TLI_STORE_APPEND: append(s, c, r, key, value); break;
  case TLI_STORE_COMPARE: compare(s, c, r, key, value); break;
  case TLI_STORE_CHECK:
    answer(s, c, TLI_STORE_OK, tli_table_get(s->table, key, r->key) != NULL);
    break;
  case TLI_STORE_DELETE: answer(s, c, TLI_STORE_OK, tli_table_delete(s->table, key, r->key)); break;
  case TLI_STORE_CLEAR: answer(s, c, TLI_STORE_OK, tli_table_clear(s->table, key, r->key)); break;
  case TLI_STORE_COUNT: answer(s, c, TLI_STORE_OK, tli_table_count(s->table)); break;
  case TLI_STORE_GREET: greet(s, c); break;
  case TLI_STORE_PROVE: judge(s, c, value); break;
  default: c->gone = true;
  }
  return true;
}

/* Returns whether the client may make this request now and the request's sizes are within the
** limits. */
static bool is_proper(const Client *c, const tli_StoreRequest *r) {
  uint32_t proof = TLI_CHALLENGE + TLI_SHA256_BYTES;
  if (r->magic != TLI_STORE_MAGIC || r->key > TLI_STORE_KEY || r->value > TLI_STORE_VALUE)
    return false;
  if (r->what == TLI_STORE_GREET) return c->state == NEW && r->key == 0 && r->value == 0;
  if (r->what == TLI_STORE_PROVE) return c->state == CHALLENGED && r->key == 0 && r->value == proof;
  return c->state == KNOWN;
}

/* Returns whether a whole request has arrived. Closes the connection if the request is not
** allowed. */
static bool whole(Client *c, tli_StoreRequest *r) {
  if (c->gone || c->size < sizeof *r) return false;
  memcpy(r, c->data + c->begin, sizeof *r);
  if (!is_proper(c, r)) {
    c->gone = true;
    return false;
  }
  return c->size >= sizeof *r + r->key + r->value;
}

/* Answers some requests of a connection. Returns whether it answered any. */
static bool serve_some(tli_StoreServer *s, Client *c, int64_t now) {
  tli_StoreRequest r;
  int served = 0;
  while (!is_sending(c) && whole(c, &r)) {
    if (served == AT_ONCE) {
      s->more = true;
      break;
    }
    if (!serve(s, c, &r, now)) break;
    size_t used = sizeof r + r.key + r.value;
    c->begin += used;
    c->size -= used;
    served++;
  }
  return served > 0;
}

/* Makes room for more bytes in a client's buffer; moves the bytes in it to the front. */
static bool make_room(tli_StoreServer *s, Client *c, size_t bytes) {
  if (c->begin > 0 && c->size > 0) memmove(c->data, c->data + c->begin, c->size);
  c->begin = 0;
  size_t room = c->room;
  while (room < c->size + bytes) room = 2 * room + bytes;
  if (room == c->room) return true;
  if (!tli_table_reserve(s->table, (int64_t)(room - c->room))) return false;
  char *data = realloc(c->data, room);
  if (data == NULL) {
    tli_table_return(s->table, (int64_t)(room - c->room));
    return false;
  }
  c->data = data;
  c->room = room;
  return true;
}

/* Receives bytes. A stranger may send only the two requests of the greeting. Other clients may send
** one more request while an earlier one waits. */
static void receive(tli_StoreServer *s, Client *c) {
  enum { STRANGER_BYTES = 512 };
  tli_StoreRequest r;
  bool heaps = c->state == KNOWN ? c->size > CHUNK && whole(c, &r) : c->size >= STRANGER_BYTES;
  if (heaps || !make_room(s, c, c->state == KNOWN ? CHUNK : STRANGER_BYTES - c->size)) {
    c->gone = true;
    return;
  }
  int64_t n = tli_socket_take(c->socket, c->data + c->size, c->room - c->size);
  if (n < 0) c->gone = true;
  if (n > 0) c->size += (size_t)n;
}

/* Shrinks a buffer that a long request has enlarged. */
static void trim(tli_StoreServer *s, Client *c) {
  if (c->size > 0 || c->room <= CHUNK) return;
  free(c->data);
  tli_table_return(s->table, (int64_t)c->room);
  c->data = NULL;
  c->begin = c->room = 0;
}

/* ---- connections ------------------------------------------------------------------- */

static void client_free(tli_StoreServer *s, Client *c) {
  tli_socket_close(c->socket);
  tli_value_release(s->table, c->out.value);
  tli_table_return(s->table, (int64_t)c->room);
  free(c->data);
  free(c);
}

static bool keep(tli_StoreServer *s, int socket, int64_t now) {
  if (s->n == s->room) {
    int room = 2 * s->room + 16;
    Client **more = realloc(s->clients, (size_t)room * sizeof(Client *));
    if (more == NULL) return false;
    s->clients = more;
    s->room = room;
  }
  Client *c = calloc(1, sizeof *c);
  if (c == NULL) return false;
  c->socket = socket;
  c->since = now;
  s->clients[s->n++] = c;
  return true;
}

/* Counts the connections that have not proved the secret; *oldest receives the arrival time of the
** first of them. */
static int count_strangers(const tli_StoreServer *s, int64_t *oldest) {
  int n = 0;
  *oldest = INT64_MAX;
  for (int i = 0; i < s->n; i++) {
    const Client *c = s->clients[i];
    if (c->state == KNOWN) continue;
    if (c->since < *oldest) *oldest = c->since;
    n++;
  }
  return n;
}

static bool has_places(const tli_StoreServer *s, int strangers, int64_t now) {
  return now >= s->pause && s->n < s->most && strangers < s->most_strangers;
}

static void accept_all(tli_StoreServer *s, int64_t now) {
  int64_t oldest;
  int strangers = count_strangers(s, &oldest);
  while (has_places(s, strangers, now)) {
    int socket = tli_socket_accept(s->listener);
    if (socket == TLI_NOSOCKET) return;
    if (socket == TLI_NOFILES) atomic_store(&s->lacked_files, true);
    bool kept = socket != TLI_NOFILES && keep(s, socket, now);
    if (!kept) {
      if (socket >= 0) tli_socket_close(socket);
      s->pause = now + BREATH;
      return;
    }
    strangers++;
  }
}

/* Returns the time at which a connection will be closed unless it makes progress. A stranger gets
** less time while there are as many strangers as allowed, since new connections must wait until one
** of them is closed. */
static int64_t end_of(const Client *c, bool crowded) {
  if (c->state != KNOWN) return c->since + (crowded ? CROWDED : INTRODUCTION);
  return is_sending(c) ? c->since + STALLED : INT64_MAX;
}

static void drop_gone(tli_StoreServer *s, bool crowded, int64_t now) {
  int kept = 0;
  for (int i = 0; i < s->n; i++) {
    Client *c = s->clients[i];
    if (c->gone || now >= end_of(c, crowded))
      client_free(s, c);
    else
      s->clients[kept++] = c;
  }
  s->n = kept;
}

/* ---- the thread ------------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Waits until a connection can be served or accepted. */
static void wait_for_some(tli_StoreServer *s, tli_Watch *w) {
  int64_t now = tli_now_ns(), oldest, deadline = s->more ? now : INT64_MAX;
  int strangers = count_strangers(s, &oldest);
  bool takes = has_places(s, strangers, now), crowded = strangers >= s->most_strangers;
  if (now < s->pause) deadline = least(deadline, s->pause);
  w[0] = (tli_Watch){takes ? s->listener : TLI_NOSOCKET, false, false};
  w[1] = (tli_Watch){s->wake_sockets[0], false, false};
  for (int i = 0; i < s->n; i++) {
    Client *c = s->clients[i];
    tli_StoreRequest r;
    /* whether the buffer holds a complete request for the next turn */
    bool full = !is_sending(c) && !c->waits && whole(c, &r);
    w[i + 2] = (tli_Watch){full ? TLI_NOSOCKET : c->socket, is_sending(c), false};
    if (c->waits) deadline = least(deadline, c->deadline);
    deadline = least(deadline, end_of(c, crowded));
  }
  tli_socket_watch(w, s->n + 2, deadline);
}

static void turn(tli_StoreServer *s, tli_Watch *w) {
  wait_for_some(s, w);
  int64_t now = tli_now_ns();
  for (int i = 0; i < s->n; i++) {
    if (!w[i + 2].ready) continue;
    if (w[i + 2].sends)
      flush(s, s->clients[i]);
    else
      receive(s, s->clients[i]);
  }
  s->more = false;
  /* one connection's request may end the wait of another, so the loop repeats until no connection
  ** gets an answer, but at most four times */
  bool served = true;
  for (int pass = 0; served && pass < 4; pass++) {
    served = false;
    for (int i = 0; i < s->n; i++) served |= serve_some(s, s->clients[i], now);
  }
  s->more |= served;
  for (int i = 0; i < s->n; i++) trim(s, s->clients[i]);
  int64_t oldest;
  drop_gone(s, count_strangers(s, &oldest) >= s->most_strangers, now);
  if (w[0].ready) accept_all(s, now);
}

static void run(void *context) {
  tli_StoreServer *s = context;
  while (!atomic_load(&s->stop)) {
    tli_Watch *watches = malloc((size_t)(s->n + 2) * sizeof *watches);
    if (watches) turn(s, watches);
    free(watches);
  }
  for (int i = 0; i < s->n; i++) client_free(s, s->clients[i]);
  s->n = 0;
  atomic_store(&s->ended, 1);
  tli_word_wake(&s->ended);
}

static void server_free(tli_StoreServer *s) {
  tli_table_free(s->table);
  tli_socket_close(s->listener);
  tli_socket_close(s->wake_sockets[0]);
  tli_socket_close(s->wake_sockets[1]);
  tli_secret_forget(s->secret, sizeof s->secret);
  free(s->clients);
  free(s);
}

/* Returns whether the server may use an address. An address that other machines or users can reach
** requires a secret. */
static bool may_serve(const tli_StoreServer *s, const char *host) {
  if (s->has_secret || s->trusts || tli_socket_is_local(s->listener)) return true;
  return tli_fail(
      TL_EARG,
      "%s:%d: a store that other machines can reach needs a secret: set TLUA_SECRET for "
      "all processes of the job, or TLUA_SECRET=none where all of the network is trusted",
      *host ? host : "*", s->port);
}

static void set_limits(tli_StoreServer *s) {
  int64_t files = tli_most_files() - SPARE_FILES;
  s->most = files > CLIENTS ? CLIENTS : files < 8 ? 8 : (int)files;
  s->most_strangers = s->most / 2 < STRANGERS ? s->most / 2 : STRANGERS;
}

tli_StoreServer *tli_store_serve(const char *host, int port, const char *secret) {
  bool has_secret = secret && *secret;
  if (has_secret) TL_TRY_NULL(tli_secret_check("store", secret));
  tli_StoreServer *s = calloc(1, sizeof *s);
  if (s == NULL) return tli_fail_null(TL_EMEM, "store: out of memory");
  s->listener = s->wake_sockets[0] = s->wake_sockets[1] = TLI_NOSOCKET;
  s->port = port;
  s->has_secret = has_secret;
  s->trusts = secret && !has_secret;
  if (has_secret) snprintf(s->secret, sizeof s->secret, "%s", secret);
  set_limits(s);
  s->table = tli_table_new();
  if (s->table) s->listener = tli_socket_listen(host, &s->port);
  bool ok = s->listener != TLI_NOSOCKET && may_serve(s, host) && tli_socket_pair(s->wake_sockets);
  if (ok && !tli_thread_start(run, s)) ok = tli_fail(TL_EMEM, "store: no thread to serve it");
  if (ok) return s;
  server_free(s);
  return NULL;
}

int tli_store_server_port(const tli_StoreServer *server) { return server->port; }

bool tli_store_server_lacked_files(const tli_StoreServer *s) {
  return atomic_load(&s->lacked_files);
}

void tli_store_server_stop(tli_StoreServer *s) {
  if (s == NULL) return;
  atomic_store(&s->stop, true);
  if (!tli_socket_send(s->wake_sockets[1], "", 1, tli_now_ns() + 1000000000)) tli_error_clear();
  while (atomic_load(&s->ended) == 0) tli_word_wait(&s->ended, 0, 100000000);
  server_free(s);
}
