/*
** cudnn_graph.h - replaces cuDNN in tests. It records the descriptors of a graph, and computes the
** graph on the CPU, one operation after another. All arrays are float, even if the graph names
** other types, because the tests compare only formulas. It supports four dimensions and the
** operations that the plugin's graphs for attention and batch norm use.
*/
#ifndef CUDNN_GRAPH_H
#define CUDNN_GRAPH_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"

typedef struct Fact {
  cudnnBackendAttributeName_t name;
  int64_t n;
  void *values; /* owned */
} Fact;

typedef struct Described {
  cudnnBackendDescriptorType_t type;
  bool finished;
  int n;
  Fact facts[12];
  float *values; /* the values of a computed tensor, row-major (owned) */
} Described;

static size_t fact_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN: return 1;
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
  default: return 4;
  }
}

static cudnnStatus_t note_create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d) {
  Described *made = calloc(1, sizeof *made);
  made->type = type;
  *d = made;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t note_destroy(cudnnBackendDescriptor_t d) {
  Described *of = d;
  for (int i = 0; i < of->n; i++) free(of->facts[i].values);
  free(of->values);
  free(of);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t note_finalize(cudnnBackendDescriptor_t d) {
  ((Described *)d)->finished = true;
  return CUDNN_STATUS_SUCCESS;
}

/* Sets an attribute of a descriptor. Refuses values that are unfinished descriptors, as cuDNN
** does. */
static cudnnStatus_t note_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  Described *of = d;
  size_t bytes = (size_t)n * fact_bytes(type);
  if (of->finished || of->n == 12) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < n; i++)
      if (!((Described *const *)values)[i]->finished) return CUDNN_STATUS_BAD_PARAM;
  Fact *f = &of->facts[of->n++];
  *f = (Fact){name, n, malloc(bytes)};
  memcpy(f->values, values, bytes);
  return CUDNN_STATUS_SUCCESS;
}

static const cuda_Cudnn recorder = {.cudnnBackendCreateDescriptor = note_create,
                                    .cudnnBackendDestroyDescriptor = note_destroy,
                                    .cudnnBackendFinalize = note_finalize,
                                    .cudnnBackendSetAttribute = note_set};

/* ---- reading recorded descriptors ------------------------------------------------------------ */

static const Fact *fact(const Described *d, cudnnBackendAttributeName_t name) {
  for (int i = 0; i < d->n; i++)
    if (d->facts[i].name == name) return &d->facts[i];
  return NULL;
}

static Described *part(const Described *d, cudnnBackendAttributeName_t name) {
  const Fact *f = fact(d, name);
  return f ? *(Described **)f->values : NULL;
}

static int word(const Described *d, cudnnBackendAttributeName_t name) {
  int value;
  memcpy(&value, fact(d, name)->values, sizeof value);
  return value;
}

static const int64_t *dims(const Described *t) {
  return fact(t, CUDNN_ATTR_TENSOR_DIMENSIONS)->values;
}
static const int64_t *steps(const Described *t) {
  return fact(t, CUDNN_ATTR_TENSOR_STRIDES)->values;
}
static int64_t id_of(const Described *t) {
  return *(const int64_t *)fact(t, CUDNN_ATTR_TENSOR_UNIQUE_ID)->values;
}
static int64_t count(const Described *t) {
  const int64_t *d = dims(t);
  return d[0] * d[1] * d[2] * d[3];
}

/* ---- computing ------------------------------------------------------------------------------- */

/* The arrays of all tensors that have memory. */
typedef struct Memory {
  int n;
  const int64_t *ids;
  void *const *arrays;
} Memory;

