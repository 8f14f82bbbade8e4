/*
** replace_windows.c - see replace.h.
*/
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

#include "core/platform.h"
#include "core/replace.h"

struct tli_Replace {
  FILE *file;      /* owned */
  char *target;    /* owned; NULL: `file` is what was to be written into */
  char *temporary; /* owned */
};

static bool is_device(const char *path) {
  struct _stat64 s;
  return _stat64(path, &s) == 0 && !(s.st_mode & (_S_IFREG | _S_IFDIR));
}

/* A name beside the target, another one each time. */
static char *temporary_name(const char *target) {
  static atomic_uint count;
  size_t n = strlen(target) + 64;
  char *name = malloc(n);
  if (name)
    snprintf(name, n, "%s.%d-%u-%llx.tmp", target, _getpid(), atomic_fetch_add(&count, 1),
             (unsigned long long)tli_time_ns());
  return name;
}

static FILE *open_file(tli_Replace *r, const char *path) {
  if (is_device(path)) return fopen(path, "wb");
  r->target = _strdup(path);
  r->temporary = r->target ? temporary_name(path) : NULL;
  if (r->temporary == NULL) return NULL;
  int fd = _open(r->temporary, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
  return fd < 0 ? NULL : _fdopen(fd, "wb");
}

tli_Replace *tli_replace_begin(const char *path) {
  tli_Replace *r = calloc(1, sizeof *r);
  if (r == NULL) return tli_fail_null(TL_EMEM, "out of memory");
  r->file = open_file(r, path);
  if (r->file) return r;
  (void)tli_fail(TL_EIO, "%s", strerror(errno));
  tli_replace_abort(r);
  return NULL;
}

FILE *tli_replace_file(tli_Replace *r) { return r->file; }

void tli_replace_abort(tli_Replace *r) {
  if (r == NULL) return;
  if (r->file) fclose(r->file);
  if (r->temporary) remove(r->temporary);
  free(r->temporary);
  free(r->target);
  free(r);
}

bool tli_replace_commit(tli_Replace *r, bool *again) {
  *again = false;
  bool ok = r->target == NULL ? fflush(r->file) == 0 : tli_file_sync(r->file);
  FILE *file = r->file;
  r->file = NULL;
  ok = fclose(file) == 0 && ok;
  if (!ok) (void)tli_fail(TL_EIO, "%s", strerror(errno));
  if (ok && r->target &&
      !MoveFileExA(r->temporary, r->target, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
    ok = tli_fail(TL_EIO, "the file could not be replaced: error %lu", GetLastError());
  tli_replace_abort(r);
  return ok;
}
