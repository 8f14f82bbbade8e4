/*
** output_windows.c - the functions of output.h: tli_output_capture fails, and the others do
** nothing.
*/
#include "core/platform/output.h"

int tli_output_capture(int fd, FILE *file, int *end) {
  (void)fd, (void)file;
  *end = -1;
  (void)tli_fail(TL_EIO, "output cannot be captured on Windows");
  return -1;
}

void tli_output_release(int fd, int previous) { (void)fd, (void)previous; }

int64_t tli_output_take(int end, void *data, size_t bytes) {
  (void)end, (void)data, (void)bytes;
  return 0;
}

void tli_output_put(int fd, const char *text, size_t bytes) { (void)fd, (void)text, (void)bytes; }
void tli_output_interrupt(void) {}
