/*
** sim.h - the simulated device, plugin tlua_sim.so: the CPU's kernels behind a
** device that is hostile on purpose. What goes wrong on a GPU goes wrong here,
** the same way every time for one seed:
**
**  - Its memory cannot be read or written by the host (memory.c): an operator that
**    tries is stopped, with its name. Kernels reach it under another address.
**  - Its streams are queues (queue.c) that a thread of its own works off as late as
**    it may, in an order drawn from a seed: a wait that is missing shows as a wrong
**    number.
**  - Freed memory is overwritten in the order of its stream and handed out again at
**    once, capacity is small, and any call can be made to fail.
**
** One lock guards everything but the kernels' own work. Names that begin with
** sim_locked_ are called with the lock held.
*/
#ifndef TLK_SIM_H
#define TLK_SIM_H

#include <pthread.h>

#include "core/device/backend.h"

#define SIM_STREAMS 17 /* the default one and those handed out, half of them urgent */

typedef bool (*sim_KernelFn)(const void *call);

typedef enum sim_Kind { SIM_KERNEL, SIM_COPY, SIM_POISON, SIM_RECORD, SIM_WAIT } sim_Kind;

/* Work on a stream. */
typedef struct sim_Command {
  struct sim_Command *next;
  sim_Kind kind;
  union {
    struct {
      sim_KernelFn run;
      bool iter; /* the call begins with a tli_Iter */
      const char *name;
    } kernel;
    struct {
      void *dst;
      const void *src;
      int64_t bytes;
    } copy; /* SIM_POISON: dst and bytes */
    struct {
      tl_Event *event; /* owned reference */
      uint64_t ticket;
      struct sim_Command *record; /* borrowed; a wait's, within a graph */
      uint64_t launch;            /* a record's, within a graph: the last that has passed it */
    } point;
  };
  size_t size; /* of the call that follows */
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
  uint64_t put, done;  /* commands so far, and those worked off */
  tl_Graph *recording; /* borrowed; NULL: it takes part in no capture */
};

/* How much of each stream's work in a capture comes before some point. */
typedef uint64_t sim_Clock[SIM_STREAMS];

struct tl_Event {
  int refs;
  tl_Device device;
  uint64_t recorded, reached; /* tickets */
  tl_Stream *stream;          /* recorded on last */
  double time;                /* seconds, of the last one reached */
  bool timing;
  uint64_t capture;    /* recorded last in the capture of that number; 0: in none */
  sim_Command *record; /* borrowed; there, while it is open */
  sim_Clock clock;     /* what came before */
};

/* Memory that graphs share: what captures of its number have allocated. */
typedef struct sim_Pool {
  struct sim_Pool *next;
  uint64_t number;
  int holders;       /* captures and graphs; the last one takes it away */
  uint32_t launched; /* streams, as bits, on which its graphs were launched */
} sim_Pool;

/* A piece of the arena that blocks are cut from. */
typedef struct sim_Segment {
  char *data;
  int64_t bytes;
  tl_Stream *stream; /* whose it is */
  uint64_t pool;     /* of graphs; 0: the general one */
  bool small;
} sim_Segment;

/* A device's memory, in the order of addresses. */
typedef struct sim_Block {
  struct sim_Block *before, *after;
  char *data;
  int64_t bytes, requested;
  sim_Segment *segment; /* owned by its first block; NULL: nobody's */
  bool used;
  bool deferred;                  /* freed; others are asked when no capture is open */
  uint32_t others;                /* streams, as bits, that record_stream has named */
  tl_Event *pending[SIM_STREAMS]; /* owned; to be reached before it is free */
} sim_Block;

struct tl_Graph {
  struct sim_Device *device;
  uint64_t number; /* of the capture */
  sim_Pool *pool;  /* held */
  tl_Stream *origin;
  sim_Queue lanes[SIM_STREAMS]; /* each stream's part */
  sim_Clock done[SIM_STREAMS];  /* while it is captured: what each stream comes after */
  uint64_t launches;
};

