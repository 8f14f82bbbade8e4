/*
** resample.c - resampling along one dimension, and sampling at given positions. Along the last
** dimension, a loop computes one element after another. Along other dimensions, a loop adds up
** whole rows of elements.
*/
#include "kernels/cpu/vision/resample.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"

typedef struct Run {
  const tlk_Resample *r;
  const tlk_ResampleLoops *loops;
  int64_t size; /* size of an element in bytes */
  const char *weights, *in;
  char *out;
} Run;

/* Resamples lines [begin, end), which run along the last dimension. */
static void run_lines(void *context, int64_t begin, int64_t end) {
  const Run *s = context;
  const tlk_Resample *r = s->r;
  for (int64_t i = begin; i < end; i++)
    s->loops->line(r->out, r->terms, r->first, r->at, s->weights, s->in + i * r->in * s->size,
                   s->out + i * r->out * s->size);
}

/* Computes rows [begin, end) of the result. The rows of all outer dimensions are numbered in one
** sequence. */
static void run_rows(void *context, int64_t begin, int64_t end) {
  const Run *s = context;
  const tlk_Resample *r = s->r;
  int64_t row = r->inner * s->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i % r->out, first = r->first[at];
    s->loops->row(r->inner, r->first[at + 1] - first, r->at + first, s->weights + first * s->size,
                  s->in + i / r->out * r->in * row, s->out + i * row);
  }
}

/* ---- bytes ---- */

typedef struct ByteRun {
  const tlk_Resample *r;
  const int16_t *weights;
  int digits;
  const uint8_t *in;
  uint8_t *out;
  /* the steps of all elements; NULL if the terms of a sum are too far apart for steps */
  const tlk_ResampleStep *all;
  int64_t steps;
  atomic_bool failed; /* becomes true if memory is exhausted */
} ByteRun;

/* Resamples the groups of lines [begin, end) by steps. */
static void run_near_lines(void *context, int64_t begin, int64_t end) {
  const ByteRun *s = context;
  const tlk_Resample *r = s->r;
  int64_t first = begin * TLK_RESAMPLE_LINES, last = tlk_min(end * TLK_RESAMPLE_LINES, r->outer);
  tlk_isa()->resample_bytes->near_lines(last - first, r->out, r->in, s->steps, s->all, s->digits,
                                        s->in + first * r->in, s->out + first * r->out);
}

/* Resamples the groups of lines [begin, end). */
static void run_byte_lines(void *context, int64_t begin, int64_t end) {
  ByteRun *s = context;
  const tlk_Resample *r = s->r;
  size_t bytes = (size_t)r->in * TLK_RESAMPLE_LINES;
  uint8_t *tile = tli_alloc(bytes);
  if (tile == NULL) {
    atomic_store(&s->failed, true);
    return;
  }
  memset(tile, 0, bytes);
  for (int64_t g = begin; g < end; g++) {
    int64_t first = g * TLK_RESAMPLE_LINES, rest = r->outer - first;
    tlk_isa()->resample_bytes->lines(rest < TLK_RESAMPLE_LINES ? rest : TLK_RESAMPLE_LINES, r->out,
                                     r->in, r->first, r->at, s->weights, s->digits,
                                     s->in + first * r->in, tile, s->out + first * r->out);
  }
  tli_free(tile, bytes);
}

static void run_byte_rows(void *context, int64_t begin, int64_t end) {
  const ByteRun *s = context;
  const tlk_Resample *r = s->r;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i % r->out, first = r->first[at];
    tlk_isa()->resample_bytes->row(r->inner, r->first[at + 1] - first, r->at + first,
                                   s->weights + first, s->digits,
                                   s->in + i / r->out * r->in * r->inner, s->out + i * r->inner);
  }
}

/* Rounds n weights to 16 bits, and returns the number of binary digits after the point. */
static int round_weights(int64_t n, const double *weights, int16_t *rounded) {
  double largest = 0;
  for (int64_t i = 0; i < n; i++) largest = weights[i] > largest ? weights[i] : largest;
  int digits = 0;
  while (digits < 22 && (int)(0.5 + largest * (1 << (digits + 1))) < 1 << 15) digits++;
  for (int64_t i = 0; i < n; i++) {
    double w = weights[i] * (1 << digits);
    rounded[i] = (int16_t)(w < 0 ? w - 0.5 : w + 0.5);
  }
  return digits;
}

enum { SPAN = 16 }; /* the number of bytes from which a step takes its terms */

/* Fills in the step that adds terms 2 * k and 2 * k + 1 to the elements from i to i + 3. `near` is
** the position from which the first step of these elements reads. If the bytes of this step are
** within the same SPAN bytes, the step reads from there too. Returns false if the terms are too far
** apart. */
static bool fill_step(const tlk_Resample *r, const int16_t *weights, int64_t i, int64_t k,
                      int32_t near, tlk_ResampleStep *step) {
  int32_t low = INT32_MAX, high = -1;
  for (int64_t e = i; e < i + 4; e++)
    for (int64_t t = r->first[e] + 2 * k; t < tlk_min(r->first[e] + 2 * k + 2, r->first[e + 1]);
         t++) {
      low = r->at[t] < low ? r->at[t] : low;
      high = r->at[t] > high ? r->at[t] : high;
    }
  int32_t last = (int32_t)r->in - SPAN, at = low < last ? low : last;
  if (k > 0 && low >= near && high < near + SPAN) at = near;
  if (high < 0) at = near;
  memset(step->places, 128, sizeof step->places);
  memset(step->weights, 0, sizeof step->weights);
  step->at = at;
  if (high >= at + SPAN) return false;
  for (int64_t e = 0; e < 8; e++) {
    int64_t t = r->first[i + e / 2] + 2 * k + e % 2;
    if (t >= r->first[i + e / 2 + 1]) continue;
    step->places[2 * e] = (uint8_t)(r->at[t] - at);
    step->weights[e] = weights[t];
  }
  return true;
}

