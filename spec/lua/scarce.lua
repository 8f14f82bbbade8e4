-- scarce.lua - the tasks of scarce_test.c, which run while allocations fail. Each returns nothing if its results are
-- right, and raises an error otherwise.

local torch = require "tlua"
local nn, data = torch.nn, torch.data

torch.manual_seed(1)
local x = torch.randn(2, 4)
local net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3)):eval()
local expected = net(x):detach()
local path = os.tmpname()
local names = {path, path .. ".tlp", path .. ".safetensors", path .. ".pt"}

local M = {}

function M.freeze()
   local frozen = torch.freeze(net)
   for _ = 1, 3 do assert(frozen(x):equal(expected)) end
end

function M.export()
   torch.export(net, {x}):save(names[2])
   local program = torch.export.load(names[2])
   assert(program(x):equal(expected))
end

function M.training_step()
   local layer, labels = nn.Linear(4, 3), torch.tensor {1, 2}
   local optimizer = torch.optim.SGD(layer:parameters(), {lr = 0.1})
   local step = torch.export_step(function(rows, of)
      optimizer:zero_grad()
      local loss = nn.functional.cross_entropy(layer(rows), of)
      loss:backward()
      optimizer:step()
      return loss
   end, {x, labels}, {optimizer = optimizer, model = layer})
   step(x, labels)
end

function M.files()
   torch.save({rows = x, list = {1, "x"}}, names[3])
   torch.save({rows = x}, names[4])
   assert(torch.load(names[3]).rows:equal(x) and torch.load(names[4]).rows:equal(x))
end

function M.mapping()
   local gradient = torch.func.vmap(torch.func.grad(function(row) return (row * row):sum() end))
   assert(gradient(x):allclose(2 * x))
end

function M.checkpoint()
   torch.utils.checkpoint.checkpoint(net, x:clone():requires_grad_()):sum():backward()
   net:zero_grad()
end

function M.decompositions()
   local symmetric = torch.eye(4)
   torch.linalg.svd(symmetric)
   torch.linalg.eigh(symmetric)
   assert(torch.fft.fft(torch.ones(30)):abs():sum():item() > 29)
end

function M.workers()
   local loader, n = data.DataLoader(data.TensorDataset(x, expected), {batch_size = 1, num_workers = 1}), 0
   for row in loader:iter() do n = n + row:size(1) end
   assert(n == 2)
end

--- Waits until the threads of `workers` have ended, and makes so many tensors that graphs are searched for cycles.
function M.settle()
   for _ = 1, 1100 do torch.ones(1) end
   while torch.workers.running() > 0 do torch.ones(1) end
end

--- Removes the files of the tasks.
function M.close()
   for _, name in ipairs(names) do os.remove(name) end
end

return M
