/*
** program_test.c - tests exported programs without Lua, which is not linked here.
** program_models.lua exports models, inputs, and the results that must be reproduced bit for bit.
** The loader must refuse mutated files, or run them without a crash. `make fuzz-programs` and `make
** race-programs` build this test with sanitizers, together with a library that has only the
** operators of the exported programs, and run it.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "graph/program.h"
#include "test.h"

/* ---- calls of the C library's allocator ---- */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTED 1
static atomic_long mallocs;
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
void *malloc(size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_calloc(n, bytes);
}
void *realloc(void *block, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_realloc(block, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_memalign(align, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  *out = __libc_memalign(align, bytes);
  return *out ? 0 : 12;
}
#else
#define COUNTED 0
static atomic_long mallocs;
#endif

/* ---- exported models ---- */

static char folder[] = "/tmp/program_testXXXXXX";

static const char *in_folder(const char *name, const char *ending) {
  static char path[4][300];
  static int next;
  char *at = path[next++ % 4];
  snprintf(at, sizeof path[0], "%s/%s%s", folder, name, ending);
  return at;
}

/* Exports the models, unless TLUA_PROGRAMS names a folder that already has them. */
static void export_models(void) {
  const char *tlua = getenv("TLUA") ? getenv("TLUA") : "build/tlua",
             *made = getenv("TLUA_PROGRAMS");
  char command[1000];
  CHECK(mkdtemp(folder) != NULL);
  if (made)
    snprintf(command, sizeof command, "cp %s/* %s", made, folder);
  else
    snprintf(command, sizeof command, "%s spec/core/program_models.lua %s", tlua, folder);
  CHECK(system(command) == 0);
}

static size_t read_file(const char *path, void **data) {
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  *data = malloc(size + 1);
  CHECK(fread(*data, 1, size, file) == size);
  fclose(file);
  return size;
}

typedef struct Case {
  tl_Program *program;
  tl_Tensor *in;
  void *in_data, *expected;
  size_t bytes; /* the size of the first result in bytes */
  int noutputs;
} Case;

/* Loads a program and its example inputs. A dynamic dimension gets size 4. */
static Case open_case(const char *name) {
  Case c = {.program = tl_program_load(in_folder(name, ".tlp"))};
  tl_ProgramInput in;
  CHECK(c.program != NULL && tl_program_inputs(c.program) == 1);
  CHECK(tl_program_input(c.program, 0, &in) && in.dtype == TL_F32 && in.name != NULL);
  for (int d = 0; d < in.ndim; d++)
    if (in.sizes[d] < 0) in.sizes[d] = 4;
  read_file(in_folder(name, ".in"), &c.in_data);
  c.bytes = read_file(in_folder(name, ".out"), &c.expected);
  c.in = tl_tensor_wrap(c.in_data, TL_F32, in.ndim, in.sizes, NULL, NULL, NULL);
  c.noutputs = tl_program_outputs(c.program);
  CHECK(c.in != NULL && c.noutputs >= 1);
  return c;
}

static void close_case(Case *c) {
  tl_tensor_release(c->in);
  tl_program_free(c->program);
  free(c->in_data);
  free(c->expected);
}

static bool run_case(const Case *c, tl_Tensor **outputs) {
  return tl_program_run(c->program, &c->in, 1, outputs, c->noutputs);
}

static bool as_expected(const Case *c, tl_Tensor *t) {
  char *read = malloc(c->bytes);
  bool same = tl_tensor_read(t, TL_F32, read, c->bytes) && memcmp(read, c->expected, c->bytes) == 0;
  free(read);
  return same;
}

static void drop(tl_Tensor **outputs, int n) {
  for (int i = 0; i < n; i++) tl_tensor_release(outputs[i]);
}

static const char *const names[] = {"mlp",      "digits",   "lstm", "transformer",
                                    "products", "branches", NULL};
static const char *const trained[] = {"train_mlp", "train_convnet", NULL};
static const char *const all_names[] = {"mlp",         "digits",    "lstm",
                                        "transformer", "products",  "branches",
                                        "loops",       "train_mlp", "train_convnet"};
enum { STEPS = 20, NAMES = sizeof all_names / sizeof *all_names };

TEST(models_have_the_bits_of_lua) {
  for (int i = 0; names[i]; i++) {
    Case c = open_case(names[i]);
    for (int round = 0; round < 3; round++) {
      tl_Tensor *outputs[8] = {NULL};
      CHECK(run_case(&c, outputs));
      CHECK(as_expected(&c, outputs[0]));
      drop(outputs, c.noutputs);
    }
    close_case(&c);
  }
}

TEST(later_runs_allocate_nothing) {
  CHECK(tl_set_num_threads(1));
  for (int i = 0; names[i]; i++) {
    Case c = open_case(names[i]);
    tl_Tensor *outputs[8] = {NULL};
    CHECK(run_case(&c, outputs));
    CHECK(run_case(&c, outputs));
    long before = atomic_load(&mallocs);
    int64_t used = tl_memory_used(), cached = tl_memory_cached();
    for (int round = 0; round < 20; round++) CHECK(run_case(&c, outputs));
    CHECK(atomic_load(&mallocs) == before);
    CHECK(tl_memory_used() == used && tl_memory_cached() == cached);
    CHECK(as_expected(&c, outputs[0]));
    tli_ProgramMemory memory = tli_program_memory(c.program);
    CHECK(memory.contexts == 1 && memory.live > 0);
    CHECK(memory.arena >= memory.live && memory.arena <= memory.live * 115 / 100);
    drop(outputs, c.noutputs);
    close_case(&c);
  }
  /* an allocation must be counted at all, or the checks below would show nothing */
  long before = atomic_load(&mallocs);
  void *volatile block = malloc(100);
  free(block);
  CHECK(!COUNTED || atomic_load(&mallocs) == before + 1);
}

/* Tests that each branch keeps its own plan, so that a run allocates nothing even if the
** previous run took the other branch. */
TEST(alternating_branches_allocate_nothing) {
  CHECK(tl_set_num_threads(1));
  Case c = open_case("branches");
  tl_Tensor *inputs[3], *outputs[3] = {NULL};
  float values[3][18];
  /* the loop takes the first branch once, and the second branch twice: once for each of its inner
  ** branches */
  for (int way = 0; way < 3; way++) {
    for (int k = 0; k < 18; k++) values[way][k] = way == 0 ? 0.5F : -1;
    if (way == 2) values[way][0] = 1;
    inputs[way] = tl_tensor_wrap(values[way], TL_F32, 2, (int64_t[]){3, 6}, NULL, NULL, NULL);
    for (int round = 0; round < 2; round++)
      CHECK(tl_program_run(c.program, &inputs[way], 1, &outputs[way], 1));
  }
  float expected[3][3], got[3];
  for (int way = 0; way < 3; way++) CHECK(tl_tensor_read(outputs[way], TL_F32, expected[way], 12));
  CHECK(memcmp(expected[0], expected[1], 12) != 0 && memcmp(expected[1], expected[2], 12) != 0);
  long before = atomic_load(&mallocs);
  int64_t calls = tli_alloc_count(), used = tl_memory_used(), cached = tl_memory_cached();
  for (int round = 0; round < 30; round++) {
    int way = round * 7 % 3;
    CHECK(tl_program_run(c.program, &inputs[way], 1, &outputs[way], 1));
    CHECK(tl_tensor_read(outputs[way], TL_F32, got, 12) && memcmp(got, expected[way], 12) == 0);
  }
  CHECK(atomic_load(&mallocs) == before && tli_alloc_count() == calls);
  CHECK(tl_memory_used() == used && tl_memory_cached() == cached);
  tli_ProgramMemory memory = tli_program_memory(c.program);
  printf("# branches: %ld bytes planned, %ld in use at once\n", (long)memory.arena,
         (long)memory.live);
  for (int way = 0; way < 3; way++) tl_tensor_release(inputs[way]), tl_tensor_release(outputs[way]);
  close_case(&c);
}

TEST(outputs_have_memory_of_their_own) {
  Case c = open_case("lstm");
  tl_Tensor *outputs[3] = {NULL};
  CHECK(c.noutputs == 3 && run_case(&c, outputs));
  tl_Tensor *twice[] = {outputs[0], outputs[1], outputs[1]};
  CHECK(!run_case(&c, twice) && tl_error_kind() == TL_EARG);
  CHECK(strstr(tl_error(), "output 3 of 3: expected a tensor with memory of its own") != NULL);
  float one = 0;
  int64_t zeros[TL_MAX_DIMS] = {0};
  tl_Tensor *narrow = tl_tensor_wrap(&one, TL_F32, tl_tensor_ndim(outputs[0]),
                                     tl_tensor_sizes(outputs[0]), zeros, NULL, NULL);
  tl_Tensor *folded[] = {narrow, outputs[1], outputs[2]};
  CHECK(!run_case(&c, folded) && strstr(tl_error(), "output 1 of 3") != NULL);
  CHECK(run_case(&c, outputs) && as_expected(&c, outputs[0]));
  CHECK(tl_program_to(c.program, (tl_Device){TL_CPU, 5}) == NULL);
  CHECK(strcmp(tl_error(), "program: expected device cpu, got cpu:5") == 0);
  tl_tensor_release(narrow);
  drop(outputs, 3);
  close_case(&c);
}

TEST(loops_have_limits) {
  Case c = open_case("loops");
  tl_Tensor *out = NULL;
  CHECK(run_case(&c, &out) && as_expected(&c, out));
  CHECK(tl_program_set_limits(c.program, &(tl_ProgramLimits){.iterations = 2}));
  CHECK(!run_case(&c, &out) && strstr(tl_error(), "expected to end within 2 iterations") != NULL);
  CHECK(tl_program_set_limits(c.program, &(tl_ProgramLimits){.seconds = 1e-9}));
  CHECK(!run_case(&c, &out) && tl_error_kind() == TL_EINTERRUPT);
  CHECK(strstr(tl_error(), "expected a run of at most 1e-09 seconds") != NULL);
  CHECK(tl_program_set_limits(c.program, &(tl_ProgramLimits){0}));
  tl_interrupt();
  CHECK(!run_case(&c, &out) && tl_error_kind() == TL_EINTERRUPT);
  tl_interrupt_clear();
  CHECK(run_case(&c, &out) && as_expected(&c, out));
  CHECK(!tl_program_set_limits(c.program, NULL) && !tl_program_set_limits(NULL, NULL));
  CHECK(!tl_program_set_limits(c.program, &(tl_ProgramLimits){.iterations = -1}));
  tl_tensor_release(out);
  close_case(&c);
}

/* Makes n training steps. Their losses must equal the losses of eager training from step `first`
** on. */
static void train(const Case *c, int first, int n) {
  for (int i = first; i < first + n; i++) {
    tl_Tensor *loss = NULL;
    float value;
    CHECK(tl_program_step(c->program, &c->in, 1, &loss, 1));
    CHECK(tl_tensor_read(loss, TL_F32, &value, sizeof value));
    CHECK(memcmp(&value, (float *)c->expected + i, sizeof value) == 0);
    tl_tensor_release(loss);
  }
}

/* Checks the results of a model whose parameters a program has trained. */
static void check_trained(const char *name, tl_Program *program) {
  char eval[40];
  snprintf(eval, sizeof eval, "%s_eval", name);
  Case c = open_case(eval);
  tl_Tensor *out = NULL;
  CHECK(tl_program_share(c.program, program));
  CHECK(run_case(&c, &out) && as_expected(&c, out));
  tl_tensor_release(out);
  close_case(&c);
}

TEST(steps_have_the_bits_of_lua) {
  for (int i = 0; trained[i]; i++) {
    Case c = open_case(trained[i]);
    CHECK(c.bytes == STEPS * sizeof(float));
    train(&c, 0, STEPS);
    check_trained(trained[i], c.program);
    close_case(&c);
  }
}

TEST(a_saved_program_goes_on) {
  for (int i = 0; trained[i]; i++) {
    Case c = open_case(trained[i]);
    train(&c, 0, 7);
    CHECK(tl_program_save(c.program, in_folder("saved", ".tlp")));
    tl_program_free(c.program);
    CHECK((c.program = tl_program_load(in_folder("saved", ".tlp"))) != NULL);
    train(&c, 7, STEPS - 7);
    check_trained(trained[i], c.program);
    close_case(&c);
  }
}

TEST(steps_of_several_programs_take_turns) {
  Case c[] = {open_case("gan_judge"), open_case("gan_maker"), open_case("gan_copy")};
  for (int i = 0; i < 3; i++) train(&c[i], 0, i == 0);
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) CHECK(tl_program_share(c[i].program, c[k].program));
  for (int step = 0; step < STEPS; step++)
    for (int i = 0; i < 3; i++)
      if (step + i > 0) train(&c[i], step, 1);
  for (int i = 0; i < 3; i++) close_case(&c[i]);
}

TEST(later_steps_allocate_nothing) {
  CHECK(tl_set_num_threads(1));
  for (int i = 0; trained[i]; i++) {
    Case c = open_case(trained[i]);
    tl_Tensor *loss = NULL;
    for (int k = 0; k < 3; k++) CHECK(tl_program_step(c.program, &c.in, 1, &loss, 1));
    long before = atomic_load(&mallocs);
    int64_t used = tl_memory_used(), cached = tl_memory_cached();
    for (int k = 0; k < 20; k++) CHECK(tl_program_step(c.program, &c.in, 1, &loss, 1));
    CHECK(atomic_load(&mallocs) == before);
    CHECK(tl_memory_used() == used && tl_memory_cached() == cached);
    tli_ProgramMemory memory = tli_program_memory(c.program);
    printf("# %s: %ld bytes planned, %ld in use at once\n", trained[i], (long)memory.arena,
           (long)memory.live);
    CHECK(memory.live > 0 && memory.arena <= memory.live * 115 / 100);
    tl_tensor_release(loss);
    close_case(&c);
  }
}

static void *step_often(void *context) {
  const Case *c = context;
  bool ok = true;
  for (int i = 0; ok && i < STEPS / 4; i++) {
    tl_Tensor *loss = NULL;
    ok = tl_program_step(c->program, &c->in, 1, &loss, 1);
    tl_tensor_release(loss);
  }
  return ok ? context : NULL;
}

/* Tests that training steps that several threads make run one after the other, with the same
** results. */
TEST(threads_step_in_turn) {
  for (int i = 0; trained[i]; i++) {
    Case c = open_case(trained[i]);
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) CHECK(pthread_create(&threads[t], NULL, step_often, &c) == 0);
    for (int t = 0; t < 4; t++) {
      void *ok;
      pthread_join(threads[t], &ok);
      CHECK(ok != NULL);
    }
    check_trained(trained[i], c.program);
    close_case(&c);
  }
}

