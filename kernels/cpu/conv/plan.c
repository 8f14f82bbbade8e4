/* plan.c - finds the jobs of a convolution and packs their weights, as declared in plan.h. */
#include "kernels/cpu/conv/plan.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"

/* The least number of terms of a sum for which vectors hold channels (tlk_conv_many). With fewer
** terms, transposing the results would take longer than computing them. */
#define FEW_TERMS 32

bool tlk_conv_many(const tlk_Conv *conv, int64_t channels, int64_t terms) {
  return terms >= FEW_TERMS && channels >= tlk_isa()->tile[conv->dtype == TL_F64]->lanes;
}

double tlk_conv_bias(const tlk_ConvPlan *p, int64_t channel) {
  if (p->bias == NULL) return 0;
  return p->size == 4 ? (double)((const float *)(const void *)p->bias)[channel]
                      : ((const double *)(const void *)p->bias)[channel];
}

static void choose_tiles(tlk_ConvPlan *p) {
  if (p->tile)
    p->height = tlk_tile_width(p->tile, p->rows);
  else
    p->height = p->rows * 2 <= p->lanes->rows ? 1 : p->lanes->rows;
  p->tiles = tlk_ceil_div(p->rows, p->height);
}

static size_t weights_bytes(const tlk_ConvPlan *p, int64_t taps) {
  return (size_t)(p->conv->groups * p->tiles * p->height * taps * p->size);
}

static bool job_alloc(const tlk_ConvPlan *p, tlk_ConvJob *j, int64_t taps) {
  j->taps = taps;
  j->offsets = tli_alloc((size_t)taps * sizeof *j->offsets);
  j->weights = tli_alloc(weights_bytes(p, taps));
  if (j->weights && p->rows % p->height != 0) memset(j->weights, 0, weights_bytes(p, taps));
  return j->offsets && j->weights;
}

/* ---- weights ---- */

typedef struct Packing {
  const tlk_ConvPlan *plan;
  const tlk_ConvJob *job;
  const char *weight;
  int64_t kernel;
  const int64_t *used; /* indices of the kernel elements that the job needs */
  int64_t nused;
} Packing;

/* Packs the weights (row, tap) of tiles [begin, end) as (tap, row), where a tap is a kernel
** element. The tiles of all groups are numbered in one sequence. */
static void pack_forward(void *context, int64_t begin, int64_t end) {
  const Packing *w = context;
  const tlk_ConvPlan *p = w->plan;
  int64_t taps = w->job->taps, bytes = taps * p->size;
  for (int64_t t = begin; t < end; t++) {
    int64_t row = t % p->tiles * p->height, rows = tlk_min(p->height, p->rows - row);
    tlk_isa()->move[p->size == 8 ? 3 : 2](
        (char *)w->job->weights + t * p->height * bytes, p->height * p->size, p->size,
        w->weight + (t / p->tiles * p->rows + row) * bytes, p->size, bytes, taps, rows);
  }
}

/* Packs weights for the gradient of the input, in which a row is an input channel: the weights
** (output channel, row, kernel element) become (output channel, used kernel element, row). */
static void pack_backward(void *context, int64_t begin, int64_t end) {
  const Packing *w = context;
  const tlk_ConvPlan *p = w->plan;
  for (int64_t t = begin; t < end; t++) {
    int64_t row = t % p->tiles * p->height, rows = tlk_min(p->height, p->rows - row);
    int64_t row_bytes = p->height * p->size;
    char *to = (char *)w->job->weights + t * w->job->taps * row_bytes;
    int64_t channel = p->rows * w->kernel * p->size, piece = rows * w->kernel * p->size;
    for (int64_t o = 0; o < p->channels; o++) {
      int64_t from = ((t / p->tiles * p->channels + o) * p->rows + row) * w->kernel;
      /* prefetches the next channel, because the hardware does not prefetch such short pieces */
      if (o + 1 < p->channels)
        for (int64_t k = 0; k < piece; k += 64)
          __builtin_prefetch(w->weight + from * p->size + channel + k);
      if (w->nused == w->kernel)
        tlk_isa()->move[p->size == 8 ? 3 : 2](to, row_bytes, p->size, w->weight + from * p->size,
                                              p->size, w->kernel * p->size, w->kernel, rows);
      else
        for (int64_t k = 0; k < w->nused; k++)
          tlk_conv_strided(to + k * row_bytes, w->weight + (from + w->used[k]) * p->size, rows,
                           w->kernel, p->size);
      to += w->nused * row_bytes;
    }
  }
}

