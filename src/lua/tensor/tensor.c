/*
** tensor.c - the tensor metatable: metamethods, properties, and the methods that are not operators
** of the operator table.
*/
#include <string.h>

#include "bind.h"
#include "lua/args/batched.h"
#include "lua/args/sparse.h"
#include "lua/tensor/metamethod.h"
#include "lua/tensor/value.h"
#include "core/observe/trace.h"
#include "core/platform/parallel.h"

tl_Tensor *tli_check_tensor(lua_State *L, int index, const char *what) {
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  tl_Tensor *t = tli_to_tensor(L, S, index);
  if (t == NULL) tli_error(L, "%s: expected a Tensor, got %s", what, tli_describe(L, S, index));
  return t;
}

/* ---- arithmetic metamethods ---- */

/* Reads the only element of a tensor. `name` is the operator that error messages name. */
static void read_number(lua_State *L, const char *name, const tl_Tensor *t, tl_Scalar *out) {
  lua_State *outer = tli_calling;
  tli_calling = L;
  tli_set_operator(name);
  bool ok = tli_read_scalar(t, out);
  tli_calling = outer;
  if (!ok) tli_raise_as(L, name);
}

static int unary(lua_State *L, const char *name, tl_Tensor *(*fn)(tl_Tensor *)) {
  tli_State *S = tli_state(L);
  tli_Box *box = tli_push_box(L); /* makes the box first, because finalizers may run meanwhile */
  tl_Tensor *t = tli_check_tensor(L, 1, name);
  if (tli_is_stored(t->dtype)) return lua_settop(L, 1), tli_stored_call(L, name, 1);
  tl_Tensor *result = fn(t);
  if (result == NULL) return tli_raise(L);
  tli_fill_box(S, box, result);
  return 1;
}

static int meta_unm(lua_State *L) { return unary(L, "neg", tlo_neg); }
static int meta_bnot(lua_State *L) { return unary(L, "bitwise_not", tlo_bitwise_not); }

/* Returns the number in a tensor with one element. x < y is defined only for such tensors, because
** Lua converts the result of a comparison to a boolean. */
static double single(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TNUMBER) return lua_tonumber(L, index);
  tl_Tensor *t = tli_check_tensor(L, index, "comparison");
  if (t->numel != 1)
    tli_error(L,
              "comparison: < and <= compare single numbers, got a Tensor of shape %s; use x:lt(y), "
              "x:le(y) and so on for elements",
              tli_sizes_str(t));
  tl_Scalar s;
  read_number(L, "comparison", t, &s);
  if (s.kind == TL_COMPLEX) return tli_error(L, "comparison: complex numbers have no order");
  return tli_to_double(s);
}

static int meta_lt(lua_State *L) {
  lua_pushboolean(L, single(L, 1) < single(L, 2));
  return 1;
}

static int meta_le(lua_State *L) {
  lua_pushboolean(L, single(L, 1) <= single(L, 2));
  return 1;
}

static int meta_eq(lua_State *L) {
  tli_State *S = tli_state(L);
  tl_Tensor *a = tli_to_tensor(L, S, 1), *b = tli_to_tensor(L, S, 2);
  lua_pushboolean(L, a != NULL && a == b);
  return 1;
}

static int meta_len(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "#");
  if (t->ndim == 0) return tli_error(L, "#: a 0-d Tensor has no length");
  lua_pushinteger(L, t->sizes[0]);
  return 1;
}

/* pairs(x) visits the rows of x, as ipairs(x) does. */
static int meta_pairs(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  luaL_getsubtable(L, -1, LUA_GNAME);
  lua_getfield(L, -1, "ipairs");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 3);
  return 3;
}

static int meta_tostring(lua_State *L) {
  if (tli_to_tensor(L, tli_state(L), 1))
    tli_print_tensor(L, 1);
  else
    lua_pushliteral(L, "tensor(released)");
  return 1;
}