TEST(weights_begin_at_multiples_of_64_bytes) {
  for (int i = 0; i < NAMES; i++) {
    tli_Graph *g = tli_graph_load(in_folder(all_names[i], ".tlp"));
    CHECK(g != NULL && g->nconstants > 0);
    for (int32_t k = 0; g && k < g->nconstants; k++)
      CHECK((uintptr_t)tli_data(g->constants[k].tensor) % 64 == 0);
    tli_graph_release(g);
  }
}

static void *run_often(void *context) {
  const Case *c = context;
  bool ok = true;
  for (int round = 0; ok && round < 40; round++) {
    tl_Tensor *outputs[8] = {NULL};
    ok = run_case(c, outputs) && as_expected(c, outputs[0]);
    drop(outputs, c->noutputs);
  }
  return ok ? context : NULL;
}

TEST(threads_share_a_program) {
  for (int i = 0; names[i]; i++) {
    Case c = open_case(names[i]);
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) CHECK(pthread_create(&threads[t], NULL, run_often, &c) == 0);
    for (int t = 0; t < 4; t++) {
      void *ok;
      pthread_join(threads[t], &ok);
      CHECK(ok != NULL);
    }
    CHECK(tli_program_memory(c.program).contexts <= 4);
    close_case(&c);
  }
}

