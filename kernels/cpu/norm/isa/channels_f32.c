/* channels_f32.c - the loops of channels_loops.h in float. */
typedef float real;
#include "kernels/cpu/norm/channels_loops.h"

extern const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f32);
const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f32) = CHANNELS_LOOPS;
