/*
** cudnn_rnn_test.c - gives cuDNN itself the recurrent layers that the CUDA plugin describes, and
** tests which layers cuDNN accepts and where it places their parameters. No GPU is needed, because
** these calls do not access a device; an empty handle is enough. Tests are skipped if cuDNN is
** missing; see cudnn_test.c.
*/
#include "spec/core/cudnn_have.h"

#ifdef HAVE_CUDNN

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spec/core/cudnn_host.h"

#include "kernels/cuda/lib/cudnn.c"
#include "kernels/cuda/rnn/cudnn_rnn.c"

/* ---- replacements for the plugin's functions, on host memory --------------------------------- */

static int copies;
static double time_of_last(void) { return 1; }

bool cuda_rnn_flip(const tlk_Context *cx, void *to, const void *from, int64_t steps, int64_t n,
                   bool wide) {
  (void)cx, (void)to, (void)from, (void)steps, (void)n, (void)wide;
  return false;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  (void)kind, (void)stream;
  memcpy(to, from, bytes);
  copies++;
  return cudaSuccess;
}

static _Alignas(64) char handle_bytes[1 << 20];
static cudnnStatus_t empty_handle(cudnnHandle_t *handle) {
  *handle = (cudnnHandle_t)(void *)handle_bytes;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- layers ---------------------------------------------------------------------------------- */

enum { INPUT = 5, HIDDEN = 7, PROJECTED = 3 };

/* The parameters: 2-byte elements, which all differ, so that a wrong place shows. */
static uint16_t params[PARAMS][4 * HIDDEN * HIDDEN * 2];

static tlk_Rnn layer(tlk_RnnMode mode, tl_DType dtype, bool biases, bool projects) {
  for (int i = 0; i < PARAMS; i++)
    for (size_t k = 0; k < sizeof params[0] / sizeof params[0][0]; k++)
      params[i][k] = (uint16_t)(i * 1000 + (int)k);
  return (tlk_Rnn){.mode = mode,
                   .dtype = dtype,
                   .steps = 6,
                   .batch = 4,
                   .rows = 24,
                   .input = INPUT,
                   .hidden = HIDDEN,
                   .output = projects ? PROJECTED : HIDDEN,
                   .weight_ih = params[WEIGHT_IH],
                   .weight_hh = params[WEIGHT_HH],
                   .weight_hr = projects ? params[WEIGHT_HR] : NULL,
                   .bias_ih = biases ? params[BIAS_IH] : NULL,
                   .bias_hh = biases ? params[BIAS_HH] : NULL};
}

/* Calls `test` for each kind of layer that the plugin requests from cuDNN. */
static void each_layer(void (*test)(int at, const tlk_Rnn *r)) {
  static const tl_DType dtypes[] = {TL_F32, TL_F16, TL_BF16};
  for (int i = 0; i < 5 * 3 * 2; i++) {
    bool projects = i % 5 == 4;
    tlk_Rnn r =
        layer(projects ? TLK_RNN_LSTM : (tlk_RnnMode)(i % 5), dtypes[i / 5 % 3], i < 15, projects);
    test(i, &r);
  }
}

static void check_descriptors(int at, const tlk_Rnn *r) {
  Layer l = {.lib = cuda_cudnn(), .r = r, .status = CUDNN_STATUS_SUCCESS};
  CHECK_AT(at, (l.handle = cuda_dnn_enter(0)) != NULL);
  describe_layer(&l);
  describe_sequences(&l, &l.x, r->input);
  describe_sequences(&l, &l.y, r->output);
  describe_state(&l, &l.h, r->output);
  CHECK_AT(at, covers(0, r) && good(&l));
  end(&l);
}
static void layers_are_accepted(void) { each_layer(check_descriptors); }

/* Checks where cuDNN places the parameters. The gates must be adjacent and in our order, so that
** one copy moves each array. The matrices come first: the input's matrix, then the state's. The
** biases follow. */
static void check_params(int at, const tlk_Rnn *r) {
  static const int order[] = {WEIGHT_IH, WEIGHT_HH, WEIGHT_HR, BIAS_IH, BIAS_HH};
  int64_t rows = tlk_rnn_gates(r->mode) * HIDDEN, bytes = element(r), sizes[PARAMS] = {0};
  const tlk_Context cx = {.stream = &(struct tl_Stream){.handle = NULL}};
  Layer l = {.lib = cuda_cudnn(), .r = r, .status = CUDNN_STATUS_SUCCESS};
  sizes[WEIGHT_IH] = rows * INPUT;
  sizes[WEIGHT_HH] = rows * r->output;
  sizes[WEIGHT_HR] = r->weight_hr ? (int64_t)PROJECTED * HIDDEN : 0;
  sizes[BIAS_IH] = sizes[BIAS_HH] = r->bias_ih ? rows : 0;
  CHECK_AT(at, (l.handle = cuda_dnn_enter(0)) != NULL);
  describe_layer(&l);
  ASK(&l, cudnnCreateTensorDescriptor, &l.matrix);
  ASK(&l, cudnnCreateTensorDescriptor, &l.bias);
  ASK(&l, cudnnGetRNNWeightSpaceSize, l.handle, l.rnn, &l.weights);
  char *space = calloc(1, l.weights + 1), *part = space;
  copies = 0;
  CHECK_AT(at, space && load_params(&l, &cx, space) && good(&l));
  for (int i = 0; i < PARAMS; i++) {
    size_t n = (size_t)(sizes[order[i]] * bytes);
    CHECK_AT(at * 10 + i, memcmp(part, params[order[i]], n) == 0);
    part += n;
  }
  CHECK_AT(at, part == space + l.weights);
  CHECK_AT(at, copies == 2 + 2 * (r->bias_ih != NULL) + (r->weight_hr != NULL));
  void *back[PARAMS] = {NULL};
  uint16_t grad[sizeof params[0] / sizeof params[0][0]] = {0};
  back[WEIGHT_HH] = grad;
  CHECK_AT(at, copy_params(&l, &cx, space, back, true) && good(&l));
  CHECK_AT(at, memcmp(grad, params[WEIGHT_HH], (size_t)(sizes[WEIGHT_HH] * bytes)) == 0);
  free(space);
  end(&l);
}
static void parameters_lie_as_ours_do(void) { each_layer(check_params); }

/* ---- passes ---------------------------------------------------------------------------------- */

/* Replaces cuDNN's function that returns memory sizes, because that function needs a device even
** for sizes that do not depend on the device. */
static cudnnStatus_t (*sizes_of)(cudnnHandle_t, cudnnRNNDescriptor_t, cudnnForwardMode_t,
                                 cudnnRNNDataDescriptor_t, size_t *, size_t *);
static cudnnStatus_t sizes_without_device(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                          cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                          size_t *work, size_t *reserve) {
  sizes_of(handle, rnn, mode, x, work, reserve);
  return *work > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* Returns whether cuDNN accepts the arguments. cuDNN checks them first. If they are valid, the
** call then fails with another error, because there is no driver. */
static bool gets_to_the_device(Layer *l) {
  bool yes = l->status / 1000 * 1000 == CUDNN_STATUS_EXECUTION_FAILED;
  l->status = CUDNN_STATUS_SUCCESS;
  return yes;
}

/* Returns a bit mask of the passes for which cuDNN refuses the arguments. */
static int passes_refused(const tlk_Rnn *r) {
  static _Alignas(256) char space[1 << 16], reserve[1 << 16], array[1 << 12];
  const tlk_Context cx = {.stream = &(struct tl_Stream){.handle = NULL}};
  int64_t kept = sizeof reserve;
  struct tlk_rnn forth = {.cx = &cx, .rnn = *r, .out = array, .hn = array, .reserve = reserve};
  struct tlk_rnn_backward back = {.cx = &cx, .rnn = *r, .grad_in = array, .out = array};
  Forward f = {.weights = space, .work = space};
  Backward b = {.weights = space, .grads = space, .work = space, .reserve = reserve};
  Layer l;
  forth.in = back.in = array, forth.kept = &kept;
  if (r->mode == TLK_RNN_LSTM) forth.cn = array;
  b.grad_y = array, back.reserve = reserve;
  if (!begin(&l, 0, r, true) || !good(&l) || l.reserve > sizeof reserve) return 8;
  int refused = !(run_forward(&l, &forth, &f) && gets_to_the_device(&l));
  refused |= !(run_backward(&l, &back, &b) && gets_to_the_device(&l)) << 1;
  return refused | !(params_back(&l, &back, &b, array) && gets_to_the_device(&l)) << 2;
}

/* Checks the passes in a separate process, because a handle cannot be used after a failure.
** Leaves bfloat16 out, because cuDNN cannot check it without knowing the GPU's generation. */
static void check_passes(int at, const tlk_Rnn *r) {
  int status = 0;
  if (r->dtype == TL_BF16) return;
  pid_t child = fork();
  if (child == 0) _exit(passes_refused(r));
  CHECK_AT(at, child > 0 && waitpid(child, &status, 0) == child);
  CHECK_AT(at * 10 + WEXITSTATUS(status), WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
static void arguments_of_passes_are_accepted(void) {
  sizes_of = calls.cudnnGetRNNTempSpaceSizes;
  calls.cudnnGetRNNTempSpaceSizes = sizes_without_device;
  each_layer(check_passes);
  calls.cudnnGetRNNTempSpaceSizes = sizes_of;
}

static void layers_that_are_left_to_our_kernels(void) {
  int64_t offsets[] = {0, 4, 8, 12, 16, 20, 24};
  tlk_Rnn r = layer(TLK_RNN_LSTM, TL_F32, true, false), other = r;
  CHECK(covers(0, &r));
  other.offsets = offsets;
  CHECK(!covers(0, &other));
  other = r, other.dtype = TL_F64;
  CHECK(!covers(0, &other));
  other = r, other.batch = other.rows = 0;
  CHECK(!covers(0, &other));
  other = r, other.bias_hh = NULL;
  CHECK(!covers(0, &other));
  /* a projection whose output has the same size as the hidden state */
  other = r, other.weight_hr = params[WEIGHT_HR];
  CHECK(!covers(0, &other));
  other = r, other.steps = (int64_t)1 << 31;
  CHECK(!covers(0, &other));
  static const tl_Setting settings[] = {TL_CUDNN_ENABLED, TL_CUDNN_DETERMINISTIC, TL_DETERMINISTIC};
  for (int i = 0; i < 3; i++) {
    int64_t before = tli_setting(settings[i]);
    tli_set_setting(settings[i], i > 0);
    CHECK_AT(i, !covers(0, &r));
    tli_set_setting(settings[i], before);
  }
  CHECK(covers(0, &r));
}

/* Checks that the size of a reserve shows which library filled it: cuDNN's sizes are odd, our
** kernels' sizes are even. */
static void reserves_can_be_told_apart(void) {
  for (int mode = 0; mode < 4; mode++)
    for (int rows = 1; rows < 8; rows += 2) {
      tlk_Rnn r = layer((tlk_RnnMode)mode, TL_BF16, true, false);
      r.rows = rows, r.hidden = rows;
      CHECK_AT(mode * 10 + rows, !cuda_dnn_rnn_kept(tlk_rnn_reserve(&r)));
    }
  CHECK(cuda_dnn_rnn_kept(929));
}

int main(void) {
  RUN(layers_that_are_left_to_our_kernels);
  RUN(reserves_can_be_told_apart);
  if (cuda_cudnn()) {
    calls.cudnnCreate = empty_handle;
    RUN(layers_are_accepted);
    RUN(parameters_lie_as_ours_do);
    if (!has_driver()) RUN(arguments_of_passes_are_accepted);
  } else {
    printf("skipped: there is no cuDNN\n");
  }
  return test_end();
}

#endif
