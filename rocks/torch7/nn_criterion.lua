-- nn_criterion.lua - Torch7's criterions. A criterion computes the loss for an input and a target
-- as a number, and the gradient of the loss with respect to the input.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local copying = require "tlua.torch7.copying"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"

local T, F = tlua, tlua.nn.functional
local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local map, nn = records.map, base.nn

local function dims(x) return #field(x, "shape") end

local Criterion = classes.class "nn.Criterion"

function Criterion:__init()
   self.gradInput = torch.Tensor()
   self.output = 0
   self._type = torch.getdefaulttensortype()
end

-- Maps each criterion to the record of its last call.
local last = setmetatable({}, {__mode = "k"})

local no_option = {output = true, gradInput = true}

local function record(self, input, target)
   local leaves = map(records.leaf, input)
   local loss = self:compute(leaves, map(function(x) return is_tensor(x) and T.detach(x) or x end,
      target))
   local inputs, versions = records.flatten({input, target}, {}), {}
   for i, x in ipairs(inputs) do versions[i] = records.version(x) end
   last[self] = {leaves = leaves, loss = loss, inputs = inputs, versions = versions,
      options = records.options(self, no_option)}
   return last[self]
end

local function is_current(self, made, input, target)
   if not made or not records.has_options(self, made.options, no_option) then return false end
   local inputs = records.flatten({input, target}, {})
   for i, x in ipairs(inputs) do
      if not rawequal(x, made.inputs[i]) or records.version(x) ~= made.versions[i] then
         return false
      end
   end
   return #inputs == #made.inputs
end

function Criterion:updateOutput(input, target)
   if not self.compute then return self.output end
   base.check_input(self, input)
   self.output = methods.item(record(self, input, target).loss)
   return self.output
end

function Criterion:updateGradInput(input, target)
   if not self.compute then return self.gradInput end
   local made = last[self]
   if not is_current(self, made, input, target) then made = record(self, input, target) end
   local leaves = records.wanted(made.leaves, {})
   local list = {}
   if field(made.loss, "requires_grad") then
      list = {T.autograd.grad({made.loss}, leaves, nil, {retain_graph = true, allow_unused = true})}
   end
   local at = 0
   self.gradInput = map(function(x)
      if not is_tensor(x) then return x end
      local wanted = field(x, "requires_grad")
      if wanted then at = at + 1 end
      return types.tag(wanted and list[at] or T.zeros_like(x))
   end, made.leaves)
   return self.gradInput
end

function Criterion:forward(input, target) return self:updateOutput(input, target) end
function Criterion:backward(input, target) return self:updateGradInput(input, target) end

function Criterion:__call__(input, target)
   self.output = self:forward(input, target)
   self.gradInput = self:backward(input, target)
   return self.output, self.gradInput
end

function Criterion:clone() return copying.copy(self) end

function Criterion:type(name, memo)
   if name == nil then return self._type end
   local kind = types.kind_named(name)
   if not kind then tlua.raise("type: there is no tensor type " .. tostring(name)) end
   copying.convert(self, kind, memo)
   self._type = name
   return self
end
for method, name in pairs {float = "Float", double = "Double", half = "Half", cuda = "Cuda"} do
   Criterion[method] = function(self) return self:type(("torch.%sTensor"):format(name)) end
end

-- Definitions -------------------------------------------------------------------------------------

-- Defines a criterion. `fields` are the names of its constructor's arguments, and `compute` returns
-- the loss.
local function criterion(name, fields, compute)
   local class = base.layer(name, fields, compute, "nn.Criterion")
   if type(fields) == "function" then
      function class:__init(...)
         Criterion.__init(self)
         fields(self, ...)
      end
   end
   return class
end

local function reduction(self) return self.sizeAverage == false and "sum" or "mean" end

-- Returns the mean of the losses if sizeAverage is set, and otherwise their sum.
local function total(self, losses)
   return self.sizeAverage == false and T.sum(losses) or T.mean(losses)
end

-- Returns a target, which may be a number, as a tensor with the shape and type of the input.
local function like(self, x, target)
   if type(target) == "number" then target = T.tensor({target}) end
   if not is_tensor(target) or methods.numel(target) ~= methods.numel(x) then
      tlua.raise(("%s: target: expected %d elements, as the input has, got %s"):format(
         classes.type(self), methods.numel(x), is_tensor(target) and methods.numel(target)
         or type(target)))
   end
   target = methods.to(target, {dtype = field(x, "dtype"), device = field(x, "device")})
   return T.reshape(target, field(x, "shape"))
end

