/*
** private_file_posix.c - implements private_file.h. A file is first opened and then checked through
** its descriptor, so that it cannot be replaced by another file between the check and the read.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "core/platform/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/platform/platform.h"

static tli_PrivateFile refuse(const char *path, const char *why) {
  tli_fail(TL_EIO, "%.300s: %s", path, why);
  return TLI_PRIVATE_REFUSED;
}

static tli_PrivateFile check(const char *path, int file) {
  struct stat info;
  if (fstat(file, &info) != 0) return refuse(path, strerror(errno));
  if (info.st_uid != geteuid()) {
    tli_fail(TL_EIO, "%.300s: expected a file of this user (%lu), it is of user %lu", path,
             (unsigned long)geteuid(), (unsigned long)info.st_uid);
    return TLI_PRIVATE_FOREIGN;
  }
  if (!S_ISREG(info.st_mode)) return refuse(path, "expected a plain file");
  if ((info.st_mode & 077) == 0 && info.st_nlink == 1) return TLI_PRIVATE_READ;
  if (info.st_nlink != 1) return refuse(path, "expected a file of one name");
  tli_fail(TL_EIO, "%.300s: expected mode 600, got %03o: other users may read or change it", path,
           (unsigned)(info.st_mode & 0777));
  return TLI_PRIVATE_REFUSED;
}

static tli_PrivateFile read_all(const char *path, int file, char *out, size_t room) {
  size_t n = 0;
  for (;;) {
    ssize_t got = read(file, out + n, room - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(path, strerror(errno));
    if (got == 0) break;
    n += (size_t)got;
    if (n == room) return refuse(path, "the file is too long");
  }
  out[n] = '\0';
  return strlen(out) == n ? TLI_PRIVATE_READ : refuse(path, "the file has a byte 0");
}

tli_PrivateFile tli_private_file_read(const char *path, char *out, size_t room) {
  int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    int error = errno;
    refuse(path, error == ELOOP ? "expected a plain file, got a link" : strerror(error));
    if (error == ENOENT) return TLI_PRIVATE_MISSING;
    return error == ELOOP || error == EACCES ? TLI_PRIVATE_FOREIGN : TLI_PRIVATE_REFUSED;
  }
  tli_PrivateFile result = check(path, file);
  if (result == TLI_PRIVATE_READ) result = read_all(path, file, out, room);
  close(file);
  return result;
}

static bool write_all(int file, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(file, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    bytes -= (size_t)n;
  }
  return true;
}

bool tli_private_file_write(const char *path, const void *data, size_t bytes) {
  char temporary[4200];
  int n = snprintf(temporary, sizeof temporary, "%s.%ld.%llx", path, (long)getpid(),
                   (unsigned long long)tli_now_ns());
  if (n < 0 || (size_t)n >= sizeof temporary)
    return tli_fail(TL_EIO, "%.300s: the name is too long", path);
  int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return tli_fail(TL_EIO, "%.300s: %s", path, strerror(errno));
  bool ok = fchmod(file, 0600) == 0 && write_all(file, data, bytes);
  ok = close(file) == 0 && ok;
  ok = ok && rename(temporary, path) == 0;
  if (ok) return true;
  int error = errno;
  unlink(temporary);
  return tli_fail(TL_EIO, "%.300s: %s", path, strerror(error));
}
