/*
** api.h - what a device is asked for beside its kernels: memory, streams, events
** and graphs. A plugin fills the table at the end (backend.h says how it is found);
** the binding's torch.cuda and torch.sim are made of it.
*/
#ifndef TLI_DEVICE_H
#define TLI_DEVICE_H

#include "core/kernel/kernel.h"

#define TL_MAX_DEVICES 32 /* of a kind */

/* A point of a stream's work, and work recorded for replay. */
typedef struct tl_Event tl_Event;
typedef struct tl_Graph tl_Graph;

/* Bytes from one place to another. */
struct tlk_transfer {
  const tlk_Context *cx; /* of the device, or of the one that receives */
  tl_Device to, from;    /* the CPU and a device, or two devices of one kind */
  void *dst;
  const void *src;
  int64_t bytes;
  bool async;             /* may return before the bytes have moved: host memory is pinned */
  tl_Stream *from_stream; /* of a device that sends: where the bytes were written */
};

/* By cudaDeviceProp's meaning; 0 where a device has no such thing. */
typedef struct tl_DeviceProperties {
  char name[128];
  int64_t total_memory; /* bytes */
  int major, minor;     /* the compute capability */
  int multi_processor_count;
  int warp_size, max_threads_per_block, max_threads_per_multi_processor;
  int64_t regs_per_multiprocessor, L2_cache_size;
  int64_t shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor;
  int64_t clock_rate, memory_clock_rate; /* kHz */
  int memory_bus_width;                  /* bits */
  int pci_bus_id, pci_device_id, pci_domain_id;
  char uuid[37]; /* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or "" */
  bool is_integrated, is_multi_gpu_board;
  bool bf16; /* its kernels compute in bfloat16 */
} tl_DeviceProperties;

/* ---- figures of memory ---- */

/* One figure: now, the most so far, and all that was added and taken away. */
typedef struct tl_Stat {
  int64_t current, peak, allocated, freed;
} tl_Stat;

static inline void tl_stat_add(tl_Stat *s, int64_t amount) {
  s->current += amount;
  if (s->current > s->peak) s->peak = s->current;
  if (amount > 0)
    s->allocated += amount;
  else
    s->freed -= amount;
}

/* Small blocks are packed into segments of their own. TL_POOL_ALL is the sum. */
typedef enum tl_Pool { TL_POOL_ALL, TL_POOL_LARGE, TL_POOL_SMALL, TL_NPOOLS } tl_Pool;

/* X(name): by the names and the meaning of torch.cuda.memory_stats. A block is active
** from alloc until it may be handed out again, which is later than free where another
** stream uses it; inactive_split are free blocks of segments that are in use; a segment
** is what the driver was asked for. */
#define TL_MEMORY_STATS(X) \
  X(allocation)            \
  X(segment)               \
  X(active)                \
  X(inactive_split)        \
  X(allocated_bytes)       \
  X(reserved_bytes)        \
  X(active_bytes)          \
  X(inactive_split_bytes)  \
  X(requested_bytes)

typedef struct tl_MemoryStats {
#define X(name) tl_Stat name[TL_NPOOLS];
  TL_MEMORY_STATS(X)
#undef X
  int64_t num_alloc_retries;                 /* allocations that had to give the cache back first */
  int64_t num_sync_all_streams;              /* waits for all streams on behalf of an allocation */
  int64_t num_device_alloc, num_device_free; /* calls of the driver */
  int64_t largest_free; /* the largest block that could be handed out without the driver */
  int64_t limit;        /* most bytes that may be reserved, see set_memory_limit */
} tl_MemoryStats;

/* The peaks begin anew from what there is now. */
static inline void tl_stats_reset_peaks(tl_MemoryStats *s) {
  for (int pool = 0; pool < TL_NPOOLS; pool++) {
#define X(name) s->name[pool].peak = s->name[pool].current;
    TL_MEMORY_STATS(X)
#undef X
  }
}

/* The sums begin anew from 0. */
static inline void tl_stats_reset_sums(tl_MemoryStats *s) {
  for (int pool = 0; pool < TL_NPOOLS; pool++) {
#define X(name) s->name[pool].allocated = s->name[pool].freed = 0;
    TL_MEMORY_STATS(X)
#undef X
  }
  s->num_alloc_retries = s->num_sync_all_streams = 0;
  s->num_device_alloc = s->num_device_free = 0;
}