static float *memory_of(const Memory *m, const Described *t) {
  if (fact(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) return NULL;
  for (int i = 0; i < m->n; i++)
    if (m->ids[i] == id_of(t)) return m->arrays[i];
  return NULL;
}

static int64_t place(const Described *t, int64_t b, int64_t h, int64_t r, int64_t c) {
  const int64_t *s = steps(t);
  return b * s[0] + h * s[1] + r * s[2] + c * s[3];
}

#define EACH(t)                                \
  for (int64_t b = 0; b < dims(t)[0]; b++)     \
    for (int64_t h = 0; h < dims(t)[1]; h++)   \
      for (int64_t r = 0; r < dims(t)[2]; r++) \
        for (int64_t c = 0; c < dims(t)[3]; c++)

static int64_t at(const Described *t, int64_t b, int64_t h, int64_t r, int64_t c) {
  const int64_t *d = dims(t);
  return ((b * d[1] + h) * d[2] + r) * d[3] + c;
}

/* Returns the values of an operand, or NULL if it has no memory and was not computed. */
static const float *load(const Memory *m, Described *t) {
  if (t->values) return t->values;
  const float *from = memory_of(m, t);
  if (from == NULL) return NULL;
  t->values = malloc((size_t)count(t) * sizeof(float));
  EACH(t) t->values[at(t, b, h, r, c)] = from[place(t, b, h, r, c)];
  return t->values;
}

static void store(const Memory *m, const Described *t) {
  float *to = memory_of(m, t);
  if (to) EACH(t) to[place(t, b, h, r, c)] = t->values[at(t, b, h, r, c)];
}

/* Returns the element of the operand t, whose values are x, that broadcasting combines with the
** element (b, h, r, c) of a larger tensor of sizes `whole`. If the operand has fewer heads than
** that tensor, each head of the operand serves several adjacent heads of the tensor. */
static float element(const Described *t, const float *x, const int64_t *whole, int64_t b, int64_t h,
                     int64_t r, int64_t c) {
  const int64_t *d = dims(t);
  return x[at(t, d[0] == 1 ? 0 : b, h / (whole[1] / d[1]), d[2] == 1 ? 0 : r, d[3] == 1 ? 0 : c)];
}

static float apply(int mode, float x, float y, float t) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD: return x + y;
  case CUDNN_POINTWISE_SUB: return x - y;
  case CUDNN_POINTWISE_MUL: return x * y;
  case CUDNN_POINTWISE_DIV: return x / y;
  case CUDNN_POINTWISE_EXP: return expf(x);
  case CUDNN_POINTWISE_LOG: return logf(x);
  case CUDNN_POINTWISE_IDENTITY: return x;
  case CUDNN_POINTWISE_CMP_GE: return x >= y ? 1.0f : 0.0f;
  case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : y;
  default: return NAN;
  }
}

