/* left_out.c - implements left_out.h: raises the errors of operators that a build leaves out. */
#include "ops/left_out.h"

#include "core/error.h"

void tli_left_out(const char *name) {
  (void)tli_fail(TL_EARG, "%s: not in this build (PROFILE=infer); add it to OPS", name);
}
