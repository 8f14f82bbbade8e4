-- Buffer.lua - nn.Buffer: marks a tensor that becomes a buffer when it is assigned to a field of a
-- module.

local args = require "tlua.args"
local order = require "tlua.nn.order"

local M = {}

local signature = args.signature "nn.Buffer(data: tensor, persistent: boolean = true)"

-- Maps each buffer to its kind, "persistent" or "transient".
local kinds = setmetatable({}, {__mode = "k"})

--- Returns a buffer that shares a tensor's data. A module moves and casts the buffers that are
--- assigned to its fields, and saves the persistent ones: `self.mean = nn.Buffer(torch.zeros(3))`.
---@param data Tensor
---@param persistent? boolean  true by default
---@return Tensor
function M.Buffer(...)
   local a = signature(...)
   local buffer = a.data:detach()
   kinds[buffer] = a.persistent and "persistent" or "transient"
   return order.made(buffer)
end

--- Returns "persistent" or "transient" for a buffer, nil for any other value.
---@param value any
---@return string?
function M.kind(value)
   return kinds[value]
end

--- Marks a copy as a buffer of the same kind as the original.
---@param copy Tensor
---@param original Tensor
function M.mark(copy, original)
   kinds[copy] = kinds[original]
end

return M
