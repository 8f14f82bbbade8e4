/*
** device.c - torch.cuda and torch.sim, one code for both: devices, streams,
** events, graphs and memory, by PyTorch's names. Device numbers count from 0.
**
** The current device of a kind and the current stream of a device are modes of
** the Lua thread (coroutine.h). A mode is a small number; so streams that a
** program has been given are numbered.
*/
#include <stdio.h>
#include <string.h>

#include "core/backend.h"
#include "core/pinned.h"
#include "lua/autograd.h"
#include "lua/coroutine.h"
#include "lua/value.h"

#define STREAM "torch.Stream"
#define EVENT "torch.Event"
#define GRAPH "torch.Graph"
#define UP_KIND 3 /* upvalue: the kind of device that a function is about */

typedef struct Stream {
  tl_Device device;
  tl_Stream *stream; /* borrowed; streams stay for good */
} Stream;

typedef struct Event {
  tl_DeviceType type;
  tl_Device device; /* type -1 until it is recorded */
  bool timing;
  tl_Event *event; /* owned; NULL until then */
} Event;

typedef struct Graph {
  tl_DeviceType type;
  tl_Device device;
  tl_Stream *capturing; /* borrowed; NULL: it is not */
  tl_Graph *graph;      /* owned; NULL: nothing was captured */
} Graph;

static const tl_DeviceApi *api_of(tl_Device device) { return tli_backend(device)->device; }

/* ---- arguments --------------------------------------------------------------------- */

static tl_DeviceType kind(lua_State *L) {
  return (tl_DeviceType)lua_tointeger(L, lua_upvalueindex(UP_KIND));
}

/* "cuda.synchronize", for messages; good until the next one. */
static const char *full_name(tl_DeviceType type, const char *name) {
  static _Thread_local char text[64];
  snprintf(text, sizeof text, "%s.%s", tli_device_type_name(type), name);
  return text;
}

static int fail(lua_State *L, tl_DeviceType type, const char *name) {
  return tli_raise_as(L, full_name(type, name));
}

/* Raises that an argument is not what was expected. */
static int refuse(lua_State *L, tl_DeviceType type, const char *name, const char *argument,
                  const char *expected, int index) {
  return tli_error(L, "%s: %s: expected %s, got %s", full_name(type, name), argument, expected,
                   tli_describe(L, tli_state(L), lua_isnone(L, index) ? 0 : index));
}

/* Options in a table as first argument take the places of positional ones. */
static void spread(lua_State *L, tl_DeviceType type, const char *name, const char *const *options,
                   int n) {
  char hint[80];
  if (lua_type(L, 1) != LUA_TTABLE) {
    lua_settop(L, n);
    return;
  }
  lua_settop(L, 1);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *key = tli_to_word(L, 2);
    bool known = false;
    tli_Near near = TLI_NEAR(key ? key : "");
    for (int i = 0; i < n && !known; i++) {
      known = key && strcmp(options[i], key) == 0;
      tli_near_try(&near, options[i]);
    }
    if (!known)
      tli_error(L, "%s: unknown option '%.40s'%s", full_name(type, name), key ? key : "?",
                tli_near_hint(&near, hint, sizeof hint));
  }
  for (int i = 0; i < n; i++) lua_getfield(L, 1, options[i]);
  lua_remove(L, 1);
}

/* Whether the value names a device of the kind; nil is the current one. */
static bool to_device(lua_State *L, int index, tl_DeviceType type, tl_Device *device) {
  int64_t number = tli_current_device(type);
  if (lua_type(L, index) == LUA_TSTRING)
    return tli_to_device(L, index, device) && device->type == (int8_t)type;
  if (!lua_isnoneornil(L, index) && !tli_to_whole(L, index, &number)) return false;
  *device = (tl_Device){(int8_t)type, (int8_t)number};
  return number >= 0 && number < TL_MAX_DEVICES;
}

/* The device that is current, which must be there. */
static tl_Device current_of(lua_State *L, tl_DeviceType type, const char *name) {
  tli_enter(L, tli_state(L));
  tl_Device device = {(int8_t)type, (int8_t)tli_current_device(type)};
  if (tli_backend_open(device) == NULL) fail(L, type, name);
  return device;
}

