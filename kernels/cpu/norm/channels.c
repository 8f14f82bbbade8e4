/*
** channels.c - statistics and scaling of channels. The work is divided into parts, and the division
** depends only on the sizes of the arrays. Each part has its own sums, which are added in order, so
** results do not depend on the number of threads.
*/
#include "kernels/cpu/norm/channels.h"

#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/upcast.h"

/* The approximate number of elements of a part. */
#define PART 65536

/* A run is the `inner` neighbouring elements of one channel. Runs shorter than SHORT_RUN are slow
** if they are processed one by one, so they are summed as columns. If a row of all channels has at
** most MOST_COLUMNS elements, each element of a run becomes a column of its own. If inner is 1 and
** there are at most FEW_CHANNELS channels, several rows are joined to one row of about JOINED
** elements, whose columns are summed. */
#define SHORT_RUN 32
#define MOST_COLUMNS 16384
#define FEW_CHANNELS 32
#define JOINED 256

/* How channels become columns. Each channel has `each` columns; column k of channel c has index c *
** step + k * next. Every row has all columns, except that the last row may be shorter. */
typedef struct Columns {
  int64_t channels, each, step, next;
} Columns;

static Columns columns_of(int64_t outer, int64_t channels, int64_t inner) {
  bool few = inner > 1 && inner < SHORT_RUN && outer >= 4 && channels > 0;
  if (few && channels * inner <= MOST_COLUMNS) return (Columns){channels, inner, inner, 1};
  few = inner == 1 && channels > 0 && channels <= FEW_CHANNELS;
  int64_t each = few ? tlk_max(1, tlk_min(outer, JOINED / channels)) : 1;
  return (Columns){channels, each, 1, channels};
}

/* Copies each channel's value to all columns of the channel. Returns `from` itself if each channel
** has only one column. */
static const void *spread(char *to, const void *from, const Columns *s, int64_t size) {
  if (from == NULL || s->each == 1) return from;
  for (int64_t c = 0; c < s->channels; c++)
    for (int64_t k = 0; k < s->each; k++)
      memcpy(to + (c * s->step + k * s->next) * size, (const char *)from + c * size, (size_t)size);
  return to;
}

typedef struct Work {
  const tlk_ChannelLoops *loops;
  /* sizes of the array for the sums; each column counts as a channel with one element */
  int64_t outer, channels, inner;
  int64_t elements; /* number of elements in the array */
  Columns columns;
  int64_t size; /* size of an element in bytes */
  /* parts: number of parts into which the dimension `outer` is divided; share: length of a part */
  int64_t parts, share;
  const char *in, *grad;
  const void *mean_in; /* means of the channels, subtracted from `in` in sums of products */
  const double *mean;  /* means of the channels, subtracted in sums of squared deviations */
  double *sums;        /* array (2, parts, channels) of the sums of each part; owned */
} Work;

static double *sums_of(const Work *w, int which, int64_t part) {
  return w->sums + (which * w->parts + part) * w->channels;
}

/* Adds a run of a channel's elements to the sums of its part. */
static void add_run(const Work *w, int64_t part, int64_t o, int64_t c) {
  int64_t at = (o * w->channels + c) * w->inner * w->size;
  double *first = sums_of(w, 0, part), *second = sums_of(w, 1, part);
  if (w->grad)
    w->loops->products(w->inner, w->grad + at, w->in + at, tlk_number_at(w->mean_in, c, w->size),
                       first + c, second + c);
  else if (w->mean)
    first[c] += w->loops->deviation(w->inner, w->in + at, w->mean[c]);
  else
    first[c] += w->loops->sum(w->inner, w->in + at);
}

static void add_row(const Work *w, int64_t part, int64_t o) {
  int64_t first_element = o * w->channels, at = first_element * w->size;
  int64_t n = tlk_min(w->channels, w->elements - first_element);
  double *first = sums_of(w, 0, part), *second = sums_of(w, 1, part);
  if (w->grad)
    w->loops->row_products(n, w->grad + at, w->in + at, w->mean_in, first, second);
  else if (w->mean)
    w->loops->row_deviation(n, w->in + at, w->mean, first);
  else
    w->loops->row_sum(n, w->in + at, first);
}

/* Computes the sums of parts [begin, end). Here a task is a part; in sum_runs, a task is one
** channel of a part. */
static void sum_rows(void *context, int64_t begin, int64_t end) {
  const Work *w = context;
  for (int64_t part = begin; part < end; part++) {
    int64_t stop = tlk_min((part + 1) * w->share, w->outer);
    for (int64_t o = part * w->share; o < stop; o++) add_row(w, part, o);
  }
}

