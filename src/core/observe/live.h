/*
** live.h - which storages are alive, and which line and operator made them, while somebody
** wants to know; see torch.memory_snapshot. Of all threads.
*/
#ifndef TLI_LIVE_H
#define TLI_LIVE_H

#include "core/tensor/tensor.h"

/* From now on, having forgotten what was noted before; or no more. */
void tli_live_record(bool on);
bool tli_live_recording(void);

/* As the engine tells it while tli_profiling(). */
void tli_live_note(const tl_Storage *storage, bool freed);
void tli_live_dtype(const tl_Storage *storage, tl_DType dtype);

/* Storages of one size that one line has made. */
typedef struct tli_LiveGroup {
  const char *site, *op; /* static; NULL: unknown */
  tl_Device device;
  int8_t dtype; /* tl_DType */
  int64_t size; /* bytes of each */
  int64_t count;
} tli_LiveGroup;

/* All of them, those of the most bytes first; *n how many. NULL, with a message, if there is
** no memory; else to be given to tli_live_free. */
tli_LiveGroup *tli_live_groups(int64_t *n) TL_MUSTCHECK;
void tli_live_free(tli_LiveGroup *groups);

/* Writes the first groups in words, for messages; "" if nothing is recorded. */
void tli_live_head(char *text, size_t size);

#endif
