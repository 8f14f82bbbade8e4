/*
** doctor.h - declares `tlua doctor`, which reports the libraries and devices that tlua finds on
** this machine.
*/
#ifndef TLI_DOCTOR_H
#define TLI_DOCTOR_H

#include <lua.h>

/* Prints the report. May raise an error. */
void tli_doctor_run(lua_State *L);

#endif
