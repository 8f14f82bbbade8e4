/*
** bytes.c - the part of torch.io that handles a file's bytes as a tensor: mapping a file, viewing
** bytes as elements, and decompressing them. These functions return nil and a message if the data
** are invalid, and raise an error if an argument is wrong.
*/
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/codecs.h"
#include "io/csv.h"
#include "core/kernel/blocks.h"
#include "io/sound.h"
#include "core/platform/folder.h"
#include "core/platform/platform.h"
#include "core/tensor/ledger.h"
#include "lua/list_length.h"
#include "lua/tensor/value.h"
#include "ops/file_order.h"

enum { MOST_PIXELS = 1 << 28, JPEG_SIDE = 65535 };

static int give_up(lua_State *L) {
  lua_pushnil(L);
  lua_pushstring(L, tl_error());
  return 2;
}

/* Returns the contiguous tensor of bytes at index 1. */
static tl_Tensor *check_bytes(lua_State *L, const char *name) {
  tl_Tensor *t = tli_check_tensor(L, 1, name);
  if (t->dtype != TL_U8 || !tli_contiguous(t) || tli_device(t).type != TL_CPU)
    tli_error(L, "%s: expected a contiguous tensor of uint8 on the CPU, got %s", name,
              tli_describe(L, tli_state(L), 1));
  return t;
}

/* Reads a position in a file's bytes at a stack index. Converts the position, which counts from 1
** in Lua, to count from 0. It may be one past the end. */
static int64_t check_first(lua_State *L, int index, const tl_Tensor *t, const char *name) {
  int64_t first;
  if (!tli_to_whole(L, index, &first) || first < 1 || first > t->numel + 1)
    tli_error(L, "%s: first: expected a position from 1 to %lld, got %s", name,
              (long long)t->numel + 1, tli_describe(L, tli_state(L), index));
  return first - 1;
}

static int read_shape(lua_State *L, int index, int64_t *sizes, const char *name) {
  luaL_checktype(L, index, LUA_TTABLE);
  int n = (int)tli_list_length(L, index);
  if (n > TL_MAX_DIMS) tli_error(L, "%s: more than %d dimensions", name, TL_MAX_DIMS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    if (!tli_to_whole(L, -1, &sizes[i]) || sizes[i] < 0)
      tli_error(L, "%s: shape: expected a list of sizes", name);
    lua_pop(L, 1);
  }
  return n;
}

/* Makes a tensor from memory that `release` will free, and puts the tensor into the box on top of
** the stack. */
static int give(lua_State *L, tli_Box *box, void *data, int ndim, const int64_t *sizes,
                void (*release)(void *data, void *context), void *context) {
  tl_Tensor *t = tl_tensor_wrap(data, TL_U8, ndim, sizes, NULL, release, context);
  if (t == NULL) {
    release(data, context);
    return tli_raise(L);
  }
  tli_fill_box(tli_state(L), box, t);
  return 1;
}

static void free_block(void *data, void *context) {
  (void)context;
  free(data);
}

static void unmap(void *data, void *context) { tli_file_unmap(data, (size_t)(uintptr_t)context); }

