/*
** fusion_test.c - tests which calls are combined into a chain (grouping.c), and that NVRTC compiles
** the CUDA C of chains for the H200's architecture. No GPU is needed. Without CUDA's headers, a
** single test prints that the others are skipped.
*/
#include "test.h"

#if defined(__has_include)
#if __has_include(<cuda_runtime_api.h>) && defined(__linux__)
#define HAVE_CUDA
#endif
#endif

#ifdef HAVE_CUDA

#include "core/memory/alloc.h"
#include "kernels/cuda/lib/nvrtc.c"

#include "kernels/cuda/fusion/grouping.c"
#define size_of size_of_element
#define touches source_touches
#include "kernels/cuda/fusion/source.c"

/* ---- replacements for the plugin's functions ------------------------------------------------- */

static const tl_Host host = {.alloc = tli_alloc, .free = tli_free};
const tl_Host *cuda_host = &host;
bool cuda_enter(int device) { return device >= 0; }
int cuda_relax(void) { return 0; }
void cuda_unrelax(const int *mode) { (void)mode; }
bool cuda_ok(cudaError_t error, const char *call) { return error == cudaSuccess && call; }
int64_t cuda_fill_pattern(int dtype, const tl_Scalar *value) { return dtype + value->i; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  return mode ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **list, size_t n,
                             cudaStream_t stream) {
  (void)kernel, (void)blocks, (void)threads, (void)list, (void)n, (void)stream;
  return cudaErrorUnknown;
}
#if CUDART_VERSION >= 12080
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *options, void **values, unsigned n,
                                enum cudaLibraryOption *more, void **more_values, unsigned m) {
  (void)library, (void)code, (void)options, (void)values, (void)n, (void)more, (void)more_values;
  return m == 0 ? cudaErrorUnknown : cudaErrorInvalidValue;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  return kernel && library && name ? cudaErrorUnknown : cudaErrorInvalidValue;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return library ? cudaSuccess : cudaErrorInvalidValue;
}
#endif

/* ---- calls ----------------------------------------------------------------------------------- */

/* Makes an operand at an address with the given stride in bytes. No element is ever
** accessed. */
static tli_IterArg operand(int64_t at, tl_DType dtype, int64_t stride) {
  tli_IterArg a = {.data = (char *)(uintptr_t)(0x100000 + at), .dtype = dtype};
  a.strides[0] = stride;
  return a;
}

static struct tlk_pointwise call2(tlk_Pointwise kernel, int64_t n, tli_IterArg out, tli_IterArg a,
                                  tli_IterArg b) {
  struct tlk_pointwise p = {.kernel = kernel, .compute = TL_F32};
  p.it = (tli_Iter){.nargs = 3, .ndim = 1, .numel = n, .sizes = {n}, .args = {out, a, b}};
  p.params[0] = (tl_Scalar){.kind = TL_FLOATING, .f = 1};
  return p;
}

static struct tlk_pointwise call1(tlk_Pointwise kernel, int64_t n, tli_IterArg out, tli_IterArg a) {
  struct tlk_pointwise p = call2(kernel, n, out, a, a);
  p.it.nargs = 2;
  return p;
}

#define F(at) operand((at), TL_F32, 4)

static bool add_pointwise(fusion_Plan *plan, struct tlk_pointwise p) {
  return fusion_add(plan, FUSION_POINTWISE, &p);
}

/* Fuses (x * y).relu() + x; the last step overwrites x. */
static void steps_share_a_common_operand(void) {
  fusion_Plan plan = {0};
  CHECK(add_pointwise(&plan, call2(TLK_mul, 1000, F(8000), F(0), F(4000))));
  CHECK(add_pointwise(&plan, call1(TLK_relu, 1000, F(12000), F(8000))));
  CHECK(add_pointwise(&plan, call2(TLK_add, 1000, F(0), F(12000), F(0))));
  CHECK(plan.nsteps == 3 && plan.noperands == 4);
  CHECK(plan.operands[0].loaded && plan.operands[0].written); /* x */
  CHECK(plan.operands[1].loaded && !plan.operands[1].written);
  CHECK(!plan.operands[2].loaded && plan.operands[2].written);
  fusion_forget(&plan, (char *)(uintptr_t)(0x100000 + 8000), 4000);
  CHECK(plan.operands[2].dead && !plan.operands[3].dead);
  /* only a part of the array is freed, so its values must still be stored */
  fusion_forget(&plan, (char *)(uintptr_t)(0x100000 + 12000), 3999);
  CHECK(!plan.operands[3].dead);
  CHECK(fusion_width(&plan) == 4);
}

