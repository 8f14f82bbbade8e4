-- DataModule.lua - the base class of objects that prepare data and create its loaders.

local class = require "tlua.class"

--- The base class of objects that prepare data and create its loaders. A derived class may define
--- prepare_data (called on the first rank of a machine), setup(stage), train_dataloader,
--- val_dataloader, test_dataloader, predict_dataloader, teardown(stage), on_exception(message),
--- state_dict, load_state_dict(state), and the hooks that move batches, such as
--- transfer_batch_to_device.
---
---     local Digits = torch.class("Digits", torch.trainer.DataModule)
---     function Digits:train_dataloader()
---        return torch.data.DataLoader(torch.arange(6), {batch_size = 2})
---     end
---     print(#Digits():train_dataloader())
---     --> 3
---@class trainer.DataModule
local DataModule = class.class("trainer.DataModule")

return DataModule
