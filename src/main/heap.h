/*
** heap.h - a lua_State and its memory.
*/
#ifndef TLI_HEAP_H
#define TLI_HEAP_H

#include <lua.h>

/* luaL_newstate, with an allocator that suits Lua's many small objects; called
** once. NULL when there is no memory. Ends with tli_heap_close. */
lua_State *tli_heap_newstate(void);
void tli_heap_close(lua_State *L);

#endif
