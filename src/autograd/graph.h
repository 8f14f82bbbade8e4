/*
** graph.h - the recorded graph: one node for each operator call that needs a gradient. A node
** owns its edges (towards the inputs of the forward call) and its saved tensors; tensors own
** the node that produced them. A node has no pointer to its outputs, so reference counts free a
** graph as soon as its last output is released. Freeing never recurses.
*/
#ifndef TLI_GRAPH_H
#define TLI_GRAPH_H

#include "core/tensor/tensor.h"

typedef struct tli_Node tli_Node;

/* The destination of a gradient: output number `output` of a node, or a leaf tensor. An edge whose
** node and leaf are both NULL has no destination. */
typedef struct tli_Edge {
  tli_Node *node;  /* owned */
  tl_Tensor *leaf; /* owned */
  int output;
} tli_Edge;

/* The properties of a forward result. The engine uses them to check, cast and sum the gradient that
** arrives for the result, or to make zeros. */
typedef struct tli_Info {
  int8_t dtype;
  uint8_t ndim;
  tl_Device device;
  bool defined;
  struct tl_Stream *stream; /* the current stream when the result was computed; NULL on the CPU */
  int64_t sizes[TL_MAX_DIMS];
} tli_Info;

typedef struct tli_NodeType {
  const char *name; /* the operator's public name */
  /* Computes the gradients of the inputs. grads[k] is the gradient of forward result k (borrowed;
  ** NULL if undefined, but never NULL if `materialize`). out[i] receives a new reference to the
  ** gradient of input i if edge i has a destination, or NULL. On failure, releases the gradients
  ** that it has put into out, and returns false. */
  bool (*apply)(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out);
  /* Releases saved tensors. The engine calls this function once: before the node is freed, or
  ** earlier, in a backward pass that does not retain the graph. The node cannot run again
  ** afterwards. NULL means that nothing was saved. Then the node can run any number of times,
  ** unless it has hooks, since such a pass frees them (but not those of tli_retain_grad). */
  void (*drop)(tli_Node *node);
  bool materialize;
  /* Frees the other fields of the payload before the node is freed. The pointer is NULL if there is
  ** nothing else to free. */
  void (*free)(tli_Node *node);
  const char *title; /* PyTorch's name of the node; NULL if it can be derived from `name` */
} tli_NodeType;

struct tli_Hooks; /* defined in autograd/hooks.h */
struct tli_Hook;

struct tli_Node {
  atomic_int refs;
  int ninputs; /* number of edges */
  int noutputs;
  bool dropped; /* whether the saved tensors have been released */
  bool dual;    /* whether an input of the node was a dual of forward-mode derivatives */
  /* whether the node was recorded only for a tangent, while recording was off
  ** (tli_set_dual_level) */
  bool cut;
  union {
    uint64_t sequence; /* creation order: a later node has a higher number */
    tli_Node *next;    /* the next node in the list of nodes that wait to be freed */
  };
  const tli_NodeType *type;
  size_t bytes;            /* size in bytes of the block that contains this struct */
  tli_Edge *edges;         /* the node's edges, inside the same block */
  tli_Info *infos;         /* the infos of the node's results, inside the same block */
  struct tli_Hooks *hooks; /* hooks on the node's results (owned); usually NULL */
  /* name of the composition that created the node, see tli_entitle; usually NULL */
  const char *title;
  char *where; /* the Lua line of the forward call, in anomaly mode (owned); otherwise NULL */
};

/* The autograd state of a tensor. */
typedef struct tli_Autograd {
  tli_AutogradHead head; /* first member, because src/core frees the state through this head */
  tli_Node *node;        /* the node that computed the tensor (owned); NULL for a leaf */
  int output;            /* index of this tensor among the results of `node` */
  /* for a view: the value of the base's `history` when the view's `node` was made; if the two
  ** differ, `node` is outdated */
  unsigned view_version;
  unsigned history;        /* for a base: how many times in-place operators have replaced `node` */
  bool dual;               /* whether the tensor itself is a dual */
  tl_Tensor *grad;         /* owned */
  struct tli_Hooks *hooks; /* for a leaf: hooks on its gradient (owned) */
  /* for a non-leaf: the hook that stores .grad (owned), see tli_retain_grad */
  struct tli_Hook *keeper;
} tli_Autograd;

