/*
** output.h - catches what this process, its libraries and its child processes write to stdout or
** stderr, and stops the program that runs in the main thread. On Windows all functions fail.
*/
#ifndef TLI_OUTPUT_H
#define TLI_OUTPUT_H

#include <stdio.h>

#include "core/error.h"

/* Redirects the file descriptor `fd`, 1 or 2, to an open file or, if `file` is NULL, into a new
** pipe, and stores the pipe's reading end in *end. Returns a descriptor of the previous output, or
** -1 after tli_fail. */
int tli_output_capture(int fd, FILE *file, int *end) TL_MUSTCHECK;

/* Redirects `fd` to the previous output again, and closes `previous`. */
void tli_output_release(int fd, int previous);

/* Reads from a pipe without waiting, and returns the number of bytes: 0 if none are there. */
int64_t tli_output_take(int end, void *data, size_t bytes);

/* Writes to a descriptor, in particular that of the previous output. Ignores failures. */
void tli_output_put(int fd, const char *text, size_t bytes);

/* Sends this process the signal of Ctrl-C. */
void tli_output_interrupt(void);

#endif
