/*
** routes.h - the table that maps a request's method and path to a queue or to a fixed answer.
*/
#ifndef TLUA_SERVE_ROUTES_H
#define TLUA_SERVE_ROUTES_H

#include "requests.h"

enum { ROUTES = 1024 };

typedef struct Route {
  struct Route *next;
  char *key;          /* the method, a space and the path (owned) */
  int queue;          /* the queue that gets the requests; -1: `response` is their answer */
  int status;         /* status of `response` */
  Response *response; /* (owned) */
} Route;

#pragma GCC visibility push(hidden)
Route *route_new(const char *method, const char *path);
void free_route(Route *r);

/* Returns the slot of a route in the table; the slot has NULL if there is no such route. The caller
** holds routes_lock. */
Route **find_route(Server *s, const char *method, const char *path);

/* Replaces the route for a method and path by `new`, or removes it if `new` is NULL. */
void set_route(Server *s, const char *method, const char *path, Route *new);
#pragma GCC visibility pop

#endif
