/*
** sandbox.c - tests tl_lua_open_with: scripts cannot reach anything that the flags deny, and
** everything else works.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "tlua.h"

static lua_State *open_with(unsigned denied) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open_with(L, denied));
  CHECK(lua_gettop(L) == 0);
  return L;
}

/* Runs a script; returns its error message or "" (owned by the state). */
static const char *run(lua_State *L, const char *script) {
  lua_settop(L, 0);
  if (luaL_dostring(L, script) == LUA_OK) return "";
  const char *message = lua_tostring(L, -1);
  return message ? message : "(no message)";
}

/* Checks that a script fails with a message that contains the text. */
static void refuses(lua_State *L, const char *script, const char *text) {
  const char *message = run(L, script);
  if (strstr(message, text) == NULL) printf("%s: '%s' lacks '%s'\n", script, message, text);
  CHECK(strstr(message, text) != NULL);
}

static void works(lua_State *L, const char *script) {
  const char *message = run(L, script);
  if (*message) printf("%s\n", message);
  CHECK(*message == '\0');
}

#define FILES "may not use files"
#define PROCESSES "may not start processes or change this one"
#define NETWORK "may not use the network"

static const char *const file_uses[] = {
    "io.open('/etc/passwd')",
    "for l in io.lines('/etc/passwd') do end",
    "io.input('/etc/passwd')",
    "io.output('/tmp/tlua_sandbox')",
    "io.tmpfile()",
    "io.read('a')",
    "io.close()",
    "io.stdin:read('l')",
    "for l in io.stdin:lines() do end",
    "io.stdout:close()",
    "os.remove('/tmp/tlua_sandbox')",
    "os.rename('/tmp/tlua_sandbox', '/tmp/tlua_sandbox2')",
    "os.tmpname()",
    "dofile('/etc/passwd')",
    "loadfile('/etc/passwd')",
    "require('package').searchpath('x', '/tmp/?.lua')",
    "torch.save(torch.ones(2), '/tmp/tlua_sandbox.safetensors')",
    "torch.save(torch.ones(2), '/tmp/tlua_sandbox.npy')",
    "torch.load('/etc/passwd')",
    "torch.load('/etc/passwd.safetensors')",
    "torch.io.map('/etc/passwd')",
    "torch.io.folder('/etc')",
    "torch.io.make_folder('/tmp/tlua_sandbox')",
    "torch.io.replace('/tmp/tlua_sandbox')",
    "torch.export.load('/etc/passwd')",
    "torch.export(torch.nn.Linear(2, 2), {torch.ones(1, 2)}):save('/tmp/tlua_sandbox.tlp')",
    "torch.data.CSV('/etc/passwd'):tensor()",
    "torch.data.ImageFolder('/etc')",
    NULL};

static const char *const process_uses[] = {"os.execute('true')",
                                           "io.popen('true')",
                                           "os.exit(1)",
                                           "os.getenv('HOME')",
                                           "os.setlocale('C')",
                                           "torch.set_num_threads(1)",
                                           "torch.set_memory_limit(0)",
                                           NULL};

TEST(denied) {
  lua_State *L = open_with(TL_SANDBOX);
  for (int i = 0; file_uses[i]; i++) refuses(L, file_uses[i], FILES);
  for (int i = 0; process_uses[i]; i++) refuses(L, process_uses[i], PROCESSES);
  refuses(L, "torch._connect('127.0.0.1', 80)", NETWORK);
  refuses(L, "torch._connect_tls('https://127.0.0.1:1', 1)", NETWORK);
  refuses(L, "torch._kernel.socket(1)", NETWORK);
  refuses(
      L,
      "torch.distributed.init_process_group {world_size = 1, rank = 0, init_method = 'tcp://127.0.0.1:29999'}",
      "may not");
  refuses(L, "package.loadlib('libc.so.6', '*')", "may not load libraries");
  refuses(L, "require 'socket'", "module 'socket' not found");
  refuses(L, "torch._unpack(torch._pack(1))", "may not start threads or exchange functions");
  refuses(L, "torch.workers.start()", "may not start threads");
  refuses(
      L,
      "local l = torch.data.DataLoader(torch.data.TensorDataset(torch.ones(4, 2)), {num_workers = 2})\n"
      "for _ in l:iter() do end",
      "may not start threads");
  refuses(L, "torch.multiprocessing.spawn(function() end)", "may not");
  lua_close(L);
}

