/*
** files.c - tests that several processes can save to the same file at once, and that the file is
** complete at any time.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

enum { CHILDREN = 6 };

static bool run(lua_State *L, const char *text, const char *path) {
  if (luaL_loadstring(L, text) != LUA_OK) return false;
  lua_pushstring(L, path);
  bool ok = lua_pcall(L, 1, 1, 0) == LUA_OK;
  if (!ok) fprintf(stderr, "# %s\n", lua_tostring(L, -1));
  lua_settop(L, 0);
  return ok;
}

/* A script for a child process. The child is a copy of the parent, so their Lua states are
** equal, including all addresses. */
static const char *save =
    "local path = ...\n"
    "for i = 1, 20 do\n"
    "   torch.save({x = torch.full({3000}, i), y = torch.full({3000}, i)}, path)\n"
    "   local t = torch.load(path)\n"
    "   assert(t.x:eq(t.y):all():item())\n"
    "end\n";

/* A script that makes an unfinished file, which belongs to the parent, next to the children's
** files. */
static const char *begin = "unfinished = torch.io.replace(...)\n"
                           "assert(unfinished:write('begun '))\n";
static const char *finish = "assert(unfinished:write('and done'))\n"
                            "assert(torch.io.commit(unfinished))\n"
                            "assert(io.open(...):read('a') == 'begun and done')\n";

TEST(forked_processes_save_to_one_file) {
  char folder[] = "/tmp/tlua-XXXXXX", path[64], other[64], command[96];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/x", folder);
  snprintf(other, sizeof other, "%s/y", folder);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(run(L, "torch.save({}, ...)", path));
  CHECK(run(L, begin, other));
  pid_t children[CHILDREN];
  fflush(stdout);
  for (int i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    alarm(600);
    bool ok = run(L, save, path);
    lua_close(L); /* lua_close deletes the parent's unfinished file */
    _exit(ok ? 0 : 1);
  }
  for (int i = 0; i < CHILDREN; i++) {
    int status = -1;
    CHECK_AT(i, waitpid(children[i], &status, 0) == children[i] && status == 0);
  }
  CHECK(run(L, finish, other));
  lua_close(L);
  snprintf(command, sizeof command, "cd %s && test \"$(ls -A | tr '\\n' ' ')\" = 'x y '", folder);
  CHECK(system(command) == 0);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(system(command) == 0);
}

int main(void) { return test_all(); }
