/*
** guards.c - the checks of torch.compile (lua/tlua/compile): makes a key from a call's arguments
** and modes, and finds changes in the Lua state on which a compiled program depends.
*/
#include <string.h>

#include "autograd/graph.h"
#include "autograd/hooks.h"
#include "autograd/pack_hooks.h"
#include "core/device/backend.h"
#include "core/observe/trace.h"
#include "lua/args/args.h"
#include "lua/modes/autocast.h"
#include "lua/tensor/value.h"

/* ---- keys of calls ---- */

static void add_bytes(luaL_Buffer *b, const void *bytes, size_t size) {
  luaL_addlstring(b, bytes, size);
}

/* Appends a description of the tensor to the key. Leaves out the first size of a row-major tensor
** if it equals `batch`. */
static void add_tensor(luaL_Buffer *b, const tl_Tensor *t, int64_t batch) {
  tl_Device on = tli_device(t);
  char head[] = {'T',
                 (char)t->dtype,
                 (char)on.type,
                 (char)on.index,
                 (char)t->ndim,
                 tli_requires_grad(t),
                 (char)(t->flags & (TLI_PARAMETER | TLI_INFERENCE | TLI_CONTIGUOUS))};
  bool dynamic = batch >= 0 && tli_contiguous(t) && t->ndim > 0 && t->sizes[0] == batch;
  add_bytes(b, head, sizeof head);
  luaL_addchar(b, dynamic ? 'b' : 's');
  if (dynamic) {
    add_bytes(b, t->sizes + 1, (size_t)(t->ndim - 1) * sizeof *t->sizes);
    return;
  }
  add_bytes(b, t->sizes, (size_t)t->ndim * sizeof *t->sizes);
  add_bytes(b, t->strides, (size_t)t->ndim * sizeof *t->strides);
}

/* Appends the argument at a stack index to the key. Returns false if a value of this type is not
** allowed in a key. */
static bool add_argument(lua_State *L, const tli_State *S, luaL_Buffer *b, int index,
                         int64_t batch) {
  char kind = (char)lua_type(L, index);
  size_t size;
  const tl_Tensor *t;
  switch (lua_type(L, index)) {
  case LUA_TNIL: break;
  case LUA_TBOOLEAN: kind = lua_toboolean(L, index) ? 't' : 'f'; break;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) {
      lua_Integer i = lua_tointeger(L, index);
      luaL_addchar(b, 'i');
      add_bytes(b, &i, sizeof i);
    } else {
      lua_Number x = lua_tonumber(L, index);
      luaL_addchar(b, 'd');
      add_bytes(b, &x, sizeof x);
    }
    return true;
  case LUA_TSTRING: {
    const char *text = lua_tolstring(L, index, &size);
    luaL_addchar(b, 's');
    add_bytes(b, &size, sizeof size);
    add_bytes(b, text, size);
    return true;
  }
  case LUA_TUSERDATA:
    t = tli_to_tensor(L, S, index);
    if (t == NULL || (t->flags & TLI_SPARSE)) return false;
    add_tensor(b, t, batch);
    return true;
  default: return false;
  }
  luaL_addchar(b, kind);
  return true;
}

/* Returns whether autocast is enabled for any device type in this thread. */
static bool is_casting(const tli_State *S) {
  for (int type = 0; S->casts && type < TL_NDEVICETYPES; type++)
    if (S->cast_to[type] != TL_NODTYPE) return true;
  return false;
}

/* Returns the first size of the first row-major tensor among the arguments; -1 if there is none. */
static int64_t batch_of(lua_State *L, const tli_State *S, int n) {
  for (int i = 1; i <= n; i++) {
    const tl_Tensor *t = lua_type(L, i) == LUA_TUSERDATA ? tli_to_tensor(L, S, i) : NULL;
    if (t && t->ndim > 0 && tli_contiguous(t)) return t->sizes[0];
  }
  return -1;
}

