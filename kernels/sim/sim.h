/*
** sim.h - the simulated device (plugin tlua_sim.so). It runs the CPU's kernels, but it is made to
** reveal mistakes: a mistake that would fail on a GPU fails on this device, in the same way
** whenever the seed is the same.
**
**  - The host cannot read or write the device's memory (memory.c). If an operator tries to, the
**    process ends with a message that names the operator. Kernels use other addresses for this
**    memory.
**  - The device's streams are queues (queue.c). A thread runs their commands as late as the
**    rules allow, in a random order. So a missing wait shows as a wrong number.
**  - Freed memory is overwritten in the order of its stream, and reused immediately.
**    The memory is small, and any call can be made to fail.
**
** One lock guards everything. The thread releases it while a kernel or a copy runs. Functions whose
** names begin with sim_locked_ must be called with the lock held.
*/
#ifndef TLK_SIM_H
#define TLK_SIM_H

#include <pthread.h>

#include "core/device/backend.h"
#include "core/device/host.h"
#include "kernels/device/blocks.h"

/* number of streams: the default stream, and equal numbers of streams of normal and of high
** priority */
#define SIM_STREAMS 17

typedef bool (*sim_KernelFn)(const void *call);

typedef enum sim_Kind { SIM_KERNEL, SIM_COPY, SIM_POISON, SIM_RECORD, SIM_WAIT } sim_Kind;

/* A command on a stream. */
typedef struct sim_Command {
  struct sim_Command *next;
  sim_Kind kind;
  union {
    struct {
      sim_KernelFn run;
      bool iter; /* whether the call has a tli_Iter */
      const char *name;
    } kernel;
    struct {
      void *dst;
      const void *src;
      int64_t bytes;
    } copy; /* the addresses of a SIM_COPY command; a SIM_POISON command uses only dst and bytes */
    struct {
      tl_Event *event; /* the event that is recorded or waited for (owned reference) */
      uint64_t ticket;
      /* for SIM_WAIT in a graph: the SIM_RECORD command that it waits for (borrowed) */
      struct sim_Command *record;
      /* for SIM_RECORD in a graph: number of the last launch that has passed this command */
      uint64_t launch;
    } point;
  };
  size_t size; /* size in bytes of the call, which is stored after this struct */
  _Alignas(16) char call[];
} sim_Command;

typedef struct sim_Queue {
  sim_Command *first, **last;
  int64_t length;
} sim_Queue;

struct tl_Stream {
  struct sim_Device *device;
  int id, priority;
  sim_Queue queue;
  uint64_t put, done; /* number of commands queued so far, and number of commands finished so far */
  /* the open capture that the stream takes part in (borrowed); NULL if there is none */
  tl_Graph *recording;
};

/* A point in a capture: for each stream, the number of its commands that come before that point. */
typedef uint64_t sim_Clock[SIM_STREAMS];

struct tl_Event {
  int refs;
  tl_Device device;
  uint64_t recorded, reached; /* tickets */
  tl_Stream *stream;          /* the stream on which the event was recorded last */
  double time;                /* time at which a stream last reached the event, in seconds */
  bool timing;
  /* number of the capture in which the event was recorded last; 0 if it was not recorded in a
  ** capture */
  uint64_t capture;
  /* the SIM_RECORD command of the event while the capture is open (borrowed) */
  sim_Command *record;
  sim_Clock clock; /* for each stream, the number of its commands that come before `record` */
};

/* A range of a device's address space that holds an arena. */
typedef struct sim_Range {
  struct sim_Range *next; /* the range with the next higher address */
  char *at;
  int64_t bytes;
} sim_Range;

struct tl_Graph {
  struct sim_Device *device;
  uint64_t number;   /* number of the capture that made the graph */
  uint64_t pool;     /* number of the pool that the graph holds */
  uint64_t launched; /* bit mask of the streams on which the graph was launched */
  tl_Stream *origin;
  sim_Queue lanes[SIM_STREAMS]; /* the recorded commands of each stream */
  /* used during the capture: done[s][t] is the number of commands of stream t that come before the
  ** next command of stream s */
  sim_Clock done[SIM_STREAMS];
  uint64_t launches;
};

typedef struct sim_Device {
  int index;
  char *base;    /* first address of the device's memory for the host, which may not access it */
  int64_t bytes; /* size of the address space in bytes */
  /* the kernels' address of a byte minus the host's address of the same byte */
  int64_t shift;
  int64_t total, limit; /* size of the memory in bytes, and the limit from set_memory_limit */
  sim_Range *ranges;    /* owned */
  tlk_Blocks blocks;
  tl_Stream streams[SIM_STREAMS];
  /* counters by which sim_stream chooses streams in turn, of normal and of high priority */
  int next_stream[2];
  tlk_Fault fault;     /* the first fault that a kernel has found */
  tl_ErrorKind failed; /* kind of error of the first kernel that failed */
  char failure[256];
  int64_t waits;
} sim_Device;

extern const tl_Host *sim_host;
extern const tl_Backend sim_backend;

/* ---- plugin.c ---- */

