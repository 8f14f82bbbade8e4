/*
** plugin.c - implements table.h. A tli_MpiComm contains two MPI communicators: one for collectives
** and their messages, the other for the headers of users' messages.
*/
#define _DEFAULT_SOURCE 1
#include "dist/mpi/table.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tli_MpiComm {
  MPI_Comm calls, messages;
};

static bool started, ours, given_up;
/* MPI operations for the minimum and the maximum of floats; the result is NaN if an operand is
** NaN */
static MPI_Op least, greatest;

/* ---- initialising and ending MPI -------------------------------------------------------- */

/* Defines an MPI operation that compares two arrays and stores the smaller (or the greater)
** elements in the array `to`. */
#define PICK(name, T, op)                                          \
  static void name##_##T(const T *from, T *to, int n) {            \
    for (int i = 0; i < n; i++)                                    \
      if (from[i] op to[i] || from[i] != from[i]) to[i] = from[i]; \
  }
PICK(least, float, <)
PICK(least, double, <)
PICK(greatest, float, >)
PICK(greatest, double, >)

static void pick_least(void *from, void *to, int *n, MPI_Datatype *type) {
  if (*type == MPI_FLOAT)
    least_float(from, to, *n);
  else
    least_double(from, to, *n);
}

static void pick_greatest(void *from, void *to, int *n, MPI_Datatype *type) {
  if (*type == MPI_FLOAT)
    greatest_float(from, to, *n);
  else
    greatest_double(from, to, *n);
}

/* Finalizes MPI at the end of the process. If the process has failed, aborts all other processes
** too, because they would wait for this one. */
static void at_end(int status, void *none) {
  int finalized;
  (void)none;
  MPI_Finalized(&finalized);
  if (finalized || !ours) return;
  fflush(NULL);
  if (status != 0)
    MPI_Abort(MPI_COMM_WORLD, status);
  else if (!given_up)
    MPI_Finalize();
}

static int start(int *rank, int *size) {
  int level, initialized, error = MPI_SUCCESS;
  if (!started) {
    error = MPI_Initialized(&initialized);
    if (error == MPI_SUCCESS && !initialized) {
      error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
      ours = error == MPI_SUCCESS;
    }
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Op_create(pick_least, 1, &least);
    if (error == MPI_SUCCESS) error = MPI_Op_create(pick_greatest, 1, &greatest);
    if (error != MPI_SUCCESS) return error;
    on_exit(at_end, NULL);
    started = true;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return MPI_Comm_size(MPI_COMM_WORLD, size);
}

static int share(void *data, int bytes) {
  return MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void give_up(void) { given_up = true; }

static int most_tag(void) {
  int *most, found;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
  return found ? *most : 32767;
}

static void host_name(char *name, int size) {
  char text[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length;
  MPI_Get_processor_name(text, &length);
  snprintf(name, (size_t)size, "%s", text);
}

static void library(char *name, int size) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, ",\n")] = '\0';
  snprintf(name, (size_t)size, "%s", text);
}

static void error_text(int code, char *text, int size) {
  char whole[MPI_MAX_ERROR_STRING + 1] = "";
  int length;
  MPI_Error_string(code, whole, &length);
  snprintf(text, (size_t)size, "%s", whole);
}

/* ---- communicators ------------------------------------------------------------------- */

static int comm_new(int n, const int *ranks, int tag, tli_MpiComm **out) {
  MPI_Group world, part;
  tli_MpiComm *c = calloc(1, sizeof *c);
  if (c == NULL) return MPI_ERR_NO_MEM;
  c->calls = c->messages = MPI_COMM_NULL;
  int error = MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (error == MPI_SUCCESS) error = MPI_Group_incl(world, n, ranks, &part);
  if (error == MPI_SUCCESS) error = MPI_Comm_create_group(MPI_COMM_WORLD, part, tag, &c->calls);
  if (error == MPI_SUCCESS) error = MPI_Comm_dup(c->calls, &c->messages);
  if (error != MPI_SUCCESS) {
    free(c);
    return error;
  }
  MPI_Group_free(&part);
  MPI_Group_free(&world);
  *out = c;
  return MPI_SUCCESS;
}

static int comm_free(tli_MpiComm *c) {
  int error = MPI_Comm_free(&c->calls);
  if (error == MPI_SUCCESS) error = MPI_Comm_free(&c->messages);
  free(c);
  return error;
}

