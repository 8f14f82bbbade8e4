/*
** table.h - what a plugin for MPI gives: the few functions of MPI that groups use, with types
** that are the same whichever MPI it was compiled for. tlua_mpi_openmpi.so and
** tlua_mpi_mpich.so come of one source, plugin.c; the engine links neither.
**
** Functions return 0, or MPI's error code. They are called by one thread at a time.
** Those with a request only begin; `test` tells when it has ended.
*/
#ifndef TLI_DIST_MPI_TABLE_H
#define TLI_DIST_MPI_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define TLI_MPI_VERSION 1
#define TLI_MPI_ENTRY "tli_mpi_plugin"

/* Elements as MPI sums them: ORDER MPITYPE in plugin.c. */
typedef enum tli_MpiType {
  TLI_MPI_F32,
  TLI_MPI_F64,
  TLI_MPI_I8,
  TLI_MPI_I16,
  TLI_MPI_I32,
  TLI_MPI_I64,
  TLI_MPI_U8
} tli_MpiType;

/* ORDER MPIOP in plugin.c. NaN wins min and max. */
typedef enum tli_MpiOp {
  TLI_MPI_SUM,
  TLI_MPI_PRODUCT,
  TLI_MPI_MIN,
  TLI_MPI_MAX,
  TLI_MPI_BAND,
  TLI_MPI_BOR,
  TLI_MPI_BXOR
} tli_MpiOp;

typedef struct tli_MpiComm tli_MpiComm;

typedef struct tli_MpiRequest {
  int64_t word; /* MPI_Request */
} tli_MpiRequest;

typedef struct tli_Mpi {
  int version;
  /* Begins MPI unless that has been done; it ends with the process, which takes all others
  ** with it if its status is not 0. */
  int (*start)(int *rank, int *size);
  int (*most_tag)(void);
  void (*host_name)(char *name, int size); /* of this machine */
  void (*library)(char *name, int size);   /* "Open MPI v4.1.4" */
  void (*error)(int code, char *text, int size);
  /* Gives the world's first process's bytes to all of it; waits. */
  int (*share)(void *data, int bytes);
  /* The process must not wait for others at its end: calls are left undone. */
  void (*give_up)(void);
  /* Some of the world's ranks, by all of them; waits for them. */
  int (*comm)(int n, const int *ranks, int tag, tli_MpiComm **out);
  int (*comm_free)(tli_MpiComm *comm);
  int (*broadcast)(tli_MpiComm *c, void *data, int bytes, int root, tli_MpiRequest *r);
  int (*all_gather)(tli_MpiComm *c, const void *in, int bytes, void *out, tli_MpiRequest *r);
  int (*all_to_all)(tli_MpiComm *c, const void *in, int bytes, void *out, tli_MpiRequest *r);
  /* In place; root -1: for all. Where in place cannot be, `out` is the root's. */
  int (*reduce)(tli_MpiComm *c, void *data, int n, tli_MpiType type, tli_MpiOp op, int root,
                tli_MpiRequest *r);
  int (*reduce_scatter)(tli_MpiComm *c, const void *in, void *out, int n, tli_MpiType type,
                        tli_MpiOp op, tli_MpiRequest *r);
  /* Messages: `messages` ones meet none of those that collectives are made of. */
  int (*send)(tli_MpiComm *c, bool message, const void *data, int bytes, int to, int tag,
              tli_MpiRequest *r);
  int (*receive)(tli_MpiComm *c, bool message, void *data, int bytes, int from, int tag,
                 tli_MpiRequest *r); /* from -1: anybody */
  int (*test)(tli_MpiRequest *r, bool *done, int *source);
} tli_Mpi;

typedef const tli_Mpi *(*tli_MpiEntry)(void);

#endif
