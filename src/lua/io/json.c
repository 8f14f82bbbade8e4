/*
** json.c - a fast reader for most valid JSON texts. Other texts, including invalid ones, are left
** to lua/tlua/utils/json.lua, which is slower and explains errors.
*/
#include <string.h>

#include "core/platform/parallel.h"
#include "lua/tensor/value.h"

enum { DEPTH = 64, ARRAY = 2, NOTHING = 3, LONGEST_NUMBER = 60 };

static const char *value(lua_State *L, const char *at, const char *end, int depth);

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static const char *skip(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

/* Returns the end of the UTF-8 character at `at`; NULL if the bytes there are not valid. */
static const char *character(const char *at, const char *end) {
  unsigned char lead = (unsigned char)*at;
  int n = lead < 0x80   ? 1
          : lead < 0xC2 ? 0
          : lead < 0xE0 ? 2
          : lead < 0xF0 ? 3
          : lead < 0xF5 ? 4
                        : 0;
  if (n == 0 || end - at < n) return NULL;
  for (int i = 1; i < n; i++)
    if ((at[i] & 0xC0) != 0x80) return NULL;
  unsigned char second = n > 1 ? (unsigned char)at[1] : 0;
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
    return NULL;
  return at + n;
}

/* Pushes the string that begins with the quote at `at`, and returns its end. Returns NULL for a
** string that the slower reader must read, such as one with an escape \uXXXX. */
static const char *string(lua_State *L, const char *at, const char *end) {
  const char *first = ++at;
  while (at < end && *at != '"' && *at != '\\') {
    if ((unsigned char)*at < 32) return NULL;
    at = character(at, end);
    if (at == NULL) return NULL;
  }
  if (at < end && *at == '"') {
    lua_pushlstring(L, first, (size_t)(at - first));
    return at + 1;
  }
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addlstring(&b, first, (size_t)(at - first));
  while (at < end && *at != '"') {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *next = character(at, end), *letter;
    if ((unsigned char)*at < 32 || next == NULL) return NULL;
    if (*at != '\\') {
      luaL_addlstring(&b, at, (size_t)(next - at));
    } else {
      if (next == end || *next == '\0' || (letter = strchr(from, *next)) == NULL) return NULL;
      luaL_addchar(&b, to[letter - from]);
      next++;
    }
    at = next;
  }
  if (at >= end) return NULL;
  luaL_pushresult(&b);
  return at + 1;
}

static const char *digits(const char *at, const char *end) {
  while (at < end && *at >= '0' && *at <= '9') at++;
  return at;
}

static const char *number(lua_State *L, const char *at, const char *end) {
  char copy[LONGEST_NUMBER + 4];
  const char *first = at, *whole = at + (*at == '-');
  at = digits(whole, end);
  size_t n = (size_t)(at - first);
  if (at == whole || (*whole == '0' && at - whole > 1) || at - whole > 18) return NULL;
  bool real = at < end && (*at == '.' || *at == 'e' || *at == 'E');
  if (!real && !(*first == '-' && *whole == '0')) {
    lua_Integer result = 0;
    for (const char *c = whole; c < at; c++) result = 10 * result + (*c - '0');
    lua_pushinteger(L, *first == '-' ? -result : result);
  } else {
    if (at < end && *at == '.') {
      const char *rest = at + 1;
      at = digits(rest, end);
      if (at == rest) return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
      const char *exponent = at + 1;
      if (exponent < end && (*exponent == '+' || *exponent == '-')) exponent++;
      at = digits(exponent, end);
      if (at == exponent) return NULL;
    }
    size_t all = (size_t)(at - first);
    if (all > LONGEST_NUMBER) return NULL;
    memcpy(copy, first, all);
    strcpy(copy + all, all == n ? ".0" : "");
    if (lua_stringtonumber(L, copy) == 0) return NULL;
    lua_pushnumber(L, lua_tonumber(L, -1));
    lua_remove(L, -2);
  }
  bool more = at < end && (strchr("+-._", *at) || is_letter(*at) || digits(at, at + 1) > at);
  return more ? NULL : at;
}

static const char *array(lua_State *L, const char *at, const char *end, int depth) {
  lua_newtable(L);
  lua_pushvalue(L, ARRAY);
  lua_setmetatable(L, -2);
  at = skip(at + 1, end);
  if (at < end && *at == ']') return at + 1;
  for (lua_Integer i = 1;; i++) {
    at = value(L, at, end, depth);
    if (at == NULL) return NULL;
    lua_rawseti(L, -2, i);
    at = skip(at, end);
    if (at == end || (*at != ',' && *at != ']')) return NULL;
    if (*at++ == ']') return at;
  }
}

static const char *object(lua_State *L, const char *at, const char *end, int depth) {
  lua_newtable(L);
  at = skip(at + 1, end);
  if (at < end && *at == '}') return at + 1;
  while (true) {
    at = skip(at, end);
    if (at == end || *at != '"' || (at = string(L, at, end)) == NULL) return NULL;
    lua_pushvalue(L, -1);
    /* the key occurs twice in this object, which the slower reader must report */
    if (lua_rawget(L, -3) != LUA_TNIL) return NULL;
    lua_pop(L, 1);
    at = skip(at, end);
    if (at == end || *at != ':' || (at = value(L, at + 1, end, depth)) == NULL) return NULL;
    lua_rawset(L, -3);
    at = skip(at, end);
    if (at == end || (*at != ',' && *at != '}')) return NULL;
    if (*at++ == '}') return at;
  }
}

/* Pushes the value at `at`, and returns its end. Returns NULL if the slower reader must read the
** value. */
static const char *value(lua_State *L, const char *at, const char *end, int depth) {
  /* number of values that this thread has read; at every 4096th the user may interrupt */
  static _Thread_local unsigned count;
  luaL_checkstack(L, 8, "JSON");
  if (++count % 4096 == 0 && !tli_go_on()) tli_raise(L);
  at = skip(at, end);
  if (at == end) return NULL;
  if (*at == '"') return string(L, at, end);
  if (*at == '-' || (*at >= '0' && *at <= '9')) return number(L, at, end);
  if (*at == '[' || *at == '{')
    return depth == 0 ? NULL : (*at == '[' ? array : object)(L, at, end, depth - 1);
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(end - at) < n || memcmp(at, words[i], n) != 0) continue;
    at += n;
    if (at < end && is_letter(*at)) return NULL;
    if (i < 2)
      lua_pushboolean(L, i == 0);
    else
      lua_pushvalue(L, NOTHING);
    return at;
  }
  return NULL;
}

/* _json(text, array, null) returns the value of a JSON text, or nothing if the slower reader must
** read the text. `array` is the metatable for arrays, `null` the value that stands for null. */
int tli_io_json(lua_State *L) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  luaL_checktype(L, ARRAY, LUA_TTABLE);
  luaL_checkany(L, NOTHING);
  lua_settop(L, NOTHING);
  const char *at = value(L, text, text + n, DEPTH);
  return at != NULL && skip(at, text + n) == text + n;
}
