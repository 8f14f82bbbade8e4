/*
** rearrange.c - operators that join, split and rotate tensors, composed of views, cat and flip.
*/
#include <string.h>

#include "ops/chain.h"

/* ---- adding dimensions ---- */

/* Returns a view with dimensions of size 1 added: `front` dimensions before and `behind` dimensions
** after those of self. */
static tl_Tensor *padded(tl_Tensor *self, int front, int behind) {
  if (front + behind == 0) return tli_retain(self);
  int64_t sizes[TL_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < front; d++) sizes[n++] = 1;
  for (int d = 0; d < self->ndim; d++) sizes[n++] = self->sizes[d];
  for (int d = 0; d < behind; d++) sizes[n++] = 1;
  return tlo_view(self, (tl_Ints){n, sizes});
}

tl_Tensor *tlo_atleast_1d(tl_Tensor *self) { return padded(self, self->ndim < 1, 0); }

/* Returns self with at least two dimensions. A vector becomes a row. */
tl_Tensor *tlo_atleast_2d(tl_Tensor *self) {
  return padded(self, self->ndim < 2 ? 2 - self->ndim : 0, 0);
}

/* Returns self with at least three dimensions. A vector (n) becomes (1, n, 1), and a matrix (m, n)
** becomes (m, n, 1). */
tl_Tensor *tlo_atleast_3d(tl_Tensor *self) {
  return padded(self, self->ndim < 2 ? 2 - self->ndim : 0, self->ndim < 3);
}

