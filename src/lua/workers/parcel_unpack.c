/*
** parcel_unpack.c - unpacks the values of a parcel (parcel.c) in this interpreter. The parcel is
** not changed, so several threads may unpack it at the same time.
*/
#include "lua/args/sparse.h"
#include "lua/workers/parcel_format.h"

#include <string.h>

#include "lua/tensor/value.h"

typedef struct Reader {
  lua_State *L;
  tli_State *S;
  const tli_Parcel *p;
  const char *at;
  int values; /* stack index of the table from the numbers of values to the values */
  int classes;
  bool first_one;
  int count;
  int tensors;
} Reader;

static void read_value(Reader *r);

static int64_t read_whole(Reader *r) {
  int64_t n;
  memcpy(&n, r->at, sizeof n);
  r->at += sizeof n;
  return n;
}

static void read_string(Reader *r) {
  size_t n = (size_t)read_whole(r);
  lua_pushlstring(r->L, r->at, n);
  r->at += n;
}

/* Assigns the next number to the value on top of the stack. */
static void count_value(Reader *r) {
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->values, ++r->count);
}

static void read_tensor(Reader *r) {
  bool wants = *r->at++ != 0;
  tli_Box *box = tli_push_box(r->L);
  tl_Tensor *shared = r->p->tensors[r->tensors++];
  tl_Tensor *own = tli_detached(shared);
  if (own == NULL) tli_raise(r->L);
  own->flags |= shared->flags & TLI_PARAMETER;
  if (!r->first_one) tli_storage_recharge(own->storage, r->S->ledger);
  tli_fill_box(r->S, box, own);
  if (wants && !tli_set_requires_grad(own, true)) tli_raise(r->L);
  count_value(r);
}

/* Loads a module by the `require` that the library's own files use. */
static void require(lua_State *L, const char *module) {
  tli_push_environment(L);
  lua_getfield(L, -1, "require");
  lua_remove(L, -2);
  lua_pushstring(L, module);
  lua_call(L, 1, 1);
}

static void read_entries(Reader *r, bool raw) {
  while (*r->at != END) {
    read_value(r);
    read_value(r);
    if (raw)
      lua_rawset(r->L, -3);
    else
      lua_settable(r->L, -3);
  }
  r->at++;
}

static void read_class(Reader *r) {
  lua_State *L = r->L;
  require(L, "tlua.class");
  lua_getfield(L, -1, "class");
  lua_remove(L, -2);
  read_string(r);
  read_value(r);
  lua_call(L, 2, 1);
  count_value(r);
  if (r->classes && r->first_one) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, r->classes, r->count);
    lua_pushvalue(L, -1);
    lua_pushinteger(L, r->count);
    lua_rawset(L, r->classes);
  }
  read_entries(r, false);
}

static void read_module(Reader *r) {
  lua_State *L = r->L;
  read_string(r);
  require(L, lua_tostring(L, -1));
  read_string(r);
  if (lua_rawlen(L, -1) == 0) {
    lua_pop(L, 1);
  } else {
    lua_pushvalue(L, -1);
    /* reads the field with metamethods, which load some fields on first use */
    lua_gettable(L, -3);
    if (lua_isnil(L, -1))
      luaL_error(L, "the module '%s' has no field '%s' in another thread", lua_tostring(L, -4),
                 lua_tostring(L, -2));
    lua_insert(L, -3);
    lua_pop(L, 2);
  }
  lua_remove(L, -2);
}

static void read_function(Reader *r) {
  lua_State *L = r->L;
  size_t size = (size_t)read_whole(r);
  if (luaL_loadbufferx(L, r->at, size, "function", "b") != LUA_OK) lua_error(L);
  r->at += size;
  count_value(r);
  int self = lua_gettop(L);
  int n = (int)read_whole(r);
  for (int i = 1; i <= n; i++) {
    if (*r->at == JOIN) {
      r->at++;
      lua_rawgeti(L, r->values, read_whole(r));
      int from = (int)read_whole(r);
      lua_upvaluejoin(L, self, i, -1, from);
      lua_pop(L, 1);
    } else {
      read_value(r);
      lua_setupvalue(L, self, i);
    }
  }
}

