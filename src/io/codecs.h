/*
** codecs.h - compresses and decompresses with the system's libraries: deflated data (zlib), PNG
** (libpng), JPEG (libjpeg-turbo) and WebP (libwebp). Each library is loaded on first use; nothing
** is linked.
*/
#ifndef TLI_CODECS_H
#define TLI_CODECS_H

#include "core/error.h"

/* The format of compressed data: raw deflate data, or deflate data with the header and checksum of
** gzip or zlib. */
typedef enum tli_Deflated { TLI_DEFLATE_RAW, TLI_DEFLATE_GZIP } tli_Deflated;

/* Decompresses into a new block, which the caller releases with free(). The result must have
** exactly `expected` bytes, unless `expected` is -1, which means that the size is unknown. If
** `head` is true, at most the first `expected` bytes are decompressed, and there may be fewer. On
** failure calls tli_fail and returns NULL. */
void *tli_inflate(const void *data, size_t n, tli_Deflated kind, int64_t expected, bool head,
                  size_t *bytes) TL_MUSTCHECK;

/* Compresses data[0] followed by data[1] into one stream of raw deflate data. The caller releases
** the result with free(). On failure calls tli_fail and returns NULL. */
void *tli_deflate(const void *const data[2], const size_t n[2], size_t *bytes) TL_MUSTCHECK;

/* Updates a CRC-32 checksum, as in zip and PNG files, with further data. `crc` is the checksum of
** the preceding data, or 0 if there are none. */
uint32_t tli_crc32(uint32_t crc, const void *data, size_t n);

/* Decodes a PNG, JPEG or WebP file in memory. Returns pixels of shape (height, width, channels),
** which the caller releases with free(). An image of more than `most` pixels is refused. On failure
** calls tli_fail and returns NULL. */
unsigned char *tli_read_image(const void *data, size_t n, int64_t most, int *width, int *height,
                              int *channels) TL_MUSTCHECK;

/* Encodes pixels of shape (height, width, channels), with 1 (gray) or 3 (RGB) channels, as a JPEG
** file in memory, which the caller releases with free(). `quality` is from 1 to 100; colors are
** sampled 4:2:0, as libjpeg does by default. On failure calls tli_fail and returns NULL. */
unsigned char *tli_write_jpeg(const unsigned char *pixels, int width, int height, int channels,
                              int quality, size_t *bytes) TL_MUSTCHECK;

#endif
