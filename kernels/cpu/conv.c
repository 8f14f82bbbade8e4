/*
** conv.c - convolution and its gradients. Everything comes down to two loops
** (conv.h): tiles of correlations, and dot products of shifted rows.
**
** An image is first copied to scratch memory, with its padding. Where windows
** move in steps s > 1 it is split there into planes of every s-th element, so
** that each element of the kernel (a "tap") sees neighbouring windows side by
** side; a tap is then one offset into the image. The gradient of the input is
** such a correlation as well: of the windows' gradients, one for each residue
** of the position modulo the steps, with the taps that reach that residue.
**
** Each output element is summed by one thread in an order that sizes alone
** decide.
*/
#include "kernels/cpu/conv.h"

#include <stdatomic.h>
#include <string.h>

#include "core/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/wide.h"

/* Taps summed in one pass over the positions: their weights stay in cache. */
#define TAPS 384
/* Positions of a dot product between two additions to its result. */
#define DOT_POSITIONS 1024
/* Bytes of images that are prepared at a time for the weight's gradient. */
#define CHUNK_BYTES ((int64_t)8 << 20)

static int64_t product(const int64_t v[3]) { return v[0] * v[1] * v[2]; }
static int64_t round_up(int64_t n, int64_t to) { return tlk_ceil_div(n, to) * to; }

/* ---- images in scratch memory ---- */

/* One channel of an image: `phases` planes of `pitch` elements. Element i of
** dimension d lies in phase (i + before) % step at (i + before) / step. */
typedef struct Layout {
  int64_t sizes[3]; /* of the image */
  int64_t before[3], step[3], phases[3], pitch[3];
  int64_t channel; /* elements */
} Layout;

static void finish_layout(Layout *l) { l->channel = product(l->phases) * product(l->pitch); }

static Layout input_layout(const tlk_Windows *w) {
  Layout l;
  for (int d = 0; d < 3; d++) {
    int64_t reach = w->dilation[d] * (w->kernel[d] - 1) + 1;
    l.sizes[d] = w->in[d];
    l.before[d] = w->padding[d];
    l.step[d] = w->stride[d];
    l.phases[d] = tlk_min(w->stride[d], reach);
    l.pitch[d] = tlk_ceil_div(w->in[d] + 2 * w->padding[d], w->stride[d]);
  }
  finish_layout(&l);
  return l;
}

/* Of the windows' gradients, with zeros where taps reach beyond them. */
static Layout output_layout(const tlk_Windows *w) {
  Layout l;
  for (int d = 0; d < 3; d++) {
    int64_t last = (w->padding[d] + w->in[d] - 1) / w->stride[d];
    l.sizes[d] = w->out[d];
    l.before[d] = w->dilation[d] * (w->kernel[d] - 1) / w->stride[d];
    l.step[d] = 1;
    l.phases[d] = 1;
    l.pitch[d] = l.before[d] + tlk_max(last + 1, w->out[d]);
  }
  finish_layout(&l);
  return l;
}

/* Copies every step-th of n elements. */
static void copy_strided(char *dst, const char *src, int64_t n, int64_t step, int64_t size) {
  if (step == 1) {
    memcpy(dst, src, (size_t)(n * size));
  } else if (size == 4) {
    float *to = (float *)(void *)dst;
    const float *from = (const float *)(const void *)src;
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
  } else {
    double *to = (double *)(void *)dst;
    const double *from = (const double *)(const void *)src;
    for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
  }
}

/* One phase of one row of the image. */
static void copy_row(const Layout *l, char *dst, const char *src, int64_t phase, int64_t size) {
  int64_t first = phase - l->before[2]; /* image position of plane position 0 */
  int64_t skip = first < 0 ? tlk_ceil_div(-first, l->step[2]) : 0;
  int64_t from = first + skip * l->step[2];
  if (from >= l->sizes[2]) return;
  int64_t n = tlk_min(tlk_ceil_div(l->sizes[2] - from, l->step[2]), l->pitch[2] - skip);
  if (n > 0) copy_strided(dst + skip * size, src + from * size, n, l->step[2], size);
}

