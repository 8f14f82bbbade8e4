"""Writes values of Python as Lua code, with positions counted from 1.

A *kind* tells what a number is: "dim" and "at" (a position, an index tensor, a class label) gain
one where they count from the front; "stop", the end of a range or a split point, is the last
position inside and so loses one where it counts from the end; "key" is what stands in x[...].
"""
import math

import torch

DTYPES = {getattr(torch, n): n for n in (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128").split()}
DIMS = set("""dim dims dim0 dim1 dim2 axis axis0 axis1 start_dim end_dim source_dim source
    destination dimension""".split())
POSITIONS = set("sorter padding_idx ignore_index blank offsets index".split())

# The methods that give the components of sparse tensors.
COMPONENTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}

# Operators whose arguments or results are positions. A line has the names of operators and then their parameters in
# op_db's order. A parameter is written as its name alone if the name shows its meaning. "*" stands for all following
# parameters. The results come after ">".
SIGNATURES = {}
for line in """
sum mean nansum nanmean amax amin all any prod logsumexp count_nonzero cumsum cumprod: x dim
logcumsumexp softmax log_softmax nn.functional.softmax nn.functional.log_softmax: x dim
nn.functional.softmin nn.functional.glu std var std_mean var_mean aminmax unbind unsqueeze: x dim
argmax argmin argsort: x dim > at
max min median nanmedian mode cummax cummin sort: x dim > - at
kthvalue topk: x k dim > - at
quantile nanquantile norm nn.functional.normalize renorm split split_with_sizes chunk unsafe_chunk unsafe_split: x n dim
nn.functional.cosine_similarity cross linalg.cross linalg.vecdot diff repeat_interleave: x y dim
trapezoid trapz cumulative_trapezoid gradient linalg.norm linalg.matrix_norm: x y dim
linalg.vector_norm: x y dim
transpose swapdims swapaxes: x dim0 dim1
permute flip squeeze: x dim *
movedim moveaxis: x source destination
flatten: x start_dim end_dim
unflatten unfold size stride: x dim
select: x dim index
narrow narrow_copy: x dim start:at length
slice: x dim start:at end:stop step
slice_scatter: x src dim start:at end:stop
select_scatter: x src dim index
diagonal linalg.diagonal diag_embed: x offset dim1 dim2
diagonal_scatter: x src offset dim1 dim2
tensor_split: x sections:stops dim
hsplit vsplit dsplit: x sections:stops
cat concat concatenate stack: x dim
roll rot90: x n dims
fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2: x n dim
fft.hfft2 fft.ihfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn fft.hfftn fft.ihfftn: x n dim
fft.fftshift fft.ifftshift: x dim
empty_permuted: n dims
tensordot: x y dims:pair
index_select gather scatter scatter_add scatter_reduce index_add index_copy index_fill: x dim index
index_reduce: x dim index
index_put: x at:at
take put bincount nn.functional.one_hot: x index
take_along_dim: x at:at dim
nonzero argwhere nonzero_static: x > at *
searchsorted bucketize tril_indices triu_indices multinomial: x > at
unravel_index: x:at > at *
__getitem__ __setitem__: x index:key
nn.functional.embedding nn.functional.embedding_bag: weight x:at padding_idx
nn.functional.cross_entropy nn.functional.nll_loss: x y:label weight size_average ignore_index
nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss: x index
nn.functional.ctc_loss: x index a b blank
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d: x > - at
nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d: x > - at
nn.functional.adaptive_max_pool3d: x > - at
nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d: x > - at
nn.functional.linear_cross_entropy: x weight y:label
nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d: x index
masked.sum masked.prod masked.amax masked.amin masked.mean masked.median masked.std masked.var: x dim
masked.cumsum masked.cumprod masked.softmax masked.log_softmax masked.softmin masked.logsumexp: x dim
masked.argmax masked.argmin: x dim > at
masked.norm masked.normalize: x n dim
sparse.softmax sparse.log_softmax sparse.sum: x dim
""".strip().splitlines():
    names, _, rest = line.partition(":")
    params, _, results = rest.partition(">")
    for n in names.split():
        SIGNATURES[n] = params.split(), results.split()
for n in "bincount", "nn.functional.one_hot":
    SIGNATURES[n] = ["x:at"], []


def each(f, v):
    """Returns v with each tensor t in it replaced by f(t)."""
    if isinstance(v, torch.Tensor):
        return f(v)
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        values = [each(f, e) for e in v]
        return type(v)(*values) if hasattr(v, "_fields") else type(v)(values)
    if isinstance(v, dict):
        return {n: each(f, e) for n, e in v.items()}
    return v


class Unwritable(Exception):
    """Raised for a value that cannot be written in Lua."""


def kind_of(param):
    """Returns the kind of a parameter, which is written as "name" or "name:kind"."""
    name, _, kind = param.partition(":")
    return kind or ("dim" if name in DIMS else "at" if name in POSITIONS else None)


def kinds(op, count):
    """Returns the kind of each positional argument."""
    params = list(SIGNATURES.get(op, ([], []))[0])
    if params[-1:] == ["*"]:
        params[-1:] = [params[-2]] * count
    return ([kind_of(p) for p in params] + [None] * count)[:count]


def keyword_kind(op, name):
    for p in SIGNATURES.get(op, ([], []))[0]:
        if p.partition(":")[0] == name:
            return kind_of(p)
    return kind_of(name)


def result_kinds(op, args, kw, count):
    """Returns the kind of each result. Some kinds depend on the arguments."""
    if op == "repeat_interleave" and len(args) == 1 and "repeats" not in kw or \
            op == "where" and len(args) == 1:
        return ["at"] * count
    if op in ("unique", "unique_consecutive"):
        place = 2 if op == "unique" else 1
        inverse = kw.get("return_inverse", len(args) > place and args[place])
        return ([None, "at"] if inverse else [None]) + [None] * count
    results = list(SIGNATURES.get(op, ([], []))[1])
    if results[-1:] == ["*"]:
        results[-1:] = [results[-2]] * count
    return ["at" if r == "at" else None for r in results] + [None] * count


def shifted(v, kind):
    """Converts an integer, or all elements of a tensor, to positions that count from 1."""
    if isinstance(v, torch.Tensor):
        if v.is_floating_point() or v.is_complex() or v.dtype == torch.bool:
            return v
        return torch.where(v < 0, v - 1 if kind == "stop" else v, v if kind == "stop" else v + 1)
    if kind == "stop":
        return v if v >= 0 else v - 1
    return v if v < 0 or v == 2**63 - 1 else v + 1


def number(v):
    if isinstance(v, complex):
        return "Z(%s,%s)" % (number(v.real), number(v.imag))
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, int):
        return "math.mininteger" if v == -2**63 else str(v)
    if v != v:
        return "nan"
    if v in (math.inf, -math.inf):
        return "inf" if v > 0 else "-inf"
    s = "%.17g" % v
    return s if any(c in s for c in ".e") else s + ".0"


