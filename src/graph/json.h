/*
** json.h - a parser that turns JSON text into a tree. A string may contain any byte except 0.
*/
#ifndef TLI_GRAPH_JSON_H
#define TLI_GRAPH_JSON_H

#include "graph/call_graph.h"

typedef enum tli_JsonKind {
  TLI_JSON_NULL,
  TLI_JSON_BOOLEAN,
  TLI_JSON_INTEGER,
  TLI_JSON_REAL,
  TLI_JSON_STRING,
  TLI_JSON_ARRAY,
  TLI_JSON_OBJECT
} tli_JsonKind;

typedef struct tli_Json {
  tli_JsonKind kind;
  int64_t count; /* number of elements of an array or object; number of bytes of a string */
  union {
    bool flag;
    int64_t integer;
    double real;
    const char *text; /* the text of a string, zero-terminated */
    struct tli_Json *first;
  };
  const char *key;       /* the key if this is an element of an object */
  struct tli_Json *next; /* the next element of the same array or object */
} tli_Json;

/* Parses a text. Returns a value allocated in the region; on failure returns NULL and sets a
** message. */
const tli_Json *tli_json_read(tli_Region *r, const char *text, size_t size) TL_MUSTCHECK;
/* Returns the field `key` if it has the given kind; NULL if j is not an object or has no such
** field. */
const tli_Json *tli_json_field(const tli_Json *j, const char *key, tli_JsonKind kind);

#endif