static bool each(tl_Tensors tensors, tl_Tensor *(*fn)(tl_Tensor *), tl_Tensors *out) {
  tl_Tensors list = tli_tensors_new(tensors.n);
  bool ok = list.v != NULL;
  for (int64_t i = 0; ok && i < list.n; i++) ok = (list.v[i] = fn(tensors.v[i])) != NULL;
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

bool tlo_atleast_1d_list(tl_Tensors tensors, tl_Tensors *out) {
  return each(tensors, tlo_atleast_1d, out);
}
bool tlo_atleast_2d_list(tl_Tensors tensors, tl_Tensors *out) {
  return each(tensors, tlo_atleast_2d, out);
}
bool tlo_atleast_3d_list(tl_Tensors tensors, tl_Tensors *out) {
  return each(tensors, tlo_atleast_3d, out);
}

static tl_Tensor *as_column(tl_Tensor *self) {
  return padded(self, 0, self->ndim < 2 ? 2 - self->ndim : 0);
}

/* ---- joining ---- */

static tl_Tensor *each_then_cat(const char *op, tl_Tensors tensors, tl_Tensor *(*fn)(tl_Tensor *),
                                int dim) {
  if (tensors.n == 0) return tli_fail_null(TL_EARG, "%s: expected at least one tensor", op);
  tl_Tensors list;
  bool ok = each(tensors, fn, &list);
  int64_t last = ok ? list.v[0]->ndim - 1 : 0;
  tl_Tensor *result = ok ? tlo_cat(list, dim < last ? dim : last) : NULL;
  tli_tensors_free(&list);
  return result;
}

tl_Tensor *tlo_hstack(tl_Tensors tensors) {
  return each_then_cat("hstack", tensors, tlo_atleast_1d, 1);
}
tl_Tensor *tlo_vstack(tl_Tensors tensors) {
  return each_then_cat("vstack", tensors, tlo_atleast_2d, 0);
}
tl_Tensor *tlo_dstack(tl_Tensors tensors) {
  return each_then_cat("dstack", tensors, tlo_atleast_3d, 2);
}
tl_Tensor *tlo_column_stack(tl_Tensors tensors) {
  return each_then_cat("column_stack", tensors, as_column, 1);
}

/* Converts the matrix to dtype and pads it with `before` columns of zeros on the left and `after`
** columns on the right. */
static tl_Tensor *block_row(tl_Tensor *matrix, int64_t before, int64_t after, tl_DType dtype) {
  int64_t left[] = {matrix->sizes[0], before}, right[] = {matrix->sizes[0], after};
  tl_Device device = tli_device(matrix);
  tli_Chain c = {0};
  tl_Tensor *row[] = {TLI_STEP(&c, tlo_zeros((tl_Ints){2, left}, dtype, device)),
                      chain_to(&c, matrix, dtype),
                      TLI_STEP(&c, tlo_zeros((tl_Ints){2, right}, dtype, device))};
  return tli_chain_end(&c, TLI_STEP(&c, tlo_cat((tl_Tensors){3, row}, 1)));
}

tl_Tensor *tlo_block_diag(tl_Tensors tensors) {
  tl_Tensors rows = tli_tensors_new(tensors.n);
  tl_Tensor *result = NULL;
  bool ok = rows.v != NULL;
  int64_t before = 0, width = 0;
  tl_DType dtype = TL_F32;
  for (int64_t i = 0; ok && i < tensors.n; i++) {
    if (tensors.v[i]->ndim > 2)
      ok = tli_fail(TL_ESHAPE, "block_diag: expected matrices, got shape %s",
                    tli_sizes_str(tensors.v[i]));
    tl_DType own = (tl_DType)tensors.v[i]->dtype;
    dtype = i == 0 ? own : tli_dtype_promote(dtype, own);
    width += tensors.v[i]->ndim > 0 ? tensors.v[i]->sizes[tensors.v[i]->ndim - 1] : 1;
  }
  for (int64_t i = 0; ok && i < tensors.n; i++) {
    tl_Tensor *matrix = tlo_atleast_2d(tensors.v[i]);
    int64_t own = matrix ? matrix->sizes[1] : 0;
    rows.v[i] = matrix ? block_row(matrix, before, width - before - own, dtype) : NULL;
    ok = rows.v[i] != NULL;
    before += own;
    tli_release(matrix);
  }
  if (ok && tensors.n == 0)
    result = tlo_zeros((tl_Ints){2, (int64_t[]){1, 0}}, TL_NODTYPE, TLI_NODEVICE);
  else if (ok)
    result = tlo_cat(rows, 0);
  tli_tensors_free(&rows);
  return result;
}

/* ---- grids ---- */

bool tlo_broadcast_tensors(tl_Tensors tensors, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY(tli_broadcast_shape("broadcast_tensors", tensors.v, (int)tensors.n, &ndim, sizes));
  tl_Tensors list = tli_tensors_new(tensors.n);
  bool ok = list.v != NULL;
  for (int64_t i = 0; ok && i < list.n; i++)
    ok = (list.v[i] = tlo_expand(tensors.v[i], (tl_Ints){ndim, sizes})) != NULL;
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

/* Reshapes a vector to n dimensions, of which it extends along dimension d, and expands the result
** to the shape `sizes`. */
static tl_Tensor *grid_part(tl_Tensor *vector, int64_t d, int64_t n, const int64_t *sizes) {
  int64_t line[TL_MAX_DIMS];
  for (int64_t k = 0; k < n; k++) line[k] = k == d ? sizes[k] : 1;
  tl_Tensor *t = tlo_reshape(vector, (tl_Ints){n, line});
  tl_Tensor *result = t ? tlo_expand(t, (tl_Ints){n, sizes}) : NULL;
  tli_release(t);
  return result;
}

static bool check_grid(tl_Tensors tensors, const char *indexing) {
  if (strcmp(indexing, "ij") != 0 && strcmp(indexing, "xy") != 0)
    return tli_fail(TL_EARG, "meshgrid: indexing: expected \"ij\" or \"xy\", got \"%s\"", indexing);
  if (tensors.n == 0) return tli_fail(TL_EARG, "meshgrid: expected at least one tensor");
  TL_TRY(tli_check_ndim("meshgrid", tensors.n));
  for (int64_t i = 0; i < tensors.n; i++) {
    if (tensors.v[i]->ndim > 1)
      return tli_fail(TL_ESHAPE, "meshgrid: expected vectors, got shape %s",
                      tli_sizes_str(tensors.v[i]));
    if (tensors.v[i]->dtype != tensors.v[0]->dtype)
      return tli_fail(TL_EDTYPE, "meshgrid: expected tensors of one dtype, got %s and %s",
                      tl_dtype_name((tl_DType)tensors.v[0]->dtype),
                      tl_dtype_name((tl_DType)tensors.v[i]->dtype));
  }
  return true;
}

bool tlo_meshgrid(tl_Tensors tensors, const char *indexing, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  TL_TRY(check_grid(tensors, indexing));
  bool swaps = strcmp(indexing, "xy") == 0 && tensors.n > 1;
  int64_t sizes[TL_MAX_DIMS];
  for (int64_t i = 0; i < tensors.n; i++) sizes[swaps && i < 2 ? 1 - i : i] = tensors.v[i]->numel;
  tl_Tensors list = tli_tensors_new(tensors.n);
  bool ok = list.v != NULL;
  for (int64_t i = 0; ok && i < list.n; i++) {
    int64_t d = swaps && i < 2 ? 1 - i : i;
    ok = (list.v[i] = grid_part(tensors.v[i], d, tensors.n, sizes)) != NULL;
  }
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

/* ---- combinations ---- */

tl_Tensor *tlo_cartesian_prod(tl_Tensors tensors) {
  for (int64_t i = 0; i < tensors.n; i++)
    if (tensors.v[i]->ndim != 1)
      return tli_fail_null(TL_ESHAPE, "cartesian_prod: tensors: expected vectors, got shape %s",
                           tli_sizes_str(tensors.v[i]));
  if (tensors.n == 1) return tli_retain(tensors.v[0]);
  tl_Tensors grids = {0, NULL}, columns = tli_tensors_new(tensors.n);
  bool ok = columns.v && tlo_meshgrid(tensors, "ij", &grids);
  for (int64_t i = 0; ok && i < columns.n; i++)
    ok = (columns.v[i] = tlo_reshape(grids.v[i], (tl_Ints){1, (int64_t[]){-1}})) != NULL;
  tli_tensors_free(&grids);
  tl_Tensor *result = ok ? tlo_stack(columns, 1) : NULL;
  tli_tensors_free(&columns);
  return result;
}

/* Returns the number of ways to choose r of n elements, or -1 if the number is too large for a
** tensor. */
static int64_t count_choices(int64_t n, int64_t r) {
  int64_t count = 1;
  if (r > n) return 0;
  /* choosing r elements is the same as choosing the n - r elements to leave out */
  if (r > n - r) r = n - r;
  /* the division is exact: any i + 1 consecutive integers have a product that is a multiple of the
  ** factorial of i + 1 */
  for (int64_t i = 0; i < r; i++) {
    if (__builtin_mul_overflow(count, n - i, &count)) return -1;
    count /= i + 1;
  }
  return count;
}

/* Writes `count` combinations one after the other. A combination is a list of r positions, counted
** from 1. With step 1 each position is larger than the previous one; with step 0 positions may be
** equal. */
static void write_choices(int64_t *to, int64_t count, int64_t n, int64_t r, int64_t step) {
  for (int64_t k = 0; k < r; k++) to[k] = 1 + k * step;
  for (int64_t i = 1; i < count; i++, to += r) {
    int64_t k = r - 1; /* finds the last entry whose position can still increase */
    while (to[k] == n - (r - 1 - k) * step) k--;
    for (int64_t j = 0; j < r; j++) to[r + j] = j < k ? to[j] : to[k] + 1 + (j - k) * step;
  }
}

tl_Tensor *tlo_combinations(tl_Tensor *self, int64_t r, bool with_replacement) {
  if (self->ndim != 1)
    return tli_fail_null(TL_ESHAPE, "combinations: self: expected a vector, got shape %s",
                         tli_sizes_str(self));
  if (r < 0) return tli_fail_null(TL_EARG, "combinations: r: expected at least 0, got %" PRId64, r);
  if (r == 0) return tlo_empty((tl_Ints){1, &r}, (tl_DType)self->dtype, tli_device(self), NULL);
  int64_t n = self->sizes[0], count = with_replacement && n == 0 ? 0 : -1;
  if (!with_replacement)
    count = count_choices(n, r);
  else if (n > 0 && r <= INT64_MAX - n)
    count = count_choices(n + r - 1, r);
  int64_t sizes[] = {count, r}, all;
  if (count < 0 || __builtin_mul_overflow(count, r, &all))
    return tli_fail_null(TL_EARG, "combinations: the result would be too large");
  tli_Chain c = {0};
  tl_Tensor *choices = TLI_STEP(&c, tli_new("combinations", (tl_Ints){1, &all}, TL_I64, TLI_CPU));
  if (choices && count > 0) write_choices(tli_data(choices), count, n, r, with_replacement ? 0 : 1);
  tl_Tensor *at = TLI_STEP(&c, tlo_to(choices, TL_NODTYPE, false, false, tli_device(self), NULL));
  tl_Tensor *chosen = TLI_STEP(&c, tlo_index_select(self, 0, at));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(chosen, (tl_Ints){2, sizes})));
}

/* ---- flips and rotations ---- */

tl_Tensor *tlo_fliplr(tl_Tensor *self) {
  if (self->ndim < 2)
    return tli_fail_null(TL_ESHAPE, "fliplr: expected at least 2 dimensions, got shape %s",
                         tli_sizes_str(self));
  return tlo_flip(self, (tl_Ints){1, (int64_t[]){1}});
}

tl_Tensor *tlo_flipud(tl_Tensor *self) {
  if (self->ndim < 1)
    return tli_fail_null(TL_ESHAPE, "flipud: expected a tensor of at least one dimension");
  return tlo_flip(self, (tl_Ints){1, (int64_t[]){0}});
}

tl_Tensor *tlo_rot90(tl_Tensor *self, int64_t k, tl_Ints dims) {
  bool marked[TL_MAX_DIMS];
  if (self->ndim < 2 || dims.n != 2)
    return tli_fail_null(
        TL_EARG,
        "rot90: expected at least 2 dimensions and 2 of them to turn in, got shape "
        "%s and %" PRId64,
        tli_sizes_str(self), dims.n);
  TL_TRY_NULL(tli_mark_dims("rot90", dims, self->ndim, marked));
  k = (k % 4 + 4) % 4;
  if (k == 0) return tlo_clone(self);
  if (k == 2) return tlo_flip(self, dims);
  tl_Ints one = {1, k == 1 ? &dims.v[1] : &dims.v[0]};
  tl_Tensor *flipped = tlo_flip(self, one);
  tl_Tensor *result = flipped ? tlo_transpose(flipped, dims.v[0], dims.v[1]) : NULL;
  tli_release(flipped);
  return result;
}

/* ---- diagonals ---- */

tl_Tensor *tli_op_diag_embed(tl_Tensor *self, int64_t offset, int64_t dim1, int64_t dim2) {
  if (self->ndim == 0)
    return tli_fail_null(TL_ESHAPE, "diag_embed: expected a tensor of at least one dimension");
  int n = self->ndim + 1;
  TL_TRY_NULL(tli_check_ndim("diag_embed", n));
  int a = tli_dim("diag_embed", dim1, n);
  int b = a < 0 ? -1 : tli_dim("diag_embed", dim2, n);
  if (b < 0) return NULL;
  if (a == b)
    return tli_fail_null(TL_EARG,
                         "diag_embed: expected two different dimensions, got " TLI_POS " twice",
                         (int64_t)a);
  int64_t side = self->sizes[self->ndim - 1];
  if (offset < 0 ? __builtin_sub_overflow(side, offset, &side)
                 : __builtin_add_overflow(side, offset, &side))
    return tli_fail_null(TL_EARG, "diag_embed: the result would be too large");
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0, from = 0; d < n; d++) sizes[d] = d == a || d == b ? side : self->sizes[from++];
  tl_Tensor *whole = tli_zeros("diag_embed", self, (tl_Ints){n, sizes});
  tl_Tensor *part = whole ? tli_op_diagonal(whole, offset, dim1, dim2) : NULL;
  bool ok = part && tli_copy(part, self);
  tli_release(part);
  if (ok) return whole;
  tli_release(whole);
  return NULL;
}

