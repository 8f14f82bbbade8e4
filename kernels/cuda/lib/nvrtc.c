/*
** nvrtc.c - compiles CUDA C at run time with NVRTC, and loads and launches the result. The library
** is loaded on first use. If it is absent, the functions do not fail, but tell their callers that
** there is no compiler.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/optional.h"
#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/plugin.h"

typedef struct Program Program; /* a program of NVRTC */

/* The functions of NVRTC. They return 0 on success. */
static struct {
  int (*nvrtcVersion)(int *major, int *minor);
  int (*nvrtcCreateProgram)(Program **out, const char *source, const char *name, int headers,
                            const char *const *texts, const char *const *names);
  int (*nvrtcCompileProgram)(Program *program, int options, const char *const *list);
  int (*nvrtcGetCUBINSize)(Program *program, size_t *bytes);
  int (*nvrtcGetCUBIN)(Program *program, char *code);
  int (*nvrtcDestroyProgram)(Program **program);
} lib;

#define CALLS(X)         \
  X(nvrtcVersion)        \
  X(nvrtcCreateProgram)  \
  X(nvrtcCompileProgram) \
  X(nvrtcGetCUBINSize)   \
  X(nvrtcGetCUBIN)       \
  X(nvrtcDestroyProgram)

static char version[64]; /* NVRTC's version as text; "" if there is no compiler */
static pthread_once_t opening = PTHREAD_ONCE_INIT;

/* Opens NVRTC's library. Returns NULL if there is none, or if the CUDA runtime cannot load compiled
** code. */
static void *open_file(void) {
  static const char *const files[] = {TLI_FILES_NVRTC, NULL};
  void *library = NULL;
  bool loads = CUDART_VERSION >= 12080; /* cudaLibraryLoadData */
  for (int i = 0; loads && library == NULL && files[i]; i++)
    library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
  return library;
}

static void open_library(void) {
  void *library = open_file();
  int major, minor;
  bool ok = library != NULL;
#define X(name)                                \
  if (ok) {                                    \
    void *symbol = dlsym(library, #name);      \
    memcpy(&lib.name, &symbol, sizeof symbol); \
    ok = symbol != NULL;                       \
  }
  CALLS(X)
#undef X
  if (ok && lib.nvrtcVersion(&major, &minor) == 0)
    snprintf(version, sizeof version, "nvrtc %d.%d", major, minor);
}

const char *cuda_lib_compiler(void) {
  pthread_once(&opening, open_library);
  return version[0] ? version : NULL;
}

static bool fetch(Program *program, void **code, size_t *bytes) {
  if (lib.nvrtcGetCUBINSize(program, bytes) != 0 || *bytes == 0) return false;
  *code = malloc(*bytes);
  if (*code && lib.nvrtcGetCUBIN(program, *code) == 0) return true;
  free(*code);
  return false;
}

bool cuda_lib_compile(const char *source, int major, int minor, void **code, size_t *bytes) {
  const char *const *names, *const *texts;
  char architecture[48];
  Program *program = NULL;
  int headers = fusion_headers(&names, &texts);
  if (cuda_lib_compiler() == NULL ||
      lib.nvrtcCreateProgram(&program, source, "chain.cu", headers, texts, names) != 0)
    return false;
  snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%d", major, minor);
  const char *options[] = {architecture, "--std=c++17"};
  bool ok = lib.nvrtcCompileProgram(program, 2, options) == 0 && fetch(program, code, bytes);
  lib.nvrtcDestroyProgram(&program);
  return ok;
}

/* ---- code ------------------------------------------------------------------------------------ */

#if CUDART_VERSION >= 12080
static void *load(const void *code, const char *name) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  if (cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0) == cudaSuccess) {
    if (cudaLibraryGetKernel(&kernel, library, name) == cudaSuccess) return kernel;
    cudaLibraryUnload(library);
  }
  cudaGetLastError();
  return NULL;
}
#else
static void *load(const void *code, const char *name) {
  (void)code, (void)name;
  return NULL;
}
#endif

void *cuda_lib_load(const void *code, size_t bytes, const char *name) {
  CUDA_RELAXED; /* lifts CUDA's restrictions during captures, because loading may allocate memory */
  (void)bytes;
  return load(code, name);
}

bool cuda_lib_launch(const tlk_Context *cx, void *kernel, unsigned blocks, unsigned threads,
                     const void *argument, size_t bytes) {
  void *list[] = {(void *)(uintptr_t)argument, NULL};
  (void)bytes;
  if (!cuda_enter(cx->device.index)) return false;
  /* lifts CUDA's restrictions during captures, because the first launch may load the kernel */
  CUDA_RELAXED;
  cudaError_t error = cudaLaunchKernel(kernel, (dim3){blocks, 1, 1}, (dim3){threads, 1, 1}, list, 0,
                                       cx->stream->handle);
  return cuda_ok(error, "cudaLaunchKernel");
}
