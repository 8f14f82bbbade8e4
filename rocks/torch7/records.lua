-- records.lua - Records of the layers' calls. `updateOutput` records a layer's function on detached
-- inputs and parameters; the two halves of `backward` compute gradients from this record.

local tlua = require "tlua"
local types = require "tlua.torch7.types"

local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local detach, grad = tlua.detach, tlua.autograd.grad

local M = {}

-- Trees: a tensor, or a table of trees ------------------------------------------------------------

-- Returns the keys of a table: positions in ascending order, then names in ascending order.
local function keys_of(tree)
   local keys, n = {}, #tree
   for i = 1, n do keys[i] = i end
   for key in next, tree do
      if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
   end
   if #keys > n then
      local names = table.move(keys, n + 1, #keys, 1, {})
      table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
      table.move(names, 1, #names, n + 1, keys)
   end
   return keys
end

local function is_branch(tree) return type(tree) == "table" and not getmetatable(tree) end

local function map(fn, tree)
   if not is_branch(tree) then return fn(tree) end
   local made = {}
   for _, key in ipairs(keys_of(tree)) do made[key] = map(fn, tree[key]) end
   return made
end
M.map = map

local function flatten(tree, into)
   if not is_branch(tree) then
      into[#into + 1] = tree
      return into
   end
   for _, key in ipairs(keys_of(tree)) do flatten(tree[key], into) end
   return into
end

--- Gives a result Torch7's type; a tensor without dimensions becomes a vector of one element.
local function result(value)
   if not is_tensor(value) then return value end
   local made = detach(value)
   if #field(made, "shape") == 0 then made = tlua.unsqueeze(made, 1) end
   return types.tag(made)
end
M.result = result

-- Returns a tensor's version, a number that changes when the elements change.
local function version(x) return is_tensor(x) and field(x, "_version") or 0 end

-- Records
-- -------------------------------------------------------------------------------------------

-- The records of the layers' last calls: {leaves, parameters, output, inputs and their versions}.
-- Records are not fields of layers, so they are not saved to files.
local records = setmetatable({}, {__mode = "k"})

--- Forgets the record of a layer's last call.
function M.forget(self) records[self] = nil end

local function leaf(x)
   if not is_tensor(x) then return x end
   local made = detach(x)
   if tlua.is_floating_point(made) then made.requires_grad = true end
   return made
end

local function parameters_of(self)
   local list = {}
   for _, name in ipairs {"weight", "bias"} do
      local value = rawget(self, name)
      if is_tensor(value) and methods.numel(value) > 0 then list[#list + 1] = name end
   end
   return list
end

local empty <const> = {}

local function record(self, input)
   local leaves = map(leaf, input)
   local names = rawget(self, "weight") == nil and rawget(self, "bias") == nil and empty
      or parameters_of(self)
   local parameters = {}
   for _, name in ipairs(names) do parameters[name] = leaf(self[name]) end
   local output = self.compute(self, leaves, parameters.weight, parameters.bias)
   local inputs, versions = flatten(input, {}), {}
   for i, x in ipairs(inputs) do versions[i] = version(x) end
   local made = {leaves = leaves, names = names, parameters = parameters, output = output,
      inputs = inputs,
      versions = versions, parameter_versions = {}}
   for i, name in ipairs(names) do made.parameter_versions[i] = version(self[name]) end
   records[self] = made
   return made
end

-- Returns whether a record was made for these inputs and for the current versions of the
-- parameters.
local function is_current(self, made, input)
   local inputs = flatten(input, {})
   if #inputs ~= #made.inputs then return false end
   for i, x in ipairs(inputs) do
      if not rawequal(x, made.inputs[i]) or version(x) ~= made.versions[i] then return false end
   end
   for i, name in ipairs(made.names) do
      if version(self[name]) ~= made.parameter_versions[i] then return false end
   end
   return true
end

local function record_of(self, input)
   local made = records[self]
   if made and is_current(self, made, input) then return made end
   M.again = true
   made = record(self, input)
   M.again = false
   return made
end

-- Returns the outputs that have an autograd history, and the gradients of these outputs.
local function outputs_of(made, gradOutput)
   local outputs, given, kept, grads = flatten(made.output, {}), flatten(gradOutput, {}), {}, {}
   for i, output in ipairs(outputs) do
      if is_tensor(output) and field(output, "requires_grad") and is_tensor(given[i]) then
         local n = #kept + 1
         local g = given[i]
         local dtype = field(output, "dtype")
         if field(g, "dtype") ~= dtype then g = methods.to(g, dtype) end
         if not tlua.is_same_size(g, output) then
            if methods.numel(g) ~= methods.numel(output) then
               tlua.raise(("backward: gradOutput %d: expected %d elements, got %d"):format(i,
                  methods.numel(output), methods.numel(g)))
            end
            g = tlua.reshape(g, field(output, "shape"))
         end
         kept[n], grads[n] = output, g
      end
   end
   return kept, grads
end

-- Returns the gradient of each leaf; nil for a leaf without a gradient.
local function gradients(made, leaves, gradOutput)
   local outputs, grads = outputs_of(made, gradOutput)
   if #outputs == 0 or #leaves == 0 then return {} end
   return {grad(outputs, leaves, grads, {retain_graph = true, allow_unused = true})}
end

local function wanted(leaves, into)
   for _, x in ipairs(flatten(leaves, {})) do
      if is_tensor(x) and field(x, "requires_grad") then into[#into + 1] = x end
   end
   return into
end

-- Returns the inputs' gradients, taken from a list in the order of `wanted`.
local function input_gradients(made, list)
   local at = 0
   return map(function(x)
      if not is_tensor(x) then return x end
      if not field(x, "requires_grad") then return types.tag(tlua.zeros_like(x)) end
      at = at + 1
      return types.tag(list[at] or tlua.zeros_like(x))
   end, made.leaves), at
end

M.leaf, M.flatten, M.wanted, M.version = leaf, flatten, wanted, version
M.parameters_of, M.record, M.record_of = parameters_of, record, record_of
M.gradients, M.input_gradients = gradients, input_gradients

return M
