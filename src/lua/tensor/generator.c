/*
** generator.c - random generators as Lua values. A state has a default generator for the CPU and
** for each other device, and a program can make more. torch.manual_seed seeds all default
** generators.
*/
#include <stdio.h>
#include <string.h>

#include "core/platform/platform.h"
#include "lua/devices/device_module.h"
#include "lua/list_length.h"

#define GENERATOR "torch.Generator"

/* A userdata that stands for a generator: one that the userdata owns, or the state's default
** generator of a device. */
typedef struct Box {
  /* the generator (owned); NULL stands for a default generator of the state */
  tli_Generator *generator;
  tl_Device device;
} Box;

tli_Generator *tli_to_generator(lua_State *L, int index) {
  Box *box = luaL_testudata(L, index, GENERATOR);
  if (box == NULL || box->generator) return box ? box->generator : NULL;
  return tli_generator_of(&tli_state(L)->generator, box->device);
}

static tli_Generator *self(lua_State *L, const char *name) {
  tli_Generator *g = tli_to_generator(L, 1);
  if (g == NULL)
    tli_error(L, "%s: expected a torch.Generator, got %s", name,
              tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  return g;
}

/* Returns the generator of the box at index 1, for a caller that will change the generator's state.
** A device's default generator draws from the CPU's stream of random numbers until it is changed;
** so it is first made independent. */
static tli_Generator *changed(lua_State *L, const char *name) {
  tli_Generator *g = self(L, name);
  const Box *box = lua_touserdata(L, 1);
  return box->generator ? g : tli_generator_own(&tli_state(L)->generator, box->device);
}

/* ---- seeds and states -------------------------------------------------------------- */

static uint64_t check_seed(lua_State *L, int index, const char *name) {
  int64_t seed;
  if (!tli_to_whole(L, index, &seed))
    tli_error(L, "%s: seed: expected an integer, got %s", name,
              tli_describe(L, tli_state(L), lua_isnone(L, index) ? 0 : index));
  return (uint64_t)seed;
}

/* Returns an unpredictable seed, 0 or greater. */
static uint64_t new_seed(const lua_State *L) {
  uint64_t now = (uint64_t)tli_time_ns();
  uint64_t seed = now / 1000000000 * 1000000007u ^ now % 1000000000 << 20 ^ (uintptr_t)L;
  return seed & INT64_MAX;
}

/* Pushes the state of a generator: the table {seed, offset}, plain data that can be saved
** anywhere. */
static int push_state(lua_State *L, const tli_Generator *g) {
  lua_createtable(L, 2, 0);
  lua_pushinteger(L, (lua_Integer)g->seed);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, (lua_Integer)g->offset);
  lua_rawseti(L, -2, 2);
  return 1;
}

static void read_state(lua_State *L, int index, tli_Generator *g, const char *name) {
  int64_t v[2];
  bool ok = lua_type(L, index) == LUA_TTABLE;
  for (int i = 0; i < 2 && ok; i++) {
    lua_rawgeti(L, index, i + 1);
    ok = tli_to_whole(L, -1, &v[i]);
    lua_pop(L, 1);
  }
  if (!ok)
    tli_error(L, "%s: state: expected a table as given by get_rng_state, got %s", name,
              tli_describe(L, tli_state(L), lua_isnone(L, index) ? 0 : index));
  g->seed = (uint64_t)v[0];
  g->offset = (uint64_t)v[1];
}

/* ---- torch.manual_seed and similar functions ------------------------------------------------ */

static int torch_manual_seed(lua_State *L) {
  tli_only(L, 1, "manual_seed");
  tli_generator_seed_all(&tli_state(L)->generator, check_seed(L, 1, "manual_seed"));
  return 0;
}

static int torch_initial_seed(lua_State *L) {
  tli_only(L, 0, "initial_seed");
  lua_pushinteger(L, (lua_Integer)tli_state(L)->generator.seed);
  return 1;
}

static int torch_seed(lua_State *L) {
  tli_only(L, 0, "seed");
  uint64_t seed = new_seed(L);
  tli_generator_seed_all(&tli_state(L)->generator, seed);
  lua_pushinteger(L, (lua_Integer)seed);
  return 1;
}

