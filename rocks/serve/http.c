/*
** http.c - HTTP for tlua.serve: a module of Lua in C, which drives libmicrohttpd.
**
** The library's threads read requests. A request is either answered at once (a fixed response, or
** an error), or its connection is suspended and the request put into a queue. An interpreter in any
** thread takes requests from a queue and answers them, which resumes their connections. Several
** interpreters of the process share a server by its number (`attach`).
**
** Locks: a server's lock guards its queues, its lists and the states of its requests; the lock of
** routes guards the table of routes. No function of libmicrohttpd is called with the server's lock
** held. A suspended connection stays open until the one thread resumes it that has set
** `suspended` to false.
*/
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "microhttpd.h"
#include "numbers.h"

#define SERVER "tlua.serve.Server"
#define REQUEST "tlua.serve.Request"

enum { SERVERS = 64, QUEUES = 1024, COUNTERS = 48, ROUTES = 1024, STATUSES = 600 };
enum { STREAM_MOST = 4 << 20 }; /* the bytes that a stream's client may be behind */

/* ---- the library ---- */

#define DECLARE(result, name, parameters) result(*name) parameters;
static struct {
  void *handle;
  MHD_FUNCTIONS(DECLARE)
} mhd;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Opens the library on first use. Returns a message on failure. */
static const char *load_library(void) {
  static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so",
                                      "libmicrohttpd.12.dylib", "libmicrohttpd.dylib", NULL};
  const char *message = NULL;
  pthread_mutex_lock(&loading);
  if (mhd.handle == NULL) {
    void *handle = NULL;
    for (int i = 0; handle == NULL && names[i]; i++) handle = dlopen(names[i], RTLD_NOW);
    if (handle == NULL)
      message = "libmicrohttpd was not found (Debian: apt install libmicrohttpd12)";
#define FIND(result, name, parameters)                                       \
  if (handle && (*(void **)&mhd.name = dlsym(handle, "MHD_" #name)) == NULL) \
    message = "libmicrohttpd has no function MHD_" #name;
    MHD_FUNCTIONS(FIND)
    if (message == NULL) mhd.handle = handle;
  }
  pthread_mutex_unlock(&loading);
  return message;
}

/* ---- servers, queues, requests ---- */

typedef struct Server Server;

typedef struct Request {
  struct Request *next;          /* in a queue */
  struct Request *above, *below; /* in the server's list of open requests */
  atomic_int refs;
  Server *server;
  Connection *connection; /* NULL once the connection is done with the request */
  int fd, queue, limit_status;
  char *texts; /* method, path, then the headers as name, value, ..., an empty name (owned) */
  size_t texts_size;
  const char *path;
  char *body; /* (owned) */
  size_t size, capacity;
  int64_t arrived, deadline; /* in ns; no deadline: 0 */
  bool suspended, gone, answered, waiting, listed;
  Response *response; /* to be queued (owned) */
  int status;
  /* the bytes of a stream that the client has not read yet */
  char *stream; /* (owned) */
  size_t stream_size, stream_capacity;
  bool streams, ended;
  _Atomic int64_t sent;
  char peer[INET6_ADDRSTRLEN];
} Request;

typedef struct Queue {
  char *name; /* (owned) */
  Request *first, **end;
  int length, limit, takers;
  int64_t timeout; /* in ns; none: 0 */
  bool closed;
  pthread_cond_t arrived;
  _Atomic int64_t counters[COUNTERS];
} Queue;

/* A connection, from accept to close. */
typedef struct Client {
  struct Client *above, *below;
  int fd;
  _Atomic int64_t since; /* since when it sends a request, in ns; 0 while one is answered */
} Client;

typedef struct Route {
  struct Route *next;
  char *key;          /* method, a space, path (owned) */
  int queue;          /* -1: `response` is the answer */
  int status;         /* of the response */
  Response *response; /* (owned) */
} Route;

struct Server {
  int id;
  atomic_int refs;
  Daemon *daemon;
  int port, threads;
  pthread_mutex_t lock;
  Queue *queues[QUEUES];
  int nqueues;
  Request *open;
  Client *clients;
  int nopen, nclients;
  pthread_rwlock_t routes_lock;
  Route *routes[ROUTES];
  char **tokens; /* texts "Bearer X" (owned); NULL: everybody may ask */
  int ntokens;
  size_t body_most;
  int64_t receive_timeout;
  atomic_bool draining;
  _Atomic int64_t statuses[STATUSES], accepted, left, expired, refused, bytes_in, bytes_out;
  FILE *log;
  char *key, *certificate; /* (owned) */
};

static Server *servers[SERVERS];
static pthread_mutex_t servers_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void server_release(Server *s);

static void request_release(Request *r) {
  if (atomic_fetch_sub(&r->refs, 1) != 1) return;
  if (r->response) mhd.destroy_response(r->response);
  free(r->texts);
  free(r->body);
  free(r->stream);
  server_release(r->server);
  free(r);
}

/* Makes room for `more` bytes behind the first `size` ones of a block. */
static bool reserve(char **block, size_t *capacity, size_t size, size_t more) {
  if (size + more <= *capacity) return true;
  size_t n = *capacity ? *capacity : 512;
  while (n < size + more) n *= 2;
  char *bigger = realloc(*block, n);
  if (bigger == NULL) return false;
  *block = bigger;
  *capacity = n;
  return true;
}

/* ---- routes ---- */

static unsigned hash_of(const char *method, const char *path) {
  unsigned h = 2166136261u;
  for (; *method; method++) h = (h ^ (unsigned char)*method) * 16777619u;
  h = (h ^ ' ') * 16777619u;
  for (; *path; path++) h = (h ^ (unsigned char)*path) * 16777619u;
  return h % ROUTES;
}

static bool is_route(const Route *r, const char *method, const char *path) {
  size_t n = strlen(method);
  return strncmp(r->key, method, n) == 0 && r->key[n] == ' ' && strcmp(r->key + n + 1, path) == 0;
}

static Route **find_route(Server *s, const char *method, const char *path) {
  Route **place = &s->routes[hash_of(method, path)];
  while (*place && !is_route(*place, method, path)) place = &(*place)->next;
  return place;
}

static void free_route(Route *r) {
  if (r == NULL) return;
  if (r->response) mhd.destroy_response(r->response);
  free(r->key);
  free(r);
}

/* ---- answers ---- */

static Response *text_response(const char *type, const char *text, size_t size) {
  Response *r = mhd.create_response_from_buffer(size, (void *)text, MEMORY_COPY);
  if (r && type && *type) mhd.add_response_header(r, "Content-Type", type);
  return r;
}

/* Answers with an error in JSON. The text needs no escapes. */
static int refuse(Server *s, Request *r, int status, const char *why) {
  char text[256];
  int n = snprintf(text, sizeof text, "{\"error\":\"%s\"}", why);
  Response *response = text_response("application/json", text, (size_t)n);
  if (response == NULL) return MHD_NO;
  if (status == 401) mhd.add_response_header(response, "WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) mhd.add_response_header(response, "Retry-After", "1");
  if (atomic_load(&s->draining) || status == 413)
    mhd.add_response_header(response, "Connection", "close");
  r->status = status;
  atomic_fetch_add(&r->sent, n);
  int ok = mhd.queue_response(r->connection, (unsigned)status, response);
  mhd.destroy_response(response);
  return ok;
}

/* Sets the answer of a request that waits for one, and resumes its connection. Takes the response
** over. Returns false if the request was answered before, or the client has gone. */
static bool answer(Request *r, int status, Response *response, int64_t size) {
  Server *s = r->server;
  if (response && atomic_load(&s->draining))
    mhd.add_response_header(response, "Connection", "close");
  pthread_mutex_lock(&s->lock);
  bool fine = !r->answered && !r->gone && r->connection && response;
  bool resume = fine && r->suspended;
  Connection *connection = r->connection;
  if (fine) {
    r->answered = true;
    r->response = response;
    r->status = status;
    r->suspended = false;
    if (size > 0) atomic_fetch_add(&r->sent, size);
  }
  pthread_mutex_unlock(&s->lock);
  if (!fine && response) mhd.destroy_response(response);
  if (resume) mhd.resume_connection(connection);
  return fine;
}

/* The body of a stream: called by the library's thread when the client can take more. */
static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t most) {
  Request *r = cls;
  Server *s = r->server;
  (void)position;
  for (int round = 0;; round++) {
    pthread_mutex_lock(&s->lock);
    size_t n = r->stream_size < most ? r->stream_size : most;
    if (n > 0) {
      memcpy(out, r->stream, n);
      memmove(r->stream, r->stream + n, r->stream_size - n);
      r->stream_size -= n;
    }
    bool ended = n == 0 && r->ended, gone = r->gone;
    bool stay = n == 0 && !ended && !gone && round == 1;
    if (stay) r->suspended = true;
    Connection *connection = r->connection;
    pthread_mutex_unlock(&s->lock);
    if (stay) return 0;
    if (n > 0 || ended || gone) {
      if (round == 1) mhd.resume_connection(connection);
      atomic_fetch_add(&r->sent, (int64_t)n);
      return n > 0 ? (ssize_t)n : gone ? END_WITH_ERROR : END_OF_STREAM;
    }
    mhd.suspend_connection(connection); /* first, so that nobody resumes it before */
  }
}

static void release_stream(void *cls) { request_release(cls); }

/* ---- requests ---- */

typedef struct Headers {
  Request *r;
  size_t capacity;
  bool failed;
} Headers;

static void add_text(Headers *h, const char *text) {
  size_t n = strlen(text) + 1;
  if (!h->failed && reserve(&h->r->texts, &h->capacity, h->r->texts_size, n)) {
    memcpy(h->r->texts + h->r->texts_size, text, n);
    h->r->texts_size += n;
  } else {
    h->failed = true;
  }
}

static int add_header(void *cls, int kind, const char *key, const char *value) {
  Headers *h = cls;
  (void)kind;
  if (key == NULL || *key == 0) return MHD_YES;
  add_text(h, key);
  add_text(h, value ? value : "");
  return MHD_YES;
}

static Client *client_of(Connection *c) {
  const ConnectionInfo *info = mhd.get_connection_info(c, INFO_CONTEXT);
  return info ? info->context : NULL;
}

static Request *request_new(Server *s, Connection *c, const char *method, const char *url) {
  Request *r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  r->refs = 1;
  r->server = s;
  atomic_fetch_add(&s->refs, 1);
  r->connection = c;
  r->queue = -1;
  r->arrived = now();
  const ConnectionInfo *info = mhd.get_connection_info(c, INFO_FD);
  r->fd = info ? info->fd : -1;
  Headers h = {r, 0, false};
  add_text(&h, method);
  add_text(&h, url);
  mhd.get_connection_values(c, KIND_HEADER, add_header, &h);
  mhd.get_connection_values(c, KIND_ARGUMENT, add_header, &h);
  add_text(&h, "");
  if (h.failed) {
    request_release(r);
    return NULL;
  }
  r->path = r->texts + strlen(r->texts) + 1;
  if (s->log) {
    info = mhd.get_connection_info(c, INFO_ADDRESS);
    const struct sockaddr *a = info ? info->address : NULL;
    if (a && a->sa_family == AF_INET)
      inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, r->peer,
                sizeof r->peer);
    else if (a && a->sa_family == AF_INET6)
      inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, r->peer,
                sizeof r->peer);
  }
  return r;
}

