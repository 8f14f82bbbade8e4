/*
** profile.c - profiler sessions as Lua values, for torch.profiler. A session is a userdata. Its
** events are read one at a time: a Lua table for each of millions of events would take more memory
** than the profiled program.
*/
#include "core/observe/observer.h"

#include <string.h>

#include "lua/tensor/value.h"

#define PROFILE "torch.Profile"

static tli_Profile *check(lua_State *L) {
  tli_Profile *p = *(tli_Profile **)luaL_checkudata(L, 1, PROFILE);
  if (p == NULL) tli_error(L, "profile: the session was finalized: the Lua state is closing");
  return p;
}

/* Reads position `index`, from 1 to n, and converts it to count from 0. */
static int64_t check_position(lua_State *L, int index, int64_t n) {
  lua_Integer i = luaL_checkinteger(L, index);
  luaL_argcheck(L, i >= 1 && i <= n, index, "no such event");
  return i - 1;
}

static bool flag(lua_State *L, const char *name) {
  bool on = lua_getfield(L, 1, name) != LUA_TNIL && lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

/* _profile_start{shapes =, memory =, stacks =, flops =, devices =} returns a session. */
static int profile_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  tli_ProfileOptions options = {.shapes = flag(L, "shapes"),
                                .memory = flag(L, "memory"),
                                .stacks = flag(L, "stacks"),
                                .flops = flag(L, "flops"),
                                .devices = flag(L, "devices")};
  tli_Profile **p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = NULL;
  luaL_setmetatable(L, PROFILE);
  tli_note_owner(L);
  *p = tli_profile_start(&options);
  return *p ? 1 : tli_raise(L);
}

static int profile_stop(lua_State *L) {
  return tli_profile_stop(check(L)) ? 0 : tli_raise_as(L, "profile");
}

static int profile_gc(lua_State *L) {
  tli_Profile **p = luaL_checkudata(L, 1, PROFILE);
  if (*p && tli_profile_stop(*p)) tli_profile_free(*p);
  *p = NULL;
  return 0;
}

/* Sets a field of the table on top of the stack. */
static void set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

/* state() returns {active, duration = ns so far, began = ns since 1970, events, memory_events,
** dropped, bytes = memory of the records}. */
static int profile_state(lua_State *L) {
  const tli_Profile *p = check(L);
  lua_createtable(L, 0, 7);
  lua_pushboolean(L, tli_profile_active(p));
  lua_setfield(L, -2, "active");
  set_integer(L, "duration", tli_profile_duration(p));
  set_integer(L, "began", tli_profile_began(p));
  set_integer(L, "events", tli_profile_count(p));
  set_integer(L, "memory_events", tli_profile_memory_count(p));
  set_integer(L, "dropped", tli_profile_dropped(p));
  set_integer(L, "bytes", tli_profile_bytes(p));
  return 1;
}

static void push_text(lua_State *L, const tli_Profile *p, int32_t id) {
  size_t size;
  const char *text = tli_profile_text(p, id, &size);
  lua_pushlstring(L, text, size);
}

/* Pushes the table at `index` of the stack. If there is no table, pushes a new one that has space
** for `fields` fields. */
static void push_record(lua_State *L, int index, int fields) {
  if (lua_istable(L, index))
    lua_pushvalue(L, index);
  else
    lua_createtable(L, 0, fields);
}

/* event(i, record) fills the record, or a new one, and returns it: {kind, name, parent, begin,
** duration, inside, bytes, own_bytes, device_begin, device_time, flops, sequence, shapes, stack,
** thread}. Times are in ns. A parent of 0, and -1 in device_begin, shapes or stack, mean that there
** is none; thread 0 is the profiled thread. */
static int profile_event(lua_State *L) {
  const tli_Profile *p = check(L);
  const tli_ProfileEvent *e = tli_profile_event(p, check_position(L, 2, tli_profile_count(p)));
  push_record(L, 3, 15);
  set_string(L, "kind", tli_span_kinds[e->kind]);
  push_text(L, p, e->name);
  lua_setfield(L, -2, "name");
  set_integer(L, "parent", e->parent + 1);
  set_integer(L, "begin", e->begin);
  set_integer(L, "duration", e->duration);
  set_integer(L, "inside", e->inside);
  set_integer(L, "bytes", e->bytes);
  set_integer(L, "own_bytes", e->own_bytes);
  set_integer(L, "device_begin", e->device_begin);
  set_integer(L, "device_time", e->device_time);
  lua_pushnumber(L, e->flops);
  lua_setfield(L, -2, "flops");
  set_integer(L, "sequence", (int64_t)e->sequence);
  set_integer(L, "shapes", e->shapes);
  set_integer(L, "stack", e->stack);
  set_integer(L, "thread", e->thread);
  return 1;
}

