/*
** answer.c - runs a program once on zeros, and prints its first results and the time from the start
** of main to the answer:
**
**   make runtime PROGRAM=digits.tlp
**   build/runtime/answer digits.tlp
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tlua.h>

enum { MOST = 16 };

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void release(void *data, void *context) {
  (void)context;
  free(data);
}

/* Returns a tensor of zeros for input i. Each dynamic size is set to 1. */
static tl_Tensor *zeros(const tl_Program *program, int i) {
  tl_ProgramInput in;
  size_t count = 1;
  if (!tl_program_input(program, i, &in)) return NULL;
  for (int d = 0; d < in.ndim; d++) {
    if (in.sizes[d] < 0) in.sizes[d] = 1;
    count *= (size_t)in.sizes[d];
  }
  void *data = calloc(count + 1, 8);
  return data ? tl_tensor_wrap(data, in.dtype, in.ndim, in.sizes, NULL, release, NULL) : NULL;
}

static void print_floats(tl_Tensor *t) {
  float values[MOST];
  int64_t n = 1;
  for (int d = 0; d < tl_tensor_ndim(t); d++) n *= tl_tensor_sizes(t)[d];
  if (n > MOST || !tl_tensor_read(t, TL_F32, values, (size_t)n * sizeof *values)) return;
  for (int64_t i = 0; i < n; i++) printf("%s%g", i ? " " : "", (double)values[i]);
  printf("\n");
}

int main(int argc, char **argv) {
  double start = now();
  if (argc != 2) return fprintf(stderr, "usage: answer model.tlp\n"), 2;
  tl_Program *program = tl_program_load(argv[1]);
  tl_Tensor *in[MOST] = {NULL}, *out[MOST] = {NULL};
  int nin = tl_program_inputs(program), nout = tl_program_outputs(program);
  bool ok = program && tl_set_num_threads(1) && nin <= MOST && nout <= MOST;
  for (int i = 0; ok && i < nin; i++) ok = (in[i] = zeros(program, i)) != NULL;
  ok = ok && tl_program_run(program, in, nin, out, nout);
  double ready = now();
  if (ok) {
    print_floats(out[0]);
    printf("answered in %.2f ms\n", ready - start);
  } else {
    fprintf(stderr, "answer: %s\n", tl_error());
  }
  for (int i = 0; i < MOST; i++) {
    tl_tensor_release(in[i]);
    tl_tensor_release(out[i]);
  }
  tl_program_free(program);
  return ok ? 0 : 1;
}