/* Whether the texts are equal, in a time that depends on their lengths alone. */
static bool equal_secret(const char *a, const char *b) {
  size_t n = strlen(a);
  if (n != strlen(b)) return false;
  unsigned char different = 0;
  for (size_t i = 0; i < n; i++) different |= (unsigned char)(a[i] ^ b[i]);
  return different == 0;
}

static bool is_public(const char *path) {
  return strcmp(path, "/v2/health/live") == 0 || strcmp(path, "/v2/health/ready") == 0 ||
         strcmp(path, "/") == 0;
}

static bool is_allowed(Server *s, Connection *c, const char *path) {
  if (s->ntokens == 0 || is_public(path)) return true;
  const char *given = mhd.lookup_connection_value(c, KIND_HEADER, "Authorization");
  bool found = false;
  for (int i = 0; given && i < s->ntokens; i++) found |= equal_secret(s->tokens[i], given);
  return found;
}

/* Puts a suspended request into a queue. Returns 0, or the status of an error. */
static int enqueue(Server *s, Request *r, int queue, bool suspends) {
  pthread_mutex_lock(&s->lock);
  Queue *q = s->queues[queue];
  int status = q->closed ? 503 : q->length >= q->limit ? 429 : 0;
  if (status == 0) {
    if (q->timeout > 0 && (r->deadline == 0 || r->arrived + q->timeout < r->deadline))
      r->deadline = r->arrived + q->timeout;
    r->queue = queue;
    r->next = NULL;
    r->waiting = true;
    atomic_fetch_add(&r->refs, 1);
    *q->end = r;
    q->end = &r->next;
    q->length++;
    if (suspends) {
      r->suspended = r->listed = true;
      r->above = NULL;
      r->below = s->open;
      if (s->open) s->open->above = r;
      s->open = r;
      s->nopen++;
    }
    if (q->takers > 0) pthread_cond_signal(&q->arrived);
  }
  pthread_mutex_unlock(&s->lock);
  if (status) atomic_fetch_add(&s->refused, 1);
  return status;
}

