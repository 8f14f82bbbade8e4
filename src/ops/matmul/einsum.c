/*
** einsum.c - sums of products, described by an equation. Every operand is brought to a common order
** of dimensions: first the dimensions of the ellipsis, then one dimension for each letter. A
** dimension that an operand lacks gets size 1. Operands are multiplied from left to right. Each
** dimension is summed as soon as no later operand has it, so each step is one batched matrix
** product.
*/
#include <ctype.h>
#include <string.h>

#include "ops/chain.h"

#define ELLIPSIS '.'
#define LETTERS 128

/* The labels of one operand: the letters of the equation in their order, with at most one ELLIPSIS
** among them. */
typedef struct Labels {
  int n;
  char label[TL_MAX_DIMS + 1];
  bool ellipsis;
} Labels;

typedef struct Plan {
  const char *equation;
  int64_t noperands;
  Labels *operands; /* owned */
  Labels output;
  bool has_output;
  int nellipsis; /* the largest number of dimensions that the ellipsis represents in an operand */
  int ndim;      /* number of dimensions in the common order */
  /* each letter's dimension in the common order; -1 if the letter does not occur */
  int at[LETTERS];
  /* for each dimension, the last operand that has it; `noperands` if the result has it, too */
  int last[TL_MAX_DIMS];
} Plan;

static bool bad(const Plan *p, const char *why, char c) {
  if (c) return tli_fail(TL_EARG, "einsum: equation \"%s\": %s: \"%c\"", p->equation, why, c);
  return tli_fail(TL_EARG, "einsum: equation \"%s\": %s", p->equation, why);
}

/* Reads letters up to `,`, `-` or the end of the text, and sets *text to that position. */
static bool read_labels(const Plan *p, const char **text, Labels *out) {
  const char *c = *text;
  *out = (Labels){0};
  for (; *c && *c != ',' && *c != '-'; c++) {
    if (*c == ' ') continue;
    bool dots = strncmp(c, "...", 3) == 0;
    if (!dots && !isalpha((unsigned char)*c)) return bad(p, "expected letters or \"...\", got", *c);
    if (dots && out->ellipsis) return bad(p, "more than one \"...\" for an operand", 0);
    if (out->n > TL_MAX_DIMS) return bad(p, "too many dimensions", 0);
    out->label[out->n++] = dots ? ELLIPSIS : *c;
    out->ellipsis = out->ellipsis || dots;
    if (dots) c += 2;
  }
  *text = c;
  return true;
}

static bool read_equation(Plan *p) {
  const char *c = p->equation;
  for (int64_t i = 0; i < p->noperands; i++) {
    TL_TRY(read_labels(p, &c, &p->operands[i]));
    if (i + 1 < p->noperands && *c++ != ',') return bad(p, "fewer operands than tensors", 0);
  }
  if (*c == ',') return bad(p, "more operands than tensors", 0);
  p->has_output = *c == '-';
  if (!p->has_output) return true;
  if (c[1] != '>') return bad(p, "expected \"->\"", 0);
  c += 2;
  TL_TRY(read_labels(p, &c, &p->output));
  return *c == '\0' || bad(p, "unexpected", *c);
}

/* Sets the output of an equation without "->": the ellipsis, followed by the letters that occur
** exactly once. Capital letters come first. */
static void implicit_output(Plan *p) {
  int count[LETTERS] = {0};
  for (int64_t i = 0; i < p->noperands; i++)
    for (int k = 0; k < p->operands[i].n; k++) count[(int)p->operands[i].label[k]]++;
  p->output = (Labels){0};
  p->output.ellipsis = count[ELLIPSIS] > 0;
  if (p->output.ellipsis) p->output.label[p->output.n++] = ELLIPSIS;
  for (int c = 'A'; c <= 'z'; c++)
    if (isalpha(c) && count[c] == 1 && p->output.n <= TL_MAX_DIMS)
      p->output.label[p->output.n++] = (char)c;
}

static bool check_operand(Plan *p, const Labels *labels, const tl_Tensor *t) {
  int letters = labels->n - labels->ellipsis;
  int rest = t->ndim - letters;
  if (rest < 0 || (rest > 0 && !labels->ellipsis))
    return tli_fail(TL_ESHAPE, "einsum: equation \"%s\": an operand with %d letters has shape %s",
                    p->equation, letters, tli_sizes_str(t));
  if (rest > p->nellipsis) p->nellipsis = rest;
  return true;
}

