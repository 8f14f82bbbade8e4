-- rules.lua - how operators work on a batch, by name: a rule moves what has no examples, or fewer
-- dimensions, into place, calls the operator once, and returns tensors with examples along
-- dimension 1. nil: not with these arguments; the operator is then called for each example.

local torch = require "tlua"

local M = {}

local function define(names, rule)
   for name in names:gmatch "%S+" do M[name] = rule end
end

-- Dimensions ----------------------------------------------------------------------------------

-- A position or several, with the examples' dimension in front.
local function shifted(dim)
   if type(dim) == "table" then
      local list = {}
      for k, d in ipairs(dim) do list[k] = shifted(d) end
      return list
   end
   return dim > 0 and dim + 1 or dim
end

-- Examples of `rank` dimensions as ones of `more`: new dimensions of size 1 lie before theirs.
local function aligned(c, name, more)
   local value = c.a[name]
   if not c.batched[name] or c.rank[name] == more then return value end
   local shape = value.shape
   local sizes, new = {shape[1]}, more - c.rank[name]
   for k = 2, more + 1 do sizes[k] = k <= new + 1 and 1 or shape[k - new] end
   return value:reshape(sizes)
end

local function with_sizes(n, shape)
   return {n, table.unpack(shape)}
end

-- What is the same for all examples, as a batch.
local function expanded(c, name)
   local value = c.a[name]
   if c.batched[name] then return value end
   return value:unsqueeze(1):expand(with_sizes(c.n, value.shape))
end

local function only_batched(c, name)
   for other, batched in pairs(c.batched) do
      if batched and other ~= name then return false end
   end
   return c.batched[name]
end

-- Element by element --------------------------------------------------------------------------

-- The largest rank; nil where the result's dtype would be another: tensors without dimensions
-- count less, and get one here.
local function common_rank(c)
   local most, dtype, mixed, flat = 0, nil, false, false
   for name, rank in pairs(c.rank) do
      most = math.max(most, rank)
      flat = flat or rank == 0
      mixed = mixed or dtype ~= nil and dtype ~= c.a[name].dtype
      dtype = c.a[name].dtype
   end
   for name, value in pairs(c.a) do
      local number = type(value) == "number" and not c.rank[name]
      mixed = mixed or number and flat and math.type(value) == "float" and not dtype:find "float"
   end
   if mixed and flat then return nil end
   return most
end

local function pointwise(c)
   local rank = common_rank(c)
   if not rank or c.a.memory_format then return nil end
   if c.signature.name:find "_$" then
      local first = c.signature[1].name
      if not c.batched[first] or c.rank[first] ~= rank then return nil end
   end
   local changed = {}
   for name, value in pairs(c.a) do
      changed[name] = c.rank[name] and aligned(c, name, rank) or value
   end
   return c.call(changed)
end

define([[abs absolute neg negative positive exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square
   reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos arctan
   arcsinh arccosh arctanh sigmoid erf erfc erfinv lgamma digamma sinc floor ceil round trunc
   frac fix sign sgn signbit isnan isinf isfinite isposinf isneginf logical_not bitwise_not
   deg2rad rad2deg nan_to_num logit i0 special.erf special.erfc special.expit special.exp2
   special.expm1 special.log1p special.sinc special.digamma special.gammaln special.i0
   special.i0e special.i1 special.i1e special.erfcx special.erfinv special.psi special.round
   special.gammainc special.gammaincc igamma igammac isreal byte char special.ndtr special.ndtri
   special.log_ndtr special.entr special.logit nn.functional.relu relu nn.functional.relu6 relu6
   nn.functional.gelu gelu nn.functional.silu silu nn.functional.mish mish nn.functional.elu elu
   nn.functional.selu selu nn.functional.celu celu nn.functional.leaky_relu leaky_relu
   nn.functional.softplus softplus nn.functional.hardtanh hardtanh nn.functional.hardsigmoid
   hardsigmoid nn.functional.hardswish hardswish nn.functional.softsign softsign
   nn.functional.tanhshrink tanhshrink nn.functional.hardshrink hardshrink
   nn.functional.softshrink softshrink nn.functional.logsigmoid logsigmoid
   nn.functional.threshold threshold nn.functional.sigmoid nn.functional.tanh add sub subtract
   mul multiply div divide true_divide floor_divide remainder fmod pow rsub maximum minimum fmax
   fmin atan2 arctan2 hypot copysign nextafter logaddexp logaddexp2 xlogy special.xlogy
   special.xlog1py special.zeta heaviside ldexp gcd lcm float_power lerp addcmul addcdiv clamp
   clip clamp_min clamp_max eq ne lt le gt ge not_equal less less_equal greater greater_equal
   logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift
   bitwise_right_shift where masked_fill isclose clone detach contiguous float double half
   bfloat16 long int short bool to type_as zeros_like ones_like full_like empty_like add_ sub_
   mul_ div_ pow_ clamp_ clamp_min_ clamp_max_ relu_ sigmoid_ tanh_ exp_ log_ sqrt_ neg_ abs_
   masked_fill_ addcmul_ addcdiv_ lerp_ zero_ fill_]], pointwise)

