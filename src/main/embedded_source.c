/*
** embedded_source.c - returns the embedded Lua sources. `help` shows the doc comments in these
** sources as the manual of functions that are written in Lua.
*/
#include "main/embedded_source.h"

#include <lauxlib.h>
#include <string.h>

#include "lua/embed.h"

/* Returns the text of an embedded source, or nil if there is none. The argument is the name of the
** module or of its chunk. */
static int source(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    if (strcmp(name, e->module) != 0 && strcmp(name, e->chunk) != 0) continue;
    luaL_Buffer text;
    tli_embedded_text(e, luaL_buffinitsize(L, &text, e->size));
    luaL_pushresultsize(&text, e->size);
    return 1;
  }
  lua_pushnil(L);
  return 1;
}

int tli_source_open(lua_State *L) {
  lua_pushcfunction(L, source);
  return 1;
}
