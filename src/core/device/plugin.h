/*
** plugin.h - opens the plugin of a kind of device.
*/
#ifndef TLI_PLUGIN_H
#define TLI_PLUGIN_H

#include "core/device/backend.h"

/* Returns the table of the plugin tlua_<name>.so. On failure returns NULL with TL_EDEVICE, and
** says where it was searched or why it cannot be used. Call it only once for a name that
** succeeds. */
const tl_Backend *tli_plugin_open(const char *name) TL_MUSTCHECK;

#define TLI_PLUGIN_PATH 2048
/* Writes the path of tlua_<name>.so; returns false, with the expected path, if it does not
** exist. */
bool tli_plugin_path(const char *name, char path[TLI_PLUGIN_PATH]);

#endif