static int meta_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* Numbers of the further upvalues that the functions __index and __newindex have after the
** library's two upvalues. */
#define UP_METHODS 3
#define UP_PROPERTIES 4

static const tli_Property *find_property(lua_State *L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(UP_PROPERTIES));
  const tli_Property *p = (const tli_Property *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return p;
}

/* Compares the misspelt name with all names in the table at an upvalue. `best` keeps the most
** similar name, as a suggestion. For `repeat`, a keyword of Lua, it keeps repeat_tensor, which is
** the same method. */
static void try_names(lua_State *L, tli_Suggestion *best, int upvalue) {
  lua_pushnil(L);
  while (lua_next(L, lua_upvalueindex(upvalue))) {
    lua_pop(L, 1);
    /* the suggestion may keep this string, because it is a key of the table, which keeps it alive */
    const char *key = lua_tostring(L, -1);
    tli_suggestion_try(best, key);
    if (key && best->name == key && strcmp(key, "repeat") == 0) best->name = "repeat_tensor";
  }
}

/* Called for an unknown field. Returns nil for the name of a metamethod, because programs read such
** fields to find a value's type. Raises an error for any other name. */
static int unknown_field(lua_State *L) {
  const char *name = lua_tostring(L, 2);
  char hint[80];
  if (strncmp(name, "__", 2) == 0) {
    lua_pushnil(L);
    return 1;
  }
#ifdef TLI_INFER
  tli_push_environment(L);
  lua_getfield(L, -1, "require");
  lua_pushliteral(L, "tlua.left_out");
  lua_call(L, 1, 1);
  if (lua_getfield(L, -1, name) != LUA_TNIL)
    return tli_error(L, "%s: not in this build (PROFILE=infer); add it to OPS", name);
#endif
  tli_Suggestion best = TLI_SUGGESTION(name);
  try_names(L, &best, UP_METHODS);
  try_names(L, &best, UP_PROPERTIES);
  return tli_error(L, "Tensor has no field '%.40s'%s", name,
                   tli_suggestion_text(&best, hint, sizeof hint));
}

static int meta_index(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(UP_METHODS)) != LUA_TNIL) return 1;
    const tli_Property *p = find_property(L);
    if (p == NULL) return unknown_field(L);
    return p->get(L, tli_state(L), tli_check_tensor(L, 1, p->name));
  }
  return tli_index_get(L);
}

static int meta_newindex(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return tli_index_set(L, tli_check_tensor(L, 1, "index"));
  const tli_Property *p = find_property(L);
  if (p == NULL) {
    const char *name = lua_tostring(L, 2);
    char hint[80];
    tli_Suggestion best = TLI_SUGGESTION(name);
    try_names(L, &best, UP_PROPERTIES);
    return tli_error(L, "Tensor has no field '%.40s' that can be set%s", name,
                     tli_suggestion_text(&best, hint, sizeof hint));
  }
  if (p->set == NULL) return tli_error(L, "the field '%s' of a Tensor is read-only", p->name);
  return p->set(L, tli_state(L), tli_check_tensor(L, 1, p->name), 3);
}

static const luaL_Reg metamethods[] = {{"__unm", meta_unm},
                                       {"__bnot", meta_bnot},
                                       {"__lt", meta_lt},
                                       {"__le", meta_le},
                                       {"__eq", meta_eq},
                                       {"__len", meta_len},
                                       {"__pairs", meta_pairs},
                                       {"__tostring", meta_tostring},
                                       {"__concat", meta_concat},
#define X(name) {"__" #name, tli_meta_##name},
                                       TLI_ALL_METAMETHODS(X)
#undef X
                                           {NULL, NULL}};

/* ---- properties ---- */

