/*
** threads.c - a state for each thread, all at work at once, and a host that
** supplies its own threads.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test.h"
#include "tlua.h"

enum { THREADS = 4 };

/* A regression that must find the weights 2 and -3; -> the loss it ends with. */
static const char *training = "local nn, optim = torch.nn, torch.optim\n"
                              "local x = torch.randn(64, 2)\n"
                              "local y = x:matmul(torch.tensor {{2.0}, {-3.0}})\n"
                              "local model = nn.Linear(2, 1)\n"
                              "local adam = optim.Adam(model:parameters(), {lr = 0.1})\n"
                              "local loss\n"
                              "for _ = 1, 200 do\n"
                              "   adam:zero_grad()\n"
                              "   loss = nn.functional.mse_loss(model(x), y)\n"
                              "   loss:backward()\n"
                              "   adam:step()\n"
                              "end\n"
                              "return loss:item()\n";

static void *train(void *loss) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (tl_lua_open(L) && luaL_dostring(L, training) == LUA_OK)
    *(double *)loss = lua_tonumber(L, -1);
  else
    printf("# %s\n", lua_gettop(L) > 0 ? lua_tostring(L, -1) : tl_error());
  lua_close(L);
  return NULL;
}

static void states_on_threads_of_their_own(void) {
  pthread_t threads[THREADS];
  double losses[THREADS];
  for (int i = 0; i < THREADS; i++) {
    losses[i] = 1;
    CHECK(pthread_create(&threads[i], NULL, train, &losses[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(losses[i] < 1e-3);
  }
}

static atomic_int jobs;

static void run_jobs(int tasks, void (*task)(void *context, int i), void *context, void *user) {
  atomic_fetch_add((atomic_int *)user, 1);
  for (int i = tasks - 1; i >= 0; i--) task(context, i);
}

static void a_hosts_own_job_system(void) {
  CHECK(tl_set_num_threads(THREADS));
  tl_set_parallel_run(run_jobs, &jobs);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(luaL_dostring(L, "local x = torch.ones(2000, 1000)\n"
                         "assert((x + x):sum():item() == 4e6)") == LUA_OK);
  CHECK(atomic_load(&jobs) > 0);
  lua_close(L);
  tl_set_parallel_run(NULL, NULL);
}

int main(void) {
  RUN(a_hosts_own_job_system); /* first: before any operator runs */
  RUN(states_on_threads_of_their_own);
  return test_end();
}
