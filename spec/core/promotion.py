"""Writes promotion.inc: what torch.result_type gives for every pair of operands.

python3 promotion.py > promotion.inc

Operands in order: a tensor with dimensions of each dtype, a 0-d tensor of each
dtype, and the numbers true, 1, 1.5 and 1i. A dtype is written as the character at its place in
TL_DTYPES, counted from "0". Where PyTorch has complex numbers of 16-bit
parts, tlua has complex64.
"""
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64,
          torch.complex128]

operands = ([torch.zeros(2, dtype=t) for t in DTYPES] + [torch.zeros((), dtype=t) for t in DTYPES]
            + [True, 1, 1.5, 1j])


def digit(dtype):
    dtype = torch.complex64 if dtype.is_complex and dtype not in DTYPES else dtype
    return chr(ord("0") + DTYPES.index(dtype))


print("/* written by promotion.py with PyTorch %s */" % torch.__version__)
for a in operands:
    print('"%s",' % "".join(digit(torch.result_type(a, b)) for b in operands))