static void pack(const Packing *w, tli_RangeFn fn) {
  int64_t work = w->job->taps * w->plan->height;
  tli_parallel_for(w->plan->conv->groups * w->plan->tiles, TLK_GRAIN / (work + 1) + 1, fn,
                   (void *)(intptr_t)w);
}

/* ---- the convolution ---- */

static bool plan_forward(tlk_ConvPlan *p, const char *weight) {
  const tlk_Conv *c = p->conv;
  const tlk_Windows *w = &c->windows;
  p->layout = tlk_conv_input_layout(w);
  p->channels = c->channels_in / c->groups;
  p->rows = c->channels_out / c->groups;
  p->result = tlk_conv_product(w->out);
  p->njobs = 1;
  choose_tiles(p);
  p->jobs = tli_alloc(sizeof *p->jobs);
  if (p->jobs == NULL) return false;
  tlk_ConvJob *j = p->jobs;
  *j = (tlk_ConvJob){.steps = {w->out[1] * w->out[2], w->out[2], 1}};
  memcpy(j->count, w->out, sizeof j->count);
  memcpy(j->pitch, p->layout.pitch, sizeof j->pitch);
  int64_t kernel = tlk_conv_product(w->kernel), taps = p->channels * kernel;
  if (!job_alloc(p, j, taps)) return false;
  int64_t tap[3] = {0, 0, 0}, k = 0;
  do {
    int64_t offset = tlk_conv_offset(&p->layout, w, tap);
    for (int64_t i = 0; i < p->channels; i++)
      j->offsets[i * kernel + k] = i * p->layout.channel + offset;
    k++;
  } while (tlk_conv_next_tap(w->kernel, tap));
  pack(&(Packing){.plan = p, .job = j, .weight = weight}, pack_forward);
  return true;
}

/* ---- the input's gradient ---- */

/* Returns whether a tap (kernel element) contributes to the gradient at the input positions with
** this residue modulo the strides, which form a grid. If so, back[d] receives the distance from a
** grid position to the window that contributes: along dimension d, position i gets its contribution
** from window i - back[d]. */
static bool tap_reaches(const tlk_Windows *w, const int64_t residue[3], const int64_t tap[3],
                        int64_t back[3]) {
  for (int d = 0; d < 3; d++) {
    int64_t reach = tap[d] * w->dilation[d];
    if (reach % w->stride[d] != residue[d]) return false;
    back[d] = (reach - residue[d]) / w->stride[d];
  }
  return true;
}

/* Describes the grid of input positions with a given residue modulo the strides. */
static void residue_grid(const tlk_ConvPlan *p, tlk_ConvJob *j, const int64_t residue[3],
                         int64_t first[3]) {
  const tlk_Windows *w = &p->conv->windows;
  int64_t strides[] = {w->in[1] * w->in[2], w->in[2], 1};
  for (int d = 0; d < 3; d++) {
    /* the grid's positions are i * stride - begin for i = 0, 1, ...; `first` is the first i whose
    ** position is not negative */
    int64_t begin = w->padding[d] - residue[d];
    first[d] = begin > 0 ? tlk_ceil_div(begin, w->stride[d]) : 0;
    int64_t last = w->padding[d] + w->in[d] - 1 - residue[d];
    j->count[d] = last < 0 ? 0 : tlk_max(0, last / w->stride[d] - first[d] + 1);
    j->pitch[d] = p->layout.pitch[d];
    j->steps[d] = strides[d] * w->stride[d];
    j->at += (first[d] * w->stride[d] + residue[d] - w->padding[d]) * strides[d];
  }
}

