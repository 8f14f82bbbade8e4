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
  int queue;          /* the queue that gets the requests; -1 if `response` answers them */
  int status;         /* the status of `response` */
  Response *response; /* (owned) */
} Route;

#pragma GCC visibility push(hidden)
Route *route_new(const char *method, const char *path);
void free_route(Route *r);

/* Returns the address of the table's element for a route. The element is NULL if there is no
** such route. The caller must hold routes_lock. */
Route **find_route(Server *s, const char *method, const char *path);

/* Sets the route for a method and path to `new`, or removes the route if `new` is NULL. */
void set_route(Server *s, const char *method, const char *path, Route *new);
#pragma GCC visibility pop

#endif
