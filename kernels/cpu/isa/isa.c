/* isa.c - the table of loops of one instruction set. */
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/norm/channels.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/packed.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/fft/transform.h"
#include "kernels/cpu/sparse/csr.h"
#include "kernels/cpu/index/gather.h"
#include "kernels/cpu/matmul/tile.h"
#include "kernels/cpu/optim/optim.h"
#include "kernels/cpu/pool/pool.h"
#include "kernels/cpu/rnn/layer.h"
#include "kernels/cpu/vision/resample.h"
#include "kernels/cpu/conv/winograd_loops.h"

/* a build without some families of kernels (PROFILE=infer) has no rows for them in this table */
#ifdef TLI_INFER
#define ROW extern __attribute__((weak))
#else
#define ROW extern
#endif

/* a library for one program has the loops of layer_norm only if the program uses one of their
** kernels */
#ifdef TLI_RUNTIME
#include "runtime_kernels.h"
#define HAS_NORM (TLK_KEEPS_layer_norm || TLK_KEEPS_layer_norm_backward)
#else
#define HAS_NORM 1
#endif

ROW const tlk_Loop TLK_ISA_NAME(tlk_loops_i32)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_loops_i64)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_loops_f32)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_loops_f64)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_loops_c64)[], TLK_ISA_NAME(tlk_loops_c128)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_fixed_i32)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_fixed_i64)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_fixed_f32)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_fixed_f64)[];
ROW const tlk_Loop TLK_ISA_NAME(tlk_fused_f32)[], TLK_ISA_NAME(tlk_fused_f64)[];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_reducers_i32)[];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_reducers_i64)[];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_reducers_f32)[];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_reducers_f64)[];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_best_i32)[2], TLK_ISA_NAME(tlk_best_i64)[2];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_best_f32)[2], TLK_ISA_NAME(tlk_best_f64)[2];
ROW const tlk_Reducer TLK_ISA_NAME(tlk_moments_f32), TLK_ISA_NAME(tlk_moments_f64);
ROW void TLK_ISA_NAME(tlk_sum_pairs_f32)(int64_t, const void *, double *);
ROW void TLK_ISA_NAME(tlk_sum_pairs_f64)(int64_t, const void *, double *);
ROW const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i32)[];
ROW const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i64)[];
ROW const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f32)[];
ROW const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f64)[];
ROW const tlk_Softmax TLK_ISA_NAME(tlk_softmax_f32), TLK_ISA_NAME(tlk_softmax_f64);
ROW const tlk_Norm TLK_ISA_NAME(tlk_norm_f32), TLK_ISA_NAME(tlk_norm_f64);
ROW const tlk_Convert TLK_ISA_NAME(tlk_convert)[TL_NDTYPES][TL_NDTYPES];
ROW const tlk_Move TLK_ISA_NAME(tlk_move)[4];
ROW tl_DType TLK_ISA_NAME(tlk_random)(tlk_Distribution, tl_DType, uint64_t, uint64_t, int,
                                      tl_Scalar, tl_Scalar, void *);
ROW const tlk_IndexLoops TLK_ISA_NAME(tlk_index_loops);
ROW const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_i32), TLK_ISA_NAME(tlk_pool_i64);
ROW const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_f32), TLK_ISA_NAME(tlk_pool_f64);
ROW const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f32), TLK_ISA_NAME(tlk_resample_f64);
ROW const tlk_ResampleBytes TLK_ISA_NAME(tlk_resample_u8);
ROW const tlk_ConvLoops TLK_ISA_NAME(tlk_conv_f32), TLK_ISA_NAME(tlk_conv_f64);
ROW const tlk_PackedLoops TLK_ISA_NAME(tlk_packed_loops);
ROW const tlk_TileLoops TLK_ISA_NAME(tlk_tile_f32), TLK_ISA_NAME(tlk_tile_f64);
ROW const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32), TLK_ISA_NAME(tlk_attention_f64);
ROW const tlk_WinogradLoops TLK_ISA_NAME(tlk_winograd_loops);
ROW const tlk_ChannelLoops TLK_ISA_NAME(tlk_channels_f32), TLK_ISA_NAME(tlk_channels_f64);
ROW const tlk_ClassLoops TLK_ISA_NAME(tlk_classes_f32), TLK_ISA_NAME(tlk_classes_f64);
ROW const tlk_OptimLoops TLK_ISA_NAME(tlk_optim_loops)[2];
ROW const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_f32), TLK_ISA_NAME(tlk_rnn_f64);
ROW const tlk_FftLoops TLK_ISA_NAME(tlk_fft_f32), TLK_ISA_NAME(tlk_fft_f64);
ROW const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f32), TLK_ISA_NAME(tlk_csr_f64);

