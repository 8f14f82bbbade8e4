/*
** engine.c - the backward pass.
**
** A slot of the plan stands for a node or a leaf. It becomes ready when all gradients that the plan
** counted for it have arrived. A leaf is then finished immediately. Nodes wait in a heap ordered by
** sequence number: the node created last in the forward pass runs first, so saved tensors are
** released early. The engine does not recurse, unless a node's derivative starts a pass of its own.
**
** Invariants: The pass owns the roots' nodes and thereby every node that it will visit, whatever
** hooks and derivatives do to tensors. Every gradient that is on its way is owned by one slot or
** one local variable, so a failure anywhere leaks nothing once the plan is freed.
*/
#include <string.h>

#include "autograd/grads.h"
#include "autograd/hooks.h"
#include "autograd/schedule.h"
#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/platform/parallel.h"
#include "core/observe/profile.h"
#include "ops.h"

typedef struct Pass {
  struct Pass *outer; /* the enclosing pass, if this one is nested (borrowed) */
  uint64_t number;
  const tli_Backward *call;
  tli_Plan plan;
  bool retain; /* whether nodes keep their saved tensors, so that another pass can use the graph */
  /* the edges of the roots, followed by the edges of the inputs; the pass owns the array and the
  ** edges' references */
  tli_Edge *ends;
  int nends;
  int32_t *heap; /* ready nodes, as a heap ordered by sequence number */
  int32_t nheap, heap_room;
  /* the stream guard of the running node (borrowed); NULL while the caller's streams are current */
  tli_StreamGuard *running;
} Pass;

static _Thread_local Pass *current; /* the innermost pass of this thread (borrowed) */

/* The node whose derivative is being computed; tli_node_wants reads this record. */
static _Thread_local struct {
  const Pass *pass;
  const tli_Slot *slot;
} now;

bool tli_node_wants(const tli_Node *n, int i) {
  if (n->edges[i].node == NULL && n->edges[i].leaf == NULL) return false;
  if (now.slot == NULL || now.slot->node != n) return true;
  const tli_Plan *plan = &now.pass->plan;
  return plan->slots[plan->targets[now.slot->targets + i]].wanted;
}

/* ---- the heap ---- */

static uint64_t sequence(const Pass *p, int32_t slot) { return p->plan.slots[slot].node->sequence; }

static void heap_push(Pass *p, int32_t slot) {
  int32_t i = p->nheap++;
  uint64_t s = sequence(p, slot);
  for (int32_t up; i > 0 && sequence(p, p->heap[up = (i - 1) / 2]) < s; i = up)
    p->heap[i] = p->heap[up];
  p->heap[i] = slot;
}

static int32_t heap_pop(Pass *p) {
  int32_t top = p->heap[0], last = p->heap[--p->nheap], i = 0;
  uint64_t s = sequence(p, last);
  for (int32_t down; (down = 2 * i + 1) < p->nheap; i = down) {
    if (down + 1 < p->nheap && sequence(p, p->heap[down + 1]) > sequence(p, p->heap[down])) down++;
    if (sequence(p, p->heap[down]) <= s) break;
    p->heap[i] = p->heap[down];
  }
  p->heap[i] = last;
  return top;
}

/* ---- streams ---- */

/* A node runs on the stream of its forward call. Gradients of leaves, and gradients that the
** caller asked for, are on the caller's stream. When a gradient moves from one stream to
** another, the second stream waits for the first. */

/* Returns the stream of a device that was current when the backward pass was called. While a node
** runs, another stream is current. */
static tl_Stream *callers_stream(const Pass *p, tl_Device device) {
  const tli_StreamGuard *s = p->running;
  return s && tli_same_device(s->device, device) ? s->before : tli_stream(device);
}

/* Returns the stream on which a slot's gradients on the given device are accumulated and used. */
static tl_Stream *stream_of(const Pass *p, const tli_Slot *s, tl_Device device) {
  const tli_Info *info = s->node && s->node->noutputs > 0 ? &s->node->infos[0] : NULL;
  bool own = info && info->defined && info->stream && tli_same_device(info->device, device);
  return own ? info->stream : callers_stream(p, device);
}

