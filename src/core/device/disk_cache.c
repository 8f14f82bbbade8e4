/*
** disk_cache.c - implements disk_cache.h. A file begins with a line of text, "tlua cache 1 KIND KEY
** DATA SUM". KEY and DATA are the sizes of the key and the data; SUM is the hash of both. The key
** and the data follow the line.
*/
#include "core/device/disk_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/settings.h"
#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/kernel/hash.h"
#include "core/platform/folder.h"
#include "core/platform/platform.h"
#include "core/platform/replace.h"

enum { PATH_BYTES = 4096, HEAD_BYTES = 160, KIND_BYTES = 16 };

static const char mark[] = "tlua cache 1";

/* ---- the folder ---------------------------------------------------------------------- */

static bool write_path(char *path, size_t size, const char *parent, const char *rest) {
  int n = snprintf(path, size, "%s%s", parent, rest);
  return n > 0 && (size_t)n < size;
}

/* Returns whether a path is absolute. The XDG specification requires that relative paths in
** environment variables are ignored. */
static bool is_absolute(const char *path) {
  return path && (path[0] == '/' || (path[0] && path[1] == ':'));
}

bool tli_cache_folder(char *path, size_t size) {
  const char *own = getenv("TLUA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const char *local = getenv("LOCALAPPDATA"); /* the folder for cache files on Windows */
  if (!tli_setting(TL_DISK_CACHE) || (own && strcmp(own, "0") == 0)) return false;
  if (own && own[0]) return write_path(path, size, own, "");
  if (is_absolute(xdg)) return write_path(path, size, xdg, "/tlua");
  if (is_absolute(local)) return write_path(path, size, local, "/tlua/cache");
  return is_absolute(home) && write_path(path, size, home, "/.cache/tlua");
}

/* Writes the path of an entry's file. Fails if the folder belongs to another user or if everybody
** can write to it. */
static bool path_of(char path[PATH_BYTES], const char *kind, const void *key, size_t bytes) {
  char folder[PATH_BYTES - 64];
  return tli_cache_folder(folder, sizeof folder) && tli_folder_own(folder) &&
         snprintf(path, PATH_BYTES, "%s/%016" PRIx64 ".%s", folder,
                  tli_hash(TLI_HASH_SEED, key, bytes), kind) < PATH_BYTES;
}

/* Returns whether a file's name has the form of a cache entry's: 16 hexadecimal digits, a dot, and
** a kind. */
static bool is_ours(const char *name) {
  size_t digits = strspn(name, "0123456789abcdef");
  size_t letters =
      digits == 16 && name[16] == '.' ? strspn(name + 17, "abcdefghijklmnopqrstuvwxyz") : 0;
  return letters > 0 && letters < KIND_BYTES && name[17 + letters] == '\0';
}

typedef struct File {
  int64_t bytes, written;
  char name[17 + KIND_BYTES];
} File;

/* Returns an array of the folder's cache entries, which the caller frees with free(), and sets
** *count to their number. The array may be NULL if there are none. */
static File *files_of(const char *folder, int *count) {
  size_t bytes, n = 0;
  *count = 0;
  char *list = tli_folder_list(folder, &bytes), path[PATH_BYTES];
  if (list == NULL) return NULL;
  for (size_t at = 0; at < bytes; at += strlen(list + at) + 1) n++;
  File *files = malloc((n + 1) * sizeof *files);
  for (const char *at = list; files && at < list + bytes; at += strlen(at) + 1) {
    File *f = &files[*count];
    if (at[0] != 'f' || !is_ours(at + 1)) continue;
    snprintf(f->name, sizeof f->name, "%s", at + 1);
    if (snprintf(path, sizeof path, "%s/%s", folder, f->name) < (int)sizeof path &&
        tli_folder_file(path, &f->bytes, &f->written))
      ++*count;
  }
  free(list);
  return files;
}

static int by_age(const void *a, const void *b) {
  int64_t x = ((const File *)a)->written, y = ((const File *)b)->written;
  return (x > y) - (x < y);
}

/* If the cache exceeds its limit, removes the oldest files until the remaining files have at most
** three quarters of the limit. */
static void sweep(const char *folder) {
  int n;
  int64_t sum = 0;
  char path[PATH_BYTES];
  File *files = files_of(folder, &n);
  for (int i = 0; i < n; i++) sum += files[i].bytes;
  if (sum > TLI_CACHE_MOST) qsort(files, (size_t)n, sizeof *files, by_age);
  bool full = sum > TLI_CACHE_MOST;
  for (int i = 0; full && i < n && sum > TLI_CACHE_MOST / 4 * 3; i++) {
    sum -= files[i].bytes;
    if (snprintf(path, sizeof path, "%s/%s", folder, files[i].name) < (int)sizeof path)
      remove(path);
  }
  free(files);
}

int tli_cache_size(int64_t *bytes) {
  char folder[PATH_BYTES];
  int n = 0;
  *bytes = 0;
  if (!tli_cache_folder(folder, sizeof folder)) return 0;
  File *files = files_of(folder, &n);
  for (int i = 0; i < n; i++) *bytes += files[i].bytes;
  free(files);
  tli_error_clear();
  return n;
}

/* ---- entries -------------------------------------------------------------------------- */

static void write_head(char head[HEAD_BYTES], const char *kind, const void *key, size_t key_bytes,
                       const void *data, size_t bytes) {
  uint64_t sum =
      tli_hash(TLI_HASH_SEED, key, key_bytes) * 31 + tli_hash(TLI_HASH_SEED, data, bytes);
  snprintf(head, HEAD_BYTES, "%s %.*s %zu %zu %016" PRIx64 "\n", mark, KIND_BYTES, kind, key_bytes,
           bytes, sum);
}

/* Returns a copy of a file's data if the file is complete and belongs to this key; otherwise
** NULL. */
static void *data_in(const char *file, size_t size, const char *kind, const void *key,
                     size_t key_bytes, size_t *bytes) {
  char head[HEAD_BYTES];
  const char *end = memchr(file, '\n', size < HEAD_BYTES ? size : HEAD_BYTES);
  size_t first = end ? (size_t)(end - file) + 1 : size;
  if (end == NULL || size - first < key_bytes) return NULL;
  const char *data = file + first + key_bytes;
  *bytes = size - first - key_bytes;
  write_head(head, kind, key, key_bytes, data, *bytes);
  if (strlen(head) != first || memcmp(head, file, first) != 0) return NULL;
  if (memcmp(file + first, key, key_bytes) != 0) return NULL;
  void *copy = tli_alloc(*bytes);
  if (copy) memcpy(copy, data, *bytes);
  return copy;
}

void *tli_cache_load(const char *kind, const void *key, size_t key_bytes, size_t *bytes) {
  char path[PATH_BYTES];
  void *data = NULL;
  size_t size;
  if (!path_of(path, kind, key, key_bytes)) return NULL;
  char *file = tli_folder_read_own(path, TLI_CACHE_MOST, &size);
  if (file) data = data_in(file, size, kind, key, key_bytes, bytes);
  free(file);
  tli_error_clear();
  return data;
}

static bool write_file(const char *path, const char *head, const void *key, size_t key_bytes,
                       const void *data, size_t bytes, bool *again) {
  *again = false;
  tli_Replace *r = tli_replace_begin(path, false);
  if (r == NULL) return false;
  FILE *file = tli_replace_file(r);
  if (fwrite(head, 1, strlen(head), file) == strlen(head) &&
      fwrite(key, 1, key_bytes, file) == key_bytes && fwrite(data, 1, bytes, file) == bytes)
    return tli_replace_commit(r, again);
  tli_replace_abort(r);
  return false;
}

bool tli_cache_store(const char *kind, const void *key, size_t key_bytes, const void *data,
                     size_t bytes) {
  char path[PATH_BYTES], folder[PATH_BYTES], head[HEAD_BYTES];
  bool again, ok = false;
  if (tli_cache_folder(folder, sizeof folder) && path_of(path, kind, key, key_bytes) &&
      tli_folder_may_write(path, HEAD_BYTES + key_bytes + bytes)) {
    free(tli_folder_make(folder));
    write_head(head, kind, key, key_bytes, data, bytes);
    ok = write_file(path, head, key, key_bytes, data, bytes, &again) ||
         (again && write_file(path, head, key, key_bytes, data, bytes, &again));
    if (ok) sweep(folder);
  }
  tli_error_clear();
  return ok;
}
