/*
** saved_hooks.c - implements torch.autograd.graph.saved_tensors_hooks: pairs of Lua functions that
** pack and unpack the tensors that operators save. The function `pack` runs in the middle of an
** operator, which afterwards reads its arguments again. Therefore, until pack returns, no tensor is
** finalized, explicitly released tensors keep their memory, and new tensors belong to no
** torch.scope.
**
** Pairs of functions are in numbered slots, and a mode of the Lua thread is the number of the
** current slot. A slot becomes free once no thread's mode and no open scope refers to that slot.
*/
#include "autograd/pack_hooks.h"
#include "lua/args/args.h"
#include "lua/autograd/autograd.h"
#include "lua/autograd/callback.h"
#include "lua/modes/thread_modes.h"

#include <string.h>

#define SLOTS 100

/* A pair of functions with a reference count. The slots and packed tensors that use the pair are
** counted. */
typedef struct Pair {
  atomic_int refs;
  tli_Callback *functions; /* the table {pack, unpack} (owned) */
} Pair;

/* A slot contains a pair of functions, or the message of a call that has disabled hooks. */
typedef struct Slot {
  Pair *pair; /* the functions (owned); NULL if hooks are disabled, or the slot is free */
  bool forbidden, opening;
  char message[200];
  int8_t outer; /* the slot that becomes current again when the scope of this slot ends */
} Slot;

typedef struct tli_SavedHooks {
  /* number of pack and unpack functions that are running; tensors saved meanwhile are not packed */
  int masked;
  int current; /* number of the running thread's slot, from 1; 0 if the thread has none */
  int n;       /* number of slots up to the last one in use */
  Slot slots[SLOTS];
} tli_SavedHooks;

typedef struct Packed {
  Pair *pair;          /* owned */
  tl_Tensor *tensor;   /* the packed value if `pack` returned a tensor (owned); otherwise NULL */
  tli_Callback *value; /* the packed value if `pack` returned another value (owned) */
} Packed;

/* ---- packing ---- */

static void pair_release(Pair *p) {
  if (p == NULL || !tli_last_reference(&p->refs)) return;
  tli_callback_drop(p->functions);
  tli_free(p, sizeof *p);
}

static void packed_release(void *context) {
  Packed *p = context;
  if (p == NULL) return;
  pair_release(p->pair);
  tli_release(p->tensor);
  tli_callback_drop(p->value);
  tli_free(p, sizeof *p);
}

typedef struct PackCall {
  tl_Tensor *tensor; /* borrowed */
  Packed *packed;
} PackCall;

/* Calls the Lua function pack with a tensor, and stores the result. Stack index 1 has the table
** {pack, unpack}; index 2 has the PackCall, as a light userdata. */
static int call_pack(lua_State *L) {
  PackCall *call = lua_touserdata(L, 2);
  tli_State *S = tli_state(L);
  lua_settop(L, 1);
  tli_push_mode_scope(L, 1, &(tli_Change){TLI_MODE_GRAD, false});
  lua_toclose(L, 2);
  lua_rawgeti(L, 1, 1);
  tli_Box *box = tli_push_box(L);
  tli_fill_box(S, box, tli_retain(call->tensor));
  lua_call(L, 1, 1);
  const tl_Tensor *t = lua_type(L, 3) == LUA_TUSERDATA ? tli_to_tensor(L, S, 3) : NULL;
  if (t) {
    call->packed->tensor = tli_retain((tl_Tensor *)t);
  } else {
    call->packed->value = tli_callback_new(L);
    if (call->packed->value == NULL) return tli_raise(L);
  }
  return 0;
}

/* Disables packing until unmask is called. Returns the current slot, which unmask takes as its
** argument. */
static int mask(tli_State *S) {
  tli_SavedHooks *h = S->saved_hooks;
  if (h == NULL) return 0;
  h->masked++;
  tli_set_pack_hooks(NULL, NULL);
  return h->current;
}

static void unmask(tli_State *S, int current) {
  tli_SavedHooks *h = S->saved_hooks;
  if (h == NULL) return;
  h->masked--;
  tli_saved_hooks_load(S, current);
}

/* Calls pack, and then restores the thread's state, since the operator that is running relies on
** it. */
static bool call_in_operator(lua_State *L, tli_State *S, Pair *pair, PackCall *call) {
  const char *op = tli_operator();
  bool grad = tli_grad_mode(), inference = tli_inference_mode(), collecting = S->pacer.collecting;
  bool inside = tli_set_inside_operator(true);
  int scopes = S->scopes, slot = mask(S);
  S->scopes = 0;
  S->pacer.collecting = true;
  S->packing++;
  bool ok = tli_callback_call_in(L, pair->functions, call_pack, call);
  S->packing--;
  S->pacer.collecting = collecting;
  tli_set_inside_operator(inside);
  S->scopes += scopes;
  unmask(S, slot);
  tli_set_grad_mode(grad);
  tli_set_inference_mode(inference);
  tli_set_operator(op);
  tli_calling = L;
  return ok;
}