TEST(dynamic_sizes_change_from_run_to_run) {
  Case c = open_case("digits");
  for (int64_t n = 1; n <= 4; n++) {
    tl_Tensor *some = tl_tensor_wrap(c.in_data, TL_F32, 2, (int64_t[]){n, 64}, NULL, NULL, NULL);
    tl_Tensor *out = NULL;
    CHECK(some && tl_program_run(c.program, &some, 1, &out, 1));
    CHECK(tl_tensor_sizes(out)[0] == n && tl_tensor_sizes(out)[1] == 10);
    tl_tensor_release(out);
    tl_tensor_release(some);
  }
  close_case(&c);
}

static bool says(const char *part) {
  bool found = strstr(tl_error(), part) != NULL;
  if (!found) printf("# %s\n", tl_error());
  return found;
}

TEST(failures_are_told) {
  Case c = open_case("mlp");
  tl_ProgramInput in;
  tl_Tensor *out = NULL, *wrong = tl_tensor_empty(TL_F32, 2, (int64_t[]){3, 63});
  CHECK(tl_program_load(NULL) == NULL && says("expected a path"));
  CHECK(tl_program_load("/nonexistent") == NULL && says("export.load: /nonexistent: No such file"));
  CHECK(tl_program_load(in_folder("mlp", ".in")) == NULL && says("expected a safetensors file"));
  CHECK(!tl_program_run(NULL, &c.in, 1, &out, 1) && says("expected a program, got NULL"));
  CHECK(!tl_program_run(c.program, &c.in, 2, &out, 1) && says("expected 1 inputs and 1 outputs"));
  CHECK(!tl_program_run(c.program, NULL, 1, &out, 1) && says("got NULL"));
  CHECK(!tl_program_run(c.program, &out, 1, &out, 1) && says("expected a tensor, got NULL"));
  CHECK(!tl_program_run(c.program, &wrong, 1, &out, 1) && says("expected size 64 in dimension"));
  CHECK(out == NULL);
  out = wrong;
  CHECK(!tl_program_run(c.program, &c.in, 1, &out, 1) && says("expected float32 of sizes [3, 10]"));
  CHECK(out == wrong);
  CHECK(!tl_program_input(c.program, 1, &in) && says("expected an input from 0 to 0, got 1"));
  CHECK(tl_program_inputs(NULL) == 0 && tl_program_outputs(NULL) == 0);
  CHECK(!tl_program_step(c.program, &c.in, 1, &out, 1) && says("it is no training step"));
  CHECK(!tl_program_save(c.program, NULL) && says("expected a program and a path, got NULL"));
  CHECK(!tl_program_save(c.program, "/nonexistent/x.tlp") && says("/nonexistent/x.tlp"));
  CHECK(!tl_program_seed(NULL, 1) && says("expected a program, got NULL"));
  CHECK(!tl_program_share(c.program, NULL) && says("expected two programs, got NULL"));
  CHECK(!tl_program_share(c.program, c.program) && says("programs with state of the same names"));
  Case step = open_case("train_mlp");
  CHECK(!tl_program_run(step.program, &step.in, 1, &out, 1) && says("it is a training step"));
  Case judge = open_case("gan_judge"), other = open_case("train_convnet");
  CHECK(!tl_program_share(judge.program, other.program) && says("state of the same names"));
  close_case(&judge);
  close_case(&other);
  CHECK(tl_program_seed(step.program, 9));
  close_case(&step);
  tl_program_free(NULL);
  tl_tensor_release(wrong);
  close_case(&c);
}

