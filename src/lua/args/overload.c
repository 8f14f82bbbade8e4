/*
** overload.c - operators with several forms, such as x:view(sizes) and x:view(dtype): calls the
** first form whose parameters fit the arguments. The arguments are not converted before a form is
** chosen. An error is raised only if no form fits.
*/
#include <stdio.h>
#include <string.h>

#include "lua/args/batched.h"
#include "lua/args/sparse.h"
#include "lua/tensor/value.h"

_Static_assert(TLI_MAX_PARAMS <= 32, "given parameters are bits of a uint32_t");

/* Returns whether the value is a list of tensors, if `tensors` is true, or of other values, if it
** is false. Only the first element is checked. An empty table is a list of either kind. */
static bool is_list(lua_State *L, int index, bool tensors) {
  if (lua_type(L, index) != LUA_TTABLE || tli_is_batched(L, index)) return false;
  int type = lua_rawgeti(L, index, 1);
  bool batched = tli_is_batched(L, -1);
  lua_pop(L, 1);
  return type == LUA_TNIL || (type == LUA_TUSERDATA || batched) == tensors;
}

static bool kind_fits(lua_State *L, const tli_State *S, tli_Kind kind, int index) {
  int type = lua_type(L, index), top = lua_gettop(L);
  tl_Device device;
  switch (kind) {
  case TLI_A_TENSOR: return tli_to_box(L, S, index) != NULL || tli_is_batched(L, index);
  case TLI_A_OPERAND:
    return tli_to_scalar(L, index, &(tl_Scalar){.i = 0}) || tli_to_box(L, S, index) ||
           tli_is_batched(L, index);
  case TLI_A_TENSORS: return is_list(L, index, true);
  case TLI_A_NUMBER: return tli_to_scalar(L, index, &(tl_Scalar){.i = 0});
  case TLI_A_INT:
  case TLI_A_DIM:
  case TLI_A_INDEX:
  case TLI_A_FLOAT: return type == LUA_TNUMBER;
  case TLI_A_BOOL: return type == LUA_TBOOLEAN;
  case TLI_A_TRUE: return type == LUA_TBOOLEAN && lua_toboolean(L, index);
  case TLI_A_FLOATS:
  case TLI_A_INTS:
  case TLI_A_DIMS:
  case TLI_A_INDICES: return type == LUA_TNUMBER || is_list(L, index, false);
  case TLI_A_DIM_LISTS: {
    bool lists = type == LUA_TTABLE && lua_rawgeti(L, index, 1) == LUA_TTABLE;
    lua_settop(L, top);
    return lists;
  }
  case TLI_A_STRING: return type == LUA_TSTRING;
  case TLI_A_DTYPE: return tli_to_dtype(L, index) != TL_NODTYPE;
  case TLI_A_DEVICE: return tli_to_device(L, index, &device);
  case TLI_A_GENERATOR: return tli_to_generator(L, index) != NULL;
  }
  return false;
}

/* Returns whether every option is the name of a parameter of the signature and fits its kind, and
** none of these parameters is already given. Bit i of *given tells whether parameter i is given. */
static bool options_fit(lua_State *L, const tli_State *S, const tli_Signature *sig, int table,
                        uint32_t *given) {
  bool fit = true;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    int i = tli_to_word(L, -2) ? tli_find_param(sig, tli_to_word(L, -2)) : -1;
    fit = fit && i >= 0 && !(*given >> i & 1) &&
          kind_fits(L, S, (tli_Kind)sig->params[i].kind, lua_gettop(L));
    if (i >= 0) *given |= 1u << i;
    lua_pop(L, 1);
  }
  return fit;
}

static bool fits(lua_State *L, const tli_State *S, const tli_Signature *sig, int top,
                 tli_Last last) {
  uint32_t given = 0;
  int at = 1, empty = last == TLI_LAST_EMPTY ? top : 0;
  int options = last == TLI_LAST_OPTIONS ? top-- : 0;
  for (int i = 0; i < sig->nparams && at <= top; i++) {
    const tli_Param *p = &sig->params[i];
    if (p->flags & TLI_P_KEYWORD) break;
    if (lua_isnil(L, at) || (at == empty && !tli_takes_list(p))) {
      at++;
      continue;
    }
    bool list = tli_begins_list(p, lua_type(L, at));
    if (!list && !kind_fits(L, S, (tli_Kind)p->kind, at)) return false;
    given |= 1u << i;
    at++;
    while (list && at <= top && tli_begins_list(p, lua_type(L, at))) at++;
  }
  if (at == empty) at++;
  if (at <= top) return false;
  if (options && !options_fit(L, S, sig, options, &given)) return false;
  for (int i = 0; i < sig->nparams; i++)
    if (!(given >> i & 1) && !(sig->params[i].flags & TLI_P_OPTIONAL)) return false;
  return true;
}

