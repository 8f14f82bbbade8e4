-- layer_rules.lua - vmap's rules (see rules.lua) for layers, images, classification losses and
-- attention.

local torch = require "tlua"
local parts = require "tlua.func.rule_parts"

local M = {}

local define = parts.definer(M)
local shifted, aligned, expanded = parts.shifted, parts.aligned, parts.expanded
local only_batched, copied, common_rank, all_aligned = parts.only_batched, parts.copied,
   parts.common_rank, parts.all_aligned

-- Layers -----------------------------------------------------------------------------------------

-- The rule for operators whose input has channels and `spatial` dimensions, and perhaps a batch
-- dimension in front: vmap's examples are merged into the batch.
local function merged(c, spatial)
   local input = c.signature[1].name
   if not only_batched(c, input) then return nil end
   local rank = c.rank[input]
   if rank == spatial + 1 then return c.call() end
   if rank ~= spatial + 2 then return nil end
   local a = copied(c)
   a[input] = a[input]:flatten(1, 2)
   local results = table.pack(c.call(a))
   for k = 1, results.n do results[k] = results[k]:unflatten(1, {c.n, -1}) end
   return table.unpack(results, 1, results.n)
end

for spatial = 1, 3 do
   for _, name in ipairs {"max_pool%dd", "max_pool%dd_with_indices", "avg_pool%dd",
      "adaptive_avg_pool%dd", "adaptive_max_pool%dd", "adaptive_max_pool%dd_with_indices",
      "lp_pool%dd"} do
      name = name:format(spatial)
      define(name .. " nn.functional." .. name, function(c) return merged(c, spatial) end)
   end
end

define("nn.functional.unfold unfold nn.functional.fold fold", function(c)
   return merged(c, c.signature.name:find "unfold" and 2 or 1)
end)
-- these operators always have a batch dimension, and any number of dimensions after it
define([[nn.functional.interpolate interpolate nn.functional.channel_shuffle channel_shuffle
   nn.functional.local_response_norm local_response_norm]], function(c)
   local rank = c.rank[c.signature[1].name]
   return rank >= 3 and merged(c, rank - 2) or nil
end)
define([[nn.functional.pixel_shuffle pixel_shuffle nn.functional.pixel_unshuffle pixel_unshuffle]],
   function(c)
      return c.rank.input >= 3 and c.call() or nil
   end)
define("nn.functional.grid_sample grid_sample", function(c)
   local a, rank = copied(c), c.rank.input
   if rank ~= 4 and rank ~= 5 or c.rank.grid ~= rank then return nil end
   a.input, a.grid = expanded(c, "input"):flatten(1, 2), expanded(c, "grid"):flatten(1, 2)
   return c.call(a):unflatten(1, {c.n, -1})
end)

-- Returns the rule for convolutions with `spatial` dimensions. If examples have different weights,
-- the examples become groups of one convolution.
local function convolution(spatial)
   return function(c)
      local a, rank = c.a, c.rank.input
      if only_batched(c, "input") then return merged(c, spatial) end
      if rank ~= spatial + 1 and rank ~= spatial + 2 then return nil end
      local input, weight = expanded(c, "input"), expanded(c, "weight")
      if rank == spatial + 1 then input = input:unsqueeze(2) end
      local changed = copied(c)
      changed.input = input:transpose(1, 2):flatten(2, 3)
      changed.weight = weight:flatten(1, 2)
      if a.bias ~= nil then changed.bias = expanded(c, "bias"):flatten() end
      changed.groups = (a.groups or 1) * c.n
      local result = c.call(changed):unflatten(2, {c.n, -1}):transpose(1, 2)
      return rank == spatial + 1 and result:squeeze(2) or result
   end
end
for spatial = 1, 3 do
   define((("conv%dd nn.functional.conv%dd conv_transpose%dd nn.functional.conv_transpose%dd")
      :gsub("%%d", spatial)), convolution(spatial))
end

-- Reshapes a parameter of channels to broadcast with inputs of shape (n, batch, channels, ...),
-- whose examples have `rank` dimensions, and n is the number of examples. The parameter may differ
-- between examples.
local function of_channels(c, name, rank)
   local sizes = {c.batched[name] and c.n or 1, 1, -1}
   for k = 4, rank + 1 do sizes[k] = 1 end
   return c.a[name]:reshape(sizes)
end

-- The rule for a normalization of single samples. Weights and biases that differ between examples
-- are applied afterwards.
local function sample_norm(c)
   local rank = c.rank.input
   if rank < 2 then return nil end
   local a, own = copied(c), c.batched.weight or c.batched.bias
   local whole = expanded(c, "input")
   a.input = whole:flatten(1, 2)
   if own then a.weight, a.bias = nil, nil end
   local result = c.call(a):reshape(whole.shape)
   if own and c.a.weight ~= nil then result = result * of_channels(c, "weight", rank) end
   if own and c.a.bias ~= nil then result = result + of_channels(c, "bias", rank) end
   return result
end

