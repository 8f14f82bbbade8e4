/*
** disk_cache.h - what was worked out once and is kept on disk between programs: compiled
** kernels, plans of convolutions. Nothing depends on it: what is missing, damaged or
** somebody else's is worked out anew, and a folder that cannot be written is no error. No
** function here leaves a message.
**
** Others' files are not read, nor is a folder used into which everybody may write: from what is
** kept there comes what a device runs.
**
** The folder is $XDG_CACHE_HOME/tlua, or ~/.cache/tlua; TLUA_CACHE names another one, and
** TLUA_CACHE=0 means none. torch.backends.cache.enabled turns it off, too. An entry is one
** file, which is written as a whole (replace.h) and holds its whole key, so that two keys
** of one hash do not meet.
*/
#ifndef TLI_CACHE_H
#define TLI_CACHE_H

#include "core/error.h"

#define TLI_CACHE_MOST ((int64_t)256 << 20) /* bytes in the folder; the oldest entries go */

/* The folder's path; false where there is none. It need not exist. */
bool tli_cache_folder(char *path, size_t size);
/* Entries and their bytes. */
int tli_cache_size(int64_t *bytes);

/* What was stored under a key. `kind`, a short word of letters, tells what a key means, and
** ends the file's name. A block for tli_free(block, *bytes); NULL: nothing. */
void *tli_cache_load(const char *kind, const void *key, size_t key_bytes, size_t *bytes);
/* True if it was written. */
bool tli_cache_store(const char *kind, const void *key, size_t key_bytes, const void *data,
                     size_t bytes);

/* FNV-1a, of 64 bits. */
uint64_t tli_cache_hash(const void *data, size_t bytes);

#endif
