/*
** call_graph.h - a traced model as data: inputs, constants, and a list of operator calls whose
** tensors are numbered values. Nothing in src/graph knows of Lua.
**
**   call_recorder.c  records the calls of a thread as a graph
**   unify.c          compares traces, and finds the integers that depend on sizes of inputs
**   file.c           writes and reads a graph as a file; json.c, text.c: its text
**   run.c            makes the calls again; tl_program_* of tlua.h
**   memory_plan.c    the memory of a run: places for all blocks, found from their lifetimes
**   show.c           a graph for people
**
** Invariant of a graph that has been built or read: a call's arguments are values that come before
** its results, and their kinds are those of its operator's parameters.
*/
#ifndef TLI_GRAPH_GRAPH_H
#define TLI_GRAPH_GRAPH_H

#include "core/observe/trace.h"
#include "core/tensor/tensor.h"

/* Memory that is allocated piece by piece and freed as a whole. */
typedef struct tli_Region {
  struct tli_Chunk *chunks;
} tli_Region;

/* Returns zeros; NULL with a message if memory is exhausted. */
void *tli_region_get(tli_Region *r, int64_t count, size_t size) TL_MUSTCHECK;
char *tli_region_text(tli_Region *r, const char *text, size_t length) TL_MUSTCHECK;
void tli_region_free(tli_Region *r);
/* Makes room for one more element in an array of n, whose capacity is the power of 2 from n on. */
bool tli_region_grow(tli_Region *r, void **array, int64_t n, size_t size) TL_MUSTCHECK;

typedef enum tli_ValueKind {
  TLI_VALUE_INPUT,
  TLI_VALUE_CONSTANT,
  TLI_VALUE_NUMBER, /* a number at a place where an operator takes a tensor or a number */
  TLI_VALUE_RESULT
} tli_ValueKind;

typedef struct tli_GraphValue {
  tli_ValueKind kind;
  int32_t index; /* the index among inputs, constants or numbers */
} tli_GraphValue;

typedef struct tli_GraphInput {
  const char *name;
  tl_DType dtype;
  int ndim;
  int64_t sizes[TL_MAX_DIMS]; /* sizes in the example; a dynamic dimension's size is not used */
  /* for each dimension: the number of its symbol, or -1 if it is not dynamic */
  int32_t symbols[TL_MAX_DIMS];
  int32_t value;
} tli_GraphInput;

typedef struct tli_GraphConstant {
  const char *name;
  tl_Tensor *tensor; /* the constant's tensor (owned), row-major on the CPU */
  bool state;        /* whether runs change it */
  bool leaf;         /* whether it requires a gradient; only in programs that train */
} tli_GraphConstant;

/* A place among the arguments of a call for a number that differs from step to step, such as a
** learning rate: element `element` of a list of reals. */
typedef struct tli_GraphPlace {
  int32_t call, param, element;
} tli_GraphPlace;

/* The numbers of a program that differ from step to step, such as learning rates. */
typedef struct tli_GraphSchedule {
  /* constants: float64 (steps, nplaces), and int64 with the number of steps made; -1 for none */
  int32_t rates, count;
  int32_t nplaces;
  tli_GraphPlace *places;
} tli_GraphSchedule;

/* A size that may differ between runs of a program. */
typedef struct tli_GraphSymbol {
  const char *name;
  int64_t example, least, most;
} tli_GraphSymbol;

/* A call of an operator. In args, a tensor is represented by the number of its value in `integer`
** (-1 for none), a list of tensors by the numbers in `ints`. */
typedef struct tli_GraphCall {
  const tli_Call *call;
  tli_CallArg *args;
  int32_t nresults;
  int32_t *results;
  bool records; /* whether gradients are recorded during the call; only in programs that train */
} tli_GraphCall;

/* An integer that depends on sizes and replaces an integer argument: base + the sum of factors[s] *
** size of symbol s. */
typedef struct tli_GraphHole {
  int32_t call; /* index of the call; -1 if `param` is the index of a number */
  int32_t param;
  int32_t element; /* position in a list; -1 if the hole is the argument itself */
  int64_t base;
  int64_t *factors;
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
  const char *structure; /* text for the front end that tells how outputs are nested; may be NULL */
  bool training;         /* whether the model was in training mode when it was traced */
  tl_DType dtype;        /* the default dtype of the traced code */
  bool step;             /* whether the program is a training step */
  tli_GraphSchedule schedule;
  /* the position in the stream of random numbers at which the first step begins */
  uint64_t seed, offset;
} tli_Graph;

