/*
** live_storages.h - records the storages that exist and, for each of them, the script line and the
** operator that created it. torch.memory_snapshot returns the record, which covers all threads.
*/
#ifndef TLI_LIVE_STORAGES_H
#define TLI_LIVE_STORAGES_H

#include "core/tensor/tensor.h"

/* Turns recording on or off. Both drop earlier records. */
void tli_live_record(bool on);
bool tli_live_recording(void);

/* Records that a storage was created or freed. The engine calls this function while tli_profiling()
** is true. */
void tli_live_note(const tl_Storage *storage, bool freed);
void tli_live_dtype(const tl_Storage *storage, tl_DType dtype);

/* Storages of equal size, dtype and device that the same operator has created on the same line of a
** script. */
typedef struct tli_LiveGroup {
  const char *site, *op; /* line and operator, static texts; NULL if unknown */
  tl_Device device;
  int8_t dtype; /* tl_DType */
  int64_t size; /* size in bytes of each storage in the group */
  int64_t count;
} tli_LiveGroup;

/* Returns all groups, ordered by descending total size, and sets *n to their number. Returns NULL
** with a message if memory is exhausted; tli_live_free frees the result. */
tli_LiveGroup *tli_live_groups(int64_t *n) TL_MUSTCHECK;
void tli_live_free(tli_LiveGroup *groups);

/* Describes the largest groups as text for messages. The text is "" if recording is off. */
void tli_live_head(char *text, size_t size);

#endif
