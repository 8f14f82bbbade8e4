-- rules.lua - vmap's rules for operators, by name. A rule reshapes arguments that have no examples
-- or fewer dimensions than others, calls the operator once, and returns tensors with examples along
-- dimension 1. A rule returns nil if it cannot handle the arguments; the operator is then called
-- for each example. Rules for nn.functional's layers and losses are in layer_rules.lua.

local torch = require "tlua"
local parts = require "tlua.func.rule_parts"

local M = {}

local define = parts.definer(M)
local shifted, with_sizes, aligned, expanded = parts.shifted, parts.with_sizes, parts.aligned,
   parts.expanded
local only_batched, copied = parts.only_batched, parts.copied
local common_rank, all_aligned = parts.common_rank, parts.all_aligned
local pointwise = parts.pointwise

-- Element by element --------------------------------------------------------------------------

-- These operators are composed of pointwise operators.
define([[positive bitwise_not deg2rad rad2deg nan_to_num logit special.erf special.erfc
   special.expit special.exp2 special.expm1 special.log1p special.sinc special.digamma
   special.gammaln special.i0 special.i1 special.erfinv special.psi special.round
   special.gammainc special.gammaincc isreal byte char special.ndtr special.entr special.logit
   relu relu6 nn.functional.gelu gelu silu mish elu selu celu leaky_relu softplus hardtanh
   hardsigmoid hardswish softsign tanhshrink hardshrink softshrink logsigmoid threshold
   nn.functional.sigmoid nn.functional.tanh div divide rsub special.xlogy special.xlog1py ldexp
   float_power clamp clip where masked_fill isclose clone detach contiguous float double half
   bfloat16 long int short bool to type_as zeros_like ones_like full_like empty_like div_ clamp_
   relu_ masked_fill_ zero_ fill_]], pointwise)

-- `where` with only a condition returns positions, for which this rule returns nil
define("where", function(c)
   local second = c.signature[2]
   if not second or c.a[second.name] == nil then return nil end
   return pointwise(c)
end)

-- The rule for casts. to(other) and type_as(other) use only the dtype of `other`.
local function cast(c)
   if not c.batched.self or c.a.memory_format then return nil end
   return c.call()
end
define("to type_as", cast)

-- The rule for losses that are an elementwise function followed by a sum or a mean.
local function elementwise_loss(c)
   local reduction = c.a.reduction or "mean"
   local rank = common_rank(c)
   if not rank or reduction ~= "mean" and reduction ~= "sum" and reduction ~= "none" then
      return nil
   end
   local changed = all_aligned(c, rank)
   changed.reduction = "none"
   -- an expanded argument has the other's shape, so that the loss does not warn of broadcasting
   for _, name in ipairs {"input", "target"} do
      if c.rank[name] == rank and not c.batched[name] then changed[name] = expanded(c, name) end
   end
   local all = c.call(changed)
   if reduction == "none" or rank == 0 then return all end
   all = all:flatten(2)
   return reduction == "mean" and all:mean(2) or all:sum(2)
end
define([[nn.functional.mse_loss mse_loss nn.functional.l1_loss l1_loss
   nn.functional.smooth_l1_loss smooth_l1_loss nn.functional.huber_loss huber_loss
   nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
   binary_cross_entropy_with_logits nn.functional.soft_margin_loss soft_margin_loss
   nn.functional.poisson_nll_loss poisson_nll_loss nn.functional.kl_div kl_div]],
   elementwise_loss)

-- Reductions ----------------------------------------------------------------------------------

local function reduce(c)
   if not c.batched.self or type(c.a.p) == "string" then return nil end
   local param
   for _, p in ipairs(c.signature) do param = p.dim and p or param end
   local rank, self, a = c.rank.self, c.a.self, copied(c)
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

-- Returns the rule for max and min: of all elements, of two tensors, or along a dimension with
-- indices.
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

-- Returns the rule for operators along dimensions: the numbers of dimensions are increased by one,
-- since the examples' dimension comes first. Missing arguments get their values from the table
-- `defaults`, if there is one.
local function along(defaults)
   return function(c)
      local first = c.signature[1].name
      if not only_batched(c, first) or c.rank[first] == 0 then return nil end
      local a = copied(c)
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
   movedim moveaxis unfold unflatten]], along())
