-- rnn_more.lua - less common modules of the package rnn: projected LSTMs, single steps with the
-- parameters of SeqLSTM and SeqGRU, simple recurrent networks, the multi-function unit, norm
-- stabilization, and sequences of different lengths.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local nn = require "tlua.torch7.nn"
local steps = require "tlua.torch7.rnn_steps"
local sequences = require "tlua.torch7.rnn_sequences"
local records = require "tlua.torch7.records"

local field, is_tensor, methods = types.field, types.is_tensor, types.methods
local Container, Module = nn.Container, nn.Module
local T = tlua
local check_module, sequence, beside = steps.check_module, steps.sequence, steps.beside

local function check_count(name, argument, value)
   if math.type(value) ~= "integer" or value < 1 then
      tlua.raise(("nn.%s: %s: expected a positive integer, got %s"):format(name, argument,
         tostring(value)))
   end
end

-- SeqLSTMP ----------------------------------------------------------------------------------------

-- SeqLSTMP: a SeqLSTM with `hiddensize` cells. At each step, the matrix `weightO` (hiddensize,
-- outputsize) projects its output, and the gates of the next step take the projected output.
local SeqLSTMP = base.layer("SeqLSTMP", nil, nil, "nn.SeqLSTM")

function SeqLSTMP:__init(inputsize, hiddensize, outputsize)
   check_count("SeqLSTMP", "inputsize", inputsize)
   check_count("SeqLSTMP", "hiddensize", hiddensize)
   check_count("SeqLSTMP", "outputsize", outputsize)
   Module.__init(self)
   self.inputSize, self.inputsize = inputsize, inputsize
   self.outputSize, self.outputsize, self.hiddensize = outputsize, outputsize, hiddensize
   self.weightO = types.new(types.default, hiddensize, outputsize)
   self.gradWeightO = types.new(types.default, hiddensize, outputsize):zero()
   base.parameters(self, {inputsize + outputsize, 4 * hiddensize}, {4 * hiddensize})
end

function SeqLSTMP:reset()
   self.bias:zero()
   self.bias:narrow(1, self.hiddensize + 1, self.hiddensize):fill(1)
   self.weight:normal(0, 1 / math.sqrt(self.inputsize + self.hiddensize))
   self.weightO:normal(0, 1 / math.sqrt(self.hiddensize + self.outputsize))
   return self
end

function SeqLSTMP:parameters()
   return {self.weight, self.bias, self.weightO}, {self.gradWeight, self.gradBias, self.gradWeightO}
end

local names <const> = {"weight", "bias", "weightO"}

-- Computes the output for a sequence with gradients enabled, and stores the tensors that
-- `gradients` needs.
local function record(self, input)
   local made = {input = input, versions = {records.version(input)}, leaves = {}}
   made.leaves[1] = records.leaf(input)
   for i, name in ipairs(names) do
      made.leaves[i + 1] = records.leaf(self[name])
      made.versions[i + 1] = records.version(self[name])
   end
   made.output = self:run(table.unpack(made.leaves))
   return made
end

local calls = setmetatable({}, {__mode = "k"})

function SeqLSTMP:updateOutput(input)
   local made = record(self, input)
   calls[self] = made
   self.output = types.tag(T.detach(made.output))
   return self.output
end

-- Returns the gradients of the input, of the weight, of the bias and of weightO.
local function gradients(self, input, gradOutput)
   local made = calls[self]
   local is_same = made and rawequal(made.input, input)
      and made.versions[1] == records.version(input)
   for i, name in ipairs(names) do
      is_same = is_same and made.versions[i + 1] == records.version(self[name])
   end
   if not is_same then
      made = records.once_more(record, self, input)
      calls[self] = made
   end
   if made.gradOutput == nil or not rawequal(made.gradOutput, gradOutput)
      or made.gradOutput_version ~= records.version(gradOutput) then
      made.gradOutput, made.gradOutput_version = gradOutput, records.version(gradOutput)
      made.grads = {T.autograd.grad({made.output}, made.leaves, {T.detach(gradOutput)},
         {retain_graph = true})}
   end
   return made.grads
end

