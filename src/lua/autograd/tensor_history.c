/*
** tensor_history.c - the methods and properties of a tensor that concern its history: gradients,
** hooks and data.
*/
#include "lua/autograd/autograd.h"

#include "autograd/calls.h"
#include "autograd/hooks.h"
#include "lua/args/sparse.h"
#include "lua/autograd/callback.h"
#include "lua/tensor/value.h"

#define HOOK "torch.Hook"

/* ---- hooks ---- */

typedef struct HookCall {
  tl_Tensor *grad; /* borrowed */
  tl_Tensor *out;  /* owned */
} HookCall;

/* Runs a hook. The arguments are (function, call). */
static int call_hook(lua_State *L) {
  HookCall *call = lua_touserdata(L, 2);
  tli_State *S = tli_state(L);
  lua_settop(L, 1);
  if (tli_is_sparse_grad(call->grad)) {
    tli_push_grad(L, tli_retain(call->grad));
  } else {
    tli_Box *box = tli_push_box(L);
    tli_fill_box(S, box, tli_retain(call->grad));
  }
  lua_call(L, 1, 1);
  if (lua_isnil(L, 1)) return 0;
  call->out = tli_to_grad(L, 1, call->grad,
                          "register_hook: expected the hook to return a Tensor or nothing");
  return call->out ? 0 : tli_raise(L);
}

static bool lua_hook(void *context, tl_Tensor *grad, tl_Tensor **out) {
  HookCall call = {grad, NULL};
  bool ok = tli_callback_call(context, call_hook, &call);
  *out = call.out;
  return ok;
}

typedef struct Handle {
  tli_Hook *hook; /* owned */
} Handle;

/* Adds a hook to the tensor at index 1. If `after` is true, the hook is called after a gradient was
** added to the tensor's field `grad`. Otherwise the hook is called as soon as the gradient is
** computed. */
static bool add_hook(lua_State *L, Handle *handle, tli_Callback *callback, bool after) {
  bool ok = true;
  tl_Tensor *t = tli_to_tensor(L, tli_state(L), 1);
  const tli_Node *node = t ? tli_grad_fn(t, &ok) : NULL;
  if (t == NULL || !ok) {
    tli_callback_drop(callback);
    return ok && tli_fail(TL_EARG, "register_hook: the Tensor was released");
  }
  handle->hook =
      (after ? tli_hook_add_after : tli_hook_add)(t, lua_hook, callback, tli_callback_drop);
  TL_TRY(handle->hook);
  tli_callback_hangs_on(L, callback, node, 1);
  return true;
}

static int register_hook(lua_State *L, const char *name, bool after) {
  tli_check_tensor(L, 1, name);
  if (lua_type(L, 2) != LUA_TFUNCTION)
    return tli_error(L, "%s: hook: expected a function, got %s", name,
                     tli_describe(L, tli_state(L), 2));
  lua_settop(L, 2);
  Handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->hook = NULL;
  luaL_setmetatable(L, HOOK);
  tli_note_owner(L);
  lua_insert(L, 2);
  tli_Callback *callback = tli_callback_new(L);
  if (callback == NULL) return tli_raise(L);
  return add_hook(L, handle, callback, after) ? 1 : tli_raise(L);
}

static int tensor_register_hook(lua_State *L) { return register_hook(L, "register_hook", false); }

static int tensor_register_after(lua_State *L) {
  return register_hook(L, "register_post_accumulate_grad_hook", true);
}

static int hook_remove(lua_State *L) {
  Handle *handle = luaL_checkudata(L, 1, HOOK);
  if (handle->hook) tli_hook_remove(handle->hook);
  return 0;
}

static int hook_gc(lua_State *L) {
  Handle *handle = luaL_checkudata(L, 1, HOOK);
  tli_hook_release(handle->hook);
  handle->hook = NULL;
  return 0;
}

/* ---- tensors ---- */

static bool change_requires_grad(tl_Tensor *t, bool on) {
  const tli_CallArg args[] = {{.tensor = t}, {.flag = on}};
  tli_Traced traced = tli_trace_begin(&tli_call_autograd_requires_grad_, args);
  if (traced == TLI_TRACE_REFUSED) return false;
  bool ok = tli_set_requires_grad(t, on);
  if (traced != TLI_TRACED) return ok;
  return tli_trace_end(&tli_call_autograd_requires_grad_, args, ok, NULL, 0);
}

