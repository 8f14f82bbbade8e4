-- modes.lua - a function that switches a model to evaluation mode during a call.

local M = {}

--- Calls fn(...) with the model in evaluation mode, and then restores the mode of each module.
---@param model nn.Module
---@param fn function
---@param ... any
---@return any ...
function M.evaluating(model, fn, ...)
   local training = {}
   for _, module in ipairs(model:modules()) do
      if module.training then training[#training + 1] = module end
   end
   if #training > 0 then model:eval() end
   local results = table.pack(pcall(fn, ...))
   for _, module in ipairs(training) do module.training = true end
   if not results[1] then error(results[2], 0) end
   return table.unpack(results, 2, results.n)
end

return M