/* ---- what memory is made of, and its history ---- */

typedef enum tl_BlockState {
  TL_BLOCK_ALLOCATED,
  TL_BLOCK_PENDING, /* freed, but another stream may still use it */
  TL_BLOCK_FREE
} tl_BlockState;

typedef struct tl_BlockInfo {
  const void *segment; /* where its segment begins */
  int64_t segment_bytes;
  int64_t stream_id; /* whose the segment is */
  uint64_t pool;     /* of graphs (capture_begin); 0: the general one */
  bool small;        /* of the pool of small blocks */
  const void *data;
  int64_t bytes, requested;
  tl_BlockState state;
} tl_BlockInfo;

typedef enum tl_MemoryAction {
  TL_MEMORY_ALLOC,
  TL_MEMORY_FREE_REQUESTED,
  TL_MEMORY_FREE_COMPLETED, /* it may be handed out again */
  TL_MEMORY_SEGMENT_ALLOC,
  TL_MEMORY_SEGMENT_FREE,
  TL_MEMORY_SEGMENT_MAP, /* of segments that grow and shrink */
  TL_MEMORY_SEGMENT_UNMAP,
  TL_MEMORY_OOM,     /* noted by the engine */
  TL_MEMORY_SNAPSHOT /* so is this one */
} tl_MemoryAction;

/* Who else is kept from unsafe calls while a stream captures: cudaStreamCaptureMode. */
typedef enum tl_CaptureMode {
  TL_CAPTURE_GLOBAL,
  TL_CAPTURE_THREAD_LOCAL,
  TL_CAPTURE_RELAXED
} tl_CaptureMode;

enum { TL_EVENT_TIMING = 1, TL_EVENT_BLOCKING = 2 /* who waits for it sleeps */ };

/* A kernel, copy or fill that a device has run; times in ns by a clock of its own. */
typedef struct tl_Activity {
  const char *name; /* while the call lasts */
  tl_Device device;
  int64_t stream_id, begin, end;
} tl_Activity;

/* ---- collectives of the devices' own ---- */

/* One rank of a group that meets on devices, such as NCCL's communicator. */
typedef struct tl_Comm tl_Comm;

/* ORDER COMMSTEP in the plugin. `out` of SEND and `in` of RECV are not looked at. */
typedef enum tl_CommKind {
  TL_COMM_ALL_REDUCE,     /* in, out: count elements, may be the same */
  TL_COMM_REDUCE,         /* the same; out is the root's */
  TL_COMM_BROADCAST,      /* the same; in is the root's */
  TL_COMM_ALL_GATHER,     /* in: count, out: count of each rank */
  TL_COMM_REDUCE_SCATTER, /* in: count for each rank, out: count */
  TL_COMM_SEND,           /* to `peer` */
  TL_COMM_RECV            /* from `peer` */
} tl_CommKind;

typedef enum tl_CommOp {
  TL_COMM_SUM,
  TL_COMM_PROD,
  TL_COMM_MAX,
  TL_COMM_MIN,
  TL_COMM_AVG
} tl_CommOp;

typedef struct tl_CommStep {
  tl_CommKind kind;
  tl_CommOp op;
  int dtype;     /* a tl_DType */
  int peer;      /* or the root */
  int64_t count; /* elements */
  const void *in;
  void *out;
} tl_CommStep;

enum { TL_COMM_ID_BYTES = 128 };

/* Nothing of this waits. All but abort is called by one thread at a time. */
typedef struct tl_CommApi {
  const char *name; /* "nccl" */
  /* What the ranks of one group know it by: made by one of them, for all. */
  bool (*id)(unsigned char id[TL_COMM_ID_BYTES]);
  /* Begins to join. NULL with a message. */
  tl_Comm *(*open)(tl_Device device, int rank, int size, const unsigned char id[TL_COMM_ID_BYTES]);
  /* Whether something that was begun (open, run, finalize) goes on; false with a message if
  ** the communicator has failed. */
  bool (*state)(tl_Comm *comm, bool *busy);
  /* Puts steps on a stream, as one where there are several: messages between the same
  ** ranks then go both ways at a time. */
  bool (*run)(tl_Comm *comm, tl_Stream *stream, const tl_CommStep *steps, int n);
  /* What is under way ends, with any results, and the communicator with it: it can only be
  ** closed. The next wait for the device fails with `why`. From any thread. */
  void (*abort)(tl_Comm *comm, const char *why);
  /* Begins to end in good order. */
  bool (*finalize)(tl_Comm *comm);
  void (*close)(tl_Comm *comm);
  /* Memory that will often be sent or received: lets it be used without copies where that is
  ** possible, else NULL without a message. */
  void *(*add_buffer)(tl_Comm *comm, void *data, int64_t bytes);
  void (*remove_buffer)(tl_Comm *comm, void *buffer);
} tl_CommApi;

