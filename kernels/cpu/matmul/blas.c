/*
** blas.c - opens the BLAS library once. No thread can see the table of BLAS functions before it is
** complete.
*/
#include "kernels/cpu/matmul/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/optional.h"
#include "core/platform/platform.h"
#include "kernels/cpu/cpu.h"

#define CORE_VARIABLE "OPENBLAS_CORETYPE"
#define THREADS_VARIABLE "OPENBLAS_NUM_THREADS"

static tlk_Blas table;
/* handle of the opened library; NULL if none was found, or if BLAS is linked statically */
static void *library;
static bool found;
static char config[256];
static tli_Once once = TLI_ONCE_INIT;

void *tlk_blas_symbol(const char *name) {
  tlk_blas();
  return found ? tli_library_symbol(library, name) : NULL;
}

/* A library built for one program does not open BLAS, since opening BLAS takes longer than such a
** program runs. */
#if defined(TLK_LINK_BLAS) || defined(TLI_RUNTIME)
static void open_library(void) {}
#else

/* The memory that OpenBLAS allocates for each of its threads when it is opened, and for each thread
** that calls it. If an allocation fails, OpenBLAS tries again for ever. */
#define BUFFER_BYTES ((size_t)128 << 20)
/* memory that OpenBLAS needs for other purposes than these buffers */
#define OTHER_BYTES ((size_t)72 << 20)

static bool has_room(size_t buffers) {
  if (buffers > (SIZE_MAX - OTHER_BYTES) / BUFFER_BYTES) return false;
  void *room = tli_memory_get(64, buffers * BUFFER_BYTES + OTHER_BYTES);
  tli_memory_put(room);
  return room != NULL;
}

/* Opens the library if the process may use as much memory as OpenBLAS needs. If the memory is too
** small for OpenBLAS's own threads, tells it to start none. */
static void open_library(void) {
  if (!has_room(1)) return;
  bool alone = !getenv(THREADS_VARIABLE) && !has_room((size_t)tli_processors() + 1);
  if (alone) tli_environment_set(THREADS_VARIABLE, "1");
  library = tli_optional_open(TLI_OPTIONAL_BLAS, NULL);
  if (alone) tli_environment_set(THREADS_VARIABLE, NULL);
}
#endif

/* Looks up a symbol and stores its address in a function pointer. The pointer is passed as void *,
** since ISO C does not convert data pointers to function pointers. */
static bool take(void *member, const char *name) {
  void *symbol = tli_library_symbol(library, name);
  *(void **)member = symbol;
  return symbol != NULL;
}

/* OpenBLAS treats a processor that is newer than the library as the oldest one that it knows,
** Prescott, and is then five times slower than it could be. Only an environment variable overrides
** this choice, and only when the library is loaded. So this function sets the variable and opens
** the library again. If the user has set the variable, nothing happens. */
static void open_again_if_misjudged(void) {
  char *(*get_corename)(void) = NULL;
  const char *isa = tlk_isa()->name;
  const char *core = strcmp(isa, "x86-64-v4") == 0   ? "SkylakeX"
                     : strcmp(isa, "x86-64-v3") == 0 ? "Haswell"
                                                     : NULL;
  if (library == NULL || core == NULL || getenv(CORE_VARIABLE)) return;
  if (!take(&get_corename, "openblas_get_corename") || strcmp(get_corename(), "Prescott") != 0)
    return;
  tli_library_close(library);
  library = NULL;
  tli_environment_set(CORE_VARIABLE, core);
  open_library();
  tli_environment_set(CORE_VARIABLE, NULL);
}

/* Makes OpenBLAS allocate its memory now, while memory is available. The product in this function
** is too large for OpenBLAS's buffer on the stack. */
static void allocate_now(void) {
  static float x[8192];
  float y = 0;
  if (tli_library_symbol(library, "openblas_get_config"))
    table.sgemv(TLK_ROW_MAJOR, TLK_NO_TRANS, 1, 8192, 1, x, 8192, x, 1, 0, &y, 1);
}

static void open_blas(void) {
  open_library();
  open_again_if_misjudged();
  char *(*get_config)(void) = NULL;
  found = take(&table.sgemv, "cblas_sgemv") && take(&table.dgemv, "cblas_dgemv") &&
          take(&table.cgemv, "cblas_cgemv") && take(&table.zgemv, "cblas_zgemv");
  if (!found) {
    snprintf(config, sizeof config, "none found (libopenblas0 brings linear algebra)");
    return;
  }
  if (take(&get_config, "openblas_get_config"))
    snprintf(config, sizeof config, "%s", get_config());
  else
    snprintf(config, sizeof config, "a BLAS other than OpenBLAS");
  /* limits BLAS to one thread, because our own threads call it (gemm.c) */
  void (*set_num_threads)(int) = NULL;
  if (take(&set_num_threads, "openblas_set_num_threads")) set_num_threads(1);
  allocate_now();
}

const tlk_Blas *tlk_blas(void) {
  tli_once(&once, open_blas);
  return found ? &table : NULL;
}

const char *tlk_blas_config(void) {
  tli_once(&once, open_blas);
  return config;
}