/* Queues the response of a route, or the request itself. */
static int dispatch(Server *s, Request *r, const char *method) {
  if (strcmp(method, "HEAD") == 0) method = "GET";
  pthread_rwlock_rdlock(&s->routes_lock);
  Route *route = *find_route(s, method, r->path);
  if (route && route->response) {
    r->status = route->status;
    int ok = mhd.queue_response(r->connection, (unsigned)route->status, route->response);
    pthread_rwlock_unlock(&s->routes_lock);
    return ok;
  }
  /* The lock of routes is held until the request is in the queue, so that no request follows a
  ** route that was changed. */
  mhd.suspend_connection(r->connection);
  int status = enqueue(s, r, route ? route->queue : 0, true);
  pthread_rwlock_unlock(&s->routes_lock);
  if (status == 0) return MHD_YES;
  r->limit_status = status;
  mhd.resume_connection(r->connection);
  return MHD_YES;
}

static int begin_request(Server *s, Connection *c, const char *url, const char *method,
                         void **request) {
  Request *r = request_new(s, c, method, url);
  if (r == NULL) return MHD_NO;
  *request = r;
  if (!is_allowed(s, c, r->path)) return refuse(s, r, 401, "expected a valid bearer token");
  const char *length = mhd.lookup_connection_value(c, KIND_HEADER, "Content-Length");
  if (length && strtoull(length, NULL, 10) > s->body_most)
    return refuse(s, r, 413, "the body is larger than this server allows");
  const char *wait = mhd.lookup_connection_value(c, KIND_HEADER, "X-Request-Timeout");
  double seconds = wait ? strtod(wait, NULL) : 0;
  if (seconds > 0 && seconds < 1e6) r->deadline = r->arrived + (int64_t)(seconds * 1e9);
  return MHD_YES;
}

static int on_request(void *cls, Connection *c, const char *url, const char *method,
                      const char *version, const char *data, size_t *size, void **request) {
  Server *s = cls;
  Request *r = *request;
  (void)version;
  if (r == NULL) return begin_request(s, c, url, method, request);
  if (*size > 0) { /* a part of the body */
    atomic_fetch_add(&s->bytes_in, (int64_t)*size);
    if (r->size + *size > 2 * s->body_most) return MHD_NO; /* a chunked body without end */
    if (!reserve(&r->body, &r->capacity, r->size, *size)) return MHD_NO;
    if (r->size <= s->body_most) memcpy(r->body + r->size, data, *size);
    r->size += *size;
    *size = 0;
    return MHD_YES;
  }
  if (r->response) { /* an interpreter has answered */
    Response *response = r->response;
    r->response = NULL;
    int ok = mhd.queue_response(c, (unsigned)r->status, response);
    mhd.destroy_response(response);
    return ok;
  }
  if (r->gone) return MHD_NO;
  if (r->limit_status)
    return refuse(s, r, r->limit_status,
                  r->limit_status == 429 ? "the queue of requests is full" : "not available");
  if (r->size > s->body_most)
    return refuse(s, r, 413, "the body is larger than this server allows");
  Client *client = client_of(c);
  if (client) atomic_store(&client->since, 0);
  return dispatch(s, r, method);
}

