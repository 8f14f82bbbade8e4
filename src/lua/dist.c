/*
** dist.c - stores, process groups and their calls in progress (Work) as Lua values. Users call the
** Lua code of torch.distributed, which checks the arguments and then calls these functions:
**
**   _store(host, port, seconds, serve, secret)      _join(store, name, rank, size, ranks,
**   _string(uint8 Tensor) -> string                       seconds, detail, backend) -> Group
**   _available(backend) -> boolean                  _sleep(seconds)
**   _mpi() -> rank, size, host                      _mpi_share(string) -> string
**   _secret() -> string                             _user() -> number of the process's user
**   _private_read(path) -> string, or nil, message, "missing", "foreign" or "refused"
**   _private_write(path, string) -> true, or nil, message
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "core/platform/platform.h"
#include "core/observe/profile.h"
#include "core/platform/share.h"
#include "dist/group.h"
#include "dist/secret.h"
#include "dist/store.h"
#include "lua/list_length.h"
#include "lua/tensor/value.h"

#define STORE "torch.distributed.Store"
#define GROUP "torch.distributed.Group"
#define WORK "torch.distributed.Work"

static void check_open(lua_State *L, const char *name) {
  if (tli_state(L)->ledger == NULL) tli_error(L, "%s: the Lua state is closing", name);
}

/* Converts the seconds at a stack index to nanoseconds. For nil returns `otherwise`. */
static int64_t check_time(lua_State *L, int index, const char *name, int64_t otherwise) {
  if (lua_isnoneornil(L, index)) return otherwise;
  double seconds = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : -1;
  if (!(seconds >= 0))
    tli_error(L, "%s: timeout: expected seconds from 0 on, got %s", name,
              tli_describe(L, tli_state(L), index));
  return seconds > 9e9 ? INT64_MAX / 4 : (int64_t)(seconds * 1e9);
}

/* ---- stores -------------------------------------------------------------------------- */

typedef struct Store {
  tli_StoreServer *server; /* the store's server (owned); NULL if another process serves */
  tli_Store *store;        /* the connection to the store (owned); NULL once closed */
  int64_t timeout;
  int port;
} Store;

#define DEFAULT_TIMEOUT INT64_C(300000000000)

static int dist_store(lua_State *L) {
  const char *host = luaL_checkstring(L, 1), *secret = luaL_optstring(L, 5, NULL);
  int64_t port = luaL_checkinteger(L, 2);
  if (port < 0 || port > 65535)
    return tli_error(L, "store: port: expected 0 to 65535, got %lld", (long long)port);
  int64_t timeout = check_time(L, 3, "store", DEFAULT_TIMEOUT);
  Store *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (Store){NULL, NULL, timeout, (int)port};
  luaL_setmetatable(L, STORE);
  tli_note_owner(L);
  if (lua_toboolean(L, 4)) {
    s->server = tli_store_serve(host, s->port, secret);
    if (s->server == NULL) return tli_raise_as(L, "store");
    s->port = tli_store_server_port(s->server);
  }
  s->store = tli_store_connect(*host ? host : "localhost", s->port, secret, timeout);
  return s->store ? 1 : tli_raise_as(L, "store");
}

static Store *check_store(lua_State *L, int index, const char *name) {
  Store *s = luaL_testudata(L, index, STORE);
  if (s == NULL)
    tli_error(L, "%s: expected a store, got %s", name, tli_describe(L, tli_state(L), index));
  if (s->store == NULL) tli_error(L, "%s: the store is closed", name);
  return s;
}

static const char *check_key(lua_State *L, int index, const char *name) {
  const char *key = tli_to_word(L, index);
  if (key == NULL)
    tli_error(L, "%s: key: expected a string without a byte 0, got %s", name,
              tli_describe(L, tli_state(L), index));
  return key;
}

static const char *check_value(lua_State *L, int index, const char *name, const char *what,
                               size_t *size) {
  if (lua_type(L, index) != LUA_TSTRING)
    tli_error(L, "%s: %s: expected a string, got %s", name, what,
              tli_describe(L, tli_state(L), index));
  return lua_tolstring(L, index, size);
}

static int put(lua_State *L, const char *name,
               bool (*call)(tli_Store *store, const char *key, const void *value, size_t size)) {
  Store *s = check_store(L, 1, name);
  const char *key = check_key(L, 2, name);
  size_t size;
  const char *value = check_value(L, 3, name, "value", &size);
  return call(s->store, key, value, size) ? 0 : tli_raise_as(L, name);
}

