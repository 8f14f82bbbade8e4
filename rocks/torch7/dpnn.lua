-- dpnn.lua - the package dpnn (by Element-Research): methods for training modules without optim,
-- modules that learn by rewards (REINFORCE), and the layers and criterions that programs with the
-- package rnn use.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local nn = require "tlua.torch7.nn"
require "tlua.torch7.rnn_sequences" -- This call defines nn.AbstractSequencer.

local T, F = tlua, tlua.nn.functional
local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local Module, Container, Criterion = nn.Module, nn.Container, nn.Criterion
local layer = base.layer

local function shape(x) return field(x, "shape") end

local function check(condition, format, ...)
   if not condition then tlua.raise(format:format(...)) end
end

-- Gradients of parameters -------------------------------------------------------------------------

Module.dpnn_parameters = {"weight", "bias"}
Module.dpnn_gradParameters = {"gradWeight", "gradBias"}

--- Returns the running averages of gradients that updateGradParameters keeps, in the order of the
--- parameters. Creates them if they do not exist yet.
function Module:momentumGradParameters()
   local _, grads = self:parameters()
   if not self.momGradParams and grads then
      self.momGradParams = {}
      for i, g in ipairs(grads) do self.momGradParams[i] = g:clone() end
   end
   return self.momGradParams
end

--- Updates a running average of each gradient, average = factor * average + (1 - damping) *
--- gradient, and replaces the gradient by it. With `nesterov`, factor * average is added to the
--- gradient instead.
function Module:updateGradParameters(factor, damping, nesterov)
   damping = damping or factor
   local _, grads = self:parameters()
   if not grads or factor <= 0 then return end
   local is_new = not self.momGradParams
   for i, average in ipairs(self:momentumGradParameters()) do
      if not is_new then average:mul(factor):add(1 - damping, grads[i]) end
      if nesterov then grads[i]:add(factor, average) else grads[i]:copy(average) end
   end
end

--- Adds factor * parameter to the gradient of each parameter that has at least `least` dimensions
--- (2 by default), so that biases do not decay.
function Module:weightDecay(factor, least)
   local weights, grads = self:parameters()
   for i, w in ipairs(weights or {}) do
      if w:dim() >= (least or 2) and factor > 0 then grads[i]:add(factor, w) end
   end
end

--- Scales the gradients so that their norm is at most `most`, and returns the norm before scaling.
--- With `is_local`, scales the gradients of each layer separately.
function Module:gradParamClip(most, is_local)
   if is_local and rawget(self, "modules") then
      local norm = 0
      for _, module in ipairs(self.modules) do
         norm = math.max(norm, module:gradParamClip(most, true) or 0)
      end
      return norm
   end
   local _, grads = self:parameters()
   local sum = 0
   for _, g in ipairs(grads or {}) do sum = sum + g:norm() ^ 2 end
   local norm = math.sqrt(sum)
   if norm > most then
      for _, g in ipairs(grads) do g:mul(most / norm) end
   end
   return norm
end

--- Scales weight matrices so that no row, which belongs to one output, has a norm above `most_out`,
--- and no column, which belongs to one input, has a norm above `most_in`.
function Module:maxParamNorm(most_out, most_in)
   local weights = self:parameters()
   for _, w in ipairs(weights or {}) do
      if w:dim() > 1 then
         if most_out and most_out > 0 then w:renorm(2, 1, most_out) end
         if most_in and most_in > 0 then w:renorm(2, 2, most_in) end
      end
   end
end

-- Layers ------------------------------------------------------------------------------------------

layer("Clip", "minval maxval", function(self, x) return T.clamp(x, self.minval, self.maxval) end)

layer("ReverseTable", "", function(_, x)
   local made = {}
   for i = 1, #x do made[i] = x[#x + 1 - i] end
   return made
end)

