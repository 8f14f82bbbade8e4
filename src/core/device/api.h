/*
** api.h - the functions of a device besides its kernels: memory, streams, events and graphs. A
** plugin fills the table tl_DeviceApi; torch.cuda and torch.sim are built on this table. backend.h
** describes how the engine finds the plugin.
*/
#ifndef TLI_DEVICE_H
#define TLI_DEVICE_H

#include "core/kernel/kernel.h"

#define TL_MAX_DEVICES 32 /* the largest number of devices of each kind */

/* An event marks a point in a stream's work. A graph is work recorded for replay. */
typedef struct tl_Event tl_Event;
typedef struct tl_Graph tl_Graph;

/* A call that copies bytes to or from a device, or between two devices of one kind. */
struct tlk_transfer {
  /* the context of the device; in a copy between two devices, the context of the receiving
  ** device */
  const tlk_Context *cx;
  /* the destination and the source: the CPU and a device, or two devices of one kind */
  tl_Device to, from;
  void *dst;
  const void *src;
  int64_t bytes;
  /* whether the copy may still run when the call returns; if so, host memory is pinned */
  bool async;
  /* in a copy between two devices: the stream of the source device, on which the bytes were
  ** written; otherwise NULL */
  tl_Stream *from_stream;
};

/* The properties of a device, as in cudaDeviceProp; a property that the device lacks is 0. */
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
  /* the UUID as text of the form "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"; "" if the device has
  ** none */
  char uuid[37];
  bool is_integrated, is_multi_gpu_board;
  bool bf16; /* whether the device's kernels support bfloat16 */
} tl_DeviceProperties;

/* ---- memory statistics ---- */

/* One statistic: the current value, the maximum so far, and the sums of all increases and of all
** decreases. */
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

/* The pools of the device's memory allocator, which keeps small and large blocks in separate
** segments. TL_POOL_ALL is the index of the statistics of both pools together. */
typedef enum tl_Pool { TL_POOL_ALL, TL_POOL_LARGE, TL_POOL_SMALL, TL_NPOOLS } tl_Pool;

/* The statistics, as X(name), with the names and the meaning that torch.cuda.memory_stats gives
** them. A block is active from its allocation until it can be reused. A released block that another
** stream still uses remains active. inactive_split counts free blocks of segments that are in use;
** a segment is one allocation of the driver. */
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
  /* number of allocations for which cached memory first had to be returned to the driver */
  int64_t num_alloc_retries;
  int64_t num_sync_all_streams; /* number of allocations that waited for all streams */
  /* numbers of the driver's allocations and frees */
  int64_t num_device_alloc, num_device_free;
  /* number of address reservations that the driver refused at first and granted for a smaller
  ** size */
  int64_t num_address_retries;
  /* number of bytes of reserved address space; memory is mapped into only a small part */
  int64_t reserved_addresses;
  /* 1 if memory is mapped into segments, 0 if the driver allocates each segment */
  int64_t expandable_segments;
  /* size in bytes of the largest block that can be allocated without a call of the driver */
  int64_t largest_free;
  int64_t limit; /* the limit on reserved bytes, see set_memory_limit */
} tl_MemoryStats;

/* Resets the peaks to the current values. */
static inline void tl_stats_reset_peaks(tl_MemoryStats *s) {
  for (int pool = 0; pool < TL_NPOOLS; pool++) {
#define X(name) s->name[pool].peak = s->name[pool].current;
    TL_MEMORY_STATS(X)
#undef X
  }
}

/* Resets the sums to 0. */
static inline void tl_stats_reset_sums(tl_MemoryStats *s) {
  for (int pool = 0; pool < TL_NPOOLS; pool++) {
#define X(name) s->name[pool].allocated = s->name[pool].freed = 0;
    TL_MEMORY_STATS(X)
#undef X
  }
  s->num_alloc_retries = s->num_sync_all_streams = 0;
  s->num_device_alloc = s->num_device_free = s->num_address_retries = 0;
}

/* ---- the blocks of memory, and their history ---- */

typedef enum tl_BlockState {
  TL_BLOCK_ALLOCATED,
  TL_BLOCK_PENDING, /* the owner has freed the block, but another stream may still use it */
  TL_BLOCK_FREE
} tl_BlockState;

typedef struct tl_BlockInfo {
  const void *segment; /* address of the block's segment */
  int64_t segment_bytes;
  int64_t stream_id; /* number of the stream that owns the segment */
  uint64_t pool;     /* pool of captured graphs (capture_begin); 0 is the general pool */
  bool small;        /* whether the block belongs to the pool of small blocks */
  const void *data;
  int64_t bytes, requested;
  tl_BlockState state;
} tl_BlockInfo;

