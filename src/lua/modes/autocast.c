/*
** autocast.c - implements autocast.h, and torch.autocast itself. A weight that is used several
** times is cast only once: casts of parameters are kept until the last open autocast scope of the
** state is closed. A kept cast is used again under three conditions. The parameter has not changed
** since then, that is, it has the same version. The cast was recorded, or the present call needs no
** gradient. The cast and the present call belong to the same captured graph, or both to none.
*/
#include "lua/modes/autocast.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/device/capture.h"
#include "core/memory/device_memory.h"
#include "core/observe/trace.h"
#include "lua/autograd/autograd.h"
#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"
#include "ops.h"

/* ---- kept casts ------------------------------------------------------------------- */

typedef struct Kept {
  const void *key;          /* address of the source tensor */
  tl_Tensor *source, *cast; /* the tensor and its cast (owned); NULL in a new entry */
  unsigned version;         /* version of the source when it was cast */
  /* number of the captured graph that contains the cast; 0 if no graph was being captured */
  uint64_t capture;
} Kept;

#define MAP casts
#define MAP_ENTRY Kept
#define MAP_GET(n) tli_alloc(n)
#define MAP_PUT(p, n) tli_free(p, n)
#include "core/memory/address_map.h"

typedef struct tli_CastCache {
  casts_Map map;
} tli_CastCache;

void tli_autocast_forget(tli_State *S) {
  tli_CastCache *c = S->cast_kept;
  if (c == NULL) return;
  /* clears the field first, because releasing a tensor may call this function again */
  S->cast_kept = NULL;
  for (size_t i = 0; i < c->map.size; i++) {
    tli_release(c->map.places[i].source);
    tli_release(c->map.places[i].cast);
  }
  casts_clear(&c->map);
  tli_free(c, sizeof *c);
}

/* Returns the entry of the cast of `source`, or NULL. */
static Kept *find_cast(const tli_State *S, const tl_Tensor *source) {
  return S->cast_kept ? casts_find(&S->cast_kept->map, source) : NULL;
}

/* Returns the source's entry, and makes one if there is none. Returns NULL if memory is
** exhausted. */
static Kept *add_cast(tli_State *S, tl_Tensor *source) {
  if (S->cast_kept == NULL) {
    S->cast_kept = tli_alloc(sizeof *S->cast_kept);
    if (S->cast_kept == NULL) return NULL;
    *S->cast_kept = (tli_CastCache){0};
  }
  Kept *k = casts_add(&S->cast_kept->map, source);
  if (k && k->source == NULL) k->source = tli_retain(source);
  return k;
}

static bool serves(const Kept *k, const tl_Tensor *source, tl_DType dtype, uint64_t capture) {
  return k->cast->dtype == (int8_t)dtype && k->version == tli_version(source) &&
         k->capture == capture && (tli_requires_grad(k->cast) || !tli_grad_mode());
}

/* ---- casts -------------------------------------------------------------------------- */

/* Returns a converted tensor. If memory is exhausted, collects garbage and tries again. */
static tl_Tensor *convert(const tli_Args *a, tl_Tensor *t, tl_DType dtype) {
  tl_Tensor *made = tlo_to_dtype(t, dtype);
  if (made == NULL && tl_error_kind() == TL_EMEM && !tli_device_exhausted()) {
    tli_pacer_collect(a->L, a->S);
    made = tlo_to_dtype(t, dtype);
  }
  return made;
}

/* Returns whether a tensor is probably a parameter of a model: a float32 leaf that is no view and
** requires a gradient. */
static bool is_parameter(const tl_Tensor *t) {
  return (t->flags & TLI_REQUIRES_GRAD) && t->base == NULL && t->dtype == TL_F32;
}

/* Returns t cast to `dtype`, as a new reference. Uses the kept cast if possible. */
static tl_Tensor *cast(const tli_Args *a, tl_Tensor *t, tl_DType dtype) {
  tli_State *S = a->S;
  bool keeps = S->cast_cache && is_parameter(t) && tli_is_half(dtype);
  if (!keeps) return convert(a, t, dtype);
  /* a trace uses only casts that it has recorded, because the traced program must contain the cast
  ** and have the uncast parameter as a constant */
  uint64_t capture =
      tli_tracing() ? ~tli_trace_number() : (uint64_t)tli_capture_number(tli_device(t));
  Kept *k = find_cast(S, t);
  if (k && serves(k, t, dtype, capture)) return tli_retain(k->cast);
  tl_Tensor *made = convert(a, t, dtype);
  /* adds the entry only now, because a garbage collection in `convert` may have cleared the
  ** cache */
  if (made == NULL || (k = add_cast(S, t)) == NULL) return made;
  tl_Tensor *old = k->cast;
  k->cast = tli_retain(made);
  k->version = tli_version(t);
  k->capture = capture;
  tli_release(old);
  return made;
}

