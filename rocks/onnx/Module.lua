-- Module.lua - a loaded ONNX model as an nn.Module, whose parameters are the initializers.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local graphs = require "tlua.onnx.graph"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"
local wire = require "tlua.onnx.wire"

local nn = torch.nn

--- An ONNX model that torch.onnx.load has read. It is called with its inputs by position, or with
--- one table that has them by name. The initializers of floating-point dtypes are its parameters,
--- under their names in the file. Running statistics, scalars, and the arguments of operators, such
--- as the limits of Clip, are buffers.
---
---     local fine, why = pcall(torch.onnx.load, "none.onnx")
---     print(fine, why:match "No such file or directory")
---     --> false	No such file or directory
---@class onnx.Module: nn.Module
local Module = class.class("onnx.Module", nn.Module)

function Module:__init() -- luacheck: ignore self
   torch.raise "onnx.Module: use torch.onnx.load(path)"
end

-- Maps an operator to the positions of those inputs that are not trained, because they hold
-- statistics or options.
local options <const> = {
   BatchNormalization = {[4] = true, [5] = true}, Clip = {[2] = true, [3] = true},
   Resize = {[2] = true, [3] = true}, Upsample = {[2] = true}, Pad = {[3] = true},
   Dropout = {[2] = true}, OneHot = {[3] = true}, QuantizeLinear = {[2] = true},
   DequantizeLinear = {[2] = true}, Range = {true, true, true},
}

local function find_options(graph)
   local found = {}
   for _, node in ipairs(graph.nodes) do
      local list = node.domain == "" and options[node.type] or {}
      for i, name in ipairs(node.inputs) do
         if name and list[i] then found[name] = true end
      end
   end
   return found
end

-- Returns the name of the module's field for an initializer. It is the initializer's name. If the
-- module already has a method or field of this name, another name is chosen.
local function field_for(module, name)
   if name == "" or name:find "^_" or Module[name] ~= nil or name == "training"
      or rawget(module, name) ~= nil then
      return "initializer." .. name
   end
   return name
end

