/*
** cublaslt.c - products of matrices of floating types with cuBLASLt.
**
** cuBLASLt is column-major, so a row-major matrix appears to it as the transpose. The product c =
** op(a) op(b) is therefore requested as c^T = op(b)^T op(a)^T. This exchanges a and b, and no data
** moves.
**
** Asking the library for an algorithm takes longer than a small product. Therefore plans
** (descriptors and the algorithm) are cached for each device under a key that contains everything
** that the choice of the algorithm depends on. A plan may have an epilogue, which saves a separate
** pass over the data. An epilogue adds the bias and applies ReLU or GELU (with tanh) while the
** result is in registers, or it sums an operand that the product reads anyway.
*/
#include <cublasLt.h>
#include <pthread.h>
#include <string.h>

#include "core/kernel/hash.h"
#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/plugin.h"

/* NVIDIA recommends this size for Hopper; algorithms may use less */
#define WORKSPACE ((int64_t)32 << 20)
/* largest number of cached plans for a device; when the table is full, it is emptied */
#define PLANS 2048

typedef struct Key {
  int8_t dtype, trans_a, trans_b, precision;
  /* align_*: log2 of each array's alignment in bytes; reads_c: whether beta is not 0 */
  int8_t align_a, align_b, align_c, reads_c;
  int32_t wide;     /* 1 if the result is stored as float32 */
  int32_t epilogue; /* a cublasLtEpilogue_t */
  int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
} Key;

/* The vector and the matrix that an epilogue reads or writes, besides the operands of the
** product. */
typedef struct Extra {
  cublasLtEpilogue_t epilogue;
  const void *vector; /* the bias, or the sums that the epilogue writes; may be NULL */
  void *inner;        /* the argument of GELU, with the same row stride as c; may be NULL */
} Extra;

static const Extra no_extra = {CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL};

typedef struct Plan {
  bool used;
  bool none; /* true if the library has no algorithm with this epilogue */
  Key key;
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
  int64_t workspace;
} Plan;

typedef struct Table {
  pthread_mutex_t lock;
  cublasLtHandle_t handle;
  Plan plans[2 * PLANS];
  int filled;
} Table;

static Table tables[CUDA_MAX_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_locks(void) {
  for (int i = 0; i < CUDA_MAX_DEVICES; i++) pthread_mutex_init(&tables[i].lock, NULL);
}

static bool lt_ok(cublasStatus_t status, const char *call) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  size_t name = strcspn(call, "(");
  return cuda_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? TL_EMEM : TL_EDEVICE, "%.*s: %s",
                   (int)name, call, cublasLtGetStatusName(status));
}
#define LT_TRY(call) \
  if (!lt_ok(call, #call)) return false

/* ---- types ----------------------------------------------------------------------------------- */

static cudaDataType_t type_of(tl_DType dtype) {
  return dtype == TL_F64   ? CUDA_R_64F
         : dtype == TL_F32 ? CUDA_R_32F
         : dtype == TL_F16 ? CUDA_R_16F
                           : CUDA_R_16BF;
}

static cublasComputeType_t compute_of(const Key *key) {
  if (key->dtype == TL_F64) return CUBLAS_COMPUTE_64F;
  bool tf32 = key->dtype == TL_F32 && key->precision > 0;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* Returns the precision that the user allows for products of this type (the settings in
** torch.backends.cuda.matmul). */
static int8_t precision_of(tl_DType dtype) {
  tl_Setting setting = dtype == TL_F32   ? TL_MATMUL_PRECISION
                       : dtype == TL_F16 ? TL_MATMUL_REDUCED_FP16
                                         : TL_MATMUL_REDUCED_BF16;
  return dtype == TL_F64 ? 0 : (int8_t)cuda_host->setting(setting);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int8_t alignment_of(const void *p) {
  uintptr_t address = (uintptr_t)p | 256;
  return (int8_t)__builtin_ctzll(address);
}

/* Returns the key of a product. align_c is an alignment that the vector and the matrix of the
** epilogue have as well. */
static Key key_of(const tlk_Gemm *g, const void *out, bool wide, const Extra *extra) {
  Key key;
  memset(&key, 0, sizeof key); /* also clears the padding, because keys are compared as bytes */
  key.dtype = (int8_t)g->dtype;
  key.trans_a = g->trans_a;
  key.trans_b = g->trans_b;
  key.precision = precision_of(g->dtype);
  key.align_a = alignment_of(g->a);
  key.align_b = alignment_of(g->b);
  key.align_c = alignment_of(
      (const void *)((uintptr_t)out | (uintptr_t)extra->vector | (uintptr_t)extra->inner));
  key.wide = wide;
  key.epilogue = (int32_t)extra->epilogue;
  key.reads_c = g->beta.kind == TL_FLOATING ? g->beta.f != 0 : g->beta.i != 0;
  key.m = g->m, key.n = g->n, key.k = g->k;
  key.lda = g->lda, key.ldb = g->ldb, key.ldc = g->ldc;
  key.batch = g->batch;
  key.stride_a = g->stride_a, key.stride_b = g->stride_b, key.stride_c = g->stride_c;
  return key;
}

/* Creates the layout of a matrix. Its leading dimension is at least `rows`, because the library
** requires this even for a single column. */
static bool layout(cublasLtMatrixLayout_t *out, const Key *key, tl_DType dtype, int64_t rows,
                   int64_t cols, int64_t ld, int64_t stride) {
  int32_t batch = (int32_t)key->batch;
  if (ld < rows) ld = rows;
  LT_TRY(cublasLtMatrixLayoutCreate(out, type_of(dtype), (uint64_t)rows, (uint64_t)cols, ld));
  LT_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                          sizeof batch));
  LT_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof stride));
  return true;
}

