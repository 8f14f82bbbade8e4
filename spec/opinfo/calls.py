#!/usr/bin/env python3
"""Writes calls of PyTorch 2 with their results, for spec/opinfo/run.lua.

    python3 spec/opinfo/calls.py FOLDER [operator...]

The calls are those of PyTorch's own tests, its OpInfo database, in every dtype that tlua has, those
of more.py, and those with sparse tensors of sparse.py. The first calls are also made with
other inputs: transposed, with gaps, expanded, without rows, without columns, 0-d, and of two dtypes.
FOLDER/family/operator.lua has one call in each line:
{name=, form=, dtype=, tag=, a={n=, ...}, k={{name, value}, ...}, r={n=, ...} or e=message, x=,
g=, gx=, nodes=, ties=, random=}.

form is f (function), m (method) or i (in place); a and k are the arguments as tlua takes them; r are
the results, x those of the same call in float64; g and gx the gradients of a weighted sum of r; nodes
the names of the results' grad_fn, without the number of the form, false for none.

It takes five to ten minutes and 400 MB; everything is seeded.
"""
import functools
import glob
import os
import random
import sys
import traceback
import warnings
import zlib

os.environ["OMP_NUM_THREADS"] = "1"
warnings.simplefilter("ignore")

sys.dont_write_bytecode = True
import expect
import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import (BinaryUfuncInfo, ReductionOpInfo, ShapeFuncInfo, UnaryUfuncInfo)

import more
import sparse
from lua import DTYPES, Unwritable, each, kinds, keyword_kind, lua, result_kinds

# Names that are left out because tlua does not have them: complex32, functions that are not operators for users, and
# decompositions of low rank, which are random, and whose samples are the factors of their argument.
OTHER = tuple("""_ torch. jiterator native_
    to_mkldnn chalf ops.
    special.polygamma nn.functional.scaled_dot_product_attention_ nn.functional.ctc_loss_ bernoulli_ hash_tensor
    broadcast_shapes svd_lowrank pca_lowrank""".split())
COPIES = tuple("""_backward as_strided_copy alias_copy diagonal_copy expand_copy permute_copy select_copy
    slice_copy split_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy
    view_copy split_with_sizes_copy""".split())
RANDOM = set("""bernoulli multinomial normal rand randn randint rand_like randn_like randint_like uniform
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided cauchy exponential
    geometric log_normal resize_ resize_as_ randperm nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.rrelu""".split())
# Samples whose results are unique only up to signs, or have random positions.
VAGUE = {("linalg.lstsq", "grad_oriented"), ("linalg.pinv", "singular"), ("normal", "in_place")}
# The number of calls of each dtype, and the number of these calls that use other memory layouts.
COUNTS = {
    torch.float32: (30, 10), torch.float64: (10, 3), torch.bfloat16: (10, 3), torch.float16: (10, 3),
    torch.int64: (15, 4), torch.int32: (5, 2), torch.int16: (5, 2), torch.int8: (5, 2),
    torch.uint8: (5, 2), torch.bool: (10, 3), torch.complex64: (10, 3), torch.complex128: (5, 2)}
UNKNOWN = ("pin_memory", "non_blocking")  # arguments that tlua lacks
LAYOUTS = "transposed gaps expanded rows0 columns0 scalar first64 first32".split()
SIGNLESS = {  # removes the signs of vectors, which are arbitrary, and the vectors that have no singular value
    "linalg.svd": lambda u, s, v: [u[..., :s.shape[-1]].abs(), s, v[..., :s.shape[-1], :].abs()],
    "linalg.eigh": lambda w, v: [w, v.abs()],
}
SIGNLESS["svd"] = lambda u, s, v: [u[..., :s.shape[-1]].abs(), s, v[..., :s.shape[-1]].abs()]
TIES = "kthvalue topk median nanmedian mode sort argsort".split()
LARGEST = 4000  # the largest number of elements in a call
WIDE = (torch.float32, torch.int64, torch.uint8, torch.bool)  # these dtypes use all pointwise inputs of the database
FAMILIES = {}  # maps names of operators to families
RUNNING = set()  # the running processes


