/*
** platform.h - what the engine asks of the operating system: locks, threads,
** clocks, memory, libraries and files. The two sides are platform_posix.c and
** platform_windows.c, of which make takes the one that fits; nothing else in
** the engine asks which system it runs on. What the command needs of a terminal
** is in main/terminal.h.
*/
#ifndef TLI_PLATFORM_H
#define TLI_PLATFORM_H

#include <stdio.h>

#include "tlua.h"

/* ---- locks ---- */

#ifdef _WIN32
/* As SRWLOCK, CONDITION_VARIABLE and INIT_ONCE, whose header defines too much. */
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
/* The same for at most so many nanoseconds, whatever the date does meanwhile; may return earlier, as
** the other may. Only of a condition that tli_condition_init has made. */
void tli_condition_wait_for(tli_Condition *condition, tli_Mutex *mutex, int64_t ns);
void tli_condition_signal(tli_Condition *condition);
void tli_condition_broadcast(tli_Condition *condition);

/* Calls fn unless it was called through the same `once` before. */
void tli_once(tli_Once *once, void (*fn)(void));

/* ---- threads ---- */

/* Starts a thread that nobody waits for, and that takes no signals: those are
** the program's. False if the system gives no more threads. */
bool tli_thread_start(void (*fn)(void *context), void *context) TL_MUSTCHECK;

/* A key holds one value per thread; when a thread ends whose value is not NULL,
** `end` gets it. */
bool tli_key_make(tli_Key *key, void (*end)(void *value)) TL_MUSTCHECK;
bool tli_key_set(tli_Key key, void *value) TL_MUSTCHECK;

/* Calls these around each fork: before it, and after it in the parent and in the
** child. NULL for none. Where there is no fork, nothing. */
void tli_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* Every static lock of the engine is given here, when the program starts. It is held
** over each fork, so that the child, which has none of the other threads, finds it
** free and what it guards whole. Locks given here are never held together. */
#define TLI_FORK_SAFE(lock)                                        \
  __attribute__((constructor)) static void hold_over_forks(void) { \
    static tli_ForkLock held = {&(lock), NULL};                    \
    tli_fork_safe(&held);                                          \
  }
typedef struct tli_ForkLock {
  tli_Mutex *lock;
  struct tli_ForkLock *next;
} tli_ForkLock;
void tli_fork_safe(tli_ForkLock *held);

/* The processors that this process may run on, at least 1. */
int tli_processors(void);
/* What this machine is called, "" if it has no name. */
void tli_host_name(char *out, size_t size);

/* ---- clocks ---- */

/* Nanoseconds since some moment; never goes back. */
int64_t tli_now_ns(void);
/* Nanoseconds since 1970. */
int64_t tli_time_ns(void);

/* ---- memory ---- */

/* Aligned to `align`, a power of two from sizeof(void *) on; NULL if there is none. */
void *tli_memory_get(size_t align, size_t bytes);
void tli_memory_put(void *block);

/* The same for large blocks, as a mapping of their own where there is such a thing:
** aligned to huge pages, and `put` gives the memory back at once. */
void *tli_pages_get(size_t bytes);
void tli_pages_put(void *block, size_t bytes);

/* ---- libraries ---- */

/* Opens a shared library; its names stay its own. NULL if it cannot. */
void *tli_library_open(const char *file);
/* False for a library whose end is missing, as after a broken download: opening
** that would end the process. What is no library at all passes. */
bool tli_library_whole(const char *path);
/* The last failure of this thread's tli_library_open, in words. */
const char *tli_library_error(void);
/* The file that the code or data at an address was loaded from; "" if it cannot be told. */
void tli_library_path(const void *address, char *path, size_t size);
#ifdef _WIN32
#define TLI_LIBRARY_SUFFIX ".dll"
#else
#define TLI_LIBRARY_SUFFIX ".so"
#endif
/* library NULL: the program and what it is linked with. */
void *tli_library_symbol(void *library, const char *name);
void tli_library_close(void *library);

/* ---- files, environment ---- */

/* A file's bytes in memory, of which nothing is read before it is looked at where there is
** such a thing; what is written there stays there. NULL: see errno; an empty file has 0
** bytes at some address. */
void *tli_file_map(const char *path, size_t *bytes);
void tli_file_unmap(void *data, size_t bytes);
/* Whether the address, which could not be read, is of a mapped file, which has become
** shorter; from its page on the mapping holds zeros then. For a signal handler. */
bool tli_file_shrunk(const void *address);
/* The path of the file that was the last to become shorter; "" without one. */
const char *tli_file_shrunk_path(void);
/* The path of the mapped file that an address lies in, while it is mapped; NULL for other memory. */
const char *tli_file_mapped(const void *address);
/* Writes out what the program and the system hold back. False: see errno. */
bool tli_file_sync(FILE *file);
bool tli_file_is_terminal(FILE *file);
/* Programs that this one starts do not get the file. */
void tli_file_keep(FILE *file);
/* value NULL: takes the variable away. */
void tli_environment_set(const char *name, const char *value);
/* Such as "Linux x86_64". */
void tli_system_name(char *text, size_t size);
/* Random bytes that nobody can foresee. False: see errno; the system has none. */
bool tli_entropy(void *out, size_t bytes) TL_MUSTCHECK;
/* The number of the user that this process acts as, 0 where users have none. */
uint64_t tli_user(void);
/* How many files this process may have open at once. */
int64_t tli_most_files(void);

#endif
