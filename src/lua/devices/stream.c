/*
** stream.c - streams and events of torch.cuda and torch.sim.
**
** The current stream of a device is a mode of the Lua thread. A mode is a small number, so each
** stream that a program has received gets a number.
*/
#include <stdio.h>
#include <string.h>

#include "core/memory/pinned.h"
#include "lua/devices/device_module.h"

#define STREAM "torch.Stream"
#define EVENT "torch.Event"

typedef tli_StreamValue Stream;

typedef struct Event {
  tl_DeviceType type;
  tl_Device device; /* the event's device; its type is -1 until the event is recorded */
  int flags;
  tl_Event *event; /* the device's event (owned); NULL until the event is recorded */
} Event;

tli_StreamValue *tli_to_stream(lua_State *L, int index) { return luaL_testudata(L, index, STREAM); }

static tl_DeviceType type_of(const Stream *s) { return (tl_DeviceType)s->device.type; }

static Stream *check_stream(lua_State *L, int index, tl_DeviceType type, const char *name) {
  Stream *s = tli_to_stream(L, index);
  if (s == NULL || type_of(s) != type)
    tli_device_refuse(L, type, name, "stream", "a Stream of this kind of device", index);
  return s;
}

static Event *check_event(lua_State *L, int index, tl_DeviceType type, const char *name) {
  Event *e = luaL_testudata(L, index, EVENT);
  if (e == NULL || e->type != type)
    tli_device_refuse(L, type, name, "event", "an Event of this kind of device", index);
  return e;
}

/* ---- streams as modes -------------------------------------------------------------- */

/* largest number of streams of one device, because a mode of the Lua thread, an int8_t, stores a
** stream's number */
#define MOST_STREAMS 127

/* streams[type][device][number] is the stream with that number. The default stream has number 0 and
** is NULL. */
static _Atomic(tl_Stream *) streams[TL_NDEVICETYPES][TL_MAX_DEVICES][MOST_STREAMS + 1];

tl_Stream *tli_stream_of(tl_Device device, int number) {
  if (number <= 0) return NULL;
  return atomic_load_explicit(&streams[device.type][device.index][number], memory_order_acquire);
}

/* Returns a stream's number. If there are too many streams, fails with a message and returns -1. */
static int number_of(tl_Device device, tl_Stream *stream) {
  if (stream == tli_api(device)->default_stream(device)) return 0;
  for (int i = 1; i <= MOST_STREAMS; i++) {
    tl_Stream *there = NULL;
    _Atomic(tl_Stream *) *at = &streams[device.type][device.index][i];
    if (atomic_compare_exchange_strong(at, &there, stream) || there == stream) return i;
  }
  tli_fail(TL_EDEVICE, "%s: more than %d streams", tli_device_str(device), MOST_STREAMS);
  return -1;
}

/* Stores in `changes` the changes of the thread's modes that make a stream and its device
** current. */
static void stream_changes(lua_State *L, const Stream *s, tli_Change changes[2]) {
  int number = number_of(s->device, s->stream);
  if (number < 0) tli_raise(L);
  changes[0] = (tli_Change){TLI_MODE_DEVICE + s->device.type, s->device.index};
  changes[1] =
      (tli_Change){TLI_MODE_STREAM + s->device.type * TL_MAX_DEVICES + s->device.index, number};
}

/* ---- streams ----------------------------------------------------------------------- */

static int push_stream(lua_State *L, tl_Device device, tl_Stream *stream) {
  Stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (Stream){device, stream};
  luaL_setmetatable(L, STREAM);
  return 1;
}

/* Stream{device =, priority =} returns a stream. The two arguments may also be positional. */
static int device_stream_new(lua_State *L) {
  static const char *const options[] = {"device", "priority"};
  tl_DeviceType type = tli_kind(L);
  int64_t priority = 0;
  tli_device_options(L, type, "Stream", options, 2);
  tl_Device device = tli_check_device(L, 1, type, "Stream");
  if (!lua_isnil(L, 2) && (!tli_to_whole(L, 2, &priority) || priority < -128 || priority > 127))
    tli_device_refuse(L, type, "Stream", "priority", "an integer, the lower the more urgent", 2);
  tl_Stream *stream = tli_api(device)->stream(device, (int)priority);
  return stream ? push_stream(L, device, stream) : tli_device_fail(L, type, "Stream");
}