/* dst, which is zero in the padding, = the channel at src. */
static void copy_channel(const Layout *l, char *dst, const char *src, int64_t size) {
  int64_t plane = product(l->pitch);
  for (int64_t i = 0; i < l->sizes[0]; i++)
    for (int64_t j = 0; j < l->sizes[1]; j++, src += l->sizes[2] * size) {
      int64_t a = i + l->before[0], b = j + l->before[1];
      int64_t pa = a % l->step[0], pb = b % l->step[1];
      if (pa >= l->phases[0] || pb >= l->phases[1]) continue;
      int64_t row = a / l->step[0] * l->pitch[1] + b / l->step[1];
      for (int64_t c = 0; c < l->phases[2]; c++) {
        int64_t phase = (pa * l->phases[1] + pb) * l->phases[2] + c;
        copy_row(l, dst + (phase * plane + row * l->pitch[2]) * size, src, c, size);
      }
    }
}

static void copy_channels(const Layout *l, int64_t channels, char *dst, const char *src,
                          int64_t size) {
  memset(dst, 0, (size_t)(channels * l->channel * size));
  int64_t image = product(l->sizes) * size;
  for (int64_t c = 0; c < channels; c++)
    copy_channel(l, dst + c * l->channel * size, src + c * image, size);
}

/* ---- correlations ---- */

/* A grid of results of `rows` channels, each the sum of `taps` weighted
** elements of the scratch image. */
typedef struct Job {
  int64_t rows, taps;
  int64_t *offsets; /* owned (taps) */
  void *weights;    /* owned (groups, tiles, taps, tile rows) */
  int64_t count[3]; /* results along each dimension */
  int64_t pitch[3]; /* of the scratch image */
  int64_t at;       /* element of the result's plane where the grid begins */
  int64_t steps[3]; /* elements of the result from one to the next */
} Job;

typedef struct Plan {
  const tlk_Conv *conv;
  const tlk_ConvLoops *loops;
  int64_t size; /* of an element */
  Layout layout;
  int64_t channels;  /* of a group in the scratch image */
  int64_t result;    /* elements of a result's plane */
  int64_t positions; /* the most of any job, rounded up to vectors */
  int64_t slack;     /* elements read beyond the scratch image */
  int64_t parts;     /* of a group's rows, shared among threads */
  int64_t njobs;
  Job *jobs; /* owned */
  const char *in, *bias;
  char *out;
  atomic_bool failed;
} Plan;

/* Contiguous positions that cover the grid. */
static int64_t job_positions(const Job *j) {
  for (int d = 0; d < 3; d++)
    if (j->count[d] < 1) return 0;
  return ((j->count[0] - 1) * j->pitch[1] + j->count[1] - 1) * j->pitch[2] + j->count[2];
}

static int64_t tile_rows(const Plan *p, const Job *j) {
  return j->rows * 2 <= p->loops->rows ? 1 : p->loops->rows;
}

static bool job_alloc(const Plan *p, Job *j, int64_t taps) {
  int64_t rows = round_up(j->rows, tile_rows(p, j));
  j->taps = taps;
  j->offsets = tli_alloc((size_t)taps * sizeof *j->offsets);
  j->weights = tli_alloc((size_t)(p->conv->groups * rows * taps * p->size));
  if (j->weights) memset(j->weights, 0, (size_t)(p->conv->groups * rows * taps * p->size));
  return j->offsets && j->weights;
}

static void plan_free(Plan *p) {
  for (int64_t i = 0; p->jobs && i < p->njobs; i++) {
    Job *j = &p->jobs[i];
    int64_t rows = round_up(j->rows, tile_rows(p, j));
    tli_free(j->offsets, (size_t)j->taps * sizeof *j->offsets);
    tli_free(j->weights, (size_t)(p->conv->groups * rows * j->taps * p->size));
  }
  tli_free(p->jobs, (size_t)p->njobs * sizeof *p->jobs);
}

/* Puts the weight of a row for a tap to its place in the tiles. */
static void put_weight(const Plan *p, const Job *j, int64_t group, int64_t row, int64_t tap,
                       const char *weight) {
  int64_t height = tile_rows(p, j), tiles = tlk_ceil_div(j->rows, height);
  int64_t at = ((group * tiles + row / height) * j->taps + tap) * height + row % height;
  memcpy((char *)j->weights + at * p->size, weight, (size_t)p->size);
}

