-- check_finite.lua - torch.utils.check_finite: finds the first module whose numbers are not finite.

local torch = require "tlua"
local args = require "tlua.args"

-- Returns a text about the elements of a value that are not finite, or nil if all are finite.
local function trouble(value)
   if not torch.is_tensor(value) or not value:is_floating_point() or value:numel() == 0 then
      return nil
   end
   local finite = value:isfinite()
   if finite:all():item() then return nil end
   local nans = value:isnan():sum():item()
   local wrong = value:numel() - finite:sum():item()
   return ("%d of %d elements are not finite, %d of them NaN"):format(wrong, value:numel(), nans)
end

--- Watches a model. The first module whose result has NaN or an infinity, and the first parameter
--- whose gradient has one, raises an error that names its path and says whether its inputs were
--- finite. The check reads every result on the host, so it is slow. `handle:remove()` ends the
--- watch.
---@param model nn.Module
---@return {remove: fun(self: table)} handle
return function(model)
   if type(model) ~= "table" or not model.named_modules then
      args.refuse("utils.check_finite", "model", "a module", model)
   end
   local handles = {}
   for path, module in model:named_modules() do
      local name = path == "" and torch.type(model) or path
      handles[#handles + 1] = module:register_forward_hook(function(_, inputs, ...)
         for i = 1, select("#", ...) do
            local why = trouble((select(i, ...)))
            if why then
               local cause = "its inputs are finite"
               for k = 1, inputs.n or #inputs do
                  local input = trouble(inputs[k])
                  if input then cause = ("of its input %d, %s"):format(k, input) end
               end
               torch.raise(("check_finite: %s (%s): of its result %d, %s; %s"):format(name,
                  torch.type(module), i, why, cause))
            end
         end
      end)
   end
   for path, parameter in model:named_parameters() do
      if parameter.requires_grad then
         handles[#handles + 1] = parameter:register_hook(function(grad)
            local why = trouble(grad)
            if why then
               torch.raise(("check_finite: the gradient of %s: %s"):format(path, why))
            end
         end)
      end
   end
   return {
      remove = function()
         for _, handle in ipairs(handles) do handle:remove() end
      end,
   }
end
