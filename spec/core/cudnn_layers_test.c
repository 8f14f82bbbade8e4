/*
** cudnn_layers_test.c - tests that cuDNN has plans for the batch norms of a ResNet-50, and that the
** plugin's graphs compute the right values. cuDNN gets the description of an H200, so no GPU is
** needed. Without cuDNN, tests are skipped; see cudnn_test.c.
*/
#include "spec/core/cudnn_have.h"

#ifdef HAVE_CUDNN

#include "core/platform/platform.h"
#include "spec/core/cudnn_host.h"

#include "kernels/cuda/lib/cudnn.c"
#include "kernels/cuda/lib/cudnn_norm.c"
#include "kernels/cuda/lib/cudnn_plans.c"
#include "spec/core/cudnn_graph.h"

static double time_of_last(void) { return 1; }

static void fill(float *x, int n, unsigned seed) {
  for (int i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
}

static bool is_close(float x, double expected) {
  return fabs((double)x - expected) < 1e-5 * (1 + fabs(expected));
}

/* Returns how many plans a graph has for the described device, or -1 if cuDNN refused the graph. */
static int plans_for(cudnnBackendDescriptor_t (*graph_of)(cuda_DnnGraph *, const void *),
                     const void *key, uint32_t avoid) {
  cuda_DnnGraph g = {.lib = cuda_cudnn()};
  cuda_Plan plan;
  cuda_Wanted wanted = {avoid, CUDNN_WORKSPACE, 1};
  cudnnBackendDescriptor_t graph = graph_of(&g, key), device = described_device(&g);
  int n = g.failed ? -1 : cuda_plans(&g, graph, device, NULL, &wanted, &plan);
  if (n > 0) g.lib->cudnnBackendDestroyDescriptor(plan.plan);
  cuda_dnn_free(&g);
  return n;
}

/* ---- batch norm ------------------------------------------------------------------------------ */

enum { ROWS = 35, CHANNELS = 8 };

static _Alignas(16) float in[ROWS * CHANNELS], out[ROWS * CHANNELS], grad_out[ROWS * CHANNELS],
    grad_in[ROWS * CHANNELS];
static _Alignas(16) float mean[CHANNELS], rstd[CHANNELS], weight[CHANNELS], bias[CHANNELS],
    grad_weight[CHANNELS], grad_bias[CHANNELS];

static struct tlk_batch_norm forward_norm(void) {
  return (struct tlk_batch_norm){.out = {out, TL_F32},
                                 .in = {in, TL_F32},
                                 .mean = mean,
                                 .rstd = rstd,
                                 .weight = weight,
                                 .bias = bias,
                                 .eps = 0.25,
                                 .outer = ROWS,
                                 .channels = CHANNELS,
                                 .inner = 1};
}

static struct tlk_batch_norm_backward backward_norm(void) {
  return (struct tlk_batch_norm_backward){.grad_in = {grad_in, TL_F32},
                                          .grad_weight = grad_weight,
                                          .grad_bias = grad_bias,
                                          .grad_out = {grad_out, TL_F32},
                                          .in = {in, TL_F32},
                                          .mean = mean,
                                          .rstd = rstd,
                                          .weight = weight,
                                          .outer = ROWS,
                                          .channels = CHANNELS,
                                          .inner = 1};
}

static bool compute(const NormCall *c) {
  cuda_DnnGraph g = {.lib = &recorder};
  const Memory memory = {c->n, c->ids, c->arrays};
  cudnnBackendDescriptor_t graph = norm_graph(&g, &c->key);
  bool ok = !g.failed && compute_graph(graph, &memory);
  cuda_dnn_free(&g);
  return ok;
}

/* Returns the sum of (x - mx) * (y - my) over channel c. */
static double moment(const float *x, double mx, const float *y, double my, int c) {
  double sum = 0;
  for (int r = 0; r < ROWS; r++)
    sum += ((double)x[r * CHANNELS + c] - mx) * ((double)y[r * CHANNELS + c] - my);
  return sum;
}

static double sum_of(const float *x, int c) {
  double sum = 0;
  for (int r = 0; r < ROWS; r++) sum += (double)x[r * CHANNELS + c];
  return sum;
}

static void graphs_compute_batch_norm_and_its_gradients(void) {
  struct tlk_batch_norm b = forward_norm();
  struct tlk_batch_norm_backward back = backward_norm();
  fill(in, ROWS * CHANNELS, 1), fill(grad_out, ROWS * CHANNELS, 2);
  fill(weight, CHANNELS, 3), fill(bias, CHANNELS, 4);
  NormCall c = forward_call(&b);
  give_array(&c, NORM_EPS, &c.eps);
  CHECK(compute(&c));
  c = backward_call(&back);
  CHECK(compute(&c));
  for (int k = 0; k < CHANNELS; k++) {
    double m = sum_of(in, k) / ROWS, s = 1 / sqrt(moment(in, m, in, m, k) / ROWS + 0.25);
    double along = moment(grad_out, 0, in, m, k) * s, all = sum_of(grad_out, k);
    CHECK_AT(k, is_close(mean[k], m) && is_close(rstd[k], s));
    CHECK_AT(k, is_close(grad_weight[k], along) && is_close(grad_bias[k], all));
    for (int r = 0; r < ROWS; r++) {
      int i = r * CHANNELS + k;
      double normal = ((double)in[i] - m) * s, by = s * (double)weight[k];
      CHECK_AT(i, is_close(out[i], normal * (double)weight[k] + (double)bias[k]));
      CHECK_AT(i, is_close(grad_in[i], ((double)grad_out[i] - (all + normal * along) / ROWS) * by));
    }
  }
}

/* Tests the batch norms of ResNet-50's first and last stage, for 32 images. */
static void batch_norms_of_a_resnet_have_plans(void) {
  static const tl_DType dtypes[] = {TL_F32, TL_F16, TL_BF16};
  static const int64_t sizes[][2] = {{32 * 112 * 112, 64}, {32 * 7 * 7, 2048}};
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 4; k++) {
      NormKey key = {CUDNN_NORMS, k & 1, dtypes[i], sizes[k / 2][0], sizes[k / 2][1]};
      CHECK_AT(i * 4 + k, plans_for(norm_graph, &key, 0) > 0);
    }
}