/* Where a tap reads in the scratch image of a channel of the input. */
static int64_t input_offset(const Layout *l, const tlk_Windows *w, const int64_t tap[3]) {
  int64_t phase = 0, at = 0;
  for (int d = 0; d < 3; d++) {
    int64_t reach = tap[d] * w->dilation[d];
    phase = phase * l->phases[d] + reach % l->step[d];
    at = at * l->pitch[d] + reach / l->step[d];
  }
  return phase * product(l->pitch) + at;
}

/* Steps tap through the kernel, last dimension first; false at its end. */
static bool next_tap(const int64_t kernel[3], int64_t tap[3]) {
  for (int d = 2; d >= 0; d--) {
    if (++tap[d] < kernel[d]) return true;
    tap[d] = 0;
  }
  return false;
}

static bool plan_forward(Plan *p, const char *weight) {
  const tlk_Conv *c = p->conv;
  const tlk_Windows *w = &c->windows;
  p->layout = input_layout(w);
  p->channels = c->channels_in / c->groups;
  p->result = product(w->out);
  p->njobs = 1;
  p->jobs = tli_alloc(sizeof *p->jobs);
  if (p->jobs == NULL) return false;
  Job *j = p->jobs;
  *j = (Job){.rows = c->channels_out / c->groups, .steps = {w->out[1] * w->out[2], w->out[2], 1}};
  memcpy(j->count, w->out, sizeof j->count);
  memcpy(j->pitch, p->layout.pitch, sizeof j->pitch);
  int64_t kernel = product(w->kernel), taps = p->channels * kernel;
  if (!job_alloc(p, j, taps)) return false;
  int64_t tap[3] = {0, 0, 0}, k = 0;
  do {
    int64_t offset = input_offset(&p->layout, w, tap);
    for (int64_t i = 0; i < p->channels; i++)
      j->offsets[i * kernel + k] = i * p->layout.channel + offset;
    k++;
  } while (next_tap(w->kernel, tap));
  for (int64_t o = 0; o < c->channels_out; o++)
    for (int64_t t = 0; t < taps; t++)
      put_weight(p, j, o / j->rows, o % j->rows, t, weight + (o * taps + t) * p->size);
  return true;
}

/* ---- the input's gradient ---- */

/* Whether a tap reaches positions with that residue, and by how many windows it
** then lies back. */
static bool tap_reaches(const tlk_Windows *w, const int64_t residue[3], const int64_t tap[3],
                        int64_t back[3]) {
  for (int d = 0; d < 3; d++) {
    int64_t reach = tap[d] * w->dilation[d];
    if (reach % w->stride[d] != residue[d]) return false;
    back[d] = (reach - residue[d]) / w->stride[d];
  }
  return true;
}

/* The grid of input positions with that residue. */
static void residue_grid(const Plan *p, Job *j, const int64_t residue[3], int64_t first[3]) {
  const tlk_Windows *w = &p->conv->windows;
  int64_t strides[] = {w->in[1] * w->in[2], w->in[2], 1};
  for (int d = 0; d < 3; d++) {
    int64_t begin = w->padding[d] - residue[d]; /* windows begin * stride ... */
    first[d] = begin > 0 ? tlk_ceil_div(begin, w->stride[d]) : 0;
    int64_t last = w->padding[d] + w->in[d] - 1 - residue[d];
    j->count[d] = last < 0 ? 0 : last / w->stride[d] - first[d] + 1;
    j->pitch[d] = p->layout.pitch[d];
    j->steps[d] = strides[d] * w->stride[d];
    j->at += (first[d] * w->stride[d] + residue[d] - w->padding[d]) * strides[d];
  }
}

