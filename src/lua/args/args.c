/*
** args.c - converts stack values to parameters. Invariant: between tli_args_begin and tli_args_end
** only Lua itself raises an error, when memory is exhausted. At that moment tli_Args owns nothing
** except tensors that it has made from numbers. Nothing leaks, because these operands are read
** last.
*/
#include "lua/args/batched.h"
#include "lua/args/sparse.h"
#include "lua/args/stored.h"
#include "lua/tensor/value.h"
#include "lua/list_length.h"
#include "core/memory/device_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- conversions of single values ---- */

bool tli_to_whole(lua_State *L, int index, int64_t *out) {
  if (lua_type(L, index) != LUA_TNUMBER) return false;
  int whole;
  *out = lua_tointegerx(L, index, &whole);
  return whole;
}

bool tli_to_position(lua_State *L, int index, int64_t *out) {
  if (!tli_to_whole(L, index, out) || *out == 0) return false;
  if (*out > 0) --*out;
  return true;
}

bool tli_to_scalar(lua_State *L, int index, tl_Scalar *out) {
  switch (lua_type(L, index)) {
  case LUA_TNUMBER:
    *out = lua_isinteger(L, index) ? tli_int(lua_tointeger(L, index))
                                   : tli_float(lua_tonumber(L, index));
    return true;
  case LUA_TBOOLEAN: *out = tli_bool(lua_toboolean(L, index)); return true;
  case LUA_TUSERDATA: return tli_to_complex(L, index, out);
  default: return false;
  }
}

const char *tli_to_word(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TSTRING) return NULL;
  size_t length;
  const char *text = lua_tolstring(L, index, &length);
  return strlen(text) == length ? text : NULL;
}

tl_DType tli_to_dtype(lua_State *L, int index) {
  const char *name = tli_to_word(L, index);
  return name ? tli_dtype_from_name(name) : TL_NODTYPE;
}

/* Accepts "cpu", "sim" and "sim:1"; a type without an index means the thread's current device. */
bool tli_to_device(lua_State *L, int index, tl_Device *out) {
  const char *text = tli_to_device_name(L, index);
  if (text == NULL) return false;
  const char *colon = strchr(text, ':');
  size_t n = colon ? (size_t)(colon - text) : strlen(text);
  for (int type = 0; type < TL_NDEVICETYPES; type++) {
    const char *name = tli_device_type_name(type);
    if (strlen(name) != n || memcmp(name, text, n) != 0) continue;
    *out = (tl_Device){(int8_t)type, (int8_t)tli_current_device((tl_DeviceType)type)};
    if (colon == NULL) return true;
    char *end;
    long number = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number < 0 || number >= TL_MAX_DEVICES) return false;
    out->index = (int8_t)number;
    return type != TL_CPU || number == 0;
  }
  return false;
}

/* Writes "string '...'" to `text`, for an error message. If the string has a zero byte, the text
** stops there and ends with "\0...". */
static const char *describe_string(lua_State *L, int index, char *text, size_t room) {
  size_t length;
  const char *string = lua_tolstring(L, index, &length);
  const char *rest = strlen(string) < length ? "\\0..." : "";
  snprintf(text, room, "string '%.60s%s'", string, rest);
  return text;
}