-- Returns labels as an integer tensor, with one label for each sample.
local function labels(x, target)
   if type(target) == "number" then target = T.tensor({target}) end
   target = methods.to(target, {dtype = "int64", device = field(x, "device")})
   return target
end

-- Calls fn with scores (n, classes) and labels (n). A single vector of scores becomes a batch of
-- size 1.
local function classified(x, target, fn)
   target = labels(x, target)
   if dims(x) == 1 then return fn(T.unsqueeze(x, 1), T.reshape(target, {1})) end
   return fn(x, dims(target) == dims(x) and T.squeeze(target, 2) or target)
end

local sized <const> = "sizeAverage=true"
criterion("AbsCriterion", sized, function(self, x, y) return F.l1_loss(x, like(self, x, y),
   {reduction = reduction(self)}) end)
criterion("MSECriterion", sized, function(self, x, y)
   return F.mse_loss(x, like(self, x, y), {reduction = reduction(self)})
end)
criterion("SmoothL1Criterion", sized, function(self, x, y)
   return F.smooth_l1_loss(x, like(self, x, y), {reduction = reduction(self)})
end)
criterion("SoftMarginCriterion", sized, function(self, x, y)
   return F.soft_margin_loss(x, like(self, x, y), {reduction = reduction(self)})
end)
criterion("DistKLDivCriterion", sized, function(self, x, y)
   return F.kl_div(x, like(self, x, y), {reduction = reduction(self)})
end)
criterion("WeightedMSECriterion", "weight sizeAverage=true", function(self, x, y)
   return total(self, T.mul(T.square(T.sub(x, like(self, x, y))), T.detach(self.weight)))
end)
criterion("BCECriterion", "weights=nil sizeAverage=true", function(self, x, y)
   local w = self.weights and methods.expand(T.detach(self.weights), field(x, "shape"))
   return F.binary_cross_entropy(x, like(self, x, y), {weight = w, reduction = reduction(self)})
end)

local function nll(self, x, y)
   return classified(x, y, function(scores, target)
      local weights = self.weights and methods.to(T.detach(self.weights), field(scores, "dtype"))
      return F.nll_loss(scores, target, {weight = weights, reduction = reduction(self),
         ignore_index = self.ignoreIndex})
   end)
end
local ClassNLL = criterion("ClassNLLCriterion",
   "weights=nil sizeAverage=true ignoreIndex=-100", nll)

-- Returns the labels of a batch if the gradient is zero except for one number in each row, at the
-- row's label. This holds if the criterion has no weights and no label is ignored. Returns nil for
-- other inputs, which autograd handles.
local function plain_labels(self, input, target)
   if self.weights or not is_tensor(input) or not is_tensor(target) or dims(input) ~= 2
      or dims(target) ~= 1 or methods.numel(target) == 0 then
      return nil
   end
   local list = labels(input, target)
   return methods.item(T.amin(list)) >= 1 and list or nil
end

function ClassNLL:updateOutput(input, target)
   local list = plain_labels(self, input, target)
   if not list then return Criterion.updateOutput(self, input, target) end
   self.output = methods.item(F.nll_loss(T.detach(input), list, {reduction = reduction(self)}))
   return self.output
end

function ClassNLL:updateGradInput(input, target)
   local list = plain_labels(self, input, target)
   if not list then return Criterion.updateGradInput(self, input, target) end
   local size = field(input, "shape")
   if field(list, "shape")[1] ~= size[1] or methods.item(T.amax(list)) > size[2] then
      return Criterion.updateGradInput(self, input, target) -- This call raises the error.
   end
   local g = T.zeros_like(T.detach(input))
   methods.scatter_(g, 2, T.unsqueeze(list, 2), self.sizeAverage == false and -1 or -1 / size[1])
   self.gradInput = types.tag(g)
   return self.gradInput
end

criterion("SpatialClassNLLCriterion", "weights=nil sizeAverage=true", nll)
criterion("CrossEntropyCriterion", "weights=nil sizeAverage=true", function(self, x, y)
   x = T.squeeze(x)
   return nll(self, T.log_softmax(x, dims(x) == 1 and 1 or 2), y)
end)

criterion("MarginCriterion", "margin=1 sizeAverage=true", function(self, x, y)
   return total(self, T.relu(T.rsub(T.mul(x, like(self, x, y)), self.margin)))
end)
criterion("MultiMarginCriterion", "p=1 weights=nil margin=1 sizeAverage=true", function(self, x, y)
   return classified(x, y, function(scores, target)
      return F.multi_margin_loss(scores, target,
         {p = self.p, margin = self.margin, reduction = reduction(self),
         weight = self.weights and T.detach(self.weights)})
   end)
end)

