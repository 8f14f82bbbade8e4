/*
** sparse.c - recognizes sparse and other wrapped tensors, and passes operators that are called with
** them to Lua. Calls with dense tensors take no extra time, because the arguments are searched for
** wrapped tensors only after an operator has refused them.
*/
#include "lua/args/sparse.h"

#include "lua/tensor/value.h"

/* Keys of the registry. The value of kinds_key is a table from the metatable of each kind of
** wrapped tensor to its handler. The value of meta_key is the metatable of sparse tensors, and the
** value of maker_key the function that push_maker pushes. */
static const char kinds_key = 0, meta_key = 0, maker_key = 0;

bool tli_is_sparse(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_rawlen(L, index) != 0) return false;
  if (!lua_getmetatable(L, index)) return false;
  bool is = lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key) == LUA_TTABLE && lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

/* Pushes the handler of the wrapped tensor at a stack index, which is the Lua function that the
** table at kinds_key has for its metatable, and returns true. For any other value, pushes nothing
** and returns false. */
static bool push_handler(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_rawlen(L, index) != 0) return false;
  if (!lua_getmetatable(L, index)) return false;
  int top = lua_gettop(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kinds_key) == LUA_TTABLE) {
    lua_pushvalue(L, top);
    lua_rawget(L, -2);
  }
  bool is = lua_isfunction(L, -1);
  if (is) lua_replace(L, top);
  lua_settop(L, is ? top : top - 1);
  return is;
}

bool tli_is_wrapped(lua_State *L, int index) {
  bool is = push_handler(L, index);
  if (is) lua_pop(L, 1);
  return is;
}

/* Pushes the handler of a wrapped tensor in a list or a table of options. */
static bool push_handler_inside(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  int top = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (push_handler(L, lua_gettop(L))) {
      lua_replace(L, top + 1);
      lua_settop(L, top + 1);
      return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

int tli_sparse_call(lua_State *L, const char *name, int n) {
  luaL_checkstack(L, n + 8, "sparse arguments");
  int top = lua_gettop(L);
  bool any = false;
  for (int i = 1; i <= n && !any; i++) any = push_handler(L, i) || push_handler_inside(L, i);
  if (!any) return -1;
  lua_pushstring(L, name);
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_call(L, n + 1, LUA_MULTRET);
  return lua_gettop(L) - top;
}

/* ---- gradients ---- */

/* Pushes the Lua function that makes a sparse tensor from a gradient. The first call loads the
** module with that function. */
static void push_maker(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &maker_key) == LUA_TFUNCTION) return;
  lua_pop(L, 1);
  tli_push_environment(L);
  lua_getfield(L, -1, "require");
  lua_pushliteral(L, "tlua.sparse.value");
  lua_call(L, 1, 0);
  lua_pop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &maker_key);
}