/* threads() returns the names of threads 1, 2, ... */
static int profile_threads(lua_State *L) {
  const tli_Profile *p = check(L);
  lua_newtable(L);
  for (int32_t i = 1; i < tli_profile_threads(p); i++) {
    push_text(L, p, tli_profile_thread(p, i));
    lua_rawseti(L, -2, i);
  }
  return 1;
}

/* memory(i, record) fills the record, or a new one, and returns it: {time, storage, bytes,
** event (0: none), category, device, cached = bytes in the cache of the device's allocator}. */
static int profile_memory(lua_State *L) {
  static const char *const categories[] = {"unknown", "parameter", "gradient", "activation"};
  const tli_Profile *p = check(L);
  const tli_ProfileMemory *m =
      tli_profile_memory_event(p, check_position(L, 2, tli_profile_memory_count(p)));
  push_record(L, 3, 7);
  set_integer(L, "time", m->time);
  set_integer(L, "storage", (int64_t)(intptr_t)m->storage);
  set_integer(L, "bytes", m->bytes);
  set_integer(L, "event", m->event + 1);
  set_string(L, "category", categories[m->category]);
  set_string(L, "device", tli_device_str(m->device));
  set_integer(L, "cached", m->cached);
  return 1;
}

/* text(id) returns the text with the number `id`, such as an event's call stack. */
static int profile_text(lua_State *L) {
  push_text(L, check(L), (int32_t)luaL_checkinteger(L, 2));
  return 1;
}

/* shapes(id) returns the shapes of the tensors of an operator's call, such as "[8, 8], [8]", where
** "-" stands for a missing tensor. */
static int profile_shapes(lua_State *L) {
  size_t size;
  const char *bytes = tli_profile_text(check(L), (int32_t)luaL_checkinteger(L, 2), &size);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (size_t i = 0; i < size / sizeof(int64_t);) {
    int64_t ndim, sizes[TL_MAX_DIMS];
    memcpy(&ndim, bytes + sizeof ndim * i, sizeof ndim);
    if (i++ > 0) luaL_addstring(&out, ", ");
    if (ndim > 0) memcpy(sizes, bytes + sizeof ndim * i, sizeof ndim * (size_t)ndim);
    luaL_addstring(&out, ndim < 0 ? "-" : tli_shape_str((int)ndim, sizes));
    if (ndim > 0) i += (size_t)ndim;
  }
  luaL_pushresult(&out);
  return 1;
}

/* _span_open(kind, name) opens a span and returns two numbers for _span_close. The first identifies
** the session. The second combines the number of the event and a mark for the host's observer. */
static int span_open(lua_State *L) {
  int kind = luaL_checkoption(L, 1, NULL, tli_span_kinds);
  const char *name = luaL_checkstring(L, 2);
  lua_State *outer = tli_calling;
  /* the caller of this function becomes the innermost frame of the recorded call stack */
  tli_calling = L;
  tli_Span span = tli_span_open((tli_SpanKind)kind, name, NULL, 0);
  tli_calling = outer;
  lua_pushinteger(L, (lua_Integer)span.session);
  lua_pushinteger(L, (lua_Integer)((uint64_t)span.observed << 32 | (uint32_t)span.event));
  return 2;
}

static int span_close(lua_State *L) {
  lua_Integer marks = luaL_checkinteger(L, 2);
  tli_span_close((tli_Span){.session = (uint64_t)luaL_checkinteger(L, 1),
                            .event = (int32_t)marks,
                            .observed = (int32_t)(marks >> 32)},
                 0);
  return 0;
}

/* _profiling() returns whether this thread has a session. */
static int profiling(lua_State *L) {
  lua_pushboolean(L, tli_profiling() && tli_profile_here());
  return 1;
}

/* _spans_seen() returns whether spans are observed: by a session of this thread or by the host
** program. */
static int spans_seen(lua_State *L) {
  lua_pushboolean(L, tli_profiling() && (tli_profile_here() || tli_observed()));
  return 1;
}

void tli_open_profile(lua_State *L) {
  static const luaL_Reg functions[] = {{"_profile_start", profile_start}, {"_span_open", span_open},
                                       {"_span_close", span_close},       {"_profiling", profiling},
                                       {"_spans_seen", spans_seen},       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"stop", profile_stop},       {"state", profile_state},
                                     {"event", profile_event},     {"memory", profile_memory},
                                     {"threads", profile_threads}, {"text", profile_text},
                                     {"shapes", profile_shapes},   {NULL, NULL}};
  tli_set_functions(L, functions);
  luaL_newmetatable(L, PROFILE);
  tli_push_function(L, profile_gc);
  lua_setfield(L, -2, "__gc");
  lua_createtable(L, 0, 7);
  for (const luaL_Reg *m = methods; m->name; m++) {
    tli_push_function(L, m->func);
    lua_setfield(L, -2, m->name);
  }
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