static int torch_get_rng_state(lua_State *L) {
  tli_only(L, 0, "get_rng_state");
  return push_state(L, &tli_state(L)->generator);
}

static int torch_set_rng_state(lua_State *L) {
  read_state(L, 1, &tli_state(L)->generator, "set_rng_state");
  return 0;
}

/* ---- functions of a device type ---- */

/* Returns the state's generator for the device at a stack index; nil means the current device. */
static tli_Generator *check_generator(lua_State *L, int index, const char *name) {
  tl_Device device = tli_last_device(L, index, name);
  return tli_generator_of(&tli_state(L)->generator, device);
}

/* Returns the state's generator for the device at a stack index, after making that generator
** independent of the CPU's. */
static tli_Generator *own_generator(lua_State *L, int index, const char *name) {
  tl_Device device = tli_last_device(L, index, name);
  return tli_generator_own(&tli_state(L)->generator, device);
}

/* Seeds the state's default generator for the current device. The device type need not be open for
** that. */
static int device_manual_seed(lua_State *L) {
  tli_device_only(L, 1, "manual_seed");
  uint64_t seed = check_seed(L, 1, tli_device_name(tli_kind(L), "manual_seed"));
  tli_enter(L, tli_state(L));
  tl_Device device = {(int8_t)tli_kind(L), (int8_t)tli_current_device(tli_kind(L))};
  tli_generator_seed(tli_generator_own(&tli_state(L)->generator, device), seed);
  return 0;
}

static void seed_kind(lua_State *L, uint64_t seed) {
  for (int i = 0; i < TL_MAX_DEVICES; i++) {
    tl_Device device = {(int8_t)tli_kind(L), (int8_t)i};
    tli_generator_seed(tli_generator_own(&tli_state(L)->generator, device), seed);
  }
}

static int device_manual_seed_all(lua_State *L) {
  tli_device_only(L, 1, "manual_seed_all");
  seed_kind(L, check_seed(L, 1, tli_device_name(tli_kind(L), "manual_seed_all")));
  return 0;
}

static int device_seed(lua_State *L) {
  tli_device_only(L, 0, "seed");
  uint64_t seed = new_seed(L);
  tli_Generator *g = (lua_settop(L, 0), own_generator(L, 1, "seed"));
  tli_generator_seed(g, seed);
  lua_pushinteger(L, (lua_Integer)seed);
  return 1;
}

static int device_seed_all(lua_State *L) {
  tli_device_only(L, 0, "seed_all");
  uint64_t seed = new_seed(L);
  seed_kind(L, seed);
  lua_pushinteger(L, (lua_Integer)seed);
  return 1;
}

static int device_initial_seed(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_generator(L, 1, "initial_seed")->seed);
  return 1;
}

static int device_get_rng_state(lua_State *L) {
  return push_state(L, check_generator(L, 1, "get_rng_state"));
}

static int device_set_rng_state(lua_State *L) {
  tli_Generator *g = own_generator(L, 2, "set_rng_state");
  read_state(L, 1, g, tli_device_name(tli_kind(L), "set_rng_state"));
  return 0;
}

static int device_get_rng_state_all(lua_State *L) {
  tli_device_only(L, 0, "get_rng_state_all");
  int count = tli_device_count(tli_kind(L));
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    tl_Device device = {(int8_t)tli_kind(L), (int8_t)i};
    push_state(L, tli_generator_of(&tli_state(L)->generator, device));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int device_set_rng_state_all(lua_State *L) {
  tli_device_only(L, 1, "set_rng_state_all");
  tl_DeviceType type = tli_kind(L);
  int count = tli_device_count(type);
  tli_Generator read[TL_MAX_DEVICES];
  if (lua_type(L, 1) != LUA_TTABLE || (int)tli_list_length(L, 1) != count)
    tli_device_refuse(L, type, "set_rng_state_all", "states", "a list of one for each device", 1);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, 1, i + 1);
    read_state(L, lua_gettop(L), &read[i], tli_device_name(type, "set_rng_state_all"));
    lua_pop(L, 1);
  }
  for (int i = 0; i < count; i++) {
    tl_Device device = {(int8_t)type, (int8_t)i};
    tli_Generator *g = tli_generator_own(&tli_state(L)->generator, device);
    g->seed = read[i].seed;
    g->offset = read[i].offset;
  }
  return 0;
}

