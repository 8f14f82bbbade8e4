-- nn_table.lua - Torch7's layers that take or return tables.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"
local with_batch = require "tlua.torch7.nn_simple".with_batch

local T = tlua
local field, is_tensor = types.field, types.is_tensor
local layer = base.layer

local function dims(x) return #field(x, "shape") end

layer("JoinTable", "dimension nInputDims=nil", function(self, x)
   return T.cat(x, with_batch(self.dimension, self.nInputDims, x[1]))
end)
layer("SplitTable", "dimension nInputDims=nil", function(self, x)
   return T.unbind(x, with_batch(self.dimension, self.nInputDims, x))
end)

local function place_in(list, index)
   return type(index) == "number" and index < 0 and #list + 1 + index or index
end
layer("SelectTable", "index", function(self, x)
   local value = x[place_in(x, self.index)]
   if value == nil then
      tlua.raise(("nn.SelectTable: there is no element %s"):format(tostring(self.index)))
   end
   return value
end)
layer("NarrowTable", "offset length=1", function(self, x)
   local first = place_in(x, self.offset)
   local last = self.length < 0 and #x + 1 + self.length or first + self.length - 1
   return table.move(x, first, last, 1, {})
end)
layer("FlattenTable", "", function(_, x) return records.flatten(x, {}) end)
layer("ZipTable", "", function(_, x)
   local made = {}
   for i = 1, #x[1] do
      made[i] = {}
      for k, list in ipairs(x) do made[i][k] = list[i] end
   end
   return made
end)
layer("ZipTableOneToMany", "", function(_, x)
   local made = {}
   for i, value in ipairs(x[2]) do made[i] = {x[1], value} end
   return made
end)

local function fold(name, fields, fn)
   layer(name, fields, function(_, x)
      local value = x[1]
      for i = 2, #x do value = fn(value, x[i]) end
      return value
   end)
end
fold("CAddTable", "inplace=false", T.add)
fold("CMulTable", "", T.mul)
fold("CSubTable", "", T.sub)
fold("CDivTable", "", T.div)
fold("CMaxTable", "", T.maximum)
fold("CMinTable", "", T.minimum)

-- These layers compare the rows of two tensors with one another. `last` returns the dimension along
-- which a row extends.
local function last(x) return dims(x) end
layer("DotProduct", "", function(_, x) return T.sum(T.mul(x[1], x[2]), last(x[1])) end)
layer("CosineDistance", "", function(_, x)
   local d = last(x[1])
   local dot = T.sum(T.mul(x[1], x[2]), d)
   local a = T.add(T.sum(T.square(x[1]), d), 1e-12)
   local b = T.add(T.sum(T.square(x[2]), d), 1e-12)
   return T.div(dot, T.sqrt(T.mul(a, b)))
end)
layer("PairwiseDistance", "norm", function(self, x)
   return T.linalg.vector_norm(T.sub(x[1], x[2]), self.norm, last(x[1]))
end)

-- MixtureTable: returns the sum of the outputs of experts, weighted by the output of a gating
-- network. The input is {weights, {expert, ...}} or {weights, experts}, with all experts in one
-- tensor.
layer("MixtureTable", "dim=nil", function(self, x)
   local gate, experts = x[1], x[2]
   local batch = dims(gate) > 1
   local d = self.dim or (batch and 2 or 1)
   if not is_tensor(experts) then experts = T.stack(experts, d) end
   local sizes = {}
   for i = 1, dims(experts) do sizes[i] = 1 end
   sizes[d] = field(gate, "shape")[dims(gate)]
   if batch then sizes[1] = field(gate, "shape")[1] end
   return T.sum(T.mul(experts, T.reshape(gate, sizes)), d)
end)
