/*
** sweep.c - implements sweep.h.
**
** A stored call writes one row-major array, in the order of its loop. A later stored call may read
** or overwrite that array if it visits the array in the same order. Then element i of one loop
** depends only on element i of the other, so both loops can be divided into the same blocks. A call
** that overlaps a stored array in any other way ends the sweep.
**
** Each write to an array begins a new version of the array. A version that is not needed after the
** sweep, because it was forgotten or overwritten, is not written to memory, but only to a buffer of
** one block.
*/
#include "core/kernel/sweep.h"

#ifndef TLI_RUNTIME
#include <stdatomic.h>
#include <string.h>

#include "core/device/backend.h"
#include "core/memory/alloc.h"
#include "core/platform/parallel.h"

/* The smallest number of elements of an array. Smaller arrays stay in the cache without a sweep. */
#define LEAST ((int64_t)1 << 15)
#define MOST_STEPS 32
/* BUFFER_BYTES is the number of bytes of all buffers of one thread. BLOCK is the largest number of
** elements in a block. */
#define BUFFER_BYTES 32768
#define BLOCK 4096
/* A call whose loop has more than two dimensions is added to a sweep only if its rows have at least
** this many elements. */
#define ROW_LEAST 512

typedef struct Version {
  char *data;
  int64_t bytes;
  tl_DType dtype;
  /* whether no code needs the array's contents after the sweep, so that they need not be written to
  ** memory */
  bool dead;
  int last;     /* the last step that reads this version; the step that writes it if no step does */
  int64_t slot; /* offset of the version's buffer; -1 if it is written to memory */
} Version;

typedef struct Step {
  struct tlk_pointwise call;
  /* for the output, the index of the version that this step writes; for each input, the index of
  ** the version that it reads, or -1 if no stored call has written the input */
  int versions[TLI_ITER_MAX];
} Step;

struct tli_Sweep {
  int n;         /* the number of steps (stored calls); step i writes version i */
  int64_t numel; /* the number of elements of each loop */
  int64_t width; /* the length of the rows in loops that are not flat; 0 if all loops are flat */
  bool tall;     /* whether the loop of any step has more than two dimensions */
  int64_t cols, rows, across, buffer;
  atomic_bool failed;
  Version versions[MOST_STEPS];
  Step steps[MOST_STEPS];
};

atomic_int tli_sweeps;
static _Thread_local tli_Sweep *collecting;

tli_Sweep *tli_sweep_new(void) {
  tli_Sweep *s = tli_alloc(sizeof *s);
  if (s) s->n = 0;
  return s;
}

void tli_sweep_free(tli_Sweep *s) { tli_free(s, sizeof *s); }

bool tli_sweep_mine(void) { return collecting != NULL; }

/* ---- running ---- */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Runs a step for `cols` columns of `rows` rows, beginning at column `col` of row `row`. */
static bool run_step(const tli_Sweep *s, const Step *step, char *buffers, int64_t row, int64_t col,
                     int64_t rows, int64_t cols) {
  const tli_Iter *it = &step->call.it;
  bool flat = it->ndim <= 1;
  /* If the width is 0, `col` alone is the position; otherwise the width is the length of a row. */
  int64_t first = row * s->width + col;
  struct tlk_pointwise call;
  call.cx = step->call.cx;
  call.kernel = step->call.kernel;
  call.compute = step->call.compute;
  call.source = step->call.source;
  memcpy(call.params, step->call.params, sizeof call.params);
  call.it.nargs = it->nargs;
  call.it.numel = rows * cols;
  call.it.ndim = flat || rows == 1 ? 1 : 2;
  call.it.sizes[0] = call.it.ndim == 1 ? rows * cols : cols;
  call.it.sizes[1] = rows;
  for (int k = 0; k < it->nargs; k++) {
    const tli_IterArg *from = &it->args[k];
    tli_IterArg *arg = &call.it.args[k];
    int version = step->versions[k];
    arg->dtype = from->dtype;
    arg->strides[0] = it->ndim > 0 ? from->strides[0] : 0;
    arg->strides[1] = it->ndim > 1 ? from->strides[1] : 0;
    if (version >= 0 && s->versions[version].slot >= 0) {
      arg->data = buffers + s->versions[version].slot;
      continue;
    }
    arg->data = from->data;
    if (flat) {
      arg->data += first * arg->strides[0];
      continue;
    }
    arg->data += col * from->strides[0];
    for (int64_t d = 1, at = row; d < it->ndim; at /= it->sizes[d++])
      arg->data += at % it->sizes[d] * from->strides[d];
  }
  return tli_backend(TLI_CPU)->pointwise(&call);
}

static void run_blocks(void *context, int64_t begin, int64_t end) {
  tli_Sweep *s = context;
  _Alignas(64) char buffers[BUFFER_BYTES];
  int64_t width = s->width > 0 ? s->width : s->numel, height = s->numel / width;
  bool ok = true;
  for (int64_t i = begin; ok && i < end; i++) {
    int64_t col = i % s->across * s->cols, row = i / s->across * s->rows;
    int64_t cols = smaller(s->cols, width - col), rows = smaller(s->rows, height - row);
    for (int k = 0; ok && k < s->n; k++)
      ok = run_step(s, &s->steps[k], buffers, row, col, rows, cols);
  }
  if (!ok) atomic_store_explicit(&s->failed, true, memory_order_relaxed);
}

