/*
** nccl.c - a replacement for NCCL without a GPU. Ranks are processes, each with an emulated device.
** They exchange data through files in the folder TLUA_NCCL_FOLDER, and each rank logs its calls
** there in the file log.<rank>.
**
** The library reproduces NCCL's pitfalls. Communicators are non-blocking: an operation is queued on
** the stream only at the second call of ncclCommGetAsyncError, and until then every other call is
** an error. A collective that other ranks do not call never ends. TLUA_NCCL_FAIL names a call that
** fails immediately; TLUA_NCCL_BREAK names a call that breaks the communicator.
*/
#include <nccl.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/kernel/half.h"

#define API __attribute__((visibility("default")))
enum { MOST_RANKS = 16, MOST_STEPS = 256 };

typedef enum Kind { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV } Kind;

typedef struct Step {
  Kind kind;
  const char *in;
  char *out;
  size_t n, bytes; /* the number of elements, and their total size in bytes */
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;
  unsigned number;         /* sequence number of the message */
  char *parts[MOST_RANKS]; /* data received from each rank (owned) */
} Step;

struct ncclComm {
  int rank, size, refs;
  char id[128];
  bool joining;
  int polls; /* how often the current operation was polled, or 0 if there is none */
  atomic_bool aborted;
  ncclResult_t failed;
  /* for each rank, the numbers of the next collective ([0]) and of the next message ([1]), sent
  ** and received */
  unsigned seq_out[2][MOST_RANKS], seq_in[2][MOST_RANKS];
  struct Job *job; /* the job that was begun and is not yet queued on the stream (owned) */
};

typedef struct Job {
  struct ncclComm *comm;
  cudaStream_t stream;
  int n;
  Step steps[MOST_STEPS];
} Job;

static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static const char *const types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                    "uint64", "float16", "float32", "float64", "bfloat16"};
static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
static const char *const kinds[] = {"AllReduce",     "Reduce", "Broadcast", "AllGather",
                                    "ReduceScatter", "Send",   "Recv"};

static _Thread_local int depth;
static _Thread_local Job *grouped;

/* ---- the log --------------------------------------------------------------------------- */

static const char *folder(void) {
  const char *name = getenv("TLUA_NCCL_FOLDER");
  return name ? name : "/tmp";
}

static void note(int rank, const char *text) {
  char path[400];
  snprintf(path, sizeof path, "%s/log.%d", folder(), rank);
  FILE *file = fopen(path, "a");
  if (file == NULL) return;
  fprintf(file, "%s\n", text);
  fclose(file);
}

static bool is(const char *variable, const char *name) {
  const char *value = getenv(variable);
  return value && strcmp(value, name) == 0;
}

/* Returns the number of a stream; streams are numbered from 1 in order of their first use. */
static int number_of(cudaStream_t stream) {
  static cudaStream_t seen[64];
  int i = 0;
  while (i < 63 && seen[i] && seen[i] != stream) i++;
  seen[i] = stream;
  return i + 1;
}

/* ---- files ------------------------------------------------------------------------------- */

/* Writes the path of a message's file. If ranks make different calls, their paths differ too. */
static void path_of(char out[500], const struct ncclComm *c, const Step *s, int from, int to,
                    unsigned number, size_t bytes) {
  snprintf(out, 500, "%s/%s-%d-%d-%s%u-%zu", folder(), c->id, from, to,
           s->kind >= SEND ? "message" : kinds[s->kind], number, bytes);
}

static void put(struct ncclComm *c, Step *s, int to, const char *data, size_t bytes) {
  char path[500], other[510];
  s->number = c->seq_out[s->kind >= SEND][to]++;
  path_of(path, c, s, c->rank, to, s->number, bytes);
  snprintf(other, sizeof other, "%s.new", path);
  FILE *file = fopen(other, "wb");
  if (file == NULL) return;
  fwrite(data, 1, bytes, file);
  fclose(file);
  rename(other, path);
}

/* Receives a message from another rank if its file exists already. Returns whether it was received,
** and counts it. */
static bool get(struct ncclComm *c, Step *s, int from, size_t bytes) {
  char path[500];
  if (s->parts[from]) return true;
  path_of(path, c, s, from, c->rank, c->seq_in[s->kind >= SEND][from], bytes);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  s->parts[from] = malloc(bytes + 1);
  size_t n = s->parts[from] ? fread(s->parts[from], 1, bytes, file) : 0;
  fclose(file);
  remove(path);
  c->seq_in[s->kind >= SEND][from]++;
  return n == bytes;
}

