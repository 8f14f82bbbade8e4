-- norms.lua - removes running statistics from batch normalisation, so that it works inside vmap.

local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

--- Removes the running statistics from all normalizations of a model, in place. Afterwards the
--- normalizations use the statistics of each batch.
---@param root nn.Module
---@return nn.Module root
function M.replace_all_batch_norm_modules_(root)
   if not class.isinstance(root, Module) then
      args.refuse("func.replace_all_batch_norm_modules_", "root", "a module", root)
   end
   for _, module in ipairs(root:modules()) do
      if module.track_running_stats then
         module.running_mean, module.running_var, module.num_batches_tracked = nil, nil, nil
         module.track_running_stats = false
      end
   end
   return root
end

return M
