/*
** cudnn_test.c - tests that cuDNN accepts the CUDA plugin's graphs for convolutions and attention,
** and has plans for them. cuDNN is given a description of an H200, so no GPU is needed. Also tests
** that attention's graphs compute the right values, that the right plans are stored on disk (with a
** replacement for cuDNN), and that cuDNN can read them back. Without cuDNN's headers, or with the
** address sanitizer (which would report cuDNN's own leaks), all tests are skipped with a message.
** Without cuDNN's library, most are.
*/
#include "spec/core/cudnn_have.h"

#ifdef HAVE_CUDNN

#include <unistd.h>

#include "core/platform/platform.h"
#include "spec/core/cudnn_host.h"

#include "kernels/cuda/lib/cudnn.c"
#include "kernels/cuda/lib/cudnn_attention.c"
#include "kernels/cuda/lib/cudnn_conv.c"
#include "kernels/cuda/lib/cudnn_plans.c"
#include "spec/core/cudnn_graph.h"

static void versions_that_get_attention_wrong_are_not_asked(void) {
  CHECK(is_right(91900, 1000, false) && is_right(91900, 1000, true));
  CHECK(is_right(91501, 1000, true) && !is_right(91500, 1000, true));
  CHECK(is_right(91500, 1024, true) && !is_right(91500, 1000, false));
  CHECK(is_right(90500, 1024, false) && !is_right(90500, 1024, true));
  CHECK(!is_right(91000, 1024, true) && !is_right(91001, 1024, true));
}

