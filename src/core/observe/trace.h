/*
** trace.h - the hook by which a tracer sees the operators that a thread calls, and the flat record
** of a call: the operator's entry in the generated table and an array of arguments. src/graph
** records and repeats calls in this form.
**
** A tracer sees only calls from outside of the engine, not the operators that an operator calls. If
** there is no tracer, an operator only tests tli_profiles, as it does for the profiler.
*/
#ifndef TLI_TRACE_H
#define TLI_TRACE_H

#include "core/device/generator.h"
#include "core/tensor/tensor.h"

/* The kinds of parameters, as X(kind, member): `member` is the member of tli_CallArg that holds an
** argument of this kind. src/gen/emit_calls.lua has the same table (ORDER KINDS). */
#define TLI_CALL_KINDS(X) \
  X(TENSOR, tensor)       \
  X(OPERAND, tensor)      \
  X(TENSORS, tensors)     \
  X(NUMBER, number)       \
  X(INT, integer)         \
  X(DIM, integer)         \
  X(INDEX, integer)       \
  X(BOOL, flag)           \
  X(TRUE, flag)           \
  X(FLOAT, real)          \
  X(INTS, ints)           \
  X(DIMS, ints)           \
  X(DIM_LISTS, ints)      \
  X(INDICES, ints)        \
  X(FLOATS, reals)        \
  X(STRING, text)         \
  X(DTYPE, dtype)         \
  X(DEVICE, device)       \
  X(GENERATOR, generator)

typedef enum tli_CallKind {
#define X(kind, member) TLI_CALL_##kind,
  TLI_CALL_KINDS(X)
#undef X
} tli_CallKind;

/* An argument of a recorded call. All pointers are borrowed. */
typedef union tli_CallArg {
  tl_Tensor *tensor;
  tl_Tensors tensors;
  tl_Scalar number;
  int64_t integer;
  bool flag;
  double real;
  tl_Ints ints;
  tl_Floats reals;
  const char *text;
  tl_DType dtype;
  tl_Device device;
  tli_Generator *generator;
} tli_CallArg;

typedef struct tli_CallParam {
  const char *name;
  uint8_t kind; /* tli_CallKind */
  bool optional;
} tli_CallParam;

enum {
  TLI_CALL_WRITES = 1, /* the operator changes its first argument, which may be a list of tensors */
  /* the sizes of the result depend on the values of the elements of the arguments */
  TLI_CALL_SIZES = 2,
  TLI_CALL_READS = 4, /* the result is a value for the host, computed from a tensor's elements */
  /* the operator runs elementwise kernels and nothing else (core/kernel/sweep.h) */
  TLI_CALL_ELEMENTWISE = 16,
  TLI_CALL_VALUE = 8 /* the result is not a tensor but another value */
};

/* An operator's entry in the generated table. */
typedef struct tli_Call {
  /* name of the C function, such as "max_dim"; the name of an in-place form ends in "_" */
  const char *name;
  const tli_CallParam *params;
  int nparams;
  int nresults; /* number of results; -1 for a list whose length depends on the arguments */
  int flags;
  /* Calls the operator with nparams arguments. out->v has out->n slots, which are NULL before the
  ** call and receive the results as new references. The pointer is NULL if programs cannot call the
  ** operator. */
  bool (*run)(const tli_CallArg *args, tl_Tensors *out);
} tli_Call;

/* The entries of all callable operators, ordered by name (generated). */
extern const tli_Call *const tli_calls[];
extern const int tli_calls_count;

/* Moves the tensors of an owned list to the slots for the results. Fails if the numbers of tensors
** and slots differ. Generated code calls this function. */
bool tli_call_results(const char *op, tl_Tensors *list, tl_Tensors *out) TL_MUSTCHECK;

/* ---- tracing ---- */

/* The functions that a traced thread calls. Each of them may make the operator fail by calling
** tli_fail and returning false. */
typedef struct tli_Tracer {
  /* The thread calls this function before each operator. */
  bool (*begin)(struct tli_Tracer *tracer, const tli_Call *call, const tli_CallArg *args);
  /* The thread calls this function after an operator that succeeded. Some of the results may be
  ** NULL. */
  bool (*end)(struct tli_Tracer *tracer, const tli_Call *call, const tli_CallArg *args,
              tl_Tensor *const *results, int64_t n);
  /* The thread calls this function before the host reads the values of t. */
  bool (*read)(struct tli_Tracer *tracer, const tl_Tensor *t);
  /* how many operators are running, one inside the other; only the outermost one is traced */
  int depth;
} tli_Tracer;

/* Makes a tracer (borrowed) observe the calling thread until tli_trace_stop. Returns false, after
** tli_fail, if the thread already has a tracer. */
bool tli_trace_start(tli_Tracer *tracer) TL_MUSTCHECK;
void tli_trace_stop(tli_Tracer *tracer);
bool tli_tracing(void);
/* Returns the number of the calling thread's trace, or 0 if there is no trace. No two traces have
** the same number. */
uint64_t tli_trace_number(void);

typedef enum tli_Traced { TLI_UNTRACED, TLI_TRACED, TLI_TRACE_REFUSED } tli_Traced;

/* These functions tell the tracer of the calling thread, if it has one, that an operator begins or
** ends. Generated code calls them. */
tli_Traced tli_trace_begin(const tli_Call *call, const tli_CallArg *args);
bool tli_trace_end(const tli_Call *call, const tli_CallArg *args, bool ok,
                   tl_Tensor *const *results, int64_t n) TL_MUSTCHECK;
/* Tells the tracer that the host is about to read elements of t. tli_trace_read calls this function
** if there may be a tracer. */
bool tli_trace_read_slowly(const tl_Tensor *t) TL_MUSTCHECK;
/* declared in profile.h too; tli_trace_start adds 1 to it, so that operators call the tracer */
extern atomic_int tli_profiles;
static inline TL_MUSTCHECK bool tli_trace_read(const tl_Tensor *t) {
  bool watched = atomic_load_explicit(&tli_profiles, memory_order_relaxed) != 0;
  return __builtin_expect(!watched, 1) || tli_trace_read_slowly(t);
}

#endif
