-- init.lua - torch.optim: optimizers and schedules of their learning rates. Each is loaded when it
-- is first used.

local lazy = require "tlua.lazy"

local files = {lr_scheduler = "tlua.optim.lr_scheduler"}
for name in ([[Optimizer SGD Adam AdamW Adagrad RMSprop Adadelta Adamax NAdam RAdam
   LBFGS]]):gmatch "%w+" do
   files[name] = "tlua.optim." .. name
end

return lazy({}, files)
