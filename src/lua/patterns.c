/*
** patterns.c - string.find, match, gmatch and gsub for states whose scripts are not trusted. Lua's
** own functions may take a time that is exponential in the length of a pattern, and no hook ends
** them. The functions of this file have the same results and errors, but count their steps as
** instructions (lua/limits.h).
**
** Positions in the text and the pattern count from 0. match_here calls itself to match the rest of
** the pattern after a repeated item. As in Lua, these calls are nested at most MOST_DEPTH deep.
*/
#include <ctype.h>
#include <string.h>

#include <lauxlib.h>

#include "lua/limits.h"

#define NONE SIZE_MAX
/* the number of steps between two checks of the limits; these steps count as STEPS_COST
** instructions */
#define STEPS 4096
#define STEPS_COST 256

enum { MOST_CAPTURES = 32, MOST_DEPTH = 200 };
/* values in place of a capture's size: OPEN for a capture that has no end yet, POSITION for the
** capture of a position */
enum { OPEN = -1, POSITION = -2 };

typedef struct Capture {
  size_t at;
  ptrdiff_t size;
} Capture;

/* The state of one search. Text and pattern are borrowed from strings on Lua's stack. */
typedef struct Search {
  lua_State *L;
  const unsigned char *text, *pattern;
  size_t size, pattern_size;
  size_t steps;
  int depth, count;
  Capture capture[MOST_CAPTURES];
} Search;

static void count_steps(Search *m, size_t n) {
  m->steps += n;
  if (m->steps < STEPS) return;
  tli_limits_spend(m->L, (int64_t)(m->steps / STEPS) * STEPS_COST);
  m->steps %= STEPS;
}