tl_Tensor *tlo_diag(tl_Tensor *self, int64_t diagonal) {
  if (self->ndim == 1) return tlo_diag_embed(self, diagonal, 0, 1);
  if (self->ndim != 2)
    return tli_fail_null(TL_ESHAPE, "diag: expected a vector or a matrix, got shape %s",
                         tli_sizes_str(self));
  tl_Tensor *view = tlo_diagonal(self, diagonal, 0, 1);
  tl_Tensor *result = view ? tlo_clone(view) : NULL;
  tli_release(view);
  return result;
}

static int64_t between(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* Counts the elements with column < row + edge. Sets *first to the first row that has such
** elements. */
static int64_t count_below(int64_t rows, int64_t cols, int64_t edge, int64_t *first) {
  *first = between(1 - edge, 0, rows);
  /* the first row in which all elements are counted */
  int64_t whole = between(cols - edge, *first, rows);
  int64_t n = whole - *first;
  return n * (2 * edge + *first + whole - 1) / 2 + (rows - whole) * cols;
}

static tl_Tensor *triangle_indices(const char *op, bool lower, int64_t rows, int64_t cols,
                                   int64_t offset, tl_DType dtype, tl_Device device) {
  TL_TRY_NULL(tli_check_sizes(op, (tl_Ints){2, (int64_t[]){rows, cols}}, TL_I64));
  if (device.type < 0) device = tli_default_device();
  offset = between(offset, -rows, cols);
  int64_t first, end = lower ? rows : between(cols - offset, 0, rows);
  int64_t count = count_below(rows, cols, offset + lower, &first);
  if (!lower) count = rows * cols - count;
  tl_Tensor *t = tli_new(op, (tl_Ints){2, (int64_t[]){2, count}}, TL_I64, TLI_CPU);
  if (t == NULL) return NULL;
  int64_t *to = tli_data(t), k = 0;
  for (int64_t r = lower ? first : 0; r < end && count > 0; r++) {
    int64_t edge = between(r + offset + lower, 0, cols);
    for (int64_t c = lower ? 0 : edge, last = lower ? edge : cols; c < last; c++, k++) {
      to[k] = r + 1;
      to[count + k] = c + 1;
    }
  }
  tl_Tensor *result = tlo_to(t, dtype, false, false, device, NULL);
  tli_release(t);
  return result;
}

tl_Tensor *tlo_tril_indices(int64_t row, int64_t col, int64_t offset, tl_DType dtype,
                            tl_Device device) {
  return triangle_indices("tril_indices", true, row, col, offset, dtype, device);
}

tl_Tensor *tlo_triu_indices(int64_t row, int64_t col, int64_t offset, tl_DType dtype,
                            tl_Device device) {
  return triangle_indices("triu_indices", false, row, col, offset, dtype, device);
}

/* ---- repeating ---- */

/* Repeats each position of dimension d: size s is viewed as (s, 1), expanded to (s, repeats),
** copied, and flattened to (s * repeats). */
static tl_Tensor *repeat_along(tl_Tensor *self, int64_t repeats, int d) {
  int64_t wide[TL_MAX_DIMS], joined[TL_MAX_DIMS];
  int n = 0;
  for (int k = 0; k < self->ndim; k++) {
    joined[k] = self->sizes[k];
    wide[n++] = self->sizes[k];
    if (k == d) wide[n++] = repeats;
  }
  if (__builtin_mul_overflow(joined[d], repeats, &joined[d]))
    return tli_fail_null(TL_EARG, "repeat_interleave: the result would be too large");
  tli_Chain c = {0};
  tl_Tensor *each = chain_unsqueeze(&c, self, d + 1);
  tl_Tensor *repeated = TLI_STEP(&c, tlo_expand(each, (tl_Ints){n, wide}));
  tl_Tensor *copy = TLI_STEP(&c, tlo_to_row_major(repeated));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(copy, (tl_Ints){self->ndim, joined})));
}