/* Appends a byte for each mode of the thread on which the results of operators depend.
** lua/tlua/export/modes.lua names these bytes. */
static void add_modes(luaL_Buffer *b, const tli_State *S) {
  bool dual = tli_set_dual_level(false);
  tli_set_dual_level(dual);
  tl_Device on = tli_default_device();
  char modes[10 + 2 * TL_NDEVICETYPES] = {
      tli_grad_mode(), tli_inference_mode(),      tli_anomaly(), tli_packing(), dual, S->rules > 0,
      tlk_portable(),  (char)tli_default_dtype(), (char)on.type, (char)on.index};
  for (int type = 0; type < TL_NDEVICETYPES; type++) {
    modes[10 + type] = S->casts ? (char)(S->cast_to[type] + 1) : 0;
    modes[10 + TL_NDEVICETYPES + type] = (char)tli_autocast_dtype(S, type);
  }
  luaL_addlstring(b, modes, sizeof modes);
}

/* _mode_bytes() returns the modes of the thread as a string of bytes (see add_modes). */
static int mode_bytes(lua_State *L) {
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  add_modes(&b, S);
  luaL_pushresult(&b);
  return 1;
}

/* _call_key(...) returns a key, a string, and whether gradients are recorded. Two calls have the
** same key if their arguments have the same types and the thread has the same modes. Tensors must
** also have the same dtype, device, sizes, strides and requires_grad, and other arguments the same
** values. If an argument or a mode of the thread is not allowed in a key, returns nil and the
** reason. */
static int make_key(lua_State *L, bool dynamic) {
  int n = lua_gettop(L);
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  int64_t batch = dynamic ? batch_of(L, S, n) : -1;
  bool dual = tli_set_dual_level(false);
  tli_set_dual_level(dual);
  const char *why = S->rules > 0    ? "vmap is running"
                    : is_casting(S) ? "autocast is enabled"
                    : tli_tracing() ? "the call is being recorded"
                    : dual          ? "a level of forward-mode derivatives is open"
                    : tli_packing() ? "hooks pack the saved tensors"
                    : tli_anomaly() ? "anomalies are being detected"
                                    : NULL;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  add_modes(&b, S);
  for (int i = 1; i <= n && why == NULL; i++)
    if (!add_argument(L, S, &b, i, batch)) why = "an argument is neither a tensor nor plain data";
  luaL_pushresult(&b);
  if (why == NULL) {
    lua_pushboolean(L, tli_grad_mode());
  } else {
    lua_pushnil(L);
    lua_pushstring(L, why);
  }
  if (dynamic) lua_pushinteger(L, batch);
  return dynamic ? 3 : 2;
}

static int call_key(lua_State *L) { return make_key(L, false); }

/* _dynamic_key(...) returns the same as _call_key, and the first size of the first row-major tensor
** among the arguments. The key leaves out this size wherever it is the first size of a row-major
** tensor. */
static int dynamic_key(lua_State *L) { return make_key(L, true); }

/* ---- state ---- */

/* Pops two values and returns whether they are the same. Numbers are the same only if they also
** have the same type, and zeros only if they have the same sign. */
static bool same_values(lua_State *L) {
  bool same = lua_rawequal(L, -1, -2);
  if (same && lua_type(L, -1) == LUA_TNUMBER) {
    lua_Number a = lua_tonumber(L, -1), b = lua_tonumber(L, -2);
    same = lua_isinteger(L, -1) == lua_isinteger(L, -2) && memcmp(&a, &b, sizeof a) == 0;
  }
  lua_pop(L, 2);
  return same;
}

/* A key or value in a table: its type, and its address or the bits of its number. */
typedef struct Word {
  int type; /* type in Lua; LUA_NUMTYPES for an integer */
  union {
    const void *object;
    lua_Number number;
    lua_Integer integer;
  };
} Word;

static Word word_at(lua_State *L, int index) {
  Word w = {.type = lua_type(L, index), .integer = 0};
  if (w.type == LUA_TBOOLEAN)
    w.integer = lua_toboolean(L, index);
  else if (w.type == LUA_TNUMBER && lua_isinteger(L, index))
    w.type = LUA_NUMTYPES, w.integer = lua_tointeger(L, index);
  else if (w.type == LUA_TNUMBER)
    w.number = lua_tonumber(L, index);
  else
    w.object = lua_topointer(L, index);
  return w;
}

