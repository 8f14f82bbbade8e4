/*
** private_file_windows.c - the functions of private_file.h for Windows, where they always fail,
** because access rights are different there.
*/
#include "core/platform/private_file.h"

#include "core/error.h"

tli_PrivateFile tli_private_file_read(const char *path, char *out, size_t room) {
  (void)out, (void)room;
  tli_fail(TL_EIO, "%.300s: files for one user alone are not supported on Windows", path);
  return TLI_PRIVATE_REFUSED;
}

bool tli_private_file_write(const char *path, const void *data, size_t bytes) {
  (void)data, (void)bytes;
  return tli_fail(TL_EIO, "%.300s: files for one user alone are not supported on Windows", path);
}
