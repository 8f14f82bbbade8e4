/*
** parcel_format.h - the format of a parcel, for the two files that write and read it. A value
** begins with a byte for its type, the tag; its contents follow. Tables, functions, tensors and
** generators are numbered from 1 in the order in which they appear, so a repeated value is written
** as its number alone. The reader assigns the same numbers as the writer.
*/
#ifndef TLI_PARCEL_FORMAT_H
#define TLI_PARCEL_FORMAT_H

#include "lua/workers/parcel.h"

struct tli_Parcel {
  char *bytes; /* owned */
  size_t n, room;
  tl_Tensor **tensors; /* tensors of the parcel (owned references) */
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
  DEVICE = 'D',    /* name */
  AGAIN = 'R',     /* number */
  SPARSE = 'S',    /* followed by the table of components */
  TABLE = '{',     /* followed by keys and values, then END */
  WITH_META = 'M', /* followed by the metatable, keys and values, then END */
  SIZE = 'Z',      /* torch.Size: followed by keys and values, then END */
  /* followed by another value, which must be read first, and then by the value itself */
  BEFORE = 'b',
  CLASS = 'C',       /* followed by its name, its parent or nil, keys and values, then END */
  KNOWN_CLASS = 'B', /* followed by the number that the class had in the first parcel */
  /* followed by the module's name and by the name of a field, or "" for the module itself */
  MODULE = 'K',
  /* followed by the bytecode's size, the bytecode, the number of upvalues, and a value or JOIN for
  ** each */
  FUNCTION = 'F',
  /* followed by the number of a function, and the index of the upvalue that it shares */
  JOIN = 'J',
  GLOBALS = '_',
  ENVIRONMENT = 'E',
  MISSING = 'X', /* followed by the reason why the value could not be packed */
  END = 'e'
} Tag;

enum { DEEPEST = 180 }; /* largest nesting depth of values; Lua allows 200 nested C calls */

#endif
