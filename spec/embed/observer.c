/*
** observer.c - tests the functions by which a host watches the library: the observer, the logger,
** counters and features.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "test.h"
#include "tlua.h"

typedef struct Seen {
  int begun, ended, wrong, deepest;
  int64_t latest;
  char text[512]; /* the names of operators that have ended, each with its nesting depth */
} Seen;

static void watch(const tl_Work *work, void *user) {
  Seen *seen = user;
  if (work->duration < 0)
    seen->begun++;
  else
    seen->ended++;
  if (work->begin <= 0 || work->depth != seen->begun - seen->ended - (work->duration < 0))
    seen->wrong++;
  if (work->depth > seen->deepest) seen->deepest = work->depth;
  size_t n = strlen(seen->text);
  if (work->duration >= 0 && n + 64 < sizeof seen->text)
    snprintf(seen->text + n, 64, "%s %s %d;", work->kind, work->name, work->depth);
}

static lua_State *opened(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  return L;
}

TEST(the_observer_sees_operators_and_derivatives) {
  lua_State *L = opened();
  Seen seen = {0};
  CHECK(luaL_dostring(L, "x = torch.ones(3, {requires_grad = true})") == LUA_OK);
  tl_set_observer(watch, &seen);
  CHECK(luaL_dostring(L, "local y = x:exp(); y:sum():backward()") == LUA_OK);
  tl_set_observer(NULL, NULL);
  CHECK(seen.begun == seen.ended && seen.wrong == 0);
  CHECK(strstr(seen.text, "operator exp 0;") != NULL);
  CHECK(strstr(seen.text, "backward backward 0;") != NULL);
  CHECK(strstr(seen.text, "backward AccumulateGrad 1;") != NULL || seen.deepest > 0);
  int begun = seen.begun;
  CHECK(luaL_dostring(L, "x:exp()") == LUA_OK);
  CHECK(seen.begun == begun);
  lua_close(L);
}

TEST(works_end_after_errors_and_beyond_the_depth) {
  lua_State *L = opened();
  Seen seen = {0};
  tl_set_observer(watch, &seen);
  CHECK(luaL_dostring(L, "pcall(function() torch.ones(2):add(torch.ones(3)) end)") == LUA_OK);
  CHECK(luaL_dostring(L,
                      "local function nest(n) torch.profiler.record_function('level', function() "
                      "if n > 0 then nest(n - 1) else error 'deep' end end) end "
                      "pcall(nest, 40)") == LUA_OK);
  CHECK(luaL_dostring(L, "torch.ones(1):exp()") == LUA_OK);
  tl_set_observer(NULL, NULL);
  CHECK(seen.begun == seen.ended && seen.wrong == 0);
  CHECK(seen.deepest == 31);
  lua_close(L);
}

TEST(a_span_of_a_coroutine_ends_no_later_span) {
  lua_State *L = opened();
  Seen seen = {0};
  tl_set_observer(watch, &seen);
  CHECK(luaL_dostring(L, "local record = torch.profiler.record_function "
                         "local function wait(name) return coroutine.create(function() "
                         "record(name, coroutine.yield) end) end "
                         "local a, b = wait 'a', wait 'b' "
                         "coroutine.resume(a) coroutine.resume(b) coroutine.resume(a) "
                         "record('c', function() record('d', function() coroutine.resume(b) "
                         "torch.ones(1):exp() end) end)") == LUA_OK);
  tl_set_observer(NULL, NULL);
  CHECK(seen.begun == seen.ended && seen.wrong == 0);
  CHECK(strstr(seen.text, "operator exp 2;user d 1;user c 0;") != NULL);
  lua_close(L);
}

TEST(spans_of_coroutines_that_never_resume_do_not_silence_a_thread) {
  lua_State *L = opened();
  Seen seen = {0};
  tl_set_observer(watch, &seen);
  CHECK(luaL_dostring(L, "abandoned = {} for i = 1, 100 do "
                         "local c = coroutine.create(function() "
                         "torch.profiler.record_function('left', coroutine.yield) end) "
                         "coroutine.resume(c) abandoned[i] = c end") == LUA_OK);
  seen.text[0] = 0;
  CHECK(luaL_dostring(L, "torch.ones(1):exp()") == LUA_OK);
  CHECK(seen.wrong == 0 && seen.deepest <= 31);
  CHECK(strstr(seen.text, "operator exp ") != NULL);
  tl_set_observer(NULL, NULL);
  lua_close(L);
}

TEST(the_observer_and_a_profile_work_together) {
  lua_State *L = opened();
  Seen seen = {0};
  tl_set_observer(watch, &seen);
  const char *script = "local p = torch.profiler.profile{} p:start() torch.ones(3):exp() p:stop() "
                       "for _, e in p:events() do found = found or e.name == 'exp' end "
                       "assert(found)";
  if (luaL_dostring(L, script) != LUA_OK) FAIL(lua_tostring(L, -1));
  tl_set_observer(NULL, NULL);
  CHECK(strstr(seen.text, "operator exp ") != NULL && seen.wrong == 0);
  lua_close(L);
}

