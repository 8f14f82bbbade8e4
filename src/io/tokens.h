/*
** tokens.h - the inner loops of tokenizers: models that divide words into tokens, and a cache of
** the tokens of chunks, which are computed here if a chunk is ASCII and the tokenizer's steps are
** known. What is not handled here is left to the caller. Positions count from 0, ends are exclusive.
*/
#ifndef TLI_TOKENS_H
#define TLI_TOKENS_H

#include "core/error.h"

typedef enum tli_TokenModel {
  TLI_TOKENS_BPE,
  TLI_TOKENS_UNIGRAM,
  TLI_TOKENS_PIECES
} tli_TokenModel;

enum { TLI_TOKENS_MOST = 256 }; /* the most bytes of a chunk */

/* A map from bytes to a number of at least 0, with the bytes in an arena. */
typedef struct tli_ByteMap {
  struct tli_ByteKey *slots; /* owned */
  char *bytes;               /* owned */
  size_t capacity, count, used, room;
} tli_ByteMap;

/* A node of a pattern, or a step of a tokenizer; `next` is the node that has to match what follows
** a node, -1 for none. */
typedef struct tli_PatternNode {
  enum { TLI_NODE_SET, TLI_NODE_REPEAT, TLI_NODE_CHOICE, TLI_NODE_LOOK, TLI_NODE_END } kind;
  int next, inner; /* inner: the first alternative, or what a look-ahead looks for */
  int other;       /* of a choice: the choice among the other alternatives, -1 for none */
  int min, max;
  bool possessive, negative;
  uint64_t set[2];
} tli_PatternNode;

typedef struct tli_TokenStep {
  enum {
    TLI_STEP_MAP,     /* replaces bytes by those of `text`, which has 128 */
    TLI_STEP_PREPEND, /* inserts `text` into the first chunk */
    TLI_STEP_STRIP,   /* removes spaces at the first chunk's begin, at the last one's end */
    TLI_STEP_REPLACE, /* replaces each match by `text` */
    TLI_STEP_SPELL,   /* replaces ASCII bytes by texts; a zero ends each in `text` */
    TLI_STEP_CHECK,   /* leaves texts that have one of the texts in `text` to the caller */
    TLI_STEP_SPLIT,   /* splits each piece at the matches */
    TLI_STEP_META,    /* replaces spaces by `text`, may insert it at the begin, and may split */
    TLI_STEP_SPACE    /* inserts a space at each piece's begin unless there is one */
  } kind;
  int pattern; /* its first node */
  char *text;  /* owned */
  size_t length;
  bool flag[2]; /* of SPLIT: invert, remove; of STRIP: left, right; of META: always, first */
  bool splits;  /* of META: whether it splits */
  /* of SPLIT: whether a match is joined with adjacent matches, or with the text before or after */
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
  double *scores; /* owned, by number */
  int32_t nscores;
  struct tli_Merge *merges; /* owned */
  size_t merge_slots, nmerges;
  char *prefix, *suffix; /* owned */
  size_t nprefix, nsuffix;
  int32_t unknown, byte_ids[256]; /* -1 for none */
  bool of_bytes, fuses, ignores_merges, byte_fallback, single;
  double unknown_score;
  int32_t most, longest;
  uint16_t *reach;        /* owned: the longest token by its first two bytes */
  tli_PatternNode *nodes; /* owned */
  int nnodes, attempts;
  tli_TokenStep *steps; /* owned */
  int nsteps;
  bool has_steps; /* whether the steps are all steps of the tokenizer */
  /* the cache */
  tli_ByteMap chunks; /* values: places in data, or -2 for chunks that the caller has */
  int32_t *data;      /* owned: for each entry its counts of tokens and words, then four lists */
  size_t data_used, data_room;
} tli_Tokens;

/* Releases all that *t owns. */
void tli_tokens_clear(tli_Tokens *t);

/* The following return false if memory is missing. */
bool tli_tokens_add(tli_Tokens *t, const char *bytes, size_t n, int32_t id) TL_MUSTCHECK;
bool tli_tokens_merge(tli_Tokens *t, int32_t a, int32_t b, int32_t rank, int32_t id) TL_MUSTCHECK;

/* Divides a word of at most TLI_TOKENS_MOST bytes. Returns false if that is not handled here. */
bool tli_tokens_word(const tli_Tokens *t, const char *word, int n, tli_TokenList *list)
    TL_MUSTCHECK;

/* Returns where the tokens of a chunk are in t->data, -1 if the caller has to compute them, or -2 if
** memory is missing. `flag`: bits 0 and 1 tell whether the chunk begins at the text's begin (1), at
** a part's begin (2) or behind (3), bit 2 whether it ends the part. */
int64_t tli_tokens_chunk(tli_Tokens *t, const char *chunk, int n, int flag) TL_MUSTCHECK;

/* Stores a chunk's tokens, or that the caller has them if list is NULL. */
bool tli_tokens_put(tli_Tokens *t, const char *chunk, int n, int flag, const tli_TokenList *list,
                    int words) TL_MUSTCHECK;

#endif
