/*
** binding_server.c - starts servers for Lua, and has the methods of tlua.serve.Server.
*/
#include "binding.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "access.h"
#include "replies.h"

static Server *check_server(lua_State *L) {
  Server *s = *(Server **)luaL_checkudata(L, 1, SERVER);
  if (s == NULL) luaL_error(L, "serve: the server is closed");
  return s;
}

/* The userdata of a server. Several userdata may refer to one server. The userdata that has
** started the server is its owner: it stops the server when it is collected. */
typedef struct ServerBox {
  Server *server; /* must be first, because functions read the userdata as a Server ** */
  bool owner;
} ServerBox;

static Server **push_server(lua_State *L) {
  ServerBox *box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = (ServerBox){NULL, false};
  luaL_setmetatable(L, SERVER);
  return &box->server;
}

/* Returns a field of the table at index 1, which must be an integer from `least` to `most`. Returns
** `otherwise` if the field is nil. */
static int64_t integer_field(lua_State *L, const char *name, int64_t otherwise, int64_t least,
                             int64_t most) {
  int fits = 1;
  lua_Integer value = otherwise;
  if (lua_getfield(L, 1, name) != LUA_TNIL)
    value = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &fits) : least - 1;
  if (!fits || value < least || value > most)
    luaL_error(L, "serve: %s: expected an integer from %I to %I, got %s", name, (LUAI_UACINT)least,
               (LUAI_UACINT)most, luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return value;
}

/* Pushes the field `name` of the table at index 1, which must be a text or nil. Returns the
** text, or NULL if the field is nil. */
static const char *push_text(lua_State *L, const char *name) {
  int type = lua_getfield(L, 1, name);
  if (type != LUA_TSTRING && type != LUA_TNIL)
    luaL_error(L, "serve: %s: expected a text, got %s", name, luaL_tolstring(L, -1, NULL));
  return lua_tostring(L, -1);
}

/* Returns a copy of the text in the field `name` of the table at index 1. Returns NULL if the
** field is nil. */
static char *text_field(lua_State *L, const char *name) {
  const char *text = push_text(L, name);
  char *copy = text ? strdup(text) : NULL;
  lua_pop(L, 1);
  return copy;
}

