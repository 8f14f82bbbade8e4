-- graph.lua - converts a GraphProto to a list of nodes in the order of execution, and executes it.
-- All mistakes in the graph itself are reported here: unknown operators, values that no earlier
-- node computes (which includes cycles), and functions that call themselves.

local torch = require "tlua"
local Node = require "tlua.onnx.Node"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"
local wire = require "tlua.onnx.wire"
local operators = require "tlua.onnx.operators"

local M = {}

-- The largest number of nodes of a model. The nodes of a function count once for each call. Without
-- a limit, a chain of functions that each call the next function twice would fill the memory.
local MOST_NODES <const> = 1 << 20
local DEEPEST_CALLS <const> = 64

local function quote_name(name) return name ~= "" and (" %q"):format(name) or "" end

local function domain_of(name) return name == "ai.onnx" and "" or name or "" end

--- Returns a table that maps each domain to the version of its operators.
---@param list table[]  OperatorSetIdProto
---@return table<string, integer>
function M.opsets(list)
   local opsets = {}
   for _, entry in ipairs(list or {}) do
      local domain = domain_of(entry.domain)
      local newest = operators.newest[domain]
      local version = entry.version or 0
      if newest and version > newest then
         wire.fail("opset_import: version %d of the domain %s is too new; the newest known is %d",
            version, domain == "" and "ai.onnx" or domain, newest)
      end
      if version < 1 and newest then
         wire.fail("opset_import: version %d of the domain %s", version,
            domain == "" and "ai.onnx" or domain)
      end
      opsets[domain] = version
   end
   return opsets
end

-- Attributes --------------------------------------------------------------------------------------

local compile

