/*
** folder_windows.c - implements folder.h with Windows calls.
*/
#define WIN32_LEAN_AND_MEAN
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0601
#endif

#include "core/platform/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

bool tli_folder_fail(void) {
  return tli_fail(TL_EIO, "the folder cannot be read or made (error %lu)", GetLastError());
}

static char kind_of(DWORD attributes) {
  if (!(attributes & FILE_ATTRIBUTE_DIRECTORY)) return 'f';
  return attributes & FILE_ATTRIBUTE_REPARSE_POINT ? 'l' : 'd';
}

static bool each(const char *pattern, tli_FolderEntry *take, void *context) {
  WIN32_FIND_DATAA entry;
  HANDLE search = FindFirstFileA(pattern, &entry);
  if (search == INVALID_HANDLE_VALUE) return tli_folder_fail();
  bool ok = true;
  do {
    const char *name = entry.cFileName;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
      ok = take(context, kind_of(entry.dwFileAttributes), name);
  } while (ok && FindNextFileA(search, &entry));
  FindClose(search);
  return ok;
}

bool tli_folder_each(const char *path, tli_FolderEntry *take, void *context) {
  size_t n = strlen(path);
  char *pattern = malloc(n + 3);
  if (pattern == NULL) return tli_fail(TL_EMEM, "out of memory for a path");
  memcpy(pattern, path, n);
  memcpy(pattern + n, "\\*", 3);
  bool ok = each(pattern, take, context);
  free(pattern);
  return ok;
}

bool tli_folder_make_one(const char *path) {
  if (CreateDirectoryA(path, NULL)) return true;
  DWORD error = GetLastError(), attributes = GetFileAttributesA(path);
  if (attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY) return true;
  SetLastError(error);
  return false;
}

char *tli_folder_absolute(const char *path) {
  char *full = _fullpath(NULL, path, 0);
  if (full == NULL) return tli_fail_null(TL_EIO, "%s: not a path", path);
  return full;
}

bool tli_folder_separates(char c) { return c == '/' || c == '\\'; }

bool tli_folder_file(const char *path, int64_t *bytes, int64_t *written) {
  WIN32_FILE_ATTRIBUTE_DATA info;
  if (!GetFileAttributesExA(path, GetFileExInfoStandard, &info) ||
      info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
    return false;
  *bytes = (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
  *written = (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 |
                       info.ftLastWriteTime.dwLowDateTime);
  return true;
}

bool tli_folder_own(const char *path) {
  (void)path;
  return true;
}

char *tli_folder_read_own(const char *path, int64_t most, size_t *bytes) {
  int64_t size, written;
  FILE *file = NULL;
  char *data = NULL;
  if (tli_folder_file(path, &size, &written) && size <= most) file = fopen(path, "rb");
  if (file) data = malloc((size_t)size + 1);
  if (data && fread(data, 1, (size_t)size, file) != (size_t)size) {
    free(data);
    data = NULL;
  }
  if (file) fclose(file);
  *bytes = (size_t)(data ? size : 0);
  return data;
}

bool tli_folder_may_write(const char *path, size_t bytes) {
  (void)bytes;
  DWORD attributes = GetFileAttributesA(path);
  return attributes == INVALID_FILE_ATTRIBUTES ||
         !(attributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT));
}
