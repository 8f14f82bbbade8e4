/*
** graph.c - nodes, edges, saved tensors and the autograd state of tensors. Invariant: no function
** of this file recurses along the graph, not even the one that frees a graph.
*/
#include "autograd/graph.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "autograd/hooks.h"
#include "autograd/pack_hooks.h"
#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/observe/profile.h"
#include "core/tensor/ledger.h"
#include "ops.h"

/* ---- nodes ---- */

static _Atomic uint64_t next_sequence = 1;

static size_t align_up(size_t n) {
  size_t unit = _Alignof(max_align_t);
  return (n + unit - 1) / unit * unit;
}

/* Returns the number of bytes that are charged for a node if the Lua state has a memory limit: the
** node's block and one saved tensor. */
static int64_t counted(size_t bytes) { return (int64_t)(bytes + sizeof(tl_Tensor)); }

/* Allocates one block that contains the node's struct, its edges and its infos. The block also has
** a reference to the ledger that is charged for the node (owned), which is NULL if there is no
** memory limit. */
tli_Node *tli_node_new(const tli_NodeType *type, size_t bytes, int ninputs, int noutputs) {
  size_t edges = align_up(bytes);
  size_t infos = edges + (size_t)ninputs * sizeof(tli_Edge);
  size_t end = align_up(infos + (size_t)noutputs * sizeof(tli_Info));
  size_t total = end + sizeof(tli_Ledger *);
  tli_Ledger *ledger;
  TL_TRY_NULL(tli_ledger_take(&ledger, counted(total)));
  tli_Node *n = tli_alloc(total);
  if (n == NULL) {
    tli_ledger_give(ledger, counted(total));
    return NULL;
  }
  memset(n, 0, infos);
  *(tli_Ledger **)((char *)n + end) = ledger;
  atomic_init(&n->refs, 1);
  n->ninputs = ninputs;
  n->noutputs = noutputs;
  n->sequence = atomic_fetch_add_explicit(&next_sequence, 1, memory_order_relaxed);
  n->type = type;
  n->bytes = total;
  n->edges = (tli_Edge *)((char *)n + edges);
  n->infos = (tli_Info *)((char *)n + infos);
  for (int k = 0; k < noutputs; k++) n->infos[k].defined = false;
  if (tli_anomaly()) n->where = tli_anomaly_where();
  if (tli_profiling()) tli_span_node(n->sequence);
  return n;
}

static void node_free(tli_Node *n) {
  if (n->type->drop && !n->dropped) n->type->drop(n);
  if (n->type->free) n->type->free(n);
  for (int i = 0; i < n->ninputs; i++) {
    tli_node_release(n->edges[i].node);
    tli_release(n->edges[i].leaf);
  }
  tli_hooks_free(n->hooks);
  if (n->where) tli_free(n->where, strlen(n->where) + 1);
  tli_ledger_give(*(tli_Ledger **)((char *)n + n->bytes - sizeof(tli_Ledger *)), counted(n->bytes));
  tli_free(n, n->bytes);
}

/* Freeing a node releases other nodes, through its edges and its saved tensors. The released nodes
** wait in a list that the outermost call processes, so that the stack stays flat for chains of any
** length. */
void tli_node_release(tli_Node *n) {
  static _Thread_local tli_Node *waiting;
  static _Thread_local bool working;
  if (n == NULL || !tli_last_reference(&n->refs)) return;
  n->next = waiting;
  waiting = n;
  if (working) return;
  working = true;
  while (waiting) {
    n = waiting;
    waiting = n->next;
    node_free(n);
  }
  working = false;
}

/* In anomaly mode, appends to the text of the node's source line that input i of the node is not
** finite. */
static bool note_finite(tli_Node *n, int i, tl_Tensor *input) {
  if (n->where == NULL || strstr(n->where, "not finite")) return true;
  bool grad = tli_set_grad_mode(false), finite = true;
  tl_Tensor *each = tlo_isfinite(input);
  tl_Tensor *all = each ? tlo_all(each, TLI_NOINTS, false) : NULL;
  bool ok = all && tlo_is_nonzero(all, &finite);
  tli_set_grad_mode(grad);
  tli_release(all);
  tli_release(each);
  if (!ok || finite) return ok;
  size_t size = strlen(n->where) + 64;
  char text[512];
  if (size > sizeof text) return true;
  snprintf(text, sizeof text, "%s, where input " TLI_POS " was not finite already", n->where,
           (int64_t)i);
  char *told = tli_alloc(strlen(text) + 1);
  TL_TRY(told);
  strcpy(told, text);
  tli_free(n->where, strlen(n->where) + 1);
  n->where = told;
  return true;
}