def tensors(v):
    found = []
    each(found.append, v)
    return found


def flat(v):
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        return [r for e in v for r in flat(e)]
    return [v]


def layout(name):
    """Returns a function that changes the memory layout of a tensor."""
    seen = []

    def change(t):
        if sparse.is_sparse(t):
            return t.clone()
        if name == "transposed" and t.ndim > 1:
            return t.transpose(0, -1).contiguous().transpose(0, -1)
        if name == "gaps" and t.ndim > 0:
            wide = torch.zeros(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype)[..., ::2]
            return wide.copy_(t)
        if name == "expanded" and t.ndim > 0 and t.shape[0] > 1:
            return t[:1].clone().expand(t.shape)
        if name == "rows0" and t.ndim > 0:
            return t[:0].clone()
        if name == "columns0" and t.ndim > 0:
            return t[..., :0].clone()
        if name == "scalar" and t.numel() > 0:
            return t.flatten()[0].clone()
        if name.startswith("first"):
            seen.append(t)
            if len(seen) == 1:
                return t.to(torch.float64 if name == "first64" else torch.int32)
        return t.clone()

    return lambda t: change(t.detach()).requires_grad_(t.requires_grad)


def fresh(t):
    """Returns a copy with the same strides."""
    if sparse.is_sparse(t):
        return t.detach().clone().requires_grad_(t.requires_grad)
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else 0
    flat_copy = t.detach().as_strided((size,), (1,)).clone() if size else t.detach().clone()
    copy = flat_copy.as_strided(t.shape, t.stride(), 0) if size else flat_copy
    return copy.requires_grad_(t.requires_grad)


def in_double(t):
    if t.is_complex():
        return t.detach().to(torch.complex128).requires_grad_(t.requires_grad)
    return t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t


def weights(r, k):
    return torch.cos(1.3 * torch.arange(r.numel(), dtype=torch.float64) + 0.5 * k + 0.2).reshape(r.shape)


def gradients(results, inputs):
    """Returns the gradients of the weighted sum of all results, or None if no result depends on the inputs."""
    leaves = [t for t in tensors(inputs) if t.requires_grad]
    results = [r.to_dense() if sparse.is_sparse(r) else r for r in results]
    results = [torch.view_as_real(r.resolve_conj()) if isinstance(r, torch.Tensor) and r.is_complex() else r for r in results]
    terms = [(r.double() * weights(r, k)).sum() for k, r in enumerate(results)
             if isinstance(r, torch.Tensor) and r.requires_grad and r.is_floating_point()]
    if not terms:
        return None
    found = torch.autograd.grad(sum(terms), leaves, allow_unused=True)
    return [g if g is None else sparse.gradient(g, t) for g, t in zip(found, leaves)]


def nodes(results):
    names = [type(r.grad_fn).__name__.rstrip("0123456789")
             if isinstance(r, torch.Tensor) and r.grad_fn is not None else None for r in results]
    return ",nodes={%s}" % ",".join('"%s"' % n if n else "false" for n in names)


def ties_of(op, args, kw):
    """Returns the dimension along which positions of equal elements may have any order."""
    if op not in TIES or kw.get("stable"):
        return ""
    place = 2 if op in ("kthvalue", "topk") else 1
    dim = kw.get("dim", args[place] if len(args) > place else -1)
    return ",ties=%d" % (dim if dim < 0 else dim + 1) if isinstance(dim, int) else ""


