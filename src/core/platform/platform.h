/*
** platform.h - the services of the operating system that the engine uses: locks, threads, clocks,
** memory, libraries and files. The Makefile compiles platform_posix.c or platform_windows.c. Other
** calls of the system are in the other files of this folder whose names end in _posix.c and
** _windows.c. The command's use of terminals is in main/terminal.h.
*/
#ifndef TLI_PLATFORM_H
#define TLI_PLATFORM_H

#include <stdio.h>

#include "tlua.h"

/* ---- locks ---- */

#ifdef _WIN32
/* Structs of the same size as SRWLOCK, CONDITION_VARIABLE and INIT_ONCE, which they stand for. They
** are declared here because the system's header defines too many other names. */
typedef struct tli_Mutex {
  void *opaque;
} tli_Mutex;
typedef struct tli_Condition {
  void *opaque;
} tli_Condition;
typedef struct tli_Once {
  void *opaque;
} tli_Once;
typedef unsigned long tli_Key;
/* clang-format off */
#define TLI_MUTEX_INIT {NULL}
#define TLI_CONDITION_INIT {NULL}
#define TLI_ONCE_INIT {NULL}
/* clang-format on */
#else
#include <pthread.h>
typedef pthread_mutex_t tli_Mutex;
typedef pthread_cond_t tli_Condition;
typedef pthread_once_t tli_Once;
typedef pthread_key_t tli_Key;
#define TLI_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define TLI_CONDITION_INIT PTHREAD_COND_INITIALIZER
#define TLI_ONCE_INIT PTHREAD_ONCE_INIT
#endif

void tli_mutex_init(tli_Mutex *mutex);
void tli_mutex_destroy(tli_Mutex *mutex);
void tli_mutex_lock(tli_Mutex *mutex);
bool tli_mutex_trylock(tli_Mutex *mutex);
void tli_mutex_unlock(tli_Mutex *mutex);

void tli_condition_init(tli_Condition *condition);
void tli_condition_destroy(tli_Condition *condition);
void tli_condition_wait(tli_Condition *condition, tli_Mutex *mutex);
/* Waits for at most `ns` nanoseconds; a change of the system's date has no effect. Like
** tli_condition_wait, the function may return early. The condition must come from
** tli_condition_init. */
void tli_condition_wait_for(tli_Condition *condition, tli_Mutex *mutex, int64_t ns);
void tli_condition_signal(tli_Condition *condition);
void tli_condition_broadcast(tli_Condition *condition);

/* Calls fn once; later calls with the same `once` do nothing. */
void tli_once(tli_Once *once, void (*fn)(void));

/* ---- threads ---- */

/* The stack size in bytes that a thread needs to call operators from Lua's deepest recursion. */
#define TLI_LEAST_STACK ((size_t)1 << 20)

/* Starts a detached thread. Signals are blocked in the thread, so that only the program's own
** threads handle them. Returns false if the system cannot start more threads. */
bool tli_thread_start(void (*fn)(void *context), void *context) TL_MUSTCHECK;

/* Creates a key, which holds one value for each thread. When a thread ends, `end` is called with
** the thread's value unless that value is NULL. */
bool tli_key_make(tli_Key *key, void (*end)(void *value)) TL_MUSTCHECK;
bool tli_key_set(tli_Key key, void *value) TL_MUSTCHECK;

/* Registers functions that every fork calls: `before` runs before the fork; `parent` and `child`
** run after it in the parent and in the child process. Each may be NULL. On systems without fork,
** does nothing. */
void tli_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* Registers a static lock of the engine when the library is loaded. The lock is held during each
** fork, and then released in both processes. So in the child, which has only one thread, the lock is
** free and the data that it guards is consistent. A thread that holds such a lock may allocate
** memory, but takes no other lock of this kind. The locks that an allocation takes are registered by
** TLI_FORK_SAFE_LAST instead: a fork takes them after all others, as a thread does. */
#define TLI_FORK_SAFE(lock) TLI_HOLD_OVER_FORKS(lock, false)
#define TLI_FORK_SAFE_LAST(lock) TLI_HOLD_OVER_FORKS(lock, true)
#define TLI_HOLD_OVER_FORKS(lock, last)                            \
  __attribute__((constructor)) static void hold_over_forks(void) { \
    static tli_ForkLock held = {&(lock), NULL};                    \
    tli_fork_safe(&held, last);                                    \
  }
