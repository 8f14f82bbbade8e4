/*
** platform_windows.c - implements platform.h for Windows 7 and later.
*/
#define WIN32_LEAN_AND_MEAN
#define _CRT_RAND_S /* rand_s */
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0601
#endif

#include "core/platform/platform.h"

#include <io.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

_Static_assert(sizeof(tli_Mutex) == sizeof(SRWLOCK), "tli_Mutex");
_Static_assert(sizeof(tli_Condition) == sizeof(CONDITION_VARIABLE), "tli_Condition");
_Static_assert(sizeof(tli_Once) == sizeof(INIT_ONCE), "tli_Once");

/* ---- locks ---- */

static SRWLOCK *lock_of(tli_Mutex *mutex) { return (SRWLOCK *)(void *)mutex; }
static CONDITION_VARIABLE *variable_of(tli_Condition *c) { return (CONDITION_VARIABLE *)(void *)c; }

void tli_mutex_init(tli_Mutex *mutex) { InitializeSRWLock(lock_of(mutex)); }
void tli_mutex_destroy(tli_Mutex *mutex) { (void)mutex; }
void tli_mutex_lock(tli_Mutex *mutex) { AcquireSRWLockExclusive(lock_of(mutex)); }
bool tli_mutex_trylock(tli_Mutex *mutex) { return TryAcquireSRWLockExclusive(lock_of(mutex)) != 0; }
void tli_mutex_unlock(tli_Mutex *mutex) { ReleaseSRWLockExclusive(lock_of(mutex)); }

void tli_condition_init(tli_Condition *condition) {
  InitializeConditionVariable(variable_of(condition));
}
void tli_condition_destroy(tli_Condition *condition) { (void)condition; }
void tli_condition_wait(tli_Condition *condition, tli_Mutex *mutex) {
  SleepConditionVariableSRW(variable_of(condition), lock_of(mutex), INFINITE, 0);
}
void tli_condition_wait_for(tli_Condition *condition, tli_Mutex *mutex, int64_t ns) {
  DWORD ms = (DWORD)((ns + 999999) / 1000000);
  SleepConditionVariableSRW(variable_of(condition), lock_of(mutex), ms, 0);
}
void tli_condition_signal(tli_Condition *condition) {
  WakeConditionVariable(variable_of(condition));
}
void tli_condition_broadcast(tli_Condition *condition) {
  WakeAllConditionVariable(variable_of(condition));
}

static BOOL CALLBACK call_once(INIT_ONCE *once, void *fn, void **unused) {
  (void)once, (void)unused;
  (*(void (**)(void))fn)();
  return TRUE;
}

void tli_once(tli_Once *once, void (*fn)(void)) {
  InitOnceExecuteOnce((INIT_ONCE *)(void *)once, call_once, &fn, NULL);
}

/* ---- threads ---- */

typedef struct Start {
  void (*fn)(void *context);
  void *context;
} Start;

static DWORD WINAPI run(void *start) {
  Start s = *(Start *)start;
  free(start);
  s.fn(s.context);
  return 0;
}

bool tli_thread_start(void (*fn)(void *context), void *context) {
  Start *start = malloc(sizeof *start);
  if (start == NULL) return false;
  *start = (Start){fn, context};
  HANDLE thread = CreateThread(NULL, 0, run, start, 0, NULL);
  if (thread == NULL) {
    free(start);
    return false;
  }
  CloseHandle(thread);
  return true;
}

/* Creates a key in fiber-local storage, because thread-local storage has no callback that runs when
** a thread ends. */
bool tli_key_make(tli_Key *key, void (*end)(void *value)) {
  *key = FlsAlloc((PFLS_CALLBACK_FUNCTION)end);
  return *key != FLS_OUT_OF_INDEXES;
}

bool tli_key_set(tli_Key key, void *value) { return FlsSetValue(key, value) != 0; }

void tli_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
  (void)before, (void)parent, (void)child;
}

void tli_fork_safe(tli_ForkLock *held, bool last) { (void)held, (void)last; }

int tli_processors(void) {
  DWORD_PTR ours, all;
  int n = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &ours, &all))
    for (; ours; ours &= ours - 1) n++;
  return n > 0 ? n : 1;
}

void tli_host_name(char *out, size_t size) {
  DWORD n = (DWORD)size;
  if (!GetComputerNameA(out, &n)) out[0] = '\0';
}

/* ---- clocks ---- */

int64_t tli_now_ns(void) {
  LARGE_INTEGER ticks, per_second;
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&per_second);
  int64_t seconds = ticks.QuadPart / per_second.QuadPart;
  int64_t rest = ticks.QuadPart % per_second.QuadPart;
  return seconds * 1000000000 + rest * 1000000000 / per_second.QuadPart;
}

