/*
** device_test.c - what ends a process or begins one, on the simulated device: the
** host's hand in its memory, and a fork.
*/
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/transfer.h"
#include "ops/common.h"
#include "test.h"

static const tl_Device sim = {TL_SIM, 0};

static tl_Tensor *ones(void) {
  static const float values[4] = {1, 1, 1, 1};
  int64_t size = 4;
  return tli_upload(TL_F32, sim, 1, &size, values);
}

/* Runs fn in a child, whose stderr goes to `said`; gives its status. */
static int in_child(void (*fn)(void), char *said, size_t room) {
  int ends[2], status = -1;
  if (pipe(ends) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    fn();
    _exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; length + 1 < room && (n = read(ends[0], said + length, room - length - 1)) > 0;)
    length += (size_t)n;
  said[length] = '\0';
  close(ends[0]);
  if (child > 0) waitpid(child, &status, 0);
  return status;
}

static void touch(void) {
  tl_Tensor *t = ones();
  tli_set_operator("careless");
  volatile float *data = tli_data(t);
  data[0] += 1; /* the process ends here */
}

/* The child is the first to open the device, so it is its own. A sanitizer has a
** handler of its own, which ends the process with another status. */
static void the_host_may_not_touch(void) {
  char said[4096];
  int status = in_child(touch, said, sizeof said);
  CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
  CHECK(strstr(said, "memory of sim:0 was touched by the host, in careless") != NULL);
}

static void use_after_fork(void) {
  tl_Tensor *t = ones();
  bool right = t == NULL && tl_error_kind() == TL_EDEVICE && strstr(tl_error(), "forked") != NULL;
  fprintf(stderr, right ? "refused" : "not refused: %s", tl_error());
  tli_release(t);
}

static void a_forked_child_is_refused(void) {
  char said[4096];
  tl_Tensor *t = ones();
  CHECK(t != NULL);
  int status = in_child(use_after_fork, said, sizeof said);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(strcmp(said, "refused") == 0);
  float back[4] = {0};
  CHECK(t && tli_read(t, TL_F32, back) && back[3] == 1); /* the parent goes on */
  tli_release(t);
}

int main(void) {
  const char *build = getenv("TLUA_BUILD");
  if (build) setenv("TLUA_PLUGINS", build, 0);
  RUN(the_host_may_not_touch); /* first: nothing may have opened the device */
  RUN(a_forked_child_is_refused);
  return test_end();
}
