-- Node.lua - a node of a graph. It has an operator, the names of its inputs and outputs, and
-- attributes, whose types are checked when they are read. The functions that compute operators get
-- the node as their first argument.

local values = require "tlua.onnx.values"
local wire = require "tlua.onnx.wire"

---@class onnx.Node
---@field op function  the operator's function
---@field type string  the operator's name
---@field domain string
---@field version integer  the version of the domain's operators that the model asks for
---@field title string  the node in messages
---@field inputs (string|false)[]
---@field outputs (string|false)[]
---@field attributes table<string, {kind: string, value: any}>
---@field scope table  the values of the graph around, while a control-flow operator runs
local Node = {}
Node.__index = Node

--- Throws an error whose message names the node.
function Node:fail(format, ...) wire.fail("%s: " .. format, self.title, ...) end

local expected <const> = {
   f = "a float", i = "an int", s = "a string", t = "a tensor", g = "a graph", floats = "floats",
   ints = "ints", strings = "strings", tensors = "tensors", graphs = "graphs",
   sparse_tensor = "a sparse tensor", sparse_tensors = "sparse tensors", tp = "a type",
   type_protos = "types",
}

-- Returns a method that reads an attribute of one type. The method returns the attribute's value,
-- or `default` if the node does not have the attribute.
local function reader(kind)
   return function(self, name, default)
      local attribute = self.attributes[name]
      if not attribute then return default end
      if attribute.kind ~= kind then
         if type(attribute.value) == "table" and #attribute.value == 0 then return default end
         self:fail("attribute %s: expected %s, got %s", name, expected[kind],
            expected[attribute.kind])
      end
      return attribute.value
   end
end

Node.int, Node.float, Node.text, Node.tensor = reader "i", reader "f", reader "s", reader "t"
Node.ints, Node.floats, Node.texts = reader "ints", reader "floats", reader "strings"
Node.sparse, Node.graphs = reader "sparse_tensor", reader "graphs"
local graph = reader "g"

--- Returns a graph attribute, or throws an error if the node does not have it.
function Node:graph(name)
   return graph(self, name) or self:fail("attribute %s is missing", name)
end

--- Returns an attribute, or throws an error if the node does not have it.
function Node:need(kind, name)
   local value = self[kind](self, name)
   if value == nil then self:fail("attribute %s is missing", name) end
   return value
end

--- Returns whether the attribute exists.
function Node:has(name) return self.attributes[name] ~= nil end

--- Converts an axis to a dimension. Axes are the standard's: they count from 0. Dimensions count
--- from 1.
---@param axis integer
---@param rank integer
---@return integer dim
function Node:dim(axis, rank)
   if axis < -rank or axis >= rank then
      self:fail("axis: expected %d to %d, got %d", -rank, rank - 1, axis)
   end
   return axis < 0 and axis + rank + 1 or axis + 1
end

--- Converts a list of axes to dimensions.
function Node:dims(axes, rank)
   local list = {}
   for i, axis in ipairs(axes) do list[i] = self:dim(axis, rank) end
   return list
end

--- Returns the elements of a one-dimensional integer tensor as a list, or `default` if the tensor
--- is nil.
---@param tensor Tensor?
---@param default? integer[]
---@param name? string  the input's name in messages
---@return integer[]
function Node:list(tensor, default, name)
   if tensor == nil then return default end
   if type(tensor) ~= "userdata" or tensor:is_floating_point() and name ~= "floats"
      or tensor:dim() > 1 then
      self:fail("%s: expected a list of integers, got %s", name or "input",
         values.describe(tensor))
   end
   return tensor:dim() == 0 and {tensor:item()} or tensor:tolist()
end

--- Throws an error if two inputs that must have the same dtype do not.
function Node:same_dtype(a, b)
   if a.dtype ~= b.dtype then
      self:fail("expected inputs of one dtype, got %s and %s", values.describe(a),
         values.describe(b))
   end
end

return Node
