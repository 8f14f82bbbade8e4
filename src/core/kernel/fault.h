/*
** fault.h - what a kernel may find wrong in the data, and who is told of it. C, C++, and what
** NVRTC takes, which has no header of the system's.
*/
#ifndef TLI_BLAME_H
#define TLI_BLAME_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

/* Who made a call, for the message of a fault. Static strings, or ones that stay
** for good; site is "script.lua:12", or NULL where that is known anyway. */
typedef struct tlk_Blame {
  const char *op, *argument, *site;
} tlk_Blame;

/* What a kernel may find wrong in the data. */
typedef enum tlk_FaultKind {
  TLK_NO_FAULT,
  TLK_FAULT_POSITION, /* `value` is not in [1, size] */
  TLK_FAULT_WRAPPED,  /* nor, where positions may count from the end, in [-size, -1] */
  TLK_FAULT_LABEL,    /* `value` is no label of `size` classes */
  TLK_FAULT_DIVISION, /* of an integer by zero */
  TLK_FAULT_RANGE     /* `number` is not in [low, high] */
} tlk_FaultKind;

typedef struct tlk_Fault {
  tlk_FaultKind kind;
  tlk_Blame blame;
  int64_t value, size;
  double number, low, high;
} tlk_Fault;

#endif
