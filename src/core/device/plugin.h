/*
** plugin.h - opens the plugin for a kind of device.
*/
#ifndef TLI_PLUGIN_H
#define TLI_PLUGIN_H

#include "core/device/backend.h"

/* Returns the table of the plugin tlua_<name>.so. On failure returns NULL with TL_EDEVICE; the
** message says where the plugin is expected, or why it cannot be used. After a success, the caller
** must not open the same name again. */
const tl_Backend *tli_plugin_open(const char *name) TL_MUSTCHECK;

#define TLI_PLUGIN_PATH 2048
/* Writes the path of the plugin tlua_<name>.so. If there is no such file, writes the path where the
** file is expected and returns false. */
bool tli_plugin_path(const char *name, char path[TLI_PLUGIN_PATH]);

#endif
