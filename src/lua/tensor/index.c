/*
** index.c - x[key] and x[key] = value. A key is a position, a tensor of positions, a mask, or a
** table with one item per dimension:
**   n          a position, counted from 1 or from the end
**   {}         the whole dimension
**   {a, b}     positions a to b, both included; {a, b, step}
**   newaxis    a new dimension of size 1
**   "..."      all remaining dimensions
**   tensor     positions, or a mask
** Numbers, ranges and newaxis give a view; a key with tensors or with a negative step gives a copy.
*/
#include <string.h>

#include "lua/args/batched.h"
#include "lua/tensor/value.h"
#include "lua/list_length.h"
#include "core/memory/device_memory.h"

const char tli_newaxis = 0;

typedef enum ItemKind { ITEM_POSITION, ITEM_RANGE, ITEM_NEWAXIS, ITEM_REST, ITEM_TENSOR } ItemKind;

typedef struct Item {
  ItemKind kind;
  /* positions, which count from 0; a range includes `last`, and an ITEM_POSITION uses only
  ** `first` */
  int64_t first, last, step;
  bool whole;        /* ITEM_RANGE: {} */
  tl_Tensor *tensor; /* borrowed */
} Item;

#define MAX_ITEMS (2 * TL_MAX_DIMS)

typedef struct Key {
  int n;
  /* number of dimensions of the tensor that the items index; a mask with k dimensions indexes k of
  ** them */
  int nused;
  bool tensors; /* whether the key contains a tensor */
  bool flips;   /* whether a step is negative */
  Item items[MAX_ITEMS];
} Key;

/* ---- reading the key ---- */

static int bad_item(lua_State *L, int i) {
  return tli_error(
      L,
      "index: item %d: expected a position, {first, last, step}, a Tensor, newaxis or \"...\", got %s",
      i, tli_describe(L, tli_state(L), -1));
}

/* Refuses named fields in the table at `at`, which has n list elements. The search begins after
** element n. lua_next visits the array part of a table before its names, so a name is missed only
** if element n is not in the array part. */
static void check_unnamed(lua_State *L, int at, int n) {
  lua_pushinteger(L, n);
  if (!lua_next(L, at)) return;
  while (lua_type(L, -2) != LUA_TSTRING) {
    lua_pop(L, 1);
    if (!lua_next(L, at)) return;
  }
  const char *name = lua_tostring(L, -2);
  tli_Suggestion best = TLI_SUGGESTION(name);
  tli_suggestion_try(&best, "first");
  tli_suggestion_try(&best, "last");
  tli_suggestion_try(&best, "step");
  tli_error(L, "index: unknown option '%.40s'%s%s; a range is {first, last, step}, without names",
            name, best.name ? ": did you mean a range's " : "", best.name ? best.name : "");
}

/* Reads a range {first, last, step} on top of the stack. */
static void read_range(lua_State *L, Item *item, int i) {
  int at = lua_gettop(L);
  int n = (int)tli_list_length(L, at);
  item->kind = ITEM_RANGE;
  item->whole = n == 0;
  item->step = 1;
  if (n == 0) {
    lua_pushnil(L);
    if (lua_next(L, at))
      tli_error(L, "index: item %d: expected {first, last, step}, got a table with names", i);
    return;
  }
  if (n == 1 || n > 3)
    tli_error(
        L, "index: item %d: expected {}, {first, last} or {first, last, step}, got a table of %d",
        i, n);
  check_unnamed(L, at, n);
  int64_t *to[3] = {&item->first, &item->last, &item->step};
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, at, k + 1);
    bool ok = k < 2 ? tli_to_position(L, -1, to[k]) : tli_to_whole(L, -1, to[k]) && *to[k] != 0;
    if (!ok)
      tli_error(L, "index: item %d: expected %s in a range, got %s", i,
                k < 2 ? "a position, counted from 1 or from the end with -1,"
                      : "a step other than 0",
                tli_describe(L, tli_state(L), lua_gettop(L)));
    lua_pop(L, 1);
  }
  /* replaces INT64_MIN by -INT64_MAX, which has the same effect and can be negated */
  if (item->step == INT64_MIN) item->step = -INT64_MAX;
}

static int tensor_dims(const tl_Tensor *t) {
  return t->dtype == TL_BOOL || t->dtype == TL_U8 ? t->ndim : 1;
}

