/*
** ranks.c - tests several Lua states in one process, each on its own thread, as the ranks of a
** process group.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

enum { RANKS = 3 };

static char path[64];

/* Programs that a rank runs. Each one returns true on success. */
static const char *const calls =
    "local path, rank = ...\n"
    "local dist = torch.distributed\n"
    "dist.init_process_group {init_method = 'file://' .. path, rank = rank, world_size = 3,\n"
    "   timeout = 300}\n"
    "local t = torch.full({1000}, rank + 1.0)\n"
    "for _ = 1, 20 do dist.all_reduce(t, 'avg') end\n"
    "assert(t:eq(2):all():item())\n"
    "local big = torch.full({1200000}, rank + 1.0)\n"
    "local work = dist.all_reduce(big, {async_op = true})\n"
    "work:wait()\n"
    "assert(big:eq(6):all():item())\n"
    "local got = torch.zeros(2)\n"
    "local to, from = (rank + 1) % 3, (rank + 2) % 3\n"
    "local sent = dist.isend(torch.full({2}, rank + 0.0), to)\n"
    "dist.recv(got, from)\n"
    "sent:wait()\n"
    "assert(got[1]:item() == from)\n"
    "local model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 300))\n"
    "for _ = 1, 3 do model(torch.full({1, 300}, rank + 0.0)):sum():backward() end\n"
    "assert(model.module.weight.grad:eq(3):all():item())\n"
    "assert(not pcall(dist.broadcast, t, 3))\n"
    "dist.barrier()\n"
    "dist.destroy_process_group()\n"
    "return true\n";

/* When a call times out, it reads the other ranks' records of the calls that they are making,
** while these ranks keep changing the records. If the accesses were not synchronized, the thread
** sanitizer would report a race in this program. */
static const char *const late =
    "local path, rank = ...\n"
    "local dist = torch.distributed\n"
    "dist.init_process_group {init_method = 'file://' .. path, rank = rank, world_size = 3,\n"
    "   timeout = 300}\n"
    "local t = torch.ones(2)\n"
    "local _, why = pcall(function()\n"
    "   if rank == 2 then dist.set_timeout(0.5) dist.recv(t, 0) end\n"
    "   while true do\n"
    "      if rank == 0 then dist.send(t, 1) end\n"
    "      dist.recv(t, 1 - rank)\n"
    "      if rank == 1 then dist.send(t, 0) end\n"
    "   end\n"
    "end)\n"
    "assert(why:find 'did not arrive within 0.5 s; rank 0', why)\n"
    "dist.destroy_process_group()\n"
    "return true\n";

typedef struct Rank {
  int number;
  const char *program;
  bool ok;
} Rank;

static void *run(void *context) {
  Rank *rank = context;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (tl_lua_open(L) && luaL_loadstring(L, rank->program) == LUA_OK) {
    lua_pushstring(L, path);
    lua_pushinteger(L, rank->number);
    rank->ok = lua_pcall(L, 2, 1, 0) == LUA_OK && lua_toboolean(L, -1);
  }
  if (!rank->ok) printf("# %s\n", lua_gettop(L) > 0 ? lua_tostring(L, -1) : tl_error());
  lua_close(L);
  return NULL;
}

static void run_ranks(const char *program) {
  pthread_t threads[RANKS];
  Rank ranks[RANKS] = {{0}};
  char folder[] = "/tmp/tlua-ranks-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/meet", folder);
  for (int i = 0; i < RANKS; i++) {
    ranks[i] = (Rank){i, program, false};
    CHECK(pthread_create(&threads[i], NULL, run, &ranks[i]) == 0);
  }
  for (int i = 0; i < RANKS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(ranks[i].ok);
  }
  CHECK(rmdir(folder) == 0); /* rmdir succeeds only if the folder is empty */
}

TEST(states_on_threads_are_ranks) { run_ranks(calls); }

TEST(a_late_call_lists_what_the_others_do) { run_ranks(late); }

int main(void) { return test_all(); }
