-- flex_attention.lua - torch.nn.attention.flex_attention: attention whose scores and mask are
-- computed by functions of the positions.
--
--    local flex = torch.nn.attention.flex_attention
--    local function causal(b, h, q_idx, kv_idx) return q_idx:ge(kv_idx) end
--    local mask = flex.create_block_mask(causal, nil, nil, 128, 128)
--    local y = flex.flex_attention(q, k, v, {block_mask = mask})
--
-- PyTorch calls such functions with numbers and compiles them. Here each function is called once,
-- with int64 tensors of all positions: of the batch (B, 1, 1, 1), the head (1, H, 1, 1), the query
-- (1, 1, Q, 1) and the key (1, 1, 1, KV). The tensors broadcast to (B, H, Q, KV). Positions count
-- from 1.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"
local F = require "tlua.nn.functional"

local M = {}

local prefix <const> = "nn.attention.flex_attention."

-- Returns the four tensors of positions.
local function positions(sizes, device)
   local list = {}
   for i, size in ipairs(sizes) do
      local shape = {1, 1, 1, 1}
      shape[i] = size
      list[i] = torch.arange(1, size + 1, {device = device}):view(shape)
   end
   return table.unpack(list)
end

-- Expands the result of a user's function to (B, H, Q, KV). Raises an error if the result is not a
-- tensor or does not fit.
local function expanded(title, name, result, sizes, is_mask)
   local fits = torch.is_tensor(result) and (result.dtype == "bool") == is_mask
   local ok, full
   if fits then ok, full = pcall(result.expand, result, sizes) end
   if not ok then
      args.refuse(prefix .. title, name, ("a function that returns a %s tensor for (%s)%s"):format(
         is_mask and "bool" or "floating-point", table.concat(sizes, ", "),
         is_mask and ", such as q_idx:ge(kv_idx)" or ""), result)
   end
   return full
end

local take_mask = args.signature [[nn.attention.flex_attention.create_mask(mod_fn: callable,
   B: count?, H: count?, Q_LEN: count, KV_LEN: count, device: device?)]]

local function dense(title, name, fn, a)
   local sizes = {a.B or 1, a.H or 1, a.Q_LEN, a.KV_LEN}
   local result = fn(positions(sizes, a.device))
   return expanded(title, name, result, sizes, true):contiguous()
end

--- Computes a mask from a function of the positions.
---
---     local flex = torch.nn.attention.flex_attention
---     local function causal(b, h, q_idx, kv_idx) return q_idx:ge(kv_idx) end
---     print(flex.create_mask(causal, nil, nil, 2, 2))
---     --> tensor([[[[ True, False],
---     -->           [ True,  True]]]])
---@param mod_fn fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor  a mask function:
--- its result, of bool, is true where a key takes part
---@param B? integer  the size of the batch; 1, which fits all sizes, by default
---@param H? integer  the number of heads; 1, which fits all numbers, by default
---@param Q_LEN integer  the number of queries
---@param KV_LEN integer  the number of keys
---@param device? string|torch.device  the default device by default
---@return Tensor mask  (B, H, Q_LEN, KV_LEN) of bool
function M.create_mask(...)
   local a = take_mask(...)
   return dense("create_mask", "mod_fn", a.mod_fn, a)
end

--- A mask that flex_attention takes; create_block_mask makes it. Unlike PyTorch's class, it has a
--- mask of single positions and not of blocks.
---
---     local flex = torch.nn.attention.flex_attention
---     local mask = flex.create_block_mask(flex.noop_mask, nil, nil, 3, 4)
---     print(mask)
---     --> BlockMask(shape=(1, 1, 3, 4))
---@class nn.attention.flex_attention.BlockMask
---@field mask Tensor  (B, H, Q_LEN, KV_LEN) of bool, true where a key takes part
---@field shape integer[]  the sizes of `mask`
---@field mask_mod fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor  the function
local BlockMask = class.class(prefix .. "BlockMask")

function BlockMask:__tostring()
   return ("BlockMask(shape=(%s))"):format(table.concat(self.shape, ", "))
end

--- Returns the mask on a device.
---@param device string|torch.device  the device
---@return nn.attention.flex_attention.BlockMask moved
function BlockMask:to(device)
   local moved = BlockMask()
   moved.mask, moved.shape, moved.mask_mod = self.mask:to(device), self.shape, self.mask_mod
   return moved
end

local take_block_mask = args.signature [[nn.attention.flex_attention.create_block_mask(
   mask_mod: callable, B: count?, H: count?, Q_LEN: count, KV_LEN: count, device: device?,
   BLOCK_SIZE: integers = 128)]]

--- Makes a mask for flex_attention. The mask is computed once, and can be used for many calls.
---@param mask_mod fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor  its result, of
--- bool, is true where a key takes part
---@param B? integer  the size of the batch; 1, which fits all sizes, by default
---@param H? integer  the number of heads; 1, which fits all numbers, by default
---@param Q_LEN integer  the number of queries
---@param KV_LEN integer  the number of keys
---@param device? string|torch.device  the default device by default
---@param BLOCK_SIZE? integer|integer[]  has no effect, since the mask has no blocks here
---@return nn.attention.flex_attention.BlockMask mask
function M.create_block_mask(...)
   local a = take_block_mask(...)
   local mask = BlockMask()
   mask.mask_mod = a.mask_mod
   mask.mask = dense("create_block_mask", "mask_mod", a.mask_mod, a)
   mask.shape = mask.mask.shape
   return mask
end

