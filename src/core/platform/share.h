/*
** share.h - shared memory for processes of one machine. It has numbered places: a process claims a
** place, which becomes free when that process ends. Processes can sleep on a word in the memory
** until another process wakes them. On systems without these services, tli_share_make and
** tli_share_open fail with a message.
*/
#ifndef TLI_SHARE_H
#define TLI_SHARE_H

#include <stdatomic.h>

#include "tlua.h"

typedef struct tli_Share {
  void *data; /* address of the shared memory; NULL if the share is closed */
  size_t bytes;
  int file;
} tli_Share;

#define TLI_SHARE_NAME 64 /* size of a name in bytes, including the terminating 0 */

/* Creates zeroed memory; `name` receives the name by which other processes open it. The memory has
** no entry in a file system: it disappears with the last process that has it open, however that
** process ends. Pages use memory only once they are written. */
bool tli_share_make(tli_Share *share, size_t bytes, char name[TLI_SHARE_NAME]) TL_MUSTCHECK;
/* Opens shared memory while its creator runs; the creator must belong to the same user. */
bool tli_share_open(tli_Share *share, const char *name, size_t bytes) TL_MUSTCHECK;
void tli_share_close(tli_Share *share); /* Closes the memory; may be called repeatedly. */
/* Hides the memory: from now on it cannot be opened by name, no place in it can be claimed, and it
** needs no file descriptor. */
void tli_share_hide(tli_Share *share);

/* Claims a place until the share is closed or the process ends for any reason. Places are numbered
** from 0. Returns false, without a message, if another process has claimed the place. */
bool tli_share_claim(const tli_Share *share, int place) TL_MUSTCHECK;
/* Returns whether another process has claimed the place. */
bool tli_share_claimed(const tli_Share *share, int place);

/* Sleeps if *word is equal to `seen`, until tli_word_wake is called for the word, but at most for
** `ns` nanoseconds. The function may return early. The word may be in shared memory. */
void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns);
void tli_word_wake(atomic_uint *word);

#endif
