/* channels_f64.c - the loops of channels_loops.h in double. */
typedef double real;
#include "kernels/cpu/norm/channels_loops.h"

extern const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f64);
const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f64) = CHANNELS_LOOPS;
