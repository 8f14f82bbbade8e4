/*
** history.h - records the allocations and frees of a kind of device, and the code that allocated
** each block. torch.cuda.memory._snapshot returns the records.
*/
#ifndef TLI_HISTORY_H
#define TLI_HISTORY_H

#include <stdatomic.h>

#include "core/device/api.h"

/* A call stack as text, the innermost frame first; each frame is "source\tline\tfunction\n". */
typedef struct tli_Stack {
  atomic_int refs;
  uint64_t hash;
  struct tli_Stack *next; /* the next stack in the same bucket (owned) */
  size_t size;
  char text[];
} tli_Stack;
void tli_stack_release(tli_Stack *s); /* Releases a reference to a stack. Accepts NULL. */

typedef struct tli_MemoryEvent {
  tl_Device device;
  tl_MemoryAction action;
  const void *data;
  int64_t bytes, stream_id;
  int64_t time;     /* time of the event, in ns since 1970 */
  tli_Stack *stack; /* the call stack (owned); NULL if none was recorded */
} tli_MemoryEvent;

/* A function that writes the running call's stack into `text` and returns its size. The binding
** sets this pointer. */
extern size_t (*_Atomic tli_read_call_stack)(char *text, size_t size);
/* A frame of the running call's stack, before it is formatted as text. `source` belongs to Lua and
** is valid during the call. tli_call_frames lists the frames, innermost first, and returns their
** number. The binding sets this pointer. */
typedef struct tli_Frame {
  const char *source;
  int line, function; /* the line that is running, and the line on which its function begins */
} tli_Frame;
extern int (*_Atomic tli_call_frames)(tli_Frame *frames, int most);

typedef struct tli_Recording {
  bool on;
  /* whether events are recorded; otherwise only the call stack that allocated each live block is
  ** recorded */
  bool events;
  bool alloc_stacks; /* whether the stacks of allocations and of failed allocations are recorded */
  bool other_stacks; /* whether the stacks of all other events are recorded */
  int64_t most;      /* the largest number of events; older ones are dropped */
} tli_Recording;
/* Sets which data are recorded for a kind of device. If `clear` is true, drops earlier records. */
void tli_history_record(tl_DeviceType type, const tli_Recording *recording, bool clear);

/* Records a memory event. The engine and plugins (tl_Host) call this function. */
void tli_memory_event(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                      int64_t stream_id);

/* A copy of the recorded events, oldest first. */
typedef struct tli_History {
  int64_t n;
  tli_MemoryEvent *events; /* owned */
} tli_History;
bool tli_history_copy(tl_DeviceType type, tli_History *out) TL_MUSTCHECK;
void tli_history_free(tli_History *history);
/* Returns a new reference to the stack that allocated a live block, or NULL. */
tli_Stack *tli_history_owner(tl_DeviceType type, const void *data);

#endif
