/*
** softmax.c - divides the rows of a softmax among threads or, if its elements are not contiguous,
** strips of neighbouring columns. Half types and short rows are copied to buffers: half types are
** converted to float32, and short rows are transposed so that neighbouring rows fill a vector.
*/
#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

/* a thread gets fewer elements than in other kernels, since exponentials are expensive */
#define GRAIN (TLK_GRAIN / 4)
#define ARRAYS 3
/* Rows of up to SHORT_ROW elements are transposed in a buffer if there are at least FEW_ROWS of
** them. */
#define SHORT_ROW 32
#define FEW_ROWS 8

/* The arrays of a softmax over dimension n, with the shape (outer, n, inner): the inputs come
** first, the result comes last. */
typedef struct Call {
  const tlk_Isa *isa;
  const tlk_Softmax *kernel;
  bool log;
  tl_DType dtype, compute;
  char *array[ARRAYS];
  int arrays;
  int64_t outer, n, inner;
  int64_t batch; /* number of rows in a task; 1 unless inner is 1 */
  int64_t width, strips;
  atomic_bool failed;
} Call;

/* Runs the kernel on a piece of each array. A piece consists of `cols` rows of n contiguous
** elements if `rows` is set. Otherwise it consists of `cols` neighbouring columns, whose n elements
** are `step` apart. */
static void compute(const Call *c, char *const *piece, bool rows, int64_t cols, int64_t step) {
  if (c->arrays == 2 && rows)
    c->kernel->rows(c->log, cols, c->n, piece[0], piece[1]);
  else if (c->arrays == 2)
    c->kernel->columns(c->log, c->n, cols, piece[0], step, piece[1], step);
  else if (rows)
    c->kernel->rows_back(c->log, cols, c->n, piece[0], piece[1], piece[2]);
  else
    c->kernel->columns_back(c->log, c->n, cols, piece[0], piece[1], step, piece[2], step);
}

/* The strides of a piece in memory. The buffer holds the piece as (cols, n) if `rows` is set,
** otherwise as (n, cols). */
typedef struct Layout {
  bool rows;
  int64_t cols, s0, s1; /* s0, s1: strides along cols and along n, in elements */
} Layout;

static void copy_in(const Call *c, const Layout *l, char *to, const char *from, char *raw) {
  int64_t size = (int64_t)tl_dtype_size(c->dtype), total = c->n * l->cols;
  tlk_Convert convert = c->isa->convert[c->dtype][c->compute];
  if (l->rows) {
    convert(total, to, from);
    return;
  }
  char *gathered = c->dtype == c->compute ? to : raw;
  c->isa->move[tlk_log2_size(c->dtype)](gathered, size, size * l->cols, from, l->s0 * size,
                                        l->s1 * size, l->cols, c->n);
  if (gathered == raw) convert(total, to, raw);
}

static void copy_out(const Call *c, const Layout *l, char *to, const char *from, char *raw) {
  int64_t size = (int64_t)tl_dtype_size(c->dtype), total = c->n * l->cols;
  tlk_Convert convert = c->isa->convert[c->compute][c->dtype];
  if (l->rows) {
    convert(total, to, from);
    return;
  }
  if (c->dtype != c->compute) {
    convert(total, raw, from);
    from = raw;
  }
  c->isa->move[tlk_log2_size(c->dtype)](to, l->s0 * size, l->s1 * size, from, size, size * l->cols,
                                        l->cols, c->n);
}

static bool run_buffered(const Call *c, char *const *piece, int64_t cols) {
  bool turned = c->inner == 1 && c->n <= SHORT_ROW && cols >= FEW_ROWS;
  Layout l = {.rows = c->inner == 1 && !turned,
              .cols = cols,
              .s0 = turned ? c->n : 1,
              .s1 = turned ? 1 : c->inner};
  int64_t each = c->n * cols * (int64_t)tl_dtype_size(c->compute);
  size_t bytes = (size_t)(each * (c->arrays + 1));
  char *buffer = tli_alloc(bytes);
  if (buffer == NULL) return false;
  char *copies[ARRAYS];
  char *raw = buffer + c->arrays * each;
  int last = c->arrays - 1;
  for (int k = 0; k < c->arrays; k++) copies[k] = buffer + k * each;
  for (int k = 0; k < last; k++) copy_in(c, &l, copies[k], piece[k], raw);
  compute(c, copies, l.rows, cols, cols);
  copy_out(c, &l, piece[last], copies[last], raw);
  tli_free(buffer, bytes);
  return true;
}

static void run_tasks(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  int64_t size = (int64_t)tl_dtype_size(c->dtype);
  for (int64_t i = begin; i < end; i++) {
    int64_t o = i / c->strips * c->batch, strip = i % c->strips;
    int64_t cols = c->inner == 1 ? tlk_min(c->batch, c->outer - o)
                                 : tlk_min(c->width, c->inner - strip * c->width);
    char *piece[ARRAYS];
    for (int k = 0; k < c->arrays; k++)
      piece[k] = c->array[k] + (o * c->n * c->inner + strip * c->width) * size;
    bool short_rows = c->inner == 1 && c->n <= SHORT_ROW && cols >= FEW_ROWS;
    if (c->dtype == c->compute && !short_rows)
      compute(c, piece, c->inner == 1, cols, c->inner);
    else if (!run_buffered(c, piece, cols))
      atomic_store_explicit(&c->failed, true, memory_order_relaxed);
  }
}

static bool run(Call *c, const char *name) {
  if (c->outer == 0 || c->n == 0 || c->inner == 0) return true;
  c->isa = tlk_isa();
  c->compute = tli_dtype_compute(c->dtype);
  c->kernel = c->isa->softmax[c->compute == TL_F64];
  c->width = tlk_min(c->inner, TLK_SOFTMAX_COLS);
  c->strips = tlk_ceil_div(c->inner, c->width);
  c->batch = c->inner == 1 ? tlk_max(1, tlk_min(TLK_SOFTMAX_COLS, GRAIN / 4 / c->n)) : 1;
  int64_t tasks = tlk_ceil_div(c->outer, c->batch) * c->strips;
  TL_TRY(tli_parallel_try(tasks, tlk_max(1, GRAIN / (c->batch * c->n * c->width)), run_tasks, c));
  if (atomic_load_explicit(&c->failed, memory_order_relaxed))
    return tli_fail(TL_EMEM, "%s: out of memory", name);
  return true;
}

bool tlk_softmax(const struct tlk_softmax *call) {
  Call c = {.log = call->log,
            .dtype = call->in.dtype,
            .array = {call->in.data, call->out.data},
            .arrays = 2,
            .outer = call->outer,
            .n = call->n,
            .inner = call->inner};
  return run(&c, "softmax");
}

bool tlk_softmax_backward(const struct tlk_softmax_backward *call) {
  Call c = {.log = call->log,
            .dtype = call->out.dtype,
            .array = {call->grad_out.data, call->out.data, call->grad_in.data},
            .arrays = 3,
            .outer = call->outer,
            .n = call->n,
            .inner = call->inner};
  return run(&c, "softmax");
}
