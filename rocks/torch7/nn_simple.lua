-- nn_simple.lua - Torch7's layers with a single input: linear layers, arithmetic, reductions, views
-- and activations.

local tlua = require "tlua"
local args = require "tlua.args"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"

local T, F = tlua, tlua.nn.functional
local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local layer, parameters = base.layer, base.parameters

local function dims(x) return #field(x, "shape") end
local function shape(x) return field(x, "shape") end

-- Converts dimension d of a layer's argument to a dimension of the input x. n is the layer's option
-- nInputDims. If n is given, d does not count the batch dimension, so d is increased by 1 for an
-- input with a batch dimension.
local function with_batch(d, n, x)
   if d < 0 then return d end
   return n and n > 0 and dims(x) == n + 1 and d + 1 or d
end

-- Linear layers -----------------------------------------------------------------------------------

local function columns(self) return self.weight:size(2) end

local function linear(_, x, weight, bias) return F.linear(x, weight, bias) end

local function check_sizes(name, ...)
   for i = 1, 2 do
      local size = select(i, ...)
      if not math.tointeger(size) or size < 0 then
         tlua.raise(("nn.%s: expected the sizes of the input and the output, got %s for the %s")
            :format(name, tostring(size), i == 1 and "input" or "output"))
      end
   end
end

local Linear = layer("Linear", function(self, inputSize, outputSize, bias)
   check_sizes("Linear", inputSize, outputSize)
   parameters(self, {outputSize, inputSize}, bias ~= false and {outputSize} or nil)
end, linear)
Linear.reset = base.reset(columns)
Linear.describe = function(self)
   return ("nn.Linear(%d -> %d)%s"):format(self.weight:size(2), self.weight:size(1),
      self.bias and "" or " without bias")
end