const char *tli_describe(lua_State *L, const tli_State *S, int index) {
  static _Thread_local char text[160];
  if (index == 0) return "nothing";
  const tli_Box *box = tli_to_box(L, S, index);
  if (box) {
    const tl_Tensor *t = box->tensor;
    if (t == NULL) return "a released Tensor";
    snprintf(text, sizeof text, "Tensor%s %s", tli_sizes_str(t), tl_dtype_name((tl_DType)t->dtype));
    return text;
  }
  switch (lua_type(L, index)) {
  case LUA_TNUMBER:
    if (lua_isinteger(L, index))
      snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(L, index));
    else
      snprintf(text, sizeof text, "%.14g", lua_tonumber(L, index));
    return text;
  case LUA_TSTRING: return describe_string(L, index, text, sizeof text);
  case LUA_TBOOLEAN: return lua_toboolean(L, index) ? "true" : "false";
  case LUA_TUSERDATA:
    if (tli_to_complex(L, index, &(tl_Scalar){.i = 0})) {
      snprintf(text, sizeof text, "the complex number %s", luaL_tolstring(L, index, NULL));
      lua_pop(L, 1);
      return text;
    }
    if (tli_is_sparse(L, index)) return "a sparse Tensor";
    if (tli_is_wrapped(L, index) && luaL_getmetafield(L, index, "title") == LUA_TSTRING) {
      snprintf(text, sizeof text, "a %s", lua_tostring(L, -1));
      lua_pop(L, 1);
      return text;
    }
    if (tli_to_device_name(L, index) == NULL) return luaL_typename(L, index);
    snprintf(text, sizeof text, "the device %s", tli_to_device_name(L, index));
    return text;
  default: return luaL_typename(L, index);
  }
}

/* Memory for a list that is too long for the pool. It is not a userdata: the creation of a userdata
** may run the collector, whose finalizers might release tensors that were already read. */
typedef struct tli_Room {
  struct tli_Room *next; /* owned */
  size_t bytes;
  /* number of elements that are tensors owned by the list; they are released with the memory */
  int64_t owned;
  int64_t elements[];
} tli_Room;

/* ---- matching ---- */

tli_Last tli_last_argument(lua_State *L, int top) {
  if (top == 0 || lua_type(L, top) != LUA_TTABLE || lua_rawlen(L, top) > 0 ||
      tli_is_batched(L, top))
    return TLI_LAST_VALUE;
  lua_pushnil(L);
  if (!lua_next(L, top)) return TLI_LAST_EMPTY;
  bool named = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return named ? TLI_LAST_OPTIONS : TLI_LAST_VALUE;
}

int tli_find_param(const tli_Signature *sig, const char *name) {
  for (int i = 0; i < sig->nparams; i++)
    if (strcmp(sig->params[i].name, name) == 0) return i;
  return -1;
}

/* Returns the edit distance between two short words, for suggestions such as "did you mean". */
static int distance(const char *a, const char *b) {
  int row[33];
  size_t na = strlen(a), nb = strlen(b);
  if (na > 32 || nb > 32) return 99;
  for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= nb; j++) {
      int substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      int gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = substitute < gap ? substitute : gap;
    }
  }
  return row[nb];
}

void tli_suggestion_try(tli_Suggestion *best, const char *name) {
  if (name == NULL) return; /* does nothing if the key is not a string */
  int d = distance(best->word, name);
  if (d >= best->distance || d >= (int)strlen(best->word)) return;
  best->distance = d;
  best->name = name;
}

const char *tli_suggestion_text(const tli_Suggestion *best, char *out, size_t size) {
  out[0] = '\0';
  if (best->name) snprintf(out, size, "; did you mean '%s'?", best->name);
  return out;
}

static void fail_unknown_option(tli_Args *a, const char *name) {
  tli_Suggestion best = TLI_SUGGESTION(name);
  char hint[80];
  for (int i = 0; i < a->signature->nparams; i++)
    tli_suggestion_try(&best, a->signature->params[i].name);
  if (best.name)
    tli_fail(TL_EARG, "%s: unknown option '%.40s'%s", a->signature->name, name,
             tli_suggestion_text(&best, hint, sizeof hint));
  else
    tli_fail(TL_EARG, "%s: unknown option '%.40s'; usage: %s", a->signature->name, name,
             a->signature->text);
  a->failed = true;
}

/* Pushes the values of the options table and records their stack indices. */
static void read_options(tli_Args *a, int table) {
  lua_State *L = a->L;
  luaL_checkstack(L, TLI_MAX_PARAMS + 4, "options");
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      tli_fail(TL_EARG, "%s: options are named, got key %s", a->signature->name,
               tli_describe(L, a->S, lua_absindex(L, -2)));
      a->failed = true;
      lua_pop(L, 2);
      return;
    }
    const char *name = lua_tostring(L, -2);
    int i = tli_to_word(L, -2) ? tli_find_param(a->signature, name) : -1;
    if (i < 0 || a->at[i]) {
      if (i < 0)
        fail_unknown_option(a, name);
      else
        tli_fail(TL_EARG, "%s: %s was given twice", a->signature->name, name);
      a->failed = true;
      lua_pop(L, 2);
      return;
    }
    lua_insert(L, -2); /* moves a copy of the value below the key, which lua_next needs on top */
    a->at[i] = lua_gettop(L) - 1;
    a->type[i] = (int8_t)lua_type(L, a->at[i]);
  }
}

