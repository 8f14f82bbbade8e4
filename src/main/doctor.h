/*
** doctor.h - `tlua doctor`: what this machine has for tlua, and what it lacks.
*/
#ifndef TLI_DOCTOR_H
#define TLI_DOCTOR_H

#include <lua.h>

/* Prints the report. May raise an error. */
void tli_doctor_run(lua_State *L);

#endif
