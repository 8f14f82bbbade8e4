/*
** optional.c - implements optional.h: opens a library by the first of its names that exists.
*/
#include "core/platform/optional.h"

#include <stddef.h>

#include "core/platform/platform.h"

const tli_Optional tli_optional[TLI_NOPTIONAL] = {
#define X(id, name, use, get) {name, {TLI_FILES_##id, NULL}, use, get},
    TLI_OPTIONAL_LIBRARIES(X)
#undef X
};

void *tli_optional_open(tli_OptionalId id, const char **file) {
  for (const char *const *at = tli_optional[id].files; *at; at++) {
    void *library = tli_library_open(*at);
    if (library == NULL) continue;
    if (file) *file = *at;
    return library;
  }
  return NULL;
}