/* The device at an index, which must be there. */
static tl_Device check_device(lua_State *L, int index, tl_DeviceType type, const char *name) {
  tl_Device device;
  char expected[64];
  tli_enter(L, tli_state(L));
  if (!to_device(L, index, type, &device)) {
    snprintf(expected, sizeof expected, "a number from 0 or a device such as \"%s:0\"",
             tli_device_type_name(type));
    refuse(L, type, name, "device", expected, index);
  }
  if (tli_backend_open(device) == NULL) fail(L, type, name);
  return device;
}

/* The object that a method was called on. */
static void *self(lua_State *L, const char *class, const char *name) {
  void *object = luaL_testudata(L, 1, class);
  if (object == NULL)
    tli_error(L, "%s: expected a %s, got %s", name, class,
              tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  return object;
}

static Stream *check_stream(lua_State *L, int index, tl_DeviceType type, const char *name) {
  Stream *s = luaL_testudata(L, index, STREAM);
  if (s == NULL || s->device.type != (int8_t)type)
    refuse(L, type, name, "stream", "a Stream of this kind of device", index);
  return s;
}

static Event *check_event(lua_State *L, int index, tl_DeviceType type, const char *name) {
  Event *e = luaL_testudata(L, index, EVENT);
  if (e == NULL || e->type != type)
    refuse(L, type, name, "event", "an Event of this kind of device", index);
  return e;
}

/* ---- streams as modes -------------------------------------------------------------- */

#define MOST_STREAMS 127 /* of a device, that modes can name */

/* The default stream, number 0, is NULL. */
static _Atomic(tl_Stream *) streams[TL_NDEVICETYPES][TL_MAX_DEVICES][MOST_STREAMS + 1];

tl_Stream *tli_stream_of(tl_Device device, int number) {
  if (number <= 0) return NULL;
  return atomic_load_explicit(&streams[device.type][device.index][number], memory_order_acquire);
}

/* -1 with a message if there are too many. */
static int number_of(tl_Device device, tl_Stream *stream) {
  if (stream == api_of(device)->default_stream(device)) return 0;
  for (int i = 1; i <= MOST_STREAMS; i++) {
    tl_Stream *there = NULL;
    _Atomic(tl_Stream *) *at = &streams[device.type][device.index][i];
    if (atomic_compare_exchange_strong(at, &there, stream) || there == stream) return i;
  }
  tli_fail(TL_EDEVICE, "%s: more than %d streams", tli_device_str(device), MOST_STREAMS);
  return -1;
}

static tli_Change device_change(tl_Device device) {
  return (tli_Change){TLI_MODE_DEVICE + device.type, device.index};
}

/* A stream becomes current, and so does its device. */
static void stream_changes(lua_State *L, const Stream *s, tli_Change changes[2]) {
  int number = number_of(s->device, s->stream);
  if (number < 0) tli_raise(L);
  changes[0] = device_change(s->device);
  changes[1] =
      (tli_Change){TLI_MODE_STREAM + s->device.type * TL_MAX_DEVICES + s->device.index, number};
}

/* ---- devices ----------------------------------------------------------------------- */

static int device_is_available(lua_State *L) {
  lua_pushboolean(L, tli_device_count(kind(L)) > 0);
  return 1;
}

static int device_count(lua_State *L) {
  lua_pushinteger(L, tli_device_count(kind(L)));
  return 1;
}

static int device_current_device(lua_State *L) {
  lua_pushinteger(L, current_of(L, kind(L), "current_device").index);
  return 1;
}

static int device_set_device(lua_State *L) {
  if (lua_isnoneornil(L, 1)) refuse(L, kind(L), "set_device", "device", "a device", 1);
  tli_Change change = device_change(check_device(L, 1, kind(L), "set_device"));
  tli_change_modes(L, 1, &change);
  return 0;
}

static int device_device(lua_State *L) {
  if (lua_isnoneornil(L, 1)) refuse(L, kind(L), "device", "device", "a device", 1);
  tli_Change change = device_change(check_device(L, 1, kind(L), "device"));
  lua_remove(L, 1);
  return tli_mode_scope(L, full_name(kind(L), "device"), 1, &change);
}

static void check_properties(lua_State *L, const char *name, tl_DeviceProperties *out) {
  tl_Device device = check_device(L, 1, kind(L), name);
  if (!api_of(device)->properties(device.index, out)) fail(L, kind(L), name);
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

static void set_whole(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static int device_get_device_properties(lua_State *L) {
  tl_DeviceProperties p;
  check_properties(L, "get_device_properties", &p);
  lua_createtable(L, 0, 5);
  lua_pushstring(L, p.name);
  lua_setfield(L, -2, "name");
  set_whole(L, "total_memory", p.total_memory);
  set_whole(L, "major", p.major);
  set_whole(L, "minor", p.minor);
  set_whole(L, "multi_processor_count", p.multi_processor_count);
  return 1;
}

static int device_synchronize(lua_State *L) {
  tl_Device device = check_device(L, 1, kind(L), "synchronize");
  if (!api_of(device)->sync(device)) return fail(L, kind(L), "synchronize");
  tli_pinned_reap();
  return 0;
}

static int device_waits(lua_State *L) {
  tl_Device device = check_device(L, 1, kind(L), "waits");
  lua_pushinteger(L, api_of(device)->waits(device));
  return 1;
}

/* configure{seed = 1, memory = 2^20, fail_at = 3} */
static int device_configure(lua_State *L) {
  tl_DeviceType type = kind(L);
  tl_Device device = current_of(L, type, "configure");
  if (lua_type(L, 1) != LUA_TTABLE)
    refuse(L, type, "configure", "settings", "a table of names and numbers", 1);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *key = tli_to_word(L, -2);
    int64_t value;
    if (key == NULL) refuse(L, type, "configure", "settings", "names", lua_absindex(L, -2));
    if (!tli_to_whole(L, -1, &value) || value < 0)
      refuse(L, type, "configure", key, "an integer from 0 on", lua_gettop(L));
    if (!api_of(device)->configure(key, value)) return fail(L, type, "configure");
  }
  return 0;
}

/* ---- streams ----------------------------------------------------------------------- */

static int push_stream(lua_State *L, tl_Device device, tl_Stream *stream) {
  Stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (Stream){device, stream};
  luaL_setmetatable(L, STREAM);
  return 1;
}

/* Stream{device = , priority = }, or the two in this order. */
static int device_stream_new(lua_State *L) {
  static const char *const options[] = {"device", "priority"};
  tl_DeviceType type = kind(L);
  int64_t priority = 0;
  spread(L, type, "Stream", options, 2);
  tl_Device device = check_device(L, 1, type, "Stream");
  if (!lua_isnil(L, 2) && (!tli_to_whole(L, 2, &priority) || priority < -128 || priority > 127))
    refuse(L, type, "Stream", "priority", "an integer, the lower the more urgent", 2);
  tl_Stream *stream = api_of(device)->stream(device, (int)priority);
  return stream ? push_stream(L, device, stream) : fail(L, type, "Stream");
}

static int device_current_stream(lua_State *L) {
  tl_Device device = check_device(L, 1, kind(L), "current_stream");
  return push_stream(L, device, tli_stream(device));
}

static int device_default_stream(lua_State *L) {
  tl_Device device = check_device(L, 1, kind(L), "default_stream");
  return push_stream(L, device, api_of(device)->default_stream(device));
}

static int device_set_stream(lua_State *L) {
  tli_Change changes[2];
  stream_changes(L, check_stream(L, 1, kind(L), "set_stream"), changes);
  tli_change_modes(L, 2, changes);
  return 0;
}

static int device_stream(lua_State *L) {
  tli_Change changes[2];
  stream_changes(L, check_stream(L, 1, kind(L), "stream"), changes);
  lua_remove(L, 1);
  return tli_mode_scope(L, full_name(kind(L), "stream"), 2, changes);
}

static int device_is_capturing(lua_State *L) {
  tl_Device device = current_of(L, kind(L), "is_current_stream_capturing");
  lua_pushboolean(L, api_of(device)->capturing(tli_stream(device)));
  return 1;
}

static tl_DeviceType type_of(const Stream *s) { return (tl_DeviceType)s->device.type; }

static int stream_synchronize(lua_State *L) {
  const Stream *s = self(L, STREAM, "synchronize");
  if (!api_of(s->device)->stream_sync(s->stream)) return fail(L, type_of(s), "Stream.synchronize");
  tli_pinned_reap();
  return 0;
}

static int stream_query(lua_State *L) {
  const Stream *s = self(L, STREAM, "query");
  bool done;
  if (!api_of(s->device)->stream_query(s->stream, &done))
    return fail(L, type_of(s), "Stream.query");
  lua_pushboolean(L, done);
  return 1;
}

static int stream_wait_stream(lua_State *L) {
  const Stream *s = self(L, STREAM, "wait_stream");
  const Stream *other = check_stream(L, 2, type_of(s), "Stream.wait_stream");
  const tl_DeviceApi *api = api_of(s->device);
  tl_Event *event = api->event(other->device, false);
  bool ok = event && api->event_record(event, other->stream) && api->stream_wait(s->stream, event);
  if (event) api->event_free(event);
  return ok ? 0 : fail(L, type_of(s), "Stream.wait_stream");
}

static int wait_for(lua_State *L, const Stream *s, const Event *e, const char *name) {
  if (e->event == NULL || api_of(s->device)->stream_wait(s->stream, e->event)) return 0;
  return fail(L, type_of(s), name);
}

static int stream_wait_event(lua_State *L) {
  const Stream *s = self(L, STREAM, "wait_event");
  return wait_for(L, s, check_event(L, 2, type_of(s), "Stream.wait_event"), "Stream.wait_event");
}

static void push_event(lua_State *L, tl_DeviceType type, bool timing) {
  Event *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = (Event){type, TLI_NODEVICE, timing, NULL};
  luaL_setmetatable(L, EVENT);
}

/* The event belongs to the device of the first stream that it is recorded on. */
static void record(lua_State *L, Event *e, const Stream *s, const char *name) {
  const tl_DeviceApi *api = api_of(s->device);
  if (e->event == NULL) {
    e->event = api->event(s->device, e->timing);
    e->device = s->device;
    if (e->event == NULL) fail(L, e->type, name);
  } else if (!tli_same_device(e->device, s->device)) {
    tli_error(L, "%s: expected a stream of %s, where the event was recorded before, got one of %s",
              full_name(e->type, name), tli_device_str(e->device), tli_device_str(s->device));
  }
  if (!api->event_record(e->event, s->stream)) fail(L, e->type, name);
}

static int stream_record_event(lua_State *L) {
  const Stream *s = self(L, STREAM, "record_event");
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 1);
    push_event(L, type_of(s), false);
  }
  record(L, check_event(L, 2, type_of(s), "Stream.record_event"), s, "Stream.record_event");
  lua_settop(L, 2);
  return 1;
}

