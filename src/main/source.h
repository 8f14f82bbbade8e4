/*
** source.h - the sources of the Lua half of the library, for those who read.
*/
#ifndef TLI_SOURCE_H
#define TLI_SOURCE_H

#include <lua.h>

/* luaopen-like: the module `tlua.repl.source`, a function that gives the text of
** an embedded source for its module's or its chunk's name, or nil. */
int tli_source_open(lua_State *L);

#endif
