/*
** tokens.c - implements tokens.h. Maps are hash tables with open addressing; a table of 2^k slots
** is at most half full.
*/
#include <stdlib.h>
#include <string.h>

#include "io/tokens.h"

enum { MOST_ATTEMPTS = 20000, FULL = -2, LEFT = -2 };

typedef struct tli_ByteKey {
  uint64_t hash;
  size_t at;
  uint32_t n;
  int64_t value; /* the value of the key; -1 if the slot is empty */
} tli_ByteKey;

typedef struct tli_Merge {
  int64_t pair; /* the key, a pair of tokens; -1 if the slot is empty */
  int32_t rank, id;
} tli_Merge;

/* ---- maps ---- */

static const uint64_t seed = 0xCBF29CE484222325u;

static uint64_t step_hash(uint64_t h, char byte) {
  return (h ^ (unsigned char)byte) * 0x100000001B3u;
}

static uint64_t hash_of(uint64_t h, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) h = step_hash(h, bytes[i]);
  return h;
}

static size_t slot_of(uint64_t hash, size_t capacity) {
  return (size_t)((hash ^ hash >> 29) & (capacity - 1));
}

static int64_t find(const tli_ByteMap *m, uint64_t hash, const char *bytes, size_t n) {
  if (m->capacity == 0) return -1;
  for (size_t i = slot_of(hash, m->capacity);; i = (i + 1) & (m->capacity - 1)) {
    const tli_ByteKey *key = &m->slots[i];
    if (key->value == -1) return -1;
    if (key->hash == hash && key->n == n && (n == 0 || memcmp(m->bytes + key->at, bytes, n) == 0))
      return key->value;
  }
}

static bool grow(tli_ByteMap *m) {
  size_t capacity = m->capacity ? 2 * m->capacity : 256;
  tli_ByteKey *slots = malloc(capacity * sizeof *slots);
  if (slots == NULL) return false;
  for (size_t i = 0; i < capacity; i++) slots[i].value = -1;
  for (size_t i = 0; i < m->capacity; i++) {
    if (m->slots[i].value == -1) continue;
    size_t k = slot_of(m->slots[i].hash, capacity);
    while (slots[k].value != -1) k = (k + 1) & (capacity - 1);
    slots[k] = m->slots[i];
  }
  free(m->slots);
  m->slots = slots;
  m->capacity = capacity;
  return true;
}

/* Grows a block, if necessary, to hold `more` elements of `size` bytes after the first `used`
** ones. */
static bool reserve(void **block, size_t used, size_t *room, size_t more, size_t size) {
  if (used + more <= *room) return true;
  size_t n = 2 * (used + more);
  void *new = realloc(*block, n * size);
  if (new == NULL) return false;
  *block = new;
  *room = n;
  return true;
}

/* Adds a key, which must not be in the map yet, with its value. */
static bool insert(tli_ByteMap *m, uint64_t hash, const char *bytes, size_t n, int64_t value) {
  if (2 * m->count >= m->capacity && !grow(m)) return false;
  if (!reserve((void **)&m->bytes, m->used, &m->room, n, 1)) return false;
  size_t i = slot_of(hash, m->capacity);
  while (m->slots[i].value != -1) i = (i + 1) & (m->capacity - 1);
  if (n) memcpy(m->bytes + m->used, bytes, n);
  m->slots[i] = (tli_ByteKey){hash, m->used, (uint32_t)n, value};
  m->used += n;
  m->count++;
  return true;
}

static void clear(tli_ByteMap *m) {
  free(m->slots);
  free(m->bytes);
  *m = (tli_ByteMap){0};
}

static int64_t lookup(const tli_Tokens *t, const char *bytes, size_t n) {
  return find(&t->vocab, hash_of(seed, bytes, n), bytes, n);
}

