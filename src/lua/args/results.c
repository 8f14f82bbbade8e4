/*
** results.c - implements results.h, by which generated functions return their results to Lua.
*/
#include "lua/args/results.h"

#include "core/observe/trace.h"

int tli_return_out(tli_Args *a, int i, tl_Tensor *steals) {
  if (steals && tli_tracing()) {
    tli_fail(TL_EARG, "%s: out: torch.export records no writes to it; use the result of the call",
             a->signature->name);
    tli_release(steals);
    steals = NULL;
  }
  tl_Tensor *out = steals ? tli_arg_tensor(a, i) : NULL;
  bool ok = out && tli_out_assign(a->signature->name, out, steals);
  tli_release(steals);
  tli_args_end(a);
  if (!ok) return tli_args_raise(a);
  lua_pushvalue(a->L, a->at[i]);
  return 1;
}

int tli_return_several(lua_State *L, tli_State *S, tli_Box **boxes, tl_Tensor **steals, int n) {
  int first = lua_gettop(L) - n + 1;
  /* the tensors are moved to the boxes before the next allocation, which could run the collector,
  ** so that an error there leaks no tensor */
  for (int i = 0; i < n; i++) boxes[i]->tensor = steals[i];
  while (n > 0 && steals[n - 1] == NULL) n--;
  lua_settop(L, first + n - 1);
  for (int i = 0; i < n; i++) {
    if (steals[i]) {
      tli_pacer_note(S, steals[i]);
    } else {
      lua_pushnil(L);
      lua_replace(L, first + i);
    }
  }
  return n;
}