/* Tests ways in which scripts might get around the denials. */
TEST(escapes) {
  lua_State *L = open_with(TL_SANDBOX);
  works(L, "assert(load(string.dump(function() end)) == nil)");
  works(L, "assert(load(string.dump(function() end), 'x', 'b', {}) == nil)");
  /* in a sandbox, load ignores its mode argument and accepts only text */
  works(L, "assert(load('return ...', 'x', 'b')(5) == 5)");
  works(L, "local env = {a = 1}; assert(load('return a', 'x', 't', env)() == 1)");
  works(L, "assert(load('return 1', 'x', 't', nil)() == 1)");
  works(L, "for name in pairs(debug) do assert(name == 'traceback', name) end");
  works(L, "for name in pairs(require 'debug') do assert(name == 'traceback', name) end");
  works(L, "assert(#package.searchers == 3, #package.searchers)");
  refuses(L, "package.preload = nil; require 'io'.open('/etc/passwd')", FILES);
  refuses(L, "require '_G'.dofile('/etc/passwd')", FILES);
  refuses(L, "coroutine.wrap(function() io.open('/etc/passwd') end)()", FILES);
  lua_close(L);
}

/* Tests that the handles of programs and traces, which scripts can reach, check their arguments. */
TEST(handles) {
  lua_State *L = open_with(TL_SANDBOX);
  works(L, "x = torch.ones(3, 2)\n"
           "g = torch.export(function(x) return x + 1 end, {x}).graph_");
  refuses(L, "g:range(1, 1, 5, true)", "expected the number of one of 0 dynamic sizes, got 1");
  refuses(L, "g:range(1 << 40, 1, 5, true)", "expected the number of one of 0 dynamic sizes");
  refuses(L, "g:fits(1, 1, g)", "dynamic sizes, got 1");
  refuses(L, "g:fit(1, 3, g, 4, g)", "dynamic sizes, got 1");
  refuses(L, "g:fit_product({1, 2}, {3, 4}, g)", "dynamic sizes, got 1");
  refuses(L, "g:dynamic(1 << 40, 1, 'n')", "there is no dimension 1 of an input 1099511627776");
  refuses(L, "g:dynamic(1, 3, 'n')", "there is no dimension 3 of an input 1");
  refuses(L,
          "local r = torch._trace(false) r:input('a', x) r:record() local y = x + 1\n"
          "r:finish({y}, false, '') r:finish({x}, false, '')",
          "the trace has ended");
  lua_close(L);
}

/* Tests that a script cannot set a finalizer in Lua: Lua runs finalizers without hooks, so an
** endless loop in one would never be stopped. */
TEST(finalizers) {
  lua_State *L = open_with(TL_SANDBOX);
  refuses(L, "setmetatable({}, {__gc = function() while true do end end})",
          "may not use finalizers");
  refuses(L, "setmetatable({}, {__gc = true})", "may not use finalizers");
  works(L, "local m = {} setmetatable({}, m) m.__gc = function() X = 1 end collectgarbage()\n"
           "assert(X == nil)");
  works(L, "local C = torch.class 'C' C.__gc = function() X = 1 end C() collectgarbage()\n"
           "assert(X == nil and C.__gc)");
  works(L, "local m = {__index = {a = 1}} assert(getmetatable(setmetatable({}, m)) == m)");
  refuses(L, "setmetatable(setmetatable({}, {__metatable = 1}), {})", "protected");
  refuses(L, "setmetatable(1, {})", "bad argument #1");
  refuses(L, "setmetatable({}, 1)", "bad argument #2");
  lua_close(L);
}

/* Tests that scripts cannot get the metatables of C objects, whose metamethods keep the objects
** consistent. */
TEST(metatables) {
  lua_State *L = open_with(TL_SANDBOX);
  works(L, "assert(getmetatable(torch.autocast 'cpu') == 'torch.Scope')");
  works(L, "assert(getmetatable(torch.ones(2)) == 'torch.Tensor')");
  works(L, "assert(getmetatable(torch._trace(false)) == 'torch.Trace')");
  works(L, "assert(getmetatable(io.stdout) == 'FILE*')");
  works(L, "assert(getmetatable(torch.nn.Linear(1, 1)) == torch.nn.Linear)");
  works(L, "assert(getmetatable('').__index == string and getmetatable(1) == nil)");
  works(
      L,
      "assert(torch.func.grad(function(x) return x:sum() end)(torch.ones(2)):eq(1):all():item())");
  lua_close(L);
}

/* Tests that scripts cannot read uninitialised memory, which may contain data of others. */
TEST(uninitialised_memory) {
  for (int64_t n = 4; n <= 1 << 20; n *= 8) {
    tl_Tensor *host = tl_tensor_empty(TL_F32, 1, &n);
    CHECK(host != NULL);
    memset(tl_tensor_data(host), 77, (size_t)n * 4);
    tl_tensor_release(host);
    lua_State *L = open_with(TL_SANDBOX);
    lua_pushinteger(L, n);
    lua_setglobal(L, "n");
    works(L, "for _ = 1, 4 do assert(torch.empty(n):eq(0):all():item()) end");
    works(L, "assert(torch.empty_like(torch.ones(n)):eq(0):all():item())");
    works(L,
          "local x = torch.ones(1) x:resize_(n) assert(n == 1 or x[{{2, n}}]:eq(0):all():item())");
    lua_close(L);
  }
}

