-- accelerator.lua - torch.accelerator: access to the machine's GPU without naming its kind. The
-- accelerator is the simulated device if the default device is simulated, as in `tlua --device
-- sim`; otherwise it is CUDA, if there is a CUDA device.

local torch = require "tlua"
local checked = require "tlua.checked"

local M = {}

local function kind_of()
   if torch.get_default_device().type == "sim" then return "sim" end
   return torch.cuda.is_available() and "cuda" or nil
end

local function module_of(name)
   local kind = kind_of()
   if not kind then
      torch.raise(("accelerator.%s: there is no accelerator; see torch.accelerator.is_available()")
         :format(name))
   end
   return torch[kind]
end

--- Returns whether the machine has an accelerator that can be used.
---@return boolean
function M.is_available() return kind_of() ~= nil end

--- Returns the number of accelerators.
---@return integer
function M.device_count()
   local kind = kind_of()
   return kind and torch[kind].device_count() or 0
end

--- Returns the accelerator's kind as a device without a number; nil if there is none.
---@return torch.device?
function M.current_accelerator()
   local kind = kind_of()
   return kind and torch.device(kind) or nil
end

--- Returns the current accelerator's number, from 0.
---@return integer
function M.current_device_index() return module_of "current_device_index".current_device() end

--- Alias of current_device_index.
---@return integer
function M.current_device_idx() return module_of "current_device_idx".current_device() end

--- Makes an accelerator current.
---@param device integer|string|torch.device
function M.set_device_index(device) module_of "set_device_index".set_device(device) end

--- Alias of set_device_index.
---@param device integer|string|torch.device
function M.set_device_idx(device) module_of "set_device_idx".set_device(device) end

--- Waits for all work of an accelerator, by default the current one.
---@param device? integer|string|torch.device
function M.synchronize(device) module_of "synchronize".synchronize(device) end

--- Returns the current stream of an accelerator, by default the current one.
---@param device? integer|string|torch.device
---@return torch.Stream
function M.current_stream(device) return module_of "current_stream".current_stream(device) end

--- Makes a stream current on its device.
---@param stream torch.Stream
function M.set_stream(stream) module_of "set_stream".set_stream(stream) end

--- Calls the function of the same name of the accelerator's module, such as torch.cuda. Raises an
--- error if there is no accelerator.
---@names accelerator.empty_cache accelerator.memory_stats accelerator.memory_allocated
---@names accelerator.max_memory_allocated accelerator.memory_reserved
---@names accelerator.max_memory_reserved accelerator.reset_peak_memory_stats
---@names accelerator.reset_accumulated_memory_stats
---@param device? integer|string|torch.device  the current device by default
---@return any result  the result of the function in torch.cuda
for name in ([[empty_cache memory_stats memory_allocated max_memory_allocated memory_reserved
   max_memory_reserved reset_peak_memory_stats reset_accumulated_memory_stats]]):gmatch "%S+" do
   M[name] = function(...) return module_of(name)[name](...) end
end

checked.queries(M, "accelerator.", [[is_available device_count current_accelerator
   current_device_index current_device_idx]])

return M