static int store_set(lua_State *L) { return put(L, "set", tli_store_set); }
static int store_append(lua_State *L) { return put(L, "append", tli_store_append); }

static int push_string(lua_State *L) {
  lua_pushlstring(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

/* Pushes a value of a store as a string, and frees the value. */
static int push_value(lua_State *L, char *value, size_t size) {
  lua_pushlightuserdata(L, value);
  /* a protected call, because the value must be freed even if pushing it raises an out-of-memory
  ** error */
  lua_pushcfunction(L, push_string);
  lua_insert(L, -2);
  lua_pushinteger(L, (lua_Integer)size);
  int status = lua_pcall(L, 2, 1, 0);
  free(value);
  return status == LUA_OK ? 1 : lua_error(L);
}

static int store_get(lua_State *L) {
  Store *s = check_store(L, 1, "get");
  const char *key = check_key(L, 2, "get");
  size_t size;
  char *value = tli_store_get(s->store, key, &size, check_time(L, 3, "get", s->timeout));
  return value ? push_value(L, value, size) : tli_raise_as(L, "get");
}

static int store_compare_set(lua_State *L) {
  Store *s = check_store(L, 1, "compare_set");
  const char *key = check_key(L, 2, "compare_set");
  size_t expected, bytes, size;
  check_value(L, 3, "compare_set", "expected_value", &expected);
  check_value(L, 4, "compare_set", "desired_value", &size);
  lua_settop(L, 4);
  lua_concat(L, 2);
  const char *both = lua_tolstring(L, 3, &bytes);
  char *value = tli_store_compare_set(s->store, key, both, bytes, expected, &size);
  return value ? push_value(L, value, size) : tli_raise_as(L, "compare_set");
}

/* store:set_timeout(seconds) sets the time after which the store's calls fail. */
static int store_set_timeout(lua_State *L) {
  Store *s = check_store(L, 1, "set_timeout");
  luaL_checkany(L, 2);
  s->timeout = check_time(L, 2, "set_timeout", s->timeout);
  return 0;
}

static int store_add(lua_State *L) {
  Store *s = check_store(L, 1, "add");
  const char *key = check_key(L, 2, "add");
  int64_t amount = 1, sum;
  if (!lua_isnoneornil(L, 3) && !tli_to_whole(L, 3, &amount))
    return tli_error(L, "add: amount: expected an integer, got %s",
                     tli_describe(L, tli_state(L), 3));
  if (!tli_store_add(s->store, key, amount, &sum)) return tli_raise_as(L, "add");
  lua_pushinteger(L, sum);
  return 1;
}

/* Calls a function with each key of the list at a stack index, or with the value itself if it is a
** single key instead of a list. */
static int each_key(lua_State *L, const char *name,
                    bool (*fn)(lua_State *L, Store *s, const char *key)) {
  Store *s = check_store(L, 1, name);
  if (lua_type(L, 2) != LUA_TTABLE) return fn(L, s, check_key(L, 2, name)) ? 1 : 0;
  for (lua_Integer i = 1; i <= tli_list_length(L, 2); i++) {
    lua_rawgeti(L, 2, i);
    if (!fn(L, s, check_key(L, lua_gettop(L), name))) return 0;
    lua_pop(L, 1);
  }
  return 1;
}

static bool wait_key(lua_State *L, Store *s, const char *key) {
  return tli_store_wait(s->store, key, check_time(L, 3, "wait", s->timeout)) ||
         tli_raise_as(L, "wait");
}

static int store_wait(lua_State *L) {
  each_key(L, "wait", wait_key);
  return 0;
}

static bool check_one(lua_State *L, Store *s, const char *key) {
  bool there;
  if (!tli_store_check(s->store, key, &there)) tli_raise_as(L, "check");
  return there;
}

static int store_check(lua_State *L) {
  lua_pushboolean(L, each_key(L, "check", check_one));
  return 1;
}

static int store_delete_key(lua_State *L) {
  Store *s = check_store(L, 1, "delete_key");
  bool there;
  if (!tli_store_delete(s->store, check_key(L, 2, "delete_key"), &there))
    return tli_raise_as(L, "delete_key");
  lua_pushboolean(L, there);
  return 1;
}

static int store_num_keys(lua_State *L) {
  Store *s = check_store(L, 1, "num_keys");
  int64_t n;
  if (!tli_store_count(s->store, &n)) return tli_raise_as(L, "num_keys");
  lua_pushinteger(L, n);
  return 1;
}

/* store:clear(prefix) deletes all keys with this prefix and returns the number of deleted keys. */
static int store_clear(lua_State *L) {
  Store *s = check_store(L, 1, "clear");
  int64_t n;
  if (!tli_store_clear(s->store, check_key(L, 2, "clear"), &n)) return tli_raise_as(L, "clear");
  lua_pushinteger(L, n);
  return 1;
}

static int store_port(lua_State *L) {
  lua_pushinteger(L, check_store(L, 1, "port")->port);
  return 1;
}

static int store_close(lua_State *L) {
  Store *s = luaL_checkudata(L, 1, STORE);
  tli_store_close(s->store);
  s->store = NULL;
  tli_store_server_stop(s->server);
  s->server = NULL;
  return 0;
}

/* ---- secrets ------------------------------------------------------------------------- */

static int dist_secret(lua_State *L) {
  char secret[TLI_SECRET_ROOM];
  if (!tli_secret_make(secret)) return tli_raise_as(L, "secret");
  lua_pushstring(L, secret);
  tli_secret_forget(secret, sizeof secret);
  return 1;
}

static int dist_user(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)tli_user());
  return 1;
}

