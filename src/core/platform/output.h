/*
** output.h - captures what this process, its libraries and its child processes write to stdout and
** stderr, and interrupts the program in the main thread. On Windows tli_output_capture fails, and
** the other functions do nothing.
*/
#ifndef TLI_OUTPUT_H
#define TLI_OUTPUT_H

#include <stdio.h>

#include "core/error.h"

/* Redirects the file descriptor `fd`, 1 or 2, to an open file. If `file` is NULL, redirects it to a
** new pipe and stores the pipe's reading end in *end. Returns a descriptor of the previous output,
** or -1 after tli_fail. */
int tli_output_capture(int fd, FILE *file, int *end) TL_MUSTCHECK;

/* Redirects `fd` to the previous output again, and closes `previous`. */
void tli_output_release(int fd, int previous);

/* Reads from a pipe without waiting. Returns the number of bytes that were read, which is 0 if
** there are none. */
int64_t tli_output_take(int end, void *data, size_t bytes);

/* Writes to a descriptor, such as that of the previous output. Ignores failures. */
void tli_output_put(int fd, const char *text, size_t bytes);

/* Sends this process the signal that Ctrl-C causes (SIGINT). */
void tli_output_interrupt(void);

#endif