static void read_generator(Reader *r) {
  lua_State *L = r->L;
  require(L, "tlua");
  lua_getfield(L, -1, "Generator");
  lua_remove(L, -2);
  uint64_t seed = (uint64_t)read_whole(r), offset = (uint64_t)read_whole(r);
  read_string(r);
  lua_call(L, 1, 1);
  tli_Generator *g = tli_to_generator(L, -1);
  if (g) tli_generator_seed(g, seed), g->offset = offset;
  count_value(r);
}

static void read_device(Reader *r) {
  lua_State *L = r->L;
  require(L, "tlua");
  lua_getfield(L, -1, "device");
  lua_remove(L, -2);
  read_string(r);
  lua_call(L, 1, 1);
  count_value(r);
}

static void read_value(Reader *r) {
  lua_State *L = r->L;
  luaL_checkstack(L, 20, "parcel");
  switch ((Tag)*r->at++) {
  case NIL: lua_pushnil(L); break;
  case FALSE_: lua_pushboolean(L, 0); break;
  case TRUE_: lua_pushboolean(L, 1); break;
  case INTEGER: lua_pushinteger(L, read_whole(r)); break;
  case FLOAT: {
    lua_Number x;
    memcpy(&x, r->at, sizeof x);
    r->at += sizeof x;
    lua_pushnumber(L, x);
    break;
  }
  case STRING: read_string(r); break;
  case TENSOR: read_tensor(r); break;
  case GENERATOR: read_generator(r); break;
  case DEVICE: read_device(r); break;
  case SPARSE:
    tli_new_sparse(L);
    count_value(r);
    read_value(r);
    lua_setiuservalue(L, -2, 1);
    break;
  case AGAIN: lua_rawgeti(L, r->values, read_whole(r)); break;
  case TABLE:
    lua_newtable(L);
    count_value(r);
    read_entries(r, true);
    break;
  case SIZE:
    lua_newtable(L);
    count_value(r);
    read_entries(r, true);
    tli_set_size(L);
    break;
  case WITH_META:
    lua_newtable(L);
    count_value(r);
    read_value(r);
    lua_insert(L, -2);
    read_entries(r, true);
    lua_insert(L, -2);
    lua_setmetatable(L, -2);
    break;
  case BEFORE:
    read_value(r);
    lua_pop(L, 1);
    read_value(r);
    break;
  case CLASS: read_class(r); break;
  case KNOWN_CLASS: lua_rawgeti(L, r->classes, read_whole(r)); break;
  case MODULE: read_module(r); break;
  case FUNCTION: read_function(r); break;
  case GLOBALS: lua_pushglobaltable(L); break;
  case ENVIRONMENT: tli_push_environment(L); break;
  default: luaL_error(L, "a parcel is damaged");
  }
}

/* Reads the globals. The names of globals that could not be packed are added to the table
** `missing`. */
static void read_globals(Reader *r) {
  lua_State *L = r->L;
  lua_pushglobaltable(L);
  int globals = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "tlua.missing");
  while (*r->at != END) {
    read_value(r);
    if (*r->at == MISSING) {
      r->at++;
      read_string(r);
      lua_rawset(L, globals + 1);
    } else {
      read_value(r);
      lua_rawset(L, globals);
    }
  }
  lua_settop(L, globals - 1);
}

int tli_parcel_unpack(lua_State *L, const tli_Parcel *parcel, int classes, bool first_one) {
  luaL_checkstack(L, parcel->nvalues + 20, "parcel");
  lua_newtable(L);
  Reader r = {L, tli_state_find(L), parcel, parcel->bytes, lua_gettop(L), classes, first_one, 0, 0};
  for (int i = 0; i < parcel->nvalues; i++) read_value(&r);
  if (first_one) read_globals(&r);
  lua_remove(L, r.values);
  return parcel->nvalues;
}
