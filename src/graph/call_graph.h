/*
** call_graph.h - a traced model as data: inputs, constants, and a list of operator calls whose
** tensors are numbered values. No file in src/graph depends on Lua.
**
**   call_recorder.c  records the operators that a thread calls as a graph; branch_recorder.c
**                    records branches and loops
**   unify.c          compares traces, and finds the integers that depend on the inputs' sizes
**   file_write.c     writes a graph to a file (with text.c); file_read.c reads it (with json.c)
**   run.c            runs a graph's calls; implements tl_program_* of tlua.h
**   branches.c       the calls that delimit conditional branches and loops
**   memory_plan.c    plans a run's memory: an arena offset for each block, from its lifetime
**   show.c           prints a graph for people
**
** Every graph that has been built or read fulfils these conditions: a call's arguments are values
** that come before its results, and their kinds are those of its operator's parameters.
*/
#ifndef TLI_GRAPH_GRAPH_H
#define TLI_GRAPH_GRAPH_H

#include "core/observe/trace.h"
#include "core/tensor/tensor.h"
#include "graph/text.h"

/* A memory region: blocks are allocated one by one, and all are freed together. */
typedef struct tli_Region {
  struct tli_Chunk *chunks;
} tli_Region;

/* Returns zeroed memory. If memory is exhausted, returns NULL and sets an error message. */
void *tli_region_get(tli_Region *r, int64_t count, size_t size) TL_MUSTCHECK;
char *tli_region_text(tli_Region *r, const char *text, size_t length) TL_MUSTCHECK;
void tli_region_free(tli_Region *r);
/* Makes room for one more element in an array of n elements. The capacity of an array is n rounded
** up to a power of 2. */
bool tli_region_grow(tli_Region *r, void **array, int64_t n, size_t size) TL_MUSTCHECK;

typedef enum tli_ValueKind {
  TLI_VALUE_INPUT,
  TLI_VALUE_CONSTANT,
  TLI_VALUE_NUMBER, /* a number passed to a parameter that takes a tensor or a number */
  TLI_VALUE_RESULT
} tli_ValueKind;

typedef struct tli_GraphValue {
  tli_ValueKind kind;
  int32_t index; /* the value's index in the graph's array of inputs, constants, numbers or calls */
} tli_GraphValue;

typedef struct tli_GraphInput {
  const char *name;
  tl_DType dtype;
  int ndim;
  /* the sizes of the example input; the size of a dynamic dimension is unused */
  int64_t sizes[TL_MAX_DIMS];
  /* for each dimension: the index of its symbol, or -1 if the size is fixed */
  int32_t symbols[TL_MAX_DIMS];
  int32_t value;
} tli_GraphInput;

typedef struct tli_GraphConstant {
  const char *name;
  /* the constant's tensor (owned), row-major, on the graph's device; a number (0-d) and the
  ** constants of a schedule may be on the CPU instead */
  tl_Tensor *tensor;
  bool state; /* whether runs change the constant */
  bool leaf;  /* whether the constant requires a gradient; only in programs that train */
} tli_GraphConstant;

/* The place of a number that changes from step to step, such as a learning rate. The number is
** element `element` of a call's argument that is a list of reals. */
typedef struct tli_GraphPlace {
  int32_t call, param, element;
} tli_GraphPlace;

/* The schedule of a program: the numbers that change from step to step, such as learning rates, and
** where calls use them. */
typedef struct tli_GraphSchedule {
  /* indices of two constants, or -1 if there is no schedule: the constant `rates` has the numbers
  ** of all steps, as float64 (steps, nplaces), and the constant `count` has the number of steps
  ** made so far, as int64 */
  int32_t rates, count;
  int32_t nplaces;
  tli_GraphPlace *places;
} tli_GraphSchedule;

/* A size that may differ between runs of a program. */
typedef struct tli_GraphSymbol {
  const char *name;
  int64_t example, least, most;
} tli_GraphSymbol;