/* Assigns a dimension to each letter. The letters of the output come first, in the order of the
** output, followed by all other letters in the order in which they occur. */
static bool assign(Plan *p) {
  for (int c = 0; c < LETTERS; c++) p->at[c] = -1;
  p->ndim = p->nellipsis;
  for (int k = 0; k < p->output.n; k++) {
    int c = p->output.label[k];
    if (c == ELLIPSIS) continue;
    if (p->at[c] >= 0) return bad(p, "twice in the result", (char)c);
    p->at[c] = p->ndim++;
  }
  for (int64_t i = 0; i < p->noperands; i++)
    for (int k = 0; k < p->operands[i].n; k++) {
      int c = p->operands[i].label[k];
      if (c != ELLIPSIS && p->at[c] < 0) p->at[c] = p->ndim++;
    }
  return tli_check_ndim("einsum", p->ndim);
}

static bool find_last(Plan *p) {
  bool seen[LETTERS] = {false};
  for (int d = 0; d < p->nellipsis; d++) p->last[d] = p->output.ellipsis ? (int)p->noperands : 0;
  for (int64_t i = 0; i < p->noperands; i++)
    for (int k = 0; k < p->operands[i].n; k++) {
      int c = p->operands[i].label[k];
      seen[c] = true;
      if (c != ELLIPSIS) p->last[p->at[c]] = (int)i;
      for (int d = 0; c == ELLIPSIS && !p->output.ellipsis && d < p->nellipsis; d++)
        p->last[d] = (int)i;
    }
  for (int k = 0; k < p->output.n; k++) {
    int c = p->output.label[k];
    if (c == ELLIPSIS) continue;
    if (!seen[c]) return bad(p, "in the result but in no operand", (char)c);
    p->last[p->at[c]] = (int)p->noperands;
  }
  return true;
}

static bool make_plan(Plan *p, tl_Tensors operands) {
  TL_TRY(read_equation(p));
  if (!p->has_output) implicit_output(p);
  for (int64_t i = 0; i < operands.n; i++) TL_TRY(check_operand(p, &p->operands[i], operands.v[i]));
  return assign(p) && find_last(p);
}

/* ---- operands in the common order ---- */

/* Replaces two dimensions by their diagonal, which takes the position of the first one. Steals
** t. */
static tl_Tensor *merge(tl_Tensor *t, int first, int second) {
  tl_Tensor *diagonal = NULL, *result = NULL;
  if (t->sizes[first] != t->sizes[second])
    tli_fail(TL_ESHAPE, "einsum: a letter stands for sizes %" PRId64 " and %" PRId64 " of %s",
             t->sizes[first], t->sizes[second], tli_sizes_str(t));
  else
    diagonal = tlo_diagonal(t, 0, first, second);
  int64_t from = -1, to = first;
  if (diagonal) result = tlo_movedim(diagonal, (tl_Ints){1, &from}, (tl_Ints){1, &to});
  tli_release(diagonal);
  tli_release(t);
  return result;
}

/* Sets place[d] to the dimension of the common order that corresponds to dimension d of t. */
static void places(const Plan *p, const Labels *labels, const tl_Tensor *t, int *place) {
  int d = 0, rest = t->ndim - (labels->n - labels->ellipsis);
  for (int k = 0; k < labels->n; k++) {
    if (labels->label[k] != ELLIPSIS) {
      place[d++] = p->at[(int)labels->label[k]];
      continue;
    }
    for (int e = 0; e < rest; e++) place[d++] = p->nellipsis - rest + e;
  }
}

