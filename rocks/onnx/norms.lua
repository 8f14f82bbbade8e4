-- norms.lua - normalization over channels, layers or rows.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local schema = require "tlua.onnx.schema"

local F = torch.nn.functional
local cast <const> = support.cast

local M = {}

-- Reshapes a vector with one element per channel to {1, C, 1, ...}.
local function by_channel(x, vector)
   local shape = support.fill(x:dim(), 1)
   shape[2] = vector:numel()
   return vector:reshape(shape)
end

function M.BatchNormalization(node, x, scale, bias, mean, var)
   local eps, momentum = node:float("epsilon", 1e-5), node:float("momentum", 0.9)
   local training = node:int("training_mode", 0) ~= 0
   if node.version < 14 then training = #node.outputs > 1 and node.version >= 7 end
   if node.version < 7 and node:int("is_test", 0) == 0 then training = #node.outputs > 1 end
   if not training then
      return F.batch_norm(x, mean:to(x.dtype), var:to(x.dtype), scale:to(x.dtype),
         bias:to(x.dtype), {training = false, eps = eps})
   end
   local dims = {1}
   for i = 3, x:dim() do dims[#dims + 1] = i end
   local now, spread = x:mean(dims), x:var(dims, {correction = 0})
   local y = (x - by_channel(x, now)) / (by_channel(x, spread) + eps):sqrt()
   return y * by_channel(x, scale) + by_channel(x, bias),
      mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum)
end

function M.InstanceNormalization(node, x, scale, bias)
   local dims = {}
   for i = 3, x:dim() do dims[#dims + 1] = i end
   local mean = x:mean(dims, true)
   local var = x:var(dims, {correction = 0, keepdim = true})
   local y = (x - mean) / (var + node:float("epsilon", 1e-5)):sqrt()
   return y * by_channel(x, scale) + by_channel(x, bias)
end

-- Returns the dtype in which mean and deviation are computed. The attribute stash_type selects it.
local function stage(node, x)
   local number = node:int("stash_type", 1)
   local dtype = schema.dtypes[number]
   if not dtype or not dtype:find "float" then
      node:fail("attribute stash_type: expected a float's number, got %d", number)
   end
   return x.dtype == "float64" and x.dtype or dtype
end

function M.LayerNormalization(node, x, scale, bias)
   local first = node:dim(node:int("axis", -1), x:dim())
   local dims = {}
   for i = first, x:dim() do dims[#dims + 1] = i end
   local y = cast(x, stage(node, x))
   local eps = node:float("epsilon", 1e-5)
   local mean = y:mean(dims, true)
   local centred = y - mean
   local scatter = (centred * centred):mean(dims, true)
   local inverse = 1 / (scatter + eps):sqrt()
   local normal = cast(centred * inverse, x.dtype) * scale
   if bias then normal = normal + bias end
   return normal, mean, inverse
end

function M.RMSNormalization(node, x, scale)
   local first = node:dim(node:int("axis", -1), x:dim())
   local dims = {}
   for i = first, x:dim() do dims[#dims + 1] = i end
   local y = cast(x, stage(node, x))
   local root = ((y * y):mean(dims, true) + node:float("epsilon", 1e-5)):sqrt()
   return cast(cast(y / root, x.dtype) * scale, x.dtype)
end

function M.GroupNormalization(node, x, scale, bias)
   local groups = node:need("int", "num_groups")
   local n, channels = x:size(1), x:size(2)
   if groups < 1 or channels % groups ~= 0 then
      node:fail("attribute num_groups: %d does not divide %d channels", groups, channels)
   end
   local y = cast(x, stage(node, x)):reshape(n, groups, -1)
   local mean = y:mean({3}, true)
   local var = y:var({3}, {correction = 0, keepdim = true})
   y = cast((y - mean) / (var + node:float("epsilon", 1e-5)):sqrt(), x.dtype):reshape(x.shape)
   -- In version 18, `scale` has one number for each group instead of each channel.
   if scale:numel() ~= channels then
      scale = scale:repeat_interleave(channels // groups)
      bias = bias:repeat_interleave(channels // groups)
   end
   return y * by_channel(x, scale) + by_channel(x, bias)
end

function M.LRN(node, x)
   local size = node:need("int", "size")
   if size < 1 then node:fail("attribute size: expected at least 1, got %d", size) end
   local before = (size - 1) // 2
   local squares = x * x
   local pad = support.fill(2 * (x:dim() - 1), 0)
   pad[#pad - 1], pad[#pad] = before, size - 1 - before
   local sums = F.pad(squares, pad):unfold(2, size, 1):sum(-1)
   local base = sums * (node:float("alpha", 0.0001) / size) + node:float("bias", 1)
   return x / base:pow(node:float("beta", 0.75))
end

function M.MeanVarianceNormalization(node, x)
   local dims = node:dims(node:ints("axes", {0, 2, 3}), x:dim())
   local centred = x - x:mean(dims, true)
   return centred / ((centred * centred):mean(dims, true):sqrt() + 1e-9)
end

function M.LpNormalization(node, x)
   local dim, p = node:dim(node:int("axis", -1), x:dim()), node:int("p", 2)
   local norm
   if p == 1 then
      norm = x:abs():sum({dim}, true)
   elseif p == 2 then
      norm = (x * x):sum({dim}, true):sqrt()
   else
      node:fail("attribute p: expected 1 or 2, got %d", p)
   end
   return torch.where(norm:eq(0), torch.zeros_like(x), x / norm)
end

function M.Dropout(node, x, ratio, training)
   local p = ratio and ratio:item() or node:float("ratio", 0.5)
   local active = training and training:item()
   if node.version < 7 then active = node:int("is_test", 0) == 0 and false end
   if not active or p == 0 then
      return x, torch.ones(support.shape(x), {dtype = "bool", device = x.device})
   end
   if p < 0 or p >= 1 then node:fail("ratio: expected 0 to 1, got %g", p) end
   local mask = torch.rand(support.shape(x), {device = x.device}):ge(p)
   return cast(x * mask / (1 - p), x.dtype), mask
end

return M