static int stream_eq(lua_State *L) {
  const Stream *a = luaL_testudata(L, 1, STREAM), *b = luaL_testudata(L, 2, STREAM);
  lua_pushboolean(L, a && b && a->stream == b->stream);
  return 1;
}

static int stream_tostring(lua_State *L) {
  const Stream *s = self(L, STREAM, "tostring");
  lua_pushfstring(L, "torch.%s.Stream(device=%s, id=%I)", tli_device_type_name(s->device.type),
                  tli_device_str(s->device), (LUAI_UACINT)api_of(s->device)->stream_id(s->stream));
  return 1;
}

static int stream_index(lua_State *L) {
  const Stream *s = self(L, STREAM, "index");
  const char *key = tli_to_word(L, 2);
  if (key && strcmp(key, "device") == 0)
    lua_pushstring(L, tli_device_str(s->device));
  else if (key && strcmp(key, "stream_id") == 0)
    lua_pushinteger(L, api_of(s->device)->stream_id(s->stream));
  else {
    lua_getmetatable(L, 1);
    lua_pushvalue(L, 2);
    lua_rawget(L, -2);
  }
  return 1;
}

/* ---- events ------------------------------------------------------------------------ */

static int device_event(lua_State *L) {
  static const char *const options[] = {"enable_timing", "blocking", "interprocess"};
  tl_DeviceType type = kind(L);
  spread(L, type, "Event", options, 3);
  for (int i = 1; i <= 3; i++)
    if (!lua_isnil(L, i) && !lua_isboolean(L, i))
      refuse(L, type, "Event", options[i - 1], "true or false", i);
  if (lua_toboolean(L, 3))
    return tli_error(L, "%s: interprocess: not supported", full_name(type, "Event"));
  current_of(L, type, "Event");
  push_event(L, type, lua_toboolean(L, 1));
  return 1;
}

