/*
** fault.h - faults: errors that a kernel finds in the data, and the call they are attributed to.
** The file compiles as C, as C++ and in NVRTC, which has no system headers.
*/
#ifndef TLI_FAULT_H
#define TLI_FAULT_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

/* The call that a fault is attributed to, for the message. The strings are static. `site` is a line
** of a script, such as "script.lua:12", or NULL if the line is added to the message elsewhere. */
typedef struct tlk_FaultSource {
  const char *op, *argument, *site;
} tlk_FaultSource;

/* The kinds of errors that kernels find in data. */
typedef enum tlk_FaultKind {
  TLK_NO_FAULT,
  TLK_FAULT_POSITION, /* a position, `value`, is not in [1, size] */
  /* `value` may count from the end, but is in neither [1, size] nor [-size, -1] */
  TLK_FAULT_WRAPPED,
  TLK_FAULT_LABEL,    /* `value` is not a label of `size` classes */
  TLK_FAULT_DIVISION, /* an integer was divided by zero */
  TLK_FAULT_RANGE     /* `number` is not in [low, high] */
} tlk_FaultKind;

typedef struct tlk_Fault {
  tlk_FaultKind kind;
  tlk_FaultSource source;
  int64_t value, size;
  double number, low, high;
} tlk_Fault;

#endif
