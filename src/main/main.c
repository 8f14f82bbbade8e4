/*
** main.c - the `tlua` command: the Lua interpreter with tensors.
**
**   tlua [options] [script [args]]   runs a script or the interactive mode, as `lua` does
**   tlua doctor                      reports the libraries and devices of this machine
**   tlua run -n 4 script [args]      runs a script as several processes
**   tlua help name                   prints the manual's text on a name; --web opens the reference
**   tlua top folder                  shows the curves that a SummaryWriter writes
**   tlua fit config.lua              trains by a configuration
**   tlua notebook install            lets Jupyter run Lua
**   tlua serve folder                serves models over HTTP
**   tlua chat model.gguf             talks with a language model
**   tlua hub action                  packs, lists and fetches models
**   tlua port script.py              translates a PyTorch script to Lua
**   tlua build model.tlp -o model.c  writes a program of torch.export as C
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "main/doctor.h"
#include "main/globals.h"
#include "main/interrupt.h"
#include "main/launch.h"
#include "main/options.h"
#include "main/repl.h"
#include "main/script.h"
#include "main/terminal.h"
#include "main/heap.h"
#include "tlua.h"

static void print_version(void) {
  printf("tlua %s, %s\n", tl_version(), LUA_COPYRIGHT);
  fflush(stdout);
}

static void print_usage(FILE *out, const char *name) {
  fprintf(out,
          "usage: %s [options] [script [args]]\n"
          "       %s run -n 4 script [args]    as several processes; see run --help\n"
          "       %s doctor    what was found on this machine, and what is missing\n"
          "       %s top folder    the curves of a training, while it runs; see top --help\n"
          "       %s help name    the manual's text on a name; help --web opens the reference\n"
          "       %s fit config.lua    a training by a configuration; see fit --help\n"
          "       %s notebook install    a kernel for Jupyter; see notebook --help\n"
          "       %s serve folder    serves models over HTTP; see serve --help\n"
          "       %s chat model.gguf    a conversation with a language model; see chat --help\n"
          "       %s hub list    fetches published models, packs your own; see hub --help\n"
          "       %s port script.py    the Lua that a PyTorch script becomes; see port --help\n"
          "       %s build model.tlp -o model.c    its program as C; see build --help\n"
          "Options:\n%s",
          name, name, name, name, name, name, name, name, name, name, name, name,
          tli_options_usage);
  fflush(out);
}

/* Does everything that precedes the script: prepares the state, then executes options such as -e
** and -l. */
static bool prepare(lua_State *L, const tli_Options *options, int argc, char **argv) {
  /* Lua's libraries read this registry entry when they are opened, and then ignore environment
  ** variables */
  if (options->no_env) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  tli_script_set_arg(L, argc, argv, options->script);
  bool typed = options->chunks || options->interactive || options->script == argc;
  tli_globals_open(L, typed);
  lua_gc(L, LUA_GCGEN, 0, 0);
  if (!options->no_env && !tli_script_init(L)) return false;
  int i = 1;
  for (tli_Step step = tli_options_step(argv, options, &i); step.letter;
       step = tli_options_step(argv, options, &i)) {
    if (!tli_script_step(L, step)) return false;
  }
  return true;
}

/* false if a profile was requested and could not be printed */
static bool profile_told = true;

static void finish_profile(lua_State *L) { profile_told = tli_script_profile(L, "finish", NULL); }

static bool run(lua_State *L, const tli_Options *options, int argc, char **argv) {
  if (options->version) print_version();
  if (!prepare(L, options, argc, argv)) return false;
  bool has_script = options->script < argc;
  if (options->profile) {
    if (!tli_script_profile(L, "start", options->html)) return false;
    tli_interrupt_at_end(finish_profile);
  }
  bool good = !has_script || tli_script_run(L, argc, argv, options->script);
  tli_interrupt_end(L);
  if (!good || !profile_told) return false;
  if (options->interactive) {
    tli_repl_run(L);
  } else if (!has_script && !options->chunks && !options->version) {
    if (!tli_terminal_typed()) return tli_script_stdin(L);
    print_version();
    puts("help() tells how to begin, Ctrl-D leaves.");
    tli_repl_run(L);
  }
  return true;
}

