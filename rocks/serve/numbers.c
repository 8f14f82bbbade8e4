/*
** numbers.c - converts JSON arrays of numbers to the bytes of tensors, and tensors to JSON. The
** bytes are those of the protocol, which is little-endian.
*/
#include "numbers.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Kind {
  K_BOOL,
  K_I8,
  K_I16,
  K_I32,
  K_I64,
  K_U8,
  K_U16,
  K_U32,
  K_U64,
  K_F32,
  K_F64
} Kind;
static const char *const kind_names[] = {"BOOL",   "INT8",   "INT16",  "INT32", "INT64", "UINT8",
                                         "UINT16", "UINT32", "UINT64", "FP32",  "FP64",  NULL};
static const int kind_sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
static const int64_t least[] = {0, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN, 0, 0, 0, 0, 0, 0};
static const uint64_t largest[] = {1,          INT8_MAX,  INT16_MAX,  INT32_MAX,
                                   INT64_MAX,  UINT8_MAX, UINT16_MAX, UINT32_MAX,
                                   UINT64_MAX, 0,         0};

/* Writes the low `width` bytes of a number in the protocol's byte order, which is little-endian. */
static void put_bits(char *out, uint64_t bits, size_t width) {
  for (size_t i = 0; i < width; i++) out[i] = (char)(bits >> 8 * i);
}

/* Reads a little-endian number of `width` bytes. */
static uint64_t get_bits(const char *bytes, size_t width) {
  uint64_t bits = 0;
  for (size_t i = 0; i < width; i++) bits |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
  return bits;
}

static uint64_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of_bits(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

static double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static const char *skip(const char *p) {
  while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
  return p;
}

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Reads a JSON number. Returns the position after it, or NULL if the text is not a valid number. */
static const char *read_real(const char *p, double *out) {
  const char *start = p;
  bool negative = *p == '-';
  if (negative) p++;
  if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) return NULL;
  uint64_t digits = 0;
  int count = 0, exponent = 0;
  for (; *p >= '0' && *p <= '9'; p++, count++)
    digits = count < 18 ? digits * 10 + (*p - '0') : digits;
  if (*p == '.') {
    p++;
    if (*p < '0' || *p > '9') return NULL;
    for (; *p >= '0' && *p <= '9'; p++, count++, exponent--)
      digits = count < 18 ? digits * 10 + (*p - '0') : digits;
  }
  if (*p == 'e' || *p == 'E') {
    p++;
    bool minus = *p == '-';
    if (*p == '+' || *p == '-') p++;
    if (*p < '0' || *p > '9') return NULL;
    int e = 0;
    for (; *p >= '0' && *p <= '9'; p++) e = e < 100000 ? e * 10 + (*p - '0') : e;
    exponent += minus ? -e : e;
  }
  if (count <= 18 && digits <= (UINT64_C(1) << 53) && exponent >= -22 && exponent <= 22) {
    /* both operands are exact, so the value is rounded only once, which is correct */
    double value =
        exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
    *out = negative ? -value : value;
  } else {
    *out = strtod(start, NULL);
  }
  return p;
}

/* Reads an integer, which may also be written as 3.0 or 2e3, and sets *out to its bits. Returns
** the position after it. Returns NULL if there is no integer or if it does not fit `kind`. */
static const char *read_integer(const char *p, Kind kind, uint64_t *out) {
  if (kind == K_BOOL && strncmp(p, "true", 4) == 0) return *out = 1, p + 4;
  if (kind == K_BOOL && strncmp(p, "false", 5) == 0) return *out = 0, p + 5;
  bool negative = *p == '-';
  const char *start = p;
  if (negative) p++;
  if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) return NULL;
  uint64_t value = 0;
  for (; *p >= '0' && *p <= '9'; p++) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
      return NULL;
  }
  if (*p == '.' || *p == 'e' || *p == 'E') {
    double real;
    p = read_real(start, &real);
    if (p == NULL || real != trunc(real) || fabs(real) >= 9007199254740992.0) return NULL;
    value = (uint64_t)fabs(real);
  }
  if (negative ? value > (uint64_t) - (least[kind] + 1) + 1 || least[kind] == 0
               : value > largest[kind])
    if (!(negative && value == 0)) return NULL;
  *out = negative ? (uint64_t)0 - value : value;
  return p;
}