-- With a condition alone it finds places.
define("where", function(c)
   local second = c.signature[2]
   if not second or c.a[second.name] == nil then return nil end
   return pointwise(c)
end)

-- to(other) and type_as(other) ask for a dtype only.
local function cast(c)
   if not c.batched.self or c.a.memory_format then return nil end
   return c.call()
end
define("to type_as", cast)

-- Losses that are such a function, and then a sum or a mean of it.
local function elementwise_loss(c)
   local reduction = c.a.reduction or "mean"
   local rank = common_rank(c)
   if not rank or reduction ~= "mean" and reduction ~= "sum" and reduction ~= "none" then
      return nil
   end
   local changed = {}
   for name, value in pairs(c.a) do
      changed[name] = c.rank[name] and aligned(c, name, rank) or value
   end
   changed.reduction = "none"
   local all = c.call(changed)
   if reduction == "none" or rank == 0 then return all end
   all = all:flatten(2)
   return reduction == "mean" and all:mean(2) or all:sum(2)
end
define([[nn.functional.mse_loss mse_loss nn.functional.l1_loss l1_loss
   nn.functional.smooth_l1_loss smooth_l1_loss nn.functional.huber_loss huber_loss
   nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
   binary_cross_entropy_with_logits nn.functional.soft_margin_loss soft_margin_loss
   nn.functional.poisson_nll_loss poisson_nll_loss]],
   elementwise_loss)

-- Reductions ----------------------------------------------------------------------------------

