/*
** binding.h - functions that represent servers and requests as Lua objects.
*/
#ifndef TLUA_SERVE_BINDING_H
#define TLUA_SERVE_BINDING_H

#include <lauxlib.h>
#include <lua.h>

#include "server.h"

#define SERVER "tlua.serve.Server"
#define REQUEST "tlua.serve.Request"
#define BATCH "tlua.serve.Batch"

#pragma GCC visibility push(hidden)
extern const luaL_Reg server_methods[], request_methods[], batch_methods[];
int http_start(lua_State *L);
int http_attach(lua_State *L);

/* Pushes an object for a request, and takes ownership of the request. */
void push_request(lua_State *L, Request *r);

/* Releases a request that Lua has taken from a queue. If the request has no answer yet, it is
** answered with status 500. */
void drop_request(Request *r);

/* Returns the value of the request's header `name` or, if there is none, of the parameter `name`
** in its URL. Returns NULL if neither exists. */
const char *request_value(const Request *r, const char *name);

/* Pushes an object for a batch of n requests, and takes ownership of the requests. */
void push_batch(lua_State *L, Request **requests, int n);

/* Pushes nil and a message, and returns 2. Releases the server unless `s` is NULL. */
int fail(lua_State *L, Server *s, const char *message, const char *detail);

/* Returns the queue whose number is the argument at `index`, or raises an error. */
Queue *check_queue(lua_State *L, Server *s, int index);

/* Returns the argument at `index`, which must be a status from 200 to 599. */
int check_status(lua_State *L, int index);
#pragma GCC visibility pop

#endif
