/*
** server.h - a server: its queues, routes, connections and open requests.
**
** libmicrohttpd's threads read requests. A request is either answered at once (a fixed response, or
** an error), or its connection is suspended and the request is put into a queue. An interpreter in
** any thread takes requests from a queue and answers them, which resumes their connections. Several
** interpreters of the process can share a server; each finds it by its number with `attach`.
**
** Locks: a server's lock guards its queues, its lists and the states of its requests; routes_lock
** guards the table of routes. No function of libmicrohttpd is called with the server's lock held. A
** suspended connection stays open until it is resumed. The thread that sets `suspended` to false
** must resume it.
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
  /* the values of the header Authorization that are allowed (owned); NULL if requests need no
  ** token */
  char **tokens;
  int ntokens;
  size_t body_most;
  int64_t receive_timeout;
  atomic_bool draining;
  _Atomic int64_t statuses[STATUSES], accepted, left, expired, refused, bytes_in, bytes_out;
  FILE *log;
  char *key, *certificate; /* (owned) */
};

#pragma GCC visibility push(hidden)
/* Returns the time of the monotonic clock in ns. */
int64_t now(void);

/* Gives the server a number, by which find_server finds it. Returns false if the process has too
** many servers. */
bool server_register(Server *s);

/* Returns the server with this number, or NULL. The caller must release the server. */
Server *find_server(int64_t id);
void server_release(Server *s);

/* Opens the listening socket, because libmicrohttpd cannot set both an address and a backlog on a
** socket that it opens. On failure returns -1 with errno set, or -2 with *why set. */
int listen_on(const char *address, int port, int backlog, const char **why);
int port_of(int fd);

/* Raises the soft limit of the number of open files to the hard limit. */
void raise_files(void);

/* Runs one round of server:sweep: collects up to `most` requests whose client has left or whose
** deadline has passed. The caller must resume their connections. */
int sweep_round(Server *s, Request **out, int most);

/* Stops a server without waiting for answers. */
void stop(Server *s);
#pragma GCC visibility pop

#endif