/* What is the device's own business. All may be called from any thread. What can
** fail returns false or NULL with a message; whatever waits for the device also
** reports the fault in its error word.
**
** Waiting (stream_sync, sync, event_sync, a transfer to the host that is not async)
** on behalf of a stream that takes part in a capture fails, before the driver is
** asked, which would break the capture: TL_EDEVICE, "not possible while a graph is
** captured". The binding adds the operator's name and the line. */
typedef struct tl_DeviceApi {
  int (*count)(void);
  bool (*properties)(int index, tl_DeviceProperties *out);
  bool (*can_access_peer)(int device, int peer);
  /* Of "cuda" (13000), "cudnn" (91900), "nccl", ...; 0: not there. */
  int64_t (*library_version)(const char *name);
  const char *architectures; /* "80 90": what its kernels are compiled for; NULL: all there are */

  /* A block belongs to the stream it was asked for on: it may be handed out
  ** again as soon as it is freed, since what uses it next comes later on that
  ** stream. Other streams that use it must be made known by record_stream. A stream
  ** that takes part in a capture gets memory of the capture's pool.
  **
  ** Where there is none left: first blocks that wait for other streams are looked
  ** at, then the cache is given back and all streams are waited for (not while one of
  ** the device captures), then NULL with TL_EMEM and any message: the engine lets
  ** the collector work and asks once more, and then says what the figures are. */
  void *(*alloc)(const tlk_Context *cx, int64_t bytes);
  /* Of a tensor's last owner, perhaps a finalizer: does not wait, does not fail. Of a
  ** block that a capture has put to use on several streams (record_stream) it takes
  ** effect when no capture of the device is open. */
  void (*free)(tl_Device device, void *data, int64_t bytes);
  bool (*record_stream)(tl_Device device, void *data, tl_Stream *stream);
  bool (*transfer)(const struct tlk_transfer *call);
  /* Gives memory that is kept for reuse back; waits for the blocks that other streams
  ** use. */
  bool (*trim)(tl_Device device);
  bool (*memory_stats)(tl_Device device, tl_MemoryStats *out);
  bool (*reset_peaks)(tl_Device device); /* tl_stats_reset_peaks */
  bool (*reset_sums)(tl_Device device);  /* tl_stats_reset_sums */
  /* What the driver says, other programs included. */
  bool (*memory_info)(tl_Device device, int64_t *free, int64_t *total);
  /* More than that is not reserved from now on. */
  bool (*set_memory_limit)(tl_Device device, int64_t bytes);
  /* Calls `visit` for each block, segments in the order of their addresses and so
  ** the blocks of each; under the allocator's lock: visit calls nothing of this table. */
  bool (*memory_blocks)(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                        void *to);
  /* Host memory that the device reads without a copy of the driver's. */
  void *(*pinned_alloc)(int64_t bytes);
  void (*pinned_free)(void *data, int64_t bytes);

  /* Streams stay for good: a device hands a few out in turn. */
  tl_Stream *(*default_stream)(tl_Device device);
  /* The lower the priority the more urgent; out of range it is clamped. */
  tl_Stream *(*stream)(tl_Device device, int priority);
  void (*priority_range)(tl_Device device, int *least, int *greatest);
  /* What the driver's own calls name a stream by, and the stream of a handle, which others may
  ** have made: it must stay as long as it is used here. NULL where there are no such. */
  tl_Stream *(*stream_of)(tl_Device device, void *handle);
  void *(*stream_handle)(const tl_Stream *stream);
  int64_t (*stream_id)(const tl_Stream *stream); /* 0: the default one; takes no lock */
  int (*stream_priority)(const tl_Stream *stream);
  bool (*stream_sync)(tl_Stream *stream);
  bool (*stream_query)(tl_Stream *stream, bool *done);
  bool (*stream_wait)(tl_Stream *stream, tl_Event *event);
  bool (*sync)(tl_Device device);

  tl_Event *(*event)(tl_Device device, int flags);
  void (*event_free)(tl_Event *event);
  bool (*event_record)(tl_Event *event, tl_Stream *stream);
  bool (*event_sync)(tl_Event *event);
  bool (*event_query)(tl_Event *event, bool *done);
  bool (*event_elapsed)(tl_Event *start, tl_Event *end, double *milliseconds);

  /* Between the two calls what is put on the stream is recorded, not run. A stream
  ** that waits for an event recorded within a capture takes part in it from then on;
  ** before the end its work must have been joined by an event that the first stream
  ** waits for. A stream that takes part cannot wait for an event from outside.
  **
  ** What is allocated meanwhile is of the pool of that number, which the engine gives
  ** (never 0): it lives as long as a capture or a graph made with it, and its free
  ** blocks are handed out to captures alone. What leaves a pool that ends may still
  ** be in use by launches on their way: only after them is it handed out. */
  bool (*capture_begin)(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode);
  /* The capture is over in any case, for all streams of it; NULL where it cannot be
  ** replayed: work was not joined, or a call of the driver has broken it. */
  tl_Graph *(*capture_end)(tl_Stream *stream);
  /* The number of the capture that a stream takes part in; 0: none. Cheap. */
  uint64_t (*capture)(const tl_Stream *stream);
  bool (*graph_launch)(tl_Graph *graph, tl_Stream *stream);
  void (*graph_free)(tl_Graph *graph); /* may still run: it ends later then */

  /* Bytes of the array that the kernel rnn leaves to rnn_backward, at the most; NULL:
  ** tlk_rnn_reserve. */
  int64_t (*rnn_reserve)(tl_Device device, const tlk_Rnn *rnn);
  /* How often the host has waited for the device so far. */
  int64_t (*waits)(tl_Device device);
  /* From now on `note` is told of what the devices have run, from any thread, sometime later;
  ** *now is what the clock of the times says. note NULL: all that has ended is told before
  ** it returns, and then no more. False, without a message, where it cannot be had. NULL:
  ** never. */
  bool (*activities)(void (*note)(const tl_Activity *activity), int64_t *now);
  /* Settings of the kind's own; NULL where there are none. */
  bool (*configure)(const char *key, int64_t value);
  /* Groups of devices; NULL, with a message, where there are none. May itself be NULL. */
  const tl_CommApi *(*comms)(void);
  /* Factorizations; NULL, without a message, where their library is not there. May itself be
  ** NULL. */
  const struct tlk_Lapack *(*lapack)(void);
} tl_DeviceApi;

