/*
** version.c - the library's version, for hosts that load it at run time.
*/
#include "tlua.h"

const char *tl_version(void) { return TL_VERSION; }
