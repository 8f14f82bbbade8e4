-- rnn_sequences.lua - the modules of the package rnn that take whole sequences. A sequence is a
-- table with an input for each step, or a tensor whose first dimension is the step.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"
local nn = require "tlua.torch7.nn"
local steps = require "tlua.torch7.rnn_steps"

local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local Container, Module = nn.Container, nn.Module
local T, map = tlua, records.map
local check_module, sum = steps.check_module, steps.sum

-- Sequencer ---------------------------------------------------------------------------------------

local Abstract = base.layer("AbstractSequencer", nil, nil, "nn.Container")

local modes = {both = true, eval = true, train = true, neither = true}

--- Sets whether a sequence continues the previous one: in evaluation and training ("both", the
--- default), in one of them ("eval" or "train"), or never ("neither").
function Abstract:remember(mode)
   mode = mode or "both"
   if not modes[mode] then
      tlua.raise(("%s:remember: expected 'both', 'eval', 'train' or 'neither', got %s"):format(
         classes.type(self), tostring(mode)))
   end
   self._remember = mode
   return Module.remember(self, mode)
end

-- Returns whether the next sequence continues the previous one.
local function remembers(self)
   local mode = self._remember or "neither"
   return mode == "both" or mode == (self.train == false and "eval" or "train")
end

-- Returns a module that has the methods of AbstractRecurrent. A module without these methods is
-- wrapped in a Recursor.
local function recurrent(name, module)
   check_module(name, "module", module)
   return classes.isTypeOf(module, "nn.AbstractRecurrent") and module or nn.Recursor(module)
end

