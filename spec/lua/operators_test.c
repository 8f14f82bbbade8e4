/*
** operators_test.c - tests every operator of the operator table when memory runs out, with the
** operator's examples, in the forward pass and in two backward passes. For every n, the n-th
** allocation fails. The error must say so, nothing may leak, and the call must work again. The
** address sanitizer's run tries many more numbers than the usual one, because only the sanitizer
** sees most wrong uses of memory.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "core/memory/alloc.h"
#include "test.h"

static const char *const setup =
    "local T = require 'spec.support.table'\n"
    "cases = {}\n"
    "for _, row in ipairs(T.rows()) do\n"
    "  for _, text in ipairs(row.examples) do\n"
    "    cases[#cases + 1] = {row = row, text = text, name = row.path .. '(' .. text .. ')'}\n"
    "  end\n"
    "end\n"
    "local args, leaves\n"
    "function prepare(i)\n"
    "  args, leaves = T.arguments(cases[i].text), {}\n"
    "  for _, x in ipairs(T.tensors(args)) do\n"
    "    if x.requires_grad then leaves[#leaves + 1] = x end\n"
    "  end\n"
    "  return cases[i].name\n"
    "end\n"
    "local function total(list)\n"
    "  local sum\n"
    "  for _, x in ipairs(T.tensors(list)) do\n"
    "    if x:is_complex() then x = x:view_as_real() end\n"
    "    if x.requires_grad then sum = sum and sum + (x * x):sum() or (x * x):sum() end\n"
    "  end\n"
    "  return sum\n"
    "end\n"
    "function run(i)\n"
    "  assert(torch.is_grad_enabled(), 'the call before left gradients off')\n"
    "  local check = cases[i].row.gradcheck\n"
    "  local twice = check and check.second ~= false\n"
    "  local sum = total(T.call(cases[i].row, args))\n"
    "  if not sum then return end\n"
    "  local grads = torch.autograd.grad(sum, leaves, {allow_unused = true, create_graph = twice})\n"
    "  sum = total(grads)\n"
    "  if sum then torch.autograd.grad(sum, leaves, {allow_unused = true}) end\n"
    "end\n";

static int call(lua_State *L, const char *name, int64_t i, int results) {
  lua_settop(L, 0);
  lua_getglobal(L, name);
  lua_pushinteger(L, i);
  return lua_pcall(L, 1, results, 0);
}

static int64_t used_after_collecting(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
  return tl_memory_used();
}

static void note(const char *name, int64_t n, const char *what) {
  printf("# %s, allocation %lld: %s\n", name, (long long)n, what ? what : "no message");
  FAIL("an operator that lacks memory");
}

/* Makes one call in which all allocations from the n-th one on fail. The call must succeed or
** raise the right error. */
static void fail_from(lua_State *L, const char *name, int64_t i, int64_t n) {
  tli_alloc_fail_from(n);
  int status = call(L, "run", i, 0);
  tli_alloc_fail_from(0);
  if (status == LUA_OK) return;
  const char *message = lua_tostring(L, -1);
  if (message == NULL || strstr(message, "out of memory") == NULL) note(name, n, message);
}

static void check_case(lua_State *L, int64_t i) {
  const char *sanitized = getenv("SPEC_SANITIZED");
  int64_t every = sanitized && strcmp(sanitized, "1") == 0 ? 16 : 4;
  char name[400];
  if (call(L, "prepare", i, 1) != LUA_OK) return note("prepare", i, lua_tostring(L, -1));
  snprintf(name, sizeof name, "%s", lua_tostring(L, -1));
  if (call(L, "run", i, 0) != LUA_OK) return note(name, 0, lua_tostring(L, -1));
  int64_t used = used_after_collecting(L);
  int64_t before = tli_alloc_count();
  if (call(L, "run", i, 0) != LUA_OK) note(name, 0, lua_tostring(L, -1));
  int64_t count = tli_alloc_count() - before;
  for (int64_t n = 1; n <= count; n += 1 + n / every) fail_from(L, name, i, n);
  if (call(L, "run", i, 0) != LUA_OK) note(name, -1, lua_tostring(L, -1));
  if (used_after_collecting(L) != used) note(name, count, "memory is lost");
}

TEST(every_operator) {
  int64_t start = tl_memory_used();
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(tl_set_num_threads(1));
  if (luaL_dostring(L, setup) != LUA_OK) note("setup", 0, lua_tostring(L, -1));
  lua_getglobal(L, "cases");
  int64_t n = (int64_t)lua_rawlen(L, -1);
  CHECK(n > 300);
  for (int64_t i = 1; i <= n; i++) check_case(L, i);
  lua_close(L);
  CHECK(tl_memory_used() == start);
}

int main(void) { return test_all(); }