define([[softmax log_softmax special.softmax special.log_softmax nn.functional.softmin
   softmin]], along())
define("sort argsort topk kthvalue mode median tril triu diff", function(c)
   local first = c.signature[1].name
   if not only_batched(c, first) or c.rank[first] == 0 then return nil end
   if c.signature.name:find "tri[lu]" and c.rank[first] < 2 then return nil end
   if c.signature.name == "median" or c.signature.name == "mode" then
      if c.a.dim == nil then return nil end
   end
   local a = copied(c)
   if a.dim ~= nil then a.dim = shifted(a.dim) end
   return c.call(a)
end)
define("unbind chunk split split_with_sizes tensor_split", along {dim = 2})
define("diagonal", along {dim1 = 2, dim2 = 3})
define("nn.functional.normalize normalize", along {dim = 3})
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
-- Pads the last dimensions of all examples in one call, since `pad` counts dimensions from the
-- last.
define("nn.functional.pad pad", function(c)
   if not only_batched(c, "input") or (c.a.mode or "constant") ~= "constant" then return nil end
   if type(c.a.pad) ~= "table" or #c.a.pad > 2 * c.rank.input then return nil end
   return c.call()
end)

-- These operators already take batches of matrices, so the examples are one more dimension of a
-- batch.
define([[inverse det slogdet logdet cholesky qr svd matrix_exp matrix_power pinverse linalg.inv
   linalg.inv_ex linalg.det linalg.slogdet linalg.cholesky linalg.cholesky_ex linalg.qr
   linalg.svd linalg.svdvals linalg.eigh linalg.eigvalsh linalg.lu linalg.lu_factor
   linalg.lu_factor_ex linalg.matrix_exp linalg.matrix_power linalg.pinv]], function(c)
   local first = c.signature[1].name
   if not only_batched(c, first) or c.rank[first] < 2 then return nil end
   return c.call()
end)

define("trace", function(c)
   if c.rank.self ~= 2 then return nil end
   return c.a.self:diagonal(0, -2, -1):sum(-1)
end)
define("diag", function(c)
   if c.rank.self == 1 then return torch.diag_embed(c.a.self, c.a.diagonal or 0) end
   if c.rank.self ~= 2 then return nil end
   return c.a.self:diagonal(c.a.diagonal or 0, -2, -1)
end)
define("diag_embed", function(c)
   if c.rank.self == 0 then return nil end
   local a = copied(c)
   a.dim1, a.dim2 = shifted(a.dim1 or -2), shifted(a.dim2 or -1)
   return c.call(a)
end)
define("linalg.matrix_norm", function(c)
   if c.rank.A < 2 then return nil end
   local a = copied(c)
   a.dim = a.dim and shifted(a.dim)
   return c.call(a)
end)
define("linalg.norm", function(c)
   local a, rank = copied(c), c.rank.A
   if rank == 0 or a.dim == nil and a.keepdim then return nil end
   if a.dim ~= nil then
      a.dim = shifted(a.dim)
   elseif a.ord == nil then
      a.A, a.dim = a.A:flatten(2), 2
   elseif rank <= 2 then
      a.dim = rank == 2 and {-2, -1} or -1
   else
      return nil
   end
   return c.call(a)
end)

-- The right-hand side B of A X = B is a vector if it has one dimension, or if its shape is that of
-- A without the last dimension. Otherwise it is a matrix. A vector is treated as a matrix of one
-- column.
define("linalg.solve linalg.solve_ex", function(c)
   local a, ra, rb = copied(c), c.rank.A, c.rank.B
   if ra < 2 or rb == 0 then return nil end
   local A, B = expanded(c, "A"), expanded(c, "B")
   local vector = rb == 1 or rb == ra - 1
   for d = 1, rb == ra - 1 and rb or 0 do vector = vector and B:size(d + 1) == A:size(d + 1) end
   if vector then
      if a.left == false then return nil end
      B, rb = B:unsqueeze(-1), rb + 1
   end
   local most = math.max(ra, rb)
   a.A, a.B = parts.with_rank(A, ra, most), parts.with_rank(B, rb, most)
   local results = table.pack(c.call(a))
   if vector then results[1] = results[1]:squeeze(-1) end
   return table.unpack(results, 1, results.n)
end)
local function pairs_of_matrices(c)
   local rank = 2
   for _, own in pairs(c.rank) do
      if own < 2 then return nil end
      rank = math.max(rank, own)
   end
   return c.call(all_aligned(c, rank))
