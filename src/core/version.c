/*
** version.c - the library's version number, for programs that load the library at run time.
*/
#include "tlua.h"

const char *tl_version(void) { return TL_VERSION; }
