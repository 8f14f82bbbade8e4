/*
** autocast.h - mixed precision: while torch.autocast is active, the binding casts floating-point
** arguments before it calls certain operators. Calls between operators, forward or backward, are
** unaffected.
*/
#ifndef TLI_AUTOCAST_H
#define TLI_AUTOCAST_H

#include "lua/args/args.h"

/* The policies of operators under autocast. */
typedef enum tli_Cast {
  TLI_CAST_NONE,
  TLI_CAST_LOWER,   /* casts floating-point tensors to the scope's dtype */
  TLI_CAST_FLOAT32, /* casts floating-point tensors to float32 */
  /* casts to float32 if one of the tensors is float32, otherwise to the scope's dtype */
  TLI_CAST_WIDEST,
  TLI_CAST_REFUSED /* refuses the call: float16 lacks the range */
} tli_Cast;

/* Casts the tensors of a call by the policy of their device type: CPU or GPU. Tensors of
** float64 or of integers, and Lua numbers, stay as they are. The call owns the casts. Failures
** are reported like those of an argument. */
void tli_autocast(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensor **const *tensors, int n);
/* Casts the tensors of a list as tli_autocast casts a call's. */
void tli_autocast_list(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensors *list);
/* Casts a float32 result to autocast's dtype on its device; returns the result unchanged if
** autocast is off. The result is owned; it is NULL if the call has failed. */
tl_Tensor *tli_autocast_result(tli_Args *a, tl_Tensor *result);

/* Releases the kept casts of parameters. */
void tli_autocast_forget(tli_State *S);

#endif