/* Returns the end of the item that begins at position p: a character, a class or a set, without its
** repetition mark. */
static size_t item_end(Search *m, size_t p) {
  unsigned char c = m->pattern[p++];
  if (c == '%') {
    if (p == m->pattern_size) luaL_error(m->L, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (c != '[') return p;
  if (p < m->pattern_size && m->pattern[p] == '^') p++;
  do { /* a ']' at the beginning of a set is a member, not its end */
    if (p == m->pattern_size) luaL_error(m->L, "malformed pattern (missing ']')");
    if (m->pattern[p++] == '%' && p < m->pattern_size) p++;
  } while (p == m->pattern_size || m->pattern[p] != ']');
  return p + 1;
}

static bool in_class(int c, int name) {
  bool in;
  switch (tolower(name)) {
  case 'a': in = isalpha(c); break;
  case 'c': in = iscntrl(c); break;
  case 'd': in = isdigit(c); break;
  case 'g': in = isgraph(c); break;
  case 'l': in = islower(c); break;
  case 'p': in = ispunct(c); break;
  case 's': in = isspace(c); break;
  case 'u': in = isupper(c); break;
  case 'w': in = isalnum(c); break;
  case 'x': in = isxdigit(c); break;
  case 'z': in = c == 0; break; /* the class %z is deprecated in Lua, but still works */
  default: return name == c;
  }
  return isupper(name) ? !in : in;
}

/* Returns whether the character c is in a set such as [a-z]. The set's '[' is at position p of the
** pattern, and its ']' at `last`. */
static bool in_set(const Search *m, int c, size_t p, size_t last) {
  bool wanted = true;
  if (m->pattern[++p] == '^') {
    wanted = false;
    p++;
  }
  for (; p < last; p++) {
    if (m->pattern[p] == '%') {
      if (in_class(c, m->pattern[++p])) return wanted;
    } else if (p + 2 < last && m->pattern[p + 1] == '-') {
      if (m->pattern[p] <= c && c <= m->pattern[p + 2]) return wanted;
      p += 2;
    } else if (m->pattern[p] == c) {
      return wanted;
    }
  }
  return !wanted;
}

/* Returns whether the item between p and `end` matches the character at a position of the text. */
static bool fits(const Search *m, size_t at, size_t p, size_t end) {
  if (at >= m->size) return false;
  int c = m->text[at];
  switch (m->pattern[p]) {
  case '.': return true;
  case '%': return in_class(c, m->pattern[p + 1]);
  case '[': return in_set(m, c, p, end - 1);
  default: return m->pattern[p] == c;
  }
}

static size_t match_here(Search *m, size_t at, size_t p);

static size_t balanced(Search *m, size_t at, size_t p) {
  if (p + 1 >= m->pattern_size) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
  if (at >= m->size || m->text[at] != m->pattern[p]) return NONE;
  int open = m->pattern[p], close = m->pattern[p + 1], depth = 1;
  for (size_t i = at + 1; i < m->size; i++) {
    count_steps(m, 1);
    if (m->text[i] == close) {
      if (--depth == 0) return i + 1;
    } else if (m->text[i] == open) {
      depth++;
    }
  }
  return NONE;
}

/* Matches at least `least` repetitions of an item, and then the rest of the pattern. Tries the
** largest number of repetitions first. */
static size_t longest(Search *m, size_t at, size_t p, size_t end, size_t least) {
  size_t n = 0;
  for (; fits(m, at + n, p, end); n++) count_steps(m, 1);
  for (; n + 1 > least; n--) {
    size_t stop = match_here(m, at + n, end + 1);
    if (stop != NONE) return stop;
    if (n == 0) break;
  }
  return NONE;
}

static size_t shortest(Search *m, size_t at, size_t p, size_t end) {
  for (;; at++) {
    size_t stop = match_here(m, at, end + 1);
    if (stop != NONE) return stop;
    if (!fits(m, at, p, end)) return NONE;
  }
}

static size_t begin_capture(Search *m, size_t at, size_t p, ptrdiff_t size) {
  if (m->count >= MOST_CAPTURES) luaL_error(m->L, "too many captures");
  m->capture[m->count++] = (Capture){at, size};
  size_t stop = match_here(m, at, p);
  if (stop == NONE) m->count--;
  return stop;
}

static size_t end_capture(Search *m, size_t at, size_t p) {
  int i = m->count - 1;
  while (i >= 0 && m->capture[i].size != OPEN) i--;
  if (i < 0) luaL_error(m->L, "invalid pattern capture");
  m->capture[i].size = (ptrdiff_t)(at - m->capture[i].at);
  size_t stop = match_here(m, at, p);
  if (stop == NONE) m->capture[i].size = OPEN;
  return stop;
}

/* Matches the text of an earlier capture again. The digit at position p of the pattern is the
** number of the capture. */
static size_t repeat_capture(Search *m, size_t at, size_t p) {
  int i = m->pattern[p] - '1';
  if (i < 0 || i >= m->count || m->capture[i].size == OPEN)
    luaL_error(m->L, "invalid capture index %%%d", i + 1);
  size_t n = m->capture[i].size < 0 ? SIZE_MAX : (size_t)m->capture[i].size;
  if (n > m->size - at) return NONE;
  count_steps(m, 1 + n / 64);
  return memcmp(m->text + m->capture[i].at, m->text + at, n) == 0 ? at + n : NONE;
}

static bool at_frontier(Search *m, size_t at, size_t p, size_t end) {
  int before = at == 0 ? 0 : m->text[at - 1], after = at < m->size ? m->text[at] : 0;
  return !in_set(m, before, p, end - 1) && in_set(m, after, p, end - 1);
}

/* Matches the pattern from position p on with the text from position `at` on. Returns the end of
** the match, or NONE if there is none. */
static size_t match_steps(Search *m, size_t at, size_t p) {
  while (p < m->pattern_size) {
    count_steps(m, 1);
    unsigned char next = p + 1 < m->pattern_size ? m->pattern[p + 1] : 0;
    if (m->pattern[p] == '(')
      return next == ')' ? begin_capture(m, at, p + 2, POSITION)
                         : begin_capture(m, at, p + 1, OPEN);
    if (m->pattern[p] == ')') return end_capture(m, at, p + 1);
    if (m->pattern[p] == '$' && p + 1 == m->pattern_size) return at == m->size ? at : NONE;
    if (m->pattern[p] == '%' && next == 'b') {
      at = balanced(m, at, p + 2);
      if (at == NONE) return NONE;
      p += 4;
      continue;
    }
    if (m->pattern[p] == '%' && next == 'f') {
      p += 2;
      if (p >= m->pattern_size || m->pattern[p] != '[')
        luaL_error(m->L, "missing '[' after '%%f' in pattern");
      size_t end = item_end(m, p);
      if (!at_frontier(m, at, p, end)) return NONE;
      p = end;
      continue;
    }
    if (m->pattern[p] == '%' && isdigit(next)) {
      at = repeat_capture(m, at, p + 1);
      if (at == NONE) return NONE;
      p += 2;
      continue;
    }
    size_t end = item_end(m, p);
    bool fit = fits(m, at, p, end);
    unsigned char mark = end < m->pattern_size ? m->pattern[end] : 0;
    if (!fit) { /* as in Lua, an item that is repeated zero times needs no nested call */
      if (mark == '\0' || strchr("*-?", mark) == NULL) return NONE;
      p = end + 1;
      continue;
    }
    switch (mark) {
    case '*': return longest(m, at, p, end, 0);
    case '+': return longest(m, at, p, end, 1);
    case '-': return shortest(m, at, p, end);
    case '?': {
      size_t stop = match_here(m, at + 1, end + 1);
      if (stop != NONE) return stop;
      p = end + 1;
      break;
    }
    default: at++, p = end;
    }
  }
  return at;
}

static size_t match_here(Search *m, size_t at, size_t p) {
  if (m->depth == MOST_DEPTH) luaL_error(m->L, "pattern too complex");
  m->depth++;
  size_t stop = match_steps(m, at, p);
  m->depth--;
  return stop;
}

/* ---- the functions ---- */

/* Returns a Search, which has not begun yet, for the pattern at stack index `pattern` in the text
** at stack index `text`. */
static Search search_of(lua_State *L, int text, int pattern) {
  Search m = {.L = L};
  m.text = (const unsigned char *)luaL_checklstring(L, text, &m.size);
  m.pattern = (const unsigned char *)luaL_checklstring(L, pattern, &m.pattern_size);
  return m;
}

static size_t match_from(Search *m, size_t at, size_t p) {
  m->count = m->depth = 0;
  return match_here(m, at, p);
}

/* Pushes capture i of a match, or the whole match if the pattern has no captures. */
static void push_capture(Search *m, int i, size_t at, size_t stop) {
  if (i >= m->count) {
    if (i != 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
    lua_pushlstring(m->L, (const char *)m->text + at, stop - at);
  } else if (m->capture[i].size == POSITION) {
    lua_pushinteger(m->L, (lua_Integer)m->capture[i].at + 1);
  } else {
    if (m->capture[i].size == OPEN) luaL_error(m->L, "unfinished capture");
    lua_pushlstring(m->L, (const char *)m->text + m->capture[i].at, (size_t)m->capture[i].size);
  }
}

static int push_captures(Search *m, size_t at, size_t stop, bool whole) {
  int n = m->count == 0 && whole ? 1 : m->count;
  luaL_checkstack(m->L, n, "too many captures");
  for (int i = 0; i < n; i++) push_capture(m, i, at, stop);
  return n;
}

/* Reads the argument `init` at a stack index. Returns the position in the text at which a search
** begins; NONE if it is after the end. */
static size_t beginning(lua_State *L, int index, size_t size) {
  lua_Integer init = luaL_optinteger(L, index, 1);
  if (init > 0) return (lua_Unsigned)init - 1 > size ? NONE : (size_t)init - 1;
  if (init == 0 || init < -(lua_Integer)size) return 0;
  return size - (size_t)-init;
}

static int no_match(lua_State *L) {
  lua_pushnil(L);
  return 1;
}

static bool plain(const Search *m) {
  for (size_t i = 0; i < m->pattern_size; i++)
    if (m->pattern[i] != '\0' && strchr("^$*+?.([%-", m->pattern[i])) return false;
  return true;
}

static size_t find_plain(Search *m, size_t at) {
  size_t n = m->pattern_size;
  if (n == 0) return at;
  while (at < m->size && n <= m->size - at) {
    const unsigned char *c = memchr(m->text + at, m->pattern[0], m->size - at - n + 1);
    if (c == NULL) return NONE;
    at = (size_t)(c - m->text);
    if (memcmp(c, m->pattern, n) == 0) return at;
    count_steps(m, 1 + n / 64);
    at++;
  }
  return NONE;
}

static int find_or_match(lua_State *L, bool find) {
  Search m = search_of(L, 1, 2);
  size_t at = beginning(L, 3, m.size);
  if (at == NONE) return no_match(L);
  if (find && (lua_toboolean(L, 4) || plain(&m))) {
    at = find_plain(&m, at);
    if (at == NONE) return no_match(L);
    lua_pushinteger(L, (lua_Integer)at + 1);
    lua_pushinteger(L, (lua_Integer)(at + m.pattern_size));
    return 2;
  }
  bool anchored = m.pattern_size > 0 && m.pattern[0] == '^';
  do {
    size_t stop = match_from(&m, at, anchored);
    if (stop == NONE) continue;
    if (!find) return push_captures(&m, at, stop, true);
    lua_pushinteger(L, (lua_Integer)at + 1);
    lua_pushinteger(L, (lua_Integer)stop);
    return push_captures(&m, at, stop, false) + 2;
  } while (++at <= m.size && !anchored);
  return no_match(L);
}

static int string_find(lua_State *L) { return find_or_match(L, true); }
static int string_match(lua_State *L) { return find_or_match(L, false); }

/* The iterator of gmatch. Its upvalues are the text, the pattern, the position at which to
** continue, and the end of the last match plus 1. The next match must not end where the last match
** ended. */
static int gmatch_next(lua_State *L) {
  Search m = search_of(L, lua_upvalueindex(1), lua_upvalueindex(2));
  size_t at = (size_t)lua_tointeger(L, lua_upvalueindex(3));
  size_t last = (size_t)lua_tointeger(L, lua_upvalueindex(4));
  for (; at <= m.size; at++) {
    size_t stop = match_from(&m, at, 0);
    if (stop == NONE || stop + 1 == last) continue;
    lua_pushinteger(L, (lua_Integer)stop);
    lua_replace(L, lua_upvalueindex(3));
    lua_pushinteger(L, (lua_Integer)stop + 1);
    lua_replace(L, lua_upvalueindex(4));
    return push_captures(&m, at, stop, true);
  }
  return 0;
}

static int string_gmatch(lua_State *L) {
  size_t size = search_of(L, 1, 2).size, at = beginning(L, 3, size);
  lua_settop(L, 2);
  lua_pushinteger(L, (lua_Integer)(at == NONE ? size + 1 : at));
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, gmatch_next, 4);
  return 1;
}

/* Appends the replacement string at index 3 to the result, with captures in place of %1, %2 and so
** on. */
static void add_text(Search *m, luaL_Buffer *out, size_t at, size_t stop) {
  size_t size;
  const char *text = lua_tolstring(m->L, 3, &size);
  for (size_t i = 0; i < size; i++) {
    if (text[i] != '%') {
      luaL_addchar(out, text[i]);
      continue;
    }
    unsigned char c = ++i < size ? (unsigned char)text[i] : 0;
    if (c == '%') {
      luaL_addchar(out, '%');
    } else if (c == '0') {
      luaL_addlstring(out, (const char *)m->text + at, stop - at);
    } else if (isdigit(c)) {
      push_capture(m, c - '1', at, stop);
      /* converts the capture to a string, because the capture of a position is an integer */
      luaL_tolstring(m->L, -1, NULL);
      lua_remove(m->L, -2);
      luaL_addvalue(out);
    } else {
      luaL_error(m->L, "invalid use of '%%' in replacement string");
    }
  }
}

/* Appends the replacement of a match to the result: from a string, a table or a function. */
static void add_replacement(Search *m, luaL_Buffer *out, size_t at, size_t stop, int type) {
  lua_State *L = m->L;
  if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, at, stop, true), 1);
  } else if (type == LUA_TTABLE) {
    push_capture(m, 0, at, stop);
    lua_gettable(L, 3);
  } else {
    add_text(m, out, at, stop);
    return;
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(out, (const char *)m->text + at, stop - at);
  } else if (!lua_isstring(L, -1)) {
    luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  } else {
    luaL_addvalue(out);
  }
}

static int string_gsub(lua_State *L) {
  Search m = search_of(L, 1, 2);
  int type = lua_type(L, 3);
  luaL_argexpected(
      L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE,
      3, "string/function/table");
  lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)m.size + 1), n = 0;
  bool anchored = m.pattern_size > 0 && m.pattern[0] == '^';
  size_t at = 0, last = NONE;
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  while (n < most) {
    size_t stop = match_from(&m, at, anchored);
    if (stop != NONE && stop != last) {
      n++;
      add_replacement(&m, &out, at, stop, type);
      at = last = stop;
    } else if (at < m.size) {
      luaL_addchar(&out, (char)m.text[at++]);
    } else {
      break;
    }
    if (anchored) break;
  }
  if (at < m.size) luaL_addlstring(&out, (const char *)m.text + at, m.size - at);
  luaL_pushresult(&out);
  lua_pushinteger(L, n);
  return 2;
}

void tli_bound_patterns(lua_State *L) {
  static const luaL_Reg functions[] = {{"find", string_find},
                                       {"match", string_match},
                                       {"gmatch", string_gmatch},
                                       {"gsub", string_gsub},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
