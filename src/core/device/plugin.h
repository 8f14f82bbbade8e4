/*
** plugin.h - opens the shared library behind a kind of device.
*/
#ifndef TLI_PLUGIN_H
#define TLI_PLUGIN_H

#include "core/device/backend.h"

/* The table of the plugin tlua_<name>.so; NULL with TL_EDEVICE, saying where it was
** looked for or why it does not do. To be called once for a name that succeeds. */
const tl_Backend *tli_plugin_open(const char *name) TL_MUSTCHECK;

#define TLI_PLUGIN_PATH 2048
/* Where tlua_<name>.so is; false, with where it should be, if it is nowhere. */
bool tli_plugin_path(const char *name, char path[TLI_PLUGIN_PATH]);

#endif
