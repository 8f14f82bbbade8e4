/*
** replace_windows.c - implements replace.h. If the program is killed, the temporary file
** .tlua-PROCESS-COUNT-TIME.tmp stays in the target's folder. The next program that saves into the
** folder removes the file if no process with the ID in its name is running. It also removes the
** file if that process has started after the file was made, because then another process had the ID
** before.
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

#include "core/platform/platform.h"
#include "core/platform/replace.h"

struct tli_Replace {
  FILE *file;      /* owned */
  char *target;    /* path of the file to replace (owned); NULL if `file` is written to directly */
  char *temporary; /* owned */
};

static bool is_device(const char *path) {
  struct _stat64 s;
  return _stat64(path, &s) == 0 && !(s.st_mode & (_S_IFREG | _S_IFDIR));
}

/* Returns the length of the folder in a path, including the separator. */
static size_t folder_length(const char *path) {
  size_t n = strlen(path);
  while (n > 0 && strchr("/\\:", path[n - 1]) == NULL) n--;
  return n;
}

/* Returns a new temporary name in the target's folder, as a string that the caller frees. */
static char *temporary_name(const char *target) {
  static atomic_uint count;
  size_t folder = folder_length(target), n = folder + 64;
  char *name = malloc(n);
  if (name)
    snprintf(name, n, "%.*s.tlua-%d-%u-%llx.tmp", (int)folder, target, _getpid(),
             atomic_fetch_add(&count, 1), (unsigned long long)tli_time_ns());
  return name;
}

/* ---- files of killed programs ---- */

/* Returns whether the process that created an object at time `since`, in ns since 1970, still runs.
** Returns true if that is unknown. */
static bool runs(unsigned long process, unsigned long long since) {
  HANDLE handle = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, process);
  if (handle == NULL) return GetLastError() != ERROR_INVALID_PARAMETER;
  FILETIME begun, ended, kernel, user;
  DWORD status;
  bool live = !GetExitCodeProcess(handle, &status) || status == STILL_ACTIVE;
  if (live && GetProcessTimes(handle, &begun, &ended, &kernel, &user)) {
    unsigned long long ticks = (unsigned long long)begun.dwHighDateTime << 32 | begun.dwLowDateTime;
    /* Windows gives the start time of a process in steps of 100 ns since 1601 */
    live = (ticks - 116444736000000000ull) * 100 <= since;
  }
  CloseHandle(handle);
  return live;
}

/* Removes a temporary file that a killed program has left. The removal fails if another process has
** the file open, because the C library opens files in a mode that forbids it. */
static void remove_left(const char *folder, int length, const char *name) {
  unsigned long process;
  unsigned count;
  unsigned long long since;
  char path[MAX_PATH], again[MAX_PATH];
  if (sscanf(name, ".tlua-%lu-%u-%llx.tmp", &process, &count, &since) != 3) return;
  snprintf(again, sizeof again, ".tlua-%lu-%u-%llx.tmp", process, count, since);
  if (strcmp(name, again) != 0 || runs(process, since)) return;
  int n = snprintf(path, sizeof path, "%.*s%s", length, folder, name);
  if (n > 0 && (size_t)n < sizeof path) DeleteFileA(path);
}

/* Removes the temporary files that killed programs have left in the target's folder. Skips network
** drives, since nothing is known about other machines' processes. */
static void sweep(const char *target) {
  size_t folder = folder_length(target);
  WIN32_FIND_DATAA entry;
  char pattern[MAX_PATH], root[MAX_PATH];
  int n = snprintf(pattern, sizeof pattern, "%.*s.tlua-*.tmp", (int)folder, target);
  if (n < 0 || (size_t)n >= sizeof pattern) return;
  if (!GetVolumePathNameA(pattern, root, sizeof root)) return;
  UINT drive = GetDriveTypeA(root);
  if (drive != DRIVE_FIXED && drive != DRIVE_RAMDISK) return;
  HANDLE search = FindFirstFileA(pattern, &entry);
  if (search == INVALID_HANDLE_VALUE) return;
  do {
    if (!(entry.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)))
      remove_left(target, (int)folder, entry.cFileName);
  } while (FindNextFileA(search, &entry));
  FindClose(search);
}

/* ---- writing ---- */

static FILE *open_file(tli_Replace *r, const char *path) {
  if (is_device(path)) return fopen(path, "wb");
  r->target = _strdup(path);
  r->temporary = r->target ? temporary_name(path) : NULL;
  if (r->temporary == NULL) return NULL;
  int fd = _open(r->temporary, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
  return fd < 0 ? NULL : _fdopen(fd, "wb");
}

tli_Replace *tli_replace_begin(const char *path, bool named) {
  (void)named; /* the temporary file always has a name, since unnamed files are not used here */
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
  if (ok && r->target) sweep(r->target);
  tli_replace_abort(r);
  return ok;
}
