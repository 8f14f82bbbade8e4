/*
** cross_entropy.c - the cross-entropy loss for class labels. Each sample is computed by one thread.
*/
#include "kernels/cpu/loss/cross_entropy.h"

#include <math.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"

static double number_at(const void *data, int64_t i, int64_t size) {
  return size == 4 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void store_at(void *data, int64_t i, int64_t size, double value) {
  if (size == 4)
    ((float *)data)[i] = (float)value;
  else
    ((double *)data)[i] = value;
}

/* ---- few classes ---- */

/* Rows of up to this number of logits are transposed, so that a vector holds the logits of one
** class for many samples. */
#define FEW 32
#define SAMPLES 64 /* number of samples that are transposed together */
#define LANES 16

typedef struct Turned {
  /* number of samples, and this number rounded up to whole vectors; the additional columns are 0 */
  int64_t samples, step;
  _Alignas(64) char x[FEW * SAMPLES * sizeof(double)];
} Turned;

static bool is_turned(const tlk_Classes *k) {
  return k->logits && k->inner == 1 && k->classes <= FEW;
}

/* Transposes the logits of samples [first, first + samples). */
static void turn(const tlk_Classes *k, const char *in, int64_t first, int64_t size, Turned *t) {
  t->samples = tlk_min(SAMPLES, k->outer - first);
  t->step = (t->samples + LANES - 1) & -LANES;
  int64_t row = k->classes * size, rest = t->step - t->samples;
  for (int64_t c = 0; rest > 0 && c < k->classes; c++)
    memset(t->x + (c * t->step + t->samples) * size, 0, (size_t)(rest * size));
  tlk_isa()->move[size == 8 ? 3 : 2](t->x, size, t->step * size, in + first * row, row, size,
                                     t->samples, k->classes);
}

static void turn_back(const tlk_Classes *k, const Turned *t, int64_t first, int64_t size,
                      char *out) {
  int64_t row = k->classes * size;
  tlk_isa()->move[size == 8 ? 3 : 2](out + first * row, size, row, t->x, t->step * size, size,
                                     k->classes, t->samples);
}

/* ---- the loss ---- */

typedef struct Loss {
  const tlk_Classes *call;
  const tlk_ClassLoops *loops;
  int64_t size; /* size of an element in bytes */
  /* number of strips, which are ranges of neighbouring columns, into which the dimension `inner` is
  ** divided */
  int64_t strips;
  const char *in;
  char *loss, *weights;
  double *norm;
  tlk_FirstFault first;
} Loss;

/* Returns the index of the input element that belongs to the label; -1 if the label is ignored or
** out of range. */
static int64_t label_place(Loss *l, int64_t o, int64_t i) {
  const tlk_Classes *k = l->call;
  int64_t label = k->target[o * k->inner + i];
  if (label == k->ignore) return -1;
  if (label < 1 || label > k->classes) {
    tlk_note_fault(&l->first, label);
    return -1;
  }
  return (o * k->classes + label - 1) * k->inner + i;
}

static void finish_sample(Loss *l, int64_t o, int64_t i) {
  const tlk_Classes *k = l->call;
  int64_t at = o * k->inner + i, place = label_place(l, o, i);
  double weight = 0, loss = 0;
  if (place >= 0) {
    weight = k->weight ? number_at(k->weight, k->target[at] - 1, l->size) : 1;
    double value = number_at(l->in, place, l->size);
    if (k->logits) value -= l->norm[at];
    loss = -weight * value;
  }
  store_at(l->loss, at, l->size, loss);
  store_at(l->weights, at, l->size, weight);
}

static void loss_tasks(void *context, int64_t begin, int64_t end) {
  Loss *l = context;
  const tlk_Classes *k = l->call;
  for (int64_t task = begin; task < end; task++) {
    int64_t o = task / l->strips, i = task % l->strips * TLK_CLASS_COLS;
    int64_t cols = tlk_min(TLK_CLASS_COLS, k->inner - i), at = o * k->inner + i;
    const char *x = l->in + (o * k->classes * k->inner + i) * l->size;
    if (k->logits && k->inner == 1)
      l->norm[at] = l->loops->row_norm(k->classes, x);
    else if (k->logits)
      l->loops->strip_norm(k->classes, cols, k->inner, x, l->norm + at);
    for (int64_t c = 0; c < cols; c++) finish_sample(l, o, i + c);
  }
}

/* Computes the same losses as loss_tasks, for samples whose logits are transposed first. */
static void turned_loss_tasks(void *context, int64_t begin, int64_t end) {
  Loss *l = context;
  for (int64_t task = begin; task < end; task++) {
    Turned t;
    double norms[SAMPLES];
    int64_t first = task * SAMPLES;
    turn(l->call, l->in, first, l->size, &t);
    l->loops->strip_norm(l->call->classes, t.step, t.step, t.x, norms);
    memcpy(l->norm + first, norms, (size_t)t.samples * sizeof *norms);
    for (int64_t i = 0; i < t.samples; i++) finish_sample(l, first + i, 0);
  }
}

/* Calls `turned` for groups of samples if they are transposed first; otherwise calls `whole` for
** strips. Returns false if the user interrupts the work. */
static bool for_strips(const tlk_Classes *k, int64_t strips, tli_RangeFn whole, tli_RangeFn turned,
                       void *context) {
  int64_t each = k->classes * (is_turned(k) ? SAMPLES : tlk_min(k->inner, TLK_CLASS_COLS));
  return tli_parallel_try(is_turned(k) ? tlk_ceil_div(k->outer, SAMPLES) : k->outer * strips,
                          tlk_max(1, TLK_GRAIN / 4 / tlk_max(1, each)),
                          is_turned(k) ? turned : whole, context);
}

bool tlk_class_loss(const struct tlk_class_loss *call) {
  Loss l = {.call = &call->classes,
            .loops = tlk_isa()->classes[call->in.dtype == TL_F64],
            .size = call->in.dtype == TL_F64 ? 8 : 4,
            .in = call->in.data,
            .loss = call->loss.data,
            .weights = call->weights,
            .norm = call->norm};
  l.strips = tlk_ceil_div(call->classes.inner, TLK_CLASS_COLS);
  TL_TRY(for_strips(&call->classes, l.strips, loss_tasks, turned_loss_tasks, &l));
  return tlk_no_fault(
      call->cx, &l.first,
      (tlk_Fault){.kind = TLK_FAULT_LABEL, .source = call->source, .size = call->classes.classes});
}

/* ---- its gradient ---- */

typedef struct Back {
  const tlk_Classes *call;
  const tlk_ClassLoops *loops;
  int64_t size, strips;
  const char *in, *grad;
  const double *norm;
  char *out;
} Back;

/* Returns the sample's weight times the gradient of the sample's loss; 0 if the label is
** ignored. */
static double factor_of(const Back *b, int64_t at) {
  const tlk_Classes *k = b->call;
  int64_t label = k->target[at];
  if (label == k->ignore) return 0;
  double weight = k->weight ? number_at(k->weight, label - 1, b->size) : 1;
  return weight * number_at(b->grad, at, b->size);
}

/* Computes the columns of a strip: exp(x - norm) * factor for logits, zeros for
** log-probabilities. */
static void fill_strip(const Back *b, int64_t o, int64_t i, int64_t cols, const void *factors) {
  const tlk_Classes *k = b->call;
  int64_t at = o * k->inner + i, place = (o * k->classes * k->inner + i) * b->size;
  if (!k->logits) {
    for (int64_t c = 0; c < k->classes; c++)
      memset(b->out + place + c * k->inner * b->size, 0, (size_t)(cols * b->size));
  } else if (k->inner == 1) {
    b->loops->row_back(k->classes, b->in + place, b->norm[at], number_at(factors, 0, b->size),
                       b->out + place);
  } else {
    b->loops->strip_back(k->classes, cols, k->inner, b->in + place, b->norm + at, factors,
                         b->out + place);
  }
}

/* Subtracts the factor from the gradient's element at the sample's label. */
static void finish_back(const Back *b, int64_t o, int64_t i, double factor) {
  const tlk_Classes *k = b->call;
  int64_t label = k->target[o * k->inner + i];
  if (label == k->ignore) return;
  int64_t place = (o * k->classes + label - 1) * k->inner + i;
  store_at(b->out, place, b->size, number_at(b->out, place, b->size) - factor);
}

static void back_tasks(void *context, int64_t begin, int64_t end) {
  const Back *b = context;
  const tlk_Classes *k = b->call;
  /* room for numbers of the compute type, which is float or double */
  double factors[TLK_CLASS_COLS];
  for (int64_t task = begin; task < end; task++) {
    int64_t o = task / b->strips, i = task % b->strips * TLK_CLASS_COLS;
    int64_t cols = tlk_min(TLK_CLASS_COLS, k->inner - i), at = o * k->inner + i;
    for (int64_t c = 0; c < cols; c++) store_at(factors, c, b->size, factor_of(b, at + c));
    fill_strip(b, o, i, cols, factors);
    for (int64_t c = 0; c < cols; c++) finish_back(b, o, i + c, number_at(factors, c, b->size));
  }
}

static void turned_back_tasks(void *context, int64_t begin, int64_t end) {
  const Back *b = context;
  for (int64_t task = begin; task < end; task++) {
    Turned t;
    double norms[SAMPLES] = {0};
    /* room for numbers of the compute type, which is float or double */
    double factors[SAMPLES] = {0};
    int64_t first = task * SAMPLES;
    turn(b->call, b->in, first, b->size, &t);
    memcpy(norms, b->norm + first, (size_t)t.samples * sizeof *norms);
    for (int64_t i = 0; i < t.samples; i++) store_at(factors, i, b->size, factor_of(b, first + i));
    b->loops->strip_back(b->call->classes, t.step, t.step, t.x, norms, factors, t.x);
    turn_back(b->call, &t, first, b->size, b->out);
    for (int64_t i = 0; i < t.samples; i++)
      finish_back(b, first + i, 0, number_at(factors, i, b->size));
  }
}

bool tlk_class_loss_backward(const struct tlk_class_loss_backward *call) {
  Back b = {.call = &call->classes,
            .loops = tlk_isa()->classes[call->grad_in.dtype == TL_F64],
            .size = call->grad_in.dtype == TL_F64 ? 8 : 4,
            .in = call->in,
            .norm = call->norm,
            .grad = call->grad_loss.data,
            .out = call->grad_in.data};
  b.strips = tlk_ceil_div(call->classes.inner, TLK_CLASS_COLS);
  return for_strips(&call->classes, b.strips, back_tasks, turned_back_tasks, &b);
}