/* The stream at an index; nil is the current one of the current device. */
static Stream stream_or_current(lua_State *L, int index, tl_DeviceType type, const char *name) {
  if (!lua_isnoneornil(L, index)) return *check_stream(L, index, type, name);
  tl_Device device = current_of(L, type, name);
  return (Stream){device, tli_stream(device)};
}

static int event_record(lua_State *L) {
  Event *e = self(L, EVENT, "record");
  Stream s = stream_or_current(L, 2, e->type, "Event.record");
  record(L, e, &s, "Event.record");
  return 0;
}

static int event_wait(lua_State *L) {
  const Event *e = self(L, EVENT, "wait");
  Stream s = stream_or_current(L, 2, e->type, "Event.wait");
  return wait_for(L, &s, e, "Event.wait");
}

static int event_query(lua_State *L) {
  const Event *e = self(L, EVENT, "query");
  bool done = true;
  if (e->event && !api_of(e->device)->event_query(e->event, &done))
    return fail(L, e->type, "Event.query");
  lua_pushboolean(L, done);
  return 1;
}

static int event_synchronize(lua_State *L) {
  const Event *e = self(L, EVENT, "synchronize");
  if (e->event && !api_of(e->device)->event_sync(e->event))
    return fail(L, e->type, "Event.synchronize");
  tli_pinned_reap();
  return 0;
}