/* ---- generators that programs make ----------------------------------------------- */

static Box *push_box(lua_State *L, tl_Device device) {
  Box *box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = (Box){NULL, device};
  luaL_setmetatable(L, GENERATOR);
  return box;
}

/* Returns the device that is given as the only argument or as the option `device`. */
static tl_Device check_home(lua_State *L) {
  tl_Device device = TLI_CPU;
  int n = lua_gettop(L);
  if (n > 1) tli_error(L, "Generator: expected at most 1 argument, got %d", n);
  if (lua_type(L, 1) == LUA_TTABLE) {
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
      const char *key = tli_to_word(L, 2);
      if (key == NULL || strcmp(key, "device") != 0)
        tli_error(L, "Generator: unknown option %s; there is device",
                  tli_describe(L, tli_state(L), 2));
    }
    lua_getfield(L, 1, "device");
    lua_remove(L, 1);
  }
  if (lua_isnoneornil(L, 1)) return device;
  if (!tli_to_device(L, 1, &device))
    tli_error(L, "Generator: device: expected a device such as \"cpu\" or \"cuda:0\", got %s%s",
              tli_describe(L, tli_state(L), 1), tli_to_word(L, 1) ? tli_device_hint() : "");
  if (tli_backend_open(device) == NULL) tli_raise_as(L, "Generator");
  return device;
}

static int torch_generator(lua_State *L) {
  Box *box = push_box(L, check_home(L));
  tli_note_owner(L);
  box->generator = tli_generator_new();
  return box->generator ? 1 : tli_raise_as(L, "Generator");
}

/* _default_generator(device) returns the state's generator for the device. */
static int device_default_generator(lua_State *L) {
  push_box(L, tli_check_device(L, 1, tli_kind(L), "default_generators"));
  return 1;
}

static int generator_gc(lua_State *L) {
  Box *box = luaL_checkudata(L, 1, GENERATOR);
  tli_generator_release(box->generator);
  box->generator = NULL;
  return 0;
}

static int generator_manual_seed(lua_State *L) {
  tli_generator_seed(changed(L, "manual_seed"), check_seed(L, 2, "manual_seed"));
  lua_settop(L, 1);
  return 1;
}

static int generator_seed(lua_State *L) {
  uint64_t seed = new_seed(L);
  tli_generator_seed(changed(L, "seed"), seed);
  lua_pushinteger(L, (lua_Integer)seed);
  return 1;
}

static int generator_initial_seed(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)self(L, "initial_seed")->seed);
  return 1;
}

static int generator_get_state(lua_State *L) { return push_state(L, self(L, "get_state")); }

static int generator_set_state(lua_State *L) {
  read_state(L, 2, changed(L, "set_state"), "set_state");
  lua_settop(L, 1);
  return 1;
}

/* PyTorch measures the offset of a generator in random numbers, and the engine in blocks of four
** random numbers. */
#define NUMBERS_PER_BLOCK 4

static int generator_get_offset(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)(self(L, "get_offset")->offset * NUMBERS_PER_BLOCK));
  return 1;
}

static int generator_set_offset(lua_State *L) {
  int64_t offset;
  tli_Generator *g = changed(L, "set_offset");
  if (!tli_to_whole(L, 2, &offset) || offset < 0 || offset % NUMBERS_PER_BLOCK != 0)
    return tli_error(L, "set_offset: offset: expected a multiple of %d of at least 0, got %s",
                     NUMBERS_PER_BLOCK, tli_describe(L, tli_state(L), lua_isnone(L, 2) ? 0 : 2));
  g->offset = (uint64_t)offset / NUMBERS_PER_BLOCK;
  lua_settop(L, 1);
  return 1;
}