static bool run_command(lua_State *L, int argc, char **argv) {
  const char *name = argv[0] && argv[0][0] ? argv[0] : "tlua";
  tli_Options options;
  char problem[128];
  tli_script_set_name(name);
  if (!tli_options_parse(argc, argv, &options, problem)) {
    tli_script_complain(problem);
    print_usage(stderr, name);
    return false;
  }
  if (options.help) {
    print_usage(stdout, name);
    return true;
  }
  return run(L, &options, argc, argv);
}

static bool run_doctor(lua_State *L, int argc, char **argv) {
  bool help = argc == 3 && strcmp(argv[2], "--help") == 0;
  if (argc > 2 && !help) fprintf(stderr, "tlua doctor: unexpected argument '%.80s'\n", argv[2]);
  if (argc > 2) {
    fputs("usage: tlua doctor\nWhat was found on this machine, and what is missing.\n",
          help ? stdout : stderr);
    return help;
  }
  luaL_openlibs(L);
  tli_globals_open(L, false);
  tli_doctor_run(L);
  return true;
}

static bool run_top(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_top(L, argc, argv);
}

static bool run_help(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_help(L, argc, argv);
}

static bool run_port(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_port(L, argc, argv);
}

static bool run_fit(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_fit(L, argc, argv);
}

static bool run_notebook(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, true);
  tli_script_set_arg(L, 1, argv, 1);
  lua_gc(L, LUA_GCGEN, 0, 0);
  return tli_script_notebook(L, argc, argv);
}

static bool run_serve(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_serve(L, argc, argv);
}

static bool run_chat(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_chat(L, argc, argv);
}

static bool run_hub(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_hub(L, argc, argv);
}

static bool run_build(lua_State *L, int argc, char **argv) {
  luaL_openlibs(L);
  tli_globals_open(L, false);
  return tli_script_build(L, argc, argv);
}

/* Runs the whole program; the caller calls this function in protected mode. The Lua arguments are
** argc and argv. The result tells whether the program has succeeded. */
static int protected_main(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = lua_touserdata(L, 2);
  const char *word = argc > 1 ? argv[1] : "";
  luaL_checkversion(L);
  bool good;
  if (strcmp(word, "doctor") == 0)
    good = run_doctor(L, argc, argv);
  else if (strcmp(word, "top") == 0)
    good = run_top(L, argc, argv);
  else if (strcmp(word, "help") == 0)
    good = run_help(L, argc, argv);
  else if (strcmp(word, "fit") == 0)
    good = run_fit(L, argc, argv);
  else if (strcmp(word, "notebook") == 0)
    good = run_notebook(L, argc, argv);
  else if (strcmp(word, "serve") == 0)
    good = run_serve(L, argc, argv);
  else if (strcmp(word, "chat") == 0)
    good = run_chat(L, argc, argv);
  else if (strcmp(word, "hub") == 0)
    good = run_hub(L, argc, argv);
  else if (strcmp(word, "port") == 0)
    good = run_port(L, argc, argv);
  else if (strcmp(word, "build") == 0)
    good = run_build(L, argc, argv);
  else
    good = run_command(L, argc, argv);
  lua_pushboolean(L, good);
  return 1;
}

int main(int argc, char **argv) {
  tli_script_set_name("tlua");
  if (argc > 1 && strcmp(argv[1], "run") == 0) return tli_launch(argc, argv);
  tli_launch_prepare();
  if (!tli_terminal_take_limits()) {
    tli_script_complain("the stack is limited to less than 1 MiB: raise the limit (ulimit -s)");
    return EXIT_FAILURE;
  }
  lua_State *L = tli_heap_newstate();
  if (L == NULL) {
    tli_script_complain("cannot create state: not enough memory");
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, protected_main);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  int status = lua_pcall(L, 2, 1, 0);
  bool good = tli_script_report(L, status) && lua_toboolean(L, -1);
  tli_heap_close(L);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
