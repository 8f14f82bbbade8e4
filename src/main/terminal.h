/*
** terminal.h - what the command needs of the terminal, its Ctrl-C and SIGTERM. The two
** sides are terminal_posix.c and terminal_windows.c; lines are read by edit.h.
*/
#ifndef TLI_TERMINAL_H
#define TLI_TERMINAL_H

#include <stdbool.h>

/* Whether a person types what is read from stdin. */
bool tli_terminal_typed(void);

/* The columns of the terminal that stdout writes to; 0: none. */
int tli_terminal_width(void);

/* What a signal calls: at any moment, on POSIX systems in the thread that has set
** it, on Windows in one of the system's own. */
typedef void (*tli_InterruptFn)(void);

/* Sets what SIGINT, which Ctrl-C is, or SIGTERM calls and returns what it called before. NULL
** stands for what it did before this program cared. Windows has no SIGTERM. */
tli_InterruptFn tli_terminal_catch(int signo, tli_InterruptFn fn);

/* Calls fn once, a tenth of a second from now, as a signal does; NULL: not any more. May itself
** be called by what a signal calls. Takes SIGALRM. Does nothing on Windows. */
void tli_terminal_later(tli_InterruptFn fn);

/* Lets a file that reaches the limit of its size be an error where it is written, and no signal
** that ends the process. */
void tli_terminal_take_limits(void);

/* Ends the process as that signal does which nobody catches. May be called by fn. */
void tli_terminal_die(int signo);

#endif
