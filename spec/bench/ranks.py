"""Runs the rows of ranks.lua in PyTorch with gloo, on two ranks."""

import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn


def measure(name, n, fn):
    seconds = []
    for _ in range(n + 3):
        dist.barrier()
        start = time.perf_counter()
        fn()
        seconds.append(time.perf_counter() - start)
    seconds = sorted(seconds[3:])
    if dist.get_rank() == 0:
        print(f"row {name} {seconds[n // 2]:.9f}", flush=True)


def main(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29655")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for name, numel, n in (("all_reduce_4KB", 1 << 10, 400), ("all_reduce_1MB", 1 << 18, 60),
                           ("all_reduce_64MB", 1 << 24, 7)):
        t = torch.ones(numel)
        measure(name, n, lambda: dist.all_reduce(t, dist.ReduceOp.MAX))
        t.fill_(0)
        measure(name + "_sum", n, lambda: dist.all_reduce(t))
    images, classes = torch.rand(32, 1, 8, 8), torch.randint(0, 10, (32,))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10)))
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    def step():
        adam.zero_grad()
        criterion(model(images), classes).backward()
        adam.step()

    measure("ddp_step_digits", 60, step)

    block = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True)
    gpt = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Embedding(256, 128), nn.TransformerEncoder(block, 4), nn.Linear(128, 256)))
    tokens, following = torch.randint(0, 256, (4, 64)), torch.randint(0, 256, (4 * 64,))
    adamw = torch.optim.AdamW(gpt.parameters(), lr=1e-3)

    def train():
        adamw.zero_grad()
        criterion(gpt(tokens).view(-1, 256), following).backward()
        adamw.step()

    measure("ddp_step_gpt", 20, train)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