/* Compares the bits of numbers, so that NaN equals itself, and zeros must have the same sign. */
static bool same_words(const Word *a, Word b) {
  return a->type == b.type && a->integer == b.integer;
}

/* The contents of some tables at one moment, by which later changes are found. For each table,
** `words` has the number of fields and the metatable, followed by the keys and values in the order
** of lua_next. `words` holds plain pointers, which keep nothing alive. Therefore the user value of
** the snapshot is a list {table, copy, ...}, where each copy is a Lua table with the same keys and
** values. */
typedef struct Snapshot {
  int64_t tables;
  Word words[];
} Snapshot;
#define SNAPSHOT "tlua.compile.snapshot" /* name of the metatable of snapshots */
#define MOST_WORDS (INT32_MAX / 2)

static Word metatable_at(lua_State *L, int index) {
  Word none = {.type = LUA_TNIL};
  if (!lua_getmetatable(L, index)) return none;
  Word w = word_at(L, -1);
  lua_pop(L, 1);
  return w;
}

/* _snapshot({table, copy, ..., n =, fields =}) returns a snapshot of the tables. The list has each
** table followed by its copy. `n` is the length of the list, `fields` the total number of fields in
** the tables. */
static int snapshot_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_getfield(L, 1, "n");
  lua_getfield(L, 1, "fields");
  lua_Integer n = lua_tointeger(L, 2) / 2, fields = lua_tointeger(L, 3), left = fields;
  if (n < 0 || n > MOST_WORDS || fields < 0 || fields > MOST_WORDS)
    return tli_error(L, "compile: expected a list of tables");
  Snapshot *s =
      lua_newuserdatauv(L, sizeof *s + (size_t)(2 * n + 2 * fields) * sizeof *s->words, 1);
  luaL_setmetatable(L, SNAPSHOT);
  s->tables = n;
  Word *w = s->words;
  for (lua_Integer i = 0; i < n; i++) {
    Word *count = w;
    if (lua_rawgeti(L, 1, 2 * i + 1) != LUA_TTABLE)
      return tli_error(L, "compile: expected a list of tables");
    *w++ = (Word){.type = LUA_NUMTYPES, .integer = 0};
    *w++ = metatable_at(L, -1);
    for (lua_pushnil(L); lua_next(L, -2) && left > 0; left--) {
      *w++ = word_at(L, -2);
      *w++ = word_at(L, -1);
      count->integer++;
      lua_pop(L, 1);
    }
    lua_settop(L, 4);
  }
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 4, 1);
  return 1;
}

/* Returns the position of the first table that differs from its snapshot; 0 if none does. */
static int64_t snapshot_differs(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return 0;
  const Snapshot *s = luaL_checkudata(L, index, SNAPSHOT);
  lua_getiuservalue(L, index, 1);
  int list = lua_gettop(L);
  const Word *w = s->words;
  for (int64_t i = 0; i < s->tables; i++) {
    int64_t left = w->integer;
    if (lua_rawgeti(L, list, (lua_Integer)(2 * i + 1)) != LUA_TTABLE) return 2 * i + 1;
    bool same = same_words(w + 1, metatable_at(L, -1));
    w += 2;
    lua_pushnil(L);
    while (same && lua_next(L, -2)) {
      same = left-- > 0 && same_words(w, word_at(L, -2)) && same_words(w + 1, word_at(L, -1));
      w += 2;
      lua_pop(L, 1);
    }
    if (!same || left != 0) return 2 * i + 1;
    lua_settop(L, list);
  }
  lua_settop(L, list - 1);
  return 0;
}

/* Returns whether an upvalue is unchanged. The list consists of triples {function, upvalue's
** number, expected value, ...}, and i is the position of a triple's function. */
static bool upvalues_hold(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 3; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  if (!lua_getupvalue(L, -3, (int)lua_tointeger(L, -2))) lua_pushnil(L);
  bool ok = same_values(L);
  lua_pop(L, 2);
  return ok;
}

