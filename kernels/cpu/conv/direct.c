/*
** direct.c - computes the convolution that a plan (plan.h) describes, with SIMD vectors of
** neighbouring positions. Positions are counted through whole rows of the scratch image, including
** padding, so a vector may cross the end of a row. Sums at positions between two rows are
** discarded.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/plan.h"

/* The number of taps (kernel elements) that are summed in one pass over the positions. The weights
** of these taps stay in the cache. */
#define TAPS 384

typedef struct Lanes {
  tlk_ConvPlan *plan;
  /* number of positions of the plan's largest job, rounded up to whole vectors */
  int64_t positions;
  /* number of elements that vector loops may read beyond the end of the scratch image */
  int64_t slack;
} Lanes;

static int64_t round_up(int64_t n, int64_t to) { return tlk_ceil_div(n, to) * to; }

/* Returns the number of contiguous positions from the first to the last result of a job. */
static int64_t job_positions(const tlk_ConvJob *j) {
  for (int d = 0; d < 3; d++)
    if (j->count[d] < 1) return 0;
  return ((j->count[0] - 1) * j->pitch[1] + j->count[1] - 1) * j->pitch[2] + j->count[2];
}

/* Computes rows [begin, end) of a job, and stores their sums in `sums` (rows, positions). */
static void correlate(const Lanes *l, const tlk_ConvJob *j, int64_t group, int64_t begin,
                      int64_t end, const char *image, char *sums) {
  const tlk_ConvPlan *p = l->plan;
  const tlk_ConvLoops *f = p->lanes;
  int64_t height = p->height, step = l->positions;
  int64_t vectors = tlk_ceil_div(job_positions(j), f->lanes);
  const char *weights = (const char *)j->weights + group * p->tiles * j->taps * height * p->size;
  for (int64_t t = 0; t < j->taps; t += TAPS) {
    int64_t taps = tlk_min(TAPS, j->taps - t);
    for (int64_t v = 0; v < vectors; v += f->vectors) {
      int wide = (int)tlk_min(f->vectors, vectors - v);
      const char *x = image + v * f->lanes * p->size;
      for (int64_t tile = begin / height; tile * height < end; tile++) {
        const char *w = weights + (tile * j->taps + t) * height * p->size;
        char *out = sums + ((tile * height - begin) * step + v * f->lanes) * p->size;
        if (height == 1)
          f->row(taps, j->offsets + t, x, w, wide, t > 0, out);
        else
          f->tile(taps, j->offsets + t, x, w, wide, t > 0, out, step);
      }
    }
  }
}

#define STORE_ROW(s, type)                                                                      \
  static void store_row_##s(int64_t n, void *to, int64_t step, const void *from, double bias) { \
    type *out = to, b = (type)bias;                                                             \
    const type *x = from;                                                                       \
    if (step == 1)                                                                              \
      for (int64_t i = 0; i < n; i++) out[i] = x[i] + b;                                        \
    else                                                                                        \
      for (int64_t i = 0; i < n; i++) out[i * step] = x[i] + b;                                 \
  }
STORE_ROW(f32, float)
STORE_ROW(f64, double)

/* Adds the bias to the sums of one channel, and stores the results in the result's grid. */
static void store_grid(const tlk_ConvPlan *p, const tlk_ConvJob *j, const char *sums, char *out,
                       double bias) {
  for (int64_t a = 0; a < j->count[0]; a++)
    for (int64_t b = 0; b < j->count[1]; b++) {
      const char *row = sums + (a * j->pitch[1] + b) * j->pitch[2] * p->size;
      char *to = out + (j->at + a * j->steps[0] + b * j->steps[1]) * p->size;
      if (p->size == 4)
        store_row_f32(j->count[2], to, j->steps[2], row, bias);
      else
        store_row_f64(j->count[2], to, j->steps[2], row, bias);
    }
}

/* Computes one part of the output channels of one group of one image. Several threads may share a
** group. */
static void run_part(const Lanes *l, int64_t image, int64_t group, int64_t part, char *scratch) {
  tlk_ConvPlan *p = l->plan;
  const tlk_Conv *c = p->conv;
  int64_t in = tlk_conv_product(p->layout.sizes) * p->channels * p->size;
  int64_t used = p->channels * p->layout.channel * p->size, height = p->height;
  char *sums = scratch + round_up(used + l->slack * p->size, 64);
  tlk_conv_copy(&p->layout, p->channels, scratch, p->in + (image * c->groups + group) * in,
                p->size);
  int64_t begin = part * p->tiles / p->parts * height;
  int64_t end = tlk_min(p->rows, (part + 1) * p->tiles / p->parts * height);
  for (int64_t i = 0; i < p->njobs; i++) {
    const tlk_ConvJob *j = &p->jobs[i];
    if (begin >= end || job_positions(j) == 0) continue;
    if (tli_interrupted()) p->failed = true;
    if (p->failed) return;
    if (j->taps == 0)
      memset(sums, 0, (size_t)((end - begin) * l->positions * p->size));
    else
      correlate(l, j, group, begin, end, scratch, sums);
    for (int64_t r = begin; r < end; r++) {
      int64_t channel = group * p->rows + r;
      char *out = p->out + (image * c->groups * p->rows + channel) * p->result * p->size;
      store_grid(p, j, sums + (r - begin) * l->positions * p->size, out, tlk_conv_bias(p, channel));
    }
  }
}

static void run_parts(void *context, int64_t begin, int64_t end) {
  const Lanes *l = context;
  tlk_ConvPlan *p = l->plan;
  int64_t image = round_up((p->channels * p->layout.channel + l->slack) * p->size, 64);
  size_t bytes = (size_t)(image + p->tiles * p->height * l->positions * p->size);
  char *scratch = tli_alloc(bytes);
  if (scratch == NULL) {
    p->failed = true;
    return;
  }
  memset(scratch, 0, (size_t)image);
  int64_t groups = p->conv->groups;
  for (int64_t i = begin; i < end; i++)
    run_part(l, i / p->parts / groups, i / p->parts % groups, i % p->parts, scratch);
  tli_free(scratch, bytes);
}

void tlk_conv_run_direct(tlk_ConvPlan *p) {
  const tlk_Conv *c = p->conv;
  Lanes l = {.plan = p};
  for (int64_t i = 0; i < p->njobs; i++)
    l.positions = tlk_max(l.positions, round_up(job_positions(&p->jobs[i]), p->lanes->lanes));
  l.slack = p->lanes->lanes;
  /* if there are few images, several threads share an image, and each of them prepares its own
  ** scratch copy */
  int64_t threads = tl_get_num_threads(), tasks = c->batch * c->groups;
  p->parts = tasks < threads ? tlk_ceil_div(threads, tasks) : 1;
  int64_t work = p->rows * p->jobs[0].taps * l.positions / p->parts;
  tli_parallel_for(tasks * p->parts, tlk_max(1, 4 * TLK_GRAIN / tlk_max(1, work)), run_parts, &l);
}