typedef enum tl_MemoryAction {
  TL_MEMORY_ALLOC,
  TL_MEMORY_FREE_REQUESTED,
  TL_MEMORY_FREE_COMPLETED, /* the block can be reused from now on */
  TL_MEMORY_SEGMENT_ALLOC,
  TL_MEMORY_SEGMENT_FREE,
  TL_MEMORY_SEGMENT_MAP, /* memory was mapped into a segment that can grow and shrink */
  TL_MEMORY_SEGMENT_UNMAP,
  TL_MEMORY_OOM,     /* out of memory; the engine records this event */
  TL_MEMORY_SNAPSHOT /* a snapshot was taken; the engine records this event */
} tl_MemoryAction;

/* The modes of cudaStreamCaptureMode. The mode determines for which threads the driver refuses
** calls that are unsafe while a stream captures, such as cudaMalloc. */
typedef enum tl_CaptureMode {
  TL_CAPTURE_GLOBAL,
  TL_CAPTURE_THREAD_LOCAL,
  TL_CAPTURE_RELAXED
} tl_CaptureMode;

/* Flags of an event. TL_EVENT_TIMING makes the event record its time. TL_EVENT_BLOCKING makes a
** thread sleep while it waits for the event. */
enum { TL_EVENT_TIMING = 1, TL_EVENT_BLOCKING = 2 };

/* A kernel, copy or fill that a device has run. Its times are in ns of the device's clock. */
typedef struct tl_Activity {
  const char *name; /* name of the activity, valid during the callback */
  tl_Device device;
  int64_t stream_id, begin, end;
} tl_Activity;

/* ---- collectives between devices ---- */

/* A communicator such as NCCL's: one rank of a group of devices. */
typedef struct tl_Comm tl_Comm;

/* The kinds of steps that a communicator runs: collective operations and messages between two
** ranks. SEND ignores `out`; RECV ignores `in`. */
typedef enum tl_CommKind {
  TL_COMM_ALL_REDUCE,     /* `in` and `out` have `count` elements each, and may be one array */
  TL_COMM_REDUCE,         /* like TL_COMM_ALL_REDUCE, but only the root's `out` is written */
  TL_COMM_BROADCAST,      /* like TL_COMM_ALL_REDUCE, but only the root's `in` is read */
  TL_COMM_ALL_GATHER,     /* `in` has `count` elements, `out` has `count` for each rank */
  TL_COMM_REDUCE_SCATTER, /* `in` has `count` elements for each rank, `out` has `count` */
  TL_COMM_SEND,           /* sends `count` elements to rank `peer` */
  TL_COMM_RECV            /* receives `count` elements from rank `peer` */
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
  int dtype; /* a tl_DType */
  /* the rank to send to or to receive from; in operations that have a root, the root's rank */
  int peer;
  int64_t count; /* number of elements */
  const void *in;
  void *out;
} tl_CommStep;

enum { TL_COMM_ID_BYTES = 128 };

/* The functions of a device's communication library. None of these functions waits for the device.
** All except abort are called by one thread at a time. */
typedef struct tl_CommApi {
  const char *name; /* "nccl" */
  /* Creates the id of a group. One rank creates the id and sends it to all other ranks. */
  bool (*id)(unsigned char id[TL_COMM_ID_BYTES]);
  /* Begins to join the group with this id. Returns NULL with a message on failure. */
  tl_Comm *(*open)(tl_Device device, int rank, int size, const unsigned char id[TL_COMM_ID_BYTES]);
  /* Sets *busy to whether an operation (open, run, finalize) is still in progress. Returns false
  ** with a message if the communicator has failed. */
  bool (*state)(tl_Comm *comm, bool *busy);
  /* Queues steps on a stream. The device starts all steps of one call together, so messages between
  ** two ranks can flow in both directions at the same time. */
  bool (*run)(tl_Comm *comm, tl_Stream *stream, const tl_CommStep *steps, int n);
  /* Aborts all operations and the communicator. The operations' results are undefined, and the
  ** communicator can then only be closed. The next wait for the device fails with the message
  ** `why`. May be called from any thread. */
  void (*abort)(tl_Comm *comm, const char *why);
  /* Begins an orderly shutdown of the communicator. */
  bool (*finalize)(tl_Comm *comm);
  void (*close)(tl_Comm *comm);
  /* Registers memory that will often be sent or received, so that it can be used without copies.
  ** Returns NULL, without a message, if that is impossible. */
  void *(*add_buffer)(tl_Comm *comm, void *data, int64_t bytes);
  void (*remove_buffer)(tl_Comm *comm, void *buffer);
} tl_CommApi;