static bool is_taken(struct tlk_batch_norm b) {
  NormCall c = forward_call(&b);
  return is_for_engines(&c, b.inner);
}

static void batch_norms_that_are_left_to_our_kernels(void) {
  struct tlk_batch_norm b = forward_norm();
  CHECK(is_taken(b));
#define IS_LEFT(change) \
  b = forward_norm();   \
  change;               \
  CHECK(!is_taken(b));
  IS_LEFT(b.inner = 2)
  IS_LEFT(b.channels = 6)
  IS_LEFT(b.channels = 0)
  IS_LEFT(b.outer = 1)
  IS_LEFT(b.outer = (int64_t)1 << 28)
  IS_LEFT(b.weight = NULL)
  IS_LEFT(b.bias = NULL)
  IS_LEFT(b.in.data = (char *)b.in.data + 4)
  IS_LEFT(b.in.dtype = TL_F64)
  IS_LEFT((b.in.dtype = TL_F16, b.channels = 12))
#undef IS_LEFT
  b.channels = 16;
  CHECK(is_taken(b));
  struct tlk_batch_norm_backward back = backward_norm();
  NormCall c = backward_call(&back);
  CHECK(is_for_engines(&c, 1));
  back.grad_in.data = NULL;
  c = backward_call(&back);
  CHECK(!is_for_engines(&c, 1));
}

static void deterministic_layers_use_our_kernels(void) {
  bool known = cuda_lib_cudnn_version() >= CUDNN_KNOWN;
  CHECK(cuda_dnn_may_differ() == known);
  tli_set_setting(TL_CUDNN_DETERMINISTIC, 1);
  CHECK(!cuda_dnn_may_differ());
  tli_set_setting(TL_CUDNN_DETERMINISTIC, 0);
  tli_set_setting(TL_DETERMINISTIC, 1);
  CHECK(!cuda_dnn_may_differ());
  tli_set_setting(TL_DETERMINISTIC, 0);
  CHECK(cuda_dnn_may_differ() == known);
}

/* ---- caching plans --------------------------------------------------------------------------- */

/* The functions of a fake cuDNN. It offers one engine for every graph, and its plans need 48
** bytes. */
static int executed;
static bool was_zero;