/* Pushes the list of a tensor's sizes or strides. Copies the numbers first, because a finalizer may
** release the tensor while the table is made. */
static int push_dims(lua_State *L, const tl_Tensor *t, const int64_t *of) {
  int64_t v[TL_MAX_DIMS];
  memcpy(v, of, t->ndim * sizeof *v);
  return tli_push_ints(L, (tl_Ints){t->ndim, v});
}

static int push_size(lua_State *L, const tl_Tensor *t) {
  push_dims(L, t, t->sizes);
  tli_set_size(L);
  return 1;
}

static int get_shape(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_size(L, t);
}

static int get_dtype(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushstring(L, tl_dtype_name((tl_DType)t->dtype));
  return 1;
}

static int get_device(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return tli_push_device(L, tli_device(t));
}

static int get_layout(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S, (void)t;
  lua_pushliteral(L, "strided");
  return 1;
}

/* The getter of is_sparse, is_quantized and is_nested, which are false for every tensor of this
** metatable. */
static int get_false(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S, (void)t;
  lua_pushboolean(L, false);
  return 1;
}

static int push_is_on(lua_State *L, const tl_Tensor *t, int8_t type) {
  lua_pushboolean(L, tli_device(t).type == type);
  return 1;
}

static int get_is_cpu(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_is_on(L, t, TL_CPU);
}

static int get_is_cuda(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_is_on(L, t, TL_CUDA);
}

static int get_is_sim(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_is_on(L, t, TL_SIM);
}

static int get_is_meta(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_is_on(L, t, TL_META);
}

static int get_itemsize(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushinteger(L, tli_dtype_bytes[t->dtype]);
  return 1;
}

static int get_nbytes(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushinteger(L, t->numel * tli_dtype_bytes[t->dtype]);
  return 1;
}

static int get_ndim(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushinteger(L, t->ndim);
  return 1;
}

static int get_is_parameter(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushboolean(L, t->flags & TLI_PARAMETER);
  return 1;
}

static int set_is_parameter(lua_State *L, tli_State *S, tl_Tensor *t, int value) {
  (void)S;
  t->flags =
      (uint8_t)(lua_toboolean(L, value) ? t->flags | TLI_PARAMETER : t->flags & ~TLI_PARAMETER);
  return 0;
}

static int push_result(lua_State *L, tl_Tensor *steals) {
  if (steals == NULL) return tli_raise(L);
  tli_push_tensor(L, steals);
  return 1;
}

static int get_T(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  int64_t dims[TL_MAX_DIMS];
  for (int d = 0; d < t->ndim; d++) dims[d] = t->ndim - 1 - d;
  return push_result(L, tlo_permute(t, (tl_Ints){t->ndim, dims}));
}

static int get_mT(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  if (t->ndim < 2) return tli_error(L, "mT: expected at least 2 dimensions, got %d", (int)t->ndim);
  return push_result(L, tlo_transpose(t, -1, -2));
}

/* Pushes the conjugate of a tensor; takes over the reference to that tensor. */
static int push_conj(lua_State *L, tl_Tensor *steals) {
  tl_Tensor *result = steals ? tlo_conj(steals) : NULL;
  tli_release(steals);
  return push_result(L, result);
}

static int get_mH(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  if (t->ndim < 2) return tli_error(L, "mH: expected at least 2 dimensions, got %d", (int)t->ndim);
  return push_conj(L, tlo_transpose(t, -1, -2));
}

static int get_H(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  if (t->ndim != 2 && t->ndim != 0)
    return tli_error(L, "H: expected a matrix, got %d dimensions", (int)t->ndim);
  return push_conj(L, tlo_t(t));
}

static int get_real(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_result(L, tlo_real(t));
}

static int get_imag(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  return push_result(L, tlo_imag(t));
}

/* Implements x.real = y and x.imag = y: copies a tensor or a number into `part`, a view of the real
** or the imaginary parts of x. */
static int set_part(lua_State *L, tli_State *S, tl_Tensor *part, const char *name, int value) {
  tl_Tensor *source = NULL, *owned = NULL;
  bool ok =
      part && tli_operand(L, S, value, name, &source, &owned) && tlo_copy_(part, source, false);
  tli_release(owned);
  tli_release(part);
  return ok ? 0 : tli_raise(L);
}