/* Lets stream `to` use a tensor that the current stream has written. */
static bool give(const tl_Tensor *t, tl_Stream *to) {
  tl_Device device = tli_device(t);
  if (to == tli_stream(device) || t->storage->data == NULL) return true;
  return tli_stream_follow(device, to, tli_stream(device)) &&
         tli_backend(device)->device->record_stream(device, t->storage->data, to);
}

/* ---- complete gradients ---- */

/* Delivers a slot's gradients for the inputs (tli_Backward.inputs) whose edges lead to the slot:
** adds each gradient to the leaf's .grad if the caller has set `accumulate`, otherwise returns it
** in `results`. */
static bool capture(Pass *p, const tli_Slot *s, tl_Tensor *const *grads) {
  const tli_Backward *call = p->call;
  for (int32_t i = s->captures; i >= 0; i = p->plan.next[i]) {
    tl_Tensor *grad = grads[p->ends[call->nroots + i].output];
    if (grad == NULL) continue;
    if (call->accumulate)
      TL_TRY(tli_grad_accumulate(call->inputs[i] ? call->inputs[i] : s->leaf, tli_retain(grad),
                                 call->create_graph));
    else
      call->results[i] = tli_retain(grad);
  }
  return true;
}

/* Accumulates grad into the leaf's .grad. Steals grad. */
static bool accumulate_profiled(tl_Tensor *leaf, tl_Tensor *grad, bool create_graph) {
  tli_Span span = tli_span_open(TLI_SPAN_BACKWARD, "AccumulateGrad", &(tli_SpanInput){&leaf, 1}, 1);
  bool ok = tli_grad_accumulate(leaf, grad, create_graph);
  tli_span_close(span, 0);
  if (!ok || leaf->autograd == NULL || leaf->autograd->grad == NULL) return ok;
  tli_profile_mark(leaf->autograd->grad, TLI_MEMORY_GRADIENT);
  tli_profile_mark(leaf, TLI_MEMORY_PARAMETER);
  return true;
}

static bool finish_leaf(Pass *p, tli_Slot *s) {
  if (s->one == NULL) return true;
  if (s->leaf->autograd) TL_TRY(tli_hooks_run(s->leaf->autograd->hooks, "backward", 0, &s->one));
  /* only now reads requires_grad, since a hook may have turned it off */
  bool wants_grad = s->leaf->flags & TLI_REQUIRES_GRAD;
  if (p->call->ninputs || !wants_grad) {
    TL_TRY(capture(p, s, &s->one));
    tli_slot_clear(s);
    return true;
  }
  tl_Tensor *grad = s->one;
  s->one = NULL;
  bool create = p->call->create_graph;
  TL_TRY(tli_profiling() ? accumulate_profiled(s->leaf, grad, create)
                         : tli_grad_accumulate(s->leaf, grad, create));
  return s->leaf->autograd->hooks == NULL || tli_hooks_run_after(s->leaf);
}

/* Returns the gradient as a dense tensor. Steals grad. */
static tl_Tensor *to_dense(tl_Tensor *grad) {
  tl_Tensor *dense = tli_sparse_grad_dense(grad);
  tli_release(grad);
  return dense;
}

/* Returns whether a slot takes this sparse gradient as it is, without making it dense. */
static bool takes_sparse(const tli_Slot *s, const tl_Tensor *grad) {
  return s->leaf && s->leaf->dtype == grad->dtype && tli_same_sizes(s->leaf, grad);
}

/* Casts a gradient and sums it to the output's shape, then adds it to the gradients that have
** arrived for that output. Steals the gradient. */
static bool add(tli_Slot *s, const char *from, int output, tl_Tensor *grad) {
  tli_Info of_leaf;
  if (tli_is_sparse_grad(grad) && !takes_sparse(s, grad)) TL_TRY(grad = to_dense(grad));
  if (s->leaf) tli_info_of(s->leaf, &of_leaf);
  tl_Tensor *fitted = tli_grad_fit(from, grad, s->leaf ? &of_leaf : &s->node->infos[output]);
  tli_release(grad);
  TL_TRY(fitted);
  if (!tli_slot_open(s)) {
    tli_release(fitted);
    return false;
  }
  tl_Tensor **sum = &tli_slot_grads(s)[output];
  *sum = *sum ? tli_grad_add(*sum, fitted) : fitted;
  return *sum != NULL;
}