bool tli_tokens_add(tli_Tokens *t, const char *bytes, size_t n, int32_t id) {
  if (t->reach == NULL && (t->reach = calloc(1 << 16, sizeof *t->reach)) == NULL) return false;
  if (n > (size_t)t->longest) t->longest = n < INT32_MAX ? (int32_t)n : INT32_MAX;
  if (n >= 2) {
    uint16_t *reach = &t->reach[(unsigned char)bytes[0] << 8 | (unsigned char)bytes[1]];
    if (n > *reach) *reach = n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
  }
  uint64_t hash = hash_of(seed, bytes, n);
  return find(&t->vocab, hash, bytes, n) != -1 || insert(&t->vocab, hash, bytes, n, id);
}

/* ---- byte-pair encoding ---- */

static size_t merge_slot(int64_t pair, size_t slots) {
  uint64_t h = (uint64_t)pair * 0x9E3779B97F4A7C15u;
  return (size_t)(h >> 20 & (slots - 1));
}

static const tli_Merge *merge_of(const tli_Tokens *t, int32_t a, int32_t b) {
  if (t->merge_slots == 0) return NULL;
  int64_t pair = (int64_t)a << 32 | b;
  for (size_t i = merge_slot(pair, t->merge_slots);; i = (i + 1) & (t->merge_slots - 1)) {
    if (t->merges[i].pair == pair) return &t->merges[i];
    if (t->merges[i].pair == -1) return NULL;
  }
}

static void place_merge(tli_Merge *merges, size_t slots, tli_Merge merge) {
  size_t i = merge_slot(merge.pair, slots);
  while (merges[i].pair != -1 && merges[i].pair != merge.pair) i = (i + 1) & (slots - 1);
  merges[i] = merge;
}

bool tli_tokens_merge(tli_Tokens *t, int32_t a, int32_t b, int32_t rank, int32_t id) {
  if (2 * t->nmerges >= t->merge_slots) {
    size_t slots = t->merge_slots ? 2 * t->merge_slots : 256;
    tli_Merge *merges = malloc(slots * sizeof *merges);
    if (merges == NULL) return false;
    for (size_t i = 0; i < slots; i++) merges[i].pair = -1;
    for (size_t i = 0; i < t->merge_slots; i++)
      if (t->merges[i].pair != -1) place_merge(merges, slots, t->merges[i]);
    free(t->merges);
    t->merges = merges;
    t->merge_slots = slots;
  }
  place_merge(t->merges, t->merge_slots, (tli_Merge){(int64_t)a << 32 | b, rank, id});
  t->nmerges++;
  return true;
}

static int width_of(const char *text, int left) {
  unsigned char lead = (unsigned char)*text;
  int width = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return width < left ? width : left;
}

static bool push(tli_TokenList *list, int64_t id, int width) {
  if (id < 0 || list->n == TLI_TOKENS_MOST) return false;
  list->id[list->n] = (int32_t)id;
  list->last[list->n++] = width;
  return true;
}

/* Lists the tokens of a word's single characters or bytes. Until `spread` is called, `last` has the
** number of bytes of each token. */
static bool symbols_of(const tli_Tokens *t, const char *word, int n, tli_TokenList *list) {
  int unknown = 0;
  for (int at = 0, width; at < n; at += width) {
    width = t->of_bytes ? 1 : width_of(word + at, n - at);
    uint64_t hash = seed;
    char symbol[3 * TLI_TOKENS_MOST];
    size_t m = 0;
    if (t->nprefix && at > 0) memcpy(symbol, t->prefix, m = t->nprefix);
    memcpy(symbol + m, word + at, (size_t)width);
    m += (size_t)width;
    if (t->nsuffix && at + width == n) {
      memcpy(symbol + m, t->suffix, t->nsuffix);
      m += t->nsuffix;
    }
    int64_t id = find(&t->vocab, hash_of(hash, symbol, m), symbol, m);
    bool as_bytes = id < 0 && t->byte_fallback;
    for (size_t i = 0; i < m && as_bytes; i++)
      as_bytes = t->byte_ids[(unsigned char)symbol[i]] >= 0;
    if (id >= 0 || (!as_bytes && unknown && !t->fuses)) {
      if (unknown && !push(list, t->unknown, unknown)) return false;
      unknown = 0;
    }
    if (id >= 0) {
      if (!push(list, id, width)) return false;
    } else if (as_bytes) {
      /* byte tokens after an unknown symbol are rare, so Lua code tokenizes such a word */
      if (unknown) return false;
      for (size_t i = 0; i < m; i++)
        if (!push(list, t->byte_ids[(unsigned char)symbol[i]], 1)) return false;
    } else if (t->unknown >= 0) {
      unknown += width;
    }
  }
  return unknown == 0 || push(list, t->unknown, unknown);
}

