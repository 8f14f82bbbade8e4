/*
** cudnn_test.c - cuDNN accepts the graphs of convolutions that the CUDA plugin builds, and
** has plans for them, on a described H200: no GPU is needed. Passes over what there is
** nothing to try with: without cuDNN's headers or library there is one test that says so. So
** under the address sanitizer, which reports what cuDNN itself leaves behind.
*/
#include "test.h"

#if defined(__has_include)
#if __has_include(<cudnn.h>) && !defined(__SANITIZE_ADDRESS__)
#define HAVE_CUDNN
#endif
#endif

#ifdef HAVE_CUDNN

#include "kernels/cuda/lib/cudnn.c"
#include "kernels/cuda/lib/cudnn_conv.c"

/* ---- what the plugin has elsewhere; none of it is called -------------------------------------- */

const tl_Host *cuda_host;
bool cuda_fail(tl_ErrorKind kind, const char *format, ...) {
  (void)kind, (void)format;
  return false;
}
bool cuda_enter(int device) { return device >= 0; }
bool cuda_device_captures(int device) { return device < 0; }
void *cuda_scratch(const tlk_Context *cx, int64_t bytes) {
  (void)cx, (void)bytes;
  return NULL;
}
void cuda_scratch_free(const tlk_Context *cx, void *data, int64_t bytes) {
  (void)cx, (void)data, (void)bytes;
}
tl_Event *cuda_event(tl_Device device, int flags) {
  (void)device, (void)flags;
  return NULL;
}
void cuda_event_free(tl_Event *event) { (void)event; }
bool cuda_event_record(tl_Event *event, tl_Stream *stream) { return event && stream; }
bool cuda_event_elapsed(tl_Event *start, tl_Event *end, double *ms) { return start && end && ms; }
cudaEvent_t cuda_event_handle(const tl_Event *event) {
  (void)event;
  return NULL;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}

/* ---- a device that is described ------------------------------------------------------------------ */

/* An H200, in the words of cudaDeviceProp. */
static const char h200[] =
    "{\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,"
    "\"multiProcessorCount\":132,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"regsPerBlock\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150754820096,\"cudaDeviceId\":0,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}";

static cudnnBackendDescriptor_t described_device(cuda_DnnGraph *g) {
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof h200, h200);
  cuda_dnn_finish(g, d);
  return d;
}

/* How many plans there are for a convolution, -1 if the graph was refused. */
static int plans_for(const tlk_Conv *conv, Which which, bool tf32, bool deterministic) {
  Key key = {.conv = *conv, .which = which, .alignment = 16};
  cuda_DnnGraph g = {.lib = cuda_cudnn()};
  cuda_Plan plans[4];
  key.tf32 = tf32;
  key.deterministic = deterministic;
  cuda_Wanted wanted = {avoid(&key), WORKSPACE, 4};
  cudnnBackendDescriptor_t graph = graph_of(&g, &key), device = described_device(&g);
  int n = g.failed ? -1 : cuda_plans(&g, graph, device, NULL, &wanted, plans);
  for (int i = 0; i < n; i++) g.lib->cudnnBackendDestroyDescriptor(plans[i].plan);
  cuda_dnn_free(&g);
  return n;
}

static tlk_Conv conv2d(tl_DType dtype, int64_t channels, int64_t size, int64_t kernel,
                       int64_t stride, int64_t padding) {
  int64_t out = (size + 2 * padding - kernel) / stride + 1;
  return (tlk_Conv){.windows = {.in = {1, size, size},
                                .out = {1, out, out},
                                .kernel = {1, kernel, kernel},
                                .stride = {1, stride, stride},
                                .padding = {0, padding, padding},
                                .dilation = {1, 1, 1}},
                    .dtype = dtype,
                    .batch = 8,
                    .groups = 1,
                    .channels_in = channels,
                    .channels_out = 64};
}

static void all_three_of_a_convolution_have_plans(void) {
  static const tl_DType dtypes[] = {TL_F32, TL_F16, TL_BF16};
  for (int i = 0; i < 3; i++)
    for (Which which = FORWARD; which <= WEIGHT; which++) {
      tlk_Conv same = conv2d(dtypes[i], 64, 56, 3, 1, 1),
               halved = conv2d(dtypes[i], 64, 57, 3, 2, 0);
      CHECK_AT(i * 3 + (int)which, plans_for(&same, which, true, false) > 0);
      CHECK_AT(i * 3 + (int)which, plans_for(&halved, which, true, false) > 0);
    }
}

static void three_dimensions_and_groups(void) {
  tlk_Conv c = conv2d(TL_F32, 64, 14, 3, 1, 1);
  c.windows.in[0] = c.windows.out[0] = 6;
  c.windows.kernel[0] = 3;
  c.windows.padding[0] = 1;
  CHECK(plans_for(&c, FORWARD, true, false) > 0);
  tlk_Conv grouped = conv2d(TL_BF16, 64, 28, 3, 1, 1);
  grouped.groups = 4;
  CHECK(plans_for(&grouped, FORWARD, true, false) > 0);
}

static void exact_and_deterministic_plans_exist(void) {
  tlk_Conv c = conv2d(TL_F32, 64, 28, 3, 1, 1);
  for (Which which = FORWARD; which <= WEIGHT; which++) {
    CHECK_AT(which, plans_for(&c, which, false, false) > 0);
    CHECK_AT(which, plans_for(&c, which, true, true) > 0);
  }
}

static void windows_that_leave_elements_unread(void) {
  tlk_Conv c = conv2d(TL_F32, 32, 10, 3, 3, 0); /* the last column is in no window */
  CHECK(c.windows.out[1] == 3 && end_padding(&c.windows, 1) == 0);
  CHECK(plans_for(&c, FORWARD, true, false) > 0 && plans_for(&c, INPUT, true, false) > 0);
}

int main(void) {
  if (cuda_cudnn()) {
    RUN(all_three_of_a_convolution_have_plans);
    RUN(three_dimensions_and_groups);
    RUN(exact_and_deterministic_plans_exist);
    RUN(windows_that_leave_elements_unread);
  } else {
    printf("skipped: there is no cuDNN\n");
  }
  return test_end();
}

#else

int main(void) {
  printf("skipped: there are no headers of cuDNN, or a sanitizer watches\n");
  return test_end();
}

#endif
