/*
** disk_cache.h - a cache on disk that programs share. It holds compiled kernels and plans of
** convolutions. Nothing depends on the cache: missing or damaged entries are computed again, and a
** folder that cannot be written is no error. No function declared here sets a message.
**
** Since devices run code from the cache, files of other users are not read, and a folder that
** everybody can write to is not used.
**
** The folder is $XDG_CACHE_HOME/tlua, or ~/.cache/tlua. TLUA_CACHE names another folder.
** TLUA_CACHE=0 turns the cache off, as torch.backends.cache.enabled = false does. An entry is one
** file, which is written atomically (replace.h) and contains its full key, so hash collisions are
** detected.
*/
#ifndef TLI_CACHE_H
#define TLI_CACHE_H

#include "core/error.h"

/* the largest number of bytes in the folder; if there are more, the oldest entries are removed */
#define TLI_CACHE_MOST ((int64_t)256 << 20)

/* Writes the path of the cache folder; the folder itself may be missing. Returns false if the cache
** has no folder. */
bool tli_cache_folder(char *path, size_t size);
/* Returns the number of entries; *bytes receives their total size. */
int tli_cache_size(int64_t *bytes);

/* Returns the data stored under a key, in a block for tli_free(block, *bytes), or NULL. `kind`, a
** short word of letters, names the type of the key and is the file name's extension. */
void *tli_cache_load(const char *kind, const void *key, size_t key_bytes, size_t *bytes);
/* Stores data under a key; returns whether the entry was written. */
bool tli_cache_store(const char *kind, const void *key, size_t key_bytes, const void *data,
                     size_t bytes);

#endif
