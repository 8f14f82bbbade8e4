/*
** left_out.c - parts of the binding that a build leaves out (PROFILE=infer): their tables exist,
** so that a name in them is refused with a message.
*/
#include "lua/tensor/value.h"

void tli_open_dist(lua_State *L) {
  lua_newtable(L);
  lua_setfield(L, -2, "distributed");
}
