-- inits.lua - fills parameters with initial values.

local torch = require "tlua"
local args = require "tlua.args"
local init = torch.nn.init

local M = {}

--- Fills a tensor with uniform random numbers from [-s, s], where s = sqrt(6 / (rows + columns)).
--- The rows and columns are the last two dimensions.
---@param tensor? Tensor
function M.glorot(tensor)
   if tensor == nil or tensor:numel() == 0 then return end
   local bound = math.sqrt(6 / (tensor:size(-2) + tensor:size(-1)))
   init.uniform_(tensor, -bound, bound)
end

--- Fills a tensor with uniform random numbers from [-s, s], where s = 1 / sqrt(size).
---@param size integer
---@param tensor? Tensor
function M.uniform(size, tensor)
   if tensor == nil or tensor:numel() == 0 then return end
   local bound = 1 / math.sqrt(size)
   init.uniform_(tensor, -bound, bound)
end

--- Fills a tensor with 0.
---@param tensor? Tensor
function M.zeros(tensor)
   if tensor ~= nil then init.zeros_(tensor) end
end

--- Fills a tensor with 1.
---@param tensor? Tensor
function M.ones(tensor)
   if tensor ~= nil then init.ones_(tensor) end
end

local weights <const> = {glorot = true, uniform = true, kaiming_uniform = true, zeros = true}

--- Raises an error unless the names of initial values for the weight and for the bias are known.
---@param title string  the function's name, for error messages
---@param weight? string
---@param bias? string
function M.check(title, weight, bias)
   if weight and not weights[weight] then
      args.refuse(title, "weight_initializer", "glorot, uniform, kaiming_uniform or zeros", weight)
   end
   if bias and bias ~= "zeros" then
      args.refuse(title, "bias_initializer", "zeros", bias)
   end
end

--- Fills a weight with the initial values that `name` selects.
---@param tensor Tensor
---@param size integer  the number of inputs
---@param name? string
function M.weight(tensor, size, name)
   if tensor:numel() == 0 then return end
   if name == "glorot" then
      M.glorot(tensor)
   elseif name == "uniform" then
      M.uniform(size, tensor)
   elseif name == "zeros" then
      M.zeros(tensor)
   else
      init.kaiming_uniform_(tensor, {a = 5 ^ 0.5})
   end
end

--- Fills a bias with the initial values that `name` selects.
---@param tensor Tensor
---@param size integer  the number of inputs
---@param name? string
function M.bias(tensor, size, name)
   if name == "zeros" or size == 0 then M.zeros(tensor) else M.uniform(size, tensor) end
end

--- Calls the method reset_parameters of a module. If the module has no such method, calls it on all
--- modules within it that have one.
---@param module any
function M.reset(module)
   if type(module) ~= "table" then return end
   if module.reset_parameters then
      module:reset_parameters()
   elseif module.children then
      for _, child in ipairs(module:children()) do M.reset(child) end
   end
end

return M
