/*
** share.h - memory that processes of one machine have in common, places in it
** that are free again when their holder ends, and words to sleep on. Where the
** system has no such thing, tli_share_make and tli_share_open fail and say so.
*/
#ifndef TLI_SHARE_H
#define TLI_SHARE_H

#include <stdatomic.h>

#include "tlua.h"

typedef struct tli_Share {
  void *data; /* NULL: closed */
  size_t bytes;
  int file;
} tli_Share;

#define TLI_SHARE_NAME 64 /* room for a name */

/* Memory full of zeros; other processes open it by the name that is written. It has no
** entry in any file system: it is gone with the last one who has it open, however that
** one ends. Pages take room when they are first written. */
bool tli_share_make(tli_Share *share, size_t bytes, char name[TLI_SHARE_NAME]) TL_MUSTCHECK;
/* While its maker lives, who must be of the same user. */
bool tli_share_open(tli_Share *share, const char *name, size_t bytes) TL_MUSTCHECK;
void tli_share_close(tli_Share *share); /* once more is fine */
/* From now on nobody opens it by its name, no place of it is taken, and it holds no open file. */
void tli_share_hide(tli_Share *share);

/* Takes a place, a number from 0 on, until the share is closed or the process ends, by
** whatever cause; false without a message if another holds it. */
bool tli_share_claim(const tli_Share *share, int place) TL_MUSTCHECK;
/* Whether another holds it. */
bool tli_share_claimed(const tli_Share *share, int place);

/* Sleeps while *word is `seen`, until tli_word_wake or so many nanoseconds; may wake
** earlier. The word may lie in shared memory. */
void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns);
void tli_word_wake(atomic_uint *word);

#endif
