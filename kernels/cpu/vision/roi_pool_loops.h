/*
** roi_pool_loops.h - the loops of roi_pool.c for the type `real`. roi_pool.c includes this file
** once for each type, and defines `whole`, an integer type of the same size, and NAME, which makes
** the names of a type's functions.
*/

typedef real NAME(Reals) __attribute__((vector_size(GROUP * sizeof(real))));
typedef whole NAME(Wholes) __attribute__((vector_size(GROUP * sizeof(real))));

/* Finds the largest pixels of a cell in GROUP channels, whose planes are `in`, and stores their
** positions in the planes in `at`. The position is -1 if no pixel is above -infinity. */
static inline void NAME(largest)(const Cell *cell, const real *const *in, whole *at) {
  NAME(Reals) best = (NAME(Reals)){0} - (real)INFINITY;
  NAME(Wholes) place = (NAME(Wholes)){0} - 1;
  for (int64_t y = 0; y < cell->rows; y++)
    for (int64_t i = cell->first + y * cell->step, x = 0; x < cell->columns; x++, i++) {
      NAME(Reals) values = {in[0][i], in[1][i], in[2][i], in[3][i]};
      NAME(Wholes) larger = values > best;
      place = (larger & (whole)i) | (~larger & place);
      best = (NAME(Reals))((larger & (NAME(Wholes))values) | (~larger & (NAME(Wholes))best));
    }
  memcpy(at, &place, sizeof place);
}

/* Returns the position of the first pixel of a cell that is not NaN or, if all are NaN, of the
** first pixel. */
static int64_t NAME(first)(const Cell *cell, const real *in) {
  for (int64_t y = 0; y < cell->rows; y++)
    for (int64_t i = cell->first + y * cell->step, x = 0; x < cell->columns; x++, i++)
      if (in[i] == in[i]) return i;
  return cell->first;
}

/* Computes the maxima of GROUP channels from c on in all regions. If only `left` channels are left,
** the last of them is computed several times. */
static void NAME(maxima)(const Run *r, int64_t c, int64_t left) {
  const struct tlk_roi_pool *l = r->call;
  const real *in[GROUP];
  int64_t plane = l->size[0] * l->size[1], own[GROUP];
  for (int q = 0; q < GROUP; q++) own[q] = c + (q < left ? q : left - 1);
  for (int64_t k = 0; k < l->n; k++) {
    int64_t image = image_of(l, k) * l->channels;
    for (int q = 0; q < GROUP; q++) in[q] = (real *)l->images.data + (image + own[q]) * plane;
    for (int64_t i = 0; i < r->count; i++) {
      Cell cell = cell_of(r, k, i / l->grid[1], i % l->grid[1]);
      whole at[GROUP];
      NAME(largest)(&cell, in, at);
      bool is_empty = cell.rows == 0 || cell.columns == 0;
      for (int q = 0; q < GROUP; q++) {
        int64_t to = (k * l->channels + own[q]) * r->count + i;
        int64_t from = is_empty ? 0 : at[q] >= 0 ? at[q] : NAME(first)(&cell, in[q]);
        ((real *)l->cells.data)[to] = is_empty ? 0 : in[q][from];
        if (l->indices)
          l->indices[to] = (is_empty ? r->pixels : (image + own[q]) * plane + from) + 1;
      }
    }
  }
}

/* Computes the means of channel c in all regions, or spreads the values of their cells. */
static void NAME(means)(const Run *r, int64_t c) {
  const struct tlk_roi_pool *l = r->call;
  int64_t plane = l->size[0] * l->size[1];
  for (int64_t k = 0; k < l->n; k++) {
    real *to = (real *)l->cells.data + (k * l->channels + c) * r->count;
    real *in = (real *)l->images.data + (image_of(l, k) * l->channels + c) * r->count * plane;
    for (int64_t i = 0; i < r->count; i++, in += plane) {
      Cell cell = cell_of(r, k, i / l->grid[1], i % l->grid[1]);
      real sum = 0, n = (real)(cell.rows * cell.columns), share = to[i] / n;
      for (int64_t y = 0; y < cell.rows; y++)
        for (int64_t at = cell.first + y * cell.step, x = 0; x < cell.columns; x++, at++)
          if (l->kind == TLK_ROI_SPREAD)
            in[at] += share;
          else
            sum += in[at];
      if (l->kind == TLK_ROI_MEAN) to[i] = n > 0 ? sum / n : 0;
    }
  }
}

/* Computes the groups of channels from `begin` to end - 1. */
static void NAME(groups)(void *context, int64_t begin, int64_t end) {
  const Run *r = context;
  for (int64_t c = begin * GROUP; c < end * GROUP && c < r->call->channels; c++)
    if (r->call->kind != TLK_ROI_MAX)
      NAME(means)(r, c);
    else if (c % GROUP == 0)
      NAME(maxima)(r, c, r->call->channels - c);
}