/* The functions of a device. All may be called from any thread. A function that can fail returns
** false or NULL with a message; a function that waits for the device also reports a fault that it
** finds in the device's fault word.
**
** A wait (stream_sync, sync, event_sync, a transfer to the host that is not async) for a stream
** that takes part in a capture fails with TL_EDEVICE and the message "not possible while a graph is
** captured". It fails before the driver is called, because the driver's call would invalidate the
** capture. The binding adds the operator's name and the line. */
typedef struct tl_DeviceApi {
  int (*count)(void);
  bool (*properties)(int index, tl_DeviceProperties *out);
  bool (*can_access_peer)(int device, int peer);
  /* Returns the version of a library: "cuda" (13000), "cudnn" (91900), "nccl", ...; 0 if it is
  ** absent. */
  int64_t (*library_version)(const char *name);
  /* The architectures that the kernels are compiled for, followed by the architecture of their PTX:
  ** "80 90 compute_80". NULL means that every device is supported. */
  const char *architectures;

  /* Allocates a block. The block belongs to the context's stream. Once it is freed, it can be
  ** reused immediately, because its next use is queued on that stream after its last one. Other
  ** streams that use the block must be registered by record_stream. A stream that takes part in a
  ** capture gets memory of the capture's pool.
  **
  ** If memory is exhausted, the function first checks whether other streams have finished with
  ** freed blocks. It then releases the cache and waits for all streams, except while one of the
  ** device's streams captures. As the last resort it returns NULL with TL_EMEM and any message. The
  ** engine then collects garbage, tries once more, and finally reports the statistics. */
  void *(*alloc)(const tlk_Context *cx, int64_t bytes);
  /* Frees a block. The last owner of a tensor calls this function, possibly in a finalizer, so it
  ** neither waits nor fails. A block that a capture has used on several streams (record_stream) is
  ** freed once no capture of the device is open. */
  void (*free)(tl_Device device, void *data, int64_t bytes);
  bool (*record_stream)(tl_Device device, void *data, tl_Stream *stream);
  bool (*transfer)(const struct tlk_transfer *call);
  /* Waits until other streams no longer use the freed blocks, and returns all cached memory to the
  ** driver. */
  bool (*trim)(tl_Device device);
  bool (*memory_stats)(tl_Device device, tl_MemoryStats *out);
  /* Resets the peaks of the statistics; see tl_stats_reset_peaks. */
  bool (*reset_peaks)(tl_Device device);
  /* Resets the sums of the statistics; see tl_stats_reset_sums. */
  bool (*reset_sums)(tl_Device device);
  /* Returns the numbers of free and of total bytes that the driver reports for the whole device;
  ** memory that other programs use does not count as free. */
  bool (*memory_info)(tl_Device device, int64_t *free, int64_t *total);
  /* Limits the number of bytes that are reserved from now on. */
  bool (*set_memory_limit)(tl_Device device, int64_t bytes);
  /* Calls `visit` for each block, ordered by the address of the block's segment, then by the
  ** block's own address. The allocator's lock is held meanwhile, so `visit` must not call functions
  ** of this table. */
  bool (*memory_blocks)(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                        void *to);
  /* Allocates host memory that the device can read without a copy by the driver. */
  void *(*pinned_alloc)(int64_t bytes);
  void (*pinned_free)(void *data, int64_t bytes);

  /* Returns the device's default stream. Streams are never destroyed: a device has a few streams
  ** and hands them out in turn. */
  tl_Stream *(*default_stream)(tl_Device device);
  /* Returns a stream with a given priority. Lower numbers mean higher priority; numbers out of
  ** range are clamped. */
  tl_Stream *(*stream)(tl_Device device, int priority);
  void (*priority_range)(tl_Device device, int *least, int *greatest);
  /* These functions convert the driver's handle to a stream, and a stream to the driver's handle. A
  ** handle may come from another library, which must keep it valid as long as tlua uses it. Both
  ** function pointers are NULL if the device has no handles. */
  tl_Stream *(*stream_of)(tl_Device device, void *handle);
  void *(*stream_handle)(const tl_Stream *stream);
  /* Returns the stream's number, which is 0 for the default stream. Takes no lock. */
  int64_t (*stream_id)(const tl_Stream *stream);
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

  /* Between capture_begin and capture_end, work queued on the stream is recorded instead of run. A
  ** second stream that waits for an event recorded in the capture takes part in the capture from
  ** then on. Before capture_end, the first stream must wait for an event recorded after the second
  ** stream's work. A stream that takes part cannot wait for an event from outside the capture.
  **
  ** Memory allocated during the capture belongs to the pool with the number `pool`, which the
  ** engine assigns (never 0). A pool lives as long as a capture or a graph that uses it, and only
  ** captures can reuse its free blocks. When a pool ends, kernels that are still running may use
  ** its memory, so the memory is reused only after these kernels. */
  bool (*capture_begin)(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode);
  /* Ends the capture for all its streams, even if the result is NULL. Returns NULL if the captured
  ** work cannot be replayed, because the first stream does not wait for another stream's work or
  ** because a call of the driver has invalidated the capture. */
  tl_Graph *(*capture_end)(tl_Stream *stream);
  /* Returns the number of the capture that a stream takes part in, or 0. The function is fast. */
  uint64_t (*capture)(const tl_Stream *stream);
  /* Returns whether garbage should be collected before a call. A capture may have pending
  ** elementwise calls, which the device later queues as one kernel (pending.h). The answer is true
  ** if the call would make the device queue this kernel now, and the kernel would store results
  ** that may be garbage. `kernel` is the call's tlk_Kernel; -1 stands for the end of the capture
  ** and for work other than kernels, and `call` is then NULL. The pointer to this function is NULL
  ** if the kind of device never keeps calls pending. */
  bool (*pending)(const tl_Stream *stream, int kernel, const void *call);
  bool (*graph_launch)(tl_Graph *graph, tl_Stream *stream);
  /* Frees a graph. If a replay is still running, the graph is freed after it. */
  void (*graph_free)(tl_Graph *graph);

  /* Returns the largest size in bytes of the array that the kernel rnn writes for rnn_backward
  ** (tlk_rnn.reserve). If the pointer to this function is NULL, tlk_rnn_reserve gives the size. */
  int64_t (*rnn_reserve)(tl_Device device, const tlk_Rnn *rnn);
  /* Returns the name of counter `index`, such as "cudnn.convolution" or "cudnn.convolution_own",
  ** and sets *count to the number of times that the devices of this kind have used it. Returns NULL
  ** after the last counter. The pointer to this function is NULL if the kind of device has no
  ** counters. */
  const char *(*counter)(int index, int64_t *count);
  /* Returns how often the host has waited for the device. */
  int64_t (*waits)(tl_Device device);
  /* Makes the devices report what they run from now on. `note` is called from any thread and with
  ** some delay; *now receives the current time of the device's clock. If `note` is NULL, the
  ** function reports all activities that have ended, then stops the reports. Returns false, without
  ** a message, if reports are unavailable. The pointer to this function is NULL if the kind of
  ** device never reports activities. */
  bool (*activities)(void (*note)(const tl_Activity *activity), int64_t *now);
  /* Changes a setting of this kind of device. The pointer is NULL if the kind has no settings. */
  bool (*configure)(const char *key, int64_t value);
  /* Returns the functions for groups of devices, or NULL with a message. The pointer to this
  ** function is NULL if devices of this kind cannot form groups. */
  const tl_CommApi *(*comms)(void);
  /* Returns the table of factorizations, or NULL, without a message, if their library is missing.
  ** The pointer to this function is NULL if the kind of device has no such table. */
  const struct tlk_Lapack *(*lapack)(void);
} tl_DeviceApi;