static int dist_private_read(lua_State *L) {
  static const char *const results[] = {"read", "missing", "foreign", "refused"};
  char text[4096];
  tli_PrivateFile result = tli_private_file_read(luaL_checkstring(L, 1), text, sizeof text);
  if (result == TLI_PRIVATE_READ) {
    lua_pushstring(L, text);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, tl_error());
  lua_pushstring(L, results[result]);
  return 3;
}

static int dist_private_write(lua_State *L) {
  size_t size;
  const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
  if (tli_private_file_write(path, text, size)) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, tl_error());
  return 2;
}

/* ---- groups -------------------------------------------------------------------------- */

typedef struct Group {
  tli_Group *group; /* the group (owned); NULL after the rank has left it */
} Group;

/* _join(store, name, rank, size, ranks, seconds, detail, backend) returns a group. */
static int dist_join(lua_State *L) {
  check_store(L, 1, "init_process_group");
  const char *name = luaL_checkstring(L, 2), *backend = luaL_checkstring(L, 8);
  int64_t rank = luaL_checkinteger(L, 3), size = luaL_checkinteger(L, 4);
  int ranks[TLI_MOST_RANKS] = {0};
  luaL_checktype(L, 5, LUA_TTABLE);
  for (int i = 0; i < TLI_MOST_RANKS && i < size; i++) {
    lua_rawgeti(L, 5, i + 1);
    ranks[i] = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  int64_t timeout = check_time(L, 6, "init_process_group", DEFAULT_TIMEOUT);
  Group *g = lua_newuserdatauv(L, sizeof *g, 0);
  g->group = NULL;
  luaL_setmetatable(L, GROUP);
  tli_note_owner(L);
  /* reads the store again, because a finalizer may have closed it */
  const Store *s = check_store(L, 1, "init_process_group");
  bool small = rank >= -1 && rank < INT16_MAX && size >= -1 && size < INT16_MAX;
  g->group = tli_group_join(backend, s->store, name, small ? (int)rank : -1, small ? (int)size : -1,
                            ranks, timeout, lua_toboolean(L, 7));
  return g->group ? 1 : tli_raise_as(L, "init_process_group");
}

static int group_leave(lua_State *L) {
  Group *g = luaL_checkudata(L, 1, GROUP);
  tli_Group *group = g->group;
  g->group = NULL;
  tli_group_leave(group);
  return 0;
}

static void set_count(lua_State *L, const char *name, int64_t n) {
  lua_pushinteger(L, n);
  lua_setfield(L, -2, name);
}

/* group:traffic() returns a table of the traffic of each kind of call, {all_reduce = {calls =,
** bytes =, messages =, sent =}, ...}, or nil if the group does not record traffic. */
static int group_traffic(lua_State *L) {
  Group *g = luaL_checkudata(L, 1, GROUP);
  tli_Traffic t;
  if (g->group == NULL || !tli_group_traffic(g->group, TLI_BARRIER, &t)) return 0;
  lua_newtable(L);
  for (int kind = 0; kind < TLI_NCOLLECTIVES; kind++) {
    if (!tli_group_traffic(g->group, (tli_Collective)kind, &t) || t.calls == 0) continue;
    lua_newtable(L);
    set_count(L, "calls", t.calls);
    set_count(L, "bytes", t.bytes);
    set_count(L, "messages", t.messages);
    set_count(L, "sent", t.sent);
    lua_setfield(L, -2, tli_collective_names[kind]);
  }
  return 1;
}

static Group *check_group(lua_State *L, const char *name) {
  Group *g = luaL_checkudata(L, 1, GROUP);
  if (g->group == NULL) tli_error(L, "%s: the process group was destroyed", name);
  return g;
}

/* group:set_timeout(seconds) sets the timeout of the group's later calls. */
static int group_set_timeout(lua_State *L) {
  Group *g = check_group(L, "set_timeout");
  tli_group_set_timeout(g->group, check_time(L, 2, "set_timeout", DEFAULT_TIMEOUT));
  return 0;
}

/* group:batch(begins) begins a batch of messages if `begins` is true, and ends it otherwise. */
static int group_batch(lua_State *L) {
  Group *g = check_group(L, "batch_isend_irecv");
  tli_enter(L, tli_state(L));
  return tli_group_batch(g->group, lua_toboolean(L, 2)) ? 0 : tli_raise_as(L, "batch_isend_irecv");
}

/* group:next_pass() tells the group that another pass of training begins. A call that ranks make in
** different passes is an error. */
static int group_next_pass(lua_State *L) {
  Group *g = luaL_checkudata(L, 1, GROUP);
  if (g->group) tli_group_next_pass(g->group);
  return 0;
}

/* group:abort(why) ends the group on all ranks, which report the reason `why`. */
static int group_abort(lua_State *L) {
  Group *g = luaL_checkudata(L, 1, GROUP);
  if (g->group) tli_group_abort(g->group, luaL_checkstring(L, 2));
  return 0;
}

/* group:buffer(tensor, add) registers the memory of a tensor that is sent often. With add = false
** it removes the registration. */
static int group_buffer(lua_State *L) {
  Group *g = check_group(L, "register_buffer");
  tl_Tensor *t = tli_check_tensor(L, 2, "register_buffer");
  tli_enter(L, tli_state(L));
  return tli_group_buffer(g->group, t, lua_toboolean(L, 3)) ? 0
                                                            : tli_raise_as(L, "register_buffer");
}

/* group:common(like, n) returns a tensor of n elements of like's dtype in memory that all ranks
** share, or nil. */
static int group_common(lua_State *L) {
  Group *g = check_group(L, "common");
  const tl_Tensor *like = tli_check_tensor(L, 2, "common");
  int64_t n = luaL_checkinteger(L, 3);
  tl_Tensor *t = NULL;
  tli_enter(L, tli_state(L));
  if (tli_device(like).type == TL_CPU && !tli_group_common(g->group, (tl_DType)like->dtype, n, &t))
    return tli_raise_as(L, "common");
  if (t == NULL) return 0;
  tli_push_tensor(L, t);
  return 1;
}

typedef struct Work {
  tli_Work *work; /* owned */
} Work;

/* Returns the line of Lua code that made the call, such as "script.lua:12". The text is never
** freed. */
static const char *site_of(lua_State *L) {
  lua_State *before = tli_calling;
  const char *(*site)(void) = atomic_load(&tli_call_site);
  tli_calling = L;
  const char *text = site ? site() : NULL;
  tli_calling = before;
  return text;
}

static int option_of(lua_State *L, int index, const char *const *names, int n) {
  const char *word = tli_to_word(L, index);
  for (int i = 0; word && i < n; i++)
    if (strcmp(names[i], word) == 0) return i;
  return -1;
}

/* Reads an argument that is a list of tensors, one tensor, or nil. The tensors are borrowed from
** the stack. */
static tl_Tensors read_list(lua_State *L, const char *name, int index,
                            tl_Tensor *room[TLI_MOST_RANKS]) {
  tli_State *S = tli_state(L);
  tl_Tensors list = {0, room};
  if (lua_isnoneornil(L, index)) return list;
  bool many = lua_type(L, index) == LUA_TTABLE;
  list.n = many ? tli_list_length(L, index) : 1;
  if (list.n > TLI_MOST_RANKS) tli_error(L, "%s: too many tensors", name);
  for (int64_t i = 0; i < list.n; i++) {
    if (many)
      lua_rawgeti(L, index, i + 1);
    else
      lua_pushvalue(L, index);
    room[i] = lua_type(L, -1) == LUA_TUSERDATA ? tli_to_tensor(L, S, lua_gettop(L)) : NULL;
    if (room[i] == NULL)
      tli_error(L, "%s: expected a Tensor, got %s", name, tli_describe(L, S, lua_gettop(L)));
    lua_pop(L, 1);
  }
  return list;
}

/* Opens a profiler span that records the Lua call stack. tli_span_close ends the span. */
static tli_Span open_span(lua_State *L, const char *what) {
  if (!tli_profiling()) return (tli_Span){.event = -1};
  lua_State *before = tli_calling;
  char name[64];
  snprintf(name, sizeof name, "distributed.%s", what);
  tli_calling = L;
  tli_Span span = tli_span_open(TLI_SPAN_USER, name, NULL, 0);
  tli_calling = before;
  return span;
}

/* group:run(kind, inputs, outputs, reduction, root, tag, seconds, async) starts a call. If `async`
** is true, returns a Work. Otherwise waits for the end of the call; for a received message then
** returns the sender's rank in the group. */
static int group_run(lua_State *L) {
  check_open(L, "distributed");
  int kind = option_of(L, 2, tli_collective_names, TLI_NCOLLECTIVES);
  if (kind < 0) return tli_error(L, "run: unknown collective");
  const char *name = tli_collective_names[kind];
  Group *g = check_group(L, name);
  int reduce = lua_isnoneornil(L, 5) ? 0 : option_of(L, 5, tli_reduction_names, TLI_NREDUCTIONS);
  if (reduce < 0)
    return tli_error(L, "%s: op: expected sum, avg, product, min, max, band, bor or bxor, got %s",
                     name, tli_describe(L, tli_state(L), 5));
  bool async = lua_toboolean(L, 9);
  tl_Tensor *in[TLI_MOST_RANKS], *out[TLI_MOST_RANKS];
  Work *box = NULL;
  if (async) {
    box = lua_newuserdatauv(L, sizeof *box, 0);
    box->work = NULL;
    luaL_setmetatable(L, WORK);
    tli_note_owner(L);
    /* checks the group again, because a finalizer may have left the group while the userdata was
    ** made */
    check_group(L, name);
  }
  tli_Call call = {.kind = (tli_Collective)kind,
                   .reduce = (tli_Reduction)reduce,
                   .root = (int)luaL_optinteger(L, 6, 0),
                   .tag = luaL_optinteger(L, 7, 0),
                   .timeout = check_time(L, 8, name, 0),
                   .in = read_list(L, name, 3, in),
                   .out = read_list(L, name, 4, out),
                   .site = site_of(L)};
  tli_enter(L, tli_state(L));
  tli_Span span = open_span(L, name);
  tli_Work *w = tli_group_start(g->group, &call, async);
  bool ok = w && (async || tli_work_wait(w, 0));
  tli_span_close(span, 0);
  if (w == NULL) return tli_raise_as(L, name);
  if (async) {
    box->work = w;
    return 1;
  }
  lua_pushinteger(L, tli_work_source(w));
  tli_work_release(w);
  return ok ? 1 : tli_raise_as(L, name);
}

/* ---- calls under way ------------------------------------------------------------------ */

static tli_Work *check_work(lua_State *L, const char *name) {
  Work *w = luaL_testudata(L, 1, WORK);
  if (w == NULL || w->work == NULL)
    tli_error(L, "%s: expected a Work, got %s", name, tli_describe(L, tli_state(L), 1));
  return w->work;
}

/* work:wait(seconds?) waits until the call has ended and returns true. */
static int work_wait(lua_State *L) {
  tli_Work *w = check_work(L, "wait");
  check_open(L, "wait");
  tli_enter(L, tli_state(L));
  int64_t most = check_time(L, 2, "wait", 0);
  tli_Span span = open_span(L, "wait");
  bool ok = tli_work_wait(w, most);
  tli_span_close(span, 0);
  if (!ok) return tli_raise_as(L, tli_collective_names[tli_work_kind(w)]);
  lua_pushboolean(L, true);
  return 1;
}

static int work_is_completed(lua_State *L) {
  lua_pushboolean(L, tli_work_done(check_work(L, "is_completed")));
  return 1;
}

static int work_is_success(lua_State *L) {
  tli_Work *w = check_work(L, "is_success");
  lua_pushboolean(L, tli_work_done(w) && tli_work_error(w)[0] == '\0');
  return 1;
}

/* work:exception() returns the error message of a call, or nil. */
static int work_exception(lua_State *L) {
  const char *text = tli_work_error(check_work(L, "exception"));
  if (text[0])
    lua_pushstring(L, text);
  else
    lua_pushnil(L);
  return 1;
}

static int work_source(lua_State *L) {
  lua_pushinteger(L, tli_work_source(check_work(L, "source_rank")));
  return 1;
}

static int work_gc(lua_State *L) {
  Work *w = luaL_checkudata(L, 1, WORK);
  tli_work_release(w->work);
  w->work = NULL;
  return 0;
}

static int dist_string(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "string");
  if (t->dtype != TL_U8 || tli_device(t).type != TL_CPU || !tli_contiguous(t))
    return tli_error(L, "string: expected a row-major uint8 tensor of the CPU");
  lua_pushlstring(L, tli_data(t), (size_t)t->numel);
  return 1;
}

