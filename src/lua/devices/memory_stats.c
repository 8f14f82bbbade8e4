/*
** memory_stats.c - the memory of devices: statistics under PyTorch's names, lists of blocks, and
** the history of allocations; also the methods of tensors that concern memory.
*/
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/device_memory.h"
#include "core/observe/history.h"
#include "core/memory/pinned.h"
#include "lua/devices/device_module.h"

/* ---- statistics ----------------------------------------------------------------------- */

static tl_MemoryStats stats_of(lua_State *L, tl_Device device, const char *name) {
  tl_MemoryStats stats;
  if (!tli_api(device)->memory_stats(device, &stats)) tli_device_fail(L, tli_kind(L), name);
  return stats;
}

static tl_MemoryStats check_stats(lua_State *L, const char *name) {
  return stats_of(L, tli_last_device(L, 1, name), name);
}

static int device_memory_allocated(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "memory_allocated").allocated_bytes[TL_POOL_ALL].current);
  return 1;
}

static int device_max_memory_allocated(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "max_memory_allocated").allocated_bytes[TL_POOL_ALL].peak);
  return 1;
}

static int device_memory_reserved(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "memory_reserved").reserved_bytes[TL_POOL_ALL].current);
  return 1;
}

static int device_max_memory_reserved(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "max_memory_reserved").reserved_bytes[TL_POOL_ALL].peak);
  return 1;
}

static void info_of(lua_State *L, tl_Device device, const char *name, int64_t *free,
                    int64_t *total) {
  if (!tli_api(device)->memory_info(device, free, total)) tli_device_fail(L, tli_kind(L), name);
}

static int device_mem_get_info(lua_State *L) {
  int64_t free, total;
  info_of(L, tli_last_device(L, 1, "mem_get_info"), "mem_get_info", &free, &total);
  lua_pushinteger(L, free);
  lua_pushinteger(L, total);
  return 2;
}

/* Sets the four fields of a statistic: "current", "peak", "allocated" and "freed". For example,
** "allocation.all.current" has the figure "allocation" and the pool "all."; the pool may also be
** "". */
static void set_stat(lua_State *L, const char *figure, const char *pool, const tl_Stat *s) {
  const struct {
    const char *name;
    int64_t value;
  } parts[] = {
      {"current", s->current}, {"peak", s->peak}, {"allocated", s->allocated}, {"freed", s->freed}};
  for (int i = 0; i < 4; i++) {
    lua_pushfstring(L, "%s.%s%s", figure, pool, parts[i].name);
    lua_pushinteger(L, parts[i].value);
    lua_rawset(L, -3);
  }
}

static int device_memory_stats(lua_State *L) {
  static const char *const pools[TL_NPOOLS] = {"all.", "large_pool.", "small_pool."};
  tl_Device device = tli_last_device(L, 1, "memory_stats");
  tl_MemoryStats s = stats_of(L, device, "memory_stats");
  int64_t free, total;
  info_of(L, device, "memory_stats", &free, &total);
  lua_createtable(L, 0, 130);
  for (int pool = 0; pool < TL_NPOOLS; pool++) {
#define X(figure) set_stat(L, #figure, pools[pool], &s.figure[pool]);
    TL_MEMORY_STATS(X)
#undef X
  }
  /* always 0, since the allocator splits blocks of every size */
  set_stat(L, "oversize_allocations", "", &(tl_Stat){0});
  set_stat(L, "oversize_segments", "", &(tl_Stat){0});
  tli_set_integer(L, "max_split_size", -1);
  tli_set_integer(L, "num_alloc_retries", s.num_alloc_retries);
  tli_set_integer(L, "num_ooms", tli_device_ooms(device));
  tli_set_integer(L, "num_address_retries", s.num_address_retries);
  tli_set_integer(L, "reserved_addresses", s.reserved_addresses);
  tli_set_integer(L, "expandable_segments", s.expandable_segments);
  tli_set_integer(L, "num_sync_all_streams", s.num_sync_all_streams);
  tli_set_integer(L, "num_device_alloc", s.num_device_alloc);
  tli_set_integer(L, "num_device_free", s.num_device_free);
  tli_set_integer(L, "largest_free_block", s.largest_free);
  tli_set_integer(L, "total_memory", total);
  return 1;
}

static int device_reset_peaks(lua_State *L) {
  static const char name[] = "reset_peak_memory_stats";
  tl_Device device = tli_last_device(L, 1, name);
  return tli_api(device)->reset_peaks(device) ? 0 : tli_device_fail(L, tli_kind(L), name);
}