local function attribute_value(proto, kind, context, defined, title)
   local value = proto[kind]
   if kind == "f" or kind == "i" then return value or 0 end
   if kind == "s" then return value or "" end
   if kind == "t" and value then return values.read(value, context.source, title) end
   if kind == "g" and value then return compile(value, context, defined, title) end
   if kind == "sparse_tensor" and value then
      return values.read_sparse(value, context.source, title)
   end
   if kind == "tp" and value then return value end
   if not value and kind:find "s$" then return {} end
   if not value then wire.fail("%s: the value is missing", title) end
   if kind == "floats" and value.n then
      return torch.io.bytes_as(context.source.reader.bytes, value.first, {value.n // 4}, "float32")
         :tolist()
   end
   local list = {}
   for i, item in ipairs(value) do
      if kind == "tensors" then
         list[i] = values.read(item, context.source, title)
      elseif kind == "graphs" then
         list[i] = compile(item, context, defined, title)
      else
         list[i] = item
      end
   end
   return list
end

-- Returns the type of an attribute. Old files lack the field `type`; in this case the type follows
-- from the field that has a value.
local function kind_of(proto, title)
   local kind = schema.attribute_fields[proto.type or 0]
   if kind then return kind end
   if proto.type and proto.type ~= 0 then
      wire.fail("%s: the kind %d of attributes is not supported", title, proto.type)
   end
   for _, name in ipairs(schema.attribute_fields) do
      if proto[name] ~= nil then return name end
   end
   wire.fail("%s: the value is missing", title)
end

-- Returns a node's attributes. The node of a function may refer to attributes of the node that
-- calls the function.
local function read_attributes(list, context, defined, title)
   local attributes = {}
   for _, proto in ipairs(list or {}) do
      local name = proto.name or ""
      local inner = ("%s: attribute %s"):format(title, name)
      if attributes[name] then wire.fail("%s: given twice", inner) end
      if proto.ref_attr_name and proto.ref_attr_name ~= "" then
         attributes[name] = context.attributes and context.attributes[proto.ref_attr_name]
      else
         local kind = kind_of(proto, inner)
         attributes[name] = {kind = kind, value = attribute_value(proto, kind, context, defined,
            inner)}
      end
   end
   return attributes
end

-- Nodes -------------------------------------------------------------------------------------------

local function function_key(domain, name, overload)
   return ("%s\0%s\0%s"):format(domain_of(domain), name or "", overload or "")
end

-- Returns a function that executes the model's function `proto`, so that a call of it is a single
-- operator.
local function call_function(proto, node, context)
   if context.calls >= DEEPEST_CALLS then
      node:fail("functions call one another more than %d deep", DEEPEST_CALLS)
   end
   local attributes = read_attributes(proto.attribute_proto, context, {}, node.title)
   for name, value in pairs(node.attributes) do attributes[name] = value end
   local inner = setmetatable({
      attributes = attributes, calls = context.calls + 1, opsets = M.opsets(proto.opset_import),
      path = ("%s: function %s"):format(node.title, proto.name or ""),
   }, {__index = context})
   local graph = {node = proto.node, input = {}, output = {}}
   for i, name in ipairs(proto.input or {}) do graph.input[i] = {name = name} end
   for i, name in ipairs(proto.output or {}) do graph.output[i] = {name = name} end
   local body = compile(graph, inner, {}, inner.path)
   return function(own, ...)
      local scope = {[support.BUDGET] = own.scope and own.scope[support.BUDGET]}
      return table.unpack(M.run(body, {...}, scope), 1, #body.outputs)
   end
end

local function version_of(node, context)
   local version = context.opsets[node.domain]
   if not version and node.domain == "" then
      node:fail("the model imports no operators of the domain ai.onnx")
   end
   return version or 1
end

local function find_operator(node, overload, context)
   local proto = context.functions[function_key(node.domain, node.type, overload)]
   if proto then return call_function(proto, node, context) end
   node.version = version_of(node, context)
   local set = operators.find(node.domain)
   local op = set and set[node.type]
   if not op then
      wire.fail("%s: there is no operator %s in the domain %s, version %d", node.title, node.type,
         node.domain == "" and "ai.onnx" or node.domain, node.version)
   end
   return op
end

-- Adds to `names` the names of the outer values that inner graphs use. Inner graphs are values of a
-- node's attributes.
local function add_captured(names, attributes)
   for _, attribute in pairs(attributes) do
      local graphs = attribute.kind == "g" and {attribute.value}
         or attribute.kind == "graphs" and attribute.value or {}
      for _, graph in ipairs(graphs) do
         for name in pairs(graph.captured) do names[name] = true end
      end
   end
end

local function read_node(proto, number, context, defined, captured, path)
   local node = setmetatable({
      type = proto.op_type or "", domain = domain_of(proto.domain), inputs = {}, outputs = {},
      captured = {},
   }, Node)
   node.title = ("%snode %d (%s%s)"):format(path and path .. ": " or "", number, node.type,
      quote_name(proto.name or ""))
   context.count.nodes = context.count.nodes + 1
   if context.count.nodes > MOST_NODES then
      node:fail("more than %d nodes, those of functions included", MOST_NODES)
   end
   for i, name in ipairs(proto.input or {}) do
      if name ~= "" and not defined[name] then
         node:fail("input %q: no input, initializer or earlier node makes it", name)
      end
      if name ~= "" and defined[name] ~= context.level then captured[name] = true end
      node.inputs[i] = name ~= "" and name
   end
   node.attributes = read_attributes(proto.attribute, context, defined, node.title)
   add_captured(node.captured, node.attributes)
   for name in pairs(node.captured) do
      if defined[name] ~= context.level then captured[name] = true end
   end
   for i, name in ipairs(proto.output or {}) do
      if name ~= "" and defined[name] == context.level then
         node:fail("output %q: an earlier node or an input has this name", name)
      end
      node.outputs[i] = name ~= "" and name
   end
   node.op = find_operator(node, proto.overload, context)
   for _, name in ipairs(node.outputs) do
      if name then defined[name] = context.level end
   end
   return node
end

-- Finds, for each node, the values that are not needed after it, so that their memory can be freed.
local function find_last_uses(graph)
   local needed = {}
   for _, name in ipairs(graph.outputs) do needed[name] = true end
   for i = #graph.nodes, 1, -1 do
      local node = graph.nodes[i]
      local last = {}
      local function use(name)
         if name and not needed[name] then
            needed[name] = true
            last[#last + 1] = name
         end
      end
      for _, name in ipairs(node.inputs) do use(name) end
      for name in pairs(node.captured) do use(name) end
      for _, name in ipairs(node.outputs) do use(name) end
      node.last = last
   end
end

local function read_initializers(proto, context, defined, path)
   local constants = {}
   local prefix = path and path .. ": " or ""
   for i, tensor in ipairs(proto.initializer or {}) do
      local name = tensor.name or ""
      local title = ("%sinitializer %d%s"):format(prefix, i - 1, quote_name(name))
      if constants[name] ~= nil then wire.fail("%s: given twice", title) end
      constants[name] = values.read(tensor, context.source, title)
      defined[name] = context.level
   end
   for i, tensor in ipairs(proto.sparse_initializer or {}) do
      local name = tensor.values and tensor.values.name or ""
      local title = ("%ssparse_initializer %d%s"):format(prefix, i - 1, quote_name(name))
      if constants[name] ~= nil then wire.fail("%s: given twice", title) end
      constants[name] = values.read_sparse(tensor, context.source, title)
      defined[name] = context.level
   end
   return constants
end

--- Reads a graph.
---@param proto table  GraphProto
---@param context table  the model's functions and versions
---@param outer table<string, any>  the values of the enclosing graphs, by name
---@param path? string  the location of the graph, for error messages
---@return table graph
function compile(proto, context, outer, path)
   local level = {}
   local defined = setmetatable({}, {__index = outer})
   local inner = setmetatable({level = level}, {__index = context})
   local graph = {inputs = {}, outputs = {}, nodes = {}, captured = {}, types = {},
      output_types = {}, name = proto.name, path = path}
   for i, input in ipairs(proto.input or {}) do
      local name = input.name or ""
      if rawget(defined, name) then wire.fail("%sinput %q: given twice", path or "", name) end
      graph.inputs[i], graph.types[i] = name, input.type or false
      defined[name] = level
   end
   graph.constants = read_initializers(proto, inner, defined, path)
   for i, node in ipairs(proto.node or {}) do
      graph.nodes[i] = read_node(node, i - 1, inner, defined, graph.captured, path)
   end
   for i, output in ipairs(proto.output or {}) do
      local name = output.name or ""
      if not defined[name] then
         wire.fail("%soutput %q: no input, initializer or node makes it",
            path and path .. ": " or "", name)
      end
      if defined[name] ~= level then graph.captured[name] = true end
      graph.outputs[i], graph.output_types[i] = name, output.type or false
   end
   find_last_uses(graph)
   return graph
end

M.compile = compile

--- Returns the functions of a model by their names.
function M.functions(list)
   local functions = {}
   for _, proto in ipairs(list or {}) do
      functions[function_key(proto.domain, proto.name, proto.overload)] = proto
   end
   return functions
end

-- Running -----------------------------------------------------------------------------------------

-- Moves inputs that are on the CPU to the device of the other inputs.
local function move(inputs, n)
   local device
   for i = 1, n do
      local x = inputs[i]
      if torch.is_tensor(x) and not x.is_cpu then device = x.device end
   end
   if not device then return end
   for i = 1, n do
      local x = inputs[i]
      if torch.is_tensor(x) and x.is_cpu then inputs[i] = x:to(device) end
   end
end

-- Raises an operator's error again, with the node's name. An operator may fail anywhere if inputs
-- are missing or have wrong types, so the message lists the inputs.
local function explain(node, failure, inputs, n)
   if type(failure) == "table" and failure.onnx then error(failure, 0) end
   if type(failure) ~= "string" then error(failure, 0) end
   if not failure:find "tlua:onnx/[%w_]+%.lua:%d+: " then
      wire.fail("%s: %s", node.title, (failure:gsub("^[^\n:]*:%d+: ", "")))
   end
   local list = {}
   for i = 1, n do list[i] = values.describe(inputs[i]) end
   wire.fail("%s: the operator cannot take its inputs, %s", node.title, n > 0
      and table.concat(list, ", ") or "of which there are none")
end

local function run_node(node, env)
   local inputs, n = {}, #node.inputs
   for i = 1, n do
      local name = node.inputs[i]
      inputs[i] = name and env[name] or nil
   end
   move(inputs, n)
   node.scope = env
   local results = table.pack(pcall(node.op, node, table.unpack(inputs, 1, n)))
   node.scope = nil
   if not results[1] then explain(node, results[2], inputs, n) end
   for i, name in ipairs(node.outputs) do
      if name then env[name] = results[i + 1] end
   end
end

--- Runs a graph.
---@param graph table
---@param arguments any[]  the values of the inputs, in their order
---@param scope? table<string, any>  the values of the enclosing graphs, by name
---@return any[] outputs
function M.run(graph, arguments, scope)
   local env = scope and setmetatable({}, {__index = scope}) or {}
   for name, value in pairs(graph.constants) do env[name] = value end
   for i, name in ipairs(graph.inputs) do
      if arguments[i] ~= nil then env[name] = arguments[i] end
   end
   for _, node in ipairs(graph.nodes) do
      run_node(node, env)
      for _, name in ipairs(node.last) do env[name] = nil end
   end
   local outputs = {}
   for i, name in ipairs(graph.outputs) do outputs[i] = env[name] end
   return outputs
end

--- Executes a graph attribute of this node, for operators of control flow.
function Node:run(graph, arguments) return M.run(graph, arguments, self.scope) end

return M
