/*
** roi_pool.c - pooling of the cells of regions of interest. A task computes one channel of all
** regions, so that its parts of the images stay in the cache, and no two tasks write to the same
** pixel.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/cpu.h"

#define GROUP 4 /* the number of channels whose maxima are computed together */

typedef struct Run {
  const struct tlk_roi_pool *call;
  /* For each region, the pairs of edges of its rows of cells, and then of its columns of cells, as
  ** tlk_roi_edges computes them. */
  int64_t *edges;
  int64_t count;  /* the number of cells of a region */
  int64_t pixels; /* the number of elements of all images */
} Run;

/* The pixels of a cell: `rows` times `columns` of them. The first is element `first` of a plane,
** and a row begins `step` elements after the row before it. */
typedef struct Cell {
  int64_t first, step, rows, columns;
} Cell;

/* Returns the cell in row i and column j of the cells of region k. */
static inline Cell cell_of(const Run *r, int64_t k, int64_t i, int64_t j) {
  const struct tlk_roi_pool *l = r->call;
  const int64_t *y = r->edges + 2 * (k * (l->grid[0] + l->grid[1]) + i);
  const int64_t *x = r->edges + 2 * (k * (l->grid[0] + l->grid[1]) + l->grid[0] + j);
  return (Cell){.first = y[0] * l->size[1] + x[0],
                .step = l->size[1],
                .rows = y[1] - y[0],
                .columns = x[1] - x[0]};
}

/* Returns the number of the image of region k, from 0. */
static inline int64_t image_of(const struct tlk_roi_pool *l, int64_t k) {
  return tlk_roi_clamped(l->boxes[5 * k] - 1, l->count - 1);
}

#define real float
#define whole int32_t
#define NAME(name) name##_f32
#include "kernels/cpu/vision/roi_pool_loops.h"
#undef real
#undef whole
#undef NAME
#define real double
#define whole int64_t
#define NAME(name) name##_f64
#include "kernels/cpu/vision/roi_pool_loops.h"

bool tlk_roi_pool(const struct tlk_roi_pool *call) {
  const int64_t *grid = call->grid;
  Run r = {.call = call, .count = grid[0] * grid[1]};
  r.pixels = call->count * call->channels * call->size[0] * call->size[1];
  size_t bytes = (size_t)(2 * call->n * (grid[0] + grid[1])) * sizeof *r.edges;
  r.edges = tli_alloc(bytes);
  if (r.edges == NULL) return false;
  int64_t *edges = r.edges;
  for (int64_t k = 0; k < call->n; k++)
    for (int side = 0; side < 2; side++)
      for (int64_t i = 0; i < grid[side]; i++, edges += 2)
        tlk_roi_edges(call, call->boxes + 5 * k, side, i, edges);
  bool ok = tli_parallel_try((call->channels + GROUP - 1) / GROUP, 1,
                             call->wide ? groups_f64 : groups_f32, &r);
  tli_free(r.edges, bytes);
  return ok;
}
