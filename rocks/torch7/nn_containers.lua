-- nn_containers.lua - Torch7's containers. A container defines how `forward` calls its modules, and
-- how gradients pass back through them. This definition serves updateGradInput, accGradParameters
-- and `backward`: each calls the method of the same name on the modules.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"

local methods, is_tensor = types.methods, types.is_tensor
local Module, result, map = base.Module, records.result, records.map
local field = types.field

local Container = classes.class("nn.Container", "nn.Module")

function Container:__init()
   Module.__init(self)
   self.modules = {}
end

function Container:add(module)
   if not classes.isTypeOf(module, "nn.Module") then
      tlua.raise(("%s:add: expected a module, got %s"):format(classes.type(self),
         classes.type(module)))
   end
   table.insert(self.modules, module)
   return self
end

function Container:get(i) return self.modules[i] end
function Container:size() return #self.modules end
Container.__len__ = Container.size

--- Calls a method of the i-th module. If it fails, the error message names the module.
function Container:rethrowErrors(module, i, method, ...)
   local fn = method == "updateOutput" and records.forward or module[method]
   local good, first = xpcall(fn, function(problem)
      if type(problem) ~= "string" then return problem end
      return ("In %d module of %s:\n%s"):format(i, classes.type(self), problem)
   end, module, ...)
   if not good then error(first, 0) end
   return first
end

local halves = {"updateGradInput", "accGradParameters", "accUpdateGradParameters", "backward"}

--- Defines a container. forward(self, input) returns the output. back(self, call, input,
--- gradOutput) returns gradInput; it passes gradients back through a module by call(module, input,
--- gradOutput). `passes` is given if `forward` only hands tensors on between modules. It is the
--- order in which `back` goes through the modules: "forwards" or "backwards".
local function container(name, fields, forward, back, parent, passes)
   local class = base.layer(name, fields, nil, parent or "nn.Container")
   if forward then
      function class:updateOutput(input)
         self.output = passes and records.run(self, forward, input, passes) or forward(self, input)
         return self.output
      end
   end
   if not back then return class end
   for _, method in ipairs(halves) do
      class[method] = function(self, input, gradOutput, scale)
         if passes and method == "backward"
            and records.backward_run(self, input, gradOutput, scale or 1) then
            return self.gradInput
         end
         local gradInput = back(self, function(module, x, g)
            module[method](module, x, g, scale)
            return module.gradInput
         end, input, gradOutput)
         if method == "updateGradInput" or method == "backward" then
            self.gradInput = gradInput
            return gradInput
         end
      end
   end
   if passes then records.join(class, passes) end
   return class
end

-- Methods that reach all modules ------------------------------------------------------------------

