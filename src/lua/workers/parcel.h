/*
** parcel.h - Lua values on their way to another interpreter. A parcel is bytes
** and references to tensors; it belongs to no state, so any thread may unpack
** it, any number of times.
**
** Numbers, strings and booleans travel by value; tables by value, with what
** they share and with cycles; tensors by reference; generators by their state;
** functions written in Lua by their bytecode and upvalues, and with them the
** globals that they name; modules, their functions and their classes by name;
** instances of classes as tables, their class by name or by its methods.
*/
#ifndef TLI_PARCEL_H
#define TLI_PARCEL_H

#include "lua/state.h"

typedef struct tli_Parcel tli_Parcel;

/* Packs the values from the stack index `first` to the top, and pops them; the
** parcel is the caller's. What cannot travel raises an error that names it: "<what>: ...",
** lack of memory is NULL with a message. `classes` is the index of a table or 0: with
** `first_one` the classes that travel as a whole are entered there, else those that
** it has, which the other side has as well, travel by number. */
tli_Parcel *tli_parcel_pack(lua_State *L, const char *what, int first, int classes, bool first_one);

/* Pushes the values; returns how many. May raise. `classes` as above. To be called in a
** function with the library's upvalues (state.h). */
int tli_parcel_unpack(lua_State *L, const tli_Parcel *parcel, int classes, bool first_one);

/* NULL is fine. Only the last user frees it: nobody may be unpacking it. */
void tli_parcel_free(tli_Parcel *parcel);

#endif
