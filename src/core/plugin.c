/*
** plugin.c - opens tlua_<name>.so, which lies beside the library or program that
** this code is in, or in a folder tlua there or in ../lib. TLUA_PLUGINS names
** another folder, the only one then. A plugin is never closed: its memory and
** threads live as long as the process.
*/
#define _GNU_SOURCE
#include "core/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"

#define PATH_BYTES 1024

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
};

/* The folder that this code was loaded from, "" if it cannot be told. */
static void own_folder(char *out) {
  Dl_info info;
  out[0] = '\0';
  if (!dladdr(&host, &info) || info.dli_fname == NULL) return;
  if (strchr(info.dli_fname, '/') == NULL) { /* a program found by PATH */
    ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
  } else {
    char *resolved = realpath(info.dli_fname, NULL);
    snprintf(out, PATH_BYTES, "%s", resolved ? resolved : info.dli_fname);
    free(resolved);
  }
  char *slash = strrchr(out, '/');
  *(slash ? slash : out) = '\0';
}

/* The first of the places that has the file; false if none has. */
static bool find(const char *name, char *path) {
  char folder[PATH_BYTES];
  static const char *const places[] = {"", "/tlua", "/../lib/tlua", "/../../tlua"};
  const char *given = getenv("TLUA_PLUGINS");
  int n = given ? 1 : (int)(sizeof places / sizeof *places);
  if (given)
    snprintf(folder, sizeof folder, "%s", given);
  else
    own_folder(folder);
  for (int i = 0; i < n; i++) {
    snprintf(path, 2 * PATH_BYTES, "%s%s/tlua_%s.so", folder, places[i], name);
    if (access(path, R_OK) == 0) return true;
  }
  snprintf(path, 2 * PATH_BYTES, "%s/tlua_%s.so", folder, name);
  return false;
}

static const tl_Backend *enter(const char *path, tl_PluginOpen open) {
  const tl_Plugin *plugin = open(&host);
  if (plugin == NULL) return NULL;
  if (plugin->hash == host.hash) return plugin->backend;
  return tli_fail_null(TL_EDEVICE, "%s belongs to another build of tlua", path);
}

const tl_Backend *tli_plugin_open(const char *name) {
  char path[2 * PATH_BYTES];
  if (!find(name, path)) return tli_fail_null(TL_EDEVICE, "there is no %s", path);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return tli_fail_null(TL_EDEVICE, "%s", dlerror());
  tl_PluginOpen open;
  void *entry = dlsym(library, TL_PLUGIN_ENTRY);
  memcpy(&open, &entry, sizeof open); /* ISO C knows no cast from data to function */
  if (open) return enter(path, open);
  return tli_fail_null(TL_EDEVICE, "%s is no plugin of tlua", path);
}
