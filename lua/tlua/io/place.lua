-- place.lua - implements torch.load's option map_location.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local expected <const> = "a device, a table from devices to devices, or a function"

local function is_callable(value)
   local meta = getmetatable(value)
   return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
      and not torch.is_tensor(value)
end

-- Raises an error unless a value names a device of this machine.
local function check_device(title, what, device)
   local ok, message = pcall(torch.empty, {0}, {device = device})
   if ok then return device end
   local why = tostring(message):gsub("^[^\n]-:%d+: ", ""):gsub("^empty: device: ", "")
   torch.raise(("%s: %s: %s"):format(title, what, why))
end

-- Returns the storage to use, given the result of a map_location function: a moved storage, a
-- device, or nil.
local function take_result(title, storage, result)
   if result == nil then return storage end
   if not torch.is_tensor(result) then
      return storage:to(check_device(title, "map_location: the function's result", result))
   end
   local same = table.concat(result.shape, ",") == table.concat(storage.shape, ",")
   if result.dtype ~= storage.dtype or not same then
      args.refuse(title, "map_location", "a function that returns its tensor, on any device",
         result)
   end
   return result
end

-- Returns a device's name with its number: "cuda" becomes "cuda:0".
local function full_name(device)
   local name = tostring(device)
   return (name:find ":" or name == "cpu") and name or name .. ":0"
end

--- Returns a function place(tensor, location), which moves a tensor that was saved from the device
--- `location`. A storage is passed as a 1-d tensor of its elements.
---@param title string  the caller's name, for messages
---@param where any  a device; or a table from locations to devices; or a function(storage,
--- location) that returns the storage (moved or not), the device to which the storage is moved, or
--- nil if the storage stays where it is. If `where` is nil, no function is returned.
---@return (fun(storage: Tensor, location: string): Tensor)?
function M.of(title, where)
   if where == nil then return nil end
   if type(where) == "table" and not getmetatable(where) then
      local devices = {}
      for location, device in pairs(where) do
         if type(location) == "number" or type(location) == "boolean" then
            args.refuse(title, "map_location", expected, where)
         end
         devices[full_name(location)] = check_device(title, "map_location", device)
      end
      return function(storage, location)
         local device = devices[full_name(location)]
         return device and storage:to(device) or storage
      end
   end
   if is_callable(where) then
      return function(storage, location)
         return take_result(title, storage, where(storage, location))
      end
   end
   local kind = type(where)
   if kind ~= "string" and kind ~= "table" and kind ~= "userdata" or torch.is_tensor(where) then
      args.refuse(title, "map_location", expected, where)
   end
   check_device(title, "map_location", where)
   return function(storage) return storage:to(where) end
end

return M
