/*
** platform_posix.c - implements platform.h for Linux and other systems with POSIX threads.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* declares sched_getaffinity, madvise and RTLD_DEFAULT */
#endif

#include "core/platform/platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"

#ifdef __ELF__
#include <link.h>
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifdef __linux__
#include <sched.h>
#endif

/* ---- locks ---- */

void tli_mutex_init(tli_Mutex *mutex) { pthread_mutex_init(mutex, NULL); }
void tli_mutex_destroy(tli_Mutex *mutex) { pthread_mutex_destroy(mutex); }
void tli_mutex_lock(tli_Mutex *mutex) { pthread_mutex_lock(mutex); }
bool tli_mutex_trylock(tli_Mutex *mutex) { return pthread_mutex_trylock(mutex) == 0; }
void tli_mutex_unlock(tli_Mutex *mutex) { pthread_mutex_unlock(mutex); }

/* Initialises a condition whose timeouts use the monotonic clock. macOS lacks such conditions, so
** relative timeouts are used there. */
void tli_condition_init(tli_Condition *condition) {
  pthread_condattr_t how;
  pthread_condattr_init(&how);
#ifndef __APPLE__
  pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
#endif
  pthread_cond_init(condition, &how);
  pthread_condattr_destroy(&how);
}
void tli_condition_destroy(tli_Condition *condition) { pthread_cond_destroy(condition); }
void tli_condition_wait(tli_Condition *condition, tli_Mutex *mutex) {
  pthread_cond_wait(condition, mutex);
}
void tli_condition_wait_for(tli_Condition *condition, tli_Mutex *mutex, int64_t ns) {
#ifdef __APPLE__
  struct timespec some = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  pthread_cond_timedwait_relative_np(condition, mutex, &some);
#else
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  ns += end.tv_nsec;
  end.tv_sec += (time_t)(ns / 1000000000);
  end.tv_nsec = (long)(ns % 1000000000);
  pthread_cond_timedwait(condition, mutex, &end);
#endif
}
void tli_condition_signal(tli_Condition *condition) { pthread_cond_signal(condition); }
void tli_condition_broadcast(tli_Condition *condition) { pthread_cond_broadcast(condition); }

void tli_once(tli_Once *once, void (*fn)(void)) { pthread_once(once, fn); }

/* ---- threads ---- */

typedef struct Start {
  void (*fn)(void *context);
  void *context;
} Start;

static void *run(void *start) {
  Start s = *(Start *)start;
  free(start);
  s.fn(s.context);
  return NULL;
}

/* Starts a thread that inherits the calling thread's signal mask. Its stack has at least
** TLI_LEAST_STACK bytes, even if the process's limit (ulimit -s) or the C library's default is
** lower. */
static bool start_detached(Start *start) {
  pthread_t thread;
  pthread_attr_t detached;
  size_t stack;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  if (pthread_attr_getstacksize(&detached, &stack) == 0 && stack < TLI_LEAST_STACK)
    pthread_attr_setstacksize(&detached, TLI_LEAST_STACK);
  bool started = pthread_create(&thread, &detached, run, start) == 0;
  pthread_attr_destroy(&detached);
  return started;
}

bool tli_thread_start(void (*fn)(void *context), void *context) {
  Start *start = malloc(sizeof *start);
  if (start == NULL) return false;
  *start = (Start){fn, context};
  sigset_t all, before;
  sigfillset(&all);
  /* SIGBUS stays unblocked, because the handler of truncated mapped files needs it
  ** (tli_file_shrunk) */
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = start_detached(start);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) free(start);
  return started;
}

bool tli_key_make(tli_Key *key, void (*end)(void *value)) {
  return pthread_key_create(key, end) == 0;
}

bool tli_key_set(tli_Key key, void *value) { return pthread_setspecific(key, value) == 0; }

void tli_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
  pthread_atfork(before, parent, child);
}

/* list of locks to hold across forks, in the order in which a fork takes them; written only while
** the library is loaded */
static tli_ForkLock *locks;

static void lock_all(void) {
  for (const tli_ForkLock *held = locks; held; held = held->next) tli_mutex_lock(held->lock);
}

static void unlock_all(void) {
  for (const tli_ForkLock *held = locks; held; held = held->next) tli_mutex_unlock(held->lock);
}

void tli_fork_safe(tli_ForkLock *held, bool last) {
  tli_ForkLock **at = &locks;
  if (locks == NULL) tli_at_fork(lock_all, unlock_all, unlock_all);
  while (last && *at) at = &(*at)->next;
  held->next = *at;
  *at = held;
}

