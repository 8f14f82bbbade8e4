-- Tests `tlua port` on whole PyTorch programs. The translated programs must run, and must learn from generated data.

local port = require "spec.support.port"
local shell = require "spec.support.shell"
local tlua = shell.start(true)

-- Translates a program, runs it, and returns its output.
local function run(text)
   return shell.with_folder(function(folder)
      shell.write(folder .. "/script.py", text)
      return shell.ok(("cd %s && %s port script.py -o script.lua && %s script.lua"):format(
         shell.quote(folder), tlua, tlua))
   end)
end

local function loss_of(text)
   local output = run(text)
   return tonumber(output:match "loss ([%d.]+)") or error(output)
end

describe("a ported PyTorch program", function()
   if not port.python then
      pending("no Python of version 3.8 or later")
      return
   end

   it("prints, compares and cuts shapes", function()
      assert.equal([==[
torch.Size([4, 5]) torch.Size([4, 5]) 4 5 5 torch.Size([4]) torch.Size([5])
equal 2 4
torch.Size([4, 5]) shape: torch.Size([4, 5]) torch.Size([4, 5])
torch.Size([4, 5, 1]) torch.Size([4, 5, 3]) 20 torch.Size([4, 5])
]==], run [==[
import torch
x = torch.zeros(4, 5)
print(x.shape, x.size(), x.shape[0], x.shape[-1], x.size(-1), x.shape[:-1], x.shape[1:])
b, *rest = x.shape
if x.shape == torch.Size([4, 5]) and x.shape == (4, 5) and x.shape != (4, 6):
    print("equal", len(x.shape), b)
print(f"{x.shape}", "shape: {}".format(x.shape), "%s" % (x.shape,))
y = x.view(*x.shape[:-1], 5, 1)
print(y.shape, x.shape + (3,), x.shape.numel(), torch.Tensor(x.shape).shape)
assert x.shape == y.squeeze(-1).shape
]==])
   end)

   it("tests the truth of tensors, shapes and modules", function()
      assert.equal("no yes no no yes yes\n", run [==[
import torch
def test(x):
    if x:
        return "yes"
    return "no"
print(test(torch.zeros(1)), test(torch.ones(1, 1)), test(torch.tensor(2) > 3),
      test(torch.zeros([]).shape), test(torch.zeros(2, 0).shape), test(torch.nn.Linear(1, 1)))
]==])
   end)

   it("trains an MLP classifier from a DataLoader", function()
      assert.is_true(loss_of [==[
import argparse
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--lr", type=float, default=1e-2)
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self, hidden=32):
        super(Net, self).__init__()
        self.layers = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.layers(x).squeeze(1)


x = torch.randn(256, 2)
y = (x[:, 0] * x[:, 1] > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = Net(hidden=64).to(device)
optimizer = optim.Adam(model.parameters(), lr=args.lr)

def train(model, loader, epoch):
    model.train()
    for step, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(data), target)
        loss.backward()
        optimizer.step()

for epoch in range(1, args.epochs + 1):
    train(model, loader, epoch)
model.eval()
with torch.no_grad():
    output = model(x)
    accuracy = ((output > 0).float() == y).float().mean().item()
    loss = F.binary_cross_entropy_with_logits(output, y)
assert not model.training and accuracy > 0.9
print(f"loss {loss.item():.4f}")
]==] < 0.3)
   end)

   it("trains a conv net with batch norm and a schedule", function()
      assert.is_true(loss_of [==[
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)

def images(n):
    x = torch.rand(n, 1, 8, 8) * 0.1
    y = torch.zeros(n)
    for i in range(n):
        if i % 2 == 0:
            x[i, 0, 2:6, 3] += 1.0
        else:
            x[i, 0, 3, 2:6] += 1.0
            y[i] = 1
    return x, y

class Block(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.conv = nn.Conv2d(n_in, n_out, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(n_out)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))

class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(1, 4), Block(4, 8)])
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 2 * 2, 1)

    def forward(self, x):
        for block in self.blocks:
            x = self.pool(block(x))
        x = torch.flatten(x, 1)
        return self.head(x)