TEST(findings_of_the_fuzzer) {
  lua_State *L = open_with(TL_SANDBOX);
  refuses(L, "torch.Tensor[{}] = 1 torch.ones(2).nonexistent()", "nonexistent");
  /* The length of this table is 2^61. The size 2^61 * 8 bytes overflows to 0. */
  works(L, "t = {1, 1, 1, 1, 1, [9] = 1} for i = 3, 61 do t[1 << i] = 1 end assert(#t == 1 << 61)");
  refuses(L, "torch.cat(t)", "expected a Tensor, got 1");
  works(L, "assert(#torch.tensor(t) == 5)");
  works(L, "assert(#torch.ones(t).shape == 5 and torch.Size(t) ~= torch.Size {1})");
  refuses(L, "return torch.ones(2, 3)[t]", "5");
  refuses(L, "torch.ones(2, 3):permute(t)", "permute");
  refuses(L, "torch.autograd.grad(torch.ones(1, {requires_grad = true}):sum(), t)", "grad");
  lua_close(L);
}

/* ---- limits ---- */

static lua_State *open_limited_with(unsigned denied, tl_Limits limits) {
  lua_State *L = open_with(denied);
  CHECK(tl_set_limits(L, &limits));
  return L;
}

static lua_State *open_limited(tl_Limits limits) { return open_limited_with(TL_SANDBOX, limits); }

TEST(limit_of_tensor_bytes) {
  tl_Limits limits = {.tensor_bytes = 1 << 20};
  lua_State *L = open_limited(limits);
  refuses(L, "torch.ones(1 << 20)",
          "asked for 4194304 bytes, with 0 in use by this Lua state, under its limit of 1048576");
  refuses(L, "x = {} for i = 1, 1000 do x[i] = torch.ones(1000) end", "out of memory");
  works(L, "x = nil torch.ones(1 << 17) torch.ones(1 << 17)");
  /* With one channel, the library does not copy the decoded image. Without zlib, no image can be
  ** decoded. */
  refuses(L,
          "local file = torch.io.encode_png(torch.zeros(1, 400, 400, {dtype = 'uint8'}))\n"
          "local images = {}\n"
          "for i = 1, 9 do images[i] = torch.io.decode_image(file) or error 'out of memory' end",
          "out of memory");
  /* this script succeeds, because garbage is freed when the limit is reached */
  works(L, "for i = 1, 1000 do torch.ones(10000) end");
  refuses(L,
          "local x = torch.ones(1, {requires_grad = true}) + torch.ones(50000)\n"
          "for _ = 1, 9 do x = x:exp() end",
          "out of memory");
  refuses(L, "torch.ones(1):expand(1 << 30):contiguous()", "out of memory");
  /* A graph node and a list of views take no tensor memory, but they take other memory, which must
  ** be limited too. */
  refuses(L,
          "local x = torch.ones(1, {requires_grad = true})\n"
          "for _ = 1, 10000 do x = x + 1 end",
          "out of memory");
  refuses(L, "torch.ones(1):expand(100000):unbind()", "unbind: out of memory");
  refuses(L, "torch.ones(1):expand(100000):split(1)", "split: out of memory");
  works(L, "for _ = 1, 20 do local x = torch.ones(1, {requires_grad = true})\n"
           "for _ = 1, 500 do x = x + 1 end x:backward() end");
  works(L, "torch.empty(1 << 40, {device = 'meta'})");
  tl_Tensor *host = tl_tensor_empty(TL_F32, 1, &(int64_t){1 << 20});
  CHECK(host == NULL); /* the state's limit of memory still holds, so this call fails */
  CHECK(tl_set_limits(L, NULL));
  host = tl_tensor_empty(TL_F32, 1, &(int64_t){1 << 20});
  CHECK(host != NULL);
  tl_tensor_release(host);
  works(L, "torch.ones(1 << 20)");
  lua_close(L);
}

static const char *const growing[] = {
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local s = 'x' while true do s = s .. s end",
    "('x'):rep(1 << 30)",
    "('x'):rep(1 << 20, ('y'):rep(1 << 20))",
    "table.concat(setmetatable({}, {__index = function() return ('x'):rep(1000) end}), '', 1, 1e9)",
    "string.rep('x', 1 << 60)",
    "local t = {} while true do t = {t} end",
    "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(print) end",
    "torch.ones(1):expand(1 << 30):tolist()",
    NULL};

TEST(limit_of_lua_bytes) {
  tl_Limits limits = {.lua_bytes = 32 << 20};
  lua_State *L = open_limited(limits);
  for (int i = 0; growing[i]; i++) {
    const char *message = run(L, growing[i]);
    if (!strstr(message, "not enough memory") && !strstr(message, "too large"))
      printf("%s: %s\n", growing[i], message);
    CHECK(strstr(message, "not enough memory") || strstr(message, "too large"));
    works(L, "assert(torch.ones(3):sum():item() == 3)");
  }
  CHECK(tl_set_limits(L, NULL));
  works(L, "assert(#('x'):rep(50 << 20) == 50 << 20)");
  lua_close(L);
}