static int set_real(lua_State *L, tli_State *S, tl_Tensor *t, int value) {
  return set_part(L, S, tlo_real(t), "real", value);
}

static int set_imag(lua_State *L, tli_State *S, tl_Tensor *t, int value) {
  return set_part(L, S, tlo_imag(t), "imag", value);
}

const tli_Property tli_tensor_properties[] = {{"shape", get_shape, NULL},
                                              {"dtype", get_dtype, NULL},
                                              {"device", get_device, NULL},
                                              {"is_cpu", get_is_cpu, NULL},
                                              {"is_cuda", get_is_cuda, NULL},
                                              {"is_sim", get_is_sim, NULL},
                                              {"is_meta", get_is_meta, NULL},
                                              {"ndim", get_ndim, NULL},
                                              {"layout", get_layout, NULL},
                                              {"is_sparse", get_false, NULL},
                                              {"is_quantized", get_false, NULL},
                                              {"is_nested", get_false, NULL},
                                              {"itemsize", get_itemsize, NULL},
                                              {"nbytes", get_nbytes, NULL},
                                              {"T", get_T, NULL},
                                              {"mT", get_mT, NULL},
                                              {"H", get_H, NULL},
                                              {"mH", get_mH, NULL},
                                              {"real", get_real, set_real},
                                              {"imag", get_imag, set_imag},
                                              {"is_parameter", get_is_parameter, set_is_parameter},
                                              {NULL, NULL, NULL}};

/* ---- methods that are not operators ---- */

static int tensor_dim(lua_State *L) {
  lua_pushinteger(L, tli_sole_tensor(L, "dim")->ndim);
  return 1;
}

/* Implements the methods size and stride. They return the list for all dimensions, or the number
** for one dimension. */
static int geometry(lua_State *L, const char *name, bool strides) {
  tl_Tensor *t = tli_check_tensor(L, 1, name);
  const int64_t *v = strides ? t->strides : t->sizes;
  tli_only(L, 2, name);
  if (lua_isnoneornil(L, 2)) return strides ? push_dims(L, t, v) : push_size(L, t);
  int64_t dim;
  if (!tli_to_position(L, 2, &dim))
    return tli_error(L, "%s: dim: expected a dimension from 1 to %d, got %s", name, (int)t->ndim,
                     tli_describe(L, tli_state(L), 2));
  int d = t->ndim ? tli_dim(name, dim, t->ndim)
                  : (tli_fail(TL_EINDEX, "%s: a 0-d Tensor has no dimensions", name), -1);
  if (d < 0) return tli_raise(L);
  lua_pushinteger(L, v[d]);
  return 1;
}

static int tensor_size(lua_State *L) { return geometry(L, "size", false); }
static int tensor_stride(lua_State *L) { return geometry(L, "stride", true); }

static int tensor_numel(lua_State *L) {
  lua_pushinteger(L, tli_sole_tensor(L, "numel")->numel);
  return 1;
}

static int tensor_element_size(lua_State *L) {
  tl_Tensor *t = tli_sole_tensor(L, "element_size");
  lua_pushinteger(L, (lua_Integer)tl_dtype_size((tl_DType)t->dtype));
  return 1;
}

static int tensor_is_floating_point(lua_State *L) {
  lua_pushboolean(L, tli_is_float((tl_DType)tli_sole_tensor(L, "is_floating_point")->dtype));
  return 1;
}

/* Returns the device's index; -1 for the CPU, as in PyTorch. */
static int tensor_get_device(lua_State *L) {
  tl_Device device = tli_device(tli_sole_tensor(L, "get_device"));
  lua_pushinteger(L, device.type == TL_CPU ? -1 : device.index);
  return 1;
}

