/*
** heap.h - a lua_State and its memory.
*/
#ifndef TLI_HEAP_H
#define TLI_HEAP_H

#include <lua.h>

/* Like luaL_newstate, with an allocator for Lua's many small objects; called once. Returns NULL if
** memory is exhausted. Closed by tli_heap_close. */
lua_State *tli_heap_newstate(void);
void tli_heap_close(lua_State *L);

#endif