/* ExternalStream(stream_ptr, device) wraps a stream that another library has made, given its
** handle. */
static int device_external_stream(lua_State *L) {
  static const char *const options[] = {"stream_ptr", "device"};
  tl_DeviceType type = tli_kind(L);
  int64_t address = 0;
  tli_device_options(L, type, "ExternalStream", options, 2);
  bool light = lua_islightuserdata(L, 1);
  if (!light && (!tli_to_whole(L, 1, &address) || address < 0))
    tli_device_refuse(L, type, "ExternalStream", "stream_ptr",
                      "a stream's handle, as an integer or light userdata", 1);
  tl_Device device = tli_check_device(L, 2, type, "ExternalStream");
  const tl_DeviceApi *api = tli_api(device);
  if (api->stream_of == NULL)
    return tli_error(L, "%s: %s has no streams of other libraries",
                     tli_device_name(type, "ExternalStream"), tli_device_str(device));
  tl_Stream *stream =
      api->stream_of(device, light ? lua_touserdata(L, 1) : (void *)(uintptr_t)address);
  return stream ? push_stream(L, device, stream) : tli_device_fail(L, type, "ExternalStream");
}

static int device_priority_range(lua_State *L) {
  tl_Device device = tli_last_device(L, 1, "stream_priority_range");
  int least, greatest;
  tli_api(device)->priority_range(device, &least, &greatest);
  lua_pushinteger(L, least);
  lua_pushinteger(L, greatest);
  return 2;
}

static int device_current_stream(lua_State *L) {
  tl_Device device = tli_last_device(L, 1, "current_stream");
  return push_stream(L, device, tli_stream(device));
}

static int device_default_stream(lua_State *L) {
  tl_Device device = tli_last_device(L, 1, "default_stream");
  return push_stream(L, device, tli_api(device)->default_stream(device));
}

static int device_set_stream(lua_State *L) {
  tli_Change changes[2];
  stream_changes(L, check_stream(L, 1, tli_kind(L), "set_stream"), changes);
  tli_change_modes(L, 2, changes);
  return 0;
}

static int device_stream(lua_State *L) {
  tli_Change changes[2];
  stream_changes(L, check_stream(L, 1, tli_kind(L), "stream"), changes);
  lua_remove(L, 1);
  return tli_mode_scope(L, tli_device_name(tli_kind(L), "stream"), 2, changes);
}

static int stream_synchronize(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "synchronize");
  if (!tli_api(s->device)->stream_sync(s->stream))
    return tli_device_fail(L, type_of(s), "Stream.synchronize");
  tli_pinned_reap();
  return 0;
}

static int stream_query(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "query");
  bool done;
  if (!tli_api(s->device)->stream_query(s->stream, &done))
    return tli_device_fail(L, type_of(s), "Stream.query");
  lua_pushboolean(L, done);
  return 1;
}

static int stream_wait_stream(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "wait_stream");
  const Stream *other = check_stream(L, 2, type_of(s), "Stream.wait_stream");
  bool ok = tli_stream_follow(other->device, s->stream, other->stream);
  return ok ? 0 : tli_device_fail(L, type_of(s), "Stream.wait_stream");
}

static int wait_for(lua_State *L, const Stream *s, const Event *e, const char *name) {
  if (e->event == NULL || tli_api(s->device)->stream_wait(s->stream, e->event)) return 0;
  return tli_device_fail(L, type_of(s), name);
}

static int stream_wait_event(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "wait_event");
  return wait_for(L, s, check_event(L, 2, type_of(s), "Stream.wait_event"), "Stream.wait_event");
}

static void push_event(lua_State *L, tl_DeviceType type, int flags) {
  Event *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = (Event){type, TLI_NODEVICE, flags, NULL};
  luaL_setmetatable(L, EVENT);
}

/* Records an event. An event belongs to the device of the first stream on which it is recorded. */
static void record(lua_State *L, Event *e, const Stream *s, const char *name) {
  const tl_DeviceApi *api = tli_api(s->device);
  if (e->event == NULL) {
    e->event = api->event(s->device, e->flags);
    e->device = s->device;
    if (e->event == NULL) tli_device_fail(L, e->type, name);
  } else if (!tli_same_device(e->device, s->device)) {
    tli_error(L, "%s: expected a stream of %s, where the event was recorded before, got one of %s",
              tli_device_name(e->type, name), tli_device_str(e->device), tli_device_str(s->device));
  }
  if (!api->event_record(e->event, s->stream)) tli_device_fail(L, e->type, name);
}

static int stream_record_event(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "record_event");
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 1);
    push_event(L, type_of(s), 0);
  }
  record(L, check_event(L, 2, type_of(s), "Stream.record_event"), s, "Stream.record_event");
  lua_settop(L, 2);
  return 1;
}

static int stream_eq(lua_State *L) {
  const Stream *a = tli_to_stream(L, 1), *b = tli_to_stream(L, 2);
  lua_pushboolean(L, a && b && a->stream == b->stream);
  return 1;
}

static int stream_tostring(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "tostring");
  lua_pushfstring(L, "torch.%s.Stream(device=%s, id=%I)", tli_device_type_name(s->device.type),
                  tli_device_str(s->device), (LUAI_UACINT)tli_api(s->device)->stream_id(s->stream));
  return 1;
}