static int event_elapsed_time(lua_State *L) {
  const Event *e = self(L, EVENT, "elapsed_time");
  const Event *end = check_event(L, 2, e->type, "Event.elapsed_time");
  double milliseconds;
  if (e->event == NULL || end->event == NULL)
    return tli_error(L, "%s: both events must have been recorded",
                     full_name(e->type, "Event.elapsed_time"));
  if (!api_of(e->device)->event_elapsed(e->event, end->event, &milliseconds))
    return fail(L, e->type, "Event.elapsed_time");
  lua_pushnumber(L, milliseconds);
  return 1;
}

static int event_gc(lua_State *L) {
  Event *e = luaL_testudata(L, 1, EVENT);
  if (e == NULL || e->event == NULL) return 0;
  api_of(e->device)->event_free(e->event);
  e->event = NULL;
  return 0;
}

static int event_tostring(lua_State *L) {
  const Event *e = self(L, EVENT, "tostring");
  lua_pushfstring(L, "torch.%s.Event(%s)", tli_device_type_name(e->type),
                  e->event ? tli_device_str(e->device) : "not recorded");
  return 1;
}

/* ---- graphs ------------------------------------------------------------------------ */

static int device_graph_new(lua_State *L) {
  tl_DeviceType type = kind(L);
  tl_Device device = current_of(L, type, "Graph");
  Graph *g = lua_newuserdatauv(L, sizeof *g, 0);
  *g = (Graph){type, device, NULL, NULL};
  luaL_setmetatable(L, GRAPH);
  return 1;
}

static int graph_capture_begin(lua_State *L) {
  Graph *g = self(L, GRAPH, "capture_begin");
  tl_Device device = current_of(L, g->type, "Graph.capture_begin");
  if (g->graph || g->capturing)
    return tli_error(L, "%s: this graph has been captured already; use another or reset it",
                     full_name(g->type, "Graph.capture_begin"));
  tl_Stream *stream = tli_stream(device);
  if (!api_of(device)->capture_begin(stream)) return fail(L, g->type, "Graph.capture_begin");
  g->device = device;
  g->capturing = stream;
  return 0;
}

static int graph_capture_end(lua_State *L) {
  Graph *g = self(L, GRAPH, "capture_end");
  if (g->capturing == NULL)
    return tli_error(L, "%s: no capture was begun", full_name(g->type, "Graph.capture_end"));
  g->graph = api_of(g->device)->capture_end(g->capturing);
  g->capturing = NULL;
  return g->graph ? 0 : fail(L, g->type, "Graph.capture_end");
}

static int graph_replay(lua_State *L) {
  const Graph *g = self(L, GRAPH, "replay");
  if (g->graph == NULL)
    return tli_error(L, "%s: nothing was captured", full_name(g->type, "Graph.replay"));
  tli_enter(L, tli_state(L));
  if (!api_of(g->device)->graph_launch(g->graph, tli_stream(g->device)))
    return fail(L, g->type, "Graph.replay");
  return 0;
}