static int tensor_is_complex(lua_State *L) {
  lua_pushboolean(L, tli_is_complex((tl_DType)tli_sole_tensor(L, "is_complex")->dtype));
  return 1;
}

/* Returns whether the tensor was made in inference mode. */
static int tensor_is_inference(lua_State *L) {
  lua_pushboolean(L, (tli_sole_tensor(L, "is_inference")->flags & TLI_INFERENCE) != 0);
  return 1;
}

static int tensor_storage_offset(lua_State *L) {
  lua_pushinteger(L, tli_sole_tensor(L, "storage_offset")->offset);
  return 1;
}

static int tensor_data_ptr(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)(intptr_t)tl_tensor_data(tli_sole_tensor(L, "data_ptr")));
  return 1;
}

static int tensor_item(lua_State *L) {
  tl_Tensor *t = tli_sole_tensor(L, "item");
  if (t->numel != 1)
    return tli_error(L, "item: expected a Tensor with one element, got shape %s", tli_sizes_str(t));
  tl_Scalar s;
  read_number(L, "item", t, &s);
  return tli_push_scalar(L, s);
}

/* Pushes the elements at an offset as a nested list. *count is the number of values that were
** pushed; the user may interrupt the work at every 4096th of them. */
static void push_nested(lua_State *L, const tl_Tensor *t, int dim, int64_t offset, int64_t *count) {
  size_t bytes = tl_dtype_size((tl_DType)t->dtype);
  if (dim == t->ndim) {
    tli_push_scalar(L, tli_load((char *)tli_data(t) + offset * (int64_t)bytes, (tl_DType)t->dtype));
    return;
  }
  luaL_checkstack(L, 3, "tolist");
  lua_createtable(L, (int)t->sizes[dim], 0);
  for (int64_t i = 0; i < t->sizes[dim]; i++) {
    if (++*count % 4096 == 0 && !tli_go_on()) tli_raise_as(L, "tolist");
    push_nested(L, t, dim + 1, offset + i * t->strides[dim], count);
    lua_rawseti(L, -2, i + 1);
  }
}

tl_Tensor *tli_push_alias(lua_State *L, int index, const char *what) {
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = tli_check_tensor(L, index, what);
  bool here = tli_device(t).type == TL_CPU;
  lua_State *outer = tli_calling;
  tli_calling = L;
  tli_set_operator(what);
  tl_Tensor *alias = !tli_trace_read(t) ? NULL
                     : here             ? tli_detached(t)
                                        : tli_moved(t, TLI_CPU, false);
  tli_calling = outer;
  if (alias == NULL) tli_raise_as(L, what);
  return box->tensor = alias;
}

static int tensor_tolist(lua_State *L) {
  tli_sole_tensor(L, "tolist");
  lua_settop(L, 1);
  int64_t count = 0;
  push_nested(L, tli_push_alias(L, 1, "tolist"), 0, 0, &count);
  tli_release_box(L, 2);
  return 1;
}

/* numpy() returns the same list as tolist(), since Lua has no NumPy arrays. */
static int tensor_numpy(lua_State *L) {
  const tl_Tensor *t = tli_sole_tensor(L, "numpy");
  if (tli_device(t).type != TL_CPU)
    return tli_error(L, "numpy: the tensor is on %s; use x:cpu():numpy()",
                     tli_device_str(tli_device(t)));
  if (tli_requires_grad(t))
    return tli_error(L, "numpy: the tensor requires a gradient; use x:detach():numpy()");
  return tensor_tolist(L);
}

static int tensor_release(lua_State *L) {
  if (tli_to_box(L, tli_state(L), 1) == NULL) tli_check_tensor(L, 1, "release");
  tli_only(L, 1, "release");
  tli_release_box(L, 1);
  return 0;
}

