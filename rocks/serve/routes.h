/*
** routes.h - the table by which a request's method and path find its queue or its fixed answer.
*/
#ifndef TLUA_SERVE_ROUTES_H
#define TLUA_SERVE_ROUTES_H

#include "requests.h"

enum { ROUTES = 1024 };

typedef struct Route {
  struct Route *next;
  char *key;          /* method, a space, path (owned) */
  int queue;          /* -1: `response` is the answer */
  int status;         /* of the response */
  Response *response; /* (owned) */
} Route;

#pragma GCC visibility push(hidden)
Route *route_new(const char *method, const char *path);
void free_route(Route *r);

/* Returns the place of a route in the table, which has NULL if there is none. The lock of routes
** is held. */
Route **find_route(Server *s, const char *method, const char *path);

/* Puts a route in the place of the one with its method and path. NULL only removes that one. */
void set_route(Server *s, const char *method, const char *path, Route *new);
#pragma GCC visibility pop

#endif