/* Scripts that would run forever without limits. */
static const char *const endless[] = {
    "while true do end",
    "repeat pcall(function() while true do end end) until false",
    "local function f() while true do pcall(f) end end f()",
    "setmetatable({}, {__index = function() while true do end end}).x = nil ::a:: goto a",
    "return setmetatable({}, {__index = function() while true do end end}).x",
    "local x <close> = setmetatable({}, {__close = function() while true do end end})",
    "coroutine.wrap(function() while true do end end)()",
    "while true do coroutine.wrap(function() while true do end end)() end",
    "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "local function f() while true do pcall(coroutine.wrap(f)) end end f()",
    "local function f() local c = coroutine.create(f) while true do coroutine.resume(c) end end f()",
    "local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
    "xpcall(function() while true do end end, function() while true do end end)",
    "xpcall(error, function() while true do end end)",
    "xpcall(error, function(m) error(m) end) while true do end",
    "coroutine.resume(coroutine.create(function() while true do end end))",
    "local function f() while true do pcall(f) end end coroutine.wrap(f)()",
    "local function f() while true do pcall(f) end end\n"
    "coroutine.wrap(function() return setmetatable({}, {__index = f}).x end)()",
    "local function f() while true do pcall(f) end end\n"
    "coroutine.wrap(function() table.sort({1, 2}, f) end)()",
    "coroutine.wrap(function()\n"
    "   local x <close> = setmetatable({}, {__close = function() while true do end end})\n"
    "   while true do end\n"
    "end)()",
    "coroutine.wrap(function()\n"
    "   local x <close> = setmetatable({}, {__close = function() while true do end end})\n"
    "   table.sort({1, 2, 3}, function() while true do end end)\n"
    "end)()",
    "local c = coroutine.create(function()\n"
    "   local x <close> = setmetatable({}, {__close = function() while true do end end})\n"
    "   coroutine.yield()\n"
    "end)\n"
    "coroutine.resume(c) coroutine.close(c) while true do end",
    "table.sort({1, 2, 3, 4, 5}, function() while true do end end)",
    "('x'):rep(100):gsub('x', function() while true do end end)",
    "('x'):rep(100000):find(('.-'):rep(20) .. 'y')",
    "('x'):rep(100000):match(('x*'):rep(20) .. 'y')",
    "('x'):rep(100000):gsub(('x-'):rep(20) .. 'y', '')",
    "for _ in ('x'):rep(100000):gmatch(('x?'):rep(60) .. ('x-'):rep(20) .. 'y') do end",
    "('x'):rep(3e6):find(('x'):rep(1e6) .. 'y', 1, true)",
    "('x'):rep(3e6):find('(' .. ('x*)%1'):rep(1) .. 'y')",
    "load(function() return ' ' end)",
    "while true do torch.ones(2) end",
    "while true do pcall(torch.ones, -1) end",
    "while true do local _ = tostring(torch.ones(2)) end",
    "torch.func.vmap(function() while true do end end)(torch.ones(2))",
    "local x = torch.ones(2, {requires_grad = true}) x:register_hook(function() while true do end end)\n"
    "x:sum():backward()",
    "torch.ones(2):apply_(function() while true do end end)",
    "local function below(n) return n:lt(5) end\n"
    "local function count(n) return (n + 1):clamp(nil, 4) end\n"
    "local function f(n) return torch.while_loop(below, count, {n}) end\n"
    "torch.export(f, {torch.tensor(5)}):set_limits({iterations = 0})(torch.tensor(0))",
    NULL};

/* Scripts whose finalizers would run forever, for states that allow finalizers. */
static const char *const finalizing[] = {
    "setmetatable({}, {__gc = function() while true do end end}) collectgarbage() while true do end",
    "setmetatable({}, {__gc = function() while true do pcall(error) end end})\n"
    "collectgarbage() while true do end",
    "setmetatable({}, {__gc = function() ('x'):rep(100000):find(('.-'):rep(20) .. 'y') end})\n"
    "collectgarbage() while true do end",
    "local C = torch.class 'C' C.__gc = function() while true do end end\n"
    "C() collectgarbage() while true do end",
    NULL};