static void other_overlaps_are_not_fused(void) {
  fusion_Plan plan = {0}, before;
  CHECK(add_pointwise(&plan, call1(TLK_exp, 100, F(1000), F(0))));
  before = plan;
  /* must be refused, because it reads a part of the memory that step 1 writes, shifted by one
  ** element */
  CHECK(!add_pointwise(&plan, call1(TLK_exp, 100, F(2000), F(1004))));
  /* must be refused, because it overwrites a part of the chain's input, shifted by one element */
  CHECK(!add_pointwise(&plan, call1(TLK_exp, 100, F(4), F(1000))));
  CHECK(!add_pointwise(&plan, call1(TLK_exp, 100, F(2000), operand(1000, TL_I32, 4))));
  CHECK(!add_pointwise(&plan, call1(TLK_exp, 99, F(2000), F(3000))));
  CHECK(!add_pointwise(&plan, call1(TLK_exp, 100, operand(2000, TL_F32, 0), F(3000))));
  CHECK(!add_pointwise(&plan, call1(TLK_exp, 100, operand(2000, TL_F32, 2), F(3000))));
  CHECK(memcmp(&before, &plan, sizeof plan) == 0);
  /* adjacent arrays do not overlap */
  CHECK(add_pointwise(&plan, call1(TLK_exp, 100, F(1400), F(400))));
  CHECK(plan.noperands == 4);
}

/* Tests that memory that is freed during a capture can be used again with another dtype or size.
** Its old contents must not be read. */
static void freed_memory_is_used_again(void) {
  fusion_Plan plan = {0};
  CHECK(add_pointwise(&plan, call1(TLK_exp, 100, F(1000), F(0))));
  CHECK(add_pointwise(&plan, call1(TLK_log, 100, F(2000), F(1000))));
  struct tlk_pointwise test = call2(TLK_gt, 100, operand(1000, TL_BOOL, 1), F(2000), F(0));
  CHECK(!add_pointwise(&plan, test));
  fusion_forget(&plan, (char *)(uintptr_t)(0x100000 + 1000), 512);
  CHECK(add_pointwise(&plan, test));
  CHECK(plan.operands[1].dead && plan.noperands == 4 && plan.operands[3].written);
  /* An array that is written again after it was freed must be stored again. */
  fusion_Plan same = {0};
  CHECK(add_pointwise(&same, call1(TLK_exp, 100, F(1000), F(0))));
  fusion_forget(&same, (char *)(uintptr_t)(0x100000 + 1000), 512);
  CHECK(add_pointwise(&same, call1(TLK_log, 100, F(1000), F(0))));
  CHECK(!same.operands[1].dead && same.noperands == 2);
}

