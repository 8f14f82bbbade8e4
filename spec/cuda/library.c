/*
** library.c - replaces kernels in the emulated build: those that call cuBLAS, cuDNN and similar
** libraries, and those that do not exist yet. In their place the CPU's kernels run, in stream
** order. If kernels/cuda has a function with the same name, that function is used instead.
*/
/* The emulated kernels compute elementary functions by the C library, so the kernels here do
** too. */
#define TLK_C_LIBRARY

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/half.h"
#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/plugin.h"
#include "kernels/math.h"
#include "spec/cuda/library.h"

/* run() finds a call's loop without knowing the kind of call, so the loop must have the same offset
** in each struct. */
_Static_assert(offsetof(struct tlk_gather, index.it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_scatter, index.it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_pointwise, it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_fill, it) == offsetof(struct tlk_copy, it), "");

typedef struct Answer {
  bool (*run)(const void *call);
  bool iter; /* whether the call struct has a tli_Iter after the context */
  tl_Device device;
  cuda_Word word;
  _Alignas(16) char call[];
} Answer;

/* CPU kernels expect that the `data` of an operand points to its value. If an operand is a
** single number, sets `data` to that number's address. */
static void place_numbers(tli_Iter *it) {
  for (int k = 0; k < it->nargs; k++)
    if (it->args[k].data == NULL) it->args[k].data = (char *)&it->args[k].number;
}

static void note(const cuda_Word *word, const tlk_Fault *fault) {
  if (fault->kind == TLK_NO_FAULT || *word->taken) return;
  *word->taken = 1;
  *word->fault = *fault;
}

/* Runs a call on the CPU. Each run gets its own copy of the call, because a graph may run a call
** several times. */
static void run(void *copy) {
  Answer *a = copy;
  tlk_Fault fault = {0};
  tlk_Context cx = {.device = a->device, .fault = &fault};
  const tlk_Context *at = &cx;
  memcpy(a->call, &at, sizeof at);
  if (a->iter) place_numbers(&((struct tlk_copy *)(void *)a->call)->it);
  if (!a->run(a->call) && fault.kind == TLK_NO_FAULT) {
    fprintf(stderr, "emulated CUDA: a kernel of the CPU failed: %s\n", cuda_host->error());
    abort();
  }
  note(&a->word, &fault);
}

static bool put(const tlk_Context *cx, bool (*kernel)(const void *), bool iter, const void *call,
                size_t size) {
  if (!cuda_enter(cx->device.index)) return false;
  Answer *a = malloc(sizeof *a + size);
  if (a == NULL) return cuda_fail(TL_EMEM, "out of memory");
  *a = (Answer){kernel, iter, cx->device, cuda_word(cx)};
  memcpy(a->call, call, size);
  bool ok = cuda_ok(tlk_emulated_put(cx->stream->handle, run, a, sizeof *a + size), "tlk_library");
  free(a);
  return ok;
}