/* Sets the arrays of a plan's epilogue, which may change from call to call. The search for an
** algorithm takes their alignment into account. */
static bool set_extra(const Plan *plan, const Extra *extra) {
  if (extra->vector)
    LT_TRY(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                          &extra->vector, sizeof extra->vector));
  if (extra->inner == NULL) return true;
  LT_TRY(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                        &extra->inner, sizeof extra->inner));
  LT_TRY(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                        &plan->key.ldc, sizeof plan->key.ldc));
  return true;
}

static bool describe(Plan *plan, const Extra *extra) {
  const Key *key = &plan->key;
  uint32_t epilogue = (uint32_t)extra->epilogue;
  cudaDataType_t scale = key->dtype == TL_F64 ? CUDA_R_64F : CUDA_R_32F;
  cublasOperation_t op_a = key->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t op_b = key->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  LT_TRY(cublasLtMatmulDescCreate(&plan->op, compute_of(key), scale));
  LT_TRY(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
  LT_TRY(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
  LT_TRY(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                        sizeof epilogue));
  if (!set_extra(plan, extra)) return false;
  int64_t m = key->m, n = key->n, k = key->k;
  tl_DType dtype = (tl_DType)key->dtype;
  return layout(&plan->a, key, dtype, key->trans_b ? k : n, key->trans_b ? n : k, key->ldb,
                key->stride_b) &&
         layout(&plan->b, key, dtype, key->trans_a ? m : k, key->trans_a ? k : m, key->lda,
                key->stride_a) &&
         layout(&plan->c, key, key->wide ? TL_F32 : dtype, n, m, key->ldc, key->stride_c);
}

static bool prefer_bytes(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t which,
                         int8_t alignment) {
  uint32_t bytes = (uint32_t)1 << alignment;
  LT_TRY(cublasLtMatmulPreferenceSetAttribute(p, which, &bytes, sizeof bytes));
  return true;
}

/* Sets the preferences for the search for an algorithm. For half types, partial sums stay in
** float32 unless the user allows reduced precision. */
static bool prefer(cublasLtMatmulPreference_t p, const Key *key) {
  uint64_t workspace = WORKSPACE;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  bool half = key->dtype == TL_F16 || key->dtype == TL_BF16;
  if (half && key->precision == 0) schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  LT_TRY(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace));
  LT_TRY(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                              &schemes, sizeof schemes));
  return prefer_bytes(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->align_b) &&
         prefer_bytes(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->align_a) &&
         prefer_bytes(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->align_c) &&
         prefer_bytes(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->align_c);
}

static bool choose(cublasLtHandle_t handle, Plan *plan) {
  cublasLtMatmulPreference_t p;
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  LT_TRY(cublasLtMatmulPreferenceCreate(&p));
  bool ok = prefer(p, &plan->key);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (ok)
    status = cublasLtMatmulAlgoGetHeuristic(handle, plan->op, plan->a, plan->b, plan->c, plan->c, p,
                                            1, &best, &found);
  cublasLtMatmulPreferenceDestroy(p);
  plan->none = ok && plan->key.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
               (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
                (status == CUBLAS_STATUS_SUCCESS && found == 0));
  if (plan->none) return true;
  if (!ok || !lt_ok(status, "cublasLtMatmulAlgoGetHeuristic")) return false;
  if (found == 0) return cuda_fail(TL_EDEVICE, "cublasLt has no algorithm for this product");
  plan->algo = best.algo;
  plan->workspace = (int64_t)best.workspaceSize;
  return true;
}

static void discard(Plan *plan) {
  if (plan->op) cublasLtMatmulDescDestroy(plan->op);
  if (plan->a) cublasLtMatrixLayoutDestroy(plan->a);
  if (plan->b) cublasLtMatrixLayoutDestroy(plan->b);
  if (plan->c) cublasLtMatrixLayoutDestroy(plan->c);
  memset(plan, 0, sizeof *plan);
}

static void begin_anew(Table *t) {
  for (int i = 0; i < 2 * PLANS; i++)
    if (t->plans[i].used) discard(&t->plans[i]);
  t->filled = 0;
}

