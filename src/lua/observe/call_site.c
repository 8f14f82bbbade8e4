/*
** call_site.c - finds the line that called the library. A device reports a fault in data only
** later, when the line that caused it is no longer on the Lua stack. So the text of each calling
** line is stored once and never freed. For the history of memory, this file stores whole call
** stacks.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/observe/history.h"
#include "core/device/backend.h"
#include "core/kernel/hash.h"
#include "lua/tensor/value.h"

/* The largest number of source lines whose text, such as "script.lua:12", is stored. The texts are
** never freed. */
#define MOST_SITES 4096
static _Atomic(char *) sites[MOST_SITES];

/* Returns the stored copy of a text, and stores the text if necessary. Returns NULL if too many
** texts are stored. */
static const char *intern(const char *text) {
  uint64_t hash = tli_hash(TLI_HASH_SEED, text, strlen(text));
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

/* ---- whole stacks, for the history of memory ---- */

static size_t add_line(char *text, size_t size, const char *source, int line, const char *name) {
  int n = snprintf(text, size, "%.200s\t%d\t%.100s\n", source, line, name);
  return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* Writes the call stack: the name of the operator, then the Lua functions from the innermost
** outward. */
static size_t call_stack(char *text, size_t size) {
  lua_State *L = tli_calling;
  lua_Debug ar;
  size_t used = 0, n = 1;
  if (L == NULL) return 0;
  if (tli_operator()) used = add_line(text, size, "tlua", 0, tli_operator());
  for (int level = 0; n > 0 && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sln", &ar);
    if (ar.currentline <= 0) continue;
    const char *source = *ar.source == '@' || *ar.source == '=' ? ar.source + 1 : ar.short_src;
    const char *name = ar.name ? ar.name : *ar.what == 'm' ? "main chunk" : "anonymous";
    used += n = add_line(text + used, size - used, source, ar.currentline, name);
  }
  return used;
}

static int call_frames(tli_Frame *frames, int most) {
  lua_State *L = tli_calling;
  lua_Debug ar;
  int n = 0;
  for (int level = 0; L && n < most && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0) frames[n++] = (tli_Frame){ar.source, ar.currentline, ar.linedefined};
  }
  return n;
}

/* ---- warnings ---- */

/* Passes a warning to Lua's warning function, after adding the line of the call and the
** operator. */
static void show_warning(const char *warning) {
  lua_State *L = tli_calling;
  const char *site = call_site(), *op = tli_operator();
  char text[256];
  if (L == NULL) return;
  snprintf(text, sizeof text, "%s%s%s: %s", site ? site : "", site ? ": " : "",
           op ? op : "an operator", warning);
  lua_warning(L, text, 0);
}

void tli_open_call_site(void) {
  atomic_store(&tli_warn, show_warning);
  atomic_store(&tli_call_frames, call_frames);
  atomic_store(&tli_call_site, call_site);
  atomic_store(&tli_read_call_stack, call_stack);
}
