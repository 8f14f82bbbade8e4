/*
** program_run.c - runs of programs (src/graph) from Lua.
*/
#include "lua/program_run.h"

#include "lua/args/args.h"
#include "lua/args/results.h"
#include "lua/autograd/autograd.h"
#include "lua/limits.h"
#include "lua/list_length.h"
#include "lua/tensor/value.h"

tl_Program *tli_check_program(lua_State *L, int index) {
  tl_Program *p = *(tl_Program **)luaL_checkudata(L, index, TLI_PROGRAM);
  if (p == NULL) tli_error(L, "program: it was finalized: the Lua state is closing");
  return p;
}

tl_Tensor **tli_push_tensors(lua_State *L, int index, int *n) {
  luaL_checktype(L, index, LUA_TTABLE);
  *n = (int)tli_list_length(L, index);
  tl_Tensor **list = lua_newuserdatauv(L, (size_t)(*n + 1) * sizeof *list, 0);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, index, i + 1);
    /* the Lua list keeps the tensor alive */
    list[i] = tli_check_tensor(L, lua_gettop(L), "export");
    lua_pop(L, 1);
  }
  return list;
}

static int refuse_trace(lua_State *L) {
  return tli_error(L, "program: torch.export does not record a program that a model calls; export "
                      "the model with the original module");
}

/* Runs a program within the limits of the state. Each iteration of a loop counts as an instruction
** of the state. */
static bool run_program(lua_State *L, tl_Program *p, tl_Tensor *const *inputs, int n,
                        tl_Tensor **outputs) {
  lua_State *outer = tli_calling;
  int64_t left = tli_limits_left(L), before = left;
  tli_calling = L;
  bool ok = tli_program_run(p, &tli_state(L)->generator, &left, inputs, n, outputs,
                            tl_program_outputs(p));
  tli_calling = outer;
  tli_limits_spend(L, before - left + 1);
  return ok;
}

/* program:run(inputs) runs the program and returns a list of its outputs. */
int tli_program_run_list(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  if (tli_tracing()) return refuse_trace(L);
  int n, nout = tl_program_outputs(p);
  tl_Tensors *outputs = tli_push_list(L);
  tl_Tensor **inputs = tli_push_tensors(L, 2, &n);
  *outputs = tli_tensors_new(nout);
  bool ok = (outputs->v != NULL || nout == 0) && run_program(L, p, inputs, n, outputs->v);
  lua_pop(L, 1);
  return ok ? tli_finish_list(L, outputs) : tli_raise(L);
}

/* The largest number of inputs and outputs together that run_into takes. */
#define MOST_TENSORS 256

/* program:run_into(inputs, n, outputs) runs the program as `run` does, with the first n values of
** the list `inputs`, and stores the results in the tensors of the list `outputs`. The function
** allocates nothing. */
int tli_program_run_into(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_Integer n = luaL_checkinteger(L, 3);
  int nout = tl_program_outputs(p);
  tl_Tensor *tensors[MOST_TENSORS];
  if (tli_tracing()) return refuse_trace(L);
  if (n < 0 || n > MOST_TENSORS - nout)
    return tli_error(L, "program: expected at most %d inputs and outputs, got %d", MOST_TENSORS,
                     (int)n + nout);
  for (int i = 0; i < (int)n + nout; i++) {
    bool given = i < n;
    lua_rawgeti(L, given ? 2 : 4, given ? i + 1 : i + 1 - n);
    tensors[i] = tli_check_tensor(L, -1, "program"); /* the Lua list keeps the tensor alive */
    lua_pop(L, 1);
  }
  return run_program(L, p, tensors, (int)n, tensors + n) ? 0 : tli_raise(L);
}

/* The largest number of inputs that tli_program_call takes, and also the largest number of outputs.
** lua/tlua/export.lua repeats this number. */
#define FEW_TENSORS 16

/* program(...) runs the program and returns its outputs. */
int tli_program_call(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  int n = lua_gettop(L) - 1, nout = tl_program_outputs(p);
  tl_Tensor *inputs[FEW_TENSORS], *outputs[FEW_TENSORS] = {NULL};
  tli_Box *boxes[FEW_TENSORS];
  if (tli_tracing()) return refuse_trace(L);
  if (n > FEW_TENSORS || nout > FEW_TENSORS)
    return tli_error(L, "program: expected at most %d inputs and outputs, got %d and %d",
                     FEW_TENSORS, n, nout);
  for (int i = 0; i < n; i++) inputs[i] = tli_check_tensor(L, i + 2, "program");
  luaL_checkstack(L, nout, "program");
  for (int i = 0; i < nout; i++) boxes[i] = tli_push_box(L);
  if (!run_program(L, p, inputs, n, outputs)) return tli_raise(L);
  return tli_return_several(L, tli_state(L), boxes, outputs, nout);
}

/* program:run_single(...) does the same as program(...). Returns nothing if an argument is not a
** tensor, or if the number of arguments differs from the program's number of inputs.
** lua/tlua/export.lua then reports the wrong argument. */
int tli_program_run_single(lua_State *L) {
  const tl_Program *p = tli_check_program(L, 1);
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  int top = lua_gettop(L);
  if (top != tl_program_inputs(p) + 1) return 0;
  for (int i = 2; i <= top; i++)
    if (tli_to_tensor(L, S, i) == NULL) return 0;
  return tli_program_call(L);
}
