/*
** access.c - checks bearer tokens, and logs every request in the common log format.
*/
#include "access.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server.h"

/* Compares two texts. The time depends only on their lengths, so it tells an attacker nothing
** about the characters of a token. An attacker may learn a token's length. */
static bool equal_secret(const char *a, const char *b) {
  size_t n = strlen(a);
  if (n != strlen(b)) return false;
  unsigned char different = 0;
  for (size_t i = 0; i < n; i++) different |= (unsigned char)(a[i] ^ b[i]);
  return different == 0;
}

static bool is_public(const char *path) {
  return strcmp(path, "/v2/health/live") == 0 || strcmp(path, "/v2/health/ready") == 0 ||
         strcmp(path, "/") == 0;
}

bool is_allowed(Server *s, Connection *c, const char *path) {
  if (s->ntokens == 0 || is_public(path)) return true;
  const char *given = mhd.lookup_connection_value(c, KIND_HEADER, "Authorization");
  bool found = false;
  for (int i = 0; given && i < s->ntokens; i++) found |= equal_secret(s->tokens[i], given);
  return found;
}

bool open_log(Server *s, const char *path) {
  if (path == NULL) return true;
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "ae");
  if (file == NULL) return false;
  setvbuf(file, NULL, _IOLBF, 0);
  s->log = file;
  return true;
}

void write_log(Server *s, const Request *r) {
  char when[40], path[512];
  time_t t = time(NULL);
  struct tm parts;
  strftime(when, sizeof when, "%d/%b/%Y:%H:%M:%S +0000", gmtime_r(&t, &parts));
  size_t n = 0;
  for (const char *p = r->path; *p && n + 5 < sizeof path; p++) {
    unsigned char b = (unsigned char)*p;
    if (b > ' ' && b < 127 && b != '"' && b != '\\')
      path[n++] = *p;
    else
      n += (size_t)snprintf(path + n, 5, "\\x%02X", b);
  }
  path[n] = 0;
  fprintf(s->log, "%s - - [%s] \"%s %s HTTP/1.1\" %d %lld %.6f%s\n", r->peer[0] ? r->peer : "-",
          when, r->texts, path, r->status, (long long)atomic_load(&r->sent),
          (double)(now() - r->arrived) * 1e-9, r->gone ? " gone" : "");
}