/* Returns self and sets *d to dim. If no dim is given, flattens self and sets *d to 0. */
static tl_Tensor *line_up(tl_Tensor *self, int64_t dim, int *d) {
  bool flat = dim == TLI_NOINT || self->ndim == 0;
  *d = dim == TLI_NOINT ? 0 : tli_dim("repeat_interleave", dim, self->ndim);
  if (*d < 0) return NULL;
  return flat ? tlo_reshape(self, (tl_Ints){1, (int64_t[]){-1}}) : tli_retain(self);
}

tl_Tensor *tlo_repeat_interleave(tl_Tensor *self, int64_t repeats, int64_t dim) {
  if (repeats < 0)
    return tli_fail_null(
        TL_EARG, "repeat_interleave: expected at least 0 repetitions, got %" PRId64, repeats);
  int d;
  tl_Tensor *line = line_up(self, dim, &d);
  tl_Tensor *result = line ? repeat_along(line, repeats, d) : NULL;
  tli_release(line);
  return result;
}

/* Returns positions in which each i from 1 to n occurs counts[i - 1] times. Returns NULL with a
** message on failure. */
static tl_Tensor *repeated_positions(const int64_t *counts, int64_t n, int64_t output_size) {
  int64_t total = 0;
  for (int64_t i = 0; i < n; i++)
    if (counts[i] < 0 || __builtin_add_overflow(total, counts[i], &total))
      return tli_fail_null(TL_EARG,
                           "repeat_interleave: expected repetitions of at least 0, got %" PRId64,
                           counts[i]);
  if (output_size != TLI_NOINT && output_size != total)
    return tli_fail_null(TL_EARG,
                         "repeat_interleave: output_size: expected the sum of repeats, %" PRId64
                         ", got %" PRId64,
                         total, output_size);
  tl_Tensor *t = tli_new("repeat_interleave", (tl_Ints){1, &total}, TL_I64, TLI_CPU);
  if (t == NULL) return NULL;
  int64_t *to = tli_data(t);
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < counts[i]; k++) *to++ = i + 1;
  return t;
}