/* Records the error that a required parameter has no argument. A list of sizes may be missing if
** the function takes the sizes as separate arguments: a call without sizes means the shape of a 0-d
** tensor. */
static void check_missing(tli_Args *a) {
  for (int i = 0; i < a->signature->nparams && !a->failed; i++) {
    const tli_Param *p = &a->signature->params[i];
    if (a->at[i] || (p->flags & TLI_P_OPTIONAL)) continue;
    if ((p->flags & TLI_P_VARARG) && p->kind != TLI_A_DIMS) continue;
    tli_fail(TL_EARG, "%s: %s is missing; usage: %s", a->signature->name, p->name,
             a->signature->text);
    a->failed = true;
  }
}

/* Returns whether a nil at parameter i is probably a mistake, such as a misspelled variable in
** x:to(v) or zeros(v). Such a nil is an error, because without the argument the function would do
** something else. */
static bool needs_value(const tli_Param *p, int i) {
  if (p->kind == TLI_A_DTYPE || p->kind == TLI_A_DEVICE) return i == 1;
  return p->kind == TLI_A_INTS && (p->flags & TLI_P_VARARG) && !(p->flags & TLI_P_OPTIONAL);
}

static void refuse_nil(tli_Args *a, const tli_Param *p) {
  tli_fail(TL_EARG, "%s: %s: expected %s, got nil", a->signature->name, p->name,
           p->kind == TLI_A_INTS ? "integers" : "a dtype or device");
  a->failed = true;
}

void tli_args_begin(tli_Args *a, lua_State *L, const tli_Signature *signature) {
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  a->L = L;
  a->outer = tli_calling;
  tli_calling = L;
  a->S = S;
  a->signature = signature;
  tli_set_operator(signature->name);
  a->failed = a->refused = false;
  a->first = -1;
  a->nlist = 0;
  a->npool = 0;
  a->rooms = NULL;
  a->generator = NULL;
  a->ntemps = 0;
  int top = lua_gettop(L), at = 1;
  a->top = top;
  tli_Last last = tli_last_argument(L, top);
  int empty = last == TLI_LAST_EMPTY ? top : 0, options = last == TLI_LAST_OPTIONS ? top-- : 0;
  bool missing = false;
  for (int i = 0; i < signature->nparams; i++) {
    const tli_Param *p = &signature->params[i];
    a->at[i] = 0;
    if (at > top || (p->flags & TLI_P_KEYWORD)) {
      missing = missing || !(p->flags & TLI_P_OPTIONAL);
      continue;
    }
    int type = lua_type(L, at);
    if (type == LUA_TNIL && needs_value(p, i)) refuse_nil(a, p);
    if (type == LUA_TNIL || (at == empty && !tli_takes_list(p))) {
      missing = missing || !(p->flags & TLI_P_OPTIONAL);
      at++;
      continue;
    }
    a->at[i] = at++;
    a->type[i] = (int8_t)type;
    if (!tli_begins_list(p, type)) continue;
    while (at <= top && tli_begins_list(p, lua_type(L, at))) at++;
    a->nlist = at - a->at[i];
  }
  if (at == empty) at++;
  if (at <= top) {
    tli_fail(TL_EARG, "%s: too many arguments: %s came after the last one; usage: %s",
             signature->name, tli_describe(L, S, at), signature->text);
    a->failed = true;
  }
  if (options) read_options(a, options);
  if (missing) check_missing(a);
}

