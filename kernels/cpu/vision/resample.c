/*
** resample.c - resampling along one dimension. Along the last dimension, elements are summed one by
** one; along other dimensions, whole rows of elements are summed.
*/
#include "kernels/cpu/vision/resample.h"

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

/* Resamples lines [begin, end) along the last dimension. */
static void run_lines(void *context, int64_t begin, int64_t end) {
  const Run *s = context;
  const tlk_Resample *r = s->r;
  for (int64_t i = begin; i < end; i++)
    s->loops->line(r->out, r->terms, r->first, r->at, s->weights, s->in + i * r->in * s->size,
                   s->out + i * r->out * s->size);
}

/* Computes rows [begin, end) of the result; rows are numbered through the outer dimensions. */
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

bool tlk_resample(const struct tlk_resample *call) {
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
