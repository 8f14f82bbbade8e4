/*
** cache_test.c - tests disk_cache.h: a stored entry is found again, and the cache accepts no other
** file as an entry.
*/
#include "core/device/disk_cache.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/settings.h"
#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/kernel/hash.h"
#include "core/platform/folder.h"
#include "core/platform/platform.h"
#include "test.h"

static char folder[64] = "/tmp/tlua-cache-XXXXXX";

/* Writes the path of the cache's only entry into `path`. */
static void only_entry(char *path, size_t size) {
  size_t bytes;
  char *list = tli_folder_list(folder, &bytes);
  CHECK(list && bytes == strlen(list) + 1);
  snprintf(path, size, "%s/%s", folder, list ? list + 1 : "");
  free(list);
}

static void empty(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s/*", folder);
  CHECK(system(command) == 0);
}

static bool has(const char *kind, const char *key, const char *expected) {
  size_t bytes;
  char *data = tli_cache_load(kind, key, strlen(key), &bytes);
  bool same = data && bytes == strlen(expected) && memcmp(data, expected, bytes) == 0;
  if (data) tli_free(data, bytes);
  return same;
}

static bool has_none(const char *kind, const char *key) {
  size_t bytes;
  return tli_cache_load(kind, key, strlen(key), &bytes) == NULL;
}

static bool store(const char *kind, const char *key, const char *data) {
  return tli_cache_store(kind, key, strlen(key), data, strlen(data));
}

TEST(the_hash_is_fnv_1a) {
  CHECK(tli_hash(TLI_HASH_SEED, "", 0) == 0xcbf29ce484222325u);
  CHECK(tli_hash(TLI_HASH_SEED, "a", 1) == 0xaf63dc4c8601ec8cu);
  CHECK(tli_hash(TLI_HASH_SEED, "foobar", 6) == 0x85944171f73967e8u);
}

TEST(stored_data_is_found_again) {
  int64_t bytes;
  empty();
  CHECK(has_none("plan", "key"));
  CHECK(store("plan", "key", "data") && store("plan", "other", "") && store("code", "key", "more"));
  CHECK(has("plan", "key", "data") && has("plan", "other", "") && has("code", "key", "more"));
  CHECK(has_none("plan", "third"));
  CHECK(store("plan", "key", "newer data") && has("plan", "key", "newer data"));
  CHECK(tli_cache_size(&bytes) == 3 && bytes > 17);
  CHECK(tl_error_kind() == TL_OK);
}

/* Tests that a changed, missing or additional byte invalidates a file. */
TEST(damaged_files_are_ignored) {
  char path[128], whole[256], wrong[256];
  empty();
  CHECK(store("plan", "a key", "some data"));
  only_entry(path, sizeof path);
  FILE *file = fopen(path, "rb");
  size_t size = fread(whole, 1, sizeof whole, file);
  fclose(file);
  for (size_t i = 0; i < 2 * size + 1; i++) {
    size_t bytes = i < size ? size : i < 2 * size ? i - size : size + 1;
    memcpy(wrong, whole, size);
    wrong[size] = 'x';
    if (i < size) wrong[i] ^= 1;
    file = fopen(path, "wb");
    fwrite(wrong, 1, bytes, file);
    fclose(file);
    CHECK_AT(i, has_none("plan", "a key"));
  }
  CHECK(store("plan", "a key", "some data") && has("plan", "a key", "some data"));
}

TEST(a_file_of_another_key_is_not_taken) {
  char first[128], second[128];
  empty();
  CHECK(store("plan", "one", "data"));
  only_entry(first, sizeof first);
  snprintf(second, sizeof second, "%s/%016llx.plan", folder,
           (unsigned long long)tli_hash(TLI_HASH_SEED, "two", 3));
  CHECK(rename(first, second) == 0 && has_none("plan", "two") && has_none("plan", "one"));
}

TEST(the_environment_and_the_setting_turn_it_off) {
  char path[256];
  empty();
  CHECK(store("plan", "key", "data"));
  tli_set_setting(TL_DISK_CACHE, 0);
  CHECK(has_none("plan", "key") && !store("plan", "key", "x") &&
        !tli_cache_folder(path, sizeof path));
  tli_set_setting(TL_DISK_CACHE, 1);
  CHECK(has("plan", "key", "data"));
  tli_environment_set("TLUA_CACHE", "0");
  CHECK(has_none("plan", "key") && !store("plan", "key", "x"));
  tli_environment_set("TLUA_CACHE", NULL);
  tli_environment_set("XDG_CACHE_HOME", "/somewhere");
  CHECK(tli_cache_folder(path, sizeof path) && strcmp(path, "/somewhere/tlua") == 0);
  tli_environment_set("XDG_CACHE_HOME", "relative");
  tli_environment_set("HOME", "/elsewhere");
  CHECK(tli_cache_folder(path, sizeof path) && strcmp(path, "/elsewhere/.cache/tlua") == 0);
  tli_environment_set("HOME", NULL);
  CHECK(!tli_cache_folder(path, sizeof path));
  CHECK(!tli_cache_folder(path, 3));
  tli_environment_set("TLUA_CACHE", folder);
}

TEST(a_folder_that_cannot_be_written_is_no_error) {
  int64_t bytes;
  tli_environment_set("TLUA_CACHE", "/proc/nowhere/tlua");
  CHECK(!store("plan", "key", "data") && has_none("plan", "key"));
  CHECK(tli_cache_size(&bytes) == 0 && bytes == 0 && tl_error_kind() == TL_OK);
  char path[128];
  snprintf(path, sizeof path, "%s/deeper/still", folder);
  tli_environment_set("TLUA_CACHE", path);
  CHECK(store("plan", "key", "data") && has("plan", "key", "data"));
  tli_environment_set("TLUA_CACHE", folder);
}

/* Replaces an entry by the file that `command` makes. Returns whether the cache neither reads
** nor overwrites that file. No call may wait for the file. */
static bool is_left_alone(const char *command) {
  char path[128], line[512];
  empty();
  CHECK(store("plan", "key", "data"));
  only_entry(path, sizeof path);
  snprintf(line, sizeof line, command, path, path, folder);
  CHECK(system(line) == 0);
  alarm(60);
  bool alone = has_none("plan", "key") && !store("plan", "key", "more") && has_none("plan", "key");
  alarm(0);
  return alone && tl_error_kind() == TL_OK;
}

TEST(other_kinds_of_files_are_left_alone) {
  char path[128];
  CHECK(is_left_alone("rm %s && mkfifo %s"));
  CHECK(is_left_alone("rm %s && mkdir %s"));
  CHECK(is_left_alone("rm %s && ln -s /dev/full %s"));
  CHECK(is_left_alone("mv %s %s.there && cd %s && ln -s *.there $(basename *.there .there)"));
  snprintf(path, sizeof path, "grep -q data %s/*.there", folder);
  CHECK(system(path) == 0); /* fails if the cache followed the link */
}

TEST(files_that_others_may_write_are_not_read) {
  char path[128];
  empty();
  CHECK(store("plan", "key", "data"));
  only_entry(path, sizeof path);
  CHECK(chmod(path, 0666) == 0 && has_none("plan", "key"));
  CHECK(store("plan", "key", "data") && chmod(path, 0600) == 0 && has("plan", "key", "data"));
  CHECK(chmod(folder, 01777) == 0 && has_none("plan", "key") && !store("plan", "new", "data"));
  CHECK(chmod(folder, 0700) == 0 && has("plan", "key", "data") && has_none("plan", "new"));
  if (geteuid() != 0) return; /* only root can change a file's owner */
  CHECK(chown(path, 4711, (gid_t)-1) == 0 && has_none("plan", "key"));
  CHECK(chown(folder, 4711, (gid_t)-1) == 0 && !store("plan", "new", "data"));
  CHECK(chown(folder, 0, (gid_t)-1) == 0 && store("plan", "new", "data"));
}

/* Tests writes beyond a limit. By default the limit on file sizes would end the process with a
** signal, so the signal is ignored. */
TEST(a_limit_or_a_full_disk_is_no_error) {
  static char large[40000];
  struct rlimit before, low = {20000, 20000};
  empty();
  CHECK(store("plan", "key", "data") && getrlimit(RLIMIT_FSIZE, &before) == 0);
  low.rlim_max = before.rlim_max;
  memset(large, 'x', sizeof large - 1);
  CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
  CHECK(!store("plan", "key", large) && has("plan", "key", "data") && store("plan", "new", "data"));
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(store("plan", "key", large) && has("plan", "key", large));
}

enum { WRITERS = 4, ROUNDS = 200 };

/* Tests processes that store data under the same key at the same time. A reader finds the
** complete data of one process, or no entry. */
TEST(processes_store_under_one_key) {
  static char data[WRITERS][3000];
  empty();
  for (int i = 0; i < WRITERS; i++) memset(data[i], 'a' + i, (size_t)(1000 + 500 * i));
  for (int i = 0; i < WRITERS; i++) {
    if (fork() != 0) continue;
    bool good = true;
    for (int k = 0; k < ROUNDS; k++) {
      size_t n;
      (void)store("plan", "key", data[i]);
      char *found = tli_cache_load("plan", "key", 3, &n);
      int who = found && n > 0 ? found[0] - 'a' : 0;
      if (found)
        good = good && who >= 0 && who < WRITERS && n == strlen(data[who]) &&
               memcmp(found, data[who], n) == 0;
      if (found) tli_free(found, n);
    }
    _exit(good ? 0 : 1);
  }
  for (int i = 0; i < WRITERS; i++) {
    int status;
    CHECK(wait(&status) > 0 && status == 0);
  }
  char path[128];
  only_entry(path, sizeof path); /* only_entry fails if there is any other file */
}

/* Tests the size limit of the folder with a sparse file, which needs no space on the disk. */
TEST(the_oldest_files_are_removed_above_the_limit) {
  char path[128];
  int64_t bytes;
  empty();
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/%016d.code", folder, i);
    FILE *file = fopen(path, "wb");
    CHECK(file && ftruncate(fileno(file), TLI_CACHE_MOST / 5) == 0);
    fclose(file);
    snprintf(path, sizeof path, "touch -d @%d %s/%016d.code", 1000000 + (4 - i) * 10, folder, i);
    CHECK(system(path) == 0);
  }
  snprintf(path, sizeof path, "%s/notes.txt", folder);
  /* this file belongs to another program, so the cache must not remove it */
  FILE *notes = fopen(path, "wb");
  fclose(notes);
  CHECK(store("plan", "key", "data"));
  CHECK(tli_cache_size(&bytes) == 4 && bytes <= TLI_CACHE_MOST / 4 * 3 &&
        has("plan", "key", "data"));
  CHECK(access(path, F_OK) == 0);
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/%016d.code", folder, i);
    CHECK_AT(i, (access(path, F_OK) == 0) == (i < 3));
  }
}

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  tli_environment_set("TLUA_CACHE", folder);
  int status = test_all();
  empty();
  rmdir(folder);
  return status;
}