/* Permutes the operand to the common order. Dimensions that it lacks get size 1. */
static tl_Tensor *arrange(const Plan *p, const Labels *labels, tl_Tensor *operand) {
  int place[TL_MAX_DIMS];
  places(p, labels, operand, place);
  tl_Tensor *t = tli_retain(operand);
  for (int a = 0; t && a < t->ndim; a++)
    for (int b = a + 1; t && b < t->ndim; b++) {
      if (place[a] != place[b]) continue;
      memmove(place + b, place + b + 1, (size_t)(t->ndim - b - 1) * sizeof *place);
      t = merge(t, a, b--);
    }
  if (t == NULL) return NULL;
  int64_t order[TL_MAX_DIMS], sizes[TL_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < p->ndim; d++) {
    sizes[d] = 1;
    for (int k = 0; k < t->ndim; k++)
      if (place[k] == d) {
        order[n++] = k;
        sizes[d] = t->sizes[k];
      }
  }
  tl_Tensor *permuted = tlo_permute(t, (tl_Ints){n, order});
  tl_Tensor *result = permuted ? tlo_reshape(permuted, (tl_Ints){p->ndim, sizes}) : NULL;
  tli_release(permuted);
  tli_release(t);
  return result;
}

/* ---- one step ---- */

/* The dimensions of a product in four groups. BATCH: both operands have the dimension and the
** result keeps it. LEFT and RIGHT: only the left or only the right operand has it. SUM: both
** operands have it and the product sums over it. */
typedef struct Groups {
  int n[4];
  int64_t dims[4][TL_MAX_DIMS];
  int64_t size[4];
} Groups;
enum { BATCH, LEFT, SUM, RIGHT };

static bool group(const Plan *p, tl_Tensor *a, tl_Tensor *b, int64_t step, Groups *g) {
  *g = (Groups){.size = {1, 1, 1, 1}};
  for (int d = 0; d < p->ndim; d++) {
    int64_t sa = a->sizes[d], sb = b->sizes[d];
    if (sa != sb && sa != 1 && sb != 1)
      return tli_fail(TL_ESHAPE, "einsum: equation \"%s\": sizes differ: %" PRId64 " and %" PRId64,
                      p->equation, sa, sb);
    int kind = sa != 1 && sb != 1 ? (p->last[d] <= step ? SUM : BATCH) : sa != 1 ? LEFT : RIGHT;
    g->dims[kind][g->n[kind]++] = d;
    g->size[kind] *= sa != 1 ? sa : sb;
  }
  return true;
}

/* Permutes the dimensions of t to the order of the groups x, y and z, and flattens each group to
** one dimension. t lacks the dimensions of group `unused`. */
static tl_Tensor *as_three(tl_Tensor *t, tl_DType dtype, const Groups *g, int x, int y, int z,
                           int unused) {
  int64_t order[TL_MAX_DIMS];
  int n = 0, kinds[4] = {x, y, z, unused};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < g->n[kinds[i]]; k++) order[n++] = g->dims[kinds[i]][k];
  tl_Tensor *permuted = tlo_permute(t, (tl_Ints){n, order});
  int64_t sizes[3] = {g->size[x], g->size[y], g->size[z]};
  tl_Tensor *shaped = permuted ? tlo_reshape(permuted, (tl_Ints){3, sizes}) : NULL;
  tl_Tensor *result = shaped ? tlo_to(shaped, dtype, false, false, TLI_NODEVICE, NULL) : NULL;
  tli_release(shaped);
  tli_release(permuted);
  return result;
}

/* Reshapes a product (batch, left, right) and permutes its dimensions back to the common order (see
** the top of the file). Dimensions that were summed get size 1. */
static tl_Tensor *from_three(const Plan *p, tl_Tensor *t, tl_Tensor *a, tl_Tensor *b,
                             const Groups *g) {
  static const int kinds[4] = {BATCH, LEFT, SUM, RIGHT};
  int64_t sizes[TL_MAX_DIMS], back[TL_MAX_DIMS];
  int n = 0;
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < g->n[kinds[i]]; k++) {
      int64_t d = g->dims[kinds[i]][k];
      sizes[n] = kinds[i] == SUM ? 1 : a->sizes[d] != 1 ? a->sizes[d] : b->sizes[d];
      back[d] = n++;
    }
  tl_Tensor *shaped = tlo_reshape(t, (tl_Ints){p->ndim, sizes});
  tl_Tensor *result = shaped ? tlo_permute(shaped, (tl_Ints){p->ndim, back}) : NULL;
  tli_release(shaped);
  return result;
}