bool tli_node_connect(tli_Node *n, int i, tl_Tensor *input) {
  if (n->where && input && tli_is_float((tl_DType)input->dtype)) TL_TRY(note_finite(n, i, input));
  if (!tli_requires_grad(input)) return true;
  bool dual = tli_is_dual(input);
  if (tli_tangents_only()) {
    n->cut = true;
    if (!dual) return true;
  }
  n->dual = n->dual || dual;
  bool ok = true;
  tli_Node *from = tli_grad_fn(input, &ok);
  if (!ok) return false;
  tli_Edge *edge = &n->edges[i];
  if (from) {
    edge->node = tli_node_retain(from);
    edge->output = input->autograd->output;
  } else if (input->flags & TLI_REQUIRES_GRAD) {
    edge->leaf = tli_retain(input);
  }
  return true;
}

void tli_info_of(const tl_Tensor *t, tli_Info *info) {
  info->dtype = t->dtype;
  info->ndim = t->ndim;
  info->device = tli_device(t);
  info->defined = true;
  info->stream = info->device.type == TL_CPU ? NULL : tli_stream(info->device);
  memcpy(info->sizes, t->sizes, t->ndim * sizeof *t->sizes);
}

bool tli_node_output(tli_Node *n, int k, tl_Tensor *result) {
  tli_info_of(result, &n->infos[k]);
  if (!tli_is_inexact((tl_DType)result->dtype)) return true;
  tli_Autograd *a = tli_autograd(result);
  TL_TRY(a);
  TL_ASSERT(a->node == NULL);
  a->node = tli_node_retain(n);
  a->output = k;
  return true;
}

uint64_t tli_node_count(void) { return atomic_load_explicit(&next_sequence, memory_order_relaxed); }

void tli_entitle(const tl_Tensor *t, const char *title, uint64_t count) {
  tli_Node *n = t && t->autograd ? t->autograd->node : NULL;
  if (n && n->sequence >= count) n->title = title;
}

void tli_node_title(const tli_Node *n, char *out, size_t size) {
  const tli_NodeType *type = tli_node_type(n);
  const char *suffix = "Backward0", *title = n->title;
  /* if tli_node_type differs from the node's own type, the node represents an in-place change of a
  ** view */
  if (title == NULL) title = type != n->type ? "CopySlices" : type->title;
  if (title) {
    bool whole = strstr(title, "Backward") || strcmp(title, "CopySlices") == 0;
    snprintf(out, size, "%s%s", title, whole ? "" : suffix);
    return;
  }
  size_t room = size - strlen(suffix) - 1, used = 0;
  bool start = true;
  for (const char *c = tli_node_name(n); *c && used < room; c++) {
    if (!isalnum((unsigned char)*c)) {
      start = true;
      continue;
    }
    out[used++] = start ? (char)toupper((unsigned char)*c) : *c;
    start = false;
  }
  memcpy(out + used, suffix, strlen(suffix) + 1);
}

bool tli_node_usable(const tli_Node *n) {
  if (!n->dropped) return true;
  return tli_fail(TL_EAUTOGRAD,
                  "%s: the graph has already been freed by an earlier backward pass; "
                  "pass retain_graph = true to that one",
                  tli_node_name(n));
}

/* ---- saved tensors ---- */

static tl_Tensor *copy_of(tl_Tensor *t) {
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *copy = tlo_clone(t);
  tli_set_grad_mode(mode);
  return copy;
}

/* Returns a tensor with input's values (the same memory, or a copy) and input's current history.
** Later changes of input's history do not affect the returned tensor. If a node held input itself,
** an in-place operator that made input (or input's base) depend on the node would make the node own
** itself. */
static tl_Tensor *snapshot(tl_Tensor *input, bool copy) {
  bool ok = true;
  tli_Node *from = tli_grad_fn(input, &ok);
  if (!ok) return NULL;
  tl_Tensor *t = copy ? copy_of(input) : tli_detached(input);
  if (t == NULL || from == NULL) return t;
  tli_Autograd *a = tli_autograd(t);
  if (a == NULL) {
    tli_release(t);
    return NULL;
  }
  a->node = tli_node_retain(from);
  a->output = input->autograd->output;
  return t;
}

/* Returns whether t's history can no longer change, because no in-place operator can give t a new
** one. */
static bool settled(const tl_Tensor *t) {
  return (t->flags & (TLI_REQUIRES_GRAD | TLI_NUMBER)) || !tli_is_inexact((tl_DType)t->dtype);
}

static bool save(tli_Saved *s, tl_Tensor *input, bool copy) {
  *s = (tli_Saved){.result = -1};
  if (input == NULL) return true;
  if (input->flags & TLI_INFERENCE)
    return tli_fail(TL_EAUTOGRAD,
                    "a tensor of shape %s that was made in inference mode cannot be "
                    "saved for a backward pass; clone it outside of inference mode",
                    tli_sizes_str(input));
  /* a leaf itself is saved instead of a copy, since a copy would receive no gradient */
  bool leaf = input->flags & TLI_REQUIRES_GRAD;
  copy = copy && !leaf;
  s->tensor = copy || !settled(input) ? snapshot(input, copy) : tli_retain(input);
  TL_TRY(s->tensor);
  if (tli_packing() && !(input->flags & TLI_NUMBER)) return tli_pack(s);
  tli_charge(s->tensor);
  s->version = tli_version(s->tensor);
  if (tli_profiling()) tli_profile_mark(input, leaf ? TLI_MEMORY_PARAMETER : TLI_MEMORY_ACTIVATION);
  return true;
}