local function combine(title, join, ...)
   local list = table.pack(...)
   for i = 1, list.n do
      if not args.is_callable(list[i]) then
         args.refuse(prefix .. title, "argument " .. i, "a mask function", list[i])
      end
   end
   return function(b, ...)
      local mask
      for i = 1, list.n do
         local part = list[i](b, ...)
         mask = mask and join(mask, part) or part
      end
      return mask or M.noop_mask(b)
   end
end

--- Returns a mask function that is true where all given mask functions are true.
---@param ... fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor  mask functions
---@return fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor
function M.and_masks(...) return combine("and_masks", torch.logical_and, ...) end

--- Returns a mask function that is true where one of the given mask functions is true.
---@param ... fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor  mask functions
---@return fun(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor
function M.or_masks(...) return combine("or_masks", torch.logical_or, ...) end

--- The mask function that is true everywhere.
---@param b Tensor  the positions in the batch; the other positions may follow
---@return Tensor mask  a single true
function M.noop_mask(b)
   if not torch.is_tensor(b) then args.refuse(prefix .. "noop_mask", "b", "a tensor", b) end
   return b:new_ones({}, {dtype = "bool"})
end

local take = args.signature [[nn.attention.flex_attention.flex_attention(query: tensor, key: tensor,
   value: tensor, score_mod: callable?, block_mask: any?, scale: number?,
   enable_gqa: boolean = false, return_lse: boolean = false, kernel_options: table?)]]

-- Checks the arguments of a call. Returns the sizes {B, H, Q, KV} of its scores.
local function check(a)
   local title = prefix .. "flex_attention"
   for _, name in ipairs {"query", "key", "value"} do
      if a[name]:dim() ~= 4 then args.refuse(title, name, "4 dimensions (B, H, L, E)", a[name]) end
   end
   local q, k, mask = a.query, a.key, a.block_mask
   local sizes = {q:size(1), q:size(2), q:size(3), k:size(3)}
   if mask ~= nil then
      if not class.isinstance(mask, BlockMask) then
         args.refuse(title, "block_mask", "a result of create_block_mask", mask)
      end
      for i, size in ipairs(sizes) do
         if mask.shape[i] ~= size and (i > 2 or mask.shape[i] ~= 1) then
            args.refuse(title, "block_mask", ("a mask for the scores' shape (%s)"):format(
               table.concat(sizes, ", ")), mask.mask)
         end
      end
   end
   local heads = k:size(2)
   if heads ~= q:size(2) and (not a.enable_gqa or heads == 0 or q:size(2) % heads ~= 0) then
      args.refuse(title, "key", a.enable_gqa and ("a divisor of %d heads"):format(q:size(2))
         or ("%d heads, as the query has, without enable_gqa"):format(q:size(2)), k)
   end
   return sizes
end

--- Computes attention. The function `score_mod` may change each score before the softmax; it gets
--- the scaled scores (B, H, Q, KV) and the four tensors of positions, and returns new scores. A
--- query that attends to no key gets zeros.
---
---     local flex = torch.nn.attention.flex_attention
---     local x = torch.ones(1, 2, 3, 4)
---     local function relative(score, b, h, q_idx, kv_idx)
---        return score + (q_idx - kv_idx)
---     end
---     print(flex.flex_attention(x, x, x, relative).shape)
---     --> torch.Size([1, 2, 3, 4])
---@param query Tensor  (B, H, Q, E)
---@param key Tensor  (B, H, KV, E), with fewer heads if enable_gqa is true
---@param value Tensor  (B, H, KV, features), with as many heads as `key`
---@param score_mod? fun(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor): Tensor
--- changes the scores
---@param block_mask? nn.attention.flex_attention.BlockMask  a result of create_block_mask
---@param scale? number  the factor of the products of queries and keys, E ^ -0.5 by default
---@param enable_gqa? boolean  whether groups of query heads share the heads of key and value
---@param return_lse? boolean  whether the logarithms are returned, too
---@param kernel_options? table  has no effect here
---@return Tensor output  (B, H, Q, features)
---@return Tensor? lse  with return_lse (B, H, Q), the logarithm of the sum of exp of the scores
function M.flex_attention(...)
   local a = take(...)
   local sizes = check(a)
   local q, k, v, mask = a.query, a.key, a.value, a.block_mask and a.block_mask.mask
   local scale = a.scale or q:size(4) ^ -0.5
   if not a.score_mod and not a.return_lse then
      return F.scaled_dot_product_attention(q, k, v,
         {attn_mask = mask, scale = scale, enable_gqa = a.enable_gqa})
   end
   local group = k:size(2) > 0 and q:size(2) // k:size(2) or 1
   if group > 1 then k, v = k:repeat_interleave(group, 2), v:repeat_interleave(group, 2) end
   local scores = q:matmul(k:transpose(3, 4))
   scores = scores:to(q.dtype == "float64" and "float64" or "float32") * scale
   if a.score_mod then
      local result = a.score_mod(scores, positions(sizes, q.device))
      scores = expanded("flex_attention", "score_mod", result, sizes, false)
   end
   if mask then scores = scores:masked_fill(mask:logical_not(), -math.huge) end
   -- a query whose scores are all -inf would get NaN from the softmax
   local empty = scores:detach():eq(-math.huge):all(4, true)
   scores = scores:masked_fill(empty, 0)
   local weights = F.softmax(scores, -1):masked_fill(empty, 0)
   local output = weights:to(q.dtype):matmul(v)
   if not a.return_lse then return output end
   return output, scores:logsumexp(-1):masked_fill(empty:squeeze(4), -math.huge)
end

-- The field flex_attention of torch.nn.attention is the table of functions, as in PyTorch, and not
-- the function of the same name.
return {flex_attention = lazy.load(M, {})}
