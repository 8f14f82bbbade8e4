-- files.lua - writes adapters in PEFT's format: adapter_config.json and adapter_model.safetensors.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local replace_file = require "tlua.io.replace"

local M = {}

--- Writes the two files of an adapter.
---@param title string  the method's name, for error messages
---@param folder string  created if it does not exist
---@param config table<string, any>
---@param state table<string, Tensor>
function M.save(title, folder, config, state)
   if type(folder) ~= "string" then args.refuse(title, "folder", "a folder's path", folder) end
   local ok, message = torch.io.make_folder(folder)
   if not ok then torch.raise(("%s: %s: %s"):format(title, folder, message)) end
   config.inference_mode = true
   local path = folder .. "/adapter_config.json"
   local failure = replace_file(path, function(file)
      return select(2, file:write(json.encode(config), "\n"))
   end)
   if failure then torch.raise(("%s: %s: %s"):format(title, path, failure)) end
   for key, tensor in pairs(state) do state[key] = tensor:contiguous() end
   torch.save(state, folder .. "/adapter_model.safetensors")
end

return M