/* Returns the number of plans for a convolution, or -1 if cuDNN refused the graph. */
static int plans_for(const tlk_Conv *conv, Which which, bool tf32, bool deterministic) {
  Key key = {.conv = *conv, .which = which, .alignment = 16};
  cuda_DnnGraph g = {.lib = cuda_cudnn()};
  cuda_Plan plans[4];
  key.tf32 = tf32;
  key.deterministic = deterministic;
  cuda_Wanted wanted = {avoid(&key), CUDNN_WORKSPACE, 4};
  cudnnBackendDescriptor_t graph = conv_graph(&g, &key), device = described_device(&g);
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

/* Tests that cuDNN has plans for channels-last tensors, for each kind of convolution in a
** ResNet-50. */
static void channels_last_have_plans(void) {
  static const tl_DType dtypes[] = {TL_F32, TL_F16, TL_BF16};
  for (int i = 0; i < 3; i++)
    for (Which which = FORWARD; which <= WEIGHT; which++) {
      tlk_Conv all[] = {conv2d(dtypes[i], 64, 56, 3, 1, 1), conv2d(dtypes[i], 256, 56, 1, 1, 0),
                        conv2d(dtypes[i], 128, 57, 3, 2, 0)};
      for (int k = 0; k < 3; k++) {
        all[k].channels_last = true;
        CHECK_AT(i * 9 + (int)which * 3 + k, plans_for(&all[k], which, true, false) > 0);
      }
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

static void exact_convolutions_avoid_winograd(void) {
  Key key = {.conv = {.dtype = TL_F32}, .tf32 = 0};
  uint32_t winograd = WINOGRADS;
  CHECK((avoid(&key) & winograd) == winograd && (avoid(&key) & BIT(TENSOR_CORE)));
  key.tf32 = 1;
  CHECK(avoid(&key) == 0);
  key.deterministic = 1;
  CHECK(avoid(&key) == BIT(NONDETERMINISTIC));
  key = (Key){.conv = {.dtype = TL_F64}};
  CHECK(avoid(&key) == winograd);
  key.conv.dtype = TL_BF16;
  CHECK(avoid(&key) == 0);
}

static void windows_that_leave_elements_unread(void) {
  /* in this convolution, no window contains the last row or column */
  tlk_Conv c = conv2d(TL_F32, 32, 10, 3, 3, 0);
  CHECK(c.windows.out[1] == 3 && end_padding(&c.windows, 1) == 0);
  CHECK(plans_for(&c, FORWARD, true, false) > 0 && plans_for(&c, INPUT, true, false) > 0);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Describes a projection's result (batch, n, heads, size) as an operand (batch, heads, n, size). */
static tlk_HeadRows rows_of(int64_t n, int64_t heads, int64_t size) {
  return (tlk_HeadRows){(void *)(uintptr_t)4096, n * heads * size, size, heads * size};
}

static tlk_Attention attention(tl_DType dtype, int64_t queries, int64_t keys, int64_t size,
                               bool causal) {
  tlk_Attention a = {.dtype = dtype, .batch = 4, .heads = 12, .kv_heads = 12, .causal = causal};
  a.queries = queries, a.keys = keys, a.size = a.value_size = size, a.scale = 0.125;
  a.query = rows_of(queries, 12, size);
  a.key = a.value = rows_of(keys, 12, size);
  return a;
}

/* Returns the number of plans. Returns -1 if cuDNN refuses the graph, and -2 if the plugin would
** not use cuDNN. */
static int attention_plans(const tlk_Attention *a, bool backward) {
  tlk_HeadRows out = rows_of(a->queries, a->heads, a->value_size);
  AttentionCall c;
  cuda_DnnGraph g = {.lib = cuda_cudnn()};
  cuda_Plan plan;
  if (!begin(&c, a, backward) || !give_rows(&c, OUT, &out, a->heads, a->queries)) return -2;
  for (int i = GRAD_OUT; i <= GRAD_VALUE; i++)
    memcpy(c.key.strides[i],
           c.key.strides[i == GRAD_OUT     ? OUT
                         : i == GRAD_QUERY ? QUERY
                         : i == GRAD_KEY   ? KEY
                                           : VALUE],
           sizeof c.key.strides[i]);
  cuda_Wanted wanted = {0, CUDNN_WORKSPACE, 1};
  cudnnBackendDescriptor_t graph = attention_graph(&g, &c.key), device = described_device(&g);
  int n = g.failed ? -1 : cuda_plans(&g, graph, device, NULL, &wanted, &plan);
  if (n > 0) g.lib->cudnnBackendDestroyDescriptor(plan.plan);
  cuda_dnn_free(&g);
  return n;
}

static void attention_has_plans(void) {
  static const int64_t sizes[][3] = {{1024, 1024, 64}, {1000, 1000, 128}, {256, 512, 64}};
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 4; k++) {
      tlk_Attention a =
          attention(i == 1 ? TL_F16 : TL_BF16, sizes[i][0], sizes[i][1], sizes[i][2], (k & 1) != 0);
      CHECK_AT(i * 4 + k, attention_plans(&a, (k & 2) != 0) > 0);
    }
}

static void heads_that_share_keys_have_plans(void) {
  tlk_Attention a = attention(TL_BF16, 512, 512, 64, true);
  a.kv_heads = 4;
  a.key = a.value = rows_of(512, 4, 64);
  CHECK(attention_plans(&a, false) > 0);
  CHECK(attention_plans(&a, true) > 0);
}

static void attention_that_is_left_to_our_kernels(void) {
  tlk_Attention a = attention(TL_F32, 64, 64, 64, false);
  CHECK(attention_plans(&a, false) == -2);
  a = attention(TL_BF16, 64, 64, 60, false);
  CHECK(attention_plans(&a, false) == -2);
  a = attention(TL_BF16, 64, 64, 64, false);
  a.dropout = 0.1;
  CHECK(attention_plans(&a, false) == -2);
  a = attention(TL_BF16, 64, 64, 64, false);
  a.query.data = (char *)a.query.data + 2;
  CHECK(attention_plans(&a, false) == -2);
  a = attention(TL_BF16, 64, 64, 64, false);
  a.value.head = 0; /* expanded */
  CHECK(attention_plans(&a, false) == -2);
}

/* ---- results of the graphs ------------------------------------------------------------------- */

enum { BATCH = 2, HEADS = 4, QUERIES = 9, KEYS = 7, SIZE = 8, VALUES = 16 };
#define MOST (BATCH * HEADS * 16 * VALUES)

/* The arrays that a pass of attention reads and writes. They have the layout that projections
** return. */
typedef struct Problem {
  int64_t kv_heads;
  bool causal;
  float query[MOST], key[MOST], value[MOST], grad[MOST], out[MOST], norm[MOST], sum[MOST],
      wide[MOST], grad_query[MOST], grad_key[MOST], grad_value[MOST];
} Problem;

/* Returns the index of element (b, h, i, d) of a tensor with the layout of an array (b, n, heads,
** size). */
static int64_t spot(int64_t n, int64_t heads, int64_t size, int64_t b, int64_t h, int64_t i,
                    int64_t d) {
  return ((b * n + i) * heads + h) * size + d;
}

static void fill(float *x, unsigned seed) {
  for (int i = 0; i < MOST; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
}

static void close_to(int line, const float *x, int64_t place, double expected) {
  (void)line;
  CHECK_AT(line, fabs((double)x[place] - expected) < 2e-5 * (1 + fabs(expected)));
}

/* Computes the attention weights of one query in double. Returns the log-sum-exp of the query's
** scores. */
static double weights_of(const Problem *p, int64_t b, int64_t h, int64_t i, double *w) {
  double sum = 0;
  int64_t kv = h / (HEADS / p->kv_heads);
  for (int64_t j = 0; j < KEYS; j++) {
    double score = 0;
    for (int64_t d = 0; d < SIZE; d++)
      score += (double)p->query[spot(QUERIES, HEADS, SIZE, b, h, i, d)] *
               (double)p->key[spot(KEYS, p->kv_heads, SIZE, b, kv, j, d)];
    w[j] = p->causal && j > i ? 0 : exp(0.3 * score);
    sum += w[j];
  }
  for (int64_t j = 0; j < KEYS; j++) w[j] /= sum;
  return log(sum);
}

static bool compute(Problem *p, bool backward) {
  tlk_Attention a = {.dtype = TL_BF16, .batch = BATCH, .heads = HEADS, .kv_heads = p->kv_heads};
  a.causal = p->causal;
  a.queries = QUERIES, a.keys = KEYS, a.size = SIZE, a.value_size = VALUES, a.scale = 0.3;
  a.query = rows_of(QUERIES, HEADS, SIZE);
  a.key = rows_of(KEYS, p->kv_heads, SIZE);
  a.value = rows_of(KEYS, p->kv_heads, VALUES);
  tlk_HeadRows out = rows_of(QUERIES, HEADS, VALUES);
  AttentionCall c;
  cuda_DnnGraph g = {.lib = &recorder};
  if (!begin(&c, &a, backward) || !give_rows(&c, OUT, &out, HEADS, QUERIES) ||
      !give_rows(&c, GRAD_OUT, &out, HEADS, QUERIES) ||
      !give_rows(&c, GRAD_QUERY, &a.query, HEADS, QUERIES) ||
      !give_rows(&c, GRAD_KEY, &a.key, p->kv_heads, KEYS) ||
      !give_rows(&c, GRAD_VALUE, &a.value, p->kv_heads, KEYS))
    return false;
  const int64_t numbers[] = {QUERY, KEY,      VALUE,      OUT,      NORM,       SCALE, HIDDEN,
                             ONE,   GRAD_OUT, GRAD_QUERY, GRAD_KEY, GRAD_VALUE, SUM,   WIDE_QUERY};
  void *const arrays[] = {p->query,    p->key,        p->value, p->out,  p->norm,
                          &c.scale,    &c.hidden,     &c.one,   p->grad, p->grad_query,
                          p->grad_key, p->grad_value, p->sum,   p->wide};
  const Memory memory = {14, numbers, arrays};
  cudnnBackendDescriptor_t graph = attention_graph(&g, &c.key);
  bool ok = !g.failed && compute_graph(graph, &memory);
  cuda_dnn_free(&g);
  return ok;
}

static void check_results(const Problem *p) {
  double w[KEYS];
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t h = 0; h < HEADS; h++)
      for (int64_t i = 0; i < QUERIES; i++) {
        double norm = weights_of(p, b, h, i, w);
        close_to(__LINE__, p->norm, (b * HEADS + h) * QUERIES + i, norm);
        for (int64_t d = 0; d < VALUES; d++) {
          double sum = 0;
          for (int64_t j = 0; j < KEYS; j++)
            sum +=
                w[j] *
                (double)
                    p->value[spot(KEYS, p->kv_heads, VALUES, b, h / (HEADS / p->kv_heads), j, d)];
          close_to(__LINE__, p->out, spot(QUERIES, HEADS, VALUES, b, h, i, d), sum);
        }
      }
}

static void check_gradients(const Problem *p) {
  static double query[MOST], key[MOST], value[MOST];
  double w[KEYS], g[KEYS];
  memset(query, 0, sizeof query), memset(key, 0, sizeof key), memset(value, 0, sizeof value);
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t h = 0; h < HEADS; h++)
      for (int64_t i = 0; i < QUERIES; i++) {
        int64_t kv = h / (HEADS / p->kv_heads);
        double dot = 0;
        weights_of(p, b, h, i, w);
        for (int64_t j = 0; j < KEYS; j++) {
          g[j] = 0;
          for (int64_t d = 0; d < VALUES; d++) {
            double grad = (double)p->grad[spot(QUERIES, HEADS, VALUES, b, h, i, d)];
            int64_t to = spot(KEYS, p->kv_heads, VALUES, b, kv, j, d);
            g[j] += grad * (double)p->value[to];
            value[to] += w[j] * grad;
          }
          dot += w[j] * g[j];
        }
        for (int64_t j = 0; j < KEYS; j++)
          for (int64_t d = 0; d < SIZE; d++) {
            int64_t q = spot(QUERIES, HEADS, SIZE, b, h, i, d);
            int64_t k = spot(KEYS, p->kv_heads, SIZE, b, kv, j, d);
            query[q] += 0.3 * w[j] * (g[j] - dot) * (double)p->key[k];
            key[k] += 0.3 * w[j] * (g[j] - dot) * (double)p->query[q];
          }
      }
  for (int64_t n = 0; n < BATCH * HEADS * QUERIES * SIZE; n++)
    close_to(__LINE__, p->grad_query, n, query[n]);
  for (int64_t n = 0; n < BATCH * p->kv_heads * KEYS * SIZE; n++)
    close_to(__LINE__, p->grad_key, n, key[n]);
  for (int64_t n = 0; n < BATCH * p->kv_heads * KEYS * VALUES; n++)
    close_to(__LINE__, p->grad_value, n, value[n]);
}

static void graphs_compute_attention_and_its_gradients(void) {
  static Problem p;
  for (int k = 0; k < 4; k++) {
    memset(&p, 0, sizeof p);
    p.kv_heads = k & 1 ? 2 : HEADS;
    p.causal = (k & 2) != 0;
    fill(p.query, 1), fill(p.key, 2), fill(p.value, 3), fill(p.grad, 4);
    CHECK(compute(&p, false));
    check_results(&p);
    CHECK(compute(&p, true));
    check_gradients(&p);
  }
}

/* ---- plans on disk --------------------------------------------------------------------------- */

/* The functions of a fake cuDNN, whose engines are numbers. For every graph it offers three engines
** and ranks the first one highest, although the second one is the fastest. A plan's text is "plan"
** and the number of its engine. */
typedef struct Piece {
  cudnnBackendDescriptorType_t type;
  int engine;
} Piece;

static int asked, ran[4], last_run, destroyed;
static bool says_nothing;
static size_t version = 91900;

static double time_of_last(void) { return last_run == 1 ? 1 : 2 + last_run; }

static cudnnStatus_t piece_create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d) {
  Piece *piece = calloc(1, sizeof *piece);
  *piece = (Piece){type, -1};
  *d = piece;
  return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t piece_destroy(cudnnBackendDescriptor_t d) {
  destroyed += ((const Piece *)d)->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  free(d);
  return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t piece_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  Piece *piece = d;
  (void)type;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
    piece->engine = (*(Piece *const *)values)->engine;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && n == 5 &&
      memcmp(values, "plan", 4) == 0)
    piece->engine = ((const char *)values)[4] - '0';
  return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t piece_finalize(cudnnBackendDescriptor_t d) {
  const Piece *piece = d;
  bool none = piece->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && piece->engine < 0;
  return none ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t piece_get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, int64_t room, int64_t *n,
                               void *values) {
  const Piece *piece = d;
  char text[8];
  (void)type;
  *n = name == CUDNN_ATTR_ENGINEHEUR_RESULTS                   ? 3
       : name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE      ? 1
       : name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION ? 5
                                                               : 0;
  asked += name == CUDNN_ATTR_ENGINEHEUR_RESULTS;
  for (int i = 0; name == CUDNN_ATTR_ENGINEHEUR_RESULTS && i < 3; i++)
    (*(Piece *const *)((cudnnBackendDescriptor_t *)values + i))->engine = i;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) memset(values, 0, sizeof(int64_t));
  snprintf(text, sizeof text, "plan%d", piece->engine);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && room >= 5) memcpy(values, text, 5);
  bool refused = says_nothing && name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  return refused ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t piece_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                               cudnnBackendDescriptor_t pack) {
  (void)handle, (void)pack;
  last_run = ((const Piece *)plan)->engine;
  ran[last_run]++;
  return CUDNN_STATUS_SUCCESS;
}
static size_t piece_version(void) { return version; }

