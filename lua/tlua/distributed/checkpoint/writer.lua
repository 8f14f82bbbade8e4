-- writer.lua - the script that async_save runs in a thread to write this rank's file.

local torch = require "tlua"

---@return fun(tensors: table<string, Tensor>, path: string): string?  error message or nil
return function()
   return function(tensors, path)
      local ok, why = pcall(torch.save, tensors, path)
      return not ok and tostring(why) or nil
   end
end
