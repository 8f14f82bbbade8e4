/*
** parcel_string.c - torch._pack and torch._unpack, which convert parcels to and from strings, for
** processes of the same program. lua/tlua/multiprocessing sends functions in this way. Only trusted
** strings may be unpacked, because they contain bytecode.
*/
#include <stdlib.h>
#include <string.h>

#include "core/platform/platform.h"
#include "lua/workers/parcel_format.h"
#include "lua/tensor/value.h"

static int parcel_gc(lua_State *L) {
  tli_Parcel **parcel = lua_touserdata(L, 1);
  tli_parcel_free(*parcel);
  *parcel = NULL;
  return 0;
}

/* Pushes a userdata that will own a parcel. */
static tli_Parcel **push_owner(lua_State *L) {
  tli_Parcel **owner = lua_newuserdatauv(L, sizeof *owner, 0);
  *owner = NULL;
  if (luaL_newmetatable(L, "torch.ParcelString")) {
    lua_pushcfunction(L, parcel_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return owner;
}

/* _pack(what, ...) packs the values, and the globals that their functions name, into a string and a
** list of tensors. If a value cannot be packed, the error message begins with `what`. */
static int torch_pack(lua_State *L) {
  const char *what = luaL_checkstring(L, 1);
  tli_Parcel **owner = push_owner(L);
  lua_insert(L, 2);
  *owner = tli_parcel_pack(L, what, 3, 0, true);
  const tli_Parcel *p = *owner;
  if (p == NULL) return tli_raise(L);
  int64_t n = p->nvalues;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addlstring(&b, (const char *)&n, sizeof n);
  luaL_addlstring(&b, p->bytes, p->n);
  luaL_pushresult(&b);
  lua_createtable(L, p->ntensors, 0);
  for (int i = 0; i < p->ntensors; i++) {
    tli_push_tensor(L, tli_retain(p->tensors[i]));
    lua_rawseti(L, -2, i + 1);
  }
  return 2;
}

/* Fills the parcel from the string and the tensors; returns false if memory is exhausted. */
static bool fill(tli_Parcel *p, const char *text, size_t size, int ntensors) {
  int64_t n;
  memcpy(&n, text, sizeof n);
  p->nvalues = (int)n;
  p->n = p->room = size - sizeof n;
  p->bytes = malloc(p->n > 0 ? p->n : 1);
  p->tensors = calloc((size_t)ntensors + 1, sizeof *p->tensors);
  if (p->bytes == NULL || p->tensors == NULL) return false;
  memcpy(p->bytes, text + sizeof n, p->n);
  return true;
}

/* _unpack(string, tensors) returns the packed values. */
static int torch_unpack(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, size >= sizeof(int64_t), 1, "no parcel");
  int ntensors = (int)lua_rawlen(L, 2);
  tli_Parcel **owner = push_owner(L);
  *owner = calloc(1, sizeof **owner);
  if (*owner == NULL || !fill(*owner, text, size, ntensors))
    return tli_error(L, "spawn: not enough memory");
  for (int i = 0; i < ntensors; i++) {
    lua_rawgeti(L, 2, i + 1);
    (*owner)->tensors[(*owner)->ntensors++] = tli_retain(tli_check_tensor(L, -1, "spawn"));
    lua_pop(L, 1);
  }
  return tli_parcel_unpack(L, *owner, 0, true);
}

/* _keep(file) prevents processes that are started later from inheriting the open file. */
static int torch_keep(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  if (stream->closef) tli_file_keep(stream->f);
  return 0;
}

void tli_open_parcels(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"_pack", torch_pack}, {"_unpack", torch_unpack}, {"_keep", torch_keep}, {NULL, NULL}};
  tli_set_functions(L, functions);
}