/* Returns the plan for a key; creates it if necessary. Returns NULL with a message on failure. The
** caller holds the lock. */
static const Plan *plan_of(Table *t, const Key *key, const Extra *extra) {
  CUDA_RELAXED;
  if (t->handle == NULL && !lt_ok(cublasLtCreate(&t->handle), "cublasLtCreate")) return NULL;
  if (t->filled == PLANS) begin_anew(t);
  size_t at = tli_hash(TLI_HASH_SEED, key, sizeof *key) % (2 * PLANS);
  while (t->plans[at].used && memcmp(&t->plans[at].key, key, sizeof *key) != 0)
    at = (at + 1) % (2 * PLANS);
  Plan *plan = &t->plans[at];
  if (plan->used) return plan;
  plan->key = *key;
  if (!describe(plan, extra) || !choose(t->handle, plan)) {
    discard(plan);
    return NULL;
  }
  plan->used = true;
  t->filled++;
  return plan;
}

/* ---- the call -------------------------------------------------------------------------------- */

typedef union Number {
  float f;
  double d;
} Number;

static Number number_of(tl_Scalar s, tl_DType dtype) {
  double value = s.kind == TL_FLOATING ? s.f : (double)s.i;
  Number number = {.d = value};
  if (dtype != TL_F64) number.f = (float)value;
  return number;
}

static bool run(const struct tlk_gemm *call, void *out, const Table *t, const Plan *plan,
                void *workspace) {
  const tlk_Gemm *g = &call->gemm;
  Number alpha = number_of(g->alpha, g->dtype), beta = number_of(g->beta, g->dtype);
  LT_TRY(cublasLtMatmul(t->handle, plan->op, &alpha, g->b, plan->a, g->a, plan->b, &beta, out,
                        plan->c, out, plan->c, &plan->algo, workspace, (size_t)plan->workspace,
                        call->cx->stream->handle));
  return true;
}

/* Computes a product into `out`. *done becomes false if the library has no algorithm with the
** epilogue. */
static bool multiply(const struct tlk_gemm *call, void *out, bool wide, const Extra *extra,
                     bool *done) {
  Table *t = &tables[call->cx->device.index];
  Key key = key_of(&call->gemm, out, wide, extra);
  if (!cuda_enter(call->cx->device.index)) return false;
  pthread_once(&once, make_locks);
  pthread_mutex_lock(&t->lock);
  const Plan *plan = plan_of(t, &key, extra);
  *done = plan && !plan->none;
  int64_t bytes = *done ? plan->workspace : 0;
  void *workspace = bytes > 0 ? cuda_scratch(call->cx, bytes) : NULL;
  bool ok = plan && (plan->none || ((workspace || bytes == 0) && set_extra(plan, extra) &&
                                    run(call, out, t, plan, workspace)));
  pthread_mutex_unlock(&t->lock);
  if (workspace) cuda_scratch_free(call->cx, workspace, bytes);
  return ok;
}

bool cuda_lib_gemm(const struct tlk_gemm *call) {
  bool done;
  return multiply(call, call->gemm.c, false, &no_extra, &done);
}

bool cuda_lib_gemm_wide(const struct tlk_gemm *call, float *out) {
  bool done;
  return multiply(call, out, true, &no_extra, &done);
}

/* ---- epilogues ------------------------------------------------------------------------------- */

/* Describes the epilogue of a linear layer. Returns false where the library's epilogue does not
** fit: for exact GELU, since cuBLASLt has only the form with tanh; for this form in float32, since
** its tanh is too coarse (on an H200, results of magnitude up to 16 were wrong by up to 4.8e-6);
** and for ReLU with a mask for the gradient, whose format differs from ours. */
static bool extra_of(const struct tlk_linear *call, Extra *out) {
  bool bias = call->bias != NULL;
  *out = (Extra){CUBLASLT_EPILOGUE_DEFAULT, call->bias, call->inner};
  switch (call->activation) {
  case TLK_ACTIVATION_NONE:
    if (bias) out->epilogue = CUBLASLT_EPILOGUE_BIAS;
    break;
  case TLK_ACTIVATION_RELU:
    out->epilogue = bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    break;
  case TLK_ACTIVATION_GELU_TANH:
    if (call->gemm.dtype == TL_F32) return false;
    if (call->inner)
      out->epilogue = bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    else
      out->epilogue = bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    break;
  default: return false;
  }
  if (call->sums) {
    /* the epilogue BGRADB sums each column of the library's matrix B, and a column of B is a row of
    ** op(a) */
    if (out->epilogue != CUBLASLT_EPILOGUE_DEFAULT) return false;
    *out = (Extra){CUBLASLT_EPILOGUE_BGRADB, call->sums, NULL};
  }
  return call->inner == NULL || call->activation == TLK_ACTIVATION_GELU_TANH;
}

bool cuda_lib_linear(const struct tlk_linear *call, bool *done) {
  const tlk_Gemm *g = &call->gemm;
  struct tlk_gemm product = {.cx = call->cx, .gemm = *g};
  Extra extra;
  *done = false;
  if (g->dtype == TL_F64 || !extra_of(call, &extra)) return true;
  /* the library requires the rows of GELU's argument to begin at multiples of 8 elements */
  if (extra.inner && (g->ldc % 8 != 0 || alignment_of(extra.inner) < 4)) return true;
  return multiply(&product, g->c, false, &extra, done);
}
