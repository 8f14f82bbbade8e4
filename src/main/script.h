/*
** script.h - runs chunks of Lua and reports their errors like `lua`.
*/
#ifndef TLI_SCRIPT_H
#define TLI_SCRIPT_H

#include <lua.h>
#include <stdbool.h>

#include "main/options.h"

/* Sets the program name that begins every message; NULL means no name. The string is not copied. */
void tli_script_set_name(const char *name);

/* Prints a message on stderr, after the command's name. */
void tli_script_complain(const char *message);

/* If the status is not LUA_OK, prints the error on top of the stack and pops it. Returns whether
** the status is LUA_OK. */
bool tli_script_report(lua_State *L, int status);

/* Calls a function with `nargs` arguments. After an error the message, with a traceback, stays on
** the stack. SIGINT interrupts the call. Returns Lua's status. */
int tli_script_call(lua_State *L, int nargs, int nresults);

/* Runs `tlua top` with the arguments argv[2], argv[3], ... */
bool tli_script_top(lua_State *L, int argc, char **argv);

/* Runs `tlua help` with the arguments argv[2], argv[3], ... */
bool tli_script_help(lua_State *L, int argc, char **argv);

/* Runs `tlua fit` with the arguments argv[2], argv[3], ... */
bool tli_script_fit(lua_State *L, int argc, char **argv);
/* Runs `tlua chat` with the arguments argv[2], argv[3], ... */
bool tli_script_chat(lua_State *L, int argc, char **argv);

/* Runs `tlua notebook` with the arguments argv[2], argv[3], ... */
bool tli_script_notebook(lua_State *L, int argc, char **argv);

/* Runs `tlua serve` with the arguments argv[2], argv[3], ... */
bool tli_script_serve(lua_State *L, int argc, char **argv);

/* Runs `tlua hub` with the arguments argv[2], argv[3], ... */
bool tli_script_hub(lua_State *L, int argc, char **argv);

/* Runs `tlua port` with the arguments argv[2], argv[3], ... */
bool tli_script_port(lua_State *L, int argc, char **argv);

/* Runs `tlua build` with the arguments argv[2], argv[3], ... */
bool tli_script_build(lua_State *L, int argc, char **argv);

/* Implements --profile: calls a function of torch.profiler.script with the argument `html`. The
** function is "start", where `html` is the path of the profile's page, or "finish", where `html` is
** NULL. */
bool tli_script_profile(lua_State *L, const char *function, const char *html);

/* Sets the global `arg` to a table of all arguments. argv[script] is arg[0], and the arguments
** before it have negative positions. Without a script arg[0] is the program. */
void tli_script_set_arg(lua_State *L, int argc, char **argv, int script);

/* Each function below runs code, reports an error of that code, and returns whether the code has
** succeeded. */
bool tli_script_init(lua_State *L); /* Runs the code of LUA_INIT_5_4 or LUA_INIT. */
bool tli_script_step(lua_State *L, tli_Step step);
bool tli_script_stdin(lua_State *L);
/* Runs the script with the arguments in the global `arg`. */
bool tli_script_run(lua_State *L, int argc, char **argv, int script);

#endif
