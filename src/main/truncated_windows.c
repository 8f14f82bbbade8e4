/*
** truncated_windows.c - implements truncated.h for Windows, where files are read and not mapped.
*/
#include "main/truncated.h"

tli_TruncatedFn tli_truncated_catch(tli_TruncatedFn fn) {
  (void)fn;
  return 0;
}
