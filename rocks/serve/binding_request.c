/*
** binding_request.c - the methods of tlua.serve.Request.
*/
#include "binding.h"

#include <string.h>
#include <strings.h>

#include "replies.h"

static Request *check_request(lua_State *L) {
  Request *r = *(Request **)luaL_checkudata(L, 1, REQUEST);
  if (r == NULL) luaL_error(L, "serve: the request was forwarded");
  return r;
}

void push_request(lua_State *L, Request *r) {
  Request **box = lua_newuserdatauv(L, sizeof(Request *), 0);
  *box = r;
  luaL_setmetatable(L, REQUEST);
}

void drop_request(Request *r) {
  static const char text[] = "{\"error\":\"the request was dropped\"}";
  /* A request is dropped without an answer if an error in Lua has ended the code that should
  ** answer it. Its client must not wait for ever. */
  if (!r->answered && !r->waiting)
    answer(r, 500, text_response("application/json", text, sizeof text - 1), sizeof text - 1);
  if (r->streams) (void)feed(r, "", 0, true);
  request_release(r);
}

const char *request_value(const Request *r, const char *name) {
  for (const char *p = r->path + strlen(r->path) + 1; *p;) {
    const char *value = p + strlen(p) + 1;
    if (strcasecmp(p, name) == 0) return value;
    p = value + strlen(value) + 1;
  }
  return NULL;
}

static int request_gc(lua_State *L) {
  Request **box = luaL_checkudata(L, 1, REQUEST);
  Request *r = *box;
  *box = NULL;
  if (r) drop_request(r);
  return 0;
}

static int request_method(lua_State *L) {
  lua_pushstring(L, check_request(L)->texts);
  return 1;
}

static int request_path(lua_State *L) {
  lua_pushstring(L, check_request(L)->path);
  return 1;
}

static int request_peer(lua_State *L) {
  lua_pushstring(L, check_request(L)->peer);
  return 1;
}

/* request:header(name) returns the value of a header or of a parameter in the URL. It returns
** nil if there is neither. */
static int request_header(lua_State *L) {
  const Request *r = check_request(L);
  lua_pushstring(L, request_value(r, luaL_checkstring(L, 2)));
  return 1;
}

static int request_body(lua_State *L) {
  const Request *r = check_request(L);
  lua_pushlstring(L, r->body ? r->body : "", r->size);
  return 1;
}

/* request:age() returns the seconds since the request's arrival. */
static int request_age(lua_State *L) {
  lua_pushnumber(L, (double)(now() - check_request(L)->arrived) * 1e-9);
  return 1;
}

/* request:gone() returns whether nothing more must be sent: the client has left or already has
** its whole answer. */
static int request_gone(lua_State *L) {
  const Request *r = check_request(L);
  lua_pushboolean(L, r->gone || (r->answered && !r->streams));
  return 1;
}

static void add_headers(lua_State *L, int index, Response *response) {
  if (!lua_istable(L, index)) return;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) == LUA_TSTRING && lua_isstring(L, -1))
      mhd.add_response_header(response, lua_tostring(L, -2), lua_tostring(L, -1));
    lua_pop(L, 1);
  }
}

/* request:reply(status, type, body, headers) sends an answer. Returns false if the client has
** left, or if the request already has an answer. */
static int request_reply(lua_State *L) {
  Request *r = check_request(L);
  int status = check_status(L, 2);
  size_t size;
  const char *type = luaL_checkstring(L, 3), *body = luaL_checklstring(L, 4, &size);
  Response *response = text_response(type, body, size);
  if (response == NULL) return luaL_error(L, "not enough memory");
  add_headers(L, 5, response);
  lua_pushboolean(L, answer(r, status, response, (int64_t)size));
  return 1;
}

/* request:stream(status, type, headers) begins an answer whose body is sent in parts, by
** request:write(text). Both return false if the client has left. */
static int request_stream(lua_State *L) {
  Request *r = check_request(L);
  int status = check_status(L, 2);
  const char *type = luaL_checkstring(L, 3);
  if (r->streams) return luaL_error(L, "serve: the stream has begun already");
  atomic_fetch_add(&r->refs, 1);
  Response *response =
      mhd.create_response_from_callback(UINT64_MAX, 4096, read_stream, r, release_stream);
  if (response == NULL) {
    request_release(r);
    return luaL_error(L, "not enough memory");
  }
  mhd.add_response_header(response, "Content-Type", type);
  add_headers(L, 4, response);
  r->streams = true;
  lua_pushboolean(L, answer(r, status, response, 0));
  return 1;
}

static int request_write(lua_State *L) {
  Request *r = check_request(L);
  if (!r->streams) return luaL_error(L, "serve: the stream has not begun");
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  lua_pushboolean(L, feed(r, text, size, false));
  return 1;
}

/* request:finish() ends a stream. Returns false if there is no stream or the client has left. */
static int request_finish(lua_State *L) {
  lua_pushboolean(L, feed(check_request(L), "", 0, true));
  return 1;
}

/* request:forward(queue) puts the request into another queue and invalidates the Lua object.
** Returns false and a status if the queue is full (429) or closed (503). */
static int request_forward(lua_State *L) {
  Request *r = check_request(L);
  check_queue(L, r->server, 2);
  if (r->streams) return luaL_error(L, "serve: the stream has begun");
  int status = enqueue(r->server, r, (int)lua_tointeger(L, 2), false);
  if (status == 0) {
    *(Request **)lua_touserdata(L, 1) = NULL;
    request_release(r);
  }
  lua_pushboolean(L, status == 0);
  lua_pushinteger(L, status);
  return 2;
}

const luaL_Reg request_methods[] = {{"method", request_method}, {"path", request_path},
                                    {"peer", request_peer},     {"header", request_header},
                                    {"body", request_body},     {"age", request_age},
                                    {"gone", request_gone},     {"reply", request_reply},
                                    {"stream", request_stream}, {"write", request_write},
                                    {"finish", request_finish}, {"forward", request_forward},
                                    {"__gc", request_gc},       {NULL, NULL}};
