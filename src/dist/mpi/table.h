/*
** table.h - the interface of a plugin for MPI: the few functions of MPI that groups use, with types
** that do not depend on the MPI library that the plugin was compiled for. tlua_mpi_openmpi.so and
** tlua_mpi_mpich.so are built from one source, plugin.c; the engine links neither.
**
** Functions return 0 or MPI's error code. Only one thread calls them at a time. A function with a
** parameter for a request only begins an operation; `test` tells when the operation has ended.
*/
#ifndef TLI_DIST_MPI_TABLE_H
#define TLI_DIST_MPI_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define TLI_MPI_VERSION 1
#define TLI_MPI_ENTRY "tli_mpi_plugin"

/* Element types that MPI can sum; type_of in plugin.c has the same order (ORDER MPITYPE). */
typedef enum tli_MpiType {
  TLI_MPI_F32,
  TLI_MPI_F64,
  TLI_MPI_I8,
  TLI_MPI_I16,
  TLI_MPI_I32,
  TLI_MPI_I64,
  TLI_MPI_U8
} tli_MpiType;

/* Reductions; op_of in plugin.c has the same order (ORDER MPIOP). The minimum and the maximum are
** NaN if an operand is NaN. */
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
  int64_t word; /* the bits of an MPI_Request, stored as an integer */
} tli_MpiRequest;

typedef struct tli_Mpi {
  int version;
  /* Initialises MPI unless the program has done so. MPI is finalized when the process ends. If the
  ** exit status is not 0, all other processes end, too. */
  int (*start)(int *rank, int *size);
  int (*most_tag)(void);
  void (*host_name)(char *name, int size); /* Writes the name of this machine. */
  /* Writes the library's name and version, such as "Open MPI v4.1.4". */
  void (*library)(char *name, int size);
  void (*error)(int code, char *text, int size);
  /* Copies the bytes of process 0 to all processes. Every process must call this function, which
  ** waits for the others. */
  int (*share)(void *data, int bytes);
  /* Makes the process exit without waiting for the other processes. Used when calls are incomplete,
  ** since the others may never finish them. */
  void (*give_up)(void);
  /* Creates a communicator of some of the world's ranks. All of these ranks must call the function,
  ** which waits for the others. */
  int (*comm)(int n, const int *ranks, int tag, tli_MpiComm **out);
  int (*comm_free)(tli_MpiComm *comm);
  int (*broadcast)(tli_MpiComm *c, void *data, int bytes, int root, tli_MpiRequest *r);
  int (*all_gather)(tli_MpiComm *c, const void *in, int bytes, void *out, tli_MpiRequest *r);
  int (*all_to_all)(tli_MpiComm *c, const void *in, int bytes, void *out, tli_MpiRequest *r);
  /* Reduces `data` of all ranks in place. If root is -1, all ranks get the result; otherwise only
  ** rank `root` does. */
  int (*reduce)(tli_MpiComm *c, void *data, int n, tli_MpiType type, tli_MpiOp op, int root,
                tli_MpiRequest *r);
  int (*reduce_scatter)(tli_MpiComm *c, const void *in, void *out, int n, tli_MpiType type,
                        tli_MpiOp op, tli_MpiRequest *r);
  /* These functions begin to send and to receive a message between two ranks. If `message` is set,
  ** the message is kept separate from the messages of collectives. */
  int (*send)(tli_MpiComm *c, bool message, const void *data, int bytes, int to, int tag,
              tli_MpiRequest *r);
  int (*receive)(tli_MpiComm *c, bool message, void *data, int bytes, int from, int tag,
                 tli_MpiRequest *r); /* receives from rank `from`; -1 means any rank */
  int (*test)(tli_MpiRequest *r, bool *done, int *source);
} tli_Mpi;

typedef const tli_Mpi *(*tli_MpiEntry)(void);

#endif