static void take(const char *text, void *user) { snprintf(user, 256, "%s", text); }

TEST(the_logger_gets_warnings) {
  lua_State *L = opened();
  char text[256] = "";
  tl_set_logger(take, text);
  CHECK(luaL_loadbuffer(L, "torch.zeros(2, {dtype = 'complex64'}):to('float32')", 51,
                        "=my\ngame") == LUA_OK);
  CHECK(lua_pcall(L, 0, 0, 0) == LUA_OK);
  tl_set_logger(NULL, NULL);
  CHECK(strcmp(text, "my game:1: to: casting complex values to real discards the imaginary part") ==
        0);
  lua_close(L);
}

TEST(the_logger_gets_the_messages_that_packages_would_write_to_the_standard_error) {
  lua_State *L = opened();
  char text[256] = "";
  tl_set_logger(take, text);
  const char *script = "require 'tlua.utils.notice'"
                       "('run: %s is full\\n%d values are lost', 'x', 3)";
  if (luaL_dostring(L, script) != LUA_OK) FAIL(lua_tostring(L, -1));
  tl_set_logger(NULL, NULL);
  CHECK(strcmp(text, "run: x is full 3 values are lost") == 0);
  lua_close(L);
}

static atomic_int calls;
static void count(const tl_Work *work, void *user) {
  (void)user;
  if (work->duration >= 0 && strcmp(work->name, "exp") == 0) atomic_fetch_add(&calls, 1);
}

static void *work_in_thread(void *unused) {
  lua_State *L = opened();
  CHECK(luaL_dostring(L, "for _ = 1, 100 do torch.ones(3):exp() end") == LUA_OK);
  lua_close(L);
  return unused;
}

TEST(each_thread_reports_its_own_work) {
  pthread_t threads[4];
  tl_set_observer(count, NULL);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, work_in_thread, NULL) == 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  tl_set_observer(NULL, NULL);
  CHECK(atomic_load(&calls) == 400);
}

TEST(counters_follow_memory) {
  tl_Counters before, during, after;
  tl_counters(&before);
  tl_Tensor *t = tl_tensor_empty(TL_F32, 1, (int64_t[]){1 << 20});
  tl_counters(&during);
  tl_tensor_release(t);
  tl_counters(&after);
  CHECK(during.bytes_used - before.bytes_used >= 4 << 20);
  CHECK(after.bytes_used == before.bytes_used);
  CHECK(after.bytes_peak >= during.bytes_used && during.device_waits == 0);
}

TEST(work_is_counted_while_the_host_wants_it) {
  lua_State *L = opened();
  tl_WorkCounts c = {.size = sizeof c};
  tl_count_work(true);
  tl_count_work(true);
  CHECK(luaL_dostring(
            L, "x = torch.ones(1 << 18, {requires_grad = true}) y = x:exp() y:sum():backward()") ==
        LUA_OK);
  CHECK(tl_work_counts(&c) && c.operators >= 3 && c.derivatives >= 3 && c.device_waits == 0);
  CHECK(c.allocations >= 3 && c.bytes >= 3 << 20 && c.bytes < 64 << 20);
  tl_count_work(false);
  int64_t operators = c.operators;
  CHECK(luaL_dostring(L, "x:exp()") == LUA_OK);
  CHECK(tl_work_counts(&c) && c.operators == operators);
  tl_count_work(true);
  CHECK(luaL_dostring(L, "torch.no_grad(function() for _ = 1, 10 do x:exp() end end)") == LUA_OK);
  CHECK(tl_work_counts(&c) && c.operators == 10 && c.derivatives == 0 && c.allocations == 10);
  CHECK(c.bytes == 10 << 20);
  tl_count_work(false);
  lua_close(L);
}

TEST(counts_fit_the_hosts_struct) {
  tl_WorkCounts c = {.size = sizeof c, .bytes = 5, .derivatives = 6};
  CHECK(!tl_work_counts(NULL));
  CHECK_ERROR(TL_EARG, "work_counts: expected a struct of at least 16 bytes, got 0");
  c.size = 8;
  CHECK(!tl_work_counts(&c) && c.bytes == 5);
  /* a host that was compiled with an older header passes the smaller size of its struct */
  c.size = 16;
  CHECK(tl_work_counts(&c) && c.derivatives == 6 && c.bytes == 5 && c.size == 16);
  struct {
    tl_WorkCounts known;
    int64_t more;
  } newer = {.known.size = sizeof newer, .more = 7};
  CHECK(tl_work_counts(&newer.known) && newer.more == 7);
}

TEST(features_are_named) {
  CHECK(tl_has("lua") && tl_has("training") && tl_has("programs") && tl_has("distributed"));
  CHECK(tl_has("cpu") && tl_has("meta"));
  CHECK(!tl_has("python") && !tl_has("") && !tl_has(NULL));
}

int main(void) { return test_all(); }
