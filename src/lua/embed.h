/*
** embed.h - the Lua sources that are part of the library, as src/gen/embed.lua
** writes them. The text is not copied: it lives as long as the library.
*/
#ifndef TLI_EMBED_H
#define TLI_EMBED_H

#include <stddef.h>

typedef struct tli_Embedded {
  const char *module; /* as `require` names it: "tlua.nn.modules.Linear" */
  const char *chunk;  /* the chunk name: "=tlua:nn/modules/Linear.lua" */
  const char *data;   /* source text, also ended by '\0' */
  size_t size;        /* without that '\0' */
} tli_Embedded;

struct lua_State;

/* Keeps what the standard libraries hold now for the embedded files, unless that
** was done before. The library does it when it is opened; who lets a script run
** before that calls this first. May raise on lack of memory. */
void tli_open_environment(struct lua_State *L);

/* In order of module names, ended by an entry of NULLs. */
extern const tli_Embedded tli_embedded[];
extern const size_t tli_embedded_count; /* without that entry */

#endif