-- The rule for a normalization of the last dimensions. Weights that differ between examples are
-- applied afterwards.
local function last_norm(c)
   local sizes = c.a.normalized_shape
   if not c.batched.input or #(type(sizes) == "table" and sizes or {1}) > c.rank.input then
      return nil
   end
   if only_batched(c, "input") then return c.call() end
   local a = copied(c)
   a.weight, a.bias = nil, nil
   local result = c.call(a)
   if c.a.weight ~= nil then result = result * aligned(c, "weight", c.rank.input) end
   if c.a.bias ~= nil then result = result + aligned(c, "bias", c.rank.input) end
   return result
end
define("layer_norm nn.functional.layer_norm rms_norm nn.functional.rms_norm", last_norm)

define("group_norm nn.functional.group_norm", sample_norm)

-- The rule for batch_norm places the channels of all examples side by side, because each example
-- has separate statistics. If running statistics must be updated, the operator is called for each
-- example instead.
define("batch_norm nn.functional.batch_norm", function(c)
   local a = copied(c)
   if not c.batched.input or c.rank.input < 2 then return nil end
   if a.training and (a.running_mean or a.running_var) then return nil end
   if not a.training and only_batched(c, "input") then
      a.input = a.input:flatten(1, 2)
      return c.call(a):unflatten(1, {c.n, -1})
   end
   a.input = a.input:transpose(1, 2):flatten(2, 3)
   for _, name in ipairs {"running_mean", "running_var", "weight", "bias"} do
      if a[name] then a[name] = expanded(c, name):flatten() end
   end
   return c.call(a):unflatten(2, {c.n, -1}):transpose(1, 2)
end)
-- Each sample already has separate statistics, so the examples are merged into the batch.
define("instance_norm nn.functional.instance_norm", function(c)
   local input_stats = c.a.use_input_stats ~= false
   if input_stats and (c.a.running_mean or c.a.running_var) then return nil end
   if c.batched.running_mean or c.batched.running_var or c.rank.input < 3 then return nil end
   return sample_norm(c)
end)

-- the rule applies only if nothing is dropped, so that no random numbers are drawn
define("nn.functional.dropout dropout", function(c)
   if c.a.training ~= false and c.a.p ~= 0 then return nil end
   return c.call()
end)
define("nn.functional.cosine_similarity cosine_similarity", function(c)
   local rank = common_rank(c)
   if not rank or rank == 0 then return nil end
   local a = all_aligned(c, rank)
   a.dim = shifted(a.dim or 2)
   return c.call(a)
end)
define("nn.functional.prelu prelu", function(c)
   local self, weight, rank = expanded(c, "self"), c.a.weight, c.rank.self
   if not c.batched.weight and weight:numel() == 1 then return c.call() end
   if rank < 2 and (c.batched.weight and weight:numel() // c.n or weight:numel()) > 1 then
      return nil
   end
   local slope = rank < 2 and aligned(c, "weight", rank) or of_channels(c, "weight", rank)
   return torch.where(self:gt(0), self, self * slope)
end)
define("nn.functional.bilinear bilinear", function(c)
   if c.batched.weight or c.batched.bias or c.rank.input1 ~= c.rank.input2 then return nil end
   local a = copied(c)
   a.input1, a.input2 = expanded(c, "input1"), expanded(c, "input2")
   return c.call(a)
end)

-- Losses of classes -------------------------------------------------------------------------------

local function class_loss(c)
   local a = c.a
   local reduction = a.reduction or "mean"
   if c.batched.weight or a.weight ~= nil and reduction == "mean" then return nil end
   if a.target.dtype ~= "int64" or c.rank.input > 2 or c.rank.target ~= c.rank.input - 1 then
      return nil
   end
   if reduction ~= "mean" and reduction ~= "sum" and reduction ~= "none" then return nil end
   local input, target = expanded(c, "input"), expanded(c, "target")
   local several = c.rank.input == 2
   local changed = copied(c)
   changed.reduction = "none"
   changed.input = several and input:flatten(1, 2) or input
   changed.target = target:reshape(-1)
   local losses = c.call(changed)
   if not several then
      if reduction ~= "mean" then return losses end
      -- An example whose only target is ignored gives 0 / 0 = NaN, because its mean has no losses.
      return losses / target:ne(a.ignore_index or -100):to(losses.dtype)
   end
   losses = losses:view(c.n, -1)
   if reduction == "none" then return losses end
   local sums = losses:sum(2)
   if reduction == "sum" then return sums end
   return sums / target:ne(a.ignore_index or -100):sum(2):to(losses.dtype)
end
define("nn.functional.cross_entropy cross_entropy nn.functional.nll_loss nll_loss", class_loss)

-- Attention ---------------------------------------------------------------------------------------

define("scaled_dot_product_attention nn.functional.scaled_dot_product_attention", function(c)
   local rank = c.rank.query
   if c.rank.key ~= rank or c.rank.value ~= rank or rank < 2 then return nil end
   local a = copied(c)
   for _, name in ipairs {"query", "key", "value"} do a[name] = expanded(c, name) end
   if c.rank.attn_mask then a.attn_mask = aligned(c, "attn_mask", rank) end
   return c.call(a)
end)

return M
