/*
** lua.c - tests tlua in a host's Lua state: passing values, errors, and freeing states and tensors
** in any order.
** */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "tlua.h"

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(lua_gettop(L) == 0);
  return L;
}

/* Runs a Lua program that must succeed. */
static void run(lua_State *L, const char *text) {
  if (luaL_dostring(L, text) != LUA_OK) {
    printf("# %s\n", lua_tostring(L, -1));
    FAIL("the script failed");
  }
}

static void global_tensor(lua_State *L, const char *name, float *data, int64_t n) {
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 1, &n, NULL, NULL, NULL);
  CHECK(t != NULL);
  tl_lua_push(L, t);
  lua_setglobal(L, name);
  tl_tensor_release(t);
}

TEST(a_script_works_on_the_hosts_memory) {
  lua_State *L = new_state();
  float data[3] = {1, 2, 3};
  global_tensor(L, "x", data, 3);
  run(L, "x:mul_(10); y = x + 1");
  CHECK(data[0] == 10 && data[2] == 30);
  lua_getglobal(L, "y");
  tl_Tensor *y = tl_lua_to(L, -1);
  float out[3];
  CHECK(y != NULL && tl_tensor_read(y, TL_F32, out, sizeof out));
  CHECK(out[0] == 11 && out[2] == 31);
  CHECK(lua_gettop(L) == 1);
  lua_close(L);
}

TEST(a_hosts_script_has_workers) {
  lua_State *L = new_state();
  run(L, "local data, sum, batches = torch.data, 0, 0\n"
         "local set = data.TensorDataset(torch.arange(1, 41):double():view(40, 1))\n"
         "local squared = {}\n"
         "for i = 1, 40 do squared[i] = {torch.tensor(i * i)} end\n"
         "for x in data.DataLoader(set, {batch_size = 8, num_workers = 2}):iter() do\n"
         "   sum, batches = sum + x:sum():item(), batches + 1\n"
         "end\n"
         "assert(batches == 5 and sum == 820)\n"
         "for x in data.DataLoader(squared, {batch_size = 40, num_workers = 1}):iter() do\n"
         "   assert(x:sum():item() == 22140)\n"
         "end\n"
         /* the loader is still open when the state is closed */
         "left = data.DataLoader(set, {num_workers = 2}):iter()\n"
         "left()");
  lua_close(L);
}

TEST(require_gives_the_module) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "tlua", luaopen_tlua, 0);
  lua_pop(L, 1);
  run(L, "assert(torch == nil); assert(require('tlua').ones(2):sum():item() == 2)");
  lua_close(L);
  L = new_state();
  run(L, "assert(torch == require 'tlua')");
  lua_close(L);
}

TEST(only_tensors_are_tensors) {
  lua_State *L = new_state();
  lua_pushinteger(L, 1);
  CHECK(tl_lua_to(L, -1) == NULL);
  lua_newuserdata(L, 8);
  CHECK(tl_lua_to(L, -1) == NULL);
  CHECK(tl_lua_to(L, 10) == NULL);
  run(L, "gone = torch.ones(2); gone:release()");
  lua_getglobal(L, "gone");
  CHECK(tl_lua_to(L, -1) == NULL);
  lua_close(L);
}

TEST(an_error_comes_back_with_its_line) {
  lua_State *L = new_state();
  const char *script = "\nlocal x = torch.ones(2, 3)\nx:matmul(x)";
  CHECK(luaL_loadbuffer(L, script, strlen(script), "=script") == LUA_OK);
  CHECK(lua_pcall(L, 0, 0, 0) == LUA_ERRRUN);
  const char *message = lua_tostring(L, -1);
  CHECK(message != NULL && strncmp(message, "script:3: ", 10) == 0);
  CHECK(message != NULL && strstr(message, "matmul") != NULL);
  lua_close(L);
}

TEST(a_tensor_may_outlive_its_state) {
  lua_State *L = new_state();
  run(L, "x = torch.arange(0, 5)");
  lua_getglobal(L, "x");
  tl_Tensor *x = tl_tensor_retain(tl_lua_to(L, -1));
  lua_close(L);
  double out[5];
  CHECK(tl_tensor_read(x, TL_F64, out, sizeof out) && out[4] == 4);
  tl_tensor_release(x);
}