void tli_push_grad(lua_State *L, tl_Tensor *steals) {
  if (!tli_is_sparse_grad(steals)) {
    tli_push_tensor(L, steals);
    return;
  }
  luaL_checkstack(L, 8, "sparse gradient");
  int top = lua_gettop(L);
  tli_push_tensor(L, steals); /* the box owns the gradient, so an error in Lua does not leak it */
  push_maker(L);
  tl_Tensor *indices;
  bool coalesced;
  tl_Tensor *values = tli_sparse_grad_rows(steals, &indices, &coalesced);
  tli_push_tensor(L, tli_retain(indices));
  tli_push_tensor(L, tli_retain(values));
  lua_createtable(L, steals->ndim, 0);
  for (int d = 0; d < steals->ndim; d++) {
    lua_pushinteger(L, steals->sizes[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_pushboolean(L, coalesced);
  lua_call(L, 4, 1);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void tli_new_sparse(lua_State *L) {
  push_maker(L); /* loads lua/tlua/sparse if necessary, which registers the metatable */
  lua_pop(L, 1);
  lua_newuserdatauv(L, 0, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
  lua_setmetatable(L, -2);
}

/* Reads the components of the sparse tensor at a stack index. Returns true if both components are
** tensors and the indices have the shape (1, n), so that each index selects a row. */
static bool read_rows(lua_State *L, int index, tl_Tensor **indices, tl_Tensor **values,
                      bool *coalesced) {
  const tli_State *S = tli_state(L);
  int top = lua_gettop(L);
  lua_getiuservalue(L, index, 1);
  lua_getfield(L, top + 1, "indices");
  lua_getfield(L, top + 1, "values");
  lua_getfield(L, top + 1, "coalesced");
  lua_getfield(L, top + 1, "version");
  *indices = lua_type(L, top + 2) == LUA_TUSERDATA ? tli_to_tensor(L, S, top + 2) : NULL;
  *values = lua_type(L, top + 3) == LUA_TUSERDATA ? tli_to_tensor(L, S, top + 3) : NULL;
  /* if the indices were changed in place, they may no longer be sorted */
  *coalesced = lua_toboolean(L, top + 4) && *indices != NULL &&
               lua_tointeger(L, top + 5) == (lua_Integer)tli_version(*indices);
  lua_settop(L, top); /* the table of components keeps the tensors alive */
  return *indices && *values && (*indices)->ndim == 2 && (*indices)->sizes[0] == 1;
}

/* Returns the size of the first dimension of the sparse tensor at a stack index. */
static int64_t first_size(lua_State *L, int index) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, index, 1);
  lua_getfield(L, top + 1, "size");
  if (lua_type(L, -1) == LUA_TTABLE) lua_rawgeti(L, -1, 1);
  int64_t size = lua_tointeger(L, -1);
  lua_settop(L, top);
  return size;
}

/* Returns whether the sparse tensor at a stack index can be a gradient of `of`, that is, whether it
** has the shape, dtype and device of `of`. `values` is the tensor of its values. */
static bool rows_fit(lua_State *L, int index, const tl_Tensor *values, const tl_Tensor *of) {
  bool fit = values->dtype == of->dtype && values->ndim == of->ndim && of->ndim > 0 &&
             first_size(L, index) == of->sizes[0];
  for (int d = 1; fit && d < of->ndim; d++) fit = values->sizes[d] == of->sizes[d];
  return fit && tli_same_device(tli_device(values), tli_device(of));
}

tl_Tensor *tli_to_grad(lua_State *L, int index, const tl_Tensor *of, const char *what) {
  const tli_State *S = tli_state(L);
  tl_Tensor *t = lua_type(L, index) == LUA_TUSERDATA ? tli_to_tensor(L, S, index) : NULL;
  if (t) return tli_retain(t);
  tl_Tensor *indices, *values;
  bool coalesced;
  if (!tli_is_sparse(L, index))
    return tli_fail_null(TL_EARG, "%s, got %s", what, tli_describe(L, S, index));
  if (!read_rows(L, index, &indices, &values, &coalesced) || !rows_fit(L, index, values, of))
    return tli_fail_null(TL_EARG,
                         "%s: a sparse gradient has layout sparse_coo, one sparse dimension, and "
                         "the shape, dtype and device of its tensor, %s %s",
                         what, tl_dtype_name((tl_DType)of->dtype), tli_sizes_str(of));
  return tli_sparse_grad(indices, values, coalesced, of->ndim, of->sizes);
}

/* ---- opening ---- */

/* Registers a kind of wrapped tensor: index 1 has its metatable, index 2 its handler. */
static void add_kind(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kinds_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kinds_key);
  }
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* torch._sparse_open(metatable, handler, maker) registers sparse tensors: their metatable, their
** handler, and the function that makes one from a gradient. lua/tlua/sparse calls it once. */
static int sparse_open(lua_State *L) {
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  add_kind(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &maker_key);
  lua_pop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
  return 0;
}

/* torch._wrapped_open(metatable, handler) registers another kind of wrapped tensors, such as masked
** ones. lua/tlua/wrapped.lua calls it once for each kind. */
static int wrapped_open(lua_State *L) {
  add_kind(L);
  return 0;
}

/* torch._wrapped_new(parts, metatable) returns a wrapped tensor of the kind with this metatable.
** `parts` is the table of its component tensors. */
static int wrapped_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_newuserdatauv(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, 2);
  lua_setmetatable(L, -2);
  return 1;
}

/* torch._wrapped_parts(x, metatable) returns the table of components; nil if x has another
** metatable. */
static int wrapped_parts(lua_State *L) {
  lua_settop(L, 2);
  bool is = lua_type(L, 1) == LUA_TUSERDATA && lua_rawlen(L, 1) == 0 && lua_getmetatable(L, 1) &&
            lua_rawequal(L, 2, 3);
  if (is)
    lua_getiuservalue(L, 1, 1);
  else
    lua_pushnil(L);
  return 1;
}

/* torch._sparse_new(parts) returns a sparse tensor. `parts` is the table of its component
** tensors. */
static int sparse_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_newuserdatauv(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
  lua_setmetatable(L, -2);
  return 1;
}

/* Adds the version of a component to *sum, if the table on top of the stack has a component of this
** name. Returns false if that component was released. */
static bool add_version(lua_State *L, const tli_State *S, const char *name, lua_Integer *sum) {
  lua_getfield(L, -1, name);
  const tl_Tensor *t = lua_type(L, -1) == LUA_TUSERDATA ? tli_to_tensor(L, S, -1) : NULL;
  bool is = lua_isnil(L, -1) || t != NULL;
  if (t != NULL) *sum += tli_version(t);
  lua_pop(L, 1);
  return is;
}

/* torch._sparse_parts(x) returns two values for a sparse tensor, and nil for other values. The
** first is the table of components. The second is the sum of the versions of the tensors that hold
** positions, or nil if a component was released. */
static int sparse_parts(lua_State *L) {
  if (!tli_is_sparse(L, 1)) {
    lua_pushnil(L);
    return 1;
  }
  const tli_State *S = tli_state(L);
  lua_Integer sum = 0, of_values = 0;
  lua_getiuservalue(L, 1, 1);
  if (add_version(L, S, "indices", &sum) && add_version(L, S, "pointers", &sum) &&
      add_version(L, S, "plain", &sum) && add_version(L, S, "values", &of_values))
    lua_pushinteger(L, sum);
  else
    lua_pushnil(L);
  return 2;
}

void tli_open_sparse(lua_State *L) {
  static const luaL_Reg functions[] = {{"_sparse_open", sparse_open},
                                       {"_sparse_new", sparse_new},
                                       {"_sparse_parts", sparse_parts},
                                       {"_wrapped_open", wrapped_open},
                                       {"_wrapped_new", wrapped_new},
                                       {"_wrapped_parts", wrapped_parts},
                                       {NULL, NULL}};
  tli_set_functions(L, functions);
}