/* Merges pairs of adjacent tokens, lowest rank first, until no pair can be merged. */
static void merge_all(const tli_Tokens *t, tli_TokenList *list) {
  int32_t rank[TLI_TOKENS_MOST], into[TLI_TOKENS_MOST];
  int n = list->n;
  for (int i = 0; i < n - 1; i++) {
    const tli_Merge *merge = merge_of(t, list->id[i], list->id[i + 1]);
    rank[i] = merge ? merge->rank : INT32_MAX;
    into[i] = merge ? merge->id : 0;
  }
  while (n > 1) {
    int at = 0;
    for (int i = 1; i < n - 1; i++)
      if (rank[i] < rank[at]) at = i;
    if (rank[at] == INT32_MAX) break;
    list->id[at] = into[at];
    list->last[at] += list->last[at + 1];
    n--;
    size_t rest = (size_t)(n - at - 1) * sizeof(int32_t);
    memmove(list->id + at + 1, list->id + at + 2, rest);
    memmove(list->last + at + 1, list->last + at + 2, rest);
    memmove(rank + at, rank + at + 1, rest);
    memmove(into + at, into + at + 1, rest);
    for (int i = at > 0 ? at - 1 : 0; i <= at && i < n - 1; i++) {
      const tli_Merge *merge = merge_of(t, list->id[i], list->id[i + 1]);
      rank[i] = merge ? merge->rank : INT32_MAX;
      into[i] = merge ? merge->id : 0;
    }
  }
  list->n = n;
}

static bool is_inner(const char *word, int at) { return (word[at] & 0xC0) == 0x80; }

/* Replaces the tokens' byte counts by positions. Positions inside a character move to the
** character's first or last byte. */
static void spread(const char *word, int n, tli_TokenList *list) {
  for (int i = 0, at = 0; i < list->n; i++) {
    int from = at, to = at += list->last[i];
    while (from > 0 && from < n && is_inner(word, from)) from--;
    while (to < n && is_inner(word, to)) to++;
    list->first[i] = from;
    list->last[i] = to;
  }
}

static bool one(tli_TokenList *list, int64_t id, int n) {
  if (id < 0) return false;
  list->id[0] = (int32_t)id;
  list->first[0] = 0;
  list->last[0] = n;
  list->n = 1;
  return true;
}

static bool pair_encoding(const tli_Tokens *t, const char *word, int n, tli_TokenList *list) {
  if (t->ignores_merges && one(list, lookup(t, word, (size_t)n), n)) return true;
  if (!symbols_of(t, word, n, list)) return false;
  merge_all(t, list);
  spread(word, n, list);
  return true;
}

/* ---- WordPiece ---- */

