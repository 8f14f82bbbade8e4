/*
** cudnn_math.c - computes recurrent layers by the formulas in cuDNN's documentation
** (cudnnRNNMode_t), in double and without any optimization. The gradients were derived by hand.
**
**   RNN   h' = relu or tanh of (W x + R h + b + d)
**   LSTM  i, f, o = sigmoid and c~ = tanh of such sums; c' = f c + i c~; h' = o tanh(c')
**   GRU   r, i = sigmoid of such sums; h~ = tanh(W x + r (R h + d) + b); h' = (1 - i) h~ + i h
**
** Linear layers are numbered as documented for cudnnGetRNNWeightParams. LSTM: i, f, c~, o for the
** input, the same for the state, then 8 for the projection. GRU: r, i, h~ for input and for state.
**
** The reserve begins with a number that tells which pass ran last, because the passes must run in
** order: forward, gradient of the data, gradient of the weights. Then follows one record for each
** step and each sample.
*/
#include "spec/cuda/cudnn_rnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/half.h"

enum { NOTHING, FORWARD, DATA_BACK };

static void *memory(size_t bytes) {
  void *p = calloc(bytes + 1, 1);
  if (p == NULL) abort();
  return p;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double get(const RnnShape *s, const void *from, long i) {
  if (from == NULL) return 0;
  if (s->type == CUDNN_DATA_FLOAT) return ((const float *)from)[i];
  uint16_t half = ((const uint16_t *)from)[i];
  return s->type == CUDNN_DATA_HALF ? tli_f16_to_f32(half) : tli_bf16_to_f32(half);
}

static void set(const RnnShape *s, void *to, long i, double x) {
  if (to == NULL) return;
  if (s->type == CUDNN_DATA_FLOAT)
    ((float *)to)[i] = (float)x;
  else
    ((uint16_t *)to)[i] =
        s->type == CUDNN_DATA_HALF ? tli_f32_to_f16((float)x) : tli_f32_to_bf16((float)x);
}

/* Rounds a factor of a product as the hardware does; TF32 keeps 10 fraction bits. */
static double factor(const RnnShape *s, double x) {
  if (!s->tf32 || x == 0 || !isfinite(x)) return x;
  int exponent;
  double mantissa = frexp(x, &exponent);
  return ldexp(nearbyint(ldexp(mantissa, 11)), exponent - 11);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* ---- linear layers --------------------------------------------------------------------------- */

typedef struct Matrix {
  const RnnShape *s;
  char *data, *bias; /* `data` is the matrix; `bias` may be NULL */
  int rows, columns;
} Matrix;

static Matrix linear(const RnnJob *j, int id) {
  const RnnShape *s = &j->shape;
  size_t at = 0, bias = 0;
  rnn_params(s, id, &at, &bias);
  Matrix m = {s, (char *)j->weights + at, NULL, s->hidden, id < s->gates ? s->input : s->output};
  if (id == 8)
    m.rows = s->output, m.columns = s->hidden;
  else if (s->biases)
    m.bias = (char *)j->weights + bias;
  return m;
}

/* Computes to = matrix * v + bias. */
static void apply(const Matrix *m, const double *v, double *to) {
  for (int k = 0; k < m->rows; k++) {
    double sum = 0;
    for (int i = 0; i < m->columns; i++)
      sum += factor(m->s, get(m->s, m->data, (long)k * m->columns + i)) * factor(m->s, v[i]);
    to[k] = sum + get(m->s, m->bias, k);
  }
}

/* Computes to += transposed matrix * v. */
static void apply_transposed(const Matrix *m, const double *v, double *to) {
  for (int i = 0; i < m->columns; i++)
    for (int k = 0; k < m->rows; k++)
      to[i] += factor(m->s, get(m->s, m->data, (long)k * m->columns + i)) * factor(m->s, v[k]);
}

/* ---- the reserve ----------------------------------------------------------------------------- */

/* The values for one step of one sample. Each array has `hidden` elements, except before and
** grad_out, which have `output` elements. */
typedef struct Record {
  double *gates[4]; /* the gates after activation; for GRU, gates[3] is the sum R h + d inside h~ */
  double *cell, *cell_before, *unprojected;
  /* the gradients of the sums inside the gates, and of GRU's sum R h + d */
  double *grads[4], *grad_state;
  double *before, *grad_out;
} Record;

size_t rnn_record(const RnnShape *s) { return 12 * (size_t)s->hidden + 2 * (size_t)s->output; }

static Record record(const RnnShape *s, double *at) {
  Record r;
  for (int g = 0; g < 4; g++, at += s->hidden) r.gates[g] = at;
  for (int g = 0; g < 4; g++, at += s->hidden) r.grads[g] = at;
  r.cell = at, r.cell_before = r.cell + s->hidden, r.unprojected = r.cell_before + s->hidden;
  r.grad_state = r.unprojected + s->hidden, r.before = r.grad_state + s->hidden;
  r.grad_out = r.before + s->output;
  return r;
}

static Record record_of(const RnnJob *j, double *reserve, int step, int sample) {
  size_t n = (size_t)step * (size_t)j->batch + (size_t)sample;
  return record(&j->shape, reserve + 1 + n * rnn_record(&j->shape));
}

/* Checks the order of the passes: the last pass must be `from`. Records `to` as the last pass. */
static void advance(double *reserve, int from, int to) {
  if (reserve[0] != from) {
    fprintf(stderr, "emulated cuDNN: the reserve is not what the pass before leaves\n");
    abort();
  }
  reserve[0] = to;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void step_gates(const RnnJob *j, const double *x, const Record *r) {
  const RnnShape *s = &j->shape;
  double *b = memory((size_t)s->hidden * sizeof *b);
  for (int g = 0; g < s->gates; g++) {
    Matrix input = linear(j, g), state = linear(j, s->gates + g);
    apply(&input, x, r->gates[g]);
    apply(&state, r->before, b);
    bool candidate = s->mode == CUDNN_GRU ? g == 2 : s->mode == CUDNN_LSTM && g == 2;
    for (int k = 0; k < s->hidden; k++) {
      double sum = r->gates[g][k] + b[k];
      if (s->mode == CUDNN_GRU && g == 2) {
        r->gates[3][k] = b[k];
        sum = r->gates[2][k] + r->gates[0][k] * b[k];
      }
      r->gates[g][k] = s->mode == CUDNN_RNN_RELU                ? (sum < 0 ? 0 : sum)
                       : s->mode == CUDNN_RNN_TANH || candidate ? tanh(sum)
                                                                : sigmoid(sum);
    }
  }
  free(b);
}

static void step_forward(const RnnJob *j, const double *x, const Record *r, double *y) {
  const RnnShape *s = &j->shape;
  double *const *g = r->gates;
  step_gates(j, x, r);
  for (int k = 0; k < s->hidden; k++) {
    double h = g[0][k];
    if (s->mode == CUDNN_LSTM) {
      r->cell[k] = g[1][k] * r->cell_before[k] + g[0][k] * g[2][k];
      h = g[3][k] * tanh(r->cell[k]);
    }
    if (s->mode == CUDNN_GRU) h = (1 - g[1][k]) * g[2][k] + g[1][k] * r->before[k];
    r->unprojected[k] = h;
  }
  Matrix projection = linear(j, 8);
  if (s->output < s->hidden)
    apply(&projection, r->unprojected, y);
  else
    memcpy(y, r->unprojected, (size_t)s->hidden * sizeof *y);
}

void rnn_forward(void *job) {
  const RnnJob *j = job;
  const RnnShape *s = &j->shape;
  size_t numbers = 1 + (size_t)j->steps * (size_t)j->batch * rnn_record(s);
  double *reserve = j->reserve ? j->reserve : memory(numbers * sizeof *reserve);
  double *x = memory((size_t)s->input * sizeof *x), *y = memory((size_t)s->output * sizeof *y);
  memset(j->work, 0xff, j->work_bytes);
  for (int t = 0; t < j->steps; t++)
    for (int n = 0; n < j->batch; n++) {
      long row = (long)t * j->batch + n;
      Record r = record_of(j, reserve, t, n), past = t ? record_of(j, reserve, t - 1, n) : r;
      for (int i = 0; i < s->input; i++) x[i] = get(s, j->x, row * s->input + i);
      for (int i = 0; i < s->output; i++)
        r.before[i] = t ? get(s, j->y_out, (row - j->batch) * s->output + i)
                        : get(s, j->hx, (long)n * s->output + i);
      for (int i = 0; i < s->hidden; i++)
        r.cell_before[i] = t ? past.cell[i] : get(s, j->cx, (long)n * s->hidden + i);
      step_forward(j, x, &r, y);
      for (int i = 0; i < s->output; i++) set(s, j->y_out, row * s->output + i, y[i]);
      if (t < j->steps - 1) continue;
      for (int i = 0; i < s->output; i++) set(s, j->hy, (long)n * s->output + i, y[i]);
      for (int i = 0; i < s->hidden; i++) set(s, j->cy, (long)n * s->hidden + i, r.cell[i]);
    }
  reserve[0] = FORWARD;
  free(x), free(y);
  if (!j->reserve) free(reserve);
}

/* ---- the gradient of the data ---------------------------------------------------------------- */

/* Writes the gradients of the sums inside the gates to r->grads. h and c are the states before the
** step, h' and c' the states after it, and d is the gradient of h' before the projection. `cell`
** holds the gradient of c' on entry and the gradient of c on return. The part of h's gradient that
** does not go through the sums is added to `state`. */
static void gates_back(const RnnShape *s, const Record *r, const double *d, double *cell,
                       double *state) {
  for (int k = 0; k < s->hidden; k++) {
    double a = r->gates[0][k], b = r->gates[1][k], c = r->gates[2][k], e = r->gates[3][k];
    if (s->mode == CUDNN_LSTM) {
      double t = tanh(r->cell[k]), all = cell[k] + d[k] * e * (1 - t * t);
      r->grads[0][k] = all * c * a * (1 - a);
      r->grads[1][k] = all * r->cell_before[k] * b * (1 - b);
      r->grads[2][k] = all * a * (1 - c * c);
      r->grads[3][k] = d[k] * t * e * (1 - e);
      cell[k] = all * b;
    } else if (s->mode == CUDNN_GRU) {
      r->grads[2][k] = d[k] * (1 - b) * (1 - c * c);
      r->grads[1][k] = d[k] * (r->before[k] - c) * b * (1 - b);
      r->grads[0][k] = r->grads[2][k] * e * a * (1 - a);
      r->grad_state[k] = r->grads[2][k] * a;
      state[k] += d[k] * b;
    } else {
      r->grads[0][k] = d[k] * (s->mode == CUDNN_RNN_TANH ? 1 - a * a : a > 0);
    }
  }
}

/* Returns the gradient with respect to the output of a linear layer. */
static const double *grad_of(const RnnShape *s, const Record *r, int id) {
  return s->mode == CUDNN_GRU && id == 5 ? r->grad_state : r->grads[id % s->gates];
}

/* Computes the backward pass of one step of one sample. On entry, `state` and `cell` hold the
** gradients of the states after the step; on return, the gradients of the states before the
** step. */
static void step_back(const RnnJob *j, const Record *r, double *dx, double *state, double *cell) {
  const RnnShape *s = &j->shape;
  double *d = memory((size_t)s->hidden * sizeof *d);
  Matrix projection = linear(j, 8);
  memcpy(r->grad_out, state, (size_t)s->output * sizeof *state);
  if (s->output < s->hidden)
    apply_transposed(&projection, state, d);
  else
    memcpy(d, state, (size_t)s->hidden * sizeof *d);
  memset(state, 0, (size_t)s->output * sizeof *state);
  gates_back(s, r, d, cell, state);
  for (int id = 0; id < 2 * s->gates; id++) {
    Matrix m = linear(j, id);
    apply_transposed(&m, grad_of(s, r, id), id < s->gates ? dx : state);
  }
  free(d);
}

void rnn_backward_data(void *job) {
  const RnnJob *j = job;
  const RnnShape *s = &j->shape;
  double *reserve = j->reserve, *dx = memory((size_t)s->input * sizeof *dx);
  double *state = memory((size_t)s->output * sizeof *state);
  double *cell = memory((size_t)s->hidden * sizeof *cell);
  memset(j->work, 0xff, j->work_bytes);
  advance(reserve, FORWARD, DATA_BACK);
  for (int n = 0; n < j->batch; n++) {
    for (int i = 0; i < s->output; i++) state[i] = get(s, j->dhy, (long)n * s->output + i);
    for (int i = 0; i < s->hidden; i++) cell[i] = get(s, j->dcy, (long)n * s->hidden + i);
    for (int t = j->steps - 1; t >= 0; t--) {
      long row = (long)t * j->batch + n;
      Record r = record_of(j, reserve, t, n);
      memset(dx, 0, (size_t)s->input * sizeof *dx);
      for (int i = 0; i < s->output; i++) state[i] += get(s, j->dy, row * s->output + i);
      step_back(j, &r, dx, state, cell);
      for (int i = 0; i < s->input; i++) set(s, j->dx, row * s->input + i, dx[i]);
    }
    for (int i = 0; i < s->output; i++) set(s, j->dhx, (long)n * s->output + i, state[i]);
    for (int i = 0; i < s->hidden; i++) set(s, j->dcx, (long)n * s->hidden + i, cell[i]);
  }
  free(dx), free(state), free(cell);
}

/* ---- the gradient of the weights ------------------------------------------------------------- */

/* Returns element i of the input of a linear layer. */
static double operand(const RnnJob *j, const Record *r, int id, int t, int n, int i) {
  const RnnShape *s = &j->shape;
  long row = (long)t * j->batch + n;
  if (id == 8) return r->unprojected[i];
  if (id < s->gates) return get(s, j->x, row * s->input + i);
  return t ? get(s, j->y, (row - j->batch) * s->output + i)
           : get(s, j->hx, (long)n * s->output + i);
}

static void add_grad(const RnnJob *j, double *reserve, int id) {
  const RnnShape *s = &j->shape;
  Matrix m = linear(j, id);
  for (int k = 0; k < m.rows; k++)
    for (int i = -1; i < m.columns; i++) { /* column -1 stands for the bias */
      double sum = 0;
      for (int t = 0; t < j->steps; t++)
        for (int n = 0; n < j->batch; n++) {
          Record r = record_of(j, reserve, t, n);
          double d = id == 8 ? r.grad_out[k] : grad_of(s, &r, id)[k];
          sum += i < 0 ? d : factor(s, d) * factor(s, operand(j, &r, id, t, n, i));
        }
      void *to = i < 0 ? m.bias : m.data;
      long at = i < 0 ? k : (long)k * m.columns + i;
      set(s, to, at, get(s, to, at) + sum);
    }
}

void rnn_backward_weights(void *job) {
  const RnnJob *j = job;
  const RnnShape *s = &j->shape;
  memset(j->work, 0xff, j->work_bytes);
  advance(j->reserve, DATA_BACK, NOTHING);
  for (int id = 0; id < 2 * s->gates; id++) add_grad(j, j->reserve, id);
  if (s->output < s->hidden) add_grad(j, j->reserve, 8);
}
