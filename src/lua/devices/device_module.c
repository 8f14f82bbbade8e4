/*
** device_module.c - the modules torch.cuda and torch.sim, which share their code. This file has
** PyTorch's functions for devices, and helpers for the other files of these modules. Device indices
** count from 0.
**
** The current device of each device type and the current stream of a device are modes of the
** Lua thread (modes/thread_modes.h).
*/
#include "lua/devices/device_module.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/pinned.h"

/* ---- arguments --------------------------------------------------------------------- */

const char *tli_device_name(tl_DeviceType type, const char *name) {
  static _Thread_local char text[64];
  snprintf(text, sizeof text, "%s.%s", tli_device_type_name(type), name);
  return text;
}

int tli_device_fail(lua_State *L, tl_DeviceType type, const char *name) {
  return tli_raise_as(L, tli_device_name(type, name));
}

int tli_device_refuse(lua_State *L, tl_DeviceType type, const char *name, const char *argument,
                      const char *expected, int index) {
  return tli_error(L, "%s: %s: expected %s, got %s", tli_device_name(type, name), argument,
                   expected, tli_describe(L, tli_state(L), lua_isnone(L, index) ? 0 : index));
}

void tli_device_options(lua_State *L, tl_DeviceType type, const char *name,
                        const char *const *options, int n) {
  char hint[80];
  if (lua_type(L, 1) != LUA_TTABLE) {
    if (lua_gettop(L) > n)
      tli_error(L, "%s: expected at most %d arguments, got %d", tli_device_name(type, name), n,
                lua_gettop(L));
    lua_settop(L, n);
    return;
  }
  lua_settop(L, 1);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *key = tli_to_word(L, 2);
    if (key == NULL)
      tli_error(L, "%s: expected options by name, got the key %s", tli_device_name(type, name),
                tli_describe(L, tli_state(L), 2));
    bool known = false;
    tli_Suggestion best = TLI_SUGGESTION(key);
    for (int i = 0; i < n && !known; i++) {
      known = strcmp(options[i], key) == 0;
      tli_suggestion_try(&best, options[i]);
    }
    if (!known)
      tli_error(L, "%s: unknown option '%.40s'%s", tli_device_name(type, name), key,
                tli_suggestion_text(&best, hint, sizeof hint));
  }
  for (int i = 0; i < n; i++) lua_getfield(L, 1, options[i]);
  lua_remove(L, 1);
}

/* Raises an error if the library's state is closed. A finalizer may still call the library at that
** time. */
static void refuse_closed(lua_State *L, const char *name) {
  if (tli_state(L)->ledger == NULL) tli_error(L, "%s: the Lua state is closing", name);
}

/* Returns whether the value names a device of the type; nil means the current device. */
static bool to_device(lua_State *L, int index, tl_DeviceType type, tl_Device *device) {
  int64_t number = tli_current_device(type);
  if (tli_to_device_name(L, index))
    return tli_to_device(L, index, device) && device->type == (int8_t)type;
  if (!lua_isnoneornil(L, index) && !tli_to_whole(L, index, &number)) return false;
  *device = (tl_Device){(int8_t)type, (int8_t)number};
  return number >= 0 && number < TL_MAX_DEVICES;
}

tl_Device tli_check_current(lua_State *L, tl_DeviceType type, const char *name) {
  refuse_closed(L, tli_device_name(type, name));
  tli_enter(L, tli_state(L));
  tl_Device device = {(int8_t)type, (int8_t)tli_current_device(type)};
  if (tli_backend_open(device) == NULL) tli_device_fail(L, type, name);
  return device;
}

tl_Device tli_check_device(lua_State *L, int index, tl_DeviceType type, const char *name) {
  tl_Device device;
  char expected[64];
  refuse_closed(L, tli_device_name(type, name));
  tli_enter(L, tli_state(L));
  if (!to_device(L, index, type, &device)) {
    snprintf(expected, sizeof expected, "a number from 0 or a device such as \"%s:0\"",
             tli_device_type_name(type));
    tli_device_refuse(L, type, name, "device", expected, index);
  }
  if (tli_backend_open(device) == NULL) tli_device_fail(L, type, name);
  return device;
}

