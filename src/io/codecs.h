/*
** codecs.h - compresses and decompresses with the system's libraries: deflated data (zlib), PNG
** (libpng) and JPEG (libjpeg-turbo). Each library is loaded on first use; nothing is linked.
*/
#ifndef TLI_CODECS_H
#define TLI_CODECS_H

#include "core/error.h"

typedef enum tli_Deflated { TLI_DEFLATE_RAW, TLI_DEFLATE_GZIP } tli_Deflated;

/* Decompresses into a block for free(). `expected` is the exact number of bytes; with `head`, the
** most bytes from the beginning; -1: all. Returns NULL after tli_fail. */
void *tli_inflate(const void *data, size_t n, tli_Deflated kind, int64_t expected, bool head,
                  size_t *bytes) TL_MUSTCHECK;

/* Packs two blocks as one, in raw format, into a block for free(). Returns NULL after tli_fail. */
void *tli_deflate(const void *const data[2], const size_t n[2], size_t *bytes) TL_MUSTCHECK;

/* Continues the CRC-32 checksum of zip files and PNG with further data; `crc` is that of the data
** before (0: none). */
uint32_t tli_crc32(uint32_t crc, const void *data, size_t n);

/* Returns the pixels of a PNG or JPEG file in memory, (height, width, channels), for free().
** Refuses an image of more than `most` pixels. Returns NULL after tli_fail. */
unsigned char *tli_read_image(const void *data, size_t n, int64_t most, int *width, int *height,
                              int *channels) TL_MUSTCHECK;

/* Compresses pixels.
** Returns a JPEG file of (height, width, channels) pixels, with 1 (gray) or 3 (RGB) channels, for
** free(). `quality` is from 1 to 100; colors are sampled 4:2:0, as libjpeg does by default. NULL
** after tli_fail. */
unsigned char *tli_write_jpeg(const unsigned char *pixels, int width, int height, int channels,
                              int quality, size_t *bytes) TL_MUSTCHECK;

#endif