/* ---- MPI ------------------------------------------------------------------------------- */

static int dist_mpi(lua_State *L) {
  int rank, size;
  char host[256];
  if (!tli_mpi_rank(&rank, &size, host)) return tli_raise_as(L, "init_process_group");
  lua_pushinteger(L, rank);
  lua_pushinteger(L, size);
  lua_pushstring(L, host);
  return 3;
}

/* _mpi_share(text) sends rank 0's text, of at most 300 bytes, to all ranks and returns it on each
** of them. */
static int dist_mpi_share(lua_State *L) {
  char text[301];
  snprintf(text, sizeof text, "%s", luaL_optstring(L, 1, ""));
  if (!tli_mpi_share(text, sizeof text)) return tli_raise_as(L, "init_process_group");
  lua_pushstring(L, text);
  return 1;
}

/* _available(name) returns whether the backend with this name is available. */
static int dist_available(lua_State *L) {
  tli_enter(L, tli_state(L));
  lua_pushboolean(L, tli_group_available(luaL_checkstring(L, 1)));
  return 1;
}

/* ---- time ---------------------------------------------------------------------------- */

/* _sleep(seconds) sleeps for the given time, at most one second. */
static int dist_sleep(lua_State *L) {
  atomic_uint none = 0;
  int64_t ns = check_time(L, 1, "sleep", 0);
  if (ns > 1000000000) ns = 1000000000;
  tli_word_wait(&none, 0, ns);
  return tli_go_on() ? 0 : tli_raise(L);
}

