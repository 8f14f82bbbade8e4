/*
** wrong_calls.c - calls the public functions with arguments that a host must not pass. Each call
** must fail with a message or do nothing, and the library must still work. The address and
** undefined-behaviour sanitizers find more errors in these calls. Also tests which operators
** tl_interrupt ends.
*/
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

static lua_State *opened(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  return L;
}

/* Runs a script. If the script raises an error, prints the message and returns false. */
static bool runs(lua_State *L, const char *script) {
  bool ok = luaL_dostring(L, script) == LUA_OK;
  if (!ok) printf("# %s\n", lua_tostring(L, -1));
  lua_settop(L, 0);
  return ok;
}

/* Checks that a function that makes an object has returned NULL and set a message. */
static void fails(const void *made, int64_t i) {
  CHECK_AT(i, made == NULL && *tl_error() != '\0' && tl_error_kind() != TL_OK);
}

/* ---- tensors ---- */

static const int64_t extremes[] = {0,         1,         -1,          2,         1 << 20,
                                   INT32_MAX, INT64_MAX, INT64_MIN,   1LL << 31, 1LL << 32,
                                   1LL << 61, 1LL << 62, -(1LL << 62)};
enum { NEXTREMES = sizeof extremes / sizeof *extremes };

TEST(dtypes_that_do_not_exist) {
  static const int wrong[] = {-1, -2, TL_NDTYPES, 77, INT_MAX, INT_MIN};
  float data[4] = {0};
  int64_t four = 4;
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 1, &four, NULL, NULL, NULL);
  for (int i = 0; i < 6; i++) {
    tl_DType dtype = (tl_DType)wrong[i];
    fails(tl_tensor_empty(dtype, 1, &four), wrong[i]);
    fails(tl_tensor_wrap(data, dtype, 1, &four, NULL, NULL, NULL), wrong[i]);
    CHECK_AT(wrong[i], !tl_tensor_read(t, dtype, data, sizeof data));
    CHECK_AT(wrong[i], strcmp(tl_dtype_name(dtype), "none") == 0 && tl_dtype_size(dtype) == 0);
  }
  tl_tensor_release(t);
}

/* Tests all pairs of extreme sizes. Each pair makes a tensor of that many elements, or fails. */
TEST(sizes_that_overflow) {
  tl_set_memory_limit(64 << 20);
  for (int dtype = 0; dtype < TL_NDTYPES; dtype++)
    for (int i = 0; i < NEXTREMES; i++)
      for (int j = 0; j < NEXTREMES; j++) {
        int64_t sizes[2] = {extremes[i], extremes[j]};
        tl_Tensor *t = tl_tensor_empty((tl_DType)dtype, 2, sizes);
        if (t == NULL) continue;
        CHECK_AT(i * 100 + j, sizes[0] >= 0 && sizes[1] >= 0);
        CHECK_AT(i * 100 + j, tl_tensor_numel(t) == sizes[0] * sizes[1]);
        tl_tensor_release(t);
      }
  tl_set_memory_limit(0);
  for (int i = 0; i < NEXTREMES; i++)
    if (extremes[i] < 0 || extremes[i] > TL_MAX_DIMS) {
      int64_t sizes[TL_MAX_DIMS] = {1};
      fails(tl_tensor_empty(TL_F32, (int)(extremes[i] % INT_MAX) - 20000, sizes), i);
    }
}

static int released;
static void count_release(void *data, void *context) {
  (void)data;
  (void)context;
  released++;
}

TEST(strides_that_overflow) {
  _Alignas(16) static double data[4];
  released = 0;
  int made = 0;
  for (int i = 0; i < NEXTREMES; i++)
    for (int j = 0; j < NEXTREMES; j++)
      for (int dtype = 0; dtype < TL_NDTYPES; dtype++) {
        int64_t sizes[2] = {extremes[i], 2}, strides[2] = {extremes[j], 1};
        tl_Tensor *t =
            tl_tensor_wrap(data, (tl_DType)dtype, 2, sizes, strides, count_release, NULL);
        made += t != NULL;
        if (t) CHECK_AT(i * 100 + j, sizes[0] >= 0);
        tl_tensor_is_contiguous(t);
        tl_tensor_release(t);
      }
  CHECK(released == made);
}

