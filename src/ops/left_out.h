/*
** left_out.h - reports calls of operators that a build leaves out (PROFILE=infer).
*/
#ifndef TLI_LEFT_OUT_H
#define TLI_LEFT_OUT_H

/* Leaves the error of a call of an operator that is not in this build. */
void tli_left_out(const char *name);

#endif