end
define("linalg.solve_triangular linalg.cholesky_solve cholesky_solve cdist", pairs_of_matrices)

-- The rule for cross products of vectors along a dimension.
define("linalg.cross cross", function(c)
   local rank = common_rank(c)
   if not rank or rank == 0 or c.signature.name == "cross" and c.a.dim == nil then return nil end
   local a = copied(c)
   for name, own in pairs(c.rank) do a[name] = parts.with_rank(expanded(c, name), own, rank) end
   a.dim = shifted(a.dim or -1)
   return c.call(a)
end)

-- Lists of tensors -----------------------------------------------------------------------------

-- Expands all tensors of a list to batches of examples. Returns the batches, and the number of
-- dimensions of one example of the first tensor.
local function all_expanded(c, tensors)
   local batched = require "tlua.func.batched"
   local list = {}
   for k, value in ipairs(tensors) do
      local own = batched.is(value) and value.level == c.level
      list[k] = own and value.value
         or value:unsqueeze(1):expand(with_sizes(c.n, value.shape))
   end
   return list, list[1]:dim() - 1
end

define("cat concat concatenate stack", function(c)
   return c.call {tensors = all_expanded(c, c.a.tensors), dim = shifted(c.a.dim or 1)}
end)
define("hstack", function(c)
   local list, rank = all_expanded(c, c.a.tensors)
   if rank == 0 then return torch.stack(list, 2) end
   return torch.cat(list, rank == 1 and 2 or 3)
end)
define("vstack row_stack", function(c)
   local list, rank = all_expanded(c, c.a.tensors)
   if rank == 0 then return nil end
   return rank == 1 and torch.stack(list, 2) or torch.cat(list, 2)
end)

