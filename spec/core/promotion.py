"""Writes promotion.inc: what torch.result_type gives for every pair of operands.

python3 promotion.py > promotion.inc

Operands in order: a tensor with dimensions of each dtype, a 0-d tensor of each
dtype, and the numbers true, 1, 1.5 and 1i. A dtype is written as the character at its place in
TL_DTYPES and, behind it, TL_STORED_DTYPES, counted from "0"; "x" stands for an error. Where
PyTorch has complex numbers of 16-bit parts, tlua has complex64.
"""
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64,
          torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz,
          torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.uint16, torch.uint32, torch.uint64]

operands = ([torch.zeros(2, dtype=t) for t in DTYPES] + [torch.zeros((), dtype=t) for t in DTYPES]
            + [True, 1, 1.5, 1j])


def promoted(a, b):
    try:
        return torch.result_type(a, b)
    except RuntimeError:
        return None


def digit(dtype):
    if dtype is None:
        return "x"
    dtype = torch.complex64 if dtype.is_complex and dtype not in DTYPES else dtype
    return chr(ord("0") + DTYPES.index(dtype))


print("/* written by promotion.py with PyTorch %s */" % torch.__version__)
for a in operands:
    print('"%s",' % "".join(digit(promoted(a, b)) for b in operands))