/* Returns whether a field is unchanged. The list consists of triples {table, key, expected value,
** ...}, and i is the position of a triple's table. */
static bool globals_hold(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 3; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  luaL_checktype(L, -3, LUA_TTABLE);
  lua_pushvalue(L, -2);
  lua_rawget(L, -4);
  bool ok = same_values(L);
  lua_pop(L, 2);
  return ok;
}

/* A tensor, an alias of it that was made earlier, and the tensor's properties at that time. The
** version and the number of hooks are -1 if they do not matter. */
typedef struct NotedTensor {
  const tli_Box *box, *alias;
  int64_t version;
  int hooks; /* length of the list of hooks on the gradient */
  bool requires_grad;
} NotedTensor;

/* Returns the length of the list of hooks on the gradient of a leaf. The list may still contain
** hooks that have been removed. */
static int listed_hooks(const tl_Tensor *t) {
  return t->autograd && t->autograd->hooks ? t->autograd->hooks->n : 0;
}

/* Reads the tensor at position i of the list {tensor, alias, requires_grad, version, ...}. In place
** of the version, the list has false if the version does not matter, or true if, in addition, no
** hook may be added to the tensor. */
static NotedTensor tensor_at(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 4; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  const tli_State *S = tli_state(L);
  const tl_Tensor *t = tli_to_tensor(L, S, -4);
  bool counts = t && lua_isboolean(L, -1) && lua_toboolean(L, -1);
  NotedTensor n = {tli_to_box(L, S, -4), tli_to_box(L, S, -3),
                   lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1, counts ? listed_hooks(t) : -1,
                   lua_toboolean(L, -2)};
  lua_pop(L, 4);
  return n;
}

static bool tensor_holds(const NotedTensor *n) {
  const tl_Tensor *t = n->box ? n->box->tensor : NULL, *alias = n->alias ? n->alias->tensor : NULL;
  bool ok = t && alias && t->storage == alias->storage && t->offset == alias->offset &&
            t->dtype == alias->dtype && tli_same_sizes(t, alias) &&
            tli_requires_grad(t) == n->requires_grad &&
            (n->version < 0 || n->version == (int64_t)tli_version(t)) &&
            (n->hooks < 0 || n->hooks == listed_hooks(t));
  for (int d = 0; ok && d < t->ndim; d++) ok = t->strides[d] == alias->strides[d];
  return ok;
}

static bool tensors_hold(lua_State *L, int list, int64_t i) {
  NotedTensor n = tensor_at(L, list, i);
  return tensor_holds(&n);
}

/* Returns the number of values in the list at a stack index. The length is in the list's field `n`,
** because values may be nil. */
static int64_t length_of(lua_State *L, int list) {
  luaL_checktype(L, list, LUA_TTABLE);
  lua_getfield(L, list, "n");
  int64_t n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* _state_differs(snapshot, upvalues, globals, tensors) returns nothing if nothing has changed.
** Otherwise returns the number of the argument with the first change, and the change's position in
** that argument's list. */
static int state_differs(lua_State *L) {
  static const struct {
    bool (*holds)(lua_State *L, int list, int64_t i);
    int step;
  } lists[] = {{upvalues_hold, 3}, {globals_hold, 3}, {tensors_hold, 4}};
  lua_settop(L, 4);
  int64_t table = snapshot_differs(L, 1);
  if (table > 0) {
    lua_pushinteger(L, 1);
    lua_pushinteger(L, (lua_Integer)table);
    return 2;
  }
  for (int l = 2; l <= 4; l++) {
    int64_t n = length_of(L, l);
    for (int64_t i = 1; i <= n; i += lists[l - 2].step) {
      if (lists[l - 2].holds(L, l, i)) continue;
      lua_pushinteger(L, l);
      lua_pushinteger(L, (lua_Integer)i);
      return 2;
    }
  }
  return 0;
}

/* ---- notes ---- */

/* A field or an upvalue, and its expected value. For a field, `owner` and `key` are the positions
** of the table and of the key in the stack of a Note. For an upvalue, `owner` is the position of
** the function, and `key` is 0. */
typedef struct NotedValue {
  Word value;
  int owner, key;
  int upvalue; /* number of the upvalue; 0 for a field */
} NotedValue;

/* The arguments of _state_differs in a form that can be compared quickly. The userdata that
** contains the Note keeps the arguments as its user values 1 to 4, and the thread as its user value
** 5. The stack of the thread, on which nothing runs, has the tables, keys and functions. The list
** of tensors is a copy, so that the tensors in it stay alive. */
typedef struct Note {
  lua_State *stack;
  int64_t nvalues, nupvalues, ntensors; /* `nvalues` is the number of upvalues and fields together;
                                        ** the upvalues come first */
  NotedTensor *tensors;
  NotedValue *values;
} Note;
#define NOTE "tlua.compile.note" /* name of the metatable of userdata that contain a Note */
#define MOST_NOTED (INT32_MAX / 4)
/* the number of values that are pushed onto a Note's stack before they are popped together */
#define UNREAD 128

/* Replaces the list at a stack index by a copy of its first n values, which scripts cannot
** change. */
static void own_list(lua_State *L, int list, int64_t n) {
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, list, i);
    lua_rawseti(L, -2, i);
  }
  lua_replace(L, list);
}

