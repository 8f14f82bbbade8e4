/*
** terminal_posix.c - implements terminal.h by signals.
*/
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "main/terminal.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/platform/platform.h"

/* The state of a caught signal. The signal handler reads the state, which is set before the handler
** is installed. */
typedef struct Caught {
  tli_InterruptFn volatile current;
  struct sigaction before; /* the previous action of the signal; valid while `current` is set */
} Caught;

static Caught of_interrupt, of_termination, of_alarm;
static pthread_t catching_thread;

static Caught *caught_of(int signo) {
  if (signo == SIGALRM) return &of_alarm;
  return signo == SIGINT ? &of_interrupt : &of_termination;
}

bool tli_terminal_typed(void) { return isatty(STDIN_FILENO) != 0; }

int tli_terminal_width(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void on_signal(int signo) {
  if (!pthread_equal(pthread_self(), catching_thread)) {
    /* the system has delivered the signal to another thread, which forwards it */
    pthread_kill(catching_thread, signo);
    return;
  }
  tli_InterruptFn fn = caught_of(signo)->current;
  if (fn) fn();
}

tli_InterruptFn tli_terminal_catch(int signo, tli_InterruptFn fn) {
  Caught *c = caught_of(signo);
  tli_InterruptFn previous = c->current;
  catching_thread = pthread_self();
  c->current = fn;
  if (fn && previous == NULL) {
    /* without SA_RESTART the signal interrupts a blocking read */
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(signo, &action, &c->before);
  }
  if (fn == NULL && previous) sigaction(signo, &c->before, NULL);
  return previous;
}

void tli_terminal_later(tli_InterruptFn fn) {
  /* without SA_RESTART the signal interrupts a read that began just after SIGINT */
  struct sigaction action = {.sa_handler = on_signal};
  const struct itimerval tenth = {.it_value = {.tv_usec = fn ? 100000 : 0}};
  if (fn == NULL && of_alarm.current == NULL) return;
  of_alarm.current = fn;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &tenth, NULL);
}

static void do_nothing(int signo) { (void)signo; }

/* Raises the limit of the stack's size if it is too small, and returns whether it is now large
** enough. The stack of the main thread may then grow up to the new limit. */
static bool has_stack(void) {
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= TLI_LEAST_STACK) return true;
  stack.rlim_cur = TLI_LEAST_STACK;
  return stack.rlim_max >= TLI_LEAST_STACK && setrlimit(RLIMIT_STACK, &stack) == 0;
}

/* Installs a handler for SIGXFSZ that does nothing. SIG_IGN would be inherited by child
** processes. */
bool tli_terminal_take_limits(void) {
#ifdef SIGXFSZ
  signal(SIGXFSZ, do_nothing);
#endif
  return has_stack();
}

void tli_terminal_die(int signo) {
  signal(signo, SIG_DFL);
  raise(signo);
}
