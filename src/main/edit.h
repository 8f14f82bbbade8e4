/*
** edit.h - reads lines from a person: with editing, history and completion if
** libedit or readline is on this machine, else plainly (edit_posix.c); on Windows
** the console does it (edit_windows.c).
*/
#ifndef TLI_EDIT_H
#define TLI_EDIT_H

typedef enum tli_EditResult { TLI_EDIT_LINE, TLI_EDIT_END, TLI_EDIT_INTERRUPTED } tli_EditResult;

/* Gives the words that may stand where `text` does, the word before the
** cursor, as a list made with malloc, ended by NULL; or NULL for none. `before`
** is the line up to that word, or NULL if the library does not tell it. */
typedef char **(*tli_EditComplete)(const char *text, const char *before);

/* To be called once, before the others. */
void tli_edit_open(tli_EditComplete complete);

/* Reads a line. For TLI_EDIT_LINE *line is a string that the caller frees,
** without the line's end; else NULL. Ctrl-C gives TLI_EDIT_INTERRUPTED. */
tli_EditResult tli_edit_read(const char *prompt, char **line);

/* Adds an entry of one line to the history and its file, if lines are edited. */
void tli_edit_remember(const char *entry);

/* The library that edits lines where stdin is a terminal, by file name; NULL
** if there is none. For `tlua doctor`. */
const char *tli_edit_library(void);

#endif
