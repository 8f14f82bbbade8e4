-- rnn_steps.lua - the modules of the package rnn for which each call of `forward` is a step of a
-- sequence. A subclass of AbstractRecurrent has a step module, which takes an input and the states
-- of the previous step. Each step uses a copy of the step module. The copies share parameters and
-- gradients. `backward` goes through the steps from the last one to the first one, and carries the
-- gradients of the states from step to step.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local copying = require "tlua.torch7.copying"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"
local nn = require "tlua.torch7.nn"

local field, is_tensor = types.field, types.is_tensor
local Module, Container = nn.Module, nn.Container
local map = records.map

local M = {}

-- Trees of tensors --------------------------------------------------------------------------------

local function zeros_like(tree)
   return map(function(x) return is_tensor(x) and types.tag(tlua.zeros_like(x)) or x end, tree)
end
M.zeros_like = zeros_like

-- Returns a + b for two trees of tensors of the same structure. If one tree is nil, returns the
-- other one.
local function sum(a, b)
   if a == nil then return b end
   if b == nil then return a end
   if is_tensor(a) then return types.tag(tlua.add(a, b)) end
   local made = {}
   for key in pairs(a) do made[key] = sum(a[key], b[key]) end
   return made
end
M.sum = sum

--- Returns the first tensor of a tree, or nil.
function M.first_tensor(tree)
   if is_tensor(tree) then return tree end
   for _, value in ipairs(tree) do
      local found = type(value) ~= "number" and M.first_tensor(value)
      if found then return found end
   end
end

-- Methods of all modules --------------------------------------------------------------------------

-- Calls a method of all modules within a module.
local function pass_to_modules(self, name, ...)
   for _, module in ipairs(rawget(self, "modules") or {}) do module[name](module, ...) end
end

for _, name in ipairs {"forget", "remember", "setOutputStep", "maxBPTTstep", "setZeroMask"} do
   Module[name] = function(self, ...)
      pass_to_modules(self, name, ...)
      return self
   end
end

-- Collects in `shared` the objects that the copies of a module share with it: parameters, their
-- gradients, running averages, and recurrent modules. Recurrent modules are shared because they
-- store the states of all steps themselves.
local function collect_shared(module, shared)
   if classes.isTypeOf(module, "nn.AbstractRecurrent") then
      shared[module] = module
      return
   end
   local weights, grads = module:parameters()
   for _, list in ipairs {weights or {}, grads or {}} do
      for _, x in ipairs(list) do shared[x] = x end
   end
   for _, name in ipairs {"running_mean", "running_var"} do
      local x = rawget(module, name)
      if x then shared[x] = x end
   end
   for _, inner in ipairs(rawget(module, "modules") or {}) do collect_shared(inner, shared) end
end

--- Returns a copy of the module for another step. It shares parameters, their gradients and
--- recurrent modules with the original.
function Module:stepClone()
   local shared = {}
   collect_shared(self, shared)
   return copying.copy(self, shared)
end
Module.sharedClone = Module.stepClone

-- AbstractRecurrent -------------------------------------------------------------------------------

local Abstract = base.layer("AbstractRecurrent", nil, nil, "nn.Container")
M.Abstract = Abstract

local function check_module(name, argument, module)
   if not classes.isTypeOf(module, "nn.Module") then
      tlua.raise(("nn.%s: %s: expected a module, got %s"):format(name, argument,
         classes.type(module)))
   end
end
M.check_module = check_module

function Abstract:__init(rho)
   Container.__init(self)
   self.rho, self.step = rho or 99999, 1
   if math.type(self.rho) ~= "integer" or self.rho < 1 then
      tlua.raise(("%s: rho: expected a count of steps, got %s"):format(classes.type(self),
         tostring(rho)))
   end
   self.outputs, self.states, self.gradStates, self.gradSteps = {}, {}, {}, {}
   self.gradInputs, self.sharedClones = {}, {}
end

-- Sets the step module. `modules` lists the modules that contain the parameters, by default the
-- step module itself.
local function set_step_module(self, module, modules)
   self.recurrentModule, self.sharedClones = module, {module}
   self.modules = modules or {module}
end