/* ---- calls --------------------------------------------------------------------------- */

/* Returns the MPI datatype for a tli_MpiType. The table has the order of tli_MpiType (ORDER
** MPITYPE). */
static MPI_Datatype type_of(tli_MpiType type) {
  const MPI_Datatype types[] = {MPI_FLOAT,   MPI_DOUBLE,  MPI_INT8_T, MPI_INT16_T,
                                MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T};
  return types[type];
}

/* Returns the MPI operation for a tli_MpiOp. The table has the order of tli_MpiOp (ORDER MPIOP). */
static MPI_Op op_of(tli_MpiOp op, tli_MpiType type) {
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
  bool floating = type <= TLI_MPI_F64;
  if (floating && op == TLI_MPI_MIN) return least;
  if (floating && op == TLI_MPI_MAX) return greatest;
  return ops[op];
}

_Static_assert(sizeof(MPI_Request) <= sizeof(int64_t), "a request fits into a word");

static int keep(int error, MPI_Request request, tli_MpiRequest *r) {
  r->word = 0;
  memcpy(&r->word, &request, sizeof request);
  return error;
}

static int broadcast(tli_MpiComm *c, void *data, int bytes, int root, tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  int error = MPI_Ibcast(data, bytes, MPI_BYTE, root, c->calls, &q);
  return keep(error, q, r);
}

static int all_gather(tli_MpiComm *c, const void *in, int bytes, void *out, tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  int error = MPI_Iallgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, c->calls, &q);
  return keep(error, q, r);
}

static int all_to_all(tli_MpiComm *c, const void *in, int bytes, void *out, tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  int error = MPI_Ialltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, c->calls, &q);
  return keep(error, q, r);
}

static int reduce(tli_MpiComm *c, void *data, int n, tli_MpiType type, tli_MpiOp op, int root,
                  tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  MPI_Datatype t = type_of(type);
  MPI_Op o = op_of(op, type);
  int rank, error;
  MPI_Comm_rank(c->calls, &rank);
  if (root < 0)
    error = MPI_Iallreduce(MPI_IN_PLACE, data, n, t, o, c->calls, &q);
  else if (rank == root)
    error = MPI_Ireduce(MPI_IN_PLACE, data, n, t, o, root, c->calls, &q);
  else
    error = MPI_Ireduce(data, NULL, n, t, o, root, c->calls, &q);
  return keep(error, q, r);
}

static int reduce_scatter(tli_MpiComm *c, const void *in, void *out, int n, tli_MpiType type,
                          tli_MpiOp op, tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  int error = MPI_Ireduce_scatter_block(in, out, n, type_of(type), op_of(op, type), c->calls, &q);
  return keep(error, q, r);
}

static int send_to(tli_MpiComm *c, bool message, const void *data, int bytes, int to, int tag,
                   tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  int error = MPI_Isend(data, bytes, MPI_BYTE, to, tag, message ? c->messages : c->calls, &q);
  return keep(error, q, r);
}

static int receive(tli_MpiComm *c, bool message, void *data, int bytes, int from, int tag,
                   tli_MpiRequest *r) {
  MPI_Request q = MPI_REQUEST_NULL;
  int error = MPI_Irecv(data, bytes, MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from, tag,
                        message ? c->messages : c->calls, &q);
  return keep(error, q, r);
}

static int test(tli_MpiRequest *r, bool *done, int *source) {
  MPI_Request q;
  MPI_Status status;
  int flag = 0;
  memcpy(&q, &r->word, sizeof q);
  status.MPI_SOURCE = -1;
  int error = MPI_Test(&q, &flag, &status);
  *done = flag != 0;
  if (flag && source) *source = status.MPI_SOURCE;
  return keep(error, q, r);
}

static const tli_Mpi table = {
    .version = TLI_MPI_VERSION,
    .start = start,
    .most_tag = most_tag,
    .host_name = host_name,
    .library = library,
    .error = error_text,
    .share = share,
    .give_up = give_up,
    .comm = comm_new,
    .comm_free = comm_free,
    .broadcast = broadcast,
    .all_gather = all_gather,
    .all_to_all = all_to_all,
    .reduce = reduce,
    .reduce_scatter = reduce_scatter,
    .send = send_to,
    .receive = receive,
    .test = test,
};

__attribute__((visibility("default"))) const tli_Mpi *tli_mpi_plugin(void);
const tli_Mpi *tli_mpi_plugin(void) { return &table; }
