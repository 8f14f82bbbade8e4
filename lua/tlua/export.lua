-- export.lua - torch.export: turns a model into a program, which runs without Lua. The model is
-- called once, and the operators that it calls are recorded (src/graph/call_recorder.c). Further
-- calls, whose inputs have other values and other sizes, check that only operators depend on the
-- inputs.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"
local json = require "tlua.utils.json"
local follow = require "tlua.export.follow"
local keep_random = require "tlua.export.random"
local nested = require "tlua.export.nested"
local trace = require "tlua.export.trace"

local is_tensor <const> = torch.is_tensor

-- Programs ------------------------------------------------------------------------------------

--- A model as the operators that it calls, with its parameters and buffers. A program gives bitwise
--- the same results as the model, in Lua or in a C program without Lua (`tl_program_load` of
--- tlua.h). Inputs must have the sizes and dtypes of the exported call, except in dimensions that
--- were made dynamic. Results have no gradients. A program shares the model's parameters until it
--- is saved.
---
---     local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()):eval()
---     local program = torch.export(model, {torch.ones(4, 2)})
---     print(program(torch.ones(4, 2)):equal(model(torch.ones(4, 2))))
---     --> true
---@class export.Program
---@field training boolean  the mode of the model when it was exported; the program refuses to run
--- in another mode
---@field device torch.device  where the program runs: the device of the model's tensors
---@field unoptimized string?  why `optimize` of torch.export left out optimizations: an optimized
--- program failed, or had other results for the example; nil if none was left out
---@overload fun(...): Tensor
local Program = class.class("export.Program")

-- Returns the number of entries of a structure (see nested.flatten) if all of them are tensors, and
-- nil if one is a table.
local function plain_count(structure)
   if not structure then return nil end
   for _, entry in ipairs(structure) do
      if entry[2] ~= 0 then return nil end
   end
   return #structure
end

-- The largest number of inputs, and of outputs, of a call that C makes (src/lua/program_run.c).
local FEW <const> = 16

--- Returns an object of class Program for a graph.
local function wrap(graph)
   local program = setmetatable({}, Program)
   local structure, training, step = graph:state()
   local read = structure ~= "" and json.decode(structure) or {}
   rawset(program, "graph_", graph)
   rawset(program, "device", graph:device())
   program.training, program.traced_, program.step_ = training, training, step
   local plain_inputs, plain_outputs = plain_count(read.inputs), plain_count(read.outputs)
   local direct = plain_inputs and plain_outputs and math.max(plain_inputs, plain_outputs) <= FEW
   program.structure_ = {
      inputs = read.inputs, outputs = read.outputs, plain_inputs = plain_inputs,
      plain_outputs = plain_outputs, direct = direct,
      -- the function of C that runs a program of one result. It returns nil if the arguments do not
      -- fit.
      single = direct and plain_outputs == 1 and graph.run_single,
   }
   return program
end

function Program:__init() -- luacheck: ignore self
   torch.raise "export.Program: use torch.export(model, inputs) or torch.export.load(path)"
end

local function structure_of(value) return value == 0 and "a tensor" or "a table" end

-- Raises an error if the arguments have another structure than the arguments of the exported call.
-- The message names the first argument that differs.
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
   local given = nested.flatten("program", "inputs", tensors, list)
   if structure.inputs then check_structure("inputs", given, structure.inputs) end
   return list
end

-- Returns whether there are n arguments, all of which are tensors.
local function are_tensors(n, ...)
   if n ~= select("#", ...) then return false end
   for i = 1, n do
      if not is_tensor((select(i, ...))) then return false end
   end
   return true
end

