/*
** plugin.h - opens the shared library behind a kind of device.
*/
#ifndef TLI_PLUGIN_H
#define TLI_PLUGIN_H

#include "core/backend.h"

/* The table of the plugin tlua_<name>.so; NULL with TL_EDEVICE, saying where it was
** looked for or why it does not do. To be called once for a name that succeeds. */
const tl_Backend *tli_plugin_open(const char *name) TL_MUSTCHECK;

#endif