static const cuda_Cudnn pieces = {.cudnnCreate = stand_in_handle,
                                  .cudnnSetStream = stand_in_stream,
                                  .cudnnGetVersion = piece_version,
                                  .cudnnBackendCreateDescriptor = piece_create,
                                  .cudnnBackendDestroyDescriptor = piece_destroy,
                                  .cudnnBackendFinalize = piece_finalize,
                                  .cudnnBackendSetAttribute = piece_set,
                                  .cudnnBackendGetAttribute = piece_get,
                                  .cudnnBackendExecute = piece_run};

/* Adds an empty graph, which suffices because the fake library does not look at graphs. */
static cudnnBackendDescriptor_t no_graph(cuda_DnnGraph *g, const void *key) {
  (void)key;
  return cuda_dnn_add(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
}

/* Makes the same request twice. Returns the engine that ran last. *asks becomes the number of
** requests to cuDNN for engines, *runs the number of runs of any engine. */
static int work_twice(int64_t key, bool benchmark, int *asks, int *runs) {
  struct tl_Stream stream = {.handle = NULL};
  tlk_Context cx = {.device = {TL_CUDA, 0}, .stream = &stream};
  bool done = false;
  cuda_DnnWork work = {.cx = &cx, .key = &key, .key_bytes = sizeof key, .graph = no_graph};
  work.benchmark = benchmark;
  asked = 0;
  memset(ran, 0, sizeof ran);
  last_run = -1;
  CHECK(cuda_dnn_run(&work, &done) && done && cuda_dnn_run(&work, &done) && done);
  *asks = asked;
  *runs = ran[0] + ran[1] + ran[2];
  return last_run;
}

static int program(int64_t key, bool benchmark, int *asks, int *runs) {
  int engine = work_twice(key, benchmark, asks, runs);
  begin_anew(&tables[0]);
  return engine;
}

static char folder[64] = "/tmp/tlua-plans-XXXXXX";

static void with_pieces(void (*test)(void)) {
  char command[128];
  (void)cuda_cudnn(); /* loads the fake library */
  cuda_Cudnn real = calls;
  bool was = opened;
  calls = pieces, opened = true;
  CHECK(mkdtemp(folder) != NULL);
  tli_environment_set("TLUA_CACHE", folder);
  test();
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
  snprintf(folder, sizeof folder, "/tmp/tlua-plans-XXXXXX");
  calls = real, opened = was;
  handles[0].handle = NULL;
}

static void check_that_plans_are_kept(void) {
  int asks, runs;
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 1 && runs == 3 * 2 + 2);
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 0 && runs == 2);
  CHECK(program(2, false, &asks, &runs) == 0 && asks == 1 && runs == 2);
  CHECK(program(2, false, &asks, &runs) == 0 && asks == 0 && runs == 2);
  CHECK(program(3, false, &asks, &runs) == 0 && asks == 1);
  /* a plan chosen by time is not used for a request without benchmark */
  CHECK(program(1, false, &asks, &runs) == 0 && asks == 1);
}
static void plans_are_kept_for_the_next_program(void) { with_pieces(check_that_plans_are_kept); }