TEST(a_state_drops_what_it_held) {
  int64_t used = tl_memory_used();
  lua_State *L = new_state();
  run(L, "a = torch.zeros(1000, 1000, {requires_grad = true}); b = (a * 2):sum(); b:backward()");
  CHECK(tl_memory_used() >= used + 4000000);
  lua_close(L);
  CHECK(tl_memory_used() == used);
}

static char reported[200];

static int report(lua_State *L) {
  const char *text = lua_tostring(L, 1);
  snprintf(reported, sizeof reported, "%s", text ? text : luaL_typename(L, 1));
  return 0;
}

/* A script that a finalizer runs while the state is closed. It calls many parts of the library. */
static const char *const at_closing =
    "local x = torch.ones(1000, 100, {requires_grad = true})\n"
    "x:register_hook(function(grad) return grad * 2 end)\n"
    "local y = (x * 2):sum()\n"
    "kept = {x, y, y.grad_fn, x:split(100), torch.no_grad(function() return x + 1 end)}\n"
    "y:backward()\n"
    "coroutine.wrap(function() torch.set_grad_enabled(false) again = x * 3 end)()\n"
    "torch.memory_stats()\n"
    "report(tostring(x.grad:sum():item()))\n";

static lua_State *state_with_finalizer(bool older) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "report", report);
  if (!older) CHECK(tl_lua_open(L));
  CHECK(luaL_loadstring(L, at_closing) == LUA_OK);
  lua_setglobal(L, "work");
  run(L, "object = setmetatable({}, {__gc = function()\n"
         "  local ok, message = pcall(work)\n"
         "  if not ok then report(message) end\n"
         "end})");
  if (older) CHECK(tl_lua_open(L));
  return L;
}

TEST(finalizers_work_while_the_state_closes) {
  int64_t used = tl_memory_used();
  reported[0] = '\0';
  lua_close(state_with_finalizer(false));
  CHECK(strcmp(reported, "400000.0") == 0);
  CHECK(tl_memory_used() == used);
}

TEST(older_finalizers_are_told) {
  int64_t used = tl_memory_used();
  reported[0] = '\0';
  lua_State *L = state_with_finalizer(true);
  run(L, "collectgarbage()");
  lua_close(L);
  CHECK(strstr(reported, "the Lua state is closing") != NULL);
  CHECK(tl_memory_used() == used);
}

static int push_from_c(lua_State *L) {
  tl_Tensor *t = tl_tensor_empty(TL_F32, 1, (int64_t[]){1000});
  lua_pushlightuserdata(L, t);
  lua_setglobal(L, "made");
  tl_lua_push(L, t);
  return 1;
}

static int push_protected(lua_State *L) {
  lua_pushcfunction(L, push_from_c);
  int status = lua_pcall(L, 0, 1, 0);
  lua_insert(L, 1);
  if (status != LUA_OK) report(L);
  lua_getglobal(L, "made");
  tl_tensor_release(lua_touserdata(L, -1));
  return 0;
}

TEST(a_host_may_push_while_the_state_closes) {
  for (int older = 0; older < 2; older++) {
    int64_t used = tl_memory_used();
    reported[0] = '\0';
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    if (!older) CHECK(tl_lua_open(L));
    lua_register(L, "push_protected", push_protected);
    run(L, "object = setmetatable({}, {__gc = function() push_protected() end})");
    if (older) CHECK(tl_lua_open(L));
    lua_close(L);
    CHECK((strstr(reported, "closing") != NULL) == older);
    CHECK(tl_memory_used() == used);
  }
}

TEST(modes_end_with_their_state) {
  lua_State *A = new_state(), *B = new_state();
  run(A, "torch.set_grad_enabled(false); torch.set_default_dtype('float64')\n"
         "torch.inference_mode(); torch.autograd.set_detect_anomaly(true)\n"
         "coroutine.wrap(function() torch.enable_grad() coroutine.yield() end)()");
  const char *fresh = "assert(torch.is_grad_enabled() and torch.get_default_dtype() == 'float32')\n"
                      "assert(not torch.is_inference_mode_enabled())\n"
                      "assert(not torch.autograd.is_anomaly_enabled())\n"
                      "assert((torch.ones(2, {requires_grad = true}) * 2).requires_grad)\n"
                      "assert(torch.ones(2).dtype == 'float32')";
  run(B, fresh);
  run(A, "assert(not torch.is_grad_enabled() and torch.ones(2).dtype == 'float64')");
  run(B, fresh);
  lua_close(A);
  run(B, fresh);
  lua_State *C = new_state();
  run(C, fresh);
  lua_close(B);
  run(C, fresh);
  lua_close(C);
}

