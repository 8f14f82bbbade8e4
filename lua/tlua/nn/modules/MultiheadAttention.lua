-- MultiheadAttention.lua - attention with several heads, each of which has its own projections of
-- queries, keys and values.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Linear = require "tlua.nn.modules.Linear"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.MultiheadAttention(embed_dim: count, num_heads: count,
   dropout: number = 0, bias: boolean = true, add_bias_kv: boolean = false,
   add_zero_attn: boolean = false, kdim: count?, vdim: count?,
   batch_first: boolean = false, device: device?, dtype: string?)]]

local title <const> = "nn.MultiheadAttention"

local take_call = args.signature [[nn.MultiheadAttention.forward(query: tensor, key: tensor,
   value: tensor, key_padding_mask: tensor?, need_weights: boolean = true, attn_mask: tensor?,
   average_attn_weights: boolean = true, is_causal: boolean = false)]]

--- Attention with several heads, each of which has its own projections of queries, keys and values.
--- `forward` returns the result, and the weights unless need_weights is false.
---
---     local attention = torch.nn.MultiheadAttention(8, 2, {batch_first = true})
---     local x = torch.zeros(3, 5, 8) -- (batch, length, features)
---     local y, weights = attention(x, x, x)
---     print(table.unpack(y.shape))
---     --> 3	5	8
---     print(table.unpack(weights.shape))
---     --> 3	5	5
---@class nn.MultiheadAttention: nn.Module
---@field in_proj_weight Tensor?  (3 * embed_dim, embed_dim) of queries, keys and values
---@field in_proj_bias Tensor?  (3 * embed_dim)
---@field out_proj nn.Linear  (embed_dim, embed_dim)
---@overload fun(embed_dim: integer, num_heads: integer, options?): nn.MultiheadAttention
local MultiheadAttention, parent = class.class("nn.MultiheadAttention", Module)

--- Makes the layer.
---@param embed_dim integer  a multiple of num_heads
---@param num_heads integer
---@param options? table  `add_bias_kv` appends a learnt key and value to those of the input,
--- `add_zero_attn` appends zeros; `kdim` and `vdim` are the sizes of keys and values, embed_dim by
--- default; `dropout` is the probability of dropping a weight; with `batch_first` the batch is the
--- first dimension; `bias`, `device` and `dtype` are the options of nn.Linear
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
   if a.add_bias_kv then
      self.bias_k = Parameter(torch.empty(1, 1, n, place))
      self.bias_v = Parameter(torch.empty(1, 1, n, place))
   end
   self.add_zero_attn = a.add_zero_attn
   self.out_proj = Linear(n, n, {bias = a.bias, device = a.device, dtype = a.dtype})
   self:reset_parameters()
end

--- Sets the projections of queries, keys and values by Xavier's rule, and the biases to zero. The
--- learnt key and value of add_bias_kv are set by Xavier's rule for normally distributed values;
--- the weight of out_proj stays as it is.
function MultiheadAttention:reset_parameters()
   for _, name in ipairs {"in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"} do
      if self[name] then init.xavier_uniform_(self[name]) end
   end
   if self.in_proj_bias then
      init.zeros_(self.in_proj_bias)
      init.zeros_(self.out_proj.bias)
   end
   if self.bias_k then
      init.xavier_normal_(self.bias_k)
      init.xavier_normal_(self.bias_v)
   end
end

-- Projects x (N, L, *) by `count` matrices that are stacked in weight. Each result is
-- (N, heads, L, E / heads), a view of one product.
local function project(self, x, weight, bias, count)
   local packed = F.linear(x, weight, bias):unflatten(3, {count, self.num_heads, -1})
   local parts = packed:unbind(3)
   for i, part in ipairs(parts) do parts[i] = part:transpose(2, 3) end
   return table.unpack(parts)
end