tli_Graph *tli_graph_new(void) TL_MUSTCHECK;
tli_Graph *tli_graph_retain(tli_Graph *g);
void tli_graph_release(tli_Graph *g); /* Releases a graph. Accepts NULL. */

/* Add a value to a graph and return its number, or -1 with a message. */
int32_t tli_graph_value(tli_Graph *g, tli_ValueKind kind, int32_t index) TL_MUSTCHECK;
int32_t tli_graph_number(tli_Graph *g, tl_Scalar number) TL_MUSTCHECK;
/* Retains the tensor; copies the name. */
int32_t tli_graph_constant(tli_Graph *g, const char *name, tl_Tensor *tensor) TL_MUSTCHECK;
/* Adds an input, whose name is copied; `value` receives the number of its value. */
int32_t tli_graph_input(tli_Graph *g, const tli_GraphInput *input) TL_MUSTCHECK;
bool tli_graph_output(tli_Graph *g, int32_t value) TL_MUSTCHECK;
/* Returns a call with zeros as arguments and new values as results; NULL with a message. */
tli_GraphCall *tli_graph_call(tli_Graph *g, const tli_Call *call, int32_t nresults) TL_MUSTCHECK;
tli_GraphHole *tli_graph_hole(tli_Graph *g) TL_MUSTCHECK;
/* Copies an argument's list or text into the graph. */
bool tli_graph_keep(tli_Graph *g, tli_CallKind kind, tli_CallArg *arg) TL_MUSTCHECK;

/* Returns the row of an operator that programs can call; NULL if `name` is not one. */
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

/* Begins to trace the calling thread. Tensors that the traced code uses, and that are neither
** inputs nor results, become constants; named ones are declared first. With
** `step`, backward passes are recorded. */
tli_Trace *tli_trace_new(bool step) TL_MUSTCHECK;
/* Declares an input of the traced code. Its name is copied; `symbols` may be NULL. */
bool tli_trace_input(tli_Trace *t, const char *name, tl_Tensor *tensor) TL_MUSTCHECK;
/* Names a tensor; `changes`: whether the traced code may change it, as a part of the program's
** state. */
bool tli_trace_name(tli_Trace *t, const char *name, tl_Tensor *tensor, bool changes) TL_MUSTCHECK;
/* Starts to record. */
bool tli_trace_record(tli_Trace *t) TL_MUSTCHECK;
/* Ends the trace and returns its graph; NULL after tli_fail. */
tli_Graph *tli_trace_finish(tli_Trace *t, tl_Tensor *const *outputs, int n) TL_MUSTCHECK;
void tli_trace_free(tli_Trace *t); /* Ends the trace and frees it. Accepts NULL. */

/* ---- sizes (unify.c) ---- */

/* Fails unless two traces, whose inputs have different values, are equal. */
bool tli_graph_same(const tli_Graph *g, const tli_Graph *other) TL_MUSTCHECK;
/* Makes dimension `dim` of input `input` dynamic; its size is the symbol with the given name. */
bool tli_graph_dynamic(tli_Graph *g, int input, int dim, const char *symbol) TL_MUSTCHECK;
/* Finds the integers of g that depend on a symbol, from two traces with different sizes for the
** symbol. A third trace checks that the dependence is linear. */
bool tli_graph_fit(tli_Graph *g, int symbol, int64_t first, const tli_Graph *a, int64_t second,
                   const tli_Graph *b) TL_MUSTCHECK;
/* Returns whether a trace with another size for the symbol has the integers that the graph computes
** for that size. */
bool tli_graph_fits(const tli_Graph *g, int symbol, int64_t size, const tli_Graph *other);

/* ---- files, texts ---- */

/* Returns whether runs change constants. */
bool tli_graph_has_state(const tli_Graph *g);
/* Gives a graph that has no schedule one: rates is float64 (steps, n), and row i has the numbers for
** the places in step i. */
bool tli_graph_schedule(tli_Graph *g, tl_Tensor *rates, const tli_GraphPlace *places, int32_t n)
    TL_MUSTCHECK;
/* Returns whether a place has a real number of a list. */
bool tli_graph_place_fits(const tli_Graph *g, const tli_GraphPlace *p);

bool tli_graph_save(const tli_Graph *g, const char *path) TL_MUSTCHECK;
tli_Graph *tli_graph_load(const char *path) TL_MUSTCHECK;
/* Reads a program from bytes. The bytes are used until the last of the graph's tensors is freed,
** when release(data, context) is called; after a failure it is not called. */
tli_Graph *tli_graph_read(void *data, size_t bytes, void (*release)(void *data, void *context),
                          void *context) TL_MUSTCHECK;

#endif