/* Delivers a gradient to a slot on the current stream. NULL means that this use of the forward
** result yields no gradient. The last delivery finishes a leaf, or makes a node ready. Steals the
** gradient. */
static bool receive(Pass *p, const char *from, int32_t to, int output, tl_Tensor *grad) {
  tli_Slot *s = &p->plan.slots[to];
  if (s->wanted && grad)
    TL_TRY(add(s, from, output, grad));
  else
    tli_release(grad);
  if (--s->uses > 0 || !s->wanted) return true;
  if (s->leaf) return finish_leaf(p, s);
  heap_push(p, to);
  return true;
}

/* Calls `receive` after making the stream of the receiving slot current. */
static bool deliver(Pass *p, const char *from, int32_t to, int output, tl_Tensor *grad) {
  const tli_Slot *s = &p->plan.slots[to];
  const tl_Tensor *some = grad ? grad : s->leaf ? s->one : NULL;
  if (some == NULL || tli_device(some).type == TL_CPU) return receive(p, from, to, output, grad);
  tl_Device device = tli_device(some);
  tl_Stream *stream = stream_of(p, s, device);
  if (stream == tli_stream(device)) return receive(p, from, to, output, grad);
  if (grad && !give(grad, stream)) {
    tli_release(grad);
    return false;
  }
  tli_StreamGuard there;
  tli_stream_guard(&there, device, stream);
  bool ok = receive(p, from, to, output, grad);
  tli_stream_guard_end(&there);
  return ok;
}

/* ---- one node ---- */

/* Sets *any to whether at least one gradient has arrived. Replaces missing gradients by zeros if
** the node's type asks for that. */
static bool prepare(const tli_Node *n, tl_Tensor **grads, bool *any) {
  *any = false;
  for (int k = 0; k < n->noutputs; k++) *any = *any || grads[k];
  if (!*any || !n->type->materialize) return true;
  for (int k = 0; k < n->noutputs; k++) {
    if (grads[k] || !n->infos[k].defined) continue;
    grads[k] = tli_grad_fill(&n->infos[k], 0);
    TL_TRY(grads[k]);
  }
  return true;
}

static bool run_hooks(const tli_Node *n, tl_Tensor **grads) {
  if (n->hooks == NULL) return true;
  for (int k = 0; k < n->noutputs; k++)
    if (grads[k]) TL_TRY(tli_hooks_run(n->hooks, tli_node_name(n), k, &grads[k]));
  return true;
}

static bool has_nan(tl_Tensor *t, bool *answer) {
  tl_Tensor *indices;
  bool coalesced;
  if (tli_is_sparse_grad(t)) t = tli_sparse_grad_rows(t, &indices, &coalesced);
  tl_Tensor *each = tlo_isnan(t);
  tl_Tensor *any = each ? tlo_any(each, TLI_NOINTS, false) : NULL;
  bool ok = any && tlo_is_nonzero(any, answer);
  tli_release(any);
  tli_release(each);
  return ok;
}

/* Sets *answer to whether all n gradients that a node has received are finite. If they are, a NaN
** in the gradients that the node computes originates in the node itself. */
static bool all_finite(tl_Tensor *const *grads, int n, bool *answer) {
  *answer = true;
  for (int k = 0; k < n && *answer; k++) {
    if (grads[k] == NULL) continue;
    tl_Tensor *each = tlo_isfinite(grads[k]);
    tl_Tensor *all = each ? tlo_all(each, TLI_NOINTS, false) : NULL;
    bool ok = all && tlo_is_nonzero(all, answer);
    tli_release(all);
    tli_release(each);
    TL_TRY(ok);
  }
  return true;
}

