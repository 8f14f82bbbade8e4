-- conversions.lua - moves a module to another device, casts it to another dtype, and copies it.

local torch = require "tlua"
local args = require "tlua.args"
local Buffer = require "tlua.nn.Buffer"
local members = require "tlua.nn.members"
local order = require "tlua.nn.order"
local Uninitialized = require "tlua.nn.Uninitialized"

local Module <const> = members.Module -- this file adds methods to Module

local take_to_empty = args.signature "to_empty(device: device, recurse: boolean = true)"

local function set_data(tensor, data) tensor.data = data end

-- Sets a buffer's data to fn's result. The data of a view, or of a tensor with a gradient function,
-- cannot be set. In this case a new tensor replaces the buffer in all modules that share the
-- buffer.
local function replace_buffer(owner, name, buffer, fn, replaced)
   local data = buffer.data
   local new = replaced[buffer] or fn(data, owner)
   if new == data or not replaced[buffer] and pcall(set_data, buffer, new) then return end
   Buffer.mark(new, buffer)
   replaced[buffer] = new
   owner[name] = new
end

-- Replaces the data of every parameter, gradient and buffer by fn(data, module), in submodules as
-- well unless `deep` is false. Parameters stay the same objects, so optimizers keep them, and
-- shared tensors stay shared. Sparse gradients, and buffers whose data cannot be set, are replaced
-- by new tensors.
local function replace_data(module, fn, deep)
   local function replace(tensor, owner)
      local data = tensor.data
      local replaced = fn(data, owner)
      if replaced ~= data then tensor.data = replaced end
   end
   local owners = deep == false and {module} or module:modules()
   local seen, new = {}, {}
   for _, owner in ipairs(owners) do
      for _, parameter in members.own_parameters(owner) do
         local grad = not seen[parameter] and parameter.grad
         if not seen[parameter] then
            parameter.grad = nil -- a gradient must always have its parameter's shape
            replace(parameter, owner)
         end
         if grad then
            if grad.is_sparse then grad = fn(grad, owner) else replace(grad, owner) end
            parameter.grad = grad
         end
         seen[parameter] = true
      end
   end
   for _, owner in ipairs(owners) do
      for name, buffer in members.own_buffers(owner) do
         replace_buffer(owner, name, buffer, fn, new)
      end
   end
   return module
end

-- Raises an error if a parameter or buffer is on the meta device, and so has no data to copy.
local function check_data(module, device)
   if torch.device(device).type == "meta" then return end
   for _, list in ipairs {{module:named_parameters()}, {module:named_buffers()}} do
      for name, tensor in list[1] do
         if tensor.is_meta then
            torch.raise(("to: %s of %s is on the meta device and has no data to copy; "
               .. "to_empty{device = \"%s\"} makes memory for all, whose values are then loaded or "
               .. "initialised"):format(name, torch.type(module), tostring(device)))
         end
      end
   end
end

local complexes <const> = {complex64 = true, complex128 = true}

local function is_floating(dtype)
   return type(dtype) == "string" and (complexes[dtype] or pcall(torch.finfo, dtype))
end

-- Copies a value that a module holds. `seen` maps originals to copies, so that shared values stay
-- shared. Functions and classes are not copied.
local function copy(value, seen)
   if seen[value] then return seen[value] end
   local copied = value
   if torch.is_tensor(value) then
      copied = value:detach():clone()
      if value.requires_grad then copied:requires_grad_() end
      if value.is_parameter then copied.is_parameter = true end
      Buffer.mark(copied, value)
      Uninitialized.mark(copied, value)
   elseif type(value) == "table" and rawget(value, "__name") == nil then
      copied = {}
      seen[value] = copied
      for key, item in next, value do copied[key] = copy(item, seen) end
      setmetatable(copied, getmetatable(value))
   end
   seen[value] = copied
   return copied
end

--- Moves and casts parameters and buffers: `to("cuda")`, `to("float64")`, `to("cuda:1", "half")`,
--- `to{device = "cpu", dtype = "float32"}`. Only floating-point tensors are cast; a complex dtype
--- also casts complex tensors. A tensor stands for its device and dtype. With `memory_format =
--- torch.channels_last` tensors of 4 or 5 dimensions get that memory layout. `non_blocking` is the
--- option of Tensor.to.
---@param ... string|Tensor|table
---@return nn.Module self
function Module:to(...)
   local device, dtype, memory_format, non_blocking
   for i = 1, select("#", ...) do
      local what = select(i, ...)
      if type(what) == "table" then
         args.check_options("to", what, "device", "dtype", "memory_format", "non_blocking")
         device, dtype = what.device or device, what.dtype or dtype
         memory_format = what.memory_format or memory_format
         non_blocking = what.non_blocking
      elseif torch.is_tensor(what) then
         device, dtype = what.device, what.dtype
      elseif is_floating(what) then
         dtype = what
      elseif torch._to_device(what) then
         device = what
      else
         args.refuse("to", "argument " .. i, "a device or a floating-point dtype", what)
      end
   end
   if dtype and not is_floating(dtype) then
      args.refuse("to", "dtype", "a floating-point dtype", dtype)
   end
   if device then check_data(self, device) end
   return replace_data(self, function(data, owner)
      if device then data = data:to(device, {non_blocking = non_blocking}) end
      local cast = data:is_floating_point() or complexes[dtype] and data:is_complex()
      if dtype and cast and not owner._keeps_dtypes then data = data:to(dtype) end
      if memory_format and (data:dim() == 4 or data:dim() == 5) then
         data = data:to {memory_format = memory_format}
      end
      return data
   end)
end

for name, dtype in pairs {
   float = "float32", double = "float64", half = "float16", bfloat16 = "bfloat16",
} do
   Module[name] = function(self) return self:to(dtype) end
end

--- Casts floating parameters and buffers to a dtype.
---@param dtype string
---@return nn.Module self
function Module:type(dtype)
   if type(dtype) ~= "string" or not is_floating(dtype) then
      args.refuse("type", "dtype", "a floating-point dtype", dtype)
   end
   return self:to(dtype)
end

--- Checks the options as torch.compile does, and returns this module, which still runs uncompiled.
--- To run the compiled module, call the result of torch.compile(module).
---@param options? table
---@return nn.Module self
function Module:compile(options)
   torch.compile(self, options)
   return self
end

--- Gives parameters, their gradients and buffers new, uninitialised memory on a device, with their
--- shapes, dtypes and strides. Use it to give memory to a model on the meta device before the model
--- is loaded or initialised. The tensors stay the same objects, so tied parameters stay tied.
--- `recurse = false` leaves out submodules: `model:to_empty{device = "cuda"}`.
---@param options {device: string|torch.device, recurse: boolean}
---@return nn.Module self
function Module:to_empty(...)
   local a = take_to_empty(...)
   return replace_data(self, function(data)
      return torch.empty_like(data, {device = a.device})
   end, a.recurse)
end

--- Moves parameters and buffers to the CPU.
---@return nn.Module self
function Module:cpu()
   return self:to("cpu")
end

--- Moves parameters and buffers to a CUDA device, number 0 by default.
---@param device? integer|string|torch.device
---@return nn.Module self
function Module:cuda(device)
   if math.type(device) == "integer" then device = "cuda:" .. device end
   return self:to(device or "cuda")
end

--- Returns a copy of the module, with copies of all parameters and buffers.
---@return nn.Module
function Module:clone()
   return order.made(copy(self, {}))
end