/* Reads the item on top of the stack, whose Lua type is `type`. */
static void read_item(lua_State *L, Key *key, int i, int type) {
  if (key->n == MAX_ITEMS) tli_error(L, "index: more than %d items", MAX_ITEMS);
  Item *item = &key->items[key->n++];
  switch (type) {
  case LUA_TNUMBER:
    item->kind = ITEM_POSITION;
    if (!tli_to_position(L, -1, &item->first))
      tli_error(
          L, "index: item %d: expected a position, counted from 1 or from the end with -1, got %s",
          i, tli_describe(L, tli_state(L), -1));
    key->nused++;
    return;
  case LUA_TTABLE:
    read_range(L, item, i);
    key->flips |= item->step < 0;
    key->nused++;
    return;
  case LUA_TLIGHTUSERDATA:
    if (lua_touserdata(L, -1) != (const void *)&tli_newaxis) break;
    item->kind = ITEM_NEWAXIS;
    return;
  case LUA_TSTRING:
    if (tli_to_word(L, -1) == NULL || strcmp(tli_to_word(L, -1), "...") != 0) break;
    for (int k = 0; k < key->n - 1; k++)
      if (key->items[k].kind == ITEM_REST) tli_error(L, "index: \"...\" may stand only once");
    item->kind = ITEM_REST;
    return;
  case LUA_TUSERDATA:
    item->kind = ITEM_TENSOR;
    item->tensor = tli_to_tensor(L, tli_state(L), -1);
    if (item->tensor == NULL) break;
    if (tli_is_float((tl_DType)item->tensor->dtype))
      tli_error(L, "index: item %d: expected integer positions or a bool mask, got %s", i,
                tli_describe(L, tli_state(L), -1));
    key->tensors = true;
    key->nused += tensor_dims(item->tensor);
    return;
  default: break;
  }
  bad_item(L, i);
}

static void read_key(lua_State *L, Key *key, int at) {
  key->n = key->nused = 0;
  key->tensors = key->flips = false;
  int type = lua_type(L, at);
  if (type != LUA_TTABLE) {
    lua_pushvalue(L, at);
    read_item(L, key, 1, type);
    lua_pop(L, 1);
    return;
  }
  int n = (int)tli_list_length(L, at);
  for (int i = 1; i <= n; i++) {
    read_item(L, key, i, lua_rawgeti(L, at, i));
    lua_pop(L, 1);
  }
  if (n > 0) {
    check_unnamed(L, at, n);
    return;
  }
  lua_pushnil(L);
  if (lua_next(L, at))
    tli_error(L, "index: expected a list of positions and ranges, got a table with names");
}

/* ---- the view given by numbers, ranges and newaxis ---- */

typedef struct View {
  int ndim;
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS], offset;
  int nflips;
  int64_t flips[TL_MAX_DIMS];
  /* number of slots in `tensors`, one for each indexed dimension; the slot of a dimension that is
  ** selected as a whole is NULL */
  int ntensors;
  tl_Tensor *tensors[TL_MAX_DIMS]; /* borrowed */
} View;

static bool put(View *v, int64_t size, int64_t stride) {
  if (v->ndim == TL_MAX_DIMS)
    return tli_fail(TL_ESHAPE, "index: more than %d dimensions", TL_MAX_DIMS);
  v->sizes[v->ndim] = size;
  v->strides[v->ndim] = stride;
  v->tensors[v->ndim] = NULL;
  v->ndim++;
  return true;
}

static bool put_range(View *v, const Item *item, int64_t size, int64_t stride) {
  if (item->whole) return put(v, size, stride);
  /* a range may begin one past the end; it is empty then */
  int64_t first = item->first < 0 ? item->first + size : item->first;
  int64_t last = item->last < 0 ? item->last + size : item->last;
  bool forward = item->step > 0;
  int64_t low = forward ? first : last, high = forward ? last : first;
  if (low <= high && (low < 0 || high >= size))
    return tli_fail(TL_EINDEX,
                    "index: the range " TLI_POS " to " TLI_POS
                    " does not lie inside a dimension of size %" PRId64,
                    item->first, item->last, size);
  int64_t step = forward ? item->step : -item->step;
  int64_t count = low > high ? 0 : (high - low) / step + 1;
  if (count == 0) return put(v, 0, stride);
  int64_t start = forward ? first : first - (count - 1) * step;
  v->offset += start * stride;
  if (!forward) v->flips[v->nflips++] = v->ndim;
  return put(v, count, count > 1 ? stride * step : stride);
}

