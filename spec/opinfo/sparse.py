"""Makes calls with sparse tensors for calls.py: the database's sparse inputs if an operator has any, otherwise sparse
copies of its dense inputs, and operators that the database has only for dense tensors."""
import functools

import torch

from lua import each

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
DTYPES = {torch.float32: 20, torch.float64: 20, torch.int64: 8, torch.bool: 4, torch.complex64: 8, torch.bfloat16: 4}
PLAIN = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def is_sparse(t):
    return isinstance(t, torch.Tensor) and t.layout in LAYOUTS


def components(t):
    """Returns the positions and the values of t, which share memory with t."""
    if t.layout == torch.sparse_coo:
        return [t._indices()], t._values()
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices()], t.values()
    return [t.ccol_indices(), t.row_indices()], t.values()


def positions(t):
    """Returns a mask of the positions of t."""
    of, values = components(t.detach())
    ones = torch.ones_like(values, dtype=torch.float64)
    if t.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(of[0], ones, t.shape).to_dense() != 0
    return torch.sparse_compressed_tensor(*of, ones, t.shape, layout=t.layout).to_dense() != 0


def gradient(g, t):
    """Returns the gradient g of a leaf t as a dense tensor; for a sparse leaf, only at the leaf's positions."""
    g = g.to_dense() if is_sparse(g) else g
    if not is_sparse(t):
        return g
    return torch.where(positions(t), g, torch.zeros_like(g))


def in_order(t):
    """Sorts the columns within each row of a result, since PyTorch's CPU does not always sort them."""
    if not is_sparse(t) or t.layout != torch.sparse_csr or t.ndim != 2 or t.requires_grad:
        return t
    coo = t.to_sparse()
    return torch.sparse_coo_tensor(coo._indices(), coo._values(), t.shape).coalesce().to_sparse_csr()


def block(size):
    return tuple(2 if n % 2 == 0 and n > 0 else 1 for n in size)


def converted(t, layout):
    """Returns t in a sparse layout, or None if t cannot have the layout."""
    if layout == torch.sparse_coo:
        return t.to_sparse() if t.ndim else None
    if t.ndim != 2:
        return None
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        return t.to_sparse(layout=layout, blocksize=block(t.shape)) if t.numel() else None
    return t.to_sparse(layout=layout)


def with_zeros(t):
    t = t.detach().clone()
    flat = t.reshape(-1)
    flat[::3] = 0
    return flat.reshape(t.shape)


def samples(op, layout, dtype):
    """Returns a list with the arguments and the named arguments of each call; the first argument is sparse."""
    torch.manual_seed(3)
    try:
        return [((s.input,) + tuple(s.args), dict(s.kwargs)) for s in op.sample_inputs_sparse(layout, "cpu", dtype)]
    except Exception:
        found = []
        for s in op.sample_inputs("cpu", dtype):
            sparse = converted(with_zeros(s.input), layout) if isinstance(s.input, torch.Tensor) else None
            if sparse is not None:
                found.append(((sparse,) + tuple(s.args), dict(s.kwargs)))
        return found


def write_operator(w, op, fn, extra, how, spread):
    for layout in LAYOUTS:
        if not op.supports_sparse_layout(layout):
            continue
        for dtype, count in DTYPES.items():
            if dtype not in op.dtypes:
                continue
            for a, k in spread(samples(op, layout, dtype), count):
                k.update(extra)
                k = {n: v for n, v in k.items() if not (n == "layout" and v in (None, layout))}
                tag = str(layout).partition(".")[2]
                w.call(how, fn, a, k, dtype, tag)
                if dtype == torch.float64 and op.supports_autograd:
                    w.call(how, fn, *each(lambda t: t.detach().clone().requires_grad_() if t.is_floating_point() else t,
                                          (a, k)), dtype, tag + " gradient", True)


def matrices(r, dtype):
    """Returns sparse matrices of several layouts, with the names of the layouts."""
    for layout in LAYOUTS:
        for size in ((3, 4), (4, 2), (1, 5), (2, 0)):
            s = converted(with_zeros(r(*size).to(dtype)), layout)
            if s is not None:
                yield str(layout).partition(".")[2], s