static void fail_with_hint(tli_Args *a, int i, const char *expected, const char *hint) {
  if (a->failed) return;
  tli_fail(TL_EARG, "%s: %s: expected %s, got %s%s", a->signature->name,
           a->signature->params[i].name, expected, tli_describe(a->L, a->S, a->at[i]), hint);
  a->failed = true;
}

void tli_args_fail(tli_Args *a, int i, const char *expected) { fail_with_hint(a, i, expected, ""); }

bool tli_args_retry(tli_Args *a) {
  if (a->failed || tl_error_kind() != TL_EMEM || tli_device_exhausted()) return false;
  tli_pacer_collect(a->L, a->S);
  if (a->generator) a->generator->offset = a->position;
  return true;
}

void tli_args_end(tli_Args *a) {
  tli_calling = a->outer;
  while (a->ntemps > 0) tli_release(a->temps[--a->ntemps]);
  while (a->rooms) {
    tli_Room *room = a->rooms;
    a->rooms = room->next;
    for (int64_t i = 0; i < room->owned; i++) tli_release(((tl_Tensor **)room->elements)[i]);
    tli_free(room, room->bytes);
  }
}

void tli_only(lua_State *L, int n, const char *name) {
  for (int i = n + 1; i <= lua_gettop(L); i++)
    if (!lua_isnil(L, i))
      tli_error(L, "%s: expected no further argument, got %s", name,
                tli_describe(L, tli_state(L), i));
}

int tli_args_raise(tli_Args *a) {
  int results = a->refused ? tli_stored_call(a->L, a->signature->name, a->top)
                           : tli_sparse_call(a->L, a->signature->name, a->top);
  return results >= 0 ? results : tli_raise_call(a->L, a->signature);
}

/* ---- parameters ---- */

/* Returns the name of a tensor argument for messages, such as "self" or "tensors[2]". */
static const char *tensor_name(const tli_Args *a, int i, int64_t item, char *text, size_t size) {
  const char *name = a->signature->params[i].name;
  if (item == 0) return name;
  snprintf(text, size, "%s[%lld]", name, (long long)item);
  return text;
}

static void fail_devices(tli_Args *a, int i, int64_t item, tl_Device device) {
  char first[64], second[64];
  if (!a->failed)
    tli_fail(TL_EDEVICE, "%s: expected all tensors on one device, got %s on %s and %s on %s",
             a->signature->name, tensor_name(a, a->first, a->first_item, first, sizeof first),
             tli_device_str(a->device), tensor_name(a, i, item, second, sizeof second),
             tli_device_str(device));
  a->failed = true;
}

/* Checks that all tensors of a call are on one device. There is one exception: if t is an operand
** (a parameter that may also be a number), then t or the first tensor may be a 0-d CPU tensor while
** the other is on any device. `item` is the position of t in a list, counted from 1, or 0 if t is
** not in a list. */
static void compare_devices(tli_Args *a, int i, int64_t item, const tl_Tensor *t) {
  if (a->signature->params[i].flags & TLI_P_ANY_DEVICE) return;
  tl_Device device = tli_device(t);
  bool operand = a->signature->params[i].kind == TLI_A_OPERAND;
  bool single = device.type == TL_CPU && t->ndim == 0;
  if (a->first < 0 || (operand && a->first_is_single)) {
    a->first = (int8_t)i;
    a->first_item = item;
    a->first_is_single = single;
    a->device = device;
  } else if (!tli_same_device(a->device, device) && !(operand && single)) {
    fail_devices(a, i, item, device);
  }
}

/* Refuses a dtype of TL_STORED_DTYPES. tli_args_raise later passes the call to Lua code, which
** supports these dtypes for some operators. */
static void refuse_stored(tli_Args *a, int dtype) {
  if (!a->failed)
    tli_fail(TL_EDTYPE, "%s: not implemented for '%s'", a->signature->name,
             tl_dtype_name((tl_DType)dtype));
  a->failed = true;
}

static inline void check_tensor(tli_Args *a, int i, int64_t item, const tl_Tensor *t) {
  if (tli_is_stored(t->dtype) && !a->signature->stored) {
    a->refused = a->refused || !a->failed;
    refuse_stored(a, t->dtype);
  }
  if (!tli_only_cpu()) compare_devices(a, i, item, t);
}

