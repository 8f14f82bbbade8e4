/*
** ctc.c - connectionist temporal classification (Graves et al., ICML 2006). The states are the
** labels with a blank before, between and after them. For a frame t and a state, alpha is the
** log-probability of all alignments of the frames up to t that end in the state. beta is the
** log-probability of all alignments of the frames from t on that begin in the state. Sums are
** computed in double. Threads share the samples.
*/
#include "core/kernel/elementary.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"

typedef struct Work {
  const tlk_Ctc *call;
  bool wide; /* whether the data is double instead of float */
  const void *log_probs, *grad_loss, *loss_in, *alpha_in;
  void *loss, *alpha, *grad;
  /* `failed` becomes true if memory is exhausted, and `stopped` if the user interrupts the work */
  atomic_bool failed, stopped;
} Work;

static double get(const Work *w, const void *data, int64_t i) {
  return w->wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void set(const Work *w, void *data, int64_t i, double value) {
  if (w->wide)
    ((double *)data)[i] = value;
  else
    ((float *)data)[i] = (float)value;
}

static double add_logs(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  return high == -INFINITY ? high : high + tli_log1p(tli_exp(low - high));
}

/* Returns the class of a state; even states are blanks. */
static int64_t state_class(const tlk_Ctc *c, int64_t sample, int64_t state) {
  return (state % 2 == 0 ? c->blank : c->targets[sample * c->longest + state / 2]) - 1;
}

/* Returns whether a path may skip the blank before this state. It may if the labels on both sides
** of the blank differ. */
static bool may_skip(const tlk_Ctc *c, int64_t sample, int64_t state) {
  return state % 2 == 1 && state >= 2 &&
         state_class(c, sample, state) != state_class(c, sample, state - 2);
}

static double log_prob(const Work *w, int64_t t, int64_t sample, int64_t class) {
  const tlk_Ctc *c = w->call;
  return get(w, w->log_probs, (t * c->batch + sample) * c->classes + class);
}

static int64_t alpha_at(const tlk_Ctc *c, int64_t sample, int64_t t, int64_t state) {
  return (sample * c->time + t) * (2 * c->longest + 1) + state;
}

/* Returns false if the user interrupts the work. It is called for each frame. */
static bool goes_on(Work *w) {
  if (tli_interrupted()) w->stopped = true;
  return !w->stopped;
}

static void forward_sample(Work *w, int64_t sample) {
  const tlk_Ctc *c = w->call;
  int64_t frames = c->input_lengths[sample], states = 2 * c->target_lengths[sample] + 1;
  for (int64_t t = 0; t < frames && goes_on(w); t++)
    for (int64_t s = 0; s < states; s++) {
      double sum = -INFINITY;
      if (t == 0) {
        sum = s < 2 ? 0 : -INFINITY;
      } else {
        sum = get(w, w->alpha, alpha_at(c, sample, t - 1, s));
        if (s >= 1) sum = add_logs(sum, get(w, w->alpha, alpha_at(c, sample, t - 1, s - 1)));
        if (may_skip(c, sample, s))
          sum = add_logs(sum, get(w, w->alpha, alpha_at(c, sample, t - 1, s - 2)));
      }
      set(w, w->alpha, alpha_at(c, sample, t, s),
          sum + log_prob(w, t, sample, state_class(c, sample, s)));
    }
  double total = frames == 0 && states == 1 ? 0 : -INFINITY;
  for (int64_t s = states - 1; frames > 0 && s >= 0 && s >= states - 2; s--)
    total = add_logs(total, get(w, w->alpha, alpha_at(c, sample, frames - 1, s)));
  set(w, w->loss, sample, -total);
}

static void forward_range(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) forward_sample(context, i);
}

