/*
** limits.h - the limits of a Lua state (tl_set_limits).
*/
#ifndef TLI_LIMITS_H
#define TLI_LIMITS_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* The number of Lua instructions between two checks. */
#define TLI_LIMITS_STEP 100

/* Counts work that has taken about as long as `spent` instructions. Raises an error if the
** instructions or the seconds of the state are used up. */
void tli_limits_spend(lua_State *L, int64_t spent);

/* The function of every coroutine of a script. Runs the script's function, upvalue 1, so that
** limits can end it. */
int tli_limits_body(lua_State *L);

/* Returns whether the instructions or the seconds of the state are used up. */
bool tli_limits_used_up(lua_State *L);

/* Returns how many instructions the state may still execute; INT64_MAX if they are not limited. */
int64_t tli_limits_left(lua_State *L);

/* Returns the largest number of threads that the state may start; 0 means no limit. */
int tli_limits_threads(lua_State *L);

/* torch._within(seconds, fn, ...), which calls a function within a number of seconds. */
int tli_limits_within(lua_State *L);

/* A Lua function that replaces those functions of the standard libraries that a limit could not
** end. It takes no arguments and returns no results. It does nothing if they were replaced before
** in this state, as they are if functions are denied (sandbox.h). tl_set_limits calls it before it
** sets a limit of instructions or seconds. */
int tli_bound_functions(lua_State *L);

/* Adds the functions find, match, gmatch and gsub of patterns.c, which count their work against the
** state's limits, to the table on top of the stack. */
void tli_bound_patterns(lua_State *L);

#endif