static bool eligible(const tl_Tensor *t, int type) {
  return t && tli_is_float((tl_DType)t->dtype) && t->dtype != TL_F64 && !(t->flags & TLI_NUMBER) &&
         tli_device(t).type == type;
}

/* The tensors of a call: the tensors of `list`, or the single tensors in `tensors` if `list` is
** NULL. */
typedef struct Inputs {
  tl_Tensor **const *tensors;
  tl_Tensor *const *list;
  int64_t n;
} Inputs;

static tl_Tensor *input(const Inputs *in, int64_t i) {
  return in->list ? in->list[i] : *in->tensors[i];
}

static bool any_float32(const Inputs *in, int type) {
  for (int64_t i = 0; i < in->n; i++) {
    const tl_Tensor *t = input(in, i);
    if (eligible(t, type) && t->dtype == TL_F32) return true;
  }
  return false;
}

/* Returns the device type of the call; TL_CPU if the call has no tensor, or only CPU tensors. */
static int kind_of(const tli_Args *a) { return a->first < 0 ? TL_CPU : a->device.type; }

/* Returns the dtype to which a call's tensors are cast by the policy for their device type, `cpu`
** or `gpu`; TL_NODTYPE if the tensors keep their dtype. */
static tl_DType target(tli_Args *a, tli_Cast cpu, tli_Cast gpu, const Inputs *in) {
  if (a->failed) return TL_NODTYPE;
  int type = kind_of(a);
  tl_DType lower = (tl_DType)a->S->cast_to[type];
  if (lower == TL_NODTYPE) return TL_NODTYPE;
  switch (type == TL_CPU ? cpu : gpu) {
  case TLI_CAST_LOWER: return lower;
  case TLI_CAST_FLOAT32: return TL_F32;
  case TLI_CAST_WIDEST: return any_float32(in, type) ? TL_F32 : lower;
  case TLI_CAST_REFUSED:
    a->failed = true;
    (void)tli_fail(TL_EARG,
                   "%s: not safe under autocast: use its form with logits, or disable autocast "
                   "around it and give it float32",
                   a->signature->name);
    break;
  case TLI_CAST_NONE: break;
  }
  return TL_NODTYPE;
}

/* Returns a new reference to the cast of t, or to t itself if it needs no cast. Returns NULL if t
** is NULL or the cast has failed. */
static tl_Tensor *replaced(tli_Args *a, tl_Tensor *t, tl_DType dtype) {
  if (!eligible(t, kind_of(a)) || t->dtype == (int8_t)dtype) return t ? tli_retain(t) : NULL;
  tl_Tensor *made = cast(a, t, dtype);
  if (made == NULL) a->failed = true;
  return made;
}

void tli_autocast(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensor **const *tensors, int n) {
  tl_DType dtype = target(a, cpu, gpu, &(Inputs){tensors, NULL, n});
  if (dtype == TL_NODTYPE) return;
  tl_Tensor **made = tli_args_owned(a, n);
  for (int i = 0; i < n && !a->failed; i++) *tensors[i] = made[i] = replaced(a, *tensors[i], dtype);
}

void tli_autocast_list(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensors *list) {
  tl_DType dtype = target(a, cpu, gpu, &(Inputs){NULL, list->v, list->n});
  if (dtype == TL_NODTYPE || list->n == 0) return;
  tl_Tensor **made = tli_args_owned(a, list->n);
  for (int64_t i = 0; i < list->n && !a->failed; i++) made[i] = replaced(a, list->v[i], dtype);
  list->v = made;
}

tl_Tensor *tli_autocast_result(tli_Args *a, tl_Tensor *result) {
  if (result == NULL || result->dtype != TL_F32) return result;
  tl_DType lower = (tl_DType)a->S->cast_to[tli_device(result).type];
  if (lower == TL_NODTYPE) return result;
  tl_Tensor *made = convert(a, result, lower);
  tli_release(result);
  return made;
}