/* map(path) returns the bytes of the mapped file, or nil and a message. */
static int io_map(lua_State *L) {
  const char *path = tli_to_word(L, 1);
  if (path == NULL)
    return tli_error(L, "io.map: expected a path, got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  tli_Box *box = tli_push_box(L);
  size_t bytes = 0;
  void *data = tli_file_map(path, &bytes);
  if (data == NULL) {
    lua_pushnil(L);
    lua_pushstring(L, strerror(errno));
    return 2;
  }
  int64_t size = (int64_t)bytes;
  return give(L, box, data, 1, &size, unmap, (void *)(uintptr_t)bytes);
}

/* bytes(text) returns the bytes of a string as a uint8 tensor of shape (n). */
static int io_bytes(lua_State *L) {
  if (lua_type(L, 1) != LUA_TSTRING)
    return tli_error(L, "io.bytes: expected a string, got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  tli_Box *box = tli_push_box(L);
  int64_t n = (int64_t)size;
  tl_Tensor *t = tli_empty(TL_U8, TLI_CPU, 1, &n);
  if (t == NULL) return tli_raise(L);
  memcpy(tli_data(t), text, size);
  tli_fill_box(tli_state(L), box, t);
  return 1;
}

/* bytes_as(bytes, first, shape, dtype) returns a tensor, or nil and a message. */
static int io_bytes_as(lua_State *L) {
  int64_t sizes[TL_MAX_DIMS];
  tl_Tensor *bytes = check_bytes(L, "io.bytes_as");
  int64_t first = check_first(L, 2, bytes, "io.bytes_as");
  int ndim = read_shape(L, 3, sizes, "io.bytes_as");
  tl_DType dtype = tli_to_dtype(L, 4);
  if (dtype == TL_NODTYPE)
    return tli_error(L, "io.bytes_as: dtype: expected a dtype such as \"float32\", got %s",
                     tli_describe(L, tli_state(L), 4));
  tli_Box *box = tli_push_box(L);
  /* reads the tensor again, because a finalizer may have released it */
  bytes = check_bytes(L, "io.bytes_as");
  size_t size = tl_dtype_size(dtype);
  int64_t n = tli_numel(ndim, sizes, size);
  if (n < 0 || n > (bytes->numel - first) / (int64_t)size) {
    (void)tli_fail(TL_EIO, "expected %s bytes from byte %lld on, got %lld",
                   n < 0 ? "fewer" : "more", (long long)first + 1,
                   (long long)(bytes->numel - first));
    return give_up(L);
  }
  const char *data = (const char *)tli_data(bytes) + first;
  tl_Tensor *t;
  bool same = dtype != TL_BOOL && (uintptr_t)data % size == 0 &&
              (data - (const char *)bytes->storage->data) % (ptrdiff_t)size == 0 && !TLI_BIG_ENDIAN;
  if (same) {
    int64_t strides[TL_MAX_DIMS];
    tli_row_major(ndim, sizes, strides);
    t = tli_alias_as(bytes, dtype, ndim, sizes, strides,
                     (data - (const char *)bytes->storage->data) / (ptrdiff_t)size);
  } else if ((t = tli_empty(dtype, TLI_CPU, ndim, sizes)) != NULL) {
    char *to = (char *)tli_data(t);
    for (int64_t i = 0; i < n; i++, to += size, data += size) {
      memcpy(to, data, size);
      if (dtype == TL_BOOL) *to = *to != 0;
    }
    tli_swap_for_file(tli_data(t), n, dtype);
  }
  if (t == NULL) return tli_raise(L);
  tli_fill_box(tli_state(L), box, t);
  return 1;
}

/* text(bytes, first, n) returns n bytes, beginning at position `first`, as a string. */
static int io_text(lua_State *L) {
  tl_Tensor *bytes = check_bytes(L, "io.text");
  int64_t n, first = check_first(L, 2, bytes, "io.text");
  if (!tli_to_whole(L, 3, &n) || n < 0 || n > bytes->numel - first)
    return tli_error(L, "io.text: n: expected 0 to %lld bytes, got %s",
                     (long long)(bytes->numel - first), tli_describe(L, tli_state(L), 3));
  lua_pushlstring(L, (const char *)tli_data(bytes) + first, (size_t)n);
  return 1;
}

/* inflate(bytes, kind, expected, head) returns bytes, or nil and a message. The kind is "raw", or
** "gzip" for the formats of gzip and zlib. `expected` is the size of the result; with `head`, only
** that number of bytes is decompressed. Without `expected`, the result may be as large as 256 MB or
** 100 times the input, whichever is more. */
static int io_inflate(lua_State *L) {
  check_bytes(L, "io.inflate");
  const char *kind = tli_to_word(L, 2);
  bool raw = kind && strcmp(kind, "raw") == 0;
  if (!raw && !(kind && strcmp(kind, "gzip") == 0))
    return tli_error(L, "io.inflate: kind: expected \"raw\" or \"gzip\", got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 2) ? 0 : 2));
  int64_t expected = -1;
  if (!lua_isnoneornil(L, 3) && (!tli_to_whole(L, 3, &expected) || expected < 0))
    return tli_error(L, "io.inflate: expected: expected a number of bytes, got %s",
                     tli_describe(L, tli_state(L), 3));
  bool head = lua_toboolean(L, 4);
  tli_Box *box = tli_push_box(L);
  tl_Tensor *bytes = check_bytes(L, "io.inflate");
  size_t n;
  void *block = tli_inflate(tli_data(bytes), (size_t)bytes->numel,
                            raw ? TLI_DEFLATE_RAW : TLI_DEFLATE_GZIP, expected, head, &n);
  if (block == NULL) return give_up(L);
  int64_t size = (int64_t)n;
  return give(L, box, block, 1, &size, free_block, NULL);
}

/* deflate(text, tensor) compresses the bytes of a text followed by those that a tensor has in a
** file. Returns the compressed bytes, or nil and a message. */
static int io_deflate(lua_State *L) {
  const void *data[2];
  size_t n[2], packed;
  lua_settop(L, 2);
  if (lua_type(L, 1) != LUA_TSTRING)
    return tli_error(L, "io.deflate: text: expected a string, got %s",
                     tli_describe(L, tli_state(L), 1));
  data[0] = lua_tolstring(L, 1, &n[0]);
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = tli_check_tensor(L, 2, "io.deflate");
  if (tli_device(t).type != TL_CPU || !tli_contiguous(t))
    return tli_error(L, "io.deflate: expected a contiguous Tensor on the CPU");
  tl_Tensor *stored = tli_in_file_order(t);
  if (stored == NULL) return tli_raise(L);
  data[1] = tli_data(stored);
  n[1] = (size_t)t->numel * tl_dtype_size((tl_DType)t->dtype);
  void *block = tli_deflate(data, n, &packed);
  tli_release(stored);
  if (block == NULL) return give_up(L);
  int64_t size = (int64_t)packed;
  return give(L, box, block, 1, &size, free_block, NULL);
}

/* dequantize(bytes, first, shape, kind) returns a tensor, or nil and a message. */
static int io_dequantize(lua_State *L) {
  int64_t sizes[TL_MAX_DIMS];
  tl_Tensor *bytes = check_bytes(L, "io.dequantize");
  int64_t first = check_first(L, 2, bytes, "io.dequantize");
  int ndim = read_shape(L, 3, sizes, "io.dequantize");
  tli_BlockKind kind = tli_block_kind(luaL_checkstring(L, 4));
  const tli_BlockLayout *q = &tli_block_layouts[kind];
  tli_Box *box = tli_push_box(L);
  bytes = check_bytes(L, "io.dequantize");
  int64_t n = tli_numel(ndim, sizes, sizeof(float));
  bool ok = kind != TLI_BLOCK_COUNT;
  if (!ok) {
    (void)tli_fail(TL_EIO, "the quantization %s is not known", lua_tostring(L, 4));
  } else if (n < 0 || n % q->elements != 0 || n / q->elements > (bytes->numel - first) / q->bytes) {
    ok = tli_fail(TL_EIO, "%lld elements of %s do not fit into %lld bytes", (long long)n, q->name,
                  (long long)(bytes->numel - first));
  }
  if (!ok) return give_up(L);
  tl_Tensor *t = tli_empty(TL_F32, TLI_CPU, ndim, sizes);
  if (t == NULL) return tli_raise(L);
  tli_dequantize(kind, (const uint8_t *)tli_data(bytes) + first, n, tli_data(t));
  tli_fill_box(tli_state(L), box, t);
  return 1;
}

/* decode_image(string or bytes) returns the pixels, (channels, height, width), or nil and a
** message. */
static int io_decode_image(lua_State *L) {
  bool text = lua_type(L, 1) == LUA_TSTRING;
  if (!text && tli_to_box(L, tli_state(L), 1) == NULL)
    return tli_error(L,
                     "io.decode_image: expected a file's bytes as a string or as a tensor of "
                     "uint8, got %s",
                     tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  if (!text) check_bytes(L, "io.decode_image");
  tli_Box *box = tli_push_box(L);
  size_t n;
  const void *data;
  if (text) {
    data = lua_tolstring(L, 1, &n);
  } else {
    tl_Tensor *bytes = check_bytes(L, "io.decode_image");
    data = tli_data(bytes);
    n = (size_t)bytes->numel;
  }
  int width = 0, height = 0, channels = 0;
  unsigned char *pixels = tli_read_image(data, n, MOST_PIXELS, &width, &height, &channels);
  if (pixels == NULL) return give_up(L);
  /* the image library stores the channels of a pixel side by side */
  int64_t sizes[] = {channels, height, width}, strides[] = {1, (int64_t)width * channels, channels};
  tl_Tensor *t = tl_tensor_wrap(pixels, TL_U8, 3, sizes, strides, free_block, NULL);
  if (t == NULL) {
    free(pixels);
    return tli_raise(L);
  }
  /* a one-channel image is used without a copy, so the limit of the state's memory is checked
  ** here */
  bool fits = channels > 1 || tli_ledger_fits(t->numel);
  tl_Tensor *planes = fits ? tli_contiguous_as(t, TL_U8) : NULL;
  tli_release(t);
  if (planes == NULL) return tli_raise(L);
  tli_fill_box(tli_state(L), box, planes);
  return 1;
}

/* _jpeg(pixels, quality) returns the bytes of a JPEG file, or nil and a message. `pixels` is a
** contiguous uint8 tensor, (height, width, channels), with 1 or 3 channels. */
static int io_jpeg(lua_State *L) {
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = check_bytes(L, "io.encode_jpeg");
  int quality = (int)luaL_checkinteger(L, 2);
  if (t->ndim != 3 || t->numel == 0 || (t->sizes[2] != 1 && t->sizes[2] != 3) ||
      t->sizes[0] > JPEG_SIDE || t->sizes[1] > JPEG_SIDE)
    return tli_error(L, "io._jpeg: expected pixels of shape (height, width, 1 or 3), got %s",
                     tli_describe(L, tli_state(L), 1));
  size_t n;
  unsigned char *file = tli_write_jpeg((const unsigned char *)tli_data(t), (int)t->sizes[1],
                                       (int)t->sizes[0], (int)t->sizes[2], quality, &n);
  if (file == NULL) return give_up(L);
  int64_t size = (int64_t)n;
  return give(L, box, file, 1, &size, free_block, NULL);
}

/* _read_sound(bytes, first, count, whole) returns samples of shape (frames, channels), the file's
** frames, its rate and its format, or nil and a message. `first` counts frames from 0; a count of
** -1 means all. */
static int io_read_sound(lua_State *L) {
  int64_t first = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3), frames;
  bool whole = lua_toboolean(L, 4);
  tli_Box *box = tli_push_box(L);
  tl_Tensor *bytes = check_bytes(L, "io._read_sound");
  tli_Sound sound;
  void *block = tli_read_sound(tli_data(bytes), (size_t)bytes->numel, first < 0 ? 0 : first, count,
                               whole, &sound, &frames);
  if (block == NULL) return give_up(L);
  int64_t sizes[] = {frames, sound.channels};
  tl_Tensor *t = tl_tensor_wrap(block, whole ? TL_I32 : TL_F32, 2, sizes, NULL, free_block, NULL);
  if (t == NULL) {
    free(block);
    return tli_raise(L);
  }
  tli_fill_box(tli_state(L), box, t);
  lua_pushinteger(L, sound.frames);
  lua_pushinteger(L, sound.rate);
  lua_pushinteger(L, sound.format);
  return 4;
}

/* _write_sound(samples, rate, format, quality) returns the bytes of a file, or nil and a message.
** `samples` is contiguous, (frames, channels), of float32 or int32. */
static int io_write_sound(lua_State *L) {
  int rate = (int)luaL_checkinteger(L, 2), format = (int)luaL_checkinteger(L, 3);
  double quality = luaL_checknumber(L, 4);
  tli_Box *box = tli_push_box(L);
  tl_Tensor *t = tli_check_tensor(L, 1, "io._write_sound");
  if (tli_device(t).type != TL_CPU || !tli_contiguous(t) || t->ndim != 2 ||
      (t->dtype != TL_F32 && t->dtype != TL_I32) || t->sizes[1] < 1 || t->sizes[1] > 1024)
    return tli_error(L, "io._write_sound: expected samples of shape (frames, channels), got %s",
                     tli_describe(L, tli_state(L), 1));
  tli_Sound sound = {t->sizes[0], rate, (int)t->sizes[1], format};
  size_t n;
  void *file = tli_write_sound(tli_data(t), t->dtype == TL_I32, &sound, quality, &n);
  if (file == NULL) return give_up(L);
  int64_t size = (int64_t)n;
  return give(L, box, file, 1, &size, free_block, NULL);
}

/* Returns the path at stack index 1. */
static const char *check_path(lua_State *L, const char *name) {
  const char *path = tli_to_word(L, 1);
  if (path == NULL)
    tli_error(L, "%s: expected a path, got %s", name,
              tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  return path;
}

/* folder(path) returns the entries of a folder as bytes in the format of tli_folder_list, or nil
** and a message. */
static int io_folder(lua_State *L) {
  const char *path = check_path(L, "io.folder");
  tli_Box *box = tli_push_box(L);
  size_t bytes = 0;
  char *block = tli_folder_list(path, &bytes);
  if (block == NULL) return give_up(L);
  int64_t size = (int64_t)bytes;
  return give(L, box, block, 1, &size, free_block, NULL);
}

static int push_text(lua_State *L) {
  lua_pushstring(L, lua_touserdata(L, 1));
  return 1;
}

/* make_folder(path) returns the absolute path, or nil and a message. */
static int io_make_folder(lua_State *L) {
  char *full = tli_folder_make(check_path(L, "io.make_folder"));
  if (full == NULL) return give_up(L);
  /* calls in protected mode, because the path must be freed if pushing it raises an error */
  lua_pushcfunction(L, push_text);
  lua_pushlightuserdata(L, full);
  int status = lua_pcall(L, 1, 1, 0);
  free(full);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* ---- CSV ---- */

enum { MOST_COLUMNS = 1 << 16 };

/* Returns the only character of the string at a stack index. If `none` is true, the string may also
** be empty. */
static char check_char(lua_State *L, int index, const char *what, bool none) {
  size_t n = 2;
  const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &n) : "";
  if (n > 1 || (n == 0 && !none) || (n == 1 && (*text == '\n' || *text == '\r')))
    tli_error(L, "io.csv: %s: expected one character, got %s", what,
              tli_describe(L, tli_state(L), index));
  return n ? *text : '\0';
}

/* Reads the arguments bytes, first, delimiter and quote, at indices 1 to 4. An alias replaces the
** bytes on the stack, so that finalizers can neither release nor change them. */
static tli_Csv check_csv(lua_State *L) {
  check_bytes(L, "io.csv");
  tli_push_alias(L, 1, "io.csv");
  lua_replace(L, 1);
  const tl_Tensor *bytes = check_bytes(L, "io.csv");
  tli_Csv csv = {.data = (const char *)tli_data(bytes), .bytes = bytes->numel, .line = 1};
  csv.at = check_first(L, 2, bytes, "io.csv");
  csv.delimiter = check_char(L, 3, "delimiter", false);
  csv.quote = check_char(L, 4, "quote", true);
  return csv;
}

/* csv_fields(bytes, first, delimiter, quote) returns the number of fields of the row that begins at
** `first`, 0 at the end, or nil and a message. */
static int io_csv_fields(lua_State *L) {
  tli_Csv csv = check_csv(L);
  int64_t n = tli_csv_fields(&csv);
  if (n < 0) return give_up(L);
  lua_pushinteger(L, n);
  return 1;
}

static int type_of(lua_State *L, int index) {
  const char *name = lua_tostring(L, index);
  if (name && strcmp(name, "string") == 0) return TLI_CSV_TEXT;
  if (name && strcmp(name, "skip") == 0) return TLI_CSV_SKIP;
  tl_DType dtype = tli_to_dtype(L, index);
  if (dtype == TL_NODTYPE)
    tli_error(L, "io.csv: types: expected dtypes, \"string\" or \"skip\", got %s",
              tli_describe(L, tli_state(L), index));
  return (int)dtype;
}

/* Allocates `rows` elements for column i, and stores the column's value in the table at
** `results`. */
static void make_column(lua_State *L, tli_CsvColumn *column, int i, int64_t rows, int results) {
  if (column->type == TLI_CSV_SKIP) {
    lua_pushboolean(L, 0);
  } else if (column->type == TLI_CSV_TEXT) {
    column->data = lua_newuserdatauv(L, (size_t)rows * sizeof(tli_CsvText) + 1, 0);
  } else {
    tli_Box *box = tli_push_box(L);
    tl_Tensor *t = tli_empty((tl_DType)column->type, TLI_CPU, 1, &rows);
    if (t == NULL) {
      tli_raise(L);
      return;
    }
    tli_fill_box(tli_state(L), box, t);
    column->data = tli_data(t);
  }
  lua_rawseti(L, results, i + 1);
}

/* Pushes the text of a quoted field. Two quote characters in the field become one. */
static void push_single(lua_State *L, const char *at, int64_t n, char quote) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int64_t i = 0; i < n; i++) {
    luaL_addchar(&b, at[i]);
    if (at[i] == quote) i++;
  }
  luaL_pushresult(&b);
}

static void push_texts(lua_State *L, const tli_Csv *csv, const tli_CsvText *texts, int64_t rows) {
  lua_createtable(L, (int)rows, 0);
  for (int64_t i = 0; i < rows; i++) {
    const char *at = csv->data + texts[i].first;
    if (texts[i].length < 0)
      push_single(L, at, ~texts[i].length, csv->quote);
    else
      lua_pushlstring(L, at, (size_t)texts[i].length);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Truncates a column to the rows that were read. */
static void finish_column(lua_State *L, const tli_Csv *csv, int i, int64_t rows, int results) {
  const tli_CsvColumn *column = &csv->column[i];
  if (column->type == TLI_CSV_SKIP) return;
  lua_rawgeti(L, results, i + 1);
  if (column->type == TLI_CSV_TEXT) {
    push_texts(L, csv, (const tli_CsvText *)column->data, rows);
    lua_rawseti(L, results, i + 1);
  } else {
    tli_set_geometry(tli_check_tensor(L, -1, "io.csv"), 1, &rows, NULL);
  }
  lua_pop(L, 1);
}

/* csv(bytes, first, delimiter, quote, types, rows, line) returns columns, rows, first, line, or nil
** and a message. Reads up to `rows` rows, beginning at the byte `first`, which is in line `line`.
** `types` has a dtype for each column, which then becomes a 1-d tensor. The type "string" gives a
** list of strings, and "skip" gives false. */
static int io_csv(lua_State *L) {
  tli_Csv csv = check_csv(L);
  int64_t rows;
  luaL_checktype(L, 5, LUA_TTABLE);
  csv.columns = (int)tli_list_length(L, 5);
  if (csv.columns < 1 || csv.columns > MOST_COLUMNS)
    return tli_error(L, "io.csv: types: expected 1 to %d columns", MOST_COLUMNS);
  if (!tli_to_whole(L, 6, &rows) || rows < 1 || !tli_to_whole(L, 7, &csv.line))
    return tli_error(L, "io.csv: rows: expected at least 1, got %s",
                     tli_describe(L, tli_state(L), 6));
  /* the largest number of rows that can follow, since each field takes at least one byte */
  int64_t most = (csv.bytes - csv.at) / csv.columns + 1;
  if (rows > most) rows = most;
  if (rows > INT32_MAX) rows = INT32_MAX;
  lua_settop(L, 7);
  tli_CsvColumn *columns =
      (tli_CsvColumn *)lua_newuserdatauv(L, (size_t)csv.columns * sizeof *columns, 0);
  for (int i = 0; i < csv.columns; i++) {
    lua_rawgeti(L, 5, i + 1);
    columns[i] = (tli_CsvColumn){type_of(L, -1), NULL};
    lua_pop(L, 1);
  }
  csv.column = columns;
  lua_createtable(L, csv.columns, 0);
  int results = lua_gettop(L);
  for (int i = 0; i < csv.columns; i++) make_column(L, &columns[i], i, rows, results);
  int64_t taken = tli_csv_read(&csv, rows);
  if (taken < 0) return give_up(L);
  for (int i = 0; i < csv.columns; i++) finish_column(L, &csv, i, taken, results);
  lua_settop(L, results);
  lua_pushinteger(L, taken);
  lua_pushinteger(L, csv.at + 1);
  lua_pushinteger(L, csv.line);
  return 4;
}

const luaL_Reg tli_bytes_functions[] = {{"map", io_map},
                                        {"bytes", io_bytes},
                                        {"bytes_as", io_bytes_as},
                                        {"text", io_text},
                                        {"inflate", io_inflate},
                                        {"deflate", io_deflate},
                                        {"dequantize", io_dequantize},
                                        {"decode_image", io_decode_image},
                                        {"_jpeg", io_jpeg},
                                        {"_read_sound", io_read_sound},
                                        {"_write_sound", io_write_sound},
                                        {"folder", io_folder},
                                        {"make_folder", io_make_folder},
                                        {"csv", io_csv},
                                        {"csv_fields", io_csv_fields},
                                        {NULL, NULL}};
