/*
** truncated_posix.c - implements truncated.h by SIGBUS. A SIGBUS with another cause ends the
** process as usual.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "main/truncated.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "core/platform/platform.h"

/* The function to call. The signal handler reads this variable, which is set before the handler is
** installed. */
static tli_TruncatedFn volatile current;
static pthread_t catching_thread;
static struct sigaction before; /* the previous action of SIGBUS; valid while `current` is set */

/* whether another thread made the read and has forwarded the signal to catching_thread */
static atomic_bool elsewhere;

static void on_sigbus(int signo, siginfo_t *info, void *context) {
  (void)context;
  int error = errno;
  bool here = pthread_equal(pthread_self(), catching_thread);
  tli_TruncatedFn fn = current;
  if (here && info->si_code <= 0 &&
      /* several forwarded signals may arrive for one read; only the first of them finds `elsewhere`
      ** set */
      info->si_pid == getpid()) {
    if (atomic_exchange(&elsewhere, false) && fn) fn(false);
  } else if (info->si_code > 0 && tli_file_shrunk(info->si_addr)) {
    if (here) {
      if (fn) fn(true);
    } else {
      atomic_store(&elsewhere, true);
      pthread_kill(catching_thread, signo);
    }
  } else {
    /* restores the previous action. A real fault repeats the signal at once; a signal that a
    ** process has sent must be raised again. */
    sigaction(signo, &before, NULL);
    if (info->si_code <= 0) raise(signo);
  }
  errno = error;
}

tli_TruncatedFn tli_truncated_catch(tli_TruncatedFn fn) {
  tli_TruncatedFn was = current;
  catching_thread = pthread_self();
  current = fn;
  if (fn && was == NULL) {
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
  }
  if (fn == NULL && was) sigaction(SIGBUS, &before, NULL);
  return was;
}
