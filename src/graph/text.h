/*
** text.h - a text that grows, for files and messages. After a failure further calls do nothing.
*/
#ifndef TLI_GRAPH_TEXT_H
#define TLI_GRAPH_TEXT_H

#include "core/error.h"

typedef struct tli_Text {
  char *data; /* owned; ends with a 0 once something was added */
  size_t size, room;
  bool failed; /* memory is exhausted; there is a message */
} tli_Text;

void tli_text_add(tli_Text *t, const char *data, size_t size);
void tli_text_put(tli_Text *t, const char *text);
void tli_text_format(tli_Text *t, const char *format, ...)
    __attribute__((format(TLI_PRINTF, 2, 3)));
/* A string of JSON, with its quotes. */
void tli_text_quote(tli_Text *t, const char *text, size_t size);
/* A number of JSON from which the same float64 is read; "nan", "inf" and "-inf" as strings. */
void tli_text_real(tli_Text *t, double value);
void tli_text_free(tli_Text *t);

#endif