/* Fuses calls whose loops have different shapes of the same 120 elements: 120, 20 x 6, and 5 x
** 24. */
static void shapes_meet_in_their_parts(void) {
  fusion_Plan plan = {0};
  CHECK(add_pointwise(&plan, call1(TLK_exp, 120, F(1000), F(0))));
  struct tlk_pointwise rows = call2(TLK_add, 120, F(2000), F(1000), F(3000));
  rows.it.ndim = 2;
  rows.it.sizes[0] = 20, rows.it.sizes[1] = 6;
  rows.it.args[0].strides[1] = rows.it.args[1].strides[1] = 80;
  CHECK(add_pointwise(&plan, rows));
  CHECK(plan.ndim == 2 && plan.sizes[0] == 20 && plan.sizes[1] == 6 && plan.noperands == 4);
  struct tlk_pointwise columns = rows;
  columns.it.sizes[0] = 5, columns.it.sizes[1] = 24;
  columns.it.args[0] = F(4000), columns.it.args[1] = F(2000);
  columns.it.args[0].strides[1] = columns.it.args[1].strides[1] = 20;
  columns.it.args[2] = operand(5000, TL_F32, 0);
  columns.it.args[2].strides[1] = 4;
  CHECK(add_pointwise(&plan, columns));
  CHECK(plan.ndim == 3 && plan.sizes[0] == 5 && plan.sizes[1] == 4 && plan.sizes[2] == 6);
  CHECK(plan.operands[2].strides[1] == 20 && plan.operands[2].strides[2] == 0);
  CHECK(plan.operands[4].strides[1] == 4 && plan.operands[4].strides[2] == 16);
  columns.it.sizes[0] = 8, columns.it.sizes[1] = 15;
  CHECK(!add_pointwise(&plan, columns));
  fusion_merge(&plan);
  CHECK(plan.ndim == 3);
  fusion_Plan flat = {0};
  columns.it.sizes[0] = 5, columns.it.sizes[1] = 24;
  columns.it.args[2] = operand(5000, TL_F32, 4);
  columns.it.args[2].strides[1] = 20;
  CHECK(add_pointwise(&flat, columns) && flat.ndim == 2);
  fusion_merge(&flat);
  CHECK(flat.ndim == 1 && flat.sizes[0] == 120 && flat.operands[0].strides[0] == 4);
}

/* Tests that every elementwise kernel can be fused, for every dtype that the kernel supports. */
static void all_kernels_are_taken(void) {
  static const tl_DType types[] = {TL_F32, TL_F64, TL_I32, TL_I64};
  for (int t = 0; t < 4; t++)
    for (int k = 0; k < TLK_NPOINTWISES; k++) {
      fusion_Plan plan = {0};
      struct tlk_pointwise p = call2((tlk_Pointwise)k, 10, F(0), F(100), F(200));
      p.compute = types[t];
      CHECK_AT(k, add_pointwise(&plan, p));
    }
}

/* Tests that the two halves of a tensor count as separate arrays, and so do its even and its odd
** elements. */
static void parts_of_one_tensor_do_not_overlap(void) {
  static const int64_t second[] = {40, 4}, step[] = {4, 8};
  for (int i = 0; i < 2; i++) {
    fusion_Plan plan = {0};
    struct tlk_fused call = {.kernel = TLK_FUSED_rotate, .compute = TL_F32};
    call.it = (tli_Iter){.nargs = 6, .ndim = 2, .numel = 30, .sizes = {10, 3}};
    for (int k = 0; k < 6; k++) {
      call.it.args[k] = operand(k < 4 ? k / 2 * 4096 + k % 2 * second[i] : 8192, TL_F32, 4);
      call.it.args[k].strides[0] = k < 4 ? step[i] : 4;
      call.it.args[k].strides[1] = k < 4 ? 80 : 0;
    }
    CHECK_AT(i, fusion_add(&plan, FUSION_FUSED, &call));
    CHECK_AT(i, plan.noperands == 5 && plan.steps[0].outputs == 2 && plan.steps[0].inputs == 4);
    call.it.args[1].data -= 4;
    fusion_Plan next = {0};
    CHECK_AT(i, !fusion_add(&next, FUSION_FUSED, &call));
  }
}

/* Tests that a dropout is not fused if it has no random state of its own, because it would draw
** the same numbers at each replay. */
static void dropout_has_a_state(void) {
  fusion_Plan plan = {0};
  const uint64_t state[2] = {1, 2};
  struct tlk_dropout call = {.n = 100, .p = 0.75, .block = 7};
  call.out = (tlk_Array){(void *)(uintptr_t)0x100000, TL_F16};
  call.in = (tlk_Array){(void *)(uintptr_t)0x101000, TL_F16};
  CHECK(!fusion_add(&plan, FUSION_DROPOUT, &call));
  call.state = state;
  CHECK(fusion_add(&plan, FUSION_DROPOUT, &call));
  CHECK(plan.noperands == 2 && plan.steps[0].params[0].f32 == 4);
  CHECK(plan.steps[0].params[1].i64 == (int64_t)1 << 30 && plan.steps[0].params[2].i64 == 7);
}