static int device_reset_sums(lua_State *L) {
  static const char name[] = "reset_accumulated_memory_stats";
  tl_Device device = tli_last_device(L, 1, name);
  if (!tli_api(device)->reset_sums(device)) return tli_device_fail(L, tli_kind(L), name);
  tli_device_reset_ooms(device);
  return 0;
}

/* Returns statistics of pinned memory: host memory that devices of this type access directly. */
static int device_host_memory_stats(lua_State *L) {
  tli_device_only(L, 0, "host_memory_stats");
  tli_check_current(L, tli_kind(L), "host_memory_stats");
  tli_PinnedStats s = tli_pinned_stats(tli_kind(L));
  lua_createtable(L, 0, 18);
  set_stat(L, "allocations", "", &s.allocations);
  set_stat(L, "allocated_bytes", "", &s.allocated_bytes);
  set_stat(L, "active_requests", "", &s.active_requests);
  set_stat(L, "active_bytes", "", &s.active_bytes);
  tli_set_integer(L, "num_host_alloc", s.allocations.allocated);
  tli_set_integer(L, "num_host_free", s.allocations.freed);
  return 1;
}

static int device_reset_host_peaks(lua_State *L) {
  tli_device_only(L, 0, "reset_peak_host_memory_stats");
  tli_check_current(L, tli_kind(L), "reset_peak_host_memory_stats");
  tli_pinned_reset_peaks(tli_kind(L));
  return 0;
}

static int device_reset_host_sums(lua_State *L) {
  tli_device_only(L, 0, "reset_accumulated_host_memory_stats");
  tli_check_current(L, tli_kind(L), "reset_accumulated_host_memory_stats");
  tli_pinned_reset_sums(tli_kind(L));
  return 0;
}

static int device_empty_host_cache(lua_State *L) {
  tli_device_only(L, 0, "empty_host_cache");
  tli_check_current(L, tli_kind(L), "empty_host_cache");
  tli_pinned_reap();
  tli_pinned_trim(tli_kind(L));
  return 0;
}

static int device_empty_cache(lua_State *L) {
  tli_device_only(L, 0, "empty_cache");
  int count = tli_device_count(tli_kind(L));
  for (int i = 0; i < count; i++) {
    tl_Device device = {(int8_t)tli_kind(L), (int8_t)i};
    if (!tli_api(device)->trim(device)) return tli_device_fail(L, tli_kind(L), "empty_cache");
  }
  return 0;
}

static int device_set_fraction(lua_State *L) {
  static const char name[] = "set_per_process_memory_fraction";
  tl_DeviceType type = tli_kind(L);
  int64_t free, total;
  double fraction = lua_tonumber(L, 1);
  if (lua_type(L, 1) != LUA_TNUMBER || !(fraction >= 0 && fraction <= 1))
    tli_device_refuse(L, type, name, "fraction", "a number from 0 to 1", 1);
  tl_Device device = tli_last_device(L, 2, name);
  info_of(L, device, name, &free, &total);
  if (tli_api(device)->set_memory_limit(device, (int64_t)(fraction * (double)total))) return 0;
  return tli_device_fail(L, type, name);
}

static int device_get_fraction(lua_State *L) {
  static const char name[] = "get_per_process_memory_fraction";
  tl_Device device = tli_last_device(L, 1, name);
  int64_t free, total;
  info_of(L, device, name, &free, &total);
  lua_pushnumber(L, (double)stats_of(L, device, name).limit / (double)total);
  return 1;
}

/* ---- blocks -------------------------------------------------------- */

#define BLOCKS "torch.Blocks"
#define HISTORY "torch.History"

/* A list of copies of memory blocks. The function that adds a block to the list runs while the
** allocator's lock is held, so it must not raise an error. */
typedef struct Blocks {
  tl_BlockInfo *list; /* owned */
  int64_t n, room;
  bool failed;
} Blocks;

static void keep_block(void *to, const tl_BlockInfo *block) {
  Blocks *b = to;
  if (b->n == b->room) {
    int64_t room = b->room ? 2 * b->room : 256;
    tl_BlockInfo *list = b->failed ? NULL : tli_alloc((size_t)room * sizeof *list);
    b->failed = list == NULL;
    if (b->failed) return;
    if (b->list) memcpy(list, b->list, (size_t)b->n * sizeof *list);
    if (b->list) tli_free(b->list, (size_t)b->room * sizeof *list);
    b->list = list;
    b->room = room;
  }
  b->list[b->n++] = *block;
}

