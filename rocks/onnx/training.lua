-- training.lua - optimizers of the domain ai.onnx.preview.training. Their inputs are the learning
-- rate, the step, and then the parameters, the gradients and each kind of state.

local torch = require "tlua"

local M = {}

-- Defines an optimizer. `states` is the number of its states for each parameter. rule(node, rate,
-- step, x, grad, ...) returns the new parameter and the new states.
local function define(name, states, rule)
   M[name] = function(node, rate, step, ...)
      local list, kinds = {...}, 2 + states
      if #list % kinds ~= 0 then
         node:fail("expected %d lists of tensors, got %d tensors", kinds, #list)
      end
      local n, results = #list // kinds, {}
      for i = 1, n do
         local own = {}
         for kind = 1, kinds do own[kind] = list[(kind - 1) * n + i] end
         for kind, value in ipairs {rule(node, rate:item(), step:item(), table.unpack(own))} do
            results[(kind - 1) * n + i] = value
         end
      end
      return table.unpack(results, 1, n * (states + 1))
   end
end

define("Adagrad", 1, function(node, rate, step, x, grad, sum)
   grad = grad + x * node:float("norm_coefficient", 0)
   sum = sum + grad * grad
   local now = rate / (1 + step * node:float("decay_factor", 0))
   return x - grad * now / (sum:sqrt() + node:float("epsilon", 1e-6)), sum
end)

define("Momentum", 1, function(node, rate, step, x, grad, velocity)
   grad = grad + x * node:need("float", "norm_coefficient")
   local alpha = node:need("float", "alpha")
   local beta = step > 0 and node:need("float", "beta") or 1
   velocity = velocity * alpha + grad * beta
   local mode = node:need("text", "mode")
   if mode == "nesterov" then return x - (grad + velocity * alpha) * rate, velocity end
   if mode ~= "standard" then node:fail("attribute mode: %q is unknown", mode) end
   return x - velocity * rate, velocity
end)

define("Adam", 2, function(node, rate, step, x, grad, first, second)
   local alpha, beta = node:float("alpha", 0.9), node:float("beta", 0.999)
   grad = grad + x * node:float("norm_coefficient", 0)
   first = first * alpha + grad * (1 - alpha)
   second = second * beta + grad * grad * (1 - beta)
   if step > 0 then rate = rate * math.sqrt(1 - beta ^ step) / (1 - alpha ^ step) end
   x = x - first * rate / (torch.sqrt(second) + node:float("epsilon", 1e-6))
   return x * (1 - node:float("norm_coefficient_post", 0)), first, second
end)

return M