/* Tests states without sandbox: when they get limits, functions that could exceed the limits are
** replaced. */
TEST(functions_in_trusted_states) {
  lua_State *L = open_limited_with(0, (tl_Limits){.instructions = 1000000});
  works(L, "local log, m = {}, {} m.__gc = function(x) log[#log + 1] = x[1] end\n"
           "setmetatable({5}, m) setmetatable({6}, m) collectgarbage()\n"
           "assert(table.concat(log, ' ') == '6 5')");
  works(L,
        "local log = {}\n"
        "setmetatable({}, {__gc = function() coroutine.yield() log[1] = 1 end}) collectgarbage()\n"
        "setmetatable({}, {__gc = rawlen}) setmetatable({}, {__gc = true}) collectgarbage()");
  works(L, "local t = setmetatable({}, {__len = function() return 2 end, __index = {3, 4}})\n"
           "assert(table.concat(t, ' ') == '3 4' and table.unpack(t) == 3)");
  works(L, "local t = {} table.move({1, 2, 3}, 1, 3, 1, t) table.insert(t, 4) assert(#t == 4)");
  refuses(L, "table.move({}, 1, 1 << 60, 1, {})",
          "at most 100000000 elements in a state of tl_set");
  works(L, "assert(debug.getinfo(1) and io.open and load(string.dump(function() end)))");
  CHECK(tl_set_limits(L, NULL));
  works(L, "assert(('key = value'):gsub('(%w+) = (%w+)', '%2 = %1') == 'value = key')");
  lua_close(L);
}

/* Checks that each script ends with an error that contains the text. With a limit of seconds,
** the error "not enough memory" counts too: when the time is over, Lua gets no large blocks of
** memory. */
static void ends(unsigned denied, const char *const *scripts, tl_Limits limits, const char *text) {
  lua_State *L = open_limited_with(denied, limits);
  for (int i = 0; scripts[i]; i++) {
    CHECK(tl_set_limits(L, &limits));
    const char *message = run(L, scripts[i]);
    bool ended =
        strstr(message, text) || (limits.seconds > 0 && strstr(message, "not enough memory"));
    if (!ended) printf("%s: %s\n", scripts[i], message);
    CHECK(ended);
    CHECK(tl_set_limits(L, &limits));
    works(L,
          "local n = 0 for i = 1, 1000 do n = n + i end assert(torch.ones(2):sum():item() == 2)");
  }
  lua_close(L);
}

TEST(limit_of_instructions) {
  tl_Limits limits = {.instructions = 200000};
  const char *text = "used up its 200000 instructions (tl_set_limits)";
  ends(TL_SANDBOX, endless, limits, text);
  ends(0, endless, limits, text);
  ends(0, finalizing, limits, text);
}

/* Tests that the iterations of loops in programs count towards the limit even if the run fails. */
TEST(limit_of_instructions_in_programs) {
  lua_State *L = open_limited((tl_Limits){.instructions = 200000});
  refuses(L,
          "local function below(n) return n:lt(5) end\n"
          "local function count(n) return (n + 1):clamp(nil, 4) end\n"
          "local function f(n) return torch.while_loop(below, count, {n}) end\n"
          "local program = torch.export(f, {torch.tensor(5)}):set_limits({iterations = 1000})\n"
          "for _ = 1, 400 do assert(not pcall(program, torch.tensor(0))) end",
          "used up its 200000 instructions (tl_set_limits)");
  lua_close(L);
}

TEST(limit_of_seconds) {
  ends(TL_SANDBOX, endless, (tl_Limits){.seconds = 0.1}, "(tl_set_limits)");
  ends(0, finalizing, (tl_Limits){.seconds = 0.1}, "(tl_set_limits)");
}

/* Tests the limit in table.sort: comparing long strings takes long, and sorting makes many
** comparisons. The strings are made before the limit is set, since large blocks are refused for
** lack of memory once the time is used up. */
TEST(limit_of_seconds_in_sort) {
  lua_State *L = open_with(TL_SANDBOX);
  works(L, "local x = ('x'):rep(1000000) local a, b = x .. 'a', x .. 'b' list = {}\n"
           "for i = 1, 20000 do list[i] = i % 2 == 0 and a or b end");
  CHECK(tl_set_limits(L, &(tl_Limits){.seconds = 0.1}));
  refuses(L, "table.sort(list)", "(tl_set_limits)");
  CHECK(tl_set_limits(L, NULL));
  works(L, "local t = {'b', 'c', 'a'} table.sort(t) assert(table.concat(t) == 'abc')\n"
           "t = {3, -1, 2} table.sort(t, math.ult) assert(table.concat(t, ' ') == '2 3 -1')");
  lua_close(L);
}

/* These calls of C functions would take years if limits did not stop them. */
static const char *const long_calls[] = {
    "table.move({}, 1, 1 << 60, 1, {})",
    "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 1)",
    "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)",
    "table.sort(setmetatable({}, {__len = function() return (1 << 31) - 2 end}), rawequal)",
    "local t = {1, 2, 3, 4, 5, [9] = 1} for i = 3, 61 do t[1 << i] = 1 end\n"
    "assert(#t > 1 << 60) table.insert(t, 1, 1)",
    NULL};

