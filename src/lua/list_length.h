/*
** list_length.h - the length of a list that a script has made.
*/
#ifndef TLI_LIST_LENGTH_H
#define TLI_LIST_LENGTH_H

#include <lua.h>
#include <stdint.h>

/* Returns the number of elements of the table at a stack index. Lua's own length of a table with
** holes, such as {[1] = x, [2] = x, [4] = x, ...}, may be 2^62. A large length from this function
** never exceeds the number of elements in the table. */
int64_t tli_list_length(lua_State *L, int index);

#endif