--- Runs the program.
---@param ... Tensor  the arguments of the exported call, by position; an argument that was a table
--- of tensors must be such a table again
---@return Tensor ...  the results of the model
function Program:__call(...)
   if self.training ~= self.traced_ then
      torch.raise(("program: expected training = %s, the mode in which the model was exported, "
         .. "got %s"):format(self.traced_, tostring(self.training)))
   end
   local structure, link = self.structure_, rawget(self, "link_")
   if structure.single and not link then
      local result = structure.single(self.graph_, ...)
      if result then return result end
   elseif structure.direct and are_tensors(structure.plain_inputs, ...)
         and not (link and link.schedulers[1]) then
      if link then follow.before(link) end
      return self.graph_(...)
   end
   local tensors = tensors_of(structure, ...)
   if link then follow.before(link) end
   local outputs = self.graph_:run(tensors)
   if link then follow.after(link) end
   if structure.plain_outputs or not structure.outputs then return table.unpack(outputs) end
   return table.unpack(nested.unflatten(structure.outputs, outputs, 1), 1, #structure.outputs)
end
Program.forward = Program.__call

--- Makes a step of a program that torch.export_step has made; calling the program does the same.
--- The step changes the parameters and the optimizer's state, which the program shares with the
--- model until it is saved and loaded.
---@param ... Tensor  arguments like those of the exported call
---@return Tensor ...  the results of the recorded function
function Program:step(...)
   if not self.step_ then
      torch.raise "program.step: expected a program of torch.export_step, got one of torch.export"
   end
   return self(...)
end

function Program:__tostring() return tostring(self.graph_) end

--- Saves the program as one file: safetensors with the operators in its metadata. `.tlp` is the
--- usual file extension.
---@param path string  the file to write
function Program:save(path)
   if type(path) ~= "string" then args.refuse("program.save", "path", "a path", path) end
   self.graph_:save(path)
end

--- Makes a loaded program use the state of another program, `from`, in place of its own constants
--- of the same names, as tl_program_share of tlua.h does. Two training steps that take turns, such
--- as those of a GAN, need a call in each direction. Raises an error if the two programs have no
--- state of the same names, or if sizes, dtypes or devices differ.
---
---     local layer = nn.Linear(2, 1)
---     local optimizer = torch.optim.SGD(layer:parameters(), {lr = 0.1})
---     local function step(x)
---        optimizer:zero_grad()
---        layer(x):sum():backward()
---        optimizer:step()
---        return x:sum()
---     end
---     local x, path, other = torch.ones(3, 2), os.tmpname(), os.tmpname()
---     local options = {model = layer, optimizer = optimizer}
---     torch.export_step(step, {x}, options):save(path)
---     torch.export(layer, {x}):save(other)
---     local train, infer = torch.export.load(path), torch.export.load(other)
---     infer:share(train)
---     train(x)
---     print(infer(x):equal(layer(x)), infer(x):equal(layer(x) - 0.1 * 3 * 3))
---     --> false	true
---@param from export.Program
function Program:share(from)
   if type(from) ~= "table" or getmetatable(from) ~= Program then
      args.refuse("program.share", "from", "a program", from)
   end
   if rawget(self, "link_") then
      torch.raise "program.share: expected a loaded program; this one shares the script's tensors"
   end
   self.graph_:share(from.graph_)
end

--- Returns a table from names to the constants of the program: the parameters and buffers that the
--- model uses, and other tensors, which are named `parameter_1` and so on if they require a
--- gradient, otherwise `constant_1` and so on.
---@return table<string, Tensor>
function Program:state_dict()
   local state = {}
   for _, pair in ipairs(self.graph_:constants()) do state[pair[1]] = pair[2] end
   return state
end

--- Returns the program's graph as nodes that can be walked and rewritten; graph:program() makes a
--- program of it. Programs of training steps have no such graph.
---
---     local function double(x) return x * 2 end
---     local graph = torch.export(double, {torch.ones(3)}):graph()
---     for _, node in ipairs(graph.nodes) do
---        if node.target == "mul" then node.args.other = 3 end
---     end
---     print(graph:program()(torch.ones(3)))
---     --> tensor([3., 3., 3.])
---@return export.Graph
function Program:graph()
   if self.step_ then
      torch.raise "program.graph: expected a program of torch.export, got one of torch.export_step"
   end
   return require "tlua.export.graph"(self.graph_)
end

--- Returns a program with the same calls for another device, with copies of the parameters and of
--- the state there. Its runs queue their work on the current stream; they take inputs on the device
--- or on the CPU, and their results are on the device. A file has no device: a loaded program runs
--- on the default device until `to` moves it.
---
---     local function double(x) return x * 2 end
---     local program = torch.export(double, {torch.ones(2)}):to("sim")
---     print(program.device, program(torch.ones(2)):cpu())
---     --> sim:0	tensor([2., 2.])
---@param device torch.device|string
---@return export.Program
function Program:to(device)
   local fine, on = pcall(torch.device, device)
   if not fine then args.refuse("program.to", "device", "a device", device) end
   return wrap(self.graph_:to(on))
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

--- Returns the number of bytes that a run allocates for intermediate results, and the largest
--- number of these bytes in use at once. Later runs use the same memory. Both numbers are 0 before
--- the first run.
---@return integer bytes
---@return integer in_use
function Program:memory() return self.graph_:memory() end

--- Limits the runs of the program, since the loops of torch.while_loop in a file that was damaged
--- need not end. A run that reaches a limit raises an error.
---
---     local function below(x) return x:lt(100) end
---     local function add(x) return x + 1 end
---     local function f(x) return torch.while_loop(below, add, {x}) end
---     local program = torch.export(f, {torch.tensor(0)})
---     program:set_limits {iterations = 100}
---     print(program(torch.tensor(1)), (pcall(program, torch.tensor(-1))))
---     --> tensor(100)	false
---@param limits {iterations?: integer, seconds?: number}  iterations: of all loops of a run,
--- 100,000,000 if it was never set; seconds: the duration of a run, without limit if it was never
--- set; 0 means no limit
---@return export.Program self
function Program:set_limits(limits)
   local title <const> = "program.set_limits"
   if limits == nil then args.refuse(title, "limits", "a table", limits) end
   args.check_options(title, limits, "iterations", "seconds")
   local iterations, seconds = limits.iterations, limits.seconds
   if iterations and (math.type(iterations) ~= "integer" or iterations < 0) then
      args.refuse(title, "iterations", "an integer of at least 0", iterations)
   end
   if seconds and not (type(seconds) == "number" and seconds >= 0) then
      args.refuse(title, "seconds", "a number of at least 0", seconds)
   end
   self.graph_:set_limits(iterations, seconds)
   return self
end

--- Changes only the field `training`. A program runs only in the mode in which it was exported.
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

-- Returns a list with {name, tensor, whether a program may change the tensor} for each parameter
-- and buffer of a module.
local function named_tensors(model)
   local list = {}
   if type(model) ~= "table" or type(model.named_parameters) ~= "function" then return list end
   for name, tensor in model:named_parameters() do list[#list + 1] = {name, tensor, false} end
   for name, tensor in model:named_buffers() do list[#list + 1] = {name, tensor, true} end
   for _, entry in ipairs(list) do
      local what = (entry[3] and "buffer " or "parameter ") .. entry[1]
      nested.check_tensor("export", what, entry[2])
   end
   return list
end

-- Returns a function that resets the model's buffers to their present values. At its first call, it
-- stores the names and values of the buffers that have changed in `call.changes`.
local function keep_buffers(call)
   local kept = {}
   for _, entry in ipairs(call.named) do
      local tensor = entry[2]
      if entry[3] then kept[#kept + 1] = {tensor, tensor:clone(), tensor._version, entry[1]} end
   end
   return function()
      local changes = {}
      for _, entry in ipairs(kept) do
         local tensor = entry[1]
         if tensor._version ~= entry[3] then
            if not call.changes then changes[#changes + 1] = {entry[4], tensor, tensor:clone()} end
            tensor:copy_(entry[2])
            entry[3] = tensor._version
         end
      end
      call.changes = call.changes or changes
   end
end

-- Raises an error if the first call of a model has changed a buffer that later calls leave as it
-- is. Such a buffer gets the value that the first call has computed, since a variable of the model
-- now says that the buffer is set.
local function check_first_call(first, later)
   local again, name = {}, nil
   for _, entry in ipairs(later) do again[entry[2]] = true end
   for _, entry in ipairs(first) do
      if not again[entry[2]] then
         name = name or entry[1]
         entry[2]:copy_(entry[3])
      end
   end
   if name then
      torch.raise(("export: the first call of the model sets buffer %s, and later calls do not; it "
         .. "has been set by the example; export the model again, or set it by a call of the model "
         .. "before the export"):format(name))
   end
end

-- Returns whether a program has branches, and whether it has loops.
local function find_marks(graph)
   local branches, loops = false, false
   for _, recorded in ipairs(graph:calls().calls) do
      branches = branches or recorded.name == "cond_begin"
      loops = loops or recorded.name == "loop_begin"
   end
   return branches, loops
end

-- Raises an error unless the program's results equal the model's. For inputs other than the
-- example, the model may raise an error, and nothing is compared then.
local function compare(graph, call, tensors, is_example)
   local restore_random = keep_random()
   local results = table.pack(pcall(trace.call, call, tensors))
   call.reset()
   restore_random()
   if not results[1] then
      if is_example then error(results[2], 0) end
      return
   end
   local expected = {}
   nested.flatten("export", "result", {table.unpack(results, 2, results.n)}, expected)
   local outputs = graph:run(tensors)
   call.reset()
   restore_random()
   for i, output in ipairs(outputs) do
      if not nested.same_bits(output, expected[i]) then
         torch.raise(("export: result %d of the program has other values than the model's; a "
            .. "function of torch.cond or torch.while_loop changes something besides tensors")
            :format(i))
      end
   end
end

-- Checks a program with branches or loops by comparing its results with the model's, because the
-- functions of a branch or loop might change variables of Lua. Inputs other than the example are
-- tried only if there is no loop, since a loop might not end for them.
local function check_marks(graph, call, tensors)
   local branches, loops = find_marks(graph)
   if branches or loops then compare(graph, call, tensors, true) end
   if not branches or loops then return end
   local other = {}
   for i, tensor in ipairs(tensors) do
      other[i] = tensor:is_floating_point() and tensor:neg() or tensor
   end
   compare(graph, call, other, false)
end

-- Returns an optimized program for a graph, or the graph if there is no better one, and the reason
-- if optimizations were left out. Results are compared for the example, and for another value of
-- each dynamic size.
local function optimized(graph, call, tensors, symbols)
   local restore_random = keep_random()
   local sets = {tensors}
   for _, symbol in ipairs(symbols) do
      local size = tensors[symbol[1].input]:size(symbol[1].dim)
      local other = trace.with_size(tensors, symbol, size == symbol.max and size - 1 or size + 1)
      if pcall(graph.run, graph, other) then sets[#sets + 1] = other end
      call.reset()
   end
   local function run(program)
      local results = {}
      for _, set in ipairs(sets) do
         restore_random()
         for _, result in ipairs(program:run(set)) do results[#results + 1] = result end
         call.reset()
      end
      return results
   end
   local better, _, problem =
      require "tlua.compile.compare".optimize(graph, tensors, run(graph), run)
   restore_random()
   return better or graph, problem
end

-- Appends the tensors of `others`, a list of {name, tensor}, to a list from named_tensors. Tensors
-- that the list has already, or that a program cannot keep, are left out.
local function add_others(named, others)
   local known = {}
   for _, entry in ipairs(named) do known[entry[1]], known[entry[2]] = true, true end
   for _, other in ipairs(others) do
      local name, tensor = other[1], other[2]
      local fits = not known[name] and not known[tensor]
         and pcall(nested.check_tensor, "export", name, tensor)
      if fits then
         named[#named + 1], known[name], known[tensor] = {name, tensor, false}, true, true
      end
   end
end

-- Returns the graph of a model. The first call of a model may differ from later ones, for example
-- because it fills a cache, and so may the first call with a larger size. So if two recordings of
-- the model differ, it is recorded again. In this recording, tensors in variables and fields have
-- names too, so that it contains the calls that take parts of these tensors.
local function graph_of(call, tensors, symbols)
   local function record()
      call.named = named_tensors(call.model)
      add_others(call.named, call.others or {})
      call.reset = keep_buffers(call)
      return trace.graph(call, tensors, symbols)
   end
   local fine, graph = pcall(record)
   local first = call.changes
   for _ = 1, #symbols > 0 and 3 or 1 do
      if fine or not call.recorded then break end
      pcall(trace.call, call, tensors) -- fills a cache that depends on the size
      call.reset()
      call.changes = nil
      fine, graph = pcall(record)
      if call.changes then check_first_call(first, call.changes) end
   end
   if not fine then error(graph, 0) end
   return graph
end

local function make(model, inputs, given)
   if not args.is_callable(model) then
      args.refuse("export", "model", "a module or a function", model)
   end
   local options = trace.check_options("export", given, "optimize")
   if options.optimize ~= nil and type(options.optimize) ~= "boolean" then
      args.refuse("export", "optimize", "a boolean", options.optimize)
   end
   local tensors, names, structure = trace.read_inputs("export", model, inputs, options.names)
   local call = {
      title = "export", model = model, names = names, inputs = structure,
      training = type(model) == "table" and model.training == true,
   }
   local symbols = trace.read_dynamic(options.dynamic, names, tensors)
   local _ <close> = torch.no_grad()
   local graph = graph_of(call, tensors, symbols):ready()
   check_marks(graph, call, tensors)
   if not options.optimize then return wrap(graph) end
   local better, problem = optimized(graph, call, tensors, symbols)
   local program = wrap(better)
   program.unoptimized = problem
   return program
end

local M = {}

--- Returns the program of a model: the operators that it calls for these inputs. Code that uses the
--- values of tensors outside of operators, such as `if x:sum():item() > 0` or `x[mask]`, cannot be
--- recorded, and raises an error at its line; torch.cond and torch.while_loop are recorded. If the
--- first call differs from later ones, for example because it fills a cache, a later call is
--- recorded. A model that reads a value of Lua that each call changes, such as a count of calls, is
--- refused, as is one that calls math.random or depends on os.time, os.clock or os.date.
--- torch.export(model, inputs, options) is the same.
---
--- All sizes are fixed to the sizes of the inputs, except in the dimensions that the option
--- `dynamic` names: `{x = {1}}` for dimension 1 of the input x, `{x = {[1] = "n"}, y = {[1] =
--- "n"}}` for one size in two inputs, or `{x = {[1] = {name = "n", min = 1, max = 512}}}` for a
--- range. Without `max` a range ends at 16 times the example's size, at least at 64. The program
--- refuses sizes out of the range. To find out how its operators depend on the sizes, the model is
--- called with sizes at both ends of the range and between: the smallest first, up to 256 sizes as
--- long as the calls are short, and then with all sizes at their ends. If the model takes a branch
--- for only one size, or for one combination of sizes, and was not called with it, the branch is
--- missing in the program. An argument of an operator may be a sum of products of up to three
--- sizes.
---
--- The option `optimize` makes the program faster, as torch.compile does: batch norm is merged into
--- the layer before it, convolutions on the CPU get packed weights, and sums and activations are
--- computed with them. The program then has copies of the parameters, and its results may differ
--- from the model's by rounding. The program's field `unoptimized` says why an optimization was
--- left out.
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
---@param options? {dynamic: table<string, table>, names: string[], optimize: boolean}  dynamic:
--- for each input by name, its dimensions that may have another size; names: the inputs' names, in
--- place of the names of forward's parameters; optimize: whether to make the program faster
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

--- Loads a program that was saved. The file's tensors are mapped, not read. The program runs on the
--- default device; program:to moves it to another one.
---@param path string
---@return export.Program
function M.load(path)
   if type(path) ~= "string" then args.refuse("export.load", "path", "a path", path) end
   local program, device = wrap(torch._program_load(path)), torch.get_default_device()
   return device.type == "cpu" and program or program:to(device)
end

lazy.load(M, {})
-- The metatable keeps values for other files: lua/tlua/export_step.lua, which also makes programs,
-- uses `wrap`, and freeze.lua uses the class.
getmetatable(M).wrap = wrap
getmetatable(M).Program = Program
getmetatable(M).__call = function(_, ...) return M.export(...) end

return M