-- Stores the initializers of the main graph in the module, as parameters or buffers.
local function adopt(module, graph)
   local fixed = find_options(graph)
   local fields = {}
   for name, value in pairs(graph.constants) do
      if torch.is_tensor(value) and value:is_floating_point() then
         fields[#fields + 1] = name
      end
   end
   table.sort(fields)
   local adopted = {}
   for _, name in ipairs(fields) do
      local value, field = graph.constants[name], field_for(module, name)
      if fixed[name] or value:dim() == 0 then
         module[field] = nn.Buffer(value)
      else
         module[field] = nn.Parameter(value)
      end
      graph.constants[name] = nil
      adopted[name] = field
   end
   rawset(module, "fields_", adopted)
end

--- Returns a module for a model whose message has been read.
---@param proto table  ModelProto
---@param source table
---@param max_loop_steps integer
---@return onnx.Module
function Module._wrap(proto, source, max_loop_steps)
   if not proto.graph then wire.fail "the file has no graph" end
   local context = {
      source = source, functions = graphs.functions(proto.functions),
      opsets = graphs.opsets(proto.opset_import), calls = 0, count = {nodes = 0},
   }
   local graph = graphs.compile(proto.graph, context, {})
   local module = setmetatable({_hooks = false, _evaluating = false}, Module)
   rawset(module, "graph_", graph)
   rawset(module, "max_loop_steps_", max_loop_steps)
   local required, known = {}, {}
   for i, name in ipairs(graph.inputs) do
      known[name] = i
      if graph.constants[name] == nil then required[name] = true end
   end
   rawset(module, "required_", required)
   rawset(module, "known_", known)
   rawset(module, "producer", proto.producer_name)
   adopt(module, graph)
   return module
end

-- Inputs ------------------------------------------------------------------------------------------

local function shape_text(tensor_type)
   local dims = tensor_type.shape and tensor_type.shape.dim or {}
   local list = {}
   for i, dim in ipairs(dims) do
      list[i] = tostring(dim.dim_value or (dim.dim_param ~= "" and dim.dim_param) or "?")
   end
   return table.concat(list, ", ")
end

local function refuse_input(name, tensor_type, value, why)
   torch.raise(("onnx.Module: input %s: expected %s {%s}, got %s%s"):format(name,
      schema.dtypes[tensor_type.elem_type or 0] or "?", shape_text(tensor_type),
      args.describe(value), why or ""))
end

-- Checks a tensor against the type that the file declares. `sizes` maps the names of dimensions to
-- the sizes seen so far.
local function check_tensor(name, tensor_type, value, sizes)
   local dtype = schema.dtypes[tensor_type.elem_type or 0]
   if not torch.is_tensor(value) or dtype and value.dtype ~= dtype then
      refuse_input(name, tensor_type, value)
   end
   local dims = tensor_type.shape and (tensor_type.shape.dim or {})
   if not dims then return end
   if #dims ~= value:dim() then refuse_input(name, tensor_type, value) end
   for i, dim in ipairs(dims) do
      local size, symbol = value:size(i), dim.dim_param
      if dim.dim_value and dim.dim_value ~= size then refuse_input(name, tensor_type, value) end
      if symbol and symbol ~= "" and not dim.dim_value then
         if sizes[symbol] and sizes[symbol] ~= size then
            refuse_input(name, tensor_type, value, (", but %s is %d in another place"):format(
               symbol, sizes[symbol]))
         end
         sizes[symbol] = size
      end
   end
end

-- Checks a value that the user passes, and converts it to a value of the graph.
local function check_value(name, proto, value, sizes)
   local kind = proto and proto.tensor_type
   if kind and kind.elem_type == schema.numbers.string and type(value) == "table" then
      if values.is_strings(value) then return value end
      return values.strings(value, {#value})
   end
   if kind then
      check_tensor(name, kind, value, sizes)
   elseif proto and proto.sequence_type and type(value) == "table" then
      return values.is_sequence(value) and value or values.sequence(value)
   end
   return value
end

-- Returns the inputs of a call in the graph's order. The caller has given them by position or by
-- name.
local function arrange(module, ...)
   local graph, n = module.graph_, select("#", ...)
   local first = ...
   local by_name = n == 1 and type(first) == "table" and not getmetatable(first)
      and first[1] == nil and next(first) ~= nil
   local given = {}
   if by_name then
      for name, value in pairs(first) do
         if not module.known_[name] then
            args.unknown_option("onnx.Module: inputs", name, graph.inputs)
         end
         given[module.known_[name]] = value
      end
   else
      if n > #graph.inputs then
         torch.raise(("onnx.Module: expected at most %d %s (%s), got %d"):format(
            #graph.inputs, #graph.inputs == 1 and "input" or "inputs",
            table.concat(graph.inputs, ", "), n))
      end
      local required = {}
      for i, name in ipairs(graph.inputs) do
         if module.required_[name] then required[#required + 1] = i end
      end
      -- Initializers, which old files list among the inputs, are skipped.
      for i = 1, n do
         given[n <= #required and required[i] or i] = (select(i, ...))
      end
   end
   return given
end

--- Runs the model.
---@param ... any  the inputs by position, or one table with the inputs by name; strings and
--- sequences are lists
---@return any ...  the outputs in the file's order
function Module:forward(...)
   local graph = self.graph_
   local given, sizes = arrange(self, ...), {}
   for i, name in ipairs(graph.inputs) do
      local kind = graph.types[i]
      if given[i] ~= nil then
         given[i] = check_value(name, kind, given[i], sizes)
      elseif self.required_[name] and not (kind and kind.optional_type) then
         torch.raise(("onnx.Module: input %s is missing; the inputs are %s"):format(name,
            table.concat(graph.inputs, ", ")))
      end
   end
   local scope = {[support.BUDGET] = {steps = 0, most = self.max_loop_steps_}}
   for name, field in pairs(self.fields_) do scope[name] = self[field] end
   return wire.protect("onnx.Module", function()
      return table.unpack(graphs.run(graph, given, scope), 1, #graph.outputs)
   end)
end

-- Returns a text that lists inputs or outputs with their types.
local function describe(graph, names)
   local list = {}
   for i, name in ipairs(names) do
      local kind = graph.types[i]
      local tensor = kind and kind.tensor_type
      list[i] = tensor and ("%s: %s {%s}"):format(name, schema.dtypes[tensor.elem_type or 0] or "?",
         shape_text(tensor)) or name
   end
   return table.concat(list, ", ")
end

function Module:__tostring()
   local graph = self.graph_
   return ("onnx.Module(%s -> %s; %d nodes)"):format(describe(graph, graph.inputs),
      table.concat(graph.outputs, ", "), #graph.nodes)
end

--- Returns the names of the inputs that a call must give, in their order.
---@return string[]
function Module:input_names()
   local names = {}
   for _, name in ipairs(self.graph_.inputs) do
      if self.required_[name] then names[#names + 1] = name end
   end
   return names
end

--- Returns the names of the outputs, in their order.
---@return string[]
function Module:output_names()
   return table.move(self.graph_.outputs, 1, #self.graph_.outputs, 1, {})
end

return Module