/* A tensor that a node saves for its backward pass, and the tensor's version when it was saved. */
typedef struct tli_Saved {
  /* the saved tensor (owned); for a result, a detached alias, so that the node does not own
  ** itself */
  tl_Tensor *tensor;
  /* packed replacement for the tensor (owned), see pack_hooks.h; usually NULL */
  struct tli_Packed *packed;
  unsigned version;
  int result; /* index of the saved result; -1 for an input */
} tli_Saved;

/* ---- recording, for generated code ---- */

/* Returns whether operators called by this thread are recorded. */
bool tli_grad_mode(void);
bool tli_set_grad_mode(bool enabled); /* Turns grad mode on or off; returns the previous mode. */

/* Forward-mode derivatives use recorded graphs, even while recording is off. While a level of
** forward-mode derivatives is open in this thread, operators with dual inputs always record. A node
** that is recorded while recording is off is `cut`: a backward pass ends at such a node unless it
** is a pass for tangents. The two functions that set a mode return the previous mode. */
bool tli_set_dual_level(bool open);
bool tli_set_tangent_pass(bool on);
bool tli_tangent_pass(void);
/* Returns whether operators record only for tangents: a forward-mode level is open, and recording
** is off. */
bool tli_tangents_only(void);
/* Marks t as a dual, which is a tensor with a tangent. */
bool tli_make_dual(tl_Tensor *t) TL_MUSTCHECK;
/* Returns whether t was made from duals. */
static inline bool tli_is_dual(const tl_Tensor *t) {
  for (; t; t = t->base)
    if (t->autograd && (t->autograd->dual || (t->autograd->node && t->autograd->node->dual)))
      return true;
  return false;
}

/* Returns whether a view requires a gradient. An in-place change of the view's base may have
** changed the answer since the view was made. */
bool tli_view_requires_grad(const tl_Tensor *view);
static inline bool tli_requires_grad(const tl_Tensor *t) {
  return t != NULL && ((t->flags & TLI_REQUIRES_GRAD) || (t->autograd && t->autograd->node) ||
                       (t->base && tli_view_requires_grad(t)));
}
/* Turns requires_grad of a leaf on or off. A view without history is detached from its base when it
** is turned on, because recorded operators must not change such a leaf through the base. Turning it
** on has no effect if t is not a leaf, and fails if t is neither floating nor complex, or if t was
** made in inference mode and that mode is off. Turning it off fails if t is not a leaf. */
bool tli_set_requires_grad(tl_Tensor *t, bool on) TL_MUSTCHECK;
static inline bool tli_require_grad(tl_Tensor *t) { return tli_set_requires_grad(t, true); }
/* Makes t a leaf that requires no gradient. Returns false if t is a view. */
bool tli_forget_history(tl_Tensor *t) TL_MUSTCHECK;
/* Returns whether a call with these inputs, some of which may be NULL, is recorded. */
bool tli_recording(tl_Tensor *const *inputs, int64_t n);

/* Returns a node with a zeroed payload. `bytes` is the size of the payload's struct, which begins
** with a tli_Node. Returns NULL if memory is exhausted. */
tli_Node *tli_node_new(const tli_NodeType *type, size_t bytes, int ninputs, int noutputs)
    TL_MUSTCHECK;
static inline tli_Node *tli_node_retain(tli_Node *n) {
  atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
  return n;
}
/* Drops a reference to a node. Accepts NULL; does not recurse. */
void tli_node_release(tli_Node *n);

