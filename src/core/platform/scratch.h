/*
** scratch.h - the temporary files of replace_posix.c: .tlua-PROCESS-COUNT-TIME.tmp, in the folder
** of the file to replace. The process that writes such a file holds a lock on it (flock). The lock
** ends with the process, however the process ends. So an unlocked file was left by a killed program
** and may be removed.
*/
#ifndef TLI_SCRATCH_H
#define TLI_SCRATCH_H

#include <stdbool.h>

/* Returns a new name in the folder, as a string that the caller frees; NULL if memory is
** exhausted. */
char *tli_scratch_name(const char *folder);

/* Locks an open temporary file. Returns false if another process has removed the file or is about
** to remove it, because the file was unlocked. Returns true on systems without locks. */
bool tli_scratch_hold(int fd);

/* Removes the unlocked temporary files in a folder, and ignores those that cannot be removed.
** Removes nothing on network and unknown file systems, since a lock there may be invisible to other
** machines. Preserves errno. */
void tli_scratch_sweep(const char *folder);

#endif