/* The iterator function of `for row in x:iter()`. The tensor is upvalue 3; the position of the next
** row, from 0, is upvalue 4. */
static int iterate(lua_State *L) {
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = tli_to_tensor(L, tli_state(L), lua_upvalueindex(3));
  lua_Integer next = lua_tointeger(L, lua_upvalueindex(4));
  if (t == NULL || t->ndim == 0 || next >= t->sizes[0]) return 0;
  tl_Tensor *row = tlo_select(t, 0, next);
  if (row == NULL) return tli_raise(L);
  tli_fill_box(tli_state(L), box, row);
  lua_pushinteger(L, next + 1);
  lua_replace(L, lua_upvalueindex(4));
  return 1;
}

static int tensor_iter(lua_State *L) {
  tl_Tensor *t = tli_sole_tensor(L, "iter");
  if (t->ndim == 0) return tli_error(L, "iter: a 0-d Tensor has no rows");
  lua_pushvalue(L, lua_upvalueindex(TLI_UP_STATE));
  lua_pushvalue(L, lua_upvalueindex(TLI_UP_META));
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, iterate, 4);
  return 1;
}

/* type() returns the dtype's name; type(dtype) returns the tensor converted to a dtype. */
static int tensor_type(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "type");
  if (lua_isnone(L, 2)) return get_dtype(L, NULL, t);
  tl_DType dtype = tli_to_dtype(L, 2);
  const char *word = tli_to_word(L, 2);
  if (dtype == TL_NODTYPE)
    return tli_error(L, "type: dtype: expected a dtype such as \"float32\", got %s%s",
                     tli_describe(L, tli_state(L), 2), word ? tli_dtype_hint(word) : "");
  return push_result(L, tlo_to(t, dtype, false, false, TLI_NODEVICE, NULL));
}

static int tensor_new_tensor(lua_State *L);

static const luaL_Reg methods[] = {{"dim", tensor_dim},
                                   {"ndimension", tensor_dim},
                                   {"size", tensor_size},
                                   {"stride", tensor_stride},
                                   {"numel", tensor_numel},
                                   {"nelement", tensor_numel},
                                   {"element_size", tensor_element_size},

                                   {"is_floating_point", tensor_is_floating_point},
                                   {"get_device", tensor_get_device},
                                   {"is_complex", tensor_is_complex},
                                   {"is_inference", tensor_is_inference},
                                   {"storage_offset", tensor_storage_offset},
                                   {"data_ptr", tensor_data_ptr},
                                   {"item", tensor_item},
                                   {"tolist", tensor_tolist},
                                   {"numpy", tensor_numpy},
                                   {"release", tensor_release},
                                   {"iter", tensor_iter},
                                   {"type", tensor_type},
                                   {"new_tensor", tensor_new_tensor},
                                   {NULL, NULL}};

/* ---- functions of torch ---- */

/* Makes a tensor from the value at index 1 and the options after that value. `dtype` and `device`
** are used if the options give none. */
static int make_tensor(lua_State *L, const tli_Signature *sig, tl_DType dtype, tl_Device device) {
  tli_State *S = tli_state(L);
  if (lua_isnone(L, 1)) return tli_error(L, "%s: data is missing; usage: %s", sig->name, sig->text);
  tli_Args a;
  tli_args_begin(&a, L, sig);
  /* if the data are a table with only string keys, tli_args_begin has mistaken them for options */
  if (!a.failed && a.at[0] == 0)
    return tli_error(L,
                     "%s: data: expected a number, a boolean or a table of them, got a table "
                     "with names",
                     sig->name);
  tli_Box *box = tli_push_box(L);
  dtype = tli_arg_dtype(&a, 1, dtype);
  device = tli_arg_device(&a, 2, device);
  bool requires_grad = tli_arg_bool(&a, 3, false);
  tl_Tensor *t = NULL;
  if (!a.failed) {
    tl_Tensor *from = lua_type(L, 1) == LUA_TUSERDATA ? tli_to_tensor(L, S, 1) : NULL;
    if (from) {
      tl_Tensor *plain = tli_detached(from);
      t = plain ? tlo_to(plain, dtype, false, true, TLI_NODEVICE, NULL) : NULL;
      tli_release(plain);
    } else {
      t = tli_from_lua(L, 1, dtype);
    }
    if (t && !tli_same_device(device, tli_device(t))) {
      tl_Tensor *moved = tlo_to(t, TL_NODTYPE, false, false, device, NULL);
      tli_release(t);
      t = moved;
    }
  }
  if (t && requires_grad && !tli_set_requires_grad(t, true)) {
    tli_release(t);
    t = NULL;
  }
  tli_args_end(&a);
  if (t == NULL) return tli_raise_as(L, sig->name);
  tli_fill_box(S, box, t);
  return 1;
}