static bool word_pieces(const tli_Tokens *t, const char *word, int n, tli_TokenList *list) {
  int characters = 0;
  for (int i = 0; i < n; i++) characters += !is_inner(word, i);
  if (characters > t->most) return one(list, t->unknown, n);
  for (int at = 0; at < n;) {
    char text[2 * TLI_TOKENS_MOST];
    uint64_t hash[TLI_TOKENS_MOST + 1];
    size_t skip = at > 0 ? t->nprefix : 0;
    if (skip) memcpy(text, t->prefix, skip);
    memcpy(text + skip, word + at, (size_t)(n - at));
    hash[0] = hash_of(seed, text, skip);
    int m = n - at < t->longest ? n - at : t->longest;
    for (int i = 0; i < m; i++) hash[i + 1] = step_hash(hash[i], word[at + i]);
    int64_t id = -1;
    for (; m > 0; m--)
      if ((id = find(&t->vocab, hash[m], text, skip + (size_t)m)) >= 0) break;
    if (id < 0) return one(list, t->unknown, n);
    list->id[list->n] = (int32_t)id;
    list->first[list->n] = at;
    list->last[list->n++] = at += m;
  }
  return true;
}

/* ---- unigram ---- */

/* Finds the division of a word into tokens with the highest total score (the unigram model). If one
** of its tokens ends at i, starts[i] is the token's beginning and ids[i] its number. */
static bool best_path(const tli_Tokens *t, const char *word, int n, int *starts, int64_t *ids) {
  double best[TLI_TOKENS_MOST + 1];
  for (int i = 0; i <= n; i++) starts[i] = -1;
  best[0] = 0;
  for (int from = 0, width; from < n; from += width) {
    width = width_of(word + from, n - from);
    bool whole = false;
    int limit =
        from + 1 < n ? t->reach[(unsigned char)word[from] << 8 | (unsigned char)word[from + 1]] : 1;
    if (limit < width) limit = width;
    uint64_t hash = seed;
    for (int stop = from; stop < n && stop - from < limit;) {
      hash = step_hash(hash, word[stop++]);
      if (stop < n && is_inner(word, stop)) continue;
      int64_t id = find(&t->vocab, hash, word + from, (size_t)(stop - from));
      if (id < 0 || id >= t->nscores) continue;
      double score = t->scores[id] + best[from];
      if (starts[stop] < 0 || score > best[stop]) {
        best[stop] = t->single ? (double)(float)score : score;
        starts[stop] = from;
        ids[stop] = id;
      }
      whole = whole || stop - from == width;
    }
    if (whole) continue;
    double score = t->unknown_score + best[from];
    if (t->single) score = (double)(float)score;
    int stop = from + width;
    if (starts[stop] >= 0 && score <= best[stop]) continue;
    if (t->unknown < 0) return false;
    best[stop] = score;
    starts[stop] = from;
    ids[stop] = t->unknown;
  }
  return true;
}

static bool unigram(const tli_Tokens *t, const char *word, int n, tli_TokenList *list) {
  int starts[TLI_TOKENS_MOST + 1], firsts[TLI_TOKENS_MOST], lasts[TLI_TOKENS_MOST], m = 0;
  int64_t ids[TLI_TOKENS_MOST + 1];
  if (!best_path(t, word, n, starts, ids)) return false;
  for (int stop = n, joins = 0; stop > 0; stop = starts[stop]) {
    bool unknown = ids[stop] == t->unknown;
    if (unknown && joins) {
      firsts[m - 1] = starts[stop];
    } else {
      firsts[m] = starts[stop];
      lasts[m++] = stop;
    }
    joins = unknown;
  }
  while (m-- > 0) {
    const char *text = word + firsts[m];
    int length = lasts[m] - firsts[m];
    int64_t id = lookup(t, text, (size_t)length);
    if (id < 0 && !t->byte_fallback) return false;
    for (int i = 0; i < (id < 0 ? length : 1); i++) {
      int k = list->n;
      if (!push(list, id < 0 ? t->byte_ids[(unsigned char)text[i]] : id, lasts[m])) return false;
      list->first[k] = firsts[m];
    }
  }
  return true;
}

