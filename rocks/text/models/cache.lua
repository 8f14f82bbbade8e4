-- cache.lua - the cache of keys and values, with which each step of generation computes only its
-- new tokens. Each layer has two buffers (B, heads, capacity, features), one for keys and one for
-- values. When a buffer is full, its capacity grows by half. A layer with a sliding window keeps
-- only the keys that later queries may see. A derived class can override `pack` and `unpack` to
-- store keys and values in another form, for example rounded to 8 bits.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local layers = require "tlua.text.models.layers"

--- The cached keys and values of all layers of a model, so that generation computes only the new
--- tokens of each step.
---
---     local _ <close> = torch.no_grad()
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config)
---     local cache = torch.text.Cache()
---     model(torch.tensor {{1, 2, 3}}, {past_key_values = cache})
---     model(torch.tensor {{4}}, {past_key_values = cache})
---     print(cache:get_seq_length())
---     --> 4
---@class text.Cache
---@field max_length? integer  the number of positions to reserve at the first step, if known
---@field layers table<integer, table>  the list `buffers` of each layer, with the number of used
--- positions
---@field length integer  the number of positions so far
---@field cross table<integer, Tensor[]>  for encoder-decoder models: each layer's keys and values
--- of the encoder's output
local Cache = class.class("text.Cache")

-- Returns a number without a fraction as an integer, and nil for any other value.
local function integer_of(value) return math.type(value) and math.tointeger(value) or nil end

--- Creates an empty cache.
---@param max_length? integer  the number of positions to reserve at the first step; if nil, buffers
--- grow
function Cache:__init(max_length)
   local longest = integer_of(max_length)
   if max_length ~= nil and (not longest or longest < 1) then
      args.refuse("text.Cache", "max_length", "an integer of at least 1", max_length)
   end
   max_length = longest
   self.max_length, self.layers, self.cross, self.length = max_length, {}, {}, 0
end

-- Returns the tensors (B, heads, S, ...) in which keys and values are stored.
function Cache:pack(key, value) -- luacheck: ignore self
   return {key, value}
end

-- Returns keys and values from the tensors in which they are stored.
function Cache:unpack(stored) -- luacheck: ignore self
   return stored[1], stored[2]
end

--- Returns the number of tokens so far.
---@return integer
function Cache:get_seq_length() return self.length end