typedef struct tli_ForkLock {
  tli_Mutex *lock;
  struct tli_ForkLock *next;
} tli_ForkLock;
void tli_fork_safe(tli_ForkLock *held, bool last);

/* Returns the number of processors that this process may use, at least 1. */
int tli_processors(void);
/* Writes the name of this machine; "" if it is unknown. */
void tli_host_name(char *out, size_t size);

/* ---- clocks ---- */

/* Returns the time of a monotonic clock, in nanoseconds. */
int64_t tli_now_ns(void);
/* Returns nanoseconds since 1970. */
int64_t tli_time_ns(void);

/* ---- memory ---- */

/* Returns memory aligned to `align`, a power of two of at least sizeof(void *). Returns NULL if
** memory is exhausted. */
void *tli_memory_get(size_t align, size_t bytes);
void tli_memory_put(void *block);

/* Returns memory for a large block: if possible a mapping of its own, aligned to huge pages, so
** that tli_pages_put can return it to the system immediately. Returns NULL if memory is
** exhausted. */
void *tli_pages_get(size_t bytes);
void tli_pages_put(void *block, size_t bytes);

/* ---- libraries ---- */

/* Opens a shared library without making its symbols global. Returns NULL on failure. */
void *tli_library_open(const char *file);
/* Returns false for a library whose file is truncated, for example by an incomplete download,
** because opening it would crash the process. Returns true for a file that is not a library. */
bool tli_library_whole(const char *path);
/* Returns the message of this thread's last failed tli_library_open. */
const char *tli_library_error(void);
/* Writes the path of the file that the code or data at an address was loaded from, or "". */
void tli_library_path(const void *address, char *path, size_t size);
#ifdef _WIN32
#define TLI_LIBRARY_SUFFIX ".dll"
#else
#define TLI_LIBRARY_SUFFIX ".so"
#endif
/* Returns the address of a symbol. If library is NULL, searches the program and the libraries that
** the program is linked with. */
void *tli_library_symbol(void *library, const char *name);
void tli_library_close(void *library);

/* ---- files, environment ---- */

/* Maps a file privately: pages are read on first use if the system supports that, and writes do not
** reach the file. Returns NULL with errno set. For an empty file, returns a valid address and sets
** *bytes to 0. */
void *tli_file_map(const char *path, size_t *bytes);
void tli_file_unmap(void *data, size_t bytes);
/* Returns whether an address that could not be read belongs to a mapped file that was truncated. If
** so, maps zeros from that page on. A signal handler calls this function. */
bool tli_file_shrunk(const void *address);
/* Returns the path of the last truncated file, or "". */
const char *tli_file_shrunk_path(void);
/* Returns the path of the mapped file that contains an address; NULL if the address is in other
** memory. */
const char *tli_file_mapped(const void *address);
/* Flushes the program's and the system's buffers of a file. Returns false with errno set on
** failure. */
bool tli_file_sync(FILE *file);
bool tli_file_is_terminal(FILE *file);
/* Locks a file until it is closed. Returns false if another process holds the lock, or if `path` is
** a link or no longer names this file. */
bool tli_file_hold(FILE *file, const char *path) TL_MUSTCHECK;
/* Prevents child processes from inheriting the file's descriptor. */
void tli_file_keep(FILE *file);
/* Sets an environment variable; value NULL removes the variable. */
void tli_environment_set(const char *name, const char *value);
/* Writes the name of the system and the processor, such as "Linux x86_64". */
void tli_system_name(char *text, size_t size);
/* Fills `out` with unpredictable random bytes. Returns false with errno set if the system has
** none. */
bool tli_entropy(void *out, size_t bytes) TL_MUSTCHECK;
/* Returns the effective user id, 0 on systems without users. */
uint64_t tli_user(void);
/* Returns the largest number of files that this process may have open. */
int64_t tli_most_files(void);

#endif
