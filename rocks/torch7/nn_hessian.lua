-- nn_hessian.lua - nn.hessian: approximates the diagonal of a loss's second derivatives, as LeCun
-- did. For a layer with inputs x and outputs y, let h be the second derivatives with respect to y.
-- The layer passes sum((dy/dx)^2 h), summed over y, back to its inputs. It adds the same
-- expression, with a parameter in place of x, to the diagonal of each parameter.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"

local T = tlua
local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local nn = base.nn

local M = {}

-- The outputs of these layers are sums of products of an input and a weight. So the sums of squares
-- are computed by the layer itself, with squared inputs or weights. In convolutions the sums extend
-- over all positions.
local linear, pointwise = {}, {}
for name in ([[Linear LinearNoBias SparseLinear TemporalConvolution SpatialConvolution
   SpatialConvolutionMM SpatialConvolutionMap SpatialFullConvolution SpatialSubSampling CMul Mul Add
   CAdd SpatialDilatedConvolution VolumetricConvolution]]):gmatch "%w+" do
   linear["nn." .. name] = true
end
for name in ([[Tanh Sigmoid ReLU ReLU6 Threshold Square Sqrt Abs Exp Log HardTanh LogSigmoid
   SoftPlus SoftSign TanhShrink SoftShrink HardShrink ELU LeakyReLU Power AddConstant MulConstant
   Clamp Identity]]):gmatch "%w+" do
   pointwise["nn." .. name] = true
end

local function leaf(x, square)
   if x == nil then return nil end
   local made = square and T.square(T.detach(x)) or T.clone(T.detach(x))
   made.requires_grad = true
   return made
end

local function like(g, x) return types.tag(T.reshape(g, field(x, "shape"))) end

-- Returns the product of h and the Jacobian of a layer, with respect to its input and to its
-- parameters. With `square`, inputs and weights are squared first.
local function products(self, input, h, square)
   local x, w, b = leaf(input, square), leaf(rawget(self, "weight"), square),
      leaf(rawget(self, "bias"))
   local y = self.compute(self, x, w, b)
   local leaves = {x}
   if w then leaves[#leaves + 1] = w end
   if b then leaves[#leaves + 1] = b end
   local list = {T.autograd.grad({y}, leaves, {T.reshape(T.detach(h), field(y, "shape"))},
      {allow_unused = true})}
   return list[1] or T.zeros_like(x), w and list[2], b and list[w and 3 or 2]
end

-- Returns the sums of squares for any layer. It is slow, because it differentiates one output after
-- another.
local function exact(self, input, h)
   local flat = methods.contiguous(T.reshape(T.detach(h), {-1}))
   local total
   for i = 1, methods.numel(flat) do
      local one = T.zeros_like(flat)
      one[i] = 1.0
      local scale = methods.item(flat[i])
      local row = products(self, input, T.reshape(one, field(h, "shape")))
      local part = T.mul(T.square(row), scale)
      total = total and T.add(total, part) or part
   end
   return total
end

local function layer_input(self, input, h)
   local name = classes.type(self)
   if linear[name] then return (products(self, input, h, true)) end
   if pointwise[name] then
      local slope = products(self, input, T.ones_like(h))
      return T.mul(T.square(slope), T.reshape(T.detach(h), field(slope, "shape")))
   end
   if not self.compute or not is_tensor(input) then
      tlua.raise(("nn.hessian: there is no rule for %s"):format(name))
   end
   return exact(self, input, h)
end

local function update_input(self, input, h)
   self.diagHessianInput = like(layer_input(self, input, h), input)
   return self.diagHessianInput
end

local function add_parameters(self, input, h)
   if not records.has_parameters(self) then return end
   if not linear[classes.type(self)] then
      tlua.raise(("nn.hessian: there is no rule for the parameters of %s"):format(
         classes.type(self)))
   end
   local _, w, b = products(self, input, h, true)
   self:initDiagHessianParameters()
   if w then T.add_(self.diagHessianWeight, w) end
   if b then T.add_(self.diagHessianBias, b) end
end

local function init_parameters(self)
   for field_name, name in pairs {diagHessianWeight = "weight", diagHessianBias = "bias"} do
      local x = rawget(self, name)
      if x and not rawget(self, field_name) then self[field_name] = x:clone():zero() end
   end
end

-- Passes h back through a chain of modules, from the last to the first, by calling `method` of each
-- module.
local function each_of_chain(self, input, h, method)
   for i = #self.modules, 1, -1 do
      local module = self.modules[i]
      local x = i > 1 and self.modules[i - 1].output or input
      module[method](module, x, h)
      h = module.diagHessianInput
   end
   self.diagHessianInput = h
   return h
end

-- Defines how the criterion `name` computes its second derivatives: fn(self, input, target) returns
-- them.
local function criterion(name, fn)
   nn[name].updateDiagHessianInput = function(self, input, target)
      self.diagHessianInput = fn(self, input, target)
      return self.diagHessianInput
   end
end

local enabled = false

--- Adds methods to all modules: updateDiagHessianInput(input, h), accDiagHessianParameters(input,
--- h), initDiagHessianParameters() and zeroDiagHessianParameters(). Adds
--- updateDiagHessianInput(input, target) to MSECriterion and WeightedMSECriterion. After
--- initDiagHessianParameters, getParameters also returns the diagonal.
function M.enable()
   if enabled then return end
   enabled = true
   local Module = nn.Module
   Module.updateDiagHessianInput = update_input
   Module.accDiagHessianParameters = add_parameters
   function Module:initDiagHessianParameters()
      init_parameters(self)
      for _, module in ipairs(rawget(self, "modules") or {}) do
         module:initDiagHessianParameters()
      end
   end
   function Module:zeroDiagHessianParameters()
      self:initDiagHessianParameters()
      self:apply(function(module)
         if rawget(module, "diagHessianWeight") then module.diagHessianWeight:zero() end
         if rawget(module, "diagHessianBias") then module.diagHessianBias:zero() end
      end)
   end
   local Sequential = nn.Sequential
   function Sequential:updateDiagHessianInput(input, h)
      return each_of_chain(self, input, h, "updateDiagHessianInput")
   end
   function Sequential:accDiagHessianParameters(input, h)
      for i = #self.modules, 1, -1 do
         local module = self.modules[i]
         module:accDiagHessianParameters(i > 1 and self.modules[i - 1].output or input, h)
         h = module.diagHessianInput
      end
   end
   criterion("MSECriterion", function(self, input)
      return input:clone():fill(self.sizeAverage and 2 / input:nElement() or 2)
   end)
   criterion("WeightedMSECriterion", function(self, input)
      local factor = self.sizeAverage and 2 / input:nElement() or 2
      return self.weight:clone():mul(factor):expandAs(input):clone()
   end)
   local getParameters = Module.getParameters
   function Module:getParameters()
      local list = {}
      self:apply(function(module)
         for _, name in ipairs {"diagHessianWeight", "diagHessianBias"} do
            if rawget(module, name) then list[#list + 1] = module[name] end
         end
      end)
      local weights, grads = getParameters(self)
      if #list == 0 then return weights, grads end
      return weights, grads, Module.flatten(list)
   end
end

return M