/* Connects edge i to the node or leaf of `input`. Leaves the edge without destination if input is
** NULL or needs no gradient. */
bool tli_node_connect(tli_Node *n, int i, tl_Tensor *input) TL_MUSTCHECK;
/* Makes `result` the node's result k, whose properties the node stores. If its dtype is floating or
** complex, `result` then requires a gradient. */
bool tli_node_output(tli_Node *n, int k, tl_Tensor *result) TL_MUSTCHECK;
/* Returns whether the gradient of input i is needed: the edge has a destination and, in a pass that
** computes the gradients of certain inputs only, leads towards one of these inputs. */
bool tli_node_wants(const tli_Node *n, int i);
/* Stores the current properties of a tensor. */
void tli_info_of(const tl_Tensor *t, tli_Info *info);
/* Returns the type of the operator's node. If n represents an in-place change of a view, this is
** the type of the in-place operator. */
const tli_NodeType *tli_node_type(const tli_Node *n);
/* Returns the name of the node's operator, for messages. */
static inline const char *tli_node_name(const tli_Node *n) { return tli_node_type(n)->name; }
/* Returns false with a message if the node's saved tensors are released. */
bool tli_node_usable(const tli_Node *n) TL_MUSTCHECK;
/* An operator that is composed of other operators calls tli_node_count before its first operator
** and tli_entitle at its end. If the node that produced t was created in between, tli_entitle names
** the node after the composed operator, as PyTorch does. t may be NULL. */
uint64_t tli_node_count(void);
void tli_entitle(const tl_Tensor *t, const char *title, uint64_t count);
/* Writes the name that PyTorch prints for the node, as "IndexSelectBackward0" for index_select. */
void tli_node_title(const tli_Node *n, char *out, size_t size);

/* Saves a tensor for the backward pass; NULL saves nothing. Fails for tensors made in inference
** mode. Hooks that pack saved tensors are called immediately. */
bool tli_save(tli_Saved *s, tl_Tensor *input) TL_MUSTCHECK;
/* Saves an input of an operator that is about to overwrite `written` (which may be NULL). An input
** that shares memory with `written` is copied, unless it is a leaf that requires a gradient. */
bool tli_save_before(tli_Saved *s, tl_Tensor *input, const tl_Tensor *written) TL_MUSTCHECK;
/* Saves result k of the node. */
bool tli_save_result(tli_Saved *s, tl_Tensor *result, int k) TL_MUSTCHECK;
/* Returns a new reference to a saved tensor in *out, or NULL if nothing was saved. A result gets
** its history back if a graph is being recorded. Fails if the tensor was changed after it was
** saved; the message names the operator that saved the tensor and the operator that changed it.
** Also fails if an earlier backward pass has freed the graph. */
bool tli_saved_get(const tli_Saved *s, tli_Node *n, tl_Tensor **out) TL_MUSTCHECK;
void tli_saved_drop(tli_Saved *s);

/* Checks whether an in-place operator `op` may write to self; must be called before the write.
** Fails for memory that overlaps itself, and for a tensor made in inference mode unless that mode
** is on. While recording, also fails for a leaf that requires a gradient, and for a view whose base
** is such a leaf, overlaps itself, or has a history that the view lacks. */
bool tli_inplace_check(const char *op, const tl_Tensor *self) TL_MUSTCHECK;
/* Like tli_inplace_check, for an operator that makes all elements equal. The elements may share
** memory unless the change is recorded. */
bool tli_inplace_check_fill(const char *op, const tl_Tensor *self) TL_MUSTCHECK;
/* Finishes a recorded in-place operator; the caller calls this function after the operator has
** written. Increments the version. If `node` is not NULL, edge 0 of the node is self's old history,
** and the node becomes self's history. If self is a view, the history of its base changes, and the
** view's history is rebuilt from the base's. Also sets the node's info for self, since in-place
** operators do not call tli_node_output. */
bool tli_inplace_done(const char *op, tl_Tensor *self, tli_Node *node) TL_MUSTCHECK;
/* Does the same as tli_inplace_done for result k of a node, but keeps the version. If self is a
** view, it must be the node's only result; edge 0 then leads to the view's old history. */
bool tli_inplace_result(const char *op, tl_Tensor *self, tli_Node *node, int k) TL_MUSTCHECK;
/* Gives self the geometry, the memory and the history of `view`, and a new version. The data does
** not change. Fails for the leaves that tli_inplace_check refuses, and if self has a history but
** `view` has none. */
bool tli_rebase(const char *op, tl_Tensor *self, tl_Tensor *view) TL_MUSTCHECK;

