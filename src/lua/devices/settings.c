/*
** settings.c - the function by which lua/tlua/backends.lua reads and changes the settings of
** kernels.
*/
#include "core/device/backend.h"
#include "core/device/settings.h"
#include "lua/tensor/value.h"

/* _setting(name) returns a setting, a number; _setting(name, value) changes the setting. */
static int torch_setting(lua_State *L) {
  static const char *const names[] = {[TL_MATMUL_PRECISION] = "matmul_precision",
                                      [TL_MATMUL_REDUCED_FP16] = "matmul_reduced_fp16",
                                      [TL_MATMUL_REDUCED_BF16] = "matmul_reduced_bf16",
                                      [TL_CUDNN_ENABLED] = "cudnn_enabled",
                                      [TL_CUDNN_TF32] = "cudnn_tf32",
                                      [TL_CUDNN_BENCHMARK] = "cudnn_benchmark",
                                      [TL_CUDNN_BENCHMARK_LIMIT] = "cudnn_benchmark_limit",
                                      [TL_CUDNN_DETERMINISTIC] = "cudnn_deterministic",
                                      [TL_DETERMINISTIC] = "deterministic",
                                      [TL_FILL_UNINITIALIZED] = "fill_uninitialized",
                                      [TL_SYNC_DEBUG] = "sync_debug",
                                      [TL_DISK_CACHE] = "disk_cache",
                                      [TL_FUSION] = "fusion",
                                      [TL_SDP_BACKENDS] = "sdp_backends",
                                      [TL_NSETTINGS] = NULL};
  tl_Setting which = (tl_Setting)luaL_checkoption(L, 1, NULL, names);
  if (!lua_isnoneornil(L, 2)) tli_set_setting(which, luaL_checkinteger(L, 2));
  lua_pushinteger(L, tli_setting(which));
  return 1;
}

/* _portable() returns whether the CPU's kernels use only portable loops; _portable(on) selects or
** deselects these loops. */
static int torch_portable(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) {
    luaL_checktype(L, 1, LUA_TBOOLEAN);
    if (!tl_set_portable(lua_toboolean(L, 1))) return tli_raise(L);
  }
  lua_pushboolean(L, tlk_portable());
  return 1;
}

void tli_open_settings(lua_State *L) {
  lua_pushcfunction(L, torch_portable);
  lua_setfield(L, -2, "_portable");
  lua_pushcfunction(L, torch_setting);
  lua_setfield(L, -2, "_setting");
}