tl_Tensor *tlo_repeat_interleave_positions(tl_Tensor *repeats, int64_t output_size) {
  if (repeats->ndim != 1 || (repeats->dtype != TL_I64 && repeats->dtype != TL_I32))
    return tli_fail_null(TL_EARG,
                         "repeat_interleave: repeats: expected a vector of int64 or int32, got "
                         "shape %s of %s",
                         tli_sizes_str(repeats), tl_dtype_name((tl_DType)repeats->dtype));
  int64_t n = repeats->sizes[0];
  if (!tli_has_values(repeats) && output_size != TLI_NOINT)
    return tli_new("repeat_interleave", (tl_Ints){1, &output_size}, TL_I64, tli_device(repeats));
  tli_Chain c = {0};
  tl_Tensor *moved = TLI_STEP(&c, tlo_to(repeats, TL_I64, false, false, TLI_CPU, NULL));
  tl_Tensor *plain = TLI_STEP(&c, tlo_contiguous(moved));
  tl_Tensor *positions = TLI_STEP(&c, repeated_positions(tli_data(plain), n, output_size));
  return tli_chain_end(
      &c, TLI_STEP(&c, tlo_to(positions, TL_NODTYPE, false, false, tli_device(repeats), NULL)));
}

tl_Tensor *tlo_repeat_interleave_each(tl_Tensor *self, tl_Tensor *repeats, int64_t dim,
                                      int64_t output_size) {
  int d;
  tli_Chain c = {0};
  tl_Tensor *from = TLI_STEP(&c, line_up(self, dim, &d));
  if (c.failed) return tli_chain_end(&c, NULL);
  int64_t n = from->sizes[d];
  TLI_DO(&c, repeats->numel == n || repeats->numel == 1 ||
                 tli_fail(TL_ESHAPE,
                          "repeat_interleave: expected one repetition or as many as there are "
                          "positions, %" PRId64 ", got shape %s",
                          n, tli_sizes_str(repeats)));
  if (repeats->numel != n || repeats->ndim != 1)
    repeats = TLI_STEP(&c, tlo_expand(repeats, (tl_Ints){1, &n}));
  tl_Tensor *at = TLI_STEP(&c, tlo_repeat_interleave_positions(repeats, output_size));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_index_select(from, d, at)));
}