tl_Tensor *tli_arg_tensor(tli_Args *a, int i) {
  if (a->at[i] == 0 || a->failed) return NULL;
  tl_Tensor *t = a->type[i] == LUA_TUSERDATA ? tli_to_tensor(a->L, a->S, a->at[i]) : NULL;
  if (t)
    check_tensor(a, i, 0, t);
  else
    fail_with_hint(a, i, "a Tensor",
                   a->type[i] == LUA_TBOOLEAN ? "; for elements write x:eq(y), x:ne(y)" : "");
  return t;
}

tl_Tensor *tli_arg_operand(tli_Args *a, int i) {
  if (a->at[i] == 0 || a->failed) return NULL;
  tl_Tensor *t = a->type[i] == LUA_TUSERDATA ? tli_to_tensor(a->L, a->S, a->at[i]) : NULL;
  if (t) {
    check_tensor(a, i, 0, t);
  } else {
    tl_Scalar s;
    if (tli_to_scalar(a->L, a->at[i], &s)) {
      t = tli_number(s);
      if (t == NULL) {
        a->failed = true;
        return NULL;
      }
      a->temps[a->ntemps++] = t;
    }
  }
  if (t == NULL) tli_args_fail(a, i, "a Tensor or a number");
  return t;
}

static tli_Room *new_room(tli_Args *a, int64_t n) {
  size_t bytes = sizeof(tli_Room) + (size_t)n * 8;
  tli_Room *room = tli_alloc(bytes);
  if (room == NULL) {
    a->failed = true;
    return NULL;
  }
  *room = (tli_Room){a->rooms, bytes, 0};
  a->rooms = room;
  return room;
}

void *tli_args_room(tli_Args *a, int64_t n) {
  if (a->npool + n <= TLI_POOL) {
    void *p = &a->pool[a->npool];
    a->npool += (int)n;
    return p;
  }
  tli_Room *room = new_room(a, n);
  return room ? room->elements : NULL;
}

tl_Tensor **tli_args_owned(tli_Args *a, int64_t n) {
  tli_Room *room = new_room(a, n);
  if (room == NULL) return NULL;
  memset(room->elements, 0, (size_t)n * 8);
  room->owned = n;
  return (tl_Tensor **)room->elements;
}

/* Reads a list of tensors that the caller has passed as separate arguments. Its first tensor is the
** argument of parameter i. */
static tl_Tensors read_tensors(tli_Args *a, int i) {
  tl_Tensors list = {a->nlist, (tl_Tensor **)tli_args_room(a, a->nlist)};
  if (list.v == NULL) return (tl_Tensors){0, NULL};
  for (int k = 0; k < a->nlist; k++) {
    list.v[k] = tli_to_tensor(a->L, a->S, a->at[i] + k);
    if (list.v[k]) check_tensor(a, i, k + 1, list.v[k]);
    if (list.v[k] || a->failed) continue;
    tli_fail(TL_EARG, "%s: %s: expected Tensors, got %s", a->signature->name,
             a->signature->params[i].name, tli_describe(a->L, a->S, a->at[i] + k));
    a->failed = true;
  }
  return list;
}

tl_Tensors tli_arg_tensors(tli_Args *a, int i) {
  tl_Tensors list = {0, NULL};
  if (a->at[i] == 0 || a->failed) return list;
  if (a->nlist && tli_begins_list(&a->signature->params[i], a->type[i])) return read_tensors(a, i);
  if (a->type[i] != LUA_TTABLE) {
    tli_args_fail(a, i, "a table of Tensors");
    return list;
  }
  lua_State *L = a->L;
  list.n = tli_list_length(L, a->at[i]);
  list.v = (tl_Tensor **)tli_args_room(a, list.n);
  if (list.v == NULL) return (tl_Tensors){0, NULL};
  for (int64_t k = 0; k < list.n; k++) {
    lua_rawgeti(L, a->at[i], k + 1);
    list.v[k] = tli_to_tensor(L, a->S, -1);
    if (list.v[k]) check_tensor(a, i, k + 1, list.v[k]);
    if (list.v[k] == NULL && !a->failed) {
      tli_fail(TL_EARG, "%s: %s[%lld]: expected a Tensor, got %s", a->signature->name,
               a->signature->params[i].name, (long long)k + 1,
               tli_describe(L, a->S, lua_gettop(L)));
      a->failed = true;
    }
    lua_pop(L, 1);
  }
  return list;
}