/* Assigns buffers to the dead versions, and returns the number of buffers. After the last use of a
** version, its buffer may be assigned to another version, but a step never writes to the buffer
** that it reads. */
static int place_buffers(tli_Sweep *s, int64_t bytes) {
  int count = 0, busy_until[MOST_STEPS];
  for (int i = 0; i < s->n; i++) {
    Version *v = &s->versions[i];
    int k = 0;
    v->slot = -1;
    if (!v->dead) continue;
    while (k < count && busy_until[k] >= i) k++;
    if (k == count) count++;
    busy_until[k] = v->last;
    v->slot = k * bytes;
  }
  return count;
}

/* Chooses the size of the blocks: a part of a row, or several rows. */
static void choose_blocks(tli_Sweep *s) {
  int64_t size = 1;
  for (int i = 0; i < s->n; i++) {
    int64_t own = tli_dtype_bytes[s->versions[i].dtype];
    if (s->versions[i].dead && own > size) size = own;
  }
  int count = place_buffers(s, 0);
  int64_t most = count > 0 ? smaller(BUFFER_BYTES / count / size / 64 * 64, BLOCK) : BLOCK;
  int64_t width = s->width > 0 ? s->width : s->numel, height = s->numel / width;
  s->cols = smaller(width, most);
  s->rows = s->tall || s->cols < width ? 1 : smaller(most / width, height);
  if (s->rows < 1) s->rows = 1;
  s->across = (width + s->cols - 1) / s->cols;
  place_buffers(s, most * size);
}

static bool run_all(tli_Sweep *s) {
  if (s->n == 0) return true;
  bool ok;
  atomic_store_explicit(&s->failed, false, memory_order_relaxed);
  if (s->n == 1 && !s->versions[0].dead) {
    ok = tli_backend(TLI_CPU)->pointwise(&s->steps[0].call);
  } else {
    choose_blocks(s);
    int64_t width = s->width > 0 ? s->width : s->numel, height = s->numel / width;
    int64_t down = (height + s->rows - 1) / s->rows;
    ok = tli_parallel_try(s->across * down, 1, run_blocks, s);
    if (ok && atomic_load_explicit(&s->failed, memory_order_relaxed))
      ok = tli_fail(TL_EINTERNAL, "program: an elementwise kernel failed");
  }
  s->n = 0;
  return ok;
}

bool tli_sweep_flush(void) {
  tli_Sweep *s = collecting;
  if (s == NULL) return true;
  collecting = NULL; /* from here on kernels run at once instead of being stored */
  bool ok = run_all(s);
  collecting = s;
  return ok;
}

void tli_sweep_begin(tli_Sweep *s) {
  s->n = 0;
  collecting = s;
  atomic_fetch_add(&tli_sweeps, 1);
}

bool tli_sweep_end(tli_Sweep *s) {
  collecting = NULL;
  atomic_fetch_sub(&tli_sweeps, 1);
  return run_all(s);
}

void tli_sweep_cancel(tli_Sweep *s) {
  collecting = NULL;
  atomic_fetch_sub(&tli_sweeps, 1);
  s->n = 0;
}

/* ---- collecting ---- */

/* Returns whether an operand is row-major in the order of the loop. */
static bool is_dense(const tli_Iter *it, const tli_IterArg *arg) {
  int64_t stride = tli_dtype_bytes[arg->dtype];
  for (int d = 0; d < it->ndim; stride *= it->sizes[d++])
    if (arg->strides[d] != stride) return false;
  return true;
}

/* Returns the number of bytes from an operand's first element to the end of its last one; -1 if a
** stride is negative. */
static int64_t extent(const tli_Iter *it, const tli_IterArg *arg) {
  int64_t bytes = tli_dtype_bytes[arg->dtype];
  for (int d = 0; d < it->ndim; d++) {
    if (arg->strides[d] < 0) return -1;
    bytes += (it->sizes[d] - 1) * arg->strides[d];
  }
  return bytes;
}

static bool overlap(const char *a, int64_t n, const char *b, int64_t m) {
  return (uintptr_t)a < (uintptr_t)b + (uintptr_t)m && (uintptr_t)b < (uintptr_t)a + (uintptr_t)n;
}

/* Finds the version that an operand reads or overwrites; stores -1 if there is none. Returns false
** if the operand overlaps a version in another order of elements. */
static bool find_version(const tli_Sweep *s, const tli_Iter *it, const tli_IterArg *arg,
                         int *version) {
  int64_t bytes = extent(it, arg);
  *version = -1;
  for (int i = s->n - 1; i >= 0; i--) {
    const Version *v = &s->versions[i];
    /* the array of a dead version was freed, and another array may use its memory now */
    if (v->dead || !overlap(arg->data, bytes, v->data, v->bytes)) continue;
    *version = i;
    return arg->data == v->data && arg->dtype == v->dtype && it->numel == s->numel &&
           is_dense(it, arg);
  }
  return true;
}

