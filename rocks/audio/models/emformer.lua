-- emformer.lua - Emformer (Shi et al., 2021): a transformer for streams of sound. A segment of
-- frames attends to itself, to some frames before it (the left context), to some frames after it
-- (the right context), and to the means of earlier segments (the memory). Tensors inside this file
-- are (time, batch, features). Keys come in this order: memory, right contexts, left context,
-- frames.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.audio.checks"

local nn, F = torch.nn, torch.nn.functional

local prefix <const> = "audio.models.Emformer"
local activations <const> = {relu = nn.ReLU, gelu = nn.GELU, silu = nn.SiLU}

-- Concatenates tensors along time; arguments that are nil are left out.
local function join(...)
   local list = {}
   for i = 1, select("#", ...) do list[#list + 1] = (select(i, ...)) end
   return #list == 1 and list[1] or torch.cat(list, 1)
end

local function count_of(x) return x and x:size(1) or 0 end

-- Returns x without the first n frames, or nil if no frames are left.
local function after(x, n)
   local rest = x:size(1) - n
   return rest > 0 and x:narrow(1, n + 1, rest) or nil
end

-- Returns the first n frames of x, or nil if n is 0.
local function first(x, n) return n > 0 and x:narrow(1, 1, n) or nil end

-- Attention -------------------------------------------------------------------------------------

local Attention = class.class("audio.models.EmformerAttention", nn.Module)

function Attention:__init(a, gain)
   self.heads, self.p, self.tanh_on_mem = a.num_heads, a.dropout, a.tanh_on_mem
   self.lowest = a.negative_inf
   self.emb_to_key_value = nn.Linear(a.input_dim, 2 * a.input_dim)
   self.emb_to_query = nn.Linear(a.input_dim, a.input_dim)
   self.out_proj = nn.Linear(a.input_dim, a.input_dim)
   if gain then
      nn.init.xavier_uniform_(self.emb_to_key_value.weight, gain)
      nn.init.xavier_uniform_(self.emb_to_query.weight, gain)
   end
end

-- Splits x (time, batch, features) into heads: (batch, heads, time, features of a head).
local function split(x, heads)
   return x:view(x:size(1), x:size(2), heads, -1):permute(2, 3, 1, 4)
end

-- Returns a mask (batch, keys) that is true for the keys of padding, which come last. `keys` is the
-- number of keys, the last `frames` of which belong to the frames. Returns nil for a batch of one
-- utterance, which has no padding.
local function padding_of(lengths, keys, frames)
   if lengths:size(1) == 1 then return nil end
   local past = keys - frames -- the number of keys before the keys of the frames
   local longest = frames - lengths:max():item()
   return torch.arange(keys, {device = lengths.device}):ge((lengths + past + longest):unsqueeze(2))
end

-- Computes the attention for one segment or for all segments. `parts` has the tensor `utterance`,
-- and optionally right_context, summary, mems, left_key and left_value. The mask `hidden` (queries,
-- keys) is true for keys that a query must not see. Returns the results for the right contexts and
-- the frames, the new memory, the keys and the values.
function Attention:forward(parts, lengths, hidden)
   local frames, right, mems = parts.utterance, parts.right_context, parts.mems
   local query = self.emb_to_query(join(right, frames, parts.summary))
   local key, value = table.unpack(self.emb_to_key_value(join(mems, right, frames)):chunk(2, 3))
   local longest = math.tointeger(lengths:max():item())
   -- Frames after the longest length count as right context, as in torchaudio.
   local before = count_of(mems) + count_of(right) + frames:size(1) - longest
   if parts.left_key then
      key = join(first(key, before), parts.left_key, after(key, before))
      value = join(first(value, before), parts.left_value, after(value, before))
   end
   local q, k, v = split(query, self.heads), split(key, self.heads), split(value, self.heads)
   local scores = (q * q:size(4) ^ -0.5):matmul(k:transpose(3, 4))
   if hidden then scores = scores:masked_fill(hidden, self.lowest) end
   local padding = padding_of(lengths, key:size(1), frames:size(1))
   if padding then scores = scores:masked_fill(padding:unsqueeze(2):unsqueeze(2), self.lowest) end
   local seen = F.dropout(scores:softmax(-1), self.p, self.training):matmul(v)
   local out = self.out_proj(seen:permute(3, 1, 2, 4):reshape(query.shape))
   local n = out:size(1) - count_of(parts.summary)
   local memory = after(out, n)
   if memory then memory = self.tanh_on_mem and memory:tanh() or memory:clamp(-10, 10) end
   return out:narrow(1, 1, n), memory, key, value
end

-- Layers ----------------------------------------------------------------------------------------

-- Returns the mean of each segment of `size` frames.
local function means(x, size)
   return F.avg_pool1d(x:permute(2, 3, 1), size, {stride = size, ceil_mode = true}):permute(3, 1, 2)
end

local Layer = class.class("audio.models.EmformerLayer", nn.Module)

function Layer:__init(a, gain)
   self.attention = Attention(a, gain)
   self.dropout = nn.Dropout(a.dropout)
   self.pos_ff = nn.Sequential(nn.LayerNorm(a.input_dim), nn.Linear(a.input_dim, a.ffn_dim),
      activations[a.activation](), nn.Dropout(a.dropout), nn.Linear(a.ffn_dim, a.input_dim),
      nn.Dropout(a.dropout))
   self.layer_norm_input = nn.LayerNorm(a.input_dim)
   self.layer_norm_output = nn.LayerNorm(a.input_dim)
   self.left, self.segment, self.memory = a.left_context_length, a.segment_length,
      a.max_memory_size
end

-- Applies the feed-forward network to the output of attention. Returns the frames and the right
-- context.
local function finished(self, out, frames, right)
   out = self.dropout(out) + join(right, frames)
   out = self.layer_norm_output(self.pos_ff(out) + out)
   local n = count_of(right)
   return after(out, n), first(out, n)
end

local function normed(self, frames, right)
   local x, n = self.layer_norm_input(join(right, frames)), count_of(right)
   return after(x, n), first(x, n)
end

function Layer:forward(frames, lengths, right, mems, hidden)
   local x, context = normed(self, frames, right)
   local parts = {utterance = x, right_context = context, mems = mems}
   if self.memory > 0 then parts.summary = means(x, self.segment) end
   local out, memory = self.attention(parts, lengths, hidden)
   frames, right = finished(self, out, frames, right)
   return frames, right, memory and first(memory, memory:size(1) - 1)
end

-- Joins x and y along time, x first, and returns the last n frames, or nil if n is 0.
local function kept(x, y, n)
   if n == 0 then return nil end
   local all = join(x, y)
   return all:narrow(1, math.max(1, all:size(1) - n + 1), math.min(n, all:size(1)))
end

--- Computes one segment of a stream. `state` has the memory, keys and values of earlier segments,
--- each of which may be nil. `mems` is the memory that is added for this segment.
function Layer:infer(frames, lengths, right, state, mems)
   local x, context = normed(self, frames, right)
   local parts = {utterance = x, right_context = context, mems = state.memory,
      left_key = state.key, left_value = state.value}
   if self.memory > 0 then parts.summary = first(means(x, self.segment), 1) end
   local hidden
   if parts.summary and state.memory then -- the query of the summary must not see the memory
      local keys = count_of(state.memory) + count_of(state.key) + count_of(right) + frames:size(1)
      local queries = count_of(right) + frames:size(1) + 1
      hidden = torch.zeros(queries, keys, {dtype = "bool", device = x.device})
      hidden[{queries, {1, count_of(state.memory)}}] = true
   end
   local out, memory, key, value = self.attention(parts, lengths, hidden)
   local past = count_of(state.memory) + count_of(right)
   local new = {memory = kept(state.memory, mems, self.memory),
      key = kept(nil, after(key, past), self.left),
      value = kept(nil, after(value, past), self.left)}
   frames, right = finished(self, out, frames, right)
   return frames, right, new, memory
end

-- The model -------------------------------------------------------------------------------------

--- Encodes features of sound. A call takes features (batch, time + right_context_length, features),
--- whose last frames are the right context of the last segment, and the lengths (batch), which do
--- not count the right context. It returns the encoded features (batch, time, features) and the
--- lengths. `infer` encodes a stream in segments. The option weight_init_scale_strategy is
--- "depthwise", "constant" or "none".
---
---     local options = {right_context_length = 1}
---     local model = torch.audio.models.Emformer(16, 2, 32, 2, 4, options)
---     print((model(torch.randn(2, 11, 16), torch.tensor {10, 7})).shape)
---     --> torch.Size([2, 10, 16])
---@class audio.models.Emformer: nn.Module
---@field emformer_layers nn.Module  the layers
---@overload fun(input_dim: integer, num_heads: integer, options?: table): nn.Module
local Emformer = class.class("audio.models.Emformer", nn.Module)

local take = args.signature [[audio.models.Emformer(input_dim: count, num_heads: count,
   ffn_dim: count, num_layers: count, segment_length: count, dropout: number = 0,
   activation: string = 'relu', left_context_length: integer = 0,
   right_context_length: integer = 0, max_memory_size: integer = 0,
   weight_init_scale_strategy: string = 'depthwise', tanh_on_mem: boolean = false,
   negative_inf: number = -1e8)]]

local gains <const> = {
   depthwise = function(i) return i ^ -0.5 end,
   constant = function() return 2 ^ -0.5 end,
   none = function() end,
}

function Emformer:__init(...)
   local a = take(...)
   checks.among(prefix, "activation", a.activation, activations)
   checks.among(prefix, "weight_init_scale_strategy", a.weight_init_scale_strategy, gains)
   for _, name in ipairs {"left_context_length", "right_context_length", "max_memory_size"} do
      checks.at_least(prefix, name, a[name], 0)
   end
   if a.num_heads < 1 or a.input_dim % a.num_heads ~= 0 then
      args.refuse(prefix, "num_heads", ("a divisor of input_dim, %d"):format(a.input_dim),
         a.num_heads)
   end
   self.input_dim, self.segment, self.left, self.right, self.memory = a.input_dim, a.segment_length,
      a.left_context_length, a.right_context_length, a.max_memory_size
   local list = {}
   for i = 1, a.num_layers do list[i] = Layer(a, gains[a.weight_init_scale_strategy](i)) end
   self.emformer_layers = nn.ModuleList(list)
end

-- Returns the concatenated right contexts of all segments, or nil if the right context is empty.
local function right_contexts(self, x, frames)
   if self.right == 0 then return nil end
   local list = {}
   for start = self.segment, frames - 1, self.segment do
      list[#list + 1] = x:narrow(1, start + 1, self.right)
   end
   list[#list + 1] = x:narrow(1, frames + 1, self.right)
   return torch.cat(list, 1)
end

-- Returns a mask (queries, keys) that is true where a query must not see a key. The queries belong
-- to the right contexts, the frames and the summaries, in this order. The keys belong to the
-- memory, the right contexts and the frames.
local function hidden_keys(self, frames, device)
   local size, count = self.segment, (frames + self.segment - 1) // self.segment
   local at = {dtype = "int64", device = device}
   local segments = torch.arange(count, at)
   local right = segments:repeat_interleave(self.right, 1)
   local place = torch.arange(frames, at)
   local summaries = self.memory > 0 and segments or nil
   local query = join(right, torch.div(place, size, {rounding_mode = "floor"}), summaries)
      :unsqueeze(2)
   local seen = torch.cat({query:eq(right:unsqueeze(1)),
      place:ge(query * size - self.left) & place:lt((query + 1) * size)}, 2)
   if self.memory > 0 and count > 1 then
      local memory = torch.arange(count - 1, at)
      local own = memory:lt(query) & memory:ge(query - self.memory)
      own:narrow(1, query:size(1) - count + 1, count):fill_(false)
      seen = torch.cat({own, seen}, 2)
   end
   return seen:logical_not()
end

local function check(self, title, input, lengths, most)
   checks.real(title, "input", input, 3, "(batch, time, features)")
   if input:dim() ~= 3 or input:size(3) ~= self.input_dim or input:size(2) <= self.right then
      args.refuse(title, "input", ("a tensor of shape (batch, more than %d, %d)"):format(self.right,
         self.input_dim), input)
   end
   checks.lengths(title, lengths, input:size(1), most)
end

function Emformer:forward(input, lengths)
   local n = torch.is_tensor(input) and input:dim() > 1 and input:size(2) - self.right
   check(self, prefix, input, lengths, n)
   local x = input:transpose(1, 2)
   local frames, right = x:narrow(1, 1, n), right_contexts(self, x, n)
   local hidden, mems = hidden_keys(self, n, x.device), nil
   if self.memory > 0 then
      mems = means(frames, self.segment)
      mems = first(mems, mems:size(1) - 1)
   end
   for _, layer in ipairs(self.emformer_layers) do
      frames, right, mems = layer(frames, lengths, right, mems, hidden)
   end
   return frames:transpose(1, 2), lengths
end

--- Encodes the next segment of a stream: (batch, segment_length + right_context_length, features).
---@param input Tensor
---@param lengths Tensor  (batch): the numbers of valid frames, right context included
---@param states? table[]  the states that the call for the previous segment returned
---@return Tensor output  (batch, segment_length, features)
---@return Tensor lengths  (batch)
---@return table[] states
function Emformer:infer(input, lengths, states)
   local title <const> = prefix .. ":infer"
   check(self, title, input, lengths, self.segment + self.right)
   if input:size(2) ~= self.segment + self.right then
      args.refuse(title, "input", ("%d frames, a segment and its right context"):format(
         self.segment + self.right), input)
   end
   if states ~= nil and (type(states) ~= "table" or #states ~= #self.emformer_layers) then
      args.refuse(title, "states", "the states that infer has returned", states)
   end
   local x = input:transpose(1, 2)
   local frames, right = x:narrow(1, 1, self.segment), after(x, self.segment)
   lengths = (lengths - self.right):clamp {min = 0}
   local mems = self.memory > 0 and means(frames, self.segment) or nil
   local new = {}
   for i, layer in ipairs(self.emformer_layers) do
      frames, right, new[i], mems = layer:infer(frames, lengths, right, states and states[i] or {},
         mems)
   end
   return frames:transpose(1, 2), lengths, new
end

return Emformer