tl_Scalar tli_arg_number(tli_Args *a, int i, tl_Scalar otherwise) {
  if (a->at[i] == 0 || a->failed) return otherwise;
  tl_Scalar s = otherwise;
  if (!tli_to_scalar(a->L, a->at[i], &s)) {
    tl_Tensor *t = a->type[i] == LUA_TUSERDATA ? tli_to_tensor(a->L, a->S, a->at[i]) : NULL;
    if (t && t->ndim == 0 && t->storage->device.type == TL_CPU && !tli_requires_grad(t))
      s = tli_load(tli_data(t), (tl_DType)t->dtype);
    else
      tli_args_fail(a, i, "a number");
  }
  return s;
}

int64_t tli_arg_int(tli_Args *a, int i, int64_t otherwise) {
  int64_t n = otherwise;
  if (a->at[i] && !a->failed && !tli_to_whole(a->L, a->at[i], &n))
    tli_args_fail(a, i, "an integer");
  return n;
}

int64_t tli_arg_dim(tli_Args *a, int i, int64_t otherwise) {
  int64_t n = otherwise;
  if (a->at[i] && !a->failed && !tli_to_position(a->L, a->at[i], &n))
    tli_args_fail(a, i, "a dimension, counted from 1 or from the end with -1");
  return n;
}

int64_t tli_arg_index(tli_Args *a, int i, int64_t otherwise) {
  int64_t n = otherwise;
  if (a->at[i] && !a->failed && !tli_to_position(a->L, a->at[i], &n))
    tli_args_fail(a, i, "a position, counted from 1 or from the end with -1");
  return n;
}

bool tli_arg_bool(tli_Args *a, int i, bool otherwise) {
  if (a->at[i] == 0 || a->failed) return otherwise;
  if (a->type[i] != LUA_TBOOLEAN) tli_args_fail(a, i, "true or false");
  return lua_toboolean(a->L, a->at[i]);
}

double tli_arg_float(tli_Args *a, int i, double otherwise) {
  if (a->at[i] == 0 || a->failed) return otherwise;
  if (a->type[i] != LUA_TNUMBER) tli_args_fail(a, i, "a number");
  return lua_tonumber(a->L, a->at[i]);
}

typedef bool (*Reader)(lua_State *L, int index, int64_t *out);

/* Refuses named fields in a list of integers, as in zeros {2, 3, dtype = "int64"}. The field n is
** allowed, because table.pack sets it. */
static void refuse_names(tli_Args *a, int i, int64_t n) {
  lua_State *L = a->L;
  /* lua_next visits integer keys first, so the search for named fields begins after the last
  ** integer */
  if (n > 0)
    lua_pushinteger(L, n);
  else
    lua_pushnil(L);
  while (lua_next(L, a->at[i])) {
    lua_pop(L, 1);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    if (name == NULL || strcmp(name, "n") == 0 || a->failed) continue;
    tli_fail(
        TL_EARG,
        "%s: %s: expected a list of integers, got a table with the name '%s'; options stand in "
        "a table of their own, the last argument",
        a->signature->name, a->signature->params[i].name, name);
    a->failed = true;
  }
}

/* Reads a table of integers. */
static tl_Ints read_table(tli_Args *a, int i, Reader reader, const char *expected) {
  lua_State *L = a->L;
  int64_t n = tli_list_length(L, a->at[i]);
  int64_t *v = (int64_t *)tli_args_room(a, n ? n : 1);
  if (v == NULL) return TLI_NOINTS;
  for (int64_t k = 0; k < n; k++) {
    lua_rawgeti(L, a->at[i], k + 1);
    if (!reader(L, lua_gettop(L), &v[k]) && !a->failed) {
      tli_fail(TL_EARG, "%s: %s[%lld]: expected %s, got %s", a->signature->name,
               a->signature->params[i].name, (long long)k + 1, expected,
               tli_describe(L, a->S, lua_gettop(L)));
      a->failed = true;
    }
    lua_pop(L, 1);
  }
  refuse_names(a, i, n);
  return (tl_Ints){n, v};
}