TEST(long_calls_are_refused) {
  lua_State *L = open_with(TL_SANDBOX);
  for (int i = 0; long_calls[i]; i++) refuses(L, long_calls[i], "table.");
  works(L, "assert(string.rep('', 1 << 60) == '' and string.rep('', 1 << 60, '') == '')");
  works(L, "assert(table.concat(table.move({1, 2, 3}, 1, 3, 2), ' ') == '1 1 2 3')");
  works(L, "local t = {3, 1, 2} table.sort(t) table.insert(t, 1, 0) assert(table.remove(t) == 3)");
  works(L, "assert(select('#', table.unpack({1, nil, 3}, 1, 3)) == 3)");
  lua_close(L);
}

/* The replaced functions have the same results and errors as Lua's own. */
static const char *const replaced_calls[] = {
    "table.insert({1}, 5, 2)",
    "table.sort({3, 1, 2, 5, 4}, function() return true end)",
    "table.sort()",
    "table.concat({1, {}, 3})",
    "table.move({}, 1, 2)",
    "return table.unpack(setmetatable({1, 2}, {__len = error}), 1, 2)",
    "('x'):rep({})",
    "('%d'):format('x')",
    "setmetatable({})",
    "xpcall(print)",
    "coroutine.wrap(5)",
    "coroutine.wrap(function() error('x') end)()",
    "local f = coroutine.wrap(print) f() f()",
    "return coroutine.resume(coroutine.wrap(function() end))",
    "collectgarbage('x')",
    "return ('a\\0b'):gsub('%z', '-')",
    "return #(('x'):rep(250):match(('x*'):rep(210) .. ('y-'):rep(210)))",
    "return ('xx'):find(('x?'):rep(210))",
    "return ('ab'):match('%f[%w', 'x')",
    "local m = {__gc = function(...) return select('#', ...), ... end} setmetatable({}, m)\n"
    "return m.__gc(1, nil)",
    NULL};

TEST(limits_keep_results_and_errors) {
  static const char show[] = "local t = table.pack(pcall(load(..., '=line')))\n"
                             "for i = 1, t.n do t[i] = tostring(t[i]) end\n"
                             "return table.concat(t, '; ')";
  lua_State *L = open_with(0),
            *limited = open_limited_with(0, (tl_Limits){.instructions = 1000000});
  for (int i = 0; replaced_calls[i]; i++) {
    lua_State *states[] = {L, limited};
    for (int k = 0; k < 2; k++) {
      CHECK(luaL_loadstring(states[k], show) == LUA_OK);
      lua_pushstring(states[k], replaced_calls[i]);
      CHECK(lua_pcall(states[k], 1, 1, 0) == LUA_OK);
    }
    const char *expected = lua_tostring(L, -1), *got = lua_tostring(limited, -1);
    if (strcmp(got, expected) != 0) printf("expected '%s', got '%s'\n", expected, got);
    CHECK(strcmp(got, expected) == 0);
  }
  lua_close(L);
  lua_close(limited);
}

/* Tests that operators stop when the time is over. */
TEST(limit_of_an_operators_time) {
  tl_Limits limits = {.seconds = 0.05};
  lua_State *L = open_limited(limits);
  refuses(L, "torch.ones(5000, 5000):matmul(torch.ones(5000, 5000))",
          "used up its time (tl_set_limits)");
  CHECK(tl_set_limits(L, &limits));
  works(L, "torch.ones(10):sum()");
  CHECK(tl_set_limits(L, NULL));
  lua_close(L);
}

TEST(limit_of_threads) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  static const char script[] =
      "local n = ...\n"
      "local l = torch.data.DataLoader(torch.data.TensorDataset(torch.ones(4, 2)), {num_workers = 2})\n"
      "for _ in l:iter() do end";
  tl_Limits limits = {.threads = 1};
  CHECK(tl_set_limits(L, &limits));
  refuses(L, script, "2 more exceed its limit of 1 (tl_set_limits)");
  refuses(L, "torch._within(1, print)", "_within: this Lua state has limits already");
  limits.threads = 2;
  CHECK(tl_set_limits(L, &limits));
  works(L, script);
  lua_close(L);
}

TEST(limits_of_other_states) {
  tl_Limits limits = {.tensor_bytes = 1000, .seconds = 0.001};
  lua_State *L = open_limited(limits), *other = open_with(0);
  refuses(L, "while true do torch.ones(2) end", "used up");
  works(other, "assert(torch.ones(1000000):sum():item() == 1000000)");
  lua_close(L);
  works(other, "assert(torch.ones(1000000):sum():item() == 1000000)");
  lua_close(other);
}

TEST(misuse_of_limits) {
  lua_State *L = luaL_newstate();
  tl_Limits limits = {.instructions = 1};
  CHECK(!tl_set_limits(L, &limits));
  CHECK_ERROR(TL_EARG, "the library is not open");
  CHECK(!tl_set_limits(NULL, &limits));
  CHECK_ERROR(TL_EARG, "expected a Lua state, got NULL");
  lua_close(L);
  L = open_with(TL_SANDBOX);
  CHECK(tl_set_limits(L, NULL));
  static const tl_Limits wrong[] = {{.tensor_bytes = -1},
                                    {.lua_bytes = -1},
                                    {.instructions = -1},
                                    {.seconds = -1},
                                    {.threads = -1}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK_AT(i, !tl_set_limits(L, &wrong[i]));
    CHECK_ERROR(TL_EARG, "expected limits of 0 or more");
  }
  lua_close(L);
}