bool tli_tokens_word(const tli_Tokens *t, const char *word, int n, tli_TokenList *list) {
  list->n = 0;
  if (n <= 0 || n > TLI_TOKENS_MOST || t->reach == NULL) return false;
  switch (t->model) {
  case TLI_TOKENS_BPE: return pair_encoding(t, word, n, list);
  case TLI_TOKENS_UNIGRAM: return unigram(t, word, n, list);
  default: return word_pieces(t, word, n, list);
  }
}

/* ---- patterns ---- */

static bool in_set(const uint64_t *set, char c) {
  unsigned char b = (unsigned char)c;
  return b < 128 && (set[b >> 6] >> (b & 63) & 1);
}

/* Matches the pattern from node i on at position `at`. Returns the end of the match, -1 if there is
** no match, or FULL after too many attempts. */
static int match(tli_Tokens *t, int i, const char *text, int at, int n) {
  while (true) {
    const tli_PatternNode *node = &t->nodes[i];
    if (++t->attempts > MOST_ATTEMPTS) return FULL;
    switch (node->kind) {
    case TLI_NODE_END: return at;
    case TLI_NODE_SET:
      if (at >= n || !in_set(node->set, text[at])) return -1;
      at++;
      break;
    case TLI_NODE_LOOK: {
      int found = match(t, node->inner, text, at, n);
      if (found == FULL) return FULL;
      if ((found >= 0) == node->negative) return -1;
      break;
    }
    case TLI_NODE_CHOICE: {
      int found = match(t, node->inner, text, at, n);
      if (found != -1 || node->other < 0) return found;
      i = node->other;
      continue;
    }
    case TLI_NODE_REPEAT: {
      int stop = at, count = 0;
      while (stop < n && count < node->max && in_set(node->set, text[stop])) stop++, count++;
      if (count < node->min) return -1;
      for (; count > node->min && !node->possessive; count--, stop--) {
        int found = match(t, node->next, text, stop, n);
        if (found != -1) return found;
      }
      at = stop;
      break;
    }
    }
    i = node->next;
  }
}

/* ---- steps ---- */

enum { ROOM = 4 * TLI_TOKENS_MOST };

typedef struct Piece {
  int first, stop, base;
} Piece;

/* A chunk's text after some steps. Byte i comes from the chunk's bytes from[i] up to to[i]. */
typedef struct Text {
  int n, pieces;
  char text[ROOM];
  int from[ROOM], to[ROOM];
  Piece piece[ROOM];
} Text;

static bool add(Text *text, const char *bytes, size_t n, int from, int to) {
  if (text->n + (int)n > ROOM) return false;
  for (size_t i = 0; i < n; i++) {
    text->text[text->n] = bytes[i];
    text->from[text->n] = from;
    text->to[text->n++] = to;
  }
  return true;
}

static bool copy(Text *into, const Text *from, int first, int stop) {
  for (int i = first; i < stop; i++)
    if (!add(into, &from->text[i], 1, from->from[i], from->to[i])) return false;
  return true;
}

/* Appends the part of the piece `whole` from `first` to `stop`, unless the part is empty. */
static bool add_piece(Text *into, const Piece *whole, const int *from, int first, int stop) {
  if (first >= stop) return true;
  if (into->pieces == ROOM) return false;
  bool same = first == whole->first && stop == whole->stop;
  into->piece[into->pieces++] = (Piece){first, stop, same ? whole->base : from[first]};
  return true;
}

