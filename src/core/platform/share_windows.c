/*
** share_windows.c - refuses the functions of share.h, which Windows does not support.
*/
#include "core/platform/share_refused.h"

#include <windows.h>

void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns) {
  if (atomic_load(word) == seen) Sleep(ns < 1000000 ? 0 : 1);
}

void tli_word_wake(atomic_uint *word) { (void)word; }
