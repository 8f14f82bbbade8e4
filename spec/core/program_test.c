/*
** program_test.c - tests programs without Lua, which this test does not link. A script that the
** command runs exports models, inputs, and the results that they must give bitwise; mutated files
** must be refused or run without a crash.
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

static const char script[] =
    "local dir = arg[1]\n"
    "torch.manual_seed(1)\n"
    "local function put(path, x)\n"
    "   local file = assert(io.open(dir .. '/' .. path, 'wb'))\n"
    "   for _, v in ipairs(x:flatten():tolist()) do file:write(string.pack('<f', v)) end\n"
    "   file:close()\n"
    "end\n"
    "local function export(name, model, x, options)\n"
    "   model:eval()\n"
    "   torch.export(model, {x}, options):save(dir .. '/' .. name .. '.tlp')\n"
    "   put(name .. '.in', x)\n"
    "   put(name .. '.out', (model(x)))\n"
    "end\n"
    "export('mlp', nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(3, 64))\n"
    "export('digits', nn.Sequential(nn.Unflatten(2, {1, 8, 8}), nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16),\n"
    "   nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),\n"
    "   nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)), torch.randn(4, 64), {dynamic = {input = {1}}})\n"
    "export('lstm', nn.LSTM(8, 16, {num_layers = 2, batch_first = true}), torch.randn(2, 7, 8))\n"
    "export('transformer', nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4,\n"
    "   {dim_feedforward = 64, batch_first = true}), 2), torch.randn(2, 9, 32))\n";

static char folder[] = "/tmp/program_testXXXXXX";

static const char *in_folder(const char *name, const char *ending) {
  static char path[4][300];
  static int next;
  char *at = path[next++ % 4];
  snprintf(at, sizeof path[0], "%s/%s%s", folder, name, ending);
  return at;
}

static void export_models(void) {
  const char *tlua = getenv("TLUA") ? getenv("TLUA") : "build/tlua";
  char command[1000];
  CHECK(mkdtemp(folder) != NULL);
  FILE *file = fopen(in_folder("export", ".lua"), "w");
  CHECK(file != NULL);
  fputs(script, file);
  fclose(file);
  snprintf(command, sizeof command, "%s %s %s", tlua, in_folder("export", ".lua"), folder);
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
  size_t bytes; /* bytes of the first result */
  int noutputs;
} Case;

/* Loads a program with its example; a dynamic dimension has size 4. */
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

static const char *const names[] = {"mlp", "digits", "lstm", "transformer", NULL};

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
  /* checks that the count counts */
  long before = atomic_load(&mallocs);
  void *volatile block = malloc(100);
  free(block);
  CHECK(!COUNTED || atomic_load(&mallocs) == before + 1);
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
  CHECK(!tl_program_run(c.program, &c.in, 1, &out, 1) &&
        says("expected a float32 tensor of sizes [3, 10]"));
  CHECK(out == wrong);
  CHECK(!tl_program_input(c.program, 1, &in) && says("expected an input from 0 to 0, got 1"));
  CHECK(tl_program_inputs(NULL) == 0 && tl_program_outputs(NULL) == 0);
  tl_program_free(NULL);
  tl_tensor_release(wrong);
  close_case(&c);
}

/* Tests that every allocation of a load and a run may fail once. */
TEST(failing_allocations_leave_nothing_behind) {
  Case c = open_case("mlp");
  tl_Program *p = NULL;
  tl_Tensor *out = NULL;
  int64_t n = 1, used = tl_memory_used();
  for (bool ok = false; !ok; n++) {
    tli_alloc_fail_at(n);
    p = tl_program_load(in_folder("mlp", ".tlp"));
    ok = p && tl_program_run(p, &c.in, 1, &out, 1);
    tli_alloc_fail_at(0);
    if (ok) CHECK(as_expected(&c, out));
    tl_tensor_release(out);
    tl_program_free(p);
    out = NULL;
    CHECK(tl_memory_used() == used);
  }
  CHECK(n > 10);
  close_case(&c);
}

/* ---- hostile files ---- */

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

/* Changes a copy of a file in one of several ways, most of them in the text of the header. */
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

/* Reads a mutated file, and runs the program if the file is accepted. */
static bool try_file(char *data, size_t size, const Case *c) {
  tli_Graph *g = tli_graph_read(data, size, keep, NULL);
  tl_Program *p = g ? tli_program_new(g) : NULL;
  tli_graph_release(g);
  if (p == NULL) return false;
  tl_Tensor *outputs[8] = {NULL};
  int n = tl_program_outputs(p);
  for (int round = 0; n <= 8 && round < 2; round++) {
    bool ok = tl_program_run(p, &c->in, 1, outputs, n);
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
  for (int i = 0; names[i]; i++) {
    Case c = open_case(names[i]);
    void *whole;
    size_t size = read_file(in_folder(names[i], ".tlp"), &whole), header = 0;
    memcpy(&header, whole, 8);
    int64_t used = tl_memory_used();
    tl_set_memory_limit(used + (64 << 20));
    for (long round = 0; round < rounds; round++) {
      char *copy = malloc(size);
      memcpy(copy, whole, size);
      size_t left = mutate(copy, size, header);
      /* an exact copy, so that a sanitizer sees reads past the end */
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
  printf("# %ld of %ld mutated files were accepted\n", accepted, 4 * rounds);
  CHECK(accepted > 0 && accepted < 4 * rounds);
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
