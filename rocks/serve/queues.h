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
  int64_t timeout; /* in ns; none: 0 */
  bool closed;
  pthread_cond_t arrived;
  _Atomic int64_t counters[COUNTERS];
} Queue;

#pragma GCC visibility push(hidden)
/* Returns the number of a new queue, or -1. */
int add_queue(Server *s, const char *name, int limit, int64_t timeout);

/* Puts a suspended request into a queue. Returns 0, or the status of an error. */
int enqueue(Server *s, Request *r, int queue, bool suspends);

/* Waits until `n` requests are there, or until `until`; returns whether there is one. The server's
** lock is held. */
bool wait_for(Server *s, Queue *q, int n, int64_t until);
#pragma GCC visibility pop

#endif
