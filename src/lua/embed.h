/*
** embed.h - the Lua sources that are part of the library, as written by src/gen/embed.lua. The text
** is not copied: it lives as long as the library.
*/
#ifndef TLI_EMBED_H
#define TLI_EMBED_H

#include <stddef.h>

typedef struct tli_Embedded {
  const char *module; /* the name for `require`: "tlua.nn.modules.Linear" */
  const char *chunk;  /* the chunk name: "=tlua:nn/modules/Linear.lua" */
  const char *data;   /* source text, also ended by '\0' */
  size_t size;        /* without the terminating '\0' */
} tli_Embedded;

struct lua_State;

/* Saves the present contents of the standard libraries for the embedded files, unless that was done
** before. Opening the library does it; a host that runs a script before that calls this first. May
** raise on lack of memory. */
void tli_open_environment(struct lua_State *L);

/* Sorted by module name; ended by an entry of NULLs. */
extern const tli_Embedded tli_embedded[];
extern const size_t tli_embedded_count; /* not counting that entry */

#endif
