/*
** share_windows.c - refuses the functions of share.h, which Windows does not support.
*/
#include "core/platform/share.h"

#include <windows.h>

#include "core/error.h"

static bool refuse(void) {
  return tli_fail(TL_EIO, "memory shared between processes is not supported on  Windows");
}

bool tli_share_make(tli_Share *share, size_t bytes, char name[TLI_SHARE_NAME]) {
  (void)bytes, (void)name;
  share->data = NULL;
  return refuse();
}

bool tli_share_open(tli_Share *share, const char *name, size_t bytes) {
  (void)bytes, (void)name;
  share->data = NULL;
  return refuse();
}

void tli_share_close(tli_Share *share) { (void)share; }
void tli_share_hide(tli_Share *share) { (void)share; }

bool tli_share_claim(const tli_Share *share, int place) {
  (void)share, (void)place;
  return false;
}

bool tli_share_claimed(const tli_Share *share, int place) {
  (void)share, (void)place;
  return false;
}

void tli_word_wait(atomic_uint *word, unsigned seen, int64_t ns) {
  if (atomic_load(word) == seen) Sleep(ns < 1000000 ? 0 : 1);
}

void tli_word_wake(atomic_uint *word) { (void)word; }
