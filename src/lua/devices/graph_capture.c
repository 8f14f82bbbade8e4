/*
** graph_capture.c - capture and replay of the graphs of torch.cuda and torch.sim. The functions
** that capture the work of a Lua function are written in Lua: lua/tlua/device/init.lua and
** graphed_callables.lua.
*/
#include <stdio.h>
#include <string.h>

#include "core/device/capture.h"
#include "lua/modes/autocast.h"
#include "lua/devices/device_module.h"

#define GRAPH "torch.Graph"

typedef struct Graph {
  tl_DeviceType type;
  tli_Capture *capture; /* the graph (owned); NULL until a capture begins */
} Graph;

static int device_graph_new(lua_State *L) {
  tli_device_only(L, 0, "CUDAGraph");
  tl_DeviceType type = tli_kind(L);
  tli_check_current(L, type, "CUDAGraph");
  Graph *g = lua_newuserdatauv(L, sizeof *g, 0);
  *g = (Graph){type, NULL};
  luaL_setmetatable(L, GRAPH);
  tli_note_owner(L);
  return 1;
}

/* Reads the number of a memory pool, as returned by graph_pool_handle or by a graph's method
** `pool`. Returns 0 for nil. */
static uint64_t check_pool(lua_State *L, int index, tl_DeviceType type, const char *name) {
  int64_t pool = 0;
  if (lua_isnoneornil(L, index)) return 0;
  if (!tli_to_whole(L, index, &pool) || pool < 1 || (uint64_t)pool > tli_capture_last_pool())
    tli_device_refuse(L, type, name, "pool", "a result of graph_pool_handle() or g:pool()", index);
  return (uint64_t)pool;
}

static tl_CaptureMode check_mode(lua_State *L, int index, tl_DeviceType type, const char *name) {
  static const char *const names[] = {"global", "thread_local", "relaxed"};
  const char *given = tli_to_word(L, index);
  if (lua_isnoneornil(L, index)) return TL_CAPTURE_GLOBAL;
  for (int mode = 0; given && mode < 3; mode++)
    if (strcmp(names[mode], given) == 0) return (tl_CaptureMode)mode;
  tli_device_refuse(L, type, name, "capture_error_mode",
                    "\"global\", \"thread_local\" or \"relaxed\"", index);
  return TL_CAPTURE_GLOBAL;
}

/* capture_begin(pool, capture_error_mode) begins a capture; the arguments may also be given as a
** table of options. */
static int graph_capture_begin(lua_State *L) {
  static const char name[] = "CUDAGraph.capture_begin";
  static const char *const options[] = {"pool", "capture_error_mode"};
  Graph *g = tli_device_self(L, GRAPH, "capture_begin");
  lua_remove(L, 1);
  tli_device_options(L, g->type, name, options, 2);
  uint64_t pool = check_pool(L, 1, g->type, name);
  tl_CaptureMode mode = check_mode(L, 2, g->type, name);
  tl_Device device = tli_check_current(L, g->type, name);
  if (g->capture == NULL) g->capture = tli_capture_new();
  if (g->capture && tli_capture_begin(g->capture, device, pool, mode)) return 0;
  return tli_device_fail(L, g->type, name);
}

/* Raises an error that says that nothing was captured into the graph. */
static int nothing(lua_State *L, const Graph *g, const char *name) {
  return tli_error(L, "%s: nothing was captured", tli_device_name(g->type, name));
}

static int graph_capture_end(lua_State *L) {
  const Graph *g = tli_device_self(L, GRAPH, "capture_end");
  lua_State *before = tli_calling;
  /* sets the Lua state in which the engine may collect garbage before it queues the capture's last
  ** kernel, so that the kernel need not store results that are garbage */
  tli_calling = L;
  bool ok = g->capture && tli_capture_end(g->capture);
  tli_calling = before;
  if (ok) return 0;
  if (g->capture == NULL) tli_fail(TL_EDEVICE, "no capture was begun");
  return tli_device_fail(L, g->type, "CUDAGraph.capture_end");
}

static int graph_replay(lua_State *L) {
  const Graph *g = tli_device_self(L, GRAPH, "replay");
  if (g->capture == NULL) return nothing(L, g, "CUDAGraph.replay");
  tli_enter(L, tli_state(L));
  /* autocast forgets its casts of parameters, because a replay may change the parameters */
  tli_autocast_forget(tli_state(L));
  return tli_capture_replay(g->capture) ? 0 : tli_device_fail(L, g->type, "CUDAGraph.replay");
}

static int graph_pool(lua_State *L) {
  const Graph *g = tli_device_self(L, GRAPH, "pool");
  uint64_t pool = g->capture ? tli_capture_pool(g->capture) : 0;
  if (pool == 0) return nothing(L, g, "CUDAGraph.pool");
  lua_pushinteger(L, (lua_Integer)pool);
  return 1;
}

/* Ends an open capture and releases the captured graph. */
static int graph_reset(lua_State *L) {
  Graph *g = luaL_testudata(L, 1, GRAPH);
  if (g == NULL) return 0;
  tli_capture_free(g->capture);
  g->capture = NULL;
  return 0;
}

static int graph_tostring(lua_State *L) {
  const Graph *g = tli_device_self(L, GRAPH, "tostring");
  const char *state = g->capture == NULL || tli_capture_pool(g->capture) == 0 ? "empty"
                      : tli_capture_open(g->capture)                          ? "capturing"
                                                                              : "captured";
  lua_pushfstring(L, "torch.%s.CUDAGraph(%s)", tli_device_type_name(g->type), state);
  return 1;
}

/* ---- functions --------------------------------------------------------------------- */

static int device_is_capturing(lua_State *L) {
  tli_device_only(L, 0, "is_current_stream_capturing");
  tl_Device device = tli_check_current(L, tli_kind(L), "is_current_stream_capturing");
  lua_pushboolean(L, tli_api(device)->capture(tli_stream(device)) != 0);
  return 1;
}

static int device_pool_handle(lua_State *L) {
  tli_device_only(L, 0, "graph_pool_handle");
  lua_pushinteger(L, (lua_Integer)tli_capture_new_pool());
  return 1;
}

const luaL_Reg tli_capture_functions[] = {{"CUDAGraph", device_graph_new},
                                          {"Graph", device_graph_new},
                                          {"graph_pool_handle", device_pool_handle},
                                          {"is_current_stream_capturing", device_is_capturing},
                                          {NULL, NULL}};

void tli_open_captures(lua_State *L) {
  static const luaL_Reg graph[] = {{"capture_begin", graph_capture_begin},
                                   {"capture_end", graph_capture_end},
                                   {"replay", graph_replay},
                                   {"pool", graph_pool},
                                   {"reset", graph_reset},
                                   {"__gc", graph_reset},
                                   {"__close", graph_reset},
                                   {"__tostring", graph_tostring},
                                   {NULL, NULL}};
  tli_open_device_class(L, GRAPH, graph);
}