/* Tests that memory is refused if its elements are not aligned to their size; the same rule
** holds for DLPack. */
TEST(memory_that_is_not_aligned) {
  _Alignas(16) static char bytes[64];
  released = 0;
  for (int dtype = 0; dtype < TL_NDTYPES; dtype++) {
    int64_t two = 2;
    tl_Tensor *t = tl_tensor_wrap(bytes + 1, (tl_DType)dtype, 1, &two, NULL, count_release, NULL);
    if (tl_dtype_size((tl_DType)dtype) == 1) {
      CHECK_AT(dtype, t != NULL);
      tl_tensor_release(t);
      released = 0;
    } else {
      fails(t, dtype);
    }
  }
  CHECK(released == 0);
}

TEST(reads_of_the_wrong_size) {
  float data[4] = {1, 2, 3, 4};
  int64_t four = 4;
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 1, &four, NULL, NULL, NULL);
  static const size_t wrong[] = {0, 1, 15, 17, SIZE_MAX, SIZE_MAX / 2};
  char out[64];
  for (int i = 0; i < 6; i++) CHECK_AT(i, !tl_tensor_read(t, TL_F32, out, wrong[i]));
  CHECK(tl_tensor_read(t, TL_F32, data, sizeof data)); /* reads a tensor into its own memory */
  CHECK(data[3] == 4);
  tl_tensor_release(t);
}

/* ---- programs ---- */

static char path[] = "/tmp/wrong_callsXXXXXX";

/* Saves a program and a training step in the files `path`.tlp and `path`.step. */
static bool save_programs(void) {
  lua_State *L = opened();
  lua_pushstring(L, path);
  lua_setglobal(L, "path");
  bool ok =
      runs(L, "local nn = torch.nn torch.manual_seed(1)\n"
              "torch.export(nn.Linear(3, 2), {torch.ones(4, 3)}):save(path .. '.tlp')\n"
              "local m = nn.Linear(3, 2)\n"
              "local o = torch.optim.SGD(m:parameters(), {lr = 0.1})\n"
              "local function step(x) o:zero_grad() local l = m(x):sum() l:backward() o:step()\n"
              "   return l:detach() end\n"
              "torch.export_step(step, {torch.ones(4, 3)}, {model = m, optimizer = o})\n"
              "   :save(path .. '.step')");
  lua_close(L);
  return ok;
}

static tl_Program *load(const char *ending) {
  char name[64];
  snprintf(name, sizeof name, "%s%s", path, ending);
  return tl_program_load(name);
}

