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

/* A function that a signal calls at any moment: on POSIX systems in the thread that has set the
** function, on Windows in a separate thread of the system. */
typedef void (*tli_InterruptFn)(void);

/* Sets the function that SIGINT (Ctrl-C) or SIGTERM calls, and returns the previous one. NULL
** restores the action from before the first call. Windows has no SIGTERM. */
tli_InterruptFn tli_terminal_catch(int signo, tli_InterruptFn fn);

/* Calls fn once, a tenth of a second from now, from a signal handler; NULL cancels the call. Signal
** handlers may call this function. It uses SIGALRM, and does nothing on Windows. */
void tli_terminal_later(tli_InterruptFn fn);

/* Makes writing beyond the limit of a file's size an error of the write instead of a fatal signal,
** and raises a limit of the stack below TLI_LEAST_STACK. Returns false if that is not allowed. */
bool tli_terminal_take_limits(void);

/* Ends the process as an uncaught signal of that number does. A tli_InterruptFn may call it. */
void tli_terminal_die(int signo);

#endif