/* Reads the field or the upvalue at position i of the list {owner, key, expected value, ...}. Moves
** the key of a field to the stack of the Note, and also the owner, unless the previous value has
** the same owner. */
static NotedValue value_at(lua_State *L, lua_State *stack, int list, int64_t i, int owner,
                           bool upvalue) {
  for (int k = 0; k < 3; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  NotedValue v = {.value = word_at(L, -1), .owner = owner};
  lua_pop(L, 1);
  if (upvalue) {
    v.upvalue = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
  } else {
    lua_xmove(L, stack, 1);
    v.key = lua_gettop(stack);
  }
  lua_xmove(L, stack, 1);
  if (owner && lua_rawequal(stack, -1, owner))
    lua_pop(stack, 1);
  else
    v.owner = lua_gettop(stack);
  return v;
}

/* _note(snapshot, upvalues, globals, tensors) returns a userdata that holds these arguments of
** _state_differs for quick comparisons. */
static int note_new(lua_State *L) {
  lua_settop(L, 4);
  if (!lua_isnil(L, 1)) luaL_checkudata(L, 1, SNAPSHOT);
  int64_t upvalues = length_of(L, 2) / 3, values = upvalues + length_of(L, 3) / 3;
  int64_t tensors = length_of(L, 4) / 4;
  lua_State *stack = lua_newthread(L);
  bool fits = upvalues >= 0 && values >= upvalues && tensors >= 0 && values <= MOST_NOTED &&
              tensors <= MOST_NOTED && lua_checkstack(stack, (int)(2 * values + UNREAD + 1));
  if (!fits) return tli_error(L, "compile: expected lists of guards");
  own_list(L, 2, 3 * upvalues);
  own_list(L, 3, 3 * (values - upvalues));
  own_list(L, 4, 4 * tensors);
  Note *n = lua_newuserdatauv(
      L, sizeof *n + (size_t)tensors * sizeof *n->tensors + (size_t)values * sizeof *n->values, 5);
  luaL_setmetatable(L, NOTE);
  *n = (Note){stack, values, upvalues, tensors, (NotedTensor *)(n + 1), NULL};
  n->values = (NotedValue *)(n->tensors + tensors);
  for (int64_t i = 0; i < values; i++) {
    bool upvalue = i < upvalues;
    int list = upvalue ? 2 : 3;
    if (lua_rawgeti(L, list, (lua_Integer)(3 * (upvalue ? i : i - upvalues) + 1)) !=
        (upvalue ? LUA_TFUNCTION : LUA_TTABLE))
      return tli_error(L, "compile: expected a list of %s", upvalue ? "functions" : "tables");
    lua_pop(L, 1);
    n->values[i] = value_at(L, stack, list, 3 * (upvalue ? i : i - upvalues) + 1,
                            i > 0 ? n->values[i - 1].owner : 0, upvalue);
  }
  for (int64_t i = 0; i < tensors; i++) n->tensors[i] = tensor_at(L, 4, 4 * i + 1);
  for (int k = 1; k <= 5; k++) {
    lua_pushvalue(L, k);
    lua_setiuservalue(L, 6, k);
  }
  return 1;
}

/* Returns whether value i, now on top of the note's stack, is another string object with equal
** contents. The note is at index 1 of L. */
static bool equal_strings(lua_State *L, const Note *n, int64_t i) {
  if (n->values[i].value.type != LUA_TSTRING || lua_type(n->stack, -1) != LUA_TSTRING) return false;
  bool upvalue = i < n->nupvalues;
  lua_getiuservalue(L, 1, upvalue ? 2 : 3);
  lua_rawgeti(L, -1, (lua_Integer)(3 * (upvalue ? i : i - n->nupvalues) + 3));
  lua_pushvalue(n->stack, -1);
  lua_xmove(n->stack, L, 1);
  bool equal = lua_rawequal(L, -1, -2);
  lua_pop(L, 3);
  return equal;
}

/* Returns whether the fields and upvalues that note n describes still have their values. The note's
** userdata is at index 1 of L. */
static bool noted_values_hold(lua_State *L, const Note *n) {
  lua_State *stack = n->stack;
  int top = lua_gettop(stack);
  bool ok = true;
  for (int64_t i = 0; ok && i < n->nvalues; i++) {
    const NotedValue *v = &n->values[i];
    if (v->key) {
      lua_pushvalue(stack, v->key);
      lua_rawget(stack, v->owner);
    } else if (!lua_getupvalue(stack, v->owner, v->upvalue)) {
      lua_pushnil(stack);
    }
    ok = same_words(&v->value, word_at(stack, -1)) || equal_strings(L, n, i);
    if ((i + 1) % UNREAD == 0) lua_settop(stack, top);
  }
  lua_settop(stack, top);
  return ok;
}

/* _note_holds(note) returns whether nothing has changed, that is, whether _state_differs would
** return nothing. `note` is a userdata from _note, which holds the arguments. */
static int note_holds(lua_State *L) {
  const Note *n = luaL_checkudata(L, 1, NOTE);
  lua_settop(L, 1);
  bool ok = true;
  for (int64_t i = 0; ok && i < n->ntensors; i++) ok = tensor_holds(&n->tensors[i]);
  ok = ok && noted_values_hold(L, n);
  if (ok && lua_getiuservalue(L, 1, 1) != LUA_TNIL) ok = snapshot_differs(L, 2) == 0;
  lua_pushboolean(L, ok);
  return 1;
}

/* _same_tensor(a, b) returns whether two Lua values are the same tensor object, not just equal
** tensors. */
static int same_tensor(lua_State *L) {
  const tli_State *S = tli_state(L);
  const tl_Tensor *a = tli_to_tensor(L, S, 1), *b = tli_to_tensor(L, S, 2);
  lua_pushboolean(L, a != NULL && a == b);
  return 1;
}

/* _leaf_hooks(tensor) returns the number of hooks on the gradient of a leaf. */
static int leaf_hooks(lua_State *L) {
  lua_pushinteger(L, tli_leaf_hooks(tli_check_tensor(L, 1, "_leaf_hooks")));
  return 1;
}

void tli_open_guards(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"_call_key", call_key},       {"_dynamic_key", dynamic_key},
      {"_snapshot", snapshot_new},   {"_state_differs", state_differs},
      {"_same_tensor", same_tensor}, {"_note", note_new},
      {"_note_holds", note_holds},   {"_mode_bytes", mode_bytes},
      {"_leaf_hooks", leaf_hooks},   {NULL, NULL}};
  luaL_newmetatable(L, SNAPSHOT);
  luaL_newmetatable(L, NOTE);
  lua_pop(L, 2);
  tli_set_functions(L, functions);
}
