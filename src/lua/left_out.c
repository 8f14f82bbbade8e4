/*
** left_out.c - parts of the binding that a build leaves out (PROFILE=infer): their tables exist, so
** that reading a name in them raises an error that says so.
*/
#include "lua/tensor/value.h"

void tli_open_dist(lua_State *L) {
  lua_newtable(L);
  lua_setfield(L, -2, "distributed");
}
