/*
** text.c - implements text.h.
*/
#include "graph/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"

static bool reserve(tli_Text *t, size_t more) {
  if (t->failed) return false;
  if (t->size + more + 1 <= t->room) return true;
  size_t room = 2 * (t->size + more) + 256;
  char *data = tli_alloc(room);
  if (data == NULL) {
    t->failed = true;
    return false;
  }
  if (t->size > 0) memcpy(data, t->data, t->size);
  tli_free(t->data, t->room);
  t->data = data;
  t->room = room;
  return true;
}

void tli_text_add(tli_Text *t, const char *data, size_t size) {
  if (!reserve(t, size)) return;
  memcpy(t->data + t->size, data, size);
  t->size += size;
  t->data[t->size] = '\0';
}

void tli_text_put(tli_Text *t, const char *text) { tli_text_add(t, text, strlen(text)); }

void tli_text_format(tli_Text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  if (n >= 0 && reserve(t, (size_t)n)) {
    vsnprintf(t->data + t->size, (size_t)n + 1, format, again);
    t->size += (size_t)n;
  }
  va_end(again);
  va_end(args);
}

void tli_text_quote(tli_Text *t, const char *text, size_t size) {
  tli_text_put(t, "\"");
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      tli_text_format(t, "\\%c", c);
    else if (c < 32)
      tli_text_format(t, "\\u%04x", c);
    else
      tli_text_add(t, text + i, 1);
  }
  tli_text_put(t, "\"");
}

void tli_text_real(tli_Text *t, double value) {
  char number[40];
  if (isnan(value)) {
    tli_text_put(t, "\"nan\"");
  } else if (isinf(value)) {
    tli_text_put(t, value > 0 ? "\"inf\"" : "\"-inf\"");
  } else {
    for (int digits = 15; digits <= 17; digits++) {
      snprintf(number, sizeof number, "%.*g", digits, value);
      if (strtod(number, NULL) == value) break;
    }
    bool plain = strpbrk(number, ".e") == NULL;
    tli_text_put(t, number);
    if (plain) tli_text_put(t, ".0");
  }
}

void tli_text_free(tli_Text *t) {
  tli_free(t->data, t->room);
  *t = (tli_Text){0};
}
