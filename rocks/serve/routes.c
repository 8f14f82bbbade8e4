/*
** routes.c - a hash table that maps a method and a path to a route.
*/
#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

static unsigned hash_of(const char *method, const char *path) {
  unsigned h = 2166136261u;
  for (; *method; method++) h = (h ^ (unsigned char)*method) * 16777619u;
  h = (h ^ ' ') * 16777619u;
  for (; *path; path++) h = (h ^ (unsigned char)*path) * 16777619u;
  return h % ROUTES;
}

static bool is_route(const Route *r, const char *method, const char *path) {
  size_t n = strlen(method);
  return strncmp(r->key, method, n) == 0 && r->key[n] == ' ' && strcmp(r->key + n + 1, path) == 0;
}

Route **find_route(Server *s, const char *method, const char *path) {
  Route **place = &s->routes[hash_of(method, path)];
  while (*place && !is_route(*place, method, path)) place = &(*place)->next;
  return place;
}

void free_route(Route *r) {
  if (r == NULL) return;
  if (r->response) mhd.destroy_response(r->response);
  free(r->key);
  free(r);
}

void set_route(Server *s, const char *method, const char *path, Route *new) {
  pthread_rwlock_wrlock(&s->routes_lock);
  Route **place = find_route(s, method, path), *old = *place;
  if (old) *place = old->next;
  if (new) {
    new->next = *place;
    *place = new;
  }
  pthread_rwlock_unlock(&s->routes_lock);
  free_route(old);
}

Route *route_new(const char *method, const char *path) {
  Route *r = calloc(1, sizeof *r);
  size_t n = strlen(method) + strlen(path) + 2;
  if (r) r->key = malloc(n);
  if (r && r->key == NULL) {
    free(r);
    r = NULL;
  }
  if (r) snprintf(r->key, n, "%s %s", method, path);
  return r;
}
