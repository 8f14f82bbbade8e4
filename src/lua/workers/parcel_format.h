/*
** parcel_format.h - how a parcel lies in memory, for the two files that write and read
** it. A value is a byte that says what it is and what belongs to it. Tables, functions,
** tensors and generators are numbered from 1 as they come, so that a second mention is
** the number alone; the reader counts as the writer does.
*/
#ifndef TLI_PARCEL_FORMAT_H
#define TLI_PARCEL_FORMAT_H

#include "lua/workers/parcel.h"

struct tli_Parcel {
  char *bytes; /* owned */
  size_t n, room;
  tl_Tensor **tensors; /* owned, with each */
  int ntensors, tensor_room;
  int nvalues; /* before the globals */
};

typedef enum Tag {
  NIL = 'n',
  FALSE_ = 'f',
  TRUE_ = 't',
  INTEGER = 'i',
  FLOAT = 'd',
  STRING = 's',
  TENSOR = 'T',
  GENERATOR = 'G',
  DEVICE = 'D',      /* name */
  AGAIN = 'R',       /* number */
  TABLE = '{',       /* keys and values, END */
  WITH_META = 'M',   /* metatable, keys and values, END */
  BEFORE = 'b',      /* a value that is only read, and the value itself */
  CLASS = 'C',       /* name, parent or nil, keys and values, END */
  KNOWN_CLASS = 'B', /* its number in the first parcel */
  MODULE = 'K',      /* name, field or "" */
  FUNCTION = 'F',    /* size, bytecode, number of upvalues, each a value or JOIN */
  JOIN = 'J',        /* a function's number, which of its upvalues */
  GLOBALS = '_',
  ENVIRONMENT = 'E',
  MISSING = 'X', /* why */
  END = 'e'
} Tag;

enum { DEEPEST = 180 }; /* Lua allows 200 nested calls of C */

#endif
