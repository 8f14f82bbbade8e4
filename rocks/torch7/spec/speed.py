"""Prints the times of the rows of speed.lua in PyTorch's nn, in milliseconds of processor time."""
import time

import torch
from torch import nn

torch.set_num_threads(1)


def median(step, n):
    for _ in range(3):
        step()
    times = []
    for _ in range(n):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return sorted(times)[(n - 1) // 2] * 1e3


class Cell(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.x = nn.Linear(count, 4 * size)
        self.h = nn.Linear(size, 4 * size)
        self.out = nn.Linear(size, count)

    def forward(self, x, c, h):
        i, f, o, g = (self.x(x) + self.h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return c, h, torch.log_softmax(self.out(h), 1)


def char_rnn(count, size, seq, batch, n):
    model, loss_of = Cell(count, size), nn.NLLLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.002, alpha=0.95)
    xs = [torch.randn(batch, count) for _ in range(seq)]
    ys = [torch.randint(0, count, (batch,)) for _ in range(seq)]

    def step():
        optimizer.zero_grad()
        c, h, loss = torch.zeros(batch, size), torch.zeros(batch, size), 0
        for x, y in zip(xs, ys):
            c, h, out = model(x, c, h)
            loss = loss + loss_of(out, y)
        (loss / seq).backward()
        for p in model.parameters():
            p.grad.clamp_(-5, 5)
        optimizer.step()
        return loss.item()

    return median(step, n)


def lenet(batch, n):
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.Tanh(), nn.MaxPool2d(3, 3, 1), nn.Conv2d(32, 64, 5), nn.Tanh(),
        nn.MaxPool2d(2, 2), nn.Flatten(), nn.Linear(576, 200), nn.Tanh(), nn.Linear(200, 10),
        nn.LogSoftmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss_of = nn.NLLLoss()
    x, y = torch.randn(batch, 1, 32, 32), torch.randint(0, 10, (batch,))

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return median(step, n)


print(char_rnn(28, 32, 12, 4, 60))
print(char_rnn(65, 128, 50, 50, 9))
print(lenet(1, 300))
print(lenet(10, 60))
print(lenet(64, 20))
