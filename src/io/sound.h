/*
** sound.h - reads and writes sound files in memory with the system's libsndfile: FLAC, Ogg Vorbis,
** Opus, MP3 and others. The library is loaded on first use; nothing is linked.
*/
#ifndef TLI_SOUND_H
#define TLI_SOUND_H

#include "core/error.h"

typedef struct tli_Sound {
  int64_t frames; /* number of frames in the whole file */
  int rate, channels;
  int format; /* the format as one of libsndfile's SF_FORMAT_ numbers */
} tli_Sound;

/* Skips `first` frames and reads up to `count` frames, or all remaining frames if `count` is -1.
** Returns samples of shape (*frames, channels), which the caller releases with free(): int32 that
** fill all 32 bits if `whole`, otherwise float. On failure calls tli_fail and returns NULL. */
void *tli_read_sound(const void *data, size_t n, int64_t first, int64_t count, bool whole,
                     tli_Sound *sound, int64_t *frames) TL_MUSTCHECK;

/* Encodes samples of shape (sound->frames, sound->channels), int32 if `whole`, otherwise float.
** `quality`, from 0 to 1, is the quality of Ogg and MP3 files. FLAC files, which lose nothing, are
** compressed more with a lower number. A negative value means the library's default. Returns the
** file's bytes, which the caller releases with free(). On failure calls tli_fail and returns
** NULL. */
void *tli_write_sound(const void *samples, bool whole, const tli_Sound *sound, double quality,
                      size_t *bytes) TL_MUSTCHECK;

#endif
