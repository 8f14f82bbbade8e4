#!/usr/bin/env python3
"""Writes modules, optimizers and schedules of PyTorch 2 with their results, for spec/opinfo/modules.lua.

    python3 spec/opinfo/modules.py FOLDER [names]

The modules are those of PyTorch's own tests (module_db), with their constructors' arguments, weights,
inputs, results and gradients, and those that module_db lacks (MORE); the optimizers those of optim_db, 20
steps each. FOLDER/modules/NAME.lua, optimizers/NAME.lua and schedules/NAME.lua have one case in each line.
FOLDER/names.lua has the public names; with "names", only this file is written. All random numbers are seeded.
The program takes three minutes.
"""
import copy
import functools
import inspect
import os
import sys
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
warnings.simplefilter("ignore")
sys.dont_write_bytecode = True
import expect

import torch
import torch.utils.checkpoint
import torch.utils.data
import torch.utils.flop_counter
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, rnn
from torch.testing._internal import common_modules, common_optimizers
from torch.testing._internal.common_modules import FunctionInput, ModuleInput

from lua import Unwritable, each, lua, number, tensor

MODULES = vars(nn)
SIZE = [200000]
POSITIONS = {  # parameters that are positions; those of forward begin with a dot, all others are constructors'
    "dim": "dim", "start_dim": "dim", "end_dim": "dim", "padding_idx": "at", "blank": "at",
    "ignore_index": "at", ".target": "label", ".target_": "label", ".targets": "label", ".indices": "label",
    ".offsets": "label"}
LABELS = ("NLLLoss", "CrossEntropyLoss", "MultiMarginLoss", "MultiLabelMarginLoss", "CTCLoss",
          "AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss")
RECORDED = {}  # maps the id of a module to its class and arguments


def record(cls):
    original = cls.__init__

    @functools.wraps(original)
    def init(self, *args, **kw):
        RECORDED.setdefault(id(self), (self, cls, args, kw))
        original(self, *args, **kw)
    cls.__init__ = init


torch.set_num_threads(1)
for c in {id(c): c for c in MODULES.values()}.values():
    if inspect.isclass(c) and issubclass(c, nn.Module) and "__init__" in vars(c):
        record(c)

from more_modules import MORE, SCHEDULES


def kind_of(name, param, forward):
    if forward:
        if name in ("Embedding", "EmbeddingBag") and param == "input":
            return "label"
        kind = POSITIONS.get("." + param)
        return None if param.startswith("target") and name not in LABELS else kind
    return POSITIONS.get(param)


def value(v, kind):
    """Writes a value in Lua: modules by their classes and arguments, functions by their names."""
    if isinstance(v, nn.Module):
        _, cls, args, kw = RECORDED[id(v)]
        return 'M("%s",%s)' % (cls.__name__, arguments(cls.__name__, cls.__init__, args, kw, False))
    if callable(v) and not isinstance(v, torch.Tensor):
        return 'F("%s")' % v.__name__
    if isinstance(v, nn.utils.rnn.PackedSequence):
        return "P(%s)" % tensor(v.data, None, SIZE[:])
    if isinstance(v, (list, tuple)) and any(isinstance(e, (torch.Tensor, nn.Module)) for e in v):
        return "{%s}" % ",".join(value(e, kind) for e in v)
    if kind == "label" and isinstance(v, torch.Tensor) and v.is_floating_point():
        kind = None
    return lua(v, kind, SIZE[:])


def arguments(name, fn, args, kw, forward):
    """Returns {n=...}, {{name, value}, ...}. Keyword arguments without a default are passed by position, as in tlua."""
    names = [p for p in inspect.signature(fn).parameters if p != "self"]
    params = inspect.signature(fn).parameters
    args, kw = list(args), dict(kw)
    while len(args) < len(names) and names[len(args)] in kw and (
            params[names[len(args)]].default is inspect.Parameter.empty):
        args.append(kw.pop(names[len(args)]))
    kw = {n: v for n, v in kw.items() if n not in ("device", "dtype")}
    kw = {n: False if v is None else v for n, v in kw.items()
          if v is not None or n in params and params[n].default not in (None, inspect.Parameter.empty)}
    kinds = [kind_of(name, n, forward) for n in names] + [None] * len(args)
    args = [False if v is None and n in params and params[n].default not in (
        None, inspect.Parameter.empty) else v for n, v in zip(names + [""] * len(args), args)]
    return "{%sn=%d},{%s}" % (
        "".join(value(v, k) + "," for v, k in zip(args, kinds)), len(args),
        ",".join('{"%s",%s}' % (n, value(v, kind_of(name, n, forward))) for n, v in kw.items()))


