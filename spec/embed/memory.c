/*
** memory.c - tests a host's Lua state with an incremental collector. Runs each script of
** spec/memory in a separate process, and tests a collector that the host has stopped.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

/* With a sanitizer, the memory limits of these tests are too low. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEASURABLE = false };
#else
enum { MEASURABLE = true };
#endif

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  return L;
}

/* Runs a script in a child process, so that the child's peak of memory is that of the script. */
static int run_script(const char *path) {
  lua_State *L = new_state();
  int status = luaL_dofile(L, path);
  if (status != LUA_OK) printf("# %s\n", lua_tostring(L, -1));
  fflush(stdout);
  lua_close(L);
  return status;
}

static void script_runs(const char *path) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(run_script(path) == LUA_OK ? 0 : 1);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void small_sums_need_no_memory(void) { script_runs("spec/memory/small.lua"); }
static void large_sums_need_little(void) { script_runs("spec/memory/large.lua"); }
static void a_window_of_tensors_stays_small(void) { script_runs("spec/memory/window.lua"); }
static void training_steps_leave_nothing(void) { script_runs("spec/memory/training.lua"); }
static void losses_leave_nothing(void) { script_runs("spec/memory/saved.lua"); }
static void cycles_of_hooks_are_freed(void) { script_runs("spec/memory/cycles.lua"); }
static void a_stopped_collector_stays_stopped(void) { script_runs("spec/memory/stopped.lua"); }

/* Tests a host, such as a game, that stops the collector and runs collection steps when it has
** time. */
static void a_stopped_host_pays_by_steps(void) {
  lua_State *L = new_state();
  lua_gc(L, LUA_GCSTOP);
  int64_t used = tl_memory_used();
  CHECK(luaL_dostring(L, "for _ = 1, 1000 do torch.ones(64, 64) end") == LUA_OK);
  CHECK(tl_memory_used() - used >= 1000 * 64 * 64 * 4);
  bool done = false;
  for (int frame = 0; frame < 100000 && !done; frame++) done = tl_gc_step(L, 200);
  CHECK(done);
  CHECK(tl_memory_used() - used < 10 * 64 * 64 * 4);
  CHECK(!lua_gc(L, LUA_GCISRUNNING));
  lua_close(L);
}

/* Tests that opening tlua does not change the mode of Lua's collector that the host has chosen. */
static void the_mode_stays_the_hosts(void) {
  lua_State *L = new_state();
  CHECK(luaL_dostring(L, "for _ = 1, 5000 do torch.ones(64, 64) end") == LUA_OK);
  CHECK(lua_gc(L, LUA_GCGEN, 0, 0) == LUA_GCINC);
  CHECK(luaL_dostring(L, "for _ = 1, 5000 do torch.ones(64, 64) end") == LUA_OK);
  CHECK(lua_gc(L, LUA_GCINC, 0, 0, 0) == LUA_GCGEN);
  lua_close(L);
}

int main(void) {
  RUN(a_stopped_host_pays_by_steps);
  RUN(the_mode_stays_the_hosts);
  RUN(a_stopped_collector_stays_stopped);
  if (MEASURABLE) {
    RUN(small_sums_need_no_memory);
    RUN(large_sums_need_little);
    RUN(a_window_of_tensors_stays_small);
    RUN(training_steps_leave_nothing);
    RUN(losses_leave_nothing);
    RUN(cycles_of_hooks_are_freed);
  }
  return test_end();
}
