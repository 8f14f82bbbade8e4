/*
** numbers.h - Lua functions that read and write numbers in JSON.
*/
#ifndef TLUA_SERVE_NUMBERS_H
#define TLUA_SERVE_NUMBERS_H

#include <lauxlib.h>

extern const luaL_Reg tlua_serve_numbers[];

#endif
