/*
** new.c - makes tensors from Lua values: a first pass finds the shape and the kind of elements, a
** second pass stores the elements. If the table is ragged, the error names the path of the first
** element that does not fit.
*/
#include <stdio.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "lua/list_length.h"
#include "lua/tensor/value.h"
#include "ops/common.h"

typedef struct Scan {
  lua_State *L;
  tli_State *S;
  /* number of dimensions; -1 until the first leaf (an element that is not a table) is found */
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  int64_t path[TL_MAX_DIMS + 1]; /* indices of the current value in the nested tables, from 1 */
  bool integers, floats, booleans, complexes;
  tl_DType tensors; /* promoted dtype of the one-element tensors among the leaves */
  /* the integer dtype whose range all elements must fit; TL_NODTYPE if the requested dtype is not
  ** an integer dtype */
  tl_DType whole;
  int64_t count; /* number of entries that were read */
} Scan;

/* Counts an entry of a table. Returns false if the user has interrupted the work, which is checked
** at every 4096th entry. */
static bool counted(Scan *s) { return ++s->count % 4096 != 0 || tli_go_on(); }

static const char *path_str(const Scan *s, int depth) {
  static _Thread_local char text[200];
  size_t n = (size_t)snprintf(text, sizeof text, "data");
  for (int d = 0; d < depth && n < sizeof text - 24; d++)
    n += (size_t)snprintf(text + n, sizeof text - n, "[%lld]", (long long)s->path[d]);
  return text;
}

/* Reads a leaf: a number, a boolean or a one-element tensor. If a one-element tensor cannot be
** read, sets the error message and stores the tensor's dtype in *dtype. */
static bool leaf(lua_State *L, const tli_State *S, tl_Scalar *out, tl_DType *dtype) {
  *dtype = TL_NODTYPE;
  if (tli_to_scalar(L, -1, out)) return true;
  tl_Tensor *t = lua_type(L, -1) == LUA_TUSERDATA ? tli_to_tensor(L, S, lua_gettop(L)) : NULL;
  if (t == NULL || t->numel != 1) return false;
  *dtype = (tl_DType)t->dtype;
  return tli_read_scalar(t, out);
}

static bool scan_leaf(Scan *s, int depth) {
  tl_Scalar value;
  tl_DType dtype;
  if (!leaf(s->L, s->S, &value, &dtype)) {
    if (dtype != TL_NODTYPE) return false;
    return tli_fail(TL_EARG, "tensor: %s: expected a number, a boolean or a table, got %s",
                    path_str(s, depth), tli_describe(s->L, s->S, lua_gettop(s->L)));
  }
  if (s->whole != TL_NODTYPE && value.kind != TL_COMPLEX &&
      !tli_check_holds("tensor", value, s->whole))
    return false;
  if (s->ndim < 0) s->ndim = depth;
  if (depth != s->ndim)
    return tli_fail(TL_ESHAPE, "tensor: %s: expected a table of %lld elements, got a number",
                    path_str(s, depth), (long long)s->sizes[depth]);
  if (dtype != TL_NODTYPE)
    s->tensors = s->tensors == TL_NODTYPE ? dtype : tli_dtype_promote(s->tensors, dtype);
  else if (value.kind == TL_BOOLEAN)
    s->booleans = true;
  else if (value.kind == TL_INTEGER)
    s->integers = true;
  else if (value.kind == TL_COMPLEX)
    s->complexes = true;
  else
    s->floats = true;
  return true;
}

