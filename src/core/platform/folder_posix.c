/*
** folder_posix.c - implements folder.h with POSIX calls.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath */
#endif

#include "core/platform/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

bool tli_folder_fail(void) { return tli_fail(TL_EIO, "%s", strerror(errno)); }

/* Returns the kind of a folder's entry: 'd' for a folder, 'l' for a link to one, 'f' for a file or
** a broken link, 's' for a pipe, a socket or a device. */
static char kind_of(DIR *folder, const char *name) {
  struct stat info;
  if (fstatat(dirfd(folder), name, &info, 0) != 0) return 'f';
  if (!S_ISDIR(info.st_mode)) return S_ISREG(info.st_mode) ? 'f' : 's';
  bool link =
      fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
  return link ? 'l' : 'd';
}

static bool each(DIR *folder, tli_FolderEntry *take, void *context) {
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    if (entry == NULL) return errno == 0 || tli_folder_fail();
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    TL_TRY(take(context, kind_of(folder, name), name));
  }
}

bool tli_folder_each(const char *path, tli_FolderEntry *take, void *context) {
  DIR *folder = opendir(path);
  if (folder == NULL) return tli_folder_fail();
  bool ok = each(folder, take, context);
  closedir(folder);
  return ok;
}

bool tli_folder_make_one(const char *path) {
  struct stat info;
  if (mkdir(path, 0777) == 0) return true;
  if (errno != EEXIST) return false;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

char *tli_folder_absolute(const char *path) {
  char *full = realpath(path, NULL);
  if (full == NULL) return tli_fail_null(TL_EIO, "%s", strerror(errno));
  return full;
}

bool tli_folder_separates(char c) { return c == '/'; }

bool tli_folder_file(const char *path, int64_t *bytes, int64_t *written) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  *bytes = (int64_t)info.st_size;
  *written = (int64_t)info.st_mtime;
  return true;
}

static bool is_own(const struct stat *info) {
  return (info->st_uid == geteuid() || info->st_uid == 0) && !(info->st_mode & S_IWOTH);
}

bool tli_folder_own(const char *path) {
  struct stat info;
  return stat(path, &info) != 0 || is_own(&info);
}

static bool read_all(int fd, char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = read(fd, data, bytes);
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) data += n, bytes -= (size_t)n;
  }
  return true;
}

char *tli_folder_read_own(const char *path, int64_t most, size_t *bytes) {
  struct stat info;
  char *data = NULL;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return NULL;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && is_own(&info) && info.st_size <= most) {
    *bytes = (size_t)info.st_size;
    data = malloc(*bytes + 1);
    if (data && !read_all(fd, data, *bytes)) {
      free(data);
      data = NULL;
    }
  }
  close(fd);
  return data;
}

bool tli_folder_may_write(const char *path, size_t bytes) {
  struct stat info;
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < bytes)
    return false;
  return lstat(path, &info) != 0 ? errno == ENOENT : S_ISREG(info.st_mode);
}
