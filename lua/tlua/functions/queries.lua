-- queries.lua - small queries and settings of torch.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"

local M = {}

--- Returns the name of a value's type: a class's name, "torch.Tensor" for a tensor, otherwise Lua's
--- type.
---@param object any
---@return string
function M.typename(object)
   if torch.is_tensor(object) then return "torch.Tensor" end
   return class.type(object)
end

--- Returns whether a tensor's elements are complex numbers.
---@param tensor Tensor
---@return boolean
function M.is_complex(tensor)
   if not torch.is_tensor(tensor) then args.refuse("is_complex", "input", "a tensor", tensor) end
   return tensor.dtype:find "^complex" ~= nil
end

--- Returns whether a tensor was made in inference mode.
---@param tensor Tensor
---@return boolean
function M.is_inference(tensor)
   if not torch.is_tensor(tensor) then args.refuse("is_inference", "input", "a tensor", tensor) end
   return tensor:is_inference()
end

--- Returns the module of a kind of device: torch.cpu, torch.cuda or torch.sim.
---@param device? string|torch.device  such as "cuda:1"; by default the default device
---@return table
function M.get_device_module(device)
   device = device == nil and torch.get_default_device() or device
   local known = torch._to_device(device)
   local kind = known and known.type
   if kind ~= "cpu" and kind ~= "cuda" and kind ~= "sim" then
      args.refuse("get_device_module", "device", 'a device such as "cuda:1"', device)
   end
   return torch[kind]
end

local interop = 1

--- Returns the number that set_num_interop_threads has set. The number has no effect, since
--- operators run one after another.
---@return integer
function M.get_num_interop_threads() return interop end

--- Accepts a number of threads, which has no effect; see get_num_interop_threads.
---@param n integer
function M.set_num_interop_threads(n)
   if math.type(n) ~= "integer" or n < 1 then
      args.refuse("set_num_interop_threads", "n", "an integer of at least 1", n)
   end
   interop = n
end

--- Returns whether detect_anomaly is on.
---@return boolean
function M.is_anomaly_enabled() return torch.autograd.is_anomaly_enabled() end

--- Returns false: subnormal numbers cannot be flushed to 0.
---@param mode boolean
---@return boolean
function M.set_flush_denormal(mode)
   if type(mode) ~= "boolean" then
      args.refuse("set_flush_denormal", "mode", "true or false", mode)
   end
   return false
end

local default_types <const> = {
   FloatTensor = "float32", DoubleTensor = "float64", HalfTensor = "float16",
   BFloat16Tensor = "bfloat16",
}

--- Sets the default dtype and, for a name with "cuda", the default device: an older form of
--- set_default_dtype and set_default_device.
---@param name string  such as "torch.DoubleTensor" or "torch.cuda.FloatTensor"
function M.set_default_tensor_type(name)
   local cuda, kind = tostring(name):match "^torch%.(c?u?d?a?)%.?(%u%w+Tensor)$"
   local dtype = kind and default_types[kind]
   if not dtype or cuda ~= "" and cuda ~= "cuda" then
      args.refuse("set_default_tensor_type", "t", 'a name such as "torch.FloatTensor"', name)
   end
   if cuda == "cuda" then torch.set_default_device "cuda" end
   torch.set_default_dtype(dtype)
end

checked.functions(M, "", [[is_complex(input: any) is_inference(input: any)
   set_num_interop_threads(num_threads: any?) set_flush_denormal(mode: any?)]])
checked.queries(M, "", "get_num_interop_threads is_anomaly_enabled")

return M