/* Tests that loading and running fail cleanly if a single allocation fails, and if each
** `every`-th allocation fails. */
static void failing_allocations_of(const char *name, int every) {
  Case c = open_case(name);
  bool step = c.bytes == STEPS * sizeof(float);
  tl_Program *p = NULL;
  tl_Tensor *out = NULL;
  int64_t n = 1, used = tl_memory_used();
  for (bool ok = false; !ok; n += every) {
    tli_alloc_fail_at(n);
    p = tl_program_load(in_folder(name, ".tlp"));
    ok = p && (step ? tl_program_step : tl_program_run)(p, &c.in, 1, &out, 1);
    tli_alloc_fail_at(0);
    if (ok && !step) CHECK(as_expected(&c, out));
    tl_tensor_release(out);
    tl_program_free(p);
    out = NULL;
    CHECK(tl_memory_used() == used);
  }
  CHECK(n > 10);
  close_case(&c);
}

TEST(failing_allocations_leave_nothing_behind) {
  failing_allocations_of("mlp", 1);
  failing_allocations_of("branches", 1);
  failing_allocations_of("loops", 7);
  failing_allocations_of("train_mlp", 1);
}

/* ---- damaged files ---- */

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

static void keep(void *data, void *context) {
  (void)data;
  (void)context;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Changes a copy of a file in one of several ways, most of which change the text of the header. */
static size_t mutate(char *data, size_t size, size_t header) {
  static const char *const words[] = {"null",
                                      "-1",
                                      "0",
                                      "1",
                                      "99999999999",
                                      "[]",
                                      "\"x\"",
                                      "true",
                                      "1e300",
                                      "{}",
                                      "9223372036854775807",
                                      "\\\"add\\\"",
                                      "\\\"index\\\"",
                                      "\\\"relu_\\\"",
                                      "\\\"cond_begin\\\"",
                                      "\\\"cond_else\\\"",
                                      "\\\"cond_end\\\"",
                                      "\\\"loop_begin\\\"",
                                      "\\\"loop_test\\\"",
                                      "\\\"loop_end\\\"",
                                      ",",
                                      "]",
                                      "["};
  for (uint64_t times = 1 + draw(3); times > 0; times--) {
    size_t at = 8 + draw(header);
    uint64_t way = draw(8);
    if (way == 0) {
      data[at] ^= (char)(1 << draw(8));
    } else if (way == 1) {
      return draw(size + 1);
    } else if (way == 2) {
      data[draw(8)] = (char)draw(256);
    } else if (way == 3) {
      const char *word = words[draw(sizeof words / sizeof *words)];
      size_t n = strlen(word);
      if (at + n < 8 + header) memcpy(data + at, word, n);
    } else if (way == 4) {
      size_t from = 8 + draw(header), n = 1 + draw(24);
      if (from + n < 8 + header && at + n < 8 + header) memmove(data + at, data + from, n);
    } else {
      while (at < 8 + header && !is_digit(data[at])) at++;
      if (at < 8 + header) data[at] = (char)('0' + draw(10));
    }
  }
  return size;
}

/* Reads a mutated file, and runs the program if the file was accepted. */
static bool try_file(char *data, size_t size, const Case *c) {
  tli_Graph *g = tli_graph_read(data, size, keep, NULL);
  tl_Program *p = g ? tli_program_new(g) : NULL;
  tli_graph_release(g);
  if (p == NULL) return false;
  tl_Tensor *outputs[8] = {NULL};
  int n = tl_program_outputs(p);
  CHECK(tl_program_set_limits(p, &(tl_ProgramLimits){.iterations = 200, .seconds = 5}));
  for (int round = 0; n <= 8 && round < 2; round++) {
    bool ok =
        (tli_program_graph(p)->step ? tl_program_step : tl_program_run)(p, &c->in, 1, outputs, n);
    drop(outputs, ok ? n : 0);
    memset(outputs, 0, sizeof outputs);
  }
  tl_program_free(p);
  return true;
}

TEST(mutated_files_are_refused_or_run) {
  const char *often = getenv("TLUA_FUZZ");
  long rounds = often ? atol(often) : 400, accepted = 0;
  if (often) state ^= (uint64_t)getpid();
  for (int i = 0; i < NAMES; i++) {
    Case c = open_case(all_names[i]);
    void *whole;
    size_t size = read_file(in_folder(all_names[i], ".tlp"), &whole), header = 0;
    memcpy(&header, whole, 8);
    int64_t used = tl_memory_used();
    tl_set_memory_limit(used + (64 << 20));
    for (long round = 0; round < rounds; round++) {
      char *copy = malloc(size);
      memcpy(copy, whole, size);
      size_t left = mutate(copy, size, header);
      /* a buffer of exactly this size, so that a sanitizer detects reads past the end */
      char *exact = malloc(left + 1);
      memcpy(exact, copy, left);
      accepted += try_file(exact, left, &c);
      free(copy);
      free(exact);
    }
    tl_set_memory_limit(0);
    CHECK(tl_memory_used() == used);
    free(whole);
    close_case(&c);
  }
  printf("# %ld of %ld mutated files were accepted\n", accepted, NAMES * rounds);
  CHECK(accepted > 0 && accepted < NAMES * rounds);
}

static void remove_folder(void) {
  char command[400];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
}

int main(void) {
  export_models();
  int status = test_all();
  remove_folder();
  return status;
}