/* Ends a capture that is open and lets go of what was captured. */
static int graph_reset(lua_State *L) {
  Graph *g = luaL_testudata(L, 1, GRAPH);
  if (g == NULL) return 0;
  if (g->capturing) g->graph = api_of(g->device)->capture_end(g->capturing);
  if (g->graph) api_of(g->device)->graph_free(g->graph);
  g->capturing = NULL;
  g->graph = NULL;
  return 0;
}

/* ---- memory ------------------------------------------------------------------------ */

static tl_MemoryStats check_stats(lua_State *L, const char *name) {
  tl_Device device = check_device(L, 1, kind(L), name);
  tl_MemoryStats stats;
  if (!api_of(device)->memory_stats(device, &stats)) fail(L, kind(L), name);
  return stats;
}

static int device_memory_allocated(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "memory_allocated").allocated);
  return 1;
}

static int device_max_memory_allocated(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "max_memory_allocated").allocated_peak);
  return 1;
}

static int device_memory_reserved(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "memory_reserved").reserved);
  return 1;
}

static int device_max_memory_reserved(lua_State *L) {
  lua_pushinteger(L, check_stats(L, "max_memory_reserved").reserved_peak);
  return 1;
}

static int device_mem_get_info(lua_State *L) {
  tl_MemoryStats s = check_stats(L, "mem_get_info");
  lua_pushinteger(L, s.total > s.reserved ? s.total - s.reserved : 0);
  lua_pushinteger(L, s.total);
  return 2;
}

static int device_memory_stats(lua_State *L) {
  tl_MemoryStats s = check_stats(L, "memory_stats");
  lua_createtable(L, 0, 11);
  set_whole(L, "allocated_bytes.all.current", s.allocated);
  set_whole(L, "allocated_bytes.all.peak", s.allocated_peak);
  set_whole(L, "reserved_bytes.all.current", s.reserved);
  set_whole(L, "reserved_bytes.all.peak", s.reserved_peak);
  set_whole(L, "active.all.current", s.active_blocks);
  set_whole(L, "allocation.all.allocated", s.allocations);
  set_whole(L, "allocation.all.freed", s.frees);
  set_whole(L, "num_alloc_retries", s.retries);
  set_whole(L, "num_ooms", s.ooms);
  set_whole(L, "largest_free_block", s.largest_free);
  set_whole(L, "total_memory", s.total);
  return 1;
}

static int device_reset_peaks(lua_State *L) {
  tl_Device device = check_device(L, 1, kind(L), "reset_peak_memory_stats");
  if (!api_of(device)->reset_peaks(device)) return fail(L, kind(L), "reset_peak_memory_stats");
  return 0;
}

static int device_empty_cache(lua_State *L) {
  int count = tli_device_count(kind(L));
  for (int i = 0; i < count; i++) {
    tl_Device device = {(int8_t)kind(L), (int8_t)i};
    if (!api_of(device)->trim(device)) return fail(L, kind(L), "empty_cache");
  }
  return 0;
}

/* ---- methods of tensors ------------------------------------------------------------ */

static int tensor_record_stream(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "record_stream");
  const Stream *s = luaL_testudata(L, 2, STREAM);
  tl_Device device = tli_device(t);
  if (s == NULL || !tli_same_device(s->device, device))
    return tli_error(L, "record_stream: expected a Stream of the tensor's device, %s, got %s",
                     tli_device_str(device),
                     s ? tli_device_str(s->device)
                       : tli_describe(L, tli_state(L), lua_isnone(L, 2) ? 0 : 2));
  if (t->storage->data && !api_of(device)->record_stream(device, t->storage->data, s->stream))
    return tli_raise_as(L, "record_stream");
  return 0;
}

/* The device that memory is to be pinned for: what is given, the default one, or
** the first kind that there is. */
static tl_DeviceType pinned_for(lua_State *L, int index) {
  tl_Device device = tli_default_device();
  if (!lua_isnoneornil(L, index) && (!tli_to_device(L, index, &device) || device.type == TL_CPU))
    tli_error(L, "pin_memory: device: expected a device such as \"cuda\", got %s",
              tli_describe(L, tli_state(L), index));
  for (int type = TL_CPU + 1; device.type == TL_CPU && type < TL_NDEVICETYPES; type++)
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
  t = tli_check_tensor(L, 1, "pin_memory"); /* a finalizer may have released it */
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
  lua_pushboolean(L, tli_is_pinned(tli_check_tensor(L, 1, "is_pinned")));
  return 1;
}

