/*
** share_refused.h - the functions of share.h for a system on which tlua cannot share memory: all of
** them fail. The share_*.c file of that system includes this file, and defines the functions that
** wait.
*/
#ifndef TLI_SHARE_REFUSED_H
#define TLI_SHARE_REFUSED_H

#include "core/error.h"
#include "core/platform/share.h"

static bool refuse(void) {
  return tli_fail(TL_EIO, "memory shared between processes is not supported on this system");
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

#endif
