-- checks.lua - checks of optimizers' options and parameters. not_negative and betas return the name
-- of a wrong option and a text that says which value is expected, or nil if the options are right.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- args.over_defaults takes an option's type from its default. The options in this table accept
--- more: a learning rate may be a number or a tensor.
M.kinds = {lr = "scalar"}

--- Returns whether a value is a number of at least `least`; returns false for NaN.
---@param value any
---@param least? number  0 by default
---@return boolean
function M.is_number(value, least)
   return type(value) == "number" and value >= (least or 0)
end

--- Checks that all options in `names` are numbers of at least 0.
---@param o table<string, any>
---@param names string[]
---@return string? option
---@return string? expected
function M.not_negative(o, names)
   for _, name in ipairs(names) do
      if not M.is_number(o[name]) then return name, "a number of at least 0" end
   end
end

--- Checks that betas are two numbers from 0 to below 1.
---@param o table<string, any>
---@return string? option
---@return string? expected
function M.betas(o)
   local betas = o.betas
   for i = 1, 2 do
      if not (M.is_number(betas[i]) and betas[i] < 1) or #betas ~= 2 then
         return "betas", "two numbers from 0 to below 1"
      end
   end
end

--- Raises an error for a parameter that is sparse or has a sparse gradient, because the optimizer
--- supports dense ones only.
---@param optimizer optim.Optimizer
---@param parameter Tensor
function M.refuse_sparse(optimizer, parameter)
   torch.raise(("%s: parameter of shape (%s): got a sparse %s; SparseAdam, SGD and Adagrad take "
      .. "sparse gradients"):format(torch.type(optimizer), table.concat(parameter.shape, ", "),
      parameter.layout == "strided" and "gradient" or "tensor"))
end

--- Returns a group's learning rate as a number. Raises an error if the program has set it to a
--- value other than a number or a tensor.
---@param optimizer optim.Optimizer
---@param o table<string, any>  the group
---@return number
function M.rate(optimizer, o)
   local lr = o.lr
   if type(lr) == "number" then return lr end
   if torch.is_tensor(lr) then return lr:item() end
   args.refuse(torch.type(optimizer) .. ".step", "lr", "a number or a tensor", lr)
end

return M
