/*
** edit_windows.c - implements edit.h for Windows, whose console edits lines and keeps their
** history.
*/
#include "main/edit.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "main/terminal.h"

static volatile LONG interrupted;

static void note_interrupt(void) { InterlockedExchange(&interrupted, 1); }

const char *tli_edit_library(void) { return "of the console"; }

void tli_edit_open(tli_EditComplete complete) { (void)complete; }

/* Appends the part of a line that is available; returns false at the end of the input. */
static bool read_piece(char **line, size_t *length) {
  char piece[512];
  if (fgets(piece, sizeof piece, stdin) == NULL) return false;
  size_t n = strlen(piece);
  char *longer = realloc(*line, *length + n + 1);
  if (longer == NULL) return false;
  memcpy(longer + *length, piece, n + 1);
  *line = longer;
  *length += n;
  return true;
}

static char *read_line(void) {
  char *line = NULL;
  size_t length = 0;
  while (read_piece(&line, &length))
    if (length > 0 && line[length - 1] == '\n') {
      line[length - 1] = '\0';
      break;
    }
  /* clears the end-of-file flag: after Ctrl-C more input may follow */
  if (line == NULL) clearerr(stdin);
  return line;
}

/* Returns whether Ctrl-C has ended the line. The console ends the read before it reports Ctrl-C, so
** this function waits a moment for the report. */
static bool was_interrupted(const char *line) {
  if (line == NULL && tli_terminal_typed()) Sleep(50);
  return interrupted != 0;
}

tli_EditResult tli_edit_read(const char *prompt, char **line) {
  interrupted = 0;
  tli_InterruptFn before = tli_terminal_catch(SIGINT, note_interrupt);
  fputs(prompt, stdout);
  fflush(stdout);
  *line = read_line();
  bool stopped = was_interrupted(*line);
  tli_terminal_catch(SIGINT, before);
  if (!stopped) return *line ? TLI_EDIT_LINE : TLI_EDIT_END;
  free(*line);
  *line = NULL;
  putchar('\n');
  return TLI_EDIT_INTERRUPTED;
}

void tli_edit_remember(const char *entry) { (void)entry; }