/* Returns a hint for a wrong dtype or device: the most similar name, or all names if none is
** similar. */
static const char *hint_of(const char *word, bool dtypes, bool devices) {
  static _Thread_local char text[320];
  const char *dtype = dtypes ? tli_dtype_hint(word) : "";
  bool near = strstr(dtype, "did you mean") != NULL;
  snprintf(text, sizeof text, "%s%s", dtype, devices && !near ? tli_device_hint() : "");
  return text;
}

/* Raises an error if the string at a stack index is neither a dtype nor a device, but some form
** expects one of them in this place. The place is the parameter at position `param`, or the option
** `name` if `param` is -1. */
static void check_word(lua_State *L, const tli_Overload *overloads, int n, int param,
                       const char *name, int index) {
  bool dtypes = false, devices = false, others = false;
  tl_Device device;
  const char *word = tli_to_word(L, index);
  if (word == NULL || tli_to_dtype(L, index) != TL_NODTYPE || tli_to_device(L, index, &device))
    return;
  for (int i = 0; i < n; i++) {
    const tli_Signature *sig = overloads[i].signature;
    int at = name ? tli_find_param(sig, name) : param;
    if (at < 0 || at >= sig->nparams) continue;
    dtypes = dtypes || sig->params[at].kind == TLI_A_DTYPE;
    devices = devices || sig->params[at].kind == TLI_A_DEVICE;
    others = others || sig->params[at].kind == TLI_A_STRING;
  }
  if (others || !(dtypes || devices)) return;
  const char *what = dtypes && devices ? "dtype or device" : dtypes ? "dtype" : "device";
  tli_error(L, "%s: %s: unknown '%.60s'%s", overloads[0].signature->name, what, word,
            hint_of(word, dtypes, devices));
}

/* Raises an error if no form has an option of this name. */
static void check_option(lua_State *L, const tli_Overload *overloads, int n, const char *name) {
  char hint[80];
  tli_Suggestion best = TLI_SUGGESTION(name);
  for (int i = 0; i < n; i++) {
    const tli_Signature *sig = overloads[i].signature;
    if (tli_find_param(sig, name) >= 0) return;
    for (int k = 0; k < sig->nparams; k++) tli_suggestion_try(&best, sig->params[k].name);
  }
  tli_suggestion_text(&best, hint, sizeof hint);
  tli_error(L, "%s: unknown option '%.40s'%s; usage: %s", overloads[0].signature->name, name, hint,
            overloads[0].signature->text);
}

/* Raises an error if a dtype, a device or the name of an option is wrong for every form. */
static void check_each(lua_State *L, const tli_Overload *overloads, int n, int top) {
  bool options = tli_last_argument(L, top) == TLI_LAST_OPTIONS;
  for (int at = 1; at <= top - options; at++) check_word(L, overloads, n, at - 1, NULL, at);
  if (!options) return;
  for (lua_pushnil(L); lua_next(L, top); lua_pop(L, 1)) {
    const char *name = tli_to_word(L, -2);
    if (name == NULL) continue;
    check_option(L, overloads, n, name);
    check_word(L, overloads, n, -1, name, lua_gettop(L));
  }
}

static int no_overload(lua_State *L, const tli_Overload *overloads, int n) {
  check_each(L, overloads, n, lua_gettop(L));
  char got[400] = "";
  int top = lua_gettop(L);
  for (int i = 1; i <= top && strlen(got) < 300; i++) {
    size_t used = strlen(got);
    snprintf(got + used, sizeof got - used, "%s%s", i > 1 ? ", " : "",
             tli_describe(L, tli_state(L), i));
  }
  char usage[500] = "";
  for (int i = 0; i < n && strlen(usage) < 400; i++) {
    size_t used = strlen(usage);
    snprintf(usage + used, sizeof usage - used, "%s%s", i > 0 ? " or " : "",
             overloads[i].signature->text);
  }
  return tli_error(L, "%s: no form takes (%s); usage: %s", overloads[0].signature->name, got,
                   usage);
}

int tli_call_overload(lua_State *L, const tli_Overload *overloads, int n) {
  int top = lua_gettop(L);
  const tli_State *S = tli_state(L);
  tli_Last last = tli_last_argument(L, top);
  for (int i = 0; i < n; i++)
    if (fits(L, S, overloads[i].signature, top, last)) return overloads[i].fn(L);
  int results = tli_sparse_call(L, overloads[0].signature->name, top);
  return results >= 0 ? results : no_overload(L, overloads, n);
}
