-- Builder.lua - builds an ONNX graph node by node. The inputs have several examples, which differ
-- in their dynamic sizes. Each node is executed for all examples, by the functions that execute
-- loaded models. So the builder knows the shape and dtype of each value, and which of its sizes are
-- dynamic.

local torch = require "tlua"
local Node = require "tlua.onnx.Node"
local operators = require "tlua.onnx.operators"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"
local wire = require "tlua.onnx.wire"

---@class onnx.Value
---@field name string
---@field examples Tensor[]  the value for each example
---@field root onnx.Value?  for a view: the value whose memory it shows
---@class onnx.Builder
local Builder = {}
Builder.__index = Builder

--- Returns a builder of a graph for one version of the operator set.
---@param opset integer
---@param examples integer  the number of examples of the inputs
---@return onnx.Builder
function Builder.new(opset, examples)
   return setmetatable({opset = opset, examples = examples, nodes = {}, initializers = {},
      count = 0, sizes = {}, constants = {}, names = {}, by_name = {}}, Builder)
end

-- Returns a name that no other value of the graph has. It is `wanted` if this name is free.
local function fresh(self, wanted)
   local name = wanted
   while not name or self.names[name] do
      self.count = self.count + 1
      name = ("v%d"):format(self.count)
   end
   self.names[name] = true
   return name
end

-- Registers a value under its name, and returns the value.
local function known_value(self, value)
   self.by_name[value.name] = value
   return value
end

--- Adds an input.
function Builder:input(name, examples)
   return known_value(self, {name = fresh(self, name), examples = examples})
end

