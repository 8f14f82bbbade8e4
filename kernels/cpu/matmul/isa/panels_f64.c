/* panels_f64.c - rows times panels in double. */
typedef double real;
#include "kernels/cpu/matmul/panel_loops.h"

extern const tlk_PanelLoops TLK_ISA_NAME(tlk_panels_f64);
const tlk_PanelLoops TLK_ISA_NAME(tlk_panels_f64) = PANEL_LOOPS;
