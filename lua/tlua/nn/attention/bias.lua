-- bias.lua - torch.nn.attention.bias: causal masks for scaled_dot_product_attention, for cases in
-- which the number of queries differs from the number of keys.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local upper_left = args.signature [[nn.attention.bias.causal_upper_left(queries: count, keys: count,
   device: device?)]]
local lower_right = args.signature [[nn.attention.bias.causal_lower_right(queries: count,
   keys: count, device: device?)]]

local function mask(a, diagonal)
   return torch.ones(a.queries, a.keys, {dtype = "bool", device = a.device}):tril(diagonal)
end

--- Returns a mask in which query i attends to the keys up to i, as with `is_causal`. The first
--- query is aligned with the first key.
---@param queries integer
---@param keys integer
---@param options? {device: string|torch.device}
---@return Tensor mask  (queries, keys) of bool, true where a key takes part
function M.causal_upper_left(...)
   return mask(upper_left(...), 0)
end

--- Returns a mask in which the last query attends to all keys, and each earlier query to one key
--- less than the query after it. A decoder with cached keys needs this mask.
---@param queries integer
---@param keys integer
---@param options? {device: string|torch.device}
---@return Tensor mask  (queries, keys) of bool, true where a key takes part
function M.causal_lower_right(...)
   local a = lower_right(...)
   return mask(a, a.keys - a.queries)
end

return M