/* ---- patterns ---- */

/* A script that calls a function of `string` with random texts and patterns, and returns a
** description of all results. */
static const char patterns[] =
    "local pieces = {'a', 'b', '.', '%a', '%D', '[ab]', '[^a]', '[a-c]', '[%w_]', '[]]', '[^]a]', '(', ')',\n"
    "   '()', '*', '+', '-', '?', '%b()', '%f[%a]', '%1', '%2', '$', '^', '%', '[', ']', '%%', '%.', '[a-]',\n"
    "   '[%a-z]', '%x', '%bxy', '[^%s]', '\\0', '(a', 'b)', '%S', '%w*', '.-', '(.)', '[%]]', 'a-'}\n"
    "local letters = {'a', 'b', 'c', '(', ')', ' ', '1', '_', ']', '\\0', '%', 'x', 'y', '.'}\n"
    "local replacements = {'', '<%0>', '%1', '%2%1', '%%', '%', 'x%', '%a', 5,\n"
    "   {a = 1, b = 'B', ab = false}, function(...) return select('#', ...) > 1 and ... end,\n"
    "   function(x) return x ~= 'a' and {} end, function() end, true}\n"
    "math.randomseed(7)\n"
    "local function some(list, most)\n"
    "   local t = {}\n"
    "   for i = 1, math.random(0, most) do t[i] = list[math.random(#list)] end\n"
    "   return table.concat(t)\n"
    "end\n"
    "local out = {}\n"
    "local function note(name, ...)\n"
    "   local t = table.pack(pcall(...))\n"
    "   for i = 1, t.n do t[i] = tostring(t[i]) end\n"
    "   out[#out + 1] = name .. ': ' .. table.concat(t, '|')\n"
    "end\n"
    "local function all(s, p, i)\n"
    "   local t = {}\n"
    "   for a, b, c in string.gmatch(s, p, i) do\n"
    "      t[#t + 1] = tostring(a) .. ',' .. tostring(b) .. ',' .. tostring(c)\n"
    "   end\n"
    "   return table.concat(t, ';')\n"
    "end\n"
    "for i = 1, 20000 do\n"
    "   local s, p, n = some(letters, 12), some(pieces, 5), math.random(-14, 14)\n"
    "   local q = ('%q %q %d '):format(s, p, n)\n"
    "   note(q .. 'find', string.find, s, p, n)\n"
    "   note(q .. 'plain', string.find, s, p, n, true)\n"
    "   note(q .. 'match', string.match, s, p, n)\n"
    "   note(q .. 'gmatch', all, s, p, n)\n"
    "   note(q .. 'gsub', string.gsub, s, p, replacements[math.random(#replacements)], n > 0 and n or nil)\n"
    "end\n"
    "note('none', string.find) note('none', string.gsub, 'x', 'y') note('none', string.match, 'x', {})\n"
    "note('deep', string.find, ('a'):rep(300), ('a?'):rep(300) .. 'b')\n"
    "note('captures', string.find, ('a'):rep(40), ('(a)'):rep(33))\n"
    "note('number', string.gsub, 12345, 3, 9)\n"
    "return out\n";

TEST(patterns_match_as_luas_own_do) {
  lua_State *L = open_with(TL_SANDBOX), *own = luaL_newstate();
  luaL_openlibs(own);
  works(L, patterns);
  works(own, patterns);
  CHECK(lua_rawlen(L, -1) == 100006 && lua_rawlen(own, -1) == 100006);
  for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(own, -1); i++) {
    lua_rawgeti(L, -1, i);
    lua_rawgeti(own, -1, i);
    bool same = lua_rawlen(L, -1) == lua_rawlen(own, -1) &&
                memcmp(lua_tostring(L, -1), lua_tostring(own, -1), lua_rawlen(L, -1)) == 0;
    if (!same && test_faults < 8)
      printf("%s\nexpected %s\n", lua_tostring(L, -1), lua_tostring(own, -1));
    CHECK_AT(i, same);
    lua_pop(L, 1);
    lua_pop(own, 1);
  }
  lua_close(L);
  lua_close(own);
}

