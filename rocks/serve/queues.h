/*
** queues.h - queues of requests: connections fill them, and interpreters take from them.
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
  int64_t timeout; /* in ns; 0: none */
  bool closed;
  pthread_cond_t arrived;
  _Atomic int64_t counters[COUNTERS];
} Queue;

#pragma GCC visibility push(hidden)
/* Returns the number of a new queue, or -1. */
int add_queue(Server *s, const char *name, int limit, int64_t timeout);

/* Puts a suspended request into a queue. Returns 0, or an HTTP status: 503 if the queue is closed,
** 429 if it is full. */
int enqueue(Server *s, Request *r, int queue, bool suspends);

/* Waits for `n` requests in the queue, but not longer than `until`. Returns whether the queue has
** one. The caller holds the server's lock. */
bool wait_for(Server *s, Queue *q, int n, int64_t until);
#pragma GCC visibility pop

#endif