static void check_what_plans_depend_on(void) {
  int asks, runs;
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 1);
  version++;
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 1);
  version--;
  device_name = "another";
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 1);
  device_name = "a device";
  tli_set_setting(TL_CUDNN_BENCHMARK_LIMIT, 1);
  CHECK(program(1, true, &asks, &runs) == 0 && asks == 1);
  tli_set_setting(TL_CUDNN_BENCHMARK_LIMIT, 10);
  tli_set_setting(TL_DISK_CACHE, 0);
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 1);
  tli_set_setting(TL_DISK_CACHE, 1);
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 0);
}
static void another_library_device_or_limit_has_plans_of_its_own(void) {
  with_pieces(check_what_plans_depend_on);
}

static void check_refusals(void) {
  int asks, runs;
  DiskKey key;
  const int64_t one = 1;
  const tlk_Context cx = {.device = {TL_CUDA, 0}};
  cuda_DnnWork work = {.cx = &cx, .key = &one, .key_bytes = sizeof one};
  size_t bytes = disk_key(&work, &(cuda_Wanted){0, CUDNN_WORKSPACE, 1}, &key);
  CHECK(tli_cache_store("plan", &key, bytes, "nonsense", 8));
  CHECK(program(1, false, &asks, &runs) == 0 && asks == 1);
  CHECK(program(1, false, &asks, &runs) == 0 && asks == 0); /* the plan on disk was replaced */
  says_nothing = true;
  CHECK(program(7, false, &asks, &runs) == 0 && asks == 1);
  CHECK(program(7, false, &asks, &runs) == 0 && asks == 1);
  says_nothing = false;
}
static void invalid_stored_plans_are_replaced(void) { with_pieces(check_refusals); }

