-- rotary.lua - rotary position embeddings with the scalings of config.json: linear, dynamic, yarn,
-- longrope and llama3. Frequencies are computed in double precision.

local torch = require "tlua"
local class = require "tlua.class"
local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"

local F = torch.nn.functional

local Rotary = class.class("text.models.Rotary")

-- Returns the rotation frequencies of `dim / 2` pairs of features. The frequency of pair i, counted
-- from 0, is base^(-2i / dim).
local function frequencies(base, dim)
   local list = {}
   for i = 0, dim // 2 - 1 do list[i + 1] = base ^ (-2 * i / dim) end
   return list
end

local function each(list, fn)
   local result = {}
   for i, value in ipairs(list) do result[i] = fn(value, i) end
   return result
end

-- Functions that return the frequencies for a type of scaling, and a factor by which cosines and
-- sines are multiplied. `p` has the parameters of config.json, and `length` is the number of
-- positions so far.
local types = {}

function types.default(p, dim) return frequencies(p.rope_theta, dim), 1 end

function types.linear(p, dim)
   return each(frequencies(p.rope_theta, dim), function(f) return f / p.factor end), 1
end

function types.dynamic(p, dim, length)
   local most = p.max_position_embeddings
   local grown = p.factor * math.max(length, most) / most - (p.factor - 1)
   return frequencies(p.rope_theta * grown ^ (dim / (dim - 2)), dim), 1
end

function types.llama3(p, dim)
   local old = p.original_max_position_embeddings
   return each(frequencies(p.rope_theta, dim), function(f)
      local wave = 2 * math.pi / f
      if wave < old / p.high_freq_factor then return f end
      if wave > old / p.low_freq_factor then return f / p.factor end
      local smooth = (old / wave - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor)
      return (1 - smooth) * f / p.factor + smooth * f
   end), 1
end

function types.yarn(p, dim)
   local old = p.original_max_position_embeddings
   local factor = p.factor or p.max_position_embeddings / old
   local function scale(m) return factor <= 1 and 1 or 0.1 * m * math.log(factor) + 1 end
   local attention = p.attention_factor
   if not attention and p.mscale and p.mscale_all_dim then
      attention = scale(p.mscale) / scale(p.mscale_all_dim)
   end
   -- Returns the number of the pair of features, counted from 0 and not rounded, that makes the
   -- given number of rotations over the original maximum length.
   local function pair(rotations)
      return dim * math.log(old / (rotations * 2 * math.pi)) / (2 * math.log(p.rope_theta))
   end
   local low, high = pair(p.beta_fast or 32), pair(p.beta_slow or 1)
   if p.truncate ~= false then low, high = math.floor(low), math.ceil(high) end
   low, high = math.max(low, 0), math.min(high, dim - 1)
   if low == high then high = high + 0.001 end
   return each(frequencies(p.rope_theta, dim), function(f, i)
      local ramp = math.min(math.max((i - 1 - low) / (high - low), 0), 1)
      return f / factor * ramp + f * (1 - ramp)
   end), attention or scale(1)
end

function types.longrope(p, dim, length)
   local old = p.original_max_position_embeddings
   local factor = p.factor or p.max_position_embeddings / old
   local own = length > old and p.long_factor or p.short_factor
   local attention = p.attention_factor
      or factor <= 1 and 1 or math.sqrt(1 + math.log(factor) / math.log(old))
   return each(frequencies(p.rope_theta, dim), function(f, i) return f / own[i] end), attention
end

-- The parameters that each type of scaling requires.
local needed = {
   linear = {"factor"}, dynamic = {"factor"}, yarn = {"original_max_position_embeddings"},
   llama3 = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
   longrope = {"original_max_position_embeddings"},
}

-- Returns the parameters of the rotation. They come from the field `rope_parameters` of
-- config.json, which may have a table for each kind of layer, or from the older fields rope_theta
-- and rope_scaling.
local function parameters_of(config, kind)
   local given = config.rope_parameters or config.rope_scaling or {}
   if kind and type(given[kind]) == "table" then given = given[kind] end
   local p = {}
   for key, value in pairs(given) do p[key] = value end
   p.rope_theta = p.rope_theta or config.rope_theta or 10000.0
   p.rope_type = p.rope_type or p.type or "default"
   p.max_position_embeddings = config.max_position_embeddings
   p.original_max_position_embeddings = p.original_max_position_embeddings
      or config.original_max_position_embeddings
      or p.rope_type ~= "longrope" and config.max_position_embeddings or nil
   return p