function Container:parameters()
   local weights, grads = {}, {}
   for _, module in ipairs(self.modules) do
      local w, g = module:parameters()
      for i, x in ipairs(w or {}) do
         weights[#weights + 1], grads[#grads + 1] = x, g[i]
      end
   end
   if #weights > 0 then return weights, grads end
end

for _, name in ipairs {"zeroGradParameters", "updateParameters", "training", "evaluate", "reset"} do
   Container[name] = function(self, ...)
      for _, module in ipairs(self.modules) do module[name](module, ...) end
      if name ~= "updateParameters" and name ~= "zeroGradParameters" then
         Module[name](self, ...)
      end
      return nil
   end
end

function Container:share(other, ...)
   for i, module in ipairs(self.modules) do module:share(other.modules[i], ...) end
   return self
end

function Container:clearState()
   Module.clearState(self)
   for _, module in ipairs(self.modules) do module:clearState() end
   return self
end

-- Printing ----------------------------------------------------------------------------------------

local function indented(text, by) return (text:gsub("\n", "\n" .. by)) end

local function chain(self)
   local names, lines = {}, {}
   for i, module in ipairs(self.modules) do
      names[i] = ("(%d)"):format(i)
      lines[i] = ("  (%d): %s"):format(i, indented(tostring(module), "  "))
   end
   return ("%s {\n  [input -> %s -> output]\n%s\n}"):format(classes.type(self),
      table.concat(names, " -> "),
      table.concat(lines, "\n"))
end

-- Returns the text that describes a container, with its modules shown side by side.
local function beside(self)
   local lines = {}
   local n = #self.modules
   for i, module in ipairs(self.modules) do
      local line = i < n and "    |" or "     "
      lines[i] = ("%s`-> (%d): %s"):format(line, i, indented(tostring(module), line .. "    "))
   end
   return ("%s {\n  input\n%s\n     ... -> output\n}"):format(classes.type(self),
      table.concat(lines, "\n"))
end
Container.describe = beside

-- Sums of gradients -------------------------------------------------------------------------------

local function add(a, b)
   if is_tensor(a) then return types.tag(tlua.add(a, b)) end
   local made = {}
   for key in pairs(a) do made[key] = b[key] == nil and a[key] or add(a[key], b[key]) end
   for key in pairs(b) do
      if made[key] == nil then made[key] = b[key] end
   end
   return made
end

-- Sequential --------------------------------------------------------------------------------------

local Sequential = container("Sequential", nil, function(self, input)
   for i, module in ipairs(self.modules) do
      input = self:rethrowErrors(module, i, "updateOutput", input)
   end
   return input
end, function(self, call, input, gradOutput)
   local list = self.modules
   for i = #list, 1, -1 do
      gradOutput = call(list[i], i > 1 and list[i - 1].output or input, gradOutput)
   end
   return gradOutput
end, nil, "backwards")
Sequential.describe = chain

function Sequential:insert(module, at)
   at = at or #self.modules + 1
   if at < 1 or at > #self.modules + 1 then
      tlua.raise(("Sequential:insert: expected a position from 1 to %d, got %s"):format(
         #self.modules + 1, at))
   end
   table.insert(self.modules, at, module)
end

function Sequential:remove(at)
   at = at or #self.modules
   if at < 1 or at > #self.modules then
      tlua.raise(("Sequential:remove: expected a position from 1 to %d, got %s"):format(
         #self.modules, at))
   end
   return table.remove(self.modules, at)
end

-- Tables ------------------------------------------------------------------------------------------

local function sum_of(self, call, input, grads)
   local sum
   for i, module in ipairs(self.modules) do
      local g = call(module, input, grads[i])
      sum = sum == nil and g or add(sum, g)
   end
   return sum
end

local function outputs_of(self, input_of)
   local outputs = {}
   for i, module in ipairs(self.modules) do
      outputs[i] = self:rethrowErrors(module, i, "updateOutput", input_of(i))
   end
   return outputs
end

container("ConcatTable", nil, function(self, input)
   return outputs_of(self, function() return input end)
end, sum_of, nil, "forwards")

container("ParallelTable", nil, function(self, input)
   return outputs_of(self, function(i) return input[i] end)
end, function(self, call, input, gradOutput)
   local grads = {}
   for i, module in ipairs(self.modules) do grads[i] = call(module, input[i], gradOutput[i]) end
   return grads
end, nil, "forwards")

-- MapTable: applies one module to each element of a table. Each element has its own copy of the
-- module, and the copies share the parameters.
local MapTable = container("MapTable", function(self, module)
   self.modules = {}
   self.module = nil
   if module then self:add(module) end
end, function(self, input)
   if type(input) ~= "table" then
      require "tlua.args".refuse(classes.type(self), "input", "a table", input)
   end
   self:resize(#input)
   return outputs_of(self, function(i) return input[i] end)
end, function(self, call, input, gradOutput)
   local grads = {}
   self:resize(#input)
   for i, module in ipairs(self.modules) do grads[i] = call(module, input[i], gradOutput[i]) end
   return grads
end)

MapTable.describe = function(self)
   if not self.module then return classes.type(self) .. " { }" end
   return ("%s {\n  %s\n}"):format(classes.type(self), indented(tostring(self.module), "  "))
end

function MapTable:add(module)
   base.check_part(self, "module", module)
   self.module = module
   self.modules = {module}
   return self
end

function MapTable:resize(n)
   if not self.module then tlua.raise(classes.type(self) .. ": expected a module, got none") end
   for i = #self.modules + 1, n do
      self.modules[i] = self.module:clone("weight", "bias", "gradWeight", "gradBias",
         "running_mean", "running_var")
   end
   for i = #self.modules, math.max(n, 1) + 1, -1 do self.modules[i] = nil end
end

function MapTable:parameters() return self.module:parameters() end
function MapTable:zeroGradParameters() self.module:zeroGradParameters() end
function MapTable:updateParameters(rate) self.module:updateParameters(rate) end

-- DataParallelTable belongs to the package cunn. A program adds one module and the GPUs on which it
-- runs, or one copy of the module for each GPU. Here the first module computes the whole batch on
-- one device.
local Parallel = container("DataParallelTable", function(self, dimension)
   self.modules, self.dimension = {}, dimension
end, function(self, input)
   if not self.modules[1] then tlua.raise "nn.DataParallelTable: expected a call of add before" end
   return self:rethrowErrors(self.modules[1], 1, "updateOutput", input)
end, function(self, call, input, gradOutput)
   return call(self.modules[1], input, gradOutput)
end, nil, "forwards")

function Parallel:add(module)
   return self.modules[1] and self or Container.add(self, module)
end

--- In Torch7, this method calls fn in the interpreter of each GPU, to prepare the interpreters.
--- Here there is only one interpreter, in which fn is called once.
function Parallel:threads(fn)
   if fn then fn() end
   return self
end
function Parallel:syncParameters() end

-- Concatenations ----------------------------------------------------------------------------------

local function join(outputs, d) return types.tag(tlua.cat(outputs, d)) end

local function parts_of(self, gradOutput, d)
   local parts, at = {}, 1
   for i, module in ipairs(self.modules) do
      local n = module.output:size(d)
      parts[i] = gradOutput:narrow(d, at, n)
      at = at + n
   end
   return parts
end

container("Concat", function(self, dimension)
   self.modules, self.dimension = {}, dimension
end, function(self, input)
   return join(outputs_of(self, function() return input end), self.dimension)
end, function(self, call, input, gradOutput)
   return sum_of(self, call, input, parts_of(self, gradOutput, self.dimension))
end)

-- Returns the central part of `x`, which has the sizes of `output` in all dimensions except the
-- dimension of the concatenation. DepthConcat pads smaller outputs with zeros on all sides, so this
-- part belongs to one module.
local function window(self, x, output)
   for d = 1, x:dim() do
      if d ~= self.dimension then
         local n = output:size(d)
         x = x:narrow(d, (x:size(d) - n) // 2 + 1, n)
      end
   end
   return x
end

container("DepthConcat", nil, function(self, input)
   local outputs = outputs_of(self, function() return input end)
   local size = outputs[1]:size()
   size[self.dimension] = 0
   for _, output in ipairs(outputs) do
      for d = 1, output:dim() do
         size[d] = d == self.dimension and size[d] + output:size(d)
            or math.max(size[d], output:size(d))
      end
   end
   local joined, at = outputs[1]:new(size):zero(), 1
   for _, output in ipairs(outputs) do
      local n = output:size(self.dimension)
      window(self, joined:narrow(self.dimension, at, n), output):copy(output)
      at = at + n
   end
   return joined
end, function(self, call, input, gradOutput)
   local parts = parts_of(self, gradOutput, self.dimension)
   for i, module in ipairs(self.modules) do parts[i] = window(self, parts[i], module.output) end
   return sum_of(self, call, input, parts)
end, "nn.Concat")

container("Parallel", function(self, inputDimension, outputDimension)
   self.modules, self.inputDimension, self.outputDimension = {}, inputDimension, outputDimension
end, function(self, input)
   return join(outputs_of(self, function(i) return input:select(self.inputDimension, i) end),
      self.outputDimension)
end, function(self, call, input, gradOutput)
   local grads = {}
   for i, part in ipairs(parts_of(self, gradOutput, self.outputDimension)) do
      grads[i] = call(self.modules[i], input:select(self.inputDimension, i), part)
   end
   return types.tag(tlua.stack(grads, self.inputDimension))
end)

-- Around one module -------------------------------------------------------------------------------

-- Computes the output of the module in a decorator. A decorator is a container with one module, to
-- whose methods it passes inputs and gradients on.
local function through(self, input)
   return self:rethrowErrors(self.modules[1], 1, "updateOutput", input)
end
local function back_through(self, call, input, gradOutput)
   return call(self.modules[1], input, gradOutput)
end

local function decorator(name, fields, forward, back)
   return container(name, fields, forward or through, back or back_through)
end

local Decorator = decorator("Decorator", function(self, module)
   base.check_part(self, "module", module)
   self.modules = {module}
end)
Decorator.describe = function(self)
   return ("%s @ %s"):format(classes.type(self), tostring(self.modules[1]))
end

local function around(name) return base.layer(name, nil, nil, "nn.Decorator") end

local DontCast = around "DontCast"
function DontCast:type(name)
   if name then return self end
   return self._type
end

local GPU = around "GPU"
function GPU:__init(module, device, outdevice)
   base.nn.Decorator.__init(self, module)
   self.device, self.outdevice = device, outdevice or device
end

local NaN = around "NaN"
function NaN:__init(module, id)
   base.nn.Decorator.__init(self, module)
   self.id = id or 1
end
local function check_nan(self, value, where)
   map(function(x)
      if is_tensor(x) and methods.item(tlua.any(tlua.isnan(x))) then
         tlua.raise(("nn.NaN (%s): NaN in %s of %s"):format(self.id, where,
            classes.type(self.modules[1])))
      end
      return x
   end, value)
end
function NaN:updateOutput(input)
   self.output = through(self, input)
   check_nan(self, self.output, "the output")
   return self.output
end
function NaN:updateGradInput(input, gradOutput)
   self.gradInput = self.modules[1]:updateGradInput(input, gradOutput)
   check_nan(self, self.gradInput, "gradInput")
   return self.gradInput
end
function NaN:backward(input, gradOutput, scale)
   self:updateGradInput(input, gradOutput)
   self:accGradParameters(input, gradOutput, scale)
   return self.gradInput
end

local Profile = around "Profile"
function Profile:__init(module, print_interval, name)
   base.nn.Decorator.__init(self, module)
   self.print_interval, self.name = print_interval or 100, name or classes.type(module)
   self.calls, self.seconds = 0, 0
end
function Profile:updateOutput(input)
   local began = tlua.io.clock()
   self.output = through(self, input)
   self.calls, self.seconds = self.calls + 1, self.seconds + tlua.io.clock() - began
   if self.calls % self.print_interval == 0 then
      io.write(("%s: %d calls, %g s a call\n"):format(self.name, self.calls,
         self.seconds / self.calls))
   end
   return self.output
end

-- Merges the leading dimensions of a tensor so that `dims` dimensions remain. Bottle calls it when
-- the input has more dimensions than its module accepts.
local function joined(x, dims)
   local size = field(x, "shape")
   if #size <= dims then return x end
   local first = 1
   for d = 1, #size - dims + 1 do first = first * size[d] end
   local sizes = {first}
   for d = #size - dims + 2, #size do sizes[#sizes + 1] = size[d] end
   return result(tlua.reshape(x, sizes))
end
container("Bottle", function(self, module, nInputDim, nOutputDim)
   base.check_part(self, "module", module)
   self.modules, self.nInputDim = {module}, nInputDim or 2
   self.nOutputDim = nOutputDim or self.nInputDim
end, function(self, input)
   local output = through(self, joined(input, self.nInputDim))
   local size, sizes = field(input, "shape"), {}
   if #size <= self.nInputDim then return output end
   for d = 1, #size - self.nInputDim + 1 do sizes[d] = size[d] end
   for d = 2, output:dim() do sizes[#sizes + 1] = output:size(d) end
   return result(tlua.reshape(output, sizes))
end, function(self, call, input, gradOutput)
   local inner = self.modules[1]
   local g = call(inner, joined(input, self.nInputDim),
      result(tlua.reshape(gradOutput, field(inner.output, "shape"))))
   return g and result(tlua.reshape(g, field(input, "shape")))
end)

-- WeightNorm: wraps a module, and represents the weight of each output by its direction v and its
-- length g.
local WeightNorm = around "WeightNorm"
local function rows(self, x)
   if self.outputDim ~= 1 then x = tlua.transpose(x, 1, self.outputDim) end
   return tlua.reshape(x, {field(x, "shape")[1], -1})
end
function WeightNorm:__init(module, outputDim)
   if not classes.isTypeOf(module, "nn.Module") or not module.weight then
      require "tlua.args".refuse("nn.WeightNorm", "module", "a module with a weight", module)
   end
   base.nn.Decorator.__init(self, module)
   self.outputDim = outputDim or 1
   local flat = result(rows(self, module.weight))
   self.v, self.g = module.weight:clone(), flat:norm(2, 2)
   self.gradV, self.gradG = self.v:clone():zero(), self.g:clone():zero()
   self.bias, self.gradBias = module.bias, module.gradBias
end
local function scaled(self, v, g)
   local flat = rows(self, v)
   local made = tlua.mul(flat, tlua.div(g, tlua.linalg.vector_norm(flat, 2, 2, {keepdim = true})))
   if self.outputDim == 1 then return tlua.reshape(made, field(v, "shape")) end
   local turned = field(tlua.transpose(v, 1, self.outputDim), "shape")
   return tlua.transpose(tlua.reshape(made, turned), 1, self.outputDim)
end
function WeightNorm:updateOutput(input)
   methods.copy_(self.modules[1].weight, scaled(self, self.v, self.g))
   self.output = through(self, input)
   return self.output
end
function WeightNorm:accGradParameters(input, gradOutput, scale)
   local inner = self.modules[1]
   inner.gradWeight:zero()
   inner:accGradParameters(input, gradOutput, scale)
   local v, g = records.leaf(self.v), records.leaf(self.g)
   local gv, gg = tlua.autograd.grad({scaled(self, v, g)}, {v, g}, {inner.gradWeight})
   tlua.add_(self.gradV, gv)
   tlua.add_(self.gradG, gg)
end
function WeightNorm:backward(input, gradOutput, scale)
   self:updateGradInput(input, gradOutput)
   self:accGradParameters(input, gradOutput, scale or 1)
   return self.gradInput
end
function WeightNorm:parameters()
   local weights, grads = {self.v, self.g}, {self.gradV, self.gradG}
   if self.bias then weights[3], grads[3] = self.bias, self.gradBias end
   return weights, grads
end
WeightNorm.zeroGradParameters, WeightNorm.updateParameters = Module.zeroGradParameters,
   Module.updateParameters
