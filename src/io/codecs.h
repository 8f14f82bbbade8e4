/*
** codecs.h - what the system's libraries pack and unpack for us: deflated data (zlib), PNG (libpng)
** and JPEG (libjpeg-turbo). Each is looked for when it is first needed; nothing is linked.
*/
#ifndef TLI_CODECS_H
#define TLI_CODECS_H

#include "core/error.h"

typedef enum tli_Deflated { TLI_DEFLATE_RAW, TLI_DEFLATE_GZIP } tli_Deflated;

/* Unpacks to a block for free(). `expected`: exactly that many bytes, or, of a head, at most
** that many from the begin; -1: as many as there are. NULL after tli_fail. */
void *tli_inflate(const void *data, size_t n, tli_Deflated kind, int64_t expected, bool head,
                  size_t *bytes) TL_MUSTCHECK;

/* Packs two blocks as one, raw, to a block for free(). NULL after tli_fail. */
void *tli_deflate(const void *const data[2], const size_t n[2], size_t *bytes) TL_MUSTCHECK;

/* The checksum of zip files and PNG, of data that follow those which gave `crc` (0: none). */
uint32_t tli_crc32(uint32_t crc, const void *data, size_t n);

/* The pixels of a PNG or JPEG file in memory, (height, width, channels), for free(). At most
** that many pixels. NULL after tli_fail. */
unsigned char *tli_read_image(const void *data, size_t n, int64_t most, int *width, int *height,
                              int *channels) TL_MUSTCHECK;

#endif
