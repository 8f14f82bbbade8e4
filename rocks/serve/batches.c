/*
** batches.c - the methods of tlua.serve.Batch, a group of requests that a thread has taken
** together. Requests with the same JSON are read and answered here: creating a Lua object for each
** request takes longer than the run of a small network.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "replies.h"

typedef struct Batch {
  int n;
  Request *requests[];
} Batch;

void push_batch(lua_State *L, Request **requests, int n) {
  Batch *b = lua_newuserdatauv(L, sizeof *b + (size_t)n * sizeof *requests, 0);
  b->n = n;
  if (n > 0) memcpy(b->requests, requests, (size_t)n * sizeof *requests);
  luaL_setmetatable(L, BATCH);
}

static Batch *check_batch(lua_State *L) { return luaL_checkudata(L, 1, BATCH); }

/* Returns the argument at `index`, which must be at most the number of requests in the batch. */
static int check_count(lua_State *L, const Batch *b, int index) {
  lua_Integer n = luaL_checkinteger(L, index);
  luaL_argcheck(L, n >= 0 && n <= b->n, index, "the batch has fewer requests");
  return (int)n;
}

/* batch:size() returns the number of requests. */
static int batch_size(lua_State *L) {
  lua_pushinteger(L, check_batch(L)->n);
  return 1;
}

/* batch:split() returns the requests as a list of Lua objects and leaves the batch empty. */
static int batch_split(lua_State *L) {
  Batch *b = check_batch(L);
  lua_createtable(L, b->n, 0);
  for (int i = 0; b->n > 0; i++) {
    push_request(L, b->requests[0]);
    memmove(b->requests, b->requests + 1, (size_t)--b->n * sizeof *b->requests);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* batch:same(head, size) returns how many requests at the beginning of the batch, one after
** another, fulfil four conditions: the body has `size` bytes and begins with the JSON `head`, a
** header gives the length of `head`, and the body is not compressed. */
static int batch_same(lua_State *L) {
  const Batch *b = check_batch(L);
  size_t length;
  const char *head = luaL_checklstring(L, 2, &length);
  lua_Integer size = luaL_checkinteger(L, 3);
  char digits[24];
  snprintf(digits, sizeof digits, "%zu", length);
  int n = 0;
  for (; n < b->n; n++) {
    const Request *r = b->requests[n];
    const char *given = request_value(r, "Inference-Header-Content-Length");
    if (r->size != (size_t)size || r->size < length || given == NULL || strcmp(given, digits) != 0)
      break;
    if (memcmp(r->body, head, length) != 0 || request_value(r, "Content-Encoding")) break;
  }
  lua_pushinteger(L, n);
  return 1;
}

/* batch:age(n) returns the sum of the ages of the first n requests, in seconds. The age of a
** request is the time since its arrival. */
static int batch_age(lua_State *L) {
  const Batch *b = check_batch(L);
  int n = check_count(L, b, 2);
  int64_t sum = 0, t = now();
  for (int i = 0; i < n; i++) sum += t - b->requests[i]->arrived;
  lua_pushnumber(L, (double)sum * 1e-9);
  return 1;
}

/* batch:join(n, first, size) concatenates a part of the bodies of the first n requests: `size`
** bytes of each body, beginning at position `first` (counted from 1). */
static int batch_join(lua_State *L) {
  const Batch *b = check_batch(L);
  int n = check_count(L, b, 2);
  lua_Integer first = luaL_checkinteger(L, 3), size = luaL_checkinteger(L, 4);
  luaL_argcheck(L, first >= 1 && size >= 0, 3, "out of range");
  for (int i = 0; i < n; i++)
    if ((size_t)first - 1 > b->requests[i]->size ||
        (size_t)size > b->requests[i]->size - ((size_t)first - 1))
      return luaL_argerror(L, 4, "a body is shorter");
  if (n * size == 0) {
    lua_pushliteral(L, "");
    return 1;
  }
  luaL_Buffer buffer;
  char *out = luaL_buffinitsize(L, &buffer, (size_t)(n * size));
  for (int i = 0; i < n; i++, out += size)
    memcpy(out, b->requests[i]->body + first - 1, (size_t)size);
  luaL_pushresultsize(&buffer, (size_t)(n * size));
  return 1;
}

/* Returns an answer whose body is `head`, followed by the i-th block of each text. Blocks of a
** text have equal size. In the table at index 4, each text is followed by the size of its
** blocks. `size` is the size of the whole body. */
static Response *rows_response(lua_State *L, int i, const char *head, size_t length, size_t size,
                               int ntexts) {
  char *body = malloc(size), *out = body, digits[24];
  if (body == NULL) return NULL;
  memcpy(out, head, length);
  out += length;
  for (int k = 0; k < ntexts; k++) {
    lua_rawgeti(L, 4, 2 * k + 1);
    lua_rawgeti(L, 4, 2 * k + 2);
    size_t width = (size_t)lua_tointeger(L, -1);
    memcpy(out, lua_tostring(L, -2) + (size_t)i * width, width);
    out += width;
    lua_pop(L, 2);
  }
  Response *r = mhd.create_response_from_buffer(size, body, MEMORY_FREE);
  if (r == NULL) {
    free(body);
    return NULL;
  }
  snprintf(digits, sizeof digits, "%zu", length);
  mhd.add_response_header(r, "Content-Type", "application/octet-stream");
  mhd.add_response_header(r, "Inference-Header-Content-Length", digits);
  return r;
}

/* batch:reply(n, head, {text, width, ...}) answers the first n requests and removes them from
** the batch. The i-th answer is the JSON `head`, followed by a part of each text: its i-th block
** of `width` bytes. Returns a list of the ages of these requests in seconds. */
static int batch_reply(lua_State *L) {
  Batch *b = check_batch(L);
  int n = check_count(L, b, 2);
  size_t length;
  const char *head = luaL_checklstring(L, 3, &length);
  luaL_checktype(L, 4, LUA_TTABLE);
  int ntexts = (int)(lua_rawlen(L, 4) / 2);
  size_t size = length;
  for (int k = 0; k < ntexts; k++) {
    lua_rawgeti(L, 4, 2 * k + 1);
    lua_rawgeti(L, 4, 2 * k + 2);
    lua_Integer width = lua_tointeger(L, -1);
    luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING && width >= 0, 4, "expected texts and widths");
    luaL_argcheck(L, (size_t)(n * width) <= lua_rawlen(L, -2), 4, "a text is too short");
    size += (size_t)width;
    lua_pop(L, 2);
  }
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, (double)(now() - b->requests[i]->arrived) * 1e-9);
    lua_rawseti(L, -2, i + 1);
    answer(b->requests[i], 200, rows_response(L, i, head, length, size, ntexts), (int64_t)size);
    drop_request(b->requests[i]);
  }
  b->n -= n;
  memmove(b->requests, b->requests + n, (size_t)b->n * sizeof *b->requests);
  return 1;
}

/* Answers the requests that are still in the batch with status 500. They are left if an error in
** Lua has interrupted the thread. */
static int batch_gc(lua_State *L) {
  Batch *b = check_batch(L);
  while (b->n > 0) drop_request(b->requests[--b->n]);
  return 0;
}

const luaL_Reg batch_methods[] = {
    {"size", batch_size}, {"split", batch_split}, {"same", batch_same},
    {"age", batch_age},   {"join", batch_join},   {"reply", batch_reply},
    {"__gc", batch_gc},   {"__close", batch_gc},  {NULL, NULL}};
