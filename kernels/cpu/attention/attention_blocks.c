/*
** attention_blocks.c - the steps that the forward and the backward pass of attention share
** (attention.h).
*/
#include <string.h>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/block_walk.h"

/* Rows that are at most this number of bytes apart are read in place as the right factor of a
** product. Rows farther apart evict one another from the cache, so they are copied first. */
#define NEAR_BYTES 512

static int64_t whole(int64_t n, int64_t lanes) { return (n + lanes - 1) & -lanes; }

/* Divides n elements into as few pieces as possible, all of about the same size. Returns the size
** of a piece, which is at most `limit` and a multiple of `step`. */
static int64_t piece_of(int64_t n, int64_t limit, int64_t step) {
  int64_t pieces = tlk_ceil_div(n, limit);
  return tlk_min(whole(tlk_ceil_div(n, pieces), step), limit);
}

void tlk_attention_plan(const tlk_Attention *a, tlk_AttentionPlan *plan) {
  bool wide = a->dtype == TL_F64;
  const tlk_Isa *isa = tlk_isa();
  const tlk_DotLoops *dots = a->dtype == TL_BF16 ? tlk_dot_loops() : NULL;
  int64_t lanes = isa->tile[wide]->lanes;
  /* the bfloat16 loops process TLK_DOT_LINES columns at once, which may be more than a vector
  ** has */
  if (dots) lanes = tlk_max(lanes, TLK_DOT_LINES);
  *plan = (tlk_AttentionPlan){
      .a = a,
      .isa = isa,
      .tile = isa->tile[wide],
      .dots = dots,
      .loops = isa->attention[wide],
      .compute = wide ? TL_F64 : TL_F32,
      .lanes = lanes,
      .size = wide ? 8 : 4,
      .queries = piece_of(a->queries, TLK_ATTENTION_QUERIES, lanes),
      .keys = TLK_ATTENTION_KEYS,
      .width = whole(a->size, lanes),
      .value_width = whole(a->value_size, lanes),
      .seed = a->state ? a->state[0] : a->seed,
      .block = a->block + (a->state ? a->state[1] : 0),
      .words = (uint64_t)tlk_ceil_div(a->keys, 4),
  };
  plan->query_blocks = tlk_ceil_div(a->queries, plan->queries);
  plan->key_blocks = tlk_ceil_div(a->keys, plan->keys);
}

tlk_AttentionBlock tlk_attention_queries(const tlk_AttentionPlan *p, int64_t b, int64_t h,
                                         int64_t i) {
  int64_t first = i * p->queries, n = tlk_min(p->queries, p->a->queries - first);
  return (tlk_AttentionBlock){.b = b,
                              .h = h,
                              .kv = h / (p->a->heads / p->a->kv_heads),
                              .query = first,
                              .queries = n,
                              .cols = whole(n, p->lanes)};
}

bool tlk_attention_keys(const tlk_AttentionPlan *p, int64_t j, tlk_AttentionBlock *block) {
  int64_t end = p->a->keys;
  if (p->a->causal) end = tlk_min(end, block->query + block->queries);
  block->key = j * p->keys;
  block->keys = tlk_min(p->keys, end - block->key);
  return block->keys > 0;
}

/* ---- rows ---- */

static char *first_row(const tlk_AttentionPlan *p, const tlk_HeadRows *of, int64_t b, int64_t h,
                       int64_t first) {
  int64_t at = b * of->batch + h * of->head + first * of->row;
  return (char *)of->data + at * tli_dtype_bytes[p->a->dtype];
}

tlk_Matrix tlk_attention_numbers(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                                 int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                                 void *buffer) {
  const char *at = first_row(p, from, b, h, first);
  bool near = from->row * p->size <= NEAR_BYTES && cols % p->lanes == 0;
  if (p->a->dtype == p->compute && (near || !right))
    return (tlk_Matrix){at, from->row, 1, false, cols};
  tlk_Matrix rows = {buffer, whole(cols, p->lanes), 1, false, cols};
  tlk_Convert convert = p->isa->convert[p->a->dtype][p->compute];
  char *to = buffer;
  for (int64_t r = 0; r < n; r++, to += rows.row * p->size) {
    convert(cols, to, at + r * from->row * tli_dtype_bytes[p->a->dtype]);
    memset(to + cols * p->size, 0, (size_t)((rows.row - cols) * p->size));
  }
  return rows;
}

