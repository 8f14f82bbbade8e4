/*
** graph.h - the recorded graph: one node per operator call that needs a
** gradient. A node owns its edges (towards the inputs of the forward call)
** and what it saved; tensors own the node that made them. Nothing points
** from a node to its outputs, so reference counts free a graph as soon as
** its last output goes. Freeing never recurses.
*/
#ifndef TLI_GRAPH_H
#define TLI_GRAPH_H

#include "core/tensor/tensor.h"

typedef struct tli_Node tli_Node;

/* Where a gradient goes: the output `output` of a node, or a leaf tensor, or
** nowhere (both NULL). */
typedef struct tli_Edge {
  tli_Node *node;  /* owned */
  tl_Tensor *leaf; /* owned */
  int output;
} tli_Edge;

/* What the engine must know of a forward result to check, cast and sum back
** the gradient that arrives for it, or to make zeros of it. */
typedef struct tli_Info {
  int8_t dtype;
  uint8_t ndim;
  tl_Device device;
  bool defined;
  struct tl_Stream *stream; /* that was current when it was made; NULL on the CPU */
  int64_t sizes[TL_MAX_DIMS];
} tli_Info;

typedef struct tli_NodeType {
  const char *name; /* of the operator, as users know it */
  /* grads[k]: gradient of forward result k (borrowed; never NULL if
  ** `materialize`, else NULL where undefined). out[i]: a new reference to the
  ** gradient of input i, only where the edge i leads somewhere; NULL: none.
  ** On failure returns false and has released what it had put into out. */
  bool (*apply)(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out);
  /* Drops what was saved; called once, before the node's memory goes, and early
  ** by a backward pass that does not retain the graph: then the node cannot run
  ** again. NULL: nothing was saved, and it may run any number of times. */
  void (*drop)(tli_Node *node);
  bool materialize;
  /* Frees other payload, before the node's memory goes; NULL: there is none. */
  void (*free)(tli_Node *node);
  const char *title; /* PyTorch's name of the node; NULL: it is made of `name` */
} tli_NodeType;

struct tli_Hooks; /* autograd/hooks.h */
struct tli_Hook;

struct tli_Node {
  atomic_int refs;
  int ninputs; /* edges */
  int noutputs;
  bool dropped; /* what it saved is gone */
  union {
    uint64_t sequence; /* later nodes have higher numbers */
    tli_Node *next;    /* once nobody owns it: the next one to be freed */
  };
  const tli_NodeType *type;
  size_t bytes;            /* of the whole block */
  tli_Edge *edges;         /* inside the block */
  tli_Info *infos;         /* inside the block */
  struct tli_Hooks *hooks; /* owned; NULL mostly */
  const char *title;       /* of the composition that ended in it, see tli_entitle; NULL mostly */
  char *where;             /* owned; the Lua line of the forward call in anomaly mode, else NULL */
};

/* Autograd state of a tensor. */
typedef struct tli_Autograd {
  tli_AutogradHead head;   /* first: core frees the state by it */
  tli_Node *node;          /* owned; NULL for a leaf */
  int output;              /* which result of `node` this tensor is */
  unsigned view_version;   /* of a view: the base's `history` when `node` was made */
  unsigned history;        /* of a base: counts changes of `node` by in-place operators */
  tl_Tensor *grad;         /* owned */
  struct tli_Hooks *hooks; /* owned; of a leaf */
  struct tli_Hook *keeper; /* owned; of no leaf: keeps .grad, see tli_retain_grad */
} tli_Autograd;

/* A tensor that a node keeps for its backward pass, with the version it had. */
typedef struct tli_Saved {
  tl_Tensor *tensor;         /* owned; for a result: a detached alias, lest the node own itself */
  struct tli_Packed *packed; /* owned; stands for the tensor, see autograd/packed.h; NULL mostly */
  unsigned version;
  int result; /* index of the result, -1 for an input */
} tli_Saved;

/* ---- recording; used by generated code ---- */

/* Per thread: whether operators record. */
bool tli_grad_mode(void);
bool tli_set_grad_mode(bool enabled); /* returns the previous mode */