-- Returns a tensor as a matrix whose rows are the vectors along the last dimension.
local function as_rows(x)
   if methods.dim(x) == 2 then return x end
   local sizes = shape(x)
   return T.reshape(x, {-1, sizes[#sizes]})
end

records.accumulate[linear] = function(self, x, g, scale)
   x, g = as_rows(x), as_rows(g)
   if self.gradWeight then methods.addmm_(self.gradWeight, T.t(g), x, {alpha = scale}) end
   if self.bias and self.gradBias then
      T.add_(self.gradBias, T.sum(g, 1), {alpha = scale})
   end
end

function Linear:noBias()
   self.bias, self.gradBias = nil, nil
   return self
end

-- LinearWeightNorm: a linear layer in which each row of the weight is g * v / |v|, with the length
-- g and the direction v as parameters.
local LinearWeightNorm = layer("LinearWeightNorm", function(self, inputSize, outputSize, bias)
   parameters(self, {outputSize, inputSize}, bias ~= false and {outputSize} or nil)
   self.v, self.g = self.weight:clone(), self.weight:norm(2, 2)
   self.gradV, self.gradG = self.v:clone():zero(), self.g:clone():zero()
end, linear, "nn.Linear")
function LinearWeightNorm:updateOutput(input)
   self.weight:copy(self.v):cmul(T.div(self.g, T.linalg.vector_norm(self.v, 2, 2, {keepdim = true}))
      :expand(shape(self.v)))
   return base.nn.Linear.updateOutput(self, input)
end
function LinearWeightNorm:accGradParameters(input, gradOutput, scale)
   self.gradWeight:zero()
   base.nn.Linear.accGradParameters(self, input, gradOutput, scale)
   local v, g = records.leaf(self.v), records.leaf(self.g)
   local made = T.mul(v, T.div(g, T.linalg.vector_norm(v, 2, 2, {keepdim = true})))
   local gv, gg = T.autograd.grad({made}, {v, g}, {self.gradWeight})
   T.add_(self.gradV, gv)
   T.add_(self.gradG, gg)
end
function LinearWeightNorm:parameters()
   return {self.v, self.g, self.bias}, {self.gradV, self.gradG, self.gradBias}
end

-- SparseLinear: a linear layer for sparse vectors. A vector is a list (n, 2) of pairs {position,
-- value}. A batch is a table of such lists, or a tensor (batch, n, 2).
local SparseLinear = layer("SparseLinear", function(self, inputSize, outputSize, doGradInput)
   self.inputSize, self.outputSize, self.doGradInput = inputSize, outputSize, doGradInput or false
   parameters(self, {outputSize, inputSize}, {outputSize})
end, function(_, x, weight, bias)
   local list = {}
   if is_tensor(x) and dims(x) == 3 then x = T.unbind(x, 1) end
   local batch = not is_tensor(x)
   for i, pairs_of in ipairs(batch and x or {x}) do
      local at = methods.to(T.select(pairs_of, 2, 1), "int64")
      list[i] = T.add(T.mv(T.index_select(weight, 2, at), T.select(pairs_of, 2, 2)), bias)
   end
   return batch and T.stack(list) or list[1]
end)
SparseLinear.reset = base.reset(columns)

local Bilinear = layer("Bilinear", function(self, left, right, out, bias)
   parameters(self, {out, left, right}, bias ~= false and {out} or nil)
end, function(_, x, weight, bias) return F.bilinear(x[1], x[2], weight, bias) end)
Bilinear.reset = base.reset(columns)

-- PartialLinear: a linear layer that computes only the outputs chosen by setPartition.
local PartialLinear = layer("PartialLinear", function(self, inputSize, outputSize, bias)
   parameters(self, {outputSize, inputSize}, bias ~= false and {outputSize} or nil)
end, function(self, x, weight, bias)
   if not self.partition then return F.linear(x, weight, bias) end
   local at = methods.to(self.partition, "int64")
   return F.linear(x, T.index_select(weight, 1, at), bias and T.index_select(bias, 1, at))
end)
PartialLinear.reset = base.reset(columns)
function PartialLinear:setPartition(indices) self.partition = torch.LongTensor(indices) end
function PartialLinear:resetPartition() self.partition = nil end

local function one(name, compute, size)
   local class = layer(name, function(self, ...) size(self, ...) end, compute)
   class.reset = base.reset(function(self) return (self.weight or self.bias):nElement() end)
   return class
end

one("Add", function(_, x, _, bias)
   if methods.numel(bias) == 1 then return T.add(x, bias) end
   local batch = methods.numel(x) ~= methods.numel(bias)
   local sizes = shape(x)
   if batch then sizes[1] = 1 end
   return T.add(x, T.reshape(bias, sizes))
end, function(self, size, scalar) parameters(self, nil, {scalar and 1 or size}) end)
one("Mul", function(_, x, weight) return T.mul(x, weight) end,
   function(self) parameters(self, {1}) end)

-- Reshapes a learnt tensor p so that it broadcasts with x, which may have a batch dimension. Each
-- dimension of p has the size of the same dimension of one sample, or the size 1.
local function fitted(x, p)
   local sizes = shape(p)
   if dims(x) == #sizes + 1 then table.insert(sizes, 1, 1) end
   return T.reshape(p, sizes)
end
one("CMul", function(_, x, weight) return T.mul(x, fitted(x, weight)) end, function(self, ...)
   local sizes = types.sizes("CMul", ...)
   self.size = torch.LongStorage(sizes)
   parameters(self, sizes)
end)
one("CAdd", function(_, x, _, bias) return T.add(x, fitted(x, bias)) end, function(self, ...)
   local sizes = types.sizes("CAdd", ...)
   self.size = torch.LongStorage(sizes)
   parameters(self, nil, sizes)
end)

-- Returns the differences between the samples and the columns of the weight, which are learnt
-- vectors.
local function differences(x, weight) return T.sub(T.unsqueeze(x, -1), weight) end
layer("Euclidean", function(self, inputSize, outputSize)
   parameters(self, {inputSize, outputSize})
end, function(_, x, weight)
   return T.linalg.vector_norm(differences(x, weight), 2, -2)
end).reset = base.reset(function(self) return self.weight:size(1) end)

local Weighted = layer("WeightedEuclidean", function(self, inputSize, outputSize)
   self.diagCov, self.gradDiagCov = torch.ones(inputSize, outputSize),
      torch.zeros(inputSize, outputSize)
   parameters(self, {inputSize, outputSize})
end, function(self, x, weight)
   return T.linalg.vector_norm(T.mul(differences(x, weight), self.diagonal
      or T.detach(self.diagCov)), 2, -2)
end)
Weighted.reset = base.reset(function(self) return self.weight:size(1) end)
function Weighted:accGradParameters(input, gradOutput, scale)
   base.Module.accGradParameters(self, input, gradOutput, scale)
   local diagonal = records.leaf(self.diagCov)
   local output = T.linalg.vector_norm(T.mul(differences(T.detach(input), T.detach(self.weight)),
      diagonal), 2, -2)
   T.add_(self.gradDiagCov, T.autograd.grad({output}, {diagonal}, {gradOutput}),
      {alpha = scale or 1})
end
function Weighted:parameters()
   return {self.weight, self.diagCov}, {self.gradWeight, self.gradDiagCov}
end

layer("Cosine", function(self, inputSize, outputSize)
   parameters(self, {outputSize, inputSize})
end, function(_, x, weight)
   local directions = F.normalize(weight, {dim = 2, eps = 1e-12})
   return F.linear(F.normalize(x, {dim = -1, eps = 1e-12}), directions)
end).reset = base.reset(columns)

-- IndexLinear: a linear layer with sparse inputs. Each sample is {positions, values}.
local IndexLinear = layer("IndexLinear", function(self, inputSize, outputSize)
   parameters(self, {inputSize, outputSize}, {outputSize})
end, function(_, x, weight, bias)
   local keys, values = x[1], x[2]
   if is_tensor(keys) then keys, values = {keys}, {values} end
   local list = {}
   for i, at in ipairs(keys) do
      local rows = T.index_select(weight, 1, methods.to(at, "int64"))
      list[i] = T.add(T.mv(T.t(rows), T.detach(values[i])), bias)
   end
   return #list == 1 and is_tensor(x[1]) and list[1] or T.stack(list)
end)
IndexLinear.reset = base.reset(function(self) return self.weight:size(1) end)

-- Arithmetic --------------------------------------------------------------------------------------

local Identity = layer("Identity", "", function(_, x) return x end)
Identity.takes_any = true -- as in Torch7, numbers and strings are passed on, too
layer("Contiguous", "", function(_, x) return methods.contiguous(x) end)
layer("Exp", "", function(_, x) return T.exp(x) end)
layer("Log", "", function(_, x) return T.log(x) end)
layer("Abs", "", function(_, x) return T.abs(x) end)
layer("Square", "", function(_, x) return T.square(x) end)
layer("Sqrt", "eps=0", function(self, x) return T.sqrt(self.eps and self.eps > 0
   and T.add(x, self.eps) or x) end)
layer("Power", "pow", function(self, x) return T.pow(x, self.pow) end)
layer("Clamp", "min_val max_val", function(self, x) return T.clamp(x, self.min_val,
   self.max_val) end)
layer("AddConstant", "constant_scalar inplace=false", function(self, x)
   local c = self.constant_scalar
   return T.add(x, is_tensor(c) and T.detach(c) or c)
end)
layer("MulConstant", "constant_scalar inplace=false", function(self, x)
   local c = self.constant_scalar
   return T.mul(x, is_tensor(c) and T.detach(c) or c)
end)
layer("Normalize", "p eps=1e-10", function(self, x)
   return T.div(x, T.add(T.linalg.vector_norm(x, self.p, -1, {keepdim = true}), self.eps))
end)
layer("MM", "transA=false transB=false", function(self, x)
   local a, b = x[1], x[2]
   if self.transA then a = T.transpose(a, -2, -1) end
   if self.transB then b = T.transpose(b, -2, -1) end
   return T.matmul(a, b)
end)
layer("MV", "trans=false", function(self, x)
   local m = self.trans and T.transpose(x[1], -2, -1) or x[1]
   return T.squeeze(T.matmul(m, T.unsqueeze(x[2], -1)), -1)
end)
layer("Constant", function(self, value, nInputDim)
   self.value = type(value) == "number" and torch.Tensor {value} or value
   self.nInputDim = nInputDim
end, function(self, x)
   local value = T.detach(self.value)
   if not self.nInputDim or dims(x) == self.nInputDim then return value end
   local sizes = shape(value)
   table.insert(sizes, 1, shape(x)[1])
   return methods.expand(value, sizes)
end)
layer("OneHot", "outputSize", function(self, x)
   return methods.to(T.one_hot(methods.to(x, "int64"), self.outputSize), types.default.dtype)
end)
layer("PrintSize", "prefix=nil", function(self, x)
   io.write(("%s: %s\n"):format(self.prefix or "PrintSize", is_tensor(x)
      and table.concat(shape(x), "x") or "table"))
   return x
end)
layer("ZeroGrad", "", function(_, x) return records.map(T.clone,
   x) end).updateGradInput = function(self, input)
   self.gradInput = records.map(function(x) return types.tag(T.zeros_like(x)) end, input)
   return self.gradInput
end

-- Copy: converts a tensor from one type to another. In the backward pass, it converts the gradient
-- back.
local Copy = layer("Copy", function(self, intype, outtype)
   self.intype, self.outtype = intype or self._type, outtype or self._type
   for what, name in pairs {intype = self.intype, outtype = self.outtype} do
      if type(name) ~= "string" or not types.kind_named(name) then
         args.refuse("nn.Copy", what, "the name of a tensor type", name)
      end
   end
end, function(self, x)
   local kind = types.kind_named(self.outtype)
   return methods.to(x, types.place(kind))
end)
function Copy:type(name) return name and self or self._type end

-- GradientReversal: returns its input. In the backward pass, it multiplies the gradient by -lambda.
local Reversal = layer("GradientReversal", "lambda=1", function(_, x) return T.mul(x, 1) end)
function Reversal:setLambda(lambda) self.lambda = lambda end
local function changed_gradient(class, change)
   function class:updateGradInput(input, gradOutput)
      self.gradInput = change(self, input, gradOutput)
      return self.gradInput
   end
end
changed_gradient(Reversal, function(self, _, g) return types.tag(T.mul(g, -self.lambda)) end)

-- L1Penalty: returns its input. In the backward pass it adds l1weight * sign(x) to the gradient.
-- The field `loss` contains the penalty, l1weight times the sum of |x|.
local L1 = layer("L1Penalty", "l1weight sizeAverage=false provideOutput=true", function(self, x)
   local n = self.sizeAverage and methods.numel(x) or 1
   self.loss = self.l1weight / n * methods.item(T.sum(T.abs(x)))
   return T.mul(x, 1)
end)
changed_gradient(L1, function(self, x, g)
   local n = self.sizeAverage and methods.numel(x) or 1
   local made = T.mul(T.sign(x), self.l1weight / n)
   return types.tag(self.provideOutput and T.add(made, g) or made)
end)

-- Reductions --------------------------------------------------------------------------------------

local function extreme(name, fn)
   layer(name, "dimension=1 nInputDims=nil", function(self, x)
      local values, at = fn(x, with_batch(self.dimension, self.nInputDims, x))
      self._indices = types.tag(at)
      return values
   end)
end
extreme("Max", T.max)
extreme("Min", T.min)

layer("Sum", "dimension=1 nInputDims=nil sizeAverage=false squeeze=true", function(self, x)
   local d = with_batch(self.dimension, self.nInputDims, x)
   return (self.sizeAverage and T.mean or T.sum)(x, d, {keepdim = self.squeeze == false})
end)
layer("Mean", nil, nil, "nn.Sum").__init = function(self, dimension, nInputDims)
   base.nn.Sum.__init(self, dimension, nInputDims, true)
end

-- Views -------------------------------------------------------------------------------------------

-- View: gives the input other sizes. If the input has a batch dimension, this dimension stays in
-- front.
local View = layer("View", function(self, ...)
   local sizes = types.sizes("View", ...)
   self.size = torch.LongStorage(sizes)
   self.numElements = 1
   for _, size in ipairs(sizes) do
      self.numElements = self.numElements * (size > 0 and size or 1)
   end
end, function(self, x)
   local sizes, n = self.size:totable(), methods.numel(x)
   local open = false
   for _, size in ipairs(sizes) do open = open or size == -1 end
   if self.numInputDims then
      if dims(x) == self.numInputDims + 1 then table.insert(sizes, 1, shape(x)[1]) end
   elseif not open and n ~= self.numElements then
      table.insert(sizes, 1, n // self.numElements)
   end
   return T.reshape(x, sizes)
end)
function View:setNumInputDims(n)
   self.numInputDims = n
   return self
end
function View:resetSize(...) base.nn.View.__init(self, ...) return self end
View.describe = function(self) return ("nn.View(%s)"):format(table.concat(self.size:totable(),
   ", ")) end

local Reshape = layer("Reshape", function(self, ...)
   local list = {...}
   if type(list[#list]) == "boolean" then self.batchMode = table.remove(list) end
   local sizes = types.sizes("Reshape", table.unpack(list))
   self.size = torch.LongStorage(sizes)
   self.nelement = 1
   for _, size in ipairs(sizes) do self.nelement = self.nelement * size end
end, function(self, x)
   local sizes, batch = self.size:totable(), self.batchMode
   if batch == nil then -- A first dimension of size 1 is always taken for a batch dimension.
      batch = methods.numel(x) ~= self.nelement or shape(x)[1] == 1
   end
   if batch then table.insert(sizes, 1, shape(x)[1]) end
   return T.reshape(x, sizes)
end)
Reshape.describe = function(self) return ("nn.Reshape(%s)"):format(
   table.concat(self.size:totable(), "x")) end

layer("Narrow", "dimension index length=1", function(self, x)
   local d = self.dimension
   local size = shape(x)[d > 0 and d or dims(x) + d + 1]
   local first = self.index < 0 and size + self.index + 1 or self.index
   local length = self.length < 0 and size - first + 1 + self.length + 1 or self.length
   return T.narrow(x, d, first, length)
end)
layer("Select", "dimension index", function(self, x) return T.select(x, self.dimension,
   self.index) end)
layer("Index", "dimension", function(self, x)
   return T.index_select(x[1], self.dimension, methods.to(x[2], "int64"))
end)
layer("MaskedSelect", "", function(_, x) return T.masked_select(x[1], methods.to(x[2], "bool")) end)
layer("Replicate", "nfeatures dim=1 ndim=nil", function(self, x)
   local d = with_batch(self.dim, self.ndim, x)
   x = T.unsqueeze(x, d)
   local sizes = shape(x)
   sizes[d] = self.nfeatures
   return methods.expand(x, sizes)
end)
layer("Squeeze", "dim=nil numInputDims=nil", function(self, x)
   if self.dim then return T.squeeze(x, with_batch(self.dim, self.numInputDims, x)) end
   return T.squeeze(x)
end)
layer("Unsqueeze", "pos numInputDims=nil", function(self, x)
   return T.unsqueeze(x, with_batch(self.pos, self.numInputDims, x))
end)
local Transpose = layer("Transpose", function(self, ...)
   local list = table.pack(...)
   for i = 1, list.n do
      local pair = list[i]
      if type(pair) ~= "table" or not math.tointeger(pair[1]) or not math.tointeger(pair[2]) then
         args.refuse("nn.Transpose", ("argument %d"):format(i), "a pair of dimensions", pair)
      end
   end
   self.permutations = {...}
end, function(self, x)
   for _, pair in ipairs(self.permutations) do
      x = T.transpose(x, with_batch(pair[1], self.numInputDims, x),
         with_batch(pair[2], self.numInputDims, x))
   end
   return methods.contiguous(x)
end)
function Transpose:setNumInputDims(n)
   self.numInputDims = n
   return self
end
layer("Collapse", "nInputDim", function(self, x)
   local batch = dims(x) == self.nInputDim + 1
   return T.reshape(x, batch and {shape(x)[1], -1} or {-1})
end)

-- Padding: inserts |pad| elements along a dimension. If pad is negative, they are inserted before
-- position `index`; otherwise after the position `index` counted from the end.
layer("Padding", "dim pad nInputDim=nil value=0 index=1", function(self, x)
   local d = with_batch(self.dim, self.nInputDim, x)
   local sizes, n = shape(x), shape(x)[d]
   if not n then
      tlua.raise(("nn.Padding: dim: expected a dimension from 1 to %d, got %s"):format(#sizes,
         tostring(self.dim)))
   end
   local index = self.index
   if self.pad > 0 then index = n - index + 2 end
   sizes[d] = math.abs(self.pad)
   local filling = T.full(sizes, self.value, {dtype = field(x, "dtype"),
      device = field(x, "device")})
   return T.cat({T.narrow(x, d, 1, index - 1), filling, T.narrow(x, d, index, n - index + 1)}, d)
end)
layer("PixelShuffle", "upscaleFactor", function(self, x) return F.pixel_shuffle(x,
   self.upscaleFactor) end)

-- Noise -------------------------------------------------------------------------------------------

-- Defines a layer with noise. The noise is drawn before the forward call and stored, so that the
-- backward pass uses the same noise.
local function noisy(name, fields, draw, compute)
   local class = layer(name, fields, compute)
   function class:prepare(input)
      self.noise = self.train ~= false and draw(self, input) or nil
   end
   return class
end

local function kept(self, sizes, like)
   local noise = T.empty(sizes, {dtype = field(like, "dtype"), device = field(like, "device")})
   methods.bernoulli_(noise, 1 - self.p)
   return types.tag(noise)
end

local function scaled_noise(self, x)
   if not self.noise then return self.v1 and T.mul(x, 1 - self.p) or T.mul(x, 1) end
   local made = T.mul(x, self.noise)
   return self.v1 and made or T.div(made, 1 - self.p)
end

local Dropout = noisy("Dropout", function(self, p, v1, inplace, stochastic)
   self.p, self.v2, self.v1 = p or 0.5, not v1, v1 or false
   self.inplace, self.stochastic_inference = inplace or false, stochastic or false
   self.train = true
   self.noise = torch.Tensor()
end, function(self, x) return kept(self, shape(x), x) end, scaled_noise)
Dropout.describe = function(self) return ("nn.Dropout(%f)"):format(self.p) end
function Dropout:setp(p) self.p = p end

-- These layers drop whole planes. In evaluation they scale the results down; ordinary dropout
-- scales them up in training instead.
for name, planes in pairs {SpatialDropout = 2, VolumetricDropout = 3} do
   local class = noisy(name, function(self, p)
      self.p, self.train = p or 0.5, true
   end, function(self, x)
      local sizes = shape(x)
      for d = #sizes - planes + 1, #sizes do sizes[d] = 1 end
      return kept(self, sizes, x)
   end, function(self, x) return T.mul(x, self.noise or 1 - self.p) end)
   function class:setp(p) self.p = p end
   function class:describe() return ("%s(%f)"):format(classes.type(self), self.p) end
end

noisy("WhiteNoise", function(self, mean, std)
   self.mean, self.std, self.train = mean or 0, std or 0.1, true
end, function(self, x)
   return types.tag(T.add(T.mul(T.randn_like(x), self.std), self.mean))
end, function(self, x) return T.add(x, self.noise or 0) end)

noisy("RReLU", function(self, lower, upper, inplace)
   self.lower, self.upper, self.inplace, self.train = lower or 1 / 8, upper or 1 / 3, inplace
      or false, true
end, function(self, x)
   local noise = T.empty_like(x)
   methods.uniform_(noise, self.lower, self.upper)
   return types.tag(noise)
end, function(self, x)
   return T.where(T.le(x, 0), T.mul(x, self.noise or (self.lower + self.upper) / 2), x)
end)

-- Activations -------------------------------------------------------------------------------------

layer("Tanh", "", function(_, x) return T.tanh(x) end)
layer("Sigmoid", "", function(_, x) return T.sigmoid(x) end)
layer("SoftSign", "", function(_, x) return T.div(x, T.add(T.abs(x), 1)) end)
layer("LogSigmoid", "", function(_, x) return F.logsigmoid(x) end)
layer("SoftPlus", "beta=1 threshold=20", function(self, x) return F.softplus(x, self.beta,
   self.threshold) end)
layer("HardTanh", "min_val=-1 max_val=1 inplace=false", function(self, x)
   return F.hardtanh(x, self.min_val, self.max_val)
end)
layer("HardShrink", "lambda=0.5", function(self, x) return F.hardshrink(x, self.lambda) end)
layer("SoftShrink", "lambda=0.5", function(self, x) return F.softshrink(x, self.lambda) end)
layer("TanhShrink", "", function(_, x) return T.sub(x, T.tanh(x)) end)
layer("Threshold", "threshold=1e-6 val=0 inplace=false", function(self, x)
   return F.threshold(x, self.threshold, self.val)
end)
layer("ReLU", nil, function(_, x) return T.relu(x) end, "nn.Threshold").__init = function(self,
   inplace)
   base.nn.Threshold.__init(self, 0, 0, inplace or false)
end
layer("ReLU6", "inplace=false", function(_, x) return F.relu6(x) end)
layer("ELU", "alpha=1 inplace=false", function(self, x) return F.elu(x, self.alpha) end)
layer("LeakyReLU", "negval=0.01 inplace=false",
   function(self, x) return F.leaky_relu(x, self.negval) end)
layer("CReLU", "nInputDims inplace=false", function(self, x)
   local d = dims(x) > self.nInputDims and 2 or 1
   return T.cat({T.relu(x), T.relu(T.neg(x))}, d)
end)
layer("GatedLinearUnit", "dim=-1", function(self, x) return F.glu(x, self.dim) end)

local PReLU = layer("PReLU", function(self, nOutputPlane)
   base.check_integer("PReLU", "nOutputPlane", nOutputPlane or 0, 0)
   self.nOutputPlane = nOutputPlane or 0
   self.weight = torch.Tensor(math.max(self.nOutputPlane, 1)):fill(0.25)
   self.gradWeight = torch.zeros(self.weight:nElement())
end, function(_, x, weight)
   local n = methods.numel(weight)
   if n > 1 then
      local sizes = {}
      local d = shape(x)[2] == n and dims(x) > 1 and 2 or 1
      for i = 1, dims(x) do sizes[i] = i == d and n or 1 end
      weight = T.reshape(weight, sizes)
   end
   return T.where(T.gt(x, 0), x, T.mul(x, weight))
end)
function PReLU:reset() self.weight:fill(0.25) end

-- Returns the dimension of the classes for softmax: the first dimension of a single vector or
-- image, and the second dimension of a batch.
local function feature_dim(x)
   local n = dims(x)
   return (n == 1 or n == 3) and 1 or 2
end
layer("SoftMax", "", function(_, x) return T.softmax(x, feature_dim(x)) end)
layer("LogSoftMax", "", function(_, x) return T.log_softmax(x, feature_dim(x)) end)
layer("SoftMin", "", function(_, x) return T.softmax(T.neg(x), feature_dim(x)) end)
layer("SpatialSoftMax", "", function(_, x) return T.softmax(x, feature_dim(x)) end)
layer("SpatialLogSoftMax", "", function(_, x) return T.log_softmax(x, feature_dim(x)) end)

-- Batch normalization -----------------------------------------------------------------------------

local Norm = layer("BatchNormalization", function(self, nOutput, eps, momentum, affine)
   self.affine = affine ~= false
   self.eps, self.momentum, self.train = eps or 1e-5, momentum or 0.1, true
   self.running_mean, self.running_var = torch.zeros(nOutput), torch.ones(nOutput)
   if self.affine then parameters(self, {nOutput}, {nOutput}) end
end, function(self, x, weight, bias)
   local single = dims(x) == self.nDim - 1
   if single then x = T.unsqueeze(x, 1) end
   local training = self.train ~= false
   local mean, var
   if not (training and records.again) then
      mean, var = T.detach(self.running_mean), T.detach(self.running_var)
   end
   local y = F.batch_norm(x, mean, var, weight, bias, training, self.momentum, self.eps)
   return single and T.squeeze(y, 1) or y
end)
Norm.nDim = 2
function Norm:reset()
   if self.weight then
      self.weight:uniform()
      self.bias:zero()
   end
   self.running_mean:zero()
   self.running_var:fill(1)
end
Norm.describe = function(self)
   return ("%s (%dD) (%d)"):format(classes.type(self), self.nDim, self.running_mean:nElement())
end
for name, n in pairs {SpatialBatchNormalization = 4, VolumetricBatchNormalization = 5} do
   layer(name, nil, Norm.compute, "nn.BatchNormalization").nDim = n
end

layer("InstanceNormalization", function(self, nOutput, eps, momentum, affine)
   self.nOutput, self.eps, self.momentum = nOutput, eps or 1e-5, momentum or 0.1
   self.affine = affine ~= false
   if self.affine then
      self.weight, self.bias = torch.rand(nOutput), torch.zeros(nOutput)
      self.gradWeight, self.gradBias = torch.zeros(nOutput), torch.zeros(nOutput)
   end
end, function(self, x, weight, bias)
   return F.instance_norm(x, nil, nil, weight, bias, true, self.momentum, self.eps)
end)

layer("LayerNormalization", function(self, nOutput, bias, eps, affine)
   self.eps, self.nOutput = eps or 1e-10, nOutput
   if affine ~= false then
      self.weight, self.gradWeight = torch.ones(nOutput), torch.zeros(nOutput)
      self.bias = bias and torch.Tensor(nOutput):fill(bias) or torch.zeros(nOutput)
      self.gradBias = torch.zeros(nOutput)
   end
end, function(self, x, weight, bias) return F.layer_norm(x, {self.nOutput}, weight, bias,
   self.eps) end)

return {with_batch = with_batch, feature_dim = feature_dim}
