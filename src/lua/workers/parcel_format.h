/*
** parcel_format.h - the format of a parcel, for the two files that write and read it. A value
** is a byte for its type, followed by its contents. Tables, functions, tensors and generators
** are numbered from 1 in order of appearance, so further occurrences are just the number; the
** reader counts like the writer.
*/
#ifndef TLI_PARCEL_FORMAT_H
#define TLI_PARCEL_FORMAT_H

#include "lua/workers/parcel.h"

struct tli_Parcel {
  char *bytes; /* owned */
  size_t n, room;
  tl_Tensor **tensors; /* owned, with their references */
  int ntensors, tensor_room;
  int nvalues; /* number of values before the globals */
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
  SIZE = 'Z',        /* torch.Size: keys and values, END */
  BEFORE = 'b',      /* a value that is only read, then the value itself */
  CLASS = 'C',       /* name, parent or nil, keys and values, END */
  KNOWN_CLASS = 'B', /* its number in the first parcel */
  MODULE = 'K',      /* name, field or "" */
  FUNCTION = 'F',    /* size, bytecode, number of upvalues, for each a value or JOIN */
  JOIN = 'J',        /* number of a function, index of its upvalue */
  GLOBALS = '_',
  ENVIRONMENT = 'E',
  MISSING = 'X', /* the reason why the value is missing */
  END = 'e'
} Tag;

enum { DEEPEST = 180 }; /* Lua allows 200 nested C calls */

#endif