/* Reads the list of numbers for parameter i. If the caller has passed the numbers as separate
** arguments, as in zeros(2, 3), reads all of them. */
static tl_Ints read_numbers(tli_Args *a, int i, Reader reader, const char *expected) {
  int count = a->nlist && (a->signature->params[i].flags & TLI_P_VARARG) ? a->nlist : 1;
  int64_t *v = (int64_t *)tli_args_room(a, count);
  if (v == NULL) return TLI_NOINTS;
  for (int k = 0; k < count; k++) {
    if (reader(a->L, a->at[i] + k, &v[k]) || a->failed) continue;
    tli_fail(TL_EARG, "%s: %s: expected %s, got %s", a->signature->name,
             a->signature->params[i].name, expected, tli_describe(a->L, a->S, a->at[i] + k));
    a->failed = true;
  }
  return (tl_Ints){count, v};
}

static tl_Ints read_list(tli_Args *a, int i, tl_Ints otherwise, Reader reader,
                         const char *expected) {
  const tli_Param *p = &a->signature->params[i];
  if (a->failed) return otherwise;
  if (a->at[i] == 0) {
    static const int64_t none = 0;
    bool empty_shape = (p->flags & TLI_P_VARARG) && !(p->flags & TLI_P_OPTIONAL);
    return empty_shape ? (tl_Ints){0, &none} : otherwise;
  }
  int type = a->type[i];
  if (type == LUA_TTABLE) {
    tl_Ints list = read_table(a, i, reader, expected);
    if (p->expand && list.n == 1 && p->expand > 1) {
      int64_t *v = (int64_t *)tli_args_room(a, p->expand);
      if (v == NULL) return TLI_NOINTS;
      for (int k = 0; k < p->expand; k++) v[k] = list.v[0];
      list = (tl_Ints){p->expand, v};
    }
    return list;
  }
  if (type != LUA_TNUMBER) {
    tli_args_fail(a, i, "a list of integers");
    return otherwise;
  }
  tl_Ints list = read_numbers(a, i, reader, expected);
  if (p->expand <= 1 || list.n != 1) return list;
  int64_t *v = (int64_t *)tli_args_room(a, p->expand);
  if (v == NULL) return TLI_NOINTS;
  for (int k = 0; k < p->expand; k++) v[k] = list.v[0];
  return (tl_Ints){p->expand, v};
}

/* Returns the length of the list at position k of a table; -1 if the element there is not a
** table. */
static int64_t list_length(lua_State *L, int table, int k) {
  int64_t n = lua_rawgeti(L, table, k) == LUA_TTABLE ? tli_list_length(L, -1) : -1;
  lua_pop(L, 1);
  return n;
}

tl_Ints tli_arg_dim_lists(tli_Args *a, int i, tl_Ints otherwise) {
  static const char expected[] = "two lists of as many dimensions, counted from 1";
  lua_State *L = a->L;
  if (a->at[i] == 0 || a->failed) return otherwise;
  int64_t n = a->type[i] == LUA_TTABLE ? list_length(L, a->at[i], 1) : -1;
  if (n < 0 || list_length(L, a->at[i], 2) != n) {
    tli_args_fail(a, i, expected);
    return otherwise;
  }
  int64_t *v = (int64_t *)tli_args_room(a, n ? 2 * n : 1);
  if (v == NULL) return TLI_NOINTS;
  for (int64_t k = 0; k < 2 * n; k++) {
    lua_rawgeti(L, a->at[i], k < n ? 1 : 2);
    lua_rawgeti(L, -1, k % n + 1);
    if (!tli_to_position(L, lua_gettop(L), &v[k])) tli_args_fail(a, i, expected);
    lua_pop(L, 2);
  }
  return (tl_Ints){2 * n, v};
}

