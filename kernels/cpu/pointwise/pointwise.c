/*
** pointwise.c - elementwise kernels on operands of any dtype and stride.
**
** The loop processes operands in place if all have the compute type and are contiguous. It also
** processes rows of some length in place if each operand is contiguous along a row, or if all
** inputs except the first are constant along it. Otherwise the work is divided into blocks of up to
** TLK_CHUNK elements, of two dimensions or, if these are short, of three. Operands are gathered and
** converted, where necessary, to buffers that stay in the first-level cache and use little of the
** thread's stack. The loop runs on these buffers, and its output is converted and scattered.
** Kernels with several outputs (tlk_fused) are computed in the same ways.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/kernel/portable.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

#define MAX_ARGS TLI_ITER_MAX   /* most kernels have one output and up to three inputs */
#define BUFFER_BYTES (32 << 10) /* the size of all buffers of a thread together */

typedef struct Call {
  const tlk_Isa *isa;
  const tli_Iter *it;
  tlk_Loop loop; /* the kernel's loop; NULL if the call only converts dtypes */
  /* the loop for calls whose inputs, except the first, are single elements; NULL if there is
  ** none */
  tlk_Loop fixed;
  /* the loop that processes whole rows in place, which is `loop` or `fixed`; NULL if rows are
  ** gathered into blocks */
  tlk_Loop rows;
  const tl_Scalar *params;
  int outputs;
  tl_DType want[MAX_ARGS]; /* the dtype that the loop expects of each argument */
  tlk_Blocks blocks;
  int64_t planes; /* number of planes (dimensions 0 and 1) in a whole block */
  int64_t depth;  /* number of planes along dimension 2 if a block may have several, otherwise 1 */
  int64_t most;   /* the largest number of elements in a block */
  int64_t buffer; /* the number of bytes in the buffer of one operand */
  atomic_bool failed;
} Call;

static const char *const names[] = {
#define X(name, inputs, types, result) #name,
    TLK_POINTWISES(X)
#undef X
};

/* The kernels whose results are real for complex inputs. */
static const bool gives_real[TLK_NPOINTWISES] = {
#define GIVES_REAL_SAME false
#define GIVES_REAL_BOOL false
#define GIVES_REAL_REAL true
#define X(name, inputs, result) [TLK_##name] = GIVES_REAL_##result,
    TLK_COMPLEX_POINTWISES(X)
#undef X
};

enum { GIVES_SAME, GIVES_BOOL };
static const uint8_t gives[] = {
#define X(name, inputs, types, result) GIVES_##result,
    TLK_POINTWISES(X)
#undef X
};

/* ---- whole vectors ---------------------------------------------------------- */

/* Runs the loop on the last n < TLK_LANES elements. They are padded with copies of the last
** element, so that no lane computes with undefined values. */
static bool run_tail(const Call *call, tlk_Loop loop, int64_t done, int64_t n, void *const *args) {
  _Alignas(64) char pad[MAX_ARGS][TLK_LANES * 16];
  void *padded[MAX_ARGS];
  for (int k = 0; k < call->it->nargs; k++) {
    size_t size = tli_dtype_bytes[call->want[k]];
    bool single = loop == call->fixed && k > 1;
    padded[k] = single ? args[k] : pad[k];
    if (k < call->outputs || single) continue;
    const char *src = (const char *)args[k] + (size_t)done * size;
    memcpy(pad[k], src, (size_t)n * size);
    call->isa->move[tlk_log2_size(call->want[k])](pad[k] + (size_t)n * size, (int64_t)size, 0,
                                                  src + (size_t)(n - 1) * size, 0, 0, TLK_LANES - n,
                                                  1);
  }
  if (!loop(TLK_LANES, padded, call->params)) return false;
  for (int k = 0; k < call->outputs; k++) {
    size_t size = tli_dtype_bytes[call->want[k]];
    memcpy((char *)args[k] + (size_t)done * size, pad[k], (size_t)n * size);
  }
  return true;
}

static bool run_loop(const Call *call, tlk_Loop loop, int64_t n, void *const *args) {
  int64_t tail = n % TLK_LANES;
  if (n > tail && !loop(n, args, call->params)) return false;
  return tail == 0 || run_tail(call, loop, n - tail, tail, args);
}

/* ---- contiguous operands ------------------------------------------------------ */

static bool is_direct(const Call *call) {
  const tli_Iter *it = call->it;
  if (it->ndim > 1) return false;
  for (int k = 0; k < it->nargs; k++) {
    if (it->args[k].dtype != call->want[k]) return false;
    if (it->ndim == 1 && it->args[k].strides[0] != tli_dtype_bytes[call->want[k]]) return false;
  }
  return true;
}

