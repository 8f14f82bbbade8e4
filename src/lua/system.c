/*
** system.c - functions for settings and queries of the whole library: threads, memory, printing,
** dtypes, configuration.
*/
#include <math.h>
#include <string.h>

#include "core/device/settings.h"
#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/observe/live_storages.h"
#include "core/platform/platform.h"
#include "lua/autograd/autograd.h"
#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"
#include "lua/limits.h"
#include "lua/list_length.h"

/* ---- threads and memory ---- */

static int torch_set_num_threads(lua_State *L) {
  int64_t n;
  if (!tli_to_whole(L, 1, &n) || n < 1 || n > 4096)
    return tli_error(L, "set_num_threads: expected 1 to 4096 threads, got %s",
                     tli_describe(L, tli_state(L), 1));
  tli_only(L, 1, "set_num_threads");
  return tl_set_num_threads((int)n) ? 0 : tli_raise(L);
}

static int torch_get_num_threads(lua_State *L) {
  tli_only(L, 0, "get_num_threads");
  lua_pushinteger(L, tl_get_num_threads());
  return 1;
}

static void set_bytes(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

/* _memory_stats() returns a table of numbers of bytes of the host's memory. `used` is the memory
** that tensors of the process use, `cached` the memory that is kept for reuse, and `live` the
** memory that this Lua state keeps alive. The table also has fields with PyTorch's names. */
static int torch_memory_stats(lua_State *L) {
  tli_State *S = tli_state(L);
  if (S->pacer.wants_full && S->ledger) tli_pacer_work(L, S);
  const tli_Ledger *ledger = S->ledger; /* the ledger is NULL if the state is closing */
  int64_t used = tl_memory_used(), cached = tl_memory_cached();
  lua_createtable(L, 0, 6);
  set_bytes(L, "used", used);
  set_bytes(L, "cached", cached);
  set_bytes(L, "live", ledger ? atomic_load(&ledger->live[TL_CPU]) : 0);
  set_bytes(L, "allocated_bytes.all.current", used);
  set_bytes(L, "allocated_bytes.all.peak", tli_memory_peak());
  set_bytes(L, "reserved_bytes.all.current", used + cached);
  return 1;
}

static int torch_reset_peak(lua_State *L) {
  (void)L;
  tli_memory_reset_peak();
  return 0;
}

/* _record_live(on) starts or stops recording the lines that allocate live tensors. _record_live()
** returns whether recording is on. */
static int torch_record_live(lua_State *L) {
  if (lua_isnone(L, 1)) {
    lua_pushboolean(L, tli_live_recording());
    return 1;
  }
  tli_live_record(lua_toboolean(L, 1));
  return 0;
}

static int groups_gc(lua_State *L) {
  tli_LiveGroup **groups = lua_touserdata(L, 1);
  tli_live_free(*groups);
  *groups = NULL;
  return 0;
}

static void push_group(lua_State *L, const tli_LiveGroup *g) {
  lua_createtable(L, 0, 7);
  set_bytes(L, "size", g->size);
  set_bytes(L, "count", g->count);
  set_bytes(L, "bytes", g->size * g->count);
  lua_pushstring(L, g->dtype < 0 ? "unknown" : tl_dtype_name((tl_DType)g->dtype));
  lua_setfield(L, -2, "dtype");
  tli_push_device(L, g->device);
  lua_setfield(L, -2, "device");
  lua_pushstring(L, g->site ? g->site : "?");
  lua_setfield(L, -2, "line");
  lua_pushstring(L, g->op ? g->op : "?");
  lua_setfield(L, -2, "operator");
}

/* _live() returns the recorded live tensors as a list of groups, the groups with the most bytes
** first. */
static int torch_live(lua_State *L) {
  tli_LiveGroup **groups = lua_newuserdatauv(L, sizeof *groups, 0);
  *groups = NULL;
  if (luaL_newmetatable(L, "torch.LiveGroups")) {
    lua_pushcfunction(L, groups_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  tli_note_owner(L);
  int64_t n;
  *groups = tli_live_groups(&n);
  if (*groups == NULL) return tli_raise(L);
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (int64_t i = 0; i < n; i++) {
    push_group(L, &(*groups)[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* set_memory_limit(bytes) makes allocations beyond this limit fail; 0 removes the limit. */
static int torch_set_memory_limit(lua_State *L) {
  int64_t bytes;
  if (!tli_to_whole(L, 1, &bytes) || bytes < 0)
    return tli_error(L, "set_memory_limit: expected a number of bytes, or 0 for none, got %s",
                     tli_describe(L, tli_state(L), 1));
  tli_only(L, 1, "set_memory_limit");
  tl_set_memory_limit(bytes);
  return 0;
}

static int torch_memory_trim(lua_State *L) {
  tli_only(L, 0, "memory_trim");
  tl_memory_trim();
  return 0;
}

/* ---- printing ---- */

static int option(lua_State *L, int table, const char *name, int otherwise, int least) {
  int64_t n = otherwise;
  if (lua_getfield(L, table, name) != LUA_TNIL &&
      (!tli_to_whole(L, -1, &n) || n < least || n > 1 << 30))
    tli_error(L, "set_printoptions: %s: expected an integer from %d on, got %s", name, least,
              tli_describe(L, tli_state(L), lua_gettop(L)));
  lua_pop(L, 1);
  return (int)n;
}

/* Reads a print profile, "default", "short" or "full", as in PyTorch. */
static void read_profile(lua_State *L, tli_PrintOptions *p) {
  if (lua_getfield(L, 1, "profile") != LUA_TNIL) {
    const char *name = tli_to_word(L, lua_gettop(L));
    bool full = name && strcmp(name, "full") == 0, brief = name && strcmp(name, "short") == 0;
    if (!full && !brief && !(name && strcmp(name, "default") == 0))
      tli_error(L, "set_printoptions: profile: expected \"default\", \"short\" or \"full\", got %s",
                tli_describe(L, tli_state(L), lua_gettop(L)));
    *p = (tli_PrintOptions){.precision = brief ? 2 : 4,
                            .threshold = full ? 1 << 30 : 1000,
                            .edgeitems = brief ? 2 : 3,
                            .linewidth = 80,
                            .scientific = -1};
  }
  lua_pop(L, 1);
}

static void check_names(lua_State *L) {
  static const char *const names[] = {"precision", "threshold", "edgeitems", "linewidth",
                                      "sci_mode",  "profile",   NULL};
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    int i = 0;
    while (names[i] && strcmp(names[i], key) != 0) i++;
    if (names[i] == NULL)
      tli_error(L,
                "set_printoptions: unknown option %s; there are precision, threshold, "
                "edgeitems, linewidth, sci_mode and profile",
                key);
    lua_pop(L, 1);
  }
}

static int torch_set_printoptions(lua_State *L) {
  tli_PrintOptions *p = &tli_state(L)->print, with = *p;
  tli_check_type(L, 1, LUA_TTABLE, "set_printoptions: options");
  check_names(L);
  read_profile(L, &with);
  tli_PrintOptions read = {.precision = option(L, 1, "precision", with.precision, 0),
                           .threshold = option(L, 1, "threshold", with.threshold, 0),
                           .edgeitems = option(L, 1, "edgeitems", with.edgeitems, 1),
                           .linewidth = option(L, 1, "linewidth", with.linewidth, 1),
                           .scientific = with.scientific};
  if (lua_getfield(L, 1, "sci_mode") != LUA_TNIL) read.scientific = lua_toboolean(L, -1);
  if (read.precision > 60) read.precision = 60;
  *p = read;
  return 0;
}

/* get_printoptions() returns {precision =, threshold =, edgeitems =, linewidth =, sci_mode =}. */
static int torch_get_printoptions(lua_State *L) {
  tli_only(L, 0, "get_printoptions");
  const tli_PrintOptions *p = &tli_state(L)->print;
  lua_createtable(L, 0, 5);
  set_bytes(L, "precision", p->precision);
  set_bytes(L, "threshold", p->threshold);
  set_bytes(L, "edgeitems", p->edgeitems);
  set_bytes(L, "linewidth", p->linewidth);
  if (p->scientific >= 0) {
    lua_pushboolean(L, p->scientific);
    lua_setfield(L, -2, "sci_mode");
  }
  return 1;
}

/* ---- determinism ---- */

/* set_deterministic_debug_mode(mode) takes "default", "warn" or "error", or 0, 1 or 2. */
static int torch_set_deterministic(lua_State *L) {
  static const char *const modes[] = {"default", "warn", "error"};
  int64_t mode = -1;
  const char *word = tli_to_word(L, 1);
  for (int i = 0; word && i < 3; i++)
    if (strcmp(word, modes[i]) == 0) mode = i;
  if (word == NULL && !tli_to_whole(L, 1, &mode)) mode = -1;
  if (mode < 0 || mode > 2)
    return tli_error(L,
                     "set_deterministic_debug_mode: expected \"default\", \"warn\" or \"error\", "
                     "got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  tli_set_setting(TL_DETERMINISTIC, mode);
  return 0;
}

static int torch_get_deterministic(lua_State *L) {
  tli_only(L, 0, "get_deterministic_debug_mode");
  lua_pushinteger(L, tli_setting(TL_DETERMINISTIC));
  return 1;
}

/* _log(text) passes a text as one line to the host's logger: spaces replace line feeds. It returns
** false if the host has set no logger. */
static int torch_log(lua_State *L) {
  tli_only(L, 1, "_log");
  lua_pushboolean(L, tli_log_line(luaL_gsub(L, luaL_checkstring(L, 1), "\n", " ")));
  return 1;
}

/* ---- dtypes ---- */

static tl_DType check_dtype(lua_State *L, int index, const char *what) {
  tl_DType dtype = tli_to_dtype(L, index);
  const char *word = tli_to_word(L, index);
  if (dtype == TL_NODTYPE)
    tli_error(L, "%s: expected a dtype such as \"float32\", got %s%s", what,
              tli_describe(L, tli_state(L), index), word ? tli_dtype_hint(word) : "");
  return dtype;
}

static int torch_promote_types(lua_State *L) {
  tl_DType a = check_dtype(L, 1, "promote_types"), b = check_dtype(L, 2, "promote_types");
  tl_DType both = tli_dtype_promote(a, b);
  if (both == TL_NODTYPE) return tli_error(L, "promote_types: %s", tl_error());
  lua_pushstring(L, tl_dtype_name(both));
  return 1;
}

static int torch_can_cast(lua_State *L) {
  tl_DType from = check_dtype(L, 1, "can_cast"), to = check_dtype(L, 2, "can_cast");
  lua_pushboolean(L, tli_dtype_category(from) <= tli_dtype_category(to));
  return 1;
}

static int torch_result_type(lua_State *L) {
  tli_State *S = tli_state(L);
  tli_only(L, 2, "result_type");
  tli_enter(L, S);
  tl_Tensor *ts[2], *owned[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    tl_Scalar s;
    ts[i] = lua_type(L, i + 1) == LUA_TUSERDATA ? tli_to_tensor(L, S, i + 1) : NULL;
    if (ts[i] == NULL && tli_to_scalar(L, i + 1, &s)) ts[i] = owned[i] = tli_number(s);
  }
  bool ok = ts[0] && ts[1];
  tl_DType dtype = ok ? tli_result_dtype(ts, 2) : TL_NODTYPE;
  tli_release(owned[0]);
  tli_release(owned[1]);
  if (!ok) return tli_error(L, "result_type: expected two Tensors or numbers");
  if (dtype == TL_NODTYPE) return tli_error(L, "result_type: %s", tl_error());
  lua_pushstring(L, tl_dtype_name(dtype));
  return 1;
}

static int torch_get_default_dtype(lua_State *L) {
  tli_only(L, 0, "get_default_dtype");
  tli_enter(L, tli_state(L));
  lua_pushstring(L, tl_dtype_name(tli_default_dtype()));
  return 1;
}

static int torch_set_default_dtype(lua_State *L) {
  tl_DType dtype = check_dtype(L, 1, "set_default_dtype");
  if (!tli_is_float(dtype) || tli_is_stored(dtype))
    return tli_error(L, "set_default_dtype: expected a floating dtype, got %s",
                     tl_dtype_name(dtype));
  tli_set_state_dtype(L, tli_state(L), dtype);
  return 0;
}

static int torch_get_default_device(lua_State *L) {
  tli_only(L, 0, "get_default_device");
  tli_enter(L, tli_state(L));
  return tli_push_device(L, tli_default_device());
}

/* set_default_device(device) sets the device of new tensors for which no device is given. */
static int torch_set_default_device(lua_State *L) {
  tl_Device device;
  if (!tli_to_device(L, 1, &device))
    return tli_error(L,
                     "set_default_device: expected a device such as \"cpu\" or \"cuda:0\", got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  if (tli_backend_open(device) == NULL) return tli_raise_as(L, "set_default_device");
  tli_set_state_device(L, tli_state(L), device);
  return 0;
}

/* Returns the decimal resolution of a floating-point dtype: 10^-n, where n is the number of its
** decimal digits. */
static double resolution(tl_DType dtype) {
  return pow(10, -floor((tli_dtype_digits[dtype] - 1) * log10(2)));
}

static void set_number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

static void set_whole(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static int torch_finfo(lua_State *L) {
  tli_enter(L, tli_state(L));
  tl_DType dtype = lua_isnoneornil(L, 1) ? tli_default_dtype() : check_dtype(L, 1, "finfo");
  /* the limits of a complex dtype are those of its real and imaginary parts */
  dtype = tli_real_dtype(dtype);
  if (!tli_is_float(dtype))
    return tli_error(L, "finfo: expected a floating dtype, got %s; use iinfo",
                     tl_dtype_name(dtype));
  lua_createtable(L, 0, 8);
  set_whole(L, "bits", 8 * tli_dtype_bytes[dtype]);
  set_number(L, "eps", tli_float_epsilon(dtype));
  set_number(L, "max", tli_float_max(dtype));
  bool no_sign = tli_dtype_digits[dtype] == 1; /* float8_e8m0fnu */
  set_number(L, "min", no_sign ? tli_float_tiny(dtype) : -tli_float_max(dtype));
  set_number(L, "tiny", tli_float_tiny(dtype));
  set_number(L, "smallest_normal", tli_float_tiny(dtype));
  set_number(L, "resolution", resolution(dtype));
  lua_pushstring(L, tl_dtype_name(dtype));
  lua_setfield(L, -2, "dtype");
  return 1;
}

static int torch_iinfo(lua_State *L) {
  tl_DType dtype = check_dtype(L, 1, "iinfo");
  if (tli_dtype_category(dtype) != TLI_INT)
    return tli_error(L, "iinfo: expected an integer dtype, got %s", tl_dtype_name(dtype));
  lua_createtable(L, 0, 4);
  set_whole(L, "bits", 8 * tli_dtype_bytes[dtype]);
  if (tli_dtype_digits[dtype] > 63)
    /* the value is a float, because no Lua integer can hold 2^64 - 1 */
    set_number(L, "max", 0x1p64);
  else
    set_whole(L, "max", tli_int_max(dtype));
  set_whole(L, "min", tli_int_min(dtype));
  lua_pushstring(L, tl_dtype_name(dtype));
  lua_setfield(L, -2, "dtype");
  return 1;
}

/* ---- shapes ---- */

/* Reads the shape at `index`, a list of sizes or one size. */
static int read_shape(lua_State *L, int index, int64_t *sizes) {
  bool list = lua_type(L, index) == LUA_TTABLE;
  int top = lua_gettop(L);
  int n = list ? (int)tli_list_length(L, index) : 1;
  lua_pushnil(L);
  if (list && n == 0 && lua_next(L, index))
    return tli_error(L, "broadcast_shapes: expected lists of sizes, got a table with the key %s",
                     tli_describe(L, tli_state(L), lua_gettop(L) - 1));
  lua_settop(L, top);
  if (n > TL_MAX_DIMS)
    return tli_error(L, "broadcast_shapes: expected at most %d dimensions, got %d", TL_MAX_DIMS, n);
  for (int d = 0; d < n; d++) {
    if (list)
      lua_rawgeti(L, index, d + 1);
    else
      lua_pushvalue(L, index);
    if (!tli_to_whole(L, lua_gettop(L), &sizes[d]) || sizes[d] < 0)
      return tli_error(L, "broadcast_shapes: expected lists of sizes, got %s",
                       tli_describe(L, tli_state(L), lua_gettop(L)));
    lua_pop(L, 1);
  }
  return n;
}

static int torch_broadcast_shapes(lua_State *L) {
  int64_t all[TL_MAX_DIMS], sizes[TL_MAX_DIMS];
  int ndim = 0, count = lua_gettop(L);
  for (int i = 1; i <= count; i++) {
    int n = read_shape(L, i, sizes);
    /* d is the number of a dimension, counted from the last one */
    for (int d = 1; d <= n || d <= ndim; d++) {
      int64_t a = d <= ndim ? all[TL_MAX_DIMS - d] : 1, b = d <= n ? sizes[n - d] : 1;
      if (a != b && a != 1 && b != 1)
        return tli_error(L, "broadcast_shapes: sizes %lld and %lld in dimension -%d do not fit",
                         (long long)a, (long long)b, d);
      all[TL_MAX_DIMS - d] = a == 1 ? b : a;
    }
    if (n > ndim) ndim = n;
  }
  tli_push_ints(L, (tl_Ints){ndim, all + TL_MAX_DIMS - ndim});
  tli_set_size(L);
  return 1;
}

/* ---- the library itself ---- */

static int torch_config(lua_State *L) {
  tli_only(L, 0, "config");
  lua_createtable(L, 0, 6);
  lua_pushstring(L, tl_version());
  lua_setfield(L, -2, "version");
  lua_pushstring(L, tlk_cpu_isa());
  lua_setfield(L, -2, "cpu_isa");
  lua_pushstring(L, tlk_blas_config());
  lua_setfield(L, -2, "blas");
  lua_pushinteger(L, tl_get_num_threads());
  lua_setfield(L, -2, "threads");
  return 1;
}

static const char library_mark = 0;

/* _library_path() returns the file from which this code was loaded: the command or a shared
** library. */
static int torch_library_path(lua_State *L) {
  char path[4096];
  tli_library_path((const void *)&library_mark, path, sizeof path);
  lua_pushstring(L, path);
  return 1;
}

/* raise(message) raises an error at the user's line. The library's Lua files use this function. */
static int torch_raise(lua_State *L) { return tli_error_text(L, luaL_checkstring(L, 1)); }

static const luaL_Reg functions[] = {{"set_num_threads", torch_set_num_threads},
                                     {"get_num_threads", torch_get_num_threads},
                                     {"_library_path", torch_library_path},
                                     {"_within", tli_limits_within},
                                     {"_memory_stats", torch_memory_stats},
                                     {"_reset_peak", torch_reset_peak},
                                     {"_record_live", torch_record_live},
                                     {"_live", torch_live},
                                     {"memory_trim", torch_memory_trim},
                                     {"set_memory_limit", torch_set_memory_limit},
                                     {"set_printoptions", torch_set_printoptions},
                                     {"get_printoptions", torch_get_printoptions},
                                     {"set_deterministic_debug_mode", torch_set_deterministic},
                                     {"get_deterministic_debug_mode", torch_get_deterministic},
                                     {"_log", torch_log},
                                     {"promote_types", torch_promote_types},
                                     {"can_cast", torch_can_cast},
                                     {"result_type", torch_result_type},
                                     {"get_default_dtype", torch_get_default_dtype},
                                     {"set_default_dtype", torch_set_default_dtype},
                                     {"get_default_device", torch_get_default_device},
                                     {"set_default_device", torch_set_default_device},
                                     {"broadcast_shapes", torch_broadcast_shapes},
                                     {"finfo", torch_finfo},
                                     {"iinfo", torch_iinfo},
                                     {"config", torch_config},
                                     {"raise", torch_raise},
                                     {NULL, NULL}};

void tli_open_system(lua_State *L) {
  tli_set_functions(L, functions);
  lua_pushliteral(L, TL_VERSION);
  lua_setfield(L, -2, "_VERSION");
}