/* A call of an operator. A graph stores tensors as the numbers of their values. Among the arguments
** `args`, the field `integer` holds a tensor as the number of its value (-1 for no tensor), and the
** field `ints` holds a list of tensors as the numbers of their values. */
typedef struct tli_GraphCall {
  const tli_Call *call;
  tli_CallArg *args;
  int32_t nresults;
  int32_t *results;
  bool records; /* whether gradients are recorded during the call; only in programs that train */
} tli_GraphCall;

/* A product of two or three sizes: factor * (size of symbols[0]) * (size of symbols[1]) and so on.
** The symbols are in ascending order; a symbol may occur more than once. */
typedef struct tli_GraphTerm {
  int64_t factor;
  int32_t n;
  int32_t symbols[3];
} tli_GraphTerm;

enum { TLI_SYMBOLS_MOST = 64 }; /* the largest number of symbols of a program */
enum { TLI_TERM_MOST = 3 };     /* the largest number of sizes in a product */

/* A hole is an integer argument that depends on the inputs' sizes: each run computes it as base +
** the sum of factors[s] * (size of symbol s) + the sum of the terms. */
typedef struct tli_GraphHole {
  /* index of the call; -1 if the hole is one of the graph's numbers, whose index is `param` */
  int32_t call;
  int32_t param;
  int32_t element; /* index in a list argument; -1 if the hole is the argument itself */
  int64_t base;
  int64_t *factors;
  int32_t nterms;
  tli_GraphTerm *terms;
} tli_GraphHole;

typedef struct tli_Graph {
  tli_Region region; /* the memory of the fields below (owned) */
  atomic_int refs;
  int32_t nvalues, ninputs, nconstants, nnumbers, ncalls, noutputs, nsymbols, nholes;
  tli_GraphValue *values;
  tli_GraphInput *inputs;
  tli_GraphConstant *constants;
  tl_Scalar *numbers;
  tli_GraphCall *calls;
  int32_t *outputs; /* values */
  tli_GraphSymbol *symbols;
  tli_GraphHole *holes;
  int64_t work; /* the total number of elements of all arguments and results of the traced calls */
  const char *structure; /* tells the front end how the outputs are nested in tables; may be NULL */
  bool reads;            /* whether the traced code has read the values of a constant */
  bool training;         /* whether the model was in training mode when it was traced */
  tl_DType dtype;        /* the default dtype of the traced code */
  /* the device of runs. Calls use it in place of any device that was traced; in a file it is the
  ** CPU */
  tl_Device device;
  bool step; /* whether the program is a training step */
  /* whether the program's results have gradients. Such a program uses the caller's tensors
  ** themselves as inputs and constants, and records gradients as the traced code did; it cannot be
  ** saved */
  bool live;
  tli_GraphSchedule schedule;
  /* position in the random number stream at which the first step begins */
  uint64_t seed, offset;
} tli_Graph;

/* Returns whether a program's results have gradients. In a library that is built to run one saved
** program (TLI_RUNTIME) they never have, because a program whose results have gradients cannot be
** saved. */
static inline bool tli_graph_live(const tli_Graph *g) {
#ifdef TLI_RUNTIME
  (void)g;
  return false;
#else
  return g->live;
#endif
}

tli_Graph *tli_graph_new(void) TL_MUSTCHECK;
tli_Graph *tli_graph_retain(tli_Graph *g);
void tli_graph_release(tli_Graph *g); /* Releases a graph. Accepts NULL. */

