-- init.lua - torch.optim: optimizers and schedules of their learning rates. Each class is loaded
-- when it is first used.

local lazy = require "tlua.lazy"

local files = {lr_scheduler = "tlua.optim.lr_scheduler", swa_utils = "tlua.optim.swa_utils",
   swap_in_optimizer_params_and_state = "tlua.optim.swap_in"}
for name in ([[Optimizer SGD Adam AdamW Adagrad RMSprop Adadelta Adamax NAdam RAdam Rprop ASGD Lion
   Muon Adafactor SparseAdam LBFGS]]):gmatch "%w+" do
   files[name] = "tlua.optim." .. name
end

local M = {}

--- Registers `hook(optimizer, closure)`, which is called before each step of every optimizer; a
--- closure that the hook returns replaces the given one.
---@param hook fun(optimizer: optim.Optimizer, closure?: function): function?
---@return {remove: fun(self: table)} handle
function M.register_optimizer_step_pre_hook(hook)
   return require "tlua.optim.Optimizer".register_for_all("step_pre", hook)
end

--- Registers `hook(optimizer, closure)`, which is called after each step of every optimizer.
---@param hook fun(optimizer: optim.Optimizer, closure?: function)
---@return {remove: fun(self: table)} handle
function M.register_optimizer_step_post_hook(hook)
   return require "tlua.optim.Optimizer".register_for_all("step_post", hook)
end

return lazy.load(M, files)