enum { FLAT, ITER };
#define X(name, operands)                                                         \
  static bool run_##name(const void *call) { return cuda_host->cpu->name(call); } \
  bool answer_##name(const struct tlk_##name *call);                              \
  bool answer_##name(const struct tlk_##name *call) {                             \
    return put(call->cx, run_##name, operands == ITER, call, sizeof *call);       \
  }                                                                               \
  __attribute__((weak, alias("answer_" #name))) bool tlk_##name(const struct tlk_##name *call);
TLK_KERNELS(X)
#undef X

/* ---- products ------------------------------------------------------------------------------- */

/* Returns how many terms go into the first of two partial sums. In cuBLAS, the order of
** summation depends on the shape, so the same rows in a matrix of another shape may have other
** rounding errors. Splitting the sum at a place that depends on the shape imitates this. */
static int64_t terms_of(const tlk_Gemm *g) {
  uint64_t shape = (uint64_t)(g->m * 3 + g->n * 5 + g->k * 7 + g->lda * 11 + g->ldb * 13);
  int64_t k = g->k, ways[] = {k, k / 2, 1, k - 1};
  bool wide = g->dtype == TL_F32 || g->dtype == TL_F64;
  return k < 2 || !wide ? k : ways[(shape + g->trans_a) * 0x9e3779b97f4a7c15u >> 62];
}

static bool run_product(const void *data) {
  struct tlk_gemm first = *(const struct tlk_gemm *)data, rest = first;
  tlk_Gemm *g = &rest.gemm;
  int64_t terms = terms_of(g), bytes = g->dtype == TL_F32 ? 4 : 8;
  first.gemm.k = terms;
  g->k -= terms;
  g->a = (const char *)g->a + bytes * terms * (g->trans_a ? g->lda : 1);
  g->b = (const char *)g->b + bytes * terms * (g->trans_b ? 1 : g->ldb);
  g->beta = (tl_Scalar){.kind = TL_FLOATING, .f = 1};
  return cuda_host->cpu->gemm(&first) && (g->k == 0 || cuda_host->cpu->gemm(&rest));
}

/* Replaces the function of this name in kernels/cuda/lib. Computes the product on the CPU. */
bool cuda_lib_gemm(const struct tlk_gemm *call) {
  return put(call->cx, run_product, false, call, sizeof *call);
}

/* Returns a matrix of a half type as float32; its rows are ld elements apart. */
static float *widened(tl_DType dtype, const void *from, int64_t rows, int64_t ld) {
  float *to = malloc((size_t)(rows * ld) * sizeof *to);
  for (int64_t i = 0; to && i < rows * ld; i++) {
    uint16_t x = ((const uint16_t *)from)[i];
    to[i] = dtype == TL_BF16 ? tli_bf16_to_f32(x) : tli_f16_to_f32(x);
  }
  return to;
}

/* Computes one product into `out`, whose rows are ldc elements apart. */
static bool multiply_wide(tlk_Gemm g, float *out) {
  int64_t rows_a = g.trans_a ? g.k : g.m, rows_b = g.trans_b ? g.n : g.k;
  float *a = widened(g.dtype, g.a, rows_a, g.lda), *b = widened(g.dtype, g.b, rows_b, g.ldb);
  struct tlk_gemm call = {.cx = &(tlk_Context){.device = {TL_CPU, 0}}, .gemm = g};
  call.gemm.dtype = TL_F32;
  call.gemm.a = a;
  call.gemm.b = b;
  call.gemm.c = out;
  bool ok = a && b && cuda_host->cpu->gemm(&call);
  free(a);
  free(b);
  return ok;
}

typedef struct WideProduct {
  tlk_Gemm gemm;
  float *out;
} WideProduct;

static void run_wide(void *copy) {
  const WideProduct *w = copy;
  if (multiply_wide(w->gemm, w->out)) return;
  fprintf(stderr, "emulated CUDA: a product in float32 failed\n");
  abort();
}

bool cuda_lib_gemm_wide(const struct tlk_gemm *call, float *out) {
  WideProduct w = {call->gemm, out};
  if (!cuda_enter(call->cx->device.index)) return false;
  return cuda_ok(tlk_emulated_put(call->cx->stream->handle, run_wide, &w, sizeof w), "tlk_library");
}

/* ---- epilogues ------------------------------------------------------------------------------ */

/* Returns whether the fake cuBLASLt supports a call. It supports bfloat16 and float32 with sizes
** that are multiples of 8. For all other calls, the plugin must add the bias and activation in a
** second pass, which is tested too. */
static bool takes_linear(const struct tlk_linear *call) {
  const tlk_Gemm *g = &call->gemm;
  bool sums_only = !call->bias && !call->inner && call->activation == TLK_ACTIVATION_NONE;
  return (g->dtype == TL_F32 || g->dtype == TL_BF16) && g->n % 8 == 0 && g->ldc % 8 == 0 &&
         call->activation != TLK_ACTIVATION_GELU && (!call->sums || sums_only) &&
         (!call->inner || call->activation == TLK_ACTIVATION_GELU_TANH);
}

static float element(const void *from, tl_DType dtype, int64_t i) {
  return dtype == TL_F32 ? ((const float *)from)[i] : tli_bf16_to_f32(((const uint16_t *)from)[i]);
}
static void put_element(void *to, tl_DType dtype, int64_t i, float x) {
  if (dtype == TL_F32)
    ((float *)to)[i] = x;
  else
    ((uint16_t *)to)[i] = tli_f32_to_bf16(x);
}

static float activated(tlk_Activation activation, float x) {
  return activation == TLK_ACTIVATION_RELU        ? tlm_relu_f32(x, NULL)
         : activation == TLK_ACTIVATION_GELU_TANH ? tlm_gelu_tanh_f32(x, NULL)
                                                  : x;
}

static bool product_of(const tlk_Gemm *g, float *out) {
  struct tlk_gemm call = {.cx = &(tlk_Context){.device = {TL_CPU, 0}}, .gemm = *g};
  call.gemm.c = out;
  call.gemm.ldc = g->n;
  return g->dtype == TL_F32 ? run_product(&call) : multiply_wide(call.gemm, out);
}

static void put_sums(const tlk_Gemm *g, void *sums) {
  for (int64_t i = 0; i < g->m; i++) {
    double sum = 0;
    for (int64_t p = 0; p < g->k; p++)
      sum += (double)element(g->a, g->dtype, g->trans_a ? p * g->lda + i : i * g->lda + p);
    put_element(sums, g->dtype, i, (float)sum);
  }
}

static void run_epilogue(void *copy) {
  const struct tlk_linear *call = copy;
  const tlk_Gemm *g = &call->gemm;
  float *product = malloc((size_t)(g->m * g->n) * sizeof *product);
  if (product == NULL || !product_of(g, product)) abort();
  for (int64_t i = 0; i < g->m * g->n; i++) {
    int64_t col = i % g->n, at = i / g->n * g->ldc + col;
    float x = product[i] + (call->bias ? element(call->bias, g->dtype, col) : 0);
    if (call->inner) put_element(call->inner, g->dtype, at, x);
    put_element(g->c, g->dtype, at, activated(call->activation, x));
  }
  if (call->sums) put_sums(g, call->sums);
  free(product);
}

bool cuda_lib_linear(const struct tlk_linear *call, bool *done) {
  *done = takes_linear(call);
  if (!*done) return true;
  if (!cuda_enter(call->cx->device.index)) return false;
  return cuda_ok(tlk_emulated_put(call->cx->stream->handle, run_epilogue, call, sizeof *call),
                 "tlk_library");
}

/* Refuses every call, as if cuDNN were missing, so that the plugin's own kernels compute
** attention. */
bool cuda_lib_attention(const struct tlk_attention *call, bool *done) {
  (void)call;
  *done = false;
  return true;
}
bool cuda_lib_attention_backward(const struct tlk_attention_backward *call, bool *done) {
  (void)call;
  *done = false;
  return true;
}

/* ---- convolutions --------------------------------------------------------------------------- */

/* Returns whether a convolution may use TF32. This file computes only such convolutions; their
** operands have 10 fraction bits, as on tensor cores. The plugin's own kernels compute all
** others. */
static bool in_tf32(const tlk_Conv *c) {
  return c->dtype == TL_F32 && cuda_host->setting(TL_CUDNN_ENABLED) &&
         cuda_host->setting(TL_CUDNN_TF32);
}

static int64_t volume(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }
static int64_t size_in(const tlk_Conv *c) {
  return c->batch * c->channels_in * volume(c->windows.in);
}
static int64_t size_out(const tlk_Conv *c) {
  return c->batch * c->channels_out * volume(c->windows.out);
}
static int64_t size_weight(const tlk_Conv *c) {
  return c->channels_out * (c->channels_in / c->groups) * volume(c->windows.kernel);
}

/* The order of an operand's n elements in memory: channels-first or channels-last. */
typedef struct Order {
  bool last;
  int64_t n, channels, elements;
} Order;

static Order order_in(const tlk_Conv *c) {
  return (Order){c->channels_last, size_in(c), c->channels_in, volume(c->windows.in)};
}
static Order order_weight(const tlk_Conv *c) {
  return (Order){c->channels_last, size_weight(c), c->channels_in / c->groups,
                 volume(c->windows.kernel)};
}
static Order order_out(const tlk_Conv *c) {
  return (Order){c->channels_last, size_out(c), c->channels_out, volume(c->windows.out)};
}

/* Converts an element's offset in channels-first order to its offset in the operand's memory. */
static int64_t place(const Order *o, int64_t i) {
  if (!o->last) return i;
  int64_t plane = i / o->elements, element = i % o->elements;
  return (plane / o->channels * o->elements + element) * o->channels + plane % o->channels;
}

static uint32_t *fresh(const Order *o) {
  uint32_t *rows = malloc((size_t)o->n * sizeof *rows + 1);
  if (rows == NULL) abort();
  return rows;
}

static void *rounded(const void *from, Order o) {
  uint32_t *to = fresh(&o);
  for (int64_t i = 0; i < o.n; i++) {
    to[i] = ((const uint32_t *)from)[place(&o, i)];
    if ((to[i] & 0x7f800000u) != 0x7f800000u) to[i] = (to[i] + 0x1000u) & ~0x1fffu;
  }
  return to;
}

/* Copies a result from channels-first order to the order of the operand, and frees `rows`. */
static void put_back(uint32_t *rows, Order o, void *to) {
  for (int64_t i = 0; i < o.n; i++) ((uint32_t *)to)[place(&o, i)] = rows[i];
  free(rows);
}

static bool run_conv_tf32(const void *data) {
  struct tlk_conv call = *(const struct tlk_conv *)data;
  Order out = order_out(&call.conv);
  void *to = call.out, *in = rounded(call.in, order_in(&call.conv));
  void *weight = rounded(call.weight, order_weight(&call.conv));
  call.in = in;
  call.weight = weight;
  call.out = fresh(&out);
  call.bias = NULL;
  call.conv.channels_last = false;
  bool ok = cuda_host->cpu->conv(&call);
  put_back(call.out, out, to);
  free(in);
  free(weight);
  return ok;
}
static bool run_conv_input_tf32(const void *data) {
  struct tlk_conv_input call = *(const struct tlk_conv_input *)data;
  Order in = order_in(&call.conv);
  void *to = call.grad_in, *out = rounded(call.grad_out, order_out(&call.conv));
  void *weight = rounded(call.weight, order_weight(&call.conv));
  call.grad_out = out;
  call.weight = weight;
  call.grad_in = fresh(&in);
  call.conv.channels_last = false;
  bool ok = cuda_host->cpu->conv_input(&call);
  put_back(call.grad_in, in, to);
  free(out);
  free(weight);
  return ok;
}
static bool run_conv_weight_tf32(const void *data) {
  struct tlk_conv_weight call = *(const struct tlk_conv_weight *)data;
  Order weight = order_weight(&call.conv);
  void *to = call.grad_weight, *in = rounded(call.in, order_in(&call.conv));
  void *out = rounded(call.grad_out, order_out(&call.conv));
  call.in = in;
  call.grad_out = out;
  call.grad_weight = fresh(&weight);
  call.conv.channels_last = false;
  bool ok = cuda_host->cpu->conv_weight(&call);
  put_back(call.grad_weight, weight, to);
  free(in);
  free(out);
  return ok;
}

bool cuda_lib_conv(const struct tlk_conv *call, bool *done) {
  *done = in_tf32(&call->conv);
  return !*done || put(call->cx, run_conv_tf32, false, call, sizeof *call);
}
bool cuda_lib_conv_input(const struct tlk_conv_input *call, bool *done) {
  *done = in_tf32(&call->conv);
  return !*done || put(call->cx, run_conv_input_tf32, false, call, sizeof *call);
}
bool cuda_lib_conv_weight(const struct tlk_conv_weight *call, bool *done) {
  *done = in_tf32(&call->conv);
  return !*done || put(call->cx, run_conv_weight_tf32, false, call, sizeof *call);
}
int64_t cuda_lib_cudnn_version(void) { return 0; }

/* ---- batch norm ----------------------------------------------------------------------------- */

/* Returns whether the fake cuDNN supports a batch norm. Like cuDNN's engines, it supports only
** half types, and does not return the deviation. So the plugin's own kernels run for float32,
** and are tested too. */
static bool takes_norm(tl_DType dtype, int64_t channels, int64_t inner, const void *weight) {
  return cuda_host->setting(TL_CUDNN_ENABLED) && cuda_host->setting(TL_DETERMINISTIC) == 0 &&
         inner == 1 && weight && (dtype == TL_F16 || dtype == TL_BF16) && channels % 8 == 0;
}

static bool run_norm(const void *data) {
  struct tlk_batch_norm call = *(const struct tlk_batch_norm *)data;
  call.deviation = malloc((size_t)call.channels * sizeof(float));
  bool ok = call.deviation && cuda_host->cpu->batch_norm(&call);
  free(call.deviation);
  return ok;
}

static bool run_norm_backward(const void *data) {
  return cuda_host->cpu->batch_norm_backward(data);
}

bool cuda_lib_batch_norm(const struct tlk_batch_norm *call, bool *done) {
  *done = call->bias && call->outer > 1 &&
          takes_norm(call->in.dtype, call->channels, call->inner, call->weight);
  return !*done || put(call->cx, run_norm, false, call, sizeof *call);
}

bool cuda_lib_batch_norm_backward(const struct tlk_batch_norm_backward *call, bool *done) {
  *done = call->grad_in.data && call->outer > 1 &&
          takes_norm(call->in.dtype, call->channels, call->inner, call->weight);
  return !*done || put(call->cx, run_norm_backward, false, call, sizeof *call);
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

/* Copies a line of n elements of `size` bytes to or from a buffer. In memory the elements are
** `stride` apart; in the buffer they are adjacent. */
static void carry(char *line, int64_t stride, char *buffer, int64_t n, int64_t size, bool out) {
  for (int64_t i = 0; i < n; i++)
    memcpy(out ? line + i * stride * size : buffer + i * size,
           out ? buffer + i * size : line + i * stride * size, (size_t)size);
}

/* Transforms the lines one by one on the CPU. Like cuFFT, it overwrites the input of a transform
** from complex to real. */
static void run_lines(void *copy) {
  const cuda_Fft *f = copy;
  int64_t part = f->wide ? 8 : 4, half = f->n / 2 + 1;
  int64_t in_size = f->kind == TLK_FFT_FROM_REAL ? part : 2 * part;
  int64_t out_size = f->kind == TLK_FFT_TO_REAL ? part : 2 * part;
  int64_t in_n = f->kind == TLK_FFT_TO_REAL ? half : f->n;
  int64_t out_n = f->kind == TLK_FFT_FROM_REAL ? half : f->n;
  tl_DType real = f->wide ? TL_F64 : TL_F32, complex = f->wide ? TL_C128 : TL_C64;
  char *from = malloc((size_t)(in_n * in_size)), *to = malloc((size_t)(out_n * out_size));
  struct tlk_fft call = {.cx = &(tlk_Context){.device = {TL_CPU, 0}},
                         .kind = f->kind,
                         .inverse = f->inverse,
                         .in = {from, f->kind == TLK_FFT_FROM_REAL ? real : complex},
                         .out = {to, f->kind == TLK_FFT_TO_REAL ? real : complex},
                         .outer = 1,
                         .n = f->n,
                         .inner = 1,
                         .scale = 1};
  for (int64_t l = 0; l < f->lines; l++) {
    char *in = (char *)f->in + l * f->in_distance * in_size;
    carry(in, f->stride, from, in_n, in_size, false);
    if (f->kind == TLK_FFT_TO_REAL) memset(in, 0xfb, (size_t)(in_n * in_size));
    if (from == NULL || to == NULL || !cuda_host->cpu->fft(&call)) abort();
    carry((char *)f->out + l * f->out_distance * out_size, f->stride, to, out_n, out_size, true);
  }
  free(from);
  free(to);
}

bool cuda_lib_fft(const tlk_Context *cx, const cuda_Fft *f) {
  uintptr_t size = f->wide ? 16 : 8;
  if ((uintptr_t)f->in % size != 0 || (uintptr_t)f->out % size != 0 || f->n < 1 || f->lines < 1)
    return cuda_fail(TL_EINTERNAL, "emulated cuFFT: a bad call");
  if (!cuda_enter(cx->device.index)) return false;
  return cuda_ok(tlk_emulated_put(cx->stream->handle, run_lines, f, sizeof *f), "tlk_library");
}

/* ---- listing the replaced kernels --------------------------------------------------- */

typedef void (*Function)(void);

static void tell(const char *name, volatile Function kernel, volatile Function answer) {
  if (kernel == answer) fprintf(stderr, " %s", name);
}

__attribute__((constructor)) static void tell_all(void) {
  const char *verbose = getenv("TLUA_EMULATED_VERBOSE");
  if (verbose == NULL || strcmp(verbose, "0") == 0) return;
  fprintf(stderr, "emulated CUDA: answered by the CPU:");
#define X(name, operands) tell(#name, (Function)tlk_##name, (Function)answer_##name);
  TLK_KERNELS(X)
#undef X
  fprintf(stderr, "\n");
}