static int blocks_gc(lua_State *L) {
  Blocks *b = luaL_checkudata(L, 1, BLOCKS);
  if (b->list) tli_free(b->list, (size_t)b->room * sizeof *b->list);
  *b = (Blocks){0};
  return 0;
}

static void set_string(lua_State *L, const char *name, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

/* Sets the field `stack` of the table on top of the Lua stack to a recorded call stack. Takes over
** the reference. */
static void set_stack(lua_State *L, tli_Stack *steals) {
  if (steals == NULL) return;
  lua_pushlstring(L, steals->text, steals->size);
  lua_setfield(L, -2, "stack");
  tli_stack_release(steals);
}

static void push_block(lua_State *L, const tl_BlockInfo *b) {
  static const char *const states[] = {"active_allocated", "active_pending_free", "inactive"};
  lua_createtable(L, 0, 10);
  tli_set_integer(L, "segment", (int64_t)(intptr_t)b->segment);
  tli_set_integer(L, "segment_size", b->segment_bytes);
  tli_set_integer(L, "stream", b->stream_id);
  tli_set_integer(L, "pool", (int64_t)b->pool);
  set_string(L, "segment_type", b->small ? "small" : "large");
  tli_set_integer(L, "address", (int64_t)(intptr_t)b->data);
  tli_set_integer(L, "size", b->bytes);
  tli_set_integer(L, "requested_size", b->requested);
  set_string(L, "state", states[b->state]);
  if (b->state != TL_BLOCK_FREE) set_stack(L, tli_history_owner(tli_kind(L), b->data));
}

/* _memory_blocks(device) returns a list of the blocks of the device's segments. */
static int device_memory_blocks(lua_State *L) {
  tl_Device device = tli_check_device(L, 1, tli_kind(L), "memory_snapshot");
  Blocks *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (Blocks){0};
  luaL_setmetatable(L, BLOCKS);
  tli_note_owner(L);
  if (!tli_api(device)->memory_blocks(device, keep_block, b) || b->failed)
    return tli_device_fail(L, tli_kind(L), "memory_snapshot");
  lua_createtable(L, (int)b->n, 0);
  for (int64_t i = 0; i < b->n; i++) {
    push_block(L, &b->list[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- history ------------------------------------------------------------------- */

/* _record_history(on, events, alloc_stacks, other_stacks, most, clear) starts or stops recording
** the events of device memory. The caller has checked the arguments. */
static int device_record_history(lua_State *L) {
  tli_check_current(L, tli_kind(L), "memory._record_memory_history");
  tli_Recording how = {.on = lua_toboolean(L, 1),
                       .events = lua_toboolean(L, 2),
                       .alloc_stacks = lua_toboolean(L, 3),
                       .other_stacks = lua_toboolean(L, 4),
                       .most = luaL_checkinteger(L, 5)};
  tli_history_record(tli_kind(L), &how, lua_toboolean(L, 6));
  return 0;
}

static int history_gc(lua_State *L) {
  tli_history_free(luaL_checkudata(L, 1, HISTORY));
  return 0;
}

static void push_event(lua_State *L, const tli_MemoryEvent *e) {
  static const char *const actions[] = {
      "alloc",        "free_requested", "free_completed", "segment_alloc",
      "segment_free", "segment_map",    "segment_unmap",  "oom",
      "snapshot"};
  lua_createtable(L, 0, 7);
  set_string(L, "action", actions[e->action]);
  tli_set_integer(L, "device", e->device.index);
  tli_set_integer(L, "addr", (int64_t)(intptr_t)e->data);
  tli_set_integer(L, "size", e->bytes);
  tli_set_integer(L, "stream", e->stream_id);
  tli_set_integer(L, "time_us", e->time / 1000);
  if (e->stack == NULL) return;
  lua_pushlstring(L, e->stack->text, e->stack->size);
  lua_setfield(L, -2, "stack");
}

/* _memory_history() returns a list of the recorded events, oldest first. */
static int device_memory_history(lua_State *L) {
  tli_History *h = lua_newuserdatauv(L, sizeof *h, 0);
  *h = (tli_History){0};
  luaL_setmetatable(L, HISTORY);
  tli_note_owner(L);
  if (!tli_history_copy(tli_kind(L), h)) return tli_device_fail(L, tli_kind(L), "memory._snapshot");
  lua_createtable(L, (int)h->n, 0);
  for (int64_t i = 0; i < h->n; i++) {
    push_event(L, &h->events[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- methods of tensors ------------------------------------------------------------ */

static int tensor_record_stream(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "record_stream");
  const tli_StreamValue *s = tli_to_stream(L, 2);
  tl_Device device = tli_device(t);
  if (s == NULL || !tli_same_device(s->device, device))
    return tli_error(L, "record_stream: expected a Stream of the tensor's device, %s, got %s",
                     tli_device_str(device),
                     s ? tli_device_str(s->device)
                       : tli_describe(L, tli_state(L), lua_isnone(L, 2) ? 0 : 2));
  if (t->storage->data && !tli_api(device)->record_stream(device, t->storage->data, s->stream))
    return tli_raise_as(L, "record_stream");
  return 0;
}

/* Returns the device type for which memory is pinned. This is the type of the argument or, without
** an argument, the type of the default device. If the default device is not an accelerator, it is
** the first available type. */
static tl_DeviceType pinned_for(lua_State *L, int index) {
  tl_Device device = tli_default_device();
  if (device.type == TL_META) device = TLI_CPU;
  if (!lua_isnoneornil(L, index) &&
      (!tli_to_device(L, index, &device) || device.type == TL_CPU || device.type == TL_META))
    tli_error(L, "pin_memory: device: expected a device such as \"cuda\", got %s",
              tli_describe(L, tli_state(L), index));
  for (int type = TL_CPU + 1; device.type == TL_CPU && type < TL_META; type++)
    if (tli_device_count((tl_DeviceType)type) > 0) device.type = (int8_t)type;
  if (device.type == TL_CPU)
    tli_error(L, "pin_memory: there is no device to pin memory for; see `tlua doctor`");
  return (tl_DeviceType)device.type;
}

static int tensor_pin_memory(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "pin_memory");
  if (tli_device(t).type != TL_CPU)
    return tli_error(L, "pin_memory: expected a tensor of the CPU, got one of %s",
                     tli_device_str(tli_device(t)));
  tl_DeviceType type = pinned_for(L, 2);
  lua_settop(L, 1);
  if (tli_is_pinned(t)) return 1;
  tli_Box *box = tli_push_box(L);
  /* reads the tensor again, because a finalizer may have released it while the box was made */
  t = tli_check_tensor(L, 1, "pin_memory");
  tl_Tensor *pinned = tli_pinned_empty(type, (tl_DType)t->dtype, t->ndim, t->sizes);
  if (pinned && !tli_copy(pinned, t)) {
    tli_release(pinned);
    pinned = NULL;
  }
  if (pinned == NULL) return tli_raise_as(L, "pin_memory");
  tli_fill_box(tli_state(L), box, pinned);
  return 1;
}

static int tensor_is_pinned(lua_State *L) {
  tli_only(L, 1, "is_pinned");
  lua_pushboolean(L, tli_is_pinned(tli_check_tensor(L, 1, "is_pinned")));
  return 1;
}

/* ---- opening ----------------------------------------------------------------------- */

const luaL_Reg tli_device_methods[] = {{"record_stream", tensor_record_stream},
                                       {"pin_memory", tensor_pin_memory},
                                       {"is_pinned", tensor_is_pinned},
                                       {NULL, NULL}};

const luaL_Reg tli_device_memory_functions[] = {
    {"memory_allocated", device_memory_allocated},
    {"max_memory_allocated", device_max_memory_allocated},
    {"memory_reserved", device_memory_reserved},
    {"max_memory_reserved", device_max_memory_reserved},
    {"mem_get_info", device_mem_get_info},
    {"memory_stats", device_memory_stats},
    {"reset_peak_memory_stats", device_reset_peaks},
    {"reset_accumulated_memory_stats", device_reset_sums},
    {"empty_cache", device_empty_cache},
    {"host_memory_stats", device_host_memory_stats},
    {"reset_peak_host_memory_stats", device_reset_host_peaks},
    {"reset_accumulated_host_memory_stats", device_reset_host_sums},
    {"empty_host_cache", device_empty_host_cache},
    {"set_per_process_memory_fraction", device_set_fraction},
    {"get_per_process_memory_fraction", device_get_fraction},
    {"_memory_blocks", device_memory_blocks},
    {"_record_history", device_record_history},
    {"_memory_history", device_memory_history},
    {NULL, NULL},
};

void tli_open_history(lua_State *L) {
  static const luaL_Reg blocks[] = {{"__gc", blocks_gc}, {NULL, NULL}};
  static const luaL_Reg history[] = {{"__gc", history_gc}, {NULL, NULL}};
  tli_open_device_class(L, BLOCKS, blocks);
  tli_open_device_class(L, HISTORY, history);
}
