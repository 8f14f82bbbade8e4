/*
** host.h - the data that the engine and a plugin exchange when the plugin is opened: the functions
** of the engine that the plugin may call, and the plugin's table of its devices (backend.h). A
** plugin sees nothing else of the engine.
*/
#ifndef TLI_HOST_H
#define TLI_HOST_H

#include "core/device/backend.h"

/* A hash of all declarations that the engine and plugins share. A plugin fits the engine if their
** hashes are equal. */
#define TL_PLUGIN_HASH ((uint64_t)TLK_HASH ^ sizeof(tl_Backend) ^ sizeof(tl_DeviceApi) << 20)

/* The functions of the engine that a plugin may use. */
typedef struct tl_Host {
  uint64_t hash;
  const tl_Backend *cpu;
  void *(*alloc)(size_t bytes);
  void (*free)(void *block, size_t bytes);
  bool (*fail)(tl_ErrorKind kind, const char *format, ...);
  bool (*fault_fail)(const tlk_Fault *fault);
  const char *(*error)(void);
  tl_ErrorKind (*error_kind)(void);
  const char *(*running)(void); /* Returns the name of the operator that the calling thread runs. */
  int64_t (*setting)(tl_Setting which);
  /* The functions of the cache on disk (disk_cache.h). */
  void *(*cache_load)(const char *kind, const void *key, size_t key_bytes, size_t *bytes);
  bool (*cache_store)(const char *kind, const void *key, size_t key_bytes, const void *data,
                      size_t bytes);
  /* Reports a memory event, in the thread that caused it; may be called with the allocator's lock
  ** held. The call is fast unless a history is recorded. */
  void (*memory_event)(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                       int64_t stream_id);
} tl_Host;

typedef struct tl_Plugin {
  /* the hash TL_PLUGIN_HASH; this member comes first in every version of the plugin interface */
  uint64_t hash;
  const tl_Backend *backend;
} tl_Plugin;

/* The name of a plugin's only exported function. The engine calls the function once. It returns the
** plugin's table, which stays valid forever, or NULL with a message (host->fail) if no device is
** found. */
#define TL_PLUGIN_ENTRY "tlua_plugin_open"
typedef const tl_Plugin *(*tl_PluginOpen)(const tl_Host *host);
TL_API const tl_Plugin *tlua_plugin_open(const tl_Host *host);

#endif