/* Checks that no plan is timed during a capture, and that the plan used then is not stored as if
** it had been timed. */
static void check_captures(void) {
  int asks, runs;
  CHECK(program(2, false, &asks, &runs) == 0); /* this call creates the handle */
  capturing = true;
  CHECK(program(1, true, &asks, &runs) == 0 && asks == 1 && runs == 2);
  CHECK(work_twice(1, true, &asks, &runs) == 0 && asks == 1 && runs == 2);
  capturing = false;
  CHECK(work_twice(1, true, &asks, &runs) == 1 && asks == 1 && runs == 3 * 2 + 2);
  capturing = true;
  CHECK(work_twice(1, true, &asks, &runs) == 1 && asks == 0 && runs == 2);
  CHECK(tables[0].filled == 1);
  begin_anew(&tables[0]);
  CHECK(program(1, true, &asks, &runs) == 1 && asks == 0 && runs == 2);
  capturing = false;
}
static void a_graph_gets_what_was_measured_before(void) { with_pieces(check_captures); }

static void check_plans_of_graphs(void) {
  int asks, runs, before;
  CHECK(work_twice(1, false, &asks, &runs) == 0 && work_twice(2, false, &asks, &runs) == 0);
  capturing = true;
  CHECK(work_twice(2, false, &asks, &runs) == 0 && work_twice(3, false, &asks, &runs) == 0);
  capturing = false;
  before = destroyed;
  begin_anew(&tables[0]);
  CHECK(destroyed == before + 1);
}
static void plans_that_a_graph_runs_are_not_destroyed(void) { with_pieces(check_plans_of_graphs); }

