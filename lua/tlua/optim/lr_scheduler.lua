-- lr_scheduler.lua - torch.optim.lr_scheduler: collects the schedules of learning rates, whose
-- files are in the folder schedules.

local M = {LRScheduler = require "tlua.optim.schedules.LRScheduler"}

for _, file in ipairs {"factors", "cycles", "compounds", "plateau"} do
   for name, schedule in pairs(require("tlua.optim.schedules." .. file)) do M[name] = schedule end
end

return M
