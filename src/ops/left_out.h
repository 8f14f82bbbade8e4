/*
** left_out.h - reports calls of operators that a build leaves out (PROFILE=infer).
*/
#ifndef TLI_LEFT_OUT_H
#define TLI_LEFT_OUT_H

/* Sets the error for a call of an operator that this build does not contain. */
void tli_left_out(const char *name);

#endif
