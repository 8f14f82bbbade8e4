/*
** requests.c - creates a request from its first line and its headers, and frees requests.
*/
#include "requests.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "server.h"

void request_release(Request *r) {
  if (atomic_fetch_sub(&r->refs, 1) != 1) return;
  if (r->response) mhd.destroy_response(r->response);
  free(r->texts);
  free(r->body);
  free(r->stream);
  server_release(r->server);
  free(r);
}

bool reserve(char **block, size_t *capacity, size_t size, size_t more) {
  if (size + more <= *capacity) return true;
  size_t n = *capacity ? *capacity : 512;
  while (n < size + more) n *= 2;
  char *bigger = realloc(*block, n);
  if (bigger == NULL) return false;
  *block = bigger;
  *capacity = n;
  return true;
}

typedef struct Headers {
  Request *r;
  size_t capacity;
  bool failed;
  /* how many headers Content-Length and Transfer-Encoding the request has */
  int lengths, encodings;
} Headers;

static void add_text(Headers *h, const char *text) {
  size_t n = strlen(text) + 1;
  if (!h->failed && reserve(&h->r->texts, &h->capacity, h->r->texts_size, n)) {
    memcpy(h->r->texts + h->r->texts_size, text, n);
    h->r->texts_size += n;
  } else {
    h->failed = true;
  }
}

/* Marks a request as ambiguous if two servers could see the end of its body in different places
** (RFC 9112, 6.3). An attacker could hide a second request in the rest of such a body. */
static void check_length(Headers *h, const char *key, const char *value) {
  size_t n = strlen(key);
  if (key[n - 1] == ' ' || key[n - 1] == '\t') h->r->ambiguous = true;
  if ((*key | 32) == 'c' && strcasecmp(key, "Content-Length") == 0) h->lengths++;
  if ((*key | 32) == 't' && strcasecmp(key, "Transfer-Encoding") == 0) {
    h->encodings++;
    if (value == NULL || strcasecmp(value, "chunked") != 0) h->r->ambiguous = true;
  }
  if (h->lengths + h->encodings > 1) h->r->ambiguous = true;
}

static int add_header(void *cls, int kind, const char *key, const char *value) {
  Headers *h = cls;
  if (key == NULL || *key == 0) return MHD_YES;
  if (kind == KIND_HEADER) check_length(h, key, value);
  add_text(h, key);
  add_text(h, value ? value : "");
  return MHD_YES;
}

Request *request_new(Server *s, Connection *c, const char *method, const char *url) {
  Request *r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  r->refs = 1;
  r->server = s;
  atomic_fetch_add(&s->refs, 1);
  r->connection = c;
  r->queue = -1;
  r->arrived = now();
  const ConnectionInfo *info = mhd.get_connection_info(c, INFO_FD);
  r->fd = info ? info->fd : -1;
  Headers h = {.r = r};
  add_text(&h, method);
  add_text(&h, url);
  mhd.get_connection_values(c, KIND_HEADER, add_header, &h);
  mhd.get_connection_values(c, KIND_ARGUMENT, add_header, &h);
  add_text(&h, "");
  if (h.failed) {
    request_release(r);
    return NULL;
  }
  r->path = r->texts + strlen(r->texts) + 1;
  if (s->log) {
    info = mhd.get_connection_info(c, INFO_ADDRESS);
    const struct sockaddr *a = info ? info->address : NULL;
    if (a && a->sa_family == AF_INET)
      inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, r->peer,
                sizeof r->peer);
    else if (a && a->sa_family == AF_INET6)
      inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, r->peer,
                sizeof r->peer);
  }
  return r;
}