static void misaligned_operands_go_by_elements(void) {
  fusion_Plan plan = {0};
  CHECK(add_pointwise(&plan, call1(TLK_exp, 100, F(1000), F(4))));
  CHECK(fusion_width(&plan) == 1);
  fusion_Plan half = {0};
  CHECK(add_pointwise(&half, call1(TLK_exp, 100, operand(1024, TL_F16, 2), operand(0, TL_F16, 2))));
  CHECK(fusion_width(&half) == 8);
}

static int count_of(const char *text, const char *part) {
  int n = 0;
  while ((text = strstr(text, part)) != NULL) n++, text++;
  return n;
}

/* Fuses p = x * y, r = relu(p) and r + x. The chain reads both inputs once. The results p and r
** are freed, so it writes only the last result. */
static void each_array_is_read_once_and_what_was_freed_is_not_written(void) {
  fusion_Plan plan = {0};
  char source[FUSION_SOURCE];
  CHECK(add_pointwise(&plan, call2(TLK_mul, 1024, F(8192), F(0), F(4096))));
  CHECK(add_pointwise(&plan, call1(TLK_relu, 1024, F(12288), F(8192))));
  CHECK(add_pointwise(&plan, call2(TLK_add, 1024, F(16384), F(12288), F(0))));
  CHECK(fusion_write(&plan, source));
  CHECK(count_of(source, "vector_of<") == 2 && count_of(source, "put_vector(") == 3);
  fusion_forget(&plan, (char *)(uintptr_t)(0x100000 + 8192), 8192);
  CHECK(fusion_write(&plan, source));
  CHECK(count_of(source, "vector_of<") == 2 && count_of(source, "put_vector(") == 1);
  CHECK(count_of(source, "put_vector(c.data[4] + at[4], v4)") == 1);
  CHECK(count_of(source, "seal(") == 2);
}

/* ---- NVRTC ----------------------------------------------------------------------------------- */

static bool compiles(const fusion_Plan *plan) {
  char source[FUSION_SOURCE];
  void *code;
  size_t bytes;
  if (!fusion_write(plan, source) || !cuda_lib_compile(source, 9, 0, &code, &bytes)) return false;
  bool elf = bytes > 64 && memcmp(code, "\177ELF", 4) == 0;
  free(code);
  return elf;
}

/* Compiles every kernel for every dtype that it supports, in the longest chains that are
** allowed. */
static void nvrtc_compiles_every_kernel(void) {
  static const tl_DType types[] = {TL_F32, TL_F64, TL_I32, TL_I64};
  static const struct {
    int inputs;
    bool floating, integer;
  } kernels[] = {
#define FLOATING true, false
#define RARE FLOATING
#define INTEGER false, true
#define NUMBER true, true
#define X(name, inputs, types, result) {inputs, types},
      TLK_POINTWISES(X)
#undef X
  };
  for (int t = 0; t < 4; t++) {
    fusion_Plan plan = {0};
    int64_t size = t & 1 ? 8 : 4;
    for (int k = 0; k < TLK_NPOINTWISES; k++) {
      if (!(t < 2 ? kernels[k].floating : kernels[k].integer)) continue;
      tli_IterArg x = operand(0, types[t], size), y = operand(4096, types[t], size);
      struct tlk_pointwise p = call2((tlk_Pointwise)k, 64, y, x, y);
      p.compute = types[t];
      p.it.args[3] = x;
      p.it.nargs = 1 + kernels[k].inputs;
      if (!add_pointwise(&plan, p)) {
        if (plan.nsteps == FUSION_STEPS) {
          CHECK_AT(k, compiles(&plan));
          memset(&plan, 0, sizeof plan);
          k--;
        }
      }
    }
    CHECK_AT(t, compiles(&plan));
  }
}

