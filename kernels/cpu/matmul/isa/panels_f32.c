/* panels_f32.c - rows times panels in float. */
typedef float real;
#include "kernels/cpu/matmul/panel_loops.h"

extern const tlk_PanelLoops TLK_ISA_NAME(tlk_panels_f32);
const tlk_PanelLoops TLK_ISA_NAME(tlk_panels_f32) = PANEL_LOOPS;
