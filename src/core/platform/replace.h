/*
** replace.h - writing a file as a whole. The new content goes to a file beside
** the old one and takes its name when all of it is on the disk: a crash leaves
** the old file or the new one.
*/
#ifndef TLI_REPLACE_H
#define TLI_REPLACE_H

#include <stdio.h>

#include "core/error.h"

typedef struct tli_Replace tli_Replace;

/* Begins a new content for the file at `path`, or at the end of the links that
** stand there. What is no file (a device, a pipe) is written into as it is. `named`:
** the new file has a name, .tlua-PROCESS-COUNT-TIME.tmp, from the start, so that others
** see that somebody is going to replace the file. NULL after tli_fail. */
tli_Replace *tli_replace_begin(const char *path, bool named) TL_MUSTCHECK;

/* Where to write it, borrowed. */
FILE *tli_replace_file(tli_Replace *r);

/* Puts the content in its place, with the mode and, if it may, the owner of the
** file that was there. False after tli_fail, the old file being as it was; *again:
** a second attempt goes another way. Frees r. */
bool tli_replace_commit(tli_Replace *r, bool *again) TL_MUSTCHECK;

/* Leaves the old file, and nothing else. Frees r; NULL is fine. */
void tli_replace_abort(tli_Replace *r);

#endif