/* Makes the steps of all elements. Returns NULL if there can be none, or no memory for them. */
static tlk_ResampleStep *near_steps(const tlk_Resample *r, const int16_t *weights, int64_t *steps,
                                    size_t *bytes) {
  if (r->out < SPAN || r->in < SPAN || tlk_isa()->resample_bytes->near_lines == NULL) return NULL;
  *steps = 1;
  for (int64_t i = 0; i < r->out; i++)
    *steps = tlk_max(*steps, (r->first[i + 1] - r->first[i] + 1) / 2);
  int64_t blocks = tlk_ceil_div(r->out, SPAN);
  *bytes = (size_t)(blocks * 4 * *steps) * sizeof(tlk_ResampleStep);
  tlk_ResampleStep *all = tli_alloc(*bytes), *step = all;
  for (int64_t i = 0; i < blocks * 4 && all; i++) {
    int64_t begin = tlk_min(i / 4 * SPAN, r->out - SPAN) + i % 4 * 4;
    for (int64_t k = 0; k < *steps; k++, step++)
      if (!fill_step(r, weights, begin, k, k > 0 ? step[-k].at : 0, step)) {
        tli_free(all, *bytes);
        return NULL;
      }
  }
  return all;
}

static bool resample_bytes(const struct tlk_resample *call) {
  const tlk_Resample *r = &call->resample;
  int64_t n = r->first[r->out];
  size_t bytes = (size_t)n * sizeof(int16_t);
  int16_t *weights = tli_alloc(bytes);
  if (weights == NULL) return false;
  ByteRun s = {.r = r, .weights = weights, .in = call->in.data, .out = call->out.data};
  s.digits = round_weights(n, r->weights, weights);
  bool lines = r->inner == 1;
  int64_t groups = (r->outer + TLK_RESAMPLE_LINES - 1) / TLK_RESAMPLE_LINES, taps = n / r->out + 1;
  int64_t work = lines ? (n + r->in) * TLK_RESAMPLE_LINES : r->inner * taps;
  size_t step_bytes = 0;
  tlk_ResampleStep *all = lines ? near_steps(r, weights, &s.steps, &step_bytes) : NULL;
  s.all = all;
  bool ok = tli_parallel_try(lines ? groups : r->outer * r->out, TLK_GRAIN / work + 1,
                             all     ? run_near_lines
                             : lines ? run_byte_lines
                                     : run_byte_rows,
                             &s);
  tli_free(all, step_bytes);
  if (ok && atomic_load(&s.failed))
    ok = tli_fail(TL_EMEM, "interpolate: out of memory for %" PRId64 " bytes",
                  r->in * TLK_RESAMPLE_LINES);
  tli_free(weights, bytes);
  return ok;
}

bool tlk_resample(const struct tlk_resample *call) {
  if (call->in.dtype == TL_U8) return resample_bytes(call);
  bool wide = call->in.dtype == TL_F64;
  int64_t n = call->resample.first[call->resample.out], work = n / call->resample.out + 1;
  float *narrow = wide ? NULL : tli_alloc((size_t)n * sizeof *narrow);
  if (!wide && narrow == NULL) return false;
  for (int64_t i = 0; i < n && narrow; i++) narrow[i] = (float)call->resample.weights[i];
  Run s = {.r = &call->resample,
           .loops = tlk_isa()->resample[wide],
           .size = wide ? 8 : 4,
           .weights = wide ? (const char *)call->resample.weights : (const char *)narrow,
           .in = call->in.data,
           .out = call->out.data};
  bool lines = call->resample.inner == 1;
  bool ok =
      tli_parallel_try(lines ? call->resample.outer : call->resample.outer * call->resample.out,
                       TLK_GRAIN / (lines ? n + 1 : call->resample.inner * work) + 1,
                       lines ? run_lines : run_rows, &s);
  tli_free(narrow, (size_t)n * sizeof *narrow);
  return ok;
}

/* ---- samples ---- */

/* Number of positions of an image that are sampled at a time. */
enum { PLACES = 1024 };

/* Samples pieces [begin, end). The pieces of all images are numbered in one sequence. */
static void run_samples(void *context, int64_t begin, int64_t end) {
  const struct tlk_grid_sample *s = context;
  const float *in = s->in.data, *grid = s->grid.data;
  float *out = s->out.data;
  int64_t pieces = (s->places + PLACES - 1) / PLACES;
  for (int64_t i = begin; i < end; i++) {
    int64_t image = i / pieces, first = i % pieces * PLACES, rest = s->places - first;
    tlk_isa()->resample[0]->sample(s, rest < PLACES ? rest : PLACES,
                                   grid + (image * s->places + first) * 2,
                                   in + image * s->channels * s->size[0] * s->size[1],
                                   out + image * s->channels * s->places + first);
  }
}

bool tlk_grid_sample(const struct tlk_grid_sample *call) {
  struct tlk_grid_sample s = *call;
  int64_t pieces = (s.places + PLACES - 1) / PLACES;
  return tli_parallel_try(s.images * pieces, TLK_GRAIN / ((s.channels + 4) * 4 * PLACES) + 1,
                          run_samples, &s);
}