static bool pack(void *context, tl_Tensor *t, void **packed) {
  Pair *pair = context;
  lua_State *L = tli_calling ? tli_calling : tli_running();
  tli_State *S = L && lua_checkstack(L, LUA_MINSTACK) ? tli_state_find(L) : NULL;
  if (S == NULL) return tli_fail(TL_EARG, "saved_tensors_hooks: no Lua code calls the operator");
  Packed *p = tli_alloc(sizeof *p);
  TL_TRY(p);
  *p = (Packed){.pair = pair};
  atomic_fetch_add_explicit(&pair->refs, 1, memory_order_relaxed);
  PackCall call = {t, p};
  if (call_in_operator(L, S, pair, &call)) {
    *packed = p;
    return true;
  }
  packed_release(p);
  return false;
}

typedef struct UnpackCall {
  const Packed *packed;
  tl_Tensor *out; /* owned */
} UnpackCall;

/* Calls the Lua function unpack with a packed tensor. Stack index 1 has the table {pack, unpack};
** index 2 has the UnpackCall, as a light userdata. */
static int call_unpack(lua_State *L) {
  UnpackCall *call = lua_touserdata(L, 2);
  tli_State *S = tli_state(L);
  lua_settop(L, 1);
  lua_rawgeti(L, 1, 2);
  if (call->packed->tensor) {
    tli_Box *box = tli_push_box(L);
    tli_fill_box(S, box, tli_retain(call->packed->tensor));
  } else {
    tli_callback_push(L, call->packed->value);
  }
  lua_call(L, 1, 1);
  tl_Tensor *t = lua_type(L, 2) == LUA_TUSERDATA ? tli_to_tensor(L, S, 2) : NULL;
  if (t == NULL)
    return tli_error(L, "saved_tensors_hooks: expected unpack to return a Tensor, got %s",
                     tli_describe(L, S, 2));
  call->out = tli_retain(t);
  return 0;
}

static bool unpack(void *packed, tl_Tensor **out) {
  const Packed *p = packed;
  UnpackCall call = {p, NULL};
  Pair *pair = p->pair;
  lua_State *L = tli_running();
  tli_State *S = L && lua_checkstack(L, LUA_MINSTACK) ? tli_state_find(L) : NULL;
  int slot = S ? mask(S) : 0;
  bool ok = tli_callback_call(pair->functions, call_unpack, &call);
  if (S) unmask(S, slot);
  if (!ok) tli_release(call.out);
  *out = ok ? call.out : NULL;
  return ok;
}

static const tli_PackHooks hooks = {pack, unpack, packed_release};

/* ---- slots ---- */

static void slot_clear(Slot *s) {
  Pair *pair = s->pair;
  s->pair = NULL;
  s->forbidden = false;
  pair_release(pair);
}

/* Marks the slot with number `mode` as used, and also the slots that become current again when the
** open scopes end. */
static void mark(const tli_SavedHooks *h, int mode, bool *used) {
  while (mode > 0 && !used[mode - 1]) {
    used[mode - 1] = true;
    mode = h->slots[mode - 1].outer;
  }
}

static void sweep(const tli_State *S, tli_SavedHooks *h) {
  bool used[SLOTS] = {false};
  mark(h, S->main.mode[TLI_MODE_SAVED], used);
  for (const tli_Settings *s = S->others; s; s = s->next) mark(h, s->mode[TLI_MODE_SAVED], used);
  int n = h->n;
  h->n = 0;
  for (int i = 0; i < n; i++) {
    if (used[i] || h->slots[i].opening)
      h->n = i + 1;
    else
      slot_clear(&h->slots[i]);
  }
}

void tli_saved_hooks_load(tli_State *S, int mode) {
  tli_SavedHooks *h = S->saved_hooks;
  Slot *slot = h && mode > 0 ? &h->slots[mode - 1] : NULL;
  if (slot) slot->opening = false;
  if (h && h->masked > 0) {
    tli_set_pack_hooks(NULL, NULL);
    return;
  }
  tli_set_pack_hooks(slot && slot->pair ? &hooks : NULL, slot ? slot->pair : NULL);
  if (h == NULL) return;
  h->current = slot && (slot->pair || slot->forbidden) ? mode : 0;
  if (h->n > 0) sweep(S, h);
}