static bool plan_residue(Plan *p, Job *j, const int64_t residue[3], const char *weight) {
  const tlk_Conv *c = p->conv;
  const tlk_Windows *w = &c->windows;
  const Layout *l = &p->layout;
  int64_t first[3], back[3], tap[3] = {0, 0, 0}, used = 0, kernel = product(w->kernel);
  *j = (Job){.rows = c->channels_in / c->groups};
  residue_grid(p, j, residue, first);
  do used += tap_reaches(w, residue, tap, back);
  while (next_tap(w->kernel, tap));
  if (!job_alloc(p, j, p->channels * used)) return false;
  int64_t at = 0, k = 0;
  do {
    if (tap_reaches(w, residue, tap, back)) {
      int64_t offset = 0;
      for (int d = 0; d < 3; d++) offset = offset * l->pitch[d] + first[d] - back[d] + l->before[d];
      for (int64_t o = 0; o < c->channels_out; o++) {
        int64_t own = o % p->channels, t = own * used + at;
        j->offsets[t] = own * l->channel + offset;
        for (int64_t i = 0; i < j->rows; i++)
          put_weight(p, j, o / p->channels, i, t,
                     weight + ((o * j->rows + i) * kernel + k) * p->size);
      }
      at++;
    }
    k++;
  } while (next_tap(w->kernel, tap));
  return true;
}

static bool plan_backward(Plan *p, const char *weight) {
  const tlk_Conv *c = p->conv;
  p->layout = output_layout(&c->windows);
  p->channels = c->channels_out / c->groups;
  p->result = product(c->windows.in);
  int64_t residues = product(c->windows.stride), residue[3] = {0, 0, 0};
  p->jobs = tli_alloc((size_t)residues * sizeof *p->jobs);
  if (p->jobs == NULL) return false;
  memset(p->jobs, 0, (size_t)residues * sizeof *p->jobs);
  p->njobs = residues;
  for (int64_t i = 0; i < residues; i++) {
    if (!plan_residue(p, &p->jobs[i], residue, weight)) return false;
    next_tap(c->windows.stride, residue);
  }
  return true;
}

/* ---- running ---- */

