/*
** heap.h - creates a lua_State with an allocator for many small objects.
*/
#ifndef TLI_HEAP_H
#define TLI_HEAP_H

#include <lua.h>

/* Creates the program's only state, as luaL_newstate does, but with an allocator that is fast for
** small objects. Returns NULL if memory is exhausted. tli_heap_close closes the state. */
lua_State *tli_heap_newstate(void);
void tli_heap_close(lua_State *L);

#endif
