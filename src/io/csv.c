/*
** csv.c - implements csv.h. Each field is first located and then converted. This file itself
** converts numbers for which double arithmetic gives the correctly rounded value (Clinger 1990,
** "How to read floating point numbers accurately"). strtod converts all other numbers.
*/
#include "io/csv.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/dtype.h"

typedef struct Field {
  const char *at;
  int64_t n;
  /* whether the quoted field contains doubled quotes, each of which stands for one quote
  ** character */
  bool doubled;
} Field;

static bool fail_at(const tli_Csv *c, int column, const char *what) {
  return tli_fail(TL_EIO, "line %" PRId64 ": column %d: %s", c->line, column + 1, what);
}

/* ---- fields ---- */

/* Reads a quoted field; p is after the opening quote. Returns a pointer past the field, or NULL if
** the closing quote is missing. */
static const char *take_quoted(const tli_Csv *c, const char *p, int column, int64_t *lines,
                               Field *f) {
  const char *end = c->data + c->bytes;
  f->at = p;
  f->doubled = false;
  for (;; p++) {
    const char *quote = memchr(p, c->quote, (size_t)(end - p));
    if (quote == NULL) {
      (void)fail_at(c, column, "a quote is not closed");
      return NULL;
    }
    p = quote + 1;
    if (p == end || *p != c->quote) break;
    f->doubled = true;
  }
  f->n = p - 1 - f->at;
  for (const char *s = f->at; (s = memchr(s, '\n', (size_t)(p - s))) != NULL; s++) ++*lines;
  if (p + 1 < end && p[0] == '\r' && p[1] == '\n') p++;
  if (p == end || *p == c->delimiter || *p == '\n') return p;
  (void)fail_at(c, column, "more text follows a quoted field");
  return NULL;
}

/* Reads the field at p. Returns a pointer past the field: to a delimiter, to the end of a line, or
** to the end of the text. */
static const char *take(const tli_Csv *c, const char *p, int column, int64_t *lines, Field *f) {
  const char *end = c->data + c->bytes;
  if (p < end && *p == c->quote && c->quote) return take_quoted(c, p + 1, column, lines, f);
  f->at = p;
  f->doubled = false;
  while (p < end && *p != c->delimiter && *p != '\n') p++;
  f->n = p - f->at;
  if (f->n > 0 && p[-1] == '\r' && (p == end || *p == '\n')) f->n--;
  return p;
}

/* If *p is at an empty line, skips it, counts it in *line, and returns true. */
static bool skip_empty_line(const tli_Csv *c, const char **p, int64_t *line) {
  const char *end = c->data + c->bytes, *at = *p;
  if (at < end && *at == '\r') at++;
  if (at < end && *at != '\n') return false;
  if (at == end && at == *p) return false;
  *p = at < end ? at + 1 : end;
  ++*line;
  return true;
}

/* ---- numbers ---- */

static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The parts of a decimal number. */
typedef struct Decimal {
  uint64_t digits; /* the first 19 digits of the number, without leading zeros */
  int64_t exponent;
  int count; /* number of digits without leading zeros; 20 if there are more than 19 */
  bool negative, any;
} Decimal;

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

static inline const char *scan_digits(const char *p, const char *end, Decimal *d, int64_t step) {
  for (; p < end && is_digit(*p); p++) {
    d->any = true;
    if (d->count < 19) {
      d->digits = d->digits * 10 + (uint64_t)(*p - '0');
      d->count += d->digits != 0;
      d->exponent -= step;
    } else {
      d->count = 20;
      d->exponent += 1 - step;
    }
  }
  return p;
}

/* Parses a decimal number. Returns false if the text is anything else. */
static bool scan(const char *p, const char *end, Decimal *d) {
  *d = (Decimal){0};
  if (p < end && (*p == '-' || *p == '+')) d->negative = *p++ == '-';
  p = scan_digits(p, end, d, 0);
  if (p < end && *p == '.') p = scan_digits(p + 1, end, d, 1);
  if (!d->any) return false;
  if (p == end || (*p != 'e' && *p != 'E')) return p == end;
  p++;
  bool minus = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  if (p == end) return false;
  int64_t e = 0;
  for (; p < end && is_digit(*p); p++)
    if (e < 1000000) e = e * 10 + (*p - '0');
  d->exponent += minus ? -e : e;
  return p == end;
}

/* Converts a number with strtod, which expects the decimal point of the current locale. */
static bool read_slowly(const char *at, int64_t n, double *out) {
  char small[128], *text = n < (int64_t)sizeof small ? small : (char *)malloc((size_t)n + 1);
  if (text == NULL) return false;
  memcpy(text, at, (size_t)n);
  text[n] = '\0';
  char *point = strchr(text, '.');
  if (point) *point = localeconv()->decimal_point[0];
  *out = strtod(text, NULL);
  if (text != small) free(text);
  return true;
}

static bool is_word(const char *at, int64_t n, const char *word) {
  for (int64_t i = 0; i < n; i++)
    if ((at[i] | 32) != word[i]) return false;
  return word[n] == '\0';
}

static bool read_special(const char *at, int64_t n, double *out) {
  double sign = 1;
  if (n > 0 && (*at == '-' || *at == '+')) {
    sign = *at == '-' ? -1 : 1;
    at++, n--;
  }
  if (n == 3 && is_word(at, n, "nan"))
    *out = NAN;
  else if ((n == 3 && is_word(at, n, "inf")) || (n == 8 && is_word(at, n, "infinity")))
    *out = sign * INFINITY;
  else
    return false;
  return true;
}

