/*
** device_value.c - torch.device "cuda:1" returns a device as a value with the fields type and
** index. Functions that take a device's name also take such a value.
**
** A Lua state has only one value for each name. So == compares values, a value can be the key of a
** table, and reading x.device allocates nothing.
*/
#include <stdio.h>
#include <string.h>

#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"

#define DEVICE "torch.device"

typedef struct Value {
  tl_Device device;
  bool numbered;
  char name[16]; /* a name such as "cuda" or "cuda:1" */
} Value;

/* The address is a key of the registry, whose value is a table of all torch.device values. The keys
** of the table are the devices' names, and also number_of(device) for a device that has an
** index. */
static const char values_key = 0;

const char *tli_to_device_name(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TSTRING) return tli_to_word(L, index);
  Value *value = (Value *)luaL_testudata(L, index, DEVICE);
  return value ? value->name : NULL;
}

const char *tli_device_hint(void) {
  static _Thread_local char text[120];
  snprintf(text, sizeof text, "; the devices are ");
  for (int type = 0; type < TL_NDEVICETYPES; type++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", type ? ", " : "", tli_device_type_name(type));
  }
  return text;
}

static int refuse(lua_State *L, const char *argument, int index) {
  bool word = tli_to_word(L, index) != NULL;
  return tli_error(L, "device: %s: expected a device such as \"cpu\" or \"cuda:0\", got %s%s",
                   argument, tli_describe(L, tli_state(L), lua_isnone(L, index) ? 0 : index),
                   word ? tli_device_hint() : "");
}

/* Pushes the torch.device of a device: "cuda:0" if `numbered`, otherwise "cuda". */
static int push_value(lua_State *L, tl_Device device, bool numbered) {
  char name[16];
  const char *kind = tli_device_type_name(device.type);
  if (numbered)
    snprintf(name, sizeof name, "%s:%d", kind, device.index);
  else
    snprintf(name, sizeof name, "%s", kind);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
  lua_pushstring(L, name);
  if (lua_rawget(L, -2) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    Value *value = (Value *)lua_newuserdatauv(L, sizeof *value, 0);
    *value = (Value){device, numbered, ""};
    memcpy(value->name, name, sizeof name);
    luaL_setmetatable(L, DEVICE);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, name);
  }
  lua_remove(L, -2);
  return 1;
}

static lua_Integer number_of(tl_Device device) {
  return device.type * TL_MAX_DEVICES + device.index;
}

int tli_push_device(lua_State *L, tl_Device device) {
  if (device.type < 0) {
    lua_pushnil(L);
    return 1;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
  if (lua_rawgeti(L, -1, number_of(device)) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    bool single = device.type == TL_CPU || (device.type == TL_META && device.index == 0);
    push_value(L, device, !single);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, number_of(device));
  }
  lua_remove(L, -2);
  return 1;
}

/* Returns the number at a stack index if it is a valid device index; otherwise returns -1. */
static int to_number(lua_State *L, int index) {
  int64_t number;
  bool whole = tli_to_whole(L, index, &number);
  return whole && number >= 0 && number < TL_MAX_DEVICES ? (int)number : -1;
}

/* torch.device(name), torch.device(type, index) and torch.device{type =, index =} return a device;
** torch.device(index) returns a CUDA device. With a function as the second argument, calls
** torch.default_device, as PyTorch's `with torch.device(...)` does. */
static int torch_device(lua_State *L) {
  tl_Device device;
  if (lua_type(L, 2) == LUA_TFUNCTION) return tli_default_device_scope(L);
  if (lua_type(L, 1) == LUA_TTABLE) {
    static const char *const options[] = {"type", "index"};
    for (lua_settop(L, 1), lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
      const char *key = tli_to_word(L, 2);
      if (key == NULL || (strcmp(key, "type") != 0 && strcmp(key, "index") != 0))
        return tli_error(L, "device: unknown option %s; there are type and index",
                         key ? key : luaL_typename(L, 2));
    }
    for (int i = 0; i < 2; i++) lua_getfield(L, 1, options[i]);
    lua_remove(L, 1);
  } else if (lua_gettop(L) > 2) {
    return tli_error(L, "device: expected at most 2 arguments, got %d", lua_gettop(L));
  } else if (lua_gettop(L) < 2 && luaL_testudata(L, 1, DEVICE)) {
    return 1;
  } else if (lua_gettop(L) < 2 && to_number(L, 1) >= 0) {
    return push_value(L, (tl_Device){TL_CUDA, (int8_t)to_number(L, 1)}, true);
  }
  const char *name = tli_to_device_name(L, 1);
  if (name == NULL || !tli_to_device(L, 1, &device)) return refuse(L, "type", 1);
  bool numbered = strchr(name, ':') != NULL;
  if (lua_isnoneornil(L, 2)) return push_value(L, device, numbered);
  if (numbered)
    return tli_error(L, "device: index: %s has a number already, got %s", name,
                     tli_describe(L, tli_state(L), 2));
  int number = to_number(L, 2);
  if (number < 0 || (device.type == TL_CPU && number > 0))
    return tli_error(L, "device: index: expected a device's number, from 0, got %s",
                     tli_describe(L, tli_state(L), 2));
  device.index = (int8_t)number;
  return push_value(L, device, true);
}

/* _to_device(value) returns the torch.device of a name or of a torch.device; nil for other
** values. */
static int torch_to_device(lua_State *L) {
  tl_Device device;
  if (tli_to_device(L, 1, &device))
    return push_value(L, device, strchr(tli_to_device_name(L, 1), ':') != NULL);
  lua_pushnil(L);
  return 1;
}

static int device_index(lua_State *L) {
  const Value *value = (const Value *)luaL_checkudata(L, 1, DEVICE);
  const char *field = tli_to_word(L, 2);
  if (field && strcmp(field, "type") == 0) {
    lua_pushstring(L, tli_device_type_name(value->device.type));
  } else if (field && strcmp(field, "index") == 0) {
    if (value->numbered)
      lua_pushinteger(L, value->device.index);
    else
      lua_pushnil(L);
  } else if (field && strncmp(field, "__", 2) == 0) {
    /* returns nil for names of metamethods, because programs read these fields to find out the type
    ** of a value */
    lua_pushnil(L);
  } else {
    return tli_error(L,
                     "torch.device: expected the field type or index, got %s; strings' methods "
                     "need tostring(device)",
                     tli_describe(L, tli_state(L), 2));
  }
  return 1;
}

static int device_tostring(lua_State *L) {
  lua_pushstring(L, ((const Value *)luaL_checkudata(L, 1, DEVICE))->name);
  return 1;
}

static int device_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

void tli_open_torch_device(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"device", torch_device}, {"_to_device", torch_to_device}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__index", device_index},
                                         {"__tostring", device_tostring},
                                         {"__concat", device_concat},
                                         {NULL, NULL}};
  tli_set_functions(L, functions);
  luaL_newmetatable(L, DEVICE);
  tli_set_functions(L, metamethods);
  lua_pushliteral(L, DEVICE);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &values_key);
}
