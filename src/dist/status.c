/*
** status.c - what a rank is about, in words.
*/
#include <stdio.h>

#include "dist/inside.h"

void tli_status_text(const tli_Status *s, const tli_Group *g, char *out, size_t size) {
  bool message = s->kind >= TLI_SEND;
  int n = snprintf(out, size, "%s", tli_collective_names[s->kind]);
  if (message && s->peer >= 0)
    n += snprintf(out + n, size - (size_t)n, " %s rank %d", s->kind == TLI_SEND ? "to" : "from",
                  g->ranks[s->peer]);
  else if (!message)
    n += snprintf(out + n, size - (size_t)n, " number %lld", (long long)s->number);
  if (s->dtype >= 0)
    n += snprintf(out + n, size - (size_t)n, " of %s %s", tl_dtype_name((tl_DType)s->dtype),
                  tli_shape_str(s->ndim, s->sizes));
  if (s->site[0]) n += snprintf(out + n, size - (size_t)n, " at %s", s->site);
  if (s->pass > 0 && !message && n < (int)size)
    snprintf(out + n, size - (size_t)n, " in pass %lld", (long long)s->pass + 1);
}
