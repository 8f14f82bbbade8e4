/*
** autocast.h - mixed precision: while torch.autocast is open, operators that the table
** lists cast their floating tensors first. It is a matter of the binding: what operators
** call each other with, forward or backward, stays as it is.
*/
#ifndef TLI_AUTOCAST_H
#define TLI_AUTOCAST_H

#include "lua/args/args.h"

/* What an entry's `autocast` says. */
typedef enum tli_Cast {
  TLI_CAST_NONE,
  TLI_CAST_LOWER,   /* to the scope's dtype */
  TLI_CAST_FLOAT32, /* to float32 */
  TLI_CAST_WIDEST,  /* all to float32 if one of them is, else to the scope's dtype */
  TLI_CAST_REFUSED  /* an error: its range is too large for float16 */
} tli_Cast;

/* Casts arguments of a call as the policy of their device's kind says: that of the CPU, or
** that of GPUs. float64 and what is not floating stay, and Lua numbers. Those replaced are
** the call's own. What fails is as that of an argument. */
void tli_autocast(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensor **const *tensors, int n);
/* The same for a list. */
void tli_autocast_list(tli_Args *a, tli_Cast cpu, tli_Cast gpu, tl_Tensors *list);
/* A float32 result (owned; NULL: the call has failed) in the dtype that autocast casts to on
** its device; itself where that is off. */
tl_Tensor *tli_autocast_result(tli_Args *a, tl_Tensor *result);

/* Lets go of the casts of parameters that are kept. */
void tli_autocast_forget(tli_State *S);

#endif