def calls(call, r):
    """Makes calls for more.write: operators on sparse tensors of all layouts that PyTorch accepts."""
    def both(name, fn, *args, tag="", **kw):
        call(name, fn, *args, tag=tag, **kw)
    for dtype in (torch.float64, torch.float32, torch.complex64):
        for tag, s in matrices(r, dtype):
            n, m = s.shape
            for name in "csr csc coo".split():
                both("to_sparse_" + name, getattr(torch.Tensor, "to_sparse_" + name), s, tag=tag, form="m", grad=False)
            both("to_dense", torch.Tensor.to_dense, s, tag=tag, form="m")
            both("to_sparse", torch.Tensor.to_sparse, s, tag=tag, form="m", grad=False)
            both("t", torch.t, s, tag=tag, grad=False)
            both("transpose", torch.transpose, s, 0, 1, tag=tag, grad=False)
            both("clone", torch.clone, s, tag=tag)
            both("add", torch.add, s, s * 2, tag=tag)
            both("sub", torch.sub, s, s * 2, tag=tag)
            both("add", torch.add, r(n, m).to(dtype), s, tag=tag)
            both("mul", torch.mul, s, 2.5, tag=tag)
            both("div", torch.div, s, 2.5, tag=tag)
            both("neg", torch.neg, s, tag=tag)
            both("matmul", torch.matmul, s, r(m, 3).to(dtype), tag=tag)
            both("mv", torch.mv, s, r(m).to(dtype), tag=tag)
            both("addmm", torch.addmm, r(n, 2).to(dtype), s, r(m, 2).to(dtype), tag=tag, beta=0.5, alpha=2.0)
            both("matmul", torch.matmul, r(2, n).to(dtype), s, tag=tag)
            both("sparse.mm", torch.sparse.mm, s, r(m, 3).to(dtype), tag=tag)
            both("sparse.mm", torch.sparse.mm, s, s.t().to_sparse_csr() if tag == "sparse_csr" else s.t(), tag=tag)
            both("sparse.addmm", torch.sparse.addmm, r(n, 2).to(dtype), s, r(m, 2).to(dtype), tag=tag, alpha=3.0)
            both("sum", torch.sum, s, tag=tag)
            both("select", torch.select, s, 0, 0, tag=tag, grad=False)
            for dim in (0, 1):
                both("sparse.softmax", torch.sparse.softmax, s, dim, tag=tag)
                both("sparse.log_softmax", torch.sparse.log_softmax, s, dim, tag=tag)
                both("sparse.sum", torch.sparse.sum, s, dim, tag=tag)
    coo(call, r)
    batches(call, r)


def coo(call, r):
    """Makes calls with sparse_coo tensors that are hybrid, have duplicate positions, or are not matrices."""
    twice = torch.sparse_coo_tensor([[1, 0, 1, 2], [2, 0, 2, 1]], r(4), (3, 4))
    hybrid = torch.sparse_coo_tensor([[1, 0, 2]], r(3, 2), (3, 2))
    cube = with_zeros(r(2, 3, 4)).to_sparse()
    call = functools.partial(call, tag="sparse_coo")
    for s in (twice, hybrid, cube, twice.coalesce(), with_zeros(r(2, 3, 4)).to_sparse(2)):
        for name in "neg abs sin sqrt sgn relu sign isnan expm1".split():
            call(name, getattr(torch, name), s)
        call("coalesce", torch.Tensor.coalesce, s, form="m")
        call("to_dense", torch.Tensor.to_dense, s, form="m")
        call("add", torch.add, s, s)
        call("add", torch.add, r(*s.shape), s, alpha=2.0)
        call("mul", torch.mul, s, s)
        call("mul", torch.mul, s, r(*s.shape))
        call("cat", torch.cat, [s, s], 0)
        call("cat", torch.cat, [s, s], -1)
        call("stack", torch.stack, [s, s], 0)
        call("norm", torch.norm, s)
        call("permute", torch.permute, s, tuple(range(s.ndim)), grad=False)
        for d in range(s.ndim):
            call("unsqueeze", torch.unsqueeze, s, d, grad=False)
            call("select", torch.select, s, d, 1, grad=False)
            call("narrow", torch.narrow, s, d, 0, 2, grad=False)
            call("index_select", torch.index_select, s, d, torch.tensor([1, 0, 1]), grad=False)
            call("sparse.sum", torch.sparse.sum, s, d)
            call("sparse.softmax", torch.sparse.softmax, s, d)
    call("bmm", torch.bmm, cube, r(2, 4, 5))
    for options in ((2, 3), (torch.sparse_csr,)):
        call("sparse.spdiags", torch.sparse.spdiags, r(2, 3), torch.tensor([0, -1]), (3, 3), grad=False)


def batches(call, r):
    x = torch.tensor([[[0, 1., 2], [3, 0, 0]], [[1, 0, 0], [0, 2, 3]]])
    for dtype in (torch.float64, torch.float32, torch.int64):
        y = x.to(dtype)
        for name, args in (("csr", ()), ("csc", ()), ("bsr", ((1, 3),)), ("bsc", ((2, 1),))):
            convert = getattr(torch.Tensor, "to_sparse_" + name)
            tag = "sparse_" + name
            s = convert(y, *args)
            call("to_sparse_" + name, convert, y, *args, form="m", tag=tag, grad=False)
            call("to_sparse_" + name, convert, y[:0], *args, form="m", tag=tag, grad=False)
            call("to_sparse_" + name, convert, torch.stack([y, -y]), *args, form="m", tag=tag, grad=False)
            if not args:
                call("to_sparse_" + name, convert, y, dense_dim=1, form="m", tag=tag, grad=False)
            call("to_dense", torch.Tensor.to_dense, s, form="m", tag=tag, grad=False)
            call("to_sparse", torch.Tensor.to_sparse, s, form="m", tag=tag, grad=False)
            call("neg", torch.neg, s, tag=tag, grad=False)
            call("add", torch.add, s, s, tag=tag, grad=False)
            call("sum", torch.sum, s, tag=tag, grad=False)
            call("transpose", torch.transpose, s, 1, 2, tag=tag, grad=False)
            call("transpose", torch.transpose, s, 0, 1, tag=tag, grad=False)
            call("select", torch.select, s, 0, 1, tag=tag, grad=False)
            call("zeros_like", torch.zeros_like, s, tag=tag, grad=False)