/* Returns ns since 1970 from a FILETIME, which counts steps of 100 ns since 1601. */
int64_t tli_time_ns(void) {
  FILETIME t;
  GetSystemTimeAsFileTime(&t);
  int64_t steps = (int64_t)((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime);
  return (steps - 116444736000000000) * 100;
}

/* ---- memory ---- */

void *tli_memory_get(size_t align, size_t bytes) { return _aligned_malloc(bytes, align); }

void tli_memory_put(void *block) { _aligned_free(block); }

void *tli_pages_get(size_t bytes) {
  return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void tli_pages_put(void *block, size_t bytes) {
  (void)bytes;
  VirtualFree(block, 0, MEM_RELEASE);
}

/* ---- libraries ---- */

void *tli_library_open(const char *file) { return LoadLibraryA(file); }

bool tli_library_whole(const char *path) {
  (void)path; /* Windows itself checks that the library is complete */
  return true;
}

const char *tli_library_error(void) {
  static _Thread_local char text[256];
  DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL,
                           GetLastError(), 0, text, sizeof text, NULL);
  while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) text[--n] = '\0';
  return n > 0 ? text : "unknown error";
}

void *tli_library_symbol(void *library, const char *name) {
  HMODULE module = library ? (HMODULE)library : GetModuleHandleA(NULL);
  FARPROC symbol = GetProcAddress(module, name);
  void *pointer;
  _Static_assert(sizeof pointer == sizeof symbol, "pointers to functions");
  memcpy(&pointer, &symbol, sizeof pointer);
  return pointer;
}

void tli_library_close(void *library) { FreeLibrary((HMODULE)library); }

void tli_library_path(const void *address, char *path, size_t size) {
  HMODULE module;
  path[0] = '\0';
  if (!GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                              GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                          (const char *)address, &module))
    return;
  DWORD n = GetModuleFileNameA(module, path, (DWORD)size);
  if (n == 0 || n >= size) path[0] = '\0';
  for (char *at = path; *at; at++)
    if (*at == '\\') *at = '/';
}

/* ---- files, environment ---- */

/* Reads the whole file into memory: a mapping would prevent other programs from replacing the
** file. */
void *tli_file_map(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL;
  char *data = NULL;
  if (_fseeki64(file, 0, SEEK_END) == 0) {
    *bytes = (size_t)_ftelli64(file);
    data = malloc(*bytes ? *bytes : 1);
    _fseeki64(file, 0, SEEK_SET);
    if (data && fread(data, 1, *bytes, file) != *bytes) {
      free(data);
      data = NULL;
    }
  }
  fclose(file);
  return data;
}

void tli_file_unmap(void *data, size_t bytes) {
  (void)bytes;
  free(data);
}

const char *tli_file_mapped(const void *address) {
  (void)address;
  return NULL;
}

const char *tli_file_shrunk_path(void) { return ""; }

bool tli_file_shrunk(const void *address) {
  (void)address;
  return false;
}

bool tli_file_sync(FILE *file) { return fflush(file) == 0 && _commit(_fileno(file)) == 0; }

void tli_file_keep(FILE *file) { (void)file; }

bool tli_file_is_terminal(FILE *file) { return _isatty(_fileno(file)) != 0; }

bool tli_file_hold(FILE *file, const char *path) {
  /* a position far beyond the end of the file, so that the lock does not affect reading */
  OVERLAPPED far_end = {.Offset = 0xFFFFFFF0, .OffsetHigh = 0x7FFFFFFF};
  (void)path; /* on Windows an open file cannot be renamed, so its path need not be checked */
  return LockFileEx((HANDLE)_get_osfhandle(_fileno(file)),
                    LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &far_end) != 0;
}

void tli_environment_set(const char *name, const char *value) {
  _putenv_s(name, value ? value : "");
}

void tli_system_name(char *text, size_t size) {
  SYSTEM_INFO info;
  GetNativeSystemInfo(&info);
  WORD cpu = info.wProcessorArchitecture;
  snprintf(text, size, "Windows %s",
           cpu == PROCESSOR_ARCHITECTURE_AMD64 ? "x86_64"
           : cpu == 12                         ? "arm64"
                                               : "x86");
}

bool tli_entropy(void *out, size_t bytes) {
  unsigned char *at = out;
  for (size_t i = 0; i < bytes; i++) {
    unsigned some;
    if (rand_s(&some) != 0) return false;
    at[i] = (unsigned char)some;
  }
  return true;
}

uint64_t tli_user(void) { return 0; }

int64_t tli_most_files(void) { return _getmaxstdio(); }