/* Returns whether the metatable of the table on top of the stack computes items: it has __len, and
** the table itself, which has n items, either has none or another number than __len gives. */
static bool is_computed(lua_State *L, int64_t n) {
  if (luaL_getmetafield(L, -1, "__len") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return n == 0 || luaL_len(L, -1) != n;
}

/* Scans the value on top of the stack, which is nested in `depth` tables. */
static bool scan(Scan *s, int depth) {
  lua_State *L = s->L;
  if (lua_type(L, -1) != LUA_TTABLE) return scan_leaf(s, depth);
  int64_t n = tli_list_length(L, -1);
  if (depth == TL_MAX_DIMS)
    return tli_fail(TL_ESHAPE, "tensor: tables are nested deeper than %d", TL_MAX_DIMS);
  if (s->ndim >= 0 && depth >= s->ndim)
    return tli_fail(TL_ESHAPE, "tensor: %s: expected a number, got a table", path_str(s, depth));
  if (s->sizes[depth] < 0) s->sizes[depth] = n;
  if (n != s->sizes[depth])
    return tli_fail(TL_ESHAPE, "tensor: %s: expected %lld elements, as before, got %lld",
                    path_str(s, depth), (long long)s->sizes[depth], (long long)n);
  bool computed = depth > 0 && is_computed(L, n);
  if (computed || n == 0) {
    if (s->ndim >= 0 && s->ndim != depth + 1)
      return tli_fail(TL_ESHAPE, "tensor: %s: expected tables in it, got an empty table",
                      path_str(s, depth));
    lua_pushnil(L);
    bool named = lua_next(L, -2);
    if (named) lua_pop(L, 2);
    if (computed || named)
      return tli_fail(TL_EARG, "tensor: %s: expected a list, got a table with %s",
                      path_str(s, depth),
                      computed ? "computed items; copy them to a list" : "names");
    s->ndim = depth + 1;
  }
  luaL_checkstack(L, 4, "tensor");
  for (int64_t i = 1; i <= n; i++) {
    s->path[depth] = i;
    lua_rawgeti(L, -1, i);
    bool ok = counted(s) && scan(s, depth + 1);
    lua_pop(L, 1);
    if (!ok) return false;
  }
  return true;
}

static tl_DType scanned_dtype(const Scan *s) {
  tl_DType dtype = s->complexes  ? tli_complex_dtype(tli_default_dtype())
                   : s->floats   ? tli_default_dtype()
                   : s->integers ? TL_I64
                   : s->booleans ? TL_BOOL
                                 : TL_NODTYPE;
  if (s->tensors == TL_NODTYPE) return dtype == TL_NODTYPE ? tli_default_dtype() : dtype;
  if (dtype == TL_NODTYPE || tli_dtype_category(dtype) <= tli_dtype_category(s->tensors))
    return s->tensors;
  return dtype;
}

/* Stores the elements of the value on top of the stack. Returns the end of the elements; NULL if
** the user has interrupted the work. */
static char *store(Scan *s, char *to, tl_DType dtype) {
  lua_State *L = s->L;
  if (lua_type(L, -1) == LUA_TTABLE) {
    int64_t n = tli_list_length(L, -1);
    for (int64_t i = 1; i <= n && to; i++) {
      lua_rawgeti(L, -1, i);
      to = counted(s) ? store(s, to, dtype) : NULL;
      lua_pop(L, 1);
    }
    return to;
  }
  tl_Scalar value;
  tl_DType ignored;
  if (leaf(L, s->S, &value, &ignored)) tli_store(to, dtype, value);
  return to + tl_dtype_size(dtype);
}

/* Pushes a value. If the value is a table whose metatable computes items, pushes a list of all
** items. */
static void push_plain(lua_State *L, int index) {
  lua_pushvalue(L, index);
  if (lua_type(L, -1) != LUA_TTABLE || !is_computed(L, (int64_t)lua_rawlen(L, -1))) return;
  lua_Integer n = luaL_len(L, -1);
  luaL_checkstack(L, 4, "tensor");
  lua_newtable(L);
  for (lua_Integer i = 1; i <= n; i++) {
    /* a wrong __len must not make this loop run for ever */
    if (lua_geti(L, -2, i) == LUA_TNIL)
      luaL_error(L, "tensor: __len of the list gives %I items, but item %I is nil", n, i);
    lua_rawseti(L, -2, i);
  }
  lua_remove(L, -2);
}

tl_Tensor *tli_from_lua(lua_State *L, int index, tl_DType dtype) {
  Scan s = {.L = L, .S = tli_state(L), .ndim = -1, .tensors = TL_NODTYPE, .whole = TL_NODTYPE};
  if (dtype != TL_NODTYPE && dtype != TL_BOOL && !tli_is_inexact(dtype)) s.whole = dtype;
  for (int d = 0; d < TL_MAX_DIMS; d++) s.sizes[d] = -1;
  push_plain(L, index);
  if (!scan(&s, 0)) return NULL;
  tl_DType found = scanned_dtype(&s);
  if (dtype == TL_NODTYPE) dtype = found;
  if (tli_is_complex(found) && !tli_is_complex(dtype))
    return tli_fail_null(TL_EDTYPE, "tensor: complex numbers do not fit in a tensor of dtype %s",
                         tl_dtype_name(dtype));
  tl_Tensor *t = tli_empty(dtype, TLI_CPU, s.ndim, s.sizes);
  if (t && t->numel > 0 && !store(&s, (char *)tli_data(t), dtype)) tli_release(t), t = NULL;
  lua_pop(L, 1);
  return t;
}
