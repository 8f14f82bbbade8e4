/*
** replace_test.c - tests replace.h, which saves a file under a temporary name and then renames it.
** The tests check which files remain if the program is killed just before the rename, and when they
** are removed. This test has its own rename, so that it can do something just before the renaming.
*/
#include "core/platform/replace.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static void (*before_rename)(void);
int rename(const char *from, const char *to) {
  void (*event)(void) = before_rename;
  before_rename = NULL;
  if (event) event();
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

#ifdef __linux__
#include <errno.h>
#include <sys/syscall.h>
/* If true, the file system seems to have no unnamed files (O_TMPFILE). */
static bool no_links;
int linkat(int from, const char *old, int to, const char *name, int flags) {
  errno = EPERM;
  return no_links ? -1 : (int)syscall(SYS_linkat, from, old, to, name, flags);
}
#endif

static char folder[] = "/tmp/tlua-XXXXXX";
static char path[64];

static const char *in_folder(const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static bool save(const char *name, const char *text) {
  bool again = true;
  while (again) {
    tli_Replace *r = tli_replace_begin(in_folder(name), false);
    if (r == NULL) return false;
    fputs(text, tli_replace_file(r));
    if (tli_replace_commit(r, &again)) return true;
  }
  return false;
}

/* Returns the number of files in the folder, and sets *temporary to the number of temporary
** files among them. */
static int count(int *temporary) {
  int all = 0;
  *temporary = 0;
  DIR *entries = opendir(folder);
  for (struct dirent *e; entries && (e = readdir(entries)) != NULL;) {
    all += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    *temporary += strncmp(e->d_name, ".tlua-", 6) == 0;
  }
  if (entries) closedir(entries);
  return all;
}

static bool contains(const char *name, const char *text) {
  char found[64] = "";
  FILE *file = fopen(in_folder(name), "rb");
  if (file == NULL) return false;
  size_t n = fread(found, 1, sizeof found - 1, file);
  fclose(file);
  return n == strlen(text) && memcmp(found, text, n) == 0;
}

static void die(void) { kill(getpid(), SIGKILL); }

/* Saves a file in a child process, which calls `event` just before the rename. Returns the
** child's status. */
static int save_elsewhere(const char *name, const char *text, void (*event)(void)) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    before_rename = event;
    _exit(save(name, text) ? 0 : 1);
  }
  waitpid(child, &status, 0);
  return status;
}

TEST(files_of_a_killed_process_are_removed) {
  int temporary;
  unlink(in_folder("other"));
  CHECK(save("file", "old"));
  for (int i = 0; i < 3; i++) CHECK(WTERMSIG(save_elsewhere("file", "lost", die)) == SIGKILL);
  CHECK(count(&temporary) == 4 && temporary == 3);
  CHECK(contains("file", "old"));
  CHECK(save("other", "new"));
  CHECK(count(&temporary) == 2 && temporary == 0);
  CHECK(contains("file", "old") && contains("other", "new"));
}

static int meanwhile;
static void others_save(void) {
  meanwhile = save_elsewhere("file", "theirs", NULL);
  meanwhile |= save_elsewhere("other", "theirs", NULL);
}

TEST(a_file_being_saved_is_kept) {
  int temporary;
  meanwhile = -1;
  before_rename = others_save;
  CHECK(save("file", "ours"));
  CHECK(meanwhile == 0);
  CHECK(contains("file", "ours") && contains("other", "theirs"));
  CHECK(count(&temporary) == 2 && temporary == 0);
}

static bool make(const char *name) {
  int fd = open(in_folder(name), O_CREAT | O_EXCL | O_WRONLY, 0600);
  return fd >= 0 && close(fd) == 0;
}

/* Repeats the tests. By now the library knows that the file system has no unnamed files, so it uses
** names from the start. */
TEST(names_from_the_start) {
#ifdef __linux__
  no_links = true;
#endif
  files_of_a_killed_process_are_removed();
  a_file_being_saved_is_kept();
}

/* This test must be the last one, because it leaves files behind. */
TEST(no_other_file_is_removed) {
  static const char *const others[] = {".tlua-notes.tmp", ".tlua-1-2-3.tmpx", ".tlua-1-2.tmp",
                                       "x.tlua-1-2-3.tmp"};
  int temporary;
  CHECK(save("file", "old") && save("other", "old"));
  for (int i = 0; i < 4; i++) CHECK_AT(i, make(others[i]));
  CHECK(mkdir(in_folder(".tlua-1-2-3.tmp"), 0700) == 0);
  CHECK(symlink("file", in_folder(".tlua-1-2-4.tmp")) == 0);
  CHECK(make(".tlua-1-2-5.tmp"));
  int held = open(in_folder(".tlua-1-2-5.tmp"), O_RDONLY);
  CHECK(held >= 0 && flock(held, LOCK_EX) == 0);
  CHECK(save("file", "new"));
  CHECK(count(&temporary) == 9);
  close(held);
  CHECK(save("file", "newer"));
  CHECK(count(&temporary) == 8);
  CHECK(contains("file", "newer") && access(in_folder(".tlua-1-2-5.tmp"), F_OK) != 0);
}

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  int status = test_all();
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) != 0 || status;
}