static const tli_Param data_params[] = {
    {"data", TLI_A_TENSOR, 0, 0},
    {"dtype", TLI_A_DTYPE, TLI_P_OPTIONAL | TLI_P_KEYWORD, 0},
    {"device", TLI_A_DEVICE, TLI_P_OPTIONAL | TLI_P_KEYWORD, 0},
    {"requires_grad", TLI_A_BOOL, TLI_P_OPTIONAL | TLI_P_KEYWORD, 0}};

static int torch_tensor(lua_State *L) {
  static const tli_Signature sig = {
      "tensor", "torch.tensor(data, {dtype, device, requires_grad = false})", data_params, 4, false,
      true};
  tli_State *S = tli_state(L);
  tl_Tensor *from = lua_type(L, 1) == LUA_TUSERDATA ? tli_to_tensor(L, S, 1) : NULL;
  return make_tensor(L, &sig, TL_NODTYPE, from ? tli_device(from) : tli_default_device());
}

static int tensor_new_tensor(lua_State *L) {
  static const tli_Signature sig = {
      "new_tensor", "x:new_tensor(data, {dtype, device, requires_grad = false})",
      data_params,  4,
      false,        true};
  tl_Tensor *t = tli_check_tensor(L, 1, "new_tensor");
  tl_DType dtype = (tl_DType)t->dtype;
  tl_Device device = tli_device(t);
  lua_remove(L, 1);
  return make_tensor(L, &sig, dtype, device);
}

static int torch_as_tensor(lua_State *L) {
  static const tli_Param params[] = {{"data", TLI_A_TENSOR, 0, 0},
                                     {"dtype", TLI_A_DTYPE, TLI_P_OPTIONAL, 0},
                                     {"device", TLI_A_DEVICE, TLI_P_OPTIONAL, 0}};
  static const tli_Signature sig = {
      "as_tensor", "torch.as_tensor(data, dtype?, device?)", params, 3, false, true};
  tli_State *S = tli_state(L);
  tli_Args a;
  tli_args_begin(&a, L, &sig);
  if (!a.failed && a.at[0] == 0)
    return tli_error(L, "as_tensor: data is missing; usage: %s", sig.text);
  tli_Box *box = tli_push_box(L);
  tl_Tensor *from = lua_type(L, 1) == LUA_TUSERDATA ? tli_to_tensor(L, S, 1) : NULL;
  tl_DType dtype = tli_arg_dtype(&a, 1, TL_NODTYPE);
  tl_Device device = tli_arg_device(&a, 2, from ? TLI_NODEVICE : tli_default_device());
  tl_Tensor *t = a.failed ? NULL : from ? tli_retain(from) : tli_from_lua(L, 1, dtype);
  tl_Tensor *result = t ? tlo_to(t, dtype, false, false, device, NULL) : NULL;
  tli_release(t);
  tli_args_end(&a);
  if (result == NULL) return tli_raise_as(L, sig.name);
  tli_fill_box(S, box, result);
  return 1;
}

