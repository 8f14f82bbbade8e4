/*
** nvidia.c - NVIDIA's libraries beside CUDA: NVML reports statistics of the machine's GPUs, and
** NVTX marks ranges of a program for the profiler Nsight. Each library is opened when it is first
** needed. If the library is missing, the functions that need it raise Lua errors that say so.
*/
#include <stdio.h>
#include <string.h>

#include "core/platform/optional.h"
#include "core/platform/platform.h"
#include "lua/devices/device_module.h"

/* ---- libraries --------------------------------------------------------------------- */

typedef struct Library {
  tli_OptionalId id;
  tli_Mutex lock;
  void *handle; /* guarded */
} Library;

static void *open_library(lua_State *L, Library *library, const char *name) {
  tli_mutex_lock(&library->lock);
  if (library->handle == NULL) library->handle = tli_optional_open(library->id, NULL);
  void *handle = library->handle;
  tli_mutex_unlock(&library->lock);
  if (handle == NULL)
    tli_error(L, "%s: %s was not found; %s", tli_device_name(tli_kind(L), name),
              tli_optional[library->id].files[0], tli_optional[library->id].get);
  return handle;
}

/* Stores the address of a library's function in the function pointer at `out`, of `size` bytes. */
static void find(lua_State *L, Library *library, const char *name, const char *symbol, void *out,
                 size_t size) {
  void *found = tli_library_symbol(open_library(L, library, name), symbol);
  if (found == NULL)
    tli_error(L, "%s: %s has no %s", tli_device_name(tli_kind(L), name),
              tli_optional[library->id].files[0], symbol);
  memcpy(out, &found, size);
}

/* ---- NVML -------------------------------------------------------------------------- */

static Library nvml = {TLI_OPTIONAL_NVML, TLI_MUTEX_INIT, NULL};

/* The following types are those of nvml.h. */
typedef struct NvmlUtilization {
  /* percentages of the time in which the GPU, and its memory, were busy */
  unsigned gpu, memory;
} NvmlUtilization;
typedef struct NvmlMemory {
  unsigned long long total, free, used;
} NvmlMemory;
typedef struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} NvmlProcess;
enum { NVML_CLOCK_SM = 1, NVML_INSUFFICIENT_SIZE = 7 };

/* Raises an error with NVML's message if `result`, which an NVML function has returned, is not
** 0. */
static void check_nvml(lua_State *L, const char *name, int result) {
  const char *(*words)(int);
  if (result == 0) return;
  find(L, &nvml, name, "nvmlErrorString", &words, sizeof words);
  tli_error(L, "%s: NVML: %s", tli_device_name(tli_kind(L), name), words(result));
}

/* Returns NVML's handle of a device. NVML's device numbers differ from CUDA's if
** CUDA_VISIBLE_DEVICES hides or reorders devices. */
static void *nvml_device(lua_State *L, const char *name) {
  int (*init)(void), (*by_uuid)(const char *uuid, void **device);
  tl_DeviceProperties p;
  char uuid[sizeof p.uuid + 8];
  void *handle = NULL;
  tl_Device device = tli_last_device(L, 1, name);
  if (!tli_api(device)->properties(device.index, &p)) tli_device_fail(L, tli_kind(L), name);
  find(L, &nvml, name, "nvmlInit_v2", &init, sizeof init);
  check_nvml(L, name, init());
  find(L, &nvml, name, "nvmlDeviceGetHandleByUUID", &by_uuid, sizeof by_uuid);
  snprintf(uuid, sizeof uuid, "GPU-%s", p.uuid);
  check_nvml(L, name, by_uuid(uuid, &handle));
  return handle;
}

static NvmlUtilization utilization_of(lua_State *L, const char *name) {
  int (*rates)(void *device, NvmlUtilization *out);
  NvmlUtilization u = {0, 0};
  void *device = nvml_device(L, name);
  find(L, &nvml, name, "nvmlDeviceGetUtilizationRates", &rates, sizeof rates);
  check_nvml(L, name, rates(device, &u));
  return u;
}

static int nvml_utilization(lua_State *L) {
  lua_pushinteger(L, utilization_of(L, "utilization").gpu);
  return 1;
}

static int nvml_memory_usage(lua_State *L) {
  lua_pushinteger(L, utilization_of(L, "memory_usage").memory);
  return 1;
}

static int nvml_temperature(lua_State *L) {
  int (*temperature)(void *device, int sensor, unsigned *out);
  unsigned degrees = 0;
  void *device = nvml_device(L, "temperature");
  find(L, &nvml, "temperature", "nvmlDeviceGetTemperature", &temperature, sizeof temperature);
  check_nvml(L, "temperature", temperature(device, 0, &degrees));
  lua_pushinteger(L, degrees);
  return 1;
}

static int nvml_power_draw(lua_State *L) {
  int (*power)(void *device, unsigned *out);
  unsigned milliwatts = 0;
  void *device = nvml_device(L, "power_draw");
  find(L, &nvml, "power_draw", "nvmlDeviceGetPowerUsage", &power, sizeof power);
  check_nvml(L, "power_draw", power(device, &milliwatts));
  lua_pushinteger(L, milliwatts);
  return 1;
}