static void write_log(Server *s, const Request *r) {
  char when[40], path[512];
  time_t t = time(NULL);
  struct tm parts;
  strftime(when, sizeof when, "%d/%b/%Y:%H:%M:%S +0000", gmtime_r(&t, &parts));
  size_t n = 0;
  for (const char *p = r->path; *p && n + 5 < sizeof path; p++) {
    unsigned char b = (unsigned char)*p;
    if (b > ' ' && b < 127 && b != '"' && b != '\\')
      path[n++] = *p;
    else
      n += (size_t)snprintf(path + n, 5, "\\x%02X", b);
  }
  path[n] = 0;
  fprintf(s->log, "%s - - [%s] \"%s %s HTTP/1.1\" %d %lld %.6f%s\n", r->peer[0] ? r->peer : "-",
          when, r->texts, path, r->status, (long long)atomic_load(&r->sent),
          (double)(now() - r->arrived) * 1e-9, r->gone ? " gone" : "");
}

static void on_completed(void *cls, Connection *c, void **request, int why) {
  Server *s = cls;
  Request *r = *request;
  if (r == NULL) return;
  *request = NULL;
  Client *client = client_of(c);
  if (client) atomic_store(&client->since, now());
  pthread_mutex_lock(&s->lock);
  r->connection = NULL;
  Response *unsent =
      r->response; /* of a stream it refers to the request, which would never be freed */
  r->response = NULL;
  bool was_gone = r->gone;
  if (why != 0) r->gone = true;
  bool counts = r->gone && !was_gone;
  if (r->listed) {
    if (r->above)
      r->above->below = r->below;
    else
      s->open = r->below;
    if (r->below) r->below->above = r->above;
    s->nopen--;
    r->listed = false;
  }
  pthread_mutex_unlock(&s->lock);
  if (unsent) mhd.destroy_response(unsent);
  if (counts) atomic_fetch_add(&s->left, 1);
  if (r->status > 0 && r->status < STATUSES) atomic_fetch_add(&s->statuses[r->status], 1);
  atomic_fetch_add(&s->bytes_out, atomic_load(&r->sent));
  if (s->log) write_log(s, r);
  request_release(r);
}

static void on_connection(void *cls, Connection *c, void **context, int what) {
  Server *s = cls;
  if (what == 0) {
    Client *client = calloc(1, sizeof *client);
    *context = client;
    if (client == NULL) return;
    const ConnectionInfo *info = mhd.get_connection_info(c, INFO_FD);
    client->fd = info ? info->fd : -1;
    int on = 1;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    atomic_store(&client->since, now());
    atomic_fetch_add(&s->accepted, 1);
    pthread_mutex_lock(&s->lock);
    client->below = s->clients;
    if (s->clients) s->clients->above = client;
    s->clients = client;
    s->nclients++;
    pthread_mutex_unlock(&s->lock);
    return;
  }
  Client *client = *context;
  *context = NULL;
  if (client == NULL) return;
  pthread_mutex_lock(&s->lock);
  if (client->above)
    client->above->below = client->below;
  else
    s->clients = client->below;
  if (client->below) client->below->above = client->above;
  s->nclients--;
  pthread_mutex_unlock(&s->lock);
  free(client);
}

static void be_quiet(void *cls, const char *format, va_list arguments) {
  (void)cls, (void)format, (void)arguments;
}

/* ---- Lua: servers ---- */

static Server *check_server(lua_State *L) {
  Server *s = *(Server **)luaL_checkudata(L, 1, SERVER);
  if (s == NULL) luaL_error(L, "serve: the server is closed");
  return s;
}

static void server_release(Server *s) {
  if (atomic_fetch_sub(&s->refs, 1) != 1) return;
  pthread_mutex_lock(&servers_lock);
  if (s->id >= 0) servers[s->id] = NULL;
  pthread_mutex_unlock(&servers_lock);
  for (int i = 0; i < s->nqueues; i++) {
    free(s->queues[i]->name);
    pthread_cond_destroy(&s->queues[i]->arrived);
    free(s->queues[i]);
  }
  for (int i = 0; i < ROUTES; i++)
    for (Route *r = s->routes[i], *next; r; r = next) {
      next = r->next;
      free_route(r);
    }
  for (int i = 0; i < s->ntokens; i++) free(s->tokens[i]);
  free(s->tokens);
  free(s->key);
  free(s->certificate);
  if (s->log && s->log != stdout && s->log != stderr) fclose(s->log);
  pthread_rwlock_destroy(&s->routes_lock);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* The userdata of a server. The one that started it ends it when it is collected. */
typedef struct ServerBox {
  Server *server; /* first, since functions read the userdata as a Server ** */
  bool owner;
} ServerBox;

static Server **push_server(lua_State *L) {
  ServerBox *box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = (ServerBox){NULL, false};
  luaL_setmetatable(L, SERVER);
  return &box->server;
}

static int64_t integer_field(lua_State *L, const char *name, int64_t otherwise) {
  lua_getfield(L, 1, name);
  int64_t value = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return value;
}

/* Returns a copy of a field, or NULL. */
static char *text_field(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  const char *text = lua_tostring(L, -1);
  char *copy = text ? strdup(text) : NULL;
  lua_pop(L, 1);
  return copy;
}

/* Opens the socket, since the library's own could not have a chosen address and a queue of
** connections at once. Returns -1 with errno set, or -2 with *why set, on failure. */
static int listen_on(const char *address, int port, int backlog, const char **why) {
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *list = NULL;
  int status = getaddrinfo(address, service, &hints, &list);
  if (status != 0) {
    *why = gai_strerror(status);
    return -2;
  }
  int fd = -1;
  for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    int on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, backlog) != 0)) {
      int error = errno;
      close(fd);
      errno = error;
      fd = -1;
    }
  }
  freeaddrinfo(list);
  return fd;
}

