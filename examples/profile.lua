-- profile.lua - a slow training loop, the profile that shows why it is slow, and the repaired loop.
--
--    tlua examples/profile.lua [--steps 20] [--html report.html]
--
-- The slow loop makes three common mistakes: it processes each example separately, keeps every loss
-- with its graph, and prepares all data again for every item.

local torch = require "tlua"
local nn, optim, data = torch.nn, torch.optim, torch.data

local parser = torch.utils.options("profile.lua", "A slow training loop and its profile.")
parser:option("--steps", "batches in each loop", 20)
parser:option("--html", "write the slow loop's profile as a page", "")
local opt = parser:parse(arg)

torch.manual_seed(1)
local inputs = torch.randn(16 * opt.steps, 32)
local targets = inputs:sum(2, true):sin()

local function new_model()
   torch.manual_seed(2)
   return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
end

-- This dataset repeats the normalisation of all inputs for each item.
local Slow = torch.class("Slow", data.Dataset)
function Slow:__len() return #inputs end
function Slow:get(i)
   local normal = (inputs - inputs:mean(1, true)) / inputs:std(1, true)
   return normal[i], targets[i]
end

local function slow_loop(prof)
   local model, losses = new_model(), {}
   local adam = optim.Adam(model:parameters())
   for x, y in data.DataLoader(Slow(), {batch_size = 16}):iter() do
      adam:zero_grad()
      for i = 1, #x do -- processes each example separately
         local loss = nn.functional.mse_loss(model(x[i]), y[i]) / #x
         loss:backward()
         -- keeps the loss, which keeps the whole graph of the step in memory
         losses[#losses + 1] = loss
      end
      adam:step()
      prof:step()
   end
   return losses
end

local normal = (inputs - inputs:mean(1, true)) / inputs:std(1, true)

local function fast_loop(prof)
   local model, sum = new_model(), 0
   local adam = optim.Adam(model:parameters())
   local set = data.TensorDataset(normal, targets)
   for x, y in data.DataLoader(set, {batch_size = 16}):iter() do
      adam:zero_grad()
      local loss = nn.functional.mse_loss(model(x), y)
      loss:backward()
      sum = sum + loss:item()
      adam:step()
      prof:step()
   end
end

local function profiled(name, loop)
   local prof = torch.profiler.profile({with_modules = true, profile_memory = true}, loop)
   print(("== %s ==\n"):format(name))
   print(prof:key_averages():table {sort_by = "self_cpu_time_total", row_limit = 6})
   print(prof:summary())
   return prof, prof:key_averages()
end

local slow, before = profiled("the slow loop", slow_loop)
local _, after = profiled("the repaired loop", fast_loop)
if opt.html ~= "" then slow:export_html(opt.html, "the slow loop") end

local function calls(averages) return averages:sum "count" end
print(("the repaired loop makes %.0f times fewer calls and takes %.0f times less time"):format(
   calls(before) / calls(after), before.total / after.total))
