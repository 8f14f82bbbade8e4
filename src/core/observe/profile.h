/*
** profile.h - records a timeline for torch.profiler: a tree of spans, which are operators,
** derivatives, garbage collections and other named work.
**
** A thread records while it has an open session. While no thread has one, an operator only costs
** one relaxed load and a branch more. A session's memory comes directly from the system, so that it
** does not affect the allocator's statistics. If memory is exhausted, the session only counts the
** events that it drops.
**
** A thread that works for the session's thread gets an invitation with its work. It records
** independently, without a lock, and hands over its data when the work is done. Work that is
** incomplete when the session ends is not recorded.
*/
#ifndef TLI_PROFILE_H
#define TLI_PROFILE_H

#include <stdatomic.h>

#include "core/tensor/tensor.h"

typedef enum tli_SpanKind {
  TLI_SPAN_OPERATOR,
  /* the computation of a node's derivative, or the accumulation of a leaf's gradient */
  TLI_SPAN_BACKWARD,
  TLI_SPAN_USER,
  TLI_SPAN_MODULE,
  TLI_SPAN_COLLECTOR,
  TLI_SPAN_DATA,
  TLI_SPAN_OPTIMIZER,
  TLI_SPAN_STEP,
  TLI_SPAN_KERNEL, /* work of a device, as reported by the device; a stream counts as a thread */
  TLI_NSPANS
} tli_SpanKind;
/* names of the kinds of spans, ended by NULL */
extern const char *const tli_span_kinds[TLI_NSPANS + 1];

typedef struct tli_ProfileEvent {
  int64_t begin;     /* start time of the span, in ns since the session began */
  int64_t duration;  /* ns */
  int64_t inside;    /* the time that the span's direct children took, in ns */
  int64_t bytes;     /* bytes allocated minus bytes freed in the span, including its descendants */
  int64_t own_bytes; /* bytes allocated minus bytes freed in the span itself */
  /* time at which the device began the span's work, in ns since the session began; -1 if there is
  ** none */
  int64_t device_begin;
  int64_t device_time; /* ns */
  /* number of floating-point operations (FLOPs) by the operator's formula; 0 if it has no formula,
  ** or if the spans inside it already account for the operations */
  double flops;
  /* number of the graph node that the span created or whose derivative it computed; 0 if there is
  ** none */
  uint64_t sequence;
  int32_t parent;              /* index of the enclosing event; -1 if there is none */
  int32_t name, shapes, stack; /* numbers of texts (tli_profile_text); -1 if not recorded */
  float inner_flops;           /* number of FLOPs of the descendants */
  uint16_t thread;             /* number of the thread; 0 is the session's own thread */
  uint8_t kind;                /* tli_SpanKind */
  bool open;
} tli_ProfileEvent;

/* A change of a storage: it was allocated, freed (`bytes` is then negative), or assigned to a
** category. */
typedef struct tli_ProfileMemory {
  int64_t time;        /* time of the change, in ns since the session began */
  const void *storage; /* address that identifies the storage while it exists; never dereferenced */
  int64_t bytes;
  int64_t cached; /* number of bytes in the allocator's cache for the storage's device */
  int32_t event;  /* index of the innermost open event; -1 if there is none */
  /* a tli_MemoryCategory; TLI_MEMORY_UNKNOWN in records of allocations and frees */
  uint8_t category;
  tl_Device device;
} tli_ProfileMemory;

typedef enum tli_MemoryCategory {
  TLI_MEMORY_UNKNOWN,
  TLI_MEMORY_PARAMETER,
  TLI_MEMORY_GRADIENT,
  TLI_MEMORY_ACTIVATION, /* tensors saved for a backward pass */
  TLI_NMEMORY
} tli_MemoryCategory;

typedef struct tli_ProfileOptions {
  bool shapes, memory, stacks, flops, devices;
} tli_ProfileOptions;

typedef struct tli_Profile tli_Profile;

/* ---- recording --------------------------------------------------------------------- */

/* The number of reasons to call the profiler: one for each open session in the process, one for
** each trace (trace.h), one while live_storages.h records, one while an observer is set, and one
** while a host counts work (observer.h). Operators call the profiler only if this number is not
** 0. */
extern atomic_int tli_profiles;
static inline bool tli_profiling(void) {
  return __builtin_expect(atomic_load_explicit(&tli_profiles, memory_order_relaxed) != 0, 0);
}

/* An open span; the session may end before the span. */
typedef struct tli_Span {
  uint64_t session; /* 0: none */
  int32_t event;
  int32_t observed; /* mark for tli_observer_close; 0 if no observer was set */
} tli_Span;