/* A view whose base was changed in place may require a gradient since then. */
bool tli_view_requires_grad(const tl_Tensor *view);
static inline bool tli_requires_grad(const tl_Tensor *t) {
  return t != NULL && ((t->flags & TLI_REQUIRES_GRAD) || (t->autograd && t->autograd->node) ||
                       (t->base && tli_view_requires_grad(t)));
}
/* Turns a leaf's wish for a gradient on or off. A view without history stops
** being a view of its base: nothing recorded may change such a leaf. False
** for a tensor that is no leaf, not floating, or made in inference mode. */
bool tli_set_requires_grad(tl_Tensor *t, bool on) TL_MUSTCHECK;
static inline bool tli_require_grad(tl_Tensor *t) { return tli_set_requires_grad(t, true); }
/* Makes t a leaf that requires no gradient; false for a view. */
bool tli_forget_history(tl_Tensor *t) TL_MUSTCHECK;
/* Whether a call with these (maybe NULL) inputs is to be recorded. */
bool tli_recording(tl_Tensor *const *inputs, int64_t n);

/* A node with a zeroed payload; `bytes` is the size of the struct that begins
** with a tli_Node. NULL on lack of memory. */
tli_Node *tli_node_new(const tli_NodeType *type, size_t bytes, int ninputs, int noutputs)
    TL_MUSTCHECK;
static inline tli_Node *tli_node_retain(tli_Node *n) {
  atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
  return n;
}
void tli_node_release(tli_Node *n); /* NULL is fine; does not recurse */

/* Lets edge i lead to where `input` came from (nowhere, if it needs no
** gradient or is NULL). */
bool tli_node_connect(tli_Node *n, int i, tl_Tensor *input) TL_MUSTCHECK;
/* Makes `result` the node's result k: it then requires a gradient if its
** dtype is floating, else only its info is kept. */
bool tli_node_output(tli_Node *n, int k, tl_Tensor *result) TL_MUSTCHECK;
/* Whether the gradient of input i is of use: the edge leads somewhere and, in
** a pass that asks for certain inputs only, towards one of them. */
bool tli_node_wants(const tli_Node *n, int i);
/* What is known of a tensor now. */
void tli_info_of(const tl_Tensor *t, tli_Info *info);
/* The type of the operator's node, also where it stands for a change of a view. */
const tli_NodeType *tli_node_type(const tli_Node *n);
/* The operator's name, for messages. */
static inline const char *tli_node_name(const tli_Node *n) { return tli_node_type(n)->name; }
/* False, with a message, if what the node saved has been dropped. */
bool tli_node_usable(const tli_Node *n) TL_MUSTCHECK;
/* Has the node that made t, if it is none of those that there were at the time of
** that tli_node_count, called by the composition that it ends, as PyTorch has it.
** NULL is fine. */
uint64_t tli_node_count(void);
void tli_entitle(const tl_Tensor *t, const char *title, uint64_t count);
/* "IndexSelectBackward0" of index_select, as PyTorch prints nodes. */
void tli_node_title(const tli_Node *n, char *out, size_t size);

/* Saving. A NULL tensor is fine: then nothing is saved. Tensors made in
** inference mode are refused. Hooks that pack what is saved are called at once. */
bool tli_save(tli_Saved *s, tl_Tensor *input) TL_MUSTCHECK;
/* For an operator that is about to write over `written` (NULL: over nothing):
** an input that shares memory with it is saved as a copy. */
bool tli_save_before(tli_Saved *s, tl_Tensor *input, const tl_Tensor *written) TL_MUSTCHECK;
/* Result k of the node. */
bool tli_save_result(tli_Saved *s, tl_Tensor *result, int k) TL_MUSTCHECK;
/* A new reference to what was saved; a result gets its history back while a
** graph is being recorded. *out is NULL if nothing was saved. False, naming
** the operator that saved and the one that wrote, if it was changed since, or
** if the graph has been freed by an earlier backward pass. */
bool tli_saved_get(const tli_Saved *s, tli_Node *n, tl_Tensor **out) TL_MUSTCHECK;
void tli_saved_drop(tli_Saved *s);

/* Before an in-place operator `op` writes to self: refuses a leaf that
** requires a gradient while recording, a view of one, and memory that
** overlaps itself. */
bool tli_inplace_check(const char *op, const tl_Tensor *self) TL_MUSTCHECK;
/* The same for an operator that makes all elements the same: they may share
** memory, unless the change is recorded. */
bool tli_inplace_check_fill(const char *op, const tl_Tensor *self) TL_MUSTCHECK;
/* After it has written: bumps the version and, when `node` is not NULL (its
** edge 0 being self's old history), makes it self's history: for a view, the
** base's history changes and self's is rebuilt from it. Gives the node its
** info of self: in-place operators do not call tli_node_output. */
bool tli_inplace_done(const char *op, tl_Tensor *self, tli_Node *node) TL_MUSTCHECK;
/* The same for result k of a node, without a new version. A view must be the only
** result, its old history behind edge 0. */
bool tli_inplace_result(const char *op, tl_Tensor *self, tli_Node *node, int k) TL_MUSTCHECK;
/* Gives self the geometry, the memory and the history of `view`, and a new
** version; the data stay as they are. Refuses a leaf as tli_inplace_check does. */
bool tli_rebase(const char *op, tl_Tensor *self, tl_Tensor *view) TL_MUSTCHECK;