/* Returns whether a write to an array would change values that a stored call reads from other
** memory. If the write itself is stored, it may overwrite values that were read, as long as both
** calls visit the array in the same order. A write that runs before the stored calls may not. */
static bool harms_reader(const tli_Sweep *s, const tli_Iter *it, const tli_IterArg *out,
                         bool stored) {
  int64_t bytes = extent(it, out);
  bool dense = stored && is_dense(it, out) && it->numel == s->numel;
  for (int i = 0; i < s->n; i++) {
    const tli_Iter *other = &s->steps[i].call.it;
    for (int k = 1; k < other->nargs; k++) {
      const tli_IterArg *arg = &other->args[k];
      if (s->steps[i].versions[k] >= 0 || !overlap(out->data, bytes, arg->data, extent(other, arg)))
        continue;
      bool same = dense && arg->data == out->data && arg->dtype == out->dtype;
      if (!same || !is_dense(other, arg)) return true;
    }
  }
  return false;
}

/* Returns whether a call can run before the stored calls without changing any result: it uses no
** array that they write, and writes to none that they read. */
static bool is_apart(const tli_Sweep *s, const tli_Iter *it) {
  for (int k = 0; k < it->nargs; k++) {
    int version;
    if (extent(it, &it->args[k]) < 0 || !find_version(s, it, &it->args[k], &version) ||
        version >= 0)
      return false;
  }
  return !harms_reader(s, it, &it->args[0], false);
}

/* Returns whether a call is suitable for a sweep, whichever calls are stored already. */
static bool is_suitable(const struct tlk_pointwise *call) {
  const tli_Iter *it = &call->it;
  if (it->numel < LEAST || (call->compute != TL_F32 && call->compute != TL_F64)) return false;
  if (it->ndim > 2 && it->sizes[0] < ROW_LEAST) return false;
  for (int k = 0; k < it->nargs; k++)
    if (extent(it, &it->args[k]) < 0 || tli_dtype_bytes[it->args[k].dtype] > 8) return false;
  return is_dense(it, &it->args[0]);
}

/* Stores a call if its loop and its operands fit those of the stored calls. */
static bool store(tli_Sweep *s, const struct tlk_pointwise *call) {
  const tli_Iter *it = &call->it;
  int64_t width = it->ndim > 1 ? it->sizes[0] : 0;
  if (s->n == MOST_STEPS) return false;
  if (s->n > 0 && (it->numel != s->numel || (width > 0 && s->width > 0 && width != s->width)))
    return false;
  Step *step = &s->steps[s->n];
  for (int k = 0; k < it->nargs; k++)
    if (!find_version(s, it, &it->args[k], &step->versions[k])) return false;
  if (harms_reader(s, it, &it->args[0], true)) return false;
  if (s->n == 0) {
    s->numel = it->numel;
    s->width = 0;
    s->tall = false;
  }
  if (width > 0) s->width = width;
  s->tall = s->tall || it->ndim > 2;
  for (int k = 1; k < it->nargs; k++)
    if (step->versions[k] >= 0) s->versions[step->versions[k]].last = s->n;
  if (step->versions[0] >= 0) s->versions[step->versions[0]].dead = true;
  step->call = *call;
  step->versions[0] = s->n;
  s->versions[s->n] =
      (Version){it->args[0].data, extent(it, &it->args[0]), it->args[0].dtype, false, s->n, -1};
  s->n++;
  return true;
}

bool tli_sweep_add(const struct tlk_pointwise *call) {
  tli_Sweep *s = collecting;
  bool suits = is_suitable(call);
  if (suits && store(s, call)) return true;
  if (suits || !is_apart(s, &call->it)) TL_TRY(tli_sweep_flush());
  if (suits && store(s, call)) return true;
  collecting = NULL;
  bool ok = tli_backend(TLI_CPU)->pointwise(call);
  collecting = s;
  return ok;
}

/* Returns whether a stored call reads the values that an array's memory had before the sweep. */
static bool is_read(const tli_Sweep *s, const Version *v) {
  for (int i = 0; i < s->n; i++) {
    const tli_Iter *it = &s->steps[i].call.it;
    for (int k = 1; k < it->nargs; k++)
      if (s->steps[i].versions[k] < 0 &&
          overlap(it->args[k].data, extent(it, &it->args[k]), v->data, v->bytes))
        return true;
  }
  return false;
}

bool tli_sweep_forget(const void *data) {
  tli_Sweep *s = collecting;
  for (int i = s ? s->n - 1 : -1; i >= 0; i--) {
    Version *v = &s->versions[i];
    if (v->dead || v->data != data) continue;
    v->dead = true;
    return !is_read(s, v);
  }
  return false;
}
#else
typedef int tli_sweep_unused; /* without sweeps this file is empty, which ISO C forbids */
#endif
