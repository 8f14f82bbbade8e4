/*
** tokens.c - the inner loops of tokenizers (io/tokens.h), for the package text. The functions are
** internal, not for users. Token numbers are the same in Lua and C. Byte positions count from 1 in
** Lua and from 0 in C.
*/
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "io/tokens.h"
#include "lua/list_length.h"
#include "lua/tensor/value.h"

#define TOKENS "torch.Tokens"

static tli_Tokens *check_tokens(lua_State *L) { return luaL_checkudata(L, 1, TOKENS); }

static int no_memory(lua_State *L) { return tli_error(L, "io._tokens: out of memory"); }

static int32_t check_number(lua_State *L, int index, const char *what) {
  int64_t value;
  if (!tli_to_whole(L, index, &value) || value < 0 || value >= INT32_MAX)
    tli_error(L, "io._tokens: %s: expected an integer of at least 0, got %s", what,
              tli_describe(L, tli_state(L), index));
  return (int32_t)value;
}

/* Returns the integer in a field of the table at `index`; `none` if the field is missing. */
static int32_t field(lua_State *L, int index, const char *name, int32_t none) {
  int32_t value = none;
  if (lua_getfield(L, index, name) != LUA_TNIL) value = check_number(L, -1, name);
  lua_pop(L, 1);
  return value;
}

static bool flag(lua_State *L, int index, const char *name) {
  lua_getfield(L, index, name);
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

/* Returns a copy of the string in a field of the table at `index`; NULL if the field is missing. */
static char *text_of(lua_State *L, int index, const char *name, size_t most, size_t *n) {
  char *copy = NULL;
  *n = 0;
  if (lua_getfield(L, index, name) != LUA_TNIL) {
    const char *text = luaL_checklstring(L, -1, n);
    if (*n > most) tli_error(L, "io._tokens: %s: expected at most %d bytes", name, (int)most);
    copy = malloc(*n + 1);
    if (copy == NULL)
      no_memory(L);
    else
      memcpy(copy, text, *n + 1);
  }
  lua_pop(L, 1);
  return copy;
}

/* Pushes a field that must be a table. Returns the table's length. */
static int push_list(lua_State *L, int index, const char *name) {
  if (lua_getfield(L, index, name) != LUA_TTABLE)
    tli_error(L, "io._tokens: %s: expected a table", name);
  int64_t n = tli_list_length(L, -1);
  if (n >= INT32_MAX) no_memory(L);
  return (int)n;
}

static void read_vocab(lua_State *L, tli_Tokens *t) {
  push_list(L, 1, "ids");
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    size_t n = 0;
    const char *token = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : "";
    if (!tli_tokens_add(t, token, n, check_number(L, -1, "ids"))) no_memory(L);
  }
  lua_pop(L, 1);
}

static void read_merges(lua_State *L, tli_Tokens *t) {
  push_list(L, 1, "merges");
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    lua_Integer pair = luaL_checkinteger(L, -2), merge = luaL_checkinteger(L, -1);
    if (pair < 0 || merge < 0) tli_error(L, "io._tokens: merges: expected positive numbers");
    if (!tli_tokens_merge(t, (int32_t)(pair >> 32), (int32_t)(pair & INT32_MAX),
                          (int32_t)(merge >> 32), (int32_t)(merge & INT32_MAX)))
      no_memory(L);
  }
  lua_pop(L, 1);
}