/* Reads the server's list of tokens from the table at index 1. */
static void read_tokens(lua_State *L, Server *s) {
  int type = lua_getfield(L, 1, "tokens");
  if (type != LUA_TTABLE && type != LUA_TNIL)
    luaL_error(L, "serve: tokens: expected a list, got %s", luaL_tolstring(L, -1, NULL));
  int n = type == LUA_TTABLE ? (int)lua_rawlen(L, -1) : 0;
  if (n > 0) s->tokens = calloc((size_t)n, sizeof *s->tokens);
  for (int i = 0; i < n; i++) {
    if (lua_rawgeti(L, -1, i + 1) != LUA_TSTRING)
      luaL_error(L, "serve: tokens: expected texts, got %s", luaL_tolstring(L, -1, NULL));
    const char *token = lua_pushfstring(L, "Bearer %s", lua_tostring(L, -1));
    char *copy = s->tokens ? strdup(token) : NULL;
    if (copy == NULL) luaL_error(L, "not enough memory");
    s->tokens[s->ntokens++] = copy;
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}

/* Pushes nil and a message, and returns 2. Releases the server, which could not be started. */
static int give_up(lua_State *L, Server **box, const char *message, const char *detail) {
  Server *s = *box;
  *box = NULL;
  return fail(L, s, message, detail);
}

/* start{port, address, threads, body, memory, connections, timeout, receive_timeout, backlog,
** queue, key, certificate, log, tokens} starts a server and returns it. On failure, it returns nil
** and a message. Requests without a route go to queue 0, in which at most `queue` requests wait.
** Times are in seconds; `body` and `memory` (of a connection) are in bytes. */
int http_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  const char *message = load_library();
  if (message) return fail(L, NULL, message, NULL);
  Server **box = push_server(L);
  Server *s = calloc(1, sizeof *s);
  if (s == NULL) return fail(L, NULL, "not enough memory", NULL);
  s->refs = 1;
  s->id = -1;
  pthread_mutex_init(&s->lock, NULL);
  pthread_rwlock_init(&s->routes_lock, NULL);
  *box = s; /* from here on, the userdata releases the server after an error */
  s->body_most = (size_t)integer_field(L, "body", 64 << 20, 1, INT64_C(1) << 40);
  s->receive_timeout = integer_field(L, "receive_timeout", 60, 1, 86400) * 1000000000;
  s->threads = (int)integer_field(L, "threads", 1, 1, 64);
  unsigned connections = (unsigned)integer_field(L, "connections", 10000, 1, 1 << 20);
  unsigned timeout = (unsigned)integer_field(L, "timeout", 60, 1, 86400);
  size_t memory = (size_t)integer_field(L, "memory", 16384, 1024, 1 << 24);
  int port = (int)integer_field(L, "port", 8000, 0, 65535);
  int backlog = (int)integer_field(L, "backlog", 4096, 1, 65535);
  read_tokens(L, s);
  s->key = text_field(L, "key");
  s->certificate = text_field(L, "certificate");
  if ((s->key == NULL) != (s->certificate == NULL))
    return luaL_error(L, "serve: expected both key and certificate, got only %s",
                      s->key ? "key" : "certificate");
  if (s->key && !mhd.is_feature_supported(FEATURE_TLS))
    return give_up(L, box, "this libmicrohttpd was built without TLS", NULL);
  if (add_queue(s, "control", (int)integer_field(L, "queue", 4096, 1, 1 << 20), 0) < 0)
    return give_up(L, box, "not enough memory", NULL);
  if (!server_register(s)) return give_up(L, box, "too many servers in one process", NULL);
  const char *log = push_text(L, "log");
  if (!open_log(s, log))
    return give_up(L, box, lua_pushfstring(L, "access_log: cannot open \"%s\"", log),
                   strerror(errno));
  const char *why = NULL, *address = push_text(L, "address");
  int fd = listen_on(address, port, backlog, &why);
  if (fd < 0)
    return give_up(
        L, box,
        lua_pushfstring(L, "address: cannot listen on %s port %d", address ? address : "*", port),
        why ? why : strerror(errno));
  s->port = port_of(fd);
  raise_files();
  signal(SIGPIPE, SIG_IGN);
  unsigned flags =
      USE_AUTO | USE_INTERNAL_THREAD | ALLOW_SUSPEND | USE_TURBO | (s->key ? USE_TLS : 0u);
#define OPTIONS                                                                                    \
  OPTION_LOGGER, be_quiet, NULL, OPTION_LISTEN_SOCKET, fd, OPTION_MEMORY, memory,                  \
      OPTION_CONNECTIONS, connections, OPTION_TIMEOUT, timeout, OPTION_COMPLETED, on_completed, s, \
      OPTION_NOTIFY_CONNECTION, on_connection, s
#define THREADS OPTION_THREADS, (unsigned)s->threads
#define START(...) mhd.start_daemon(flags, 0, NULL, NULL, on_request, s, OPTIONS, __VA_ARGS__)
  if (s->key && s->threads > 1)
    s->daemon = START(THREADS, OPTION_KEY, s->key, OPTION_CERTIFICATE, s->certificate, OPTION_END);
  else if (s->key)
    s->daemon = START(OPTION_KEY, s->key, OPTION_CERTIFICATE, s->certificate, OPTION_END);
  else if (s->threads > 1)
    s->daemon = START(THREADS, OPTION_END);
  else
    s->daemon = START(OPTION_END);
  if (s->daemon == NULL) {
    close(fd);
    return give_up(L, box,
                   s->key ? "libmicrohttpd does not start; do key and certificate fit?"
                          : "libmicrohttpd does not start",
                   NULL);
  }
  ((ServerBox *)lua_touserdata(L, 2))->owner = true;
  lua_pushvalue(L, 2);
  return 1;
}

/* attach(id) returns the server with the number `id`. It returns nil if the server has ended. */
int http_attach(lua_State *L) {
  lua_Integer id = luaL_checkinteger(L, 1);
  Server **box = push_server(L);
  *box = find_server(id);
  if (*box == NULL) lua_pushnil(L);
  return 1;
}

static int server_id(lua_State *L) {
  lua_pushinteger(L, check_server(L)->id);
  return 1;
}

static int server_port(lua_State *L) {
  lua_pushinteger(L, check_server(L)->port);
  return 1;
}

/* server:queue(name, limit, seconds) creates a queue and returns its number. */
static int server_queue(lua_State *L) {
  Server *s = check_server(L);
  const char *name = luaL_checkstring(L, 2);
  int limit = (int)luaL_checkinteger(L, 3);
  int64_t timeout = (int64_t)(luaL_optnumber(L, 4, 0) * 1e9);
  pthread_mutex_lock(&s->lock);
  int number = -1;
  /* A queue that free_queue has freed is reused. */
  for (int i = 1; i < s->nqueues && number < 0; i++)
    if (s->queues[i]->closed && s->queues[i]->name == NULL) {
      Queue *q = s->queues[i];
      q->name = strdup(name);
      q->limit = limit;
      q->timeout = timeout;
      q->closed = false;
      for (int c = 0; c < COUNTERS; c++) atomic_store(&q->counters[c], 0);
      number = i;
    }
  if (number < 0) number = add_queue(s, name, limit, timeout);
  pthread_mutex_unlock(&s->lock);
  if (number < 0) return luaL_error(L, "serve: too many models");
  lua_pushinteger(L, number);
  return 1;
}

