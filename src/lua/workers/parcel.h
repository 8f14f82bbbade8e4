/*
** parcel.h - Lua values in transit to another interpreter. A parcel consists of bytes and
** references to tensors. It belongs to no state, so any thread may unpack it, any number of
** times.
**
** Numbers, strings and booleans are copied. Tables are copied; shared parts and cycles are
** preserved. Tensors are passed by reference. A generator is sent as its state. Lua functions are
** sent as bytecode and upvalues, together with the globals that they name. Modules and their
** functions and classes are sent by name. An instance of a class is sent as a table; its class is
** sent by name or, if the class has no known name, with its methods.
*/
#ifndef TLI_PARCEL_H
#define TLI_PARCEL_H

#include "lua/state.h"

typedef struct tli_Parcel tli_Parcel;

/* Packs the values from stack index `first` to the top and pops them; the caller owns the parcel.
** For a value that cannot be packed, raises an error "<what>: ..." that names the value's location.
** Also raises an error if memory is exhausted. `classes` is the stack index of a table of classes,
** or 0. If `first_one` is true, this is the first parcel for the receiver, and classes that are
** sent in full are added to the table. In later parcels a class in the table is sent by its number,
** because the receiver already has it. */
tli_Parcel *tli_parcel_pack(lua_State *L, const char *what, int first, int classes, bool first_one);

/* Pushes the values of a parcel and returns their number. May raise an error. `classes` is the
** index of a table, as for tli_parcel_pack. The calling C function must have the library's upvalues
** (state.h). */
int tli_parcel_unpack(lua_State *L, const tli_Parcel *parcel, int classes, bool first_one);

/* Frees a parcel, which may be NULL. No thread may be unpacking it. */
void tli_parcel_free(tli_Parcel *parcel);

#endif