TEST(files_that_are_no_programs) {
  CHECK(mkstemp(path) >= 0);
  char longer[5000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  const char *const wrong[] = {NULL, "",     "/",        "/tmp", "/dev/null",
                               path, longer, "\xff\xfe", "%s%n"};
  for (int i = 0; i < 9; i++) fails(tl_program_load(wrong[i]), i);
  _Alignas(64) static char bytes[256];
  fails(tl_program_read(NULL, 0), 0);
  fails(tl_program_read(NULL, 100), 1);
  fails(tl_program_read(bytes, 0), 2);
  fails(tl_program_read(bytes, sizeof bytes), 3);
  fails(tl_program_read(bytes + 1, sizeof bytes - 1), 4);
  memset(bytes, 0xff, sizeof bytes);
  fails(tl_program_read(bytes, sizeof bytes), 5);
}

TEST(descriptions_of_no_program) {
  CHECK(save_programs());
  tl_Program *p = load(".tlp");
  tl_ProgramInput in;
  static const int wrong[] = {-1, 1, 2, INT_MAX, INT_MIN};
  for (int i = 0; i < 5; i++) CHECK_AT(wrong[i], !tl_program_input(p, wrong[i], &in));
  CHECK(!tl_program_input(p, 0, NULL) && *tl_error());
  CHECK(!tl_program_input(NULL, 0, &in) && !tl_program_input(NULL, 0, NULL));
  CHECK(tl_program_input(p, 0, &in) && in.ndim == 2);
  tl_program_free(p);
}

/* Tests runs with arguments that do not fit. Each run fails, and an output that was NULL stays
** NULL. */
TEST(runs_with_wrong_tensors) {
  tl_Program *p = load(".tlp"), *step = load(".step");
  static float data[12], out[8];
  int64_t sizes[] = {4, 3}, reversed[] = {3, 4}, flat[] = {12}, results[] = {4, 2}, none[] = {4, 0};
  int64_t folded[] = {0, 1};
  tl_Tensor *x = tl_tensor_wrap(data, TL_F32, 2, sizes, NULL, NULL, NULL);
  tl_Tensor *wrong[] = {
      NULL,
      tl_tensor_wrap(data, TL_F32, 2, reversed, NULL, NULL, NULL),
      tl_tensor_wrap(data, TL_F32, 1, flat, NULL, NULL, NULL),
      tl_tensor_wrap(data, TL_I32, 2, sizes, NULL, NULL, NULL),
      tl_tensor_wrap(data, TL_F32, 2, none, NULL, NULL, NULL),
      tl_tensor_empty(TL_F64, 2, sizes),
      tl_tensor_empty(TL_F32, 0, NULL),
  };
  for (int i = 0; i < 7; i++) {
    tl_Tensor *o = NULL;
    CHECK_AT(i, !tl_program_run(p, &wrong[i], 1, &o, 1) && *tl_error() && o == NULL);
    CHECK_AT(i, !tl_program_step(step, &wrong[i], 1, &o, 1) && *tl_error() && o == NULL);
    if (wrong[i] == NULL) continue;
    o = wrong[i];
    CHECK_AT(i, !tl_program_run(p, &x, 1, &o, 1) && *tl_error() && o == wrong[i]);
  }
  static const int counts[] = {-1, 0, 2, INT_MAX, INT_MIN};
  for (int i = 0; i < 5; i++) {
    tl_Tensor *o = NULL;
    CHECK_AT(i, !tl_program_run(p, &x, counts[i], &o, 1) && o == NULL);
    CHECK_AT(i, !tl_program_run(p, &x, 1, &o, counts[i]) && o == NULL);
    CHECK_AT(i, !tl_program_step(step, &x, counts[i], &o, 1) && o == NULL);
    CHECK_AT(i, !tl_program_step(step, &x, 1, &o, counts[i]) && o == NULL);
  }
  tl_Tensor *o = NULL;
  CHECK(!tl_program_run(p, NULL, 1, &o, 1) && !tl_program_run(p, &x, 1, NULL, 1));
  CHECK(!tl_program_run(NULL, NULL, 0, NULL, 0) && !tl_program_step(NULL, NULL, 0, NULL, 0));
  /* tl_program_step must refuse a program that was exported without a training step */
  CHECK(!tl_program_step(p, &x, 1, &o, 1) && o == NULL);
  /* An output may not share memory with an input, and its elements may not overlap. */
  tl_Tensor *shared = tl_tensor_wrap(data, TL_F32, 2, results, NULL, NULL, NULL);
  tl_Tensor *twice = tl_tensor_wrap(out, TL_F32, 2, results, folded, NULL, NULL);
  if (tl_program_run(p, &x, 1, &shared, 1)) CHECK(isfinite(data[0]));
  CHECK(!tl_program_run(p, &x, 1, &twice, 1));
  memset(data, 0, sizeof data);
  CHECK(tl_program_run(p, &x, 1, &o, 1) && tl_tensor_numel(o) == 8);
  tl_tensor_release(o);
  tl_tensor_release(shared);
  tl_tensor_release(twice);
  tl_tensor_release(x);
  for (int i = 0; i < 7; i++) tl_tensor_release(wrong[i]);
  tl_program_free(p);
  tl_program_free(step);
}

TEST(settings_of_programs) {
  tl_Program *p = load(".tlp"), *step = load(".step");
  static const tl_ProgramLimits wrong[] = {{-1, 0}, {0, -1}, {0, NAN}, {INT64_MIN, -INFINITY}};
  for (int i = 0; i < 4; i++) CHECK_AT(i, !tl_program_set_limits(p, &wrong[i]));
  CHECK(tl_program_set_limits(p, &(tl_ProgramLimits){INT64_MAX, INFINITY}));
  CHECK(tl_program_set_limits(p, &(tl_ProgramLimits){INT64_MAX, 1e300}));
  CHECK(!tl_program_seed(NULL, 1) && tl_program_seed(step, UINT64_MAX));
  CHECK(!tl_program_save(p, "/") && !tl_program_save(p, "") && !tl_program_save(p, "/nowhere/x"));
  CHECK(!tl_program_save(NULL, "/tmp/x"));
  static const tl_Device devices[] = {{-1, 0}, {TL_CPU, 1}, {TL_CPU, -1},   {TL_META, 0},
                                      {77, 0}, {-128, 127}, {TL_CUDA, 127}, {TL_NDEVICETYPES, 0}};
  for (int i = 0; i < 8; i++) fails(tl_program_to(p, devices[i]), i);
  fails(tl_program_to(NULL, (tl_Device){TL_CPU, 0}), 8);
  CHECK(!tl_program_share(p, NULL) && !tl_program_share(NULL, p) && !tl_program_share(NULL, NULL));
  (void)!tl_program_share(p, p);
  (void)!tl_program_share(step, p);
  float data[12] = {0};
  tl_Tensor *x = tl_tensor_wrap(data, TL_F32, 2, (int64_t[]){4, 3}, NULL, NULL, NULL), *o = NULL;
  CHECK(tl_program_run(p, &x, 1, &o, 1));
  tl_program_free(step);
  tl_tensor_release(o);
  o = NULL;
  CHECK(tl_program_run(p, &x, 1, &o, 1));
  tl_program_free(p);
  CHECK(tl_tensor_numel(o) == 8); /* an output outlives its program */
  tl_tensor_release(o);
  tl_tensor_release(x);
}

/* ---- threads, memory and observation ---- */

static int inner_failures;

/* A host's job system that calls the library while an operator is running. */
static void run_tasks(int tasks, void (*task)(void *context, int i), void *context, void *user) {
  (void)user;
  tl_Tensor *t = tl_tensor_empty(TL_F32, 1, &(int64_t){100});
  double out[100];
  if (t == NULL || !tl_tensor_read(t, TL_F64, out, sizeof out)) inner_failures++;
  for (int i = tasks - 1; i >= 0; i--) task(context, i);
  tl_tensor_release(t);
}

TEST(settings_of_threads) {
  static const int wrong[] = {0, -1, INT_MIN};
  int before = tl_get_num_threads();
  for (int i = 0; i < 3; i++) CHECK_AT(i, !tl_set_num_threads(wrong[i]) && *tl_error());
  CHECK(tl_get_num_threads() == before);
  lua_State *L = opened();
  if (tl_set_num_threads(INT_MAX)) CHECK(tl_get_num_threads() > 0);
  CHECK(runs(L, "assert(torch.ones(1 << 18):add(1):sum():item() == 2 << 18)"));
  CHECK(tl_set_num_threads(4));
  tl_set_parallel_run(run_tasks, NULL);
  CHECK(runs(L, "assert(torch.ones(1 << 18):add(1):sum():item() == 2 << 18)"));
  tl_set_parallel_run(NULL, (void *)1);
  CHECK(inner_failures == 0);
  CHECK(tl_set_num_threads(before));
  lua_close(L);
}

TEST(settings_of_memory) {
  for (int i = 0; i < NEXTREMES; i++) {
    tl_set_memory_limit(extremes[i]);
    tl_Tensor *t = tl_tensor_empty(TL_F32, 1, &(int64_t){10});
    tl_tensor_release(t);
    tl_memory_trim();
  }
  tl_set_memory_limit(0);
  tl_Tensor *t = tl_tensor_empty(TL_F32, 1, &(int64_t){10});
  CHECK(t != NULL);
  tl_tensor_release(t);
}

static void recurse(const tl_Work *work, void *user) {
  if (work == NULL || work->name == NULL || strlen(work->name) > 47) (*(int *)user)++;
}

TEST(observation) {
  tl_counters(NULL);
  CHECK(!tl_has(NULL) && !tl_has("") && !tl_has("CPU") && !tl_has("cpu:0") && !tl_has("%s"));
  int faults = 0;
  lua_State *L = opened();
  for (int i = 0; i < 10; i++) tl_set_observer(i % 3 ? recurse : NULL, &faults);
  CHECK(runs(
      L, "torch.profiler.record_function(('x'):rep(1000), function() torch.ones(2):exp() end)"));
  tl_set_observer(NULL, NULL);
  tl_set_observer(NULL, NULL);
  tl_set_logger(NULL, &faults);
  CHECK(faults == 0);
  lua_close(L);
}

TEST(interruption_of_nothing) {
  lua_State *L = opened();
  for (int i = 0; i < 3; i++) tl_interrupt();
  (void)luaL_dostring(L, "torch.ones(1000, 1000):matmul(torch.ones(1000, 1000))");
  tl_interrupt_clear();
  tl_interrupt_clear();
  lua_settop(L, 0);
  CHECK(runs(L, "assert(torch.ones(100, 100):matmul(torch.ones(100, 100))[1][1]:item() == 100)"));
  lua_close(L);
}

/* Operators that take long for large tensors. Each of them checks, while it works, whether the user
** has interrupted it. */
static const char *const long_operators[] = {
    "x:sort()",
    "x:topk(10)",
    "x:kthvalue(1000)",
    "x:median()",
    "i:mode()",
    "torch.unique(i)",
    "torch.unique(i:view(-1, 4), {dim = 1})",
    "torch.searchsorted(x, x)",
    "torch.isin(i, i)",
    "x:cumsum(1)",
    "x:cummax(1)",
    "x:index_select(1, i)",
    "x:gather(1, i)",
    "torch.zeros(n):scatter_add_(1, i, x)",
    "return x[x:gt(0)]",
    "x:nonzero()",
    "torch.randperm(n)",
    "torch.fft.rfft(x)",
    "x:view(512, -1):matmul(x:view(-1, 512))",
    "torch.cdist(x:view(-1, 64), x:view(-1, 64))",
    "torch.nn.functional.cross_entropy(x:view(-1, 1024), i[{{1, n // 1024}}] % 1024 + 1)",
    "torch.nn.functional.ctc_loss(x:view(-1, 8, 16):log_softmax(3), i[{{1, 80}}]:view(8, 10) % 15 + 2,\n"
    "   torch.full({8}, n // 128, {dtype = 'int64'}), torch.full({8}, 10, {dtype = 'int64'}), {blank = 1})",
    "torch.nn.functional.embedding(i % 8192 + 1, x:view(8192, -1))",
    "torch.nn.functional.conv2d(x:view(8, 16, 64, 64), x[{{1, 2304}}]:view(16, 16, 3, 3))",
    "x:exp()",
    "x:sum()",
    "x:view(-1, 4):tolist()",
    "torch.tensor(list)",
    "torch.utils.json.decode(text)",
    NULL};

TEST(long_operators_stop) {
  lua_State *L = opened();
  int threads = tl_get_num_threads();
  CHECK(runs(L,
             "n = 1 << 19 x = torch.arange(0, n) / n i = torch.arange(1, n + 1)\n"
             "list, text = x[{{1, 8192}}]:view(-1, 4):tolist(), '[' .. ('1,'):rep(8192) .. '1]'"));
  for (int n = 1; n <= 2; n++) {
    CHECK(tl_set_num_threads(n));
    for (int i = 0; long_operators[i]; i++) {
      tl_interrupt();
      bool stopped = luaL_dostring(L, long_operators[i]) != LUA_OK &&
                     strstr(lua_tostring(L, -1), "interrupted!") != NULL;
      if (!stopped) printf("# %s: %s\n", long_operators[i], lua_tostring(L, -1));
      CHECK_AT(i, stopped);
      tl_interrupt_clear();
      lua_settop(L, 0);
    }
  }
  CHECK(tl_set_num_threads(threads));
  lua_close(L);
}

/* ---- Lua ---- */

static int push(lua_State *L) {
  tl_lua_push(L, lua_touserdata(L, 1));
  return 1;
}

/* Calls tl_lua_push in protected mode, and returns the status. */
static int pushed(lua_State *L, tl_Tensor *t) {
  lua_settop(L, 0);
  lua_pushcfunction(L, push);
  lua_pushlightuserdata(L, t);
  return lua_pcall(L, 1, 1, 0);
}

TEST(states_without_the_library) {
  lua_State *L = luaL_newstate();
  tl_Tensor *t = tl_tensor_empty(TL_F32, 1, &(int64_t){10});
  CHECK(pushed(L, t) == LUA_ERRRUN && lua_isstring(L, -1));
  CHECK(pushed(L, NULL) == LUA_ERRRUN);
  CHECK(tl_lua_to(L, 1) == NULL);
  tl_gc_step(L, 10);
  CHECK(!tl_set_limits(L, NULL));
  lua_close(L);
  tl_tensor_release(t);
  CHECK(!tl_set_limits(NULL, NULL) && !tl_lua_open(NULL) && !tl_lua_open_with(NULL, TL_SANDBOX));
  CHECK(tl_lua_to(NULL, 0) == NULL);
  tl_gc_step(NULL, INT_MIN);
}

TEST(values_that_are_no_tensors) {
  lua_State *L = opened();
  static const int wrong[] = {0,
                              1,
                              2,
                              -1,
                              -2,
                              1000,
                              -1000,
                              INT_MAX,
                              INT_MIN,
                              LUA_REGISTRYINDEX,
                              LUA_REGISTRYINDEX - 1,
                              LUA_REGISTRYINDEX - 256};
  for (int i = 0; i < 12; i++) CHECK_AT(wrong[i], tl_lua_to(L, wrong[i]) == NULL);
  CHECK(luaL_loadstring(L, "return 1, 'x', {}, print, io.stdout, coroutine.create(print), "
                           "torch.float32, torch.device 'cpu', torch.Size {1}, torch.Generator, "
                           "setmetatable({}, debug.getmetatable(torch.ones(1)))") == LUA_OK);
  CHECK(lua_pcall(L, 0, LUA_MULTRET, 0) == LUA_OK);
  for (int i = 1; i <= lua_gettop(L); i++) CHECK_AT(i, tl_lua_to(L, i) == NULL);
  lua_settop(L, 0);
  lua_newuserdatauv(L, 0, 0);
  lua_pushlightuserdata(L, NULL);
  CHECK(tl_lua_to(L, 1) == NULL && tl_lua_to(L, 2) == NULL);
  lua_close(L);
}

TEST(limits_that_make_no_sense) {
  lua_State *L = opened();
  static const tl_Limits wrong[] = {
      {.tensor_bytes = INT64_MIN}, {.lua_bytes = INT64_MIN},
      {.instructions = INT64_MIN}, {.seconds = NAN},
      {.seconds = -INFINITY},      {.threads = INT_MIN},
  };
  for (int i = 0; i < 6; i++) CHECK_AT(i, !tl_set_limits(L, &wrong[i]) && *tl_error());
  static const tl_Limits wide = {INT64_MAX, INT64_MAX, INT64_MAX, INFINITY, INT_MAX};
  CHECK(tl_set_limits(L, &wide));
  CHECK(runs(L, "local n = 0 for i = 1, 1000 do n = n + torch.ones(2):sum():item() end"));
  CHECK(tl_set_limits(L, &(tl_Limits){1, 1, 1, 1e-300, 1}));
  CHECK(luaL_dostring(L, "local x = torch.ones(2) while true do x = {x} end") != LUA_OK);
  CHECK(tl_set_limits(L, NULL));
  lua_settop(L, 0);
  CHECK(runs(L, "local n = 0 for i = 1, 1000 do n = n + torch.ones(2):sum():item() end"));
  for (int i = 0; i < NEXTREMES; i++) tl_gc_step(L, (int)(extremes[i] % INT_MAX));
  tl_gc_step(L, INT_MIN);
  for (unsigned flags = TL_SANDBOX + 1; flags; flags <<= 1)
    CHECK_AT(flags, !tl_lua_open_with(L, flags));
  lua_close(L);
}

/* Functions of a host that a script calls in the middle of its work. */
static int from_script(lua_State *L) {
  static const tl_Limits some = {.instructions = 1000000};
  CHECK(tl_lua_open(L) && !tl_lua_open_with(L, TL_SANDBOX));
  CHECK(tl_set_limits(L, &some) && tl_set_limits(L, NULL));
  tl_gc_step(L, 100);
  tl_memory_trim();
  tl_Counters counters;
  tl_counters(&counters);
  tl_Tensor *t = tl_lua_to(L, 1);
  if (t) tl_lua_push(L, t);
  return t ? 1 : 0;
}

TEST(calls_from_scripts) {
  lua_State *L = opened();
  lua_register(L, "host", from_script);
  CHECK(runs(L, "assert(host(torch.ones(2)):sum():item() == 2)"));
  CHECK(runs(L, "assert(coroutine.wrap(host)(torch.ones(2)):sum():item() == 2)"));
  CHECK(runs(L,
             "assert(coroutine.wrap(function(x) coroutine.yield() return host(x) end)(1) == nil)"));
  CHECK(runs(L, "torch.ones(2):apply_(function(x) host(torch.ones(1)) return x end)"));
  CHECK(runs(L, "local x = torch.ones(2, {requires_grad = true})\n"
                "x:register_hook(function(g) return host(g) end) x:sum():backward()\n"
                "assert(x.grad:sum():item() == 2)"));
  CHECK(runs(L, "setmetatable({}, {__gc = function() host(torch.ones(2)) end}) collectgarbage()"));
  CHECK(runs(
      L,
      "do local x <close> = setmetatable({}, {__close = function() host(torch.ones(2)) end}) end"));
  CHECK(runs(
      L, "local x = torch.ones(2) table.sort({3, 1, 2}, function(a, b) host(x) return a < b end)"));
  CHECK(runs(L, "debug.sethook(function() host() end, '', 50) for i = 1, 500 do torch.ones(1) end\n"
                "debug.sethook()"));
  /* while the state closes, finalizers call the host too */
  CHECK(runs(L, "last = setmetatable({}, {__gc = function() host(torch.ones(2)) end})"));
  lua_close(L);
}

/* Tests Lua threads (coroutines): each one works like the main thread, and dead or suspended
** ones cause no errors. */
TEST(threads_of_lua) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_State *co = lua_newthread(L);
  CHECK(tl_lua_open(co));
  CHECK(tl_set_limits(co, &(tl_Limits){.instructions = 100000}));
  CHECK(luaL_dostring(co, "while true do end") != LUA_OK);
  CHECK(tl_set_limits(co, NULL));
  CHECK(runs(co, "assert(torch.ones(2):sum():item() == 2)"));
  CHECK(luaL_loadstring(co, "error 'dead'") == LUA_OK);
  int results;
  CHECK(lua_resume(co, L, 0, &results) == LUA_ERRRUN);
  /* the coroutine `co` has ended by an error here, which makes it dead */
  CHECK(tl_lua_open(co) && tl_set_limits(co, NULL));
  tl_gc_step(co, 10);
  CHECK(tl_lua_to(co, -1) == NULL);
  CHECK(luaL_dostring(L, "assert(torch.ones(2):sum():item() == 2)") == LUA_OK);
  lua_close(L);
}

