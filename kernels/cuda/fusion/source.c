/*
** source.c - generates CUDA C for a chain. All arithmetic is in header files whose text is compiled
** into the plugin: math.h has the functions of the steps, and element.cuh loads and stores
** elements. Sizes, strides, addresses and numbers are arguments of the kernel, so one kernel can
** compute every chain with the same steps.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/math.h"

/* ---- the included files ---------------------------------------------------------------------- */

/* The header files that the source includes, as X(symbol, name in #include, file). */
#define FILES(X)                                                          \
  X(bessel, "kernels/bessel.h", "kernels/bessel.h")                       \
  X(special, "kernels/special.h", "kernels/special.h")                    \
  X(math, "kernels/math.h", "kernels/math.h")                             \
  X(fused, "kernels/fused.h", "kernels/fused.h")                          \
  X(shared, "core/kernel/host_device.h", "src/core/kernel/host_device.h") \
  X(random, "core/kernel/random.h", "src/core/kernel/random.h")           \
  X(fault_source, "core/kernel/fault.h", "src/core/kernel/fault.h")       \
  X(fault, "kernels/cuda/fault.h", "kernels/cuda/fault.h")                \
  X(drop, "kernels/cuda/random/drop.h", "kernels/cuda/random/drop.h")     \
  X(element, "kernels/cuda/element.cuh", "kernels/cuda/element.cuh")      \
  X(call, "kernels/cuda/fusion/call.h", "kernels/cuda/fusion/call.h")     \
  X(loop, "kernels/cuda/fusion/loop.cuh", "kernels/cuda/fusion/loop.cuh")