/* Sums t over the dimensions that neither `other` nor any later operand has. */
static tl_Tensor *sum_alone(const Plan *p, tl_Tensor *t, const tl_Tensor *other, int64_t step) {
  int64_t dims[TL_MAX_DIMS], n = 0;
  bool single = p->noperands == 1;
  for (int d = 0; d < p->ndim; d++)
    if (p->last[d] <= step && (single || t->sizes[d] != 1) &&
        (other == NULL || other->sizes[d] == 1))
      dims[n++] = d;
  /* the sum of an integer tensor has dtype int64 */
  return n ? tlo_sum(t, (tl_Ints){n, dims}, true, TL_NODTYPE) : tli_retain(t);
}

static tl_Tensor *multiply(const Plan *p, tl_Tensor *left, tl_Tensor *right, int64_t step) {
  Groups g;
  tli_Chain c = {0};
  tl_Tensor *a = TLI_STEP(&c, sum_alone(p, left, right, step));
  tl_Tensor *b = TLI_STEP(&c, sum_alone(p, right, left, step));
  TLI_DO(&c, group(p, a, b, step, &g));
  if (c.failed) return tli_chain_end(&c, NULL);
  /* without dimensions to sum over, the product is elementwise, which is cheaper than a matrix
  ** product */
  if (g.n[SUM] == 0) return tli_chain_end(&c, chain_mul(&c, a, b));
  tl_DType dtypes[2] = {(tl_DType)a->dtype, (tl_DType)b->dtype};
  if (!tli_is_float(dtypes[0]) && !tli_is_float(dtypes[1]) && dtypes[0] != dtypes[1])
    dtypes[0] = dtypes[1] = TL_I64; /* one of the operands was summed, which has made it int64 */
  tl_Tensor *rows = TLI_STEP(&c, as_three(a, dtypes[0], &g, BATCH, LEFT, SUM, RIGHT));
  tl_Tensor *columns = TLI_STEP(&c, as_three(b, dtypes[1], &g, BATCH, SUM, RIGHT, LEFT));
  tl_Tensor *product = TLI_STEP(&c, tlo_bmm(rows, columns));
  return tli_chain_end(&c, TLI_STEP(&c, from_three(p, product, a, b, &g)));
}

/* ---- the operator ---- */

/* Permutes the dimensions from the common order to the order of the output. */
static tl_Tensor *to_output(const Plan *p, tl_Tensor *t) {
  int64_t order[TL_MAX_DIMS], sizes[TL_MAX_DIMS];
  int n = 0;
  for (int k = 0; k < p->output.n; k++) {
    int c = p->output.label[k];
    if (c != ELLIPSIS) order[n++] = p->at[c];
    for (int e = 0; c == ELLIPSIS && e < p->nellipsis; e++) order[n++] = e;
  }
  int kept = n;
  for (int d = 0; d < p->ndim; d++)
    if (p->last[d] < p->noperands) order[n++] = d;
  for (int k = 0; k < kept; k++) sizes[k] = t->sizes[order[k]];
  tl_Tensor *permuted = tlo_permute(t, (tl_Ints){n, order});
  tl_Tensor *result = permuted ? tlo_reshape(permuted, (tl_Ints){kept, sizes}) : NULL;
  tli_release(permuted);
  return result;
}

static tl_Tensor *run(const Plan *p, tl_Tensors operands) {
  tl_Tensor *first = arrange(p, &p->operands[0], operands.v[0]);
  tl_Tensor *current = first ? sum_alone(p, first, NULL, 0) : NULL;
  tli_release(first);
  for (int64_t i = 1; current && i < operands.n; i++) {
    tl_Tensor *right = arrange(p, &p->operands[i], operands.v[i]);
    tl_Tensor *next = right ? multiply(p, current, right, i) : NULL;
    tli_release(right);
    tli_release(current);
    current = next;
  }
  tl_Tensor *result = current ? to_output(p, current) : NULL;
  tli_release(current);
  return result;
}

tl_Tensor *tlo_einsum(const char *equation, tl_Tensors operands) {
  if (operands.n == 0) return tli_fail_null(TL_EARG, "einsum: expected at least one tensor");
  size_t bytes = (size_t)operands.n * sizeof(Labels);
  Plan p = {.equation = equation, .noperands = operands.n, .operands = tli_alloc(bytes)};
  if (p.operands == NULL) return NULL;
  tl_Tensor *result = make_plan(&p, operands) ? run(&p, operands) : NULL;
  tli_free(p.operands, bytes);
  return result;
}
