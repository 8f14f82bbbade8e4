/*
** tokens.h - the inner loops of tokenizers: models that divide words into tokens, and a cache of
** the tokens of chunks of text. A text consists of parts, between which there are added tokens such
** as <s>. A part is cut into chunks, which can be tokenized one by one. The steps of the tokenizer
** divide a chunk into pieces, and each piece that is left at the end is a word for the model.
**
** These functions compute the tokens of a chunk if the chunk is ASCII and all steps of the
** tokenizer are known. Other chunks are left to the caller, which may add their tokens to the
** cache. Positions count from 0, and ends are exclusive.
*/
#ifndef TLI_TOKENS_H
#define TLI_TOKENS_H

#include "core/error.h"

typedef enum tli_TokenModel {
  TLI_TOKENS_BPE,
  TLI_TOKENS_UNIGRAM,
  TLI_TOKENS_PIECES
} tli_TokenModel;

enum { TLI_TOKENS_MOST = 256 }; /* the largest number of bytes in a chunk */

/* A hash table from byte strings to numbers; the bytes of all keys are in one block. */
typedef struct tli_ByteMap {
  struct tli_ByteKey *slots; /* owned */
  char *bytes;               /* owned */
  size_t capacity, count, used, room;
} tli_ByteMap;

/* A node of a compiled pattern. `next` is the node that must match the text after this node's
** match, or -1. */
typedef struct tli_PatternNode {
  enum { TLI_NODE_SET, TLI_NODE_REPEAT, TLI_NODE_CHOICE, TLI_NODE_LOOK, TLI_NODE_END } kind;
  /* inner: the node of a choice's first alternative, or the node that a look-ahead matches */
  int next, inner;
  int other; /* the node of a choice's other alternatives, or -1 */
  int min, max;
  bool possessive, negative;
  uint64_t set[2];
} tli_PatternNode;

typedef struct tli_TokenStep {
  enum {
    TLI_STEP_MAP,     /* replaces each ASCII byte b by text[b] */
    TLI_STEP_PREPEND, /* inserts `text` before a part's first chunk */
    TLI_STEP_STRIP,   /* removes spaces at the beginning and at the end of a part */
    TLI_STEP_REPLACE, /* replaces each match by `text` */
    TLI_STEP_SPELL,   /* replaces byte b by string b of the zero-terminated strings in `text` */
    TLI_STEP_CHECK,   /* leaves a chunk to the caller if it contains one of the strings in `text` */
    TLI_STEP_SPLIT,   /* splits each piece at the matches */
    TLI_STEP_META,    /* replaces each space by `text`; see `flag` and `splits` */
    TLI_STEP_SPACE    /* inserts a space at the beginning of each piece that has none there */
  } kind;
  int pattern; /* the first node of the step's pattern */
  char *text;  /* owned */
  size_t length;
  /* Two options of the step:
  ** SPLIT: whether the text between the matches separates, instead of the matches; whether the
  ** separators are removed.
  ** STRIP: whether spaces are removed at the beginning; whether they are removed at the end.
  ** META: whether `text` is inserted before each piece; whether it is inserted before the first
  ** piece of the text. A piece that begins with a space or with `text` is left as it is. */
  bool flag[2];
  bool splits; /* for META: whether a piece is split before each occurrence of `text` in it */
  /* for SPLIT: whether a match is joined with adjacent matches, with the text before it, or with
  ** the text after it */
  enum { TLI_JOIN_NONE, TLI_JOIN_EQUAL, TLI_JOIN_PREVIOUS, TLI_JOIN_NEXT } joins;
} tli_TokenStep;

typedef struct tli_TokenList {
  int n;
  int32_t id[TLI_TOKENS_MOST], first[TLI_TOKENS_MOST], last[TLI_TOKENS_MOST];
  int32_t word[TLI_TOKENS_MOST];
} tli_TokenList;

typedef struct tli_Tokens {
  tli_TokenModel model;
  tli_ByteMap vocab;
  double *scores; /* scores[id] is the score of token id (owned) */
  int32_t nscores;
  struct tli_Merge *merges; /* owned */
  size_t merge_slots, nmerges;
  char *prefix, *suffix; /* owned */
  size_t nprefix, nsuffix;
  /* unknown: the token for symbols that are not in the vocabulary, or -1 if there is none;
  ** byte_ids[b]: the token for byte b, or -1 */
  int32_t unknown, byte_ids[256];
  bool of_bytes, fuses, ignores_merges, byte_fallback, single;
  double unknown_score;
  int32_t most, longest;
  /* for each pair of bytes, the length of the longest token that begins with these two bytes
  ** (owned) */
  uint16_t *reach;
  tli_PatternNode *nodes; /* owned */
  int nnodes, attempts;
  tli_TokenStep *steps; /* owned */
  int nsteps;
  bool has_steps; /* whether all steps of the tokenizer are known here */
  /* the cache of the tokens of chunks: the fields from here to the end */
  /* maps a chunk of text to the position of its tokens in `data`, or to -2 if the caller must
  ** compute the tokens each time */
  tli_ByteMap chunks;
  /* for each chunk the numbers of tokens and words, then the lists of a tli_TokenList (owned) */
  int32_t *data;
  size_t data_used, data_room;
} tli_Tokens;

/* Releases the memory that *t owns. */
void tli_tokens_clear(tli_Tokens *t);

/* These functions add a token, or a merge of two tokens. They return false if memory is
** exhausted. */
bool tli_tokens_add(tli_Tokens *t, const char *bytes, size_t n, int32_t id) TL_MUSTCHECK;
bool tli_tokens_merge(tli_Tokens *t, int32_t a, int32_t b, int32_t rank, int32_t id) TL_MUSTCHECK;

/* Divides a word of at most TLI_TOKENS_MOST bytes into tokens. Returns false if the caller must
** tokenize the word. */
bool tli_tokens_word(const tli_Tokens *t, const char *word, int n, tli_TokenList *list)
    TL_MUSTCHECK;

/* Returns the position of a chunk's tokens in t->data, -1 if the caller must compute the tokens, or
** -2 if memory is exhausted. The two low bits of `flag` are 1 if the chunk begins the text, 2 if it
** begins another part of the text, and 3 for any other chunk. The next bit is set if the chunk ends
** its part. */
int64_t tli_tokens_chunk(tli_Tokens *t, const char *chunk, int n, int flag) TL_MUSTCHECK;

/* Adds a chunk's tokens to the cache. If list is NULL, records that the caller must compute the
** chunk's tokens each time. */
bool tli_tokens_put(tli_Tokens *t, const char *chunk, int n, int flag, const tli_TokenList *list,
                    int words) TL_MUSTCHECK;

#endif