-- CAddTensorTable: the input is {tensor, table of tensors}. Adds the tensor to each tensor in the
-- table.
layer("CAddTensorTable", "", function(_, x)
   local made = {}
   for i, value in ipairs(x[2]) do made[i] = T.add(x[1], value) end
   return made
end)

layer("ArgMax", "dim nInputDim=nil", function(self, x)
   local d = self.dim
   if self.nInputDim and #shape(x) > self.nInputDim then d = d + 1 end
   return methods.to(T.argmax(T.detach(x), d), field(x, "dtype"))
end)

-- Crops each image to the given size. In training the position is random; otherwise the middle of
-- the image is kept.
local Crop = layer("SpatialUniformCrop", "oheight owidth", function(self, x)
   local size = shape(x)
   local n, list = #size, {}
   check(n == 3 or n == 4, "nn.SpatialUniformCrop: expected an image or a batch, got %d dimensions",
      n)
   for i = 1, n == 4 and size[1] or 1 do
      local at = self.places[i]
      local one = n == 4 and T.select(x, 1, i) or x
      list[i] = T.narrow(T.narrow(one, 2, at[1], self.oheight), 3, at[2], self.owidth)
   end
   return n == 4 and T.stack(list, 1) or list[1]
end)
function Crop:prepare(input)
   local size = shape(input)
   local n = #size
   local free = {size[n - 1] - self.oheight, size[n] - self.owidth}
   check(n >= 3 and free[1] >= 0 and free[2] >= 0,
      "nn.SpatialUniformCrop: expected images of at least %d x %d", self.oheight, self.owidth)
   self.places = {}
   for i = 1, n == 4 and size[1] or 1 do
      self.places[i] = {}
      for d = 1, 2 do
         self.places[i][d] = self.train == false and free[d] // 2 + 1
            or math.tointeger(torch.random(1, free[d] + 1))
      end
   end
end

-- Crops a square (channels, size, size) from an image, with its middle at (x, y). Both coordinates
-- are from 0 to 1. Pixels outside the image are 0.
local function part_around(image, size, x, y)
   local pad = (size - 1) // 2
   local padded = F.pad(image, {pad, pad, pad, pad})
   local sizes = shape(padded)
   check(sizes[2] >= size and sizes[3] >= size,
      "nn.SpatialGlimpse: a glimpse of %d x %d pixels is larger than the image", size, size)
   local function first(n, at)
      return math.floor(math.min(n - size, math.max(0, at * (n - size)))) + 1
   end
   return T.narrow(T.narrow(padded, 2, first(sizes[2], x), size), 3, first(sizes[3], y), size)
end