static void run_direct(void *context, int64_t begin, int64_t end) {
  Call *call = context;
  const tli_Iter *it = call->it;
  int64_t first = begin * TLK_CHUNK;
  int64_t n = tlk_min(end * TLK_CHUNK, it->numel) - first;
  void *args[MAX_ARGS];
  for (int k = 0; k < it->nargs; k++)
    args[k] = it->args[k].data + first * tli_dtype_bytes[call->want[k]];
  if (!run_loop(call, call->loop, n, args))
    atomic_store_explicit(&call->failed, true, memory_order_relaxed);
}

/* ---- rows ----------------------------------------------------------------------- */

/* The smallest length of rows that are processed in place; shorter rows are gathered into blocks.
** PLANE_LEAST holds for two-dimensional calls whose row length is a multiple of TLK_LANES.
** FIXED_LEAST holds for calls whose inputs, except the first, are constant along each row.
** ROW_LEAST holds for all other calls. */
#define PLANE_LEAST 128
#define ROW_LEAST 1024
#define FIXED_LEAST 128

/* Returns the loop that can process the rows in place; NULL if the rows must be gathered. */
static tlk_Loop loop_for_rows(const Call *call) {
  const tli_Iter *it = call->it;
  if (it->ndim == 0) return NULL;
  int64_t width = it->sizes[0];
  bool plane = it->ndim == 2 && width >= PLANE_LEAST && width % TLK_LANES == 0;
  bool arrays = plane || width >= ROW_LEAST;
  bool singles = it->nargs > 2 && (plane || it->ndim == 1 || width >= FIXED_LEAST);
  for (int k = 0; k < it->nargs && (arrays || singles); k++) {
    const tli_IterArg *arg = &it->args[k];
    bool plain = arg->dtype == call->want[k] && arg->strides[0] == tli_dtype_bytes[call->want[k]];
    arrays = arrays && plain;
    singles = singles && (k < 2 ? plain : arg->strides[0] == 0);
  }
  return arrays ? call->loop : singles ? call->fixed : NULL;
}

static bool run_row(void *context, char **ptrs, int64_t n) {
  const Call *call = context;
  _Alignas(16) char element[MAX_ARGS][16];
  void *args[MAX_ARGS];
  for (int k = 0; k < call->it->nargs; k++) {
    tl_DType from = call->it->args[k].dtype, to = call->want[k];
    args[k] = from == to ? (void *)ptrs[k] : element[k];
    if (from != to) call->isa->convert[from][to](1, element[k], ptrs[k]);
  }
  return run_loop(call, call->rows, n, args);
}

/* Returns whether the operands are two-dimensional and need no conversion. If so, the next row is
** reached by advancing the pointers. */
static bool is_plane(const Call *call) {
  const tli_Iter *it = call->it;
  if (it->ndim != 2) return false;
  for (int k = 0; k < it->nargs; k++)
    if (it->args[k].dtype != call->want[k]) return false;
  return true;
}

/* Computes elements [first, last), counted in row-major order. */
static bool run_plane(const Call *call, int64_t first, int64_t last) {
  const tli_Iter *it = call->it;
  int64_t width = it->sizes[0], row = first / width, at = first % width;
  char *starts[MAX_ARGS];
  for (int k = 0; k < it->nargs; k++) starts[k] = it->args[k].data + row * it->args[k].strides[1];
  for (; first < last; at = 0) {
    void *args[MAX_ARGS];
    int64_t n = tlk_min(width - at, last - first);
    for (int k = 0; k < it->nargs; k++) {
      args[k] = starts[k] + at * it->args[k].strides[0];
      starts[k] += it->args[k].strides[1];
    }
    TL_TRY(run_loop(call, call->rows, n, args));
    first += n;
  }
  return true;
}

static void run_rows(void *context, int64_t begin, int64_t end) {
  Call *call = context;
  int64_t first = begin * TLK_CHUNK, last = tlk_min(end * TLK_CHUNK, call->it->numel);
  bool ok = is_plane(call) ? run_plane(call, first, last)
                           : tli_iter_rows(call->it, first, last, run_row, call);
  if (!ok) atomic_store_explicit(&call->failed, true, memory_order_relaxed);
}

/* ---- blocks ------------------------------------------------------------------- */

/* The buffers of a thread. `held` records which elements the buffers of the operands contain. So a
** broadcast operand that is the same in the next block is not loaded again. */
typedef struct Buffers {
  _Alignas(64) char data[BUFFER_BYTES];
  const char *held[MAX_ARGS];
  int64_t held_cols[MAX_ARGS], held_rows[MAX_ARGS], held_planes[MAX_ARGS];
} Buffers;

