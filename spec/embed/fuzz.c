/*
** fuzz.c - runs hostile scripts in sandboxed states (tl_lua_open_with with TL_SANDBOX), under
** limits: fuzz [SEED [SCRIPTS [FIRST]]]. fuzz.lua writes the scripts. A child process runs BATCH
** scripts in one state. If the child crashes or hangs, the program removes as many lines as
** possible and prints the remaining ones with the seed. Without arguments, the program ends after a
** few seconds. `make fuzz-scripts` runs it with the sanitizers.
*/
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

enum {
  BATCH = 20,        /* number of scripts that share a state */
  SHORT_SECONDS = 8, /* duration of a run without arguments */
  HANG_SECONDS = 30, /* a line that runs for more seconds than this counts as a hang */
  MOST_LINES = 4096
};

/* The lines of all scripts that run in one state. The generator's Lua state owns the texts. */
typedef struct Case {
  int count;
  const char *line[MOST_LINES];
} Case;

/* A record in shared memory, which the child writes and the parent reads after the child has
** ended. */
typedef struct Report {
  int at; /* the index of the line that is running */
  long calls, errors;
} Report;

static lua_State *generator;
static Report *report;
static char log_path[64];
/* The program's arguments, all optional: the seed, the number of scripts (0 means that scripts run
** until the time is over), and the number of the first script. */
static long long seed = 1, scripts, first;

/* Limits the running line to HANG_SECONDS of processor time, and to a multiple of that in real
** time. After that, the kernel ends the process. */
static void watch(void) {
  struct itimerval timer = {{0, 0}, {HANG_SECONDS, 0}};
  setitimer(ITIMER_VIRTUAL, &timer, NULL);
  alarm(8 * HANG_SECONDS);
}

static void run_line(lua_State *L, const char *line) {
  static const tl_Limits limits = {
      .tensor_bytes = 64 << 20, .lua_bytes = 64 << 20, .instructions = 100000, .seconds = 0.5};
  watch();
  lua_settop(L, 0);
  if (!tl_set_limits(L, &limits)) _exit(3);
  if (luaL_loadbufferx(L, line, strlen(line), "=script", "t") != LUA_OK ||
      lua_pcall(L, 0, 0, 0) != LUA_OK)
    report->errors++;
  report->calls++;
}

static void run_case(const Case *c) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (!tl_lua_open_with(L, TL_SANDBOX)) _exit(3);
  /* this limit includes memory that belongs to no tensor */
  tl_set_memory_limit((int64_t)512 << 20);
  for (int i = 0; i < c->count; i++) {
    report->at = i;
    run_line(L, c->line[i]);
  }
  report->at = c->count;
  watch();
  if (!tl_set_limits(L, NULL)) _exit(3);
  lua_close(L);
}

/* Runs a case in a child process. Returns the child's wait status. */
static int run_child(const Case *c) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int nothing = open("/dev/null", O_RDWR);
    int out = open(log_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(nothing, 0);
    dup2(nothing, 1);
    dup2(out, 2);
    run_case(c);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/* Returns the signal or the exit status that ended a child, or 0 if the child ended normally. */
static int fate(int status) { return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status); }

/* Makes a case smaller: removes groups of lines as long as the case still crashes without them. */
static void minimise(Case *c) {
  for (int part = c->count / 2; part >= 1; part = part > 1 ? part / 2 : 0) {
    /* line 0 is the prelude, which the other lines need, so it stays */
    for (int i = 1; i < c->count;) {
      Case less = {0, {NULL}};
      for (int k = 0; k < c->count; k++)
        if (k < i || k >= i + part) less.line[less.count++] = c->line[k];
      if (less.count < c->count && fate(run_child(&less)) != 0)
        *c = less;
      else
        i += part;
    }
  }
}

static void print_log(void) {
  FILE *f = fopen(log_path, "r");
  char text[400];
  for (int i = 0; f && i < 45 && fgets(text, sizeof text, f); i++)
    printf("  %.300s%s", text, strchr(text, '\n') ? "" : "\n");
  if (f) fclose(f);
}

