/*
** script.c - runs chunks of Lua: scripts, the strings of -e, and the libraries of -l.
*/
#include "main/script.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "main/interrupt.h"
#include "main/terminal.h"

/* The program's name in messages. It is set once, before anything runs. */
static const char *command_name;

void tli_script_set_name(const char *name) { command_name = name; }

void tli_script_complain(const char *message) {
  fflush(stdout); /* prints buffered output before the error message */
  /* the message is written in one piece, since mpirun may kill this process between two writes */
  fprintf(stderr, "%s%s%s\n", command_name ? command_name : "", command_name ? ": " : "", message);
  fflush(stderr);
}

bool tli_script_report(lua_State *L, int status) {
  if (status == LUA_OK) return true;
  const char *message = lua_tostring(L, -1);
  tli_script_complain(message ? message : "(error message not a string)");
  lua_pop(L, 1);
  return false;
}

/* Adds a hint to the message if the program has called model:training(), as in Torch7, where
** `training` is a method; here it is a boolean field. Lua itself makes the message, which is
** recognized by its text. */
static const char *add_hint(lua_State *L, const char *message) {
  if (strstr(message, "attempt to call a boolean value (method 'training')") == NULL)
    return message;
  return lua_pushfstring(L, "%s; a module's training is true or false: write m:train() or m:eval()",
                         message);
}

/* A message handler that adds a traceback. An error object that is not a string is converted by its
** metamethod __tostring, and gets no traceback. */
static int add_traceback(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (message == NULL) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  luaL_traceback(L, L, add_hint(L, message), 1);
  return 1;
}

int tli_script_call(lua_State *L, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  int status = tli_interrupt_call(L, nargs, nresults, base);
  lua_remove(L, base);
  return status;
}

/* Runs the chunk that a load function has pushed, if `status`, the result of that function, is
** LUA_OK. */
static bool run_loaded(lua_State *L, int status) {
  if (status == LUA_OK) status = tli_script_call(L, 0, 0);
  return tli_script_report(L, status);
}

static bool run_string(lua_State *L, const char *text, const char *name) {
  return run_loaded(L, luaL_loadbuffer(L, text, strlen(text), name));
}

bool tli_script_stdin(lua_State *L) { return run_loaded(L, luaL_loadfile(L, NULL)); }

bool tli_script_init(lua_State *L) {
  const char *name = "=LUA_INIT" LUA_VERSUFFIX;
  const char *value = getenv(name + 1);
  if (value == NULL) {
    name = "=LUA_INIT";
    value = getenv(name + 1);
  }
  if (value == NULL) return true;
  if (value[0] == '@') return run_loaded(L, luaL_loadfile(L, value + 1));
  return run_string(L, value, name);
}

/* Loads the library of the option -l mod or -l global=mod and assigns it to a global. Without a
** name for the global, the global is the module's name up to a hyphen: "mod-v2" is assigned to
** "mod". */
static bool require_library(lua_State *L, const char *value) {
  const char *equals = strchr(value, '=');
  const char *module = equals ? equals + 1 : value;
  const char *end = equals ? equals : strchr(value, '-');
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  int status = tli_script_call(L, 1, 1);
  if (status != LUA_OK) return tli_script_report(L, status);
  lua_pushglobaltable(L);
  lua_pushlstring(L, value, end ? (size_t)(end - value) : strlen(value));
  /* changes the order of three values on the stack to: globals, name, library */
  lua_rotate(L, -3, -1);
  lua_settable(L, -3);
  lua_pop(L, 1);
  return true;
}

static bool use_device(lua_State *L, const char *name) {
  lua_getglobal(L, "torch");
  lua_getfield(L, -1, "set_default_device");
  lua_remove(L, -2);
  lua_pushstring(L, name);
  return tli_script_report(L, tli_script_call(L, 1, 0));
}