/* Splits a piece at the matches of a pattern, and appends its parts to `text`. */
static bool split(tli_Tokens *t, const tli_TokenStep *s, Text *text, const Piece *piece) {
  int at = piece->first, gap = at, begun = -1;
  const char *bytes = text->text + piece->first;
  int n = piece->stop - piece->first;
  while (at < piece->stop) {
    t->attempts = 0;
    int stop = match(t, s->pattern, bytes, at - piece->first, n);
    if (stop == FULL) return false;
    if (stop < 0) {
      at++;
      continue;
    }
    stop += piece->first;
    if (stop == at) return false; /* an empty match is rare, so the chunk is left to the caller */
    if (s->joins == TLI_JOIN_EQUAL) {
      if (begun < 0 || gap < at) {
        if (begun >= 0 && !add_piece(text, piece, text->from, begun, gap)) return false;
        if (!add_piece(text, piece, text->from, gap, at)) return false;
        begun = at;
      }
    } else if (s->joins == TLI_JOIN_PREVIOUS) {
      if (!add_piece(text, piece, text->from, gap, stop)) return false;
    } else if (s->joins == TLI_JOIN_NEXT) {
      int from = begun < 0 ? piece->first : begun;
      if (!add_piece(text, piece, text->from, from, at)) return false;
      begun = at;
    } else {
      if (!(s->flag[0] && s->flag[1]) && !add_piece(text, piece, text->from, gap, at)) return false;
      bool keeps = s->flag[0] || !s->flag[1];
      if (keeps && !add_piece(text, piece, text->from, at, stop)) return false;
    }
    at = gap = stop;
  }
  if (s->joins == TLI_JOIN_NEXT && begun >= 0) gap = begun;
  if (s->joins == TLI_JOIN_EQUAL && begun >= 0 && !add_piece(text, piece, text->from, begun, gap))
    return false;
  if (s->flag[0] && s->flag[1]) return true;
  return add_piece(text, piece, text->from, gap, piece->stop);
}

/* Replaces all matches in a text by s->text. */
static bool replace(tli_Tokens *t, const tli_TokenStep *s, const Text *text, Text *into) {
  for (int at = 0; at < text->n;) {
    t->attempts = 0;
    int stop = match(t, s->pattern, text->text, at, text->n);
    if (stop == FULL || stop == at) return false;
    if (stop > at) {
      if (!add(into, s->text, s->length, text->from[stop - 1], text->to[stop - 1])) return false;
      at = stop;
    } else {
      if (!copy(into, text, at, at + 1)) return false;
      at++;
    }
  }
  return true;
}

/* Replaces each byte by the byte's string in s->text. */
static bool spell(const tli_TokenStep *s, const Text *text, Text *into) {
  for (int p = 0; p < text->pieces; p++) {
    int begun = into->n;
    for (int i = text->piece[p].first; i < text->piece[p].stop; i++) {
      const char *at = s->text, *end = s->text + s->length;
      unsigned char b = (unsigned char)text->text[i];
      if (b >= 128) return false;
      for (int k = 0; k < b && at < end; k++) at += strlen(at) + 1;
      if (at >= end || !add(into, at, strlen(at), text->from[i], text->to[i])) return false;
    }
    if (into->pieces == ROOM) return false;
    into->piece[into->pieces++] = (Piece){begun, into->n, text->piece[p].base};
  }
  return true;
}

static bool meta(const tli_TokenStep *s, const Text *text, Text *into, bool at_begin) {
  for (int p = 0; p < text->pieces; p++) {
    const Piece *piece = &text->piece[p];
    int begun = into->n;
    const char *bytes = text->text + piece->first;
    size_t n = (size_t)(piece->stop - piece->first);
    bool has =
        n > 0 && (*bytes == ' ' || (n >= s->length && memcmp(bytes, s->text, s->length) == 0));
    bool prepends = s->flag[0] || (s->flag[1] && at_begin && piece->base == 0);
    if (prepends && !has &&
        !add(into, s->text, s->length, text->from[piece->first], text->to[piece->first]))
      return false;
    for (int i = piece->first; i < piece->stop; i++) {
      bool ok = text->text[i] == ' ' ? add(into, s->text, s->length, text->from[i], text->to[i])
                                     : copy(into, text, i, i + 1);
      if (!ok) return false;
    }
    Piece whole = {begun, into->n, piece->base};
    int from = begun;
    for (int i = begun + 1; s->splits && i + (int)s->length <= into->n; i++) {
      if (memcmp(into->text + i, s->text, s->length) != 0) continue;
      if (!add_piece(into, &whole, into->from, from, i)) return false;
      from = i;
      i += (int)s->length - 1;
    }
    if (!add_piece(into, &whole, into->from, from, into->n)) return false;
  }
  return true;
}

