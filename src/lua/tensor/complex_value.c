/*
** complex_value.c - torch.complex(1, 2) returns a complex number as a Lua value, which every
** function that takes a number accepts. Such values are immutable. Arithmetic with numbers gives a
** new complex value; arithmetic with a tensor gives a tensor.
*/
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/tensor/value.h"

#define COMPLEX "torch.complex"

typedef double complex Value;

bool tli_to_complex(lua_State *L, int index, tl_Scalar *out) {
  const Value *value = (const Value *)luaL_testudata(L, index, COMPLEX);
  if (value) *out = tli_complex(creal(*value), cimag(*value));
  return value != NULL;
}

int tli_push_complex(lua_State *L, double real, double imag) {
  /* adds one byte, because a userdata with the size of a tensor box might be mistaken for a box */
  Value *value = (Value *)lua_newuserdatauv(L, sizeof *value + 1, 0);
  *value = __builtin_complex(real, imag);
  luaL_setmetatable(L, COMPLEX);
  return 1;
}

/* Reads a number or a complex number. */
static bool read(lua_State *L, int index, Value *out) {
  tl_Scalar s;
  if (lua_type(L, index) != LUA_TNUMBER && lua_type(L, index) != LUA_TUSERDATA) return false;
  if (!tli_to_scalar(L, index, &s)) return false;
  *out = __builtin_complex(tli_to_double(s), s.imag);
  return true;
}

static int push(lua_State *L, Value z) { return tli_push_complex(L, creal(z), cimag(z)); }

static int refuse(lua_State *L, const char *name) {
  Value ignored;
  int wrong = read(L, 1, &ignored) ? 2 : 1;
  return tli_error(L, "%s: expected numbers or a Tensor, got %s", name,
                   tli_describe(L, tli_state(L), wrong));
}

/* If one operand is a tensor, calls the tensor's metamethod and returns true. */
static bool call_tensor(lua_State *L, const char *metamethod) {
  const tli_State *S = tli_state(L);
  int tensor = tli_to_box(L, S, 1) ? 1 : tli_to_box(L, S, 2) ? 2 : 0;
  if (tensor == 0) return false;
  lua_settop(L, 2);
  lua_getmetatable(L, tensor);
  lua_getfield(L, -1, metamethod);
  lua_replace(L, -2);
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return true;
}

static Value sum(Value a, Value b) { return a + b; }
static Value difference(Value a, Value b) { return a - b; }
static Value product(Value a, Value b) { return a * b; }
static Value quotient(Value a, Value b) { return a / b; }
static Value power(Value a, Value b) { return creal(b) == 0 && cimag(b) == 0 ? 1 : cpow(a, b); }

static int binary(lua_State *L, const char *metamethod, Value (*fn)(Value, Value)) {
  Value a, b;
  if (read(L, 1, &a) && read(L, 2, &b)) return push(L, fn(a, b));
  if (call_tensor(L, metamethod)) return 1;
  return refuse(L, metamethod + 2);
}

static int meta_add(lua_State *L) { return binary(L, "__add", sum); }
static int meta_sub(lua_State *L) { return binary(L, "__sub", difference); }
static int meta_mul(lua_State *L) { return binary(L, "__mul", product); }
static int meta_div(lua_State *L) { return binary(L, "__div", quotient); }
static int meta_pow(lua_State *L) { return binary(L, "__pow", power); }

static Value self(lua_State *L) { return *(const Value *)luaL_checkudata(L, 1, COMPLEX); }

static int meta_unm(lua_State *L) { return push(L, -self(L)); }

static int meta_eq(lua_State *L) {
  Value a, b;
  lua_pushboolean(L,
                  read(L, 1, &a) && read(L, 2, &b) && creal(a) == creal(b) && cimag(a) == cimag(b));
  return 1;
}

/* Returns a text such as "1+2i" or "-0.5-1.5i", with as many digits as tostring gives in Lua
** 5.4. */
static int meta_tostring(lua_State *L) {
  Value z = self(L);
  char text[80];
  snprintf(text, sizeof text, "%.14g%+.14gi", creal(z), cimag(z));
  lua_pushstring(L, text);
  return 1;
}

static int meta_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

static int complex_conj(lua_State *L) { return push(L, conj(self(L))); }

static int complex_abs(lua_State *L) {
  lua_pushnumber(L, cabs(self(L)));
  return 1;
}

static int complex_angle(lua_State *L) {
  lua_pushnumber(L, carg(self(L)));
  return 1;
}

/* Implements __index: the fields real and imag, and the methods. */
static int meta_index(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"conj", complex_conj}, {"abs", complex_abs}, {"angle", complex_angle}, {NULL, NULL}};
  Value z = self(L);
  const char *field = tli_to_word(L, 2);
  if (field && strcmp(field, "real") == 0) {
    lua_pushnumber(L, creal(z));
    return 1;
  }
  if (field && strcmp(field, "imag") == 0) {
    lua_pushnumber(L, cimag(z));
    return 1;
  }
  for (const luaL_Reg *m = methods; field && m->name; m++)
    if (strcmp(field, m->name) == 0) {
      tli_push_function(L, m->func);
      return 1;
    }
  if (field && strncmp(field, "__", 2) == 0) {
    /* for names of metamethods returns nil, because programs read these fields to find the type of
    ** a value */
    lua_pushnil(L);
    return 1;
  }
  return tli_error(L,
                   "torch.complex: expected the field real or imag, or the method abs, angle or "
                   "conj, got %s",
                   tli_describe(L, tli_state(L), 2));
}

/* torch.complex(1, 2) returns a complex value. With two tensors as arguments, calls the operator
** `complex`, which is the last upvalue of this function. */
static int torch_complex(lua_State *L) {
  if (lua_type(L, 1) == LUA_TNUMBER && lua_type(L, 2) == LUA_TNUMBER) {
    tli_only(L, 2, "complex");
    return tli_push_complex(L, lua_tonumber(L, 1), lua_tonumber(L, 2));
  }
  int n = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_insert(L, 1);
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L);
}

void tli_open_complex(lua_State *L) {
  static const luaL_Reg metamethods[] = {{"__add", meta_add},
                                         {"__sub", meta_sub},
                                         {"__mul", meta_mul},
                                         {"__div", meta_div},
                                         {"__pow", meta_pow},
                                         {"__unm", meta_unm},
                                         {"__eq", meta_eq},
                                         {"__tostring", meta_tostring},
                                         {"__concat", meta_concat},
                                         {"__index", meta_index},
                                         {NULL, NULL}};
  tli_push_function(L, torch_complex); /* pushes the function with its two upvalues */
  lua_getupvalue(L, -1, 1);
  lua_getupvalue(L, -2, 2);
  lua_getfield(L, -4, "complex");
  lua_pushcclosure(L, torch_complex, 3);
  lua_setfield(L, -3, "complex");
  lua_pop(L, 1);
  luaL_newmetatable(L, COMPLEX);
  tli_set_functions(L, metamethods);
  lua_pushliteral(L, COMPLEX);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}