static bool put_item(View *v, const Item *item, const tl_Tensor *self, int *dim, int rest) {
  switch (item->kind) {
  case ITEM_NEWAXIS: return put(v, 1, 0);
  case ITEM_REST:
    for (; rest > 0; rest--, ++*dim) TL_TRY(put(v, self->sizes[*dim], self->strides[*dim]));
    return true;
  case ITEM_POSITION: {
    int64_t at = tli_position("index", item->first, self->sizes[*dim]);
    if (at < 0) return false;
    v->offset += at * self->strides[*dim];
    ++*dim;
    return true;
  }
  case ITEM_RANGE:
    TL_TRY(put_range(v, item, self->sizes[*dim], self->strides[*dim]));
    ++*dim;
    return true;
  case ITEM_TENSOR:
    for (int k = tensor_dims(item->tensor); k > 0; k--, ++*dim)
      TL_TRY(put(v, self->sizes[*dim], self->strides[*dim]));
    return true;
  }
  return false;
}

static bool check_device(const tl_Tensor *self, const tl_Tensor *index, int i) {
  return tli_same_device(tli_device(self), tli_device(index)) ||
         tli_fail(TL_EDEVICE,
                  "index: expected all tensors on one device, got self on %s and item %d on %s",
                  tli_device_str(tli_device(self)), i, tli_device_str(tli_device(index)));
}

static bool make_view(View *v, const Key *key, const tl_Tensor *self) {
  v->ndim = v->nflips = v->ntensors = 0;
  v->offset = self->offset;
  if (key->nused > self->ndim)
    return tli_fail(TL_EINDEX, "index: %d positions for a tensor of %d dimensions, shape %s",
                    key->nused, (int)self->ndim, tli_sizes_str(self));
  bool has_rest = false;
  for (int i = 0; i < key->n; i++) has_rest |= key->items[i].kind == ITEM_REST;
  int dim = 0, rest = self->ndim - key->nused;
  for (int i = 0; i < key->n; i++) {
    const Item *item = &key->items[i];
    if (item->kind == ITEM_TENSOR) TL_TRY(check_device(self, item->tensor, i + 1));
    if (item->kind == ITEM_TENSOR && tensor_dims(item->tensor) == 0) {
      /* a 0-d mask adds a dimension of size 1, and the operator `index` keeps or drops its only
      ** element */
      TL_TRY(put(v, 1, 0));
      v->tensors[v->ndim - 1] = item->tensor;
      v->ntensors = v->ndim;
      continue;
    }
    int before = v->ndim;
    TL_TRY(put_item(v, item, self, &dim, rest));
    if (item->kind == ITEM_TENSOR) {
      v->tensors[before] = item->tensor;
      v->ntensors = v->ndim;
    }
  }
  if (!has_rest)
    for (; rest > 0; rest--, dim++) TL_TRY(put(v, self->sizes[dim], self->strides[dim]));
  return true;
}

/* Returns the list of index tensors for the operator `index`. A mask with k dimensions indexes k
** dimensions of the tensor but has only one entry in the list. */
static tl_Tensors slots(View *v, tl_Tensor **out) {
  int n = 0;
  for (int d = 0; d < v->ntensors;) {
    tl_Tensor *t = v->tensors[d];
    out[n++] = t;
    int dims = t ? tensor_dims(t) : 1;
    d += dims ? dims : 1;
  }
  return (tl_Tensors){n, out};
}

/* Returns a new reference to the view that the numbers, ranges and newaxis of the key select. The
** function calls one operator for each of these items, so that the graph records the calls. */
static tl_Tensor *recorded_view(tl_Tensor *self, const Key *key) {
  tl_Tensor *at = tli_retain(self);
  int dim = 0, rest = self->ndim - key->nused;
  for (int i = 0; i < key->n && at; i++) {
    const Item *item = &key->items[i];
    tl_Tensor *next = NULL;
    if (item->kind == ITEM_REST) {
      dim += rest;
      continue;
    } else if (item->kind == ITEM_TENSOR) {
      if (tensor_dims(item->tensor) > 0) {
        dim += tensor_dims(item->tensor);
        continue;
      }
      next = tlo_unsqueeze(at, dim++);
    } else if (item->kind == ITEM_NEWAXIS) {
      next = tlo_unsqueeze(at, dim++);
    } else if (item->kind == ITEM_POSITION) {
      next = tlo_select(at, dim, item->first);
    } else {
      if (item->whole) {
        dim++;
        continue;
      }
      int64_t size = at->sizes[dim], step = item->step > 0 ? item->step : -item->step;
      int64_t first = item->first < 0 ? item->first + size : item->first;
      int64_t last = item->last < 0 ? item->last + size : item->last;
      int64_t low = item->step > 0 ? first : last, high = item->step > 0 ? last : first;
      if (item->step < 0 && low <= high) low = high - (high - low) / step * step;
      next = low > high ? tlo_slice(at, dim, 0, 0, 1) : tlo_slice(at, dim, low, high + 1, step);
      dim++;
    }
    tli_release(at);
    at = next;
  }
  return at;
}