void tli_saved_hooks_close(tli_State *S) {
  tli_SavedHooks *h = S->saved_hooks;
  S->saved_hooks = NULL;
  if (h == NULL) return;
  for (int i = 0; i < SLOTS; i++) slot_clear(&h->slots[i]);
  tli_free(h, sizeof *h);
}

/* Returns a free slot; raises an error if there is none. */
static int free_slot(lua_State *L, tli_State *S, const char *name) {
  tli_enter(L, S);
  if (S->saved_hooks == NULL) {
    S->saved_hooks = tli_alloc(sizeof *S->saved_hooks);
    if (S->saved_hooks == NULL) tli_raise(L);
    memset(S->saved_hooks, 0, sizeof *S->saved_hooks);
  }
  int i = 0;
  while (i < SLOTS && (S->saved_hooks->slots[i].pair || S->saved_hooks->slots[i].forbidden)) i++;
  if (i == SLOTS) tli_error(L, "%s: more than %d are open; end their scopes", name, SLOTS);
  return i;
}

/* Raises an error with the message of the call that has disabled hooks, if there is one. */
static void check_allowed(lua_State *L, const tli_State *S) {
  const tli_SavedHooks *h = S->saved_hooks;
  if (h && h->current && h->slots[h->current - 1].forbidden)
    tli_error(L, "%s", h->slots[h->current - 1].message);
}

static int open_slot(lua_State *L, tli_State *S, const char *name, int i) {
  tli_SavedHooks *h = S->saved_hooks;
  Slot *slot = &h->slots[i];
  slot->opening = true;
  if (i >= h->n) h->n = i + 1;
  slot->outer = tli_push_settings(L, S)->mode[TLI_MODE_SAVED];
  lua_pop(L, 1);
  return tli_mode_scope(L, name, 1, &(tli_Change){TLI_MODE_SAVED, i + 1});
}

static void check_function(lua_State *L, int index, const char *what) {
  if (lua_type(L, index) != LUA_TFUNCTION)
    tli_error(L, "saved_tensors_hooks: %s: expected a function, got %s", what,
              tli_describe(L, tli_state(L), index <= lua_gettop(L) ? index : 0));
}

/* _saved_tensors_hooks(pack, unpack, fn?, ...) opens a scope in which the functions pack saved
** tensors. */
static int autograd_saved_tensors_hooks(lua_State *L) {
  static const char name[] = "saved_tensors_hooks";
  tli_State *S = tli_state(L);
  check_function(L, 1, "pack");
  check_function(L, 2, "unpack");
  free_slot(L, S, name);
  check_allowed(L, S);
  lua_createtable(L, 2, 0);
  for (int k = 1; k <= 2; k++) {
    lua_pushvalue(L, k);
    lua_rawseti(L, -2, k);
  }
  tli_Callback *functions = tli_callback_new(L); /* pops the table {pack, unpack} */
  Pair *pair = functions ? tli_alloc(sizeof *pair) : NULL;
  if (pair == NULL) {
    tli_callback_drop(functions);
    return tli_raise(L);
  }
  atomic_init(&pair->refs, 1);
  pair->functions = functions;
  /* searches for a free slot again, because finalizers that ran meanwhile may have taken it */
  int i = free_slot(L, S, name);
  /* no finalizer can run before open_slot marks the slot as `opening` */
  S->saved_hooks->slots[i].pair = pair;
  lua_remove(L, 1);
  lua_remove(L, 1);
  return open_slot(L, S, name, i);
}

/* _disable_saved_tensors_hooks(message, fn?, ...) opens a scope in which setting hooks is an
** error. */
static int autograd_disable_saved_tensors_hooks(lua_State *L) {
  static const char name[] = "disable_saved_tensors_hooks";
  tli_State *S = tli_state(L);
  const char *message = tli_to_word(L, 1);
  if (message == NULL)
    return tli_error(L, "%s: error_message: expected a string, got %s", name,
                     tli_describe(L, S, lua_gettop(L) ? 1 : 0));
  int i = free_slot(L, S, name);
  const tli_SavedHooks *h = S->saved_hooks;
  if (h->current && h->slots[h->current - 1].pair) return tli_error(L, "%s", message);
  Slot *slot = &S->saved_hooks->slots[i];
  snprintf(slot->message, sizeof slot->message, "%s", message);
  slot->forbidden = true;
  lua_remove(L, 1);
  return open_slot(L, S, name, i);
}

void tli_open_saved_hooks(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"_saved_tensors_hooks", autograd_saved_tensors_hooks},
      {"_disable_saved_tensors_hooks", autograd_disable_saved_tensors_hooks},
      {NULL, NULL}};
  tli_set_module(L, "autograd", functions);
}