static int port_of(int fd) {
  struct sockaddr_storage a;
  socklen_t size = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &size) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                       : ((struct sockaddr_in *)&a)->sin_port);
}

/* Raises the number of files that may be open to the system's limit. */
static void raise_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static bool open_log(Server *s, const char *path) {
  if (path == NULL) return true;
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "ae");
  if (file == NULL) return false;
  setvbuf(file, NULL, _IOLBF, 0);
  s->log = file;
  return true;
}

static int add_queue(Server *s, const char *name, int limit, int64_t timeout) {
  Queue *q = s->nqueues < QUEUES ? calloc(1, sizeof *q) : NULL;
  if (q == NULL) return -1;
  q->name = strdup(name);
  q->end = &q->first;
  q->limit = limit;
  q->timeout = timeout;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
#ifndef __APPLE__
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
  pthread_cond_init(&q->arrived, &attributes);
  pthread_condattr_destroy(&attributes);
  s->queues[s->nqueues] = q;
  return s->nqueues++;
}

static int fail(lua_State *L, Server *s, const char *message, const char *detail) {
  luaL_pushfail(L);
  if (detail)
    lua_pushfstring(L, "%s: %s", message, detail);
  else
    lua_pushstring(L, message);
  if (s) server_release(s);
  return 2;
}

/* start{port, address, threads, body, memory, connections, timeout, receive_timeout, backlog, key,
** certificate, log, tokens} returns a server, whose queue 0 takes what has no route; nil and a
** message on failure. */
static int http_start(lua_State *L) {
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
  s->body_most = (size_t)integer_field(L, "body", 64 << 20);
  s->receive_timeout = integer_field(L, "receive_timeout", 60) * 1000000000;
  s->threads = (int)integer_field(L, "threads", 1);
  if (add_queue(s, "control", (int)integer_field(L, "queue", 4096), 0) < 0)
    return fail(L, s, "not enough memory", NULL);
  pthread_mutex_lock(&servers_lock);
  for (int i = 0; i < SERVERS && s->id < 0; i++)
    if (servers[i] == NULL) servers[s->id = i] = s;
  pthread_mutex_unlock(&servers_lock);
  if (s->id < 0) return fail(L, s, "too many servers in one process", NULL);
  *box = s;
  lua_getfield(L, 1, "tokens");
  if (lua_istable(L, -1)) {
    int n = (int)lua_rawlen(L, -1);
    s->tokens = calloc((size_t)n + 1, sizeof *s->tokens);
    for (int i = 0; s->tokens && i < n; i++) {
      lua_rawgeti(L, -1, i + 1);
      const char *token = lua_pushfstring(L, "Bearer %s", luaL_checkstring(L, -1));
      if ((s->tokens[i] = strdup(token))) s->ntokens++;
      lua_pop(L, 2);
    }
  }
  lua_pop(L, 1);
  s->key = text_field(L, "key");
  s->certificate = text_field(L, "certificate");
  if (s->key && !mhd.is_feature_supported(FEATURE_TLS))
    return fail(L, NULL, "this libmicrohttpd was built without TLS", NULL);
  lua_getfield(L, 1, "log");
  if (!open_log(s, lua_tostring(L, -1))) return fail(L, NULL, lua_tostring(L, -1), strerror(errno));
  lua_getfield(L, 1, "address");
  const char *why = NULL, *address = lua_tostring(L, -1);
  int fd = listen_on(address, (int)integer_field(L, "port", 8000),
                     (int)integer_field(L, "backlog", 4096), &why);
  if (fd < 0)
    return fail(L, NULL,
                lua_pushfstring(L, "%s port %d", address ? address : "*",
                                (int)integer_field(L, "port", 8000)),
                why ? why : strerror(errno));
  s->port = port_of(fd);
  raise_files();
  signal(SIGPIPE, SIG_IGN);
  unsigned flags =
      USE_AUTO | USE_INTERNAL_THREAD | ALLOW_SUSPEND | USE_TURBO | (s->key ? USE_TLS : 0u);
  unsigned connections = (unsigned)integer_field(L, "connections", 10000);
  unsigned timeout = (unsigned)integer_field(L, "timeout", 60);
  size_t memory = (size_t)integer_field(L, "memory", 16384);
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
    return fail(L, NULL,
                s->key ? "libmicrohttpd does not start; do key and certificate fit?"
                       : "libmicrohttpd does not start",
                NULL);
  }
  ((ServerBox *)lua_touserdata(L, 2))->owner = true;
  lua_pushvalue(L, 2);
  return 1;
}