static int generator_clone_state(lua_State *L) {
  const tli_Generator *g = self(L, "clone_state");
  Box *box = push_box(L, ((const Box *)lua_touserdata(L, 1))->device);
  tli_note_owner(L);
  box->generator = tli_generator_new();
  if (box->generator == NULL) return tli_raise_as(L, "clone_state");
  tli_generator_seed(box->generator, g->seed);
  box->generator->offset = g->offset;
  return 1;
}

/* graphsafe_get_state() returns a generator that shares this generator's state.
** graphsafe_set_state(other) makes this generator share the state of `other`. */
static int generator_graphsafe_get_state(lua_State *L) {
  tli_Generator *g = self(L, "graphsafe_get_state");
  const Box *box = (const Box *)lua_touserdata(L, 1);
  bool own = box->generator != NULL;
  Box *shared = push_box(L, box->device);
  tli_note_owner(L);
  if (own) shared->generator = tli_generator_retain(g);
  return 1;
}

static int generator_graphsafe_set_state(lua_State *L) {
  self(L, "graphsafe_set_state");
  Box *box = (Box *)lua_touserdata(L, 1), *other = (Box *)luaL_testudata(L, 2, GENERATOR);
  if (other == NULL || other->generator == NULL)
    return tli_error(L, "graphsafe_set_state: state: expected a torch.Generator%s, got %s",
                     other ? " that a program made" : "",
                     other ? "a default one"
                           : tli_describe(L, tli_state(L), lua_isnone(L, 2) ? 0 : 2));
  if (box->generator == NULL)
    return tli_error(L, "graphsafe_set_state: expected a torch.Generator that a program made, got "
                        "a default one, whose state set_state sets");
  tli_Generator *before = box->generator;
  box->generator = tli_generator_retain(other->generator);
  tli_generator_release(before);
  lua_settop(L, 1);
  return 1;
}

static int generator_index(lua_State *L) {
  const char *key = tli_to_word(L, 2);
  self(L, "index");
  if (key && strcmp(key, "device") == 0)
    return tli_push_device(L, ((const Box *)lua_touserdata(L, 1))->device);
  lua_getmetatable(L, 1);
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

tl_Device tli_generator_device(lua_State *L, int index) {
  return ((const Box *)luaL_checkudata(L, index, GENERATOR))->device;
}

/* ---- opening ----------------------------------------------------------------------- */

const luaL_Reg tli_device_random_functions[] = {{"manual_seed", device_manual_seed},
                                                {"manual_seed_all", device_manual_seed_all},
                                                {"seed", device_seed},
                                                {"seed_all", device_seed_all},
                                                {"initial_seed", device_initial_seed},
                                                {"get_rng_state", device_get_rng_state},
                                                {"set_rng_state", device_set_rng_state},
                                                {"get_rng_state_all", device_get_rng_state_all},
                                                {"set_rng_state_all", device_set_rng_state_all},
                                                {"_default_generator", device_default_generator},
                                                {NULL, NULL}};

void tli_open_generators(lua_State *L) {
  static const luaL_Reg functions[] = {{"manual_seed", torch_manual_seed},
                                       {"initial_seed", torch_initial_seed},
                                       {"seed", torch_seed},
                                       {"get_rng_state", torch_get_rng_state},
                                       {"set_rng_state", torch_set_rng_state},
                                       {"Generator", torch_generator},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"manual_seed", generator_manual_seed},
                                     {"seed", generator_seed},
                                     {"initial_seed", generator_initial_seed},
                                     {"get_state", generator_get_state},
                                     {"set_state", generator_set_state},
                                     {"get_offset", generator_get_offset},
                                     {"set_offset", generator_set_offset},
                                     {"clone_state", generator_clone_state},
                                     {"graphsafe_get_state", generator_graphsafe_get_state},
                                     {"graphsafe_set_state", generator_graphsafe_set_state},
                                     {"__index", generator_index},
                                     {"__gc", generator_gc},
                                     {NULL, NULL}};
  tli_set_functions(L, functions);
  tli_open_device_class(L, GENERATOR, methods);
  push_box(L, TLI_CPU);
  lua_setfield(L, -2, "default_generator");
}
