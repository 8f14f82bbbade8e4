/*
** share_posix.c - implements share.h. On Linux, the memory is an unnamed file, which other
** processes open through /proc. To claim a numbered place, a process locks one byte of the file;
** the lock ends with the process. The words on which processes sleep are futexes.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "core/platform/share.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/platform/platform.h"

#ifdef __linux__
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Values of <linux/futex.h>, which musl does not provide. */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 };

static void *map_new(int file, size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

#ifdef __SANITIZE_THREAD__
/* A block of shared memory that this process has mapped. If several ranks are threads of one
** process, all of them use the same mapping, so that the thread sanitizer sees the accesses of all
** ranks. */
typedef struct Mapped {
  struct Mapped *next;
  ino_t number;
  void *data;
  int users;
} Mapped;

static Mapped *all_mapped;
static tli_Mutex mapped_lock = TLI_MUTEX_INIT;

static void *map_known(int file, size_t bytes) {
  struct stat info;
  Mapped *m = all_mapped;
  if (fstat(file, &info) != 0) return MAP_FAILED;
  while (m && m->number != info.st_ino) m = m->next;
  if (m == NULL && (m = calloc(1, sizeof *m)) != NULL) {
    *m = (Mapped){all_mapped, info.st_ino, map_new(file, bytes), 0};
    all_mapped = m;
  }
  if (m == NULL) return MAP_FAILED;
  m->users++;
  return m->data;
}

static void *map_memory(int file, size_t bytes) {
  tli_mutex_lock(&mapped_lock);
  void *data = map_known(file, bytes);
  tli_mutex_unlock(&mapped_lock);
  return data;
}

static void unmap_memory(void *data, size_t bytes) {
  tli_mutex_lock(&mapped_lock);
  Mapped **at = &all_mapped;
  while ((*at)->data != data) at = &(*at)->next;
  Mapped *m = *at;
  if (--m->users == 0) {
    *at = m->next;
    free(m);
    munmap(data, bytes);
  }
  tli_mutex_unlock(&mapped_lock);
}
#else
#define map_memory map_new
#define unmap_memory munmap
#endif

static bool map(tli_Share *share, int file, size_t bytes) {
  void *data = map_memory(file, bytes);
  if (data == MAP_FAILED) {
    tli_fail(TL_EMEM, "shared memory of %zu bytes: %s", bytes, strerror(errno));
    close(file);
    return false;
  }
  *share = (tli_Share){data, bytes, file};
  return true;
}

/* Seals that prevent every process from truncating the file, since a process that has mapped a
** truncated file crashes at its next access. */
enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW };

bool tli_share_make(tli_Share *share, size_t bytes, char name[TLI_SHARE_NAME]) {
  share->data = NULL;
  int file = (int)syscall(SYS_memfd_create, "tlua", 3u /* 3u is MFD_CLOEXEC | MFD_ALLOW_SEALING */);
  if (file < 0) return tli_fail(TL_EMEM, "shared memory: %s", strerror(errno));
  bool ok = fchmod(file, 0600) == 0 && ftruncate(file, (off_t)bytes) == 0;
  if (!ok || fcntl(file, F_ADD_SEALS, SEALS) != 0) {
    tli_fail(TL_EMEM, "shared memory of %zu bytes: %s", bytes, strerror(errno));
    close(file);
    return false;
  }
  snprintf(name, TLI_SHARE_NAME, "/proc/%ld/fd/%d", (long)getpid(), file);
  return map(share, file, bytes);
}

/* Returns whether the text is exactly "/proc/<number>/fd/<number>". */
static bool is_name(const char *name) {
  char again[TLI_SHARE_NAME];
  long process;
  int file;
  if (sscanf(name, "/proc/%9ld/fd/%9d", &process, &file) != 2 || process <= 0 || file < 0)
    return false;
  snprintf(again, sizeof again, "/proc/%ld/fd/%d", process, file);
  return strcmp(name, again) == 0;
}

/* Returns whether an open file is memory that tli_share_make has created for this user. */
static bool is_share(int file) {
  struct stat info;
  return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
         info.st_nlink == 0 && (info.st_mode & 077) == 0 && fcntl(file, F_GET_SEALS) == SEALS;
}

/* Returns whether a name leads to memory of this user. The name is a link in /proc. Before the link
** is opened, its destination is checked, because opening another kind of file may have side
** effects. The opened file is checked again, because the link may have changed meanwhile. */
static bool leads_to_memory(const char *name) {
  static const char expected[] = "/memfd:tlua (deleted)";
  char to[sizeof expected];
  ssize_t n = readlink(name, to, sizeof to);
  if (n == sizeof expected - 1 && memcmp(to, expected, sizeof expected - 1) == 0) return true;
  if (n >= 0) errno = EINVAL;
  return false;
}

bool tli_share_open(tli_Share *share, const char *name, size_t bytes) {
  share->data = NULL;
  if (!is_name(name))
    return tli_fail(TL_EARG, "shared memory: '%.60s' is not the name of a block", name);
  int file = leads_to_memory(name) ? open(name, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0)
    return tli_fail(TL_EIO,
                    "shared memory: %s: %s (its maker must be a process of this machine and user)",
                    name, strerror(errno));
  if (!is_share(file)) {
    close(file);
    return tli_fail(TL_EIO, "shared memory: %s: not made by a rank of this user", name);
  }
  if (lseek(file, 0, SEEK_END) != (off_t)bytes) {
    close(file);
    return tli_fail(TL_EIO, "shared memory: %s: not %zu bytes, as another version of tlua has it",
                    name, bytes);
  }
  return map(share, file, bytes);
}

void tli_share_close(tli_Share *share) {
  if (share->data == NULL) return;
  tli_share_hide(share);
  unmap_memory(share->data, share->bytes);
  share->data = NULL;
}

void tli_share_hide(tli_Share *share) {
  if (share->data && share->file >= 0) close(share->file);
  share->file = -1;
}

static struct flock one_byte(int place) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
}

bool tli_share_claim(const tli_Share *share, int place) {
  struct flock lock = one_byte(place);
  return fcntl(share->file, F_OFD_SETLK, &lock) == 0;
}

bool tli_share_claimed(const tli_Share *share, int place) {
  struct flock lock = one_byte(place);
  return fcntl(share->file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns) {
  struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0);
}

void tli_word_wake(atomic_uint *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}
#else

#include "core/platform/share_refused.h"

void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns) {
  if (atomic_load(word) != seen) return;
  struct timespec some = {0, ns < 50000 ? (long)ns : 50000};
  nanosleep(&some, NULL);
}

void tli_word_wake(atomic_uint *word) { (void)word; }
#endif
