/*
** embed.h - the Lua sources that are part of the library, in packed form. src/gen/embed.lua writes
** them at build time; src/gen/pack.lua describes the format.
*/
#ifndef TLI_EMBED_H
#define TLI_EMBED_H

#include <stddef.h>
#include <stdint.h>

typedef struct tli_Embedded {
  const char *module; /* name for `require`, such as "tlua.nn.modules.Linear" */
  const char *chunk;  /* name of the chunk, such as "=tlua:nn/modules/Linear.lua" */
  const char *packed; /* the packed text, which tli_embedded_text unpacks */
  size_t size;        /* size of the source text in bytes */
} tli_Embedded;

/* Writes the source text of a module, e->size bytes without a terminating zero, to `text`. */
void tli_embedded_text(const tli_Embedded *e, char *text);

struct lua_State;

/* Makes the environment of the embedded Lua files, with the present contents of the standard
** libraries. Does nothing if the environment exists. The function is called when the library is
** opened; a host that first runs a script calls it before the script. May raise an error if memory
** is exhausted. */
void tli_open_environment(struct lua_State *L);

/* The embedded files, sorted by module name; the last entry consists of NULLs. */
extern const tli_Embedded tli_embedded[];
extern const size_t tli_embedded_count; /* number of entries, without the last one */

/* Decoding tables of the prefix codes of packed text. The index is the next CODE_BITS bits; the
** entry is 16 * s + n if these bits begin with the code of symbol s, which has n bits. */
enum { TLI_CODE_BITS = 11, TLI_MIN_COPY = 4 };
extern const uint16_t tli_symbol_code[1 << TLI_CODE_BITS];
extern const uint16_t tli_distance_code[1 << TLI_CODE_BITS];

#endif
