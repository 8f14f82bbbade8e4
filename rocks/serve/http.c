/*
** http.c - HTTP for tlua.serve: a C module for Lua that uses libmicrohttpd.
*/
#include <signal.h>
#include <string.h>

#include "binding.h"
#include "numbers.h"

static volatile sig_atomic_t arrived_signal;

static void on_signal(int number) { arrived_signal = number; }

static const int caught[] = {SIGTERM, SIGINT, SIGHUP};
enum { CAUGHT = sizeof caught / sizeof *caught };
static struct sigaction before[CAUGHT];
static bool catches;

/* catch() installs handlers for SIGTERM, SIGINT and SIGHUP. After that, signalled() reports
** these signals, and they no longer end the process. */
static int http_catch(lua_State *L) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  arrived_signal = 0;
  for (int i = 0; i < CAUGHT && !catches; i++) sigaction(caught[i], &action, &before[i]);
  catches = true;
  (void)L;
  return 0;
}

/* release() restores the signal handlers that catch() has replaced. */
static int http_release(lua_State *L) {
  for (int i = 0; i < CAUGHT && catches; i++) sigaction(caught[i], &before[i], NULL);
  catches = false;
  (void)L;
  return 0;
}

/* signalled() returns "stop" or "reload" if such a signal has arrived since the last call of
** signalled(), and otherwise nil. */
static int http_signalled(lua_State *L) {
  int number = arrived_signal;
  arrived_signal = 0;
  if (number == 0)
    lua_pushnil(L);
  else
    lua_pushstring(L, number == SIGHUP ? "reload" : "stop");
  return 1;
}

/* library() returns libmicrohttpd's name and version. If the library is missing, it returns nil
** and a message. */
static int http_library(lua_State *L) {
  const char *message = load_library();
  if (message) return fail(L, NULL, message, NULL);
  lua_pushfstring(L, "libmicrohttpd %s", mhd.get_version());
  return 1;
}

static void new_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_tlua_serve_http(lua_State *L);
int luaopen_tlua_serve_http(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", http_start},
                                       {"attach", http_attach},
                                       {"catch", http_catch},
                                       {"signalled", http_signalled},
                                       {"release", http_release},
                                       {"library", http_library},
                                       {NULL, NULL}};
  new_class(L, SERVER, server_methods);
  new_class(L, REQUEST, request_methods);
  new_class(L, BATCH, batch_methods);
  luaL_newlib(L, functions);
  luaL_setfuncs(L, tlua_serve_numbers, 0);
  return 1;
}