-- Each target is a list of labels that ends with 0.
criterion("MultiLabelMarginCriterion", sized, function(self, x, y)
   local single = dims(x) == 1
   if single then x, y = T.unsqueeze(x, 1), T.unsqueeze(y, 1) end
   local n = field(x, "shape")[2]
   local at = methods.to(y, "int64")
   local given = T.cumprod(methods.to(T.gt(at, 0), "int64"), 2)
   local positions = T.clamp(at, 1)
   local is_label = T.gt(T.scatter_add(T.zeros_like(positions), 2, positions, given), 0)
   local scores = T.gather(x, 2, positions)
   local margins = T.relu(T.add(T.sub(T.unsqueeze(x, 2), T.unsqueeze(scores, 3)), 1))
   local others = T.logical_and(T.unsqueeze(T.gt(given, 0), 3),
      T.unsqueeze(T.logical_not(is_label), 2))
   local losses = T.div(T.sum(T.mul(margins, others), {2, 3}), n)
   return total(self, losses)
end)
criterion("MultiLabelSoftMarginCriterion", "weights=nil sizeAverage=true", function(self, x, y)
   return F.multilabel_soft_margin_loss(x, like(self, x, y), {reduction = reduction(self),
      weight = self.weights and T.detach(self.weights)})
end)

-- Losses of pairs ---------------------------------------------------------------------------------

criterion("HingeEmbeddingCriterion", "margin=1 sizeAverage=true", function(self, x, y)
   return F.hinge_embedding_loss(x, like(self, x, y),
      {margin = self.margin, reduction = reduction(self)})
end)
criterion("L1HingeEmbeddingCriterion", "margin=1", function(self, x, y)
   local distance = T.sum(T.abs(T.sub(x[1], x[2])))
   if is_tensor(y) then y = methods.item(T.flatten(y)) end
   return y == 1 and distance or T.relu(T.rsub(distance, self.margin))
end)
criterion("CosineEmbeddingCriterion", "margin=0 sizeAverage=true", function(self, x, y)
   local a, b = x[1], x[2]
   if dims(a) == 1 then a, b = T.unsqueeze(a, 1), T.unsqueeze(b, 1) end
   if type(y) == "number" then y = T.tensor({y}) end
   y = methods.to(T.flatten(y), {dtype = field(a, "dtype"), device = field(a, "device")})
   return F.cosine_embedding_loss(a, b, y,
      {margin = self.margin, reduction = reduction(self)})
end)
criterion("MarginRankingCriterion", "margin=1 sizeAverage=true", function(self, x, y)
   local sign = like(self, x[1], y)
   return total(self, T.relu(T.add(T.mul(T.neg(sign), T.sub(x[1], x[2])), self.margin)))
end)
criterion("DistanceRatioCriterion", sized, function(self, x)
   local near, far = x[1], x[2]
   return total(self, T.neg(T.log(T.div(T.exp(T.neg(near)),
      T.add(T.exp(T.neg(near)), T.exp(T.neg(far)))))))
end)
criterion("L1Cost", "", function(_, x) return T.sum(T.abs(x)) end)

-- Returns the n vertices of a regular simplex, one for each class. The loss of
-- ClassSimplexCriterion is the squared distance of the input to the vertex of the sample's class.
local function simplex(n)
   local rows = {}
   for i = 1, n do
      rows[i] = {}
      for j = 1, n do rows[i][j] = 0.0 end
   end
   for k = 1, n - 1 do
      local square = 0
      for j = 1, k - 1 do square = square + rows[k][j] ^ 2 end
      rows[k][k] = math.sqrt(1 - square)
      for i = k + 1, n do
         local dot = 0
         for j = 1, k - 1 do dot = dot + rows[k][j] * rows[i][j] end
         rows[i][k] = (-1 / (n - 1) - dot) / rows[k][k]
      end
   end
   return torch.Tensor(rows)
end
local Simplex = criterion("ClassSimplexCriterion", function(self, nClasses)
   base.check_integer("ClassSimplexCriterion", "nClasses", nClasses, 2)
   self.nClasses, self.sizeAverage = nClasses, true
   self.simplex = simplex(nClasses)
end, function(self, x, y)
   return classified(x, y, function(points, target)
      local goals = T.index_select(methods.to(T.detach(self.simplex), field(points, "dtype")), 1,
         T.flatten(target))
      return total(self, T.square(T.sub(points, goals)))
   end)
end)
function Simplex:getPredictions(x)
   local points = x:dim() == 1 and x:view(1, x:size(1)) or x
   return points * self.simplex:typeAs(x):t()
end
function Simplex:getTopPrediction(x)
   local _, at = self:getPredictions(x):max(2)
   return at:view(-1)
end

