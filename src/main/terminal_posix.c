/*
** terminal_posix.c - terminal.h by signals.
*/
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "main/terminal.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Written before the handler is installed, read by it. */
static tli_InterruptFn volatile current;
static pthread_t catching_thread;

static struct sigaction before; /* while `current` is set: what was there */

bool tli_terminal_typed(void) { return isatty(STDIN_FILENO) != 0; }

int tli_terminal_width(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void on_sigint(int signo) {
  if (!pthread_equal(pthread_self(), catching_thread)) {
    pthread_kill(catching_thread, signo); /* a worker thread was chosen for it */
    return;
  }
  tli_InterruptFn fn = current;
  if (fn) fn();
}

tli_InterruptFn tli_terminal_catch(tli_InterruptFn fn) {
  tli_InterruptFn previous = current;
  catching_thread = pthread_self();
  current = fn;
  if (fn && previous == NULL) {
    struct sigaction action = {.sa_handler = on_sigint}; /* no SA_RESTART: reads end, too */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before);
  }
  if (fn == NULL && previous) sigaction(SIGINT, &before, NULL);
  return previous;
}

void tli_terminal_die(void) {
  signal(SIGINT, SIG_DFL);
  raise(SIGINT);
}
