/*
** scratch.h - the temporary files of replace_posix.c: .tlua-PROCESS-COUNT-TIME.tmp,
** beside the file that they are going to replace. Who writes one holds the system's
** lock on it (flock), which ends with the process, however that ends. So one that
** nobody holds was left behind by a killed program, and may go.
*/
#ifndef TLI_SCRATCH_H
#define TLI_SCRATCH_H

#include <stdbool.h>

/* A name in the folder, another one each time; to be freed, NULL without memory. */
char *tli_scratch_name(const char *folder);

/* Locks the open file. False: somebody who took it for a left one has removed it, or is
** about to. Where the system has no locks the answer is true. */
bool tli_scratch_hold(int fd);

/* Removes the temporary files in the folder that nobody holds. What cannot be removed
** stays, and so does everything on file systems that other machines may write to, or that
** are not known: a lock may be known to one machine only. Keeps errno. */
void tli_scratch_sweep(const char *folder);

#endif