-- Returns which of the rho copies of the step module computes a step. The steps use the copies in
-- turn.
local function slot(self, step) return (step - 1) % self.rho + 1 end

--- Returns the module that computes a step.
function Abstract:getStepModule(step)
   if self.train == false then return self.recurrentModule end
   local at = slot(self, step)
   if not self.sharedClones[at] then
      self.sharedClones[at] = self.recurrentModule:stepClone()
   end
   return self.sharedClones[at]
end

-- A subclass defines these three methods. `firstStates` returns the states before the first step.
-- `pack` returns the step module's input. `unpack` returns a step's output and a list of states.
function Abstract:firstStates() return {} end
function Abstract:pack(input, states)
   return {input, table.unpack(states)}
end
function Abstract:unpack(output) return output, {output} end

-- Converts the gradients of a step's output and states to the gradient of the step module's output.
function Abstract:packGradients(gradOutput, gradStates) return sum(gradOutput, gradStates[1]) end

--- Sets the masked steps, which have 1 in the ByteTensor `zeroMask` (steps, batch). `false`
--- disables the mask. The program must have called maskZero() before.
function Abstract:setZeroMask(zeroMask)
   self.zeroMask = zeroMask or false
   return self
end

-- Passes the mask of a step, which marks rows, to the module of this step.
local function mask_step(self, module, step)
   if self.zeroMask == nil then return module end
   if not self.zeroMask then return module:setZeroMask(false) end
   local n = field(self.zeroMask, "shape")[1]
   if step > n then
      tlua.raise(("%s: zeroMask: expected a row for step %d, got %d rows"):format(
         classes.type(self), step, n))
   end
   return module:setZeroMask(self.zeroMask:select(1, step))
end

local function states_before(self, step, input)
   return self.states[step - 1] or self:firstStates(input)
end

function Abstract:updateOutput(input)
   if input == nil then tlua.raise(classes.type(self) .. ": expected an input, got nil") end
   local step = self.step
   local states = states_before(self, step, input)
   local module = mask_step(self, self:getStepModule(step), step)
   local output = module:updateOutput(self:pack(input, states))
   self.states[step - 1] = states
   self.output, self.states[step] = self:unpack(output)
   self.outputs[step] = self.output
   local old = self.train == false and step - 1 or step - self.rho
   self.outputs[old - 1], self.states[old - 1], self.gradInputs[old - 1] = nil, nil, nil
   if self.cells then self.cells[step], self.cells[old - 1] = self.states[step][2], nil end
   self.step = step + 1
   self.updateGradInputStep, self.accGradParametersStep = nil, nil
   self.gradPrevOutput, self.userNextGradCell = nil, nil
   self.gradStates = {}
   return self.output
end

-- Returns the step to which a call of the method `name` belongs, and the step module. The field
-- `counter` counts down from the last step at each call. If the step is more than rho steps back,
-- its states have been dropped, and the returned module is nil.
local function next_step(self, counter, name)
   local step = (self[counter] or self.step) - 1
   if step < 1 then
      tlua.raise(("%s:%s: expected a call of forward for each call, got no further one"):format(
         classes.type(self), name))
   end
   if self.train == false then
      tlua.raise(("%s:%s: evaluate() keeps no earlier steps; call training() before forward")
         :format(classes.type(self), name))
   end
   self[counter] = step
   if step < self.step - self.rho then return step end
   return step, self:getStepModule(step)
end

-- Returns the gradients of the states after a step. The backward pass of the next step has stored
-- them. For the last step, they are the gradients that the user has set.
local function gradients_after(self, step)
   local known = self.gradStates[step]
   if not known and step == self.step - 1 then
      known = {self.gradPrevOutput, self.userNextGradCell}
   end
   return known or {}
end

-- Computes the gradients of a step by calling the method `method` of `module`, the step's module.
local function pass_back(self, step, module, method, input, gradOutput, scale)
   mask_step(self, module, step):setOutputStep(step)
   local given = self:packGradients(gradOutput, gradients_after(self, step), step)
   local packed = self:pack(input, states_before(self, step, input))
   local gradInput = module[method](module, packed, given, scale)
   local before
   gradInput, before = self:unpackGradients(gradInput, step)
   self.gradSteps[step], self.gradStates[step - 1] = given, before
   self.gradInputs[step], self.gradInput = gradInput, gradInput
   self.gradPrevOutput = before[1]
   if step == 1 and self.userPrevOutput then self.userGradPrevOutput = before[1] end
   if step == 1 and self.userPrevCell then self.userGradPrevCell = before[2] end
   return gradInput