/* Returns the view of self that a key selects. If autograd records nothing, makes the view
** directly, without operators. */
static tl_Tensor *take_view(tl_Tensor *self, const Key *key, const View *v) {
  if (tli_recording(&self, 1)) return recorded_view(self, key);
  tl_Tensor *view = tli_alias(self, v->ndim, v->sizes, v->strides, v->offset);
  if (view && !tli_view_of(view, self)) {
    tli_release(view);
    return NULL;
  }
  return view;
}

static tl_Tensor *flipped(tl_Tensor *steals, const View *v) {
  if (steals == NULL || v->nflips == 0) return steals;
  tl_Tensor *result = tlo_flip(steals, (tl_Ints){v->nflips, v->flips});
  tli_release(steals);
  return result;
}

/* ---- x[key] ---- */

static tl_Tensor *take(tl_Tensor *self, const Key *key, View *v) {
  tl_Tensor *view = flipped(take_view(self, key, v), v);
  if (view == NULL || !key->tensors) return view;
  tl_Tensor *indices[TL_MAX_DIMS];
  tl_Tensor *result = tlo_index(view, slots(v, indices));
  tli_release(view);
  return result;
}

/* Returns the iterator function that ipairs returns, a C function; NULL if ipairs is not a C
** function. */
static lua_CFunction ipairs_iterator(lua_State *L) {
  lua_CFunction iterator = NULL;
  int top = lua_gettop(L);
  luaL_checkstack(L, 6, "index");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  luaL_getsubtable(L, -1, LUA_GNAME);
  if (lua_getfield(L, -1, "ipairs") == LUA_TFUNCTION && lua_iscfunction(L, -1)) {
    lua_newtable(L);
    lua_call(L, 1, 1);
    iterator = lua_tocfunction(L, -1);
  }
  lua_settop(L, top);
  return iterator;
}

/* Returns whether ipairs has called __index for the position after the last row. ipairs must get
** nil for this position, so that it stops. For any other caller the position is an error. */
static bool is_end_of_ipairs(lua_State *L, const tl_Tensor *self, const Key *key) {
  if (key->n != 1 || key->items[0].kind != ITEM_POSITION || self->ndim == 0) return false;
  if (key->items[0].first != self->sizes[0] || lua_type(L, 2) != LUA_TNUMBER) return false;
  lua_Debug caller;
  if (!lua_getstack(L, 1, &caller)) return false;
  lua_getinfo(L, "f", &caller);
  lua_CFunction function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return function != NULL && function == ipairs_iterator(L);
}

int tli_index_get(lua_State *L) {
  tli_State *S = tli_state(L);
  Key key;
  View v;
  tli_Box *box = tli_new_box(L, S); /* makes the box first, because finalizers may run meanwhile */
  tl_Tensor *self = tli_check_tensor(L, 1, "index");
  read_key(L, &key, 2);
  if (is_end_of_ipairs(L, self, &key)) {
    lua_pushnil(L);
    return 1;
  }
  /* from here on no finalizer can change the shape */
  if (!make_view(&v, &key, self)) return tli_raise(L);
  lua_State *outer = tli_calling;
  tli_calling = L;
  tli_set_operator("index");
  tl_Tensor *result = take(self, &key, &v);
  if (result == NULL && tl_error_kind() == TL_EMEM && !tli_device_exhausted()) {
    tli_pacer_collect(L, S);
    result = take(self, &key, &v);
  }
  tli_calling = outer;
  if (result == NULL) return tli_raise_as(L, "index");
  tli_fill_box(S, box, result);
  return 1;
}

/* ---- x[key] = value ---- */

/* Converts the assigned value, which is a table at index 3, to a tensor on self's device. */
static tl_Tensor *table_tensor(lua_State *L, const tl_Tensor *self) {
  tl_Tensor *t = tli_from_lua(L, 3, (tl_DType)self->dtype);
  tl_Tensor *there = t ? tli_moved(t, tli_device(self), false) : NULL;
  tli_release(t);
  return there;
}