static int torch_is_tensor(lua_State *L) {
  tli_only(L, 1, "is_tensor");
  lua_pushboolean(L, tli_to_box(L, tli_state(L), 1) != NULL || tli_is_batched(L, 1) ||
                         tli_is_wrapped(L, 1));
  return 1;
}

static int torch_numel(lua_State *L) { return tensor_numel(L); }

static const luaL_Reg functions[] = {{"tensor", torch_tensor},
                                     {"as_tensor", torch_as_tensor},
                                     {"is_tensor", torch_is_tensor},
                                     {"numel", torch_numel},
                                     {"is_floating_point", tensor_is_floating_point},
                                     {NULL, NULL}};

/* ---- opening ---- */

/* Adds an exported function to its module, to the methods of tensors, or to both. The function's
** two upvalues are above the table of methods on the stack. */
static void set_named(lua_State *L, const tli_Binding *b, int torch, int method_table) {
  lua_pushvalue(L, method_table + 1);
  lua_pushvalue(L, method_table + 2);
  lua_pushcclosure(L, b->fn, 2);
  if (b->method) {
    lua_pushvalue(L, -1);
    lua_setfield(L, method_table, b->name);
  }
  if (b->function && b->module == NULL) {
    lua_pushvalue(L, -1);
    lua_setfield(L, torch, b->name);
  }
  if (b->module) {
    if (lua_getfield(L, torch, b->module) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_newtable(L);
      lua_pushvalue(L, -1);
      lua_setfield(L, torch, b->module);
    }
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, b->name);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void set_properties(lua_State *L, const tli_Property *list) {
  for (; list->name; list++) {
    lua_pushlightuserdata(L, (void *)list);
    lua_setfield(L, -2, list->name);
  }
}

static void set_accessor(lua_State *L, const char *name, lua_CFunction fn, int methods_at,
                         int props) {
  tli_push_function(L, fn); /* pushes the function with its two upvalues */
  lua_getupvalue(L, -1, 1);
  lua_getupvalue(L, -2, 2);
  lua_pushvalue(L, methods_at);
  lua_pushvalue(L, props);
  lua_pushcclosure(L, fn, 4);
  lua_getupvalue(L, -1, 2);
  lua_insert(L, -2);
  lua_setfield(L, -2, name);
  lua_pop(L, 2);
}

void tli_open_tensor(lua_State *L) {
  static const tli_Binding *const families[] = TLI_ALL_BINDINGS;
  int torch = lua_gettop(L);
  int count = 0;
  for (const tli_Binding *const *family = families; *family; family++)
    for (const tli_Binding *b = *family; b->name; b++) count += b->method;
  lua_createtable(L, 0, count);
  int method_table = lua_gettop(L);
  tli_push_upvalues(L);
  for (const tli_Binding *const *family = families; *family; family++)
    for (const tli_Binding *b = *family; b->name; b++) set_named(L, b, torch, method_table);
  lua_settop(L, method_table);
  tli_set_functions(L, methods);
  tli_set_functions(L, tli_apply_methods);
  tli_set_functions(L, tli_autograd_methods);
  tli_set_functions(L, tli_device_methods);
  lua_newtable(L);
  set_properties(L, tli_tensor_properties);
  set_properties(L, tli_autograd_properties);
  int props = lua_gettop(L);
  set_accessor(L, "__index", meta_index, method_table, props);
  set_accessor(L, "__newindex", meta_newindex, method_table, props);
  tli_push_function(L, meta_len);
  lua_getupvalue(L, -1, 2);
  tli_set_functions(L, metamethods);
  lua_pushliteral(L, "torch.Tensor");
  lua_setfield(L, -2, "__metatable");
  lua_settop(L, props);
  lua_pop(L, 1);
  lua_setfield(L, torch, "Tensor");
  tli_set_functions(L, functions);
  tli_set_functions(L, tli_storage_functions);
  lua_pushlightuserdata(L, (void *)&tli_newaxis);
  lua_setfield(L, -2, "newaxis");
}