tl_Floats tli_arg_floats(tli_Args *a, int i, tl_Floats otherwise) {
  if (a->at[i] == 0 || a->failed) return otherwise;
  lua_State *L = a->L;
  bool table = lua_type(L, a->at[i]) == LUA_TTABLE;
  int64_t n = table ? tli_list_length(L, a->at[i]) : 1;
  double *v = (double *)tli_args_room(a, n ? n : 1);
  if (v == NULL) return TLI_NOFLOATS;
  for (int64_t k = 0; k < n; k++) {
    if (table)
      lua_rawgeti(L, a->at[i], k + 1);
    else
      lua_pushvalue(L, a->at[i]);
    if (lua_type(L, -1) != LUA_TNUMBER) tli_args_fail(a, i, "a number or a list of numbers");
    v[k] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  return (tl_Floats){n, v};
}

tl_Ints tli_arg_ints(tli_Args *a, int i, tl_Ints otherwise) {
  return read_list(a, i, otherwise, tli_to_whole, "an integer");
}

tl_Ints tli_arg_dims(tli_Args *a, int i, tl_Ints otherwise) {
  return read_list(a, i, otherwise, tli_to_position,
                   "a dimension, counted from 1 or from the end with -1");
}

tl_Ints tli_arg_indices(tli_Args *a, int i, tl_Ints otherwise) {
  return read_list(a, i, otherwise, tli_to_position,
                   "a position, counted from 1 or from the end with -1");
}

const char *tli_arg_string(tli_Args *a, int i, const char *otherwise) {
  if (a->at[i] == 0 || a->failed) return otherwise;
  const char *text = tli_to_word(a->L, a->at[i]);
  if (text) return text;
  tli_args_fail(a, i, a->type[i] == LUA_TSTRING ? "a string without a byte 0" : "a string");
  return otherwise;
}

tl_DType tli_arg_dtype(tli_Args *a, int i, tl_DType otherwise) {
  if (a->at[i] == 0 || a->failed) return otherwise;
  tl_DType dtype = tli_to_dtype(a->L, a->at[i]);
  if (dtype == TL_NODTYPE) {
    const char *word = tli_to_word(a->L, a->at[i]);
    fail_with_hint(a, i, "a dtype such as \"float32\"", word ? tli_dtype_hint(word) : "");
  } else if (tli_is_stored(dtype) && !a->signature->stored) {
    refuse_stored(a, dtype);
  }
  return dtype;
}

tl_Device tli_arg_device(tli_Args *a, int i, tl_Device otherwise) {
  tl_Device device = otherwise;
  if (a->at[i] && !a->failed && !tli_to_device(a->L, a->at[i], &device)) {
    bool word = a->type[i] == LUA_TSTRING;
    fail_with_hint(a, i, "a device such as \"cpu\" or \"cuda:0\"", word ? tli_device_hint() : "");
  }
  return device;
}

tli_Generator *tli_arg_generator(tli_Args *a, int i) {
  bool given = a->at[i] != 0 && !a->failed;
  tli_Generator *g = given ? tli_to_generator(a->L, a->at[i]) : &a->S->generator;
  if (g == NULL) tli_args_fail(a, i, "a torch.Generator");
  a->generator = g;
  if (g) a->position = g->offset;
  return g;
}

/* ---- results ---- */

int tli_push_scalar(lua_State *L, tl_Scalar s) {
  if (s.kind == TL_COMPLEX) return tli_push_complex(L, s.f, s.imag);
  if (s.kind == TL_FLOATING)
    lua_pushnumber(L, s.f);
  else if (s.kind == TL_BOOLEAN)
    lua_pushboolean(L, s.i != 0);
  else
    lua_pushinteger(L, s.i);
  return 1;
}

int tli_push_ints(lua_State *L, tl_Ints ints) {
  lua_createtable(L, (int)ints.n, 0);
  for (int64_t i = 0; i < ints.n; i++) {
    lua_pushinteger(L, ints.v[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}
