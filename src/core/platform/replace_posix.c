/*
** replace_posix.c - implements replace.h. If the system supports it (Linux), the new file has no
** name until it is complete. No single system call can name the new file and replace the old one,
** so the new file gets a temporary name for a moment before it replaces the old file. On other
** systems the new file has the temporary name from the start. If the program is killed while that
** name exists, the next program that saves into the folder removes the temporary file (scratch.h).
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* declares O_TMPFILE and realpath */
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <stdio_ext.h> /* __fpurge */
#endif

#include "core/platform/platform.h"
#include "core/platform/replace.h"
#include "core/platform/scratch.h"

#define MAX_LINKS 40

struct tli_Replace {
  FILE *file;      /* owned */
  char *target;    /* path of the file to replace (owned); NULL if `file` is written to directly */
  char *temporary; /* the temporary name (owned); NULL if there is none */
  /* the process that began the replacement; a forked child must not remove the file */
  pid_t process;
  bool existed; /* whether the target existed */
  struct stat older;
};

/* Whether an earlier attempt to give an unnamed file a name has failed, as it does on some systems.
** If so, temporary files get a name from the start. */
static atomic_bool needs_name;

static bool failed(const char *what) {
  const char *why = strerror(errno);
  return what ? tli_fail(TL_EIO, "%s: %s", what, why) : tli_fail(TL_EIO, "%s", why);
}

/* ---- paths ---- */

/* Returns the path dir/name, which the caller frees. */
static char *join(const char *dir, const char *name) {
  size_t n = strlen(dir) + strlen(name) + 2;
  char *path = malloc(n);
  if (path) snprintf(path, n, "%s/%s", dir, name);
  return path;
}

/* Returns the folder of a path, as a string that the caller frees. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (slash == NULL) return strdup(".");
  return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Returns whether the links in the folder refer to open files instead of names. This is so in
** /proc/self/fd, which the link /dev/stdout leads to. */
static bool leads_to_open_files(const char *folder) {
  char real[PATH_MAX];
  return realpath(folder, real) && strncmp(real, "/proc/", 6) == 0;
}

/* Replaces *path by the destination of the link at *path. Returns false at the end of the links,
** with *direct set if the last link refers to an open file. After a failure, returns false with
** *path NULL. */
static bool follow(char **path, bool *direct) {
  char link[PATH_MAX];
  ssize_t n = readlink(*path, link, sizeof link - 1);
  if (n < 0) return false;
  link[n] = '\0';
  char *folder = folder_of(*path);
  *direct = folder && leads_to_open_files(folder);
  if (*direct) {
    free(folder);
    return false;
  }
  char *next = folder == NULL ? NULL : link[0] == '/' ? strdup(link) : join(folder, link);
  free(folder);
  free(*path);
  *path = next;
  return next != NULL;
}

/* Follows all links from a path. Returns the path at their end, as a string that the caller frees;
** NULL after a failure. */
static char *end_of_links(const char *path, bool *direct) {
  char *at = strdup(path);
  int links = 0;
  *direct = false;
  while (at && follow(&at, direct)) {
    if (++links < MAX_LINKS) continue;
    free(at);
    errno = ELOOP;
    return NULL;
  }
  return at;
}

/* Returns a name for a temporary file in the folder of `target`, as a string that the caller
** frees. */
static char *temporary_name(const char *target) {
  char *folder = folder_of(target);
  char *path = folder ? tli_scratch_name(folder) : NULL;
  free(folder);
  return path;
}

/* ---- the new file ---- */

/* Opens a file without a name; -1 if that is not supported. */
static int open_nameless(const char *target, mode_t mode) {
#ifdef O_TMPFILE
  if (atomic_load(&needs_name)) return -1;
  char *folder = folder_of(target), link[64];
  int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode) : -1;
  free(folder);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fd < 0) return fd;
  /* this lock is always granted, since no other process can lock the file before it has a name */
  (void)tli_scratch_hold(fd);
  if (access(link, F_OK) == 0) return fd;
  close(fd); /* the system could not name this file later, so unnamed files are not used */
#else
  (void)target;
  (void)mode;
#endif
  return -1;
}

