/*
** output_posix.c - implements output.h.
*/
#define _POSIX_C_SOURCE 200809L

#include "core/platform/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int failed(void) {
  (void)tli_fail(TL_EIO, "output cannot be captured: %s", strerror(errno));
  return -1;
}

/* Makes a pipe and stores its reading end, which never blocks. Returns the writing end, or -1. */
static int make_pipe(int *end) {
  int both[2];
  if (pipe(both) != 0) return -1;
  *end = both[0];
  if (fcntl(both[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(both[0], F_SETFD, FD_CLOEXEC) == 0 &&
      fcntl(both[1], F_SETFD, FD_CLOEXEC) == 0)
    return both[1];
  close(both[0]);
  close(both[1]);
  return -1;
}

int tli_output_capture(int fd, FILE *file, int *end) {
  *end = -1;
  int previous = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  int target = previous < 0 ? -1 : file ? fileno(file) : make_pipe(end);
  bool good = target >= 0 && dup2(target, fd) >= 0;
  int why = errno;
  if (file == NULL && target >= 0) close(target);
  if (good) return previous;
  if (*end >= 0) close(*end);
  if (previous >= 0) close(previous);
  errno = why;
  return failed();
}

void tli_output_release(int fd, int previous) {
  dup2(previous, fd);
  close(previous);
}

int64_t tli_output_take(int end, void *data, size_t bytes) {
  ssize_t n = read(end, data, bytes);
  return n > 0 ? n : 0;
}

void tli_output_put(int fd, const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text += n;
    bytes -= (size_t)n;
  }
}

void tli_output_interrupt(void) { kill(getpid(), SIGINT); }
