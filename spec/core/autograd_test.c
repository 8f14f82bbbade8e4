/*
** autograd_test.c - tests parts of autograd that Lua specs cannot reach: passes in which the n-th
** allocation fails, for every n; graphs that several threads use; and the node functions that
** generated code calls.
*/
#include <pthread.h>

#include "autograd/graph.h"
#include "core/memory/alloc.h"
#include "ops.h"
#include "test.h"

/* The objects that a step has made, which are freed together. hold() adds an object, but not the
** NULL of a failed call. */
typedef struct Bag {
  tl_Tensor *held[64];
  int n;
} Bag;

static tl_Tensor *hold(Bag *bag, tl_Tensor *t) { return t ? bag->held[bag->n++] = t : NULL; }

static void empty(Bag *bag) {
  while (bag->n > 0) tli_release(bag->held[--bag->n]);
}

static tl_Tensor *leaf(Bag *bag, double value, int ndim, const int64_t *sizes) {
  tl_Tensor *t = hold(bag, tli_empty(TL_F32, TLI_CPU, ndim, sizes));
  return t && tlo_fill_(t, tli_float(value)) && tli_require_grad(t) ? t : NULL;
}

static const tl_Scalar one = {.kind = TL_INTEGER, .i = 1};

#define NEED(call) \
  if (!(call)) return false

static bool half(void *context, tl_Tensor *grad, tl_Tensor **out) {
  ++*(int *)context;
  tl_Tensor *factor = tli_number(tli_float(0.5));
  TL_TRY(factor);
  *out = tlo_mul(grad, factor);
  tli_release(factor);
  return *out != NULL;
}

/* Runs a step that uses broadcasting, views, in-place changes of views, saved results, hooks and
** retained gradients. Its first backward pass is recorded, and a second pass differentiates that
** recording. */
static bool step_in(Bag *bag, int *hooks) {
  tl_Tensor *x = leaf(bag, 2, 2, (int64_t[]){3, 4}),
            *w = x ? leaf(bag, 3, 1, (int64_t[]){4}) : NULL;
  NEED(w);
  tl_Tensor *h = hold(bag, tlo_mul(x, w));
  NEED(h);
  tl_Tensor *row = hold(bag, tlo_select(h, 0, 1));
  NEED(row && tlo_mul_(row, w) && tli_retain_grad(h));
  tl_Tensor *column = hold(bag, tlo_select(h, 1, 2));
  NEED(column && tlo_exp_(column) && tli_retain_grad(column));
  tl_Tensor *sum = hold(bag, tlo_add(h, row, one));
  NEED(sum);
  struct tli_Hook *hook = tli_hook_add(sum, half, hooks, NULL);
  NEED(hook);
  tli_hook_release(hook);
  tl_Tensor *y = hold(bag, tlo_sum(sum, TLI_NOINTS, false, TL_NODTYPE));
  NEED(y);
  tl_Tensor *grads[2];
  tli_Backward first = {.roots = &y,
                        .nroots = 1,
                        .retain_graph = true,
                        .create_graph = true,
                        .inputs = (tl_Tensor *[]){x, w},
                        .ninputs = 2,
                        .results = grads};
  NEED(tli_backward(&first));
  hold(bag, grads[0]);
  hold(bag, grads[1]);
  tl_Tensor *square = hold(bag, tlo_mul(grads[0], grads[0]));
  NEED(square);
  tl_Tensor *roots[2] = {hold(bag, tlo_sum(square, TLI_NOINTS, false, TL_NODTYPE)), y};
  NEED(roots[0]);
  tli_Backward second = {.roots = roots, .nroots = 2};
  NEED(tli_backward(&second));
  return x->autograd->grad && w->autograd->grad && !grads[0]->autograd->grad;
}

static bool step(int *hooks) {
  Bag bag = {.n = 0};
  bool ok = step_in(&bag, hooks);
  empty(&bag);
  return ok;
}

/* Tests backward passes in which an allocation fails. The first two runs fill the caches, such
** as those of each thread, so that all later runs make the same number of allocations. */
TEST(memory_may_run_out_anywhere) {
  int hooks = 0;
  CHECK(step(&hooks) && hooks == 2);
  CHECK(step(&hooks));
  int64_t before = tl_memory_used(), count = tli_alloc_count();
  CHECK(step(&hooks));
  count = tli_alloc_count() - count;
  CHECK(count > 100);
  CHECK(tl_memory_used() == before);
  for (int64_t n = 1; n <= count; n++) {
    tli_error_clear();
    tli_alloc_fail_at(n);
    bool ok = step(&hooks);
    tli_alloc_fail_at(0);
    CHECK_AT(n, ok || tl_error_kind() == TL_EMEM);
    CHECK_AT(n, tl_memory_used() == before);
    CHECK_AT(n, tli_grad_mode() && !tli_inference_mode());
  }
  CHECK(step(&hooks));
}

