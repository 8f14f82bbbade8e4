/*
** json.c - implements json.h. The reader accepts strict JSON. Integers that int64 cannot hold are
** read as floats. Nesting is limited, since the reader is recursive.
*/
#include "graph/json.h"

#include <stdlib.h>
#include <string.h>

#define DEEPEST 32

typedef struct Reader {
  tli_Region *region;
  const char *at, *end, *begin;
  int depth;
} Reader;

static void *bad(const Reader *r, const char *what) {
  return tli_fail_null(TL_EIO, "expected %s at byte %td of the JSON text", what, r->at - r->begin);
}

static void skip(Reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
    r->at++;
}

static bool take(Reader *r, char c) {
  skip(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Reads the four hexadecimal digits of \u; returns -1 if they are missing. */
static int read_unit(Reader *r) {
  int unit = 0;
  if (r->end - r->at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(r->at[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  r->at += 4;
  return unit;
}

/* Writes a character as UTF-8; returns a pointer to the end of the written bytes. */
static char *put_character(char *out, unsigned c) {
  if (c < 0x80) {
    *out++ = (char)c;
  } else if (c < 0x800) {
    *out++ = (char)(0xC0 | c >> 6);
    *out++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *out++ = (char)(0xE0 | c >> 12);
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  } else {
    *out++ = (char)(0xF0 | c >> 18);
    *out++ = (char)(0x80 | (c >> 12 & 63));
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  }
  return out;
}

/* Reads an escape sequence after its backslash. */
static char *read_escape(Reader *r, char *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return bad(r, "an escape");
  char c = *r->at++;
  const char *plain = strchr(from, c);
  if (c != '\0' && plain) {
    *out++ = to[plain - from];
    return out;
  }
  int unit = c == 'u' ? read_unit(r) : -1;
  if (unit <= 0) return bad(r, "an escape");
  unsigned code = (unsigned)unit;
  if (unit >= 0xD800 && unit < 0xE000) {
    if (unit >= 0xDC00 || r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
      return bad(r, "a pair of surrogates");
    r->at += 2;
    int low = read_unit(r);
    if (low < 0xDC00 || low >= 0xE000) return bad(r, "a pair of surrogates");
    code = 0x10000 + (((unsigned)unit - 0xD800) << 10) + ((unsigned)low - 0xDC00);
  }
  return put_character(out, code);
}

/* Reads a string after its opening quote. */
static const char *read_string(Reader *r, int64_t *size) {
  const char *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
  if (close >= r->end) return bad(r, "the end of a string");
  char *text = tli_region_get(r->region, close - r->at + 1, 1), *out = text;
  if (text == NULL) return NULL;
  while (r->at < close) {
    unsigned char c = (unsigned char)*r->at++;
    if (c < 32) return bad(r, "no control character in a string");
    if (c == '\\') {
      out = read_escape(r, out);
      if (out == NULL) return NULL;
    } else {
      *out++ = (char)c;
    }
  }
  r->at = close + 1;
  *size = out - text;
  return text;
}

static bool read_number(Reader *r, tli_Json *j) {
  char text[64];
  size_t n = 0;
  bool real = false;
  while (r->at < r->end && n < sizeof text - 1 && strchr("+-.eE0123456789", *r->at) && *r->at) {
    real = real || *r->at == '.' || *r->at == 'e' || *r->at == 'E';
    text[n++] = *r->at++;
  }
  text[n] = '\0';
  char *end = text;
  const char *digits = text[0] == '-' ? text + 1 : text;
  if (digits[0] < '0' || digits[0] > '9') return bad(r, "a value") != NULL;
  j->kind = real ? TLI_JSON_REAL : TLI_JSON_INTEGER;
  if (real)
    j->real = strtod(text, &end);
  else
    j->integer = strtoll(text, &end, 10);
  bool large = !real && n > 18;
  if (large) {
    j->kind = (double)j->integer == strtod(text, NULL) ? TLI_JSON_INTEGER : TLI_JSON_REAL;
    if (j->kind == TLI_JSON_REAL) j->real = strtod(text, NULL);
  }
  return *end == '\0' || bad(r, "a number") != NULL;
}

static bool read_word(Reader *r, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return bad(r, "a value") != NULL;
  r->at += n;
  return true;
}

static tli_Json *read_value(Reader *r);

static bool read_elements(Reader *r, tli_Json *j, char close) {
  tli_Json **last = &j->first;
  if (take(r, close)) return true;
  do {
    const char *key = NULL;
    int64_t size;
    if (close == '}') {
      if (!take(r, '"')) return bad(r, "a key") != NULL;
      key = read_string(r, &size);
      if (key == NULL) return false;
      if (!take(r, ':')) return bad(r, "a colon") != NULL;
    }
    tli_Json *value = read_value(r);
    if (value == NULL) return false;
    value->key = key;
    *last = value;
    last = &value->next;
    j->count++;
  } while (take(r, ','));
  return take(r, close) || bad(r, "a comma or the end of a list") != NULL;
}

static bool fill(Reader *r, tli_Json *j) {
  char c = *r->at;
  if (c == '{' || c == '[') {
    r->at++;
    j->kind = c == '{' ? TLI_JSON_OBJECT : TLI_JSON_ARRAY;
    if (++r->depth > DEEPEST) return bad(r, "fewer lists in one another") != NULL;
    TL_TRY(read_elements(r, j, c == '{' ? '}' : ']'));
    r->depth--;
    return true;
  }
  if (c == '"') {
    r->at++;
    j->kind = TLI_JSON_STRING;
    j->text = read_string(r, &j->count);
    return j->text != NULL;
  }
  if (c == 't' || c == 'f') {
    j->kind = TLI_JSON_BOOLEAN;
    j->flag = c == 't';
    return read_word(r, c == 't' ? "true" : "false");
  }
  if (c == 'n') return read_word(r, "null");
  return read_number(r, j);
}

static tli_Json *read_value(Reader *r) {
  skip(r);
  if (r->at == r->end) return bad(r, "a value");
  tli_Json *j = tli_region_get(r->region, 1, sizeof *j);
  return j && fill(r, j) ? j : NULL;
}

const tli_Json *tli_json_read(tli_Region *region, const char *text, size_t size) {
  Reader r = {.region = region, .at = text, .begin = text, .end = text + size};
  const tli_Json *j = read_value(&r);
  skip(&r);
  return j == NULL || r.at == r.end ? j : bad(&r, "the end of the text");
}

const tli_Json *tli_json_field(const tli_Json *j, const char *key, tli_JsonKind kind) {
  if (j == NULL || j->kind != TLI_JSON_OBJECT) return NULL;
  for (const tli_Json *field = j->first; field; field = field->next)
    if (strcmp(field->key, key) == 0) return field->kind == kind ? field : NULL;
  return NULL;
}
