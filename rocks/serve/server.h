/*
** server.h - a server: its queues, routes, connections and open requests.
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
#ifndef TLUA_SERVE_SERVER_H
#define TLUA_SERVE_SERVER_H

#include <stdio.h>

#include "connections.h"
#include "queues.h"
#include "routes.h"

enum { STATUSES = 600 };

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

#pragma GCC visibility push(hidden)
/* Returns the time in ns by a clock that is never set. */
int64_t now(void);

/* Gives the server a number, by which find_server finds it; false if there are too many. */
bool server_register(Server *s);

/* Returns the server with this number for the caller to release, or NULL. */
Server *find_server(int64_t id);
void server_release(Server *s);

/* Opens the socket, since the library's own could not have a chosen address and a queue of
** connections at once. Returns -1 with errno set, or -2 with *why set, on failure. */
int listen_on(const char *address, int port, int backlog, const char **why);
int port_of(int fd);

/* Raises the number of files that may be open to the system's limit. */
void raise_files(void);

/* One round of server:sweep: collects up to `most` requests to be resumed. */
int sweep_round(Server *s, Request **out, int most);

/* Ends everything at once. */
void stop(Server *s);
#pragma GCC visibility pop

#endif
