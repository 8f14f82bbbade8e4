-- nn.lua - Torch7's package nn: its modules and criterions, a trainer, and checks of gradients.

local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"

local nn = base.nn
local is_tensor = types.is_tensor

for _, name in ipairs {"nn_containers", "nn_simple", "nn_table", "nn_convolution",
   "nn_criterion", "nn_more"} do
   require("tlua.torch7." .. name)
end

-- Utilities ---------------------------------------------------------------------------------------

nn.utils = {}
local utils = nn.utils

--- Converts all floating-point tensors in an object to the type `name`.
function utils.recursiveType(object, name, memo)
   return require "tlua.torch7.copying".convert(object, types.kind_named(name), memo)
end

-- Calls fn with each tensor in a tree of tables.
local function each(tree, fn)
   records.map(fn, tree)
   return tree
end

function utils.recursiveFill(tree, value)
   return each(tree, function(x)
      x:fill(value)
      return x
   end)
end

local function pairwise(name, fn)
   local function run(a, b, ...)
      if is_tensor(b) then
         a = is_tensor(a) and a or b.new()
         return fn(a, b, ...), b
      end
      a = type(a) == "table" and a or {a}
      for key in pairs(b) do a[key], b[key] = run(a[key], b[key], ...) end
      for key in pairs(a) do
         if b[key] == nil then a[key] = nil end
      end
      return a, b
   end
   utils[name] = run
end
pairwise("recursiveResizeAs", function(a, b) return a:resizeAs(b) end)
pairwise("recursiveCopy", function(a, b) return a:resizeAs(b):copy(b) end)

function utils.recursiveAdd(a, value, b)
   if b == nil then value, b = 1, value end
   if is_tensor(a) then return a:add(value, b), b end
   for key in pairs(a) do utils.recursiveAdd(a[key], value, b[key]) end
   return a, b
end

function utils.addSingletonDimension(x, d) return x:clone():unsqueeze(d or 1) end
function utils.contiguousView(result, x, ...)
   return result:view(x:contiguous(), ...)
end

--- Replaces the tensors in the named fields of an object by empty tensors of the same type.
function utils.clear(object, ...)
   local names = {...}
   if type(names[1]) == "table" then names = names[1] end
   for _, name in ipairs(names) do
      local value = object[name]
      if is_tensor(value) then
         value:set()
      elseif type(value) == "table" then
         object[name] = {}
      else
         object[name] = nil
      end
   end
   return object
end

-- StochasticGradient ------------------------------------------------------------------------------

local Trainer = classes.class "nn.StochasticGradient"

function Trainer:__init(module, criterion)
   self.module, self.criterion = module, criterion
   self.learningRate, self.learningRateDecay, self.maxIteration = 0.01, 0, 25
   self.shuffleIndices, self.verbose = true, true
end

local function say(self, ...)
   if self.verbose then print(...) end
end

--- Trains the module with one example after another of a dataset, which has size() and [i] =
--- {input, target}.
function Trainer:train(dataset)
   local module, criterion = self.module, self.criterion
   local rate, n = self.learningRate, dataset:size()
   local order = self.shuffleIndices and torch.randperm(n) or torch.range(1, n)
   say(self, "# StochasticGradient: training")
   local iteration = 1
   while true do
      local sum = 0
      for t = 1, n do
         local example = dataset[math.tointeger(order[t])]
         local input, target = example[1], example[2]
         sum = sum + criterion:forward(module:forward(input), target)
         module:updateGradInput(input, criterion:updateGradInput(module.output, target))
         module:accUpdateGradParameters(input, criterion.gradInput, rate)
         if self.hookExample then self:hookExample(example) end
      end
      sum = sum / n
      if self.hookIteration then self:hookIteration(iteration, sum) end
      say(self, "# current error = " .. sum)
      iteration = iteration + 1
      rate = self.learningRate / (1 + iteration * self.learningRateDecay)
      if self.maxIteration > 0 and iteration > self.maxIteration then
         say(self, "# StochasticGradient: you have reached the maximum number of iterations")
         say(self, "# training error = " .. sum)
         break
      end
   end
end

-- Jacobians ---------------------------------------------------------------------------------------

nn.Jacobian = require "tlua.torch7.nn_jacobian"
nn.SparseJacobian = nn.Jacobian.sparse
nn.hessian = require "tlua.torch7.nn_hessian"

return nn
