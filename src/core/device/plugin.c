/*
** plugin.c - opens tlua_<name>.so. The engine looks for the file in the folder of the library or
** program that contains this code, and in these folders relative to it: tlua, ../lib/tlua,
** ../lib/TRIPLET/tlua (where Debian puts libraries; TRIPLET is, for example, x86_64-linux-gnu),
** ../lib64/tlua and ../../tlua. If TLUA_PLUGINS names a folder, the engine looks only there. A
** plugin is never closed: its memory and threads live as long as the process.
*/
#include "core/device/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/host.h"
#include "core/device/running.h"
#include "core/device/settings.h"
#include "core/memory/alloc.h"
#include "core/device/disk_cache.h"
#include "core/observe/history.h"
#include "core/platform/platform.h"

#define PATH_BYTES (TLI_PLUGIN_PATH / 2)

/* the Makefile asks the compiler for the triplet; if it has none, there is no such folder */
#ifndef TLI_MULTIARCH
#define TLI_MULTIARCH ""
#endif

static const tl_Host host = {
    .hash = TL_PLUGIN_HASH,
    .cpu = &tlk_cpu_backend,
    .alloc = tli_alloc,
    .free = tli_free,
    .fail = tli_fail,
    .fault_fail = tli_fault_fail,
    .error = tl_error,
    .error_kind = tl_error_kind,
    .running = tli_operator,
    .setting = tli_setting,
    .cache_load = tli_cache_load,
    .cache_store = tli_cache_store,
    .memory_event = tli_memory_event,
};

/* Writes the folder that this code was loaded from, or "" if it is unknown. */
static void own_folder(char *out) {
  tli_library_path(&host, out, PATH_BYTES);
  char *slash = strrchr(out, '/');
  *(slash ? slash : out) = '\0';
}

static bool readable(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file) fclose(file);
  return file != NULL;
}

bool tli_plugin_path(const char *name, char path[TLI_PLUGIN_PATH]) {
  char folder[PATH_BYTES];
  static const char *const places[] = {
      "",           "/tlua", "/../lib/tlua", "/../lib/" TLI_MULTIARCH "/tlua", "/../lib64/tlua",
      "/../../tlua"};
  const char *given = getenv("TLUA_PLUGINS");
  int n = given ? 1 : (int)(sizeof places / sizeof *places);
  if (given)
    snprintf(folder, sizeof folder, "%s", given);
  else
    own_folder(folder);
  for (int i = 0; i < n; i++) {
    snprintf(path, TLI_PLUGIN_PATH, "%s%s/tlua_%s" TLI_LIBRARY_SUFFIX, folder, places[i], name);
    if (readable(path)) return true;
  }
  snprintf(path, TLI_PLUGIN_PATH, "%s/tlua_%s" TLI_LIBRARY_SUFFIX, folder, name);
  return false;
}

static const tl_Backend *enter(const char *path, tl_PluginOpen open) {
  const tl_Plugin *plugin = open(&host);
  if (plugin == NULL) return NULL;
  if (plugin->hash == host.hash) return plugin->backend;
  return tli_fail_null(TL_EDEVICE, "%s belongs to another build of tlua", path);
}

const tl_Backend *tli_plugin_open(const char *name) {
  char path[TLI_PLUGIN_PATH];
  if (!tli_plugin_path(name, path))
    return tli_fail_null(TL_EDEVICE, "there is no %s%s", path,
                         strcmp(name, "cuda") == 0 ? ": build tlua where CUDA's nvcc is" : "");
  if (!tli_library_whole(path)) return tli_fail_null(TL_EDEVICE, "%s is cut short", path);
  void *library = tli_library_open(path);
  if (library == NULL) return tli_fail_null(TL_EDEVICE, "%s", tli_library_error());
  tl_PluginOpen open;
  void *entry = tli_library_symbol(library, TL_PLUGIN_ENTRY);
  /* ISO C has no cast from a data pointer to a function pointer */
  memcpy(&open, &entry, sizeof open);
  if (open) return enter(path, open);
  return tli_fail_null(TL_EDEVICE, "%s is no plugin of tlua", path);
}
