/*
** device_comparison.c - warns about x.device == "cuda". Lua compares a string and a
** torch.device without calling a metamethod, and the result is false.
**
** The code that reads the field does not know how the value is used, so the source text of the
** caller's line decides: from the chunk's file, or from the string that was given to load. A
** line is suspect if each ".device" in it is compared with a literal string. Each source is
** read once.
*/
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/platform/folder.h"
#include "lua/tensor/value.h"

#define MOST_BYTES (4 << 20) /* limit for a source's size; longer ones are not read */

/* Its address is a key of the registry: address of a source's name -> set of lines, or false. */
static const char sources_key = 0;

typedef struct Text {
  const char *at, *end;
} Text;

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *skip_blanks(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  return at;
}

static const char *skip_blanks_back(const char *at, const char *begin) {
  while (at > begin && (at[-1] == ' ' || at[-1] == '\t')) at--;
  return at;
}

static bool is_comparison(const char *at) { return (*at == '=' || *at == '~') && at[1] == '='; }

static bool is_quote(char c) { return c == '"' || c == '\''; }

/* Whether the field's name ends at `at`, followed by == or ~= and a string. */
static bool string_follows(const char *at, const char *end) {
  at = skip_blanks(at, end);
  if (end - at < 3 || !is_comparison(at)) return false;
  at = skip_blanks(at + 2, end);
  return at < end && is_quote(*at);
}

/* Returns the beginning of the expression whose last field begins with the dot at `dot`. */
static const char *expression(const char *dot, const char *begin) {
  while (dot > begin && (is_name(dot[-1]) || strchr(".:[]", dot[-1]))) dot--;
  return dot;
}

/* Whether a string and == or ~= precede an expression. */
static bool string_precedes(const char *at, const char *begin) {
  at = skip_blanks_back(at, begin);
  if (at - begin < 3 || !is_comparison(at - 2)) return false;
  at = skip_blanks_back(at - 2, begin);
  return at > begin && is_quote(at[-1]);
}

/* Whether the dot of ".device" is part of an operand of == or ~= whose other operand is a
** string. */
static bool is_compared(const char *dot, Text line) {
  const char *begin = expression(dot, line.at), *after = dot + strlen(".device");
  const char *before = skip_blanks_back(begin, line.at);
  bool joined = strncmp(begin, "..", 2) == 0 ||
                (before - line.at >= 2 && before[-1] == '.' && before[-2] == '.');
  if (joined) return false; /* "on " .. x.device == "on cpu" compares strings */
  if (string_follows(after, line.end)) return true;
  after = skip_blanks(after, line.end);
  bool ends = after == line.end || !strchr(".:[(", *after);
  return ends && string_precedes(begin, line.at);
}

static bool is_suspect(Text line) {
  static const char field[] = ".device";
  const size_t length = sizeof field - 1;
  bool found = false;
  for (const char *at = line.at; at + length <= line.end; at++) {
    if (at[0] == '-' && at[1] == '-') break;
    if (memcmp(at, field, length) != 0) continue;
    if (at + length < line.end && is_name(at[length])) continue;
    if (!is_compared(at, line)) return false;
    found = true;
  }
  return found;
}

/* Pushes the text of a source and returns it; pushes nil if it cannot be read. */
static Text push_text(lua_State *L, const lua_Debug *ar) {
  Text none = {NULL, NULL};
  int64_t bytes, written;
  if (ar->source[0] != '@') {
    bool is_text = ar->source[0] != '=' && ar->srclen <= MOST_BYTES;
    lua_pushlstring(L, is_text ? ar->source : "", is_text ? ar->srclen : 0);
    return is_text ? (Text){ar->source, ar->source + ar->srclen} : none;
  }
  FILE *file = NULL;
  lua_pushnil(L);
  if (!tli_folder_file(ar->source + 1, &bytes, &written) || bytes > MOST_BYTES) return none;
  char *buffer = (char *)lua_newuserdatauv(L, (size_t)bytes + 1, 0);
  lua_replace(L, -2);
  if ((file = fopen(ar->source + 1, "rb")) == NULL) return none;
  size_t n = fread(buffer, 1, (size_t)bytes, file);
  fclose(file);
  buffer[n] = '\0';
  return (Text){buffer, buffer + n};
}

/* Pushes the set of lines that compare a device with a string; false if there are none. */
static void push_suspects(lua_State *L, const lua_Debug *ar) {
  Text text = push_text(L, ar);
  lua_pushboolean(L, false);
  for (int line = 1; text.at && text.at < text.end; line++) {
    const char *end = memchr(text.at, '\n', (size_t)(text.end - text.at));
    if (end == NULL) end = text.end;
    if (is_suspect((Text){text.at, end})) {
      if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
      }
      lua_pushboolean(L, true);
      lua_rawseti(L, -2, line);
    }
    text.at = end + 1;
  }
  lua_remove(L, -2);
}

/* Whether the set on top of the stack contains the line. */
static bool holds(lua_State *L, int line) {
  return lua_istable(L, -1) && lua_rawgeti(L, -1, line) != LUA_TNIL;
}

void tli_check_device_comparison(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return;
  lua_getinfo(L, "S", &ar);
  if (ar.source[0] == '=') return;
  int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &sources_key);
  if (lua_rawgetp(L, -1, ar.source) == LUA_TNIL) {
    push_suspects(L, &ar);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, top + 1, ar.source);
  }
  bool suspect = lua_istable(L, -1) && lua_getinfo(L, "l", &ar) && holds(L, ar.currentline);
  if (suspect) { /* the address may formerly have been that of another source */
    push_suspects(L, &ar);
    suspect = holds(L, ar.currentline);
  }
  lua_settop(L, top);
  if (suspect)
    tli_error(L, "device: a torch.device is never equal to a string; compare x.device.type, or "
                 "x.device with torch.device(...) or another tensor's device");
}

void tli_open_device_comparison(lua_State *L) {
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &sources_key);
}