/* ---- torch.autocast ----------------------------------------------------------------- */

#define NAME "autocast"

typedef struct Options {
  int type; /* the tl_DeviceType; -1 if the caller named no device type */
  tl_DType dtype;
  int enabled, cache; /* booleans as 0 or 1; -1 if the caller did not give the option */
} Options;

tl_DType tli_autocast_dtype(const tli_State *S, int type) {
  int named = S->casts ? S->cast_named[type] : TL_NODTYPE;
  if (named != TL_NODTYPE) return (tl_DType)named;
  return type == TL_CPU ? TL_BF16 : TL_F16;
}

static tl_DType named_dtype(lua_State *L, int type) {
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  return tli_autocast_dtype(S, type);
}

static int refuse(lua_State *L, const char *name, const char *option, const char *expected,
                  int index) {
  return tli_error(L, "%s: %s: expected %s, got %s", name, option, expected,
                   tli_describe(L, tli_state(L), index));
}

/* Returns the device type of a name such as "cuda" or "cuda:0". */
static int check_device(lua_State *L, const char *name, int index) {
  tl_Device device;
  if (!tli_to_device(L, index, &device))
    refuse(L, name, "device", "\"cpu\", \"cuda\" or \"sim\"", index);
  return device.type;
}

static tl_DType check_half(lua_State *L, const char *name, int index) {
  tl_DType dtype = tli_to_dtype(L, index);
  if (dtype != TL_BF16 && dtype != TL_F16)
    refuse(L, name, "dtype", "\"bfloat16\" or \"float16\"", index);
  return dtype;
}

static int check_boolean(lua_State *L, const char *name, const char *option, int index) {
  if (lua_type(L, index) != LUA_TBOOLEAN) refuse(L, name, option, "true or false", index);
  return lua_toboolean(L, index);
}

static void read_option(lua_State *L, const char *key, int value, Options *o) {
  static const char *const known[] = {"device", "device_type", "dtype", "enabled", "cache_enabled"};
  if (strcmp(key, "device") == 0 || strcmp(key, "device_type") == 0) {
    o->type = check_device(L, NAME, value);
  } else if (strcmp(key, "dtype") == 0) {
    o->dtype = check_half(L, NAME, value);
  } else if (strcmp(key, "enabled") == 0) {
    o->enabled = check_boolean(L, NAME, key, value);
  } else if (strcmp(key, "cache_enabled") == 0) {
    o->cache = check_boolean(L, NAME, key, value);
  } else {
    tli_Suggestion best = TLI_SUGGESTION(key);
    char hint[64];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) tli_suggestion_try(&best, known[i]);
    tli_error(L, NAME ": unknown option %s%s", key, tli_suggestion_text(&best, hint, sizeof hint));
  }
}

