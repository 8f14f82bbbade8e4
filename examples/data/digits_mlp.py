#!/usr/bin/env python3
"""Writes digits_mlp.safetensors: a small network that PyTorch has trained on digits.csv, for
../transfer.lua; `expected` are its scores of the first three digits.

    python3 examples/data/digits_mlp.py        (made with PyTorch 2.15, safetensors 0.8)
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

here = pathlib.Path(__file__).parent
rows = torch.tensor([[int(n) for n in line.split(",")]
                     for line in (here / "digits.csv").read_text().split()])
x, digit = rows[:, :64].float() / 16, rows[:, 64]
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
for _ in range(300):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x[:1437]), digit[:1437]).backward()
    optimizer.step()
with torch.no_grad():
    print("accuracy:", (model(x[1437:]).argmax(1) == digit[1437:]).float().mean().item())
    state = dict(model.state_dict(), expected=model(x[:3]))
save_file(state, here / "digits_mlp.safetensors")