end

-- Splits the gradient of a step module's input. Returns the gradient of the input, and a list of
-- the gradients of the states.
function Abstract:unpackGradients(gradInput)
   return gradInput[1], {table.unpack(gradInput, 2)}
end

function Abstract:updateGradInput(input, gradOutput)
   local step, module = next_step(self, "updateGradInputStep", "updateGradInput")
   if not module then
      self.gradInput = zeros_like(input)
      return self.gradInput
   end
   return pass_back(self, step, module, "updateGradInput", input, gradOutput)
end

function Abstract:accGradParameters(input, _, scale)
   local step, module = next_step(self, "accGradParametersStep", "accGradParameters")
   if not module then return end
   mask_step(self, module, step):setOutputStep(step)
   module:accGradParameters(self:pack(input, states_before(self, step, input)),
      self.gradSteps[step], scale or 1)
end

function Abstract:backward(input, gradOutput, scale)
   local step, module = next_step(self, "updateGradInputStep", "backward")
   self.accGradParametersStep = step
   if not module then
      self.gradInput = zeros_like(input)
      return self.gradInput
   end
   return pass_back(self, step, module, "backward", input, gradOutput, scale or 1)
end

function Abstract:accUpdateGradParameters()
   tlua.raise(classes.type(self) .. ":accUpdateGradParameters: expected accGradParameters and "
      .. "updateParameters, since the steps share their parameters")
end
Abstract.sharedAccUpdateGradParameters = Abstract.accUpdateGradParameters
Abstract.backwardUpdate = Abstract.accUpdateGradParameters

function Abstract:stepClone() return self end
Abstract.sharedClone = Module.stepClone

--- Ends the sequence: drops all states, so that the next call of `forward` is step 1.
function Abstract:forget()
   self.step, self.updateGradInputStep, self.accGradParametersStep = 1, nil, nil
   self.outputs, self.states, self.gradStates, self.gradSteps = {}, {}, {}, {}
   self.gradInputs = {}
   self.gradPrevOutput, self.userNextGradCell = nil, nil
   if self.cells then self.cells = {} end
   pass_to_modules(self, "forget")
   return self
end

--- Does nothing. In the package rnn it makes steps reuse at most rho copies of the step module,
--- which the steps always do here.
function Abstract:recycle() return self end
function Abstract:backwardThroughTime() return self.gradInput end
function Abstract:backwardOnline() return self end

--- Sets the fields `output` and `gradInput` to the values of a step.
function Abstract:setOutputStep(step)
   if self.outputs[step] ~= nil then self.output = self.outputs[step] end
   if self.gradInputs[step] ~= nil then self.gradInput = self.gradInputs[step] end
   return Module.setOutputStep(self, step)
end

--- Sets rho, the largest number of steps through which gradients are passed back.
function Abstract:maxBPTTstep(rho)
   if math.type(rho) ~= "integer" or rho < 1 then
      tlua.raise("maxBPTTstep: expected a count of steps, got " .. tostring(rho))
   end
   self.rho, self.sharedClones = rho, {self.recurrentModule}
   self:forget()
   return Module.maxBPTTstep(self, rho)
end

for name, mode in pairs {training = true, evaluate = false} do
   Abstract[name] = function(self)
      if (self.train ~= false) ~= mode then self:forget() end
      Container[name](self)
      for _, module in ipairs(self.sharedClones) do module[name](module) end
      self.recurrentModule[name](self.recurrentModule)
   end
end

function Abstract:type(name, memo)
   if name == nil then return self._type end
   self:forget()
   self.sharedClones = {self.recurrentModule}
   return Container.type(self, name, memo)
end

function Abstract:clearState()
   self:forget()
   self.sharedClones = {self.recurrentModule}
   return Container.clearState(self)
end

