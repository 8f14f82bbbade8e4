-- Uninitialized.lua - parameters and buffers whose shapes are not known yet. Each is an empty
-- tensor that gets its memory later and stays the same object, so optimizers and modules may hold
-- references to it.

local torch = require "tlua"
local args = require "tlua.args"
local Buffer = require "tlua.nn.Buffer".Buffer
local Parameter = require "tlua.nn.Parameter"

local M = {}

local waiting = setmetatable({}, {__mode = "k"})

local take_parameter = args.signature [[nn.UninitializedParameter(requires_grad: boolean = true,
   device: device?, dtype: string?)]]

--- Returns a parameter without a shape.
---@param options? {requires_grad: boolean, device: string|torch.device, dtype: string}
---@return Tensor
function M.UninitializedParameter(...)
   local a = take_parameter(...)
   local parameter = Parameter(torch.empty({0}, {device = a.device, dtype = a.dtype}),
      a.requires_grad)
   waiting[parameter] = true
   return parameter
end

local take_buffer = args.signature [[nn.UninitializedBuffer(persistent: boolean = true,
   device: device?, dtype: string?)]]

--- Returns a buffer without a shape.
---@param options? {persistent: boolean, device: string|torch.device, dtype: string}
---@return Tensor
function M.UninitializedBuffer(...)
   local a = take_buffer(...)
   local buffer = Buffer(torch.empty({0}, {device = a.device, dtype = a.dtype}), a.persistent)
   waiting[buffer] = true
   return buffer
end

--- Returns whether a tensor is a parameter or buffer that still has no shape.
---@param tensor any
---@return boolean
function M.is_lazy(tensor)
   return waiting[tensor] == true
end

--- Marks a copy as a tensor without a shape if the original has no shape.
---@param copy Tensor
---@param original Tensor
function M.mark(copy, original)
   waiting[copy] = waiting[original]
end

--- Gives a tensor its shape. The elements are not initialised.
---@param tensor Tensor  a parameter or buffer without a shape
---@param shape integer[]
---@return Tensor tensor
function M.materialize(tensor, shape)
   if not waiting[tensor] then
      args.refuse("nn.materialize", "tensor", "an uninitialized parameter or buffer", tensor)
   end
   waiting[tensor] = nil
   tensor.data = torch.empty(shape, {device = tensor.device, dtype = tensor.dtype})
   return tensor
end

return M
