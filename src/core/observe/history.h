/*
** history.h - what became of the memory of a kind of device, and who asked for it,
** while somebody records it: for a look at it later, see torch.cuda.memory._snapshot.
*/
#ifndef TLI_HISTORY_H
#define TLI_HISTORY_H

#include <stdatomic.h>

#include "core/device/api.h"

/* The lines that were being run, innermost first, each "source\tline\tfunction\n". */
typedef struct tli_Stack {
  atomic_int refs;
  uint64_t hash;
  struct tli_Stack *next; /* owned; of the same bucket */
  size_t size;
  char text[];
} tli_Stack;
void tli_stack_release(tli_Stack *s); /* NULL is fine */

typedef struct tli_MemoryEvent {
  tl_Device device;
  tl_MemoryAction action;
  const void *data;
  int64_t bytes, stream_id;
  int64_t time;     /* ns since 1970 */
  tli_Stack *stack; /* owned; NULL */
} tli_MemoryEvent;

/* Writes the running call's lines into `text`; how many bytes. Set by the binding. */
extern size_t (*_Atomic tli_call_stack)(char *text, size_t size);
/* The same lines, innermost first, without their words; how many. `source` as Lua has it, while
** the call lasts. */
typedef struct tli_Frame {
  const char *source;
  int line, function; /* the running line; where its function begins */
} tli_Frame;
extern int (*_Atomic tli_call_frames)(tli_Frame *frames, int most);

typedef struct tli_Recording {
  bool on;
  bool events;       /* else only who has asked for what is alive */
  bool alloc_stacks; /* who asked for memory */
  bool other_stacks; /* who gave it back */
  int64_t most;      /* events: older ones are forgotten */
} tli_Recording;
/* Sets what is recorded of a kind of device; `clear` forgets what was. */
void tli_history_record(tl_DeviceType type, const tli_Recording *recording, bool clear);

/* As the engine and plugins tell it (tl_Host). */
void tli_memory_event(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                      int64_t stream_id);

/* What was recorded, oldest first; a copy. */
typedef struct tli_History {
  int64_t n;
  tli_MemoryEvent *events; /* owned */
} tli_History;
bool tli_history_copy(tl_DeviceType type, tli_History *out) TL_MUSTCHECK;
void tli_history_free(tli_History *history);
/* Who asked for memory that is alive: a new reference, or NULL. */
tli_Stack *tli_history_owner(tl_DeviceType type, const void *data);

#endif
