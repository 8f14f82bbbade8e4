/*
** kernel_cache.c - finds the kernel of a chain by the chain's source. A list holds the kernels that
** this process has used. Other kernels are looked up on disk (core/device/disk_cache.h) by a key,
** which consists of the source with all files that it includes, the architecture, and the
** compiler's version.
*/
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/hash.h"
#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/plugin.h"

enum { HEAD = 256 };

typedef struct Kernel {
  struct Kernel *next;
  void *code; /* compiled code, as cuda_lib_load returns it; NULL if compiling failed */
  size_t key_bytes;
  char key[];
} Kernel;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Kernel *kernels; /* list of kernels (owned); entries are never removed */

bool fusion_possible(void) {
  return cuda_host->setting(TL_FUSION) != 0 && cuda_lib_compiler() != NULL;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static uint64_t headers_hash;
static pthread_once_t hashing = PTHREAD_ONCE_INIT;

/* Computes the hash of the header files that every source includes. */
static void hash_headers(void) {
  const char *const *names, *const *texts;
  int n = fusion_headers(&names, &texts);
  headers_hash = TLI_HASH_SEED;
  for (int i = 0; i < n; i++) headers_hash = tli_hash(headers_hash, texts[i], strlen(texts[i]));
}

/* Writes the cache key of a source. Its first line contains everything else that the compiled code
** depends on, and the source follows. */
static size_t write_key(int device, char *key, const char *source) {
  cuda_DeviceKind kind;
  cuda_device_kind(device, &kind);
  pthread_once(&hashing, hash_headers);
  snprintf(key, HEAD, "%s sm_%d%d %016llx\n", cuda_lib_compiler(), (int)kind.major, (int)kind.minor,
           (unsigned long long)headers_hash);
  size_t head = strlen(key), bytes = strlen(source);
  memcpy(key + head, source, bytes + 1);
  return head + bytes;
}

static void *compile(int device, const char *key, size_t key_bytes) {
  cuda_DeviceKind kind;
  size_t bytes;
  void *code = cuda_host->cache_load("cubin", key, key_bytes, &bytes), *loaded = NULL;
  if (code) {
    loaded = cuda_lib_load(code, bytes, "fusion_chain");
    cuda_host->free(code, bytes);
  }
  if (loaded) return loaded;
  cuda_device_kind(device, &kind);
  if (!cuda_lib_compile(strchr(key, '\n') + 1, (int)kind.major, (int)kind.minor, &code, &bytes))
    return NULL;
  loaded = cuda_lib_load(code, bytes, "fusion_chain");
  if (loaded) cuda_host->cache_store("cubin", key, key_bytes, code, bytes);
  free(code);
  return loaded;
}

/* Returns the kernel of a source, and compiles it if necessary. Two devices of the same kind share
** a kernel. */
static const Kernel *kernel_for(int device, const char *source) {
  char key[HEAD + FUSION_SOURCE];
  size_t bytes = write_key(device, key, source);
  pthread_mutex_lock(&lock);
  Kernel *k = kernels;
  while (k && !(k->key_bytes == bytes && memcmp(k->key, key, bytes) == 0)) k = k->next;
  if (k == NULL && (k = cuda_host->alloc(sizeof *k + bytes)) != NULL) {
    *k = (Kernel){kernels, compile(device, key, bytes), bytes};
    memcpy(k->key, key, bytes);
    kernels = k;
  }
  pthread_mutex_unlock(&lock);
  return k;
}

_Static_assert(sizeof(fusion_Call) <= 4096, "CUDA allows no more for a kernel's parameters");

/* ---- launching ------------------------------------------------------------------------------- */

/* Computes the numbers by which a kernel divides by d with a multiplication, as Divider in cuda.cuh
** does. */
static fusion_Size size_of(uint32_t d) {
  uint32_t shift = 0;
  while (shift < 32 && ((uint64_t)1 << shift) < d) shift++;
  uint64_t above = ((uint64_t)1 << shift) - d;
  return (fusion_Size){d, (uint32_t)(((uint64_t)1 << 32) * above / d + 1), shift};
}

static void fill_call(const tlk_Context *cx, const fusion_Plan *plan, fusion_Call *c) {
  memset(c, 0, sizeof *c);
  c->word = cuda_word(cx);
  c->numel = (uint32_t)plan->numel;
  c->ndim = plan->ndim;
  for (int d = 0; d < plan->ndim; d++) {
    c->sizes[d] = size_of((uint32_t)plan->sizes[d]);
    for (int i = 0; i < plan->noperands; i++) c->strides[d][i] = plan->operands[i].strides[d];
  }
  for (int i = 0; i < plan->noperands; i++) {
    c->data[i] = plan->operands[i].data;
    c->number[i].i64 = plan->operands[i].number;
  }
  for (int s = 0; s < plan->nsteps; s++) {
    memcpy(&c->params[s * FUSION_PARAMS], plan->steps[s].params, sizeof plan->steps[s].params);
    c->source[s] = plan->steps[s].source;
  }
}

bool fusion_run(const tlk_Context *cx, const fusion_Plan *plan, bool *done) {
  char source[FUSION_SOURCE];
  fusion_Call call;
  *done = false;
  if (!fusion_write(plan, source)) return true;
  const Kernel *kernel = kernel_for(cx->device.index, source);
  if (kernel == NULL || kernel->code == NULL) return true;
  fill_call(cx, plan, &call);
  int64_t each = (int64_t)FUSION_THREADS * fusion_width(plan);
  int64_t blocks = (plan->numel + each - 1) / each;
  int64_t most = (int64_t)cuda_multiprocessors(cx->device.index) * 16;
  *done = true;
  return cuda_lib_launch(cx, kernel->code, (unsigned)(blocks < most ? blocks : most),
                         FUSION_THREADS, &call, sizeof call);
}