/* Rows [begin, end) of a job's positions into sums (rows, positions). */
static void correlate(const Plan *p, const Job *j, int64_t group, int64_t begin, int64_t end,
                      const char *image, char *sums) {
  const tlk_ConvLoops *f = p->loops;
  int64_t height = tile_rows(p, j), tiles = tlk_ceil_div(j->rows, height);
  int64_t vectors = tlk_ceil_div(job_positions(j), f->lanes), step = p->positions;
  const char *weights = (const char *)j->weights + group * tiles * j->taps * height * p->size;
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

/* Writes the grid out of one channel's sums, or zeros where no tap reaches. */
static void store_grid(const Plan *p, const Job *j, const char *sums, char *out, double bias) {
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

static double bias_at(const Plan *p, int64_t channel) {
  if (p->bias == NULL) return 0;
  return p->size == 4 ? (double)((const float *)(const void *)p->bias)[channel]
                      : ((const double *)(const void *)p->bias)[channel];
}

/* A part of the rows of one group of one image. */
static void run_part(const Plan *p, int64_t image, int64_t group, int64_t part, char *scratch) {
  const tlk_Conv *c = p->conv;
  int64_t in = product(p->layout.sizes) * p->channels * p->size;
  char *sums = scratch + round_up((p->channels * p->layout.channel + p->slack) * p->size, 64);
  copy_channels(&p->layout, p->channels, scratch, p->in + (image * c->groups + group) * in,
                p->size);
  memset(scratch + p->channels * p->layout.channel * p->size, 0, (size_t)(p->slack * p->size));
  for (int64_t i = 0; i < p->njobs; i++) {
    const Job *j = &p->jobs[i];
    int64_t height = tile_rows(p, j), tiles = tlk_ceil_div(j->rows, height);
    int64_t begin = part * tiles / p->parts * height;
    int64_t end = tlk_min(j->rows, (part + 1) * tiles / p->parts * height);
    if (begin >= end || job_positions(j) == 0) continue;
    if (j->taps == 0)
      memset(sums, 0, (size_t)((end - begin) * p->positions * p->size));
    else
      correlate(p, j, group, begin, end, scratch, sums);
    for (int64_t r = begin; r < end; r++) {
      int64_t channel = group * j->rows + r;
      char *out = p->out + (image * c->groups * j->rows + channel) * p->result * p->size;
      store_grid(p, j, sums + (r - begin) * p->positions * p->size, out, bias_at(p, channel));
    }
  }
}

static size_t scratch_bytes(const Plan *p) {
  int64_t rows = round_up(p->jobs[0].rows, p->loops->rows);
  return (size_t)(round_up((p->channels * p->layout.channel + p->slack) * p->size, 64) +
                  rows * p->positions * p->size);
}

static void run_parts(void *context, int64_t begin, int64_t end) {
  Plan *p = context;
  size_t bytes = scratch_bytes(p);
  char *scratch = tli_alloc(bytes);
  if (scratch == NULL) {
    p->failed = true;
    return;
  }
  int64_t groups = p->conv->groups;
  for (int64_t i = begin; i < end; i++)
    run_part(p, i / p->parts / groups, i / p->parts % groups, i % p->parts, scratch);
  tli_free(scratch, bytes);
}

static bool run(Plan *p) {
  const tlk_Conv *c = p->conv;
  for (int64_t i = 0; i < p->njobs; i++)
    p->positions = tlk_max(p->positions, round_up(job_positions(&p->jobs[i]), p->loops->lanes));
  p->slack = p->positions + p->loops->lanes;
  /* few images: several threads on each, which copy it once each */
  int64_t threads = tl_get_num_threads(), tasks = c->batch * c->groups;
  p->parts = tasks < threads ? tlk_ceil_div(threads, tasks) : 1;
  int64_t work = p->jobs[0].rows * p->jobs[0].taps * p->positions / p->parts;
  tli_parallel_for(tasks * p->parts, tlk_max(1, 4 * TLK_GRAIN / tlk_max(1, work)), run_parts, p);
  return !p->failed;
}

static bool correlation(const tlk_Conv *conv, bool backward, void *out, const void *in,
                        const void *weight, const void *bias) {
  bool wide = conv->dtype == TL_F64;
  Plan p = {.conv = conv,
            .loops = tlk_isa()->conv[wide],
            .size = wide ? 8 : 4,
            .in = in,
            .bias = bias,
            .out = out};
  bool ok = (backward ? plan_backward(&p, weight) : plan_forward(&p, weight)) && run(&p);
  plan_free(&p);
  return ok;
}

/* ---- the weight's gradient ---- */

typedef struct Dots {
  const tlk_Conv *conv;
  const tlk_ConvLoops *loops;
  int64_t size;
  Layout layout;
  int64_t channels, rows, taps; /* of a group */
  int64_t row_tiles, tap_tiles;
  int64_t positions;          /* rounded up to vectors */
  int64_t in_step, grad_step; /* elements from image to image in scratch */
  int64_t *offsets;           /* (tap_tiles * dot_taps) */
  const char *in, *grad;
  char *in_scratch, *grad_scratch;
  char *out;
  int64_t first, images; /* the chunk */
} Dots;

static void dots_layout(Dots *d) {
  const tlk_Conv *c = d->conv;
  const tlk_Windows *w = &c->windows;
  d->layout = input_layout(w);
  d->channels = c->channels_in / c->groups;
  d->rows = c->channels_out / c->groups;
  d->taps = d->channels * product(w->kernel);
  d->row_tiles = tlk_ceil_div(d->rows, d->loops->dot_rows);
  d->tap_tiles = tlk_ceil_div(d->taps, d->loops->dot_taps);
  Job grid = {.count = {w->out[0], w->out[1], w->out[2]}};
  memcpy(grid.pitch, d->layout.pitch, sizeof grid.pitch);
  d->positions = round_up(job_positions(&grid), d->loops->lanes);
  d->in_step = round_up(c->channels_in * d->layout.channel + d->positions, 16);
  d->grad_step = c->groups * d->row_tiles * d->loops->dot_rows * d->positions;
}

/* The last tile is filled up with the last tap; what it gives is not used. */
static void fill_offsets(Dots *d) {
  const tlk_Windows *w = &d->conv->windows;
  int64_t kernel = product(w->kernel);
  for (int64_t t = 0; t < d->tap_tiles * d->loops->dot_taps; t++) {
    int64_t own = tlk_min(t, d->taps - 1), k = own % kernel;
    int64_t tap[] = {k / (w->kernel[1] * w->kernel[2]), k / w->kernel[2] % w->kernel[1],
                     k % w->kernel[2]};
    d->offsets[t] = own / kernel * d->layout.channel + input_offset(&d->layout, w, tap);
  }
}

/* The windows' gradients of one image in the image's pitch, zeros between. */
static void copy_gradient(const Dots *d, char *dst, const char *src) {
  const tlk_Windows *w = &d->conv->windows;
  const int64_t *pitch = d->layout.pitch;
  memset(dst, 0, (size_t)(d->grad_step * d->size));
  for (int64_t o = 0; o < d->conv->channels_out; o++) {
    int64_t row = o / d->rows * d->row_tiles * d->loops->dot_rows + o % d->rows;
    char *channel = dst + row * d->positions * d->size;
    for (int64_t a = 0; a < w->out[0]; a++)
      for (int64_t b = 0; b < w->out[1]; b++) {
        memcpy(channel + (a * pitch[1] + b) * pitch[2] * d->size, src,
               (size_t)(w->out[2] * d->size));
        src += w->out[2] * d->size;
      }
  }
}

static void prepare_images(void *context, int64_t begin, int64_t end) {
  const Dots *d = context;
  const tlk_Conv *c = d->conv;
  int64_t in = c->channels_in * product(c->windows.in);
  int64_t out = c->channels_out * product(c->windows.out);
  for (int64_t i = begin; i < end; i++) {
    char *image = d->in_scratch + i * d->in_step * d->size;
    int64_t used = c->channels_in * d->layout.channel;
    copy_channels(&d->layout, c->channels_in, image, d->in + (d->first + i) * in * d->size,
                  d->size);
    memset(image + used * d->size, 0, (size_t)((d->in_step - used) * d->size));
    copy_gradient(d, d->grad_scratch + i * d->grad_step * d->size,
                  d->grad + (d->first + i) * out * d->size);
  }
}

/* Adds a tile's sums to the result. */
static void add_tile(const Dots *d, int64_t group, int64_t row, int64_t tap, const double *sums) {
  int64_t width = d->loops->dot_taps;
  for (int64_t r = 0; r < d->loops->dot_rows && row + r < d->rows; r++)
    for (int64_t t = 0; t < width && tap + t < d->taps; t++) {
      int64_t at = (group * d->rows + row + r) * d->taps + tap + t;
      if (d->size == 4)
        ((float *)(void *)d->out)[at] += ((const float *)(const void *)sums)[r * width + t];
      else
        ((double *)(void *)d->out)[at] += sums[r * width + t];
    }
}

/* Rows of tiles; images are taken together while their gradients stay in cache. */
static void dot_tiles(void *context, int64_t begin, int64_t end) {
  const Dots *d = context;
  const tlk_ConvLoops *f = d->loops;
  int64_t span = tlk_min(d->positions, DOT_POSITIONS);
  int64_t together = tlk_max(1, DOT_POSITIONS / span);
  for (int64_t i = begin; i < end; i++) {
    int64_t group = i / d->row_tiles, row = i % d->row_tiles * f->dot_rows;
    const char *grad =
        d->grad_scratch + (group * d->row_tiles * f->dot_rows + row) * d->positions * d->size;
    const char *in = d->in_scratch + group * d->channels * d->layout.channel * d->size;
    for (int64_t image = 0; image < d->images; image += together)
      for (int64_t at = 0; at < d->positions; at += span)
        for (int64_t tile = 0; tile < d->tap_tiles; tile++) {
          double sums[64] = {0}; /* of either type */
          f->dots(tlk_min(together, d->images - image), tlk_min(span, d->positions - at),
                  d->offsets + tile * f->dot_taps, in + (image * d->in_step + at) * d->size,
                  d->in_step, grad + (image * d->grad_step + at) * d->size, d->grad_step,
                  d->positions, sums);
          add_tile(d, group, row, tile * f->dot_taps, sums);
        }
  }
}

static bool weight_gradient(Dots *d) {
  const tlk_Conv *c = d->conv;
  int64_t each = (d->in_step + d->grad_step) * d->size;
  int64_t chunk = tlk_max(1, tlk_min(c->batch, CHUNK_BYTES / each));
  size_t in = (size_t)(chunk * d->in_step * d->size),
         grad = (size_t)(chunk * d->grad_step * d->size);
  d->in_scratch = tli_alloc(in);
  d->grad_scratch = tli_alloc(grad);
  bool ok = d->in_scratch && d->grad_scratch;
  int64_t work = d->loops->dot_rows * d->taps * d->positions * chunk;
  for (d->first = 0; ok && d->first < c->batch; d->first += chunk) {
    d->images = tlk_min(chunk, c->batch - d->first);
    tli_parallel_for(d->images, tlk_max(1, TLK_GRAIN / (each / d->size)), prepare_images, d);
    tli_parallel_for(c->groups * d->row_tiles, tlk_max(1, 4 * TLK_GRAIN / work), dot_tiles, d);
  }
  tli_free(d->in_scratch, in);
  tli_free(d->grad_scratch, grad);
  return ok;
}

static bool weight_correlation(const tlk_Conv *conv, void *grad_weight, const void *in,
                               const void *grad_out) {
  bool wide = conv->dtype == TL_F64;
  Dots d = {.conv = conv,
            .loops = tlk_isa()->conv[wide],
            .size = wide ? 8 : 4,
            .in = in,
            .grad = grad_out,
            .out = grad_weight};
  dots_layout(&d);
  memset(grad_weight, 0, (size_t)(conv->channels_out * d.taps * d.size));
  size_t bytes = (size_t)(d.tap_tiles * d.loops->dot_taps) * sizeof *d.offsets;
  d.offsets = tli_alloc(bytes);
  if (d.offsets == NULL) return false;
  fill_offsets(&d);
  bool ok = weight_gradient(&d);
  tli_free(d.offsets, bytes);
  return ok;
}

/* ---- the members of the table: any floating dtype ---- */

typedef struct Sizes {
  int64_t in, out, weight;
} Sizes;

static Sizes sizes_of(const tlk_Conv *c) {
  return (Sizes){c->batch * c->channels_in * product(c->windows.in),
                 c->batch * c->channels_out * product(c->windows.out),
                 c->channels_out * (c->channels_in / c->groups) * product(c->windows.kernel)};
}

typedef enum Which { FORWARD, INPUT, WEIGHT } Which;

/* Runs on arrays of one dtype to compute in; `to` is written. */
static bool dispatch(const tlk_Conv *c, Which which, void *to, const void *a, const void *b,
                     const void *bias) {
  if (which == WEIGHT) return weight_correlation(c, to, a, b);
  return correlation(c, which == INPUT, to, a, b, bias);
}

static bool in_wide(const tlk_Conv *c, Which which, void *to, int64_t nto, const void *a,
                    int64_t na, const void *b, int64_t nb, const void *bias) {
  if (c->dtype == TL_F32 || c->dtype == TL_F64) return dispatch(c, which, to, a, b, bias);
  tlk_Conv wide = *c;
  wide.dtype = TL_F32;
  tlk_Array out = {to, c->dtype}, x = {(void *)(intptr_t)a, c->dtype};
  tlk_Array y = {(void *)(intptr_t)b, c->dtype}, z = {(void *)(intptr_t)bias, c->dtype};
  tlk_Array wout = tlk_widen(out, nto, false), wx = tlk_widen(x, na, true);
  tlk_Array wy = tlk_widen(y, nb, true), wz = tlk_widen(z, c->channels_out, true);
  bool ok = wout.data && wx.data && wy.data && (bias == NULL || wz.data) &&
            dispatch(&wide, which, wout.data, wx.data, wy.data, wz.data);
  if (ok)
    tlk_narrow(out, wout, nto);
  else
    tlk_drop(wout, out, nto);
  tlk_drop(wx, x, na);
  tlk_drop(wy, y, nb);
  tlk_drop(wz, z, c->channels_out);
  return ok;
}

bool tlk_conv(const tlk_Conv *conv, void *out, const void *in, const void *weight,
              const void *bias) {
  Sizes n = sizes_of(conv);
  return in_wide(conv, FORWARD, out, n.out, in, n.in, weight, n.weight, bias);
}

bool tlk_conv_input(const tlk_Conv *conv, void *grad_in, const void *grad_out, const void *weight) {
  Sizes n = sizes_of(conv);
  return in_wide(conv, INPUT, grad_in, n.in, grad_out, n.out, weight, n.weight, NULL);
}

bool tlk_conv_weight(const tlk_Conv *conv, void *grad_weight, const void *in,
                     const void *grad_out) {
  Sizes n = sizes_of(conv);
  return in_wide(conv, WEIGHT, grad_weight, n.weight, in, n.in, grad_out, n.out, NULL);
}
