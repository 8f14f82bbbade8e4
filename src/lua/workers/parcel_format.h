/*
** parcel_format.h - the format of a parcel, for the file that writes parcels and the file that
** reads them. A value is written as a tag, which is a byte for its type, followed by its contents.
** Tables, functions, tensors, devices and generators that are written in full are numbered from 1
** in the order in which they appear, so a repeated value is written as its number alone. The reader
** assigns the same numbers as the writer.
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
  DEVICE = 'D', /* name */
  AGAIN = 'R',  /* number */
  SPARSE = 'S', /* a sparse tensor: followed by the table of its components */
  TABLE = '{',  /* a table: followed by keys and values, then END */
  /* a table with a metatable: followed by the metatable, keys and values, then END */
  WITH_META = 'M',
  SIZE = 'Z', /* a torch.Size: followed by keys and values, then END */
  /* followed by two values: another value that must be read first, and then the value itself */
  BEFORE = 'b',
  /* a class: followed by its name, its parent or nil, keys and values, then END */
  CLASS = 'C',
  KNOWN_CLASS = 'B', /* a class that the receiver has: followed by its number in the first parcel */
  /* a module or a field of a module: followed by the module's name and the field's name, which is
  ** "" for the module itself */
  MODULE = 'K',
  /* a Lua function: followed by the bytecode's size, the bytecode, the number of upvalues, and for
  ** each upvalue a value or JOIN */
  FUNCTION = 'F',
  /* a shared upvalue: followed by the number of a function and the index of the upvalue in that
  ** function */
  JOIN = 'J',
  GLOBALS = '_',
  ENVIRONMENT = 'E',
  MISSING = 'X', /* a value that could not be packed: followed by the reason */
  END = 'e'
} Tag;

enum { DEEPEST = 180 }; /* largest nesting depth of values; Lua allows 200 nested C calls */

#endif