void sim_lock(void);
void sim_unlock(void);
sim_Device *sim_device(int index);
int sim_device_count(void);
/* sim_mutex returns the lock that guards all devices. sim_locked_may_go must be called in each
** function that can be made to fail. It returns false with a message if this call is to fail, or in
** a forked child of the process that opened the devices. */
pthread_mutex_t *sim_mutex(void);
bool sim_locked_may_go(const char *what);
/* Returns false with a message in a forked child of the process that opened the devices. */
bool sim_locked_is_here(const char *what);
uint64_t sim_locked_random(void);
/* If a kernel has found a fault or failed, reports this as the failure of the current call and
** returns false. */
bool sim_locked_report(sim_Device *device);

/* ---- queue.c ---- */

/* Implements tl_DeviceApi.activities. */
bool sim_activities(void (*note)(const tl_Activity *activity), int64_t *now);
bool sim_locked_put(tl_Stream *stream, sim_Kind kind, const sim_Command *what, const void *call,
                    size_t size);
/* Queues a command, even if the stream takes part in a capture. Never waits. */
bool sim_locked_put_free(tl_Stream *stream, sim_Kind kind, const sim_Command *what,
                         const void *call, size_t size);
/* Moves all commands of `commands` to the queue of the stream. */
bool sim_locked_put_all(tl_Stream *stream, sim_Queue *commands);
/* Copies a command to the end of a queue, which owns the copy. Returns NULL with a message on
** failure. */
sim_Command *sim_queue_add(sim_Queue *queue, sim_Kind kind, const sim_Command *what,
                           const void *call, size_t size);
void sim_queue_clear(sim_Queue *queue);
/* Runs the first `upto` commands of a stream. Does not report the faults that kernels find
** meanwhile. */
bool sim_locked_drain(tl_Stream *stream, uint64_t upto);
/* Runs the first `upto` commands of a stream, counts this as a wait, and reports faults. */
bool sim_locked_finish(tl_Stream *stream, uint64_t upto);
/* Waits for a stream, and then copies to the host. If waiting fails, no command remains that would
** write to the host's memory later. */
bool sim_locked_fetch(tl_Stream *stream, const sim_Command *copy);
bool sim_locked_finish_device(sim_Device *device);
/* Overwrites all freed memory at once, instead of when the queues reach their SIM_POISON
** commands. */
void sim_locked_poison_now(sim_Device *device);
bool sim_locked_finish_event(tl_Event *event);
/* Returns false with a message if the stream takes part in a capture. */
bool sim_locked_not_recording(const tl_Stream *stream, const char *what);
void sim_locked_event_drop(tl_Event *event);

/* ---- stream.c: the part of the table about streams and events ---- */

tl_Stream *sim_default_stream(tl_Device device);
tl_Stream *sim_stream(tl_Device device, int priority);
void sim_priority_range(tl_Device device, int *least, int *greatest);
int64_t sim_stream_id(const tl_Stream *stream);
int sim_stream_priority(const tl_Stream *stream);
bool sim_stream_sync(tl_Stream *stream);
bool sim_stream_query(tl_Stream *stream, bool *done);
bool sim_stream_wait(tl_Stream *stream, tl_Event *event);
bool sim_sync(tl_Device device);
tl_Event *sim_event(tl_Device device, int flags);
void sim_event_free(tl_Event *event);
bool sim_event_record(tl_Event *event, tl_Stream *stream);
bool sim_event_sync(tl_Event *event);
bool sim_event_query(tl_Event *event, bool *done);
bool sim_event_elapsed(tl_Event *start, tl_Event *end, double *milliseconds);

/* ---- capture.c ---- */

/* Records a command on a stream that takes part in a capture. */
bool sim_locked_record(tl_Stream *stream, sim_Kind kind, const sim_Command *what, const void *call,
                       size_t size);
/* These functions add to an open capture that an event is recorded, or that a stream waits for an
** event. */
bool sim_locked_record_event(tl_Event *event, tl_Stream *stream);
bool sim_locked_record_wait(tl_Stream *stream, tl_Event *event);
bool sim_capture_begin(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode);
tl_Graph *sim_capture_end(tl_Stream *stream);
uint64_t sim_capture(const tl_Stream *stream);
bool sim_graph_launch(tl_Graph *graph, tl_Stream *stream);
void sim_graph_free(tl_Graph *graph);

/* ---- memory.c: the part of the table about memory ---- */

bool sim_memory_open(sim_Device *device, int64_t total);
/* Changes the size in bytes of the memory that the device reports. */
void sim_locked_set_memory(sim_Device *device, int64_t total);
/* Translates an address in a device's memory to the address that kernels use. Returns any other
** address unchanged. */
uintptr_t sim_reachable(uintptr_t address);
/* Returns the device whose memory contains an address; NULL if there is none. */
const sim_Device *sim_owner(const void *address);
void *sim_pinned_alloc(int64_t bytes);
void sim_pinned_free(void *data, int64_t bytes);
void *sim_alloc(const tlk_Context *cx, int64_t bytes);
void sim_free(tl_Device device, void *data, int64_t bytes);
bool sim_record_stream(tl_Device device, void *data, tl_Stream *stream);
bool sim_trim(tl_Device device);
bool sim_memory_stats(tl_Device device, tl_MemoryStats *out);
bool sim_reset_peaks(tl_Device device);
bool sim_reset_sums(tl_Device device);
bool sim_memory_info(tl_Device device, int64_t *free, int64_t *total);
bool sim_set_memory_limit(tl_Device device, int64_t bytes);
bool sim_memory_blocks(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                       void *to);

/* ---- transfer.c ---- */

bool sim_transfer(const struct tlk_transfer *call);

#endif
