-- nn_utils.lua - makes the parameters of spec/fixtures/nn_utils.py, by the same formulas.

local torch = require "tlua"

local M = {}

--- Fills a tensor with float64 numbers.
function M.fill(tensor, shift)
   local values = {}
   for k = 1, tensor:numel() do values[k] = 0.5 * math.cos(0.61 * (k - 1) + (shift or 0)) end
   torch.no_grad(function() tensor:copy_(torch.tensor(values, {dtype = "float64"}):view(tensor.shape)) end)
   return tensor
end

--- Fills all parameters of a module.
function M.filled(module)
   module:double()
   for i, parameter in ipairs(module:parameters()) do M.fill(parameter, i - 1) end
   return module
end

return M
