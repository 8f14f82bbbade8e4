/*
** profile_record.h - the data of a profile: events in lists that grow, and the texts to which
** events refer by number. The memory comes directly from the system.
*/
#ifndef TLI_PROFILE_RECORD_H
#define TLI_PROFILE_RECORD_H

#include "core/device/api.h"
#include "core/observe/profile.h"

#define TLI_RECORD_CHUNK 8192 /* entries */
/* number of entries in the cache that finds names by their addresses; a power of two */
#define TLI_NAME_CACHE 1024

/* An array that grows by chunks, so that its items never move. */
typedef struct tli_RecordList {
  size_t item;
  int64_t n;
  char **chunks; /* array of chunks (owned); each chunk has TLI_RECORD_CHUNK items */
  int64_t nchunks, room;
} tli_RecordList;

typedef struct tli_RecordText {
  uint64_t hash;
  size_t size;
  char *text; /* the text (owned), ended by '\0' */
  /* if the text is the key of a call stack: the number of the text that shows this stack to users,
  ** or -1 as long as that text was not made */
  int32_t in_words;
} tli_RecordText;

/* The work of a span on a device, measured between two events. */
typedef struct tli_DeviceSpan {
  int32_t event;
  tl_Device device;
  tl_Stream *stream;
  tl_Event *begin, *end; /* events before and after the work (owned); NULL if not used */
} tli_DeviceSpan;

struct tli_Profile {
  tli_ProfileOptions options;
  /* the invitation for guest threads to this session or, in the record of a guest, the invitation
  ** that the guest has accepted (owned reference); NULL in the record `gathered` */
  tli_Invitation *invitation;
  bool guest;
  uint64_t serial;
  bool active;
  int32_t top;   /* number of the innermost open event; -1 if there is none */
  int64_t begin; /* tli_now_ns */
  int64_t began, end, dropped, bytes;
  /* `devices` consists of tli_DeviceSpans. `threads` consists of the numbers of texts: the names of
  ** the threads, beginning with this thread */
  tli_RecordList events, memory, texts, devices, threads;
  int32_t *places; /* hash table of texts with open addressing (owned); -1 marks an empty slot */
  int64_t nplaces;
  /* for each device type: whether this record receives the devices' reports of their activities */
  bool watches[TL_NDEVICETYPES];
  /* an event on each device (owned), recorded when the session first used the device. zero_at has
  ** the event's time, in ns since the session began */
  tl_Event *zero[TL_NDEVICETYPES][TL_MAX_DEVICES];
  int64_t zero_at[TL_NDEVICETYPES][TL_MAX_DEVICES];
  /* number of bytes in the device's cache when it was last queried */
  int64_t cached[TL_NDEVICETYPES][TL_MAX_DEVICES];
  struct {
    const char *name;
    int32_t id;
  } cache[TLI_NAME_CACHE];
};

/* Returns a new record of the thread with the name `thread`. If `thread` is NULL, the record has no
** thread of its own. */
tli_Profile *tli_record_new(const tli_ProfileOptions *options, const char *thread);
/* Empties a record: frees its lists and texts. */
void tli_record_clear(tli_Profile *p);
/* Appends the events of another record, which other threads have recorded. */
void tli_record_append(tli_Profile *p, const tli_Profile *from);

/* Returns new memory, whose bytes are counted for the record; NULL if memory is exhausted. */
void *tli_record_get(tli_Profile *p, size_t bytes);
void tli_record_put(void *block);

static inline void *tli_record_at(const tli_RecordList *l, int64_t i) {
  return l->chunks[i / TLI_RECORD_CHUNK] + (size_t)(i % TLI_RECORD_CHUNK) * l->item;
}

/* Appends an uninitialised item to a list and returns its address; NULL if memory is exhausted or
** the list is full. */
void *tli_record_push(tli_Profile *p, tli_RecordList *l);
/* Returns the number of a text, which is stored if it is new; -1 if memory is exhausted. */
int32_t tli_record_text(tli_Profile *p, const char *text, size_t size);

/* Returns the number of the text with the name of thread i. */
int32_t tli_record_thread(const tli_Profile *p, int64_t i);
/* Returns the number of the thread whose name is text `name` of p, and adds the thread if there is
** none. Returns -1 if `name` is negative, memory is exhausted, or there are too many threads. */
int32_t tli_record_thread_of(tli_Profile *p, int32_t name);

#endif
