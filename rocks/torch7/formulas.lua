-- formulas.lua - computes the gradients of the most frequent layers of graphs with few operators.
-- For these layers, a formula replaces the autograd history of a call. A formula's function
-- `gradient` takes five arguments: the layer, its input, its output, the gradient of the output,
-- and a factor for the gradients of the parameters. It adds the parameters' gradients to the sums
-- in the layer. It returns the gradient of the input as new tensors, which may share memory with
-- others, or nil if the formula does not apply to the input.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local nn = require "tlua.torch7.nn"
local records = require "tlua.torch7.records"
local with_batch = require "tlua.torch7.nn_simple".with_batch
local feature_dim = require "tlua.torch7.nn_simple".feature_dim

local T = tlua
local field, methods, close, is_tensor = types.field, types.methods, types.close,
   types.is_tensor
local tag = types.tag
local compute_linear = tlua.nn.functional.linear

-- Layers with parameters --------------------------------------------------------------------------

local add_linear = records.accumulate[nn.Linear.compute]

local function linear(self, x, _, g, scale)
   local sizes = methods.dim(x) ~= 2 and field(x, "shape") or nil
   if sizes then
      local n = #sizes
      x, g = T.reshape(x, {-1, sizes[n]}), T.reshape(g, {-1, field(g, "shape")[n]})
   end
   add_linear(self, x, g, scale)
   local made = T.mm(g, self.weight)
   return sizes and T.reshape(made, sizes) or made
end

-- Tables of tensors -------------------------------------------------------------------------------

local function have_one_size(x)
   for k = 2, #x do
      if not T.is_same_size(x[1], x[k]) then return false end
   end
   return true
end

local function sum(_, x, _, g)
   if not have_one_size(x) then return nil end
   local made = {}
   for k = 1, #x do made[k] = T.detach(g) end
   return made
end

local function product(_, x, _, g)
   if #x ~= 2 or not have_one_size(x) then return nil end
   return {T.mul(g, x[2]), T.mul(g, x[1])}
end

local function split(self, x, y, g)
   local list = {}
   for k = 1, #y do list[k] = g[k] or T.zeros_like(y[k]) end
   return T.stack(list, with_batch(self.dimension, self.nInputDims, x))
end

-- Other layers ------------------------------------------------------------------------------------

local minus <const> = {value = -1}

-- The formulas below free their intermediate results at once. The next results then get the same
-- memory, which is still in the processor's cache.

local function tanh(_, _, y, g)
   local part = T.mul(g, y)
   local made = T.addcmul(g, part, y, minus)
   close(part)
   return made
end

local function sigmoid(_, _, y, g)
   local made = T.mul(g, y)
   return methods.addcmul_(made, made, y, minus)
end

local function log_softmax(_, x, y, g)
   local probabilities, sum_of_g = T.exp(y), T.sum(g, feature_dim(x), true)
   local made = T.addcmul(g, probabilities, sum_of_g, minus)
   close(probabilities)
   close(sum_of_g)
   return made
end

local function reshape(_, x, _, g) return T.detach(T.reshape(g, field(x, "shape"))) end

local function identity(_, _, _, g)
   return records.map(function(x) return is_tensor(x) and T.detach(x) or x end, g)
end

local by_compute = {}
for name, gradient in pairs {
   Linear = linear, CAddTable = sum, CMulTable = product, SplitTable = split, Tanh = tanh,
   Sigmoid = sigmoid, LogSoftMax = log_softmax, Reshape = reshape, View = reshape,
   Identity = identity,
} do
   by_compute[nn[name].compute] = {name = name, gradient = gradient,
      gives_list = name == "SplitTable", gives_input = name == "Identity"}
end

-- Functions of the steps that graph_code.lua writes -----------------------------------------------

local to = {CAddTable = T.add, CMulTable = T.mul}
local from = {}
function to.Linear(self, x) return compute_linear(x, self.weight, self.bias) end
for _, name in ipairs {"Sigmoid", "Tanh", "LogSoftMax", "Reshape", "View"} do
   to[name] = nn[name].compute
end
for _, name in ipairs {"Linear", "Sigmoid", "Tanh", "LogSoftMax", "Reshape", "View"} do
   from[name] = by_compute[nn[name].compute].gradient
end
-- If an input was freed to save memory, the argument `a` or `b` is false. Only inputs that have the
-- size of the sum are freed, so they need no check.
function from.CAddTable(a, b, g)
   if (not a or T.is_same_size(a, g)) and (not b or T.is_same_size(b, g)) then
      return T.detach(g), g
   end
end
function from.CMulTable(a, b, g)
   if T.is_same_size(a, b) then return T.mul(g, b), T.mul(g, a) end
end
function from.Identity(g) return g end

-- Gates: products of a Sigmoid's output and another factor, which may be a Tanh's output ----------

--- Computes a gate, sigmoid(a) * b, or with `squash` sigmoid(a) * tanh(b). Returns the product and
--- its two factors.
function to.gate(a, b, squash)
   local open, value = T.sigmoid(a), squash and tag(T.tanh(b)) or b
   return tag(T.mul(open, value)), tag(open), value
end

local floating <const> = {float16 = true, bfloat16 = true, float32 = true, float64 = true}

local function fit(a, b)
   local dtype = field(a, "dtype")
   return floating[dtype] and dtype == field(b, "dtype") and T.is_same_size(a, b)
end

--- Returns the gradients of sigmoid(a) * b with respect to a and b. With `squash`, b is the input
--- of tanh. `open` and `value` are the two factors, and g is the gradient of the product. Returns
--- nil if the factors differ in size or dtype.
function from.gate_back(g, open, value, squash)
   if fit(open, value) and fit(open, g) then return T._gate_backward(g, open, value, squash) end
end

return {
   --- Maps the function `compute` of a layer to the formula for its gradients.
   by_compute = by_compute,
   --- Maps a layer's name to the function that computes its output from the layer and its input,
   --- or from two inputs.
   to = to,
   --- Maps a layer's name to the function that computes the gradient of its input from the layer,
   --- its input, its output, the gradient of the output, and the factor. The functions of layers
   --- with two inputs take the inputs and the gradient of the output. They return two gradients, or
   --- nil if the inputs differ in size. A result may be the gradient of the output itself.
   from = from,
}
