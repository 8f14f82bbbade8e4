/*
** repl.h - declares the interactive mode of the command.
*/
#ifndef TLI_REPL_H
#define TLI_REPL_H

#include <lua.h>

/* Reads, runs and shows chunks until the input ends. */
void tli_repl_run(lua_State *L);

#endif
