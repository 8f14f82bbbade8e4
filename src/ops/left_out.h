/*
** left_out.h - operators that a build leaves out (PROFILE=infer).
*/
#ifndef TLI_LEFT_OUT_H
#define TLI_LEFT_OUT_H

/* Makes the failure of a call of an operator that is not in this build. */
void tli_left_out(const char *name);

#endif
