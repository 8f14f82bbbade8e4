-- hooks.lua - the names of the hooks that a trainer calls, and a check that finds misspelt hooks.

local torch = require "tlua"
local suggest = require "tlua.utils.suggest"

local M = {}

local function set(text)
   local names = {}
   for name in text:gmatch "%S+" do names[name] = true end
   return names
end

-- The hooks that modules and callbacks have in common.
local shared <const> = [[setup teardown
   on_fit_start on_fit_end on_train_start on_train_end on_train_epoch_start on_train_epoch_end
   on_train_batch_start on_train_batch_end
   on_validation_start on_validation_end on_validation_epoch_start on_validation_epoch_end
   on_validation_batch_start on_validation_batch_end
   on_test_start on_test_end on_test_epoch_start on_test_epoch_end on_test_batch_start
   on_test_batch_end
   on_predict_start on_predict_end on_predict_epoch_start on_predict_epoch_end
   on_predict_batch_start on_predict_batch_end
   on_before_backward on_after_backward on_before_optimizer_step on_before_zero_grad
   on_save_checkpoint on_load_checkpoint ]]

--- The hooks of callbacks.
M.callback = set(shared .. [[on_sanity_check_start on_sanity_check_end on_exception state_dict
   load_state_dict]])

--- The hooks and steps of modules.
M.module = set(shared .. [[training_step validation_step test_step predict_step
   configure_optimizers configure_callbacks configure_model configure_gradient_clipping
   prepare_data train_dataloader val_dataloader test_dataloader predict_dataloader
   backward optimizer_step optimizer_zero_grad lr_scheduler_step
   on_before_batch_transfer transfer_batch_to_device on_after_batch_transfer
   on_validation_model_eval on_validation_model_train on_validation_model_zero_grad
   on_test_model_eval on_test_model_train on_predict_model_eval]])

--- The hooks of data modules.
M.data = set [[prepare_data setup teardown train_dataloader val_dataloader test_dataloader
   predict_dataloader state_dict load_state_dict on_exception
   on_before_batch_transfer transfer_batch_to_device on_after_batch_transfer]]

-- Returns the hook that a misspelt name probably means, or nil. These differences are recognised:
-- the name lacks `on_`; it has `val` or `valid` for `validation`, or `train` for `training`; it
-- differs in upper and lower case or in underscores; or it is the hook's name in version 1 of
-- Lightning.
local function meant(name, known)
   local plain = name:lower():gsub("_", "")
   plain = plain:gsub("^on", ""):gsub("^validation", "val"):gsub("^valid", "val")
      :gsub("^training", "train"):gsub("loader$", "dataloader"):gsub("datadata", "data")
   for hook in pairs(known) do
      local other = hook:gsub("_", ""):gsub("^on", ""):gsub("^validation", "val")
         :gsub("^training", "train")
      if other == plain then return hook end
   end
   local stem = plain:match "^(%a+)epochend$" or plain:match "^(%a+)stepend$"
   if stem == "val" or stem == "train" or stem == "test" or stem == "predict" then
      local full = ({val = "validation"})[stem] or stem
      return ("on_%s_%s_end"):format(full, plain:find "epochend$" and "epoch" or "batch")
   end
   return nil
end

-- Calls visit(name) for each function in an object and in its classes up to `base`, which is not
-- visited.
local function each_function(object, base, visit)
   local owner = object
   while owner and owner ~= base do
      for name, value in next, owner do
         if type(name) == "string" and type(value) == "function" and not name:find "^_" then
            visit(name)
         end
      end
      local meta = getmetatable(owner)
      if owner == object then
         owner = meta
      else
         owner = type(meta) == "table" and meta.parent or nil
      end
   end
end

--- Raises an error if an object has a function whose name starts with `on_` or resembles a hook's
--- name, but is not a hook's name. Such a function would never be called.
---@param object table
---@param base table?  the class whose own functions are not looked at
---@param kind "module"|"callback"|"data"
---@return integer count  the number of hooks found
function M.check(object, base, kind)
   local known, count = M[kind], 0
   each_function(object, base, function(name)
      if known[name] then
         count = count + 1
         return
      end
      if base and base[name] ~= nil then return end
      local other = meant(name, known)
      local near = other or suggest.nearest(name, known)
      local is_hook = name:find "^on_" or other
      local close = near and math.abs(#near - #name) <= 2 and near:find("_", 1, true)
      if is_hook or close then
         torch.raise(("trainer: %s.%s: there is no such hook%s"):format(torch.type(object), name,
            near and "; did you mean " .. near .. "?" or ""))
      end
   end)
   return count
end

return M
