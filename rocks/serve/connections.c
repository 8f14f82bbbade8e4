/*
** connections.c - reads requests. Some requests are answered at once. For all others, the
** connection is suspended and the request is put into a queue.
*/
#include "connections.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "access.h"
#include "replies.h"
#include "server.h"

static Client *client_of(Connection *c) {
  const ConnectionInfo *info = mhd.get_connection_info(c, INFO_CONTEXT);
  return info ? info->context : NULL;
}

/* Answers with the fixed response of a route, or puts the request into the route's queue. */
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
  /* The lock is held until the request is in the queue, so that no other thread changes the
  ** routes meanwhile. Otherwise the request might get into the queue of a route that has just
  ** been removed. */
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
  if (r->ambiguous)
    return refuse(s, r, 400,
                  "expected one Content-Length, or Transfer-Encoding: chunked, and no "
                  "space before the colon of a header");
  if (!is_allowed(s, c, r->path)) return refuse(s, r, 401, "expected a valid bearer token");
  const char *length = mhd.lookup_connection_value(c, KIND_HEADER, "Content-Length");
  if (length && strtoull(length, NULL, 10) > s->body_most)
    return refuse(s, r, 413, "the body is larger than this server allows");
  const char *wait = mhd.lookup_connection_value(c, KIND_HEADER, "X-Request-Timeout");
  if (wait) {
    char *end;
    double seconds = strtod(wait, &end);
    if (!(seconds > 0) || *end)
      return refuse(s, r, 400, "X-Request-Timeout: expected a positive number of seconds");
    if (seconds < 1e6) r->deadline = r->arrived + (int64_t)(seconds * 1e9);
  }
  return MHD_YES;
}

int on_request(void *cls, Connection *c, const char *url, const char *method, const char *version,
               const char *data, size_t *size, void **request) {
  Server *s = cls;
  Request *r = *request;
  (void)version;
  if (r == NULL) return begin_request(s, c, url, method, request);
  if (*size > 0) { /* a part of the body has arrived */
    atomic_fetch_add(&s->bytes_in, (int64_t)*size);
    /* A chunked body of more than twice the allowed size ends the connection. */
    if (r->size + *size > 2 * s->body_most) return MHD_NO;
    if (!reserve(&r->body, &r->capacity, r->size, *size)) return MHD_NO;
    if (r->size <= s->body_most) memcpy(r->body + r->size, data, *size);
    r->size += *size;
    *size = 0;
    return MHD_YES;
  }
  if (r->response) { /* a Lua interpreter has answered the request and resumed its connection */
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

void on_completed(void *cls, Connection *c, void **request, int why) {
  Server *s = cls;
  Request *r = *request;
  if (r == NULL) return;
  *request = NULL;
  Client *client = client_of(c);
  if (client) atomic_store(&client->since, now());
  pthread_mutex_lock(&s->lock);
  r->connection = NULL;
  /* A stream's response and its request refer to each other. Without the next two lines, neither
  ** would be freed. */
  Response *unsent = r->response;
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

void on_connection(void *cls, Connection *c, void **context, int what) {
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

void be_quiet(void *cls, const char *format, va_list arguments) {
  (void)cls, (void)format, (void)arguments;
}
