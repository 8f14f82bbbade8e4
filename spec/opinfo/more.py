"""Makes calls that the OpInfo database lacks: operators without an entry, random expressions for x[...] and
einsum, printing, every pair of dtypes in pointwise operators, and equal elements."""
import itertools
import random

import torch
import torch.nn.functional as F

import sparse
from lua import each

T = torch.Tensor
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
DTYPES = FLOATS + [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
BINARY = """add sub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin
    eq lt ne ge logical_and logical_xor bitwise_and bitwise_or hypot copysign xlogy logaddexp gcd lcm
    float_power heaviside nextafter ldexp isclose rsub""".split()


def pooling(call, r):
    for n, s in enumerate(((2, 3, 8), (2, 3, 6, 7), (1, 2, 4, 5, 4)), 1):
        name = "lp_pool%dd" % n
        pool = getattr(F, name)
        for p in (1.0, 2.0, 2.5):
            call("nn.functional." + name, pool, r(*s).abs() + .1, p, 3, 2, True)
            call("nn.functional." + name, pool, r(*s[1:]).abs() + .1, p, 2, stride=1, ceil_mode=True)
    g = torch.Generator().manual_seed(4)
    for n, kernel, dtype in itertools.product((2, 3), (1, 2, 3), (torch.float32, torch.float64, torch.float16)):
        name = "fractional_max_pool%dd" % n
        for sizes, out in (((2, 3), (3, 4, 5)[:n]), ((1, 2), (1, 2, 7)[-n:]), ((3,), (5, 5, 5)[:n])):
            samples = torch.rand(sizes[0] if len(sizes) == 2 else 1, sizes[-1], n, generator=g, dtype=dtype)
            x = r(*sizes, *(9, 8, 10)[:n]).to(dtype)
            call("nn.functional." + name, getattr(F, name), x, kernel, output_size=out, return_indices=True,
                 _random_samples=samples, grad=False)
    for s in ((12, 12), (2, 12, 12), (1, 12, 5)):
        call("nn.functional.fold", F.fold, r(*s), (4, 5), 2)
    call("nn.functional.fold", F.fold, r(1, 8, 9), (4, 4), 2, dilation=2, padding=1, stride=2)
    sizes = ((2, 1, 3, 4), (1, 2, 2, 3, 2), (1, 2, 1, 1))
    for size, corners in itertools.product(sizes, (False, True)):
        theta = r(size[0], len(size) - 2, len(size) - 1)
        call("nn.functional.affine_grid", F.affine_grid, theta, size, align_corners=corners)


def products(call, r):
    for sizes in ([2, 3], [2, 3, 4], [2, 3, 4, 2, 5]):
        call("chain_matmul", torch.chain_matmul, *[r(a, b) for a, b in zip(sizes, sizes[1:])])
    rng = random.Random(5)
    for _ in range(150):
        size = {c: rng.randint(1, 3) for c in "abcde"}
        left = ["".join(rng.sample("abcde", rng.randint(0, 3))) for _ in range(rng.randint(1, 3))]
        used = sorted(set("".join(left)))
        right = "".join(rng.sample(used, rng.randint(0, len(used))))
        text = ",".join(left) + ("->" + right if rng.random() < .8 else "")
        x = [r(*[size[c] for c in s]) for s in left]
        whole = [(t * 4).to(torch.int32) for t in x]
        call("einsum", lambda x, text: torch.einsum(text, *x), x, text)
        call("einsum", lambda x, text: torch.einsum(text, *x), whole, text, grad=False)


def random_key(rng, shape):
    """Returns a random expression for x[...]. All index tensors have the same number of elements."""
    items, d, count = [], 0, rng.choice([0, 1, 2, 3])
    while d < len(shape) and rng.random() < .85:
        n, kind = shape[d], rng.random()
        d += kind >= .1
        if kind < .1:
            items.append(None)
        elif kind < .35:
            items.append(rng.randint(-n, n - 1))
        elif kind < .7 or count == 0:
            ends = sorted(rng.sample(range(n + 1), 2))
            items.append(slice(ends[0], ends[1], rng.choice([None, 1, 2])))
        else:
            items.append(torch.tensor([rng.randint(-n, n - 1) for _ in range(count)]))
    if rng.random() < .2:
        items.insert(rng.randint(0, len(items)), Ellipsis)
    return tuple(items)


def indexing(call, r):
    def get(x, key):
        return x[key]

    def put(x, key, v):
        x = x.clone()
        x[key] = v
        return x
    t, every = torch.tensor, slice(None)
    keys = [t([True, False]), (every, t([True, False, True])), t([False, False]), r(2, 3) < 9,
            r(2, 3, 4) > 0, (0, t([True, False, True])), t(1), (t(1), slice(1, 3)), t([], dtype=torch.int64), (0, 0, 0, 0),
            (0, 5), t([2]), (t([0, 1]), t([0, 1, 2])), t([True] * 3), (t([[0], [1]]), t([[0, 2]])),
            (t([1, 0]), every, t([3, 0])), (Ellipsis, t([-1, 0])), (slice(-2, None), every, slice(-3, -1))]
    rng = random.Random(6)
    keys += [random_key(rng, (2, 3, 4)) for _ in range(200)]
    for i, key in enumerate(keys):
        x = r(2, 3, 4) if i % 2 else r(4, 3, 2).permute(2, 1, 0)
        call("__getitem__", get, x, key)
        call("__getitem__", get, (x * 9).long(), key, grad=False)
        for v in (2.5, 3, r(4), t(7), r(2, 1, 1), r(5)):
            call("__setitem__", put, x, key, v)
        call("__setitem__", put, (x * 9).to(torch.int16), key, 2.5, grad=False)


def printing(call, r):
    """Writes calls that compare tostring(x) with repr(x)."""
    nan, inf = float("nan"), float("inf")
    values = [[], [0.], [1., 2, 3], [1e10, 1], [1e-5, 1], [1.5, -2], [nan, 1.], [inf, -1], [1e8, 2e8],
              [123456789.], [.00012], [1000.5], [-0., 0], [99999., .5], [1e5, 1e-3], [nan, nan], [1e-40],
              [3.4e38]]
    for v, d in itertools.product(values, FLOATS):
        call("__repr__", repr, torch.tensor(v, dtype=d), grad=False)
        if len(v) == 1:
            call("__repr__", repr, torch.tensor(v[0], dtype=d), grad=False)
    for s in ((3, 4), (1001,), (2, 1000), (30, 40), (2, 3, 4), (5, 0), (0, 2, 3), (2, 2, 2, 2), (60, 60),
              (1, 100), (7, 3, 50)):
        for scale in (1, 1e3, 1e-3, 1e6):
            call("__repr__", repr, r(*s) * scale, grad=False)
            call("__repr__", repr, (r(*s) * scale).to(torch.int64), grad=False)
    for d in DTYPES:
        call("__repr__", repr, (r(2, 5) * 3).to(d), grad=False)
        call("__repr__", repr, (r(5, 2) * 3).to(d).t(), grad=False)


def mixed(call, r):
    base, other = torch.tensor([1., 2, 3, 0, 5, 7]), torch.tensor([2., 3, 1, 1, 2, 4])
    for n in BINARY:
        f, inplace = getattr(torch, n), getattr(T, n + "_", None)
        for a, b in itertools.product(DTYPES, DTYPES):
            if a != b:
                call(n, f, base.to(a), other.to(b), grad=False)
                call(n, f, base.to(a), other.to(b)[0], grad=False)
                if inplace:
                    call(n, inplace, base.to(a), other.to(b), form="i", grad=False)
        for a, v in itertools.product(DTYPES, (2, 2.5, True, -1)):
            call(n, f, base.to(a), v, grad=False)
            if inplace:
                call(n, inplace, base.to(a), v, form="i", grad=False)
        for s, t in (((), ()), ((0,), (1,)), ((2, 0, 3), (3,)), ((3, 1), (1, 4)), ((3,), (2,)), ((0,), (2,))):
            call(n, f, r(*s), r(*t), grad=False)


def ties(call, r):
    """Writes calls on tensors with equal elements and NaN."""
    g = torch.Generator().manual_seed(9)
    dtypes = (torch.float32, torch.int64, torch.uint8, torch.bool)
    for s, d in itertools.product(((7,), (3, 5), (4, 1, 6)), dtypes):
        x = torch.randint(0, 2 if d == torch.bool else 3, s, generator=g).to(d)
        if d == torch.float32 and len(s) == 2:
            x[1, 2] = float("nan")
        for n in "max min mode median cummax cummin argmax argmin".split():
            call(n, getattr(torch, n), x, -1)
        for n, down in itertools.product(("sort", "argsort"), (False, True)):
            call(n, getattr(torch, n), x, dim=0, descending=down, stable=True)
        for n in ("unique", "unique_consecutive"):
            call(n, getattr(torch, n), x, return_inverse=True, return_counts=True)
            call(n, getattr(torch, n), x, return_inverse=True, return_counts=True, dim=0)
        call("topk", torch.topk, x, 2, -1)
        call("kthvalue", torch.kthvalue, x, 1, -1)
        call("isin", torch.isin, x, x.flatten()[:2])


PARTS = [pooling, products, indexing, printing, mixed, ties, sparse.calls]


def write(part, folder, only, writer):
    g = torch.Generator().manual_seed(3)

    def r(*sizes):
        return torch.randn(sizes, generator=g)

    def call(name, fn, *args, form="f", grad=True, tag="", **kw):
        if only and name not in only:
            return
        dtype = next((x.dtype for x in args if isinstance(x, torch.Tensor)), torch.float32)
        with writer(folder, name) as w:
            w.call(form, fn, args, kw, dtype, ("more " + tag).strip())
            if grad:
                def up(x):
                    wide = x.dtype in (torch.float32, torch.float64)
                    return x.detach().clone().double().requires_grad_() if wide else x
                w.call(form, fn, *each(up, (args, kw)), torch.float64, ("more gradient " + tag).strip(), True)
    part(call, r)