/* Declares `view` a differentiable view of `of` (or of the base of `of`). Every view operator calls
** this function in every mode, because an in-place change of a view must reach the base's history
** even if the view was made under no_grad. */
bool tli_view_of(tl_Tensor *view, tl_Tensor *of) TL_MUSTCHECK;

/* Returns the tensor's autograd state and creates it if necessary; NULL if memory is exhausted. */
tli_Autograd *tli_autograd(tl_Tensor *t);
/* Returns the node that produced t (borrowed), or NULL for a leaf. If t is a view whose base was
** changed in place, updates the node first. Sets *ok to false on failure. */
tli_Node *tli_grad_fn(tl_Tensor *t, bool *ok);
/* Sets *edge to the destination of t's gradient: the node that produced t, or t itself if it is a
** leaf. The edge owns its destination; tli_edge_release releases it and clears the edge. */
bool tli_edge_of(tl_Tensor *t, tli_Edge *edge) TL_MUSTCHECK;
void tli_edge_release(tli_Edge *edge);

/* ---- the engine ---- */

typedef struct tli_Backward {
  /* the root tensors; a NULL entry stands for the root whose edge is in root_edges */
  tl_Tensor *const *roots;
  /* edges of roots that are not tensors; NULL if every root is a tensor */
  const tli_Edge *root_edges;
  /* the gradient of each root; NULL means a gradient of ones, for a root with one element */
  tl_Tensor *const *grads;
  int nroots;
  bool retain_graph;
  bool create_graph;
  /* the only tensors whose gradients are wanted: they are returned in `results` or, if `accumulate`
  ** is set, added to .grad */
  tl_Tensor *const *inputs; /* a NULL entry stands for an edge in input_edges */
  /* edges of inputs that are not tensors; NULL if every input is a tensor */
  const tli_Edge *input_edges;
  int ninputs; /* number of inputs; 0 means that gradients accumulate into leaves */
  /* whether the inputs' gradients are added to .grad; each input's edge must then lead to a leaf */
  bool accumulate;
  bool allow_unused;
  /* whether unused inputs get zeros, which require gradients if create_graph is set */
  bool materialize;
  tl_Tensor **results; /* array that receives ninputs new references; NULL for unused inputs */
} tli_Backward;

/* Runs a backward pass in the calling thread. On failure, releases everything except the gradients
** that were accumulated into .grad of leaves so far, and returns false. If create_graph is set, a
** leaf and its .grad own each other until .grad is cleared; gradients that are returned in
** `results` cause no such cycle. */
bool tli_backward(const tli_Backward *call) TL_MUSTCHECK;

/* Returns the number of the backward pass that runs in this thread, or 0; *depth receives the
** number of enclosing passes. Nested passes have numbers of their own. */
uint64_t tli_pass(int *depth);
/* Sets *answer to whether the pass that runs in this thread computes t's gradient, so that t's
** hooks will be called. */
bool tli_pass_visits(tl_Tensor *t, bool *answer) TL_MUSTCHECK;

/* Sets *answer to whether one of the roots that require gradients depends on a leaf that is not in
** the list `own`. */
bool tli_reaches_others(tl_Tensor *const *roots, int nroots, tl_Tensor *const *own, int nown,
                        bool *answer) TL_MUSTCHECK;

