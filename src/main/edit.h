/*
** edit.h - reads lines that the user types. If libedit or readline is installed, the user can edit
** the line, recall earlier lines and complete words; otherwise lines are read without editing
** (edit_posix.c). On Windows the console itself lets the user edit the line (edit_windows.c).
*/
#ifndef TLI_EDIT_H
#define TLI_EDIT_H

typedef enum tli_EditResult { TLI_EDIT_LINE, TLI_EDIT_END, TLI_EDIT_INTERRUPTED } tli_EditResult;

/* Returns the completions of `text`, the word before the cursor, as a NULL-terminated list made
** with malloc, or NULL if there are none. `before` is the part of the line before that word, or
** NULL if the editing library does not provide that part. */
typedef char **(*tli_EditComplete)(const char *text, const char *before);

/* Prepares line editing; must be called once, before the other functions. */
void tli_edit_open(tli_EditComplete complete);

/* Reads a line. If the result is TLI_EDIT_LINE, *line is the line without the newline, and the
** caller frees it; otherwise *line is NULL. After Ctrl-C the result is TLI_EDIT_INTERRUPTED. */
tli_EditResult tli_edit_read(const char *prompt, char **line);

/* Adds a line to the history and to the history file. Does nothing if neither libedit nor readline
** is in use. */
void tli_edit_remember(const char *entry);

/* Returns the file name of the library that edits lines when stdin is a terminal; NULL if no
** library was found. `tlua doctor` reports the name. */
const char *tli_edit_library(void);

#endif