tlk_Matrix tlk_attention_rows(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                              int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                              void *buffer) {
  if (!p->dots) return tlk_attention_numbers(p, from, b, h, first, n, cols, right, buffer);
  return (tlk_Matrix){first_row(p, from, b, h, first), from->row, 1, true, cols};
}

void tlk_attention_store(const tlk_AttentionPlan *p, const tlk_HeadRows *to, int64_t b, int64_t h,
                         int64_t first, int64_t n, int64_t cols, const void *rows, int64_t pitch) {
  tlk_Convert convert = p->isa->convert[p->compute][p->a->dtype];
  char *at = first_row(p, to, b, h, first);
  for (int64_t r = 0; r < n; r++, at += to->row * tli_dtype_bytes[p->a->dtype])
    convert(cols, at, (const char *)rows + r * pitch * p->size);
}

tlk_Matrix tlk_attention_turn(const tlk_AttentionPlan *p, tlk_Matrix rows, int64_t n, int64_t size,
                              int64_t cols, void *out) {
  if (rows.half) return (tlk_Matrix){rows.at, 1, rows.row, true, n};
  if (n < cols) memset(out, 0, (size_t)(size * cols * p->size));
  p->isa->move[p->size == 8 ? 3 : 2](out, p->size, cols * p->size, rows.at, rows.row * p->size,
                                     p->size, n, size);
  return (tlk_Matrix){out, cols, 1, false, cols};
}

/* ---- products ---- */

/* Computes one tile of a product. Each element is a sum of `terms` terms, which are added a few at
** a time to keep the rounding error small. */
static void sum_tile(const tlk_AttentionPlan *p, int rows, int vectors, int64_t terms,
                     const void **in, const int64_t *offsets, int64_t piece, const char *panel,
                     int64_t pitch, bool sum, char *out, int64_t out_pitch) {
  int64_t t = 0;
  do {
    int64_t n = tlk_min(TLK_TILE_DEPTH, terms - t);
    p->tile->tile(rows, vectors, n, offsets, in, panel, pitch, sum || t > 0, out, out_pitch);
    panel += TLK_TILE_DEPTH * pitch * p->size;
    for (int i = 0; i < p->tile->rows; i++) in[i] = (const char *)in[i] + piece;
    t += TLK_TILE_DEPTH;
  } while (t < terms);
}

/* Returns the longest side that any factor of the call's products can have, rounded up to whole
** blocks of dot.h. */
static int64_t longest(const tlk_AttentionPlan *p) {
  int64_t side = tlk_max(tlk_max(p->width, p->value_width), TLK_ATTENTION_KEYS);
  return whole(side, TLK_DOT_TERMS);
}

/* Returns the size in bytes of the largest packed factor. One side of such a factor is the number
** of queries or of keys in a block. */
static int64_t factor_bytes(const tlk_AttentionPlan *p) {
  return TLK_ATTENTION_KEYS * longest(p) * 2;
}

int64_t tlk_attention_packed(const tlk_AttentionPlan *p) {
  return p->dots ? 3 * factor_bytes(p) : 0;
}

/* Rounds the left factor (rows, terms) of a product from float32 to bfloat16. The rows of the
** result are contiguous; if the left factor is a transpose, the columns are. */
static tlk_Matrix round_left(const tlk_AttentionPlan *p, int64_t rows, int64_t terms,
                             tlk_Matrix left, void *to) {
  bool trans = left.col != 1;
  int64_t count = trans ? terms : rows, n = trans ? rows : terms;
  int64_t step = trans ? left.col : left.row;
  for (int64_t i = 0; i < count; i++)
    p->isa->convert[TL_F32][TL_BF16](n, (char *)to + i * n * 2, (const float *)left.at + i * step);
  return (tlk_Matrix){to, trans ? 1 : n, trans ? n : 1, true, terms};
}

