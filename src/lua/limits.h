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

/* Counts work that took the time of `spent` instructions. Raises an error if the instructions or
** the seconds of the state are used up. */
void tli_limits_spend(lua_State *L, int64_t spent);

/* Runs the function of a coroutine, upvalue 1, so that limits can end it. */
int tli_limits_body(lua_State *L);

/* Returns whether the instructions or the seconds of the state are used up. */
bool tli_limits_used_up(lua_State *L);

/* Returns how many instructions the state may still execute; INT64_MAX if they are not limited. */
int64_t tli_limits_left(lua_State *L);

/* Returns the largest number of threads that the state may start; 0 means no limit. */
int tli_limits_threads(lua_State *L);

/* A function of Lua without arguments and results: replaces functions of the standard libraries that
** a limit could not end, once in each state. States of tl_lua_open_with have them from the start. */
int tli_bound_functions(lua_State *L);

/* Adds functions that match string patterns within the limits, to the table on top of the stack. */
void tli_bound_patterns(lua_State *L);

#endif
