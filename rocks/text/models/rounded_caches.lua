-- rounded_caches.lua - the kinds of caches of keys and values, with llama.cpp's names. "f32" is the
-- ordinary cache, "f16" stores 16 bits for each element, and "q8_0" rounds each group of 32
-- elements to 8 bits with a common scale.

local torch = require "tlua"
local class = require "tlua.class"
local Cache = require "tlua.text.models.cache"

local Half = class.class("text.HalfCache", Cache)

function Half:pack(key, value)
   -- `unpack` converts keys and values back to this dtype, which the queries have too.
   self.dtype = key.dtype
   return {key:to "float16", value:to "float16"}
end

function Half:unpack(stored)
   return stored[1]:to(self.dtype), stored[2]:to(self.dtype)
end

-- The number of elements that share a scale in "q8_0".
local group <const> = 32

local Rounded = class.class("text.RoundedCache", Cache)

-- Rounds x (B, heads, S, D) to int8. Returns the result, and the scales (B, heads, S, D / 32) in
-- float16.
local function round(x)
   local parts = x:float():unflatten(4, {-1, group})
   local scales = (parts:abs():amax(5) / 127):to "float16"
   -- If the scale is 0, all elements of the group are 0, or so small that the scale underflows in
   -- float16; they are then rounded to 0.
   local by = scales:float():reciprocal():nan_to_num(0, 0, 0)
   local q = (parts * by:unsqueeze(5)):round():clamp(-127, 127):to "int8"
   return q:flatten(4), scales
end

local function restore(q, scales)
   local x = q:float()
   x:unflatten(4, {-1, group}):mul_(scales:float():unsqueeze(5))
   return x
end

function Rounded:pack(key, value)
   if key:size(4) % group ~= 0 then
      torch.raise(("a cache of 8 bits needs heads of a multiple of %d features, and the model's "
         .. "have %d"):format(group, key:size(4)))
   end
   self.dtype = key.dtype
   local k, k_scales = round(key)
   local v, v_scales = round(value)
   return {k, v, k_scales, v_scales}
end

function Rounded:unpack(stored)
   return restore(stored[1], stored[3]):to(self.dtype), restore(stored[2], stored[4]):to(self.dtype)
end

local M = {kinds = {f32 = Cache, f16 = Half, q8_0 = Rounded}}

--- Returns whether heads of `size` features can be stored in a kind of cache. If they cannot, also
--- returns the reason.
---@param kind string
---@param size integer
---@return boolean
---@return string? message
function M.fits(kind, size)
   if kind ~= "q8_0" or size % group == 0 then return true end
   return false, ("cache_type: q8_0 needs heads of a multiple of %d features, and the model's have "
      .. "%d"):format(group, size)
end

return M
