-- Callback.lua - the base class of callbacks.

local class = require "tlua.class"

--- The base class of callbacks. A callback defines hooks as methods, which get the trainer and the
--- module as arguments. A plain table of functions that are named like hooks is a callback, too.
---
---     local trainer = torch.trainer
---     local Shout = torch.class("Shout", trainer.Callback)
---     function Shout:on_train_end(_, module) print(torch.type(module)) end
---     local learner = trainer.Learner(torch.nn.Linear(1, 1), torch.nn.MSELoss())
---     local set = torch.data.TensorDataset(torch.ones(2, 1), torch.ones(2, 1))
---     local run = trainer.Trainer {max_epochs = 1, logger = false,
---        callbacks = {Shout()}, enable_checkpointing = false,
---        enable_model_summary = false}
---     run:fit(learner, torch.data.DataLoader(set))
---     --> trainer.Learner
---@class trainer.Callback
local Callback = class.class("trainer.Callback")

return Callback
