-- cache_batch.lua - lets a decoder compute several sequences in one call. Their new tokens form a
-- single row of the batch, one sequence after the other, so that linear layers multiply all of them
-- at once. Each sequence has its own cache, and its queries see only its own keys.

local torch = require "tlua"
local class = require "tlua.class"
local Cache = require "tlua.text.models.cache"
local masks = require "tlua.text.models.masks"

--- Holds the caches of several sequences whose new tokens form one row of a batch. A decoder takes
--- this object as past_key_values, with input_ids of shape (1, the sum of all counts). This class
--- is internal.
---@class text.CacheBatch
---@field parts {cache: text.Cache, count: integer}[]  each sequence's cache, and the number of its
--- new tokens
---@field length integer  always 0, since positions are counted in each sequence's own cache
local CacheBatch = class.class("text.CacheBatch")

---@param parts {cache: text.Cache, count: integer}[]
function CacheBatch:__init(parts) self.parts, self.length = parts, 0 end

--- Returns the position, from 1, of each new token in its sequence, as a tensor (1, S).
---@param device any
---@return Tensor
function CacheBatch:positions(device)
   local list = {}
   for _, part in ipairs(self.parts) do
      for i = 1, part.count do list[#list + 1] = part.cache.length + i end
   end
   return torch.tensor({list}, {dtype = "int64", device = device})
end

--- Returns the values that all layers with the given window and rotation share: a mask for each
--- sequence, and the sines and cosines of the rotation.
---@param x Tensor  (1, S, hidden_size)
---@param window? integer
---@param rotary? table
---@return table
function CacheBatch:state(x, window, rotary)
   local state, cos, sin = {cache = self, window = window, parts = {}}, {}, {}
   local total = 0
   for i, part in ipairs(self.parts) do
      local cache, count = part.cache, part.count
      local own = {window = window}
      own.mask, own.is_causal = masks.causal(count, cache:key_length(count, window), nil, window,
         x.device)
      state.parts[i], total = own, total + count
      if rotary then cos[i], sin[i] = rotary:angles(x, cache.length, count) end
   end
   if x:size(1) ~= 1 or x:size(2) ~= total then
      torch.raise(("text.CacheBatch: expected input_ids of shape (1, %d), the sum of the counts, "
         .. "got (%d, %d)"):format(total, x:size(1), x:size(2)))
   end
   if rotary then
      state.cos = #cos == 1 and cos[1] or torch.cat(cos, 1)
      state.sin = #sin == 1 and sin[1] or torch.cat(sin, 1)
   end
   return state
end

--- Appends each sequence's keys and values to its cache. Returns the attention of each sequence's
--- queries over its own keys.
---@param index integer  the layer, from 1
---@param q Tensor  (1, H, S, D)
---@param k Tensor  (1, G, S, D)
---@param v Tensor  (1, G, S, D)
---@param state table
---@param options? table
---@return Tensor  (1, H, S, D)
function CacheBatch:attend(index, q, k, v, state, options)
   local results, first, i = {}, 1, 1
   while i <= #self.parts do
      -- Consecutive sequences that have few new tokens are computed by one call of attend_steps.
      local steps, n = {}, 0
      for j = i, #self.parts do
         local part = self.parts[j]
         if not part.cache:takes_steps(index, q, v, part.count, options) then break end
         steps[#steps + 1], n = part, n + part.count
      end
      if #steps == 0 then n = self.parts[i].count end
      local qs, ks, vs = q, k, v
      if n < q:size(3) then
         qs, ks, vs = q:narrow(3, first, n), k:narrow(3, first, n), v:narrow(3, first, n)
      end
      results[#results + 1] = #steps > 0
         and Cache.attend_steps(steps, index, qs, ks, vs, state.window, options)
         or self.parts[i].cache:attend(index, qs, ks, vs, state.parts[i], options)
      i, first = i + math.max(1, #steps), first + n
   end
   return #results == 1 and results[1] or torch.cat(results, 3)
end

--- Adds the new tokens to the length of each cache, after all layers have received their keys and
--- values.
function CacheBatch:advance()
   for _, part in ipairs(self.parts) do part.cache:advance(part.count) end
end

return CacheBatch