-- Projects query, key and value. If all three, or key and value, are the same tensor, one matrix
-- product projects them.
local function project_all(self, query, key, value)
   local weight, bias, n = self.in_proj_weight, self.in_proj_bias, self.embed_dim
   if weight and rawequal(query, key) and rawequal(key, value) then
      return project(self, query, weight, bias, 3)
   elseif weight and rawequal(key, value) then
      local weights, biases = weight:split({n, 2 * n}, 1), bias and bias:split({n, 2 * n}, 1) or {}
      return project(self, query, weights[1], biases[1], 1),
         project(self, key, weights[2], biases[2], 2)
   end
   local weights = weight and weight:chunk(3, 1)
      or {self.q_proj_weight, self.k_proj_weight, self.v_proj_weight}
   local biases = bias and bias:chunk(3, 1) or {}
   return project(self, query, weights[1], biases[1], 1),
      project(self, key, weights[2], biases[2], 1), (project(self, value, weights[3], biases[3], 1))
end

-- Converts a mask in PyTorch's form, true or -inf at hidden positions, to a tensor that is added to
-- the scores.
local function additive(mask, like)
   if mask.dtype ~= "bool" then return mask end
   return torch.zeros(mask.shape, {dtype = like.dtype, device = like.device})
      :masked_fill_(mask, -math.huge)
end

-- Merges attn_mask and key_padding_mask into one mask, whose shape broadcasts to (N, heads, L, S).
-- The result is bool if all given masks are bool, and nil if neither is given.
local function join_masks(self, a, like)
   local mask, padding = a.attn_mask, a.key_padding_mask
   if mask and mask:dim() == 3 then mask = mask:unflatten(1, {-1, self.num_heads}) end
   if padding then
      if padding:dim() == 1 then padding = padding:unsqueeze(1) end
      padding = padding:unsqueeze(2):unsqueeze(2)
   end
   if not (mask and padding) then return mask or padding end
   if mask.dtype == "bool" and padding.dtype == "bool" then return mask:logical_or(padding) end
   return additive(mask, like) + additive(padding, like)
end

-- Makes a mask (L, S) that is true where the key comes after the query, for causal attention.
local function future(length, source_length, like)
   return torch.ones(length, source_length, {dtype = "bool", device = like.device}):triu(1)
end

-- Returns the number of keys that the options add_bias_kv and add_zero_attn append to the keys of
-- the input.
local function extra_keys(self)
   return (self.bias_k and 1 or 0) + (self.add_zero_attn and 1 or 0)
end