/* ---- settings for kernels ---- */

/* The settings that the engine's function host->setting returns. */
typedef enum tl_Setting {
  /* precision of float32 matrix products: 0 means exact, 1 TF32, 2 bfloat16 or TF32 */
  TL_MATMUL_PRECISION,
  TL_MATMUL_REDUCED_FP16, /* 1 (default): sums of float16 products may be rounded to float16 */
  TL_MATMUL_REDUCED_BF16, /* 1 (default): sums of bfloat16 products may be rounded to bfloat16 */
  TL_CUDNN_ENABLED,       /* default 1 */
  TL_CUDNN_TF32,          /* 1 (default): cuDNN may compute float32 in TF32 */
  TL_CUDNN_BENCHMARK,     /* 1: several algorithms of cuDNN are timed, and the fastest is used */
  /* number of algorithms to time; 0 means all of them; the default is 10 */
  TL_CUDNN_BENCHMARK_LIMIT,
  TL_CUDNN_DETERMINISTIC, /* 1: only deterministic algorithms of cuDNN are used */
  /* nondeterministic operators: 0 are allowed, 1 give a warning, 2 fail */
  TL_DETERMINISTIC,
  TL_FILL_UNINITIALIZED, /* 1 (default): deterministic mode fills uninitialised memory */
  /* operators that make the host wait for a device: 0 are allowed, 1 give a warning, 2 fail */
  TL_SYNC_DEBUG,
  TL_DISK_CACHE, /* 1 (default): compiled kernels and measurements are kept on disk */
  TL_FUSION,     /* 1 (default): graphs fuse chains of elementwise kernels */
  /* the set of algorithms among which attention may choose (TL_SDP_...); the default is all */
  TL_SDP_BACKENDS,
  TL_NSETTINGS
} tl_Setting;

enum {
  TL_SDP_MATH = 1, /* algorithm: separate kernels, which store all attention weights */
  TL_SDP_FLASH = 2,
  TL_SDP_EFFICIENT = 4,
  TL_SDP_CUDNN = 8,
  TL_SDP_MATH_FIRST = 16, /* flag: the math kernels are preferred if they are allowed */
};

#endif