static int tensor_requires_grad_(lua_State *L) {
  tl_Tensor *t = tli_check_tensor(L, 1, "requires_grad_");
  if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TBOOLEAN)
    return tli_error(L, "requires_grad_: expected true or false, got %s",
                     tli_describe(L, tli_state(L), 2));
  bool on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
  if (!change_requires_grad(t, on)) return tli_raise(L);
  lua_settop(L, 1);
  return 1;
}

static int tensor_detach_(lua_State *L) {
  if (!tli_forget_history(tli_sole_tensor(L, "detach_"))) return tli_raise(L);
  lua_settop(L, 1);
  return 1;
}

static bool retain_grad(tl_Tensor *t) {
  const tli_CallArg args[] = {{.tensor = t}};
  tli_Traced traced = tli_trace_begin(&tli_call_autograd_retain_grad, args);
  if (traced == TLI_TRACE_REFUSED) return false;
  bool ok = tli_retain_grad(t);
  if (traced != TLI_TRACED) return ok;
  return tli_trace_end(&tli_call_autograd_retain_grad, args, ok, NULL, 0);
}

static int tensor_retain_grad(lua_State *L) {
  return retain_grad(tli_sole_tensor(L, "retain_grad")) ? 0 : tli_raise(L);
}

const luaL_Reg tli_autograd_methods[] = {
    {"backward", tli_tensor_backward},
    {"requires_grad_", tensor_requires_grad_},
    {"detach_", tensor_detach_},
    {"retain_grad", tensor_retain_grad},
    {"register_hook", tensor_register_hook},
    {"register_post_accumulate_grad_hook", tensor_register_after},
    {NULL, NULL},
};

static int get_grad(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  if (t->autograd && t->autograd->grad)
    tli_push_grad(L, tli_retain(t->autograd->grad));
  else
    lua_pushnil(L);
  return 1;
}

static int set_grad(lua_State *L, tli_State *S, tl_Tensor *t, int value) {
  (void)S;
  tl_Tensor *grad = NULL;
  if (!lua_isnil(L, value)) {
    grad = tli_to_grad(L, value, t, "grad: expected a Tensor or nil");
    if (grad == NULL) return tli_raise(L);
  }
  const tli_CallArg args[] = {{.tensor = t}, {.tensor = grad}};
  tli_Traced traced = tli_trace_begin(&tli_call_autograd_set_grad, args);
  if (traced == TLI_TRACE_REFUSED) {
    tli_release(grad);
    return tli_raise(L);
  }
  bool ok = tli_grad_set(t, grad);
  if (traced == TLI_TRACED) ok = tli_trace_end(&tli_call_autograd_set_grad, args, ok, NULL, 0);
  tli_release(grad);
  return ok ? 0 : tli_raise(L);
}

static int get_grad_fn(lua_State *L, tli_State *S, tl_Tensor *t) {
  bool ok = true;
  tli_Node **box = tli_push_node_box(L);
  /* reads the tensor again, because a finalizer may have released it while the box was made */
  t = tli_to_tensor(L, S, 1);
  tli_Node *node = t ? tli_grad_fn(t, &ok) : NULL;
  if (!ok) return tli_raise(L);
  if (node)
    *box = tli_node_retain(node);
  else
    lua_pushnil(L);
  return 1;
}

/* Pushes the position of the tensor among the results of its grad_fn; pushes 1 for a leaf. */
static int get_output_nr(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  bool ok = true;
  tli_Node *node = tli_grad_fn(t, &ok);
  if (!ok) return tli_raise(L);
  lua_pushinteger(L, node ? t->autograd->output + 1 : 1);
  return 1;
}

static int get_requires_grad(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushboolean(L, tli_requires_grad(t));
  return 1;
}

static int set_requires_grad(lua_State *L, tli_State *S, tl_Tensor *t, int value) {
  if (lua_type(L, value) != LUA_TBOOLEAN)
    return tli_error(L, "requires_grad: expected true or false, got %s", tli_describe(L, S, value));
  return change_requires_grad(t, lua_toboolean(L, value)) ? 0 : tli_raise(L);
}

static int get_is_leaf(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushboolean(L, (t->flags & TLI_REQUIRES_GRAD) || !tli_requires_grad(t));
  return 1;
}

static int get_retains_grad(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushboolean(L, t->autograd && t->autograd->keeper);
  return 1;
}

/* Pushes the value of x.data: a tensor that shares x's memory but has no history. Unlike in
** PyTorch, an in-place change of x.data counts as a change of x, so a backward pass detects it. */
static int get_data(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  tl_Tensor *data = tli_detached(t);
  if (data == NULL) return tli_raise(L);
  tli_push_tensor(L, data);
  return 1;
}