int tli_processors(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 && n < 4096 ? (int)n : 1;
}

void tli_host_name(char *out, size_t size) {
  out[0] = out[size - 1] = '\0';
  gethostname(out, size - 1);
}

/* ---- clocks ---- */

static int64_t read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t tli_now_ns(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t tli_time_ns(void) { return read_clock(CLOCK_REALTIME); }

/* ---- memory ---- */

void *tli_memory_get(size_t align, size_t bytes) {
  void *block = NULL;
  return posix_memalign(&block, align, bytes) == 0 ? block : NULL;
}

void tli_memory_put(void *block) { free(block); }

#define HUGE_PAGE ((size_t)2 << 20)

#ifdef MADV_HUGEPAGE
void *tli_pages_get(size_t bytes) {
  size_t room = bytes + HUGE_PAGE;
  char *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  size_t head = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
  if (head) munmap(map, head);
  munmap(map + head + bytes, HUGE_PAGE - head);
  /* with huge pages, a page fault maps 2 MB instead of 4 KB; a failure of madvise is ignored */
  (void)madvise(map + head, bytes, MADV_HUGEPAGE);
  return map + head;
}

void tli_pages_put(void *block, size_t bytes) { munmap(block, bytes); }
#else
void *tli_pages_get(size_t bytes) { return tli_memory_get(HUGE_PAGE, bytes); }

void tli_pages_put(void *block, size_t bytes) {
  (void)bytes;
  free(block);
}
#endif

/* ---- libraries ---- */

/* with Emscripten, dlopen aborts a program that is not linked for dynamic loading */
#ifdef __EMSCRIPTEN__
void *tli_library_open(const char *file) {
  (void)file;
  return NULL;
}

const char *tli_library_error(void) { return "a page opens no libraries"; }

void *tli_library_symbol(void *library, const char *name) {
  (void)library, (void)name;
  return NULL;
}

void tli_library_close(void *library) { (void)library; }
#else
void *tli_library_open(const char *file) { return dlopen(file, RTLD_NOW | RTLD_LOCAL); }

const char *tli_library_error(void) {
  const char *text = dlerror();
  return text ? text : "no error";
}

void *tli_library_symbol(void *library, const char *name) {
  return dlsym(library ? library : RTLD_DEFAULT, name);
}

void tli_library_close(void *library) { dlclose(library); }
#endif

#ifdef __ELF__
/* Returns whether the file contains all bytes of the segments in its header. */
static bool has_segments(FILE *file, const ElfW(Ehdr) * header) {
  ElfW(Phdr) segment;
  if (fseeko(file, 0, SEEK_END) != 0) return false;
  uint64_t bytes = (uint64_t)ftello(file);
  for (int i = 0; i < header->e_phnum; i++) {
    off_t at = (off_t)(header->e_phoff + (uint64_t)i * sizeof segment);
    if (fseeko(file, at, SEEK_SET) != 0 || fread(&segment, sizeof segment, 1, file) != 1)
      return false;
    if (segment.p_offset > bytes || segment.p_filesz > bytes - segment.p_offset) return false;
  }
  return true;
}

bool tli_library_whole(const char *path) {
  static const unsigned char ours[] = {0x7f, 'E', 'L', 'F', sizeof(void *) == 8 ? 2 : 1};
  ElfW(Ehdr) header;
  FILE *file = fopen(path, "rb");
  /* an unreadable file counts as complete here; opening the library will report the reason */
  if (file == NULL) return true;
  bool elf = fread(&header, sizeof header, 1, file) == 1 &&
             memcmp(header.e_ident, ours, sizeof ours) == 0 &&
             header.e_phentsize == sizeof(ElfW(Phdr));
  bool whole = !elf || has_segments(file, &header);
  fclose(file);
  return whole;
}
#else
bool tli_library_whole(const char *path) {
  (void)path;
  return true;
}
#endif

void tli_library_path(const void *address, char *path, size_t size) {
  Dl_info info;
  path[0] = '\0';
  if (!dladdr(address, &info) || info.dli_fname == NULL) return;
  /* the file name in `info` has no slash if the program was found through PATH */
  if (strchr(info.dli_fname, '/') == NULL) {
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = '\0';
  } else {
    char *resolved = realpath(info.dli_fname, NULL);
    snprintf(path, size, "%s", resolved ? resolved : info.dli_fname);
    free(resolved);
  }
}

/* ---- files, environment ---- */

/* A table of mapped files. A signal handler reads the table, so there is no lock. `begin` is 0 in a
** free entry, and 1 while the entry is being filled. If no entry is free, the file is not in the
** table, and its truncation is not detected. */
enum { MOST_MAPS = 1024 };
static struct {
  atomic_uintptr_t begin;
  atomic_size_t bytes;
  char *path; /* path of the file (owned); NULL if memory was exhausted */
} maps[MOST_MAPS];

static void guard(const char *path, const void *data, size_t bytes) {
  for (int i = 0; i < MOST_MAPS; i++) {
    uintptr_t none = 0;
    if (!atomic_compare_exchange_strong(&maps[i].begin, &none, 1)) continue;
    maps[i].path = strdup(path);
    atomic_store(&maps[i].bytes, bytes);
    atomic_store(&maps[i].begin, (uintptr_t)data);
    return;
  }
}

static void unguard(const void *data) {
  for (int i = 0; i < MOST_MAPS; i++)
    if (atomic_load(&maps[i].begin) == (uintptr_t)data) {
      atomic_store(&maps[i].begin, 1);
      free(maps[i].path);
      maps[i].path = NULL;
      atomic_store(&maps[i].begin, 0);
      return;
    }
}

/* Returns the index of the mapping that contains an address, or -1. */
static int find_map(const void *address) {
  uintptr_t at = (uintptr_t)address;
  for (int i = 0; i < MOST_MAPS; i++) {
    uintptr_t begin = atomic_load(&maps[i].begin);
    if (begin > 1 && at >= begin && at < begin + atomic_load(&maps[i].bytes)) return i;
  }
  return -1;
}

const char *tli_file_mapped(const void *address) {
  int i = find_map(address);
  return i < 0 ? NULL : maps[i].path ? maps[i].path : "a file";
}

static char shrunk[4096]; /* path of the last truncated file; the array's last byte is always 0 */

const char *tli_file_shrunk_path(void) { return shrunk; }

bool tli_file_shrunk(const void *address) {
  int i = find_map(address);
  if (i < 0) return false;
  const char *path = maps[i].path ? maps[i].path : "";
  for (size_t k = 0; k < sizeof shrunk - 1 && (shrunk[k] = path[k]) != '\0'; k++) {
  }
  uintptr_t end = atomic_load(&maps[i].begin) + atomic_load(&maps[i].bytes);
  uintptr_t page = (uintptr_t)address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  return mmap((void *)page, end - page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void *tli_file_map(const char *path, size_t *bytes) {
  static char empty;
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *data = MAP_FAILED;
  if (fstat(fd, &info) == 0) {
    *bytes = (size_t)info.st_size;
    if (S_ISDIR(info.st_mode))
      errno = EISDIR;
    else if ((off_t)*bytes != info.st_size)
      /* addresses have 32 bits on this machine, so the file does not fit into the address space */
      errno = EFBIG;
    else if (info.st_size == 0)
      data = &empty;
    else
      data = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  }
  int error = errno;
  close(fd);
  errno = error;
  if (data == MAP_FAILED) return NULL;
  if (data != &empty) guard(path, data, *bytes);
  return data;
}

void tli_file_unmap(void *data, size_t bytes) {
  if (bytes == 0) return;
  unguard(data);
  munmap(data, bytes);
}

bool tli_file_sync(FILE *file) { return fflush(file) == 0 && fsync(fileno(file)) == 0; }

void tli_file_keep(FILE *file) { fcntl(fileno(file), F_SETFD, FD_CLOEXEC); }

bool tli_file_is_terminal(FILE *file) { return isatty(fileno(file)) != 0; }

bool tli_file_hold(FILE *file, const char *path) {
  struct stat held, named;
  int fd = fileno(file);
  /* other errors mean that the file system does not support locks; then the lock counts as
  ** granted */
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) return false;
  return fstat(fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

void tli_environment_set(const char *name, const char *value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

void tli_system_name(char *text, size_t size) {
  struct utsname system;
  if (uname(&system) == 0)
    snprintf(text, size, "%s %s", system.sysname, system.machine);
  else
    snprintf(text, size, "unknown system");
}

bool tli_entropy(void *out, size_t bytes) {
  char *at = out;
  int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  while (bytes > 0) {
    ssize_t n = read(file, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += n;
    bytes -= (size_t)n;
  }
  close(file);
  return bytes == 0;
}

uint64_t tli_user(void) { return (uint64_t)geteuid(); }

int64_t tli_most_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return limit.rlim_cur > 1 << 30 ? 1 << 30 : (int64_t)limit.rlim_cur;
}