def text(s):
    return lua(s, None, SIZE)


def state(named):
    """Writes a state as {[path]=tensor}. Numbers in paths count from 1."""
    def path(p):
        return ".".join(str(int(s) + 1) if s.isdigit() else s for s in p.split("."))
    return "{%s}" % ",".join('["%s"]=%s' % (path(n), tensor(t, None, SIZE[:])) for n, t in named if t is not None)


def weighted(results):
    total = 0
    for k, r in enumerate(results):
        if isinstance(r, torch.Tensor) and r.requires_grad:
            steps = torch.arange(r.numel(), dtype=torch.float64)
            total = total + (r.double() * torch.cos(steps * 1.3 + 0.5 * k + 0.2).reshape(r.shape)).sum()
    return total


def flat(v):
    if isinstance(v, nn.utils.rnn.PackedSequence):
        return [v.data]
    if isinstance(v, (list, tuple)):
        return [e for x in v for e in flat(x)]
    return [v]


def leaves(v):
    found = []
    each(lambda t: found.append(t) if t.requires_grad else None, v)
    return found


def exact(module, args, kw):
    """Returns results and gradients of the same call in float64, or none if that is not possible."""
    def double(t):
        return t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t
    try:
        return run(module.double(), each(double, list(args)), each(double, kw))
    except Exception:
        return [], []


def run(module, args, kw):
    results = flat(module(*args, **kw))
    found = leaves([args, kw])
    total = weighted(results)
    if isinstance(total, torch.Tensor):
        total.backward()
    return results, [t.grad for t in found]


def module_case(cls, sample, dtype, training):
    name, made, given = cls.__name__, sample.constructor_input, sample.forward_input
    if given is not None:  # makes leaves of the inputs
        given = FunctionInput(*(each(lambda t: t.detach().requires_grad_(t.requires_grad), a) for a in given.args), **{
            n: each(lambda t: t.detach().requires_grad_(t.requires_grad), a) for n, a in given.kwargs.items()})
    factory = "dtype" in inspect.signature(cls.__init__).parameters
    kw = dict(made.kwargs)
    if factory:
        kw["dtype"] = dtype
    torch.manual_seed(3)
    kw = each(lambda t: t.detach(), kw)
    module = cls(*each(lambda t: t.detach(), list(made.args)), **kw).train(training).to(dtype)
    head = 'name="%s",desc=%s,dtype="%s",training=%s' % (name, text(sample.desc), str(dtype)[6:], number(training))
    head += ",a={%s}" % arguments(
        name, cls.__init__, *each(lambda t: t.detach(), [list(made.args), made.kwargs]), False)
    if given is None:
        return "{%s}" % head
    detached = [each(lambda t: t.detach().clone(), v) for v in (given.args, given.kwargs)]
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        module(*detached[0], **detached[1])
    if any(b.numel() for b in module.buffers()):
        with torch.no_grad():
            for n, b in module.named_buffers():
                if n.endswith("running_mean") or n.endswith("running_var"):
                    b.uniform_(0.5, 1.5)
    before = state(module.state_dict(keep_vars=False).items())
    inputs = arguments(name, cls.forward, given.args, given.kwargs, True)
    twin = copy.deepcopy(module) if dtype == torch.float32 else None
    torch.manual_seed(4)
    first = run(module, given.args, given.kwargs)
    after = state(module.named_buffers())
    grads = state((n, p.grad) for n, p in module.named_parameters())
    torch.manual_seed(5)
    again = flat(module(*detached[0], **detached[1]))
    random = training and any(
        isinstance(a, torch.Tensor) and not torch.allclose(a, b, equal_nan=True)
        for a, b in zip(first[0], again))
    at = ["at" if k and getattr(module, "return_indices", False) else None for k in range(len(first[0]))]
    line = "{%s,f={%s},w=%s,r=%s,g=%s,gw=%s,after=%s,random=%s" % (
        head, inputs, before, listed(first[0], at), listed(first[1]), grads, after, number(random))
    if twin and not random:
        results, grads = exact(twin, given.args, given.kwargs)
        line += ",x=%s,gx=%s,gwx=%s" % (
            listed(results, at), listed(grads), state((n, p.grad) for n, p in twin.named_parameters()))
    return line + "}"