/* Tests that the functions that replace Lua's own in a state with limits give the same results
** as Lua's. */
TEST(replaced_functions) {
  lua_State *L = open_with(TL_SANDBOX);
  works(
      L,
      "local c = coroutine.create(function(a, b) local c = coroutine.yield(a + b) return c, 4 end)\n"
      "local function all(...) return table.concat({tostring((...)), select(2, ...)}, ' ') end\n"
      "assert(all(coroutine.resume(c, 1, 2)) == 'true 3')\n"
      "assert(all(coroutine.resume(c, 3)) == 'true 3 4' and coroutine.status(c) == 'dead')\n"
      "local ok, why = coroutine.resume(c) assert(not ok and why:find 'dead coroutine')");
  works(
      L,
      "local ok, t = coroutine.resume(coroutine.create(error), {1}) assert(not ok and t[1] == 1)");
  works(L, "local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)\n"
           "local n = 0 for i in f do n = n + i end assert(n == 6)");
  works(L,
        "local ok, why = pcall(coroutine.wrap(function() error('x', 0) end)) assert(why == 'x')");
  works(
      L,
      "local f = coroutine.wrap(function()\n"
      "   return xpcall(function() coroutine.yield(1) error('a', 0) end, function(m) return m .. 'b' end)\n"
      "end)\n"
      "assert(f() == 1) local ok, why = f() assert(ok == false and why == 'ab')");
  works(
      L,
      "local ok, a, b = xpcall(function(...) return ... end, print, 1, 2) assert(ok and a == 1 and b == 2)");
  works(
      L,
      "local _, text = xpcall(error, debug.traceback, 'x') assert(text:find '^x\\nstack traceback')");
  works(
      L,
      "local log = {} local c = coroutine.create(function()\n"
      "   local x <close> = setmetatable({}, {__close = function(_, e) log[1] = e end}) error('x', 0)\n"
      "end)\n"
      "assert(not coroutine.resume(c) and log[1] == 'x')");
  refuses(L, "coroutine.create(1)", "bad argument #1");
  refuses(L, "xpcall(print)", "bad argument #2");
  lua_close(L);
}

TEST(all_else) {
  lua_State *L = open_with(TL_SANDBOX);
  works(L,
        "local m = torch.nn.Linear(2, 3)\n"
        "local o = torch.optim.Adam(m:parameters(), {lr = 0.1})\n"
        "for _ = 1, 3 do o:zero_grad() m(torch.ones(4, 2)):pow(2):sum():backward() o:step() end\n"
        "assert(m.weight:isfinite():all():item())");
  works(L, "local p = torch.export(torch.nn.Linear(2, 2), {torch.ones(1, 2)}) p(torch.ones(1, 2))");
  works(L, "io.write('') print '' assert(os.time() and os.clock() and os.date())");
  works(L, "assert(require 'tlua' == torch and require 'tlua.nn' == torch.nn)");
  works(
      L,
      "for _ in torch.data.DataLoader(torch.data.TensorDataset(torch.ones(4, 2)), {shuffle = true}):iter() do end");
  lua_close(L);
}

/* Tests that each flag alone denies its own functions and no others. */
TEST(single_flags) {
  lua_State *L = open_with(TL_DENY_PROCESSES);
  works(L, "local f <close> = assert(io.open('/etc/passwd'))");
  works(L, "torch.io.folder('/etc')");
  refuses(L, "os.execute('true')", PROCESSES);
  lua_close(L);
  L = open_with(TL_DENY_FILES);
  works(L, "assert(os.execute('true') and os.getenv 'PATH')");
  refuses(L, "io.open('/etc/passwd')", FILES);
  lua_close(L);
  L = open_with(0);
  works(L, "assert(debug.getinfo and load(string.dump(function() end)))");
  lua_close(L);
}

TEST(misuse) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(!tl_lua_open_with(L, 16));
  CHECK(strstr(tl_error(), "expected flags of TL_SANDBOX, got 16") != NULL);
  CHECK(!tl_lua_open_with(NULL, 0));
  CHECK(strstr(tl_error(), "lua_open_with: expected a Lua state") != NULL);
  CHECK(tl_lua_open(L));
  CHECK(!tl_lua_open_with(L, TL_SANDBOX));
  CHECK(strstr(tl_error(), "already, with other flags") != NULL);
  CHECK(tl_lua_open_with(L, 0));
  lua_close(L);
  L = open_with(TL_SANDBOX);
  CHECK(tl_lua_open_with(L, TL_SANDBOX));
  CHECK(tl_lua_open(L)); /* the functions must still be denied */
  refuses(L, "io.open('/etc/passwd')", FILES);
  CHECK(!tl_lua_open_with(L, 0));
  lua_close(L);

  /* In this state, the libraries io, os, package and debug are missing. */
  L = luaL_newstate();
  luaL_requiref(L, "_G", luaopen_base, 1);
  luaL_requiref(L, "string", luaopen_string, 1);
  luaL_requiref(L, "table", luaopen_table, 1);
  luaL_requiref(L, "math", luaopen_math, 1);
  luaL_requiref(L, "utf8", luaopen_utf8, 1);
  lua_settop(L, 0);
  CHECK(tl_lua_open_with(L, TL_SANDBOX));
  works(L, "assert(torch.ones(2):sum():item() == 2 and io == nil)");
  lua_close(L);
}

int main(void) { return test_all(); }