class Writer:
    def __init__(self, folder, op):
        self.op = op
        family = os.path.join(folder, FAMILIES.get(op, "others"))
        os.makedirs(family, exist_ok=True)
        self.file = open(os.path.join(family, op + ".lua"), "a", buffering=1)

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        self.file.close()

    def attempt(self, fn, args, kw, grad):
        """Returns the results and the gradients."""
        args, kw = each(fresh, args), each(fresh, kw)
        torch.manual_seed(1)
        results = flat(fn(*args, **kw))
        if self.op in SIGNLESS:
            results = SIGNLESS[self.op](*results)
        return results, gradients(results, (args, kw)) if grad else None

    def outcome(self, fn, args, kw, grad, chance):
        """Returns the fields r, x, g and gx, or e if the call fails."""
        def listed(name, values, op=None):
            found = result_kinds(op, args, kw, len(values))
            budget = [2 * LARGEST]
            return ",%s={n=%d%s}" % (name, len(values), "".join(
                "," + lua(sparse.in_order(v.detach()) if isinstance(v, torch.Tensor) else v, k, budget)
                for v, k in zip(values, found)))
        try:
            results, g = self.attempt(fn, args, kw, grad)
        except Exception as fault:
            return ",e=" + lua(str(fault).split("\n")[0][:150], None, [0])
        text = listed("r", results, self.op)
        text += listed("g", g) + (nodes(results) if self.op not in SIGNLESS else "") if g else ""
        narrow = [t.dtype for t in tensors((args, kw)) if t.is_floating_point() or t.is_complex()]
        if not chance and narrow and not {torch.float64, torch.complex128} & set(narrow):
            try:
                results, g = self.attempt(fn, each(in_double, args), each(in_double, kw), grad)
                text += listed("x", results, self.op) + (listed("gx", g) if g else "")
            except (RuntimeError, NotImplementedError, ValueError, IndexError, TypeError):
                pass
        return text

    def call(self, form, fn, args, kw, dtype=torch.float32, tag="", grad=False, op=None):
        if "out" in kw:
            return
        dense = not any(sparse.is_sparse(t) for t in tensors((args, kw)))
        kw = {k: v for k, v in kw.items() if k not in UNKNOWN and not (k == "layout" and v in (None, torch.strided))}
        try:
            budget = [LARGEST]
            changed = form == "i" or self.op.endswith("_") and self.op[:2] != "__"
            if changed and dense and torch._debug_has_internal_overlap(args[0]):
                args = (args[0].detach().clone(memory_format=torch.contiguous_format), *args[1:])
            a = "".join("," + lua(v, k, budget) for v, k in zip(args, kinds(self.op, len(args))))
            k = ",".join('{"%s",%s}' % (n, lua(v, keyword_kind(self.op, n), budget)) for n, v in kw.items())
            chance = self.op in RANDOM or self.op.rstrip("_") in RANDOM or kw.get("dropout_p", 0) > 0
            chance = chance and kw.get("_random_samples") is None
            text = self.outcome(fn, args, kw, grad, chance) + ties_of(self.op, args, kw)
        except Unwritable:
            return
        self.file.write('{name="%s",form="%s",dtype="%s",tag="%s",a={n=%d%s},k={%s}%s%s}\n' % (
            op or self.op, form, DTYPES[dtype], tag, len(args), a, k, text,
            ",random=1" if chance else ""))


def function(name):
    """Returns the function of torch with this name, or None."""
    try:
        return functools.reduce(getattr, name.split("."), torch)
    except AttributeError:
        return None


def forms(name):
    if name.startswith("__"):
        return "f"
    method = "." not in name and callable(getattr(torch.Tensor, name, None))
    return (["f"] if callable(function(name)) else []) + (["m"] if method else [])


def spread(values, count):
    """Returns at most `count` items, evenly spaced from the first to the last."""
    if len(values) <= count:
        return values
    return [values[i * (len(values) - 1) // (count - 1)] for i in range(count)]


def samples(op, dtype, grad):
    """Returns a list with the arguments and the named arguments of each call."""
    seed = zlib.crc32((op.name + op.variant_test_name).encode())
    torch.manual_seed(seed)
    numpy.random.seed(seed % 2**32)
    random.seed(seed)
    pointwise = isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo))
    many = op.reference_inputs if pointwise and not grad and dtype in WIDE else op.sample_inputs
    found = [((s.input,) + tuple(s.args), dict(s.kwargs)) for s in many("cpu", dtype, requires_grad=grad)]
    return [s for s in found if sum(t.numel() for t in tensors(s)) <= LARGEST]