static bool put_space(const Text *text, Text *into) {
  for (int p = 0; p < text->pieces; p++) {
    Piece piece = text->piece[p];
    int begun = into->n, i = piece.first;
    if (text->text[i] != ' ' && !add(into, " ", 1, text->from[i], text->to[i])) return false;
    if (!copy(into, text, i, piece.stop) || into->pieces == ROOM) return false;
    into->piece[into->pieces++] = (Piece){begun, into->n, piece.base};
  }
  return true;
}

static bool contains(const Text *text, const char *bytes, int n) {
  for (int i = 0; i + n <= text->n; i++)
    if (memcmp(text->text + i, bytes, (size_t)n) == 0) return true;
  return false;
}

static bool is_space(char c) { return c == ' ' || (c >= 9 && c <= 13); }

/* Applies a step to *text. A step that changes bytes writes the result into *other and swaps the
** two. Returns false if the chunk is left to the caller. */
static bool apply(tli_Tokens *t, const tli_TokenStep *s, Text **text, Text **other, int flag) {
  Text *from = *text, *into = *other;
  bool at_begin = (flag & 3) != 3, at_end = flag & 4, ok = true;
  into->n = into->pieces = 0;
  switch (s->kind) {
  case TLI_STEP_MAP:
    for (int i = 0; i < from->n; i++)
      if (!(from->text[i] & 0x80)) from->text[i] = s->text[(unsigned char)from->text[i]];
    return true;
  case TLI_STEP_CHECK:
    for (const char *at = s->text; at < s->text + s->length; at += strlen(at) + 1)
      if (contains(from, at, (int)strlen(at))) return false;
    return true;
  case TLI_STEP_SPLIT: {
    int n = from->pieces;
    memcpy(into->piece, from->piece, (size_t)n * sizeof *into->piece);
    from->pieces = 0;
    for (int i = 0; i < n && ok; i++) ok = split(t, s, from, &into->piece[i]);
    return ok;
  }
  case TLI_STEP_STRIP: {
    int first = 0, stop = from->n;
    if (s->flag[0] && at_begin)
      while (first < stop && is_space(from->text[first])) first++;
    if (s->flag[1] && at_end)
      while (stop > first && is_space(from->text[stop - 1])) stop--;
    ok = copy(into, from, first, stop);
    break;
  }
  case TLI_STEP_PREPEND:
    ok = !at_begin || from->n == 0 || add(into, s->text, s->length, from->from[0], from->to[0]);
    ok = ok && copy(into, from, 0, from->n);
    break;
  case TLI_STEP_REPLACE: ok = replace(t, s, from, into); break;
  case TLI_STEP_SPELL: ok = spell(s, from, into); break;
  case TLI_STEP_META: ok = meta(s, from, into, (flag & 3) == 1); break;
  case TLI_STEP_SPACE: ok = put_space(from, into); break;
  }
  if (!ok) return false;
  if (s->kind < TLI_STEP_SPELL) {
    if (into->n > 0) into->piece[into->pieces++] = (Piece){0, into->n, 0};
  }
  *text = into;
  *other = from;
  return true;
}

/* ---- the cache ---- */

/* Writes a chunk's key in the cache: the flag, then the bytes. Returns the key's length. */
static size_t key_of(char *key, const char *chunk, int n, int flag) {
  key[0] = (char)flag;
  memcpy(key + 1, chunk, (size_t)n);
  return (size_t)n + 1;
}

