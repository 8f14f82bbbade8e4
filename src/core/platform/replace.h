/*
** replace.h - replacing a file atomically. The new content is written to a temporary file in
** the same folder, which takes the old file's name once all of it is on disk: a crash leaves
** the old file or the new one.
*/
#ifndef TLI_REPLACE_H
#define TLI_REPLACE_H

#include <stdio.h>

#include "core/error.h"

typedef struct tli_Replace tli_Replace;

/* Begins to replace the file at `path`, or at the end of links. Anything that is no file (a device,
** a pipe) is written to directly. With `named`, the temporary file is visible as
** .tlua-PROCESS-COUNT-TIME.tmp from the start, so that other processes see that the file is being
** replaced. Returns NULL after tli_fail. */
tli_Replace *tli_replace_begin(const char *path, bool named) TL_MUSTCHECK;

/* Returns the file to write to, borrowed. */
FILE *tli_replace_file(tli_Replace *r);

/* Moves the content into place, with the mode and, if permitted, the owner of the old file.
** Returns false after tli_fail, with the old file unchanged; if *again is set, a second attempt
** uses another method. Frees r. */
bool tli_replace_commit(tli_Replace *r, bool *again) TL_MUSTCHECK;

/* Keeps the old file and removes the new one. Frees r; accepts NULL. */
void tli_replace_abort(tli_Replace *r);

#endif