-- SpatialGlimpse: the input is {images, locations}. Cuts `depth` square patches of growing size
-- around each location, and scales them all down to the size of the smallest patch. A location is
-- (x, y) from -1 to 1, where x counts rows.
layer("SpatialGlimpse", "size depth=3 scale=2", function(self, x)
   local images, places = x[1], methods.tolist(T.detach(x[2]))
   local single = #shape(images) == 3
   if single then images, places = T.unsqueeze(images, 1), {places} end
   local n, list = self.size, {}
   for i, place in ipairs(places) do
      local image, parts = T.select(images, 1, i), {}
      for k = 1, self.depth do
         local size = math.floor(n * self.scale ^ (k - 1))
         local part = part_around(image, size, (place[1] + 1) / 2, (place[2] + 1) / 2)
         if size % n == 0 then
            part = size == n and part or F.avg_pool2d(T.unsqueeze(part, 1), size // n)
         else
            part = F.interpolate(T.unsqueeze(part, 1), {size = {n, n}, mode = "bilinear",
               align_corners = true})
         end
         parts[k] = #shape(part) == 4 and T.squeeze(part, 1) or part
      end
      list[i] = T.cat(parts, 1)
   end
   return single and list[1] or T.stack(list, 1)
end)

-- Inception: concatenates the channels of three kinds of columns: a 1 x 1 convolution followed by a
-- larger convolution, pooling followed by a 1 x 1 convolution, and a single 1 x 1 convolution.
local Inception = layer("Inception", nil, nil, "nn.Decorator")
function Inception:__init(c)
   check(type(c) == "table" and c.inputSize and c.outputSize and c.reduceSize,
      "nn.Inception: expected inputSize, outputSize and reduceSize")
   local n = #c.outputSize
   check(#c.reduceSize == n + 2 or #c.reduceSize == n + 1 or #c.reduceSize == n,
      "nn.Inception: reduceSize: expected %d sizes, got %d", n + 2, #c.reduceSize)
   local transfer, pads = c.transfer or nn.ReLU(), c.padding ~= false
   local kernels, strides = c.kernelSize or {5, 3}, c.kernelStride or {}
   local reduce_strides = c.reduceStride or {}
   local concat = nn.DepthConcat(2)
   local function convolve(column, from, to, size, stride, pad)
      column:add(nn.SpatialConvolution(from, to, size, size, stride, stride, pad, pad))
      if c.batchNorm then column:add(nn.SpatialBatchNormalization(to)) end
      return column:add(transfer:clone())
   end
   for i = 1, n do
      local column, k = nn.Sequential(), kernels[i]
      convolve(column, c.inputSize, c.reduceSize[i], 1, reduce_strides[i] or 1, 0)
      concat:add(convolve(column, c.reduceSize[i], c.outputSize[i], k, strides[i] or 1,
         pads and k // 2 or 0))
   end
   if c.reduceSize[n + 1] then
      local size = c.poolSize or 3
      local column = nn.Sequential():add((c.pool or nn.SpatialMaxPooling(size, size,
         c.poolStride or 1, c.poolStride or 1, pads and size // 2 or 0, pads and size // 2 or 0)))
      concat:add(convolve(column, c.inputSize, c.reduceSize[n + 1], 1, reduce_strides[n + 1] or 1,
         0))
   end
   if c.reduceSize[n + 2] then
      concat:add(convolve(nn.Sequential(), c.inputSize, c.reduceSize[n + 2], 1,
         reduce_strides[n + 2] or 1, 0))
   end
   nn.Decorator.__init(self, concat)
end

-- Files -------------------------------------------------------------------------------------------

-- Serial: wraps a module, and determines which of its fields are written to files. heavySerial
-- writes everything, mediumSerial all except outputs, and lightSerial all except outputs and
-- gradients. In the file, tensors have the type `tensortype`.
local Serial = layer("Serial", nil, nil, "nn.Decorator")
function Serial:__init(module, tensortype)
   nn.Decorator.__init(self, module)
   self.tensortype = tensortype
   check(tensortype == nil or types.kind_named(tensortype),
      "nn.Serial: tensortype: there is no tensor type %s", tostring(tensortype))
end
for name, mode in pairs {heavySerial = "heavy", mediumSerial = "medium", lightSerial = "light"} do
   Serial[name] = function(self, tensortype)
      self.serialMode, self.tensortype = mode, tensortype or self.tensortype
      return self
   end
end
function Serial:write(file)
   local state = {}
   for key, value in next, self do state[key] = value end
   local module = self.modules[1]
   if self.serialMode == "medium" or self.serialMode == "light" or self.tensortype then
      module = module:clone()
      if self.serialMode ~= "heavy" and self.serialMode then
         module:clearState()
         module:apply(function(one) one.momGradParams = nil end)
      end
      if self.serialMode == "light" then
         module:apply(function(one)
            for _, name in ipairs(one.dpnn_gradParameters) do
               if is_tensor(one[name]) then one[name] = one[name].new() end
            end
         end)
      end
      if self.tensortype then module:type(self.tensortype) end
   end
   state.modules, state.module = {module}, state.module and module or nil
   if state.serialMode and state.serialMode ~= "heavy" then
      state.output, state.gradInput = self.modules[1].output and torch.Tensor() or nil,
         torch.Tensor()
   end
   file:writeObject(state)
end
function Serial:read(file)
   for key, value in next, file:readObject() do self[key] = value end
end

-- Rewards -----------------------------------------------------------------------------------------

--- Passes a reward, a vector with a number for each example, to all modules that learn by rewards.
function Module:reinforce(reward)
   for _, module in ipairs(rawget(self, "modules") or {}) do module:reinforce(reward) end
   for _, module in pairs(rawget(self, "sharedClones") or {}) do module:reinforce(reward) end
   return self
end

-- Reinforce: a module whose output is drawn from a distribution. Its gradInput is the gradient of
-- the log probability of the drawn output, times the negated reward, because optimizers minimise.
local Reinforce = classes.class("nn.Reinforce", "nn.Module")
function Reinforce:__init(stochastic)
   Module.__init(self)
   self.stochastic = stochastic or false
end
function Reinforce:reinforce(reward)
   check(is_tensor(reward), "%s:reinforce: expected a tensor of rewards, got %s",
      classes.type(self), type(reward))
   self.reward = reward
   return self
end
function Reinforce:is_drawing() return self.stochastic or self.train ~= false end

--- Returns the reward, reshaped so that it broadcasts with the input, whose first dimension is the
--- batch.
function Reinforce:rewardAs(input)
   check(self.reward, "%s: expected reinforce(reward) before backward", classes.type(self))
   local sizes, ones = shape(input), {}
   check(self.reward:dim() == 1 and self.reward:size(1) == sizes[1],
      "%s:reinforce: expected a reward for each of %d examples, got %s", classes.type(self),
      sizes[1], table.concat(shape(self.reward), " x "))
   for d = 2, #sizes do ones[d - 1] = 1 end
   return self.reward:typeAs(input):view(sizes[1], table.unpack(ones)):expandAs(input)
end
function Reinforce:updateOutput(input)
   if self:is_drawing() then self.output = self:draw(input)
   else self.output = self:mean(input) end
   return self.output
end
function Reinforce:mean(input) return input end
function Reinforce:updateGradInput(input)
   self.gradInput = self:slope(input)
   return self.gradInput
end

local Bernoulli = classes.class("nn.ReinforceBernoulli", "nn.Reinforce")
function Bernoulli:draw(input) return types.tag(T.bernoulli(T.detach(input))) end
function Bernoulli:slope(input)
   local spread = torch.cmul(input, torch.mul(input, -1):add(1)):clamp(1e-12, 1)
   return torch.csub(self.output, input):cdiv(spread):cmul(self:rewardAs(input)):mul(-1)
end

-- ReinforceNormal: draws from a normal distribution. The input is its mean, or {mean, standard
-- deviation}.
local Normal = classes.class("nn.ReinforceNormal", "nn.Reinforce")
function Normal:__init(stdev, stochastic)
   Reinforce.__init(self, stochastic)
   self.stdev = stdev
end
local function mean_and_deviation(self, input)
   if is_tensor(input) then
      check(self.stdev, "nn.ReinforceNormal: expected stdev, or an input {mean, stdev}")
      return input, input:clone():fill(self.stdev)
   end
   return input[1], input[2]
end
function Normal:mean(input) return is_tensor(input) and input or input[1] end
function Normal:draw(input)
   local mean, deviation = mean_and_deviation(self, input)
   return types.tag(T.randn_like(mean)):cmul(deviation):add(mean)
end
function Normal:slope(input)
   local mean, deviation = mean_and_deviation(self, input)
   local far, reward = torch.csub(self.output, mean), self:rewardAs(mean)
   local of_mean = torch.cdiv(far, torch.cmul(deviation, deviation)):cmul(reward):mul(-1)
   if is_tensor(input) then return of_mean end
   local of_deviation = torch.cmul(far, far):add(-1, torch.cmul(deviation, deviation))
      :cdiv(torch.pow(deviation, 3)):cmul(reward):mul(-1)
   return {of_mean, of_deviation}
end

-- ReinforceCategorical: each row of the input has the probabilities of the categories. In the
-- output, the drawn category is 1 and all others are 0.
local Categorical = classes.class("nn.ReinforceCategorical", "nn.Reinforce")
function Categorical:draw(input)
   local rows = input:dim() == 1 and input:view(1, -1) or input
   local at = T.multinomial(T.detach(rows), 1)
   local made = types.tag(T.zeros_like(T.detach(rows)))
   methods.scatter_(made, 2, at, 1)
   return made:viewAs(input)
end
function Categorical:slope(input)
   return torch.cdiv(self.output, torch.add(input, 1e-8)):cmul(self:rewardAs(input)):mul(-1)
end

-- VRClassReward: a criterion with the input {class scores, baseline}; its targets are classes. For
-- an example that is classified correctly, the reward is `scale`, otherwise 0. The loss is minus
-- the mean reward. `backward` passes reward - baseline to `module`.
local Reward = classes.class("nn.VRClassReward", "nn.Criterion")
function Reward:__init(module, scale, criterion)
   Criterion.__init(self)
   check(classes.isTypeOf(module, "nn.Module"),
      "nn.VRClassReward: module: expected a module, got %s", classes.type(module))
   self.module, self.scale, self.criterion = module, scale or 1, criterion or nn.MSECriterion()
   self.sizeAverage = true
   self.gradInput = {torch.Tensor()}
end
-- Returns the scores and the baseline from a criterion's input. The baseline is nil if the input
-- has none.
local function scores_of(self, input)
   check(type(input) == "table" and is_tensor(input[1]) and input[1]:dim() == 2,
      "%s: expected {scores (batch, classes), baseline}", classes.type(self))
   return input[1], input[2]
end
function Reward:is_right(scores, target)
   local _, at = torch.max(scores, 2)
   return at:view(-1):typeAs(scores):eq(target:typeAs(scores):view(-1)):typeAs(scores)
end
function Reward:updateOutput(input, target)
   local scores = scores_of(self, input)
   self.reward = self:is_right(scores, target):mul(self.scale)
   self.output = -self.reward:sum()
   if self.sizeAverage then self.output = self.output / scores:size(1) end
   return self.output
end
function Reward:updateGradInput(input, target)
   local scores, baseline = scores_of(self, input)
   self:updateOutput(input, target)
   self.vrReward = self.reward:clone()
   if baseline then self.vrReward:add(-1, baseline:view(-1)) end
   if self.sizeAverage then self.vrReward:div(scores:size(1)) end
   self.module:reinforce(self.vrReward)
   self.gradInput = {scores:clone():zero()}
   if baseline then
      local wanted = self.reward:view(table.unpack(shape(baseline)))
      self.criterion:forward(baseline, wanted)
      self.gradInput[2] = self.criterion:backward(baseline, wanted)
   end
   return self.gradInput
end
function Reward:type(name, memo)
   if name == nil then return self._type end
   local module = self.module
   -- The program chooses the type of this module itself, so a conversion of the criterion leaves
   -- the module unchanged.
   self.module = nil
   Criterion.type(self, name, memo)
   self.module = module
   return self
end

-- BinaryClassReward: like VRClassReward, but each example has a single score; a score above 0.5
-- means class 1.
local Binary = classes.class("nn.BinaryClassReward", "nn.VRClassReward")
function Binary:is_right(scores, target)
   return scores:view(-1):gt(0.5):typeAs(scores):eq(target:typeAs(scores):view(-1)):typeAs(scores)
end

-- Criterions --------------------------------------------------------------------------------------

-- Defines a criterion with the logistic losses of scores, for targets that are -1 or 1.
local function logistic(name, parts_of)
   layer(name, "sizeAverage=true", function(self, x, target)
      local loss = T.sum(F.softplus(T.neg(T.mul(T.reshape(x, {-1}), T.reshape(target, {-1})))))
      return self.sizeAverage == false and loss or T.div(loss, parts_of(x))
   end, "nn.Criterion")
end
logistic("BinaryLogisticRegression", function(x) return methods.numel(x) end)
logistic("SpatialBinaryLogisticRegression", function(x) return 2 * methods.numel(x) end)

-- Recurrent attention -----------------------------------------------------------------------------

-- RecurrentAttention: at each of nStep steps, the module `action` draws z from the last output of
-- the recurrent module (zeros at the first step). The recurrent module then takes {input, z}.
local Attention = classes.class("nn.RecurrentAttention", "nn.AbstractSequencer")
function Attention:__init(rnn, action, nStep, hiddenSize)
   Container.__init(self)
   for name, module in pairs {rnn = rnn, action = action} do
      check(classes.isTypeOf(module, "nn.Module"),
         "nn.RecurrentAttention: %s: expected a module, got %s", name, classes.type(module))
   end
   check(math.tointeger(nStep) and nStep >= 1,
      "nn.RecurrentAttention: nStep: expected a count of steps, got %s", tostring(nStep))
   local function recurrent(module)
      return classes.isTypeOf(module, "nn.AbstractRecurrent") and module or nn.Recursor(module)
   end
   self.rnn, self.action = recurrent(rnn), recurrent(action)
   self.nStep = math.tointeger(nStep)
   self.hiddenSize = types.is_storage(hiddenSize) and hiddenSize:totable()
      or type(hiddenSize) == "table" and hiddenSize or {hiddenSize}
   self.modules = {self.rnn, self.action}
   self.output, self.actions, self.forwardActions = {}, {}, false
end
local function first_state(self, input)
   local x = is_tensor(input) and input or require "tlua.torch7.rnn_steps".first_tensor(input)
   return x:new(x:size(1), table.unpack(self.hiddenSize)):zero()
end
function Attention:updateOutput(input)
   self.rnn:forget()
   self.action:forget()
   self.before = first_state(self, input)
   self.actions = {}
   local outputs = {}
   for t = 1, self.nStep do
      self.actions[t] = self.action:updateOutput(outputs[t - 1] or self.before)
      outputs[t] = self.rnn:updateOutput {input, self.actions[t]}
   end
   self.outputs = outputs
   self.output = self.forwardActions and {outputs, self.actions} or outputs
   return self.output
end
local function back(self, method, input, gradOutput, scale)
   local steps = require "tlua.torch7.rnn_steps"
   local given = self.forwardActions and gradOutput[1] or gradOutput
   local of_actions = self.forwardActions and gradOutput[2] or {}
   check(type(given) == "table" and #given == self.nStep,
      "nn.RecurrentAttention: gradOutput: expected %d steps", self.nStep)
   local total, later
   for t = self.nStep, 1, -1 do
      local g = self.rnn[method](self.rnn, {input, self.actions[t]}, steps.sum(given[t], later),
         scale)
      total = steps.sum(total, g[1])
      later = self.action[method](self.action, self.outputs[t - 1] or self.before,
         steps.sum(g[2], of_actions[t]), scale)
   end
   self.gradInput = total
   return total
end
function Attention:updateGradInput(input, gradOutput)
   return back(self, "updateGradInput", input, gradOutput)
end
function Attention:backward(input, gradOutput, scale)
   return back(self, "backward", input, gradOutput, scale or 1)
end
function Attention:accGradParameters(input, _, scale)
   for t = self.nStep, 1, -1 do
      self.rnn:accGradParameters({input, self.actions[t]}, nil, scale)
      self.action:accGradParameters(self.outputs[t - 1] or self.before, nil, scale)
   end
end

-- CopyGrad: copies its input. In the backward pass, it returns a copy of the gradient.
layer("CopyGrad", "", function(_, x) return T.clone(x) end)

return nn
