/*
** history.h - what was typed, kept from session to session.
*/
#ifndef TLI_HISTORY_H
#define TLI_HISTORY_H

/* Hands every line of the history file, oldest first, to `add`. */
void tli_history_load(void (*add)(const char *line));

/* Adds a line to the file, which is created when needed. */
void tli_history_append(const char *line);

#endif
