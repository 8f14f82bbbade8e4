/*
** autocast.h - mixed precision: while torch.autocast is active, operators of its table first
** cast their floating-point tensors. Only the binding does so: operators that call one another,
** forward or backward, are unaffected.
*/
#ifndef TLI_AUTOCAST_H
#define TLI_AUTOCAST_H

#include "lua/args/args.h"

/* The policies of operators under autocast. */
typedef enum tli_Cast {
  TLI_CAST_NONE,
  TLI_CAST_LOWER,   /* cast to the scope's dtype */
  TLI_CAST_FLOAT32, /* cast to float32 */
  /* cast all to float32 if one of them is float32, otherwise to the scope's dtype */
  TLI_CAST_WIDEST,
  TLI_CAST_REFUSED /* refused with an error: float16 lacks the range */
} tli_Cast;

/* Casts the tensors of a call by the policy of their device type: CPU or GPU. Tensors of
** float64 or of integers, and Lua numbers, stay as they are. The call owns the casts. Failures
** are reported like those of an argument. */
void tli_autocast(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensor **const *tensors, int n);
/* Casts the tensors of a list as tli_autocast casts a call's. */
void tli_autocast_list(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensors *list);
/* Casts a float32 result (owned; NULL if the call has failed) to the dtype of autocast on its
** device; returns it unchanged if autocast is off. */
tl_Tensor *tli_autocast_result(tli_Args *a, tl_Tensor *result);

/* Releases the kept casts of parameters. */
void tli_autocast_forget(tli_State *S);

#endif
