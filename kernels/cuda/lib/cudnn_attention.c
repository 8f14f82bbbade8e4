/*
** cudnn_attention.c - attention of half types by cuDNN, forward and backward. Attention is a graph
** of matrix products and pointwise operations. The graphs have the structure that cuDNN's attention
** engines recognise (cuDNN's documentation, "Fused Attention fprop" and "bprop"), so the scores are
** never stored.
**
** Some calls are left to our own kernels: calls with a single query or key, calls with rows of more
** than 128 elements, calls with masks, calls with dropout (cuDNN's random numbers differ from the
** CPU's), backward passes that must be deterministic, and calls with rows whose addresses or sizes
** are not multiples of 16 bytes.
*/
#include <math.h>
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"
#include "kernels/cuda/lib/lib.h"

/* Ids of the graph's tensors that have memory. */
enum {
  QUERY = 1,
  KEY,
  VALUE,
  OUT,
  NORM,
  SCALE,
  HIDDEN,
  ONE,
  GRAD_OUT,
  GRAD_QUERY,
  GRAD_KEY,
  GRAD_VALUE,
  SUM,
  WIDE_QUERY,
  FIRST_VIRTUAL
};

typedef struct AttentionKey {
  int64_t kind, backward, dtype, causal;
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;
  int64_t strides[FIRST_VIRTUAL][3]; /* strides of each tensor that is passed as rows */
} AttentionKey;
_Static_assert(sizeof(AttentionKey) <= CUDNN_KEY, "");

/* A graph for attention while it is being built. */
typedef struct Maker {
  cuda_DnnGraph *g;
  const AttentionKey *key;
  cudnnDataType_t type; /* dtype of the arrays */
  int64_t next;         /* id of the next virtual tensor */
  int n;
  cudnnBackendDescriptor_t operations[32];
} Maker;

/* ---- tensors --------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t tensor(Maker *m, int64_t id, cudnnDataType_t type, int64_t b,
                                       int64_t h, int64_t rows, int64_t columns,
                                       const int64_t *strides, cuda_DnnKind kind) {
  const int64_t sizes[] = {b, h, rows, columns};
  const int64_t packed[] = {h * rows * columns, rows * columns, columns, 1};
  return cuda_dnn_strided(m->g, id, type, 4, sizes, strides ? strides : packed, 16, kind);
}

/* Adds a tensor for the rows of an array. If `turned`, it is transposed to (batch, heads, size,
** rows). */
static cudnnBackendDescriptor_t rows(Maker *m, int which, int64_t heads, int64_t n, int64_t size,
                                     bool turned) {
  const int64_t *s = m->key->strides[which];
  const int64_t strides[] = {s[0], s[1], turned ? 1 : s[2], turned ? s[2] : 1};
  return tensor(m, which, m->type, m->key->batch, heads, turned ? size : n, turned ? n : size,
                strides, CUDNN_REAL);
}

static cudnnBackendDescriptor_t number(Maker *m, int which) {
  return tensor(m, which, CUDNN_DATA_FLOAT, 1, 1, 1, 1, NULL, CUDNN_BY_VALUE);
}

/* Adds a tensor that has one number for each query. */
static cudnnBackendDescriptor_t per_query(Maker *m, int64_t id, cuda_DnnKind kind) {
  return tensor(m, id, CUDNN_DATA_FLOAT, m->key->batch, m->key->heads, m->key->queries, 1, NULL,
                kind);
}

static cudnnBackendDescriptor_t new_per_query(Maker *m) {
  return per_query(m, m->next++, CUDNN_VIRTUAL);
}

