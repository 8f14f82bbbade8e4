-- export.lua - torch.export: turns a model into a program, which runs without Lua. The model is
-- called once, and the operators that it calls are recorded (src/graph/call_recorder.c); further
-- calls, with other values and other sizes in the inputs, show that nothing but operators depends
-- on the inputs.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"
local json = require "tlua.utils.json"

-- Nested tables of tensors --------------------------------------------------------------------

-- Returns the keys of a table in a fixed order.
local function sorted_keys(list)
   local keys = {}
   for key in pairs(list) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b)
      local i, j = math.type(a) == "integer", math.type(b) == "integer"
      if i ~= j then return i end
      if i then return a < b end
      return tostring(a) < tostring(b)
   end)
   return keys
end

-- Appends the tensors of a value to `out`, and returns the value's structure: 0 for a tensor, a
-- list of {key, structure} for a table.
local function flatten(title, name, value, out, names)
   if torch.is_tensor(value) then
      out[#out + 1] = value
      if names then names[#names + 1] = name end
      return 0
   end
   if type(value) ~= "table" or getmetatable(value) then
      args.refuse(title, name, "a tensor, or a table of tensors", value)
   end
   local structure = json.as_array {}
   for i, key in ipairs(sorted_keys(value)) do
      if math.type(key) ~= "integer" and type(key) ~= "string" then
         args.refuse(title, name, "keys that are integers or strings", key)
      end
      local inner = ("%s.%s"):format(name, key)
      structure[i] = json.as_array {key, flatten(title, inner, value[key], out, names)}
   end
   return structure
end

-- Returns a value of the given structure, whose tensors are those of a list from position `at` on;
-- also returns the next position.
local function unflatten(structure, list, at)
   if structure == 0 then return list[at], at + 1 end
   local value = {}
   for _, entry in ipairs(structure) do value[entry[1]], at = unflatten(entry[2], list, at) end
   return value, at
end

-- Programs ------------------------------------------------------------------------------------

--- A model as the operators that it calls, with its parameters and buffers. A program gives bitwise
--- the same results as the model, in Lua or in a C program without Lua (`tl_program_load` of
--- tlua.h). Sizes and dtypes of the inputs are those of the exported call, except dimensions that
--- were made dynamic. Results have no gradients. Until it is saved, a program shares the model's
--- parameters.
---
---     local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()):eval()
---     local program = torch.export(model, {torch.ones(4, 2)})
---     print(program(torch.ones(4, 2)):equal(model(torch.ones(4, 2))))
---     --> true
---@class export.Program
---@field training boolean  the mode of the model when it was exported; other modes are refused
---@overload fun(...): Tensor
local Program = class.class("export.Program")

-- Returns the number of entries of a structure that has only tensors; nil for any other.
local function plain_count(structure)
   if not structure then return nil end
   for _, entry in ipairs(structure) do
      if entry[2] ~= 0 then return nil end
   end
   return #structure
end

local function wrap(graph)
   local program = setmetatable({}, Program)
   local structure, training = graph:state()
   local read = structure ~= "" and json.decode(structure) or {}
   rawset(program, "graph_", graph)
   program.training, program.traced_ = training, training
   program.structure_ = {
      inputs = read.inputs, outputs = read.outputs,
      plain_inputs = plain_count(read.inputs), plain_outputs = plain_count(read.outputs),
   }
   return program
end

function Program:__init() -- luacheck: ignore self
   torch.raise "export.Program: use torch.export(model, inputs) or torch.export.load(path)"
end

local function structure_of(value) return value == 0 and "a tensor" or "a table" end

-- Checks arguments against the exported ones, so that a message names the first that differs.
local function check_structure(name, given, expected)
   if given == expected then return end
   if given == 0 or expected == 0 then
      torch.raise(("program: %s: expected %s, as in the exported call, got %s"):format(name,
         structure_of(expected), structure_of(given)))
   end
   for i = 1, math.max(#given, #expected) do
      local a, b = given[i], expected[i]
      if not (a and b) or a[1] ~= b[1] then
         torch.raise(("program: %s: expected %d tensors, as in the exported call, got %d"):format(
            name, #expected, #given))
      end
      check_structure(("%s.%s"):format(name, a[1]), a[2], b[2])
   end
end

-- Returns the tensors of the arguments, in the order of the program's inputs.
local function tensors_of(structure, ...)
   local tensors = {...}
   if #tensors == structure.plain_inputs then
      local plain = true
      for i = 1, #tensors do plain = plain and torch.is_tensor(tensors[i]) end
      if plain then return tensors end
   end
   local list = {}
   local given = flatten("program", "inputs", tensors, list)
   if structure.inputs then check_structure("inputs", given, structure.inputs) end
   return list
end

--- Runs the program.
---@param ... Tensor  the arguments of the exported call, by position; tables of tensors where it
--- had tables
---@return Tensor ...  the results of the model
function Program:__call(...)
   if self.training ~= self.traced_ then
      torch.raise(("program: expected training = %s, the mode in which the model was exported, "
         .. "got %s"):format(self.traced_, tostring(self.training)))
   end
   local structure = self.structure_
   local outputs = self.graph_:run(tensors_of(structure, ...))
   if structure.plain_outputs or not structure.outputs then return table.unpack(outputs) end
   return table.unpack(unflatten(structure.outputs, outputs, 1), 1, #structure.outputs)
end
Program.forward = Program.__call

function Program:__tostring() return tostring(self.graph_) end

--- Saves the program as one file: safetensors with the operators in its metadata. `.tlp` is the
--- usual ending.
---@param path string  the file to write
function Program:save(path)
   if type(path) ~= "string" then args.refuse("program.save", "path", "a path", path) end
   self.graph_:save(path)
end

--- Returns the constants of the program by name: the model's parameters and buffers that it uses,
--- and `constant_1` and so on for tensors that the model makes itself.
---@return table<string, Tensor>
function Program:state_dict()
   local state = {}
   for _, pair in ipairs(self.graph_:constants()) do state[pair[1]] = pair[2] end
   return state
end

--- Returns the inputs in order. A dynamic dimension has its name in place of a size.
---
---     local program = torch.export(nn.ReLU(), {torch.ones(4, 2)},
---                                  {dynamic = {input = {1}}})
---     local input = program:inputs()[1]
---     print(input.name, input.dtype, input.shape[1], input.shape[2])
---     --> input	float32	input_1	2
---@return {name: string, dtype: string, shape: (integer|string)[]}[]
function Program:inputs() return self.graph_:inputs() end

--- Returns the bytes that a run needs for its intermediate results, which later runs use again, and
--- how many of these bytes are in use at once; 0 before the first run.
---@return integer bytes
---@return integer in_use
function Program:memory() return self.graph_:memory() end

--- Changes nothing but the field `training`; a program runs only in the mode in which it was
--- exported.
---@param mode? boolean
---@return export.Program self
function Program:train(mode)
   self.training = mode == nil or mode
   return self
end

--- Switches the program to evaluation mode, as train(false) does.
---@return export.Program self
function Program:eval() return self:train(false) end

-- Exporting -----------------------------------------------------------------------------------

-- Returns the names of a function's parameters, without `self` of a method.
local function parameter_names(model)
   local fn, first = model, 1
   if type(model) == "table" then fn, first = model.forward, 2 end
   local names = {}
   if type(fn) ~= "function" then return names end
   local i = first
   while true do
      local name = debug and debug.getlocal(fn, i)
      if not name then return names end
      names[#names + 1] = name
      i = i + 1
   end
end

-- Returns the arguments' tensors, their names, and their structure.
local function read_inputs(model, inputs, own_names)
   if torch.is_tensor(inputs) then inputs = {inputs} end
   if type(inputs) ~= "table" or getmetatable(inputs) then
      args.refuse("export", "inputs", "a list of the model's arguments", inputs)
   end
   local given = own_names or parameter_names(model)
   local tensors, names, structure = {}, {}, json.as_array {}
   for i, value in ipairs(inputs) do
      local name = given[i] or ("input_%d"):format(i)
      structure[i] = json.as_array {i, flatten("export", name, value, tensors, names)}
   end
   for i, tensor in ipairs(tensors) do tensors[i] = tensor:detach():contiguous() end
   return tensors, names, structure
end

local function named_tensors(model)
   local list = {}
   if type(model) ~= "table" or type(model.named_parameters) ~= "function" then return list end
   for name, tensor in model:named_parameters() do list[#list + 1] = {name, tensor} end
   for name, tensor in model:named_buffers() do list[#list + 1] = {name, tensor} end
   return list
end

-- Calls the model with the given tensors, and returns the graph of the operators that it called.
local function trace(call, tensors)
   local recorder <close> = torch._trace()
   for i, tensor in ipairs(tensors) do recorder:input(call.names[i], tensor) end
   for _, pair in ipairs(call.named) do recorder:name(pair[1], pair[2]) end
   local inputs = {unflatten(call.inputs, tensors, 1)}
   recorder:record()
   local results = table.pack(call.model(table.unpack(inputs[1], 1, #call.inputs)))
   local outputs, list = {}, {}
   for i = 1, results.n do list[i] = results[i] end
   if results.n == 0 then torch.raise "export: the model returns nothing" end
   for i = 1, results.n do
      if list[i] == nil then torch.raise(("export: result %d of the model is nil"):format(i)) end
   end
   local structure = flatten("export", "result", list, outputs)
   return recorder:finish(outputs, call.training,
                          json.encode {inputs = call.inputs, outputs = structure})
end

-- Returns tensors with other values: with their elements in the opposite order, or with one added.
local function with_other_values(tensors, changes)
   local list = {}
   for i, tensor in ipairs(tensors) do
      local floating = tensor:is_floating_point()
      if changes == "none" or changes == "floats" and not floating then
         list[i] = tensor
      elseif tensor:numel() < 2 then
         list[i] = floating and tensor + 1 or tensor
      else
         list[i] = tensor:flatten():flip(1):reshape(tensor.shape)
      end
   end
   return list
end

-- Calls the model with values that differ from the tensors'. If the model fails, as for lengths
-- that must be sorted, fewer tensors change.
local function trace_other_values(call, tensors)
   local fine, result
   for _, changes in ipairs {"all", "floats", "none"} do
      fine, result = pcall(trace, call, with_other_values(tensors, changes))
      if fine then return result end
   end
   error(result, 0)
end

-- Returns tensors with another size in some dimensions: elements from the beginning follow the
-- elements at the end.
local function with_size(tensors, places, size)
   local list = {table.unpack(tensors)}
   for _, place in ipairs(places) do
      local old = list[place.input]:size(place.dim)
      local positions = torch.arange(size, {dtype = "int64"}):remainder(old) + 1
      list[place.input] = list[place.input]:index_select(place.dim, positions)
   end
   return list
end

local function check_dim(name, tensor, dim)
   local n = tensor:dim()
   if math.type(dim) ~= "integer" or dim == 0 or dim > n or dim < -n then
      args.refuse("export", "dynamic: " .. name, ("dimensions of a tensor with %d"):format(n), dim)
   end
   return dim > 0 and dim or dim + n + 1
end

-- Returns the dimensions of one input that are dynamic, as pairs {dim, name of its size}. In
-- `dynamic`, {1, 3} stands for two independent sizes, {[1] = "batch"} for a size with a name.
local function read_dims(name, dims, tensor)
   if type(dims) == "number" then dims = {dims} end
   if type(dims) ~= "table" then
      args.refuse("export", "dynamic: " .. name, "a list of dimensions", dims)
   end
   local list = {}
   for _, key in ipairs(sorted_keys(dims)) do
      local value = dims[key]
      local dim = check_dim(name, tensor, type(value) == "string" and key or value)
      list[#list + 1] = {dim, type(value) == "string" and value or ("%s_%d"):format(name, dim)}
   end
   return list
end

-- Returns the sizes that are dynamic, in the order of the inputs: {name, {input, dim}, ...}.
local function read_dynamic(dynamic, names, tensors)
   local known, symbols = {}, {}
   for i, name in ipairs(names) do known[name] = i end
   for name in pairs(dynamic) do
      if not known[name] then args.unknown_option("export: dynamic", name, known) end
   end
   for i, name in ipairs(names) do
      for _, pair in ipairs(dynamic[name] and read_dims(name, dynamic[name], tensors[i]) or {}) do
         local symbol = symbols[pair[2]]
         if not symbol then
            symbol = {name = pair[2]}
            symbols[#symbols + 1], symbols[pair[2]] = symbol, symbol
         end
         symbol[#symbol + 1] = {input = i, dim = pair[1]}
      end
   end
   return symbols
end

-- Finds the integers of the graph that depend on a size. The model is called with two other sizes,
-- and with size 1, for which many models behave differently.
local function make_dynamic(graph, call, tensors, symbol)
   local number
   for _, place in ipairs(symbol) do
      number = graph:dynamic(place.input, place.dim, symbol.name)
   end
   local size = tensors[symbol[1].input]:size(symbol[1].dim)
   if size < 1 then
      args.refuse("export", "dynamic: " .. symbol.name, "a size of at least 1", size)
   end
   local function at(n) return trace(call, with_size(tensors, symbol, n)) end
   graph:fit(number, size + 1, at(size + 1), size + 3, at(size + 3))
   local fine, single = pcall(at, 1)
   graph:least(number, 1, fine and single or nil)
end

local function export(call, tensors, symbols)
   local graph = trace(call, tensors)
   graph:same(trace_other_values(call, tensors))
   for _, symbol in ipairs(symbols) do make_dynamic(graph, call, tensors, symbol) end
   return wrap(graph:ready())
end

-- Calls the function without gradients. After an error, buffers get their old values back.
local function protected(call, ...)
   local kept = {}
   if type(call.model) == "table" and type(call.model.buffers) == "function" then
      for _, buffer in ipairs(call.model:buffers()) do kept[buffer] = buffer:clone() end
   end
   local _ <close> = torch.no_grad()
   local fine, result = pcall(export, call, ...)
   if fine then return result end
   for buffer, before in pairs(kept) do buffer:copy_(before) end
   error(result, 0)
end

local function make(model, inputs, options)
   if not args.is_callable(model) then
      args.refuse("export", "model", "a module or a function", model)
   end
   args.check_options("export", options, "dynamic", "names")
   local dynamic = options and options.dynamic or {}
   if type(dynamic) ~= "table" then args.refuse("export", "dynamic", "a table", dynamic) end
   local own_names = options and options.names
   if own_names ~= nil and type(own_names) ~= "table" then
      args.refuse("export", "names", "a list of names", own_names)
   end
   local tensors, names, structure = read_inputs(model, inputs, own_names)
   local call = {
      model = model, names = names, named = named_tensors(model), inputs = structure,
      training = type(model) == "table" and model.training == true,
   }
   return protected(call, tensors, read_dynamic(dynamic, names, tensors))
end

local M = {}

--- Returns the program of a model: the operators that it calls for these inputs. Code that depends
--- on values of tensors outside of operators, such as `if x:sum():item() > 0` or `x[mask]`, cannot
--- be recorded, and raises an error at its line; sizes are those of the inputs unless `dynamic`
--- names them. torch.export(model, inputs, options) is the same.
---
---     local function double(x) return x * 2 end
---     print(torch.export(double, {torch.ones(3)}))
---     --> Program(x: float32 {3})
---     -->   t1 = mul(x, 2)
---     -->   return t1
---     --> 1 calls, 0 constants of 0 bytes; the first run plans the memory
---@param model nn.Module|function
---@param inputs Tensor|table  the arguments of the call, in a list; an argument may be a table of
--- tensors
---@param options? {dynamic: table<string, table>, names: string[]}  dynamic: for each input by
--- name, its dimensions that may have another size, `{x = {1}}`, or `{x = {[1] = "n"}, y =
--- {[1] = "n"}}` for one size in two inputs; names: those of the inputs, in place of the names of
--- forward's parameters
---@return export.Program
function M.export(model, inputs, options) return make(model, inputs, options) end

--- Saves a program, as program:save(path) does.
---@param program export.Program
---@param path string
function M.save(program, path)
   if not class.isinstance(program, Program) then
      args.refuse("export.save", "program", "a program that torch.export has made", program)
   end
   program:save(path)
end

--- Loads a program that was saved. The file's tensors are mapped, not read.
---@param path string
---@return export.Program
function M.load(path)
   if type(path) ~= "string" then args.refuse("export.load", "path", "a path", path) end
   return wrap(torch._program_load(path))
end

lazy.load(M, {})
getmetatable(M).__call = function(_, ...) return M.export(...) end

return M