/* Returns whether the receiving rank has taken a message. NCCL does not buffer messages, so a send
** ends only when the message is taken. */
static bool taken(const struct ncclComm *c, const Step *s) {
  char path[500];
  path_of(path, c, s, c->rank, s->peer, s->number, s->bytes);
  return access(path, F_OK) != 0;
}

/* ---- arithmetic -------------------------------------------------------------------------- */

static double read_float(ncclDataType_t type, const char *p) {
  uint16_t half;
  float single;
  double whole;
  memcpy(&half, p, 2);
  if (type == ncclFloat16) return (double)tli_f16_to_f32(half);
  if (type == ncclBfloat16) return (double)tli_bf16_to_f32(half);
  if (type == ncclFloat32) return memcpy(&single, p, 4), single;
  return memcpy(&whole, p, 8), whole;
}

static void write_float(ncclDataType_t type, char *p, double x) {
  float single = (float)x;
  uint16_t half = type == ncclFloat16 ? tli_f32_to_f16(single) : tli_f32_to_bf16(single);
  if (type == ncclFloat16 || type == ncclBfloat16)
    memcpy(p, &half, 2);
  else if (type == ncclFloat32)
    memcpy(p, &single, 4);
  else
    memcpy(p, &x, 8);
}

static int64_t read_int(ncclDataType_t type, const char *p) {
  int64_t x = 0;
  memcpy(&x, p, sizes[type]);
  int unused = 64 - 8 * (int)sizes[type];
  bool is_signed = type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
  return is_signed ? (int64_t)((uint64_t)x << unused) >> unused : x;
}

#define JOIN(op, a, b)                         \
  ((op) == ncclProd  ? (a) * (b)               \
   : (op) == ncclMax ? ((a) > (b) ? (a) : (b)) \
   : (op) == ncclMin ? ((a) < (b) ? (a) : (b)) \
                     : (a) + (b))

static void reduce(const Step *s, int size, char *out) {
  size_t width = sizes[s->type];
  for (size_t i = 0; i < s->n; i++) {
    if (s->type >= ncclFloat16) {
      double sum = read_float(s->type, s->parts[0] + i * width);
      for (int r = 1; r < size; r++) {
        double x = read_float(s->type, s->parts[r] + i * width);
        sum = JOIN(s->op, sum, x);
      }
      write_float(s->type, out + i * width, s->op == ncclAvg ? sum / size : sum);
    } else {
      int64_t sum = read_int(s->type, s->parts[0] + i * width);
      for (int r = 1; r < size; r++) {
        int64_t x = read_int(s->type, s->parts[r] + i * width);
        sum = JOIN(s->op, sum, x);
      }
      memcpy(out + i * width, &sum, width);
    }
  }
}

/* ---- a job's work on the stream ------------------------------------------------------------ */

static bool sends_to(const struct ncclComm *c, const Step *s, int r) {
  switch (s->kind) {
  case SEND: return r == s->peer;
  case RECV: return false;
  case REDUCE: return r == s->peer;
  case BROADCAST: return c->rank == s->peer;
  default: return true;
  }
}

static bool hears_from(const struct ncclComm *c, const Step *s, int r) {
  switch (s->kind) {
  case SEND: return false;
  case RECV: return r == s->peer;
  case REDUCE: return c->rank == s->peer;
  case BROADCAST: return r == s->peer;
  default: return true;
  }
}

static void begin(void *data) {
  Job *j = data;
  struct ncclComm *c = j->comm;
  for (int i = 0; i < j->n && !c->aborted; i++)
    for (int r = 0; r < c->size; r++)
      if (sends_to(c, &j->steps[i], r))
        put(c, &j->steps[i], r,
            j->steps[i].in +
                (j->steps[i].kind == REDUCE_SCATTER ? (size_t)r * j->steps[i].bytes : 0),
            j->steps[i].bytes);
}