/* Planes that follow one another along dimension 2, given by the first of them. */
typedef struct Block {
  tlk_Block plane;
  int64_t planes;
} Block;

static Block block_at(const Call *call, int64_t index) {
  int64_t groups = tlk_ceil_div(call->depth, call->planes), first = index % groups * call->planes;
  return (Block){.plane = tlk_block_at(&call->blocks, index / groups * call->depth + first),
                 .planes = tlk_min(call->planes, call->depth - first)};
}

static int64_t elements(const Block *block) {
  return block->plane.cols * block->plane.rows * block->planes;
}

static bool is_flat(const tli_IterArg *arg, const Block *block, int ndim) {
  int64_t size = tli_dtype_bytes[arg->dtype], cols = block->plane.cols, rows = block->plane.rows;
  return (cols == 1 || tlk_stride(arg, 0, ndim) == size) &&
         (rows == 1 || tlk_stride(arg, 1, ndim) == size * cols) &&
         (block->planes == 1 || tlk_stride(arg, 2, ndim) == size * cols * rows);
}

/* Copies a block of operand k to `buffer` or, if `store` is true, from `buffer`. */
static void move_block(const Call *call, const Block *block, int k, char *buffer, bool store) {
  const tli_IterArg *arg = &call->it->args[k];
  int ndim = call->it->ndim;
  tlk_Move move = call->isa->move[tlk_log2_size(arg->dtype)];
  int64_t size = tli_dtype_bytes[arg->dtype], cols = block->plane.cols, rows = block->plane.rows;
  int64_t s0 = tlk_stride(arg, 0, ndim), s1 = tlk_stride(arg, 1, ndim);
  char *at = block->plane.ptrs[k];
  for (int64_t i = 0; i < block->planes; i++) {
    if (store)
      move(at, s0, s1, buffer, size, size * cols, cols, rows);
    else
      move(buffer, size, size * cols, at, s0, s1, cols, rows);
    at += tlk_stride(arg, 2, ndim);
    buffer += size * cols * rows;
  }
}

/* Returns the buffer of operand k. The buffer after the operands' is for gathered elements that are
** not converted yet. */
static char *buffer_at(const Call *call, Buffers *buffers, int k) {
  return buffers->data + k * call->buffer;
}

/* Returns whether the buffer of operand k contains a block already, and records that it will. */
static bool is_held(Buffers *buffers, const Block *block, int k) {
  const tlk_Block *plane = &block->plane;
  bool held = buffers->held[k] == plane->ptrs[k] && buffers->held_cols[k] == plane->cols &&
              buffers->held_rows[k] == plane->rows && buffers->held_planes[k] == block->planes;
  buffers->held[k] = plane->ptrs[k];
  buffers->held_cols[k] = plane->cols;
  buffers->held_rows[k] = plane->rows;
  buffers->held_planes[k] = block->planes;
  return held;
}

static const void *fetch(const Call *call, const Block *block, int k, Buffers *buffers) {
  const tli_IterArg *arg = &call->it->args[k];
  const char *src = block->plane.ptrs[k];
  bool convert = arg->dtype != call->want[k];
  bool flat = is_flat(arg, block, call->it->ndim);
  if (flat && !convert) return src;
  char *buffer = buffer_at(call, buffers, k);
  if (is_held(buffers, block, k)) return buffer;
  if (!flat) {
    char *gathered = convert ? buffer_at(call, buffers, call->it->nargs) : buffer;
    move_block(call, block, k, gathered, false);
    src = gathered;
  }
  if (convert) call->isa->convert[arg->dtype][call->want[k]](elements(block), buffer, src);
  return buffer;
}

/* Stores output k of a block: converts the loop's results to the output's dtype and copies them to
** the output's strides. */
static void deliver(const Call *call, const Block *block, int k, void *result, Buffers *buffers) {
  const tli_IterArg *arg = &call->it->args[k];
  bool flat = is_flat(arg, block, call->it->ndim);
  char *at = block->plane.ptrs[k], *src = result;
  if (arg->dtype != call->want[k]) {
    src = flat ? at : buffer_at(call, buffers, call->it->nargs);
    call->isa->convert[call->want[k]][arg->dtype](elements(block), src, result);
  }
  if (src != at) move_block(call, block, k, src, true);
}

