/*
** sound.c - implements sound.h. This file itself declares the structs of libsndfile's stable binary
** interface, so a build needs no header of libsndfile.
*/
#include "io/sound.h"

#include <stdlib.h>
#include <string.h>

#include "core/platform/optional.h"
#include "core/platform/platform.h"

typedef struct Info { /* SF_INFO */
  int64_t frames;
  int samplerate, channels, format, sections, seekable;
} Info;

typedef struct Virtual { /* SF_VIRTUAL_IO */
  int64_t (*length)(void *user);
  int64_t (*seek)(int64_t offset, int whence, void *user);
  int64_t (*read)(void *to, int64_t n, void *user);
  int64_t (*write)(const void *from, int64_t n, void *user);
  int64_t (*tell)(void *user);
} Virtual;

enum { MODE_READ = 0x10, MODE_WRITE = 0x20 };
enum { COMMAND_CLIP = 0x10C0, COMMAND_QUALITY = 0x1300, COMMAND_LEVEL = 0x1301 };

static struct {
  tli_Once once;
  bool there;
  void *(*open)(Virtual *, int mode, Info *, void *user);
  int (*close)(void *);
  int64_t (*seek)(void *, int64_t frames, int whence);
  int64_t (*read_floats)(void *, float *, int64_t frames);
  int64_t (*read_ints)(void *, int *, int64_t frames);
  int64_t (*write_floats)(void *, const float *, int64_t frames);
  int64_t (*write_ints)(void *, const int *, int64_t frames);
  int (*command)(void *, int command, void *data, int size);
  const char *(*error)(void *);
} sf = {.once = TLI_ONCE_INIT};

