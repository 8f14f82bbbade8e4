/*
** status.c - describes the call that a rank is making, as text for error messages.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dist/inside.h"

/* Appends as much text as there is room for. */
static void add(char *out, size_t size, const char *format, ...) {
  size_t n = strlen(out);
  va_list values;
  va_start(values, format);
  vsnprintf(out + n, size - n, format, values);
  va_end(values);
}

void tli_status_text(const tli_Status *s, const tli_Group *g, char *out, size_t size) {
  bool message = s->kind >= TLI_SEND;
  snprintf(out, size, "%s", tli_collective_names[s->kind]);
  if (message && s->peer >= 0)
    add(out, size, " %s rank %d", s->kind == TLI_SEND ? "to" : "from", g->ranks[s->peer]);
  else if (!message)
    add(out, size, " number %lld", (long long)s->number);
  if (s->dtype >= 0)
    add(out, size, " of %s %s", tl_dtype_name((tl_DType)s->dtype),
        tli_shape_str(s->ndim, s->sizes));
  if (s->site[0]) add(out, size, " at %s", s->site);
  if (s->pass > 0 && !message) add(out, size, " in pass %lld", (long long)s->pass + 1);
}