static int stream_index(lua_State *L) {
  const Stream *s = tli_device_self(L, STREAM, "index");
  const char *key = tli_to_word(L, 2);
  if (key && strcmp(key, "device") == 0)
    tli_push_device(L, s->device);
  else if (key && strcmp(key, "stream_id") == 0)
    lua_pushinteger(L, tli_api(s->device)->stream_id(s->stream));
  else if (key && strcmp(key, "cuda_stream") == 0 && tli_api(s->device)->stream_handle)
    lua_pushinteger(L, (lua_Integer)(uintptr_t)tli_api(s->device)->stream_handle(s->stream));
  else if (key && strcmp(key, "priority") == 0)
    lua_pushinteger(L, tli_api(s->device)->stream_priority(s->stream));
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
  tl_DeviceType type = tli_kind(L);
  tli_device_options(L, type, "Event", options, 3);
  for (int i = 1; i <= 3; i++)
    if (!lua_isnil(L, i) && !lua_isboolean(L, i))
      tli_device_refuse(L, type, "Event", options[i - 1], "true or false", i);
  if (lua_toboolean(L, 3))
    return tli_error(L, "%s: interprocess: not supported", tli_device_name(type, "Event"));
  tli_check_current(L, type, "Event");
  push_event(L, type,
             (lua_toboolean(L, 1) ? TL_EVENT_TIMING : 0) |
                 (lua_toboolean(L, 2) ? TL_EVENT_BLOCKING : 0));
  return 1;
}

/* Returns the stream at a stack index; nil means the current stream of the current device. */
static Stream stream_or_current(lua_State *L, int index, tl_DeviceType type, const char *name) {
  if (!lua_isnoneornil(L, index)) return *check_stream(L, index, type, name);
  tl_Device device = tli_check_current(L, type, name);
  return (Stream){device, tli_stream(device)};
}

static int event_record(lua_State *L) {
  Event *e = tli_device_self(L, EVENT, "record");
  Stream s = stream_or_current(L, 2, e->type, "Event.record");
  record(L, e, &s, "Event.record");
  return 0;
}

static int event_wait(lua_State *L) {
  const Event *e = tli_device_self(L, EVENT, "wait");
  Stream s = stream_or_current(L, 2, e->type, "Event.wait");
  return wait_for(L, &s, e, "Event.wait");
}

static int event_query(lua_State *L) {
  const Event *e = tli_device_self(L, EVENT, "query");
  bool done = true;
  if (e->event && !tli_api(e->device)->event_query(e->event, &done))
    return tli_device_fail(L, e->type, "Event.query");
  lua_pushboolean(L, done);
  return 1;
}

static int event_synchronize(lua_State *L) {
  const Event *e = tli_device_self(L, EVENT, "synchronize");
  if (e->event && !tli_api(e->device)->event_sync(e->event))
    return tli_device_fail(L, e->type, "Event.synchronize");
  tli_pinned_reap();
  return 0;
}

static int event_elapsed_time(lua_State *L) {
  const Event *e = tli_device_self(L, EVENT, "elapsed_time");
  const Event *end = check_event(L, 2, e->type, "Event.elapsed_time");
  double milliseconds;
  if (e->event == NULL || end->event == NULL)
    return tli_error(L, "%s: both events must have been recorded",
                     tli_device_name(e->type, "Event.elapsed_time"));
  if (!tli_same_device(e->device, end->device))
    return tli_error(L, "%s: expected events of one device, got %s and %s",
                     tli_device_name(e->type, "Event.elapsed_time"), tli_device_str(e->device),
                     tli_device_str(end->device));
  if (!tli_api(e->device)->event_elapsed(e->event, end->event, &milliseconds))
    return tli_device_fail(L, e->type, "Event.elapsed_time");
  lua_pushnumber(L, milliseconds);
  return 1;
}

static int event_gc(lua_State *L) {
  Event *e = luaL_testudata(L, 1, EVENT);
  if (e == NULL || e->event == NULL) return 0;
  tli_api(e->device)->event_free(e->event);
  e->event = NULL;
  return 0;
}

static int event_tostring(lua_State *L) {
  const Event *e = tli_device_self(L, EVENT, "tostring");
  lua_pushfstring(L, "torch.%s.Event(%s)", tli_device_type_name(e->type),
                  e->event ? tli_device_str(e->device) : "not recorded");
  return 1;
}

/* ---- opening ----------------------------------------------------------------------- */

const luaL_Reg tli_stream_functions[] = {{"Stream", device_stream_new},
                                         {"ExternalStream", device_external_stream},
                                         {"stream_priority_range", device_priority_range},
                                         {"current_stream", device_current_stream},
                                         {"default_stream", device_default_stream},
                                         {"set_stream", device_set_stream},
                                         {"stream", device_stream},
                                         {"Event", device_event},
                                         {NULL, NULL}};

void tli_open_streams(lua_State *L) {
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
  tli_open_device_class(L, STREAM, stream);
  tli_open_device_class(L, EVENT, event);
}