static void product_by_dots(const tlk_AttentionPlan *p, int64_t rows, int64_t terms, int64_t cols,
                            tlk_Matrix left, tlk_Matrix right, bool sum, float *out, int64_t pitch,
                            char *packed) {
  char *a = packed, *b = a + factor_bytes(p);
  if (!left.half) left = round_left(p, rows, terms, left, b + factor_bytes(p));
  bool turn_left = left.col != 1, turn_right = right.col != 1;
  p->dots->pack_left(turn_left, rows, terms, left.at, turn_left ? left.col : left.row, a);
  p->dots->pack_right(turn_right, terms, tlk_min(cols, right.cols), right.at,
                      turn_right ? right.col : right.row, b);
  p->dots->multiply(whole(rows, TLK_DOT_LINES), cols, whole(terms, TLK_DOT_TERMS), a, b, sum, out,
                    pitch);
}

void tlk_attention_product(const tlk_AttentionPlan *p, int64_t rows, int64_t terms, int64_t cols,
                           tlk_Matrix left, tlk_Matrix right, bool sum, void *out, int64_t pitch,
                           void *packed) {
  if (p->dots) {
    product_by_dots(p, rows, terms, cols, left, right, sum, out, pitch, packed);
    return;
  }
  int64_t offsets[TLK_TILE_DEPTH], width = tlk_tile_width(p->tile, cols), size = p->size;
  int height = p->tile->rows;
  for (int64_t t = 0; t < tlk_min(TLK_TILE_DEPTH, terms); t++) offsets[t] = t * left.col;
  for (int64_t c = 0; c < cols; c += width) {
    int vectors = (int)(tlk_min(width, cols - c) / p->tile->lanes);
    for (int64_t r = 0; r < rows; r += height) {
      int n = (int)tlk_min(height, rows - r);
      const void *in[TLK_TILE_ROWS];
      for (int i = 0; i < height; i++)
        in[i] = (const char *)left.at + (r + tlk_min(i, n - 1)) * left.row * size;
      sum_tile(p, n, vectors, terms, in, offsets, TLK_TILE_DEPTH * left.col * size,
               (const char *)right.at + c * size, right.row, sum,
               (char *)out + (r * pitch + c) * size, pitch);
    }
  }
}

/* ---- scores ---- */

/* Loads a block of the mask, transposes it, and converts it to numbers that are added to the
** scores. Returns false if all scores are masked. */
static bool take_mask(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block, void *mask) {
  const tlk_HeadPairs *m = &p->a->mask;
  tl_DType dtype = m->array.dtype;
  int64_t size = tli_dtype_bytes[dtype], n = block->keys * block->cols;
  int64_t at =
      block->b * m->batch + block->h * m->head + block->query * m->query + block->key * m->key;
  char *raw = dtype == p->compute ? mask : (char *)mask + n * p->size;
  if (block->queries < block->cols) memset(raw, 0, (size_t)(n * size));
  p->isa->move[tlk_log2_size(dtype)](raw, size, block->cols * size,
                                     (const char *)m->array.data + at * size, m->query * size,
                                     m->key * size, block->queries, block->keys);
  if (raw != mask) p->isa->convert[dtype][p->compute](n, mask, raw);
  return p->loops->mask(dtype == TL_BOOL, block->keys, block->queries, block->cols, mask);
}

bool tlk_attention_scores(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block,
                          tlk_Matrix keys, tlk_Matrix turned, void *mask, void *scores,
                          void *packed) {
  bool masked = p->a->mask.array.data != NULL;
  if (masked && !take_mask(p, block, mask)) return false;
  tlk_attention_product(p, block->keys, p->a->size, block->cols, keys, turned, false, scores,
                        block->cols, packed);
  if (turned.half && p->a->scale != 1)
    p->loops->scale(block->keys * block->cols, scores, p->a->scale);
  if (masked) p->loops->add(block->keys * block->cols, scores, mask);
  if (p->a->causal) p->loops->hide(block->keys, block->cols, block->key - block->query, scores);
  return true;
}

bool tlk_attention_keep(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block, void *keep) {
  const tlk_Attention *a = p->a;
  if (a->dropout == 0) return false;
  uint64_t row = (uint64_t)((block->b * a->heads + block->h) * a->queries + block->query);
  p->loops->keep(block->keys, block->cols, p->seed,
                 p->block + row * p->words + (uint64_t)(block->key / 4), p->words, a->dropout,
                 keep);
  return true;
}