/* These functions add a value to a graph and return the value's number; on failure they return -1
** and set a message. */
int32_t tli_graph_value(tli_Graph *g, tli_ValueKind kind, int32_t index) TL_MUSTCHECK;
int32_t tli_graph_number(tli_Graph *g, tl_Scalar number) TL_MUSTCHECK;
/* Adds a constant: retains the tensor and copies the name. */
int32_t tli_graph_constant(tli_Graph *g, const char *name, tl_Tensor *tensor) TL_MUSTCHECK;
/* Adds an input and copies its name. Returns the number of the input's value, or -1 on failure. */
int32_t tli_graph_input(tli_Graph *g, const tli_GraphInput *input) TL_MUSTCHECK;
bool tli_graph_output(tli_Graph *g, int32_t value) TL_MUSTCHECK;
/* Adds a call with zeros as arguments and new values as results; returns NULL on failure. */
tli_GraphCall *tli_graph_call(tli_Graph *g, const tli_Call *call, int32_t nresults) TL_MUSTCHECK;
tli_GraphHole *tli_graph_hole(tli_Graph *g) TL_MUSTCHECK;
/* Computes the integer of a hole for given sizes of all symbols. Fails on overflow. */
bool tli_graph_hole_value(const tli_Graph *g, const tli_GraphHole *h, const int64_t *sizes,
                          int64_t *out) TL_MUSTCHECK;
/* Checks an input, and stores the sizes of its dynamic dimensions as the sizes of their symbols. */
bool tli_graph_check_input(const tli_Graph *g, const tli_GraphInput *in, const tl_Tensor *t,
                           int64_t *sizes) TL_MUSTCHECK;
/* Returns whether a call is an as_strided of an input or a constant (or of its detached alias). The
** storage offset of such a call counts from the tensor's first element instead of the beginning of
** the storage. */
bool tli_graph_placed(const tli_Graph *g, const tli_GraphCall *call);
/* Copies an argument's list or text into the graph. */
bool tli_graph_keep(tli_Graph *g, tli_CallKind kind, tli_CallArg *arg) TL_MUSTCHECK;

/* Returns the table row of the operator `name`; NULL if programs cannot call such an operator. */
const tli_Call *tli_call_find(const char *name);

static inline bool tli_kind_is_tensor(int kind) {
  return kind == TLI_CALL_TENSOR || kind == TLI_CALL_OPERAND;
}
static inline bool tli_kind_is_ints(int kind) {
  return kind == TLI_CALL_INTS || kind == TLI_CALL_DIMS || kind == TLI_CALL_DIM_LISTS ||
         kind == TLI_CALL_INDICES;
}
static inline bool tli_kind_is_int(int kind) {
  return kind == TLI_CALL_INT || kind == TLI_CALL_DIM || kind == TLI_CALL_INDEX;
}

/* ---- traces ---- */

typedef struct tli_Trace tli_Trace;

typedef enum tli_TraceKind {
  TLI_TRACE_VALUES, /* calls without gradients */
  TLI_TRACE_STEP,   /* a training step, with its backward passes */
  TLI_TRACE_LIVE    /* calls whose results have gradients in every run */
} tli_TraceKind;

/* Returns a trace; tli_trace_record makes it record the operators that the calling thread calls.
** Tensors that the traced code uses become constants, unless they are inputs or results. Constants
** with names must be declared before recording starts. */
tli_Trace *tli_trace_new(tli_TraceKind kind) TL_MUSTCHECK;
/* Declares an input of the traced code. The name is copied. */
bool tli_trace_input(tli_Trace *t, const char *name, tl_Tensor *tensor) TL_MUSTCHECK;
/* Names a tensor. `changes` says whether the traced code may change the tensor. Tensors that may
** change form the program's state. */
bool tli_trace_name(tli_Trace *t, const char *name, tl_Tensor *tensor, bool changes) TL_MUSTCHECK;
/* Starts recording. */
bool tli_trace_record(tli_Trace *t) TL_MUSTCHECK;
/* These functions record the marks of a cond (branches.h): its beginning, the end of the first
** branch with its results, and the end of the second branch. A tensor that one branch makes is not
** known outside of the branch. The last function sets `results` to n new tensors, which stand for
** the results of either branch. */
bool tli_trace_branch(tli_Trace *t, tl_Tensor *pred) TL_MUSTCHECK;
bool tli_trace_otherwise(tli_Trace *t, tl_Tensors given) TL_MUSTCHECK;
bool tli_trace_join(tli_Trace *t, tl_Tensors given, tl_Tensor **results) TL_MUSTCHECK;
/* These functions record the marks of a while_loop (branches.h): its beginning, its condition, and
** its end. The first function sets `results` to new tensors, which stand for the carried tensors in
** each iteration and after the loop. */
bool tli_trace_loop(tli_Trace *t, tl_Tensors given, tl_Tensor **results) TL_MUSTCHECK;
bool tli_trace_test(tli_Trace *t, tl_Tensor *pred) TL_MUSTCHECK;
bool tli_trace_again(tli_Trace *t, tl_Tensors given) TL_MUSTCHECK;
/* Ends the trace and returns its graph, or NULL on failure. */
tli_Graph *tli_trace_finish(tli_Trace *t, tl_Tensor *const *outputs, int n) TL_MUSTCHECK;
void tli_trace_free(tli_Trace *t); /* Ends the trace and frees it. Accepts NULL. */