static int ready(void *data) {
  Job *j = data;
  bool all = true;
  if (j->comm->aborted) return 1;
  /* The steps with one rank are received in order: if a message is missing, the later ones wait. */
  for (int r = 0; r < j->comm->size; r++)
    for (int kind = 0; kind < 2; kind++)
      for (int i = 0; i < j->n; i++) {
        Step *s = &j->steps[i];
        if ((s->kind >= SEND) != kind || !hears_from(j->comm, s, r)) continue;
        if (get(j->comm, s, r, s->bytes)) continue;
        all = false;
        break;
      }
  for (int i = 0; i < j->n; i++)
    if (j->steps[i].kind == SEND && !taken(j->comm, &j->steps[i])) all = false;
  return all;
}

static void end(void *data) {
  Job *j = data;
  struct ncclComm *c = j->comm;
  for (int i = 0; i < j->n; i++) {
    Step *s = &j->steps[i];
    if (!c->aborted) {
      if (s->kind == ALL_REDUCE || s->kind == REDUCE_SCATTER ||
          (s->kind == REDUCE && c->rank == s->peer))
        reduce(s, c->size, s->out);
      if (s->kind == BROADCAST || s->kind == RECV) memcpy(s->out, s->parts[s->peer], s->bytes);
      for (int r = 0; r < c->size && s->kind == ALL_GATHER; r++)
        memcpy(s->out + (size_t)r * s->bytes, s->parts[r], s->bytes);
    }
    for (int r = 0; r < MOST_RANKS; r++) free(s->parts[r]);
  }
  free(j);
}

/* Finds a function of the emulator in the plugin that has loaded this library. */
static bool find(const char *name, void *function) {
  char path[500];
  const char *plugins = getenv("TLUA_PLUGINS");
  snprintf(path, sizeof path, "%s/tlua_cuda.so", plugins ? plugins : ".");
  void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  void *symbol = plugin ? dlsym(plugin, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool launch(Job *j) {
  int (*exchange)(cudaStream_t, void (*)(void *), int (*)(void *), void (*)(void *), void *);
  return find("emulated_exchange", &exchange) && exchange(j->stream, begin, ready, end, j) == 0;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Logs a call that is not allowed at this point, and returns the error for it. */
static ncclResult_t refuse(struct ncclComm *c, const char *what) {
  char text[200];
  snprintf(text, sizeof text, "WRONG %s while something is under way", what);
  note(c->rank, text);
  return ncclInvalidUsage;
}

static ncclResult_t commit(Job *j) {
  if (j->comm->polls > 0) return refuse(j->comm, "launch");
  j->comm->job = j;
  j->comm->polls = 1;
  return ncclInProgress;
}

static ncclResult_t call(Kind kind, const void *in, void *out, size_t n, ncclDataType_t type,
                         ncclRedOp_t op, int peer, ncclComm_t c, cudaStream_t stream) {
  char text[200], more[40] = "";
  bool sums = kind == ALL_REDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
  bool rooted = kind == REDUCE || kind == BROADCAST || kind >= SEND;
  if (sums) snprintf(more, sizeof more, " %s", ops[op]);
  if (rooted) snprintf(more + strlen(more), 20, " %d", peer);
  snprintf(text, sizeof text, "%s %zu %s%s%s on stream %d", kinds[kind], n, types[type], more,
           in == out ? " in place" : "", number_of(stream));
  note(c->rank, text);
  if (is("TLUA_NCCL_FAIL", kinds[kind])) return ncclSystemError;
  if (is("TLUA_NCCL_BREAK", kinds[kind])) c->failed = ncclRemoteError;
  if (peer < 0 || peer >= c->size) return ncclInvalidArgument;
  Job *j = depth > 0 && grouped ? grouped : calloc(1, sizeof *j);
  if (j == NULL || j->n == MOST_STEPS) return ncclInternalError;
  j->comm = c;
  j->stream = stream;
  j->steps[j->n++] = (Step){kind, in, out, n, n * sizes[type], type, op, peer, 0, {NULL}};
  if (depth == 0) return commit(j);
  grouped = j;
  return ncclSuccess;
}

API ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
API const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const texts[] = {"no error",       "unhandled cuda error", "system error",
                                      "internal error", "invalid argument",     "invalid usage",
                                      "remote error",   "in progress"};
  return texts[result];
}
API const char *ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return "as the environment says";
}

API ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static atomic_int made;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "id%d.%d", (int)getpid(), atomic_fetch_add(&made, 1));
  return ncclSuccess;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank,
                                        ncclConfig_t *config) {
  char text[500];
  snprintf(text, sizeof text, "Init %d of %d, blocking %d", rank, size, config->blocking);
  note(rank, text);
  if (is("TLUA_NCCL_FAIL", "Init") || size > MOST_RANKS) return ncclSystemError;
  if (config->magic != 0xcafebeef || config->size != sizeof *config) return ncclInvalidArgument;
  struct ncclComm *c = *out = calloc(1, sizeof *c);
  if (c == NULL) return ncclSystemError;
  c->rank = rank;
  c->size = size;
  c->joining = true;
  c->polls = 1;
  memcpy(c->id, id.internal, sizeof c->id);
  snprintf(text, sizeof text, "%s/%.120s-here-%d", folder(), c->id, rank);
  FILE *file = fopen(text, "w");
  if (file) fclose(file);
  return ncclInProgress;
}