bool tli_save(tli_Saved *s, tl_Tensor *input) { return save(s, input, false); }

bool tli_save_before(tli_Saved *s, tl_Tensor *input, const tl_Tensor *written) {
  return save(s, input, input && written && input->storage == written->storage);
}

bool tli_save_result(tli_Saved *s, tl_Tensor *result, int k) {
  *s = (tli_Saved){.result = k};
  if (result == NULL) return true;
  s->tensor = tli_detached(result);
  TL_TRY(s->tensor);
  if (tli_packing()) return tli_pack(s);
  tli_charge(s->tensor);
  s->version = tli_version(result);
  if (tli_profiling()) tli_profile_mark(result, TLI_MEMORY_ACTIVATION);
  return true;
}

static bool fail_changed(const tli_Saved *s, const tli_Node *n) {
  const char *writer = s->tensor->storage->writer;
  return tli_fail(
      TL_EAUTOGRAD,
      "%s: a tensor of shape %s that its backward pass needs was changed in place by %s "
      "(saved at version %u, now at version %u); clone it first, or do not change it "
      "in place",
      tli_node_name(n), tli_sizes_str(s->tensor), writer ? writer : "an operator", s->version,
      tli_version(s->tensor));
}

/* Restores the history of a result that node n saved without its history, so that second
** derivatives can be computed. */
static tl_Tensor *with_history(const tli_Saved *s, tli_Node *n) {
  tl_Tensor *t = tli_detached(s->tensor);
  if (t && !tli_node_output(n, s->result, t)) {
    tli_release(t);
    t = NULL;
  }
  return t;
}

bool tli_saved_get(const tli_Saved *s, tli_Node *n, tl_Tensor **out) {
  *out = NULL;
  if (!tli_node_usable(n)) return false;
  if (s->tensor == NULL) return s->packed == NULL || tli_unpack(s, n, out);
  if (tli_version(s->tensor) != s->version) return fail_changed(s, n);
  bool restore = s->result >= 0 && tli_grad_mode();
  *out = restore ? with_history(s, n) : tli_retain(s->tensor);
  return *out != NULL;
}

void tli_saved_drop(tli_Saved *s) {
  tl_Tensor *t = s->tensor;
  struct tli_Packed *p = s->packed;
  s->tensor = NULL;
  s->packed = NULL;
  tli_release(t);
  tli_packed_release(p);
}

/* ---- autograd state of tensors ---- */

static tl_Tensor *autograd_free(tli_Autograd *a) {
  tl_Tensor *grad = a->grad;
  tli_keeper_forget(a);
  tli_hooks_free(a->hooks);
  tli_node_release(a->node);
  tli_free(a, sizeof *a);
  return grad;
}

tli_Autograd *tli_autograd(tl_Tensor *t) {
  if (t->autograd) return t->autograd;
  tli_Autograd *a = tli_alloc(sizeof *a);
  TL_TRY_NULL(a);
  memset(a, 0, sizeof *a);
  a->head.free = autograd_free;
  return t->autograd = a;
}

bool tli_set_requires_grad(tl_Tensor *t, bool on) {
  if (on && !tli_is_inexact((tl_DType)t->dtype))
    return tli_fail(TL_EDTYPE, "requires_grad: expected a floating or complex dtype, got %s",
                    tl_dtype_name((tl_DType)t->dtype));
  if (on && (t->flags & TLI_INFERENCE) && !tli_inference_mode())
    return tli_fail(TL_EAUTOGRAD, "requires_grad: a tensor made in inference mode takes part in no "
                                  "gradient; clone it outside of inference mode");
  bool leaf = (t->flags & TLI_REQUIRES_GRAD) || !tli_requires_grad(t);
  if (!leaf && !on)
    return tli_fail(TL_EAUTOGRAD, "requires_grad: only a leaf's can be turned off; use detach()");
  if (!leaf) return true;
  if (on) {
    tli_release(t->base);
    t->base = NULL;
    t->flags |= TLI_REQUIRES_GRAD;
  } else {
    t->flags &= (uint8_t)~TLI_REQUIRES_GRAD;
  }
  return true;
}

bool tli_forget_history(tl_Tensor *t) {
  if (t->base)
    return tli_fail(TL_EAUTOGRAD, "detach_: a view shares its history with its base; use detach()");
  t->flags &= (uint8_t)~TLI_REQUIRES_GRAD;
  tli_Autograd *a = t->autograd;
  if (a == NULL) return true;
  tli_keeper_forget(a);
  tli_hooks_free(a->hooks);
  a->hooks = NULL;
  tli_Node *node = a->node;
  a->node = NULL;
  a->output = 0;
  tli_node_release(node);
  return true;
}