end

local function check(p, dim)
   local where = "config.json: rope_parameters"
   if p.rope_type == "su" then p.rope_type = "longrope" end
   if not types[p.rope_type] then
      torch.raise(("%s: rope_type: there is no type %q%s"):format(where, tostring(p.rope_type),
         suggest.hint(tostring(p.rope_type), types)))
   end
   for _, name in ipairs(needed[p.rope_type] or {}) do
      if type(p[name]) ~= "number" then args.refuse(where, name, "a number", p[name]) end
   end
   if type(p.rope_theta) ~= "number" or p.rope_theta <= 0 then
      args.refuse(where, "rope_theta", "a positive number", p.rope_theta)
   end
   if p.rope_type == "longrope" then
      for _, name in ipairs {"short_factor", "long_factor"} do
         if type(p[name]) ~= "table" or #p[name] ~= dim // 2 then
            args.refuse(where, name, ("a list of %d numbers"):format(dim // 2), p[name])
         end
      end
   end
   if dim <= 0 or dim % 2 ~= 0 then
      args.refuse(where, "head_dim", "an even number of rotated features", dim)
   end
end

--- Makes the rotation for heads of head_dim features.
---@param config table
---@param head_dim integer
---@param kind? string  the kind of layer, such as "sliding_attention"
---@param share? number  the part of each head's features that is rotated, between 0 and 1, if
--- config does not give it
function Rotary:__init(config, head_dim, kind, share)
   local p = parameters_of(config, kind)
   share = p.partial_rotary_factor or config.partial_rotary_factor or share or 1
   self.dim = math.floor(head_dim * share)
   check(p, self.dim)
   self.parameters, self.tables = p, {}
   self.varies = p.rope_type == "dynamic" or p.rope_type == "longrope"
end

-- Returns a value that changes when a text of `length` tokens needs other frequencies than the
-- cached tables. longrope has two sets of frequencies, and dynamic scaling has one for each length.
local function length_class(self, length)
   local p = self.parameters
   if p.rope_type == "longrope" then return length > p.original_max_position_embeddings end
   return p.rope_type == "dynamic" and math.max(length, p.max_position_embeddings)
end

-- Returns tables (n, dim / 2) of cosines and sines for the positions 1 to n, where n is at least
-- `length`.
local function tables_for(self, length, dtype, device)
   local key = dtype .. " " .. tostring(device)
   local found, kind = self.tables[key], length_class(self, length)
   if found and found.count >= length and found.kind == kind then return found end
   local list, scale = types[self.parameters.rope_type](self.parameters, self.dim, length)
   local count = 64
   while count < length do count = 2 * count end
   local like = {dtype = "float64", device = "cpu"}
   local angles = torch.outer(torch.arange(0, count, like), torch.tensor(list, like))
   found = {
      count = count, kind = kind,
      cos = (angles:cos() * scale):to(dtype):to(device),
      sin = (angles:sin() * scale):to(dtype):to(device),
   }
   self.tables[key] = found
   return found
end

--- Returns the cosines and sines of the rotation angles for positions. Their shapes broadcast to
--- (B, heads, S, dim / 2).
---@param like Tensor  a tensor with the dtype and device of the results
---@param past integer  the number of positions before the first new one
---@param count integer  S
---@param positions? Tensor  (S) or (B, S) from 1; by default past + 1 to past + S
---@return Tensor cos
---@return Tensor sin
function Rotary:angles(like, past, count, positions)
   local dtype = like.dtype == "float64" and "float64" or "float32"
   local last = past + count
   if positions then
      last = positions:max():item()
      local first = positions:min():item()
      if first < 1 then
         args.refuse("text.models.Rotary", "position_ids", "positions from 1", first)
      end
   end
   local found = tables_for(self, last, dtype, like.device)
   if not positions then
      return found.cos:narrow(1, past + 1, count), found.sin:narrow(1, past + 1, count)
   end
   local cos, sin = found.cos[positions], found.sin[positions]
   if positions:dim() == 2 then cos, sin = cos:unsqueeze(2), sin:unsqueeze(2) end
   return cos, sin
end

--- Rotates queries or keys (B, heads, S, D).
---@param x Tensor
---@param cos Tensor
---@param sin Tensor
---@param interleaved? boolean  whether the two features of a pair are adjacent instead of D / 2
--- apart
---@return Tensor
function Rotary.rotate(x, cos, sin, interleaved)
   return F.rotary_embedding(x, cos, sin, interleaved or false)
end

return Rotary