TEST(an_interrupt_stops_a_pass) {
  Bag bag = {.n = 0};
  tl_Tensor *x = leaf(&bag, 2, 0, NULL);
  tl_Tensor *y = hold(&bag, tlo_exp(x));
  tli_Backward call = {.roots = &y, .nroots = 1};
  tl_interrupt();
  CHECK(!tli_backward(&call));
  CHECK_ERROR(TL_EINTERRUPT, "interrupted");
  tl_interrupt_clear();
  CHECK(x->autograd == NULL || x->autograd->grad == NULL);
  CHECK(tli_backward(&call));
  empty(&bag);
}

/* Tests that a gradient becomes .grad without a copy if nothing else refers to it. */
TEST(gradients_are_not_copied_without_need) {
  Bag bag = {.n = 0};
  tl_Tensor *x = leaf(&bag, 2, 1, (int64_t[]){1000});
  tl_Tensor *grad = tli_empty(TL_F32, TLI_CPU, 1, (int64_t[]){1000});
  CHECK(tlo_fill_(grad, one));
  tl_Tensor *shared = hold(&bag, tli_retain(grad));
  CHECK(tli_grad_accumulate(x, grad, false));
  CHECK(x->autograd->grad != shared);
  CHECK(tli_grad_set(x, NULL) && x->autograd->grad == NULL);
  bag.n--;
  CHECK(tli_grad_accumulate(x, shared, false));
  CHECK(x->autograd->grad == shared);

  /* A gradient that is part of a larger block must be copied: otherwise it would keep the whole
  ** block allocated. */
  tl_Tensor *large = hold(&bag, tli_empty(TL_F32, TLI_CPU, 2, (int64_t[]){2, 1000}));
  CHECK(tlo_fill_(large, one));
  tl_Tensor *part = tlo_select(large, 0, 1);
  tli_release(large);
  bag.n--;
  CHECK(tli_grad_set(x, NULL));
  CHECK(tli_grad_accumulate(x, part, false));
  CHECK(x->autograd->grad->storage->bytes == 4000);
  empty(&bag);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 200 };

typedef struct Shared {
  tl_Tensor *w; /* the weight that all threads read */
  tl_Tensor *results[THREADS];
} Shared;

typedef struct Worker {
  Shared *shared;
  int number;
} Worker;

/* The work of each thread: it makes graphs that use the same weight, and runs backward passes. */
static void *work(void *context) {
  Worker *worker = context;
  tl_Tensor *w = worker->shared->w, *grad = NULL;
  for (int i = 0; i < ROUNDS; i++) {
    tl_Tensor *h = tlo_mul(w, w), *y = tlo_sum(h, TLI_NOINTS, false, TL_NODTYPE);
    tli_release(grad);
    tli_Backward call = {.roots = &y, .nroots = 1, .inputs = &w, .ninputs = 1, .results = &grad};
    if (!tli_backward(&call)) grad = NULL;
    tli_release(h);
    tli_release(y);
  }
  worker->shared->results[worker->number] = grad;
  return NULL;
}

TEST(threads_run_passes_of_their_own) {
  Bag bag = {.n = 0};
  Shared shared = {.w = leaf(&bag, 3, 1, (int64_t[]){5})};
  pthread_t threads[THREADS];
  Worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (Worker){&shared, i};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    tl_Tensor *grad = hold(&bag, shared.results[i]);
    CHECK(grad && *(float *)tli_data(grad) == 6);
  }
  empty(&bag);
}

static void *release(void *tensor) {
  tli_release(tensor);
  return NULL;
}

/* Tests that one thread can free a result and its .grad while another thread frees the graph. */
TEST(graphs_are_freed_by_any_thread) {
  for (int i = 0; i < ROUNDS; i++) {
    Bag bag = {.n = 0};
    tl_Tensor *x = leaf(&bag, 3, 1, (int64_t[]){5});
    tl_Tensor *h = tlo_mul(x, x), *y = tlo_sum(h, TLI_NOINTS, false, TL_NODTYPE);
    CHECK(tli_retain_grad(h));
    tli_Backward call = {.roots = &y, .nroots = 1};
    CHECK(tli_backward(&call));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release, h) == 0);
    tli_release(y);
    pthread_join(thread, NULL);
    empty(&bag);
  }
}

int main(void) { return test_all(); }