/* Converts a gradient to a forward value's dtype and shape, summing broadcast dimensions.
** Returns a new reference, or NULL with a message if that is impossible. */
tl_Tensor *tli_grad_fit(const char *op, tl_Tensor *grad, const tli_Info *info) TL_MUSTCHECK;

/* Adds a gradient (steals it) to t's .grad. The first gradient is used without a copy if it has no
** other owner and t's memory layout. If create_graph is set, the sum is a new tensor; otherwise it
** is computed in place. */
bool tli_grad_accumulate(tl_Tensor *t, tl_Tensor *grad, bool create_graph) TL_MUSTCHECK;
/* Sets t's .grad to a new reference to `grad`, or to NULL. Fails if the gradient does not fit t. */
bool tli_grad_set(tl_Tensor *t, tl_Tensor *grad) TL_MUSTCHECK;

/* ---- sparse gradients (sparse_grads.c) ---- */

/* A sparse gradient is zero except in the rows that indices (1, n) lists, counted from 1. values
** (n, sizes of a row) has these rows; rows with equal indices are added up. Only leaves receive
** sparse gradients. */
static inline bool tli_is_sparse_grad(const tl_Tensor *t) { return t->flags & TLI_SPARSE; }
/* Returns a sparse gradient for a leaf with these sizes; `coalesced` says that the indices are in
** ascending order without repetitions. */
tl_Tensor *tli_sparse_grad(tl_Tensor *indices, tl_Tensor *values, bool coalesced, int ndim,
                           const int64_t *sizes) TL_MUSTCHECK;
/* Returns the rows' values and sets *indices; both are borrowed. */
tl_Tensor *tli_sparse_grad_rows(const tl_Tensor *grad, tl_Tensor **indices, bool *coalesced);
/* Returns the gradient as a dense tensor. */
tl_Tensor *tli_sparse_grad_dense(const tl_Tensor *grad) TL_MUSTCHECK;
/* Returns the sum of two gradients, at least one of which is sparse. The sum is sparse if both are.
** If `in_place` is set and `a` is dense, the sum is written to `a`. */
tl_Tensor *tli_sparse_grad_sum(tl_Tensor *a, tl_Tensor *b, bool in_place) TL_MUSTCHECK;
/* Makes the gradient the only owner of its rows' values, copying them if other tensors share them.
** Charges the bytes of values and indices to the caller's ledger. */
bool tli_sparse_grad_settle(tl_Tensor *grad) TL_MUSTCHECK;

/* A hook gets the gradient (borrowed). The hook may return a replacement (a new reference in *out)
** or leave *out NULL. It returns false with a message on failure. */
typedef bool (*tli_HookFn)(void *context, tl_Tensor *grad, tl_Tensor **out);
/* Adds a hook to a tensor that requires a gradient. Returns a new reference to the hook, or NULL.
** `release` frees the context: on failure, and when the hook can no longer be called because it was
** removed or its tensor is freed. Hooks of a result are freed together with the node's saved
** tensors. */
struct tli_Hook *tli_hook_add(tl_Tensor *t, tli_HookFn fn, void *context,
                              void (*release)(void *context)) TL_MUSTCHECK;
void tli_hook_remove(struct tli_Hook *hook);
/* Releases the caller's reference to a hook; the tensor keeps the hook. */
void tli_hook_release(struct tli_Hook *hook);
/* Makes the backward pass store .grad of a tensor that is not a leaf. */
bool tli_retain_grad(tl_Tensor *t) TL_MUSTCHECK;

/* Anomaly mode of this thread. `where` returns the user's source line for a new node, in a block of
** strlen + 1 bytes from tli_alloc; NULL turns the mode off. While the mode is on, a NaN in a
** computed gradient is an error whose message names the node and the line. */
typedef char *(*tli_WhereFn)(void *context);
void tli_set_anomaly(tli_WhereFn where, void *context);
bool tli_anomaly(void);
/* Returns the user's source line; NULL if anomaly mode is off or the line is unknown. */
char *tli_anomaly_where(void);

#endif