--- Adds a tensor to the file as an initializer, and returns its value. `name` is the wanted name;
--- another name is chosen if it is already taken.
function Builder:initializer(tensor, name)
   local value = {name = fresh(self, name), examples = support.fill(self.examples, tensor),
      constant = tensor}
   self.initializers[#self.initializers + 1] = {value.name, tensor}
   return known_value(self, value)
end

--- Returns a constant as an initializer. Equal constants with few elements are stored only once.
function Builder:const(data, dtype)
   local tensor = torch.is_tensor(data) and data or type(data) == "table" and #data == 0
      and torch.empty({0}, {dtype = dtype}) or torch.tensor(data, {dtype = dtype})
   if tensor:numel() > 64 then return self:initializer(tensor) end
   local flat = tensor:numel() > 0 and tensor:reshape(-1):tolist() or {}
   for i, number in ipairs(flat) do
      flat[i] = type(number) == "number" and ("%q"):format(number) or tostring(number)
   end
   local key = ("%s|%s|%s"):format(tensor.dtype, table.concat(tensor.shape, ","),
      table.concat(flat, ","))
   self.constants[key] = self.constants[key] or self:initializer(tensor)
   return self.constants[key]
end

local function attribute(name, value)
   if type(value) == "table" and value.node then return {name = name, type = 5, g = value} end
   if math.type(value) == "integer" then return {name = name, type = 2, i = value} end
   if math.type(value) == "float" then return {name = name, type = 1, f = value} end
   if type(value) == "string" then return {name = name, type = 3, s = value} end
   if torch.is_tensor(value) then return {name = name, type = 4, t = values.write(nil, value)} end
   if type(value[1]) == "string" then return {name = name, type = 8, strings = value} end
   for _, item in ipairs(value) do
      if math.type(item) == "float" then return {name = name, type = 6, floats = value} end
   end
   return {name = name, type = 7, ints = value}
end

-- Executes a node for one example, as a loaded model would, and returns its outputs.
local function run(self, node, inputs, example)
   local arguments = {}
   for i, input in ipairs(inputs) do arguments[i] = input and input.examples[example] or nil end
   local results = table.pack(pcall(node.op, node, table.unpack(arguments, 1, #inputs)))
   if not results[1] then
      local why = results[2]
      why = type(why) == "table" and why.onnx or tostring(why):gsub("^[^\n:]*:%d+: ", "")
      wire.fail("the call %s: %s", self.call or "?", why)
   end
   return table.move(results, 2, results.n, 1, {})
end

--- Adds a node, and returns its outputs.
---@param op string
---@param inputs (onnx.Value|false)[]
---@param attributes? table<string, any>
---@param count? integer  the number of outputs; 1 by default
---@return onnx.Value ...
function Builder:node(op, inputs, attributes, count)
   local node = setmetatable({type = op, domain = "", version = self.opset, attributes = {},
      title = op, inputs = {}, outputs = {}}, Node)
   node.op = operators.find("")[op]
   local proto = {op_type = op, input = {}, output = {}, attribute = {}}
   for name, value in pairs(attributes or {}) do
      local written = attribute(name, value)
      proto.attribute[#proto.attribute + 1] = written
      node.attributes[name] = {kind = schema.attribute_fields[written.type], value = value}
   end
   table.sort(proto.attribute, function(a, b) return a.name < b.name end)
   for i, input in ipairs(inputs) do
      node.inputs[i] = input and input.name or ""
      proto.input[i] = node.inputs[i]
   end
   local outputs = {}
   for i = 1, count or 1 do
      outputs[i] = known_value(self, {name = fresh(self), examples = {}})
      proto.output[i], node.outputs[i] = outputs[i].name, outputs[i].name
   end
   proto.name = ("%s_%d"):format(op, #self.nodes)
   for example = 1, self.examples do
      for i, result in ipairs(run(self, node, inputs, example)) do
         if outputs[i] then outputs[i].examples[example] = result end
      end
   end
   self.nodes[#self.nodes + 1] = proto
   return table.unpack(outputs)
end

-- Branches ----------------------------------------------------------------------------------------

--- Begins an inner graph. Its nodes may use the values of the outer graphs.
function Builder:enter()
   self.outer = {nodes = self.nodes, sizes = self.sizes, outer = self.outer}
   self.nodes, self.sizes = {}, table.move(self.sizes, 1, #self.symbols, 1, {})
end

-- Returns the ValueInfoProto that describes an input or output of an inner graph. Dynamic sizes
-- have no dim_value.
local function describe(self, value, name)
   local dims = {}
   for dim = 1, self:rank(value) do dims[dim] = {dim_value = self:known(value, dim)} end
   return {name = name, type = {tensor_type = {elem_type = schema.numbers[self:dtype(value)],
      shape = {dim = dims}}}}
end

--- Ends the inner graph, and returns it as a GraphProto. If it is a loop's body, its first two
--- inputs are the number of the iteration and the condition.
---@param name string
---@param results onnx.Value[]
---@param inputs? onnx.Value[]
function Builder:leave(name, results, inputs)
   local graph = {name = name, output = {}}
   for i, value in ipairs(results) do
      graph.output[i] = describe(self, value, self:node("Identity", {value}).name)
   end
   if inputs then
      inputs[1].examples = {torch.tensor(0, {dtype = "int64"})}
      inputs[2].examples = {torch.tensor(true)}
      graph.input = {}
      for i, input in ipairs(inputs) do graph.input[i] = describe(self, input, input.name) end
   end
   graph.node = self.nodes
   self.nodes, self.sizes, self.outer = self.outer.nodes, self.outer.sizes, self.outer.outer
   return graph
end

--- Adds a Loop node, and returns its outputs.
---@param pred onnx.Value  whether the first iteration runs
---@param carried onnx.Value[]
---@param body table  GraphProto
---@param results Tensor[][]  the outputs for each example
function Builder:loop(pred, carried, body, results)
   local outputs, proto = {}, {op_type = "Loop", input = {"", pred.name}, output = {}}
   proto.name, proto.attribute = ("Loop_%d"):format(#self.nodes), {attribute("body", body)}
   for i, value in ipairs(carried) do
      proto.input[i + 2] = value.name
      outputs[i] = known_value(self, {name = fresh(self), examples = {}})
      proto.output[i] = outputs[i].name
      for example = 1, self.examples do outputs[i].examples[example] = results[example][i] end
   end
   self.nodes[#self.nodes + 1] = proto
   return table.unpack(outputs)
end

--- Adds an If node, and returns its outputs. Each branch is given as an inner graph and the list of
--- its results.
function Builder:choose(pred, first, results, second, others)
   local outputs, proto = {}, {op_type = "If", input = {pred.name}, output = {}}
   proto.name = ("If_%d"):format(#self.nodes)
   proto.attribute = {attribute("else_branch", second), attribute("then_branch", first)}
   for i in ipairs(results) do
      outputs[i] = known_value(self, {name = fresh(self), examples = {}})
      proto.output[i] = outputs[i].name
      for example = 1, self.examples do
         local list = pred.examples[example]:item() and results or others
         outputs[i].examples[example] = list[i].examples[example]
      end
   end
   self.nodes[#self.nodes + 1] = proto
   return table.unpack(outputs)
end

-- Known shapes and values -------------------------------------------------------------------------

function Builder.rank(_, x) return x.examples[1]:dim() end
function Builder.dtype(_, x) return x.examples[1].dtype end
function Builder.is_float(_, x) return x.examples[1]:is_floating_point() end

--- Returns the size of dimension `dim`, counted from 1. Returns nil if the size is dynamic.
function Builder.known(_, x, dim)
   local size = x.examples[1]:size(dim)
   for _, example in ipairs(x.examples) do
      if example:size(dim) ~= size then return nil end
   end
   return size
end

--- Converts a dimension, counted from 1 or negative, to an axis, counted from 0.
function Builder:axis(x, dim)
   return dim < 0 and dim + self:rank(x) or dim - 1
end

--- Returns the size of a dimension as a value of the graph, int64 of shape {1}.
function Builder:size(x, dim)
   local known = self:known(x, dim)
   if known then return self:const({known}, "int64") end
   local shape = self:node("Shape", {x})
   return self:node("Slice", {shape, self:const({dim - 1}, "int64"), self:const({dim}, "int64")})
end

--- Returns an integer argument of a call. It is a Lua number, or, if it depends on dynamic sizes, a
--- value of shape {1}.
function Builder:integer(argument)
   if type(argument) ~= "table" or not argument.factors then return argument end
   local sum = argument.base ~= 0 and self:const({argument.base}, "int64") or nil
   local function add(factor, symbols)
      if factor == 0 then return end
      local part = factor ~= 1 and self:const({factor}, "int64") or nil
      for _, i in ipairs(symbols) do
         local symbol = self.symbols[i]
         self.sizes[i] = self.sizes[i] or self:size(symbol.value, symbol.dim)
         part = part and self:node("Mul", {part, self.sizes[i]}) or self.sizes[i]
      end
      sum = sum and self:node("Add", {sum, part}) or part
   end
   for i, factor in ipairs(argument.factors) do add(factor, {i}) end
   for _, term in ipairs(argument.terms or {}) do add(term.factor, term) end
   return sum or self:const({argument.base}, "int64")
end

--- Returns the number that an integer argument has for one example.
function Builder:example_integer(argument, example)
   if type(argument) ~= "table" or not argument.factors then return argument end
   local sum = argument.base
   local function add(factor, symbols)
      for _, i in ipairs(symbols) do
         local symbol = self.symbols[i]
         factor = factor * symbol.value.examples[example]:size(symbol.dim)
      end
      sum = sum + factor
   end
   for i, factor in ipairs(argument.factors) do
      if factor ~= 0 then add(factor, {i}) end
   end
   for _, term in ipairs(argument.terms or {}) do add(term.factor, term) end
   return sum
end

--- Concatenates the items of a list into one int64 value. An item is an integer or a value of shape
--- {1}.
function Builder:ints(list)
   local parts, plain = {}, true
   for i, item in ipairs(list) do
      parts[i] = self:integer(item)
      plain = plain and math.type(parts[i]) == "integer"
   end
   if plain then return self:const(parts, "int64") end
   for i, part in ipairs(parts) do
      if math.type(part) == "integer" then parts[i] = self:const({part}, "int64") end
   end
   return #parts == 1 and parts[1] or self:node("Concat", parts, {axis = 0})
end

--- Returns an integer argument that must be constant. Raises an error if it depends on dynamic
--- sizes.
function Builder.fixed(_, argument, what)
   if type(argument) == "table" and argument.factors then
      wire.fail("%s depends on a dynamic size, which ONNX cannot express", what)
   end
   return argument
end

-- Nodes that many translations need ---------------------------------------------------------------

function Builder:cast(x, dtype)
   if self:dtype(x) == dtype then return x end
   return self:node("Cast", {x}, {to = schema.numbers[dtype]})
end

function Builder:number(value, dtype)
   if dtype == "bool" then value = value ~= 0 and value ~= false end
   if dtype:find "^u?int" then value = math.tointeger(value) or value end
   return self:const(value, dtype)
end

function Builder:unsqueeze(x, axes)
   return self:node("Unsqueeze", {x, self:const(axes, "int64")})
end
function Builder:squeeze(x, axes) return self:node("Squeeze", {x, self:const(axes, "int64")}) end

--- Adds a node that reshapes x. A size of 0 in the list keeps the input's size at this place,
--- unless `zeros` is true.
function Builder:reshape(x, list, zeros)
   return self:node("Reshape", {x, self:ints(list)}, zeros and {allowzero = 1} or nil)
end

function Builder:transpose(x, perm)
   for i, axis in ipairs(perm) do
      if axis ~= i - 1 then return self:node("Transpose", {x}, {perm = perm}) end
   end
   return x
end

--- Adds a node that takes a slice along an axis. Positions count from 0. If `last` is nil, the
--- slice reaches to the end.
function Builder:slice(x, axis, first, last, step)
   return self:node("Slice", {x, self:ints {first}, self:ints {last or math.maxinteger},
      self:const({axis}, "int64"), step and step ~= 1 and self:const({step}, "int64") or nil})
end

--- Adds a node that reduces axes. Old versions of operators take the axes as an attribute instead
--- of an input.
function Builder:reduce(op, x, axes, keep)
   local attributes = {keepdims = keep and 1 or 0}
   if op == "ReduceSum" or self.opset >= 18 then
      return self:node(op, {x, axes and self:const(axes, "int64") or nil}, attributes)
   end
   attributes.axes = axes
   return self:node(op, {x}, attributes)
end

--- Splits an axis into parts of the given lengths, and returns the parts.
function Builder:split(x, axis, lengths)
   return {self:node("Split", {x, self:const(lengths, "int64")}, {axis = axis}, #lengths)}
end

--- Adds a recurrent layer. `relu` is the number of directions if their activation is Relu, and nil
--- if it is the default.
function Builder:recurrent(kind, inputs, attributes, relu)
   if relu then attributes.activations = relu == 2 and {"Relu", "Relu"} or {"Relu"} end
   return self:node(kind, inputs, attributes, kind == "LSTM" and 3 or 2)
end

--- Records that `value` is a view of the memory of the value `of`, perhaps with other strides.
function Builder.view(_, value, of)
   value.root = of.root or of
   return value
end

Builder.product = support.product

return Builder
