/* channels_f64.c - sums over channels, and scaling, in double. */
typedef double real;
#include "kernels/cpu/norm/channels_loops.h"

extern const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f64);
const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f64) = CHANNELS_LOOPS;
