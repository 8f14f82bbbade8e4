/*
** host.h - what the engine and a plugin hand each other when the plugin is opened: the functions of
** the engine that the plugin may call, and the plugin's table of its devices (backend.h). A plugin
** sees nothing else of the engine.
*/
#ifndef TLI_HOST_H
#define TLI_HOST_H

#include "core/device/backend.h"

/* Two builds fit together if this is the same in both: a hash of everything that
** they share. */
#define TL_PLUGIN_HASH ((uint64_t)TLK_HASH ^ sizeof(tl_Backend) ^ sizeof(tl_DeviceApi) << 20)

/* What a plugin may use of the engine. */
typedef struct tl_Host {
  uint64_t hash;
  const tl_Backend *cpu;
  void *(*alloc)(size_t bytes);
  void (*free)(void *block, size_t bytes);
  bool (*fail)(tl_ErrorKind kind, const char *format, ...);
  bool (*fault_fail)(const tlk_Fault *fault);
  const char *(*error)(void);
  tl_ErrorKind (*error_kind)(void);
  const char *(*running)(void); /* the operator that the calling thread is in */
  int64_t (*setting)(tl_Setting which);
  /* Has garbage that may hold tensors collected. To be called without a lock: tensors are freed,
  ** and a finalizer may call operators. */
  void (*collect)(void);
  /* What is kept on disk (disk_cache.h). */
  void *(*cache_load)(const char *kind, const void *key, size_t key_bytes, size_t *bytes);
  bool (*cache_store)(const char *kind, const void *key, size_t key_bytes, const void *data,
                      size_t bytes);
  /* Tells what became of memory, in the thread that had it done; may be called under
  ** the allocator's lock. Cheap unless somebody records the history. */
  void (*memory_event)(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                       int64_t stream_id);
} tl_Host;

typedef struct tl_Plugin {
  uint64_t hash; /* stays the first member in all versions to come */
  const tl_Backend *backend;
} tl_Plugin;

/* The one function that a plugin exports, under this name. The plugin's table
** stays valid for good; NULL, with a message by host->fail, where the plugin finds
** no device. Called once. */
#define TL_PLUGIN_ENTRY "tlua_plugin_open"
typedef const tl_Plugin *(*tl_PluginOpen)(const tl_Host *host);
TL_API const tl_Plugin *tlua_plugin_open(const tl_Host *host);

#endif