const luaL_Reg tli_device_methods[] = {{"record_stream", tensor_record_stream},
                                       {"pin_memory", tensor_pin_memory},
                                       {"is_pinned", tensor_is_pinned},
                                       {NULL, NULL}};

/* ---- opening ----------------------------------------------------------------------- */

static const luaL_Reg functions[] = {
    {"is_available", device_is_available},
    {"device_count", device_count},
    {"current_device", device_current_device},
    {"set_device", device_set_device},
    {"device", device_device},
    {"get_device_name", device_get_device_name},
    {"get_device_capability", device_get_device_capability},
    {"get_device_properties", device_get_device_properties},
    {"synchronize", device_synchronize},
    {"waits", device_waits},
    {"Stream", device_stream_new},
    {"current_stream", device_current_stream},
    {"default_stream", device_default_stream},
    {"set_stream", device_set_stream},
    {"stream", device_stream},
    {"is_current_stream_capturing", device_is_capturing},
    {"Event", device_event},
    {"Graph", device_graph_new},
    {"memory_allocated", device_memory_allocated},
    {"max_memory_allocated", device_max_memory_allocated},
    {"memory_reserved", device_memory_reserved},
    {"max_memory_reserved", device_max_memory_reserved},
    {"mem_get_info", device_mem_get_info},
    {"memory_stats", device_memory_stats},
    {"reset_peak_memory_stats", device_reset_peaks},
    {"empty_cache", device_empty_cache},
    {NULL, NULL},
};

/* Sets functions that know their kind of device in the table on top. */
static void set_functions(lua_State *L, const luaL_Reg *list, tl_DeviceType type) {
  for (; list->name; list++) {
    tli_push_function(L, list->func);
    lua_getupvalue(L, -1, TLI_UP_STATE);
    lua_getupvalue(L, -2, TLI_UP_META);
    lua_pushinteger(L, type);
    lua_pushcclosure(L, list->func, UP_KIND);
    lua_setfield(L, -3, list->name);
    lua_pop(L, 1);
  }
}

static void open_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_set_functions(L, methods); /* which may have an __index of their own */
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

static void open_classes(lua_State *L) {
  static const luaL_Reg stream[] = {{"synchronize", stream_synchronize},
                                    {"query", stream_query},
                                    {"wait_stream", stream_wait_stream},
                                    {"wait_event", stream_wait_event},
                                    {"record_event", stream_record_event},
                                    {"__eq", stream_eq},
                                    {"__tostring", stream_tostring},
                                    {"__index", stream_index},
                                    {NULL, NULL}};
  static const luaL_Reg event[] = {{"record", event_record},
                                   {"wait", event_wait},
                                   {"query", event_query},
                                   {"synchronize", event_synchronize},
                                   {"elapsed_time", event_elapsed_time},
                                   {"__gc", event_gc},
                                   {"__tostring", event_tostring},
                                   {NULL, NULL}};
  static const luaL_Reg graph[] = {{"capture_begin", graph_capture_begin},
                                   {"capture_end", graph_capture_end},
                                   {"replay", graph_replay},
                                   {"reset", graph_reset},
                                   {"__gc", graph_reset},
                                   {"__close", graph_reset},
                                   {NULL, NULL}};
  open_class(L, STREAM, stream);
  open_class(L, EVENT, event);
  open_class(L, GRAPH, graph);
}

void tli_open_devices(lua_State *L) {
  static const luaL_Reg of_sim[] = {{"configure", device_configure}, {NULL, NULL}};
  open_classes(L);
  for (int type = TL_CPU + 1; type < TL_NDEVICETYPES; type++) {
    lua_newtable(L);
    set_functions(L, functions, (tl_DeviceType)type);
    if (type == TL_SIM) set_functions(L, of_sim, TL_SIM);
    lua_getfield(L, -1, "Graph");
    lua_setfield(L, -2, "CUDAGraph");
    lua_setfield(L, -2, tli_device_type_name(type));
  }
}