/* Appends the lines of script `number` to the case. */
static bool add_script(Case *c, long long number) {
  lua_State *W = generator;
  lua_pushvalue(W, 1);
  lua_pushinteger(W, seed);
  lua_pushinteger(W, number);
  if (lua_pcall(W, 2, 1, 0) != LUA_OK) {
    printf("%s\n", lua_tostring(W, -1));
    return false;
  }
  lua_Integer n = (lua_Integer)lua_rawlen(W, -1);
  for (lua_Integer i = c->count == 0 ? 1 : 2; i <= n && c->count < MOST_LINES; i++) {
    lua_rawgeti(W, -1, i);
    c->line[c->count++] = lua_tostring(W, -1);
    lua_pop(W, 1);
  }
  lua_rawseti(W, 4, (lua_Integer)number % BATCH + 1); /* keeps the texts from being collected */
  return true;
}

/* Runs a batch of scripts, from number `from` on, in one state. */
static void run_batch(long long from) {
  static Case c;
  c.count = 0;
  for (long long i = from; i < from + BATCH; i++)
    if (!add_script(&c, i)) {
      FAIL("the generator failed");
      return;
    }
  int status = run_child(&c);
  if (fate(status) == 0) return;
  int at = report->at;
  printf("seed %lld, scripts from %lld: %s %d in line %d: %s\n", seed, from,
         WIFSIGNALED(status) ? "signal" : "status", fate(status), at,
         at < c.count ? c.line[at] : "lua_close");
  print_log();
  if (at + 1 < c.count) c.count = at + 1;
  minimise(&c);
  printf("minimised to %d lines:\n", c.count - 1);
  for (int i = 1; i < c.count; i++) printf("%s\n", c.line[i]);
  fflush(stdout);
  FAIL("a script crashed or hung");
}

/* Loads fuzz.lua in a separate state, in which no scripts run. */
static bool open_generator(void) {
  lua_State *W = generator = luaL_newstate();
  luaL_openlibs(W);
  FILE *names = popen("find lua/tlua -name '*.lua' | sort", "r");
  char path[300];
  lua_newtable(W);
  for (lua_Integer n = 1; names && fgets(path, sizeof path, names);) {
    char name[300] = "";
    size_t size = strcspn(path, "\n") - strlen(".lua");
    for (size_t i = strlen("lua/"); i < size; i++)
      name[i - strlen("lua/")] = path[i] == '/' ? '.' : path[i];
    if (strstr(name, ".types")) continue;
    lua_pushstring(W, name);
    lua_rawseti(W, -2, n++);
  }
  if (names) pclose(names);
  lua_setglobal(W, "modules");
  if (!tl_lua_open_with(W, TL_SANDBOX)) return false;
  if (luaL_loadfile(W, "spec/embed/fuzz.lua") != LUA_OK) return false;
  lua_getglobal(W, "modules");
  lua_pushnil(W);
  lua_setglobal(W, "modules");
  if (lua_pcall(W, 1, 3, 0) != LUA_OK) return false;
  lua_newtable(W); /* this table keeps the scripts of the current batch */
  return true;
}

/* Runs scripts until the requested number is reached or, without arguments, until the time is
** over. */
TEST(hostile_scripts_do_no_harm) {
  CHECK(open_generator());
  if (test_faults > 0) {
    printf("%s\n", lua_tostring(generator, -1));
    return;
  }
  time_t end = time(NULL) + SHORT_SECONDS;
  long long done = first;
  while (scripts ? done < first + scripts : time(NULL) < end) {
    run_batch(done);
    done += BATCH;
    if (scripts && done % 1000 == 0)
      fprintf(stderr, "seed %lld: %lld scripts, %ld lines, %ld errors\n", seed, done, report->calls,
              report->errors);
  }
  unlink(log_path);
  printf("seed %lld: %lld scripts, %ld lines, %ld errors; %lld functions and %lld tables\n", seed,
         done - first, report->calls, report->errors, (long long)lua_tointeger(generator, 2),
         (long long)lua_tointeger(generator, 3));
  CHECK(report->calls > report->errors);
}

int main(int argc, char **argv) {
  /* in qemu-user, child processes cannot start threads, so this test is left out */
  if (test_emulated()) return test_end();
  if (argc > 1) seed = atoll(argv[1]);
  if (argc > 2) scripts = atoll(argv[2]);
  if (argc > 3) first = atoll(argv[3]);
  snprintf(log_path, sizeof log_path, "/tmp/tlua_fuzz.%ld", (long)getpid());
  report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return report == MAP_FAILED ? 1 : test_all();
}
