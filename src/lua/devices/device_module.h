/*
** device_module.h - what the files of torch.cuda and torch.sim share. Their functions know the
** kind of device that they are about.
*/
#ifndef TLI_LUA_DEVICE_H
#define TLI_LUA_DEVICE_H

#include "core/device/backend.h"
#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"

#define TLI_UP_KIND 3 /* upvalue: the kind of device that a function is about */

static inline tl_DeviceType tli_kind(lua_State *L) {
  return (tl_DeviceType)lua_tointeger(L, lua_upvalueindex(TLI_UP_KIND));
}

static inline const tl_DeviceApi *tli_api(tl_Device device) { return tli_backend(device)->device; }

/* ---- arguments (device_module.c); `name` is "synchronize" or "Stream.wait_event" ---- */

/* "cuda.synchronize", for messages; good until the next one. */
const char *tli_device_name(tl_DeviceType type, const char *name);
/* Raises the engine's failure, under that name. */
int tli_device_fail(lua_State *L, tl_DeviceType type, const char *name);
/* Raises that an argument is not what was expected. */
int tli_device_refuse(lua_State *L, tl_DeviceType type, const char *name, const char *argument,
                      const char *expected, int index);
/* Options in a table as first argument take the places of positional ones. */
void tli_device_options(lua_State *L, tl_DeviceType type, const char *name,
                        const char *const *options, int n);
/* The device that is current, which must be there. */
tl_Device tli_check_current(lua_State *L, tl_DeviceType type, const char *name);
/* The device at an index, which must be there; nil is the current one. */
tl_Device tli_check_device(lua_State *L, int index, tl_DeviceType type, const char *name);
/* The object that a method was called on, while the state is open. */
void *tli_device_self(lua_State *L, const char *class, const char *name);
void tli_set_integer(lua_State *L, const char *name, int64_t value);

/* Sets functions that know their kind of device in the table on top. */
void tli_set_device_functions(lua_State *L, const luaL_Reg *list, tl_DeviceType type);
/* Makes a class of that name with methods, which may have an __index of their own. */
void tli_open_device_class(lua_State *L, const char *name, const luaL_Reg *methods);

/* ---- streams (stream.c) ---- */

typedef struct tli_StreamValue {
  tl_Device device;
  tl_Stream *stream; /* borrowed; streams stay for good */
} tli_StreamValue;
/* The stream at an index, or NULL. */
tli_StreamValue *tli_to_stream(lua_State *L, int index);

/* ---- the parts: functions of every kind, and methods of tensors; classes are opened ---- */

extern const luaL_Reg tli_stream_functions[];        /* stream.c */
extern const luaL_Reg tli_capture_functions[];       /* graph_capture.c */
extern const luaL_Reg tli_device_memory_functions[]; /* memory_stats.c */
extern const luaL_Reg tli_device_random_functions[]; /* generator.c */
extern const luaL_Reg tli_nvidia_functions[];        /* nvidia.c; of cuda alone */
extern const luaL_Reg tli_nvtx_functions[];          /* nvidia.c; of cuda.nvtx */
void tli_open_streams(lua_State *L);
void tli_open_captures(lua_State *L);
void tli_open_history(lua_State *L);

#endif