static void sum_runs(void *context, int64_t begin, int64_t end) {
  const Work *w = context;
  for (int64_t task = begin; task < end; task++) {
    int64_t part = task / w->channels, c = task % w->channels;
    int64_t stop = tlk_min((part + 1) * w->share, w->outer);
    for (int64_t o = part * w->share; o < stop; o++) add_run(w, part, o, c);
  }
}

/* Computes the sums of each part, and adds them to the sums of the first part. Then adds up the
** columns of each channel. */
static void add_up(Work *w) {
  size_t bytes = (size_t)(2 * w->parts * w->channels) * sizeof(double);
  memset(w->sums, 0, bytes);
  int64_t each = w->share * w->inner;
  if (w->inner == 1)
    tli_parallel_for(w->parts, 1, sum_rows, w);
  else
    tli_parallel_for(w->parts * w->channels, tlk_max(1, TLK_GRAIN / tlk_max(1, each)), sum_runs, w);
  for (int which = 0; which < 2; which++)
    for (int64_t part = 1; part < w->parts; part++)
      for (int64_t c = 0; c < w->channels; c++)
        sums_of(w, which, 0)[c] += sums_of(w, which, part)[c];
  const Columns *s = &w->columns;
  if (s->each == 1) return;
  for (int which = 0; which < 2; which++) {
    double *sums = sums_of(w, which, 0);
    for (int64_t c = 0; c < s->channels; c++) {
      double sum = 0;
      for (int64_t k = 0; k < s->each; k++) sum += sums[c * s->step + k * s->next];
      sums[c] = sum;
    }
  }
}

/* Divides `outer` into parts. A part has about PART elements of one channel or, if inner is 1, of
** all channels. */
static bool prepare(Work *w, int64_t outer, int64_t channels, int64_t inner, tl_DType dtype) {
  w->elements = outer * channels * inner;
  w->columns = columns_of(outer, channels, inner);
  channels *= w->columns.each;
  if (inner > 1) inner /= w->columns.each;
  if (inner == 1 && channels > 0) outer = tlk_ceil_div(w->elements, channels);
  int64_t unit = inner == 1 ? channels : inner;
  w->loops = tlk_isa()->channels[dtype == TL_F64];
  w->outer = outer;
  w->channels = channels;
  w->inner = inner;
  w->size = dtype == TL_F64 ? 8 : 4;
  w->share = tlk_max(1, PART / tlk_max(1, unit));
  w->parts = tlk_max(1, tlk_ceil_div(outer, w->share));
  w->sums = tli_alloc((size_t)(2 * w->parts * channels) * sizeof(double));
  return w->sums != NULL;
}

static void finish(Work *w) {
  tli_free(w->sums, (size_t)(2 * w->parts * w->channels) * sizeof(double));
}

static bool moments(Work *w, void *mean, void *deviation) {
  const Columns *s = &w->columns;
  double n = s->channels > 0 ? (double)(w->elements / s->channels) : 0;
  double *means = tli_alloc((size_t)w->channels * sizeof *means);
  if (means == NULL) return false;
  add_up(w);
  for (int64_t c = 0; c < s->channels; c++) {
    double value = w->sums[c] / n;
    for (int64_t k = 0; k < s->each; k++) means[c * s->step + k * s->next] = value;
    tlk_store_at(mean, c, w->size, value);
  }
  w->mean = means;
  add_up(w);
  for (int64_t c = 0; c < s->channels; c++) tlk_store_at(deviation, c, w->size, w->sums[c]);
  tli_free(means, (size_t)w->channels * sizeof *means);
  return true;
}

bool tlk_channel_moments(const struct tlk_channel_moments *call) {
  Work w = {0};
  int64_t n = call->outer * call->channels * call->inner;
  tlk_Array x = tlk_upcast(call->in, n, true);
  if (x.data == NULL && n > 0) return false;
  w.in = x.data;
  bool ok = prepare(&w, call->outer, call->channels, call->inner, x.dtype) &&
            moments(&w, call->mean, call->deviation);
  if (w.sums) finish(&w);
  tlk_upcast_free(x, call->in, n);
  return ok;
}

