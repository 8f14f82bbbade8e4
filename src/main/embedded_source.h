/*
** embedded_source.h - gives access to the embedded sources of the library's Lua code, for `help`.
*/
#ifndef TLI_EMBEDDED_SOURCE_H
#define TLI_EMBEDDED_SOURCE_H

#include <lua.h>

/* Opens the module `tlua.repl.source`: a function that returns the text of an embedded source,
** given its module's or its chunk's name, or nil. */
int tli_source_open(lua_State *L);

#endif