/* Declares `view` a differentiable view of `of` (or of its base). Called for
** every result of a view operator, whatever the mode: of a view made under
** no_grad, too, an in-place change must reach the base's history. */
bool tli_view_of(tl_Tensor *view, tl_Tensor *of) TL_MUSTCHECK;

/* The tensor's autograd state, made if there is none; NULL on lack of memory. */
tli_Autograd *tli_autograd(tl_Tensor *t);
/* The node that made t (up to date with in-place changes of its base);
** borrowed, NULL for a leaf; sets *ok to false on failure. */
tli_Node *tli_grad_fn(tl_Tensor *t, bool *ok);

/* ---- the engine ---- */

typedef struct tli_Backward {
  tl_Tensor *const *roots;
  tl_Tensor *const *grads; /* per root; NULL, or NULL entries: ones for 1-element roots */
  int nroots;
  bool retain_graph;
  bool create_graph;
  /* autograd.grad: gradients wanted for these instead of accumulating */
  tl_Tensor *const *inputs;
  int ninputs;     /* 0: accumulate into leaves */
  bool accumulate; /* with inputs: accumulate into them (backward{inputs=}) */
  bool allow_unused;
  tl_Tensor **results; /* ninputs new references, NULL where unused */
} tli_Backward;

/* Runs a backward pass in the calling thread. False, with everything released
** and .grad of leaves only changed by what had been accumulated, on failure.
** With create_graph, a leaf and its .grad own each other until that is cleared;
** results of inputs without accumulate are free of it. */
bool tli_backward(const tli_Backward *call) TL_MUSTCHECK;

/* The pass that runs in this thread, nested ones in their own right: its number, 0
** where there is none, and how many are around it. */
uint64_t tli_pass(int *depth);
/* Whether t's gradient is on that pass's way: its hooks will be called. */
bool tli_pass_visits(tl_Tensor *t, bool *answer) TL_MUSTCHECK;

/* Whether the roots, where they require gradients, were made of a leaf that is none of `own`. */
bool tli_reaches_others(tl_Tensor *const *roots, int nroots, tl_Tensor *const *own, int nown,
                        bool *answer) TL_MUSTCHECK;

/* Brings a gradient to a forward value's dtype and shape (summing broadcast
** dimensions); new reference; NULL with a message when it cannot be. */
tl_Tensor *tli_grad_fit(const char *op, tl_Tensor *grad, const tli_Info *info) TL_MUSTCHECK;

/* Adds a gradient (steals it) to t's .grad. The first one is taken over where
** nobody else has it, copied else. With create_graph a sum is a new tensor,
** without it happens in place. */
bool tli_grad_accumulate(tl_Tensor *t, tl_Tensor *grad, bool create_graph) TL_MUSTCHECK;
/* Sets .grad, NULL for none, to a new reference; refuses what does not fit t. */
bool tli_grad_set(tl_Tensor *t, tl_Tensor *grad) TL_MUSTCHECK;

/* Hooks: called with the gradient (borrowed); may return a replacement (new
** reference in *out) or leave *out NULL. False: failure, message set. */
typedef bool (*tli_HookFn)(void *context, tl_Tensor *grad, tl_Tensor **out);
/* Adds a hook to a tensor that requires a gradient; a new reference to it, or
** NULL. `release` gives the context back: on failure, and when the hook cannot
** be called any more because it was removed or what it was added to is gone.
** Hooks of a result go with what its node has saved. */
struct tli_Hook *tli_hook_add(tl_Tensor *t, tli_HookFn fn, void *context,
                              void (*release)(void *context)) TL_MUSTCHECK;
void tli_hook_remove(struct tli_Hook *hook);
void tli_hook_release(struct tli_Hook *hook); /* the reference only */
/* Keeps .grad of a tensor that is no leaf. */
bool tli_retain_grad(tl_Tensor *t) TL_MUSTCHECK;

/* Anomaly mode, per thread: `where` (may be NULL: off) tells the user's
** source line for a new node, in memory from tli_alloc of strlen + 1 bytes;
** NaN in a computed gradient is then an error naming node and line. */
typedef char *(*tli_WhereFn)(void *context);
void tli_set_anomaly(tli_WhereFn where, void *context);
bool tli_anomaly(void);
char *tli_anomaly_where(void); /* NULL if off or unknown */

#endif