void *tli_device_self(lua_State *L, const char *class, const char *name) {
  void *object = luaL_testudata(L, 1, class);
  if (object == NULL)
    tli_error(L, "%s: expected a %s, got %s", name, class,
              tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  refuse_closed(L, name);
  return object;
}

void tli_set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

/* ---- available devices --------------------------------------------------------------- */

static int device_is_available(lua_State *L) {
  tli_device_only(L, 0, "is_available");
  lua_pushboolean(L, tli_device_count(tli_kind(L)) > 0);
  return 1;
}

static int device_count(lua_State *L) {
  tli_device_only(L, 0, "device_count");
  lua_pushinteger(L, tli_device_count(tli_kind(L)));
  return 1;
}

static int device_is_initialized(lua_State *L) {
  tli_device_only(L, 0, "is_initialized");
  lua_pushboolean(L, tli_backend((tl_Device){(int8_t)tli_kind(L), 0}) != NULL);
  return 1;
}

static int device_init(lua_State *L) {
  tli_device_only(L, 0, "init");
  tli_check_current(L, tli_kind(L), "init");
  return 0;
}

/* ---- the current device -------------------------------------------------------------- */

static int device_current_device(lua_State *L) {
  tli_device_only(L, 0, "current_device");
  lua_pushinteger(L, tli_check_current(L, tli_kind(L), "current_device").index);
  return 1;
}

/* _device_index(device, name) returns the index of a device; nil stands for the current device. */
static int device_index(lua_State *L) {
  const char *name = luaL_optstring(L, 2, "device");
  lua_pushinteger(L, tli_check_device(L, 1, tli_kind(L), name).index);
  return 1;
}

/* Returns the change of a mode that makes the device at index 1 the current device. */
static tli_Change change_of(lua_State *L, const char *name) {
  tl_DeviceType type = tli_kind(L);
  if (lua_isnoneornil(L, 1)) tli_device_refuse(L, type, name, "device", "a device", 1);
  return (tli_Change){(int)TLI_MODE_DEVICE + (int)type, tli_check_device(L, 1, type, name).index};
}

static int device_set_device(lua_State *L) {
  tli_device_only(L, 1, "set_device");
  tli_Change change = change_of(L, "set_device");
  tli_change_modes(L, 1, &change);
  return 0;
}

static int device_device(lua_State *L) {
  tli_Change change = change_of(L, "device");
  lua_remove(L, 1);
  return tli_mode_scope(L, tli_device_name(tli_kind(L), "device"), 1, &change);
}

/* ---- properties ----------------------------------------------------------------- */

static void check_properties(lua_State *L, const char *name, tl_DeviceProperties *out) {
  tl_Device device = tli_last_device(L, 1, name);
  if (!tli_api(device)->properties(device.index, out)) tli_device_fail(L, tli_kind(L), name);
}

static int device_get_device_name(lua_State *L) {
  tl_DeviceProperties p;
  check_properties(L, "get_device_name", &p);
  lua_pushstring(L, p.name);
  return 1;
}

static int device_get_device_capability(lua_State *L) {
  tl_DeviceProperties p;
  check_properties(L, "get_device_capability", &p);
  lua_pushinteger(L, p.major);
  lua_pushinteger(L, p.minor);
  return 2;
}

static int device_get_device_properties(lua_State *L) {
  tl_DeviceProperties p;
  check_properties(L, "get_device_properties", &p);
  lua_createtable(L, 0, 24);
  lua_pushstring(L, p.name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, p.uuid);
  lua_setfield(L, -2, "uuid");
  lua_pushboolean(L, p.is_integrated);
  lua_setfield(L, -2, "is_integrated");
  lua_pushboolean(L, p.is_multi_gpu_board);
  lua_setfield(L, -2, "is_multi_gpu_board");
#define X(field) tli_set_integer(L, #field, p.field);
  X(total_memory)
  X(major)
  X(minor)
  X(multi_processor_count)
  X(warp_size)
  X(max_threads_per_block)
  X(max_threads_per_multi_processor)
  X(regs_per_multiprocessor)
  X(L2_cache_size)
  X(shared_memory_per_block)
  X(shared_memory_per_block_optin)
  X(shared_memory_per_multiprocessor)
  X(clock_rate)
  X(memory_clock_rate)
  X(memory_bus_width)
  X(pci_bus_id)
  X(pci_device_id)
  X(pci_domain_id)
#undef X
  return 1;
}

/* Returns whether kernels support bfloat16; without a device returns false instead of raising an
** error. */
static int device_is_bf16_supported(lua_State *L) {
  tli_device_only(L, 0, "is_bf16_supported");
  tl_DeviceProperties p = {0};
  if (tli_device_count(tli_kind(L)) > 0) {
    lua_settop(L, 0);
    check_properties(L, "is_bf16_supported", &p);
  }
  lua_pushboolean(L, p.bf16);
  return 1;
}

/* Returns whether the device's matrix units can multiply in TF32, as they can from compute
** capability 8.0 on. */
static int device_is_tf32_supported(lua_State *L) {
  tli_device_only(L, 0, "is_tf32_supported");
  tl_DeviceProperties p = {0};
  if (tli_device_count(tli_kind(L)) > 0) {
    lua_settop(L, 0);
    check_properties(L, "is_tf32_supported", &p);
  }
  lua_pushboolean(L, p.major >= 8);
  return 1;
}

/* ipc_collect() does nothing. In PyTorch it frees memory that other processes have used; tlua does
** not share device memory. */
static int device_ipc_collect(lua_State *L) {
  tli_device_only(L, 0, "ipc_collect");
  tli_check_current(L, tli_kind(L), "ipc_collect");
  return 0;
}

static int device_can_access_peer(lua_State *L) {
  static const char name[] = "can_device_access_peer";
  tl_DeviceType type = tli_kind(L);
  if (lua_isnoneornil(L, 2)) tli_device_refuse(L, type, name, "peer_device", "a device", 2);
  tl_Device device = tli_check_device(L, 1, type, name), peer = tli_last_device(L, 2, name);
  lua_pushboolean(L, tli_api(device)->can_access_peer(device.index, peer.index));
  return 1;
}

/* _library_version(name) returns the version of a library that the backend uses; nil if the library
** is missing. */
static int device_library_version(lua_State *L) {
  const tl_Backend *backend = tli_device_count(tli_kind(L)) > 0
                                  ? tli_backend_open((tl_Device){(int8_t)tli_kind(L), 0})
                                  : NULL;
  int64_t version = backend ? backend->device->library_version(luaL_checkstring(L, 1)) : 0;
  if (version == 0) return 0;
  lua_pushinteger(L, version);
  return 1;
}

/* _counters() returns a table from the names of code paths in kernels to the number of times that
** each path was taken; {} without a device. */
static int device_counters(lua_State *L) {
  const tl_Backend *backend = tli_device_count(tli_kind(L)) > 0
                                  ? tli_backend_open((tl_Device){(int8_t)tli_kind(L), 0})
                                  : NULL;
  const char *name;
  int64_t count;
  lua_newtable(L);
  if (backend == NULL || backend->device->counter == NULL) return 1;
  for (int i = 0; (name = backend->device->counter(i, &count)) != NULL; i++)
    tli_set_integer(L, name, count);
  return 1;
}

/* _architectures() returns the architectures for which kernels are compiled, such as "80 90
** compute_80"; nil without a device. */
static int device_architectures(lua_State *L) {
  if (tli_device_count(tli_kind(L)) == 0) return 0;
  const tl_Backend *backend = tli_backend_open((tl_Device){(int8_t)tli_kind(L), 0});
  lua_pushstring(L, backend ? backend->device->architectures : NULL);
  return 1;
}

/* ---- waiting ----------------------------------------------------------------------- */

static int device_synchronize(lua_State *L) {
  tl_Device device = tli_last_device(L, 1, "synchronize");
  if (!tli_api(device)->sync(device)) return tli_device_fail(L, tli_kind(L), "synchronize");
  tli_pinned_reap();
  return 0;
}

static int device_waits(lua_State *L) {
  tl_Device device = tli_last_device(L, 1, "waits");
  lua_pushinteger(L, tli_api(device)->waits(device));
  return 1;
}

/* ---- settings of a device type ------------------------------------------------------------ */

/* configure{seed = 1, memory = 2^20, fail_at = 3} changes settings of the simulated device. */
static int device_configure(lua_State *L) {
  tl_DeviceType type = tli_kind(L);
  tl_Device device = tli_check_current(L, type, "configure");
  if (lua_type(L, 1) != LUA_TTABLE)
    tli_device_refuse(L, type, "configure", "settings", "a table of names and numbers", 1);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *key = tli_to_word(L, -2);
    int64_t value;
    if (key == NULL)
      tli_device_refuse(L, type, "configure", "settings", "names", lua_absindex(L, -2));
    if (!tli_to_whole(L, -1, &value) || value < 0)
      tli_device_refuse(L, type, "configure", key, "an integer from 0 on", lua_gettop(L));
    if (!tli_api(device)->configure(key, value)) return tli_device_fail(L, type, "configure");
  }
  return 0;
}