static bool check_nan(const tli_Node *n, tl_Tensor *const *out, bool came_finite) {
  for (int i = 0; i < n->ninputs; i++) {
    bool nan = false;
    if (out[i] == NULL) continue;
    TL_TRY(has_nan(out[i], &nan));
    if (nan)
      return tli_fail(TL_EAUTOGRAD,
                      "%s: the gradient of its input " TLI_POS
                      " has NaN, %s; the forward call was at %s",
                      tli_node_name(n), (int64_t)i,
                      came_finite ? "though what came to it was finite"
                                  : "as what came to it was not finite already",
                      n->where ? n->where : "an unknown place");
  }
  return true;
}

static bool apply_profiled(tli_Node *n, tl_Tensor *const *grads, tl_Tensor **out) {
  char title[80];
  tli_node_title(n, title, sizeof title);
  tli_Span span = tli_span_open(TLI_SPAN_BACKWARD, title, &(tli_SpanInput){grads, n->noutputs}, 1);
  tli_span_node(n->sequence);
  bool ok = n->type->apply(n, grads, out);
  tli_span_close(span, 0);
  return ok;
}

/* Calls the node's derivative. All entries of out[] are NULL on entry and after a failure. */
static bool apply(Pass *p, tli_Slot *s, tl_Tensor **out) {
  tli_Node *n = s->node;
  if (!tli_node_usable(n)) return false;
  const Pass *outer_pass = now.pass;
  const tli_Slot *outer_slot = now.slot;
  now.pass = p;
  now.slot = s;
  bool ok = tli_profiling() ? apply_profiled(n, tli_slot_grads(s), out)
                            : n->type->apply(n, tli_slot_grads(s), out);
  now.pass = outer_pass;
  now.slot = outer_slot;
  return ok;
}

/* Releases the tensors that the node saved, and the node's hooks, since a hook that refers to the
** node's result would keep that result alive. Afterwards the node cannot run again. A node without
** saved tensors can run again if it has no hooks, or only those that store .grad. */
static void drop(tli_Node *n) {
  if (n->dropped || (n->type->drop == NULL && !tli_hooks_call_functions(n->hooks))) return;
  n->dropped = true;
  if (n->type->drop) n->type->drop(n);
  tli_Hooks *hooks = n->hooks;
  n->hooks = NULL;
  tli_hooks_free(hooks);
}

/* Computes the gradients of a node's inputs from the gradients of the node's outputs, and releases
** the output gradients. Also releases the node's saved tensors and hooks, unless the graph is
** retained. out[] receives new references; its entries are NULL on entry and after a failure. */
static bool derive(Pass *p, tli_Slot *s, tl_Tensor **out) {
  tli_Node *n = s->node;
  bool any, came_finite = true;
  TL_TRY(prepare(n, tli_slot_grads(s), &any));
  if (any && tli_anomaly()) TL_TRY(all_finite(tli_slot_grads(s), n->noutputs, &came_finite));
  if (any) TL_TRY(apply(p, s, out));
  /* afterwards, a gradient that the node has passed on unchanged has only one owner, so that it can
  ** be changed in place */
  tli_slot_clear(s);
  if (!p->retain) drop(n);
  if (!any || !tli_anomaly() || check_nan(n, out, came_finite)) return true;
  for (int i = 0; i < n->ninputs; i++) {
    tli_release(out[i]);
    out[i] = NULL;
  }
  return false;
}

#define FEW 8

/* Lets the caller's stream use the gradients that `capture` returns to the caller. */
static bool give_captured(const Pass *p, const tli_Slot *s, tl_Tensor *const *grads) {
  if (s->captures < 0 || p->running == NULL) return true;
  for (int k = 0; k < s->node->noutputs; k++)
    if (grads[k] && tli_device(grads[k]).type != TL_CPU)
      TL_TRY(give(grads[k], callers_stream(p, tli_device(grads[k]))));
  return true;
}

