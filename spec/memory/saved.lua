-- Computes losses without backward passes. When a loss is freed, the tensors that its graph has saved must be freed
-- too.

local measure = dofile("spec/memory/measure.lua")
local torch = require "tlua"
local F = torch.nn.functional

local w = torch.ones(1024, 1024, {requires_grad = true})
local target = torch.zeros(1024, 1024)

local losses = {
   function() return F.mse_loss(w, target) end,
   function() return F.huber_loss(w, target) end,
   function() return torch.logsumexp(w * 2, 1):sum() end,
   function() return (w * 2):exp():sum() end,
}
for _, loss in ipairs(losses) do loss() end
measure.grows_at_most(128, function()
   for _, loss in ipairs(losses) do
      for _ = 1, 250 do loss() end
   end
end)