/* Returns the tensor at stack index `value`, after checking that the tensor t can take over the
** memory of that tensor. */
static const tl_Tensor *check_data(lua_State *L, tli_State *S, const tl_Tensor *t, int value) {
  const tl_Tensor *y = lua_type(L, value) == LUA_TUSERDATA ? tli_to_tensor(L, S, value) : NULL;
  if (y == NULL) tli_error(L, "data: expected a Tensor, got %s", tli_describe(L, S, value));
  if (t->base || (t->autograd && t->autograd->node))
    tli_error(L, "data: can be set of a leaf only, not of a view or a result that has a history");
  if ((t->flags & TLI_REQUIRES_GRAD) && !tli_is_inexact((tl_DType)y->dtype))
    tli_error(L, "data: expected a floating Tensor for one that requires a gradient, got %s",
              tli_describe(L, S, value));
  const tl_Tensor *grad = t->autograd ? t->autograd->grad : NULL;
  if (grad && (grad->dtype != y->dtype || !tli_same_sizes(grad, y) ||
               !tli_same_device(tli_device(grad), tli_device(y))))
    tli_error(L,
              "data: expected a Tensor that fits the gradient, got %s; set grad to nil before "
              "another shape, dtype or device",
              tli_describe(L, S, value));
  if (!tli_may_reshape("data")) tli_raise(L);
  return y;
}

static void take_data(tl_Tensor *t, const tl_Tensor *y) {
  tl_Storage *old = t->storage;
  t->storage = tli_storage_retain(y->storage);
  t->offset = y->offset;
  t->dtype = y->dtype;
  tli_set_geometry(t, y->ndim, y->sizes, y->strides);
  tli_storage_release(old);
}

/* x.data = y gives x the memory, shape and dtype of y, while x remains the same tensor for
** modules and optimizers. */
static int set_data(lua_State *L, tli_State *S, tl_Tensor *t, int value) {
  const tl_Tensor *y = check_data(L, S, t, value);
  /* t gets a version that it never had before, because graphs that have saved t detect a change by
  ** its version */
  unsigned past = tli_version(t);
  take_data(t, y);
  atomic_fetch_add_explicit(&t->storage->version, past, memory_order_relaxed);
  tli_bump(t, "data");
  return 0;
}

/* autograd._lend(x, y, version) gives x the memory of y, as x.data = y does, and sets x's version.
** The values of y must be those that x had at that version, so that graphs that have saved x remain
** valid. The function serves parameters whose data are moved to other memory while they are
** unused. */
static int autograd_lend(lua_State *L) {
  tli_State *S = tli_state(L);
  tl_Tensor *t = lua_type(L, 1) == LUA_TUSERDATA ? tli_to_tensor(L, S, 1) : NULL;
  if (t == NULL) return tli_error(L, "_lend: expected a Tensor, got %s", tli_describe(L, S, 1));
  const tl_Tensor *y = check_data(L, S, t, 2);
  int64_t version;
  if (!tli_to_whole(L, 3, &version))
    return tli_error(L, "_lend: version: expected an integer, got %s", tli_describe(L, S, 3));
  take_data(t, y);
  atomic_store_explicit(&t->storage->version, (unsigned)version, memory_order_relaxed);
  return 0;
}

static int get_version(lua_State *L, tli_State *S, tl_Tensor *t) {
  (void)S;
  lua_pushinteger(L, tli_version(t));
  return 1;
}

const tli_Property tli_autograd_properties[] = {
    {"grad", get_grad, set_grad},
    {"grad_fn", get_grad_fn, NULL},
    {"output_nr", get_output_nr, NULL},
    {"requires_grad", get_requires_grad, set_requires_grad},
    {"is_leaf", get_is_leaf, NULL},
    {"retains_grad", get_retains_grad, NULL},
    {"data", get_data, set_data},
    {"_version", get_version, NULL},
    {NULL, NULL, NULL},
};

void tli_open_tensor_history(lua_State *L) {
  static const luaL_Reg plain[] = {{"detach_", tensor_detach_}, {NULL, NULL}};
  static const luaL_Reg hook[] = {{"__gc", hook_gc}, {"remove", hook_remove}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"_lend", autograd_lend}, {NULL, NULL}};
  tli_open_class(L, HOOK, hook);
  tli_set_functions(L, plain);
  tli_set_module(L, "autograd", functions);
}
