-- multi_head_attention_forward.lua - torch.nn.functional.multi_head_attention_forward: the
-- computation of nn.MultiheadAttention for given weights.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local MultiheadAttention = require "tlua.nn.modules.MultiheadAttention"

local M = {}

local WHO <const> = "nn.functional.multi_head_attention_forward"

local take = args.signature(WHO .. [[(query: tensor, key: tensor, value: tensor,
   embed_dim_to_check: count, num_heads: count, in_proj_weight: tensor?, in_proj_bias: tensor?,
   bias_k: tensor?, bias_v: tensor?, add_zero_attn: boolean, dropout_p: number,
   out_proj_weight: tensor, out_proj_bias: tensor?, training: boolean = true,
   key_padding_mask: tensor?, need_weights: boolean = true, attn_mask: tensor?,
   use_separate_proj_weight: boolean = false, q_proj_weight: tensor?, k_proj_weight: tensor?,
   v_proj_weight: tensor?, static_k: tensor?, static_v: tensor?,
   average_attn_weights: boolean = true, is_causal: boolean = false)]])

local function check(a)
   local n = a.query:size(-1)
   if n ~= a.embed_dim_to_check then
      torch.raise(("%s: query: expected %d features, as embed_dim_to_check says, got %d"):format(
         WHO, a.embed_dim_to_check, n))
   end
   if a.num_heads < 1 or n % a.num_heads ~= 0 then
      args.refuse(WHO, "num_heads", ("a divisor of %d"):format(n), a.num_heads)
   end
   local needed = a.use_separate_proj_weight and {"q_proj_weight", "k_proj_weight", "v_proj_weight"}
      or {"in_proj_weight"}
   for _, name in ipairs(needed) do
      if not a[name] then args.refuse(WHO, name, "a tensor", nil) end
   end
   if (a.bias_k == nil) ~= (a.bias_v == nil) then
      args.refuse(WHO, a.bias_k and "bias_v" or "bias_k", "a tensor, as the other is one", nil)
   end
end

-- Reshapes a static key or value (N * num_heads, S, E / num_heads) to (N, num_heads, S, E /
-- num_heads).
local function static(a, name)
   local x = a[name]
   if not x then return nil end
   if x:dim() ~= 3 or x:size(1) % a.num_heads ~= 0 then
      args.refuse(WHO, name, "shape (N * num_heads, S, features / num_heads)", x)
   end
   return x:unflatten(1, {-1, a.num_heads})
end

--- Computes attention with several heads for given weights, as nn.MultiheadAttention does, whose
--- parameters have the names of these arguments. Sequences are (L, N, E) or (L, E).
---@param query Tensor  (L, N, E)
---@param key Tensor  (S, N, features)
---@param value Tensor  (S, N, features)
---@param embed_dim_to_check integer  the number of features of the query
---@param num_heads integer  a divisor of E
---@param in_proj_weight? Tensor  (3 E, E); nil with use_separate_proj_weight
---@param in_proj_bias? Tensor  (3 E)
---@param bias_k? Tensor  (1, 1, E), a key that is appended
---@param bias_v? Tensor  (1, 1, E), a value that is appended
---@param add_zero_attn boolean  whether a key and a value of zeros are appended
---@param dropout_p number  the probability of dropping a weight in training
---@param out_proj_weight Tensor  (E, E)
---@param out_proj_bias? Tensor  (E)
---@param options? table  training, key_padding_mask, need_weights, attn_mask,
--- use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, static_k, static_v,
--- average_attn_weights and is_causal
---@return Tensor output
---@return Tensor? weights  nil if need_weights is false
function M.multi_head_attention_forward(...)
   local a = take(...)
   check(a)
   local separate = a.use_separate_proj_weight
   a.static_k, a.static_v = static(a, "static_k"), static(a, "static_v")
   local layer = {
      embed_dim = a.embed_dim_to_check, num_heads = a.num_heads, dropout = a.dropout_p,
      training = a.training, batch_first = false, add_zero_attn = a.add_zero_attn,
      in_proj_weight = not separate and a.in_proj_weight or nil, in_proj_bias = a.in_proj_bias,
      q_proj_weight = a.q_proj_weight, k_proj_weight = a.k_proj_weight,
      v_proj_weight = a.v_proj_weight, bias_k = a.bias_k, bias_v = a.bias_v,
      out_proj = function(x) return F.linear(x, a.out_proj_weight, a.out_proj_bias) end,
   }
   return MultiheadAttention._attend(layer, a)
end

return M