/* ---- splitting ---- */

/* Cuts self along d into views. Piece i ends at ends[i]. With `rest`, the remainder of self is an
** additional piece. */
static bool cut(tl_Tensor *self, int d, const int64_t *ends, int64_t n, bool rest,
                tl_Tensors *out) {
  tl_Tensors list = tli_tensors_new(n + rest);
  bool ok = list.v != NULL;
  int64_t size = self->sizes[d], at = 0;
  for (int64_t i = 0; ok && i < list.n; i++) {
    int64_t end = i < n ? ends[i] : size;
    /* -1 refers to the last position, which is included in the piece */
    if (end < 0) end += size + 1;
    end = end < 0 ? 0 : end;
    ok = (list.v[i] = tlo_slice(self, d, at, end, 1)) != NULL;
    at = end > size ? size : end;
  }
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

static bool split_at(const char *op, tl_Tensor *self, tl_Ints positions, int64_t dim,
                     tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  if (self->ndim == 0)
    return tli_fail(TL_ESHAPE, "%s: expected a tensor of at least one dimension", op);
  int d = tli_dim(op, dim, self->ndim);
  return d >= 0 && cut(self, d, positions.v, positions.n, true, out);
}

static bool split_into(const char *op, tl_Tensor *self, int64_t sections, int64_t dim, bool equal,
                       tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  if (self->ndim == 0)
    return tli_fail(TL_ESHAPE, "%s: expected a tensor of at least one dimension", op);
  int d = tli_dim(op, dim, self->ndim);
  if (d < 0) return false;
  int64_t size = self->sizes[d];
  if (sections < 1)
    return tli_fail(TL_EARG, "%s: expected at least 1 section, got %" PRId64, op, sections);
  if (equal && size % sections != 0)
    return tli_fail(TL_ESHAPE,
                    "%s: a dimension of size %" PRId64 " cannot be cut in %" PRId64
                    " equal sections",
                    op, size, sections);
  tl_Tensors list = tli_tensors_new(sections);
  bool ok = list.v != NULL;
  for (int64_t i = 0, at = 0; ok && i < sections; i++) {
    int64_t length = size / sections + (i < size % sections);
    ok = (list.v[i] = tlo_slice(self, d, at, at + length, 1)) != NULL;
    at += length;
  }
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

bool tlo_tensor_split(tl_Tensor *self, int64_t sections, int64_t dim, tl_Tensors *out) {
  return split_into("tensor_split", self, sections, dim, false, out);
}

bool tlo_tensor_split_positions(tl_Tensor *self, tl_Ints positions, int64_t dim, tl_Tensors *out) {
  return split_at("tensor_split", self, positions, dim, out);
}

bool tlo_tensor_split_tensor(tl_Tensor *self, tl_Tensor *tensor_indices_or_sections, int64_t dim,
                             tl_Tensors *out) {
  tl_Tensor *given = tensor_indices_or_sections;
  *out = (tl_Tensors){0, NULL};
  if (given->ndim > 1 || tli_dtype_category((tl_DType)given->dtype) != TLI_INT)
    return tli_fail(TL_EARG,
                    "tensor_split: tensor_indices_or_sections: expected an integer or a vector of "
                    "integers, got %s of %s",
                    tli_sizes_str(given), tl_dtype_name((tl_DType)given->dtype));
  tl_Tensor *here = tlo_to(given, TL_I64, false, false, TLI_CPU, NULL);
  tl_Tensor *numbers = here ? tlo_contiguous(here) : NULL;
  bool ok = false;
  if (numbers && given->ndim == 0)
    ok = tlo_tensor_split(self, *(int64_t *)tli_data(numbers), dim, out);
  else if (numbers)
    ok = split_at("tensor_split", self, (tl_Ints){numbers->numel, tli_data(numbers)}, dim, out);
  tli_release(here);
  tli_release(numbers);
  return ok;
}

static bool check_depth(const char *op, tl_Tensor *self, int ndim) {
  return self->ndim >= ndim ||
         tli_fail(TL_ESHAPE, "%s: expected at least %d dimension%s, got shape %s", op, ndim,
                  ndim == 1 ? "" : "s", tli_sizes_str(self));
}

#define DEFINE_SPLIT(name, least, dim)                                               \
  bool tlo_##name(tl_Tensor *self, int64_t sections, tl_Tensors *out) {              \
    *out = (tl_Tensors){0, NULL};                                                    \
    TL_TRY(check_depth(#name, self, least));                                         \
    return split_into(#name, self, sections, dim, true, out);                        \
  }                                                                                  \
  bool tlo_##name##_positions(tl_Tensor *self, tl_Ints positions, tl_Tensors *out) { \
    *out = (tl_Tensors){0, NULL};                                                    \
    TL_TRY(check_depth(#name, self, least));                                         \
    return split_at(#name, self, positions, dim, out);                               \
  }

DEFINE_SPLIT(hsplit, 1, self->ndim == 1 ? 0 : 1)
DEFINE_SPLIT(vsplit, 2, 0)
DEFINE_SPLIT(dsplit, 3, 2)
