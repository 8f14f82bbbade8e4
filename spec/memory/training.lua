-- Makes 150 training steps. Each step has 8 MB of activations, which must be freed when the step's graph is freed.

local measure = dofile("spec/memory/measure.lua")
local torch = require "tlua"

local weights = {}
for i = 1, 4 do weights[i] = (torch.randn(64, 64) * 0.1):requires_grad_() end
local x = torch.randn(4096, 64)

local function step()
   local h = x
   for _, w in ipairs(weights) do h = h:matmul(w):tanh() end
   h:square():mean():backward()
   for _, w in ipairs(weights) do w.grad = nil end
end

step()
measure.grows_at_most(80, function()
   for _ = 1, 150 do step() end
end)