/* Runs a ready node on the current stream. */
static bool run_node(Pass *p, tli_Slot *s) {
  const tli_Node *n = s->node;
  if (tli_interrupted()) return tli_fail(TL_EINTERRUPT, "backward: interrupted");
  TL_TRY(tli_slot_open(s)); /* if no gradient has arrived, the slot has no array of gradients yet */
  TL_TRY(run_hooks(n, tli_slot_grads(s)));
  TL_TRY(give_captured(p, s, tli_slot_grads(s)));
  TL_TRY(capture(p, s, tli_slot_grads(s)));
  if (!s->runs) {
    tli_slot_clear(s);
    return true;
  }
  tl_Tensor *few[FEW] = {NULL}, **out = few;
  size_t bytes = (size_t)n->ninputs * sizeof *out;
  if (n->ninputs > FEW) {
    out = tli_alloc(bytes);
    TL_TRY(out);
    memset(out, 0, bytes);
  }
  bool ok = derive(p, s, out);
  for (int i = 0; i < n->ninputs; i++) {
    int32_t to = p->plan.targets[s->targets + i];
    if (ok && to >= 0)
      ok = deliver(p, tli_node_name(n), to, n->edges[i].output, out[i]);
    else
      tli_release(out[i]);
  }
  if (out != few) tli_free(out, bytes);
  return ok;
}

/* Runs a ready node on the stream that its forward call ran on. */
static bool run_on_stream(Pass *p, tli_Slot *s) {
  const tli_Node *n = s->node;
  const tli_Info *info = n->noutputs > 0 ? &n->infos[0] : NULL;
  if (info == NULL || !info->defined || info->stream == NULL ||
      info->stream == tli_stream(info->device))
    return run_node(p, s);
  tli_StreamGuard there;
  tli_stream_guard(&there, info->device, info->stream);
  p->running = &there;
  bool ok = run_node(p, s);
  p->running = NULL;
  tli_stream_guard_end(&there);
  return ok;
}

/* ---- a pass ---- */

bool tli_edge_of(tl_Tensor *t, tli_Edge *edge) {
  bool ok = true;
  tli_Node *node = tli_grad_fn(t, &ok);
  TL_TRY(ok);
  if (node)
    *edge = (tli_Edge){tli_node_retain(node), NULL, t->autograd->output};
  else
    *edge = (tli_Edge){NULL, tli_retain(t), 0};
  return true;
}

void tli_edge_release(tli_Edge *edge) {
  tli_Edge old = *edge;
  *edge = (tli_Edge){NULL, NULL, 0};
  tli_node_release(old.node);
  tli_release(old.leaf);
}

/* Returns an owned copy of an edge. */
static tli_Edge edge_copy(const tli_Edge *e) {
  return (tli_Edge){e->node ? tli_node_retain(e->node) : NULL, e->leaf ? tli_retain(e->leaf) : NULL,
                    e->output};
}

static bool root_end(const tli_Backward *call, int i, tli_Edge *end) {
  tl_Tensor *root = call->roots[i];
  if (root == NULL) {
    *end = edge_copy(&call->root_edges[i]);
    return true;
  }
  if (!tli_requires_grad(root))
    return tli_fail(TL_EAUTOGRAD,
                    "backward: output " TLI_POS " requires no gradient and has no grad_fn",
                    (int64_t)i);
  return tli_edge_of(root, end);
}

static bool input_end(const tli_Backward *call, int i, tli_Edge *end) {
  tl_Tensor *input = call->inputs[i];
  if (input == NULL) {
    *end = edge_copy(&call->input_edges[i]);
    if (call->accumulate && end->leaf == NULL)
      return tli_fail(TL_EAUTOGRAD,
                      "backward: input " TLI_POS
                      ": expected the edge of a leaf, got that of a %s node's result, which has no "
                      ".grad; autograd.grad returns its gradient",
                      (int64_t)i, tli_node_name(end->node));
    return true;
  }
  if (!tli_requires_grad(input))
    return tli_fail(TL_EAUTOGRAD, "backward: input " TLI_POS " requires no gradient", (int64_t)i);
  return tli_edge_of(input, end);
}