#define X(symbol, name, file)                                                         \
  __asm__(".section .rodata\n.hidden tlk_text_" #symbol "\n.global tlk_text_" #symbol \
          "\ntlk_text_" #symbol ":\n.incbin \"" file "\"\n.byte 0\n.previous\n");     \
  extern const char tlk_text_##symbol[];
FILES(X)
#undef X

int fusion_headers(const char *const **names, const char *const **texts) {
  static const char *const all_names[] = {
#define X(symbol, name, file) name,
      FILES(X)
#undef X
  };
  static const char *const all_texts[] = {
#define X(symbol, name, file) tlk_text_##symbol,
      FILES(X)
#undef X
  };
  *names = all_names;
  *texts = all_texts;
  return sizeof all_names / sizeof *all_names;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *pointwise_name(int kernel) {
  static const char *const names[] = {
#define X(name, inputs, types, result) #name,
      TLK_POINTWISES(X)
#undef X
  };
  return names[kernel];
}

static const char *fused_name(int kernel) {
  static const char *const names[] = {
#define X(name, outputs, inputs) #name,
      TLK_FUSED(X)
#undef X
  };
  return names[kernel];
}

#define DIVIDES_FLOATING(name) 0
#define DIVIDES_RARE(name) 0
#define DIVIDES_NUMBER(name) tlm_##name##_i32_divides
#define DIVIDES_INTEGER(name) tlm_##name##_i32_divides

/* Returns whether a step is an integer division by its last input, which must not be 0. */
static bool divides(const fusion_Step *s) {
  static const bool table[] = {
#define X(name, inputs, types, result) DIVIDES_##types(name),
      TLK_POINTWISES(X)
#undef X
  };
  return (s->compute == TL_I32 || s->compute == TL_I64) && table[s->kernel];
}

/* Returns the name that element.cuh gives to a dtype's stored type. */
static const char *stored(tl_DType dtype) {
  switch (dtype) {
  case TL_F32: return "float";
  case TL_F64: return "double";
  case TL_F16: return "f16";
  case TL_BF16: return "bf16";
  case TL_I8: return "int8_t";
  case TL_I16: return "int16_t";
  case TL_I32: return "int32_t";
  case TL_I64: return "int64_t";
  case TL_U8: return "uint8_t";
  case TL_BOOL: return "bool8";
  default: return NULL;
  }
}

/* Returns the suffix of a compute type in the names of math.h's functions and call.h's numbers. */
static const char *suffix(tl_DType compute) {
  return compute == TL_F64 ? "f64" : compute == TL_F32 ? "f32" : compute == TL_I64 ? "i64" : "i32";
}

static int64_t size_of(tl_DType dtype) {
  static const int8_t bytes[] = {
#define X(name, text, size, ...) size,
      TL_DTYPES(X, )
#undef X
  };
  return bytes[dtype];
}

/* ---- the kernel's shape ---------------------------------------------------------------------- */

static bool touches(const fusion_Operand *o) { return o->loaded || (o->written && !o->dead); }

/* Returns whether the operand is constant along the innermost dimension. */
static bool is_steady(const fusion_Plan *plan, const fusion_Operand *o) {
  return plan->ndim > 0 && o->strides[0] == 0;
}

static bool in_vectors(const fusion_Plan *plan, const fusion_Operand *o, int n) {
  int64_t bytes = size_of(o->dtype), all = bytes * n < 16 ? bytes * n : 16;
  if (!touches(o) || is_steady(plan, o)) return true;
  if (o->strides[0] != bytes || (uintptr_t)o->data % (uintptr_t)all != 0) return false;
  for (int d = 1; d < plan->ndim; d++)
    if (o->strides[d] % all != 0) return false;
  return true;
}

/* Returns the number of elements that a thread processes at a time: as many as fill 16 bytes of the
** widest operand, but at most 8, or 1 if an operand cannot be read in vectors. The remainder of a
** one-dimensional loop is processed element by element. */
int fusion_width(const fusion_Plan *plan) {
  int64_t widest = 1;
  for (int i = 0; i < plan->noperands; i++)
    if (touches(&plan->operands[i]) && size_of(plan->operands[i].dtype) > widest)
      widest = size_of(plan->operands[i].dtype);
  int n = widest >= 8 ? 2 : widest == 4 ? 4 : 8;
  bool fits = plan->ndim == 1 || (plan->ndim > 1 && plan->sizes[0] % n == 0);
  for (int i = 0; fits && i < plan->noperands; i++) fits = in_vectors(plan, &plan->operands[i], n);
  return fits ? n : 1;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct Text {
  char *out;
  size_t used;
  bool full;
} Text;

__attribute__((format(printf, 2, 3))) static void say(Text *t, const char *format, ...) {
  size_t room = FUSION_SOURCE - t->used;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->out + t->used, room, format, args);
  va_end(args);
  t->full = t->full || n < 0 || (size_t)n >= room;
  if (!t->full) t->used += (size_t)n;
}

/* Returns whether a step after `step` reads the operand `made`, which `step` computes. */
static bool is_read_later(const fusion_Plan *plan, int step, int made) {
  for (int s = step + 1; s < plan->nsteps; s++) {
    const fusion_Step *later = &plan->steps[s];
    for (int k = 0; k < later->inputs; k++)
      if (later->in[k] == made) return true;
    for (int k = 0; k < later->outputs; k++)
      if (later->out[k] == made) return false;
  }
  return false;
}

/* The next functions print expressions. In the generated text, operands are named x0, x1 ...; the
** inputs of a step, in the compute type, are i0, i1 ...; and its numbers are p0, p1 ... */

static void say_inputs(Text *t, const fusion_Step *s) {
  for (int k = 0; k < s->inputs; k++) say(t, "%si%d", k ? ", " : "", k);
}

static void say_pointwise(Text *t, const fusion_Step *s, int number) {
  const char *type = stored(s->compute);
  bool divided = divides(s);
  say(t, "(%s)", type);
  if (divided) say(t, "(i%d == 0 ? note_division(c, %d), 0 : ", s->inputs - 1, number);
  say(t, "tlm_%s_%s(", pointwise_name(s->kernel), suffix(s->compute));
  say_inputs(t, s);
  say(t, ", p%d)%s", number, divided ? ")" : "");
}

static void say_dropout(Text *t, const fusion_Step *s, int number) {
  int at = number * FUSION_PARAMS;
  say(t, "drop<%s>(%s, c.params[%d].%s, i0, r%d, c.params[%d].i64)", stored(s->compute),
      s->inputs > 1 ? "i1" : "0", at, suffix(s->compute), number, at + 1);
}

/* Prints the value that a step stores in `out`, its only output. */
static void say_result(Text *t, const fusion_Plan *plan, int number, const char *out) {
  const fusion_Step *s = &plan->steps[number];
  if (s->kind == FUSION_FILL) {
    say(t, "element_of<%s>(&c.params[%d])", out, number * FUSION_PARAMS);
  } else if (s->kind == FUSION_COPY) {
    bool same = plan->operands[s->out[0]].dtype == plan->operands[s->in[0]].dtype;
    if (same)
      say(t, "x%d", s->in[0]);
    else
      say(t, "narrow<%s>(widen(x%d))", out, s->in[0]);
  } else {
    say(t, "narrow<%s>(", out);
    if (s->kind == FUSION_POINTWISE)
      say_pointwise(t, s, number);
    else if (s->kind == FUSION_DROPOUT)
      say_dropout(t, s, number);
    say(t, ")");
  }
}

static void say_step(Text *t, const fusion_Plan *plan, int number) {
  const fusion_Step *s = &plan->steps[number];
  bool computes = s->kind != FUSION_COPY && s->kind != FUSION_FILL;
  const char *type = computes ? stored(s->compute) : NULL;
  say(t, "  {\n");
  for (int k = 0; k < s->inputs && computes; k++)
    say(t, "    const %s i%d = narrow<%s>(widen(x%d));\n", type, k, type, s->in[k]);
  if (s->kind == FUSION_FUSED) {
    for (int k = 0; k < s->outputs; k++) say(t, "    %s y%d;\n", type, k);
    say(t, "    tlf_%s_%s(", fused_name(s->kernel), suffix(s->compute));
    say_inputs(t, s);
    for (int k = 0; k < s->outputs; k++) say(t, ", &y%d", k);
    say(t, ");\n");
  }
  for (int k = 0; k < s->outputs; k++) {
    const char *out = stored(plan->operands[s->out[k]].dtype);
    bool sealed = is_read_later(plan, number, s->out[k]);
    say(t, "    x%d = %s", s->out[k], sealed ? "seal(" : "");
    if (s->kind == FUSION_FUSED)
      say(t, "narrow<%s>(y%d)", out, k);
    else
      say_result(t, plan, number, out);
    say(t, "%s;\n", sealed ? ", c.zero)" : "");
  }
  say(t, "  }\n");
}

/* Prints the steps as a function. It takes one element of each operand, and one random word for
** each dropout. */
static void say_steps(Text *t, const fusion_Plan *plan) {
  say(t, "DEVICE void steps(const fusion_Call &c");
  for (int i = 0; i < plan->noperands; i++) say(t, ", %s &x%d", stored(plan->operands[i].dtype), i);
  for (int s = 0; s < plan->nsteps; s++)
    if (plan->steps[s].kind == FUSION_DROPOUT) say(t, ", uint32_t r%d", s);
  say(t, ") {\n");
  for (int s = 0; s < plan->nsteps; s++) {
    const fusion_Step *step = &plan->steps[s];
    const char *of = suffix(step->compute);
    if (step->kind != FUSION_POINTWISE) continue;
    say(t, "  const %s p%d[] = {", stored(step->compute), s);
    for (int k = 0; k < FUSION_PARAMS; k++)
      say(t, "c.params[%d].%s%s", s * FUSION_PARAMS + k, of, k + 1 < FUSION_PARAMS ? ", " : "};\n");
  }
  for (int s = 0; s < plan->nsteps; s++) say_step(t, plan, s);
  say(t, "}\n");
}

/* Prints a function that loads N elements of each operand, runs the steps and stores the
** results. */
static void say_part(Text *t, const fusion_Plan *plan) {
  say(t,
      "template <int N>\nDEVICE void part(const fusion_Call &c, uint32_t i) {\n"
      "  int64_t at[FUSION_OPERANDS];\n  offsets<%d, %d>(c, i, at);\n",
      plan->noperands, plan->ndim);
  for (int i = 0; i < plan->noperands; i++) {
    const fusion_Operand *o = &plan->operands[i];
    const char *type = stored(o->dtype);
    say(t, "  Vector<%s, N> v%d;\n", type, i);
    if (o->data == NULL)
      say(t, "  v%d = all_of<N>(element_of<%s>(&c.number[%d]));\n", i, type, i);
    else if (o->loaded && is_steady(plan, o))
      say(t, "  v%d = all_of<N>(element_of<%s>(c.data[%d] + at[%d]));\n", i, type, i, i);
    else if (o->loaded)
      say(t, "  v%d = vector_of<N, %s>(c.data[%d] + at[%d]);\n", i, type, i, i);
  }
  for (int s = 0; s < plan->nsteps; s++)
    if (plan->steps[s].kind == FUSION_DROPOUT)
      say(t, "  uint32_t r%d[N];\n  words_of<N>(&c.params[%d], i, r%d);\n", s, s * FUSION_PARAMS,
          s);
  say(t, "#pragma unroll\n  for (int e = 0; e < N; e++) steps(c");
  for (int i = 0; i < plan->noperands; i++) say(t, ", v%d.at[e]", i);
  for (int s = 0; s < plan->nsteps; s++)
    if (plan->steps[s].kind == FUSION_DROPOUT) say(t, ", r%d[e]", s);
  say(t, ");\n");
  for (int i = 0; i < plan->noperands; i++)
    if (plan->operands[i].written && !plan->operands[i].dead)
      say(t, "  put_vector(c.data[%d] + at[%d], v%d);\n", i, i, i);
  say(t, "}\n");
}

bool fusion_write(const fusion_Plan *plan, char out[FUSION_SOURCE]) {
  Text t = {.out = out};
  int n = fusion_width(plan);
  for (int i = 0; i < plan->noperands; i++)
    if (stored(plan->operands[i].dtype) == NULL) return false;
  say(&t, "#include \"kernels/cuda/element.cuh\"\n#include \"kernels/fused.h\"\n"
          "#include \"kernels/cuda/random/drop.h\"\n#include \"kernels/cuda/fusion/call.h\"\n"
          "#include \"kernels/cuda/fusion/loop.cuh\"\n");
  say_steps(&t, plan);
  say_part(&t, plan);
  say(&t, "extern \"C\" __global__ void __launch_bounds__(FUSION_THREADS)\n"
          "    fusion_chain(const __grid_constant__ fusion_Call c) {\n"
          "  uint32_t step = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + "
          "threadIdx.x;\n");
  if (n > 1)
    say(&t,
        "  for (uint32_t i = thread; i < c.numel / %d; i += step) part<%d>(c, i * %d);\n"
        "  for (uint32_t i = c.numel / %d * %d + thread; i < c.numel; i += step) "
        "part<1>(c, i);\n",
        n, n, n, n, n);
  else
    say(&t, "  for (uint32_t i = thread; i < c.numel; i += step) part<1>(c, i);\n");
  say(&t, "}\n");
  return !t.full;
}