/* Computes beta of frame t from beta of frame t + 1, in place. States are processed in ascending
** order, because each state reads only itself and later states. */
static void step_back(const Work *w, int64_t sample, int64_t t, int64_t states, double *beta) {
  const tlk_Ctc *c = w->call;
  bool last = t == c->input_lengths[sample] - 1;
  for (int64_t s = 0; s < states; s++) {
    double sum = last ? (s >= states - 2 ? 0 : -INFINITY) : beta[s];
    if (!last && s + 1 < states) sum = add_logs(sum, beta[s + 1]);
    if (!last && s + 2 < states && may_skip(c, sample, s + 2)) sum = add_logs(sum, beta[s + 2]);
    beta[s] = sum + log_prob(w, t, sample, state_class(c, sample, s));
  }
}

/* Computes the gradient of one frame. through[class] is the log of the total probability of all
** alignments that emit the class in frame t. */
static void frame_gradient(const Work *w, int64_t sample, int64_t t, int64_t states,
                           const double *beta, double *through) {
  const tlk_Ctc *c = w->call;
  double factor = get(w, w->grad_loss, sample), loss = get(w, w->loss_in, sample);
  for (int64_t k = 0; k < c->classes; k++) through[k] = -INFINITY;
  for (int64_t s = 0; s < states; s++) {
    int64_t k = state_class(c, sample, s);
    double both = get(w, w->alpha_in, alpha_at(c, sample, t, s)) + beta[s];
    through[k] = add_logs(through[k], both);
  }
  for (int64_t k = 0; k < c->classes; k++) {
    double log = log_prob(w, t, sample, k);
    double share = through[k] == -INFINITY ? 0 : tli_exp(through[k] + loss - log);
    double value = factor == 0 ? 0 : factor * (tli_exp(log) - share);
    set(w, w->grad, (t * c->batch + sample) * c->classes + k, value);
  }
}

static void backward_sample(Work *w, int64_t sample, double *beta, double *through) {
  const tlk_Ctc *c = w->call;
  int64_t frames = c->input_lengths[sample], states = 2 * c->target_lengths[sample] + 1;
  for (int64_t t = c->time - 1; t >= frames; t--)
    for (int64_t k = 0; k < c->classes; k++)
      set(w, w->grad, (t * c->batch + sample) * c->classes + k, 0);
  for (int64_t t = frames - 1; t >= 0 && goes_on(w); t--) {
    step_back(w, sample, t, states, beta);
    frame_gradient(w, sample, t, states, beta, through);
  }
}

static void backward_range(void *context, int64_t begin, int64_t end) {
  Work *w = context;
  int64_t states = 2 * w->call->longest + 1;
  size_t bytes = (size_t)(states + w->call->classes) * sizeof(double);
  double *beta = tli_alloc(bytes);
  if (beta == NULL) {
    w->failed = true;
    return;
  }
  for (int64_t i = begin; i < end; i++) backward_sample(w, i, beta, beta + states);
  tli_free(beta, bytes);
}

bool tlk_ctc_loss(const struct tlk_ctc_loss *call) {
  Work w = {.call = &call->ctc,
            .wide = call->loss.dtype == TL_F64,
            .log_probs = call->log_probs,
            .loss = call->loss.data,
            .alpha = call->alpha};
  tli_parallel_for(call->ctc.batch, 1, forward_range, &w);
  return !w.stopped || (tli_go_on() && tli_fail(TL_EINTERRUPT, "interrupted!"));
}

bool tlk_ctc_loss_backward(const struct tlk_ctc_loss_backward *call) {
  Work w = {.call = &call->ctc,
            .wide = call->grad_in.dtype == TL_F64,
            .log_probs = call->log_probs,
            .grad_loss = call->grad_loss,
            .loss_in = call->loss,
            .alpha_in = call->alpha,
            .grad = call->grad_in.data};
  tli_parallel_for(call->ctc.batch, 1, backward_range, &w);
  if (w.stopped) return tli_go_on() && tli_fail(TL_EINTERRUPT, "interrupted!");
  return !w.failed;
}
