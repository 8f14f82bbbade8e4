/*
** replace.h - replacing a file atomically. The new content is written to a temporary file in the
** same folder. Once all of it is on disk, the temporary file takes the old file's name, so a crash
** leaves either the old file or the new one.
*/
#ifndef TLI_REPLACE_H
#define TLI_REPLACE_H

#include <stdio.h>

#include "core/error.h"

typedef struct tli_Replace tli_Replace;

/* Begins to replace the file at `path` or, if that is a link, the file at the end of the links. If
** the path is a device, a pipe or something else that is no file, it is written to directly. If
** `named` is set, the temporary file is visible as .tlua-PROCESS-COUNT-TIME.tmp from the start, so
** that other processes see that the file is being replaced. Returns NULL after tli_fail. */
tli_Replace *tli_replace_begin(const char *path, bool named) TL_MUSTCHECK;

/* Returns the file to write to, borrowed. */
FILE *tli_replace_file(tli_Replace *r);

/* Gives the new file the old file's name, mode and, if permitted, owner. On failure calls tli_fail,
** leaves the old file unchanged, and returns false. If *again is then true, the caller should begin
** the replacement once more; it then uses another method. Frees r. */
bool tli_replace_commit(tli_Replace *r, bool *again) TL_MUSTCHECK;

/* Keeps the old file and removes the new one. Frees r; accepts NULL. */
void tli_replace_abort(tli_Replace *r);

#endif
