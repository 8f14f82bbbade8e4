-- Model-agnostic meta-learning (Finn et al. 2017) by torch.func: trains a network to learn a new
-- sine wave from ten points in one gradient step. vmap computes all tasks at once:
--
--    tlua examples/ported/maml.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional
local func = torch.func

local parser = torch.utils.options("maml.lua", "Learns to learn sine waves.")
parser:option("--steps", "steps of the outer loop", 200)
parser:option("--tasks", "waves in a step", 16)
parser:option("--points", "points of a wave", 10)
parser:option("--inner", "learning rate of the inner step", 0.05)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local net = nn.Sequential(
   nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
local params = {}
for name, p in net:named_parameters() do params[name] = p end

local function predict(weights, x) return func.functional_call(net, weights, x) end

-- Returns a task's loss on the points (x2, y2) after one gradient step on the points (x1, y1).
local function task_loss(weights, x1, y1, x2, y2)
   local function inner_loss(w) return F.mse_loss(predict(w, x1), y1) end
   local gradients = func.grad(inner_loss)(weights)
   local adapted = {}
   for name, w in pairs(weights) do adapted[name] = w - opt.inner * gradients[name] end
   return F.mse_loss(predict(adapted, x2), y2)
end

local function tasks(n)
   local amplitude, phase = torch.rand(n, 1, 1) * 1.5 + 0.5, torch.rand(n, 1, 1) * math.pi
   local function points()
      local x = torch.rand(n, opt.points, 1) * 10 - 5
      return x, amplitude * torch.sin(x + phase)
   end
   local x1, y1 = points()
   return x1, y1, points()
end

local all_tasks = func.vmap(task_loss, {in_dims = {false, 1, 1, 1, 1}})
local optimizer = optim.Adam(net:parameters(), {lr = 3e-3})
local first, last
for _ = 1, opt.steps do
   optimizer:zero_grad()
   local loss = all_tasks(params, tasks(opt.tasks)):mean()
   loss:backward()
   optimizer:step()
   last = loss:item()
   first = first or last
end
print(("loss after one inner step: %.3f at first, %.3f at last"):format(first, last))
