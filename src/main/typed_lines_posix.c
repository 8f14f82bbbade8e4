/*
** typed_lines_posix.c - the history file: $XDG_STATE_HOME/tlua/history, with one entry per line;
** only the owner can read the file.
**
** An entry is appended as soon as it is typed, with a single write. So concurrent sessions keep
** each other's entries, and no entry is lost in a crash. Failures are ignored silently, since the
** history is not essential.
*/
#define _POSIX_C_SOURCE 200809L

#include "main/typed_lines.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  MAX_LINES = 10000, /* a file with more lines than this is shortened to KEPT_LINES lines */
  KEPT_LINES = 5000, /* number of lines, the newest ones, that a shortened file keeps */
  PATH_SIZE = 1024,
};

static bool find_path(char path[PATH_SIZE]) {
  const char *state = getenv("XDG_STATE_HOME");
  const char *home = getenv("HOME");
  int n;
  if (state && state[0] == '/') /* by the XDG rules a relative path is ignored */
    n = snprintf(path, PATH_SIZE, "%s/tlua/history", state);
  else if (home && home[0] == '/')
    n = snprintf(path, PATH_SIZE, "%s/.local/state/tlua/history", home);
  else
    return false;
  return n > 0 && n < PATH_SIZE;
}

static void make_parents(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
}

/* Removes the first `skip` lines of the file. The other lines are written to a new file, which is
** then renamed, so a complete file exists at any moment. */
static void cut(const char *path, FILE *old, int skip) {
  char fresh[PATH_SIZE + 8];
  snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
  int fd = mkstemp(fresh); /* mkstemp creates the file with mode 0600 */
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (out == NULL) {
    if (fd >= 0) close(fd);
    return;
  }
  rewind(old);
  for (int c = getc(old); c != EOF; c = getc(old)) {
    if (skip == 0) putc(c, out);
    if (c == '\n' && skip > 0) skip--;
  }
  bool written = !ferror(old) && !ferror(out);
  written = fclose(out) == 0 && written;
  if (!written || rename(fresh, path) != 0) unlink(fresh);
}

void tli_history_load(void (*add)(const char *line)) {
  char path[PATH_SIZE];
  FILE *file = find_path(path) ? fopen(path, "r") : NULL;
  if (file == NULL) return;
  char *line = NULL; /* owned */
  size_t size = 0;
  int count = 0;
  for (ssize_t n = getline(&line, &size, file); n > 0; n = getline(&line, &size, file)) {
    if (line[n - 1] == '\n') line[n - 1] = '\0';
    if (line[0] != '\0') add(line);
    count++;
  }
  free(line);
  if (count > MAX_LINES) cut(path, file, count - KEPT_LINES);
  fclose(file);
}

void tli_history_append(const char *line) {
  char path[PATH_SIZE];
  size_t length = strlen(line);
  char *entry = malloc(length + 1); /* owned */
  if (entry && find_path(path)) {
    memcpy(entry, line, length);
    entry[length] = '\n';
    make_parents(path);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
      ssize_t written = write(fd, entry, length + 1);
      (void)written;
      close(fd);
    }
  }
  free(entry);
}
