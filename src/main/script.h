/*
** script.h - runs chunks of Lua and reports their errors like `lua`.
*/
#ifndef TLI_SCRIPT_H
#define TLI_SCRIPT_H

#include <lua.h>
#include <stdbool.h>

#include "main/options.h"

/* Sets the program name that begins every message, or none with NULL. The string is not copied. */
void tli_script_set_name(const char *name);

/* Prints a message on stderr, after the command's name. */
void tli_script_complain(const char *message);

/* If the status is not LUA_OK, prints and pops the error. Returns whether the status is
** LUA_OK. */
bool tli_script_report(lua_State *L, int status);

/* Calls a function with `nargs` arguments; an error gets a traceback and stays
** on the stack. SIGINT interrupts the call. Returns Lua's status. */
int tli_script_call(lua_State *L, int nargs, int nresults);

/* Runs `tlua top` with the remaining arguments. */
bool tli_script_top(lua_State *L, int argc, char **argv);

/* Runs `tlua help` with the remaining arguments. */
bool tli_script_help(lua_State *L, int argc, char **argv);

/* Runs `tlua port` with the remaining arguments. */
bool tli_script_port(lua_State *L, int argc, char **argv);

/* Calls start(html) or finish() of the library's module for --profile. */
bool tli_script_profile(lua_State *L, const char *function, const char *html);

/* Sets the global `arg`: argv[script] is arg[0], and earlier arguments have negative positions.
** Without a script arg[0] is the program. */
void tli_script_set_arg(lua_State *L, int argc, char **argv, int script);

/* Each of these functions runs code, reports its error, and returns whether it succeeded. */
bool tli_script_init(lua_State *L); /* Runs the code of LUA_INIT_5_4 or LUA_INIT. */
bool tli_script_step(lua_State *L, tli_Step step);
bool tli_script_stdin(lua_State *L);
/* Runs the script with the arguments in the global `arg`. */
bool tli_script_run(lua_State *L, int argc, char **argv, int script);

#endif
