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

#pragma GCC visibility push(hidden)
/* Returns NULL when memory is short. */
Request *request_new(Server *s, Connection *c, const char *method, const char *url);
void request_release(Request *r);

/* Makes room for `more` bytes behind the first `size` ones of a block. */
bool reserve(char **block, size_t *capacity, size_t size, size_t more);
#pragma GCC visibility pop

#endif
