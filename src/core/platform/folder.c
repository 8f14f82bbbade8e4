/*
** folder.c - implements the functions of folder.h that need no system calls of their own.
*/
#include "core/platform/folder.h"

#include <stdlib.h>
#include <string.h>

typedef struct List {
  char *block; /* owned */
  size_t bytes, room;
} List;

static bool no_memory(void) { return tli_fail(TL_EMEM, "out of memory for a list of files"); }

static bool add(void *context, char kind, const char *name) {
  List *list = context;
  size_t n = strlen(name) + 2;
  if (list->bytes + n > list->room) {
    size_t room = (list->room + n) * 2;
    char *grown = realloc(list->block, room);
    if (grown == NULL) return no_memory();
    list->block = grown;
    list->room = room;
  }
  list->block[list->bytes] = kind;
  memcpy(list->block + list->bytes + 1, name, n - 1);
  list->bytes += n;
  return true;
}

char *tli_folder_list(const char *path, size_t *bytes) {
  List list = {malloc(1024), 0, 1024};
  bool ok = list.block ? tli_folder_each(path, add, &list) : no_memory();
  *bytes = list.bytes;
  if (ok) return list.block;
  free(list.block);
  return NULL;
}

/* Creates the parent folders of `path`, and changes the text of `path` meanwhile. Ignores failures,
** because the operation that follows reports them. */
static void make_parents(char *path) {
  for (char *at = path; *at; at++) {
    if (at == path || !tli_folder_separates(*at)) continue;
    char separator = *at;
    *at = '\0';
    bool made = tli_folder_make_one(path);
    *at = separator;
    (void)made;
  }
}

static bool make(const char *path) {
  if (tli_folder_make_one(path)) return true;
  size_t n = strlen(path) + 1;
  char *copy = malloc(n);
  if (copy == NULL) return tli_fail(TL_EMEM, "out of memory for a path");
  memcpy(copy, path, n);
  make_parents(copy);
  free(copy);
  return tli_folder_make_one(path) || tli_folder_fail();
}

char *tli_folder_make(const char *path) { return make(path) ? tli_folder_absolute(path) : NULL; }