local function reduce(c)
   if not c.batched.self or type(c.a.p) == "string" then return nil end
   local param
   for _, p in ipairs(c.signature) do param = p.dim and p or param end
   local rank, self, a = c.rank.self, c.a.self, {}
   for name, value in pairs(c.a) do a[name] = value end
   local dim = param and a[param.name]
   if rank == 0 then
      if a.keepdim or not param then return nil end
      a.self, a[param.name] = self:unsqueeze(2), 2
      return c.call(a)
   end
   if dim ~= nil and not (type(dim) == "table" and #dim == 0) then
      a[param.name] = shifted(dim)
      return c.call(a)
   end
   if a.keepdim or not param or c.signature.name == "logsumexp" then return nil end
   a.self, a[param.name] = self:flatten(2), 2
   return c.call(a)
end
define([[sum mean prod amax amin all any nansum nanmean std var logsumexp count_nonzero argmax
   argmin std_mean var_mean norm linalg.vector_norm]], reduce)

-- The largest and smallest of all elements, or along a dimension with their places.
local function extreme(along)
   return function(c)
      if not c.batched.self or c.rank.self == 0 then return nil end
      if c.a.other ~= nil then return pointwise(c) end
      if c.a.dim == nil then return along(c.a.self:flatten(2), 2) end
      return reduce(c)
   end
end
define("max", extreme(torch.amax))
define("min", extreme(torch.amin))

-- Along a dimension -----------------------------------------------------------------------------

-- Every position of a dimension is moved on; those left out have a default that counts from the
-- end, or are `first` in the list of defaults.
local function along(defaults)
   return function(c)
      local first = c.signature[1].name
      if not only_batched(c, first) or c.rank[first] == 0 then return nil end
      local a = {}
      for name, value in pairs(c.a) do a[name] = value end
      for _, param in ipairs(c.signature) do
         if param.dim and a[param.name] ~= nil then
            a[param.name] = shifted(a[param.name])
         elseif defaults and defaults[param.name] then
            a[param.name] = defaults[param.name]
         elseif param.dim and a[param.name] == nil and not defaults then
            return nil
         end
      end
      return c.call(a)
   end
end

define([[cumsum cumprod logcumsumexp cummax cummin flip transpose swapaxes swapdims select narrow
   movedim moveaxis unfold unflatten index_select]], along())
define([[softmax log_softmax special.softmax special.log_softmax nn.functional.softmin
   softmin]], along())
define("sort argsort topk kthvalue mode median tril triu diff", function(c)
   local first = c.signature[1].name
   if not only_batched(c, first) or c.rank[first] == 0 then return nil end
   if c.signature.name:find "tri[lu]" and c.rank[first] < 2 then return nil end
   if c.signature.name == "median" or c.signature.name == "mode" then
      if c.a.dim == nil then return nil end
   end
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   if a.dim ~= nil then a.dim = shifted(a.dim) end
   return c.call(a)
end)
define("unbind chunk split split_with_sizes tensor_split", along {dim = 2})
define("diagonal", along {dim1 = 2, dim2 = 3})
define("flatten", function(c)
   if c.rank[c.signature[1].name] == 0 then return c.a.self:unsqueeze(2) end
   return along {start_dim = 2}(c)
end)

define("unsqueeze", function(c)
   return c.a.self:unsqueeze(shifted(c.a.dim))
end)

define("squeeze", function(c)
   if c.rank.self == 0 then return c.a.self:view(c.n) end
   if c.a.dim ~= nil then return c.call {self = c.a.self, dim = shifted(c.a.dim)} end
   local sizes = {c.n}
   for k, size in ipairs(c.a.self.shape) do
      if k > 1 and size ~= 1 then sizes[#sizes + 1] = size end
   end
   return c.a.self:reshape(sizes)
end)

define("t adjoint", function(c)
   if c.rank.self < 2 then
      return c.signature.name == "t" and c.a.self:view(c.a.self.shape) or nil
   end
   return c.a.self:transpose(-1, -2)
end)

define("permute", function(c)
   local dims = {1}
   for k, dim in ipairs(c.a.dims) do dims[k + 1] = dim > 0 and dim + 1 or dim end
   return c.a.self:permute(dims)
end)

local function sizes_of(c)
   local sizes = c.a.size or c.a.shape or c.a.sizes
   return type(sizes) == "number" and {sizes} or sizes
end

define("view reshape", function(c)
   local sizes = sizes_of(c)
   if not sizes or not c.batched.self then return nil end
   return c.a.self[c.signature.name](c.a.self, with_sizes(c.n, sizes))
end)
define("view_as reshape_as", function(c)
   if not c.batched.self then return nil end
   local shape = {table.unpack(c.a.other.shape, c.batched.other and 2 or 1)}
   return c.a.self:reshape(with_sizes(c.n, shape))
end)
define("ravel", function(c)
   return c.a.self:reshape(c.n, -1)
end)

local function expand_to(c, sizes)
   if not sizes or #sizes < c.rank.self then return nil end
   return aligned(c, "self", #sizes):expand(with_sizes(c.n, sizes))
end
define("expand broadcast_to", function(c)
   return expand_to(c, sizes_of(c))
end)
define("expand_as", function(c)
   if not c.batched.self then return nil end
   return expand_to(c, {table.unpack(c.a.other.shape, c.batched.other and 2 or 1)})
end)
define("repeat", function(c)
   local sizes = sizes_of(c)
   if not sizes or #sizes < c.rank.self then return nil end
   local self = aligned(c, "self", #sizes)
   return self["repeat"](self, with_sizes(1, sizes))
end)

define("glu nn.functional.glu", along {dim = -1})
define("roll", function(c)
   if not only_batched(c, "self") or c.a.dims == nil or c.rank.self == 0 then return nil end
   return c.call {self = c.a.self, shifts = c.a.shifts, dims = shifted(c.a.dims)}
end)
-- Values are added at the ends of the last dimensions.
define("nn.functional.pad pad", function(c)
   if not only_batched(c, "input") or (c.a.mode or "constant") ~= "constant" then return nil end
   if type(c.a.pad) ~= "table" or #c.a.pad > 2 * c.rank.input then return nil end
   return c.call()
end)

-- What takes batches of matrices as it is.
define([[inverse det slogdet logdet cholesky qr svd matrix_exp matrix_power pinverse linalg.inv
   linalg.inv_ex linalg.det linalg.slogdet linalg.cholesky linalg.cholesky_ex linalg.qr
   linalg.svd linalg.svdvals linalg.eigh linalg.eigvalsh linalg.lu linalg.lu_factor
   linalg.lu_factor_ex linalg.matrix_exp linalg.matrix_power linalg.pinv]], function(c)
   local first = c.signature[1].name
   if not only_batched(c, first) or c.rank[first] < 2 then return nil end
   return c.call()
end)

-- Lists of tensors -----------------------------------------------------------------------------

local function join(c)
   local batched = require "tlua.func.batched"
   local list = {}
   for k, value in ipairs(c.a.tensors) do
      local own = batched.is(value) and value.level == c.level
      list[k] = own and value.value
         or value:unsqueeze(1):expand(with_sizes(c.n, value.shape))
   end
   return c.call {tensors = list, dim = shifted(c.a.dim or 1)}
end
define("cat concat concatenate stack", join)

-- Places ----------------------------------------------------------------------------------------

define("gather scatter scatter_add", function(c)
   if not c.rank.self or c.rank.self == 0 or c.rank.self ~= c.rank.index then return nil end
   local a = {dim = shifted(c.a.dim), self = expanded(c, "self"), index = expanded(c, "index")}
   for name, value in pairs(c.a) do
      if a[name] == nil then a[name] = c.rank[name] and expanded(c, name) or value end
   end
   return c.call(a)
end)

local function embedding(c)
   local a = c.a
   if a.max_norm or a.sparse then return nil end
   if not c.batched.weight then return c.call() end
   if a.padding_idx then return nil end
   local rows = a.weight:size(2)
   local first = torch.arange(0, c.n, {device = a.weight.device}) * rows
   local ones = {}
   for k = 1, c.rank.input do ones[k] = 1 end
   local input = c.batched.input and a.input or a.input:unsqueeze(1)
   first = first:view(with_sizes(c.n, ones))
   return c.call {input = input + first, weight = a.weight:flatten(1, 2),
      scale_grad_by_freq = a.scale_grad_by_freq}
end
define("nn.functional.embedding embedding", embedding)

-- Products --------------------------------------------------------------------------------------

-- a times b; vectors become matrices and are taken back after.
local function product(c, left, right)
   local ra, rb = c.rank[left], c.rank[right]
   if ra == 0 or rb == 0 then return nil end
   local a, b = c.a[left], c.a[right]
   if ra == 1 then a = a:unsqueeze(-2) end
   if rb == 1 then b = b:unsqueeze(-1) end
   local most = math.max(ra, rb, 2)
   local wide = {a = {x = a, y = b},
      rank = {x = math.max(ra, 2), y = math.max(rb, 2)},
      batched = {x = c.batched[left], y = c.batched[right]}}
   local result = torch.matmul(aligned(wide, "x", most), aligned(wide, "y", most))
   if rb == 1 then result = result:squeeze(-1) end
   if ra == 1 then result = result:squeeze(rb == 1 and -1 or -2) end
   return result
end

define("matmul linalg.matmul", function(c)
   return product(c, c.signature[1].name, c.signature[2].name)
end)
-- The same of examples with so many dimensions each.
local function product_of(left_rank, right_rank)
   return function(c)
      local left, right = c.signature[1].name, c.signature[2].name
      if c.rank[left] ~= left_rank or c.rank[right] ~= right_rank then return nil end
      return product(c, left, right)
   end
end
define("mm", product_of(2, 2))
define("bmm", product_of(3, 3))
define("mv", product_of(2, 1))
define("dot", product_of(1, 1))
define("outer ger", function(c)
   if c.rank.self ~= 1 or c.rank.vec2 ~= 1 then return nil end
   return c.a.self:unsqueeze(-1) * c.a.vec2:unsqueeze(-2)
end)

local function added(c, left, right, left_rank, right_rank)
   if c.rank[left] ~= left_rank or c.rank[right] ~= right_rank then return nil end
   local rank = right_rank
   if c.rank.self > rank then return nil end
   local sum = product(c, left, right)
   local own = aligned(c, "self", rank)
   for k = 1, math.min(own:dim(), rank) do
      if own:size(-k) ~= 1 and own:size(-k) ~= sum:size(-k) then return nil end
   end
   local alpha, beta = c.a.alpha or 1, c.a.beta or 1
   if alpha ~= 1 then sum = sum * alpha end
   if beta == 0 then return sum end
   return (beta == 1 and own or own * beta) + sum
end
define("addmm", function(c) return added(c, "mat1", "mat2", 2, 2) end)
define("addmv", function(c) return added(c, "mat", "vec", 2, 1) end)
define("baddbmm", function(c) return added(c, "batch1", "batch2", 3, 3) end)

local activations = {linear_relu = torch.relu}
function activations.linear_gelu(x, approximate)
   return torch.nn.functional.gelu(x, approximate or "none")
end

local function linear(c)
   local a, activation = c.a, activations[c.signature.name:match "[%w_]+$"]
   if c.rank.input == 0 or c.rank.weight ~= 2 then return nil end
   if only_batched(c, "input") then return c.call() end
   local wide = {a = {input = a.input, turned = a.weight:transpose(-1, -2)},
      rank = {input = c.rank.input, turned = 2},
      batched = {input = c.batched.input, turned = c.batched.weight}}
   local result = product(wide, "input", "turned")
   if a.bias ~= nil then
      result = result + aligned(c, "bias", c.rank.input)
   end
   return activation and activation(result, a.approximate) or result
end
define([[nn.functional.linear linear nn.functional.linear_relu linear_relu
   nn.functional.linear_gelu linear_gelu]], linear)

-- Layers ----------------------------------------------------------------------------------------

-- What takes a batch of its own, with `spatial` dimensions: examples join it.
local function merged(c, spatial)
   local input = c.signature[1].name
   if not only_batched(c, input) then return nil end
   local rank = c.rank[input]
   if rank == spatial + 1 then return c.call() end
   if rank ~= spatial + 2 then return nil end
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   a[input] = a[input]:flatten(1, 2)
   local results = table.pack(c.call(a))
   for k = 1, results.n do results[k] = results[k]:unflatten(1, {c.n, -1}) end
   return table.unpack(results, 1, results.n)
end

for spatial = 1, 3 do
   for _, name in ipairs {"max_pool%dd", "max_pool%dd_with_indices", "avg_pool%dd",
      "adaptive_avg_pool%dd", "adaptive_max_pool%dd", "adaptive_max_pool%dd_with_indices",
      "lp_pool%dd", "conv_transpose%dd"} do
      name = name:format(spatial)
      define(name .. " nn.functional." .. name, function(c) return merged(c, spatial) end)
   end
end

-- Weights that differ are groups of one convolution.
local function convolution(spatial)
   return function(c)
      local a, rank = c.a, c.rank.input
      if only_batched(c, "input") then return merged(c, spatial) end
      if rank ~= spatial + 1 and rank ~= spatial + 2 then return nil end
      local input, weight = expanded(c, "input"), expanded(c, "weight")
      if rank == spatial + 1 then input = input:unsqueeze(2) end
      local changed = {}
      for name, value in pairs(a) do changed[name] = value end
      changed.input = input:transpose(1, 2):flatten(2, 3)
      changed.weight = weight:flatten(1, 2)
      if a.bias ~= nil then changed.bias = expanded(c, "bias"):flatten() end
      changed.groups = (a.groups or 1) * c.n
      local result = c.call(changed):unflatten(2, {c.n, -1}):transpose(1, 2)
      return rank == spatial + 1 and result:squeeze(2) or result
   end
end
for spatial = 1, 3 do
   define(("conv%dd nn.functional.conv%dd"):format(spatial, spatial), convolution(spatial))
end

-- Normalizes the last dimensions; weights that differ are applied after.
local function last_norm(c)
   local sizes = c.a.normalized_shape
   if not c.batched.input or #(type(sizes) == "table" and sizes or {1}) > c.rank.input then
      return nil
   end
   if only_batched(c, "input") then return c.call() end
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   a.weight, a.bias = nil, nil
   local result = c.call(a)
   if c.a.weight ~= nil then result = result * aligned(c, "weight", c.rank.input) end
   if c.a.bias ~= nil then result = result + aligned(c, "bias", c.rank.input) end
   return result
end
define("layer_norm nn.functional.layer_norm rms_norm nn.functional.rms_norm", last_norm)

define("group_norm nn.functional.group_norm", function(c)
   if not only_batched(c, "input") or c.rank.input < 2 then return nil end
   local shape = c.a.input.shape
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   a.input = a.input:flatten(1, 2)
   return c.call(a):reshape(shape)
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
   local changed = {}
   for name, value in pairs(a) do changed[name] = value end
   changed.reduction = "none"
   changed.input = several and input:flatten(1, 2) or input
   changed.target = target:reshape(-1)
   local losses = c.call(changed)
   if not several then
      if reduction ~= "mean" then return losses end
      -- without a class that counts the mean is no number
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
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   for _, name in ipairs {"query", "key", "value"} do a[name] = expanded(c, name) end
   if c.rank.attn_mask then a.attn_mask = aligned(c, "attn_mask", rank) end
   return c.call(a)
end)

return M
