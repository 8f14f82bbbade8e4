/*
** csr.c - products of a sparse matrix in CSR form with dense matrices. Each element of a result is
** computed by one thread, in an order of terms that does not depend on how threads share the work.
** So results do not depend on the number of threads.
**
** A wide dense matrix is processed in panels of columns. Each panel is copied to contiguous memory
** first, because rows whose distance is a power of two evict one another from the cache.
*/
#include "kernels/cpu/sparse/csr.h"

#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/index/gather.h"

typedef struct Call {
  const struct tlk_csr *call;
  const tlk_CsrLoops *loops;
  int64_t bytes; /* size of an element in bytes */
  int64_t panel; /* number of columns in a panel of the dense matrix that is copied */
  atomic_bool exhausted;
} Call;

static tlk_CsrRows rows_of(const Call *c, int64_t begin, int64_t end) {
  const struct tlk_csr *l = c->call;
  bool transposed = l->kind == TLK_CSR_TRANSPOSED;
  return (tlk_CsrRows){.pointers = l->pointers,
                       .columns = l->columns,
                       .values = l->values,
                       .in = transposed ? l->left : l->right,
                       .out = l->out.data,
                       .in_step = l->k,
                       .out_step = l->k,
                       .begin = begin,
                       .end = end,
                       .width = l->k};
}

static void product_rows(void *context, int64_t begin, int64_t end) {
  const Call *c = context;
  tlk_CsrRows r = rows_of(c, begin, end);
  c->loops->product(&r);
}

/* Copies columns [from, from + width) of the dense matrix to `panel`. */
static void copy_panel(const Call *c, char *panel, int64_t from, int64_t width) {
  const struct tlk_csr *l = c->call;
  const char *in = (const char *)l->right + from * c->bytes;
  size_t row = (size_t)(width * c->bytes);
  for (int64_t i = 0; i < l->across; i++)
    memcpy(panel + (size_t)i * row, in + i * l->k * c->bytes, row);
}

static void product_panels(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  const struct tlk_csr *l = c->call;
  size_t bytes = (size_t)(l->across * c->panel * c->bytes);
  char *panel = tli_alloc(bytes);
  if (panel == NULL) {
    atomic_store(&c->exhausted, true);
    return;
  }
  for (int64_t p = begin; p < end; p++) {
    int64_t from = p * c->panel;
    tlk_CsrRows r = rows_of(c, 0, l->rows);
    r.width = tlk_min(c->panel, l->k - from);
    copy_panel(c, panel, from, r.width);
    r.in = panel;
    r.in_step = r.width;
    r.out = (char *)l->out.data + from * c->bytes;
    c->loops->product(&r);
  }
  tli_free(panel, bytes);
}

#define STRIP 32 /* a task of a transposed product computes this number of columns */

static void transposed_strips(void *context, int64_t begin, int64_t end) {
  const Call *c = context;
  const struct tlk_csr *l = c->call;
  int64_t from = begin * STRIP, width = tlk_min(end * STRIP, l->k) - from;
  tlk_CsrRows r = rows_of(c, 0, l->rows);
  r.in = (const char *)l->left + from * c->bytes;
  r.out = (char *)l->out.data + from * c->bytes;
  r.width = width;
  size_t row = (size_t)(width * c->bytes);
  if (width == l->k) memset(r.out, 0, (size_t)l->across * row);
  for (int64_t i = 0; width < l->k && i < l->across; i++)
    memset((char *)r.out + i * l->k * c->bytes, 0, row);
  c->loops->transposed(&r);
}

static void sampled_rows(void *context, int64_t begin, int64_t end) {
  const Call *c = context;
  tlk_CsrRows r = rows_of(c, begin, end);
  c->loops->sampled(&r, c->call->left);
}

/* Returns the number of rows that one task computes. */
static int64_t grain(const struct tlk_csr *l) {
  int64_t each = (l->nnz / tlk_max(l->rows, 1) + 1) * l->k;
  return tlk_max(65536 / tlk_max(each, 1), 1);
}

/* ---- checking positions ---- */

typedef struct Check {
  const int64_t *positions;
  int64_t size;
  tlk_FirstFault first;
} Check;

static void check_range(void *context, int64_t begin, int64_t end) {
  Check *c = context;
  int64_t least, most;
  tlk_isa()->index->range(end - begin, c->positions + begin, &least, &most);
  if (least < 1 || most > c->size) tlk_note_fault(&c->first, least < 1 ? least : most);
}

/* Returns whether all positions are in [1, size]. Otherwise records a wrong position in *first. */
static bool within(const int64_t *positions, int64_t n, int64_t size, tlk_FirstFault *first) {
  Check c = {.positions = positions, .size = size};
  tli_parallel_pieces(n, 65536, check_range, &c);
  if (!atomic_load(&c.first.found)) return true;
  tlk_note_fault(first, atomic_load(&c.first.position));
  return false;
}

bool tlk_csr(const struct tlk_csr *call) {
  tlk_FirstFault first = {.found = false};
  tlk_Fault fault = {.kind = TLK_FAULT_POSITION};
  fault.source = call->of_pointers;
  fault.size = call->nnz + 1;
  if (!within(call->pointers, call->rows + 1, fault.size, &first))
    return tlk_no_fault(call->cx, &first, fault);
  fault.source = call->of_columns;
  fault.size = call->across;
  if (!within(call->columns, call->nnz, fault.size, &first))
    return tlk_no_fault(call->cx, &first, fault);
  Call c = {.call = call, .loops = tlk_isa()->csr[call->out.dtype == TL_F64]};
  c.bytes = (int64_t)tl_dtype_size(call->out.dtype);
  c.panel = c.loops->panel;
  bool ok;
  if (call->kind == TLK_CSR_SAMPLED)
    ok = tli_parallel_try(call->rows, grain(call), sampled_rows, &c);
  else if (call->kind == TLK_CSR_TRANSPOSED)
    ok = tli_parallel_try((call->k + STRIP - 1) / STRIP, 1, transposed_strips, &c);
  else if (call->k >= 4 * c.panel && call->nnz >= 4 * call->across)
    ok = tli_parallel_try((call->k + c.panel - 1) / c.panel, 1, product_panels, &c);
  else
    ok = tli_parallel_try(call->rows, grain(call), product_rows, &c);
  if (!ok || !atomic_load(&c.exhausted)) return ok;
  return tli_fail(TL_EMEM, "sparse.mm: out of memory for a panel of the dense matrix");
}