/* Completes a job whose grid is known: finds the taps (kernel elements) that contribute to it,
** computes their offsets, and packs their weights. Returns false if memory is exhausted. `used` is
** scratch memory for the indices of all taps. */
static bool residue_weights(tlk_ConvPlan *p, tlk_ConvJob *j, const int64_t residue[3],
                            const int64_t first[3], const char *weight, int64_t *used) {
  const tlk_Windows *w = &p->conv->windows;
  const tlk_ConvLayout *l = &p->layout;
  int64_t back[3], tap[3] = {0, 0, 0}, n = 0, k = 0, kernel = tlk_conv_product(w->kernel);
  do {
    if (tap_reaches(w, residue, tap, back)) used[n++] = k;
    k++;
  } while (tlk_conv_next_tap(w->kernel, tap));
  if (!job_alloc(p, j, p->channels * n)) return false;
  int64_t at = 0;
  do {
    if (!tap_reaches(w, residue, tap, back)) continue;
    int64_t offset = 0;
    for (int d = 0; d < 3; d++) offset = offset * l->pitch[d] + first[d] - back[d] + l->before[d];
    for (int64_t o = 0; o < p->channels; o++) j->offsets[o * n + at] = o * l->channel + offset;
    at++;
  } while (tlk_conv_next_tap(w->kernel, tap));
  Packing packing = {
      .plan = p, .job = j, .weight = weight, .kernel = kernel, .used = used, .nused = n};
  pack(&packing, pack_backward);
  return true;
}

static bool plan_backward(tlk_ConvPlan *p, const char *weight) {
  const tlk_Conv *c = p->conv;
  p->layout = tlk_conv_output_layout(&c->windows);
  p->channels = c->channels_out / c->groups;
  p->rows = c->channels_in / c->groups;
  p->result = tlk_conv_product(c->windows.in);
  choose_tiles(p);
  int64_t residues = tlk_conv_product(c->windows.stride), residue[3] = {0, 0, 0}, first[3];
  size_t bytes = (size_t)tlk_conv_product(c->windows.kernel) * sizeof(int64_t);
  int64_t *used = tli_alloc(bytes);
  p->jobs = tli_alloc((size_t)residues * sizeof *p->jobs);
  p->njobs = residues;
  if (p->jobs) memset(p->jobs, 0, (size_t)residues * sizeof *p->jobs);
  bool ok = used && p->jobs;
  for (int64_t i = 0; ok && i < residues; i++) {
    residue_grid(p, &p->jobs[i], residue, first);
    ok = residue_weights(p, &p->jobs[i], residue, first, weight, used);
    tlk_conv_next_tap(c->windows.stride, residue);
  }
  tli_free(used, bytes);
  return ok;
}

bool tlk_conv_plan(tlk_ConvPlan *p, bool backward, const void *weight) {
  const tlk_Conv *c = p->conv;
  bool wide = c->dtype == TL_F64;
  int64_t rows = (backward ? c->channels_in : c->channels_out) / c->groups;
  int64_t terms = (backward ? c->channels_out : c->channels_in) / c->groups *
                  tlk_conv_product(c->windows.kernel) /
                  (backward ? tlk_conv_product(c->windows.stride) : 1);
  p->lanes = tlk_isa()->conv[wide];
  p->tile = tlk_conv_many(c, rows, terms) ? tlk_isa()->tile[wide] : NULL;
  p->size = wide ? 8 : 4;
  return backward ? plan_backward(p, weight) : plan_forward(p, weight);
}

void tlk_conv_plan_free(tlk_ConvPlan *p) {
  for (int64_t i = 0; p->jobs && i < p->njobs; i++) {
    tlk_ConvJob *j = &p->jobs[i];
    tli_free(j->offsets, (size_t)j->taps * sizeof *j->offsets);
    tli_free(j->weights, weights_bytes(p, j->taps));
  }
  tli_free(p->jobs, (size_t)p->njobs * sizeof *p->jobs);
}