/* Adds a tensor that has one number for each pair of a query and a key. */
static cudnnBackendDescriptor_t pairs(Maker *m, cudnnDataType_t type) {
  const AttentionKey *k = m->key;
  return tensor(m, m->next++, type, k->batch, k->heads, k->queries, k->keys, NULL, CUDNN_VIRTUAL);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void add(Maker *m, cudnnBackendDescriptor_t operation) {
  cuda_dnn_finish(m->g, operation);
  m->operations[m->n++] = operation;
}

/* Adds an operation: y = f(x), y = f(x, b), or y = t ? x : b. */
static void pointwise(Maker *m, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                      cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                      cudnnBackendDescriptor_t t, cudnnBackendDescriptor_t y) {
  cudnnBackendDescriptor_t d = cuda_dnn_add(m->g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  cuda_dnn_set(m->g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  cuda_dnn_set(m->g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis >= 0) cuda_dnn_set_ints(m->g, d, CUDNN_ATTR_POINTWISE_AXIS, 1, &axis);
  cuda_dnn_finish(m->g, d);
  cudnnBackendDescriptor_t o = cuda_dnn_add(m->g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  if (t) cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add(m, o);
}

static cudnnBackendDescriptor_t into(Maker *m, cudnnPointwiseMode_t mode,
                                     cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                     cudnnBackendDescriptor_t y) {
  pointwise(m, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
  return y;
}

static void matmul(Maker *m, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                   cudnnBackendDescriptor_t c) {
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t d = cuda_dnn_add(m->g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  cuda_dnn_set(m->g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  cuda_dnn_finish(m->g, d);
  cudnnBackendDescriptor_t o = cuda_dnn_add(m->g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, d);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  add(m, o);
}

static void reduce(Maker *m, cudnnReduceTensorOp_t mode, cudnnBackendDescriptor_t x,
                   cudnnBackendDescriptor_t y) {
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t d = cuda_dnn_add(m->g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  cuda_dnn_set(m->g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
               &mode);
  cuda_dnn_set(m->g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  cuda_dnn_finish(m->g, d);
  cudnnBackendDescriptor_t o = cuda_dnn_add(m->g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add(m, o);
}

static void reshape(Maker *m, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y) {
  cudnnBackendDescriptor_t o = cuda_dnn_add(m->g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  cuda_dnn_set_descriptor(m->g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add(m, o);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Returns the scores, with -inf where the key comes after the query. */
static cudnnBackendDescriptor_t hide(Maker *m, cudnnBackendDescriptor_t scores) {
  cudnnBackendDescriptor_t row = pairs(m, CUDNN_DATA_INT32), column = pairs(m, CUDNN_DATA_INT32);
  cudnnBackendDescriptor_t seen = pairs(m, CUDNN_DATA_BOOLEAN), y = pairs(m, CUDNN_DATA_FLOAT);
  pointwise(m, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 2, scores, NULL, NULL, row);
  pointwise(m, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 3, scores, NULL, NULL, column);
  pointwise(m, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, column, NULL, seen);
  pointwise(m, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, scores, number(m, HIDDEN), seen,
            y);
  return y;
}

/* Returns the scaled product of query and key. */
static cudnnBackendDescriptor_t scores_of(Maker *m, cudnnBackendDescriptor_t query,
                                          cudnnBackendDescriptor_t turned_key,
                                          cudnnBackendDescriptor_t scale) {
  cudnnBackendDescriptor_t products = pairs(m, CUDNN_DATA_FLOAT);
  matmul(m, query, turned_key, products);
  return into(m, CUDNN_POINTWISE_MUL, products, scale, pairs(m, CUDNN_DATA_FLOAT));
}

static void make_forward(Maker *m) {
  const AttentionKey *k = m->key;
  cudnnBackendDescriptor_t query = rows(m, QUERY, k->heads, k->queries, k->size, false);
  cudnnBackendDescriptor_t key = rows(m, KEY, k->kv_heads, k->keys, k->size, true);
  cudnnBackendDescriptor_t value = rows(m, VALUE, k->kv_heads, k->keys, k->value_size, false);
  cudnnBackendDescriptor_t s = scores_of(m, query, key, number(m, SCALE));
  if (k->causal) s = hide(m, s);
  cudnnBackendDescriptor_t largest = new_per_query(m), sum = new_per_query(m);
  reduce(m, CUDNN_REDUCE_TENSOR_MAX, s, largest);
  s = into(m, CUDNN_POINTWISE_SUB, s, largest, pairs(m, CUDNN_DATA_FLOAT));
  s = into(m, CUDNN_POINTWISE_EXP, s, NULL, pairs(m, CUDNN_DATA_FLOAT));
  reduce(m, CUDNN_REDUCE_TENSOR_ADD, s, sum);
  cudnnBackendDescriptor_t log = into(m, CUDNN_POINTWISE_LOG, sum, NULL, new_per_query(m));
  into(m, CUDNN_POINTWISE_ADD, largest, log, per_query(m, NORM, CUDNN_REAL));
  s = into(m, CUDNN_POINTWISE_DIV, s, sum, pairs(m, m->type));
  matmul(m, s, value, rows(m, OUT, k->heads, k->queries, k->value_size, false));
}

/* Returns the transpose of x (queries, keys) in the arrays' dtype. */
static cudnnBackendDescriptor_t turn(Maker *m, cudnnBackendDescriptor_t x) {
  const AttentionKey *k = m->key;
  const int64_t all = k->queries * k->keys, strides[] = {k->heads * all, all, 1, k->keys};
  cudnnBackendDescriptor_t y = tensor(m, m->next++, m->type, k->batch, k->heads, k->keys,
                                      k->queries, strides, CUDNN_VIRTUAL);
  reshape(m, x, y);
  return y;
}

/* Computes the gradient of the keys or of the values, summed over the query heads that share
** them. */
static void for_keys(Maker *m, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b, int which,
                     int64_t size) {
  const AttentionKey *k = m->key;
  cudnnBackendDescriptor_t grad = rows(m, which, k->kv_heads, k->keys, size, false);
  if (k->heads == k->kv_heads) {
    matmul(m, a, b, grad);
    return;
  }
  cudnnBackendDescriptor_t each =
      tensor(m, m->next++, m->type, k->batch, k->heads, k->keys, size, NULL, CUDNN_VIRTUAL);
  matmul(m, a, b, each);
  reduce(m, CUDNN_REDUCE_TENSOR_ADD, each, grad);
}

static void make_backward(Maker *m) {
  const AttentionKey *k = m->key;
  cudnnBackendDescriptor_t query = rows(m, QUERY, k->heads, k->queries, k->size, false);
  cudnnBackendDescriptor_t key = rows(m, KEY, k->kv_heads, k->keys, k->size, true);
  cudnnBackendDescriptor_t value = rows(m, VALUE, k->kv_heads, k->keys, k->value_size, true);
  cudnnBackendDescriptor_t out = rows(m, OUT, k->heads, k->queries, k->value_size, false);
  cudnnBackendDescriptor_t grad = rows(m, GRAD_OUT, k->heads, k->queries, k->value_size, false);
  cudnnBackendDescriptor_t scale = number(m, SCALE);
  /* for each query, `sum` is the dot product of grad and out */
  cudnnBackendDescriptor_t x = tensor(m, m->next++, CUDNN_DATA_FLOAT, k->batch, k->heads,
                                      k->queries, k->value_size, NULL, CUDNN_VIRTUAL);
  cudnnBackendDescriptor_t dot = new_per_query(m), sum = per_query(m, SUM, CUDNN_REAL);
  into(m, CUDNN_POINTWISE_MUL, grad, out, x);
  reduce(m, CUDNN_REDUCE_TENSOR_ADD, x, dot);
  into(m, CUDNN_POINTWISE_MUL, dot, number(m, ONE), sum);
  /* recomputes the weights, and from them computes the gradient of the values */
  cudnnBackendDescriptor_t s = scores_of(m, query, key, scale);
  s = into(m, CUDNN_POINTWISE_SUB, s, per_query(m, NORM, CUDNN_REAL), pairs(m, CUDNN_DATA_FLOAT));
  if (k->causal) s = hide(m, s);
  cudnnBackendDescriptor_t weights =
      into(m, CUDNN_POINTWISE_EXP, s, NULL, pairs(m, CUDNN_DATA_FLOAT));
  for_keys(m, turn(m, weights), grad, GRAD_VALUE, k->value_size);
  /* computes the gradient of the scores, and from this gradient the gradients of keys and
  ** queries */
  s = pairs(m, CUDNN_DATA_FLOAT);
  matmul(m, grad, value, s);
  s = into(m, CUDNN_POINTWISE_SUB, s, sum, pairs(m, CUDNN_DATA_FLOAT));
  s = into(m, CUDNN_POINTWISE_MUL, s, weights, pairs(m, CUDNN_DATA_FLOAT));
  s = into(m, CUDNN_POINTWISE_MUL, s, scale, pairs(m, m->type));
  for_keys(m, turn(m, s), query, GRAD_KEY, k->size);
  const int64_t *of_key = k->strides[KEY];
  const int64_t strides[] = {of_key[0], of_key[1], of_key[2], 1};
  cudnnBackendDescriptor_t whole = tensor(m, m->next++, m->type, k->batch, k->kv_heads, k->keys,
                                          k->size, strides, CUDNN_VIRTUAL);
  cudnnBackendDescriptor_t wide = tensor(m, WIDE_QUERY, CUDNN_DATA_FLOAT, k->batch, k->heads,
                                         k->queries, k->size, NULL, CUDNN_REAL);
  reshape(m, key, whole);
  matmul(m, s, whole, wide);
  into(m, CUDNN_POINTWISE_IDENTITY, wide, NULL,
       rows(m, GRAD_QUERY, k->heads, k->queries, k->size, false));
}

static cudnnBackendDescriptor_t attention_graph(cuda_DnnGraph *g, const void *key) {
  Maker m = {.g = g, .key = key, .next = FIRST_VIRTUAL};
  m.type = cuda_dnn_type((tl_DType)m.key->dtype);
  if (m.key->backward)
    make_backward(&m);
  else
    make_forward(&m);
  return cuda_dnn_of(g, m.n, m.operations);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* A call: its key, the ids of its tensors, their arrays, and the numbers in host memory. */
typedef struct AttentionCall {
  AttentionKey key;
  int n;
  int64_t ids[FIRST_VIRTUAL];
  void *arrays[FIRST_VIRTUAL];
  float scale, hidden, one;
} AttentionCall;

static void give(AttentionCall *c, int which, const void *data) {
  c->ids[c->n] = which;
  c->arrays[c->n++] = (void *)(uintptr_t)data;
}

/* Describes rows to cuDNN. Returns false if cuDNN's engines cannot read them in pieces of 16
** bytes. */
static bool give_rows(AttentionCall *c, int which, const tlk_HeadRows *r, int64_t heads,
                      int64_t n) {
  /* the stride of a dimension of size 1 is arbitrary */
  int64_t *s = c->key.strides[which];
  s[2] = r->row;
  s[1] = heads > 1 ? r->head : r->row * n;
  s[0] = c->key.batch > 1 ? r->batch : s[1] * heads;
  give(c, which, r->data);
  return r->data && (uintptr_t)r->data % 16 == 0 && s[0] > 0 && s[1] > 0 && s[2] > 0 &&
         s[0] % 8 == 0 && s[1] % 8 == 0 && s[2] % 8 == 0;
}

static bool begin(AttentionCall *c, const tlk_Attention *a, bool backward) {
  memset(c, 0, sizeof *c);
  AttentionKey *k = &c->key;
  k->kind = CUDNN_ATTENTION;
  k->backward = backward;
  k->dtype = a->dtype, k->causal = a->causal;
  k->batch = a->batch, k->heads = a->heads, k->kv_heads = a->kv_heads;
  k->queries = a->queries, k->keys = a->keys;
  k->size = a->size, k->value_size = a->value_size;
  c->scale = (float)a->scale, c->hidden = -INFINITY, c->one = 1;
  give(c, SCALE, &c->scale);
  if (a->causal) give(c, HIDDEN, &c->hidden);
  return (cuda_host->setting(TL_SDP_BACKENDS) & TL_SDP_CUDNN) &&
         (a->dtype == TL_F16 || a->dtype == TL_BF16) && a->mask.array.data == NULL &&
         a->dropout == 0 && a->size > 0 && a->size % 8 == 0 && a->value_size % 8 == 0 &&
         a->size <= 128 && a->value_size <= 128 && a->queries > 1 && a->keys > 1 &&
         give_rows(c, QUERY, &a->query, a->heads, a->queries) &&
         give_rows(c, KEY, &a->key, a->kv_heads, a->keys) &&
         give_rows(c, VALUE, &a->value, a->kv_heads, a->keys);
}

/* Returns whether this version is free of known bugs, according to the release notes of cuDNN and
** its front end. Up to 9.15.0, results are wrong if the keys do not fill tiles of 128 and there is
** no padding mask. Gradients are wrong in 9.10.0 and 9.10.1, and before 9.6, where an accumulator
** is not cleared. */
static bool is_right(int64_t version, int64_t keys, bool backward) {
  if (version <= 91500 && keys % 128 != 0) return false;
  return !backward || (version >= 90600 && version != 91000 && version != 91001);
}

static bool attend(const tlk_Context *cx, const AttentionCall *c, bool *done) {
  return cuda_dnn_run(&(cuda_DnnWork){.cx = cx,
                                      .key = &c->key,
                                      .key_bytes = sizeof c->key,
                                      .graph = attention_graph,
                                      .benchmark = cuda_host->setting(TL_CUDNN_BENCHMARK) &&
                                                   !cuda_device_captures(cx->device.index),
                                      .n = c->n,
                                      .ids = c->ids,
                                      .arrays = c->arrays},
                      done);
}

bool cuda_lib_attention(const struct tlk_attention *call, bool *done) {
  AttentionCall c;
  *done = false;
  if (!is_right(cuda_lib_cudnn_version(), call->attention.keys, false) ||
      !begin(&c, &call->attention, false) ||
      !give_rows(&c, OUT, &call->out, c.key.heads, c.key.queries))
    return true;
  give(&c, NORM, call->norm);
  return attend(call->cx, &c, done);
}

bool cuda_lib_attention_backward(const struct tlk_attention_backward *call, bool *done) {
  const tlk_Attention *a = &call->attention;
  AttentionCall c;
  *done = false;
  if (cuda_host->setting(TL_DETERMINISTIC) || cuda_host->setting(TL_CUDNN_DETERMINISTIC) ||
      call->grad_mask.array.data || !is_right(cuda_lib_cudnn_version(), a->keys, true) ||
      !begin(&c, a, true) || !give_rows(&c, OUT, &call->out, a->heads, a->queries) ||
      !give_rows(&c, GRAD_OUT, &call->grad_out, a->heads, a->queries) ||
      !give_rows(&c, GRAD_QUERY, &call->grad_query, a->heads, a->queries) ||
      !give_rows(&c, GRAD_KEY, &call->grad_key, a->kv_heads, a->keys) ||
      !give_rows(&c, GRAD_VALUE, &call->grad_value, a->kv_heads, a->keys))
    return true;
  int64_t per_query = a->batch * a->heads * a->queries * (int64_t)sizeof(float);
  int64_t sums = (per_query + 255) / 256 * 256, bytes = sums + per_query * a->size;
  char *scratch = cuda_scratch(call->cx, bytes);
  if (scratch == NULL) return false;
  give(&c, NORM, call->norm);
  give(&c, ONE, &c.one);
  give(&c, SUM, scratch);
  give(&c, WIDE_QUERY, scratch + sums);
  bool ok = attend(call->cx, &c, done);
  cuda_scratch_free(call->cx, scratch, bytes);
  return ok;
}