/* Converts the assigned value, at index 3, to a tensor; returns a new reference. As in PyTorch, if
** the value has more than `ndim` dimensions, leading dimensions of size 1 are removed. */
static tl_Tensor *value_tensor(lua_State *L, const tl_Tensor *self, int ndim) {
  tl_Scalar s;
  if (tli_to_scalar(L, 3, &s)) return tli_number(s);
  if (lua_type(L, 3) == LUA_TTABLE) return table_tensor(L, self);
  tl_Tensor *t = lua_type(L, 3) == LUA_TUSERDATA ? tli_to_tensor(L, tli_state(L), 3) : NULL;
  if (t == NULL) {
    tli_fail(TL_EARG, "index: value: expected a number, a Tensor or a table, got %s",
             tli_describe(L, tli_state(L), 3));
    return NULL;
  }
  int extra = 0;
  while (t->ndim - extra > ndim && t->sizes[extra] == 1) extra++;
  return extra ? tlo_reshape(t, (tl_Ints){t->ndim - extra, t->sizes + extra}) : tli_retain(t);
}

static tl_Tensor *as_bits(const tl_Tensor *t, tl_DType bits) {
  return tli_alias_as(t, bits, t->ndim, t->sizes, t->strides, t->offset);
}

/* Writes a value into a tensor with a dtype of TL_STORED_DTYPES, as integers with the same bits. */
static bool put_bits(tl_Tensor *target, tl_Tensors indices, tl_Tensor *value) {
  static const tl_DType of_size[] = {TL_U8, TL_I16, TL_I32, TL_I64};
  int bytes = tli_dtype_bytes[target->dtype];
  tl_DType bits = of_size[bytes == 8 ? 3 : bytes / 2];
  tl_Tensor *cast =
      value->flags & TLI_NUMBER
          ? tli_scalar_tensor(tli_number_of(value), (tl_DType)target->dtype, tli_device(target))
          : tlo_to_dtype(value, (tl_DType)target->dtype);
  tl_Tensor *from = cast ? as_bits(cast, bits) : NULL;
  tl_Tensor *to = from ? as_bits(target, bits) : NULL;
  bool ok = to && tlo_index_put_(to, indices, from, false);
  tli_release(to);
  tli_release(from);
  tli_release(cast);
  return ok;
}

/* Writes the value at the positions that the index tensors select. First moves a 0-d value from the
** CPU to the target's device. */
static bool put_at(tl_Tensor *target, tl_Tensors indices, tl_Tensor *value) {
  if (tli_is_stored(target->dtype)) return put_bits(target, indices, value);
  if (tli_same_device(tli_device(target), tli_device(value)) || value->flags & TLI_NUMBER)
    return tlo_index_put_(target, indices, value, false);
  if (tli_device(value).type != TL_CPU || value->ndim > 0)
    return tli_fail(TL_EDEVICE,
                    "index: expected all tensors on one device, got self on %s and value on %s",
                    tli_device_str(tli_device(target)), tli_device_str(tli_device(value)));
  tl_Tensor *here = tli_moved(value, tli_device(target), false);
  bool ok = here && tlo_index_put_(target, indices, here, false);
  tli_release(here);
  return ok;
}

static bool assign(tl_Tensor *self, const Key *key, View *v, tl_Tensor *value) {
  tl_Tensor *target = take_view(self, key, v);
  if (target == NULL) return false;
  bool ok = true;
  tl_Tensor *source = value;
  if (v->nflips > 0 && value->ndim > 0) {
    /* for negative steps flips the value, since the view has positive steps */
    tl_Tensor *wide = tlo_expand(value, (tl_Ints){target->ndim, target->sizes});
    source = wide ? tlo_flip(wide, (tl_Ints){v->nflips, v->flips}) : NULL;
    tli_release(wide);
    ok = source != NULL;
  }
  tl_Tensor *indices[TL_MAX_DIMS];
  if (!ok) {
    /* after a failure writes nothing; the code below releases the tensors in any case */
  } else if (key->tensors) {
    ok = put_at(target, slots(v, indices), source);
  } else if (source->flags & TLI_NUMBER) {
    ok = tlo_fill_(target, tli_number_of(source));
  } else {
    ok = tlo_copy_(target, source, false);
  }
  if (source != value) tli_release(source);
  tli_release(target);
  return ok;
}

int tli_index_set(lua_State *L, tl_Tensor *self) {
  Key key;
  View v;
  tli_check_shared(L, "index");
  read_key(L, &key, 2);
  if (!make_view(&v, &key, self)) return tli_raise(L);
  tl_Tensor *value = value_tensor(L, self, v.ndim);
  if (value == NULL) return tli_raise_as(L, "index");
  lua_State *outer = tli_calling;
  tli_calling = L;
  tli_set_operator("index");
  bool ok = assign(self, &key, &v, value);
  tli_calling = outer;
  tli_release(value);
  return ok ? 0 : tli_raise_as(L, "index");
}