-- Allocates larger buffers for a layer, with room for `count` further positions. Copies the last
-- `kept` keys and values into them.
local function grow(layer, count, kept, max_length)
   local need = kept + count
   local room = need + math.max(64, math.min(need, layer.window or need) // 2)
   if max_length and not layer.window then room = math.max(need, max_length) end
   local first, larger = layer.used - kept, {}
   for i, old in ipairs(layer.buffers) do
      local new = torch.empty(old:size(1), old:size(2), room, old:size(4),
         {dtype = old.dtype, device = old.device})
      if kept > 0 then new:narrow(3, 1, kept):copy_(old:narrow(3, first + 1, kept)) end
      larger[i] = new
   end
   -- The layer gets the new buffers after all copies, so that an interrupted copy changes nothing.
   layer.buffers = larger
   layer.dropped, layer.used = layer.dropped + first, kept
end

-- Enlarges a layer's buffers if they have no room for `count` further positions.
local function make_room(layer, count, max_length)
   if layer.used + count <= layer.buffers[1]:size(3) then return end
   local kept = layer.window and math.min(layer.used, layer.window - 1) or layer.used
   grow(layer, count, kept, max_length)
end

--- Appends keys and values (B, heads, S, features) to a layer's cache. Returns all keys and values
--- that the new queries may see.
---@param index integer  the layer, from 1
---@param key Tensor
---@param value Tensor
---@param window? integer  the size of the layer's sliding window
---@return Tensor keys
---@return Tensor values
function Cache:update(index, key, value, window)
   local layer, count, stored = self.layers[index], key:size(3), self:pack(key, value)
   if not layer then
      layer = {buffers = stored, used = 0, dropped = 0, window = window}
      self.layers[index] = layer
      grow(layer, count, 0, self.max_length)
   else
      make_room(layer, count, self.max_length)
   end
   if torch.is_grad_enabled() and (key.requires_grad or value.requires_grad) then
      torch.raise("text.Cache: keys of a cache have no gradients: call the model in torch.no_grad, "
         .. "or without use_cache and past_key_values")
   end
   local at = layer.used + 1
   for i, buffer in ipairs(layer.buffers) do
      local new = stored[i]
      buffer:narrow(3, at, count):copy_(new)
      if not rawequal(new, key) and not rawequal(new, value) then new:release() end
   end
   layer.used = layer.used + count
   local first, total = 1, layer.used
   if window then
      first = math.max(1, at - window + 1)
      total = layer.used - first + 1
   end
   local seen = {}
   for i, buffer in ipairs(layer.buffers) do seen[i] = buffer:narrow(3, first, total) end
   return self:unpack(seen)
end

-- The largest number of new positions for which `attend_steps` is faster than `attend`, which
-- computes blocks of queries.
local few <const> = 8

--- Returns whether `attend_steps` can compute `count` new positions of this cache and is faster
--- than `attend`. The layer must have been computed before, and the new positions must see all
--- earlier positions.
---@param index integer  the layer, from 1
---@param q Tensor  (B, H, L, D)
---@param v Tensor  (B, G, L, D)
---@param count integer
---@param options? table  the options of layers.attend
---@return boolean
function Cache:takes_steps(index, q, v, count, options)
   return self.layers[index] ~= nil and count <= few and q:size(1) == 1
      and q.device.type == "cpu" and v:size(4) == q:size(4) and q.dtype == "float32"
      and v.dtype == "float32" and not torch.is_grad_enabled()
      and not (options and (options.softcap or (options.dropout or 0) > 0))
end

--- Appends the new keys and values of several sequences to their caches. Returns the attention of
--- each sequence's queries over its own keys. The cached keys and values are read in the form in
--- which they are stored.
---@param parts {cache: text.Cache, count: integer}[]  each sequence's cache and its number of new
--- positions, which takes_steps allows
---@param index integer  the layer, from 1
---@param q Tensor  (1, H, S, D)
---@param k Tensor  (1, G, S, D)
---@param v Tensor  (1, G, S, D)
---@param window? integer  the size of the layer's sliding window
---@param options? {scale: number}
---@return Tensor  (1, H, S, D)
function Cache.attend_steps(parts, index, q, k, v, window, options)
   local stored, used, counts = {}, {}, {}
   for i, part in ipairs(parts) do
      local layer = part.cache.layers[index]
      make_room(layer, part.count, part.cache.max_length)
      for _, buffer in ipairs(layer.buffers) do stored[#stored + 1] = buffer end
      used[i], counts[i] = layer.used, part.count
   end
   local y = torch._cached_attention(q, k, v, stored, used, counts,
      {scale = options and options.scale, window = window or 0})
   for i, part in ipairs(parts) do
      local layer = part.cache.layers[index]
      layer.used = used[i] + part.count
   end
   return y
end

--- Appends keys and values to a layer's cache. Returns the attention of the queries over all keys
--- that they may see.
---@param index integer  the layer, from 1
---@param q Tensor  (B, H, L, D)
---@param k Tensor  (B, G, L, D)
---@param v Tensor  (B, G, L, D)
---@param state table  the state that the layers share: mask, is_causal, window
---@param options? table  the options of layers.attend
---@return Tensor  (B, H, L, D)
function Cache:attend(index, q, k, v, state, options)
   if q:size(3) == 1 and not state.mask and self:takes_steps(index, q, v, 1, options) then
      return Cache.attend_steps({{cache = self, count = 1}}, index, q, k, v, state.window, options)
   end
   k, v = self:update(index, k, v, state.window)
   local y = layers.attend(q, k, v, state, options)
   if not torch.is_grad_enabled() and self.update == Cache.update then layers.release {k, v} end
   return y
end

--- Removes all tokens after the first `length` tokens. Returns false and leaves the cache unchanged
--- if the shorter text needs keys that a layer with a sliding window has dropped.
---@param length integer  at least 0
---@return boolean
function Cache:crop(length)
   local count = integer_of(length)
   if not count or count < 0 then
      args.refuse("text.Cache:crop", "length", "an integer of at least 0", length)
   end
   length = count
   for _, layer in ipairs(self.layers) do
      local first = layer.window and math.max(0, length - layer.window + 1) or 0
      if layer.dropped > first then return false end
   end
   for _, layer in ipairs(self.layers) do
      layer.used = math.min(layer.used, length - layer.dropped)
   end
   self.length = math.min(self.length, length)
   return true
end

--- Returns a copy that has only the first `length` tokens. Returns nil if a layer with a sliding
--- window has dropped keys.
---@param length integer  at most the number of tokens so far
---@return text.Cache?
function Cache:copy(length)
   local count = integer_of(length)
   if not count or count < 0 or count > self.length then
      args.refuse("text.Cache:copy", "length", ("an integer from 0 to %d, the number of tokens")
         :format(self.length), length)
   end
   length = count
   local new = getmetatable(self)(self.max_length)
   for i, layer in ipairs(self.layers) do
      if layer.dropped > 0 then return nil end
      local buffers = {}
      for k, buffer in ipairs(layer.buffers) do
         buffers[k] = buffer:narrow(3, 1, length):contiguous():clone()
      end
      new.layers[i] = {buffers = buffers, used = length, dropped = 0, window = layer.window}
   end
   new.length = length
   return new
end

--- Adds `count` tokens to the length. A model calls this once, after all layers have received their
--- keys and values.
---@param count integer
function Cache:advance(count) self.length = self.length + count end

--- Returns the number of keys, including those of the new tokens, that `count` new queries may see
--- in a layer with the given window.
---@param count integer
---@param window? integer
---@return integer
function Cache:key_length(count, window)
   local all = self.length + count
   return window and math.min(all, window - 1 + count) or all
end

--- Replaces the rows of the batch in all layers by the rows with the given numbers. Beam search
--- uses this.
---@param rows Tensor  positions, from 1
function Cache:reorder(rows)
   for _, layer in ipairs(self.layers) do
      for i, buffer in ipairs(layer.buffers) do
         local used = buffer:narrow(3, 1, layer.used):index_select(1, rows)
         if used:size(1) ~= buffer:size(1) then
            layer.buffers[i] = used
         else
            buffer:narrow(3, 1, layer.used):copy_(used)
         end
      end
   end
   for _, pair in pairs(self.cross) do
      for i = 1, 2 do pair[i] = pair[i]:index_select(1, rows) end
   end
end

return Cache
