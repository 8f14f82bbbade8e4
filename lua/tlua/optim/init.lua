-- init.lua - torch.optim: optimizers and schedules of their learning rates. Each is loaded when it
-- is first used.

local files = {lr_scheduler = "tlua.optim.lr_scheduler"}
for name in ([[Optimizer SGD Adam AdamW Adagrad RMSprop Adadelta Adamax NAdam RAdam
   LBFGS]]):gmatch "%w+" do
   files[name] = "tlua.optim." .. name
end

return setmetatable({}, {
   lazy = files,
   __index = function(optim, name)
      local file = files[name]
      if not file then return nil end
      local value = require(file)
      rawset(optim, name, value)
      return value
   end,
})
