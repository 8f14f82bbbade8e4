/*
** terminal_windows.c - implements terminal.h for the console of Windows.
*/
#define WIN32_LEAN_AND_MEAN

#include "main/terminal.h"

#include <io.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

static tli_InterruptFn volatile current;

bool tli_terminal_typed(void) { return _isatty(_fileno(stdin)) != 0; }

int tli_terminal_width(void) {
  CONSOLE_SCREEN_BUFFER_INFO info;
  HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
  return GetConsoleScreenBufferInfo(out, &info) ? info.srWindow.Right - info.srWindow.Left + 1 : 0;
}

/* Handles an event of the console. The system calls this function in a separate thread. TRUE means
** that the event was handled. */
static BOOL WINAPI on_event(DWORD event) {
  tli_InterruptFn fn = current;
  if (event != CTRL_C_EVENT || fn == NULL) return FALSE;
  fn();
  return TRUE;
}

tli_InterruptFn tli_terminal_catch(int signo, tli_InterruptFn fn) {
  tli_InterruptFn previous = current;
  if (signo != SIGINT) return NULL;
  current = fn;
  if (fn && previous == NULL) SetConsoleCtrlHandler(on_event, TRUE);
  if (fn == NULL && previous) SetConsoleCtrlHandler(on_event, FALSE);
  return previous;
}

void tli_terminal_later(tli_InterruptFn fn) { (void)fn; }

bool tli_terminal_take_limits(void) { return true; }

void tli_terminal_die(int signo) {
  ExitProcess(signo == SIGINT ? STATUS_CONTROL_C_EXIT : EXIT_FAILURE);
}
