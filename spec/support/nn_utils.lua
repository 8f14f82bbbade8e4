-- nn_utils.lua - makes inputs and parameters, and reduces results to single numbers, by the formulas of nn.py,
-- nn_utils.py and rnn.py in spec/fixtures.

local torch = require "tlua"

local M = {}

--- Returns a float64 tensor with the elements fn(0), ..., fn(n - 1).
function M.sequence(n, fn)
   local list = {}
   for k = 0, n - 1 do list[k + 1] = fn(k) end
   return torch.tensor(list, {dtype = "float64"})
end

--- Fills a tensor with the numbers 0.5 cos(0.61 k + shift) for k = 0, 1, ..., computed in float64.
function M.fill(tensor, shift)
   local values = M.sequence(tensor:numel(), function(k) return 0.5 * math.cos(0.61 * k + (shift or 0)) end)
   torch.no_grad(function() tensor:copy_(values:view(tensor.shape)) end)
   return tensor
end

--- Fills all parameters of a module as M.fill does. Parameter i has the shift i - 1.
---@param dtype? string  the module's dtype; float64 by default
function M.filled(module, dtype)
   module:to(dtype or "float64")
   for i, parameter in ipairs(module:parameters()) do M.fill(parameter, i - 1) end
   return module
end

--- Reduces a tensor to one number. Almost any two tensors give different numbers.
function M.projection(tensor, step)
   local sum = 0
   for k, value in ipairs(tensor:detach():double():reshape(-1):tolist()) do
      sum = sum + value * math.cos(step * (k - 1))
   end
   return sum
end

--- Returns the weighted sum of all elements of the floating-point results.
function M.weighted_sum(outputs)
   local total = 0
   for _, output in ipairs(outputs) do
      if output:is_floating_point() then
         local weights = M.sequence(output:numel(), function(k) return math.cos(0.23 * k) end):to(output.dtype)
         total = total + (output:reshape(-1) * weights):sum()
      end
   end
   return total
end

return M
