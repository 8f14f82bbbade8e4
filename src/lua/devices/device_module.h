/*
** device_module.h - declarations that the files for torch.cuda and torch.sim share. Each function
** of these modules has its device type as an upvalue.
*/
#ifndef TLI_LUA_DEVICE_H
#define TLI_LUA_DEVICE_H

#include "core/device/backend.h"
#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"

/* number of the upvalue that holds the device type of a function of torch.cuda or torch.sim */
#define TLI_UP_KIND 3

static inline tl_DeviceType tli_kind(lua_State *L) {
  return (tl_DeviceType)lua_tointeger(L, lua_upvalueindex(TLI_UP_KIND));
}

static inline const tl_DeviceApi *tli_api(tl_Device device) { return tli_backend(device)->device; }

/* ---- arguments (device_module.c); `name` is "synchronize" or "Stream.wait_event" ---- */

/* Returns a function's full name for messages, such as "cuda.synchronize". The text is valid until
** the next call. */
const char *tli_device_name(tl_DeviceType type, const char *name);
/* Raises an error if a device module's function gets more than n arguments; additional nils are
** allowed. */
static inline void tli_device_only(lua_State *L, int n, const char *name) {
  if (lua_gettop(L) > n) tli_only(L, n, tli_device_name(tli_kind(L), name));
}
/* Raises the engine's failure as an error of the function `name`. */
int tli_device_fail(lua_State *L, tl_DeviceType type, const char *name);
/* Raises the error that the value at a stack index is not what was expected. */
int tli_device_refuse(lua_State *L, tl_DeviceType type, const char *name, const char *argument,
                      const char *expected, int index);
/* If the first argument is a table of options, replaces it by positional arguments. */
void tli_device_options(lua_State *L, tl_DeviceType type, const char *name,
                        const char *const *options, int n);
/* Returns the current device; raises an error if the machine does not have it. */
tl_Device tli_check_current(lua_State *L, tl_DeviceType type, const char *name);
/* Returns the device at a stack index; nil stands for the current device. Raises an error if the
** machine does not have the device. */
tl_Device tli_check_device(lua_State *L, int index, tl_DeviceType type, const char *name);
/* Returns the object, of the given class, on which a method was called. Raises an error if the
** state is closing. */
void *tli_device_self(lua_State *L, const char *class, const char *name);
/* Returns the device at a stack index, which must be the last argument: raises an error if another
** argument follows. */
static inline tl_Device tli_last_device(lua_State *L, int index, const char *name) {
  tli_device_only(L, index, name);
  return tli_check_device(L, index, tli_kind(L), name);
}
void tli_set_integer(lua_State *L, const char *name, int64_t value);

/* Adds functions to the table on top of the stack, each with the device type as an upvalue. */
void tli_set_device_functions(lua_State *L, const luaL_Reg *list, tl_DeviceType type);
/* Makes a class with the given name and methods, one of which may be __index. */
void tli_open_device_class(lua_State *L, const char *name, const luaL_Reg *methods);

/* ---- streams (stream.c) ---- */

typedef struct tli_StreamValue {
  tl_Device device;
  tl_Stream *stream; /* the stream (borrowed); streams are never freed */
} tli_StreamValue;
/* Returns the stream at a stack index, or NULL. */
tli_StreamValue *tli_to_stream(lua_State *L, int index);

/* ---- functions of every device type, and methods of tensors ---- */

extern const luaL_Reg tli_stream_functions[];        /* stream.c */
extern const luaL_Reg tli_capture_functions[];       /* graph_capture.c */
extern const luaL_Reg tli_device_memory_functions[]; /* memory_stats.c */
extern const luaL_Reg tli_device_random_functions[]; /* generator.c */
extern const luaL_Reg tli_nvidia_functions[];        /* the functions of nvidia.c for torch.cuda */
extern const luaL_Reg tli_nvtx_functions[]; /* the functions of nvidia.c for torch.cuda.nvtx */
void tli_open_streams(lua_State *L);
void tli_open_captures(lua_State *L);
void tli_open_history(lua_State *L);

#endif
