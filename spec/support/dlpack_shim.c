/*
** dlpack_shim.c - runs a Lua chunk for dlpack.py. The chunk gets tensors that are made from two
** managed tensors of DLPack. Its result becomes another managed tensor.
** */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "tlua.h"

static lua_State *L;

static const char *fail(const char *message) {
  lua_settop(L, 0);
  return message;
}

/* Imports a managed tensor, `plain` or `versioned`, and calls a chunk of Lua with the tensor.
** Exports the chunk's result to *out or *out_versioned. Returns NULL on success, or a message. */
__attribute__((visibility("default"))) const char *
shim_run(const char *text, struct DLManagedTensor *plain,
         struct DLManagedTensorVersioned *versioned, struct DLManagedTensor **out,
         struct DLManagedTensorVersioned **out_versioned) {
  static char message[512];
  if (L == NULL) {
    L = luaL_newstate();
    luaL_openlibs(L);
    if (!tl_lua_open(L)) return tl_error();
  }
  if (luaL_loadstring(L, text) != LUA_OK) return fail("the chunk is wrong");
  tl_Tensor *in = plain       ? tl_tensor_from_dlpack(plain)
                  : versioned ? tl_tensor_from_dlpack_versioned(versioned)
                              : NULL;
  if (in == NULL && (plain || versioned)) return fail(tl_error());
  if (in)
    tl_lua_push(L, in);
  else
    lua_pushnil(L);
  tl_tensor_release(in);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    const char *why = lua_tostring(L, -1);
    size_t i = 0;
    for (; why[i] && i < sizeof message - 1; i++) message[i] = why[i];
    message[i] = '\0';
    return fail(message);
  }
  tl_Tensor *result = tl_lua_to(L, -1);
  if (result && out) *out = tl_tensor_to_dlpack(result);
  if (result && out_versioned) *out_versioned = tl_tensor_to_dlpack_versioned(result);
  bool made = (!out || *out) && (!out_versioned || *out_versioned);
  lua_settop(L, 0);
  lua_gc(L, LUA_GCCOLLECT);
  return made ? NULL : tl_error();
}
