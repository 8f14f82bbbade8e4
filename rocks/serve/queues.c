/*
** queues.c - queues of requests that wait for a Lua interpreter.
*/
#include "queues.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server.h"

int add_queue(Server *s, const char *name, int limit, int64_t timeout) {
  Queue *q = s->nqueues < QUEUES ? calloc(1, sizeof *q) : NULL;
  if (q == NULL) return -1;
  q->name = strdup(name);
  q->end = &q->first;
  q->limit = limit;
  q->timeout = timeout;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
#ifndef __APPLE__
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
  pthread_cond_init(&q->arrived, &attributes);
  pthread_condattr_destroy(&attributes);
  s->queues[s->nqueues] = q;
  return s->nqueues++;
}

int enqueue(Server *s, Request *r, int queue, bool suspends) {
  pthread_mutex_lock(&s->lock);
  Queue *q = s->queues[queue];
  int status = q->closed ? 503 : q->length >= q->limit ? 429 : 0;
  if (status == 0) {
    if (q->timeout > 0 && (r->deadline == 0 || r->arrived + q->timeout < r->deadline))
      r->deadline = r->arrived + q->timeout;
    r->queue = queue;
    r->next = NULL;
    r->waiting = true;
    atomic_fetch_add(&r->refs, 1);
    *q->end = r;
    q->end = &r->next;
    q->length++;
    if (suspends) {
      r->suspended = r->listed = true;
      r->above = NULL;
      r->below = s->open;
      if (s->open) s->open->above = r;
      s->open = r;
      s->nopen++;
    }
    if (q->takers > 0) pthread_cond_signal(&q->arrived);
  }
  pthread_mutex_unlock(&s->lock);
  if (status) atomic_fetch_add(&s->refused, 1);
  return status;
}

bool wait_for(Server *s, Queue *q, int n, int64_t until) {
  while (q->length < n && !q->closed) {
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
#ifdef __APPLE__
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t left = until - now();
    if (left < 0) left = 0;
    t.tv_sec += (left + t.tv_nsec) / 1000000000;
    t.tv_nsec = (left + t.tv_nsec) % 1000000000;
#endif
    q->takers++;
    int status = pthread_cond_timedwait(&q->arrived, &s->lock, &t);
    q->takers--;
    if (status == ETIMEDOUT) break;
  }
  return q->length > 0;
}
