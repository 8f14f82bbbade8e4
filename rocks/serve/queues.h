/*
** queues.h - queues of requests. Connections add requests, and Lua interpreters take them.
*/
#ifndef TLUA_SERVE_QUEUES_H
#define TLUA_SERVE_QUEUES_H

#include <pthread.h>

#include "requests.h"

enum { QUEUES = 1024, COUNTERS = 48 };

typedef struct Queue {
  char *name; /* (owned) */
  Request *first, **end;
  int length, limit, takers;
  int64_t timeout; /* in ns; 0 means no limit */
  bool closed;
  pthread_cond_t arrived;
  _Atomic int64_t counters[COUNTERS];
} Queue;

#pragma GCC visibility push(hidden)
/* Adds a queue. Returns its number, or -1 on failure. */
int add_queue(Server *s, const char *name, int limit, int64_t timeout);

/* Puts a request whose connection is suspended into a queue. `suspends` is true if the connection
** was suspended just now; the request then also joins the server's list of open requests. Returns
** 0 on success, or else an HTTP status: 503 if the queue is closed, 429 if it is full. */
int enqueue(Server *s, Request *r, int queue, bool suspends);

/* Waits until the queue has `n` requests, or until the time `until` has come. Returns whether
** the queue then has at least one request. The caller must hold the server's lock. */
bool wait_for(Server *s, Queue *q, int n, int64_t until);
#pragma GCC visibility pop

#endif