static bool compute_pointwise(const Memory *m, const Described *o) {
  const Described *how = part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  Described *x = part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  Described *second = part(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  Described *third = part(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  Described *y = part(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  int mode = word(how, CUDNN_ATTR_POINTWISE_MODE);
  const float *xs = load(m, x), *bs = second ? load(m, second) : NULL;
  const float *ts = third ? load(m, third) : NULL;
  if (xs == NULL || (second && bs == NULL) || (third && ts == NULL)) return false;
  int64_t axis = mode == CUDNN_POINTWISE_GEN_INDEX
                     ? *(const int64_t *)fact(how, CUDNN_ATTR_POINTWISE_AXIS)->values
                     : 0;
  y->values = malloc((size_t)count(y) * sizeof(float));
  EACH(y) {
    const int64_t *whole = dims(y);
    float made = axis ? (float)(axis == 2 ? r : c)
                      : apply(mode, element(x, xs, whole, b, h, r, c),
                              second ? element(second, bs, whole, b, h, r, c) : 0,
                              third ? element(third, ts, whole, b, h, r, c) : 0);
    y->values[at(y, b, h, r, c)] = made;
  }
  store(m, y);
  return true;
}

static bool compute_matmul(const Memory *m, const Described *o) {
  Described *a = part(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  Described *x = part(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  Described *y = part(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  const float *as = load(m, a), *xs = load(m, x);
  if (as == NULL || xs == NULL || dims(a)[3] != dims(x)[2]) return false;
  y->values = malloc((size_t)count(y) * sizeof(float));
  EACH(y) {
    double sum = 0;
    for (int64_t k = 0; k < dims(a)[3]; k++)
      sum += (double)as[at(a, b, h / (dims(y)[1] / dims(a)[1]), r, k)] *
             (double)xs[at(x, b, h / (dims(y)[1] / dims(x)[1]), k, c)];
    y->values[at(y, b, h, r, c)] = (float)sum;
  }
  store(m, y);
  return true;
}

static bool compute_reduction(const Memory *m, const Described *o) {
  const Described *how = part(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  Described *x = part(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  Described *y = part(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  bool largest = word(how, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
  const float *xs = load(m, x);
  if (xs == NULL) return false;
  y->values = malloc((size_t)count(y) * sizeof(float));
  for (int64_t i = 0; i < count(y); i++) y->values[i] = largest ? -INFINITY : 0;
  EACH(x) {
    float *to = &y->values[at(y, b, h / (dims(x)[1] / dims(y)[1]), r, dims(y)[3] == 1 ? 0 : c)];
    float value = xs[at(x, b, h, r, c)];
    *to = largest ? fmaxf(*to, value) : *to + value;
  }
  store(m, y);
  return true;
}

/* Computes a reshape operation. The library uses it only as a transpose: y must have the strides of
** x with the last two dimensions swapped. Any other reshape is refused. */
static bool compute_reshape(const Memory *m, const Described *o) {
  Described *x = part(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  Described *y = part(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  const int64_t *from = steps(x), *to = steps(y);
  const float *xs = load(m, x);
  if (xs == NULL || from[0] != to[0] || from[1] != to[1] || from[2] != to[3] || from[3] != to[2])
    return false;
  y->values = malloc((size_t)count(y) * sizeof(float));
  EACH(y) y->values[at(y, b, h, r, c)] = xs[at(x, b, h, c, r)];
  return true;
}

/* ---- batch norm ------------------------------------------------------------------------------ */

/* Returns the memory of an operation's tensor, or NULL if its sizes are wrong. The sizes must be
** those of `like` or, if `like` is NULL, one number for each channel of `of`. */
static float *laid(const Memory *m, const Described *o, cudnnBackendAttributeName_t name,
                   const Described *like, const Described *of) {
  const Described *t = part(o, name);
  if (t == NULL) return NULL;
  const int64_t *d = dims(t), *whole = dims(like ? like : of);
  for (int i = 0; i < 4; i++)
    if (d[i] != (like || i == 1 ? whole[i] : 1)) return NULL;
  if (steps(t)[1] != 1) return NULL; /* channels must be the innermost dimension */
  return memory_of(m, t);
}

/* Computes the mean and 1 / sqrt(variance + eps) of channel c. */
static void statistics(const Described *t, const float *x, int64_t c, double eps, double *mean,
                       double *rstd) {
  const int64_t *d = dims(t);
  double sum = 0, squares = 0, n = (double)(d[0] * d[2] * d[3]);
  for (int pass = 0; pass < 2; pass++)
    for (int64_t b = 0; b < d[0]; b++)
      for (int64_t r = 0; r < d[2]; r++)
        for (int64_t w = 0; w < d[3]; w++) {
          double value = (double)x[place(t, b, c, r, w)];
          if (pass == 0)
            sum += value;
          else
            squares += (value - sum / n) * (value - sum / n);
        }
  *mean = sum / n;
  *rstd = 1 / sqrt(squares / n + eps);
}

static bool compute_norm(const Memory *m, const Described *o) {
  const Described *x = part(o, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const Described *eps = part(o, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
  const float *in = laid(m, o, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x, x);
  float *out = laid(m, o, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, x, x);
  float *means = laid(m, o, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, NULL, x);
  float *rstds = laid(m, o, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, NULL, x);
  const float *scale = laid(m, o, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, NULL, x);
  const float *bias = laid(m, o, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, NULL, x);
  if (!(in && out && means && rstds && scale && bias && eps && memory_of(m, eps)) ||
      !fact(eps, CUDNN_ATTR_TENSOR_IS_BY_VALUE) ||
      word(o, CUDNN_ATTR_OPERATION_NORM_FWD_MODE) != CUDNN_BATCH_NORM ||
      word(o, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) != CUDNN_NORM_FWD_TRAINING)
    return false;
  for (int64_t h = 0; h < dims(x)[1]; h++) {
    double mean, rstd;
    statistics(x, in, h, (double)*memory_of(m, eps), &mean, &rstd);
    means[h] = (float)mean;
    rstds[h] = (float)rstd;
  }
  EACH(x) {
    int64_t i = place(x, b, h, r, c);
    out[i] = (in[i] - means[h]) * rstds[h] * scale[h] + bias[h];
  }
  return true;
}

static bool compute_norm_backward(const Memory *m, const Described *o) {
  const Described *x = part(o, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const float *in = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x, x);
  const float *grad = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, x, x);
  const float *mean = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, NULL, x);
  const float *rstd = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, NULL, x);
  const float *scale = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, NULL, x);
  float *to = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, x, x);
  float *weight = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, NULL, x);
  float *bias = laid(m, o, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, NULL, x);
  if (!(in && grad && mean && rstd && scale && to && weight && bias) ||
      word(o, CUDNN_ATTR_OPERATION_NORM_BWD_MODE) != CUDNN_BATCH_NORM)
    return false;
  float n = (float)(dims(x)[0] * dims(x)[2] * dims(x)[3]);
  for (int64_t h = 0; h < dims(x)[1]; h++) weight[h] = bias[h] = 0;
  EACH(x) {
    int64_t i = place(x, b, h, r, c);
    weight[h] += grad[i] * (in[i] - mean[h]) * rstd[h];
    bias[h] += grad[i];
  }
  EACH(x) {
    int64_t i = place(x, b, h, r, c);
    float normal = (in[i] - mean[h]) * rstd[h];
    to[i] = (grad[i] - bias[h] / n - normal * weight[h] / n) * rstd[h] * scale[h];
  }
  return true;
}

/* Computes a graph; returns false if an operation reads a value that does not exist. */
static bool compute_graph(const Described *graph, const Memory *m) {
  const Fact *f = fact(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  bool ok = graph->finished;
  for (int64_t i = 0; i < f->n && ok; i++) {
    const Described *o = ((Described *const *)f->values)[i];
    switch ((int)o->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: ok = compute_pointwise(m, o); break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: ok = compute_matmul(m, o); break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: ok = compute_reduction(m, o); break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: ok = compute_reshape(m, o); break;
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: ok = compute_norm(m, o); break;
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: ok = compute_norm_backward(m, o); break;
    default: ok = false;
    }
  }
  return ok;
}

#undef EACH

#endif