def listed(values, kinds=()):
    kinds = list(kinds) + [None] * len(values)
    return "{%sn=%d}" % ("".join(lua(v, k, SIZE[:]) + "," for v, k in zip(values, kinds)), len(values))


def error_case(cls, sample, dtype):
    entry = sample.module_error_input
    if any(isinstance(a, float) and a.is_integer() for a in (
            *entry.constructor_input.args, *entry.constructor_input.kwargs.values())):
        raise Unwritable("3.0 is a whole number in Lua")
    made, given = entry.constructor_input, entry.forward_input
    line = 'name="%s",desc=%s,dtype="%s",e=true,a={%s}' % (
        cls.__name__, text(entry.desc), str(dtype)[6:],
        arguments(cls.__name__, cls.__init__, made.args, made.kwargs, False))
    if given is not None:
        line += ",f={%s}" % arguments(cls.__name__, cls.forward, given.args, given.kwargs, True)
    return "{%s}" % line


def write(folder, name, lines):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + ".lua"), "w") as file:
        file.writelines(line + "\n" for line in lines)


def attempt(lines, fn, *args):
    try:
        lines.append(fn(*args))
    except Unwritable:
        pass
    except Exception as fault:  # PyTorch itself fails for this case
        print("left out: %s: %s" % (args[0].__name__, str(fault).split("\n")[0]), file=sys.stderr)


def modules(folder):
    samples = {}
    for info in common_modules.module_db:
        if info.name.startswith("nn.") and "." not in info.name[3:]:
            samples[info.name[3:]] = info
    for name in sorted(set(samples) | set(MORE)):
        cls, lines, info = MODULES[name], [], samples.get(name)
        for dtype in (torch.float32, torch.float64):
            for training in (True, False):
                torch.manual_seed(1)
                cases = list(info.module_inputs_func(info, "cpu", dtype, True, training)) if info else []
                cases += [ModuleInput(FunctionInput(*a, **ak), FunctionInput(*f, **fk), "more")
                          for a, ak, f, fk in MORE.get(name, lambda make: [])(
                              lambda *s: torch.rand(*s, dtype=dtype).mul_(2).sub_(1).requires_grad_())]
                for sample in cases:
                    attempt(lines, module_case, cls, sample, dtype, training)
            if info and info.module_error_inputs_func:
                for sample in info.module_error_inputs_func(info, "cpu", dtype, False, True):
                    attempt(lines, error_case, cls, sample, dtype)
        write(os.path.join(folder, "modules"), name, lines)


SHAPES = ((3, 4), (4, 1), (2, 5))


def parameters(dtype):
    torch.manual_seed(2)
    return [torch.randn(s, dtype=dtype).requires_grad_() for s in SHAPES]


def closure_of(optimizer, params):
    def closure():
        optimizer.zero_grad()
        total = 0
        for i, p in enumerate(params):
            place = torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape) + i
            d = p.double() - torch.cos(place)
            total = total + (d * d * (1 + 0.3 * torch.sin(place))).sum()
        total.backward()
        return total
    return closure


def values(v):
    return number(v) if isinstance(v, (int, float)) else "{%s}" % ",".join(map(values, v)) \
        if isinstance(v, (list, tuple)) else lua(v, None, SIZE[:])


def options(kw):
    return "{%s}" % ",".join("%s=%s" % (n, "{false,%s}" % values(v[1]) if n == "eps" and isinstance(
        v, tuple) and v[0] is None else values(v)) for n, v in kw.items() if v is not None)