/* Tests states whose stack is full, or whose globals a script has overwritten. */
TEST(states_in_bad_order) {
  lua_State *L = opened();
  while (lua_checkstack(L, 1)) lua_pushnil(L);
  CHECK(tl_set_limits(L, NULL) || tl_error_kind() == TL_EMEM);
  tl_gc_step(L, 10);
  CHECK(tl_lua_to(L, -1) == NULL);
  CHECK(tl_lua_open(L) || *tl_error());
  lua_settop(L, 0);
  CHECK(runs(L, "assert(torch.ones(2):sum():item() == 2)"));
  lua_close(L);
  static const char *const broken[] = {
      "setmetatable(_G, {__newindex = function() error 'frozen' end, __index = error})",
      "for k in pairs(_G) do _G[k] = nil end",
      "for k in pairs(string) do string[k] = nil end",
      "for k in pairs(table) do table[k] = 1 end",
      "package.loaded.math = nil package.loaded._G = nil",
      "getmetatable('').__index = nil",
      "package = nil debug.getregistry()._LOADED = nil",
      "debug.getregistry()._LOADED = 5",
      "debug.setmetatable(1, {__add = error}) debug.setmetatable(print, {__index = error})",
      "debug.sethook(function() error 'hook' end, '', 10)",
      "collectgarbage 'stop'",
      "pairs, ipairs, pcall, error, select, type, setmetatable = nil",
  };
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    L = luaL_newstate();
    luaL_openlibs(L);
    (void)luaL_dostring(L, broken[i]);
    lua_settop(L, 0);
    for (int j = 0; j < 2; j++) {
      bool ok = tl_lua_open(L);
      CHECK_AT(i, ok || *tl_error());
      CHECK_AT(i, lua_gettop(L) == 0);
    }
    lua_close(L);
    L = opened();
    (void)luaL_dostring(L, broken[i]);
    lua_settop(L, 0);
    CHECK_AT(i, tl_lua_open(L) || *tl_error());
    (void)!tl_set_limits(L, &(tl_Limits){.instructions = 1000});
    (void)!tl_set_limits(L, NULL);
    tl_Tensor *t = tl_tensor_empty(TL_F32, 1, &(int64_t){3});
    CHECK_AT(i, pushed(L, t) == LUA_OK && tl_lua_to(L, -1) == t);
    tl_tensor_release(t);
    lua_close(L);
  }
}

int main(void) {
  int failed = test_all();
  char name[64];
  unlink(path);
  snprintf(name, sizeof name, "%s.tlp", path);
  unlink(name);
  snprintf(name, sizeof name, "%s.step", path);
  unlink(name);
  return failed;
}