/* attach(id) returns the server with this number; nil if it has ended. */
static int http_attach(lua_State *L) {
  lua_Integer id = luaL_checkinteger(L, 1);
  Server **box = push_server(L);
  pthread_mutex_lock(&servers_lock);
  if (id >= 0 && id < SERVERS && servers[id]) {
    *box = servers[id];
    atomic_fetch_add(&servers[id]->refs, 1);
  }
  pthread_mutex_unlock(&servers_lock);
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

/* server:queue(name, limit, seconds) makes a queue and returns its number. */
static int server_queue(lua_State *L) {
  Server *s = check_server(L);
  const char *name = luaL_checkstring(L, 2);
  int limit = (int)luaL_checkinteger(L, 3);
  int64_t timeout = (int64_t)(luaL_optnumber(L, 4, 0) * 1e9);
  pthread_mutex_lock(&s->lock);
  int number = -1;
  for (int i = 1; i < s->nqueues && number < 0;
       i++) /* one that is closed and empty is free again */
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

static Queue *check_queue(lua_State *L, Server *s, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  if (i < 0 || i >= s->nqueues) luaL_error(L, "serve: there is no queue %d", (int)i);
  return s->queues[i];
}

/* server:close_queue(queue) lets the queue's takers return nil once it is empty. */
static int server_close_queue(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  pthread_mutex_lock(&s->lock);
  q->closed = true;
  pthread_cond_broadcast(&q->arrived);
  pthread_mutex_unlock(&s->lock);
  return 0;
}

/* server:free_queue(queue): a closed queue whose takers have ended may be used again. */
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

static void set_route(lua_State *L, Server *s, const char *method, const char *path, Route *new) {
  pthread_rwlock_wrlock(&s->routes_lock);
  Route **place = find_route(s, method, path), *old = *place;
  if (old) *place = old->next;
  if (new) {
    new->next = *place;
    *place = new;
  }
  pthread_rwlock_unlock(&s->routes_lock);
  free_route(old);
  (void)L;
}

static Route *route_new(const char *method, const char *path) {
  Route *r = calloc(1, sizeof *r);
  size_t n = strlen(method) + strlen(path) + 2;
  if (r) r->key = malloc(n);
  if (r && r->key == NULL) {
    free(r);
    r = NULL;
  }
  if (r) snprintf(r->key, n, "%s %s", method, path);
  return r;
}

/* server:route(method, path, queue) sends such requests to the queue; nil removes the route. */
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
  set_route(L, s, method, path, r);
  return 0;
}

/* server:fixed(method, path, status, type, body) answers such requests at once. */
static int server_fixed(lua_State *L) {
  Server *s = check_server(L);
  const char *method = luaL_checkstring(L, 2), *path = luaL_checkstring(L, 3);
  size_t size;
  const char *type = luaL_checkstring(L, 5), *body = luaL_checklstring(L, 6, &size);
  Route *r = route_new(method, path);
  if (r) r->response = text_response(type, body, size);
  if (r == NULL || r->response == NULL) {
    free_route(r);
    return luaL_error(L, "not enough memory");
  }
  r->queue = -1;
  r->status = (int)luaL_checkinteger(L, 4);
  set_route(L, s, method, path, r);
  return 0;
}

/* Waits until a request is there, or until `until`; returns whether one is. The lock is held. */
static bool wait_for(Server *s, Queue *q, int n, int64_t until) {
  while (q->length < n && !q->closed) {
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
#ifdef __APPLE__
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t left = until - now();
    if (left < 0) left = 0;
    t.tv_sec += (left + t.tv_nsec) / 1000000000;
    t.tv_nsec = (left + t.tv_nsec) % 1000000000;
#endif
    q->takers++;
    int status = pthread_cond_timedwait(&q->arrived, &s->lock, &t);
    q->takers--;
    if (status == ETIMEDOUT) break;
  }
  return q->length > 0;
}

/* server:take(queue, most, wait, linger) returns a list of at most `most` requests, in the order of
** their arrival. It waits for the first one for `wait` seconds, and then for more until `linger`
** seconds after the arrival of the first. Returns nil if the queue is closed and empty. Requests
** whose clients have gone, or whose deadline is over, are left out. */
static int server_take(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  int most = (int)luaL_checkinteger(L, 3);
  int64_t wait = (int64_t)(luaL_checknumber(L, 4) * 1e9);
  int64_t linger = (int64_t)(luaL_optnumber(L, 5, 0) * 1e9);
  lua_createtable(L, most < 64 ? most : 64, 0);
  Request *taken[256];
  if (most > 256) most = 256;
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
    Request *r = taken[i];
    if (r->answered || r->gone) {
      request_release(r);
      continue;
    }
    Request **box = lua_newuserdatauv(L, sizeof(Request *), 0);
    *box = r;
    luaL_setmetatable(L, REQUEST);
    lua_rawseti(L, -2, ++kept);
  }
  if (ended && kept == 0) lua_pushnil(L);
  return 1;
}

/* server:count(queue, counter, amount) adds to a counter that all threads share. */
static int server_count(lua_State *L) {
  Server *s = check_server(L);
  Queue *q = check_queue(L, s, 2);
  lua_Integer i = luaL_checkinteger(L, 3);
  luaL_argcheck(L, i >= 1 && i <= COUNTERS, 3, "no such counter");
  atomic_fetch_add(&q->counters[i - 1], (int64_t)luaL_checkinteger(L, 4));
  return 0;
}

/* server:counters(queue) returns the counters, and the number of requests that wait. */
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

/* server:stats() returns counts of connections and requests; `statuses` by their status. */
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

