/*
** storage.c - the C functions behind the class torch.UntypedStorage, which is in
** lua/tlua/functions/storage.lua.
*/
#include "core/observe/trace.h"
#include "lua/tensor/value.h"

/* _storage_view(x, untyped) returns a vector of all elements of x's storage, or of all its bytes if
** `untyped`. The result has no history. A change of the result counts as a change of x. */
static int torch_storage_view(lua_State *L) {
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = tli_check_tensor(L, 1, "storage"), *all = tli_detached(t);
  if (all == NULL) return tli_raise(L);
  if (!tli_trace_read(t)) {
    tli_release(all);
    return tli_raise_as(L, "storage");
  }
  all->dtype = lua_toboolean(L, 2) ? (int8_t)TL_U8 : t->dtype;
  all->offset = 0;
  int64_t n = t->storage->bytes / tli_dtype_bytes[all->dtype], stride = 1;
  tli_set_geometry(all, 1, &n, &stride);
  tli_fill_box(tli_state(L), box, all);
  return 1;
}

/* _storage_key(x) returns a value that identifies x's storage: tensors with the same storage have
** equal keys. */
static int torch_storage_key(lua_State *L) {
  lua_pushlightuserdata(L, tli_check_tensor(L, 1, "storage")->storage);
  return 1;
}

const luaL_Reg tli_storage_functions[] = {
    {"_storage_view", torch_storage_view}, {"_storage_key", torch_storage_key}, {NULL, NULL}};