/* numbers(text, position, datatype) reads the JSON array, nested or not, that begins at
** `position`. It returns the numbers as bytes of the datatype, the position after the array, and
** the count of the numbers. If the text is no such array, it returns nil and the position of the
** error. */
static int numbers_read(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  lua_Integer first = luaL_checkinteger(L, 2);
  Kind kind = (Kind)luaL_checkoption(L, 3, NULL, kind_names);
  luaL_argcheck(L, first >= 1 && (size_t)first <= size, 2, "out of range");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  const char *p = text + first - 1;
  int depth = 0;
  lua_Integer count = 0;
  bool value_next = true, just_open = false;
  do {
    p = skip(p);
    if (*p == '[' && value_next && depth < 64) {
      depth++, p++;
      just_open = true;
    } else if (*p == ']' && depth > 0 && (!value_next || just_open)) {
      depth--, p++;
      value_next = just_open = false;
    } else if (*p == ',' && depth > 0 && !value_next) {
      p++;
      value_next = true;
      just_open = false;
    } else if (value_next && depth > 0) {
      const char *after;
      uint64_t bits = 0;
      if (kind == K_F32 || kind == K_F64) {
        double real = 0;
        after = read_real(p, &real);
        float narrow = (float)real;
        if (after && isinf(real)) after = NULL;
        if (after && kind == K_F32 && isinf(narrow)) after = NULL;
        bits = kind == K_F32 ? bits_of_float(narrow) : bits_of_double(real);
      } else {
        after = read_integer(p, kind, &bits);
      }
      if (after == NULL) goto wrong;
      put_bits(luaL_prepbuffsize(&b, 8), bits, (size_t)kind_sizes[kind]);
      luaL_addsize(&b, (size_t)kind_sizes[kind]);
      p = after;
      count++;
      value_next = just_open = false;
    } else {
      goto wrong;
    }
  } while (depth > 0);
  luaL_pushresult(&b);
  lua_pushinteger(L, (lua_Integer)(p - text) + 1);
  lua_pushinteger(L, count);
  return 3;
wrong:
  luaL_pushfail(L);
  lua_pushinteger(L, (lua_Integer)(p - text) + 1);
  return 2;
}