bool tli_tokens_put(tli_Tokens *t, const char *chunk, int n, int flag, const tli_TokenList *list,
                    int words) {
  char key[TLI_TOKENS_MOST + 1];
  if (n > TLI_TOKENS_MOST) return true;
  size_t length = key_of(key, chunk, n, flag);
  uint64_t hash = hash_of(seed, key, length);
  if (find(&t->chunks, hash, key, length) != -1) return true;
  if (list == NULL) return insert(&t->chunks, hash, key, length, LEFT);
  size_t m = (size_t)list->n, at = t->data_used, bytes = m * sizeof(int32_t);
  if (!reserve((void **)&t->data, at, &t->data_room, 4 * m + 2, sizeof *t->data)) return false;
  int32_t *data = t->data + at;
  data[0] = list->n;
  data[1] = words;
  memcpy(data + 2, list->id, bytes);
  memcpy(data + 2 + m, list->first, bytes);
  memcpy(data + 2 + 2 * m, list->last, bytes);
  memcpy(data + 2 + 3 * m, list->word, bytes);
  t->data_used += 4 * m + 2;
  return insert(&t->chunks, hash, key, length, (int64_t)at);
}

/* Appends the tokens of a piece, which is word number `word` of the chunk. */
static bool add_word(const tli_Tokens *t, const Text *text, const Piece *piece, int word,
                     tli_TokenList *list) {
  tli_TokenList own;
  const int *from = text->from + piece->first, *to = text->to + piece->first;
  if (!tli_tokens_word(t, text->text + piece->first, piece->stop - piece->first, &own))
    return false;
  for (int i = 0; i < own.n; i++) {
    int k = list->n;
    if (!push(list, own.id[i], to[own.last[i] - 1])) return false;
    list->first[k] = from[own.first[i]];
    list->word[k] = word;
  }
  return true;
}

/* Computes the tokens of an ASCII chunk. Returns the chunk's number of words, or -1 if the caller
** must compute the tokens. */
static int compute(tli_Tokens *t, const char *chunk, int n, int flag, tli_TokenList *list) {
  Text a, b, *text = &a, *other = &b;
  for (int i = 0; i < n; i++) {
    if ((chunk[i] < 32 || chunk[i] > 126) && chunk[i] != 9 && chunk[i] != 10) return -1;
    a.text[i] = chunk[i];
    a.from[i] = i;
    a.to[i] = i + 1;
  }
  a.n = n;
  a.pieces = 1;
  a.piece[0] = (Piece){0, n, 0};
  for (int i = 0; i < t->nsteps; i++)
    if (!apply(t, &t->steps[i], &text, &other, flag)) return -1;
  list->n = 0;
  for (int i = 0; i < text->pieces; i++)
    if (!add_word(t, text, &text->piece[i], i + 1, list)) return -1;
  return text->pieces;
}

int64_t tli_tokens_chunk(tli_Tokens *t, const char *chunk, int n, int flag) {
  char key[TLI_TOKENS_MOST + 1];
  tli_TokenList list;
  if (n <= 0 || n > TLI_TOKENS_MOST) return -1;
  size_t length = key_of(key, chunk, n, flag);
  int64_t known = find(&t->chunks, hash_of(seed, key, length), key, length);
  if (known != -1) return known == LEFT ? -1 : known;
  int words = t->has_steps ? compute(t, chunk, n, flag, &list) : -1;
  if (words < 0) return -1;
  int64_t at = (int64_t)t->data_used;
  return tli_tokens_put(t, chunk, n, flag, &list, words) ? at : -2;
}

void tli_tokens_clear(tli_Tokens *t) {
  for (int i = 0; i < t->nsteps; i++) free(t->steps[i].text);
  clear(&t->vocab);
  clear(&t->chunks);
  free(t->scores);
  free(t->merges);
  free(t->prefix);
  free(t->suffix);
  free(t->reach);
  free(t->nodes);
  free(t->steps);
  free(t->data);
  *t = (tli_Tokens){0};
}
