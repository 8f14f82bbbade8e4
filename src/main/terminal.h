/*
** terminal.h - services of the terminal, Ctrl-C and SIGTERM, implemented by terminal_posix.c and
** terminal_windows.c. Lines are read by edit.h.
*/
#ifndef TLI_TERMINAL_H
#define TLI_TERMINAL_H

#include <stdbool.h>

/* Returns whether stdin is a terminal. */
bool tli_terminal_typed(void);

/* Returns the number of columns of the terminal that stdout writes to; 0 if stdout is not a
** terminal. */
int tli_terminal_width(void);

/* A function that is called at any moment when a signal arrives. On POSIX systems it runs in the
** thread that has set it, on Windows in a thread that the system creates. */
typedef void (*tli_InterruptFn)(void);

/* Sets the function that is called for SIGINT (Ctrl-C) or SIGTERM, and returns the previous
** function. NULL restores the signal's original action. Windows has no SIGTERM. */
tli_InterruptFn tli_terminal_catch(int signo, tli_InterruptFn fn);

/* Calls fn once, a tenth of a second from now, from a signal handler; NULL cancels the call. Signal
** handlers may call this function. It uses SIGALRM, and does nothing on Windows. */
void tli_terminal_later(tli_InterruptFn fn);

/* Ignores SIGXFSZ, so that a write beyond the limit on file sizes fails instead of ending the
** process. Raises the limit of the stack's size to TLI_LEAST_STACK, if it is smaller; returns false
** if that is not allowed. */
bool tli_terminal_take_limits(void);

/* Ends the process as if the given signal had arrived and no handler were installed. A
** tli_InterruptFn may call this function. */
void tli_terminal_die(int signo);

#endif
