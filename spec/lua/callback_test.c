/*
** callback_test.c - tests hooks and derivatives that are Lua functions. Their graphs outlive the
** state, are freed by other threads, or are used in another state.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>

#include "autograd/graph.h"
#include "test.h"

static const char *const make = "local F = torch.class('F', torch.autograd.Function)\n"
                                "function F.forward(ctx, x) return x * 2 end\n"
                                "function F.backward(ctx, grad) return grad * 2 end\n"
                                "calls = 0\n"
                                "local x = torch.ones(3, {requires_grad = true})\n"
                                "local y = F:apply(x)\n"
                                "y:register_hook(function() calls = calls + 1 end)\n"
                                "x:register_hook(function() calls = calls + 1 end)\n"
                                "return y:sum()\n";

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  return L;
}

static void run(lua_State *L, const char *code) {
  if (luaL_dostring(L, code) == LUA_OK) return;
  printf("# %s\n", lua_tostring(L, -1));
  FAIL("no error");
}

/* Returns the tensor that the Lua function `make` has returned. The caller owns the reference. */
static tl_Tensor *result_of(lua_State *L) {
  run(L, make);
  tl_Tensor *y = tl_lua_to(L, -1);
  CHECK(y != NULL);
  tl_tensor_retain(y);
  lua_pop(L, 1);
  return y;
}

static bool backward(tl_Tensor *y) {
  tli_Backward call = {.roots = &y, .nroots = 1};
  return tli_backward(&call);
}

TEST(a_graph_outlives_its_state) {
  lua_State *L = new_state();
  tl_Tensor *y = result_of(L);
  lua_close(L);
  CHECK(!backward(y));
  CHECK_ERROR(TL_EARG, "another Lua state");
  tl_tensor_release(y);
}

TEST(a_graph_comes_to_another_state) {
  lua_State *from = new_state(), *to = new_state();
  tl_Tensor *y = result_of(from);
  tl_lua_push(to, y);
  lua_setglobal(to, "y");
  run(to, "local ok, message = pcall(function() y:backward() end)\n"
          "assert(not ok and message:find('another Lua state'), message)");
  tl_lua_push(from, y);
  lua_setglobal(from, "y");
  tl_tensor_release(y);
  lua_close(to);
  run(from, "collectgarbage() assert(calls == 0) pcall(y.backward, y)");
  lua_close(from);
}

static void *release(void *tensor) {
  tl_tensor_release(tensor);
  return NULL;
}

TEST(another_thread_frees_a_graph) {
  lua_State *L = new_state();
  for (int i = 0; i < 50; i++) {
    tl_Tensor *y = result_of(L);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release, y) == 0);
    run(L, make); /* registering another hook also frees callbacks that are no longer used */
    lua_settop(L, 0);
    pthread_join(thread, NULL);
  }
  run(L, "collectgarbage()");
  lua_close(L);
}

/* Tests that freeing a graph releases the Lua values that it refers to. */
TEST(lua_forgets) {
  lua_State *L = new_state();
  run(L, "weak = setmetatable({}, {__mode = 'k'})\n"
         "function pass(backward)\n"
         "  local x = torch.ones(3, {requires_grad = true})\n"
         "  local y = x * 2\n"
         "  local big = {}\n"
         "  weak[big] = true\n"
         "  y:register_hook(function() return big.nothing end)\n"
         "  if backward then y:sum():backward() end\n"
         "end\n"
         "for i = 1, 20 do pass(i % 2 == 0) end\n"
         "collectgarbage() collectgarbage()\n"
         "pass(true)\n"
         "collectgarbage() collectgarbage()\n"
         "local left = 0\n"
         "for _ in pairs(weak) do left = left + 1 end\n"
         "assert(left <= 1, left)");
  lua_close(L);
}

/* Tests closing a state in anomaly mode. The mode belongs to the thread, so closing the state
** must turn the mode off. */
TEST(anomaly_mode_ends_with_its_state) {
  lua_State *L = new_state();
  run(L, "torch.autograd.set_detect_anomaly(true)");
  CHECK(tli_anomaly());
  lua_close(L);
  CHECK(!tli_anomaly());
}

int main(void) { return test_all(); }