-- The input {mean, logarithm of the variance} describes a normal distribution.
criterion("GaussianCriterion", "", function(_, x, y)
   local spread = T.add(x[2], math.log(2 * math.pi))
   return T.sum(T.mul(T.add(spread, T.div(T.square(T.sub(y, x[1])), T.exp(x[2]))), 0.5))
end)
criterion("KLDCriterion", "", function(_, x)
   local inner = T.sub(T.sub(T.add(x[2], 1), T.square(x[1])), T.exp(x[2]))
   return T.mul(T.sum(inner), -0.5)
end)

-- SpatialAutoCropMSECriterion: crops the centre of y to the size of x, and returns the mean squared
-- error of both.
criterion("SpatialAutoCropMSECriterion", sized, function(self, x, y)
   local size, goal = field(x, "shape"), field(y, "shape")
   for d = #size - 1, #size do
      y = T.narrow(y, d, (goal[d] - size[d]) // 2 + 1, size[d])
   end
   return F.mse_loss(x, y, {reduction = reduction(self)})
end)

-- Criterions of criterions ------------------------------------------------------------------------

local Multi = classes.class("nn.MultiCriterion", "nn.Criterion")
function Multi:__init()
   Criterion.__init(self)
   self.criterions, self.weights = {}, {}
end
function Multi:add(one, weight)
   table.insert(self.criterions, one)
   table.insert(self.weights, weight or 1)
   return self
end

local function scaled(grad, weight)
   return map(function(g) return types.tag(T.mul(g, weight)) end, grad)
end

local function sum(a, b)
   if is_tensor(a) then return types.tag(T.add(a, b)) end
   local made = {}
   for key in pairs(a) do made[key] = sum(a[key], b[key]) end
   return made
end

function Multi:updateOutput(input, target)
   self.output = 0
   for i, one in ipairs(self.criterions) do
      self.output = self.output + self.weights[i] * one:updateOutput(input, target)
   end
   return self.output
end
function Multi:updateGradInput(input, target)
   local all
   for i, one in ipairs(self.criterions) do
      local g = scaled(one:updateGradInput(input, target), self.weights[i])
      all = all and sum(all, g) or g
   end
   self.gradInput = all
   return all
end

local Parallel = classes.class("nn.ParallelCriterion", "nn.Criterion")
function Parallel:__init(repeatTarget)
   Criterion.__init(self)
   self.criterions, self.weights, self.repeatTarget = {}, {}, repeatTarget or false
end
Parallel.add = Multi.add
local function target_of(self, target, i)
   if self.repeatTarget then return target end
   return target[i]
end
function Parallel:updateOutput(input, target)
   self.output = 0
   for i, one in ipairs(self.criterions) do
      self.output = self.output + self.weights[i] * one:updateOutput(input[i],
         target_of(self, target, i))
   end
   return self.output
end
function Parallel:updateGradInput(input, target)
   self.gradInput = {}
   for i, one in ipairs(self.criterions) do
      self.gradInput[i] = scaled(one:updateGradInput(input[i], target_of(self, target, i)),
         self.weights[i])
   end
   return self.gradInput
end

-- ModuleCriterion: applies one module to the input and another one to the target, and then a
-- criterion to the two results.
local ModuleCriterion = classes.class("nn.ModuleCriterion", "nn.Criterion")
function ModuleCriterion:__init(inputModule, targetModule, one, cast)
   Criterion.__init(self)
   if inputModule then base.check_part(self, "inputModule", inputModule) end
   if targetModule then base.check_part(self, "targetModule", targetModule) end
   base.check_part(self, "criterion", one, true)
   self.inputModule, self.targetModule, self.criterion, self.castTarget = inputModule,
      targetModule, one, cast ~= false
end
function ModuleCriterion:updateOutput(input, target)
   self.input = self.inputModule and self.inputModule:forward(input) or input
   self.target = self.targetModule and self.targetModule:forward(target) or target
   self.output = self.criterion:forward(self.input, self.target)
   return self.output
end
function ModuleCriterion:updateGradInput(input)
   local g = self.criterion:backward(self.input, self.target)
   self.gradInput = self.inputModule and self.inputModule:backward(input, g) or g
   return self.gradInput
end

local Table = classes.class("nn.CriterionTable", "nn.Module")
function Table:__init(one)
   nn.Module.__init(self)
   base.check_part(self, "criterion", one, true)
   self.criterion = one
end
function Table:updateOutput(input)
   self.output = self.criterion:updateOutput(input[1], input[2])
   return self.output
end
function Table:updateGradInput(input)
   self.criterion:updateGradInput(input[1], input[2])
   self.gradInput = {self.criterion.gradInput}
   return self.gradInput
end