/* ---- opening ----------------------------------------------------------------------- */

static const luaL_Reg functions[] = {
    {"is_available", device_is_available},
    {"is_initialized", device_is_initialized},
    {"init", device_init},
    {"device_count", device_count},
    {"current_device", device_current_device},
    {"set_device", device_set_device},
    {"device", device_device},
    {"get_device_name", device_get_device_name},
    {"get_device_capability", device_get_device_capability},
    {"get_device_properties", device_get_device_properties},
    {"is_bf16_supported", device_is_bf16_supported},
    {"can_device_access_peer", device_can_access_peer},
    {"_counters", device_counters},
    {"_library_version", device_library_version},
    {"_architectures", device_architectures},
    {"_device_index", device_index},
    {"ipc_collect", device_ipc_collect},
    {"is_tf32_supported", device_is_tf32_supported},
    {"synchronize", device_synchronize},
    {"waits", device_waits},
    {NULL, NULL},
};

void tli_set_device_functions(lua_State *L, const luaL_Reg *list, tl_DeviceType type) {
  for (; list->name; list++) {
    tli_push_function(L, list->func);
    lua_getupvalue(L, -1, TLI_UP_STATE);
    lua_getupvalue(L, -2, TLI_UP_META);
    lua_pushinteger(L, type);
    lua_pushcclosure(L, list->func, TLI_UP_KIND);
    lua_setfield(L, -3, list->name);
    lua_pop(L, 1);
  }
}

void tli_open_device_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_set_functions(L, methods);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

void tli_open_devices(lua_State *L) {
  static const luaL_Reg of_sim[] = {{"configure", device_configure}, {NULL, NULL}};
  static const luaL_Reg *const parts[] = {functions, tli_stream_functions, tli_capture_functions,
                                          tli_device_memory_functions, tli_device_random_functions};
  tli_open_streams(L);
  tli_open_captures(L);
  tli_open_history(L);
  for (int type = TL_CPU + 1; type < TL_META; type++) {
    lua_newtable(L);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
      tli_set_device_functions(L, parts[i], (tl_DeviceType)type);
    if (type == TL_SIM) tli_set_device_functions(L, of_sim, TL_SIM);
    if (type == TL_CUDA) {
      tli_set_device_functions(L, tli_nvidia_functions, TL_CUDA);
      lua_newtable(L);
      tli_set_device_functions(L, tli_nvtx_functions, TL_CUDA);
      lua_setfield(L, -2, "_nvtx");
    }
    lua_setfield(L, -2, tli_device_type_name(type));
  }
}