static bool all_here(const struct ncclComm *c) {
  for (int r = 0; r < c->size; r++) {
    char path[500];
    snprintf(path, sizeof path, "%s/%.120s-here-%d", folder(), c->id, r);
    if (access(path, F_OK) != 0) return false;
  }
  return true;
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) {
  *error = c->failed;
  if (c->polls == 0 || c->failed) return ncclSuccess;
  *error = ncclInProgress;
  if (c->polls++ < 2 || (c->joining && !all_here(c))) return ncclSuccess;
  c->joining = false;
  c->polls = 0;
  *error = c->job && !launch(c->job) ? ncclUnhandledCudaError : ncclSuccess;
  c->job = NULL;
  return ncclSuccess;
}

API ncclResult_t ncclGroupStart(void) {
  depth++;
  return ncclSuccess;
}
API ncclResult_t ncclGroupEnd(void) {
  Job *j = grouped;
  if (--depth > 0 || j == NULL) return ncclSuccess;
  char text[60];
  snprintf(text, sizeof text, "Group of %d", j->n);
  note(j->comm->rank, text);
  grouped = NULL;
  return commit(j);
}

API ncclResult_t ncclCommFinalize(ncclComm_t c) {
  note(c->rank, "Finalize");
  if (c->polls > 0) return refuse(c, "Finalize");
  c->polls = 1;
  return ncclInProgress;
}
/* Ends a communicator. The struct is not freed, because work on a stream may still use it. */
API ncclResult_t ncclCommDestroy(ncclComm_t c) {
  note(c->rank, "Destroy");
  return c->polls > 0 ? refuse(c, "Destroy") : ncclSuccess;
}
API ncclResult_t ncclCommAbort(ncclComm_t c) {
  note(c->rank, "Abort");
  atomic_store(&c->aborted, true);
  return ncclSuccess;
}

/* Registers memory. NCCL's manual ("User buffer registration") requires of mapped memory that
** other processes can open it; this depends on how the memory was created. */
API ncclResult_t ncclCommRegister(const ncclComm_t c, void *data, size_t bytes, void **handle) {
  char text[100];
  int (*is_shared)(void *);
  bool shared = find("emulated_is_shared", &is_shared) && is_shared(data);
  snprintf(text, sizeof text, "%s %zu", shared ? "Register" : "WRONG Register of private", bytes);
  note(c->rank, text);
  *handle = data;
  return is("TLUA_NCCL_FAIL", "Register") || !shared ? ncclInvalidUsage : ncclSuccess;
}
API ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle) {
  note(c->rank, handle ? "Deregister" : "WRONG Deregister of nothing");
  return ncclSuccess;
}

API ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(ALL_REDUCE, in, out, n, type, op, 0, comm, stream);
}
API ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call(REDUCE, in, out, n, type, op, root, comm, stream);
}
API ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(BROADCAST, in, out, n, type, ncclSum, root, comm, stream);
}
API ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(ALL_GATHER, in, out, n, type, ncclSum, 0, comm, stream);
}
API ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(REDUCE_SCATTER, in, out, n, type, op, 0, comm, stream);
}
API ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream) {
  return call(SEND, in, NULL, n, type, ncclSum, peer, comm, stream);
}
API ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream) {
  return call(RECV, NULL, out, n, type, ncclSum, peer, comm, stream);
}
