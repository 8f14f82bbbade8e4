/*
** text.h - a text buffer that grows, for files and messages. After memory was exhausted once,
** further calls do nothing.
*/
#ifndef TLI_GRAPH_TEXT_H
#define TLI_GRAPH_TEXT_H

#include "core/error.h"

typedef struct tli_Text {
  char *data; /* the text (owned), zero-terminated after the first addition */
  size_t size, room;
  bool failed; /* whether memory was exhausted, which also sets an error message */
} tli_Text;

void tli_text_add(tli_Text *t, const char *data, size_t size);
void tli_text_put(tli_Text *t, const char *text);
void tli_text_format(tli_Text *t, const char *format, ...)
    __attribute__((format(TLI_PRINTF, 2, 3)));
/* Adds a JSON string, with its quotes. */
void tli_text_quote(tli_Text *t, const char *text, size_t size);
/* Adds a JSON number that is read back as exactly the same float64; NaN and infinities become the
** strings "nan", "inf" and "-inf". */
void tli_text_real(tli_Text *t, double value);
void tli_text_free(tli_Text *t);

#endif