bool tli_script_profile(lua_State *L, const char *function, const char *html) {
  /* the registry keeps the functions from the first call on, since the script may change the global
  ** `torch` */
  static const char key = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TNIL) {
    lua_getglobal(L, "torch");
    lua_getfield(L, -1, "profiler");
    lua_getfield(L, -1, "script");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
  }
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  lua_pushstring(L, html);
  return tli_script_report(L, tli_script_call(L, 1, 0));
}

/* Calls the function on top of the stack with argv[2], argv[3] ... as a list with the field
** `columns`, the terminal's width. Returns the function's result. */
static bool call_with_arguments(lua_State *L, int argc, char **argv) {
  lua_createtable(L, argc - 2, 1);
  for (int i = 2; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_pushinteger(L, tli_terminal_width());
  lua_setfield(L, -2, "columns");
  if (!tli_script_report(L, tli_script_call(L, 1, 1))) return false;
  return lua_toboolean(L, -1);
}

bool tli_script_top(lua_State *L, int argc, char **argv) {
  lua_getglobal(L, "torch");
  for (const char *const *name = (const char *const[]){"utils", "tensorboard", "_top", NULL}; *name;
       name++)
    lua_getfield(L, -1, *name);
  return call_with_arguments(L, argc, argv);
}

/* Runs the function `command` of a module of the library with the arguments that follow the
** command's name. */
static bool run_command_of(lua_State *L, const char *module, int argc, char **argv) {
  /* loads "tlua" first, because only then does `require` find the library's other modules */
  const char *const modules[] = {"tlua", module};
  for (int i = 0; i < 2; i++) {
    lua_getglobal(L, "require");
    lua_pushstring(L, modules[i]);
    if (!tli_script_report(L, tli_script_call(L, 1, 1))) return false;
  }
  lua_getfield(L, -1, "command");
  return call_with_arguments(L, argc, argv);
}

bool tli_script_help(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.repl.web", argc, argv);
}

bool tli_script_fit(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.trainer.command", argc, argv);
}

bool tli_script_notebook(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.notebook.command", argc, argv);
}

bool tli_script_serve(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.serve.command", argc, argv);
}

bool tli_script_chat(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.llm.command", argc, argv);
}

bool tli_script_hub(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.hub.command", argc, argv);
}

bool tli_script_port(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.port", argc, argv);
}

bool tli_script_build(lua_State *L, int argc, char **argv) {
  return run_command_of(L, "tlua.export.source", argc, argv);
}

bool tli_script_step(lua_State *L, tli_Step step) {
  switch (step.letter) {
  case 'W': lua_warning(L, "@on", 0); return true;
  case 'd': return use_device(L, step.value);
  case 'l': return require_library(L, step.value);
  case 't': return run_string(L, "require 'tlua.torch7.start'", "=--torch7");
  default: return run_string(L, step.value, "=(command line)");
  }
}

void tli_script_set_arg(lua_State *L, int argc, char **argv, int script) {
  if (script == argc) script = 0;
  lua_createtable(L, argc - script, script + 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

/* Pushes arg[1], arg[2], ... and returns their number. Reads the global `arg`, because code that
** ran before the script may have changed it. */
static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) return luaL_error(L, "'arg' is not a table");
  int table = lua_gettop(L);
  int n = (int)luaL_len(L, table);
  luaL_checkstack(L, n + 3, "too many arguments to script");
  for (int i = 1; i <= n; i++) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return n;
}

/* Returns the script's file name; "-" means stdin, but after "--" it is the name of a file. */
static const char *script_name(char **argv, int script) {
  bool is_stdin = strcmp(argv[script], "-") == 0 && strcmp(argv[script - 1], "--") != 0;
  return is_stdin ? NULL : argv[script];
}

bool tli_script_run(lua_State *L, int argc, char **argv, int script) {
  if (script >= argc) return true;
  int status = luaL_loadfile(L, script_name(argv, script));
  if (status == LUA_OK) status = tli_script_call(L, push_arguments(L), 0);
  return tli_script_report(L, status);
}