/* The tensors of one argument of an operator. */
typedef struct tli_SpanInput {
  tl_Tensor *const *v; /* array of tensors; entries may be NULL */
  int64_t n;
} tli_SpanInput;

/* Opens a span; `name` is copied. In a thread without a session, spans are reported to the host's
** observer only. */
tli_Span tli_span_open(tli_SpanKind kind, const char *name, const tli_SpanInput *inputs, int n);
/* Ends the span and all open spans inside it. `flops` is the result of the operator's formula. It
** is ignored if the inner spans together already have that many FLOPs, or at most 0.1 percent
** less. */
void tli_span_close(tli_Span span, double flops);
/* Returns whether the calling thread's session wants the FLOP formulas of operators evaluated. */
bool tli_span_flops(void);
/* Returns whether the calling thread has a session. */
bool tli_profile_here(void);
/* Records that the innermost open event has created the node with this number, or computes its
** derivative. */
void tli_span_node(uint64_t sequence);
void tli_profile_memory(const tl_Storage *storage, bool freed);
void tli_profile_mark(const tl_Tensor *t, tli_MemoryCategory category);

/* Returns t's number of elements, for FLOP formulas; 0 if t is NULL. */
static inline double tli_flops_numel(const tl_Tensor *t) { return t ? (double)t->numel : 0; }

/* Returns t's size in a dimension, for FLOP formulas. A negative dimension counts from the end; the
** size is 1 if t has no such dimension. */
static inline double tli_flops_size(const tl_Tensor *t, int d) {
  if (d < 0) d += t->ndim;
  return d >= 0 && d < t->ndim ? (double)t->sizes[d] : 1;
}

/* ---- other threads ----------------------------------------------------------------- */

typedef struct tli_Invitation tli_Invitation;
/* Returns a new reference to an invitation to the calling thread's session; NULL if the thread has
** no session. */
tli_Invitation *tli_profile_invite(void);
void tli_invitation_release(tli_Invitation *invitation); /* Releases an invitation. Accepts NULL. */
/* Makes the calling thread record for the invitation's session, under the given thread name, until
** tli_profile_leave is called. Nothing is recorded if the invitation is NULL, the session has
** ended, or memory is exhausted. */
void tli_profile_join(tli_Invitation *invitation, const char *thread);
void tli_profile_leave(void);
/* Adds one finished span to the data of a thread with an invitation. The times are results of
** tli_now_ns. */
void tli_profile_add(tli_Invitation *invitation, const char *thread, tli_SpanKind kind,
                     const char *name, int64_t begin, int64_t end);

/* ---- sessions ---------------------------------------------------------------------- */

/* Opens a session for the calling thread. Returns NULL with a message if the thread already has
** one. */
tli_Profile *tli_profile_start(const tli_ProfileOptions *options) TL_MUSTCHECK;
/* Ends all open spans, stops recording, and waits for the devices whose time is measured. Returns
** false if the calling thread is not the one that started the session, or if a device fails. */
bool tli_profile_stop(tli_Profile *p) TL_MUSTCHECK;
bool tli_profile_active(const tli_Profile *p);
/* Frees a stopped session. Accepts NULL. */
void tli_profile_free(tli_Profile *p);

/* Returns how long the session has lasted, in ns: until now or, if it has ended, until its end. */
int64_t tli_profile_duration(const tli_Profile *p);
/* Returns the time at which the session began, in ns since 1970. */
int64_t tli_profile_began(const tli_Profile *p);
/* Returns the number of events that were dropped because memory was exhausted. */
int64_t tli_profile_dropped(const tli_Profile *p);
/* Returns the number of bytes of the session's own memory. */
int64_t tli_profile_bytes(const tli_Profile *p);
int64_t tli_profile_count(const tli_Profile *p);
const tli_ProfileEvent *tli_profile_event(const tli_Profile *p, int64_t i);
int64_t tli_profile_memory_count(const tli_Profile *p);
const tli_ProfileMemory *tli_profile_memory_event(const tli_Profile *p, int64_t i);
int32_t tli_profile_threads(const tli_Profile *p);
/* Returns the number of the text that names thread i. */
int32_t tli_profile_thread(const tli_Profile *p, int32_t i);
/* Returns a text by its number. A text of shapes is an array of int64_t: for each tensor, its
** number of dimensions (-1 for an absent tensor), followed by its sizes. */
const char *tli_profile_text(const tli_Profile *p, int32_t i, size_t *size);

#endif
