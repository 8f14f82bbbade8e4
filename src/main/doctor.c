/*
** doctor.c - implements `tlua doctor`, which reports the libraries and devices that tlua finds on
** this machine, and those that are missing.
**
** The report searches for each library in the places where the engine searches, and then queries
** its version. It leaves the libraries open, since some cannot be closed and the process ends soon.
** torch.config() tells which of the libraries the engine has chosen.
*/
#include "main/doctor.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/backend.h"
#include "core/device/disk_cache.h"
#include "core/platform/folder.h"
#include "core/platform/optional.h"
#include "core/platform/platform.h"
#include "main/edit.h"
#include "main/globals.h"
#include "tlua.h"

enum { TEXT = 256 };

static void print_found(const char *what, const char *text) {
  printf("  found    %-18s %s\n", what, text);
}

static void print_missing(const char *what, const char *gives, const char *get) {
  printf("  missing  %-18s %s\n%-30s%s\n", what, gives, "", get);
}

/* ---- versions: each library tells its own in its own way ----------------------- */

static void *find(void *library, const char *name, void *pointer) {
  void *symbol = tli_library_symbol(library, name);
  memcpy(pointer, &symbol, sizeof symbol);
  return symbol;
}

/* Writes CUDA's version: cuDriverGetVersion(&n) gives n = 1000 * major + 10 * minor, and needs no
** GPU. */
static void cuda_version(void *library, char text[TEXT]) {
  int (*version)(int *);
  int n = 0;
  if (find(library, "cuDriverGetVersion", &version) && version(&n) == 0 && n > 0)
    snprintf(text, TEXT, "for CUDA %d.%d", n / 1000, n % 1000 / 10);
}

/* Writes the version of cuBLASLt, which encodes it as 10000 * major + 100 * minor + patch. */
static void cublaslt_version(void *library, char text[TEXT]) {
  size_t (*version)(void);
  if (!find(library, "cublasLtGetVersion", &version)) return;
  size_t n = version();
  snprintf(text, TEXT, "%zu.%zu.%zu", n / 10000, n % 10000 / 100, n % 100);
}

static void cudnn_version(void *library, char text[TEXT]) {
  size_t (*version)(void);
  if (!find(library, "cudnnGetVersion", &version)) return;
  size_t n = version();
  snprintf(text, TEXT, "%zu.%zu.%zu", n / 10000, n % 10000 / 100, n % 100);
}

/* Writes cuSOLVER's version. Its properties 0, 1 and 2 (enum libraryPropertyType) are the major
** version, the minor version and the patch level. */
static void cusolver_version(void *library, char text[TEXT]) {
  int (*property)(int, int *);
  int n[3] = {0, 0, 0};
  if (!find(library, "cusolverGetProperty", &property)) return;
  for (int i = 0; i < 3; i++)
    if (property(i, &n[i]) != 0) return;
  snprintf(text, TEXT, "%d.%d.%d", n[0], n[1], n[2]);
}

static void nvrtc_version(void *library, char text[TEXT]) {
  int (*version)(int *, int *);
  int major, minor;
  if (find(library, "nvrtcVersion", &version) && version(&major, &minor) == 0)
    snprintf(text, TEXT, "%d.%d", major, minor);
}

/* Writes NCCL's version, which is encoded as 10000 * major + 100 * minor + patch since NCCL 2.9. */
static void nccl_version(void *library, char text[TEXT]) {
  int (*version)(int *);
  int n = 0;
  if (find(library, "ncclGetVersion", &version) && version(&n) == 0)
    snprintf(text, TEXT, "%d.%d.%d", n / 10000, n % 10000 / 100, n % 100);
}

/* Writes MPI's version. MPI_Get_library_version may be called before MPI_Init. Only the first line
** of its text is used, because the text may have several lines. */
static void mpi_version(void *library, char text[TEXT]) {
  enum { LONGEST = 8192 }; /* MPICH's value of MPI_MAX_LIBRARY_VERSION_STRING */
  static char version[LONGEST + 1];
  int (*get)(char *, int *);
  int length = 0;
  if (!find(library, "MPI_Get_library_version", &get) || get(version, &length) != 0) return;
  snprintf(text, TEXT, "%.*s", (int)strcspn(version, ",\n"), version);
}

/* ---- libraries --------------------------------------------------------------------- */

/* The function that queries the version of each library in the report; NULL if the library has no
** such function. Other code reports BLAS and the library that edits lines at the prompt. */
static void (*const versions[TLI_NOPTIONAL])(void *library, char text[TEXT]) = {
    [TLI_OPTIONAL_CUDA] = cuda_version,   [TLI_OPTIONAL_CUBLASLT] = cublaslt_version,
    [TLI_OPTIONAL_CUDNN] = cudnn_version, [TLI_OPTIONAL_CUSOLVER] = cusolver_version,
    [TLI_OPTIONAL_NVRTC] = nvrtc_version, [TLI_OPTIONAL_NCCL] = nccl_version,
    [TLI_OPTIONAL_MPI] = mpi_version,
};

static void report_missing(tli_OptionalId id) {
  const tli_Optional *library = &tli_optional[id];
  print_missing(library->name, library->use, library->get);
}