def write_dtype(w, op, fn, extra, dtype):
    how = forms(op.name)
    inplace = op.inplace_variant if not op.name.endswith("_") else None
    count, laid_out = COUNTS[dtype]
    for i, (a, k) in enumerate(spread(samples(op, dtype, False), count)):
        k.update(extra)
        own = isinstance(a[0], torch.Tensor)
        for form in how if own else how[:1]:
            w.call(form, fn, a, k, dtype)
        if inplace and own:
            w.call("i", inplace, a, k, dtype)
        if i >= laid_out or not how or op.name.startswith("as_strided"):
            continue
        for name in LAYOUTS:
            change = layout(name)
            w.call(how[0], fn, each(change, a), each(change, k), dtype, name)
        if inplace and own:
            w.call("i", inplace, each(layout("transposed"), a), k, dtype, "transposed")
        for alias in op.aliases if dtype == torch.float32 and i < 2 else ():
            if function(alias.name) and "special." not in alias.name:
                w.call("f", fn, a, k, dtype, op=alias.name)


def write_gradients(w, op, fn, extra, dtype):
    how = forms(op.name)
    for i, (a, k) in enumerate(spread(samples(op, dtype, True), 30 if dtype in (torch.float64, torch.complex128) else 6)):
        k.update(extra)
        a, k = each(lambda t: t.detach().requires_grad_(t.requires_grad), (a, k))
        if how:
            w.call(how[0], fn, a, k, dtype, "gradient", True)
        if how and dtype == torch.float64 and i < 8 and not op.name.startswith("as_strided"):
            for name in LAYOUTS[:5]:
                w.call(how[0], fn, *each(layout(name), (a, k)), dtype, "gradient " + name, True)
        if op.inplace_variant and not op.name.endswith("_") and i < 6:
            def inplace(x, *a, **k):
                return op.inplace_variant(x.clone(), *a, **k)
            w.call("i", inplace, a, k, dtype, "gradient", True)


def write_operator(w, op):
    fn, extra = op.op, {}
    if isinstance(fn, functools.partial):
        extra, fn = fn.keywords, fn.func
    for dtype in COUNTS:
        if dtype in op.dtypes:
            write_dtype(w, op, fn, extra, dtype)
            if op.supports_autograd and (dtype.is_floating_point or dtype.is_complex):
                write_gradients(w, op, fn, extra, dtype)
    write_sparse(w, op, fn, extra)
    for e in op.error_inputs("cpu") if op.error_inputs_func and forms(op.name) else ():
        s = e.sample_input
        w.call(forms(op.name)[0], fn, (s.input,) + tuple(s.args), {**s.kwargs, **extra}, tag="refused")


def write_sparse(w, op, fn, extra):
    for how in forms(op.name)[:1]:
        sparse.write_operator(w, op, fn, extra, how, spread)


def family(op):
    for kind, name in ((UnaryUfuncInfo, "unary"), (BinaryUfuncInfo, "binary"),
                       (ReductionOpInfo, "reductions"), (ShapeFuncInfo, "shapes")):
        if isinstance(op, kind):
            return name
    head = op.name.rpartition(".")[0]
    return "losses" if op.name.endswith("loss") else head or "others"


def apart(task, *args):
    """Runs task(*args) in a separate process, since some calls make PyTorch crash."""
    while len(RUNNING) >= (os.cpu_count() or 1):
        RUNNING.discard(os.wait()[0])
    sys.stdout.flush()
    child = os.fork()
    if child:
        RUNNING.add(child)
        return
    try:
        task(*args)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def write_all(folder, ops):
    with Writer(folder, ops[0].name) as w:
        for op in ops:
            write_operator(w, op)


def main(folder, only):
    found = {}
    for op in op_db:
        other = op.name.startswith(OTHER) and op.name[:2] != "__" or op.name.endswith(COPIES)
        if not other and (op.name, op.variant_test_name) not in VAGUE and (op.name in only or not only):
            found.setdefault(op.name, []).append(op)
            FAMILIES[op.name] = family(op)
    for file in glob.glob(os.path.join(folder, "*", "*.lua")):
        if not only or os.path.basename(file)[:-4] in only:
            os.remove(file)
    for ops in found.values():
        apart(write_all, folder, ops)
    while RUNNING:
        RUNNING.discard(os.wait()[0])
    for part in more.PARTS:
        more.write(part, folder, only, Writer)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
