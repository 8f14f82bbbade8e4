"""Measures what bench.lua measures, with PyTorch Geometric:

   python3 rocks/graphs/spec/bench.py gcn|gcn_cached|sage|gat [steps]
"""
import sys
import time

import torch
from torch_geometric import nn

torch.set_num_threads(1)
torch.manual_seed(1)
kind = sys.argv[1] if len(sys.argv) > 1 else 'gcn'
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
nodes, edges, width, classes = 100000, 1000000, 64, 16
edge_index = torch.randint(0, nodes, (2, edges))
x, y = torch.randn(nodes, width), torch.randint(0, classes, (nodes,))
options = {'cached': True} if kind == 'gcn_cached' else {}
Model = {'gcn': nn.GCN, 'gcn_cached': nn.GCN, 'sage': nn.GraphSAGE, 'gat': nn.GAT}[kind]
model = Model(width, width, 2, classes, **options)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def status(name):
    with open('/proc/self/status') as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name + ':'))


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
    loss.backward()
    optimizer.step()
    return loss.item()


with open('/proc/self/clear_refs', 'w') as file:
    file.write('5')
before = status('VmRSS')
begin = time.process_time()
step()
first = time.process_time() - begin
times = []
for _ in range(steps):
    begin = time.process_time()
    step()
    times.append(time.process_time() - begin)
times.sort()
print('%s: %.0f ms a step, the first %.0f ms; %.0f MB' %
      (kind, 1e3 * times[(steps - 1) // 2], 1e3 * first, status('VmHWM') - before))
