/*
** metamethod.h - calls the operator that implements a metamethod of Lua, such as __add for x + y.
** The generated metamethods include this file.
*/
#ifndef TLI_METAMETHOD_H
#define TLI_METAMETHOD_H

#include "core/memory/device_memory.h"
#include "lua/args/batched.h"
#include "lua/args/sparse.h"
#include "lua/args/stored.h"
#include "lua/tensor/value.h"

/* Reads the operand at a stack index. A number is converted to a tensor, and *owned is set to this
** tensor, which the caller must release. Returns false, without a message, for a tensor of a dtype
** of TL_STORED_DTYPES. */
static inline bool tli_operand(lua_State *L, tli_State *S, int index, const char *name,
                               tl_Tensor **out, tl_Tensor **owned) {
  tl_Scalar s;
  *out = tli_to_tensor(L, S, index);
  if (*out) return !tli_is_stored((*out)->dtype);
  if (tli_to_scalar(L, index, &s)) return (*out = *owned = tli_number(s)) != NULL;
  return tli_fail(TL_EARG, "%s: expected Tensors or numbers, got %s", name,
                  tli_describe(L, S, index));
}

/* Calls the operator `call` with the two operands on the stack, either of which may be a number. If
** an operand is a stand-in of vmap, calls the operator's Lua function `fn` instead. If the left
** operand is a number and `reversed` is not NULL, the autograd node gets the name `reversed`. The
** function is inline, so that the compiler can use that all arguments except L are constants. */
static inline int tli_metamethod(lua_State *L, const char *name,
                                 tl_Tensor *(*call)(tl_Tensor *a, tl_Tensor *b), lua_CFunction fn,
                                 const char *reversed) {
  tli_State *S = tli_state(L);
  if (S->batching > 0 && (tli_is_batched(L, 1) || tli_is_batched(L, 2)))
    return lua_settop(L, 2), fn(L);
  uint64_t count = reversed ? tli_node_count() : 0;
  tli_Box *box = tli_new_box(L, S);
  tl_Tensor *a = NULL, *b = NULL, *owned = NULL;
  lua_State *outer = tli_calling;
  tli_calling = L;
  tli_set_operator(name);
  bool ok = tli_operand(L, S, 1, name, &a, &owned) && tli_operand(L, S, 2, name, &b, &owned);
  tl_Tensor *result = ok ? call(a, b) : NULL;
  if (ok && result == NULL && tl_error_kind() == TL_EMEM && !tli_device_exhausted()) {
    tli_pacer_collect(L, S);
    result = call(a, b);
  }
  tli_calling = outer;
  bool stored = !ok && ((a && tli_is_stored(a->dtype)) || (b && tli_is_stored(b->dtype)));
  tli_release(owned);
  if (result == NULL) {
    int results = ok ? -1 : stored ? tli_stored_call(L, name, 2) : tli_sparse_call(L, name, 2);
    return results >= 0 ? results : tli_raise(L);
  }
  if (reversed && lua_type(L, 1) == LUA_TNUMBER) tli_entitle(result, reversed, count);
  tli_fill_box(S, box, result);
  return 1;
}

#endif
