/*
** lost_windows.c - lost.h for Windows, where files are read and not mapped.
*/
#include "main/lost.h"

tli_LostFn tli_lost_catch(tli_LostFn fn) {
  (void)fn;
  return 0;
}