/* ---- sizes (unify.c) ---- */

/* Fails if two traces differ although their inputs have equal sizes and differ only in their
** values. */
bool tli_graph_same(const tli_Graph *g, const tli_Graph *other) TL_MUSTCHECK;
/* Makes dimension `dim` of input `input` dynamic: its size becomes the named symbol. */
bool tli_graph_dynamic(tli_Graph *g, int input, int dim, const char *symbol) TL_MUSTCHECK;
/* Finds the integers of g that depend on a symbol, by comparing two traces with different sizes for
** that symbol. The dependence is linear or quadratic. */
bool tli_graph_fit(tli_Graph *g, int symbol, int64_t first, const tli_Graph *a, int64_t second,
                   const tli_Graph *b) TL_MUSTCHECK;
/* Returns whether a trace with another size for the symbol has the same integers as the graph
** computes for that size. */
bool tli_graph_fits(const tli_Graph *g, int symbol, int64_t size, const tli_Graph *other);
/* Finds the integers of g that depend on the product of the n given symbols, by comparison with a
** trace in which each symbol s has sizes[s]: the example's size, except for the given symbols. All
** products of fewer of these symbols must have been found before. */
bool tli_graph_fit_product(tli_Graph *g, const int32_t *symbols, int n, const int64_t *sizes,
                           const tli_Graph *other) TL_MUSTCHECK;
/* Fails unless a trace in which each symbol s has sizes[s] has the same integers as the graph
** computes for these sizes. */
bool tli_graph_fits_all(const tli_Graph *g, const int64_t *sizes, const tli_Graph *other)
    TL_MUSTCHECK;

/* ---- files, texts ---- */

/* Returns whether runs change constants. */
bool tli_graph_has_state(const tli_Graph *g);
/* Gives a schedule to a graph that has none. `rates` is float64 (steps, n): step i writes the
** numbers in row i to the n places in the calls' arguments. */
bool tli_graph_schedule(tli_Graph *g, tl_Tensor *rates, const tli_GraphPlace *places, int32_t n)
    TL_MUSTCHECK;
/* Returns whether a place refers to a real number in a list argument of a call. */
bool tli_graph_place_fits(const tli_Graph *g, const tli_GraphPlace *p);

/* Writes the graph as the JSON text of a file's field "program". */
bool tli_graph_describe(const tli_Graph *g, tli_Text *out) TL_MUSTCHECK;
/* Reads a graph from text that tli_graph_describe has written, for runs on a device. The constants
** are the given tensors, in the text's order; the graph shares them. */
tli_Graph *tli_graph_parse(const char *text, size_t size, tl_Tensor *const *constants, int n,
                           tl_Device device) TL_MUSTCHECK;

bool tli_graph_save(const tli_Graph *g, const char *path) TL_MUSTCHECK;
tli_Graph *tli_graph_load(const char *path) TL_MUSTCHECK;
/* Reads a program from bytes. The graph uses these bytes until the last tensor in them is freed,
** and then calls release(data, context). After a failure `release` is not called. */
tli_Graph *tli_graph_read(void *data, size_t bytes, void (*release)(void *data, void *context),
                          void *context) TL_MUSTCHECK;

#endif