static int open_named(tli_Replace *r, mode_t mode) {
  int fd;
  bool taken;
  do {
    free(r->temporary);
    r->temporary = temporary_name(r->target);
    if (r->temporary == NULL) return -1;
    fd = open(r->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    taken = fd < 0 ? errno == EEXIST : !tli_scratch_hold(fd);
    if (taken && fd >= 0) close(fd);
  } while (taken);
  if (fd < 0) {
    free(r->temporary);
    r->temporary = NULL;
  }
  return fd;
}

/* Examines the target. Returns false with errno set if it cannot be written. Sets *direct if the
** target is not a plain file. */
static bool look_at_target(tli_Replace *r, bool *direct) {
  if (stat(r->target, &r->older) != 0) return errno == ENOENT;
  r->existed = true;
  *direct = !S_ISREG(r->older.st_mode);
  if (S_ISDIR(r->older.st_mode)) errno = EISDIR;
  return !S_ISDIR(r->older.st_mode) && (*direct || access(r->target, W_OK) == 0);
}

static int open_file(tli_Replace *r, const char *path, bool named) {
  bool direct = false;
  r->target = end_of_links(path, &direct);
  if (r->target == NULL || (!direct && !look_at_target(r, &direct))) return -1;
  if (direct) {
    free(r->target);
    r->target = NULL;
    return open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
  }
  /* users who cannot read the old file must not be able to read the new one */
  mode_t mode = r->existed ? 0600 : 0666;
  int fd = named ? -1 : open_nameless(r->target, mode);
  return fd >= 0 ? fd : open_named(r, mode);
}

tli_Replace *tli_replace_begin(const char *path, bool named) {
  tli_Replace *r = calloc(1, sizeof *r);
  if (r == NULL) return tli_fail_null(TL_EMEM, "out of memory");
  r->process = getpid();
  int fd = open_file(r, path, named);
  if (fd >= 0) r->file = fdopen(fd, "wb");
  if (r->file) return r;
  (void)failed(NULL);
  if (fd >= 0) close(fd);
  tli_replace_abort(r);
  return NULL;
}

FILE *tli_replace_file(tli_Replace *r) { return r->file; }

/* ---- finishing ---- */

static void drop(tli_Replace *r) {
  if (r->temporary && r->process == getpid()) unlink(r->temporary);
  free(r->temporary);
  free(r->target);
  free(r);
}

/* Closes the new file. In a forked child, first discards the buffered data (on Linux), because only
** the parent must write that data. */
static void close_unwritten(tli_Replace *r) {
#ifdef __linux__
  if (r->process != getpid()) __fpurge(r->file);
#endif
  fclose(r->file);
}

void tli_replace_abort(tli_Replace *r) {
  if (r == NULL) return;
  if (r->file) close_unwritten(r);
  drop(r);
}

/* Writes a file's data to disk. Succeeds for files that cannot be synchronised because no disk
** holds them. */
static bool sync_data(int fd) {
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

/* Copies owner, group and mode of the old file. If the group cannot be copied, the new file's group
** gets only the rights that the old file gave to everybody. */
static bool adopt(const tli_Replace *r, int fd) {
  struct stat now;
  if (!r->existed) return true;
  mode_t mode = r->older.st_mode & 07777;
  if (fstat(fd, &now) != 0) return false;
  bool same = now.st_uid == r->older.st_uid && now.st_gid == r->older.st_gid;
  if (!same && fchown(fd, r->older.st_uid, r->older.st_gid) != 0) {
    mode &= ~(mode_t)(S_ISUID | S_ISGID);
    if (now.st_gid != r->older.st_gid && fchown(fd, (uid_t)-1, r->older.st_gid) != 0)
      mode = (mode & ~(mode_t)S_IRWXG) | (mode & S_IRWXO) << 3;
  }
  return fchmod(fd, mode) == 0;
}

/* Gives an unnamed file its final name if no other file has that name, otherwise a temporary
** name. */
static bool name_it(tli_Replace *r) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(r->file));
  if (!r->existed && linkat(AT_FDCWD, link, AT_FDCWD, r->target, AT_SYMLINK_FOLLOW) == 0)
    return true;
  int status;
  do {
    free(r->temporary);
    r->temporary = temporary_name(r->target);
    if (r->temporary == NULL) return false;
    status = linkat(AT_FDCWD, link, AT_FDCWD, r->temporary, AT_SYMLINK_FOLLOW);
  } while (status != 0 && errno == EEXIST);
  if (status == 0) return true;
  free(r->temporary);
  r->temporary = NULL;
  return false;
}

static bool close_file(tli_Replace *r) {
  int status = fclose(r->file);
  r->file = NULL;
  return status == 0;
}

static bool take_name(tli_Replace *r) {
  if (r->temporary && rename(r->temporary, r->target) != 0) return false;
  free(r->temporary);
  r->temporary = NULL;
  return true;
}

/* Removes temporary files of killed programs, and writes the folder to disk, so that the new name
** is safe as well. */
static bool finish_folder(const char *target) {
  char *folder = folder_of(target);
  if (folder) tli_scratch_sweep(folder);
  int fd = folder ? open(folder, O_RDONLY | O_CLOEXEC) : -1;
  free(folder);
  /* a folder that is writable but not readable cannot be opened, and so cannot be written to
  ** disk */
  if (fd < 0) return true;
  bool ok = sync_data(fd);
  int why = errno;
  close(fd);
  errno = why;
  return ok;
}

static bool commit(tli_Replace *r, bool *again) {
  int fd = fileno(r->file);
  if (fflush(r->file) != 0) return false;
  if (r->target && !adopt(r, fd)) return false;
  if (!sync_data(fd)) return false;
  if (r->target && r->temporary == NULL && !name_it(r)) {
    *again = !atomic_exchange(&needs_name, true);
    return false;
  }
  /* the file takes its final name before the lock is released */
  if (r->target && !take_name(r)) return false;
  if (!close_file(r)) return false;
  return r->target == NULL || finish_folder(r->target);
}

bool tli_replace_commit(tli_Replace *r, bool *again) {
  *again = false;
  bool ok = commit(r, again) || failed(NULL);
  tli_replace_abort(r);
  return ok;
}
