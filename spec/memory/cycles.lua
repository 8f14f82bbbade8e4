-- Makes hooks and functions that refer to the tensor that they are attached to. Each of these reference cycles has 4
-- MB.

local measure = dofile("spec/memory/measure.lua")
local torch = require "tlua"

local Twice = torch.class("Twice", torch.autograd.Function)
function Twice.forward(ctx, x)
   ctx.result = x * 2
   return ctx.result
end
function Twice.backward(_, grad) return grad * 2 end

local function leaf()
   local x = torch.ones(1024, 1024, {requires_grad = true})
   x:register_hook(function(grad) return grad + x:sum() end)
   return x
end

local function result()
   local y = torch.ones(1024, 1024, {requires_grad = true}) * 2
   y:register_hook(function(grad) return grad + y:sum() end)
end

measure.grows_at_most(160, function()
   for _ = 1, 200 do
      leaf()
      result()
      Twice:apply(torch.ones(1024, 1024, {requires_grad = true}));
      (leaf() * 2):sum():backward()
   end
end)
