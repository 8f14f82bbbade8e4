-- init.lua - torch.utils: helpers for programs. Each is loaded when it is first used.

local files = {
   options = "tlua.utils.options",
   Progress = "tlua.utils.Progress",
   ConfusionMatrix = "tlua.utils.ConfusionMatrix",
   json = "tlua.utils.json",
   near = "tlua.utils.near",
   data = "tlua.data",
   checkpoint = "tlua.utils.checkpoint",
}

return setmetatable({}, {
   lazy = files,
   __index = function(utils, name)
      local file = files[name]
      if not file then return nil end
      local value = require(file)
      rawset(utils, name, value)
      return value
   end,
})