static bool run_block(const Call *call, const Block *block, Buffers *buffers) {
  void *args[MAX_ARGS];
  for (int k = call->outputs; k < call->it->nargs; k++)
    args[k] = (void *)(intptr_t)fetch(call, block, k, buffers);
  if (call->loop == NULL) {
    deliver(call, block, 0, args[1], buffers);
    return true;
  }
  for (int k = 0; k < call->outputs; k++) {
    const tli_IterArg *out = &call->it->args[k];
    bool in_place = out->dtype == call->want[k] && is_flat(out, block, call->it->ndim);
    args[k] = in_place ? block->plane.ptrs[k] : buffer_at(call, buffers, k);
  }
  if (!run_loop(call, call->loop, elements(block), args)) return false;
  for (int k = 0; k < call->outputs; k++)
    if (args[k] != block->plane.ptrs[k]) deliver(call, block, k, args[k], buffers);
  return true;
}

static void run_blocks(void *context, int64_t begin, int64_t end) {
  Call *call = context;
  Buffers buffers;
  for (int k = 0; k < MAX_ARGS; k++) buffers.held[k] = NULL;
  for (int64_t i = begin; i < end; i++) {
    Block block = block_at(call, i);
    if (!run_block(call, &block, &buffers)) {
      atomic_store_explicit(&call->failed, true, memory_order_relaxed);
      return;
    }
  }
}

/* Divides BUFFER_BYTES among the operands. Each buffer begins at a multiple of 64 bytes. */
static void plan_buffers(Call *call) {
  const tli_Iter *it = call->it;
  int64_t log2_size = 0;
  for (int k = 0; k < it->nargs; k++) {
    log2_size = tlk_max(log2_size, tlk_log2_size(it->args[k].dtype));
    log2_size = tlk_max(log2_size, tlk_log2_size(call->want[k]));
  }
  call->buffer = BUFFER_BYTES / (it->nargs + 1) & -64;
  call->most = tlk_min(TLK_CHUNK, (call->buffer >> log2_size) & -64);
}

static void plan_blocks(Call *call) {
  plan_buffers(call);
  int64_t width = call->it->ndim > 0 ? call->it->sizes[0] : 1;
  int64_t cols = tlk_transposed(call->it) ? 32 : call->most;
  int64_t rows = cols == 32 || width < call->most ? call->most / tlk_min(cols, width) : 1;
  call->blocks = tlk_blocks(call->it, cols, rows);
  bool short_planes = call->it->ndim > 2 && call->blocks.across * call->blocks.down == 1;
  call->depth = short_planes ? call->it->sizes[2] : 1;
  call->planes = tlk_min(call->depth, call->most / (call->blocks.cols * call->blocks.rows));
}

/* ---- entry points --------------------------------------------------------------- */

static bool run(Call *call) {
  const tli_Iter *it = call->it;
  if (it->numel == 0) return true;
  tli_RangeFn whole = NULL;
  if (call->loop && is_direct(call))
    whole = run_direct;
  else if (call->loop && (call->rows = loop_for_rows(call)) != NULL)
    whole = run_rows;
  if (whole)
    return tli_parallel_try(tlk_ceil_div(it->numel, TLK_CHUNK), TLK_GRAIN / TLK_CHUNK, whole, call);
  plan_blocks(call);
  int64_t each = call->blocks.cols * call->blocks.rows * call->planes;
  int64_t count = call->blocks.count / call->depth * tlk_ceil_div(call->depth, call->planes);
  return tli_parallel_try(count, tlk_max(1, TLK_GRAIN / each), run_blocks, call);
}

static bool compute(const struct tlk_pointwise *call) {
#ifndef TLI_INFER
  if (tlk_portable() && tli_calls_library(call->kernel, call->compute))
    return tli_fail(TL_EDTYPE,
                    "%s: not defined for %s tensors with use_deterministic_algorithms \"portable\"",
                    names[call->kernel], tl_dtype_name(call->compute));
#endif
  const tlk_Isa *isa = tlk_isa();
  Call p = {.isa = isa, .it = &call->it, .params = call->params, .outputs = 1};
  p.loop = isa->loops[tlk_compute_index(call->compute)][call->kernel];
  /* a `fixed` loop takes time to set up, which is not worthwhile for results of one byte */
  bool test = gives[call->kernel] == GIVES_BOOL;
  const tlk_Loop *fixed = isa->fixed[tlk_compute_index(call->compute)];
  p.fixed = test || fixed == NULL ? NULL : fixed[call->kernel];
  if (p.loop == NULL && (call->compute == TL_F32 || call->compute == TL_F64)) {
    p.loop = tlk_rare_loops[call->compute == TL_F64][call->kernel];
    p.fixed = tlk_rare_fixed[call->compute == TL_F64][call->kernel];
  }
  if (p.loop == NULL)
    return tli_fail(TL_EINTERNAL, "%s: no kernel that computes in %s", names[call->kernel],
                    tl_dtype_name(call->compute));
  for (int k = 0; k < call->it.nargs; k++) p.want[k] = call->compute;
  if (gives[call->kernel] == GIVES_BOOL) p.want[0] = TL_BOOL;
  if (fixed == NULL && gives_real[call->kernel]) p.want[0] = tli_real_dtype(call->compute);
  TL_TRY(run(&p));
  if (atomic_load_explicit(&p.failed, memory_order_relaxed))
    return tlk_fault(call->cx, &(tlk_Fault){.kind = TLK_FAULT_DIVISION, .source = call->source});
  return true;
}