bool tlk_channel_products(const struct tlk_channel_products *call) {
  Work w = {0};
  int64_t n = call->outer * call->channels * call->inner;
  tlk_Array x = tlk_upcast(call->in, n, true), g = tlk_upcast(call->grad, n, true);
  bool ok = n == 0 || (x.data != NULL && g.data != NULL);
  w.in = x.data;
  w.grad = g.data ? g.data : (const void *)"";
  ok = ok && prepare(&w, call->outer, call->channels, call->inner, x.dtype);
  char *means = ok && w.columns.each > 1 ? tli_alloc((size_t)(w.channels * w.size)) : NULL;
  if (ok && (w.columns.each == 1 || means)) {
    w.mean_in = spread(means, call->mean, &w.columns, w.size);
    add_up(&w);
    for (int64_t c = 0; c < call->channels; c++) {
      tlk_store_at(call->sum, c, w.size, sums_of(&w, 0, 0)[c]);
      tlk_store_at(call->product, c, w.size, sums_of(&w, 1, 0)[c]);
    }
  } else {
    ok = false;
  }
  tli_free(means, (size_t)(w.channels * w.size));
  if (w.sums) finish(&w);
  tlk_upcast_free(x, call->in, n);
  tlk_upcast_free(g, call->grad, n);
  return ok;
}

/* ---- scaling ---- */

typedef struct Affine {
  const tlk_ChannelLoops *loops;
  char *out;
  const char *in, *other;
  const void *mean, *scale, *shift, *factor;
  int64_t channels, inner, elements, size;
} Affine;

static double value_or_zero(const void *data, int64_t i, int64_t size) {
  return data ? tlk_number_at(data, i, size) : 0;
}

static void scale_runs(void *context, int64_t begin, int64_t end) {
  const Affine *a = context;
  for (int64_t run = begin; run < end; run++) {
    int64_t c = run % a->channels, at = run * a->inner * a->size;
    a->loops->affine(a->inner, a->out + at, a->in + at, value_or_zero(a->mean, c, a->size),
                     tlk_number_at(a->scale, c, a->size), value_or_zero(a->shift, c, a->size),
                     a->other ? a->other + at : NULL, value_or_zero(a->factor, c, a->size));
  }
}

static void scale_rows(void *context, int64_t begin, int64_t end) {
  const Affine *a = context;
  for (int64_t row = begin; row < end; row++) {
    int64_t first = row * a->channels, at = first * a->size;
    int64_t n = tlk_min(a->channels, a->elements - first);
    a->loops->row_affine(n, a->out + at, a->in + at, a->mean, a->scale, a->shift,
                         a->other ? a->other + at : NULL, a->factor);
  }
}

bool tlk_channel_affine(const struct tlk_channel_affine *call) {
  int64_t n = call->outer * call->channels * call->inner;
  if (n == 0) return true;
  tlk_Array x = tlk_upcast(call->in, n, true), y = tlk_upcast(call->other, n, true);
  tlk_Array to = tlk_upcast(call->out, n, false);
  Columns columns = columns_of(call->outer, call->channels, call->inner);
  int64_t channels = call->channels * columns.each, size = x.dtype == TL_F64 ? 8 : 4;
  /* size in bytes of one array that has a value for each column */
  size_t bytes = columns.each > 1 ? (size_t)(channels * size) : 0;
  char *room = bytes ? tli_alloc(4 * bytes) : NULL;
  bool ok = x.data && to.data && (call->other.data == NULL || y.data) && (room || bytes == 0);
  if (ok) {
    const void *given[4] = {call->mean, call->scale, call->shift, call->factor}, *all[4];
    for (int i = 0; i < 4; i++)
      all[i] = spread(room ? room + (size_t)i * bytes : NULL, given[i], &columns, size);
    Affine a = {tlk_isa()->channels[x.dtype == TL_F64],
                to.data,
                x.data,
                y.data,
                all[0],
                all[1],
                all[2],
                all[3],
                channels,
                call->inner > 1 ? call->inner / columns.each : 1,
                n,
                size};
    if (a.inner == 1)
      ok = tli_parallel_try(tlk_ceil_div(n, channels), tlk_max(1, TLK_GRAIN / channels), scale_rows,
                            &a);
    else
      ok =
          tli_parallel_try(call->outer * channels, tlk_max(1, TLK_GRAIN / a.inner), scale_runs, &a);
  }
  tli_free(room, 4 * bytes);
  if (ok) {
    tlk_downcast(call->out, to, n);
  } else {
    tlk_upcast_free(to, call->out, n);
  }
  tlk_upcast_free(x, call->in, n);
  tlk_upcast_free(y, call->other, n);
  return ok;
}