def optimizer_case(cls, sample, dtype):
    params = parameters(dtype)
    first = "".join(tensor(p, None, SIZE[:]) + "," for p in params)
    given = options(sample.kwargs)
    optimizer = cls(params, **sample.kwargs)
    closure = closure_of(optimizer, params)
    for _ in range(20):
        optimizer.step(closure)
    if not all((p.abs() < 1e30).all() for p in params):
        raise Unwritable("diverged, so that rounding decides")
    return '{name="%s",desc=%s,dtype="%s",p={%s},o=%s,r={%s}}' % (
        cls.__name__, text(sample.desc), str(dtype)[6:], first, given,
        "".join(tensor(p.detach(), None, SIZE[:]) + "," for p in params))


def optimizers(folder):
    for info in common_optimizers.optim_db:
        if info.only_supports_sparse_grads:
            continue
        lines = []
        for dtype in (torch.float32, torch.float64):
            for sample in info.optim_inputs_func("cpu", dtype):
                attempt(lines, optimizer_case, info.optim_cls, sample, dtype)
        for sample in info.optim_error_inputs_func("cpu", torch.float32):
            entry = sample.optimizer_error_input
            if entry.params is None and issubclass(sample.error_type, Exception):
                attempt(lines, lambda cls: '{name="%s",desc=%s,dtype="float32",e=true,o=%s}' % (
                    cls.__name__, text(entry.desc), options(entry.kwargs)), info.optim_cls)
        write(os.path.join(folder, "optimizers"), info.optim_cls.__name__, lines)


def rates(optimizer):
    return [[g["lr"], g.get("momentum", 0)] for g in optimizer.param_groups]


def schedules(folder):
    for name, rows in SCHEDULES.items():
        lines = []
        for text, make, steps in rows:
            groups = [{"params": p} for p in parameters(torch.float64)[:2]]
            groups[1]["lr"] = 0.5
            optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
            schedule, seen = make(optimizer), []
            for step in steps:
                optimizer.step()
                seen.append(rates(optimizer))
                schedule.step(*step)
            seen.append(rates(optimizer))
            lines.append('{name="%s",o=function(optimizer,S) return %s end,steps=%s,r=%s}' % (
                name, text, values(steps), values(seen)))
        write(os.path.join(folder, "schedules"), name, lines)


def names(folder):
    def public(place):
        own = getattr(place, "__all__", None) if inspect.ismodule(place) else dir(place)
        own = own or [n for n, v in vars(place).items() if (getattr(v, "__module__", None) or "").startswith("torch")]
        return [n for n in sorted(own) if not n.startswith("_") and not inspect.ismodule(getattr(place, n, None))]
    with open(os.path.join(folder, "names.lua"), "w") as file:
        for module in (nn, nn.init, nn.utils, torch.optim, torch.optim.lr_scheduler,
                       torch.optim.swa_utils, rnn, parametrize, parametrizations, prune, torch.utils.data,
                       torch.autograd, torch.autograd.graph, torch.func, torch.linalg, torch.special,
                       torch.random, torch.amp, torch.nn.attention, torch.compiler, torch.library,
                       torch.utils.checkpoint, torch.utils.flop_counter):
            file.write('{"%s",{%s}}\n' % (module.__name__[6:], ",".join('"%s"' % n for n in public(module))))
        # Each row has the path of a class, Lua code that makes an instance, and the class in Python.
        for path, make, cls in (
                ("Tensor", "torch.ones(2, 2)", torch.Tensor), ("Generator", "torch.Generator()", torch.Generator),
                ("nn.Module", "torch.nn.Module()", nn.Module),
                ("nn.Sequential", "torch.nn.Sequential()", nn.Sequential),
                ("nn.ModuleList", "torch.nn.ModuleList()", nn.ModuleList),
                ("nn.ModuleDict", "torch.nn.ModuleDict()", nn.ModuleDict),
                ("nn.ParameterList", "torch.nn.ParameterList()", nn.ParameterList),
                ("nn.ParameterDict", "torch.nn.ParameterDict()", nn.ParameterDict)):
            file.write('{"%s",{%s},"%s"}\n' % (path, ",".join('"%s"' % n for n in public(cls)), make))
        file.write('{"",{%s}}\n' % ",".join('"%s"' % n for n in public(torch)))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    names(folder)
    if sys.argv[2:] == ["names"]:
        return
    modules(folder)
    optimizers(folder)
    schedules(folder)


main()
