/*
** connections.h - the connections to clients. It declares the functions that libmicrohttpd calls
** for them.
*/
#ifndef TLUA_SERVE_CONNECTIONS_H
#define TLUA_SERVE_CONNECTIONS_H

#include <stdarg.h>

#include "requests.h"

/* the state of a connection, from its beginning to its end */
typedef struct Client {
  struct Client *above, *below;
  int fd;
  /* the time in ns since which the server waits for this client's next request; 0 while a request
  ** is being answered */
  _Atomic int64_t since;
} Client;

#pragma GCC visibility push(hidden)
int on_request(void *cls, Connection *c, const char *url, const char *method, const char *version,
               const char *data, size_t *size, void **request);
void on_completed(void *cls, Connection *c, void **request, int why);
void on_connection(void *cls, Connection *c, void **context, int what);
void be_quiet(void *cls, const char *format, va_list arguments);
#pragma GCC visibility pop

#endif