--- Makes the masked rows of the output zero, and restarts their sequences. setZeroMask sets which
--- rows are masked. If `nInputDim` is given, the input's rows of zeros are masked instead;
--- `nInputDim` is true or the number of dimensions of an input without the batch.
function Abstract:maskZero(nInputDim)
   set_step_module(self, nn.MaskZero(self.recurrentModule, nInputDim))
   return self
end
function Abstract:trimZero(nInputDim)
   set_step_module(self, nn.TrimZero(self.recurrentModule, nInputDim))
   return self
end

function Abstract:__tostring__()
   return ("%s @ %s"):format(classes.type(self), tostring(self.recurrentModule))
end

-- Recursor ----------------------------------------------------------------------------------------

-- Recursor: makes a recurrent module of any module. It adds no states of its own.
local Recursor = base.layer("Recursor", nil, nil, "nn.AbstractRecurrent")
function Recursor:__init(module, rho)
   Abstract.__init(self, rho)
   check_module("Recursor", "module", module)
   set_step_module(self, module)
end
function Recursor:pack(input) return input end
function Recursor:unpack(output) return output, {} end
function Recursor:packGradients(gradOutput) return gradOutput end
function Recursor:unpackGradients(gradInput) return gradInput, {} end

-- States ------------------------------------------------------------------------------------------

-- Returns the number of rows of a batch. `nInputDim` is the number of dimensions of one example.
-- Returns nil for an input without a batch dimension.
local function batch_of(input, nInputDim)
   local size = field(M.first_tensor(input), "shape")
   if #size > nInputDim then return size[1] end
end

