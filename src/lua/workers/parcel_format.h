/*
** parcel_format.h - the format of a parcel, for the two files that write and read it. A value is a
** byte for its type, followed by its contents. Tables, functions, tensors and generators are
** numbered from 1 in order of appearance, so a further occurrence is just the number. The reader
** numbers them in the same way as the writer.
*/
#ifndef TLI_PARCEL_FORMAT_H
#define TLI_PARCEL_FORMAT_H

#include "lua/workers/parcel.h"

struct tli_Parcel {
  char *bytes; /* owned */
  size_t n, room;
  tl_Tensor **tensors; /* tensors of the parcel, as owned references */
  int ntensors, tensor_room;
  int nvalues; /* number of values that precede the globals */
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
  SPARSE = 'S',      /* followed by the table of components */
  TABLE = '{',       /* followed by keys and values, then END */
  WITH_META = 'M',   /* followed by the metatable, keys and values, then END */
  SIZE = 'Z',        /* torch.Size: followed by keys and values, then END */
  BEFORE = 'b',      /* followed by a value that is only read, then by the value itself */
  CLASS = 'C',       /* followed by its name, its parent or nil, keys and values, then END */
  KNOWN_CLASS = 'B', /* followed by the class's number in the first parcel */
  MODULE = 'K',      /* followed by the module's name, and a field or "" */
  FUNCTION = 'F', /* followed by size, bytecode, number of upvalues, and for each a value or JOIN */
  JOIN = 'J',     /* followed by the number of a function and the index of its upvalue */
  GLOBALS = '_',
  ENVIRONMENT = 'E',
  MISSING = 'X', /* followed by the reason why the value is missing */
  END = 'e'
} Tag;

enum { DEEPEST = 180 }; /* largest nesting depth of values; Lua allows 200 nested C calls */

#endif