static void report_library(tli_OptionalId id) {
  const char *file;
  void *handle = tli_optional_open(id, &file);
  if (handle == NULL) {
    report_missing(id);
    return;
  }
  char version[TEXT] = "";
  if (versions[id]) versions[id](handle, version);
  char text[2 * TEXT];
  snprintf(text, sizeof text, "%s%s(%s)", version, version[0] ? " " : "", file);
  print_found(tli_optional[id].name, text);
}

static void report_editing(void) {
  const char *file = tli_edit_library();
  if (file)
    print_found(tli_optional[TLI_OPTIONAL_EDIT].name, file);
  else
    report_missing(TLI_OPTIONAL_EDIT);
}

/* ---- the engine ------------------------------------------------------------------------ */

/* Pushes the result of torch.config(). */
static void push_config(lua_State *L) {
  tli_globals_require(L, "tlua");
  lua_getfield(L, -1, "config");
  lua_call(L, 0, 1);
}

static const char *field(lua_State *L, int config, const char *name) {
  lua_getfield(L, config, name);
  return luaL_tolstring(L, -1, NULL);
}

static void report_engine(lua_State *L) {
  push_config(L);
  int config = lua_gettop(L);
  const char *isa = field(L, config, "cpu_isa"), *wish = getenv("TLUA_ISA");
  print_found("instruction set", isa);
  if (wish != NULL && strcmp(wish, isa) != 0)
    print_missing(
        wish, "wanted by TLUA_ISA",
        "not built (x86-64-v2, -v3 and -v4 are, for x86) or more than this processor has");
  print_found("threads", lua_pushfstring(L, "%s, processors: %d", field(L, config, "threads"),
                                         tli_processors()));
  const char *blas = field(L, config, "blas");
  if (strncmp(blas, "none", 4) == 0)
    report_missing(TLI_OPTIONAL_BLAS);
  else
    print_found("BLAS", blas);
}

/* ---- devices ---------------------------------------------------------------------------- */

static void report_device(tl_DeviceType type, const char *gives) {
  char what[TEXT], text[2 * TEXT];
  tl_DeviceProperties first;
  int count = tli_device_count(type);
  snprintf(what, sizeof what, "device %s", tli_device_type_name((int)type));
  if (count == 0 || !tli_backend((tl_Device){(int8_t)type, 0})->device->properties(0, &first)) {
    print_missing(what, gives, tl_error());
    return;
  }
  snprintf(text, sizeof text, "%d: the first is %s, %.0f MB", count, first.name,
           (double)first.total_memory / 1e6);
  print_found(what, text);
}

/* Reports whether the GPU can map memory on demand, and whether the run-time compiler has the
** version of the compiler that made the library's kernels. Only with equal versions do fused
** kernels give bitwise equal results. */
static void report_cuda(void) {
  tl_Device first = {TL_CUDA, 0};
  tl_MemoryStats stats;
  const tl_Backend *backend = tli_device_count(TL_CUDA) > 0 ? tli_backend_open(first) : NULL;
  if (backend == NULL || !backend->device->memory_stats(first, &stats)) return;
  if (stats.expandable_segments)
    print_found("GPU memory", "mapped on demand");
  else
    print_missing("GPU memory", "mapped on demand, which leaves fewer unusable gaps",
                  "the driver has no virtual memory, or TLUA_CUDA_ALLOCATOR asks for cudaMalloc");
  int64_t built = backend->device->library_version("cuda");
  int64_t compiler = backend->device->library_version("nvrtc");
  if (compiler == built)
    print_found("fused kernels", "with the bits of single ones");
  else
    print_missing("fused kernels", "elementwise operators of a graph as one kernel, bit for bit",
                  compiler == 0 ? "there is no NVRTC" : "NVRTC is not as old as this build's CUDA");
}

static void report_cache(void) {
  char folder[4 * TEXT], text[5 * TEXT];
  int64_t bytes;
  int files = tli_cache_size(&bytes);
  if (!tli_cache_folder(folder, sizeof folder)) {
    print_missing("disk cache", "compiled kernels and plans of convolutions, kept for the next run",
                  "turned off by TLUA_CACHE=0, or HOME names no folder");
    return;
  }
  if (!tli_folder_own(folder)) {
    snprintf(text, sizeof text, "not used: others may write into %s", folder);
    print_missing("disk cache", "compiled kernels and plans of convolutions", text);
    return;
  }
  snprintf(text, sizeof text, "%s, files: %d, %.1f MB", folder, files, (double)bytes / 1e6);
  print_found("disk cache", text);
}

void tli_doctor_run(lua_State *L) {
  char system[TEXT];
  tli_system_name(system, sizeof system);
  printf("tlua %s, %s, %s\n\n", tl_version(), LUA_RELEASE, system);
  report_engine(L);
  report_editing();
  report_cache();
  puts("");
  report_device(TL_CUDA, "tensors on NVIDIA GPUs");
  report_cuda();
  report_device(TL_SIM, "a device that shows, without a GPU, what fails on one");
  for (int id = TLI_OPTIONAL_EDIT + 1; id < TLI_NOPTIONAL; id++) report_library((tli_OptionalId)id);
  puts("\ntlua runs without what is missing, and finds at its next start what was added.");
  fflush(stdout);
}
