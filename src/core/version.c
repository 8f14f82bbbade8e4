/*
** version.c - functions that return the library's version number and its features when a program
** runs.
*/
#include <string.h>

#include "core/device/backend.h"
#include "tlua.h"

const char *tl_version(void) { return TL_VERSION; }

static const char *const features[] = {
#ifndef TLI_RUNTIME
    "lua",
#endif
#if !defined TLI_INFER || defined TLI_TRAIN
    "training",
#endif
#if !defined TLI_INFER || defined TLI_RUNTIME
    "programs",
#endif
#ifndef TLI_INFER
    "distributed",
#endif
    NULL,
};

bool tl_has(const char *feature) {
  static const char *const kinds[] = {
#define X(name, text) text,
      TL_DEVICES(X)
#undef X
  };
  if (feature == NULL) return false;
  for (const char *const *f = features; *f; f++)
    if (strcmp(feature, *f) == 0) return true;
  for (int type = 0; type < TL_NDEVICETYPES; type++)
    if (strcmp(feature, kinds[type]) == 0) return tli_device_count((tl_DeviceType)type) > 0;
  return false;
}
