-- line.lua - fits a line and records the training as a run of Weights & Biases: losses, the weights
-- as histograms, a table and a picture. Usage: tlua line.lua [FOLDER]. The program prints the
-- folder of the run, which `wandb sync` and `wandb leet` read.

local torch = require "tlua"
local nn, wandb = torch.nn, torch.utils.wandb

torch.manual_seed(1)
local x = torch.rand(200, 1)
local y = 3 * x + 1 + 0.1 * torch.randn(200, 1)
local model = nn.Linear(1, 1)
local optimizer = torch.optim.SGD(model:parameters(), {lr = 0.5})

local run <close> = wandb.init {project = "line", dir = arg[1], config = {lr = 0.5, points = 200}}
for _ = 1, 50 do
   optimizer:zero_grad()
   local loss = nn.functional.mse_loss(model(x), y)
   loss:backward()
   optimizer:step()
   run:log {loss = loss, slope = model.weight, residuals = wandb.Histogram(y - model(x))}
end

-- The points are drawn as white pixels.
local picture = torch.zeros(64, 64)
for i = 1, 200 do
   local row = 64 - math.min(63, math.max(0, y[{i, 1}]:item() * 14 // 1))
   picture[{math.tointeger(row), 1 + math.tointeger(x[{i, 1}]:item() * 63 // 1)}] = 1
end
local fit = wandb.Table {columns = {"parameter", "found", "true"}}
fit:add_data("slope", model.weight:item(), 3)
fit:add_data("offset", model.bias:item(), 1)
run:log {points = wandb.Image(picture, {caption = "the points"}), fit = fit}
print(("slope %.2f, offset %.2f"):format(model.weight:item(), model.bias:item()))
print(run.folder)