/* Fuses every kernel of TLK_FUSED with dropout, and compiles the result with NVRTC. */
static void nvrtc_compiles_fused_kernels_and_dropout(void) {
  static const uint64_t state[2];
  static const int8_t nargs[] = {
#define X(name, outputs, inputs) outputs + inputs,
      TLK_FUSED(X)
#undef X
  };
  for (int t = 0; t < 2; t++) {
    fusion_Plan plan = {0};
    tl_DType dtype = t ? TL_F64 : TL_F32;
    int64_t size = t ? 8 : 4;
    for (int k = 0; k < TLK_NFUSED; k++) {
      struct tlk_fused call = {.kernel = (tlk_Fused)k, .compute = dtype};
      call.it = (tli_Iter){.nargs = nargs[k], .ndim = 1, .numel = 64, .sizes = {64}};
      for (int i = 0; i < nargs[k]; i++) call.it.args[i] = operand(4096 * i, dtype, size);
      CHECK_AT(k, fusion_add(&plan, FUSION_FUSED, &call));
    }
    struct tlk_dropout drop = {.n = 64, .p = 0.5, .state = state};
    drop.out = (tlk_Array){(char *)(uintptr_t)0x100000, dtype};
    drop.in = (tlk_Array){(char *)(uintptr_t)0x101000, dtype};
    drop.residual = (tlk_Array){(char *)(uintptr_t)0x102000, dtype};
    CHECK(fusion_add(&plan, FUSION_DROPOUT, &drop));
    CHECK_AT(t, compiles(&plan));
  }
}

static void nvrtc_compiles_every_dtype_and_form(void) {
  static const tl_DType all[] = {TL_F32, TL_F64, TL_F16, TL_BF16, TL_I8,
                                 TL_I16, TL_I32, TL_I64, TL_U8,   TL_BOOL};
  for (int form = 0; form < 3; form++) {
    fusion_Plan plan = {0};
    for (int i = 0; i < 10; i++) {
      struct tlk_copy copy = {0};
      int64_t size = bytes_of(all[i]), to = bytes_of(all[(i + 1) % 10]);
      copy.it = (tli_Iter){.nargs = 2, .ndim = 1, .numel = 640, .sizes = {640}};
      copy.it.args[0] = operand(65536 * (i + 1), all[(i + 1) % 10], to);
      copy.it.args[1] = operand(65536 * i + (form == 1 ? size : 0), all[i], size);
      if (form == 1) copy.it.args[0].data += to;
      if (form == 2) {
        copy.it.ndim = 2;
        copy.it.sizes[0] = 20, copy.it.sizes[1] = 32;
        copy.it.args[0].strides[1] = 40 * to, copy.it.args[1].strides[1] = 40 * size;
      }
      CHECK_AT(i, fusion_add(&plan, FUSION_COPY, &copy));
    }
    struct tlk_fill fill = {.value = {.kind = TL_FLOATING, .f = 2}};
    fill.it = (tli_Iter){.nargs = 1, .ndim = 1, .numel = 640, .sizes = {640}};
    fill.it.args[0] = F(1048576);
    CHECK(fusion_add(&plan, FUSION_FILL, &fill));
    struct tlk_pointwise numbers = call2(TLK_add, 640, F(2097152), F(1048576), F(0));
    numbers.it.args[2] = (tli_IterArg){.dtype = TL_F32};
    CHECK(add_pointwise(&plan, numbers));
    fusion_merge(&plan);
    CHECK_AT(form, fusion_width(&plan) == (form == 1 ? 1 : 2));
    CHECK_AT(form, compiles(&plan));
  }
}

static void invalid_source_is_refused(void) {
  void *code;
  size_t bytes;
  CHECK(!cuda_lib_compile("no source", 9, 0, &code, &bytes));
  CHECK(!cuda_lib_compile("int x;", 1, 2, &code, &bytes));
}

int main(void) {
  RUN(steps_share_a_common_operand);
  RUN(other_overlaps_are_not_fused);
  RUN(freed_memory_is_used_again);
  RUN(shapes_meet_in_their_parts);
  RUN(all_kernels_are_taken);
  RUN(parts_of_one_tensor_do_not_overlap);
  RUN(dropout_has_a_state);
  RUN(misaligned_operands_go_by_elements);
  RUN(each_array_is_read_once_and_what_was_freed_is_not_written);
  if (cuda_lib_compiler()) {
    RUN(nvrtc_compiles_every_kernel);
    RUN(nvrtc_compiles_fused_kernels_and_dropout);
    RUN(nvrtc_compiles_every_dtype_and_form);
    RUN(invalid_source_is_refused);
  } else {
    printf("skipped: there is no NVRTC\n");
  }
  return test_end();
}

#else

int main(void) {
  printf("skipped: there are no headers of CUDA\n");
  return test_end();
}

#endif