-- Puts a letter for the examples, which the equation does not use, in front of the batched operands
-- and of the result.
define("einsum", function(c)
   local equation = c.a.equation:gsub("%s", "")
   local batched = require "tlua.func.batched"
   local left, right = equation:match "^(.*)%->(.*)$"
   left = left or equation
   local letter
   for code = string.byte "A", string.byte "z" do
      local one = string.char(code)
      if one:find "%a" and not equation:find(one, 1, true) then
         letter = one
         break
      end
   end
   local terms, list = {}, {}
   for term in (left .. ","):gmatch "([^,]*)," do terms[#terms + 1] = term end
   if not letter or #terms ~= #c.a.operands then return nil end
   for k, value in ipairs(c.a.operands) do
      local own = batched.is(value) and value.level == c.level
      list[k] = own and value.value or value
      if own then terms[k] = letter .. terms[k] end
   end
   if not right then
      local once = {}
      for one in left:gmatch "%a" do
         if select(2, left:gsub(one, "")) == 1 then once[#once + 1] = one end
      end
      table.sort(once)
      right = (left:find("...", 1, true) and "..." or "") .. table.concat(once)
   end
   return c.call {equation = table.concat(terms, ",") .. "->" .. letter .. right, operands = list}
end)

-- Places ----------------------------------------------------------------------------------------

define("gather scatter scatter_add scatter_reduce", function(c)
   if not c.rank.self or c.rank.self == 0 or c.rank.self ~= c.rank.index then return nil end
   local a = {dim = shifted(c.a.dim), self = expanded(c, "self"), index = expanded(c, "index")}
   for name, value in pairs(c.a) do
      if a[name] == nil then a[name] = c.rank[name] and expanded(c, name) or value end
   end
   return c.call(a)
end)

define("take_along_dim", function(c)
   local a = {dim = c.a.dim, self = expanded(c, "self"), indices = expanded(c, "indices")}
   if c.rank.self == 0 or c.rank.self ~= c.rank.indices then return nil end
   if a.dim == nil then
      a.self, a.indices = a.self:flatten(2), a.indices:flatten(2)
   end
   a.dim = shifted(a.dim or 1)
   return c.call(a)
end)

-- Expands the vectors of positions, one for each example, as `gather` needs them: to the sizes of
-- `like`, except along `dim`, where the size is the number of positions. `dim` counts the examples'
-- dimension as the first one.
local function spread(c, like, dim)
   local sizes, ones = like.shape, {c.n}
   for d = 2, #sizes do ones[d] = 1 end
   if dim < 0 then dim = #sizes + 1 + dim end
   sizes[dim] = c.a.index:size(2)
   ones[dim] = sizes[dim]
   return c.a.index:view(ones):expand(sizes)
end

-- Selects positions along a dimension. Positions shared by all examples are passed to the operator;
-- positions that differ between examples are selected by gather and scatter.
local function positions(by_example)
   return function(c)
      if c.rank.self == 0 or c.rank.index ~= 1 then return nil end
      for _, name in ipairs {"source", "src"} do
         if c.rank[name] and c.rank[name] ~= c.rank.self then return nil end
      end
      local a = copied(c)
      a.dim = shifted(a.dim)
      for _, name in ipairs {"self", "source"} do
         if c.rank[name] then a[name] = expanded(c, name) end
      end
      if not c.batched.index then return not c.rank.value and c.call(a) or nil end
      return by_example(a, spread(c, a.self, a.dim))
   end
end
define("index_select", positions(function(a, index) return a.self:gather(a.dim, index) end))
define("index_copy", positions(function(a, index)
   return a.self:scatter(a.dim, index, a.source)
end))
define("index_add", positions(function(a, index)
   local source = a.alpha and a.alpha ~= 1 and a.source * a.alpha or a.source
   return a.self:scatter_add(a.dim, index, source)
end))
define("index_fill", positions(function(a, index)
   if type(a.value) ~= "number" then return nil end
   return a.self:scatter(a.dim, index, a.value)
end))

define("nn.functional.one_hot one_hot", function(c)
   return (c.a.num_classes or -1) > 0 and c.call() or nil
end)

define("nn.functional.embedding embedding", function(c)
   local a = c.a
   if a.max_norm or a.sparse then return nil end
   if not c.batched.weight then return c.call() end
   if a.padding_idx or a.scale_grad_by_freq or c.rank.weight ~= 2 then return nil end
   local input, width = expanded(c, "input"), a.weight:size(3)
   local shape = input.shape
   shape[#shape + 1] = width
   local index = input:reshape(c.n, -1, 1):expand(c.n, -1, width)
   return a.weight:gather(2, index):view(shape)
end)

-- Products --------------------------------------------------------------------------------------

local function product(c, left, right)
   return parts.product(c.a[left], c.rank[left], c.a[right], c.rank[right],
      {c.batched[left], c.batched[right]})
end

define("matmul linalg.matmul", function(c)
   return product(c, c.signature[1].name, c.signature[2].name)
end)
-- Returns the rule for products of examples that have left_rank and right_rank dimensions.
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
define("inner", function(c)
   local ra, rb = c.rank.self, c.rank.other
   if rb == 0 or rb > 2 then return nil end
   local other = rb == 2 and c.a.other:transpose(-1, -2) or c.a.other
   return parts.product(c.a.self, ra, other, rb, {c.batched.self, c.batched.other})
end)
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
   local result = parts.product(a.input, c.rank.input, a.weight:transpose(-1, -2), 2,
      {c.batched.input, c.batched.weight})
   if a.bias ~= nil then
      result = result + aligned(c, "bias", c.rank.input)
   end
   return activation and activation(result, a.approximate) or result
end
define([[nn.functional.linear linear nn.functional.linear_relu linear_relu
   nn.functional.linear_gelu linear_gelu]], linear)

for name, rule in pairs(require "tlua.func.layer_rules") do M[name] = rule end

return M
