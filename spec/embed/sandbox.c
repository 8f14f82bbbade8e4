/*
** sandbox.c - tests tl_lua_open_with: scripts cannot use what the flags deny them, by any way to it,
** and all else works.
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

/* Ways around the denials. */
TEST(escapes) {
  lua_State *L = open_with(TL_SANDBOX);
  works(L, "assert(load(string.dump(function() end)) == nil)");
  works(L, "assert(load(string.dump(function() end), 'x', 'b', {}) == nil)");
  works(L, "assert(load('return ...', 'x', 'b')(5) == 5)"); /* the mode is the sandbox's */
  works(L, "local env = {a = 1}; assert(load('return a', 'x', 't', env)() == 1)");
  works(L, "assert(load('return 1', 'x', 't', nil)() == 1)");
  works(L, "for name in pairs(debug) do assert(name == 'traceback', name) end");
  works(L, "for name in pairs(require 'debug') do assert(name == 'traceback', name) end");
  works(L, "assert(#package.searchers == 3, #package.searchers)");
  refuses(L, "package.preload = nil; require 'io'.open('/etc/passwd')", FILES);
  refuses(L, "require '_G'.dofile('/etc/passwd')", FILES);
  refuses(L, "coroutine.wrap(function() io.open('/etc/passwd') end)()", FILES);
  refuses(L,
          "local s = setmetatable({}, {__gc = function() X = pcall(io.open, '/etc/passwd') end})\n"
          "s = nil collectgarbage() assert(X == true, 'may not use files')",
          FILES);
  lua_close(L);
}

/* The handles of programs and traces check their arguments. */
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

/* Each flag alone denies its own functions and no others. */
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
  CHECK(tl_lua_open(L)); /* the denials remain */
  refuses(L, "io.open('/etc/passwd')", FILES);
  CHECK(!tl_lua_open_with(L, 0));
  lua_close(L);

  /* without the libraries io, os, package and debug */
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
