/*
** error.c - the thread-local record of failures. Invariant: recording a failure allocates
** nothing, so it works when memory is exhausted.
*/
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX 1024

static _Thread_local struct {
  tl_ErrorKind kind;
  bool late;
  char raw[MESSAGE_MAX];
  char text[MESSAGE_MAX];
  uint64_t number;
} last;

static void record(tl_ErrorKind kind, const char *format, va_list args) {
  /* the message is formatted into a buffer of its own, since an argument may be the previous
  ** message */
  char message[MESSAGE_MAX];
  vsnprintf(message, sizeof message, format, args);
  last.kind = kind;
  last.late = false;
  last.number++;
  memcpy(last.raw, message, sizeof message);
}

bool tli_fail(tl_ErrorKind kind, const char *format, ...) {
  va_list args;
  va_start(args, format);
  record(kind, format, args);
  va_end(args);
  return false;
}

void *tli_fail_null(tl_ErrorKind kind, const char *format, ...) {
  va_list args;
  va_start(args, format);
  record(kind, format, args);
  va_end(args);
  return NULL;
}

size_t tli_error_head(const char *message) {
  size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  return n > 0 && message[n] == ':' && message[n + 1] == ' ' ? n + 2 : 0;
}

bool tli_fail_about(const char *what) {
  if (last.kind != TL_EINDEX && last.kind != TL_EDTYPE) return false;
  const char *rest = last.raw;
  for (size_t n; (n = tli_error_head(rest)) > 0;) rest += n;
  return tli_fail(last.kind, "%s: %s", what, rest);
}

const char *tli_error_raw(void) { return last.raw; }

void tli_error_set_late(void) { last.late = true; }
bool tli_error_late(void) { return last.late; }
uint64_t tli_error_number(void) { return last.number; }

void tli_error_clear(void) {
  last.kind = TL_OK;
  last.late = false;
  last.raw[0] = '\0';
}

void tli_error_translate(const char *raw, int base, char *out, size_t size) {
  size_t n = 0;
  while (*raw && n + 1 < size) {
    if (*raw != TLI_POS_BEGIN) {
      out[n++] = *raw++;
      continue;
    }
    char *end;
    long long position = strtoll(raw + 1, &end, 10);
    if (position >= 0) position += base;
    int wrote = snprintf(out + n, size - n, "%lld", position);
    n += wrote > 0 ? (size_t)wrote : 0;
    if (n >= size) n = size - 1;
    raw = *end == TLI_POS_END ? end + 1 : end;
  }
  out[n] = '\0';
}

const char *tl_error(void) {
  tli_error_translate(last.raw, 0, last.text, sizeof last.text);
  return last.text;
}

tl_ErrorKind tl_error_kind(void) { return last.kind; }