x, y = images(64)
model = ConvNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
losses = []
for epoch in range(20):
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(x).view(-1), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print("loss %.4f" % losses[-1])
]==] < 0.2)
   end)

   it("trains a recurrent net on sequences, carrying its state", function()
      assert.is_true(loss_of [==[
import math
import torch
from torch import nn

torch.manual_seed(2)

class Model(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.hidden = hidden
        self.rnn = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return (weight.new_zeros(1, batch, self.hidden), weight.new_zeros(1, batch, self.hidden))

    def forward(self, x, state):
        y, state = self.rnn(x, state)
        return self.out(y), state

def detached(state):
    return tuple(s.detach() for s in state)

t = torch.arange(0, 120).float() * (2 * math.pi / 20)
data = torch.sin(t).view(1, -1, 1)
model = Model()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
length = 30
for epoch in range(60):
    state = model.init_hidden(1)
    total = 0.0
    for i in range(0, data.size(1) - 1, length):
        n = min(length, data.size(1) - 1 - i)
        inputs = data[:, i:i + n]
        targets = data[:, i + 1:i + 1 + n]
        state = detached(state)
        output, state = model(inputs, state)
        loss = criterion(output, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
print("loss {:.4f}".format(total))
]==] < 0.2)
   end)

   it("trains a VAE whose forward has several results", function()
      assert.is_true(loss_of [==[
import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(3)

class VAE(nn.Module):
    def __init__(self, n=12, latent=2):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(n, 32)
        self.mu = nn.Linear(32, latent)
        self.logvar = nn.Linear(32, latent)
        self.fc2 = nn.Linear(latent, 32)
        self.fc3 = nn.Linear(32, n)

    def encode(self, x):
        h = torch.tanh(self.fc1(x))
        return self.mu(h), self.logvar(h)

    def sample(self, mu, logvar):
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return self.fc3(torch.tanh(self.fc2(z)))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.sample(mu, logvar)), mu, logvar

def loss_function(recon, x, mu, logvar, beta=0.01):
    mse = F.mse_loss(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
    return (mse + beta * kld.sum()) / x.shape[0]

z = torch.randn(128, 2)
x = z @ torch.randn(2, 12)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(200):
    recon, mu, logvar = model(x)
    loss = loss_function(recon, x, mu, logvar)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    recon, mu, _ = model(x)
    error = F.mse_loss(recon, x)
print(f"loss {error.item():.4f} of {x.var().item():.4f}")
]==] < 0.3)
   end)
end)

describe("tlua port", function()
   if not port.python then
      pending("no Python of version 3.8 or later")
      return
   end

   it("reports a syntax error with file and line, and writes nothing", shell.in_folder(function(folder)
      shell.write(folder .. "/bad.py", "x = 1\nfor\n")
      local output, status = shell.run(("cd %s && %s port bad.py -o bad.lua"):format(shell.quote(folder), tlua))
      assert.equal(1, status)
      assert.matches("tlua port: bad.py:2: invalid syntax", output, 1, true)
      assert.is_nil(io.open(folder .. "/bad.lua"))
   end))

   it("explains how to install Python if it is missing", function()
      local output, status = shell.run(("TLUA_PYTHON=/none %s port %s"):format(tlua,
         shell.quote "spec/support/dlpack.py"))
      assert.equal(1, status)
      assert.matches("TLUA_PYTHON: not a Python of version 3.8 or later: /none", output, 1, true)
   end)

   it("lists names without a counterpart with their lines, and the program fails where it uses one", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.py", "import torch\nfrom torchtext import datasets\n"
            .. "print(1)\nds = datasets.IMDB('x')\n")
         local output = shell.ok(("cd %s && %s port a.py -o a.lua"):format(shell.quote(folder), tlua))
         assert.matches("a.py:2: torchtext.datasets: torchtext has no counterpart; torch.text, of the package "
            .. "tlua-text, has tokenizers (also in line 4)", output, 1, true)
         local status
         output, status = shell.run(("cd %s && %s a.lua"):format(shell.quote(folder), tlua))
         assert.equal(1, status)
         assert.matches("a.lua:5: torchtext.datasets.IMDB has no counterpart here", output, 1, true)
      end)
   end)

   it("translates torchvision and torchaudio to the packages, and names other packages", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.py", [=[
import torch
import torchvision
import torchvision.transforms.functional as TF
from torchvision import models
from torchaudio import save
from transformers import AutoModel
torch.manual_seed(0)
net = models.resnet18(num_classes=3)
net.eval()
y = net(torch.zeros(1, 3, 64, 64))
print(y.shape[1])
print(TF.hflip(torch.tensor([[[1, 2]]])).tolist()[0][0][0])
print(torchvision.transforms.RandomHorizontalFlip(1.0)(torch.tensor([[[1, 2]]])).tolist()[0][0][0])
print(torchvision.ops.nms(torch.zeros(1, 4), torch.ones(1), 0.5).numel())
print(torchvision.models.no_such_model)
]=])
         local output = shell.ok(("cd %s && %s port a.py -o a.lua"):format(shell.quote(folder), tlua))
         assert.matches("a.py:6: transformers.AutoModel: torch.text, of the package tlua-text, has models", output, 1,
            true)
         assert.matches("a.py:15: torchvision.models.no_such_model: tlua has no such name", output, 1, true)
         assert.is_nil(output:find("a.py:%d:", 1) and output:find("a.py:[1-5]:", 1))
         output = shell.run(("cd %s && %s a.lua"):format(shell.quote(folder), tlua))
         assert.matches("^3\n2\n2\n1\n", output)
      end)
   end)

   it("refuses wrong options and shows its usage", function()
      local output, status = shell.run(tlua .. " port --fast x.py")
      assert.equal(1, status)
      assert.matches("tlua port: unknown option --fast", output, 1, true)
      assert.matches("usage: tlua port script.py", shell.ok(tlua .. " port --help"), 1, true)
      assert.matches("tlua port: nothing.py: No such file", (shell.run(tlua .. " port nothing.py")), 1, true)
   end)
end)