/* ---- opening ------------------------------------------------------------------------- */

static void open_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc) {
  luaL_newmetatable(L, name);
  tli_set_functions(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_push_function(L, gc);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__gc");
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
}

void tli_open_dist(lua_State *L) {
  static const luaL_Reg store[] = {{"set", store_set},
                                   {"get", store_get},
                                   {"append", store_append},
                                   {"compare_set", store_compare_set},
                                   {"set_timeout", store_set_timeout},
                                   {"add", store_add},
                                   {"wait", store_wait},
                                   {"check", store_check},
                                   {"delete_key", store_delete_key},
                                   {"num_keys", store_num_keys},
                                   {"clear", store_clear},
                                   {"port", store_port},
                                   {"close", store_close},
                                   {NULL, NULL}};
  static const luaL_Reg group[] = {{"run", group_run},
                                   {"leave", group_leave},
                                   {"set_timeout", group_set_timeout},
                                   {"traffic", group_traffic},
                                   {"batch", group_batch},
                                   {"buffer", group_buffer},
                                   {"common", group_common},
                                   {"abort", group_abort},
                                   {"next_pass", group_next_pass},
                                   {NULL, NULL}};
  static const luaL_Reg work[] = {{"wait", work_wait},
                                  {"is_completed", work_is_completed},
                                  {"is_success", work_is_success},
                                  {"exception", work_exception},
                                  {"source_rank", work_source},
                                  {NULL, NULL}};
  static const luaL_Reg functions[] = {{"_store", dist_store},
                                       {"_join", dist_join},
                                       {"_string", dist_string},
                                       {"_sleep", dist_sleep},
                                       {"_mpi", dist_mpi},
                                       {"_mpi_share", dist_mpi_share},
                                       {"_available", dist_available},
                                       {"_secret", dist_secret},
                                       {"_user", dist_user},
                                       {"_private_read", dist_private_read},
                                       {"_private_write", dist_private_write},
                                       {NULL, NULL}};
  open_class(L, STORE, store, store_close);
  open_class(L, GROUP, group, group_leave);
  open_class(L, WORK, work, work_gc);
  lua_newtable(L);
  tli_set_functions(L, functions);
  lua_setfield(L, -2, "distributed");
}
