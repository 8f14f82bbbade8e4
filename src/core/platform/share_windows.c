/*
** share_windows.c - implements share.h for Windows, where tlua does not share memory: memory can be
** neither made nor opened.
*/
#include "core/platform/share_refused.h"

#include <windows.h>

void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns) {
  if (atomic_load(word) == seen) Sleep(ns < 1000000 ? 0 : 1);
}

void tli_word_wake(atomic_uint *word) { (void)word; }
