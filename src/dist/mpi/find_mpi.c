/*
** find_mpi.c - finds the MPI library that has started this process, and loads the plugin for that
** library.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/plugin.h"
#include "dist/mpi/mpi.h"

tli_Mutex tli_mpi_lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE(tli_mpi_lock)

static tli_Mutex opening = TLI_MUTEX_INIT;
static const tli_Mpi *opened; /* guarded */

/* Chooses Open MPI or MPICH by the environment variables that mpirun and srun set. TLUA_MPI
** overrides the choice. */
static const char *which(void) {
  const char *given = getenv("TLUA_MPI");
  if (given && *given) return given;
  if (getenv("OMPI_COMM_WORLD_SIZE")) return "openmpi";
  if (getenv("PMI_SIZE") || getenv("PMI_RANK")) return "mpich";
  return getenv("PMIX_RANK") ? "openmpi" : NULL;
}

static const tli_Mpi *open_plugin(const char *name) {
  char path[TLI_PLUGIN_PATH], plugin[64];
  bool open = strcmp(name, "openmpi") == 0;
  if (!open && strcmp(name, "mpich") != 0)
    return tli_fail_null(TL_EARG, "mpi: TLUA_MPI: expected openmpi or mpich, got '%.40s'", name);
  snprintf(plugin, sizeof plugin, "mpi_%s", name);
  if (!tli_plugin_path(plugin, path))
    return tli_fail_null(TL_EDEVICE, "mpi: there is no %s: build tlua where %s is (Debian: %s)",
                         path, open ? "Open MPI" : "MPICH",
                         open ? "libopenmpi-dev" : "libmpich-dev");
  void *library = tli_library_open(path);
  if (library == NULL)
    return tli_fail_null(TL_EDEVICE, "mpi: %s (Debian: %s)", tli_library_error(),
                         open ? "openmpi-bin" : "mpich");
  tli_MpiEntry entry;
  void *symbol = tli_library_symbol(library, TLI_MPI_ENTRY);
  /* ISO C has no cast from a data pointer to a function pointer */
  memcpy(&entry, &symbol, sizeof entry);
  const tli_Mpi *mpi = entry ? entry() : NULL;
  if (mpi && mpi->version == TLI_MPI_VERSION) return mpi;
  return tli_fail_null(TL_EDEVICE, "mpi: %s belongs to another build of tlua", path);
}

bool tli_mpi_ok(const tli_Mpi *mpi, int code) {
  char text[400];
  if (code == 0) return true;
  tli_mutex_lock(&tli_mpi_lock);
  mpi->error(code, text, sizeof text);
  tli_mutex_unlock(&tli_mpi_lock);
  return tli_fail(TL_EIO, "mpi: %s", text);
}

static const tli_Mpi *open_once(void) {
  const char *name = which();
  if (name == NULL)
    return tli_fail_null(TL_EARG, "mpi: this process was started neither by mpirun nor by srun "
                                  "with an MPI: `mpirun -n 2 tlua script.lua`");
  tli_mutex_lock(&opening);
  const tli_Mpi *mpi = opened ? opened : open_plugin(name);
  opened = mpi;
  tli_mutex_unlock(&opening);
  return mpi;
}

bool tli_mpi_available(void) { return open_once() != NULL; }

const tli_Mpi *tli_mpi_open(int *rank, int *size) {
  const tli_Mpi *mpi = open_once();
  TL_TRY_NULL(mpi);
  tli_mutex_lock(&tli_mpi_lock);
  int code = mpi->start(rank, size);
  tli_mutex_unlock(&tli_mpi_lock);
  return tli_mpi_ok(mpi, code) ? mpi : NULL;
}

bool tli_mpi_rank(int *rank, int *size, char host[256]) {
  const tli_Mpi *mpi = tli_mpi_open(rank, size);
  TL_TRY(mpi);
  tli_mutex_lock(&tli_mpi_lock);
  mpi->host_name(host, 256);
  tli_mutex_unlock(&tli_mpi_lock);
  return true;
}

bool tli_mpi_share(char *text, int bytes) {
  int rank, size;
  const tli_Mpi *mpi = tli_mpi_open(&rank, &size);
  TL_TRY(mpi);
  tli_mutex_lock(&tli_mpi_lock);
  int code = mpi->share(text, bytes);
  tli_mutex_unlock(&tli_mpi_lock);
  return tli_mpi_ok(mpi, code);
}