/* skip(text, position) returns the position after the JSON array that begins at `position`. It
** does not check the contents of the array. It returns nil if the array has no end. */
static int numbers_skip(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  lua_Integer first = luaL_checkinteger(L, 2);
  luaL_argcheck(L, first >= 1 && (size_t)first <= size, 2, "out of range");
  int64_t depth = 0;
  bool quoted = false;
  for (size_t i = (size_t)first - 1; i < size; i++) {
    char c = text[i];
    if (quoted) {
      if (c == '\\') i++;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[') {
      depth++;
    } else if (c == ']' && --depth == 0) {
      lua_pushinteger(L, (lua_Integer)i + 2);
      return 1;
    }
  }
  luaL_pushfail(L);
  return 1;
}

/* Writes a float32 whose absolute value is at least 1e-4 and less than 1e6. The result is the same
** as that of write_real, which is slower because it calls printf and strtod. Returns the number of
** characters. */
static int write_float(char *out, float value) {
  double size = fabs((double)value);
  int exponent = -4; /* the decimal exponent of the first digit */
  while (exponent < 5 && size >= (exponent < -1 ? 1 / powers[-exponent - 1] : powers[exponent + 1]))
    exponent++;
  int decimals = 5 - exponent;
  /* The products are exact: 5^12 and the digits of a float32 together have 52 bits. */
  int64_t digits = llrint(size * powers[decimals]);
  if ((float)((double)digits / powers[decimals]) != (float)size) {
    decimals += 3;
    digits = llrint(size * powers[decimals]);
  }
  for (; decimals > 1 && digits % 10 == 0; decimals--) digits /= 10;
  if (decimals == 0) digits *= 10, decimals = 1; /* x.0 */
  char text[24], *p = text + sizeof text;
  for (int i = 0; i < decimals || digits > 0 || i == decimals; i++, digits /= 10) {
    if (i == decimals) *--p = '.';
    *--p = (char)('0' + digits % 10);
  }
  if (value < 0) *--p = '-';
  size_t n = (size_t)(text + sizeof text - p);
  memcpy(out, p, n);
  return (int)n;
}

/* Writes a real number with as many digits as are needed to read back the same value. Returns the
** number of characters, or 0 for NaN and infinity, which JSON lacks. */
static int write_real(char *out, double value, bool narrow) {
  if (!isfinite(value)) return 0;
  if (narrow && fabs(value) >= 1e-4 && fabs(value) < 1e6) return write_float(out, (float)value);
  int n = snprintf(out, 32, narrow ? "%.6g" : "%.15g", value);
  if (narrow ? (float)strtod(out, NULL) != (float)value : strtod(out, NULL) != value)
    n = snprintf(out, 32, narrow ? "%.9g" : "%.17g", value);
  if (strpbrk(out, ".e") == NULL) n += snprintf(out + n, 3, ".0");
  return n;
}

/* list(bytes, datatype) returns the numbers as a JSON array. It returns nil if one of the
** numbers is NaN or infinite. */
static int numbers_write(lua_State *L) {
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  Kind kind = (Kind)luaL_checkoption(L, 2, NULL, kind_names);
  size_t width = (size_t)kind_sizes[kind];
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '[');
  for (size_t i = 0; i + width <= size; i += width) {
    char *out = luaL_prepbuffsize(&b, 40);
    int n = 0;
    if (i > 0) out[n++] = ',';
    int written = 0;
    uint64_t bits = get_bits(bytes + i, width);
    if (kind == K_F32) {
      written = write_real(out + n, (double)float_of_bits(bits), true);
    } else if (kind == K_F64) {
      written = write_real(out + n, double_of_bits(bits), false);
    } else if (kind == K_BOOL) {
      written = snprintf(out + n, 8, bits ? "true" : "false");
    } else if (least[kind] < 0) {
      unsigned unused = 64 - 8 * (unsigned)width;
      written = snprintf(out + n, 32, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    } else {
      written = snprintf(out + n, 32, "%llu", (unsigned long long)bits);
    }
    if (written == 0) {
      luaL_pushfail(L);
      return 1;
    }
    luaL_addsize(&b, (size_t)(n + written));
  }
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  return 1;
}

/* base64(bytes) returns the bytes encoded as base64. */
static int numbers_base64(lua_State *L) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t size;
  const unsigned char *in = (const unsigned char *)luaL_checklstring(L, 1, &size);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < size; i += 3) {
    size_t n = size - i < 3 ? size - i : 3;
    unsigned bits =
        (unsigned)in[i] << 16 | (n > 1 ? (unsigned)in[i + 1] << 8 : 0) | (n > 2 ? in[i + 2] : 0u);
    for (size_t k = 0; k < 4; k++)
      luaL_addchar(&b, k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
  }
  luaL_pushresult(&b);
  return 1;
}

/* bytes(address, n, width) returns n elements of `width` bytes from a tensor's memory as a
** little-endian string. The caller must keep the tensor alive. */
static int numbers_bytes(lua_State *L) {
  const char *address = (const char *)(intptr_t)luaL_checkinteger(L, 1);
  lua_Integer n = luaL_checkinteger(L, 2), width = luaL_checkinteger(L, 3);
  luaL_argcheck(L, n >= 0, 2, "expected at least 0");
  luaL_argcheck(L, width >= 1 && width <= 8, 3, "expected 1 to 8");
  size_t size = (size_t)n * (size_t)width;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, size);
  for (size_t i = 0; i < size; i++) {
    size_t byte = i % (size_t)width;
    out[i] = address[i - byte + (size_t)width - 1 - byte];
  }
  luaL_pushresultsize(&b, size);
#else
  lua_pushlstring(L, size > 0 ? address : "", size);
#endif
  return 1;
}

const luaL_Reg tlua_serve_numbers[] = {{"numbers", numbers_read}, {"list", numbers_write},
                                       {"skip", numbers_skip},    {"base64", numbers_base64},
                                       {"bytes", numbers_bytes},  {NULL, NULL}};