/* One round of server:sweep: collects up to `most` requests to be resumed. */
static int sweep_round(Server *s, Request **out, int most) {
  enum { AT_ONCE = 512 };
  struct pollfd fds[AT_ONCE];
  Request *of[AT_ONCE];
  int n = 0;
  int64_t t = now();
  pthread_mutex_lock(&s->lock);
  Request *r = s->open;
  while (r && n < most) {
    int polled = 0;
    for (; r && polled < AT_ONCE && n + polled < most; r = r->below) {
      if (!r->suspended) continue;
      fds[polled] = (struct pollfd){.fd = r->fd, .events = POLLRDHUP};
      of[polled++] = r;
    }
    if (poll(fds, (nfds_t)polled, 0) < 0) break;
    for (int i = 0; i < polled; i++) {
      Request *p = of[i];
      bool gone = (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
      bool late = !gone && !p->answered && p->deadline > 0 && t > p->deadline;
      if (!gone && !late) continue;
      if (gone) p->gone = true;
      p->limit_status = gone ? 0 : 504;
      if (late) p->answered = true;
      p->suspended = false;
      atomic_fetch_add(&p->refs, 1);
      out[n++] = p;
    }
  }
  pthread_mutex_unlock(&s->lock);
  return n;
}

/* server:sweep() ends requests whose clients have gone and those past their deadline, and closes
** connections on which no whole request has arrived in time. Returns how many these were. */
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

/* server:drain() accepts no more connections and closes each one after its next answer. Returns the
** number of requests that wait for an answer. */
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

/* Ends all requests that wait, since the library cannot stop while connections are suspended. */
static void end_all(Server *s) {
  for (int n = 1; n > 0;) {
    Request *list[64];
    n = 0;
    pthread_mutex_lock(&s->lock);
    for (Request *r = s->open; r && n < 64; r = r->below) {
      if (!r->suspended) continue;
      r->suspended = false;
      r->gone = r->ended = true;
      atomic_fetch_add(&r->refs, 1);
      list[n++] = r;
    }
    for (int i = 0; i < s->nqueues; i++) {
      s->queues[i]->closed = true;
      pthread_cond_broadcast(&s->queues[i]->arrived);
    }
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < n; i++) {
      mhd.resume_connection(list[i]->connection);
      request_release(list[i]);
    }
  }
}

/* Ends everything at once. */
static void stop(Server *s) {
  if (s->daemon == NULL) return;
  atomic_store(&s->draining, true);
  int fd = mhd.quiesce_daemon(s->daemon);
  if (fd >= 0) close(fd);
  /* streams suspend themselves again, until each has seen that it has ended */
  for (int i = 0; i < 3; i++) {
    end_all(s);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  Daemon *daemon = s->daemon;
  s->daemon = NULL;
  mhd.stop_daemon(daemon);
  for (int i = 0; i < s->nqueues; i++) {
    Queue *q = s->queues[i];
    for (Request *r = q->first, *next; r; r = next) {
      next = r->next;
      request_release(r);
    }
    q->first = NULL;
    q->end = &q->first;
    q->length = 0;
  }
}

/* server:stop() ends everything at once. */
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

/* ---- Lua: requests ---- */

static Request *check_request(lua_State *L) {
  Request *r = *(Request **)luaL_checkudata(L, 1, REQUEST);
  if (r == NULL) luaL_error(L, "serve: the request was forwarded");
  return r;
}

static bool feed(Request *r, const char *text, size_t size, bool ends);

static int request_gc(lua_State *L) {
  Request **box = luaL_checkudata(L, 1, REQUEST);
  Request *r = *box;
  if (r == NULL) return 0;
  static const char text[] = "{\"error\":\"the request was dropped\"}";
  if (!r->answered && !r->waiting) /* an error in Lua: the client must not wait for ever */
    answer(r, 500, text_response("application/json", text, sizeof text - 1), sizeof text - 1);
  if (r->streams) (void)feed(r, "", 0, true);
  *box = NULL;
  request_release(r);
  return 0;
}

static int request_method(lua_State *L) {
  lua_pushstring(L, check_request(L)->texts);
  return 1;
}

static int request_path(lua_State *L) {
  lua_pushstring(L, check_request(L)->path);
  return 1;
}

static int request_peer(lua_State *L) {
  lua_pushstring(L, check_request(L)->peer);
  return 1;
}

/* request:header(name) returns a header's value, or that of a parameter in the address. */
static int request_header(lua_State *L) {
  const Request *r = check_request(L);
  const char *name = luaL_checkstring(L, 2);
  for (const char *p = r->path + strlen(r->path) + 1; *p;) {
    const char *value = p + strlen(p) + 1;
    if (strcasecmp(p, name) == 0) {
      lua_pushstring(L, value);
      return 1;
    }
    p = value + strlen(value) + 1;
  }
  lua_pushnil(L);
  return 1;
}

static int request_body(lua_State *L) {
  const Request *r = check_request(L);
  lua_pushlstring(L, r->body ? r->body : "", r->size);
  return 1;
}

/* request:age() returns the seconds since the request's arrival. */
static int request_age(lua_State *L) {
  lua_pushnumber(L, (double)(now() - check_request(L)->arrived) * 1e-9);
  return 1;
}

/* request:gone() returns whether the client has left, or has got its answer. */
static int request_gone(lua_State *L) {
  const Request *r = check_request(L);
  lua_pushboolean(L, r->gone || (r->answered && !r->streams));
  return 1;
}

static void add_headers(lua_State *L, int index, Response *response) {
  if (!lua_istable(L, index)) return;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) == LUA_TSTRING && lua_isstring(L, -1))
      mhd.add_response_header(response, lua_tostring(L, -2), lua_tostring(L, -1));
    lua_pop(L, 1);
  }
}

