/*
** history.h - records what happens to the memory of a kind of device and which code allocated
** it, for later inspection; see torch.cuda.memory._snapshot.
*/
#ifndef TLI_HISTORY_H
#define TLI_HISTORY_H

#include <stdatomic.h>

#include "core/device/api.h"

/* The call stack, innermost line first, each "source\tline\tfunction\n". */
typedef struct tli_Stack {
  atomic_int refs;
  uint64_t hash;
  struct tli_Stack *next; /* owned; the next stack in the same bucket */
  size_t size;
  char text[];
} tli_Stack;
void tli_stack_release(tli_Stack *s); /* accepts NULL */

typedef struct tli_MemoryEvent {
  tl_Device device;
  tl_MemoryAction action;
  const void *data;
  int64_t bytes, stream_id;
  int64_t time;     /* ns since 1970 */
  tli_Stack *stack; /* owned; may be NULL */
} tli_MemoryEvent;

/* Writes the running call's stack into `text`; returns its size. Set by the binding. */
extern size_t (*_Atomic tli_read_call_stack)(char *text, size_t size);
/* A frame of the running call's stack, without formatting; frames are listed innermost first.
** `source` is Lua's, valid during the call. The function below returns the number of frames. */
typedef struct tli_Frame {
  const char *source;
  int line, function; /* the running line, and the line where its function begins */
} tli_Frame;
extern int (*_Atomic tli_call_frames)(tli_Frame *frames, int most);

typedef struct tli_Recording {
  bool on;
  bool events;       /* records events; otherwise only the stacks that allocated present blocks */
  bool alloc_stacks; /* records the stack of each allocation */
  bool other_stacks; /* records the stack of each free */
  int64_t most;      /* the most events; older ones are dropped */
} tli_Recording;
/* Sets the recorded data for a kind of device; `clear` drops earlier records. */
void tli_history_record(tl_DeviceType type, const tli_Recording *recording, bool clear);

/* Records an event. Called by the engine and by plugins (tl_Host). */
void tli_memory_event(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                      int64_t stream_id);

/* A copy of the recorded events, oldest first. */
typedef struct tli_History {
  int64_t n;
  tli_MemoryEvent *events; /* owned */
} tli_History;
bool tli_history_copy(tl_DeviceType type, tli_History *out) TL_MUSTCHECK;
void tli_history_free(tli_History *history);
/* Returns a new reference to the stack that allocated a present block, or NULL. */
tli_Stack *tli_history_owner(tl_DeviceType type, const void *data);

#endif
