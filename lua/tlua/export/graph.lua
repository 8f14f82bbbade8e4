-- graph.lua - the graph of a program as nodes in Lua, which can be walked and rewritten. A graph is
-- made from the text that describes a program in its file (src/graph/file.h), and becomes a program
-- again through such a text; so a rewritten graph is checked as a file is.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"

local null <const> = json.null

-- Sizes -------------------------------------------------------------------------------------------

-- An integer argument that is a constant, `base`, plus terms of dynamic sizes. `hole` describes the
-- terms as the file does. If the integer is a dimension or a position, `base` counts from 1.
local Size = {}
Size.__index = Size
Size.__name = "export.Size"
function Size:__tostring()
   if self.text == "" then return tostring(self.base) end
   if self.base == 0 then return self.text end
   return ("%s %s %d"):format(self.text, self.base < 0 and "-" or "+", math.abs(self.base))
end

local function product_text(factor, names)
   if factor ~= 1 then table.insert(names, 1, tostring(factor)) end
   return table.concat(names, " * ")
end

local function size_of(hole, symbols)
   local parts = {}
   for s, factor in ipairs(hole[5]) do
      if factor ~= 0 then parts[#parts + 1] = product_text(factor, {symbols[s][1]}) end
   end
   for _, term in ipairs(hole[6] or {}) do
      local names = {}
      for _, s in ipairs(term[2]) do names[#names + 1] = symbols[s + 1][1] end
      parts[#parts + 1] = product_text(term[1], names)
   end
   return setmetatable({hole = hole, base = hole[4], text = table.concat(parts, " + ")}, Size)
end

-- Returns the value of a Size in the exported call. Dimensions and positions count from 1.
-- `symbols` describes the dynamic sizes.
local function example_of(size, symbols)
   local hole, sum = size.hole, size.base
   for s, factor in ipairs(hole[5]) do sum = sum + factor * symbols[s][2] end
   for _, term in ipairs(hole[6] or {}) do
      local product = term[1]
      for _, s in ipairs(term[2]) do product = product * symbols[s + 1][2] end
      sum = sum + product
   end
   return sum
end

local function is_size(value) return getmetatable(value) == Size end

-- Infinities and NaN, which do not exist in JSON, are strings in the file.
local from_text <const> = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

local function to_text(value)
   if math.type(value) ~= "float" then return value end
   if value ~= value then return "nan" end
   return value == math.huge and "inf" or value == -math.huge and "-inf" or value
end

-- Nodes -------------------------------------------------------------------------------------------

--- A node of a program's graph: an input, a constant, a call of an operator, or the output. Nodes
--- are made by program:graph() and graph:create_node.
---
---     local function fn(x) return x:tanh() end
---     local graph = torch.export(fn, {torch.ones(3)}):graph()
---     local node = graph.nodes[2]
---     print(node.op, node.target, node.args.self, node:users()[1])
---     --> call_function	tanh	x	output
---@class export.Node
---@field op string  "placeholder", "get_attr", "call_function" or "output"
---@field target string  the name of the input, of the constant, or of the operator
---@field args table  of a call, the arguments by name: nodes, lists of nodes, or plain data, where
--- dimensions and positions count from 1; of the output, the list of nodes that the program returns
---@field name string  a name that no other node of the graph has
---@field graph export.Graph  the graph to which the node belongs
---@field meta table  shape, dtype and device of the result, once graph:propagate has run
local Node = class.class "export.Node"

function Node:__init() -- luacheck: ignore self
   torch.raise "export.Node: use graph:create_node(op, target, args)"
end

function Node:__tostring() return self.name end

local function is_node(value) return class.isinstance(value, Node) end

-- Calls fn(node, container, key) for each node among the arguments of a node.
local function each_input(node, fn)
   for key, value in pairs(node.args) do
      if is_node(value) then
         fn(value, node.args, key)
      elseif type(value) == "table" and not is_size(value) then
         for i, item in pairs(value) do
            if is_node(item) then fn(item, value, i) end
         end
      end
   end
end

--- Returns the nodes that have this node as an argument, in the graph's order.
---@return export.Node[]
function Node:users()
   local list = {}
   for _, node in ipairs(self.graph.nodes) do
      local uses = false
      each_input(node, function(input) uses = uses or input == self end)
      if uses then list[#list + 1] = node end
   end
   return list
end

--- Replaces this node by another one in the arguments of all nodes.
---@param other export.Node  a node of the same graph
---@return integer count  the number of arguments that were replaced
function Node:replace_all_uses_with(other)
   if not is_node(other) or other.graph ~= self.graph then
      args.refuse("export.Node.replace_all_uses_with", "other", "a node of the same graph", other)
   end
   local count = 0
   for _, node in ipairs(self.graph.nodes) do
      each_input(node, function(input, container, key)
         if input == self and node ~= other then
            container[key], count = other, count + 1
         end
      end)
   end
   return count
end

-- Graphs ------------------------------------------------------------------------------------------

--- The graph of a program as a list of nodes in the order in which the program runs them. A node
--- with several results is followed by nodes whose target is `getitem`, one for each result.
---
---     local function fn(x) return x:tanh() end
---     local graph = torch.export(fn, {torch.ones(2)}):graph()
---     local x, tanh = graph.nodes[1], graph.nodes[2]
---     local made = graph:create_node("call_function", "sigmoid", {self = x})
---     tanh:replace_all_uses_with(made)
---     graph:erase_node(tanh)
---     print(graph:program()(torch.zeros(2)))
---     --> tensor([0.5000, 0.5000])
---@class export.Graph
---@field nodes export.Node[]  the nodes, each after its arguments
local Graph = class.class "export.Graph"

function Graph:__init() -- luacheck: ignore self
   torch.raise "export.Graph: use program:graph()"
end

local function position_of(graph, node, title)
   for i, other in ipairs(graph.nodes) do
      if other == node then return i end
   end
   args.refuse(title, "node", "a node of this graph", node)
end

local function free_name(graph, name)
   local taken = {}
   for _, node in ipairs(graph.nodes) do taken[node.name] = true end
   local try, i = name, 1
   while taken[try] do try, i = ("%s_%d"):format(name, i), i + 1 end
   return try
end

local function add(graph, at, op, target, given, name)
   local node = setmetatable({}, Node)
   node.op, node.target, node.args, node.graph = op, target, given, graph
   node.name, node.meta = free_name(graph, name or target), {}
   table.insert(graph.nodes, at, node)
   return node
end

local function is_tensor_kind(kind) return kind == "TENSOR" or kind == "OPERAND" end

-- Kinds of arguments that are dimensions or positions. They count from 0 in the file, and from 1 in
-- a graph's nodes. Negative numbers count from the end in both.
local counts <const> = {DIM = true, INDEX = true, DIMS = true, INDICES = true, DIM_LISTS = true}

local function from_0(kind, value)
   return counts[kind] and math.type(value) == "integer" and value >= 0 and value + 1 or value
end

local function from_1(kind, value)
   if counts[kind] and value == 0 then
      torch.raise "export.Graph.program: expected dimensions and positions from 1, got 0"
   end
   return counts[kind] and math.type(value) == "integer" and value > 0 and value - 1 or value
end

-- Changes a Size that was read from the file so that it counts from 1 if `kind` is a dimension or a
-- position. `value` is its value in the exported call. Returns the Size.
local function size_from_0(kind, value, size)
   size.base = size.base + (from_0(kind, value) - value)
   return size
end

-- Converts an argument from the file's form to a value of Lua. `holes` maps positions in the
-- argument, a list, to the Sizes at these positions. If the whole argument is a Size, this is
-- holes[0].
local function read_arg(kind, value, values, holes)
   if value == null then return nil end
   if is_tensor_kind(kind) then return values[value] end
   if holes and holes[0] then return size_from_0(kind, value, holes[0]) end
   local real = kind == "NUMBER" or kind == "FLOAT" or kind == "FLOATS"
   if type(value) ~= "table" then return real and from_text[value] or from_0(kind, value) end
   local list = {}
   for i, item in ipairs(value) do
      local size = holes and holes[i]
      if size then size_from_0(kind, item, size) end
      if real then item = from_text[item] or item else item = from_0(kind, item) end
      list[i] = size or kind == "TENSORS" and (item == null and null or values[item]) or item
   end
   return list
end

-- Returns the Sizes among the arguments of calls as a table calls[call][parameter][element], whose
-- keys count from 1, and the Sizes among the numbers that calls pass in place of tensors.
local function holes_of(description)
   local calls, numbers = {}, {}
   for _, hole in ipairs(description.holes) do
      local size = size_of(hole, description.symbols)
      if hole[1] == null then
         numbers[hole[2] + 1] = size
      else
         local call = calls[hole[1] + 1] or {}
         calls[hole[1] + 1] = call
         call[hole[2] + 1] = call[hole[2] + 1] or {}
         call[hole[2] + 1][hole[3] == null and 0 or hole[3] + 1] = size
      end
   end
   return calls, numbers
end

local function read_call(graph, call, values, holes, next_value)
   local parameters = torch._operator_parameters(call[1])
   local given = {}
   for p, parameter in ipairs(parameters) do
      given[parameter.name] = read_arg(parameter.kind, call[2][p], values, holes and holes[p])
   end
   local node = add(graph, #graph.nodes + 1, "call_function", call[1], given)
   node.results = call[3]
   for i = 1, call[3] do
      values[next_value + i - 1] = call[3] == 1 and node or
         add(graph, #graph.nodes + 1, "call_function", "getitem", {input = node, index = i})
   end
   return next_value + call[3]
end

--- Returns the graph of a program; program:graph() is the same.
local function graph_of(handle)
   local description = json.decode(handle:describe())
   local graph = setmetatable({nodes = {}, description_ = description, constants_ = {},
      device_ = handle:device(), limits_ = {handle:limits()}}, Graph)
   local values, next_value = {}, 0
   local function put(value)
      values[next_value] = value
      next_value = next_value + 1
   end
   for _, input in ipairs(description.inputs) do
      put(add(graph, #graph.nodes + 1, "placeholder", input[1], {}))
   end
   for _, pair in ipairs(handle:constants()) do
      graph.constants_[pair[1]] = pair[2]
      put(add(graph, #graph.nodes + 1, "get_attr", pair[1], {}))
   end
   local holes, number_holes = holes_of(description)
   for i, number in ipairs(description.numbers) do
      put(number_holes[i] or from_text[number] or number)
   end
   for i, call in ipairs(description.calls) do
      next_value = read_call(graph, call, values, holes[i], next_value)
   end
   local outputs = {}
   for i, value in ipairs(description.outputs) do outputs[i] = values[value] end
   add(graph, #graph.nodes + 1, "output", "output", outputs)
   return graph
end

-- Returns whether a node is one of the graph's outputs.
function Graph:_returns(node)
   for _, output in ipairs(self.nodes[#self.nodes].args) do
      if output == node then return true end
   end
   return false
end

--- Makes a node. A call is placed before the output, or at the place that inserting_before or
--- inserting_after has set.
---@param op string  "call_function", or "get_attr" for a constant
---@param target string  the operator's name, as print(program) shows it, or the constant's
---@param given table|Tensor  the arguments by name, or the constant's tensor
---@param name? string  the node's name, by default the target; a number is added if it is taken
---@return export.Node
function Graph:create_node(op, target, given, name)
   local title <const> = "export.Graph.create_node"
   if type(target) ~= "string" then args.refuse(title, "target", "a name", target) end
   if op == "get_attr" then
      if not torch.is_tensor(given) then args.refuse(title, "given", "a tensor", given) end
      if self.constants_[target] then
         torch.raise(("%s: target: the graph has a constant %s"):format(title, target))
      end
      self.constants_[target] = given:detach():contiguous()
      return add(self, 1, op, target, {}, name)
   elseif op ~= "call_function" then
      args.refuse(title, "op", '"call_function" or "get_attr"', op)
   end
   local parameters, results = torch._operator_parameters(target)
   if not parameters then
      torch.raise(("%s: target: programs have no operator %s"):format(title, target))
   end
   local known = {}
   for _, parameter in ipairs(parameters) do known[parameter.name] = true end
   if type(given) ~= "table" then args.refuse(title, "given", "arguments by name", given) end
   for key in pairs(given) do
      if not known[key] then args.unknown_option(title .. ": " .. target, key, known) end
   end
   if results ~= 1 then
      torch.raise(("%s: target: expected an operator with one result, got %s"):format(title,
         target))
   end
   local at = self.before_ and position_of(self, self.before_, title) or #self.nodes
   local node = add(self, at, op, target, given, name)
   node.results = 1
   return node
end

--- Makes create_node insert nodes before the given node from now on.
---@param node? export.Node  the output by default
---@return export.Graph self
function Graph:inserting_before(node)
   if node ~= nil then position_of(self, node, "export.Graph.inserting_before") end
   self.before_ = node
   return self
end

--- Makes create_node insert nodes after the given node from now on.
---@param node export.Node
---@return export.Graph self
function Graph:inserting_after(node)
   local at = position_of(self, node, "export.Graph.inserting_after")
   self.before_ = self.nodes[at + 1] or node
   return self
end

-- The operators that mark the branches of torch.cond and the loops of torch.while_loop.
local marks <const> = {cond_begin = true, cond_else = true, cond_end = true, loop_begin = true,
   loop_test = true, loop_end = true}

--- Removes a node that no other node uses.
---@param node export.Node
function Graph:erase_node(node)
   local at = position_of(self, node, "export.Graph.erase_node")
   if node.op == "output" or node.op == "placeholder" then
      torch.raise(("export.Graph.erase_node: expected a call or a constant, got %s"):format(
         node.op))
   end
   if marks[node.target] then
      torch.raise(("export.Graph.erase_node: %s marks a branch or a loop, and must stay"):format(
         node.name))
   end
   local user = node:users()[1]
   if user then
      torch.raise(("export.Graph.erase_node: %s is an argument of %s"):format(node.name, user.name))
   end
   if self.before_ == node then self.before_ = self.nodes[at + 1] end
   table.remove(self.nodes, at)
   if node.op == "get_attr" then self.constants_[node.target] = nil end
end

-- Returns whether a call must stay even if its result is unused: it changes a tensor (its name ends
-- in "_"), or it marks a branch or a loop.
local function stays(node)
   return node.op == "call_function" and (node.target:sub(-1) == "_" or marks[node.target])
end

--- Removes unused calls and constants. Calls that change tensors stay, and so do the marks of
--- branches and loops.
---@return integer count  the number of nodes that were removed
function Graph:eliminate_dead_code()
   local count = 0
   for i = #self.nodes, 1, -1 do
      local node = self.nodes[i]
      local removable = node.op == "get_attr" or node.op == "call_function" and not stays(node)
      if removable and #node:users() == 0 then
         self:erase_node(node)
         count = count + 1
      end
   end
   return count
end

--- Replaces each match of a pattern by other calls, if no call outside the match uses a result
--- inside it. Pattern and replacement are graphs of exported functions with the same inputs, one
--- result and fixed sizes. An input of the pattern matches any node, a number matches itself, and a
--- constant matches a constant with equal values; a model's parameter matches itself alone. Sizes
--- are not compared.
---
---     local x = torch.ones(2)
---     local function slow(a, b) return a * b + 1 end
---     local function fast(a, b) return torch.addcmul(torch.ones(2), a, b) end
---     local function graph_of(fn) return torch.export(fn, {x, x}):graph() end
---     local function f(y) return slow(y, y) * 3 end
---     local graph = torch.export(f, {x}):graph()
---     print(graph:replace_pattern(graph_of(slow), graph_of(fast)))
---     print(graph:program()(x))
---     --> 1
---     --> tensor([6., 6.])
---@param pattern export.Graph
---@param replacement export.Graph
---@return integer count  the number of replacements
function Graph:replace_pattern(pattern, replacement)
   return require "tlua.export.patterns"(self, function(graph, before, ...)
      return add(graph, position_of(graph, before, "export.Graph.replace_pattern"), ...)
   end, pattern, replacement)
end

--- Runs the graph with example inputs, and stores the shape, dtype and device of each result in the
--- field `meta` of its node. Nodes that are made later have an empty `meta`.
---
---     local function fn(x) return x:sum(1) end
---     local x = torch.ones(2, 3)
---     local graph = torch.export(fn, {x}):graph():propagate(x)
---     print(graph.nodes[2], graph.nodes[2].meta.shape)
---     --> sum	torch.Size([3])
---@param ... Tensor|table  arguments like those of the exported call
---@return export.Graph self
function Graph:propagate(...) return require "tlua.export.shapes"(self, ...) end

-- Raises an error unless programs may call a node's operator, and the operator takes its arguments.
local function check_call(node)
   local title <const> = "export.Graph.lint: " .. node.name
   local parameters = torch._operator_parameters(node.target)
   if not parameters then
      torch.raise(("%s: programs have no operator %s"):format(title, tostring(node.target)))
   end
   local known = {}
   for _, parameter in ipairs(parameters) do known[parameter.name] = true end
   for name in pairs(node.args) do
      if not known[name] then args.unknown_option(title, name, known) end
   end
end

--- Raises an error unless each node comes after its arguments, all nodes belong to the graph, and
--- operators have their arguments' names.
function Graph:lint()
   local seen = {}
   for _, node in ipairs(self.nodes) do
      if node.results then check_call(node) end
      each_input(node, function(input)
         if not seen[input] then
            torch.raise(("export.Graph.lint: %s has the argument %s, which %s"):format(node.name,
               input.name, input.graph == self and "does not come before it"
               or "belongs to another graph"))
         end
      end)
      seen[node] = true
   end
end

function Graph:__tostring()
   local lines = {}
   for _, node in ipairs(self.nodes) do
      lines[#lines + 1] = ("%s = %s %s"):format(node.name, node.op, node.target)
   end
   return table.concat(lines, "\n")
end

-- Programs ----------------------------------------------------------------------------------------

-- Builds the description of a graph in the file's form.
local Writer = {}
Writer.__index = Writer

-- Returns an integer of an argument in the file's form. If it is a Size, returns its value in the
-- exported call, and appends the description of the Size to self.holes.
function Writer:integer(kind, value, call, parameter, element)
   if not is_size(value) then return to_text(from_1(kind, value)) end
   local hole, example = value.hole, example_of(value, self.symbols)
   local integer = from_1(kind, example)
   table.insert(self.holes, json.as_array {call, parameter, element,
      value.base + integer - example, hole[5], hole[6]})
   return integer
end

-- Returns the index that the file gives to a value: to a node, or to a number that is passed in
-- place of a tensor.
function Writer:value(node, parameter, value)
   if value == null then return null end
   if is_node(value) then return self.values[value] end
   local number = self.numbers_of[node] and self.numbers_of[node][parameter]
   return number and self.first_number + number
end

-- Collects the numbers that calls pass in place of tensors.
function Writer:collect_numbers(nodes)
   for _, node in ipairs(nodes) do
      for _, parameter in ipairs(node.results and torch._operator_parameters(node.target) or {}) do
         local value = node.args[parameter.name]
         local is_number = type(value) == "number" or type(value) == "boolean" or is_size(value)
         if is_tensor_kind(parameter.kind) and is_number then
            local at = #self.numbers
            self.numbers[at + 1] = self:integer(parameter.kind, value, null, at, null)
            self.numbers_of[node] = self.numbers_of[node] or {}
            self.numbers_of[node][parameter.name] = at
         end
      end
   end
end

function Writer:arg(node, call, p, parameter)
   local value = node.args[parameter.name]
   if value == nil then return null end
   if is_tensor_kind(parameter.kind) then
      return self:value(node, parameter.name, value) or torch.raise((
         "export.Graph.program: %s: %s: expected a node or a number"):format(node.name,
         parameter.name))
   end
   if type(value) ~= "table" or is_size(value) then
      return self:integer(parameter.kind, value, call, p, null)
   end
   local list = {}
   for i, item in ipairs(value) do
      list[i] = parameter.kind == "TENSORS" and self:value(node, parameter.name, item)
         or self:integer(parameter.kind, item, call, p, i - 1)
   end
   return json.as_array(list)
end

function Writer:call(node)
   local list = {}
   for p, parameter in ipairs(torch._operator_parameters(node.target)) do
      list[p] = self:arg(node, #self.calls, p - 1, parameter)
   end
   self.values[node] = self.next
   self.next = self.next + node.results
   table.insert(self.calls, json.as_array {node.target, json.as_array(list), node.results})
end

-- Gives the inputs and the constants of a graph their indices in the file, and returns the
-- constants' tensors.
function Writer:begin(graph)
   local tensors = {}
   for _, op in ipairs {"placeholder", "get_attr"} do
      for _, node in ipairs(graph.nodes) do
         if node.op == op then
            self.values[node] = self.next
            self.next = self.next + 1
            if op == "get_attr" then
               table.insert(self.constants, node.target)
               tensors[#tensors + 1] = graph.constants_[node.target]
            end
         end
      end
   end
   return tensors
end

-- Returns the indices of the constants that the program changes; nil if the description lists none.
local function state_of(description, constants)
   if not description.state then return nil end
   local changes, list = {}, {}
   for _, index in ipairs(description.state) do changes[description.constants[index + 1]] = true end
   for i, name in ipairs(constants) do
      if changes[name] then list[#list + 1] = i - 1 end
   end
   return json.as_array(list)
end

--- Returns a new program of the graph, which shares the constants. The structure of its inputs and
--- outputs, and the limits of its runs, are those of the program from which the graph was made.
---@return export.Program
function Graph:program()
   self:lint()
   local old = self.description_
   local writer = setmetatable({
      values = {}, numbers = {}, numbers_of = {}, constants = {}, holes = {}, calls = {},
      symbols = old.symbols, next = 0,
   }, Writer)
   local tensors = writer:begin(self)
   writer.first_number = writer.next
   writer:collect_numbers(self.nodes)
   writer.next = writer.next + #writer.numbers
   local outputs = {}
   for _, node in ipairs(self.nodes) do
      if node.target == "getitem" and not node.results then
         writer.values[node] = writer.values[node.args.input] + node.args.index - 1
      elseif node.op == "call_function" then
         writer:call(node)
      elseif node.op == "output" then
         for i, output in ipairs(node.args) do outputs[i] = writer.values[output] end
      end
   end
   if #outputs ~= #old.outputs then
      torch.raise(("export.Graph.program: expected %d outputs, as in the exported call, got %d")
         :format(#old.outputs, #outputs))
   end
   local text = json.encode {
      version = 3, inputs = old.inputs, symbols = old.symbols, training = old.training,
      dtype = old.dtype, structure = old.structure, constants = json.as_array(writer.constants),
      numbers = json.as_array(writer.numbers), calls = json.as_array(writer.calls),
      holes = json.as_array(writer.holes), outputs = json.as_array(outputs),
      state = state_of(old, writer.constants),
   }
   local handle = torch._program_parse(text, tensors, self.device_)
   handle:set_limits(table.unpack(self.limits_))
   return getmetatable(torch.export).wrap(handle)
end

--- Runs the graph with the inputs, and returns the results of the nodes in `wanted`. If `only` is
--- given, just the calls in this set are run. They must depend on constants alone, and `inputs`
--- must be empty.
function Graph:evaluate_(wanted, inputs, only)
   local part = setmetatable({nodes = {}, constants_ = self.constants_, device_ = self.device_,
      limits_ = self.limits_}, Graph)
   part.description_ = setmetatable({outputs = wanted}, {__index = self.description_})
   if only then part.description_.inputs = json.as_array {} end
   for _, node in ipairs(self.nodes) do
      local chosen = not only or node.op == "get_attr" or only[node]
      if node.op ~= "output" and chosen then table.insert(part.nodes, node) end
   end
   local output = setmetatable({op = "output", target = "output", name = "output", graph = part,
      args = wanted}, Node)
   table.insert(part.nodes, output)
   return part:program().graph_:run(inputs)
end

return graph_of
