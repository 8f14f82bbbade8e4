"""Writes promotion.inc: the results of torch.result_type for every pair of operands.

python3 promotion.py > promotion.inc

Operands in order: a tensor with dimensions of each dtype, a 0-d tensor of each
dtype, and the numbers true, 1, 1.5 and 1i. A dtype is written as the character at its place in
TL_DTYPES and, behind it, TL_STORED_DTYPES, counted from "0"; "x" stands for an error. Where
PyTorch makes complex32 from operands of other dtypes, tlua makes complex64.
"""
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64,
          torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz,
          torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.uint16, torch.uint32, torch.uint64,
          torch.complex32]

operands = ([torch.zeros(2, dtype=t) for t in DTYPES] + [torch.zeros((), dtype=t) for t in DTYPES]
            + [True, 1, 1.5, 1j])


def is_half(x):
    return isinstance(x, torch.Tensor) and x.dtype == torch.complex32


def promoted(a, b):
    try:
        dtype = torch.result_type(a, b)
    except RuntimeError:
        return "x"
    is_new = dtype not in DTYPES or dtype == torch.complex32 and not is_half(a) and not is_half(b)
    dtype = torch.complex64 if dtype.is_complex and is_new else dtype
    return chr(ord("0") + DTYPES.index(dtype))


print("/* written by promotion.py with PyTorch %s */" % torch.__version__)
for a in operands:
    print('"%s",' % "".join(promoted(a, b) for b in operands))
