/*
** codecs.c - implements codecs.h. This file itself declares the structs of each library's stable
** binary interface, so a build needs no header of these libraries.
*/
#include "io/codecs.h"

#include <stdlib.h>
#include <string.h>

#include "core/platform/optional.h"
#include "core/platform/platform.h"

static bool find(void *library, const char *name, void *function) {
  void *symbol = library ? tli_library_symbol(library, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* ---- zlib ---- */

typedef struct Stream { /* z_stream */
  const unsigned char *next_in;
  unsigned avail_in;
  unsigned long total_in;
  unsigned char *next_out;
  unsigned avail_out;
  unsigned long total_out;
  const char *message;
  void *state, *get, *put, *user;
  int data_type;
  unsigned long check, reserved;
} Stream;

static struct {
  tli_Once once;
  bool there;
  int (*begin)(Stream *, int bits, const char *version, int size);
  int (*run)(Stream *, int flush);
  int (*end)(Stream *);
  bool packs; /* whether the library also has functions that compress */
  int (*pack_begin)(Stream *, int level, int method, int bits, int memory, int strategy,
                    const char *version, int size);
  int (*pack)(Stream *, int flush);
  int (*pack_end)(Stream *);
} zlib = {.once = TLI_ONCE_INIT};

static void open_zlib(void) {
  void *library = tli_optional_open(TLI_OPTIONAL_ZLIB, NULL);
  zlib.there = find(library, "inflateInit2_", &zlib.begin) && find(library, "inflate", &zlib.run) &&
               find(library, "inflateEnd", &zlib.end);
  zlib.packs = find(library, "deflateInit2_", &zlib.pack_begin) &&
               find(library, "deflate", &zlib.pack) && find(library, "deflateEnd", &zlib.pack_end);
}

enum { STREAM_END = 1, BUFFER_ERROR = -5, PIECE = 1 << 30 };

/* If the caller does not know the size, n compressed bytes may decompress to at most n * MOST_TIMES
** bytes. Deflate can compress data to a thousandth of their size, but real data rarely shrink to
** less than a twentieth. Results of up to ALWAYS_FINE bytes are never refused. */
enum { MOST_TIMES = 100, ALWAYS_FINE = 1 << 28 };

/* Enlarges the output buffer *block when its *room bytes are full. n is the size of the compressed
** input, which limits the size of the output. */
static bool grow(unsigned char **block, size_t *room, size_t n) {
  size_t more = *room * 2, most = n > ALWAYS_FINE / MOST_TIMES ? n * MOST_TIMES : ALWAYS_FINE;
  if (*room >= most)
    return tli_fail(TL_EIO,
                    "the deflated data, of %zu bytes, become more than %zu; unpack them before if "
                    "that is meant",
                    n, most);
  if (more > most) more = most;
  unsigned char *grown = (unsigned char *)realloc(*block, more);
  if (grown == NULL) return tli_fail(TL_EMEM, "out of memory for %zu unpacked bytes", more);
  *block = grown;
  *room = more;
  return true;
}

static bool begin(Stream *s, tli_Deflated kind) {
  memset(s, 0, sizeof *s);
  /* zlib's number of window bits, 15; negative for raw data, plus 32 to recognize gzip and zlib by
  ** the header */
  int bits = kind == TLI_DEFLATE_RAW ? -15 : 47;
  return zlib.begin(s, bits, "1.2.0", (int)sizeof *s) == 0 ||
         tli_fail(TL_EIO, "zlib cannot be initialized");
}

/* Returns whether another member of a gzip file follows. A gzip file may consist of several
** compressed members (RFC 1952, 2.2). */
static bool has_member(tli_Deflated kind, const unsigned char *data, size_t n) {
  return kind == TLI_DEFLATE_GZIP && n >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

static bool run(Stream *s, const unsigned char *data, size_t n, tli_Deflated kind, bool exact,
                bool head, unsigned char **block, size_t *room, size_t *bytes) {
  size_t taken = 0, made = 0;
  for (int status = 0; status != STREAM_END && !(head && made == *room);) {
    if (made == *room && !exact && !grow(block, room, n)) return false;
    size_t in = n - taken < PIECE ? n - taken : PIECE;
    size_t out = *room - made < PIECE ? *room - made : PIECE;
    s->next_in = data + taken;
    s->avail_in = (unsigned)in;
    s->next_out = *block + made;
    s->avail_out = (unsigned)out;
    status = zlib.run(s, 0);
    size_t in_now = in - s->avail_in, out_now = out - s->avail_out;
    taken += in_now;
    made += out_now;
    if (status < 0 && !(status == BUFFER_ERROR && in_now + out_now > 0))
      return tli_fail(TL_EIO, "the deflated data are damaged%s%s", s->message ? ": " : "",
                      s->message ? s->message : "");
    /* without progress, the data have ended too early, or zlib waits for a preset dictionary */
    if (status != STREAM_END && in_now + out_now == 0)
      return tli_fail(TL_EIO, "the deflated data end too early or are too many");
    if (status == STREAM_END && has_member(kind, data + taken, n - taken)) {
      zlib.end(s);
      TL_TRY(begin(s, kind));
      status = 0;
    }
  }
  if (exact && !head && made != *room)
    return tli_fail(TL_EIO, "expected %zu unpacked bytes, got %zu", *room, made);
  *bytes = made;
  return true;
}

void *tli_inflate(const void *data, size_t n, tli_Deflated kind, int64_t expected, bool head,
                  size_t *bytes) {
  tli_once(&zlib.once, open_zlib);
  if (!zlib.there)
    return tli_fail_null(TL_EIO, "needs zlib, which was not found; see `tlua doctor`");
  /* refuses impossible sizes, because deflate compresses data to no less than 1/1032 of their
  ** size */
  if (!head && expected > (int64_t)n * 1032 + 64)
    return tli_fail_null(TL_EIO, "%lld bytes cannot come out of %zu deflated ones",
                         (long long)expected, n);
  size_t room = expected >= 0 ? (size_t)expected : n * 3 + 64;
  unsigned char *block = (unsigned char *)malloc(room ? room : 1);
  if (block == NULL) return tli_fail_null(TL_EMEM, "out of memory for %zu unpacked bytes", room);
  Stream s;
  bool ok = begin(&s, kind);
  if (ok) {
    ok = run(&s, (const unsigned char *)data, n, kind, expected >= 0, head, &block, &room, bytes);
    zlib.end(&s);
  }
  if (ok) return block;
  free(block);
  return NULL;
}

enum { LEVEL = 6, DEFLATED = 8, FINISH = 4 };

/* Compresses n bytes and appends the result to the first *made bytes of `block`. If `last` is true,
** ends the stream. */
static bool pack(Stream *s, const unsigned char *data, size_t n, bool last, unsigned char *block,
                 size_t room, size_t *made) {
  int status = 0;
  for (size_t taken = 0; taken < n || (last && status != STREAM_END);) {
    size_t in = n - taken < PIECE ? n - taken : PIECE;
    size_t out = room - *made < PIECE ? room - *made : PIECE;
    s->next_in = data + taken;
    s->avail_in = (unsigned)in;
    s->next_out = block + *made;
    s->avail_out = (unsigned)out;
    status = zlib.pack(s, last && taken + in == n ? FINISH : 0);
    taken += in - s->avail_in;
    *made += out - s->avail_out;
    if (status < 0) return tli_fail(TL_EIO, "zlib cannot pack the data");
  }
  return true;
}

void *tli_deflate(const void *const data[2], const size_t n[2], size_t *bytes) {
  tli_once(&zlib.once, open_zlib);
  if (!zlib.packs)
    return tli_fail_null(TL_EIO, "needs zlib, which was not found; see `tlua doctor`");
  /* an upper bound of the compressed size */
  size_t all = n[0] + n[1], room = all + (all >> 12) + (all >> 14) + 128;
  unsigned char *block = (unsigned char *)malloc(room);
  if (block == NULL) return tli_fail_null(TL_EMEM, "out of memory for %zu packed bytes", room);
  Stream s;
  memset(&s, 0, sizeof s);
  bool ok = zlib.pack_begin(&s, LEVEL, DEFLATED, -15, 8, 0, "1.2.0", (int)sizeof s) == 0;
  if (!ok) (void)tli_fail(TL_EIO, "zlib cannot be initialized");
  *bytes = 0;
  if (ok) {
    for (int k = 0; k < 2 && ok; k++)
      ok = pack(&s, (const unsigned char *)data[k], n[k], k == 1, block, room, bytes);
    zlib.pack_end(&s);
  }
  if (ok) return block;
  free(block);
  return NULL;
}

/* ---- checksums ---- */

/* crc_table[k][b] is the change of the checksum by a byte b that is followed by k zero bytes. */
static uint32_t crc_table[4][256];
static tli_Once crc_once = TLI_ONCE_INIT;

static void make_crc_table(void) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t c = b;
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
    crc_table[0][b] = c;
  }
  for (int k = 1; k < 4; k++)
    for (int b = 0; b < 256; b++) {
      uint32_t c = crc_table[k - 1][b];
      crc_table[k][b] = crc_table[0][c & 255] ^ c >> 8;
    }
}

uint32_t tli_crc32(uint32_t crc, const void *data, size_t n) {
  const unsigned char *p = (const unsigned char *)data;
  tli_once(&crc_once, make_crc_table);
  crc = ~crc;
  for (; n >= 4; n -= 4, p += 4) {
    crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    crc = crc_table[3][crc & 255] ^ crc_table[2][crc >> 8 & 255] ^ crc_table[1][crc >> 16 & 255] ^
          crc_table[0][crc >> 24];
  }
  for (; n > 0; n--) crc = crc_table[0][(crc ^ *p++) & 255] ^ crc >> 8;
  return ~crc;
}

/* ---- PNG: libpng's simplified interface ---- */

typedef struct Png { /* libpng's struct png_image */
  void *opaque;
  uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
  char message[64];
} Png;

enum { PNG_ALPHA = 1, PNG_COLOR = 2 };

static struct {
  tli_Once once;
  bool there;
  int (*begin)(Png *, const void *, size_t);
  int (*finish)(Png *, const void *background, void *buffer, int32_t stride, void *colormap);
  void (*end)(Png *);
} png = {.once = TLI_ONCE_INIT};

static void open_png(void) {
  void *library = tli_optional_open(TLI_OPTIONAL_PNG, NULL);
  png.there = find(library, "png_image_begin_read_from_memory", &png.begin) &&
              find(library, "png_image_finish_read", &png.finish) &&
              find(library, "png_image_free", &png.end);
}

static bool fits(int64_t width, int64_t height, int64_t most) {
  if (width > 0 && height > 0 && width <= most / height) return true;
  return tli_fail(TL_EIO, "an image of %lld x %lld pixels; expected at most %lld in all",
                  (long long)width, (long long)height, (long long)most);
}

static unsigned char *read_png(const void *data, size_t n, int64_t most, int *width, int *height,
                               int *channels) {
  tli_once(&png.once, open_png);
  if (!png.there)
    return tli_fail_null(TL_EIO, "a PNG file needs libpng, which was not found; see `tlua doctor`");
  Png image;
  memset(&image, 0, sizeof image);
  image.version = 1;
  if (!png.begin(&image, data, n)) return tli_fail_null(TL_EIO, "PNG: %s", image.message);
  unsigned char *pixels = NULL;
  if (fits(image.width, image.height, most)) {
    /* converts the image to 8 bits per channel, without a palette */
    image.format &= PNG_ALPHA | PNG_COLOR;
    *channels = 1 + (image.format & PNG_COLOR ? 2 : 0) + (image.format & PNG_ALPHA ? 1 : 0);
    *width = (int)image.width;
    *height = (int)image.height;
    pixels = (unsigned char *)malloc((size_t)*width * (size_t)*height * (size_t)*channels);
    if (pixels == NULL) {
      (void)tli_fail(TL_EMEM, "out of memory for an image");
    } else if (!png.finish(&image, NULL, pixels, 0, NULL)) {
      (void)tli_fail(TL_EIO, "PNG: %s", image.message);
      free(pixels);
      pixels = NULL;
    }
  }
  png.end(&image);
  return pixels;
}

/* ---- JPEG: the TurboJPEG interface ---- */

static struct {
  tli_Once once;
  bool there;
  void *(*begin)(void);
  int (*header)(void *, const unsigned char *, unsigned long, int *, int *, int *, int *);
  int (*run)(void *, const unsigned char *, unsigned long, unsigned char *, int, int, int, int,
             int);
  int (*end)(void *);
  char *(*error)(void *);
  bool writes; /* whether the library also has functions that compress */
  void *(*write_begin)(void);
  int (*write)(void *, const unsigned char *, int width, int pitch, int height, int format,
               unsigned char **out, unsigned long *size, int sampling, int quality, int flags);
  void (*free)(unsigned char *);
} jpeg = {.once = TLI_ONCE_INIT};

static void open_jpeg(void) {
  void *library = tli_optional_open(TLI_OPTIONAL_JPEG, NULL);
  jpeg.there = find(library, "tjInitDecompress", &jpeg.begin) &&
               find(library, "tjDecompressHeader3", &jpeg.header) &&
               find(library, "tjDecompress2", &jpeg.run) && find(library, "tjDestroy", &jpeg.end) &&
               find(library, "tjGetErrorStr2", &jpeg.error);
  jpeg.writes = jpeg.there && find(library, "tjInitCompress", &jpeg.write_begin) &&
                find(library, "tjCompress2", &jpeg.write) && find(library, "tjFree", &jpeg.free);
}

enum { TJ_RGB = 0, TJ_GRAY = 6, TJ_COLORSPACE_GRAY = 2, TJ_ACCURATE = 4096 };
enum { TJ_SAMPLE_420 = 2, TJ_SAMPLE_GRAY = 3 };

static unsigned char *read_jpeg(const void *data, size_t n, int64_t most, int *width, int *height,
                                int *channels) {
  tli_once(&jpeg.once, open_jpeg);
  if (!jpeg.there)
    return tli_fail_null(TL_EIO,
                         "a JPEG file needs libturbojpeg, which was not found; see `tlua doctor`");
  void *handle = jpeg.begin();
  if (handle == NULL) return tli_fail_null(TL_EMEM, "JPEG: the library cannot be initialized");
  int sampling, colors;
  unsigned char *pixels = NULL;
  const unsigned char *bytes = (const unsigned char *)data;
  bool ok = jpeg.header(handle, bytes, (unsigned long)n, width, height, &sampling, &colors) == 0;
  if (!ok) (void)tli_fail(TL_EIO, "JPEG: %s", jpeg.error(handle));
  if (ok && fits(*width, *height, most)) {
    bool gray = colors == TJ_COLORSPACE_GRAY;
    *channels = gray ? 1 : 3;
    pixels = (unsigned char *)malloc((size_t)*width * (size_t)*height * (size_t)*channels);
    if (pixels == NULL) {
      (void)tli_fail(TL_EMEM, "out of memory for an image");
    } else if (jpeg.run(handle, bytes, (unsigned long)n, pixels, *width, 0, *height,
                        gray ? TJ_GRAY : TJ_RGB, TJ_ACCURATE) != 0) {
      (void)tli_fail(TL_EIO, "JPEG: %s", jpeg.error(handle));
      free(pixels);
      pixels = NULL;
    }
  }
  jpeg.end(handle);
  return pixels;
}

unsigned char *tli_write_jpeg(const unsigned char *pixels, int width, int height, int channels,
                              int quality, size_t *bytes) {
  tli_once(&jpeg.once, open_jpeg);
  if (!jpeg.writes)
    return tli_fail_null(TL_EIO,
                         "a JPEG file needs libturbojpeg, which was not found; see `tlua doctor`");
  void *handle = jpeg.write_begin();
  if (handle == NULL) return tli_fail_null(TL_EMEM, "JPEG: the library cannot be initialized");
  bool gray = channels == 1;
  /* `made` is the file in a block of libjpeg-turbo, and `file` a copy that the caller can release
  ** with free() */
  unsigned char *made = NULL, *file = NULL;
  unsigned long size = 0;
  if (jpeg.write(handle, pixels, width, 0, height, gray ? TJ_GRAY : TJ_RGB, &made, &size,
                 gray ? TJ_SAMPLE_GRAY : TJ_SAMPLE_420, quality, TJ_ACCURATE) != 0) {
    (void)tli_fail(TL_EIO, "JPEG: %s", jpeg.error(handle));
  } else if ((file = (unsigned char *)malloc(size)) == NULL) {
    (void)tli_fail(TL_EMEM, "out of memory for an image");
  } else {
    memcpy(file, made, size);
    *bytes = size;
  }
  jpeg.free(made);
  jpeg.end(handle);
  return file;
}

/* ---- WebP ---- */

typedef struct WebpFeatures { /* WebPBitstreamFeatures */
  int width, height, has_alpha, has_animation, format;
  uint32_t reserved[8];
} WebpFeatures;

enum { WEBP_VERSION = 0x0200 }; /* libwebp compares only the first byte, the major version */

typedef unsigned char *WebpRun(const unsigned char *, size_t, unsigned char *out, size_t size,
                               int pitch);

static struct {
  tli_Once once;
  bool there;
  int (*features)(const unsigned char *, size_t, WebpFeatures *, int version);
  WebpRun *rgb, *rgba;
} webp = {.once = TLI_ONCE_INIT};

static void open_webp(void) {
  void *library = tli_optional_open(TLI_OPTIONAL_WEBP, NULL);
  webp.there = find(library, "WebPGetFeaturesInternal", &webp.features) &&
               find(library, "WebPDecodeRGBInto", &webp.rgb) &&
               find(library, "WebPDecodeRGBAInto", &webp.rgba);
}

static unsigned char *read_webp(const void *data, size_t n, int64_t most, int *width, int *height,
                                int *channels) {
  tli_once(&webp.once, open_webp);
  if (!webp.there)
    return tli_fail_null(TL_EIO,
                         "a WebP file needs libwebp, which was not found; see `tlua doctor`");
  WebpFeatures f = {0};
  const unsigned char *bytes = (const unsigned char *)data;
  if (webp.features(bytes, n, &f, WEBP_VERSION) != 0)
    return tli_fail_null(TL_EIO, "WebP: the header is damaged");
  if (f.has_animation)
    return tli_fail_null(TL_EIO, "WebP: expected a file of one image, got an animation");
  TL_TRY_NULL(fits(f.width, f.height, most));
  *channels = f.has_alpha ? 4 : 3;
  *width = f.width;
  *height = f.height;
  size_t pitch = (size_t)f.width * (size_t)*channels, size = pitch * (size_t)f.height;
  unsigned char *pixels = (unsigned char *)malloc(size);
  if (pixels == NULL) return tli_fail_null(TL_EMEM, "out of memory for an image");
  WebpRun *decode = f.has_alpha ? webp.rgba : webp.rgb;
  if (decode(bytes, n, pixels, size, (int)pitch) != NULL) return pixels;
  free(pixels);
  return tli_fail_null(TL_EIO, "WebP: the file is damaged");
}

unsigned char *tli_read_image(const void *data, size_t n, int64_t most, int *width, int *height,
                              int *channels) {
  static const unsigned char png_begin[] = {0x89, 'P', 'N', 'G'}, jpeg_begin[] = {0xff, 0xd8, 0xff};
  if (n >= 4 && memcmp(data, png_begin, 4) == 0)
    return read_png(data, n, most, width, height, channels);
  if (n >= 3 && memcmp(data, jpeg_begin, 3) == 0)
    return read_jpeg(data, n, most, width, height, channels);
  if (n >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp((const char *)data + 8, "WEBP", 4) == 0)
    return read_webp(data, n, most, width, height, channels);
  return tli_fail_null(TL_EIO, "neither a PNG, a JPEG nor a WebP file");
}