-- Appends to the keys or values x the learnt key or value (add_bias_kv), zeros (add_zero_attn), or
-- both.
local function with_extra(self, x, learnt)
   local list, heads, size = {x}, x:size(2), x:size(4)
   if learnt then
      list[2] = learnt:view(1, heads, 1, size):expand(x:size(1), heads, 1, size)
   end
   if self.add_zero_attn then list[#list + 1] = x:new_zeros(x:size(1), heads, 1, size) end
   return torch.cat(list, 3)
end

-- Computes attention by separate operators. Returns the output of each head, and the attention
-- weights.
local function weighted(q, k, v, mask, dropout)
   local scores = (q * q:size(4) ^ -0.5):matmul(k:transpose(3, 4))
   if mask then scores = scores + additive(mask, q) end
   local weights = F.dropout(F.softmax(scores, -1), dropout, dropout > 0)
   return weights:matmul(v), weights
end

-- Raises an error if an option or a mask of the call does not work with nested tensors, whose
-- sequences need no masks because they have no padding.
local function check_nested(self, a)
   local wrong = a.need_weights and "need_weights: expected false"
      or not self.batch_first and "batch_first: expected true"
      or (a.key_padding_mask or a.attn_mask) and "masks: expected none"
      or (self.bias_k or self.add_zero_attn) and "add_bias_kv and add_zero_attn: expected false"
   if wrong then torch.raise(("nn.MultiheadAttention: %s for nested tensors"):format(wrong)) end
end

-- Raises an error if a mask has none of the given shapes. Without this check sizes of 1 would
-- broadcast, and the 1s of an integer mask would be added to the scores.
local function check_mask(a, name, ...)
   local mask, fits, texts = a[name], false, {}
   if not mask then return end
   if mask.dtype ~= "bool" and not mask:is_floating_point() then
      args.refuse(title, name, "a bool or floating-point tensor", mask)
   end
   for i, shape in ipairs {...} do
      fits = fits or mask.shape == torch.Size(shape)
      texts[i] = ("(%s)"):format(table.concat(shape, ", "))
   end
   if not fits then args.refuse(title, name, "shape " .. table.concat(texts, " or "), mask) end
end

-- Checks the sizes of a call, whose projected queries, keys and values are q, k and v (N, heads,
-- length, size).
local function check_sizes(self, a, q, k, v, single)
   local n, length, source_length = q:size(1), q:size(3), k:size(3)
   if k:size(1) ~= n or v:size(1) ~= n then
      args.refuse(title, k:size(1) ~= n and "key" or "value",
         ("the query's batch of %d"):format(n), k:size(1) ~= n and a.key or a.value)
   end
   if v:size(3) ~= source_length then
      args.refuse(title, "value", ("the key's length of %d"):format(source_length), a.value)
   end
   check_mask(a, "attn_mask", {length, source_length},
      {n * self.num_heads, length, source_length})
   check_mask(a, "key_padding_mask", single and {source_length} or {n, source_length})
end

--- Computes the attention. Sequences have the shape (L, N, E) or, with `batch_first`, (N, L, E); a
--- single sequence has (L, E). Sequences may be nested tensors, with batch_first and without
--- weights. The options are:
--- * key_padding_mask (N, S), attn_mask (L, S) or (N * num_heads, L, S): masks that are true or
---   -inf at hidden positions.
--- * is_causal: hides all later positions from each position if there is no attn_mask.
--- * need_weights, average_attn_weights: whether the weights are returned and averaged over heads.
---@param query Tensor
---@param key Tensor
---@param value Tensor
---@param options? table
---@return Tensor output  the result, of the query's shape
---@return Tensor? weights  (N, L, S), (N, num_heads, L, S) if not averaged; nil if not needed
function MultiheadAttention:forward(...) return self:_attend(take_call(...)) end

-- Computes the layer for the arguments of a call. If the fields static_k and static_v, (N,
-- num_heads, S, E / num_heads), are given, they replace the projected keys and values.
function MultiheadAttention:_attend(a)
   local query, key, value = a.query, a.key, a.value
   if query.is_nested then check_nested(self, a) end
   local single = query:dim() == 2
   for _, name in ipairs {"query", "key", "value"} do
      if a[name]:dim() ~= (single and 2 or 3) then
         args.refuse(title, name,
            single and "2 dimensions, as the query has" or "3 dimensions", a[name])
      end
   end
   local function to_batch(x)
      if single then return x:unsqueeze(1) end
      return self.batch_first and x or x:transpose(1, 2)
   end
   local batch = to_batch(query)
   key = rawequal(key, query) and batch or to_batch(key)
   value = rawequal(value, a.key) and key or rawequal(value, query) and batch or to_batch(value)
   local q, k, v = project_all(self, batch, key, value)
   k, v = a.static_k or k, a.static_v or v
   if not query.is_nested then check_sizes(self, a, q, k, v, single) end
   local mask, dropout = join_masks(self, a, q), self.training and self.dropout or 0
   local causal, extra = a.is_causal and not a.attn_mask, extra_keys(self)
   if causal and (mask or a.need_weights or extra > 0) then
      local hidden = future(q:size(3), k:size(3), q)
      if mask and mask.dtype ~= "bool" then hidden = additive(hidden, q) + mask end
      mask, causal = mask and mask.dtype == "bool" and hidden:logical_or(mask) or hidden, false
   end
   if extra > 0 then
      k, v = with_extra(self, k, self.bias_k), with_extra(self, v, self.bias_v)
      -- the mask is padded for the appended keys, which are never hidden
      mask = mask and F.pad(mask, {0, extra})
   end

   local heads, weights
   if a.need_weights then
      heads, weights = weighted(q, k, v, mask, dropout)
   else
      if mask and mask.dtype == "bool" then mask = mask:logical_not() end
      heads = F.scaled_dot_product_attention(q, k, v,
         {attn_mask = mask, dropout_p = dropout, is_causal = causal})
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
