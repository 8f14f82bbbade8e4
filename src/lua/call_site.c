/*
** call_site.c - where the running call of the library was made. A device reports
** what it finds wrong in the data later, when that line is no longer on the stack;
** so its text is kept, once for each line and for good.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel.h"
#include "lua/value.h"

/* Texts such as "script.lua:12", which stay for good; no more than these. */
#define MOST_SITES 4096
static _Atomic(char *) sites[MOST_SITES];

/* The one text of that content; NULL when there are too many. */
static const char *intern(const char *text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  char *copy = NULL;
  for (int i = 0; i < 64; i++) {
    _Atomic(char *) *at = &sites[(hash + (uint64_t)i) % MOST_SITES];
    char *there = atomic_load_explicit(at, memory_order_acquire);
    if (there == NULL) {
      if (copy == NULL && (copy = strdup(text)) == NULL) return NULL;
      if (atomic_compare_exchange_strong(at, &there, copy)) return copy;
    }
    if (strcmp(there, text) != 0) continue;
    free(copy);
    return there;
  }
  free(copy);
  return NULL;
}

static const char *call_site(void) {
  lua_Debug line;
  char text[LUA_IDSIZE + 16];
  if (tli_calling == NULL || !tli_user_line(tli_calling, &line)) return NULL;
  snprintf(text, sizeof text, "%s:%d", line.short_src, line.currentline);
  return intern(text);
}

void tli_open_call_site(void) { atomic_store(&tli_call_site, call_site); }
