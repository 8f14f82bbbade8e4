/*
** embedded_source.h - gives access to the embedded sources of the library's Lua code, for `help`.
*/
#ifndef TLI_EMBEDDED_SOURCE_H
#define TLI_EMBEDDED_SOURCE_H

#include <lua.h>

/* Opens the module `tlua.repl.source`. The module is a function: given the name of a module or of
** its chunk, it returns the text of the embedded source, or nil. */
int tli_source_open(lua_State *L);

#endif