static cudnnStatus_t one_create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d) {
  static int piece;
  (void)type;
  *d = &piece;
  return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t one_ok(cudnnBackendDescriptor_t d) {
  return d ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
static cudnnStatus_t one_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  (void)name, (void)type, (void)n, (void)values;
  return one_ok(d);
}
static cudnnStatus_t one_get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t room, int64_t *n,
                             void *values) {
  const int64_t bytes = 48;
  (void)type, (void)room;
  *n = name == CUDNN_ATTR_ENGINEHEUR_RESULTS || name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) memcpy(values, &bytes, sizeof bytes);
  return name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION ? CUDNN_STATUS_NOT_SUPPORTED
                                                               : one_ok(d);
}
static cudnnStatus_t one_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack) {
  (void)handle, (void)plan, (void)pack;
  executed++;
  was_zero = true;
  for (int i = 0; i < 48; i++) was_zero = was_zero && some_room[i] == 0;
  return CUDNN_STATUS_SUCCESS;
}
static size_t one_version(void) { return CUDNN_KNOWN; }

static const cuda_Cudnn one_engine = {.cudnnCreate = stand_in_handle,
                                      .cudnnSetStream = stand_in_stream,
                                      .cudnnGetVersion = one_version,
                                      .cudnnBackendCreateDescriptor = one_create,
                                      .cudnnBackendDestroyDescriptor = one_ok,
                                      .cudnnBackendFinalize = one_ok,
                                      .cudnnBackendSetAttribute = one_set,
                                      .cudnnBackendGetAttribute = one_get,
                                      .cudnnBackendExecute = one_run};

static bool norm_is_done(int64_t rows) {
  struct tl_Stream stream = {.handle = NULL};
  tlk_Context cx = {.device = {TL_CUDA, 0}, .stream = &stream};
  struct tlk_batch_norm b = forward_norm();
  bool done = false;
  b.cx = &cx;
  b.outer = rows;
  memset(some_room, 7, sizeof some_room);
  CHECK(cuda_lib_batch_norm(&b, &done));
  return done;
}

static void with_one_engine(void (*test)(void)) {
  (void)cuda_cudnn(); /* loads the fake library */
  cuda_Cudnn real = calls;
  bool was = opened;
  calls = one_engine, opened = true;
  tli_set_setting(TL_DISK_CACHE, 0);
  test();
  tli_set_setting(TL_DISK_CACHE, 1);
  begin_anew(&tables[0]);
  calls = real, opened = was;
  handles[0].handle = NULL;
}

static void check_workspace(void) {
  executed = 0;
  CHECK(norm_is_done(5) && executed == 1 && was_zero);
  CHECK(norm_is_done(5) && executed == 2 && was_zero);
  tli_set_setting(TL_CUDNN_ENABLED, 0);
  CHECK(!norm_is_done(5) && executed == 2);
  tli_set_setting(TL_CUDNN_ENABLED, 1);
}
static void a_norm_begins_with_a_workspace_of_0(void) { with_one_engine(check_workspace); }

static void check_number_of_sizes(void) {
  for (int64_t rows = 2; rows < 2 + MOST_SIZES; rows++) CHECK_AT((int)rows, norm_is_done(rows));
  CHECK(!norm_is_done(2 + MOST_SIZES) && !norm_is_done(3 + MOST_SIZES));
  CHECK(!norm_is_done(2 + MOST_SIZES) && norm_is_done(2) && norm_is_done(1 + MOST_SIZES));
}
static void norms_of_ever_new_sizes_are_left_to_our_kernels(void) {
  with_one_engine(check_number_of_sizes);
}

int main(void) {
  RUN(graphs_compute_batch_norm_and_its_gradients);
  RUN(batch_norms_that_are_left_to_our_kernels);
  RUN(a_norm_begins_with_a_workspace_of_0);
  RUN(norms_of_ever_new_sizes_are_left_to_our_kernels);
  if (cuda_cudnn()) {
    RUN(deterministic_layers_use_our_kernels);
    if (has_driver()) {
      RUN(batch_norms_of_a_resnet_have_plans);
    }
  } else {
    printf("skipped: there is no cuDNN\n");
  }
  return test_end();
}

#endif