local function check_sequence(self, what, value, n)
   if type(value) ~= "table" or classes.metatype(value) then
      tlua.raise(("%s: %s: expected a table with one element for each step, got %s"):format(
         classes.type(self), what, classes.type(value)))
   end
   if n and #value ~= n then
      tlua.raise(("%s: %s: expected %d steps, got %d"):format(classes.type(self), what, n, #value))
   end
   return value
end

-- Returns a sequence as a table of steps, and whether it was a tensor.
local function unbound(self, what, value, n)
   if not is_tensor(value) then return check_sequence(self, what, value, n), false end
   local list = {}
   for t = 1, value:size(1) do list[t] = value:select(1, t) end
   return check_sequence(self, what, list, n), true
end

local function stacked(list) return types.tag(T.stack(list, 1)) end

-- Passes the gradients of a sequence's outputs back through a recurrent module, from the last step
-- to the first. Returns the gradients of the inputs.
local function pass_back(module, method, inputs, gradOutputs, scale)
   local grads = {}
   for t = #inputs, 1, -1 do grads[t] = module[method](module, inputs[t], gradOutputs[t], scale) end
   return grads
end

local Sequencer = base.layer("Sequencer", nil, nil, "nn.AbstractSequencer")
function Sequencer:__init(module)
   Container.__init(self)
   self.module = recurrent("Sequencer", module)
   self.modules = {self.module}
end

function Sequencer:updateOutput(input)
   local list, is_stacked = unbound(self, "input", input)
   if #list == 0 then tlua.raise "nn.Sequencer: input: expected at least one step" end
   if not remembers(self) then self.module:forget() end
   local outputs = {}
   for t, x in ipairs(list) do
      outputs[t] = self:rethrowErrors(self.module, 1, "updateOutput", x)
   end
   self._inputs, self._input = list, input
   self.output = is_stacked and stacked(outputs) or outputs
   return self.output
end

for _, method in ipairs {"updateGradInput", "accGradParameters", "backward"} do
   Sequencer[method] = function(self, input, gradOutput, scale)
      local is_last = rawequal(input, self._input) and is_tensor(input)
      local list = is_last and self._inputs or unbound(self, "input", input)
      local grads = pass_back(self.module, method, list,
         (unbound(self, "gradOutput", gradOutput, #list)), scale)
      if method == "accGradParameters" then return end
      self.gradInput = is_tensor(input) and stacked(grads) or grads
      return self.gradInput
   end
end

function Sequencer:clearState()
   self._inputs, self._input = nil, nil
   return Container.clearState(self)
end
function Sequencer:__tostring__()
   return ("nn.Sequencer @ %s"):format(tostring(self.module))
end

-- Repeater: passes the same input to a recurrent module, nStep times.
local Repeater = base.layer("Repeater", nil, nil, "nn.AbstractSequencer")
function Repeater:__init(module, nStep)
   Container.__init(self)
   if math.type(nStep) ~= "integer" or nStep < 1 then
      tlua.raise("nn.Repeater: nStep: expected a count of steps, got " .. tostring(nStep))
   end
   self.nStep, self.module = nStep, recurrent("Repeater", module)
   self.modules = {self.module}
end
function Repeater:updateOutput(input)
   if not remembers(self) then self.module:forget() end
   self.output = {}
   for t = 1, self.nStep do
      self.output[t] = self:rethrowErrors(self.module, 1, "updateOutput", input)
   end
   return self.output
end
for _, method in ipairs {"updateGradInput", "accGradParameters", "backward"} do
   Repeater[method] = function(self, input, gradOutput, scale)
      check_sequence(self, "gradOutput", gradOutput, self.nStep)
      local total
      for t = self.nStep, 1, -1 do
         total = sum(total, self.module[method](self.module, input, gradOutput[t], scale))
      end
      if method == "accGradParameters" then return end
      self.gradInput = total
      return total
   end
end

-- Two directions ----------------------------------------------------------------------------------

local Bi = base.layer("BiSequencer", nil, nil, "nn.AbstractSequencer")

function Bi:__init(fwd, bwd, merge)
   Container.__init(self)
   local name = classes.type(self):match "[^.]+$"
   fwd = recurrent(name, fwd)
   if bwd == nil then
      bwd = fwd:clone()
      bwd:reset()
   end
   if merge == nil or type(merge) == "number" then merge = nn.JoinTable(1, merge or 1) end
   check_module(name, "merge", merge)
   self.fwdSeq, self.bwdSeq, self.mergeSeq = nn.Sequencer(fwd), nn.Sequencer(bwd),
      nn.Sequencer(merge)
   self.modules = {self.fwdSeq, self.bwdSeq, self.mergeSeq}
end

local function reversed(list)
   local made, n = {}, #list
   for t = 1, n do made[t] = list[n + 1 - t] end
   return made
end

-- Returns the inputs for the forward direction and for the backward direction. BiSequencerLM leaves
-- out the inputs that a step must not see.
function Bi:split(input) return input, reversed(input) end

-- Returns, for each step, the pair of the outputs of both directions. The merge module takes these
-- pairs.
function Bi:pair(forward, backward)
   local pairs_, n = {}, #forward
   for t = 1, n do pairs_[t] = {forward[t], backward[n + 1 - t]} end
   return pairs_
end

-- Converts the gradients of the pairs to the gradients of the outputs of each direction.
function Bi:unpair(grads)
   local forward, backward, n = {}, {}, #grads
   for t, g in ipairs(grads) do forward[t], backward[n + 1 - t] = g[1], g[2] end
   return forward, backward
end

-- Returns the gradients of the inputs: the sums of the gradients from both directions.
function Bi:join(forward, backward)
   local made, n = {}, #forward
   for t = 1, n do made[t] = sum(forward[t], backward[n + 1 - t]) end
   return made
end

function Bi:updateOutput(input)
   check_sequence(self, "input", input)
   local forward, backward = self:split(input)
   self.merged = self:pair(self.fwdSeq:updateOutput(forward), self.bwdSeq:updateOutput(backward))
   self.output = self.mergeSeq:updateOutput(self.merged)
   return self.output
end
for _, method in ipairs {"updateGradInput", "accGradParameters", "backward"} do
   Bi[method] = function(self, input, gradOutput, scale)
      local forward, backward = self:split(input)
      self.mergeSeq[method](self.mergeSeq, self.merged, gradOutput, scale)
      local g, h = self:unpair(self.mergeSeq.gradInput)
      self.fwdSeq[method](self.fwdSeq, forward, g, scale)
      self.bwdSeq[method](self.bwdSeq, backward, h, scale)
      if method == "accGradParameters" then return end
      self.gradInput = self:join(self.fwdSeq.gradInput, self.bwdSeq.gradInput)
      return self.gradInput
   end
end

-- BiSequencerLM: a bidirectional sequencer for language models. At step t, one direction has seen
-- the inputs before t, and the other direction has seen the inputs after t.
local BiLM = base.layer("BiSequencerLM", nil, nil, "nn.BiSequencer")
function BiLM:split(input)
   local n = #input
   if n < 2 then tlua.raise "nn.BiSequencerLM: input: expected at least two steps" end
   return table.move(input, 1, n - 1, 1, {}), reversed(table.move(input, 2, n, 1, {}))
end
function BiLM:pair(forward, backward)
   local made, n = {}, #forward + 1
   for t = 1, n do
      made[t] = {forward[t - 1] or steps.zeros_like(forward[1]),
         backward[n - t] or steps.zeros_like(backward[1])}
   end
   return made
end
function BiLM:unpair(grads)
   local forward, backward, n = {}, {}, #grads
   for t = 2, n do forward[t - 1] = grads[t][1] end
   for t = 1, n - 1 do backward[n - t] = grads[t][2] end
   return forward, backward
end
function BiLM:join(forward, backward)
   local made, n = {}, #forward + 1
   for t = 1, n do made[t] = sum(forward[t], backward[n + 1 - t]) end
   return made
end

-- Masks -------------------------------------------------------------------------------------------

-- Returns a bool tensor (rows) that marks the masked rows of an input. The mask is the one that
-- setZeroMask has set. If there is none, rows of the input's first tensor are masked if all of
-- their elements are zero. For an input without a batch, the result has no dimensions.
local function zero_rows(self, input)
   local x = T.detach(steps.first_tensor(input))
   local n = #field(x, "shape")
   local rows = field(x, "shape")[1]
   if self.zeroMask then
      local given = field(self.zeroMask, "shape")
      if #given ~= 1 or given[1] ~= rows then
         tlua.raise(("%s: zeroMask: expected an element for each of %d rows, got the sizes {%s}")
            :format(classes.type(self), rows, table.concat(given, ", ")))
      end
      return T.ne(self.zeroMask, 0)
   end
   if self.nInputDim == nil then
      if self.v1 then return T.logical_not(T.any(T.reshape(x, {rows, -1}), 2)) end
      if self.zeroMask == false then
         return T.zeros({rows}, {dtype = "bool", device = field(x, "device")})
      end
      tlua.raise(classes.type(self) .. ": expected a call of setZeroMask before forward, or "
         .. "nInputDim, the number of the input's dimensions without the batch")
   end
   if n < self.nInputDim or n > self.nInputDim + 1 then
      tlua.raise(("%s: input: expected %d or %d dimensions, got %d"):format(classes.type(self),
         self.nInputDim, self.nInputDim + 1, n))
   end
   if n == self.nInputDim then return T.logical_not(T.any(x)) end
   return T.logical_not(T.any(T.reshape(x, {field(x, "shape")[1], -1}), 2))
end

-- Sets the marked rows of all tensors in a tree to zero.
local function masked(tree, mask)
   return map(function(x)
      if not is_tensor(x) then return x end
      local m = mask
      if #field(m, "shape") > 0 then
         local sizes = {field(m, "shape")[1]}
         for d = 2, #field(x, "shape") do sizes[d] = 1 end
         m = T.reshape(m, sizes)
      end
      return types.tag(T.masked_fill(T.detach(x), m, 0))
   end, tree)
end

local MaskZero = base.layer("MaskZero", nil, nil, "nn.Decorator")
function MaskZero:__init(module, nInputDim)
   local name = classes.type(self):match "[^.]+$"
   check_module(name, "module", module)
   if nInputDim ~= nil and type(nInputDim) ~= "boolean" and math.type(nInputDim) ~= "integer" then
      tlua.raise(("nn.%s: nInputDim: expected a count of dimensions, a boolean or nil, got %s")
         :format(name, tostring(nInputDim)))
   end
   nn.Decorator.__init(self, module)
   self.module = module
   if math.type(nInputDim) then self.nInputDim = nInputDim else self.v1 = nInputDim or false end
end
--- Sets the masked rows, which have 1 in the ByteTensor `zeroMask` (rows). `false` disables the
--- mask.
function MaskZero:setZeroMask(zeroMask)
   self.zeroMask = zeroMask or false
   return Module.setZeroMask(self, zeroMask)
end
function MaskZero:updateOutput(input)
   self.output = masked(self:rethrowErrors(self.modules[1], 1, "updateOutput", input),
      zero_rows(self, input))
   return self.output
end
for _, method in ipairs {"updateGradInput", "accGradParameters", "backward"} do
   MaskZero[method] = function(self, input, gradOutput, scale)
      local mask = zero_rows(self, input)
      local g = self.modules[1][method](self.modules[1], input, masked(gradOutput, mask), scale)
      if method == "accGradParameters" then return end
      self.gradInput = masked(g, mask)
      return self.gradInput
   end
end
-- TrimZero returns the same results as MaskZero.
base.layer("TrimZero", nil, nil, "nn.MaskZero")

local Lookup = base.layer("LookupTableMaskZero", nil, function(_, x, weight)
   return T.nn.functional.embedding(T.add(methods.to(x, "int64"), 1), weight, 1)
end, "nn.LookupTable")
function Lookup:__init(nIndex, nOutput)
   base.check_integer("LookupTableMaskZero", "nIndex", nIndex, 1)
   base.check_integer("LookupTableMaskZero", "nOutput", nOutput, 1)
   nn.LookupTable.__init(self, nIndex + 1, nOutput)
   self.weight[1]:zero()
end
function Lookup:prepare()
   if self.maxNorm then self.weight:renorm(self.normType or 2, 1, self.maxNorm) end
   self.weight[1]:zero()
end

local MaskCriterion = classes.class("nn.MaskZeroCriterion", "nn.Criterion")
function MaskCriterion:__init(criterion, nInputDim)
   nn.Criterion.__init(self)
   base.check_part(self, "criterion", criterion, true)
   self.criterion = criterion
   if math.type(nInputDim) then self.nInputDim = nInputDim else self.v1 = nInputDim or false end
end
function MaskCriterion:setZeroMask(zeroMask)
   self.zeroMask = zeroMask or false
   return self
end

-- Selects the rows at the given positions from all tensors in a tree.
local function rows_of(tree, at)
   return map(function(x)
      return is_tensor(x) and #field(x, "shape") > 0 and types.tag(T.index_select(T.detach(x), 1,
         at)) or x
   end, tree)
end

local function kept_rows(self, input)
   local mask = zero_rows(self, input)
   if #field(mask, "shape") == 0 then mask = T.unsqueeze(mask, 1) end
   return T.flatten(T.nonzero(T.logical_not(mask)))
end

-- Returns whether the input is a single example without a batch dimension.
local function is_single(self, input)
   return self.nInputDim ~= nil and #field(steps.first_tensor(input), "shape") == self.nInputDim
end

function MaskCriterion:updateOutput(input, target)
   local at = kept_rows(self, input)
   self.output = 0
   if methods.numel(at) > 0 then
      if is_single(self, input) then
         self._input, self._target = input, target
      else
         self._input, self._target = rows_of(input, at), rows_of(target, at)
      end
      self.output = self.criterion:updateOutput(self._input, self._target)
   end
   return self.output
end
function MaskCriterion:updateGradInput(input, target)
   local at = kept_rows(self, input)
   self.gradInput = steps.zeros_like(input)
   if methods.numel(at) == 0 then return self.gradInput end
   self:updateOutput(input, target)
   local g = self.criterion:updateGradInput(self._input, self._target)
   if is_single(self, input) then
      self.gradInput = g
   else
      local whole, parts = records.flatten(self.gradInput, {}), records.flatten(g, {})
      for i, x in ipairs(whole) do methods.index_copy_(x, 1, at, parts[i]) end
   end
   return self.gradInput
end

-- Criterions --------------------------------------------------------------------------------------

local SequencerCriterion = classes.class("nn.SequencerCriterion", "nn.Criterion")
function SequencerCriterion:__init(criterion, sizeAverage)
   nn.Criterion.__init(self)
   if not classes.isTypeOf(criterion, "nn.Criterion") then
      tlua.raise(("%s: criterion: expected a criterion, got %s"):format(classes.type(self),
         classes.type(criterion)))
   end
   self.criterion, self.sizeAverage, self.clones = criterion, sizeAverage or false, {}
end

-- Returns the criterion for a step. Each step has its own copy.
function SequencerCriterion:getStepCriterion(step)
   self.clones[step] = self.clones[step] or self.criterion:clone()
   return self.clones[step]
end

--- Sets the mask (steps, batch). Each step's criterion gets the mask's row for this step. `false`
--- disables the mask.
function SequencerCriterion:setZeroMask(zeroMask)
   self.zeroMask = zeroMask or false
   return self
end

-- Returns the criterion for a step, after passing the step's row of the mask to it.
local function masked_step(self, step)
   local criterion = self:getStepCriterion(step)
   if self.zeroMask ~= nil and criterion.setZeroMask then
      criterion:setZeroMask(self.zeroMask and self.zeroMask[step])
   end
   return criterion
end

-- RepeaterCriterion uses the same target for all steps.
function SequencerCriterion:targets(target, n) return (unbound(self, "target", target, n)) end

function SequencerCriterion:updateOutput(input, target)
   local list = unbound(self, "input", input)
   local targets = self:targets(target, #list)
   self._inputs, self._input, self._targets, self._target = list, input, targets, target
   self.output = 0
   for t, x in ipairs(list) do
      self.output = self.output + masked_step(self, t):updateOutput(x, targets[t])
   end
   if self.sizeAverage then self.output = self.output / #list end
   return self.output
end
function SequencerCriterion:updateGradInput(input, target)
   local list, targets = self._inputs, self._targets
   if not rawequal(input, self._input) or not rawequal(target, self._target)
      or not is_tensor(input) then
      list = unbound(self, "input", input)
      targets = self:targets(target, #list)
   end
   local grads = {}
   for t, x in ipairs(list) do
      local g = masked_step(self, t):updateGradInput(x, targets[t])
      if self.sizeAverage then
         g = map(function(value) return types.tag(T.div(value, #list)) end, g)
      end
      grads[t] = g
   end
   self.gradInput = is_tensor(input) and stacked(grads) or grads
   return self.gradInput
end

local RepeaterCriterion = classes.class("nn.RepeaterCriterion", "nn.SequencerCriterion")
function RepeaterCriterion:targets(target, n)
   local list = {}
   for t = 1, n do list[t] = target end
   return list
end

-- Sequences as tensors ----------------------------------------------------------------------------

-- SeqReverseSequence: reverses a tensor along a dimension.
base.layer("SeqReverseSequence", "dim", function(self, x) return T.flip(x, {self.dim}) end)

-- Returns a bool tensor (steps, batch, 1) that is true for the steps that are not masked.
local function kept_steps(self, name, size)
   local given = field(self.zeroMask, "shape")
   if #given ~= 2 or given[1] ~= size[1] or given[2] ~= size[2] then
      tlua.raise(("nn.%s: zeroMask: expected the sizes {%d, %d}, got {%s}"):format(name, size[1],
         size[2], table.concat(given, ", ")))
   end
   return T.eq(T.unsqueeze(self.zeroMask, 3), 0)
end

-- Maps a layer to the states of its last call, with their autograd history. `first` has the states
-- before the first step, which are leaves, and `last` has the states after the last step.
local calls = setmetatable({}, {__mode = "k"})

-- Computes the gradients of a layer whose first or last states are shared with other layers, as in
-- an encoder and a decoder. `gradPrevOutput` and `userNextGradCell` are the gradients of the last
-- states. `userGradPrevOutput` and `userGradPrevCell` receive the gradients of the first states.
local function coupled_gradients(self, input, gradOutput, scale)
   local made = records.record_of(self, input)
   local call = calls[self]
   local outputs = {made.output}
   local grads = {records.gradient_like(made.output, gradOutput, "gradOutput")}
   for i, name in ipairs {"gradPrevOutput", "userNextGradCell"} do
      if self[name] and call.last[i] then
         outputs[#outputs + 1] = call.last[i]
         grads[#grads + 1] = records.gradient_like(call.last[i], self[name], name)
      end
   end
   local leaves = {made.leaves, made.weight_leaf, made.bias_leaf}
   for _, state in ipairs(call.first) do
      if field(state, "requires_grad") then leaves[#leaves + 1] = state end
   end
   local list = {T.autograd.grad(outputs, leaves, grads,
      {retain_graph = true, allow_unused = true})}
   local at = 3
   for i, name in ipairs {"userGradPrevOutput", "userGradPrevCell"} do
      local has_gradient = call.first[i] and field(call.first[i], "requires_grad")
      if has_gradient then at = at + 1 end
      self[name] = has_gradient and types.tag(list[at] or T.zeros_like(call.first[i])) or nil
   end
   if scale then
      T.add_(self.gradWeight, list[2], {alpha = scale})
      T.add_(self.gradBias, list[3], {alpha = scale})
   end
   return types.tag(list[1])
end

-- Returns whether a layer's first or last states are shared with other layers.
local function is_coupled(self)
   return self.userPrevOutput or self.userPrevCell or self.gradPrevOutput or self.userNextGradCell
end

-- Defines the gradients of a layer whose first or last states may be shared with other layers.
local function define_gradients(class)
   function class:updateGradInput(input, gradOutput)
      if not is_coupled(self) then return Module.updateGradInput(self, input, gradOutput) end
      self.gradInput = coupled_gradients(self, input, gradOutput)
      return self.gradInput
   end
   function class:accGradParameters(input, gradOutput, scale)
      if not is_coupled(self) then
         return Module.accGradParameters(self, input, gradOutput, scale)
      end
      coupled_gradients(self, input, gradOutput, scale or 1)
   end
   function class:backward(input, gradOutput, scale)
      if self.updateGradInput ~= class.updateGradInput then
         return Module.backward(self, input, gradOutput, scale)
      end
      self.gradInput = (is_coupled(self) and coupled_gradients or records.backward)(self, input,
         gradOutput, scale or 1)
      return self.gradInput
   end
end

-- Defines a layer that computes each step of a sequence (step, batch, size) by the function `step`.
-- The arguments of this function are the product of input and weight, the list of states, the rows
-- of the weight for the previous output, and the number of cells. The results of the function are
-- the next states. A layer with a `projection`, a matrix (hiddensize, outputSize), multiplies the
-- first state by the projection to get a step's output.
local function define(name, n_gates, n_states, step)
   local class = base.layer(name, nil, function(self, x, weight, bias)
      return self:run(x, weight, bias)
   end)
   define_gradients(class)

   -- Computes the outputs for a whole sequence. If the weight, the bias or the projection needs
   -- gradients, autograd records the computation.
   function class:run(x, weight, bias, projection)
      local hidden = self.hiddensize or self.outputSize
      if #field(x, "shape") ~= 3 then
         tlua.raise(("nn.%s: input: expected (steps, batch, %d), got %d dimensions"):format(name,
            self.inputSize, #field(x, "shape")))
      end
      if self.batchfirst then x = T.transpose(x, 1, 2) end
      local size, n = field(x, "shape"), self.inputSize
      if size[3] ~= n then
         tlua.raise(("nn.%s: input: expected (steps, batch, %d), got (%d, %d, %d)"):format(name, n,
            size[1], size[2], size[3]))
      end
      local flat = T.addmm(bias, T.reshape(x, {-1, n}), T.narrow(weight, 1, 1, n))
      local gates = T.reshape(flat, {size[1], size[2], n_gates * hidden})
      local mask
      if self.zeroMask then
         mask = kept_steps(self, name, size)
      elseif self.maskzero then
         mask = T.any(T.detach(x), 3, true)
      end
      local recurrent_weight = T.narrow(weight, 1, n + 1, self.outputSize)
      local states, outputs, cells = self:start(size[2], x), {}, {}
      local first = states
      for t = 1, size[1] do
         states = step(T.select(gates, 1, t), states, recurrent_weight, hidden)
         if projection then states[1] = T.mm(states[1], projection) end
         if mask then
            local keep = methods.to(T.select(mask, 1, t), field(x, "dtype"))
            for i, state in ipairs(states) do states[i] = T.mul(state, keep) end
         end
         outputs[t], cells[t] = states[1], states[2]
      end
      calls[self] = {first = first, last = states}
      if not records.again then
         if cells[1] then self.cell = types.tag(T.detach(T.stack(cells, 1))) end
         self.last = {}
         for i, state in ipairs(states) do self.last[i] = types.tag(T.detach(state)) end
      end
      local made = T.stack(outputs, 1)
      return self.batchfirst and T.transpose(made, 1, 2) or made
   end

   function class:__init(inputSize, outputSize)
      base.check_integer(name, "inputSize", inputSize, 1)
      base.check_integer(name, "outputSize", outputSize, 1)
      Module.__init(self)
      self.inputSize, self.outputSize = inputSize, outputSize
      base.parameters(self, {inputSize + outputSize, n_gates * outputSize}, {n_gates * outputSize})
   end

   -- Returns the states before the first step. They are the states after the previous sequence if
   -- the layer remembers them, and zeros otherwise.
   function class:start(rows, x)
      if records.again and self.started then return self.started end
      local made, given = {}, remembers(self) and self.last or {}
      given = {self.userPrevOutput or given[1], self.userPrevCell or given[2]}
      for i = 1, n_states do
         local n = i == 2 and self.hiddensize or self.outputSize
         made[i] = given[i] and T.detach(given[i]) or T.zeros({rows, n}, {dtype =
            field(x, "dtype"), device = field(x, "device")})
         made[i].requires_grad = given[i] ~= nil and is_coupled(self) ~= nil
         if field(made[i], "shape")[1] ~= rows then
            tlua.raise(("nn.%s: input: the remembered sequence has %d examples, this one %d; call "
               .. "forget()"):format(name, field(made[i], "shape")[1], rows))
         end
      end
      self.started = made
      return made
   end

   function class:reset()
      self.bias:zero()
      self.weight:normal(0, 1 / math.sqrt(self.inputSize + self.outputSize))
      -- The bias of the forget gate is positive, because an LSTM learns sooner if it forgets little
      -- at first.
      if name == "SeqLSTM" then
         self.bias:narrow(1, self.outputSize + 1, self.outputSize):fill(1)
      end
      return self
   end
   class.remember = function(self, mode) return Abstract.remember(self, mode) end
   --- Makes the layer set the states to zero at masked steps. The mask of setZeroMask marks these
   --- steps; without a mask, a step is masked if its inputs are zeros.
   function class:maskZero()
      self.maskzero = true
      return self
   end
   --- Sets the masked steps, which have 1 in the ByteTensor `zeroMask` (steps, batch). `false`
   --- disables the mask.
   function class:setZeroMask(zeroMask)
      self.zeroMask = zeroMask or nil
      return self
   end
   function class:forget()
      self.last, self.started = nil, nil
      return self
   end
   for method, mode in pairs {training = true, evaluate = false} do
      class[method] = function(self)
         if (self.train ~= false) ~= mode then self:forget() end
         Module[method](self)
      end
   end
   class.__tostring__ = function(self)
      return ("nn.%s(%d -> %d)"):format(name, self.inputSize, self.outputSize)
   end
   return class
end

-- The columns of SeqLSTM's weight belong to the input gate, the forget gate, the output gate and
-- the new content, in this order.
local function lstm(gates, states, weight)
   local list = T.chunk(T.addmm(gates, states[1], weight), 4, -1)
   local cell = T.add(T.mul(T.sigmoid(list[2]), states[2]),
      T.mul(T.sigmoid(list[1]), T.tanh(list[4])))
   return {T.mul(T.sigmoid(list[3]), T.tanh(cell)), cell}
end
local SeqLSTM = define("SeqLSTM", 4, 2, lstm)

--- Returns a FastLSTM with copies of this layer's parameters.
function SeqLSTM:toFastLSTM()
   local n, m = self.inputSize, self.outputSize
   local made = nn.FastLSTM(n, m):type(self:type())
   -- The gates of FastLSTM are in the order input gate, new content, forget gate, output gate.
   for place, gate in ipairs {1, 4, 2, 3} do
      local function rows(x) return x:narrow(1, (place - 1) * m + 1, m) end
      local columns = self.weight:narrow(2, (gate - 1) * m + 1, m)
      rows(made.i2g.weight):copy(columns:narrow(1, 1, n):t())
      rows(made.o2g.weight):copy(columns:narrow(1, n + 1, m):t())
      rows(made.i2g.bias):copy(self.bias:narrow(1, (gate - 1) * m + 1, m))
   end
   return made
end

-- The columns of SeqGRU's weight belong to the update gate, the reset gate and the candidate, in
-- this order.
local function gru(gates, states, weight, n)
   local inner = T.mm(states[1], T.narrow(weight, 2, 1, 2 * n))
   local list = T.chunk(T.sigmoid(T.add(T.narrow(gates, 2, 1, 2 * n), inner)), 2, -1)
   local candidate = T.tanh(T.addmm(T.narrow(gates, 2, 2 * n + 1, n), T.mul(list[2], states[1]),
      T.narrow(weight, 2, 2 * n + 1, n)))
   return {T.add(candidate, T.mul(list[1], T.sub(states[1], candidate)))}
end
define("SeqGRU", 3, 1, gru)

-- SeqBRNN: a bidirectional layer with a SeqLSTM for each direction, whose outputs the module
-- `merge` combines.
local SeqBRNN = base.layer("SeqBRNN", nil, nil, "nn.Sequential")
function SeqBRNN:__init(inputSize, outputSize, batchFirst, merge)
   Container.__init(self)
   self.forwardModule, self.backwardModule = nn.SeqLSTM(inputSize, outputSize),
      nn.SeqLSTM(inputSize, outputSize)
   self.forwardModule.batchfirst = batchFirst or false
   self.backwardModule.batchfirst = batchFirst or false
   self.dim = batchFirst and 2 or 1
   self:add(steps.beside(nn.ConcatTable, self.forwardModule,
      steps.sequence(nn.SeqReverseSequence(self.dim), self.backwardModule,
         nn.SeqReverseSequence(self.dim))))
   self:add(merge or nn.CAddTable())
end

return {lstm = lstm, gru = gru}