def tensor(t, kind, budget):
    """T(dtype, sizes, strides or nil, values, 1 if it requires a gradient)."""
    if t.dtype not in DTYPES or t.layout != torch.strided or t.device.type != "cpu" or t.ndim > 16:
        raise Unwritable("dtype or layout")
    budget[0] -= t.numel()
    if budget[0] < 0:
        raise Unwritable("size")
    v = t.detach()
    v = shifted(v, kind) if kind else v
    try:
        values = (v.double() if v.is_floating_point() else v).reshape(-1).tolist()
    except RuntimeError as fault:  # the tensor's storage has been freed
        raise Unwritable("values") from fault
    strides = "nil" if t.is_contiguous() else "{%s}" % ",".join(map(str, t.stride()))
    if t.dtype == torch.float64 or t.is_complex():
        text = ",".join(number(e) for e in values)
    else:
        text = ",".join("%.9g" % e if isinstance(e, float) and e else number(e) for e in values)
    text = text.replace("True", "true").replace("False", "false")
    return 'T("%s",{%s},%s,{%s}%s)' % (DTYPES[t.dtype], ",".join(map(str, t.shape)), strides, text,
                                       ",1" if t.requires_grad and t.is_leaf else "")


def key(v, budget):
    """Writes one item of an index x[...]."""
    if v is None:
        return "newaxis"
    if v is Ellipsis:
        return '"..."'
    if isinstance(v, slice):
        if v.step in (None, 1) and v.start is None and v.stop is None:
            return "{}"
        ends = [1 if v.start is None else shifted(v.start, "at"), -1 if v.stop is None else shifted(v.stop, "stop")]
        return "{%s}" % ",".join(map(str, ends + ([] if v.step is None else [v.step])))
    if isinstance(v, (list, torch.Tensor)):
        return tensor(torch.as_tensor(v), "at", budget)
    return lua(v, "at", budget)


def sparse_tensor(t, budget):
    """S(layout, sizes, {positions, ...}, values, 1 if it is coalesced, 1 if it requires a gradient)."""
    values, coalesced = t.detach(), t.layout == torch.sparse_coo and t.is_coalesced()
    of = [getattr(values, n)() for n in COMPONENTS[t.layout]]
    parts = [tensor(v, "at" if i + 1 < len(of) else None, budget) for i, v in enumerate(of)]
    return 'S("%s",{%s},{%s},%s,%s%s)' % (
        str(t.layout).partition(".")[2], ",".join(map(str, t.shape)), ",".join(parts[:-1]), parts[-1],
        "1" if coalesced else "nil", ",1" if t.requires_grad and t.is_leaf else "")


def lua(v, kind, budget):
    if isinstance(v, torch.Tensor) and v.layout in COMPONENTS:
        return sparse_tensor(v, budget)
    if isinstance(v, torch.Tensor):
        if kind == "dim" or kind == "stops" and not v.ndim:
            kind = None
        return tensor(v, {"stops": "stop", "label": "at"}.get(kind, kind), budget)
    if kind == "key":
        return "{%s}" % ",".join(key(e, budget) for e in (v if isinstance(v, tuple) else (v,)))
    if v is None:
        return "nil"
    if isinstance(v, (bool, float, complex)):
        return number(v)
    if isinstance(v, int):
        return number(shifted(v, kind) if kind in ("dim", "at", "stop", "label") else v)
    if isinstance(v, str):
        return '"%s"' % v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    if isinstance(v, torch.dtype) and v in DTYPES:
        return '"%s"' % DTYPES[v]
    if isinstance(v, torch.memory_format):
        return '"%s"' % str(v).partition(".")[2]
    if isinstance(v, torch.layout) and v in COMPONENTS:
        return '"%s"' % str(v).partition(".")[2]
    if isinstance(v, torch.device):
        return '"%s"' % v
    if isinstance(v, (list, tuple)):
        if any(e is None for e in v):
            raise Unwritable("None in a list")
        inner = {"stops": "stop", "pair": "dim"}.get(kind, kind)
        return "{%s}" % ",".join(lua(e, inner, budget) for e in v)
    raise Unwritable(str(type(v)))