static bool find(void *library, const char *name, void *function) {
  void *symbol = library ? tli_library_symbol(library, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void open_library(void) {
  void *library = tli_optional_open(TLI_OPTIONAL_SNDFILE, NULL);
  sf.there = find(library, "sf_open_virtual", &sf.open) && find(library, "sf_close", &sf.close) &&
             find(library, "sf_seek", &sf.seek) && find(library, "sf_command", &sf.command) &&
             find(library, "sf_readf_float", &sf.read_floats) &&
             find(library, "sf_readf_int", &sf.read_ints) &&
             find(library, "sf_writef_float", &sf.write_floats) &&
             find(library, "sf_writef_int", &sf.write_ints) &&
             find(library, "sf_strerror", &sf.error);
}

static bool is_there(void) {
  tli_once(&sf.once, open_library);
  return sf.there || tli_fail(TL_EIO, "needs libsndfile, which was not found; see `tlua doctor`");
}

/* A file in memory. A file for writing owns its block, which has `room` bytes. */
typedef struct Memory {
  unsigned char *data;
  int64_t size, at, room;
} Memory;

static int64_t memory_length(void *user) { return ((Memory *)user)->size; }
static int64_t memory_tell(void *user) { return ((Memory *)user)->at; }

static int64_t memory_seek(int64_t offset, int whence, void *user) {
  Memory *m = (Memory *)user;
  int64_t from = whence == 0 ? 0 : whence == 1 ? m->at : m->size;
  if (offset < -from || offset > INT64_MAX / 2 - from) return -1;
  return m->at = from + offset;
}

static int64_t memory_read(void *to, int64_t n, void *user) {
  Memory *m = (Memory *)user;
  int64_t left = m->at < m->size ? m->size - m->at : 0;
  if (n > left) n = left;
  if (n <= 0) return 0;
  memcpy(to, m->data + m->at, (size_t)n);
  m->at += n;
  return n;
}

static int64_t memory_write(const void *from, int64_t n, void *user) {
  Memory *m = (Memory *)user;
  if (n <= 0) return 0;
  if (m->at + n > m->room) {
    int64_t room = m->at + n + m->room + 4096;
    unsigned char *grown = (unsigned char *)realloc(m->data, (size_t)room);
    if (grown == NULL) return 0;
    memset(grown + m->room, 0, (size_t)(room - m->room));
    m->data = grown;
    m->room = room;
  }
  memcpy(m->data + m->at, from, (size_t)n);
  m->at += n;
  if (m->at > m->size) m->size = m->at;
  return n;
}

static Virtual memory_file = {memory_length, memory_seek, memory_read, memory_write, memory_tell};

enum { MOST_CHANNELS = 1024 };

/* Returns the number of frames to read, or -1 with a message if the arguments do not fit the
** file. */
static int64_t frames_to_read(const Info *info, int64_t first, int64_t count) {
  if (info->channels < 1 || info->channels > MOST_CHANNELS || info->frames < 0 ||
      info->samplerate < 1) {
    (void)tli_fail(TL_EIO, "%lld frames of %d channels at a rate of %d; the file is damaged",
                   (long long)info->frames, info->channels, info->samplerate);
    return -1;
  }
  int64_t left = first < info->frames ? info->frames - first : 0;
  int64_t n = count >= 0 && count < left ? count : left;
  if (n <= INT64_MAX / 8 / info->channels) return n;
  (void)tli_fail(TL_EIO, "%lld frames; the file is damaged", (long long)n);
  return -1;
}

/* Reads n frames in pieces. So if a damaged header gives too many frames, no memory is allocated
** for samples that the file lacks. */
static void *read_frames(void *file, int64_t n, int channels, bool whole, int64_t *frames) {
  const int64_t piece = 1 << 20;
  int64_t room = n < piece ? n : piece, got = 0;
  char *block = NULL;
  size_t frame = 4 * (size_t)channels;
  for (;;) {
    char *grown = (char *)realloc(block, (size_t)room * frame + 1);
    if (grown == NULL) {
      free(block);
      return tli_fail_null(TL_EMEM, "out of memory for %lld frames", (long long)room);
    }
    block = grown;
    char *to = block + (size_t)got * frame;
    int64_t now = whole ? sf.read_ints(file, (int *)to, room - got)
                        : sf.read_floats(file, (void *)to, room - got);
    if (now > 0) got += now;
    if (got < room || room == n) break;
    room = n < 2 * room ? n : 2 * room;
  }
  *frames = got;
  return block;
}

void *tli_read_sound(const void *data, size_t n, int64_t first, int64_t count, bool whole,
                     tli_Sound *sound, int64_t *frames) {
  if (!is_there()) return NULL;
  /* the cast drops const; libsndfile only reads this memory */
  Memory memory = {(unsigned char *)data, (int64_t)n, 0, 0};
  Info info;
  memset(&info, 0, sizeof info);
  void *file = sf.open(&memory_file, MODE_READ, &info, &memory);
  if (file == NULL) return tli_fail_null(TL_EIO, "libsndfile: %s", sf.error(NULL));
  *sound = (tli_Sound){info.frames, info.samplerate, info.channels, info.format};
  void *block = NULL;
  int64_t wanted = frames_to_read(&info, first, count);
  if (wanted > 0 && first > 0 && sf.seek(file, first, 0) != first)
    (void)tli_fail(TL_EIO, "libsndfile: frame %lld cannot be found", (long long)first);
  else if (wanted >= 0)
    block = read_frames(file, wanted, info.channels, whole, frames);
  sf.close(file);
  return block;
}

void *tli_write_sound(const void *samples, bool whole, const tli_Sound *sound, double quality,
                      size_t *bytes) {
  if (!is_there()) return NULL;
  Memory memory = {NULL, 0, 0, 0};
  Info info;
  memset(&info, 0, sizeof info);
  info.samplerate = sound->rate;
  info.channels = sound->channels;
  info.format = sound->format;
  void *file = sf.open(&memory_file, MODE_WRITE, &info, &memory);
  if (file == NULL) {
    free(memory.data);
    return tli_fail_null(TL_EIO, "libsndfile: %s", sf.error(NULL));
  }
  sf.command(file, COMMAND_CLIP, NULL, 1);
  if (quality >= 0) {
    double level = 1 - quality;
    sf.command(file, COMMAND_QUALITY, &quality, (int)sizeof quality);
    sf.command(file, COMMAND_LEVEL, &level, (int)sizeof level);
  }
  /* writes in pieces, since the stack of Vorbis's encoder grows with the number of frames */
  const int64_t piece = 1 << 12;
  int64_t put = 0;
  for (bool ok = true; ok && put < sound->frames;) {
    int64_t now = sound->frames - put < piece ? sound->frames - put : piece;
    const char *from = (const char *)samples + (size_t)put * (size_t)sound->channels * 4;
    ok = (whole ? sf.write_ints(file, (const int *)from, now)
                : sf.write_floats(file, (const void *)from, now)) == now;
    if (ok) put += now;
  }
  bool ok = put == sound->frames || tli_fail(TL_EIO, "libsndfile: %s", sf.error(file));
  sf.close(file);
  if (ok && memory.data != NULL) {
    *bytes = (size_t)memory.size;
    return memory.data;
  }
  free(memory.data);
  return ok ? tli_fail_null(TL_EIO, "libsndfile wrote nothing") : NULL;
}
