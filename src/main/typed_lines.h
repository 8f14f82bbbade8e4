/*
** typed_lines.h - the history of the lines that a user types, kept between sessions.
*/
#ifndef TLI_TYPED_LINES_H
#define TLI_TYPED_LINES_H

/* Calls `add` with every line of the history file, oldest first. */
void tli_history_load(void (*add)(const char *line));

/* Adds a line to the history file, and creates the file if necessary. */
void tli_history_append(const char *line);

#endif