static void check_full_table(void) {
  int asks, runs;
  tli_set_setting(TL_DISK_CACHE, 0);
  for (int i = 0; i < PLANS; i++) CHECK(work_twice(i, false, &asks, &runs) == 0 && asks == 1);
  for (int i = 0; i < PLANS; i++) CHECK(work_twice(i, false, &asks, &runs) == 0 && asks == 0);
  CHECK(work_twice(PLANS, false, &asks, &runs) == 0 && asks == 1 && tables[0].filled == 1);
  begin_anew(&tables[0]);
  tli_set_setting(TL_DISK_CACHE, 1);
}
static void plans_are_found_as_long_as_no_more_are_made(void) { with_pieces(check_full_table); }

/* Tests that cuDNN itself can read stored plans for each kind of convolution. */
static void plans_are_read_back_by_cudnn(void) {
  const cuda_Cudnn *lib = cuda_cudnn();
  for (Which which = FORWARD; which <= WEIGHT; which++) {
    Key key = {.conv = conv2d(TL_BF16, 64, 56, 3, 1, 1), .which = which, .alignment = 16};
    cuda_DnnGraph g = {.lib = lib};
    cuda_Plan plan, again;
    cuda_Wanted wanted = {avoid(&key), CUDNN_WORKSPACE, 1};
    cudnnBackendDescriptor_t graph = conv_graph(&g, &key), device = described_device(&g);
    CHECK_AT(which, cuda_plans(&g, graph, device, NULL, &wanted, &plan) == 1);
    size_t bytes = 0, more = 0;
    char *text = cuda_plan_text(lib, &plan, &bytes), *same = NULL;
    bool read = text && cuda_plan_of_text(&g, text, bytes, device, NULL, &wanted, &again);
    CHECK_AT(which, text && read && again.workspace == plan.workspace);
    if (read) same = cuda_plan_text(lib, &again, &more);
    CHECK_AT(which, same && more == bytes && memcmp(text, same, bytes) == 0);
    cuda_Plan none;
    CHECK_AT(which, !cuda_plan_of_text(&g, "{}", 2, device, NULL, &wanted, &none));
    if (read) lib->cudnnBackendDestroyDescriptor(again.plan);
    lib->cudnnBackendDestroyDescriptor(plan.plan);
    if (text) tli_free(text, bytes);
    if (same) tli_free(same, more);
    cuda_dnn_free(&g);
  }
}

int main(void) {
  RUN(plans_are_kept_for_the_next_program);
  RUN(another_library_device_or_limit_has_plans_of_its_own);
  RUN(invalid_stored_plans_are_replaced);
  RUN(a_graph_gets_what_was_measured_before);
  RUN(plans_that_a_graph_runs_are_not_destroyed);
  RUN(plans_are_found_as_long_as_no_more_are_made);
  RUN(graphs_compute_attention_and_its_gradients);
  if (cuda_cudnn()) {
    RUN(attention_that_is_left_to_our_kernels);
    if (has_driver()) {
      RUN(attention_has_plans);
      RUN(heads_that_share_keys_have_plans);
    }
    RUN(versions_that_get_attention_wrong_are_not_asked);
    RUN(all_three_of_a_convolution_have_plans);
    RUN(channels_last_have_plans);
    RUN(three_dimensions_and_groups);
    RUN(exact_and_deterministic_plans_exist);
    RUN(exact_convolutions_avoid_winograd);
    RUN(windows_that_leave_elements_unread);
    RUN(plans_are_read_back_by_cudnn);
  } else {
    printf("skipped: there is no cuDNN\n");
  }
  return test_end();
}

#endif