/* request:reply(status, type, body, headers) answers. Returns false if the client has gone. */
static int request_reply(lua_State *L) {
  Request *r = check_request(L);
  int status = (int)luaL_checkinteger(L, 2);
  size_t size;
  const char *type = luaL_checkstring(L, 3), *body = luaL_checklstring(L, 4, &size);
  Response *response = text_response(type, body, size);
  if (response == NULL) return luaL_error(L, "not enough memory");
  add_headers(L, 5, response);
  lua_pushboolean(L, answer(r, status, response, (int64_t)size));
  return 1;
}

/* request:stream(status, type, headers) begins an answer in parts. */
static int request_stream(lua_State *L) {
  Request *r = check_request(L);
  int status = (int)luaL_checkinteger(L, 2);
  const char *type = luaL_checkstring(L, 3);
  if (r->streams) return luaL_error(L, "serve: the stream has begun");
  atomic_fetch_add(&r->refs, 1);
  Response *response =
      mhd.create_response_from_callback(UINT64_MAX, 4096, read_stream, r, release_stream);
  if (response == NULL) {
    request_release(r);
    return luaL_error(L, "not enough memory");
  }
  mhd.add_response_header(response, "Content-Type", type);
  add_headers(L, 4, response);
  r->streams = true;
  lua_pushboolean(L, answer(r, status, response, 0));
  return 1;
}

/* Adds to a stream, or ends it. Returns false if the client has gone or does not read. */
static bool feed(Request *r, const char *text, size_t size, bool ends) {
  Server *s = r->server;
  pthread_mutex_lock(&s->lock);
  bool fine = r->streams && !r->gone && !r->ended && r->connection;
  if (fine && r->stream_size + size > STREAM_MOST) fine = false, r->gone = true;
  if (fine && size > 0) {
    fine = reserve(&r->stream, &r->stream_capacity, r->stream_size, size);
    if (fine) {
      memcpy(r->stream + r->stream_size, text, size);
      r->stream_size += size;
    }
  }
  if (ends) r->ended = true;
  bool resume = r->suspended;
  r->suspended = false;
  Connection *connection = r->connection;
  pthread_mutex_unlock(&s->lock);
  if (resume) mhd.resume_connection(connection);
  return fine;
}

static int request_write(lua_State *L) {
  Request *r = check_request(L);
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  lua_pushboolean(L, feed(r, text, size, false));
  return 1;
}

static int request_finish(lua_State *L) {
  lua_pushboolean(L, feed(check_request(L), "", 0, true));
  return 1;
}

/* request:forward(queue) puts the request into another queue, after which the caller no longer has
** it; returns false and a status if the queue is full (429) or closed (503). */
static int request_forward(lua_State *L) {
  Request *r = check_request(L);
  check_queue(L, r->server, 2);
  int status = enqueue(r->server, r, (int)lua_tointeger(L, 2), false);
  if (status == 0) {
    *(Request **)lua_touserdata(L, 1) = NULL;
    request_release(r);
  }
  lua_pushboolean(L, status == 0);
  lua_pushinteger(L, status);
  return 2;
}

/* ---- Lua: signals, the library ---- */

static volatile sig_atomic_t arrived_signal;

static void on_signal(int number) { arrived_signal = number; }

/* catch() makes SIGTERM, SIGINT and SIGHUP arrive through signalled(). */
static int http_catch(lua_State *L) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
  arrived_signal = 0;
  (void)L;
  return 0;
}

/* signalled() returns the signal that has arrived since the last call: "stop", "reload" or nil. */
static int http_signalled(lua_State *L) {
  int number = arrived_signal;
  arrived_signal = 0;
  if (number == 0)
    lua_pushnil(L);
  else
    lua_pushstring(L, number == SIGHUP ? "reload" : "stop");
  return 1;
}

/* library() returns the library's name and version; nil and a message without it. */
static int http_library(lua_State *L) {
  const char *message = load_library();
  if (message) return fail(L, NULL, message, NULL);
  lua_pushfstring(L, "libmicrohttpd %s", mhd.get_version());
  return 1;
}

static void new_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_tlua_serve_http(lua_State *L);
int luaopen_tlua_serve_http(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", http_start},     {"attach", http_attach},
                                       {"catch", http_catch},     {"signalled", http_signalled},
                                       {"library", http_library}, {NULL, NULL}};
  static const luaL_Reg server[] = {{"id", server_id},
                                    {"port", server_port},
                                    {"queue", server_queue},
                                    {"close_queue", server_close_queue},
                                    {"free_queue", server_free_queue},
                                    {"route", server_route},
                                    {"fixed", server_fixed},
                                    {"take", server_take},
                                    {"count", server_count},
                                    {"counters", server_counters},
                                    {"stats", server_stats},
                                    {"sweep", server_sweep},
                                    {"drain", server_drain},
                                    {"stop", server_stop},
                                    {"__gc", server_gc},
                                    {NULL, NULL}};
  static const luaL_Reg request[] = {{"method", request_method}, {"path", request_path},
                                     {"peer", request_peer},     {"header", request_header},
                                     {"body", request_body},     {"age", request_age},
                                     {"gone", request_gone},     {"reply", request_reply},
                                     {"stream", request_stream}, {"write", request_write},
                                     {"finish", request_finish}, {"forward", request_forward},
                                     {"__gc", request_gc},       {NULL, NULL}};
  new_class(L, SERVER, server);
  new_class(L, REQUEST, request);
  luaL_newlib(L, functions);
  luaL_setfuncs(L, tlua_serve_numbers, 0);
  return 1;
}