TEST(a_default_device_is_the_states_own) {
  lua_State *a = new_state(), *b = new_state();
  run(a, "torch.set_default_device 'sim:1'");
  run(b,
      "assert(torch.get_default_device() == torch.device 'cpu' and torch.ones(2).device == torch.device 'cpu')");
  run(a,
      "assert(torch.get_default_device() == torch.device 'sim:1' and torch.ones(2).device == torch.device 'sim:1')");
  lua_close(a);
  run(b, "assert(torch.tensor({1}).device == torch.device 'cpu')");
  lua_close(b);
}

TEST(two_states_share_a_tensor) {
  lua_State *A = new_state(), *B = new_state();
  run(A, "x = torch.zeros(4)");
  lua_getglobal(A, "x");
  tl_lua_push(B, tl_lua_to(A, -1));
  lua_setglobal(B, "x");
  run(B, "x:add_(1)");
  run(A, "assert(x:sum():item() == 4)");
  lua_close(A);
  run(B, "x:add_(1); assert(x:sum():item() == 8)");
  lua_close(B);
}

TEST(a_host_can_pay_for_garbage_per_frame) {
  lua_State *L = new_state();
  lua_gc(L, LUA_GCSTOP);
  run(L, "for _ = 1, 1000 do torch.zeros(10, 10) end");
  bool done = false;
  for (int frame = 0; frame < 10000 && !done; frame++) done = tl_gc_step(L, 100);
  CHECK(done);
  /* the host had stopped Lua's garbage collector, and opening the library must not start it */
  CHECK(!lua_gc(L, LUA_GCISRUNNING));
  lua_close(L);
}

static int push_null(lua_State *L) {
  tl_lua_push(L, NULL);
  return 1;
}

TEST(null_is_no_tensor) {
  lua_State *L = new_state();
  lua_pushcfunction(L, push_null);
  CHECK(lua_pcall(L, 0, 1, 0) == LUA_ERRRUN);
  CHECK(strstr(lua_tostring(L, -1), "expected a tensor, got NULL") != NULL);
  lua_close(L);
  CHECK(tl_lua_to(NULL, 1) == NULL);
  CHECK(!tl_lua_open(NULL));
  CHECK_ERROR(TL_EARG, "expected a Lua state");
  CHECK(tl_gc_step(NULL, 10));
}

static void open_libraries(lua_State *L, const luaL_Reg *list) {
  for (; list->name; list++) {
    luaL_requiref(L, list->name, list->func, 1);
    lua_pop(L, 1);
  }
}

static const luaL_Reg needed[] = {{LUA_GNAME, luaopen_base},       {LUA_STRLIBNAME, luaopen_string},
                                  {LUA_TABLIBNAME, luaopen_table}, {LUA_MATHLIBNAME, luaopen_math},
                                  {LUA_UTF8LIBNAME, luaopen_utf8}, {NULL, NULL}};

TEST(missing_libraries_are_named) {
  lua_State *L = luaL_newstate();
  CHECK(!tl_lua_open(L));
  CHECK_ERROR(TL_EINTERNAL, "(base, string, table, math, utf8)");
  luaL_requiref(L, LUA_GNAME, luaopen_base, 1);
  luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
  lua_settop(L, 0);
  CHECK(!tl_lua_open(L));
  CHECK_ERROR(TL_EINTERNAL, "(string, table, utf8)");
  CHECK(lua_gettop(L) == 0);
  /* opening succeeds now, because the host has opened the missing libraries */
  open_libraries(L, needed);
  CHECK(tl_lua_open(L));
  lua_close(L);
}

TEST(the_needed_libraries_are_enough) {
  lua_State *L = luaL_newstate();
  open_libraries(L, needed);
  CHECK(tl_lua_open(L));
  run(L, "local nn, optim = torch.nn, torch.optim\n"
         "local m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))\n"
         "local o = optim.Adam(m:parameters())\n"
         "m(torch.ones(2, 3)):sum():backward()\n"
         "o:step()\n"
         "tostring(m); tostring(torch.ones(2))\n"
         "assert(package == nil and io == nil)\n"
         "local ok, message = pcall(torch.save, {}, 'nowhere')\n"
         "assert(not ok and message:find 'save: needs Lua.s io', message)");
  lua_close(L);
}

int main(void) {
  const char *build = getenv("TLUA_BUILD");
  if (build) setenv("TLUA_PLUGINS", build, 0);
  return test_all();
}
