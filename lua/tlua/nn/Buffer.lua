-- Buffer.lua - tensors that are buffers of the module that they are assigned to.

local args = require "tlua.args"
local order = require "tlua.nn.order"

local M = {}

local signature = args.signature "nn.Buffer(data: tensor, persistent: boolean = true)"

-- Tensor -> "persistent" or "transient".
local kinds = setmetatable({}, {__mode = "k"})

--- A tensor with the data of another one, which it shares. Assigned to a field of a module it is
--- moved, cast and, if persistent, saved with it: `self.mean = nn.Buffer(torch.zeros(3))`.
---@param data Tensor
---@param persistent? boolean  true by default
---@return Tensor
function M.Buffer(...)
   local a = signature(...)
   local buffer = a.data:detach()
   kinds[buffer] = a.persistent and "persistent" or "transient"
   return order.made(buffer)
end

--- "persistent" or "transient" of a buffer, nil of anything else.
---@param value any
---@return string?
function M.kind(value)
   return kinds[value]
end

--- Marks a copy as what its original is.
---@param copy Tensor
---@param original Tensor
function M.mark(copy, original)
   kinds[copy] = kinds[original]
end

return M