typedef struct sim_Device {
  int index;
  char *arena;
  int64_t capacity, total, limit; /* limit: by set_memory_limit */
  int64_t shift;                  /* from an address in the arena to where kernels find the byte */
  sim_Block *root;                /* the first by address */
  sim_Pool *pools;
  tl_MemoryStats stats;
  tl_Stream streams[SIM_STREAMS];
  int next_stream[2];  /* of the ordinary ones and of the urgent ones */
  tlk_Fault fault;     /* the error word */
  tl_ErrorKind failed; /* of a kernel that could not do its work */
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
/* Counts a call that may be made to fail; false with a message when it is its turn,
** or when this process is a fork of the one that opened the devices. */
pthread_mutex_t *sim_mutex(void);
bool sim_locked_may_go(const char *what);
/* The part about forks alone. */
bool sim_locked_is_here(const char *what);
uint64_t sim_locked_random(void);
/* The fault or failure that was noted, as the failure of this call; or true. */
bool sim_locked_report(sim_Device *device);

/* ---- queue.c ---- */

/* tl_DeviceApi.activities */
bool sim_activities(void (*note)(const tl_Activity *activity), int64_t *now);
bool sim_locked_put(tl_Stream *stream, sim_Kind kind, const sim_Command *what, const void *call,
                    size_t size);
/* The same for what is no part of a graph and may not wait: frees. */
bool sim_locked_put_free(tl_Stream *stream, sim_Kind kind, const sim_Command *what,
                         const void *call, size_t size);
/* Puts the commands of a queue, all of them, and empties it. */
bool sim_locked_put_all(tl_Stream *stream, sim_Queue *commands);
/* The command added, the queue's; NULL with a message. */
sim_Command *sim_queue_add(sim_Queue *queue, sim_Kind kind, const sim_Command *what,
                           const void *call, size_t size);
void sim_queue_clear(sim_Queue *queue);
/* Has a stream's work up to a number of commands worked off; does not report. */
bool sim_locked_drain(tl_Stream *stream, uint64_t upto);
/* The same for one who waits, which is counted; reports. */
bool sim_locked_finish(tl_Stream *stream, uint64_t upto);
/* Waits for a stream and copies to the host then: where waiting fails nothing is left
** in the queue that would write there later. */
bool sim_locked_fetch(tl_Stream *stream, const sim_Command *copy);
bool sim_locked_finish_device(sim_Device *device);
bool sim_locked_finish_event(tl_Event *event);
/* False with a message while the stream takes part in a capture. */
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

/* Work of a stream that takes part in a capture. */
bool sim_locked_record(tl_Stream *stream, sim_Kind kind, const sim_Command *what, const void *call,
                       size_t size);
/* An event's point, and a wait for it, within a capture. */
bool sim_locked_record_event(tl_Event *event, tl_Stream *stream);
bool sim_locked_record_wait(tl_Stream *stream, tl_Event *event);
bool sim_locked_capturing(const sim_Device *device);
bool sim_capture_begin(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode);
tl_Graph *sim_capture_end(tl_Stream *stream);
uint64_t sim_capture(const tl_Stream *stream);
bool sim_graph_launch(tl_Graph *graph, tl_Stream *stream);
void sim_graph_free(tl_Graph *graph);

/* ---- memory.c ---- */

bool sim_memory_open(sim_Device *device, int64_t capacity);
/* An address as kernels know it: one in the memory of a device is moved to where that
** can be touched, any other stays. */
uintptr_t sim_reachable(uintptr_t address);
/* The device whose memory an address lies in, NULL if none. */
const sim_Device *sim_owner(const void *address);
void *sim_pinned_alloc(int64_t bytes);
void sim_pinned_free(void *data, int64_t bytes);
bool sim_transfer(const struct tlk_transfer *call);

/* ---- blocks.c ---- */

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
/* A pool of graphs, with one more holder; NULL with a message. */
sim_Pool *sim_locked_pool(sim_Device *device, uint64_t number);
/* One holder less. Without one, what the pool has is the general pool's. */
void sim_locked_pool_drop(sim_Device *device, sim_Pool *pool);
/* No capture is open any more: frees that were put off for it. */
void sim_locked_undefer(sim_Device *device);

#endif