static void read_scores(lua_State *L, tli_Tokens *t) {
  int n = push_list(L, 1, "scores");
  t->scores = calloc((size_t)n + 1, sizeof *t->scores);
  if (t->scores == NULL) no_memory(L);
  t->nscores = n + 1;
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    t->scores[i] = luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Reads a field that refers to a node of the normalizer by its number. Numbers count from 1 in Lua
** and from 0 in C; -1 means that the field is missing. A node may refer only to later nodes, so
** that every match ends. */
static int node_field(lua_State *L, const char *name, int after, int n) {
  int value = field(L, -1, name, 0) - 1;
  if (value >= n || (value >= 0 && value <= after))
    tli_error(L, "io._tokens: %s: expected a later node", name);
  return value;
}

static void read_nodes(lua_State *L, tli_Tokens *t) {
  int n = push_list(L, 1, "nodes");
  t->nodes = calloc((size_t)n + 1, sizeof *t->nodes);
  if (t->nodes == NULL) no_memory(L);
  t->nnodes = n;
  for (int i = 0; i < n; i++) {
    tli_PatternNode *node = &t->nodes[i];
    lua_rawgeti(L, -1, i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    int kind = field(L, -1, "kind", TLI_NODE_END);
    if (kind > TLI_NODE_END) tli_error(L, "io._tokens: kind: expected a kind of nodes");
    node->kind = kind;
    node->next = node_field(L, "next", i, n);
    node->inner = node_field(L, "inner", i, n);
    node->other = node_field(L, "other", i, n);
    bool leads = kind == TLI_NODE_SET || kind == TLI_NODE_REPEAT || kind == TLI_NODE_LOOK;
    bool enters = kind == TLI_NODE_CHOICE || kind == TLI_NODE_LOOK;
    if ((leads && node->next < 0) || (enters && node->inner < 0))
      tli_error(L, "io._tokens: nodes: expected a node that follows");
    node->min = field(L, -1, "min", 0);
    node->max = field(L, -1, "max", INT_MAX);
    node->possessive = flag(L, -1, "possessive");
    node->negative = flag(L, -1, "negative");
    for (int k = 0; k < 2; k++) {
      lua_getfield(L, -1, k ? "high" : "low");
      node->set[k] = (uint64_t)luaL_optinteger(L, -1, 0);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_steps(lua_State *L, tli_Tokens *t) {
  int n = push_list(L, 1, "steps");
  t->steps = calloc((size_t)n + 1, sizeof *t->steps);
  if (t->steps == NULL) no_memory(L);
  for (int i = 0; i < n; i++) {
    tli_TokenStep *s = &t->steps[i];
    lua_rawgeti(L, -1, i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    int kind = field(L, -1, "kind", INT_MAX);
    if (kind > TLI_STEP_SPACE) tli_error(L, "io._tokens: kind: expected a kind of steps");
    s->kind = kind;
    s->pattern = field(L, -1, "pattern", 0) - 1;
    bool matches = kind == TLI_STEP_REPLACE || kind == TLI_STEP_SPLIT;
    s->text = text_of(L, -1, "text", 4096, &s->length);
    t->nsteps = i + 1;
    bool reads = kind == TLI_STEP_MAP || kind == TLI_STEP_SPELL || kind == TLI_STEP_PREPEND ||
                 kind == TLI_STEP_REPLACE || kind == TLI_STEP_META || kind == TLI_STEP_CHECK;
    if (s->pattern >= t->nnodes || (matches && s->pattern < 0) || (reads && s->text == NULL) ||
        (kind == TLI_STEP_MAP && s->length != 128) || (kind == TLI_STEP_META && s->length == 0))
      tli_error(L, "io._tokens: steps: expected a pattern or a text");
    s->flag[0] = flag(L, -1, "a");
    s->flag[1] = flag(L, -1, "b");
    int joins = field(L, -1, "joins", 0);
    if (joins > TLI_JOIN_NEXT) tli_error(L, "io._tokens: joins: expected a way to join");
    s->joins = joins;
    s->splits = flag(L, -1, "splits");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  t->has_steps = true;
}

/* _tokens(config) returns an object with the methods below. Fields of config:
**   kind: 0 BPE, 1 unigram, 2 WordPiece
**   ids, merges, scores: the vocabulary, the merges of BPE and the scores of unigram
**   prefix: the text before a token that continues a word, such as "##"
**   suffix: the text after the last token of a word, such as "</w>"
**   unknown, unknown_score: the token for an unknown symbol, and its score in unigram
**   byte_ids: the token for each byte; byte_fallback: whether unknown characters become such tokens
**   most: the largest number of characters that WordPiece divides; longer words are unknown
**   of_bytes: whether BPE begins with bytes instead of characters
**   fuses: whether BPE makes one token of adjacent unknown symbols
**   ignores_merges: whether a word that is in BPE's vocabulary is one token
**   single: whether unigram rounds sums of scores to float32
**   nodes, steps: the normalizer and pre-tokenizer for ASCII text, if C supports all steps */
static int io_tokens(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  tli_Tokens *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (tli_Tokens){.unknown = -1};
  luaL_setmetatable(L, TOKENS);
  int kind = field(L, 1, "kind", 0);
  t->model = kind == 0 ? TLI_TOKENS_BPE : kind == 1 ? TLI_TOKENS_UNIGRAM : TLI_TOKENS_PIECES;
  read_vocab(L, t);
  if (kind == 0) read_merges(L, t);
  if (kind == 1) read_scores(L, t);
  t->prefix = text_of(L, 1, "prefix", TLI_TOKENS_MOST, &t->nprefix);
  t->suffix = text_of(L, 1, "suffix", TLI_TOKENS_MOST, &t->nsuffix);
  t->unknown = field(L, 1, "unknown", -1);
  t->most = field(L, 1, "most", INT32_MAX - 1);
  t->of_bytes = flag(L, 1, "of_bytes");
  t->fuses = flag(L, 1, "fuses");
  t->ignores_merges = flag(L, 1, "ignores_merges");
  t->byte_fallback = flag(L, 1, "byte_fallback");
  t->single = flag(L, 1, "single");
  lua_getfield(L, 1, "unknown_score");
  t->unknown_score = luaL_optnumber(L, -1, 0);
  push_list(L, 1, "byte_ids");
  for (int i = 0; i < 256; i++) {
    t->byte_ids[i] = lua_rawgeti(L, -1, i) == LUA_TNIL ? -1 : check_number(L, -1, "byte_ids");
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
  if (lua_getfield(L, 1, "steps") != LUA_TNIL) {
    read_nodes(L, t);
    read_steps(L, t);
  }
  lua_pop(L, 1);
  return 1;
}

static void push_numbers(lua_State *L, const int32_t *numbers, int n, int plus) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, numbers[i] + plus);
    lua_rawseti(L, -2, i + 1);
  }
}

/* word(text) returns the tokens of a word with their first and last bytes, or nil if Lua code must
** tokenize the word. */
static int tokens_word(lua_State *L) {
  tli_TokenList list;
  size_t n;
  tli_Tokens *t = check_tokens(L);
  const char *word = luaL_checklstring(L, 2, &n);
  if (n > TLI_TOKENS_MOST || !tli_tokens_word(t, word, (int)n, &list)) return 0;
  push_numbers(L, list.id, list.n, 0);
  push_numbers(L, list.first, list.n, 1);
  push_numbers(L, list.last, list.n, 0);
  return 3;
}

/* Returns the end of the chunk that begins at `at`. A chunk ends before a space that follows a
** visible character. The table at stack index `safe` lists the visible characters that are not
** ASCII. */
static size_t chunk_end(lua_State *L, int safe, const char *text, size_t at, size_t stop) {
  for (size_t from = at + 1; from < stop;) {
    const char *space = memchr(text + from, ' ', stop - from);
    if (space == NULL) break;
    size_t cut = (size_t)(space - text), start = cut - 1;
    unsigned char left = (unsigned char)text[start];
    if (left >= 33 && left <= 126) return cut;
    if (left >= 0x80) {
      while (start > at && (text[start] & 0xC0) == 0x80) start--;
      lua_pushlstring(L, text + start, cut - start);
      lua_gettable(L, safe);
      bool good = (text[start] & 0xC0) != 0x80 && lua_toboolean(L, -1);
      lua_pop(L, 1);
      if (good) return cut;
    }
    from = cut + 1;
  }
  return stop;
}

typedef struct Place {
  int64_t data, base;
} Place;

/* encode(text, at, stop, begun, safe, n, ids) divides the bytes `at` to `stop` of a text into
** chunks, and ends before the first chunk that Lua code must tokenize. These bytes are in a part of
** the text that begins at byte `begun`. Appends the chunks' tokens to the list `ids` of length n;
** makes a list if `ids` is nil. Returns the position after the last chunk, the list, its length,
** the number of words, and a string with the positions of the tokens, which `place` takes. */
static int tokens_encode(lua_State *L) {
  size_t length;
  tli_Tokens *t = check_tokens(L);
  const char *text = luaL_checklstring(L, 2, &length);
  lua_Integer first = luaL_checkinteger(L, 3), last = luaL_checkinteger(L, 4),
              begun = luaL_checkinteger(L, 5), n = luaL_checkinteger(L, 7);
  luaL_checktype(L, 6, LUA_TTABLE);
  if (first < 1 || last > (lua_Integer)length || n < 0 || n >= INT_MAX)
    return tli_error(L, "io._tokens: expected a part of the text");
  lua_settop(L, 8);
  if (!lua_isnil(L, 8)) luaL_checktype(L, 8, LUA_TTABLE);
  size_t at = (size_t)first - 1, stop = last < first ? at : (size_t)last;
  luaL_Buffer places;
  int64_t count = 0, words = 0;
  luaL_buffinit(L, &places);
  while (at < stop) {
    size_t cut = chunk_end(L, 6, text, at, stop);
    if (cut - at > TLI_TOKENS_MOST) break;
    int flag = (at == 0 ? 1 : at + 1 == (size_t)begun ? 2 : 3) + (cut == stop ? 4 : 0);
    int64_t data = tli_tokens_chunk(t, text + at, (int)(cut - at), flag);
    if (data == -2) return no_memory(L);
    if (data < 0) break;
    Place place = {data, (int64_t)at};
    luaL_addlstring(&places, (const char *)&place, sizeof place);
    count += t->data[data];
    words += t->data[data + 1];
    at = cut;
  }
  luaL_pushresult(&places);
  if (n + count >= INT_MAX) return no_memory(L);
  size_t bytes;
  const char *all = lua_tolstring(L, -1, &bytes);
  if (lua_isnil(L, 8)) {
    lua_createtable(L, (int)count, 0);
    lua_replace(L, 8);
  }
  for (size_t i = 0; i < bytes / sizeof(Place); i++) {
    Place place;
    memcpy(&place, all + i * sizeof place, sizeof place);
    const int32_t *data = t->data + place.data;
    for (int k = 0; k < data[0]; k++) {
      lua_pushinteger(L, data[2 + k]);
      lua_rawseti(L, 8, ++n);
    }
  }
  lua_pushinteger(L, (lua_Integer)at + 1);
  lua_pushvalue(L, 8);
  lua_pushinteger(L, n);
  lua_pushinteger(L, words);
  lua_pushvalue(L, -5);
  return 5;
}

/* place(places, n, first, last, words, word, splits) appends the first byte, the last byte and the
** word of each token to three lists of length n. `places` comes from `encode`. `word` is the number
** of the word before these tokens; `splits` tells whether each chunk begins with a new word. */
static int tokens_place(lua_State *L) {
  size_t bytes;
  tli_Tokens *t = check_tokens(L);
  const char *all = luaL_checklstring(L, 2, &bytes);
  lua_Integer n = luaL_checkinteger(L, 3), word = luaL_checkinteger(L, 7);
  bool splits = lua_toboolean(L, 8);
  for (int i = 4; i <= 6; i++) luaL_checktype(L, i, LUA_TTABLE);
  for (size_t i = 0; i < bytes / sizeof(Place); i++) {
    Place place;
    memcpy(&place, all + i * sizeof place, sizeof place);
    if (place.data < 0 || (size_t)place.data + 2 > t->data_used)
      return tli_error(L, "io._tokens: expected places of this object");
    const int32_t *data = t->data + place.data;
    int64_t count = data[0];
    if (count < 0 || (size_t)place.data + 2 + 4 * (size_t)count > t->data_used)
      return tli_error(L, "io._tokens: expected places of this object");
    for (int64_t k = 0; k < count; k++) {
      n++;
      lua_pushinteger(L, place.base + data[2 + count + k] + 1);
      lua_rawseti(L, 4, n);
      lua_pushinteger(L, place.base + data[2 + 2 * count + k]);
      lua_rawseti(L, 5, n);
      lua_pushinteger(L, word + data[2 + 3 * count + k]);
      lua_rawseti(L, 6, n);
    }
    if (splits) word += data[1];
  }
  lua_pushinteger(L, n);
  return 1;
}

/* put(chunk, flag, found) adds a chunk's tokens to the cache. `found` is a table with n, word, and
** the lists ids, first, last and words, or false for a chunk that Lua code must always tokenize. */
static int tokens_put(lua_State *L) {
  static const char *const names[] = {"ids", "first", "last", "words"};
  size_t length;
  tli_TokenList list;
  tli_Tokens *t = check_tokens(L);
  const char *chunk = luaL_checklstring(L, 2, &length);
  int flag = (int)check_number(L, 3, "flag") & 127, words = 0;
  bool has = lua_toboolean(L, 4);
  if (length > TLI_TOKENS_MOST) return 0;
  if (has) {
    luaL_checktype(L, 4, LUA_TTABLE);
    list.n = field(L, 4, "n", 0);
    words = field(L, 4, "word", 0);
    has = list.n <= TLI_TOKENS_MOST;
  }
  for (int i = 0; has && i < 4; i++) {
    int32_t *to = i == 0 ? list.id : i == 1 ? list.first : i == 2 ? list.last : list.word;
    push_list(L, 4, names[i]);
    for (int k = 0; k < list.n; k++) {
      lua_rawgeti(L, -1, k + 1);
      to[k] = check_number(L, -1, names[i]) - (i == 1);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  if (!tli_tokens_put(t, chunk, (int)length, flag, has ? &list : NULL, words)) return no_memory(L);
  return 0;
}

/* count() returns the number of chunks in the cache. */
static int tokens_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_tokens(L)->chunks.count);
  return 1;
}

static int tokens_gc(lua_State *L) {
  tli_tokens_clear(check_tokens(L));
  return 0;
}

void tli_open_tokens(lua_State *L) {
  static const luaL_Reg functions[] = {{"_tokens", io_tokens}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"word", tokens_word}, {"encode", tokens_encode}, {"place", tokens_place},
      {"put", tokens_put},   {"count", tokens_count},   {"__gc", tokens_gc},
      {NULL, NULL}};
  luaL_newmetatable(L, TOKENS);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_set_functions(L, methods);
  lua_pop(L, 1);
  tli_set_functions(L, functions);
}
