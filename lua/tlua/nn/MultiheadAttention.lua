-- MultiheadAttention.lua - attention of several heads: each looks in a projection of its own for
-- the positions that matter.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Linear = require "tlua.nn.Linear"
local Module = require "tlua.nn.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.MultiheadAttention(embed_dim: count, num_heads: count,
   dropout: number = 0, bias: boolean = true, kdim: count?, vdim: count?,
   batch_first: boolean = false, device: string?, dtype: string?)]]

local take_call = args.signature [[nn.MultiheadAttention.forward(query: tensor, key: tensor,
   value: tensor, key_padding_mask: tensor?, need_weights: boolean = true, attn_mask: tensor?,
   average_attn_weights: boolean = true, is_causal: boolean = false)]]

---@class nn.MultiheadAttention: nn.Module
---@overload fun(embed_dim: integer, num_heads: integer, options?): nn.MultiheadAttention
local MultiheadAttention, parent = class.class("nn.MultiheadAttention", Module)

---@param embed_dim integer  a multiple of num_heads
---@param num_heads integer
---@param options? {dropout: number, bias: boolean, kdim: integer, vdim: integer}
function MultiheadAttention:__init(...)
   parent.__init(self)
   local a = signature(...)
   local n = a.embed_dim
   if a.num_heads < 1 or n % a.num_heads ~= 0 then
      torch.raise(("nn.MultiheadAttention: num_heads: expected a divisor of %d, got %d"):format(
         n, a.num_heads))
   end
   local place = {device = a.device, dtype = a.dtype}
   self.embed_dim, self.num_heads, self.dropout = n, a.num_heads, a.dropout
   self.kdim, self.vdim, self.batch_first = a.kdim or n, a.vdim or n, a.batch_first
   if self.kdim == n and self.vdim == n then
      self.in_proj_weight = Parameter(torch.empty(3 * n, n, place))
   else
      self.q_proj_weight = Parameter(torch.empty(n, n, place))
      self.k_proj_weight = Parameter(torch.empty(n, self.kdim, place))
      self.v_proj_weight = Parameter(torch.empty(n, self.vdim, place))
   end
   if a.bias then self.in_proj_bias = Parameter(torch.empty(3 * n, place)) end
   self.out_proj = Linear(n, n, {bias = a.bias, device = a.device, dtype = a.dtype})
   self:reset_parameters()
end

--- Sets the projections by Xavier's rule and the biases to zero.
function MultiheadAttention:reset_parameters()
   for _, name in ipairs {"in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"} do
      if self[name] then init.xavier_uniform_(self[name]) end
   end
   if self.in_proj_bias then
      init.zeros_(self.in_proj_bias)
      init.zeros_(self.out_proj.bias)
   end
end

-- (N, L, E) to query, key and value, each (N, heads, L, E / heads).
local function project(self, query, key, value)
   local weights, biases
   if self.in_proj_weight then
      weights = self.in_proj_weight:chunk(3, 1)
   else
      weights = {self.q_proj_weight, self.k_proj_weight, self.v_proj_weight}
   end
   biases = self.in_proj_bias and self.in_proj_bias:chunk(3, 1) or {}
   local projected = {}
   for i, input in ipairs {query, key, value} do
      local x = F.linear(input, weights[i], biases[i])
      projected[i] = x:unflatten(3, {self.num_heads, -1}):transpose(2, 3)
   end
   return table.unpack(projected)
end

-- A mask of PyTorch's kind, true or -inf where nothing is to be seen, as what is added to scores.
local function additive(mask, like)
   if mask.dtype ~= "bool" then return mask end
   return torch.zeros(mask.shape, {dtype = like.dtype, device = like.device})
      :masked_fill_(mask, -math.huge)
end

-- All masks as one that is added to the scores (N, heads, L, S); nil if there are none.
local function join_masks(self, a, query, source_length)
   local length = query:size(2)
   local mask = a.attn_mask and additive(a.attn_mask, query)
   if mask and mask:dim() == 3 then mask = mask:unflatten(1, {-1, self.num_heads}) end
   if a.is_causal and not mask then
      mask = additive(torch.ones(length, source_length,
         {dtype = "bool", device = query.device}):triu(1), query)
   end
   if a.key_padding_mask then
      local padding = a.key_padding_mask
      if padding:dim() == 1 then padding = padding:unsqueeze(1) end
      padding = additive(padding, query):unsqueeze(2):unsqueeze(2)
      mask = mask and mask + padding or padding
   end
   return mask
end

--- Sequences are (L, N, E), (N, L, E) with `batch_first`, or one (L, E). Options are
--- key_padding_mask (N, S) and attn_mask (L, S) or (N * num_heads, L, S), true or -inf at what is
--- not to be seen; is_causal; need_weights and average_attn_weights.
---@param query Tensor
---@param key Tensor
---@param value Tensor
---@param options? table
---@return Tensor output  as query
---@return Tensor? weights  (N, L, S), (N, num_heads, L, S) if not averaged; nil if not needed
function MultiheadAttention:forward(...)
   local a = take_call(...)
   local query, key, value = a.query, a.key, a.value
   local single = query:dim() == 2
   local function to_batch(x)
      if single then return x:unsqueeze(1) end
      return self.batch_first and x or x:transpose(1, 2)
   end
   query, key, value = to_batch(query), to_batch(key), to_batch(value)
   local mask = join_masks(self, a, query, key:size(2))
   local q, k, v = project(self, query, key, value)
   local dropout = self.is_training and self.dropout or 0

   local heads, weights
   if a.need_weights then
      local scores = (q * q:size(4) ^ -0.5):matmul(k:transpose(3, 4))
      if mask then scores = scores + mask end
      weights = F.dropout(F.softmax(scores, -1), dropout, dropout > 0)
      heads = weights:matmul(v)
   else
      heads = F.scaled_dot_product_attention(q, k, v, {attn_mask = mask, dropout_p = dropout})
   end
   local output = self.out_proj(heads:transpose(2, 3):flatten(3))

   if weights and a.average_attn_weights then weights = weights:mean(2) end
   if single then
      return output:squeeze(1), weights and weights:squeeze(1)
   end
   return self.batch_first and output or output:transpose(1, 2), weights
end

function MultiheadAttention:extra_repr()
   return ("embed_dim=%d, num_heads=%d"):format(self.embed_dim, self.num_heads)
end

return MultiheadAttention