/* ---- bits of narrow integers ------------------------------------------------------ */

#ifndef TLI_INFER
static bool is_narrow_bits(const struct tlk_pointwise *call) {
  tlk_Pointwise kernel = call->kernel;
  tl_DType dtype = call->it.args[0].dtype;
  return (kernel == TLK_bitwise_and || kernel == TLK_bitwise_or || kernel == TLK_bitwise_xor) &&
         (dtype == TL_U8 || dtype == TL_I8 || dtype == TL_I16) && call->it.ndim == 1;
}

/* Returns a 64-bit integer that consists of copies of an operand's only element. Each copy is an
** integer of `size` bytes. */
static int64_t repeated(const tli_IterArg *arg, int64_t size) {
  int32_t value;
  tlk_isa()->convert[arg->dtype][TL_I32](1, &value, arg->data);
  uint64_t bits = size == 1 ? (uint8_t)value : (uint16_t)value;
  return (int64_t)(bits * (size == 1 ? 0x0101010101010101u : 0x0001000100010001u));
}

/* Changes a loop over narrow integers to one over words of 64 bits, and returns the number of
** integers in these words, or 0 if the operands do not permit the change. `words` is memory for
** operands that are single elements. */
static int64_t widen(tli_Iter *it, int64_t *words) {
  tl_DType dtype = it->args[0].dtype;
  int64_t size = tli_dtype_bytes[dtype], each = 8 / size;
  for (int k = 0; k < it->nargs; k++) {
    tli_IterArg *arg = &it->args[k];
    if (arg->strides[0] == 0) {
      words[k] = repeated(arg, size);
      arg->data = (char *)&words[k];
    } else {
      if (arg->dtype != dtype || arg->strides[0] != size || (uintptr_t)arg->data % 8 != 0) return 0;
      arg->strides[0] = 8;
    }
    arg->dtype = TL_I64;
  }
  it->numel = it->sizes[0] /= each;
  return it->numel * each;
}

/* Bitwise kernels compute each bit on its own, so one operation on a word computes several narrow
** integers. The integers after the last whole word are computed one by one, as by any other
** kernel. */
static bool compute_bits(const struct tlk_pointwise *call) {
  struct tlk_pointwise wide = *call, rest = *call;
  int64_t words[MAX_ARGS], done = widen(&wide.it, words);
  wide.compute = TL_I64;
  if (done > 0) TL_TRY(compute(&wide));
  for (int k = 0; k < rest.it.nargs; k++) rest.it.args[k].data += done * rest.it.args[k].strides[0];
  rest.it.numel = rest.it.sizes[0] -= done;
  return compute(&rest);
}

bool tlk_pointwise(const struct tlk_pointwise *call) {
  return is_narrow_bits(call) ? compute_bits(call) : compute(call);
}
#else
bool tlk_pointwise(const struct tlk_pointwise *call) { return compute(call); }
#endif

bool tlk_fused(const struct tlk_fused *call) {
  static const uint8_t outputs[] = {
#define X(name, outputs, inputs) outputs,
      TLK_FUSED(X)
#undef X
  };
  const tlk_Isa *isa = tlk_isa();
  Call p = {.isa = isa, .it = &call->it, .outputs = outputs[call->kernel]};
  p.loop = isa->fused[call->compute == TL_F64][call->kernel];
  if (p.loop == NULL) return tli_fail(TL_EINTERNAL, "this library has no gradients");
  for (int k = 0; k < call->it.nargs; k++) p.want[k] = call->compute;
  return run(&p);
}

/* Converts between dtypes. The call has no loop: blocks are gathered in the dtype of the source,
** and `deliver` converts them. */
bool tlk_convert_elements(const tli_Iter *it) {
  Call call = {.isa = tlk_isa(), .it = it, .outputs = 1};
  call.want[0] = call.want[1] = it->args[1].dtype;
  return run(&call);
}
