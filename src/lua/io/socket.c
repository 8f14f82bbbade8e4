/*
** socket.c - TCP connections for code in lua/tlua, such as torch.utils.mlflow. The functions are
** internal, not for users.
*/
#include "core/platform/platform.h"
#include "core/platform/socket.h"
#include "lua/tensor/value.h"

#define SOCKET "torch.Socket"

#ifdef TLI_INFER
/* a build with PROFILE=infer has no TLS connections, so the calls for them are left out */
#define TLS(call) 0
#else
#include "io/curl.h"
#define TLS(call) tli_curl_##call
#endif

typedef struct Socket {
  int fd;
  int port;  /* the listener's port; not set for a connection */
  void *tls; /* libcurl's connection, which owns fd (owned); NULL for a connection without TLS */
} Socket;

static Socket *check_socket(lua_State *L) {
  Socket *s = luaL_checkudata(L, 1, SOCKET);
  if (s->fd == TLI_NOSOCKET) tli_error(L, "socket: the socket is closed");
  return s;
}

static int64_t deadline(lua_State *L, int index, double otherwise) {
  double seconds = luaL_optnumber(L, index, otherwise);
  if (!(seconds >= 0 && seconds < 1e6)) tli_error(L, "socket: expected a number of seconds");
  return tli_now_ns() + (int64_t)(seconds * 1e9);
}

static Socket *push_socket(lua_State *L) {
  Socket *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (Socket){TLI_NOSOCKET, 0, NULL};
  luaL_setmetatable(L, SOCKET);
  return s;
}

/* Returns nil and the message of the engine's last error to Lua. */
static int failed(lua_State *L) {
  lua_pushnil(L);
  lua_pushstring(L, tl_error());
  return 2;
}

/* _connect(host, port, seconds) returns a socket, or nil and a message. */
static int torch_connect(lua_State *L) {
  const char *host = luaL_checkstring(L, 1);
  lua_Integer port = luaL_checkinteger(L, 2);
  int64_t until = deadline(L, 3, 10);
  if (port < 1 || port > 65535) return tli_error(L, "socket: expected a port from 1 to 65535");
  Socket *s = push_socket(L);
  s->fd = tli_socket_connect(host, (int)port, until);
  return s->fd == TLI_NOSOCKET ? failed(L) : 1;
}

#ifndef TLI_INFER
/* _connect_tls(address, seconds, certificates?) returns a socket, or nil and a message. `address`
** is "https://host:port"; `certificates` is a file with the certificates of trusted authorities. */
static int torch_connect_tls(lua_State *L) {
  const char *address = luaL_checkstring(L, 1);
  int64_t until = deadline(L, 2, 10);
  const char *authorities = luaL_optstring(L, 3, NULL);
  Socket *s = push_socket(L);
  s->tls = tli_curl_connect(address, authorities, until, &s->fd);
  return s->tls ? 1 : failed(L);
}
#endif

/* _listen(host, port?) returns a listener, or nil and a message. */
static int torch_listen(lua_State *L) {
  const char *host = luaL_checkstring(L, 1);
  lua_Integer port = luaL_optinteger(L, 2, 0);
  if (port < 0 || port > 65535) return tli_error(L, "socket: expected a port from 0 to 65535");
  Socket *s = push_socket(L);
  s->port = (int)port;
  s->fd = tli_socket_listen(host, &s->port);
  return s->fd == TLI_NOSOCKET ? failed(L) : 1;
}

/* accept(seconds) returns the next connection, or nil. */
static int socket_accept(lua_State *L) {
  const Socket *listener = check_socket(L);
  int64_t until = deadline(L, 2, 10);
  Socket *s = push_socket(L);
  int fd = tli_socket_wait(listener->fd, until) ? tli_socket_accept(listener->fd) : TLI_NOSOCKET;
  if (fd >= 0)
    s->fd = fd;
  else
    lua_pushnil(L);
  return 1;
}

/* send(text, seconds) returns true, or nil and a message. */
static int socket_send(lua_State *L) {
  const Socket *s = check_socket(L);
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  int64_t until = deadline(L, 3, 10);
  bool ok = s->tls ? TLS(send(s->tls, s->fd, text, size, until))
                   : tli_socket_send(s->fd, text, size, until);
  if (!ok) return failed(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* take(seconds) waits until at least one byte is available, and returns the available bytes.
** Returns "" if no byte has arrived in time, nil if the other side has closed the connection, and
** nil with a message if the connection has failed. */
static int socket_take(lua_State *L) {
  const Socket *s = check_socket(L);
  int64_t until = deadline(L, 2, 10);
  char data[1 << 14];
  int64_t n = s->tls                          ? TLS(take(s->tls, s->fd, data, sizeof data, until))
              : tli_socket_wait(s->fd, until) ? tli_socket_take(s->fd, data, sizeof data)
                                              : 0;
  if (n < -1) return failed(L);
  if (n < 0)
    lua_pushnil(L);
  else
    lua_pushlstring(L, data, (size_t)n);
  return 1;
}

static int socket_port(lua_State *L) {
  lua_pushinteger(L, check_socket(L)->port);
  return 1;
}

static int socket_close(lua_State *L) {
  Socket *s = luaL_checkudata(L, 1, SOCKET);
  if (s->tls)
    (void)TLS(close(s->tls));
  else
    tli_socket_close(s->fd);
  *s = (Socket){TLI_NOSOCKET, 0, NULL};
  return 0;
}

void tli_open_socket(lua_State *L) {
  static const luaL_Reg functions[] = {{"_connect", torch_connect},
#ifndef TLI_INFER
                                       {"_connect_tls", torch_connect_tls},
#endif
                                       {"_listen", torch_listen},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"accept", socket_accept}, {"send", socket_send},
                                     {"take", socket_take},     {"port", socket_port},
                                     {"close", socket_close},   {"__close", socket_close},
                                     {"__gc", socket_close},    {NULL, NULL}};
  luaL_newmetatable(L, SOCKET);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_set_functions(L, methods);
  lua_pop(L, 1);
  tli_set_functions(L, functions);
}
