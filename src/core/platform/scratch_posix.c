/*
** scratch_posix.c - implements scratch.h. Before a file is removed, it is locked, and its temporary
** name is looked up again. If the file has received its final name meanwhile, it is kept.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_NOFOLLOW */
#endif

#include "core/platform/scratch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/vfs.h>
#elif defined(__APPLE__) || defined(__FreeBSD__)
#include <sys/mount.h>
#include <sys/param.h>
#endif

#include "core/platform/platform.h"

char *tli_scratch_name(const char *folder) {
  static atomic_uint count;
  size_t n = strlen(folder) + 64;
  char *path = malloc(n);
  if (path)
    snprintf(path, n, "%s/.tlua-%ld-%u-%llx.tmp", folder, (long)getpid(),
             atomic_fetch_add(&count, 1), (unsigned long long)tli_time_ns());
  return path;
}

bool tli_scratch_hold(int fd) {
  struct stat now;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK && errno != EINTR;
  return fstat(fd, &now) != 0 || now.st_nlink > 0;
}

/* Skips digits of base 10 or 16 and the text `then` after them. Returns NULL if the text at `at`
** differs. */
static const char *skip(const char *at, int base, const char *then) {
  const char *start = at;
  while (base == 10 ? isdigit((unsigned char)*at) : isxdigit((unsigned char)*at)) at++;
  size_t n = strlen(then);
  return at == start || strncmp(at, then, n) != 0 ? NULL : at + n;
}

static bool is_ours(const char *name) {
  if (strncmp(name, ".tlua-", 6) != 0) return false;
  const char *at = skip(name + 6, 10, "-");
  at = at ? skip(at, 10, "-") : NULL;
  at = at ? skip(at, 16, ".tmp") : NULL;
  return at && *at == '\0';
}

/* Returns whether only this machine writes to the folder's file system. */
static bool is_local(int folder) {
#ifdef __linux__
  static const unsigned long known[] = {
      0xef53,     /* the magic number of ext2, ext3 and ext4 */
      0x58465342, /* XFS */
      0x9123683e, /* Btrfs */
      0x2fc12fc1, /* ZFS */
      0xf2f52010, /* F2FS */
      0xca451a4e, /* bcachefs */
      0x01021994, /* tmpfs */
      0x858458f6, /* ramfs */
      0x794c7630, /* overlayfs */
  };
  struct statfs s;
  if (fstatfs(folder, &s) != 0) return false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (((unsigned long)s.f_type & 0xffffffffu) == known[i]) return true;
#elif defined(__APPLE__) || defined(__FreeBSD__)
  struct statfs s;
  return fstatfs(folder, &s) == 0 && (s.f_flags & MNT_LOCAL) != 0;
#else
  (void)folder;
#endif
  return false;
}

static void remove_left(int folder, const char *name) {
  struct stat held, named;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &held) == 0 && S_ISREG(held.st_mode) &&
      fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == held.st_dev &&
      named.st_ino == held.st_ino)
    unlinkat(folder, name, 0);
  close(fd);
}

void tli_scratch_sweep(const char *folder) {
  int why = errno;
  DIR *entries = opendir(folder);
  if (entries && is_local(dirfd(entries)))
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
      if (is_ours(entry->d_name)) remove_left(dirfd(entries), entry->d_name);
  if (entries) closedir(entries);
  errno = why;
}