/* server:close_queue(queue) makes the queue refuse new requests. Once it is empty, take() returns
** nil. */
static int server_close_queue(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  pthread_mutex_lock(&s->lock);
  q->closed = true;
  pthread_cond_broadcast(&q->arrived);
  pthread_mutex_unlock(&s->lock);
  return 0;
}

/* server:free_queue(queue) frees a closed queue, whose number server:queue may then give to a
** new queue. No thread may take requests from it any more. */
static int server_free_queue(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  pthread_mutex_lock(&s->lock);
  if (q->closed && q->length == 0 && q->takers == 0) {
    free(q->name);
    q->name = NULL;
  }
  pthread_mutex_unlock(&s->lock);
  return 0;
}

/* server:route(method, path, queue) sends requests with this method and path to the queue. With
** nil as the queue, it removes the route. */
static int server_route(lua_State *L) {
  Server *s = check_server(L);
  const char *method = luaL_checkstring(L, 2), *path = luaL_checkstring(L, 3);
  Route *r = NULL;
  if (!lua_isnoneornil(L, 4)) {
    check_queue(L, s, 4);
    r = route_new(method, path);
    if (r == NULL) return luaL_error(L, "not enough memory");
    r->queue = (int)lua_tointeger(L, 4);
  }
  set_route(s, method, path, r);
  return 0;
}

/* server:fixed(method, path, status, type, body) makes the server answer requests with this
** method and path with a fixed response. */
static int server_fixed(lua_State *L) {
  Server *s = check_server(L);
  const char *method = luaL_checkstring(L, 2), *path = luaL_checkstring(L, 3);
  int status = check_status(L, 4);
  size_t size;
  const char *type = luaL_checkstring(L, 5), *body = luaL_checklstring(L, 6, &size);
  Route *r = route_new(method, path);
  if (r) r->response = text_response(type, body, size);
  if (r == NULL || r->response == NULL) {
    free_route(r);
    return luaL_error(L, "not enough memory");
  }
  r->queue = -1;
  r->status = status;
  set_route(s, method, path, r);
  return 0;
}

enum { TAKE_MOST = 256 };

/* Takes requests from a queue for server_take and server_batch, which have the same arguments.
** Returns the number of requests, or -1 if the queue is closed and empty. */
static int take(lua_State *L, Request **taken) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  lua_Integer number = luaL_checkinteger(L, 3);
  luaL_argcheck(L, number >= 0, 3, "expected at least 0");
  int most = number < TAKE_MOST ? (int)number : TAKE_MOST;
  int64_t wait = (int64_t)(luaL_checknumber(L, 4) * 1e9);
  int64_t linger = (int64_t)(luaL_optnumber(L, 5, 0) * 1e9);
  int n = 0;
  pthread_mutex_lock(&s->lock);
  if (wait_for(s, q, 1, now() + wait) && linger > 0 && q->length < most)
    wait_for(s, q, most, q->first->arrived + linger);
  bool ended = q->closed && q->length == 0;
  while (q->first && n < most) {
    Request *r = q->first;
    q->first = r->next;
    if (q->first == NULL) q->end = &q->first;
    q->length--;
    r->next = NULL;
    r->waiting = false;
    taken[n++] = r;
  }
  pthread_mutex_unlock(&s->lock);
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (taken[i]->answered || taken[i]->gone)
      request_release(taken[i]);
    else
      taken[kept++] = taken[i];
  }
  return ended && kept == 0 ? -1 : kept;
}