local function zero_state(like, rows, size)
   local sizes = {rows}
   for _, n in ipairs(size) do sizes[#sizes + 1] = n end
   return like:new(types.longs(sizes)):zero()
end

-- Recurrence: makes a recurrent module from a module that maps {input, previous output} to an
-- output.
local Recurrence = base.layer("Recurrence", nil, nil, "nn.AbstractRecurrent")
function Recurrence:__init(module, outputSize, nInputDim, rho)
   Abstract.__init(self, rho)
   check_module("Recurrence", "recurrentModule", module)
   if math.type(nInputDim) ~= "integer" then
      tlua.raise(("nn.Recurrence: nInputDim: expected a count of dimensions, got %s"):format(
         tostring(nInputDim)))
   end
   self.outputSize, self.nInputDim = outputSize, nInputDim
   set_step_module(self, module)
end

local function zeros_of(like, rows, size)
   if type(size) == "number" then return zero_state(like, rows, {size}) end
   if types.is_storage(size) then return zero_state(like, rows, size:totable()) end
   if type(size) ~= "table" then
      tlua.raise("nn.Recurrence: outputSize: expected a size or a table of sizes, got "
         .. classes.type(size))
   end
   local made = {}
   for i, inner in ipairs(size) do made[i] = zeros_of(like, rows, inner) end
   return made
end

-- Returns an empty tensor of the type of a module's parameters. Without parameters, the tensor has
-- the default type.
local function like_parameters(self)
   local weights = self:parameters()
   return weights and weights[1] or types.new(types.default)
end

function Recurrence:firstStates(input)
   if self.userPrevOutput then return {self.userPrevOutput} end
   return {zeros_of(like_parameters(self), batch_of(input, self.nInputDim), self.outputSize)}
end

-- LSTM --------------------------------------------------------------------------------------------

local LinearNoBias = base.layer("LinearNoBias", nil, nil, "nn.Linear")
function LinearNoBias:__init(inputSize, outputSize)
   nn.Linear.__init(self, inputSize, outputSize, false)
end

local function sequence(...)
   local made = nn.Sequential()
   for _, module in ipairs {...} do made:add(module) end
   return made
end
local function beside(class, ...)
   local made = class()
   for _, module in ipairs {...} do made:add(module) end
   return made
end

local function check_sizes(name, inputSize, outputSize)
   base.check_integer(name, "inputSize", inputSize, 1)
   base.check_integer(name, "outputSize", outputSize, 1)
end

local LSTM = base.layer("LSTM", nil, nil, "nn.AbstractRecurrent")
function LSTM:__init(inputSize, outputSize, rho)
   check_sizes("LSTM", inputSize, outputSize)
   Abstract.__init(self, rho or 9999)
   self.inputSize, self.outputSize, self.cells = inputSize, outputSize, {}
   set_step_module(self, self:buildModel())
end

-- Returns the module of a gate, which maps {input, previous output, cell} to the gate's values.
function LSTM:buildGate()
   return sequence(beside(nn.ParallelTable, nn.Linear(self.inputSize, self.outputSize),
      LinearNoBias(self.outputSize, self.outputSize), nn.CMul(self.outputSize)), nn.CAddTable(),
      nn.Sigmoid())
end
function LSTM:buildInputGate()
   self.inputGate = self:buildGate()
   return self.inputGate
end
function LSTM:buildForgetGate()
   self.forgetGate = self:buildGate()
   return self.forgetGate
end
function LSTM:buildOutputGate()
   self.outputGate = self:buildGate()
   return self.outputGate
end
function LSTM:buildHidden()
   self.hiddenLayer = sequence(nn.NarrowTable(1, 2), beside(nn.ParallelTable,
      nn.Linear(self.inputSize, self.outputSize), LinearNoBias(self.outputSize, self.outputSize)),
      nn.CAddTable(), nn.Tanh())
   return self.hiddenLayer
end
function LSTM:buildCell()
   local input = sequence(beside(nn.ConcatTable, self:buildInputGate(), self:buildHidden()),
      nn.CMulTable())
   local kept = sequence(beside(nn.ConcatTable, self:buildForgetGate(), nn.SelectTable(3)),
      nn.CMulTable())
   self.cellLayer = sequence(beside(nn.ConcatTable, input, kept), nn.CAddTable())
   return self.cellLayer
end
--- Returns the step module, which maps {input, previous output, cell} to {output, next cell}.
function LSTM:buildModel()
   local cell = self:buildCell()
   local shown = sequence(nn.SelectTable(3), nn.Tanh())
   local output = sequence(beside(nn.ConcatTable, self:buildOutputGate(), shown), nn.CMulTable())
   return sequence(beside(nn.ConcatTable, nn.NarrowTable(1, 2), cell), nn.FlattenTable(),
      beside(nn.ConcatTable, output, nn.SelectTable(3)))
end

function LSTM:firstStates(input)
   local like, rows = like_parameters(self), batch_of(input, 1)
   return {self.userPrevOutput or zero_state(like, rows, {self.outputSize}),
      self.userPrevCell or zero_state(like, rows, {self.outputSize})}
end
function LSTM:unpack(output) return output[1], output end
function LSTM:packGradients(gradOutput, gradStates, step)
   local states = self.states[step]
   return {sum(gradOutput, gradStates[1]), gradStates[2] or zeros_like(states[2])}
end
function LSTM:__tostring__()
   return ("%s(%d -> %d)"):format(classes.type(self), self.inputSize, self.outputSize)
end

-- Splits the last dimension into n equal parts.
local function parts(x, n) return tlua.chunk(x, n, -1) end

-- FastLSTM: computes all gates at once, and has no weights from the cell to the gates.
local Cell = base.layer("FastLSTMCell", "", function(_, x)
   local input, hidden, forget, output = table.unpack(parts(x[1], 4))
   local cell = tlua.add(tlua.mul(tlua.sigmoid(forget), x[2]),
      tlua.mul(tlua.sigmoid(input), tlua.tanh(hidden)))
   return {tlua.mul(tlua.sigmoid(output), tlua.tanh(cell)), cell}
end)

local FastLSTM = base.layer("FastLSTM", nil, nil, "nn.LSTM")
function FastLSTM:buildModel()
   self.i2g = nn.Linear(self.inputSize, 4 * self.outputSize)
   self.o2g = LinearNoBias(self.outputSize, 4 * self.outputSize)
   local gates = sequence(nn.NarrowTable(1, 2), beside(nn.ParallelTable, self.i2g, self.o2g),
      nn.CAddTable())
   return sequence(beside(nn.ConcatTable, gates, nn.SelectTable(3)), Cell())
end

-- GRU ---------------------------------------------------------------------------------------------

-- This layer maps {gates, input, state} to {input, reset * state, update, state}.
local Reset = base.layer("GRUReset", "", function(_, x)
   local reset, update = table.unpack(parts(tlua.sigmoid(x[1]), 2))
   return {x[2], tlua.mul(reset, x[3]), update, x[3]}
end)
-- This layer maps {candidate, update, state} to the next state.
local Update = base.layer("GRUUpdate", "", function(_, x)
   return tlua.add(x[1], tlua.mul(x[2], tlua.sub(x[3], x[1])))
end)

local GRU = base.layer("GRU", nil, nil, "nn.AbstractRecurrent")
function GRU:__init(inputSize, outputSize, rho)
   check_sizes("GRU", inputSize, outputSize)
   Abstract.__init(self, rho or 9999)
   self.inputSize, self.outputSize = inputSize, outputSize
   set_step_module(self, self:buildModel())
end
function GRU:buildModel()
   local n, m = self.inputSize, self.outputSize
   self.i2g, self.o2g = nn.Linear(n, 2 * m), LinearNoBias(m, 2 * m)
   self.t2h, self.r2h = nn.Linear(n, m), LinearNoBias(m, m)
   local gates = sequence(beside(nn.ParallelTable, self.i2g, self.o2g), nn.CAddTable())
   local candidate = sequence(nn.NarrowTable(1, 2), beside(nn.ParallelTable, self.t2h, self.r2h),
      nn.CAddTable(), nn.Tanh())
   return sequence(beside(nn.ConcatTable, gates, nn.SelectTable(1), nn.SelectTable(2)), Reset(),
      beside(nn.ConcatTable, candidate, nn.SelectTable(3), nn.SelectTable(4)), Update())
end
function GRU:firstStates(input)
   return {self.userPrevOutput
      or zero_state(like_parameters(self), batch_of(input, 1), {self.outputSize})}
end
GRU.__tostring__ = LSTM.__tostring__

-- Recurrent ---------------------------------------------------------------------------------------

-- Recurrent: a recurrent module whose step computes transfer(merge(a, b)). a is the result of the
-- input module, and b is the result of the feedback module for the previous output. In the first
-- step, which has no previous output, the start module replaces the feedback module.
local Recurrent = base.layer("Recurrent", nil, nil, "nn.AbstractRecurrent")
function Recurrent:__init(start, input, feedback, transfer, rho, merge)
   Abstract.__init(self, rho)
   check_module("Recurrent", "input", input)
   check_module("Recurrent", "feedback", feedback)
   if type(start) == "number" or types.is_storage(start) then
      start = nn.Add(start)
   elseif is_tensor(start) then
      start = nn.Add(types.longs(start:long():totable()))
   end
   check_module("Recurrent", "start", start)
   self.startModule, self.inputModule, self.feedbackModule = start, input, feedback
   self.transferModule, self.mergeModule = transfer or nn.Sigmoid(), merge or nn.CAddTable()
   self.initialModule = sequence(input, start, self.transferModule):stepClone()
   set_step_module(self, sequence(beside(nn.ParallelTable, input, feedback), self.mergeModule,
      self.transferModule), {start, input, feedback, self.transferModule, self.mergeModule})
end

local function is_start(self, step) return step == 1 and not self.userPrevOutput end
function Recurrent:getStepModule(step)
   if is_start(self, step) then return self.initialModule end
   return Abstract.getStepModule(self, step)
end
function Recurrent:firstStates() return {self.userPrevOutput} end
function Recurrent:pack(input, states)
   if states[1] == nil then return input end
   return {input, states[1]}
end
function Recurrent:unpackGradients(gradInput, step)
   if is_start(self, step) then return gradInput, {} end
   return gradInput[1], {gradInput[2]}
end
for _, name in ipairs {"maskZero", "trimZero"} do
   Recurrent[name] = function(self, nInputDim)
      local class = name == "maskZero" and nn.MaskZero or nn.TrimZero
      self.initialModule = class(self.initialModule, nInputDim)
      set_step_module(self, class(self.recurrentModule, nInputDim), self.modules)
      return self
   end
end
for _, name in ipairs {"training", "evaluate"} do
   Recurrent[name] = function(self)
      Abstract[name](self)
      self.initialModule[name](self.initialModule)
   end
end

M.sequence, M.beside, M.set_step_module = sequence, beside, set_step_module

return M
