/*
** autocast.h - mixed precision: while torch.autocast is active, the binding casts floating-point
** arguments before it calls certain operators. Operators that are called by other operators,
** forward or backward, are unaffected.
*/
#ifndef TLI_AUTOCAST_H
#define TLI_AUTOCAST_H

#include "lua/args/args.h"

/* The policies of operators under autocast. */
typedef enum tli_Cast {
  TLI_CAST_NONE,
  /* casts floating-point tensors to the dtype of the autocast scope, such as float16 */
  TLI_CAST_LOWER,
  TLI_CAST_FLOAT32, /* casts floating-point tensors to float32 */
  /* casts to float32 if one of the tensors is float32, otherwise to the scope's dtype */
  TLI_CAST_WIDEST,
  TLI_CAST_REFUSED /* refuses the call, because float16 has too small a range for the operator */
} tli_Cast;

/* Casts the tensors of a call by policy `cpu` or `gpu`, depending on their device type. Lua numbers
** and tensors of float64, integers or booleans are not cast. The call `a` owns the cast tensors. A
** failure is recorded in `a`, like the failure of an argument. */
void tli_autocast(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensor **const *tensors, int n);
/* Casts the tensors of a list, which is an argument of the call, as tli_autocast casts single
** tensors. */
void tli_autocast_list(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensors *list);
/* Casts a float32 result to the dtype that autocast uses on the result's device. If autocast is
** off, returns the result unchanged. The result is owned; if the call has failed, it is NULL. */
tl_Tensor *tli_autocast_result(tli_Args *a, tl_Tensor *result);

/* Returns the dtype to which autocast casts on a device type, even if autocast is off at present.
** The state must have loaded the thread's modes (tli_enter). */
tl_DType tli_autocast_dtype(const tli_State *S, int type);
/* Releases the casts of parameters that autocast has kept. */
void tli_autocast_forget(tli_State *S);

#endif