function SeqLSTMP:updateGradInput(input, gradOutput)
   self.gradInput = types.tag(gradients(self, input, gradOutput)[1])
   return self.gradInput
end

function SeqLSTMP:accGradParameters(input, gradOutput, scale)
   local grads = gradients(self, input, gradOutput)
   for i, name in ipairs {"gradWeight", "gradBias", "gradWeightO"} do
      T.add_(self[name], grads[i + 1], {alpha = scale or 1})
   end
end

function SeqLSTMP:backward(input, gradOutput, scale)
   self:updateGradInput(input, gradOutput)
   self:accGradParameters(input, gradOutput, scale)
   return self.gradInput
end

function SeqLSTMP:clearState()
   calls[self] = nil
   return Module.clearState(self)
end

function SeqLSTMP:toFastLSTM()
   tlua.raise "nn.SeqLSTMP:toFastLSTM: expected a SeqLSTM, since FastLSTM has no projection"
end

function SeqLSTMP:__tostring__()
   return ("nn.SeqLSTMP(%d -> %d -> %d)"):format(self.inputsize, self.hiddensize, self.outputsize)
end

-- RecLSTM and RecGRU ------------------------------------------------------------------------------

-- Defines a recurrent module, which takes one step per call. Its parameters have the layout of the
-- layer for whole sequences (SeqLSTM or SeqGRU), so that parameters can be copied.
local function define_step(name, step_name, n_gates, n_states, step)
   local Step = base.layer(step_name, nil, function(self, x, weight, bias)
      local n, m = self.inputsize, self.outputsize
      local size = field(x[1], "shape")
      if size[#size] ~= n or #size > 2 then
         tlua.raise(("nn.%s: input: expected (batch, %d), got (%s)"):format(step_name, n,
            table.concat(size, ", ")))
      end
      local gates = T.add(T.matmul(x[1], T.narrow(weight, 1, 1, n)), bias)
      local states = {}
      for i = 1, n_states do states[i] = x[i + 1] end
      local is_single = #size == 1
      if is_single then
         gates = T.unsqueeze(gates, 1)
         for i, state in ipairs(states) do states[i] = T.unsqueeze(state, 1) end
      end
      states = step(gates, states, T.narrow(weight, 1, n + 1, m), m)
      if is_single then
         for i, state in ipairs(states) do states[i] = T.squeeze(state, 1) end
      end
      return n_states == 1 and states[1] or states
   end)
   function Step:__init(inputsize, outputsize)
      check_count(step_name, "inputsize", inputsize)
      check_count(step_name, "outputsize", outputsize)
      Module.__init(self)
      self.inputsize, self.outputsize = inputsize, outputsize
      self.inputSize, self.outputSize = inputsize, outputsize
      base.parameters(self, {inputsize + outputsize, n_gates * outputsize}, {n_gates * outputsize})
   end
   Step.reset = nn["Seq" .. step_name:match "^Step(.*)"].reset

   local class = base.layer(name, nil, nil, n_states == 2 and "nn.LSTM" or "nn.GRU")
   function class:buildModel() return Step(self.inputSize, self.outputSize) end
   return class
end

define_step("RecLSTM", "StepLSTM", 4, 2, sequences.lstm)
define_step("RecGRU", "StepGRU", 3, 1, sequences.gru)

-- LinearRNN and LookupRNN -------------------------------------------------------------------------

-- Defines a Recurrence whose step computes transfer(merge(a, b)). a is the result of the input
-- layer, and b the result of a linear layer for the previous output.
local function define_simple(name, n_input_dims, input_layer)
   local class = base.layer(name, nil, nil, "nn.Recurrence")
   function class:__init(inputsize, outputsize, transfer, merge)
      check_count(name, n_input_dims == 0 and "nindex" or "inputsize", inputsize)
      check_count(name, "outputsize", outputsize)
      transfer, merge = transfer or nn.Sigmoid(), merge or nn.CAddTable()
      check_module(name, "transfer", transfer)
      check_module(name, "merge", merge)
      nn.Recurrence.__init(self, sequence(beside(nn.ParallelTable,
         input_layer(inputsize, outputsize), nn.Linear(outputsize, outputsize)), merge, transfer),
         outputsize, n_input_dims)
   end
end

define_simple("LinearRNN", 1, nn.Linear)
define_simple("LookupRNN", 0, nn.LookupTable)

-- MuFuRu ------------------------------------------------------------------------------------------

-- MuFuRu combines the previous state h and the new feature v by these operations.
local operations <const> = {
   keep = function(h) return h end,
   replace = function(_, v) return v end,
   mul = T.mul,
   diff = T.sub,
   forget = function(h) return T.zeros_like(h) end,
   sqrt_diff = function(h, v) return T.mul(T.sqrt(T.abs(T.sub(h, v))), 0.25) end,
   max = T.maximum,
   min = T.minimum,
}

-- Maps {state, feature, scores of the operations} to the next state. The next state is the mean of
-- the operations' results, weighted by the softmax of the scores.
local Mix = base.layer("MuFuRuMix", "ops", function(self, x)
   local h, v = x[1], x[2]
   local size = field(x[3], "shape")
   local n = #self.ops
   local sizes = {n, size[#size] // n}
   if #size == 2 then table.insert(sizes, 1, size[1]) end
   local shares = T.softmax(T.reshape(x[3], sizes), -2)
   local total
   for i, name in ipairs(self.ops) do
      local part = T.mul(T.select(shares, -2, i), operations[name](h, v))
      total = total and T.add(total, part) or part
   end
   return total
end)

-- MuFuRu: the multi-function recurrent unit (Weissenborn and Rocktaeschel, 2016,
-- https://arxiv.org/abs/1606.03002). With only the operations keep and replace it is similar to a
-- GRU.
local MuFuRu = base.layer("MuFuRu", nil, nil, "nn.GRU")
function MuFuRu:__init(inputSize, outputSize, ops, rho)
   ops = ops or {"keep", "replace", "mul", "diff", "forget", "sqrt_diff", "max", "min"}
   if type(ops) ~= "table" or #ops == 0 then
      tlua.raise("nn.MuFuRu: ops: expected a list of operations, got " .. tostring(ops))
   end
   for i, name in ipairs(ops) do
      if not operations[name] then
         tlua.raise(("nn.MuFuRu: ops[%d]: expected 'keep', 'replace', 'mul', 'diff', 'forget', "
            .. "'sqrt_diff', 'max' or 'min', got %s"):format(i, tostring(name)))
      end
   end
   self.ops, self.num_ops = ops, #ops
   nn.GRU.__init(self, inputSize, outputSize, rho)
end
function MuFuRu:buildModel()
   local n, m = self.inputSize, self.outputSize
   local reset = sequence(beside(nn.ParallelTable, nn.Linear(n, m), nn.Linear(m, m)),
      nn.CAddTable(), nn.Sigmoid())
   -- This module maps {input, state, reset gate} to the feature.
   local feature = sequence(beside(nn.ConcatTable, nn.SelectTable(1),
      sequence(nn.NarrowTable(2, 2), nn.CMulTable())), nn.JoinTable(1, 1), nn.Linear(n + m, m),
      nn.Sigmoid())
   local scores = sequence(nn.NarrowTable(1, 2), nn.JoinTable(1, 1),
      nn.Linear(n + m, self.num_ops * m))
   return sequence(beside(nn.ConcatTable, nn.SelectTable(1), nn.SelectTable(2), reset),
      beside(nn.ConcatTable, nn.SelectTable(2), feature, scores), Mix(self.ops))
end
function MuFuRu:__tostring__()
   return ("%s(%d -> %d) { %s }"):format(classes.type(self), self.inputSize, self.outputSize,
      table.concat(self.ops, " "))
end

-- NormStabilizer ----------------------------------------------------------------------------------

-- NormStabilizer: returns its input. In the backward pass it adds the gradient of a penalty to the
-- gradient. The penalty is beta times the mean over the batch of (|h[t]| - |h[t - 1]|)^2, summed
-- over steps (Krueger and Memisevic, 2015, https://arxiv.org/abs/1511.08400). For rows whose norm
-- is zero, the penalty has no gradient.
local NormStabilizer = base.layer("NormStabilizer", nil, nil, "nn.AbstractRecurrent")
function NormStabilizer:__init(beta, rho)
   steps.Abstract.__init(self, rho or 9999)
   self.beta = beta or 1
   if type(self.beta) ~= "number" then
      tlua.raise("nn.NormStabilizer: beta: expected a number, got " .. tostring(beta))
   end
   steps.set_step_module(self, nn.Identity())
end
function NormStabilizer:pack(input)
   if not is_tensor(input) or #field(input, "shape") ~= 2 then
      tlua.raise "nn.NormStabilizer: input: expected a tensor (batch, size)"
   end
   return input
end
function NormStabilizer:unpack(output) return output, {} end
function NormStabilizer:unpackGradients(gradInput) return gradInput, {} end

local function norm(h) return T.norm(T.detach(h), 2, 2, true) end

function NormStabilizer:packGradients(gradOutput, _, step)
   local h = T.detach(self.outputs[step])
   local own, total = norm(h), gradOutput
   for _, other in ipairs {step - 1, step + 1} do
      if self.outputs[other] then
         local slope = T.div(T.sub(own, norm(self.outputs[other])), own)
         slope = T.masked_fill(slope, T.eq(own, 0), 0)
         total = T.add(total, T.mul(T.mul(h, slope), 2 * self.beta / field(h, "shape")[1]))
      end
   end
   return types.tag(total)
end

--- Returns the penalty of all steps since forget(), divided by the number of steps.
function NormStabilizer:updateLoss()
   local sum = 0
   for step = 2, self.step - 1 do
      local h, before = self.outputs[step], self.outputs[step - 1]
      if h and before then
         local change = T.sub(norm(h), norm(before))
         sum = sum + methods.item(T.mean(T.mul(change, change)))
      end
   end
   self.loss = self.step > 1 and self.beta * sum / (self.step - 1) or 0
   return self.loss
end
NormStabilizer.__tostring__ = function() return "nn.NormStabilizer" end

-- Sequences ---------------------------------------------------------------------------------------

-- ReverseSequence: reverses the steps of a sequence, which is a table or the first dimension of a
-- tensor.
base.layer("ReverseSequence", "", function(_, x)
   if is_tensor(x) then return T.flip(x, {1}) end
   local made = {}
   for i = #x, 1, -1 do made[#made + 1] = x[i] end
   return made
end)

-- ReverseUnreverse: reverses a sequence, passes it through a module and reverses the result.
local ReverseUnreverse = base.layer("ReverseUnreverse", nil, nil, "nn.Sequential")
function ReverseUnreverse:__init(sequencer)
   check_module("ReverseUnreverse", "sequencer", sequencer)
   Container.__init(self)
   self:add(nn.ReverseSequence())
   self:add(sequencer)
   self:add(nn.ReverseSequence())
end
--- Sets the masked steps. The inner module gets them in reverse order.
function ReverseUnreverse:setZeroMask(zeroMask)
   self.modules[2]:setZeroMask(zeroMask and types.tag(T.flip(zeroMask, {1})))
   return self
end

-- SeqBLSTM and SeqBGRU add the outputs of two modules, one for each direction.
for _, name in ipairs {"LSTM", "GRU"} do
   local class = base.layer("SeqB" .. name, nil, nil, "nn.Sequential")
   class.__init = function(self, inputsize, hiddensize, outputsize)
      Container.__init(self)
      local function made()
         if outputsize and name == "LSTM" then
            return nn.SeqLSTMP(inputsize, hiddensize, outputsize)
         end
         return nn["Seq" .. name](inputsize, hiddensize)
      end
      self.forwardModule, self.backwardModule = made(), made()
      self:add(beside(nn.ConcatTable, self.forwardModule,
         nn.ReverseUnreverse(self.backwardModule)))
      self:add(nn.CAddTable())
   end
end

-- VariableLength ----------------------------------------------------------------------------------

-- VariableLength: takes a table of sequences (steps, ...) of different lengths. It pads them with
-- zeros to one batch (steps, batch, ...), which it passes to a module that masks steps. It returns
-- a table of outputs, each as long as its input sequence. With `lastOnly`, it returns a tensor with
-- each sequence's output at its last step.
local VariableLength = base.layer("VariableLength", nil, nil, "nn.Decorator")
function VariableLength:__init(seqrnn, lastOnly)
   check_module("VariableLength", "seqrnn", seqrnn)
   nn.Decorator.__init(self, seqrnn)
   self.module, self.lastOnly = seqrnn, lastOnly or false
end

-- Returns the sequences as one padded batch, their lengths and the mask.
local function padded(list)
   local lengths, longest = {}, 0
   if type(list) ~= "table" or is_tensor(list) or #list == 0 then
      tlua.raise("nn.VariableLength: input: expected a table of tensors (steps, ...), got "
         .. classes.type(list))
   end
   local first
   for i, x in ipairs(list) do
      local size = is_tensor(x) and field(x, "shape") or {}
      if #size == 0 or size[1] == 0 then
         tlua.raise(("nn.VariableLength: input[%d]: expected a tensor with at least one step, "
            .. "got %s"):format(i, is_tensor(x) and "no steps" or classes.type(x)))
      end
      first = first or size
      if table.concat(size, ",", 2) ~= table.concat(first, ",", 2) then
         tlua.raise(("nn.VariableLength: input[%d]: expected steps of the sizes {%s}, got {%s}")
            :format(i, table.concat(first, ", ", 2), table.concat(size, ", ", 2)))
      end
      lengths[i] = size[1]
      longest = math.max(longest, size[1])
   end
   local sizes = {longest, #list, table.unpack(first, 2)}
   local options = {dtype = field(list[1], "dtype"), device = field(list[1], "device")}
   local batch = T.zeros(sizes, options)
   local mask = T.ones({longest, #list}, {dtype = "uint8", device = options.device})
   for i, x in ipairs(list) do
      methods.copy_(T.narrow(T.select(batch, 2, i), 1, 1, lengths[i]), T.detach(x))
      methods.zero_(T.narrow(T.select(mask, 2, i), 1, 1, lengths[i]))
   end
   return types.tag(batch), lengths, types.tag(mask)
end

function VariableLength:updateOutput(input)
   local batch, lengths, mask = padded(input)
   self._batch, self._lengths, self._input = batch, lengths, input
   self.module:setZeroMask(mask)
   local output = self:rethrowErrors(self.module, 1, "updateOutput", batch)
   local made = {}
   for i, length in ipairs(lengths) do
      local steps_of = T.narrow(T.select(output, 2, i), 1, 1, length)
      made[i] = self.lastOnly and T.select(steps_of, 1, length) or types.tag(T.clone(steps_of))
   end
   self.output = self.lastOnly and types.tag(T.stack(made, 1)) or made
   return self.output
end

-- Returns the gradient of the padded batch's output, made from the gradients of the sequences'
-- outputs.
local function padded_gradient(self, gradOutput)
   local size = field(self.module.output, "shape")
   local grad = T.zeros(size, {dtype = field(self.module.output, "dtype"),
      device = field(self.module.output, "device")})
   for i, length in ipairs(self._lengths) do
      local column = T.select(grad, 2, i)
      if self.lastOnly then
         methods.copy_(T.select(column, 1, length), T.detach(gradOutput[i]))
      else
         methods.copy_(T.narrow(column, 1, 1, length), T.detach(gradOutput[i]))
      end
   end
   return types.tag(grad)
end

for _, method in ipairs {"updateGradInput", "accGradParameters", "backward"} do
   VariableLength[method] = function(self, input, gradOutput, scale)
      if not rawequal(input, self._input) then self:updateOutput(input) end
      local g = self.module[method](self.module, self._batch, padded_gradient(self, gradOutput),
         scale)
      if method == "accGradParameters" then return end
      self.gradInput = {}
      for i, length in ipairs(self._lengths) do
         self.gradInput[i] = types.tag(T.clone(T.narrow(T.select(g, 2, i), 1, 1, length)))
      end
      return self.gradInput
   end
end

function VariableLength:clearState()
   self._batch, self._lengths, self._input = nil, nil, nil
   return nn.Decorator.clearState(self)
end

return nn
