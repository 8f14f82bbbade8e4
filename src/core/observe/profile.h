/*
** profile.h - what ran when: spans of operators, derivatives, the collector and whatever
** else is named, as a tree, for a look at it later; see torch.profiler.
**
** A thread records while it has a session open. Who has none pays one relaxed load and a
** branch for each call. A session's memory comes straight from the system: it changes no
** figure of the allocator, and where there is none left the session only counts what it
** could not keep.
**
** Threads that work for the one with the session are invited with what they are given to do.
** They record by themselves, without a lock, and hand over when it is done. What is not
** done when the session ends is not in it.
*/
#ifndef TLI_PROFILE_H
#define TLI_PROFILE_H

#include <stdatomic.h>

#include "core/tensor/tensor.h"

typedef enum tli_SpanKind {
  TLI_SPAN_OPERATOR,
  TLI_SPAN_BACKWARD, /* a node's derivative, or a leaf's accumulation */
  TLI_SPAN_USER,
  TLI_SPAN_MODULE,
  TLI_SPAN_COLLECTOR,
  TLI_SPAN_DATA,
  TLI_SPAN_OPTIMIZER,
  TLI_SPAN_STEP,
  TLI_SPAN_KERNEL, /* what a device ran, as it tells itself; a stream is a thread */
  TLI_NSPANS
} tli_SpanKind;
extern const char *const tli_span_kinds[TLI_NSPANS + 1]; /* ended by NULL */

typedef struct tli_ProfileEvent {
  int64_t begin;               /* ns since the session began */
  int64_t duration;            /* ns */
  int64_t inside;              /* ns of the events directly below */
  int64_t bytes;               /* allocated less freed, by all below, too */
  int64_t own_bytes;           /* the same without those below */
  int64_t device_begin;        /* ns since the session began; -1: it gave a device nothing */
  int64_t device_time;         /* ns */
  double flops;                /* without those below; 0: it has no formula */
  uint64_t sequence;           /* of the node that it made, or whose derivative it is; 0: none */
  int32_t parent;              /* position, -1 for none */
  int32_t name, shapes, stack; /* texts; -1: not recorded */
  float inner_flops;           /* of those below */
  uint16_t thread;             /* 0: the session's own */
  uint8_t kind;                /* tli_SpanKind */
  bool open;
} tli_ProfileEvent;

/* A storage that came, went (bytes below 0), or turned out to be of a category. */
typedef struct tli_ProfileMemory {
  int64_t time;        /* ns since the session began */
  const void *storage; /* its name while it lives; never followed */
  int64_t bytes;
  int64_t cached;   /* bytes that the device's allocator keeps for later */
  int32_t event;    /* the innermost open one, -1 for none */
  uint8_t category; /* tli_MemoryCategory; unknown where it came or went */
  tl_Device device;
} tli_ProfileMemory;

typedef enum tli_MemoryCategory {
  TLI_MEMORY_UNKNOWN,
  TLI_MEMORY_PARAMETER,
  TLI_MEMORY_GRADIENT,
  TLI_MEMORY_ACTIVATION, /* saved for a backward pass */
  TLI_NMEMORY
} tli_MemoryCategory;

typedef struct tli_ProfileOptions {
  bool shapes, memory, stacks, flops, devices;
} tli_ProfileOptions;

typedef struct tli_Profile tli_Profile;

/* ---- recording --------------------------------------------------------------------- */

/* Sessions that are open in the process, and 1 more while what lives is noted (live.h). */
extern atomic_int tli_profiles;
static inline bool tli_profiling(void) {
  return __builtin_expect(atomic_load_explicit(&tli_profiles, memory_order_relaxed) != 0, 0);
}

/* An open span; the session may end before it does. */
typedef struct tli_Span {
  uint64_t session; /* 0: none */
  int32_t event;
} tli_Span;

/* The tensors of one argument. */
typedef struct tli_SpanInput {
  tl_Tensor *const *v; /* entries may be NULL */
  int64_t n;
} tli_SpanInput;

/* All of these do nothing in a thread without a session. `name` is copied. */
tli_Span tli_span_open(tli_SpanKind kind, const char *name, const tli_SpanInput *inputs, int n);
/* Ends the span and those in it that are still open; `flops` by the operator's formula, which
** does not count where those in it have counted as much. */
void tli_span_close(tli_Span span, double flops);
/* Whether the calling thread's session wants formulas evaluated. */
bool tli_span_flops(void);
/* Whether the calling thread has a session. */
bool tli_profile_here(void);
/* The innermost open event made, or differentiates, the node of that number. */
void tli_span_node(uint64_t sequence);
void tli_profile_memory(const tl_Storage *storage, bool freed);
void tli_profile_mark(const tl_Tensor *t, tli_MemoryCategory category);

/* How many elements t has, for formulas; 0 if it is missing. */
static inline double tli_flops_numel(const tl_Tensor *t) { return t ? (double)t->numel : 0; }

/* A size for formulas: of dimension d, from the end if it is negative; 1 if t has none. */
static inline double tli_flops_size(const tl_Tensor *t, int d) {
  if (d < 0) d += t->ndim;
  return d >= 0 && d < t->ndim ? (double)t->sizes[d] : 1;
}

/* ---- other threads ----------------------------------------------------------------- */

typedef struct tli_Invitation tli_Invitation;
/* A new reference to the calling thread's, for who works for it; NULL: it has no session. */
tli_Invitation *tli_profile_invite(void);
void tli_invitation_release(tli_Invitation *invitation); /* NULL is fine */
/* The calling thread records for the session, as the thread of that name, until it leaves;
** without memory, for nobody or after the session's end it does not. */
void tli_profile_join(tli_Invitation *invitation, const char *thread);
void tli_profile_leave(void);
/* One span of such a thread, from and to tli_now_ns. */
void tli_profile_add(tli_Invitation *invitation, const char *thread, tli_SpanKind kind,
                     const char *name, int64_t begin, int64_t end);

/* ---- sessions ---------------------------------------------------------------------- */

/* Opens the calling thread's session: NULL, with a message, if it has one already. */
tli_Profile *tli_profile_start(const tli_ProfileOptions *options) TL_MUSTCHECK;
/* Ends what is open and records no more; waits for devices whose time is measured. False
** in another thread than the one that has started it, or if a device fails. */
bool tli_profile_stop(tli_Profile *p) TL_MUSTCHECK;
bool tli_profile_active(const tli_Profile *p);
/* Of a session that is stopped. NULL is fine. */
void tli_profile_free(tli_Profile *p);

int64_t tli_profile_duration(const tli_Profile *p); /* ns, until now or its end */
int64_t tli_profile_began(const tli_Profile *p);    /* ns since 1970 */
int64_t tli_profile_dropped(const tli_Profile *p);  /* events for which there was no memory */
int64_t tli_profile_bytes(const tli_Profile *p);    /* that it holds itself */
int64_t tli_profile_count(const tli_Profile *p);
const tli_ProfileEvent *tli_profile_event(const tli_Profile *p, int64_t i);
int64_t tli_profile_memory_count(const tli_Profile *p);
const tli_ProfileMemory *tli_profile_memory_event(const tli_Profile *p, int64_t i);
int32_t tli_profile_threads(const tli_Profile *p);
int32_t tli_profile_thread(const tli_Profile *p, int32_t i); /* its name, a text */
/* A text by the number that events have. Shapes are of int64_t: for each tensor its
** dimensions, then its sizes; -1 dimensions for one that was not given. */
const char *tli_profile_text(const tli_Profile *p, int32_t i, size_t *size);

#endif