static bool find_ends(Pass *p) {
  const tli_Backward *call = p->call;
  p->nends = call->nroots + call->ninputs;
  p->ends = tli_alloc((size_t)p->nends * sizeof *p->ends);
  TL_TRY(p->ends);
  memset(p->ends, 0, (size_t)p->nends * sizeof *p->ends);
  for (int i = 0; i < call->nroots; i++) TL_TRY(root_end(call, i, &p->ends[i]));
  for (int i = 0; i < call->ninputs; i++) TL_TRY(input_end(call, i, &p->ends[call->nroots + i]));
  return true;
}

/* Stores the properties of the value whose gradient arrives at `end`. If the caller gave a tensor
** `t` for this end, these are the properties of `t`. */
static void info_of_end(const tl_Tensor *t, const tli_Edge *end, tli_Info *info) {
  if (t || end->leaf)
    tli_info_of(t ? t : end->leaf, info);
  else
    *info = end->node->infos[end->output];
}

static int64_t numel_of(const tli_Info *info) {
  int64_t n = 1;
  for (int d = 0; d < info->ndim; d++) n *= info->sizes[d];
  return n;
}

/* Returns the initial gradient of a root as a new reference. */
static tl_Tensor *root_grad(const Pass *p, int i) {
  tl_Tensor *grad = p->call->grads ? p->call->grads[i] : NULL;
  tli_Info info;
  info_of_end(p->call->roots[i], &p->ends[i], &info);
  bool complex = tli_is_complex((tl_DType)info.dtype);
  if (grad == NULL && numel_of(&info) == 1 && !complex) return tli_grad_fill(&info, 1);
  if (grad == NULL && complex)
    return tli_fail_null(
        TL_EAUTOGRAD,
        "backward: only a real tensor has a gradient to start with; got %s, pass a "
        "gradient of that dtype",
        tl_dtype_name((tl_DType)info.dtype));
  const char *shape = tli_shape_str(info.ndim, info.sizes);
  if (grad == NULL)
    return tli_fail_null(TL_EAUTOGRAD,
                         "backward: only a tensor with one element has a gradient to start with; "
                         "got shape %s, pass a gradient of that shape",
                         shape);
  bool same = grad->ndim == info.ndim;
  for (int d = 0; same && d < info.ndim; d++) same = grad->sizes[d] == info.sizes[d];
  if (!same)
    return tli_fail_null(TL_ESHAPE, "backward: expected a gradient of shape %s, got %s", shape,
                         tli_sizes_str(grad));
  if (grad->dtype != info.dtype)
    return tli_fail_null(TL_EDTYPE, "backward: expected a gradient of dtype %s, got %s",
                         tl_dtype_name((tl_DType)info.dtype), tl_dtype_name((tl_DType)grad->dtype));
  return tli_grad_fit("backward", grad, &info);
}

static bool start(Pass *p) {
  const tli_Backward *call = p->call;
  for (int i = 0; i < call->nroots; i++) {
    tl_Tensor *grad = root_grad(p, i);
    TL_TRY(grad);
    const tli_Edge *end = &p->ends[i];
    TL_TRY(deliver(p, "backward", tli_plan_slot(&p->plan, end), end->output, grad));
  }
  return true;
}

/* Sets the gradient of input i, on which no output depends, to zeros, as the option materialize
** asks. */
static bool fill_unused(Pass *p, int i) {
  const tli_Backward *call = p->call;
  tli_Info info;
  info_of_end(call->inputs[i], &p->ends[call->nroots + i], &info);
  call->results[i] = tli_grad_fill(&info, 0);
  TL_TRY(call->results[i]);
  return !call->create_graph || tli_require_grad(call->results[i]);
}

static bool run(Pass *p) {
  const tli_Backward *call = p->call;
  TL_TRY(find_ends(p));
  TL_TRY(tli_plan_build(&p->plan, p->ends, call->nroots, p->ends + call->nroots, call->ninputs));
  p->heap_room = p->plan.nslots;
  p->heap = tli_alloc((size_t)p->heap_room * sizeof *p->heap);
  TL_TRY(p->heap);
  TL_TRY(start(p));
  while (p->nheap > 0) TL_TRY(run_on_stream(p, &p->plan.slots[heap_pop(p)]));
  if (call->accumulate || (call->allow_unused && !call->materialize)) return true;
  for (int i = 0; i < call->ninputs; i++) {
    if (call->results[i]) continue;
    if (!call->materialize)
      return tli_fail(TL_EAUTOGRAD,
                      "grad: the outputs do not depend on input " TLI_POS
                      "; pass allow_unused = true if that is meant",
                      (int64_t)i);
    TL_TRY(fill_unused(p, i));
  }
  return true;
}

