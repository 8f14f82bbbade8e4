"""Modules that PyTorch's module_db lacks, and schedules of learning rates: rows of cases for modules.py.

MORE: class -> make(*sizes) -> rows of (arguments, options) of the constructor and of forward. SCHEDULES:
name -> rows of (the same call in Lua, a function of the optimizer, the arguments of each step).
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler as S


def same(*rows, **kw):
    return lambda make: [(a, k, [make(*kw["size"])], {}) for a, k in rows]


def labels(n, *size):
    return torch.randint(n, size, generator=torch.Generator().manual_seed(7))


POOLED = torch.tensor([[[1, 3, 5]], [[0, 2, 4]]])
TRIPLET = nn.PairwiseDistance()

MORE = {
    "AdaptiveLogSoftmaxWithLoss": lambda make: [
        ([8, 12, [4, 8]], {}, [make(6, 8), labels(12, 6)], {}),
        ([8, 12, [4, 8]], dict(div_value=2.0, head_bias=True), [make(6, 8), labels(12, 6)], {}),
        ([8, 12, [10]], {}, [make(8), labels(12)], {})],
    "AlphaDropout": same(([], {}), ([0.2], {}), ([], dict(inplace=False)), size=(4, 5)),
    "BatchNorm1d": lambda make: [
        ([3], {}, [make(4, 3, 5)], {}),
        ([3], dict(momentum=0.3, eps=1e-3), [make(4, 3)], {})],
    "ChannelShuffle": same(([2], {}), size=(2, 4, 3, 3)),
    "ConvTranspose1d": lambda make: [
        ([3, 4, 3], dict(stride=2), [make(2, 3, 5)], dict(output_size=[12]))],
    "ConvTranspose2d": lambda make: [
        ([3, 4, 3], dict(stride=2), [make(2, 3, 5, 4)], dict(output_size=[12, 9])),
        ([3, 4, 3], dict(stride=2), [make(2, 3, 5, 4), [12, 10]], {})],
    "CosineSimilarity": lambda make: [
        ([], {}, [make(4, 6), make(4, 6)], {}), ([], dict(dim=0), [make(4, 6), make(4, 6)], {})],
    "Dropout": same(([], {}), ([0.2], {}), size=(4, 5)),
    "Dropout1d": same(([], {}), size=(4, 5, 3)),
    "Dropout2d": same(([], {}), size=(4, 5, 3, 2)),
    "Dropout3d": same(([], {}), size=(4, 5, 3, 2, 2)),
    "EmbeddingBag": lambda make: [
        ([10, 3], dict(mode=mode), [labels(10, 7), torch.tensor([0, 2, 2, 5])], {})
        for mode in ("sum", "mean", "max")] + [
        ([10, 3], {}, [labels(10, 4, 2)], {}),
        ([10, 3], dict(max_norm=1.0, norm_type=1.5), [labels(10, 4, 2)], {}),
        ([10, 3], dict(scale_grad_by_freq=True), [labels(10, 4, 2)], {}),
        ([10, 3], dict(padding_idx=2, mode="sum"), [labels(10, 4, 2)], {}),
        ([10, 3], dict(mode="sum"), [labels(10, 4, 2)], dict(per_sample_weights=make(4, 2))),
        ([10, 3], dict(mode="sum", include_last_offset=True), [labels(10, 7)],
         dict(offsets=torch.tensor([0, 3, 7])))],
    "Embedding": lambda make: [
        ([10, 3], dict(padding_idx=2), [labels(10, 4)], {}),
        ([10, 3], dict(max_norm=1.0), [labels(10, 4)], {}),
        ([10, 3], dict(scale_grad_by_freq=True), [labels(10, 40)], {})],
    "FeatureAlphaDropout": same(([], {}), size=(4, 5, 3)),
    "Flatten": same(([], {}), ([0, 1], {}), ([], dict(start_dim=2)), size=(2, 3, 4, 5)),
    "Fold": same(([(4, 5), (2, 2)], {}), size=(1, 12, 12)),
    "FractionalMaxPool2d": lambda make: [
        ([2], dict(output_size=(3, 2), _random_samples=make(2, 3, 2).detach().abs()),
         [make(2, 3, 7, 6)], {}),
        ([(2, 3)], dict(output_ratio=0.5, return_indices=True,
                        _random_samples=make(2, 3, 2).detach().abs()), [make(2, 3, 8, 6)], {})],
    "FractionalMaxPool3d": lambda make: [
        ([2], dict(output_size=(2, 3, 2), _random_samples=make(2, 3, 3).detach().abs()),
         [make(2, 3, 5, 7, 6)], {})],
    "GaussianNLLLoss": lambda make: [
        ([], {}, [make(3, 4), make(3, 4), make(3, 1).detach().abs().add(0.1)], {}),
        ([], dict(full=True), [make(3, 4), make(3, 4), make(3).detach().abs().add(0.1)], {}),
        ([], {}, [make(3, 4), make(3, 4), 0.5], {})],
    "GroupNorm": same(([2, 4], dict(bias=False)), size=(3, 4, 5)),
    "Hardsigmoid": same(([], {}), size=(4, 5)),
    "Identity": same(([], {}), size=(4, 5)),
    "InstanceNorm1d": lambda make: [
        ([3], dict(affine=True, track_running_stats=True), [make(4, 3, 5)], {}),
        ([3], dict(affine=True), [make(3, 5)], {})],
    "LazyBatchNorm1d": same(([], {}), size=(4, 3)),
    "LazyBatchNorm2d": same(([], {}), ([], dict(affine=False)), size=(4, 3, 2, 2)),
    "LazyBatchNorm3d": same(([], {}), size=(4, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": same(([], {}), size=(4, 3, 5)),
    "LazyInstanceNorm2d": same(([], {}), ([], dict(affine=True)), size=(4, 3, 5, 2)),
    "LazyInstanceNorm3d": same(([], {}), size=(4, 3, 5, 2, 2)),
    "LazyLinear": same(([4], {}), ([4], dict(bias=False)), size=(3, 5)),
    "MaxUnpool1d": lambda make: [([2], {}, [make(2, 1, 3), POOLED], {})],
    "MaxUnpool2d": lambda make: [
        ([2], {}, [make(2, 1, 1, 2), POOLED[..., None, :2]], {}),
        ([2], {}, [make(2, 1, 1, 2), POOLED[..., None, :2]], dict(output_size=[3, 5]))],
    "MaxUnpool3d": lambda make: [([2], {}, [make(2, 1, 1, 1, 2), POOLED[..., None, None, :2]], {})],
    "MultiheadAttention": lambda make: [
        ([4, 2], k, [make(3, 2, 4), make(5, 2, 4), make(5, 2, 4)], f)
        for k in (dict(add_bias_kv=True), dict(add_zero_attn=True),
                  dict(add_bias_kv=True, add_zero_attn=True))
        for f in ({}, dict(need_weights=False), dict(average_attn_weights=False),
                  dict(key_padding_mask=torch.tensor([[False] * 4 + [True], [False] * 5])))] + [
        ([4, 2], dict(kdim=3, vdim=6, batch_first=True),
         [make(2, 3, 4), make(2, 5, 3), make(2, 5, 6)], {})],
    "PairwiseDistance": lambda make: [
        ([], {}, [make(4, 6), make(4, 6)], {}), ([1.5], dict(keepdim=True), [make(4, 6), make(4, 6)], {})],
    "PixelShuffle": same(([2], {}), size=(1, 8, 2, 3)),
    "PixelUnshuffle": same(([2], {}), size=(1, 2, 4, 6)),
    "RReLU": same(([], {}), ([0.1, 0.3], {}), ([], dict(inplace=False)), size=(4, 5)),
    "Sequential": lambda make: [([nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)], {}, [make(5, 3)], {})],
    "TransformerDecoder": lambda make: [
        ([nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2], {}, [make(3, 2, 4), make(5, 2, 4)], {}),
        ([nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2, nn.LayerNorm(4)], {},
         [make(3, 2, 4), make(5, 2, 4), torch.ones(3, 3, dtype=torch.bool).triu(1)], {})],
    "TransformerDecoderLayer": lambda make: [
        ([4, 2, 8, 0.0], {}, [make(3, 2, 4), make(5, 2, 4), torch.ones(3, 3).triu(1) * -9.0], {}),
        ([4, 2, 8, 0.0], {}, [make(3, 2, 4), make(5, 2, 4)],
         dict(tgt_mask=nn.Transformer.generate_square_subsequent_mask(3), tgt_is_causal=True))],
    "TransformerEncoder": lambda make: [
        ([nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2], dict(norm=nn.LayerNorm(4)),
         [make(3, 2, 4), torch.ones(3, 3, dtype=torch.bool).triu(1)], {}),
        ([nn.TransformerEncoderLayer(4, 2, 8, 0.0), 1], dict(enable_nested_tensor=False),
         [make(3, 2, 4)], dict(mask=torch.ones(3, 3, dtype=torch.bool).triu(1)))],
    "TransformerEncoderLayer": lambda make: [
        ([4, 2, 8, 0.0], {}, [make(3, 2, 4), torch.ones(3, 3, dtype=torch.bool).triu(1)], {})],
    "Transformer": lambda make: [
        ([4, 2], dict(custom_encoder=nn.Bilinear(4, 4, 4), num_decoder_layers=1, dim_feedforward=4,
                      dropout=0.0), None, {})][:0],
    "TripletMarginLoss": lambda make: [
        ([], {}, [make(4, 6), make(4, 6), make(4, 6)], {}),
        ([2.0], dict(p=1, swap=True, reduction="sum"), [make(4, 6), make(4, 6), make(4, 6)], {})],
    "TripletMarginWithDistanceLoss": lambda make: [
        ([], {}, [make(4, 6), make(4, 6), make(4, 6)], {}),
        ([], dict(distance_function=TRIPLET, margin=2.0, swap=True, reduction="none"),
         [make(4, 6), make(4, 6), make(4, 6)], {}),
        ([], dict(distance_function=F.cosine_similarity), [make(4, 6), make(4, 6), make(4, 6)], {})],
    "Unflatten": lambda make: [([1, (2, 3)], {}, [make(2, 6)], {})],
    "Unfold": same(([(2, 3)], {}), ([2], dict(padding=1, stride=2)), size=(2, 3, 4, 5)),
    "Upsample": same(([], dict(scale_factor=2)), ([], dict(size=[5, 7], mode="bilinear")),
                     ([[6, 4]], {}), ([], dict(scale_factor=1.5, mode="bicubic", align_corners=True)),
                     size=(2, 3, 4, 4)),
    "UpsamplingBilinear2d": same(([], dict(scale_factor=2)), size=(2, 3, 4, 4)),
    "UpsamplingNearest2d": same(([[6, 4]], {}), size=(2, 3, 4, 4)),
}
for n in 1, 2, 3:
    MORE.setdefault("BatchNorm%dd" % n, lambda make, n=n: [
        ([3], dict(momentum=None), [make(*[4, 3] + [3] * n)], {}),
        ([3], dict(affine=False), [make(*[4, 3] + [3] * n)], {})])

THIRTY = [()] * 30
EPOCHS = [(e,) for e in (0, 0.5, 1.0, 2.5, 3.75, 9, 12.25, 4)]
MEASURES = [(m,) for m in (3.0, 2.0, 2.0, 2.1, 1.9999, 1.9999, 2.5, 2.5, 2.5, -1.0, -1.00005, -1.2, -1.2, -1.19, -1.3,
                           -1.3, -1.3, -1.3, -1.3)]


def row(name, lua, steps=None, **kw):
    """lua: the options as they are written in Lua."""
    def make(optimizer):
        given = {n: v(optimizer) if n == "schedulers" else v for n, v in kw.items()}
        if name == "ChainedScheduler":
            return S.ChainedScheduler(given["schedulers"])
        return getattr(S, name)(optimizer, **given)
    return "S.%s(optimizer,{%s})" % (name, lua), make, steps or THIRTY


SCHEDULES = {
    "LambdaLR": [row("LambdaLR", "lr_lambda=function(e) return 0.95^e end", lr_lambda=lambda e: 0.95 ** e)],
    "MultiplicativeLR": [
        row("MultiplicativeLR", "lr_lambda=function(e) return 0.9+0.01*e end", lr_lambda=lambda e: 0.9 + 0.01 * e)],
    "StepLR": [row("StepLR", "step_size=3,gamma=0.5", step_size=3, gamma=0.5), row("StepLR", "step_size=7", step_size=7)],
    "MultiStepLR": [row("MultiStepLR", "milestones={2,5,5,9}", milestones=[2, 5, 5, 9])],
    "ConstantLR": [row("ConstantLR", ""), row("ConstantLR", "factor=0.5,total_iters=4", factor=0.5, total_iters=4)],
    "LinearLR": [row("LinearLR", ""),
                 row("LinearLR", "start_factor=0.25,end_factor=0.75,total_iters=10", start_factor=0.25, end_factor=0.75,
                     total_iters=10)],
    "ExponentialLR": [row("ExponentialLR", "gamma=0.9", gamma=0.9)],
    "PolynomialLR": [row("PolynomialLR", ""), row("PolynomialLR", "total_iters=12,power=2.5", total_iters=12, power=2.5)],
    "CosineAnnealingLR": [row("CosineAnnealingLR", "T_max=7", T_max=7),
                          row("CosineAnnealingLR", "T_max=40,eta_min=0.01", T_max=40, eta_min=0.01)],
    "CosineAnnealingWarmRestarts": [
        row("CosineAnnealingWarmRestarts", "T_0=4", T_0=4),
        row("CosineAnnealingWarmRestarts", "T_0=3,T_mult=2,eta_min=0.01", T_0=3, T_mult=2, eta_min=0.01),
        row("CosineAnnealingWarmRestarts", "T_0=3,T_mult=2", EPOCHS, T_0=3, T_mult=2),
        row("CosineAnnealingWarmRestarts", "T_0=3", EPOCHS, T_0=3)],
    "CyclicLR": [
        row("CyclicLR", "base_lr=0.01,max_lr=0.1,step_size_up=4", base_lr=0.01, max_lr=0.1, step_size_up=4),
        row("CyclicLR", "base_lr={0.01,0.02},max_lr={0.1,0.3},step_size_up=3,step_size_down=6,mode='triangular2'",
            base_lr=[0.01, 0.02], max_lr=[0.1, 0.3], step_size_up=3, step_size_down=6, mode="triangular2"),
        row("CyclicLR", "base_lr=0.01,max_lr=0.1,step_size_up=4,mode='exp_range',gamma=0.95,cycle_momentum=false",
            base_lr=0.01, max_lr=0.1, step_size_up=4, mode="exp_range", gamma=0.95, cycle_momentum=False),
        row("CyclicLR", "base_lr=0.01,max_lr=0.1,step_size_up=4,scale_fn=function(x) return 0.9^x end,"
            "scale_mode='iterations'", base_lr=0.01, max_lr=0.1, step_size_up=4, scale_fn=lambda x: 0.9 ** x,
            scale_mode="iterations"),
        row("CyclicLR", "base_lr=0.01,max_lr=0.1,step_size_up=4,scale_fn=function(x) return 1/x end",
            base_lr=0.01, max_lr=0.1, step_size_up=4, scale_fn=lambda x: 1 / x)],
    "OneCycleLR": [
        row("OneCycleLR", "max_lr=0.2,total_steps=31", max_lr=0.2, total_steps=31),
        row("OneCycleLR", "max_lr={0.2,0.4},epochs=5,steps_per_epoch=7,anneal_strategy='linear'", max_lr=[0.2, 0.4],
            epochs=5, steps_per_epoch=7, anneal_strategy="linear"),
        row("OneCycleLR", "max_lr=0.2,total_steps=40,three_phase=true,pct_start=0.4", max_lr=0.2, total_steps=40,
            three_phase=True, pct_start=0.4),
        row("OneCycleLR", "max_lr=0.2,total_steps=40,cycle_momentum=false,div_factor=10,final_div_factor=100",
            max_lr=0.2, total_steps=40, cycle_momentum=False, div_factor=10, final_div_factor=100)],
    "ReduceLROnPlateau": [
        row("ReduceLROnPlateau", "patience=1", MEASURES, patience=1),
        row("ReduceLROnPlateau", "mode='max',patience=0,factor=0.5", MEASURES, mode="max", patience=0, factor=0.5),
        row("ReduceLROnPlateau", "patience=1,threshold_mode='abs',threshold=0.01,cooldown=2,min_lr={0.001,0.01}",
            MEASURES, patience=1, threshold_mode="abs", threshold=0.01, cooldown=2, min_lr=[0.001, 0.01])],
    "SequentialLR": [row(
        "SequentialLR", "schedulers={S.ConstantLR(optimizer,{factor=0.5,total_iters=4}),S.ExponentialLR(optimizer,{gamma="
        "0.9}),S.StepLR(optimizer,{step_size=2})},milestones={6,15}", milestones=[6, 15],
        schedulers=lambda o: [S.ConstantLR(o, factor=0.5, total_iters=4), S.ExponentialLR(o, gamma=0.9),
                              S.StepLR(o, step_size=2)])],
    "ChainedScheduler": [(
        "S.ChainedScheduler({S.ConstantLR(optimizer,{factor=0.5,total_iters=4}),S.ExponentialLR(optimizer,{gamma=0.9})})",
        lambda o: S.ChainedScheduler([S.ConstantLR(o, factor=0.5, total_iters=4), S.ExponentialLR(o, gamma=0.9)]),
        THIRTY)],
}