/* Reads the arguments that precede the function, and removes them from the stack. */
static Options read_options(lua_State *L) {
  Options o = {-1, TL_NODTYPE, -1, -1};
  if (tli_to_device_name(L, 1)) {
    o.type = check_device(L, NAME, 1);
    lua_remove(L, 1);
  }
  /* nil before the function stands for no options */
  if (lua_isnil(L, 1) && lua_gettop(L) > 1) lua_remove(L, 1);
  /* a table without a metatable is a table of options; other tables may be callable modules */
  if (lua_type(L, 1) == LUA_TTABLE && !lua_getmetatable(L, 1)) {
    lua_pushnil(L);
    while (lua_next(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        tli_error(L, NAME ": expected options by name, got one numbered %s",
                  tli_describe(L, tli_state(L), lua_gettop(L) - 1));
      read_option(L, lua_tostring(L, -2), lua_gettop(L), &o);
      lua_pop(L, 1);
    }
    lua_remove(L, 1);
  } else if (lua_type(L, 1) == LUA_TTABLE) {
    lua_pop(L, 1);
  }
  if (o.type < 0)
    tli_error(L, NAME ": device is missing; expected \"cpu\", \"cuda\" or \"sim\", as in "
                      "torch.autocast({device = \"cuda\"}, fn)");
  return o;
}

static int torch_autocast(lua_State *L) {
  Options o = read_options(L);
  if (o.dtype == TL_NODTYPE) o.dtype = named_dtype(L, o.type);
  tli_Change changes[TLI_MAX_CHANGES] = {
      {(tli_Mode)(TLI_MODE_AUTOCAST + o.type), o.dtype + 1 + (o.enabled == 0 ? TLI_CAST_OFF : 0)},
      {TLI_MODE_CAST_CACHE, o.cache},
  };
  return tli_mode_scope(L, NAME, o.cache < 0 ? 1 : 2, changes);
}

/* Returns the dtype to which autocast casts on a device type; TL_NODTYPE if autocast is off
** there. */
static int cast_to(lua_State *L, int type) {
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  return S->casts ? S->cast_to[type] : TL_NODTYPE;
}

/* is_autocast_enabled(device?) returns whether autocast is on for a device type. Without an
** argument, returns whether autocast is on for any device type, whereas PyTorch's function returns
** whether autocast is on for the GPU. */
static int torch_is_autocast_enabled(lua_State *L) {
  bool on = false;
  int only = lua_isnoneornil(L, 1) ? -1 : check_device(L, "is_autocast_enabled", 1);
  for (int type = 0; type < TL_NDEVICETYPES; type++)
    if (only < 0 || only == type) on = on || cast_to(L, type) != TL_NODTYPE;
  lua_pushboolean(L, on);
  return 1;
}

static int torch_get_autocast_dtype(lua_State *L) {
  int type = check_device(L, "get_autocast_dtype", 1);
  lua_pushstring(L, tl_dtype_name(named_dtype(L, type)));
  return 1;
}

/* Sets the running thread's autocast for a device type: the dtype to cast to, and whether autocast
** is on. */
static void set_autocast(lua_State *L, int type, tl_DType dtype, bool on) {
  tli_Change change = {(tli_Mode)(TLI_MODE_AUTOCAST + type), dtype + 1 + (on ? 0 : TLI_CAST_IDLE)};
  tli_change_modes(L, 1, &change);
}

/* set_autocast_enabled(device?, enabled) turns autocast on or off for a device type. Without
** `device` it does so for the GPU, as in PyTorch. */
static int torch_set_autocast_enabled(lua_State *L) {
  static const char name[] = "set_autocast_enabled";
  bool named = lua_type(L, 1) != LUA_TBOOLEAN;
  int type = named ? check_device(L, name, 1) : TL_CUDA;
  bool on = check_boolean(L, name, "enabled", named ? 2 : 1);
  set_autocast(L, type, named_dtype(L, type), on);
  return 0;
}

/* set_autocast_dtype(device, dtype) sets the dtype to which autocast casts on a device type. */
static int torch_set_autocast_dtype(lua_State *L) {
  static const char name[] = "set_autocast_dtype";
  int type = check_device(L, name, 1);
  set_autocast(L, type, check_half(L, name, 2), cast_to(L, type) != TL_NODTYPE);
  return 0;
}

/* set_autocast_cache_enabled(enabled) sets whether casts of parameters are kept. */
static int torch_set_autocast_cache_enabled(lua_State *L) {
  tli_only(L, 1, "set_autocast_cache_enabled");
  tli_Change change = {TLI_MODE_CAST_CACHE,
                       check_boolean(L, "set_autocast_cache_enabled", "enabled", 1)};
  tli_change_modes(L, 1, &change);
  return 0;
}

static int torch_is_autocast_cache_enabled(lua_State *L) {
  tli_only(L, 0, "is_autocast_cache_enabled");
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  lua_pushboolean(L, !S->casts || S->cast_cache);
  return 1;
}

static int torch_clear_autocast_cache(lua_State *L) {
  tli_only(L, 0, "clear_autocast_cache");
  tli_autocast_forget(tli_state(L));
  return 0;
}

void tli_open_autocast(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"autocast", torch_autocast},
      {"is_autocast_enabled", torch_is_autocast_enabled},
      {"get_autocast_dtype", torch_get_autocast_dtype},
      {"set_autocast_enabled", torch_set_autocast_enabled},
      {"set_autocast_dtype", torch_set_autocast_dtype},
      {"set_autocast_cache_enabled", torch_set_autocast_cache_enabled},
      {"is_autocast_cache_enabled", torch_is_autocast_cache_enabled},
      {"clear_autocast_cache", torch_clear_autocast_cache},
      {NULL, NULL},
  };
  tli_set_functions(L, functions);
}