extern const tlk_Isa TLK_ISA_NAME(tlk_isa);
const tlk_Isa TLK_ISA_NAME(tlk_isa) = {
#if defined(__x86_64__)
    .name = "x86-64-" TLK_STRING_(TLK_ISA),
#else
    .name = TLK_STRING_(TLK_ISA),
#endif
#ifdef TLK_PORTABLE
    .portable = true,
#endif
    .loops = {[TLK_C_I32] = TLK_ISA_NAME(tlk_loops_i32),
              [TLK_C_I64] = TLK_ISA_NAME(tlk_loops_i64),
              [TLK_C_F32] = TLK_ISA_NAME(tlk_loops_f32),
              [TLK_C_F64] = TLK_ISA_NAME(tlk_loops_f64),
              [TLK_C_C64] = TLK_ISA_NAME(tlk_loops_c64),
              [TLK_C_C128] = TLK_ISA_NAME(tlk_loops_c128)},
    .fixed = {[TLK_C_I32] = TLK_ISA_NAME(tlk_fixed_i32),
              [TLK_C_I64] = TLK_ISA_NAME(tlk_fixed_i64),
              [TLK_C_F32] = TLK_ISA_NAME(tlk_fixed_f32),
              [TLK_C_F64] = TLK_ISA_NAME(tlk_fixed_f64)},
    .fused = {TLK_ISA_NAME(tlk_fused_f32), TLK_ISA_NAME(tlk_fused_f64)},
    .reducers = {[TLK_C_I32] = TLK_ISA_NAME(tlk_reducers_i32),
                 [TLK_C_I64] = TLK_ISA_NAME(tlk_reducers_i64),
                 [TLK_C_F32] = TLK_ISA_NAME(tlk_reducers_f32),
                 [TLK_C_F64] = TLK_ISA_NAME(tlk_reducers_f64)},
    .best = {[TLK_C_I32] = TLK_ISA_NAME(tlk_best_i32),
             [TLK_C_I64] = TLK_ISA_NAME(tlk_best_i64),
             [TLK_C_F32] = TLK_ISA_NAME(tlk_best_f32),
             [TLK_C_F64] = TLK_ISA_NAME(tlk_best_f64)},
    .moments = {&TLK_ISA_NAME(tlk_moments_f32), &TLK_ISA_NAME(tlk_moments_f64)},
    .sum_pairs = {TLK_ISA_NAME(tlk_sum_pairs_f32), TLK_ISA_NAME(tlk_sum_pairs_f64)},
    .scanners = {[TLK_C_I32] = TLK_ISA_NAME(tlk_scanners_i32),
                 [TLK_C_I64] = TLK_ISA_NAME(tlk_scanners_i64),
                 [TLK_C_F32] = TLK_ISA_NAME(tlk_scanners_f32),
                 [TLK_C_F64] = TLK_ISA_NAME(tlk_scanners_f64)},
    .softmax = {&TLK_ISA_NAME(tlk_softmax_f32), &TLK_ISA_NAME(tlk_softmax_f64)},
#if HAS_NORM
    .norm = {&TLK_ISA_NAME(tlk_norm_f32), &TLK_ISA_NAME(tlk_norm_f64)},
#endif
    .convert = TLK_ISA_NAME(tlk_convert),
    .move = TLK_ISA_NAME(tlk_move),
    .random = TLK_ISA_NAME(tlk_random),
    .index = &TLK_ISA_NAME(tlk_index_loops),
    .pool = {[TLK_C_I32] = &TLK_ISA_NAME(tlk_pool_i32),
             [TLK_C_I64] = &TLK_ISA_NAME(tlk_pool_i64),
             [TLK_C_F32] = &TLK_ISA_NAME(tlk_pool_f32),
             [TLK_C_F64] = &TLK_ISA_NAME(tlk_pool_f64)},
    .resample = {&TLK_ISA_NAME(tlk_resample_f32), &TLK_ISA_NAME(tlk_resample_f64)},
    .resample_bytes = &TLK_ISA_NAME(tlk_resample_u8),
    .conv = {&TLK_ISA_NAME(tlk_conv_f32), &TLK_ISA_NAME(tlk_conv_f64)},
    .packed = &TLK_ISA_NAME(tlk_packed_loops),
    .tile = {&TLK_ISA_NAME(tlk_tile_f32), &TLK_ISA_NAME(tlk_tile_f64)},
    .attention = {&TLK_ISA_NAME(tlk_attention_f32), &TLK_ISA_NAME(tlk_attention_f64)},
    .winograd = &TLK_ISA_NAME(tlk_winograd_loops),
    .channels = {&TLK_ISA_NAME(tlk_channels_f32), &TLK_ISA_NAME(tlk_channels_f64)},
    .classes = {&TLK_ISA_NAME(tlk_classes_f32), &TLK_ISA_NAME(tlk_classes_f64)},
    .optim = TLK_ISA_NAME(tlk_optim_loops),
    .rnn = {&TLK_ISA_NAME(tlk_rnn_f32), &TLK_ISA_NAME(tlk_rnn_f64)},
    .fft = {&TLK_ISA_NAME(tlk_fft_f32), &TLK_ISA_NAME(tlk_fft_f64)},
    .csr = {&TLK_ISA_NAME(tlk_csr_f32), &TLK_ISA_NAME(tlk_csr_f64)},
};
