/*
** tlua_run.c - an extension of PostgreSQL: the function tlua_run(program bytea, numbers real[])
** returns real[]. A table holds programs that torch.export has saved, and the function runs such a
** program on the numbers of a row. A program contains no code, so a user who may write to the table
** cannot run code of their own. run.sh builds the extension and uses it.
*/
#include <postgres.h>

#include <catalog/pg_type.h>
#include <fmgr.h>
#include <tlua.h>
#include <utils/array.h>

#define REFUSE(...) \
  ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("tlua_run: " __VA_ARGS__))

PG_MODULE_MAGIC;
void _PG_init(void);
PG_FUNCTION_INFO_V1(tlua_run);

/* The program of a query. It lives as long as the query. */
typedef struct Loaded {
  tl_Program *program;
  tl_ProgramInput input;
  tl_Tensor *out; /* the output of the last run, which the next run overwrites; first NULL */
  int64 numbers;  /* number of elements of the input */
  void *block;    /* memory with a copy of the program's file */
  char *bytes;    /* the copy, at a multiple of 64 as tl_program_read asks */
  Size size;
  MemoryContextCallback end;
} Loaded;

/* PostgreSQL's signal handlers must run in its only thread, so neither tlua nor OpenBLAS may start
** another one. */
void _PG_init(void) {
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  if (!tl_set_num_threads(1)) REFUSE("%s", tl_error());
}

static void unload(void *argument) {
  Loaded *loaded = argument;
  tl_tensor_release(loaded->out);
  tl_program_free(loaded->program);
  loaded->out = NULL;
  loaded->program = NULL;
}

/* Loads a program, unless it is the program of the last call. */
static void load(Loaded *loaded, MemoryContext context, const char *bytes, Size size) {
  if (loaded->program && loaded->size == size && memcmp(loaded->bytes, bytes, size) == 0) return;
  unload(loaded);
  if (loaded->block) pfree(loaded->block);
  loaded->block = NULL;
  loaded->block = MemoryContextAlloc(context, size + 63);
  loaded->bytes = (char *)TYPEALIGN(64, loaded->block);
  loaded->size = size;
  memcpy(loaded->bytes, bytes, size);
  loaded->program = tl_program_read(loaded->bytes, size);
  if (!loaded->program) REFUSE("%s", tl_error());
  if (tl_program_inputs(loaded->program) != 1 || tl_program_outputs(loaded->program) != 1 ||
      !tl_program_input(loaded->program, 0, &loaded->input) || loaded->input.dtype != TL_F32) {
    unload(loaded);
    REFUSE("expected a program with one input and one output of float32");
  }
  loaded->numbers = 1;
  for (int i = 0; i < loaded->input.ndim; i++) {
    if (loaded->input.sizes[i] == -1) loaded->input.sizes[i] = 1; /* a batch of one */
    loaded->numbers *= loaded->input.sizes[i];
  }
}

Datum tlua_run(PG_FUNCTION_ARGS) {
  FmgrInfo *info = fcinfo->flinfo;
  Loaded *loaded = info->fn_extra;
  if (!loaded) {
    loaded = MemoryContextAllocZero(info->fn_mcxt, sizeof *loaded);
    loaded->end = (MemoryContextCallback){.func = unload, .arg = loaded};
    MemoryContextRegisterResetCallback(info->fn_mcxt, &loaded->end);
    info->fn_extra = loaded;
  }
  bytea *program = PG_GETARG_BYTEA_PP(0);
  ArrayType *array = PG_GETARG_ARRAYTYPE_P(1);
  load(loaded, info->fn_mcxt, VARDATA_ANY(program), VARSIZE_ANY_EXHDR(program));
  int64 count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
  if (array_contains_nulls(array)) REFUSE("numbers: expected no NULL");
  if (count != loaded->numbers)
    REFUSE("numbers: expected " INT64_FORMAT ", got " INT64_FORMAT, loaded->numbers, count);
  tl_Tensor *in = tl_tensor_wrap(ARR_DATA_PTR(array), TL_F32, loaded->input.ndim,
                                 loaded->input.sizes, NULL, NULL, NULL);
  bool ok = in && tl_program_run(loaded->program, &in, 1, &loaded->out, 1);
  tl_tensor_release(in);
  if (!ok) REFUSE("%s", tl_error());

  int64 n = tl_tensor_numel(loaded->out);
  Datum *results = palloc(n * sizeof(Datum));
  float *values = palloc(n * sizeof(float));
  if (!tl_tensor_read(loaded->out, TL_F32, values, n * sizeof(float))) REFUSE("%s", tl_error());
  for (int64 i = 0; i < n; i++) results[i] = Float4GetDatum(values[i]);
  PG_RETURN_ARRAYTYPE_P(
      construct_array(results, (int)n, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT));
}
