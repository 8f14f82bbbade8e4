-- rnn_noise.lua - noise-contrastive estimation in the package rnn: a linear layer with a softmax
-- over many classes. For each target, it is trained only on the target and a few classes drawn at
-- random (Mnih and Teh, 2012, https://www.cs.toronto.edu/~amnih/papers/ncelm.pdf).

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local nn = require "tlua.torch7.nn"
local records = require "tlua.torch7.records"

local field, is_tensor, methods = types.field, types.is_tensor, types.methods
local T = tlua

-- NCEModule: takes {input (batch, inputSize), target (batch)}. In training, it draws k classes of
-- noise. It returns the model's probabilities of the targets (batch) and of the noise (batch, k),
-- and the noise distribution's probabilities of the targets and of the noise. In evaluation with
-- `normalized`, it returns the probabilities of all classes, or with `logsoftmax` their logarithms.
-- With `batchnoise`, the default, all rows share the k classes.
local NCEModule

-- Returns the classes that are drawn as noise: (k) if the batch shares them, otherwise (batch, k).
local function draw(self, rows)
   if records.again and self._noise then return self._noise end
   local n = self.batchnoise and self.k or rows * self.k
   local noise = T.multinomial(self.unigrams, n, true)
   self._noise = self.batchnoise and noise or T.reshape(noise, {rows, self.k})
   return self._noise
end

-- Divides the exponentials of the scores of targets and noise by the normalization constant Z.
-- While Z is not positive, it is not yet known, and it is estimated from this batch.
local function normalize(self, target, noise)
   if self.Z[1] <= 0 then
      local mean = T.mean(T.detach(noise))
      if not self.batchnoise then
         mean = T.mean(T.cat({T.unsqueeze(T.detach(target), 2), T.detach(noise)}, 2))
      end
      self.Z[1] = methods.item(mean) * field(self.weight, "shape")[1]
   end
   return T.div(target, self.Z[1]), T.div(noise, self.Z[1])
end

local function compute(self, inputs, weight, bias)
   local x, target = inputs[1], inputs[2]
   if self.train == false and self.normalized then
      local scores = T.nn.functional.linear(x, weight, bias)
      return self.logsoftmax and T.log_softmax(scores, 2) or T.softmax(scores, 2)
   end
   target = methods.to(T.detach(target), "int64")
   local rows = field(x, "shape")[1]
   local noise = draw(self, rows)
   local of_target = T.add(T.sum(T.mul(x, T.index_select(weight, 1, target)), 2),
      T.index_select(bias, 1, target))
   local of_noise
   if self.batchnoise then
      of_noise = T.addmm(T.index_select(bias, 1, noise), x, T.t(T.index_select(weight, 1, noise)))
   else
      local flat = T.reshape(noise, {-1})
      local chosen = T.reshape(T.index_select(weight, 1, flat), {rows, self.k, -1})
      of_noise = T.add(T.squeeze(T.bmm(chosen, T.unsqueeze(x, 3)), 3),
         T.reshape(T.index_select(bias, 1, flat), {rows, self.k}))
   end
   local p_target, p_noise = normalize(self, T.exp(of_target), T.exp(of_noise))
   local dtype = {dtype = field(x, "dtype")}
   local q_target = methods.to(T.index_select(self.unigrams, 1, target), dtype)
   local q_noise = T.broadcast_to(methods.to(T.reshape(T.index_select(self.unigrams, 1,
      T.reshape(noise, {-1})), {-1, self.k}), dtype), {rows, self.k})
   return {p_target, p_noise, q_target, T.clone(q_noise)}
end

NCEModule = base.layer("NCEModule", nil, compute, "nn.Linear")

function NCEModule:__init(inputSize, outputSize, k, unigrams, Z)
   if math.type(k) ~= "integer" or k < 1 then
      tlua.raise("nn.NCEModule: k: expected a positive integer, got " .. tostring(k))
   end
   if not is_tensor(unigrams) or methods.numel(unigrams) ~= outputSize then
      tlua.raise(("nn.NCEModule: unigrams: expected a tensor with %s elements, got %s"):format(
         tostring(outputSize), is_tensor(unigrams) and methods.numel(unigrams)
         or classes.type(unigrams)))
   end
   local sum = methods.item(T.sum(T.detach(unigrams)))
   if not (sum > 0 and sum < math.huge) or methods.item(T.min(T.detach(unigrams))) < 0 then
      tlua.raise(("nn.NCEModule: unigrams: expected frequencies that are not negative, with a "
         .. "positive sum, got the sum %g"):format(sum))
   end
   nn.Linear.__init(self, inputSize, outputSize)
   self.k, self.batchnoise = k, true
   self.unigrams = types.tag(T.div(methods.to(T.detach(unigrams), "float64"), sum))
   self.Z = types.new(types.default, 1):fill(Z or -1)
   self:reset()
end

function NCEModule:reset(stdv)
   stdv = stdv or 1 / math.sqrt(self.weight:size(2))
   self.weight:uniform(-stdv, stdv)
   -- With this bias, the sum of the exponentials of the scores is near 1 from the beginning.
   self.bias:fill(-math.log(self.bias:size(1)))
   return self
end

function NCEModule:prepare(input)
   local x, target = type(input) == "table" and input[1], type(input) == "table" and input[2]
   if not is_tensor(x) or #field(x, "shape") ~= 2 or not is_tensor(target)
      or #field(target, "shape") ~= 1 or field(target, "shape")[1] ~= field(x, "shape")[1] then
      tlua.raise(("nn.NCEModule: input: expected {tensor (batch, %d), targets (batch)}, got %s")
         :format(self.weight:size(2), classes.type(input)))
   end
end

function NCEModule:type(name, memo)
   if name == nil then return self._type end
   local unigrams = self.unigrams
   self.unigrams, self._noise = nil, nil
   nn.Linear.type(self, name, memo)
   -- The probabilities of the noise keep their dtype, because sampling uses double precision.
   self.unigrams = unigrams
   return self
end

function NCEModule:clearState()
   self._noise = nil
   return nn.Linear.clearState(self)
end

-- NCECriterion: for each class it computes the probability that the class came from the data and
-- not from the noise. The loss is the negative log probability of the truth: targets came from the
-- data, the other classes from the noise.
local tiny <const> = 1e-7

local NCECriterion = base.layer("NCECriterion", nil, function(self, x)
   if type(x) ~= "table" or #x ~= 4 then
      tlua.raise("nn.NCECriterion: input: expected the four tensors of NCEModule, got "
         .. classes.type(x))
   end
   local k = field(x[2], "shape")[2]
   local q_target, q_noise = T.mul(T.detach(x[3]), k), T.mul(T.detach(x[4]), k)
   local of_data = T.log(T.div(x[1], T.add(T.add(x[1], q_target), tiny)))
   local of_noise = T.log(T.div(q_noise, T.add(T.add(x[2], q_noise), tiny)))
   local loss = T.neg(T.add(T.sum(of_data), T.sum(of_noise)))
   return self.sizeAverage == false and loss or T.div(loss, field(x[1], "shape")[1])
end, "nn.Criterion")
function NCECriterion:__init()
   nn.Criterion.__init(self)
   self.sizeAverage = true
end

return nn