static bool read_double(const char *at, int64_t n, double *out) {
  Decimal d;
  if (n == 0) {
    *out = NAN;
    return true;
  }
  if (!scan(at, at + n, &d)) return read_special(at, n, out);
  if (d.count > 19 || d.digits > (uint64_t)1 << 53 || d.exponent < -22 || d.exponent > 22)
    return read_slowly(at, n, out);
  double x = (double)d.digits;
  x = d.exponent < 0 ? x / tens[-d.exponent] : x * tens[d.exponent];
  *out = d.negative ? -x : x;
  return true;
}

static bool read_integer(const char *at, int64_t n, tl_DType dtype, int64_t *out) {
  const char *p = at, *end = at + n;
  bool negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  if (p == end) return false;
  int digits = tli_dtype_digits[dtype];
  uint64_t most = ((uint64_t)1 << digits) - 1, value = 0;
  if (negative) most = tli_is_unsigned(dtype) ? 0 : most + 1;
  for (; p < end; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (!is_digit(*p) || value > (most - digit) / 10 || digit > most) return false;
    value = value * 10 + digit;
  }
  *out = (int64_t)(negative ? 0 - value : value);
  return true;
}

static bool read_bool(const char *at, int64_t n, int64_t *out) {
  *out = n == 4 || (n == 1 && *at == '1');
  return (n == 4 && is_word(at, n, "true")) || (n == 5 && is_word(at, n, "false")) ||
         (n == 1 && (*at == '0' || *at == '1'));
}

static void trim(Field *f) {
  while (f->n > 0 && (*f->at == ' ' || *f->at == '\t')) f->at++, f->n--;
  while (f->n > 0 && (f->at[f->n - 1] == ' ' || f->at[f->n - 1] == '\t')) f->n--;
}

static bool store_number(const tli_Csv *c, int column, Field *f, int64_t row) {
  tl_DType dtype = (tl_DType)c->column[column].type;
  char *to = (char *)c->column[column].data + row * tli_dtype_bytes[dtype];
  tl_Scalar s = {.kind = TL_INTEGER};
  bool ok;
  trim(f);
  if (tli_is_float(dtype)) {
    s.kind = TL_FLOATING;
    ok = read_double(f->at, f->n, &s.f);
  } else if (dtype == TL_BOOL) {
    ok = read_bool(f->at, f->n, &s.i);
  } else {
    ok = read_integer(f->at, f->n, dtype, &s.i);
  }
  if (!ok)
    return tli_fail(TL_EIO, "line %" PRId64 ": column %d: expected a value of %s, got \"%.*s\"",
                    c->line, column + 1, tl_dtype_name(dtype), (int)(f->n < 40 ? f->n : 40), f->at);
  if (dtype == TL_F32)
    *(float *)(void *)to = (float)s.f;
  else if (dtype == TL_F64)
    *(double *)(void *)to = s.f;
  else
    tli_store(to, dtype, s);
  return true;
}

/* ---- rows ---- */

static bool store(const tli_Csv *c, int column, Field *f, int64_t row) {
  int type = c->column[column].type;
  if (type == TLI_CSV_SKIP) return true;
  if (type != TLI_CSV_TEXT) return store_number(c, column, f, row);
  tli_CsvText *to = (tli_CsvText *)c->column[column].data + row;
  *to = (tli_CsvText){f->at - c->data, f->doubled ? ~f->n : f->n};
  return true;
}

static bool wrong_count(const tli_Csv *c, int64_t got) {
  return tli_fail(TL_EIO, "line %" PRId64 ": expected %d fields, got %s%" PRId64, c->line,
                  c->columns, got > c->columns ? "at least " : "", got);
}

/* Reads the row at p. Returns a pointer to the next row; NULL after an error. */
static const char *read_row(tli_Csv *c, const char *p, int64_t row) {
  const char *end = c->data + c->bytes;
  int64_t lines = 1;
  for (int i = 0;; i++) {
    Field f;
    if (i == c->columns) {
      (void)wrong_count(c, i + 1);
      return NULL;
    }
    p = take(c, p, i, &lines, &f);
    if (p == NULL || !store(c, i, &f, row)) return NULL;
    if (p < end && *p == c->delimiter) {
      p++;
      continue;
    }
    if (i + 1 == c->columns) break;
    (void)wrong_count(c, i + 1);
    return NULL;
  }
  c->line += lines;
  return p < end ? p + 1 : end;
}

int64_t tli_csv_read(tli_Csv *c, int64_t rows) {
  const char *p = c->data + c->at, *end = c->data + c->bytes;
  int64_t row = 0;
  while (row < rows && p < end) {
    if (skip_empty_line(c, &p, &c->line)) continue;
    p = read_row(c, p, row);
    if (p == NULL) return -1;
    row++;
  }
  while (row == rows && p < end && skip_empty_line(c, &p, &c->line)) continue;
  c->at = p - c->data;
  return row;
}

int64_t tli_csv_fields(const tli_Csv *c) {
  const char *p = c->data + c->at, *end = c->data + c->bytes;
  int64_t lines = c->line, n = 0;
  while (skip_empty_line(c, &p, &lines)) continue;
  if (p >= end) return 0;
  for (;; p++) {
    Field f;
    p = take(c, p, (int)n, &lines, &f);
    if (p == NULL) return -1;
    n++;
    if (p == end || *p != c->delimiter) return n;
  }
}
