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
  Connection *connection; /* set to NULL when on_completed has run */
  int fd, queue, limit_status;
  /* method, path, then the name and value of each header and of each parameter in the URL, then an
  ** empty name (owned) */
  char *texts;
  size_t texts_size;
  const char *path;
  char *body; /* (owned) */
  size_t size, capacity;
  int64_t arrived, deadline; /* in ns; a deadline of 0 means none */
  bool suspended, gone, answered, waiting, listed;
  bool ambiguous;     /* whether another server could see the end of the body in another place */
  Response *response; /* the answer, until libmicrohttpd takes it (owned) */
  int status;
  /* the bytes of a stream that libmicrohttpd has not sent yet */
  char *stream; /* (owned) */
  size_t stream_size, stream_capacity;
  bool streams, ended;
  _Atomic int64_t sent;
  char peer[INET6_ADDRSTRLEN];
} Request;

#pragma GCC visibility push(hidden)
/* Creates a request. Returns NULL if memory is short. */
Request *request_new(Server *s, Connection *c, const char *method, const char *url);
void request_release(Request *r);

/* Enlarges a block, if necessary, so that `more` bytes fit after its first `size` bytes. */
bool reserve(char **block, size_t *capacity, size_t size, size_t more);
#pragma GCC visibility pop

#endif
