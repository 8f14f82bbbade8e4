"""Writes promotion.inc: what torch.result_type gives for every pair of operands.

python3 promotion.py > promotion.inc

Operands in order: a tensor with dimensions of each dtype, a 0-d tensor of each
dtype, and the numbers true, 1 and 1.5. A digit is a dtype's place in TL_DTYPES.
"""
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool]

operands = ([torch.zeros(2, dtype=t) for t in DTYPES] + [torch.zeros((), dtype=t) for t in DTYPES]
            + [True, 1, 1.5])
print("/* written by promotion.py with PyTorch %s */" % torch.__version__)
for a in operands:
    print('"%s",' % "".join(str(DTYPES.index(torch.result_type(a, b))) for b in operands))