/* server:take(queue, most, wait, linger) returns a list of at most `most` requests, in the order
** of their arrival. It waits up to `wait` seconds for the first request. Then it waits for more
** requests, until `linger` seconds have passed since the first request arrived. It returns nil
** if the queue is closed and empty. Requests whose client has left or whose deadline has passed
** are dropped. */
static int server_take(lua_State *L) {
  Request *taken[TAKE_MOST];
  int n = take(L, taken);
  if (n < 0) lua_pushnil(L);
  if (n < 0) return 1;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_request(L, taken[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* server:batch(queue, most, wait, linger) is like server:take, but returns a Batch. */
static int server_batch(lua_State *L) {
  Request *taken[TAKE_MOST];
  int n = take(L, taken);
  if (n < 0)
    lua_pushnil(L);
  else
    push_batch(L, taken, n);
  return 1;
}

/* server:count(queue, counter, amount) adds `amount` to a counter of the queue, which all threads
** share. */
static int server_count(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  lua_Integer i = luaL_checkinteger(L, 3);
  luaL_argcheck(L, i >= 1 && i <= COUNTERS, 3, "no such counter");
  atomic_fetch_add(&q->counters[i - 1], (int64_t)luaL_checkinteger(L, 4));
  return 0;
}

/* server:counters(queue) returns the queue's counters and the number of requests that wait in
** it. */
static int server_counters(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  lua_createtable(L, COUNTERS, 0);
  for (int i = 0; i < COUNTERS; i++) {
    lua_pushinteger(L, atomic_load(&q->counters[i]));
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, q->length);
  return 2;
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

/* server:stats() returns a table of counts. Its field `statuses` counts the answers with each
** status. */
static int server_stats(lua_State *L) {
  Server *s = check_server(L);
  lua_createtable(L, 0, 10);
  set_integer(L, "accepted", atomic_load(&s->accepted));
  set_integer(L, "gone", atomic_load(&s->left));
  set_integer(L, "expired", atomic_load(&s->expired));
  set_integer(L, "refused", atomic_load(&s->refused));
  set_integer(L, "bytes_in", atomic_load(&s->bytes_in));
  set_integer(L, "bytes_out", atomic_load(&s->bytes_out));
  pthread_mutex_lock(&s->lock);
  int clients = s->nclients, open = s->nopen;
  pthread_mutex_unlock(&s->lock);
  set_integer(L, "connections", clients);
  set_integer(L, "open", open);
  lua_newtable(L);
  for (int i = 100; i < STATUSES; i++) {
    int64_t n = atomic_load(&s->statuses[i]);
    if (n == 0) continue;
    lua_pushinteger(L, n);
    lua_rawseti(L, -2, i);
  }
  lua_setfield(L, -2, "statuses");
  return 1;
}

/* server:sweep() ends requests whose clients have left and requests past their deadline. It also
** closes connections that have not sent a complete request in time. It returns three counts: of
** these two kinds of requests and of the connections. */
static int server_sweep(lua_State *L) {
  enum { MOST = 256 };
  Server *s = check_server(L);
  Request *ended[MOST];
  int gone = 0, late = 0, slow = 0;
  for (int n = MOST; n == MOST;) {
    n = sweep_round(s, ended, MOST);
    for (int i = 0; i < n; i++) {
      Request *r = ended[i];
      if (r->limit_status == 504) {
        static const char text[] = "{\"error\":\"the deadline is over\"}";
        late++;
        atomic_fetch_add(&s->expired, 1);
        r->status = 504;
        r->response = text_response("application/json", text, sizeof text - 1);
      } else {
        gone++;
        atomic_fetch_add(&s->left, 1);
        if (r->status == 0) r->status = 499;
      }
      mhd.resume_connection(r->connection);
      request_release(r);
    }
  }
  int64_t before = now() - s->receive_timeout;
  pthread_mutex_lock(&s->lock);
  for (Client *c = s->clients; c; c = c->below) {
    int64_t since = atomic_load(&c->since);
    if (since == 0 || since > before) continue;
    shutdown(c->fd, SHUT_RDWR);
    atomic_store(&c->since, 0);
    slow++;
  }
  pthread_mutex_unlock(&s->lock);
  if (s->log) fflush(s->log);
  lua_pushinteger(L, gone);
  lua_pushinteger(L, late);
  lua_pushinteger(L, slow);
  return 3;
}

/* server:drain() stops accepting connections, and closes each open connection after its next
** answer. Returns the number of requests that wait for an answer. */
static int server_drain(lua_State *L) {
  Server *s = check_server(L);
  if (!atomic_exchange(&s->draining, true) && s->daemon) {
    int fd = mhd.quiesce_daemon(s->daemon);
    if (fd >= 0) close(fd);
  }
  pthread_mutex_lock(&s->lock);
  int open = s->nopen;
  pthread_mutex_unlock(&s->lock);
  lua_pushinteger(L, open);
  return 1;
}

/* server:stop() stops the server without waiting for answers. */
static int server_stop(lua_State *L) {
  stop(check_server(L));
  return 0;
}

static int server_gc(lua_State *L) {
  ServerBox *box = luaL_checkudata(L, 1, SERVER);
  Server *s = box->server;
  box->server = NULL;
  if (s == NULL) return 0;
  if (box->owner) stop(s);
  server_release(s);
  return 0;
}

const luaL_Reg server_methods[] = {{"id", server_id},
                                   {"port", server_port},
                                   {"queue", server_queue},
                                   {"close_queue", server_close_queue},
                                   {"free_queue", server_free_queue},
                                   {"route", server_route},
                                   {"fixed", server_fixed},
                                   {"take", server_take},
                                   {"batch", server_batch},
                                   {"count", server_count},
                                   {"counters", server_counters},
                                   {"stats", server_stats},
                                   {"sweep", server_sweep},
                                   {"drain", server_drain},
                                   {"stop", server_stop},
                                   {"__gc", server_gc},
                                   {NULL, NULL}};