/* ---- what users set for kernels ---- */

/* The numbers that host->setting gives. */
typedef enum tl_Setting {
  TL_MATMUL_PRECISION,      /* of float32: 0 exact, 1 TF32, 2 bfloat16 or TF32 */
  TL_MATMUL_REDUCED_FP16,   /* sums of float16 products may be rounded to it; 1 at first */
  TL_MATMUL_REDUCED_BF16,   /* and of bfloat16; 1 at first */
  TL_CUDNN_ENABLED,         /* 1 at first */
  TL_CUDNN_TF32,            /* cuDNN may compute float32 in TF32; 1 at first */
  TL_CUDNN_BENCHMARK,       /* measure algorithms and take the fastest */
  TL_CUDNN_BENCHMARK_LIMIT, /* so many of them; 0: all. 10 at first */
  TL_CUDNN_DETERMINISTIC,   /* only algorithms with the same bits each time */
  TL_DETERMINISTIC,         /* of all operators: 0 any, 1 warn, 2 only those */
  TL_FILL_UNINITIALIZED,    /* then new memory without contents gets some; 1 at first */
  TL_SYNC_DEBUG,            /* of operators that wait for a device: 0 nothing, 1 warn, 2 fail */
  TL_DISK_CACHE,            /* what was compiled or measured is kept on disk; 1 at first */
  TL_FUSION,                /* chains of elementwise kernels in graphs become one; 1 at first */
  TL_SDP_BACKENDS,          /* those that attention may choose: a set of TL_SDP_...; all at first */
  TL_NSETTINGS
} tl_Setting;

enum {
  TL_SDP_MATH = 1, /* by operators that keep all weights */
  TL_SDP_FLASH = 2,
  TL_SDP_EFFICIENT = 4,
  TL_SDP_CUDNN = 8,
  TL_SDP_MATH_FIRST = 16, /* math is preferred where it is allowed */
};

#endif
