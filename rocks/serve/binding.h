/*
** binding.h - servers and requests as objects in Lua.
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

/* Releases a request that its interpreter has taken. A client without an answer gets status 500. */
void drop_request(Request *r);

/* Returns the value of a request's header, or of a parameter in the URL, or NULL. */
const char *request_value(const Request *r, const char *name);

/* Pushes an object for n requests, and takes ownership of the requests. */
void push_batch(lua_State *L, Request **requests, int n);

/* Pushes nil and a message, releases the server if there is one, and returns 2. */
int fail(lua_State *L, Server *s, const char *message, const char *detail);

/* Returns the queue whose number is the argument at `index`, or raises an error. */
Queue *check_queue(lua_State *L, Server *s, int index);

/* Returns the argument at `index`, which must be the status of a final answer. */
int check_status(lua_State *L, int index);
#pragma GCC visibility pop

#endif