static int nvml_clock_rate(lua_State *L) {
  int (*clock)(void *device, int which, unsigned *out);
  unsigned megahertz = 0;
  void *device = nvml_device(L, "clock_rate");
  find(L, &nvml, "clock_rate", "nvmlDeviceGetClockInfo", &clock, sizeof clock);
  check_nvml(L, "clock_rate", clock(device, NVML_CLOCK_SM, &megahertz));
  lua_pushinteger(L, megahertz);
  return 1;
}

static int nvml_memory_used(lua_State *L) {
  int (*memory)(void *device, NvmlMemory *out);
  NvmlMemory m = {0, 0, 0};
  void *device = nvml_device(L, "device_memory_used");
  find(L, &nvml, "device_memory_used", "nvmlDeviceGetMemoryInfo", &memory, sizeof memory);
  check_nvml(L, "device_memory_used", memory(device, &m));
  lua_pushinteger(L, (lua_Integer)m.used);
  return 1;
}

/* _gpu_processes(device) returns the list {pid, bytes, pid, bytes, ...}: the id of each process and
** the number of bytes that it uses, or -1 if NVML does not know the number. */
static int nvml_processes(lua_State *L) {
  static const char name[] = "list_gpu_processes";
  enum { MOST = 256 };
  int (*processes)(void *device, unsigned *count, NvmlProcess *out);
  NvmlProcess all[MOST];
  unsigned count = MOST;
  void *device = nvml_device(L, name);
  find(L, &nvml, name, "nvmlDeviceGetComputeRunningProcesses_v3", &processes, sizeof processes);
  int result = processes(device, &count, all);
  if (result == NVML_INSUFFICIENT_SIZE)
    count = MOST;
  else
    check_nvml(L, name, result);
  lua_createtable(L, (int)(2 * count), 0);
  for (unsigned i = 0; i < count && i < MOST; i++) {
    lua_pushinteger(L, all[i].pid);
    lua_rawseti(L, -2, 2 * (lua_Integer)i + 1);
    lua_pushinteger(L, (lua_Integer)all[i].bytes);
    lua_rawseti(L, -2, 2 * (lua_Integer)i + 2);
  }
  return 1;
}

/* ---- NVTX -------------------------------------------------------------------------- */

static Library nvtx = {TLI_OPTIONAL_NVTX, TLI_MUTEX_INIT, NULL};

static const char *check_message(lua_State *L, const char *name) {
  const char *text = tli_to_word(L, 1);
  if (text == NULL) tli_device_refuse(L, tli_kind(L), name, "msg", "a string", 1);
  return text;
}

/* range_push(message) opens a range, and returns the number of ranges that were open in this thread
** before. */
static int nvtx_range_push(lua_State *L) {
  int (*push)(const char *);
  const char *text = check_message(L, "nvtx.range_push");
  find(L, &nvtx, "nvtx.range_push", "nvtxRangePushA", &push, sizeof push);
  lua_pushinteger(L, push(text));
  return 1;
}

static int nvtx_range_pop(lua_State *L) {
  tli_only(L, 0, "nvtx.range_pop");
  int (*pop)(void);
  find(L, &nvtx, "nvtx.range_pop", "nvtxRangePop", &pop, sizeof pop);
  lua_pushinteger(L, pop());
  return 1;
}

static int nvtx_range_start(lua_State *L) {
  uint64_t (*start)(const char *);
  const char *text = check_message(L, "nvtx.range_start");
  find(L, &nvtx, "nvtx.range_start", "nvtxRangeStartA", &start, sizeof start);
  lua_pushinteger(L, (lua_Integer)start(text));
  return 1;
}

static int nvtx_range_end(lua_State *L) {
  void (*end)(uint64_t);
  int64_t id;
  if (!tli_to_whole(L, 1, &id))
    return tli_device_refuse(L, tli_kind(L), "nvtx.range_end", "range_id",
                             "a result of range_start", 1);
  find(L, &nvtx, "nvtx.range_end", "nvtxRangeEnd", &end, sizeof end);
  end((uint64_t)id);
  return 0;
}

static int nvtx_mark(lua_State *L) {
  void (*mark)(const char *);
  const char *text = check_message(L, "nvtx.mark");
  find(L, &nvtx, "nvtx.mark", "nvtxMarkA", &mark, sizeof mark);
  mark(text);
  return 0;
}

/* ---- opening ----------------------------------------------------------------------- */

const luaL_Reg tli_nvidia_functions[] = {
    {"utilization", nvml_utilization},  {"memory_usage", nvml_memory_usage},
    {"temperature", nvml_temperature},  {"power_draw", nvml_power_draw},
    {"clock_rate", nvml_clock_rate},    {"device_memory_used", nvml_memory_used},
    {"_gpu_processes", nvml_processes}, {NULL, NULL}};

const luaL_Reg tli_nvtx_functions[] = {{"range_push", nvtx_range_push},
                                       {"range_pop", nvtx_range_pop},
                                       {"range_start", nvtx_range_start},
                                       {"range_end", nvtx_range_end},
                                       {"mark", nvtx_mark},
                                       {NULL, NULL}};
