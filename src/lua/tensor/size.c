/*
** size.c - the class torch.Size: x.shape and x:size() return the list of a tensor's sizes as a
** torch.Size.
**
** A torch.Size is a list of integers with a hidden metatable, so it can be passed wherever a list
** of integers is expected. With the metatable, == compares the sizes, negative positions count from
** the end, and position 0 raises an error, whereas a plain list has nil there.
*/
#include <string.h>

#include "lua/list_length.h"
#include "lua/tensor/value.h"

/* The address of this variable is a key of the registry, whose value is the metatable. */
static const char meta_key = 0;

void tli_set_size(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
  lua_setmetatable(L, -2);
}

bool tli_is_size(lua_State *L, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

/* Converts an integer key to a position in the list, counted from 1. Raises an error for 0, and for
** a negative key before the first position. */
static lua_Integer position(lua_State *L, int64_t at) {
  int64_t n = tli_list_length(L, 1);
  if (at > 0) return at;
  if (at == 0)
    return tli_error(L, "shape: dim: positions count from 1, and from the end with -1, got 0");
  if (at < -n)
    return tli_error(L, "shape: dim: expected a position from %d to %d, got %lld", -(int)n, (int)n,
                     (long long)at);
  return at + n + 1;
}

/* Implements __index, which Lua calls for keys that are not in the list, such as negative integers
** and the method name numel. A position after the last one gives nil, as in every list. */
static int size_index(lua_State *L) {
  int64_t at;
  if (tli_to_whole(L, 2, &at)) {
    lua_rawgeti(L, 1, position(L, at));
  } else {
    luaL_getmetafield(L, 1, "numel");
    const char *field = tli_to_word(L, 2);
    if (field == NULL || strcmp(field, "numel") != 0) lua_pushnil(L);
  }
  return 1;
}

static int size_newindex(lua_State *L) {
  int64_t at;
  if (tli_to_whole(L, 2, &at)) {
    lua_rawseti(L, 1, position(L, at));
  } else {
    lua_rawset(L, 1);
  }
  return 0;
}

static int size_equal(lua_State *L) {
  int64_t n = tli_list_length(L, 1);
  bool equal = n == tli_list_length(L, 2);
  for (int64_t i = 1; equal && i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    equal = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  lua_pushboolean(L, equal);
  return 1;
}

static int size_tostring(lua_State *L) {
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  luaL_addstring(&text, "torch.Size([");
  for (lua_Integer i = 1, n = tli_list_length(L, 1); i <= n; i++) {
    if (i > 1) luaL_addstring(&text, ", ");
    lua_rawgeti(L, 1, i);
    luaL_addvalue(&text);
  }
  luaL_addstring(&text, "])");
  luaL_pushresult(&text);
  return 1;
}

static int size_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

static int size_numel(lua_State *L) {
  if (!tli_is_size(L, 1))
    return tli_error(L, "Size: numel: expected a torch.Size, got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  lua_Unsigned numel = 1;
  for (lua_Integer i = 1, n = tli_list_length(L, 1); i <= n; i++) {
    lua_rawgeti(L, 1, i);
    numel *= (lua_Unsigned)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pushinteger(L, (lua_Integer)numel);
  return 1;
}

/* torch.Size(list) copies a list of integers. */
static int torch_size(lua_State *L) {
  tli_only(L, 1, "Size");
  if (!lua_istable(L, 1))
    return tli_error(L, "Size: sizes: expected a list of integers, got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  lua_Integer n = tli_list_length(L, 1);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    if (!lua_isinteger(L, -1))
      return tli_error(L, "Size: sizes[%d]: expected an integer, got %s", (int)i,
                       tli_describe(L, tli_state(L), lua_gettop(L)));
    lua_rawseti(L, -2, i);
  }
  tli_set_size(L);
  return 1;
}

/* _is_size(value) returns whether a value is a torch.Size. */
static int torch_is_size(lua_State *L) {
  lua_pushboolean(L, tli_is_size(L, 1));
  return 1;
}

void tli_open_size(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"Size", torch_size}, {"_is_size", torch_is_size}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__index", size_index},
                                         {"__newindex", size_newindex},
                                         {"__eq", size_equal},
                                         {"__tostring", size_tostring},
                                         {"__concat", size_concat},
                                         {"numel", size_numel},
                                         {NULL, NULL}};
  tli_set_functions(L, functions);
  lua_newtable(L);
  tli_set_functions(L, metamethods);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
}
