/*
** requests.h - a request, from its first line to the end of its answer.
*/
#ifndef TLUA_SERVE_REQUESTS_H
#define TLUA_SERVE_REQUESTS_H

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "microhttpd.h"

typedef struct Server Server;

typedef struct Request {
  struct Request *next;          /* the next request in the queue */
  struct Request *above, *below; /* neighbours in the server's list of open requests */
  atomic_int refs;
  Server *server;
  Connection *connection; /* NULL after on_completed */
  int fd, queue, limit_status;
  char *texts; /* method, path, then the headers as name, value, ..., an empty name (owned) */
  size_t texts_size;
  const char *path;
  char *body; /* (owned) */
  size_t size, capacity;
  int64_t arrived, deadline; /* in ns; deadline is 0 if there is none */
  bool suspended, gone, answered, waiting, listed;
  bool ambiguous;     /* another server could read the end of the body elsewhere */
  Response *response; /* the answer, until it is given to the library (owned) */
  int status;
  /* the bytes of a stream that the library has not sent yet */
  char *stream; /* (owned) */
  size_t stream_size, stream_capacity;
  bool streams, ended;
  _Atomic int64_t sent;
  char peer[INET6_ADDRSTRLEN];
} Request;

#pragma GCC visibility push(hidden)
/* Returns a new request, or NULL if memory is short. */
Request *request_new(Server *s, Connection *c, const char *method, const char *url);
void request_release(Request *r);

/* Grows a block, if necessary, to hold `more` bytes after its first `size` bytes. */
bool reserve(char **block, size_t *capacity, size_t size, size_t more);
#pragma GCC visibility pop

#endif