uint64_t tli_pass(int *depth) {
  *depth = 0;
  for (const Pass *p = current; p && p->outer; p = p->outer) ++*depth;
  return current ? current->number : 0;
}

bool tli_pass_visits(tl_Tensor *t, bool *answer) {
  tli_Edge edge;
  *answer = false;
  if (current == NULL || !tli_requires_grad(t)) return true;
  TL_TRY(tli_edge_of(t, &edge));
  int32_t at = tli_plan_slot(&current->plan, &edge);
  *answer = at >= 0 && current->plan.slots[at].seen && current->plan.slots[at].wanted;
  tli_edge_release(&edge);
  return true;
}

static bool is_one_of(const tl_Tensor *t, tl_Tensor *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i] == t) return true;
  return false;
}

/* Fills `edges`, which has room for one edge per root, with the edges of those roots that require
** gradients. */
static bool edges_of(tl_Tensor *const *roots, int nroots, tli_Edge *edges, int *n) {
  for (int i = 0; i < nroots; i++) {
    if (!tli_requires_grad(roots[i])) continue;
    TL_TRY(tli_edge_of(roots[i], &edges[*n]));
    ++*n;
  }
  return true;
}

bool tli_reaches_others(tl_Tensor *const *roots, int nroots, tl_Tensor *const *own, int nown,
                        bool *answer) {
  *answer = false;
  size_t bytes = (size_t)(nroots ? nroots : 1) * sizeof(tli_Edge);
  tli_Edge *edges = tli_alloc(bytes);
  TL_TRY(edges);
  tli_Plan plan = {0};
  int n = 0;
  bool ok = edges_of(roots, nroots, edges, &n) && tli_plan_build(&plan, edges, n, NULL, 0);
  for (int32_t i = 0; ok && i < plan.nslots && !*answer; i++) {
    const tl_Tensor *leaf = plan.slots[i].leaf;
    *answer = leaf && !is_one_of(leaf, own, nown);
  }
  tli_plan_free(&plan);
  for (int i = 0; i < n; i++) tli_edge_release(&edges[i]);
  tli_free(edges, bytes);
  return ok;
}

static void pass_free(Pass *p) {
  tli_plan_free(&p->plan);
  if (p->heap) tli_free(p->heap, (size_t)p->heap_room * sizeof *p->heap);
  for (int i = 0; p->ends && i < p->nends; i++) tli_edge_release(&p->ends[i]);
  if (p->ends) tli_free(p->ends, (size_t)p->nends * sizeof *p->ends);
}

bool tli_backward(const tli_Backward *call) {
  bool wants_results = call->ninputs && !call->accumulate;
  for (int i = 0; wants_results && i < call->ninputs; i++) call->results[i] = NULL;
  static _Atomic uint64_t last;
  Pass p = {.outer = current, .call = call, .retain = call->retain_graph || call->create_graph};
  p.number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  current = &p;
  /* operators whose inputs have tangents are recorded only if create_graph is set, as all other
  ** operators are */
  bool level = tli_set_dual_level(false);
  bool inference = tli_set_inference_mode(false);
  bool grad = tli_set_grad_mode(call->create_graph);
  tli_Span span = {.event = -1};
  if (tli_profiling()) span = tli_span_open(TLI_SPAN_BACKWARD, "backward", NULL, 0);
  bool ok = run(&p);
  current = p.outer;
  pass_free(&p);
  if (tli_profiling()) tli_span_close(span, 0);
  tli_set_grad_mode(grad);
  tli_set_inference_mode(inference);
  tli_set_dual_level(level);
  for (int i = 0; !ok && wants_results && i < call->ninputs; i++) {
    tli_release(call->results[i]);
    call->results[i] = NULL;
  }
  return ok;
}
