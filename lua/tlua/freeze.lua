-- freeze.lua - torch.freeze: turns a model or a program into a function for loops that must be on
-- time. The first call makes everything that later calls need, so that later calls allocate
-- nothing.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local export = require "tlua.export"
local nested = require "tlua.export.nested"
local random = require "tlua.random"

local Program = getmetatable(export).Program

--- A model, made by torch.freeze, whose calls are as quick and as even as possible. The first call
--- fixes the shapes and dtypes of the inputs, and takes long, as it traces the model and plans the
--- memory. From the fourth call on, calls allocate no memory, neither of Lua nor of the C library.
--- On one thread (torch.set_num_threads) they also take no lock, except that a model that changes
--- its own buffers, or a training step, takes one lock of its own.
---
--- Results are tensors that the next call overwrites; a result that must stay is cloned. They may
--- be inputs of the next call, such as the state of a recurrent network.
---
---     local frozen = torch.freeze(nn.ReLU():eval())
---     local kept = frozen(torch.tensor {1., -1}):clone()
---     print(frozen(torch.tensor {-2., 2}), kept)
---     --> tensor([0., 2.])	tensor([1., 0.])
---@class Frozen
---@field program export.Program?  the program that calls run; nil before the first call, unless a
--- program was frozen
---@overload fun(...): Tensor
local Frozen = class.class "Frozen"

function Frozen:__init() -- luacheck: ignore self
   torch.raise "Frozen: use torch.freeze(model)"
end

-- Stores the tensors in `value`, an argument with the given structure, in `list` after position
-- `n`. Returns the position of the last tensor.
local function fill(list, n, structure, value, argument)
   if structure == 0 then
      if not torch.is_tensor(value) then
         args.refuse("freeze", "argument " .. argument, "a tensor", value)
      end
      list[n + 1] = value
      return n + 1
   end
   if type(value) ~= "table" or getmetatable(value) then
      args.refuse("freeze", "argument " .. argument, "a table of tensors, as in the first call",
         value)
   end
   for i = 1, #structure do
      local entry = structure[i]
      n = fill(list, n, entry[2], value[entry[1]], argument)
   end
   return n
end

-- Returns the sizes of tensors as a list of lists.
local function sizes_of(tensors)
   local sizes = {}
   for i, tensor in ipairs(tensors) do sizes[i] = {table.unpack(tensor.shape)} end
   return sizes
end

-- Raises the error of a run. If the results do not fit into the tensors of the first call,
-- which had another dynamic size, the error names the input and the size.
local function fail(state, message)
   local misfit = type(message) == "string" and message:find "program: output %d+ of %d+"
   for i, input in ipairs(misfit and state.graph:inputs() or {}) do
      for d, size in ipairs(input.shape) do
         local got, first = state.inputs[i]:size(d), state.sizes[i][d]
         if type(size) == "string" and got ~= first then
            torch.raise(("freeze: %s: expected size %d in dimension %d, as in the first call, "
               .. "whose results later calls overwrite, got %d"):format(input.name, first, d, got))
         end
      end
   end
   error(message, 0)
end

-- Makes the program if there is none, runs it for the first time, and keeps its results for later
-- calls. The trace leaves the states of the random generators unchanged, so that the run draws the
-- same random numbers as the model.
local function begin(self, ...)
   local program = self.program or random.fork_rng(export, rawget(self, "model_"), {...})
   local structure, inputs = program.structure_, {}
   nested.flatten("freeze", "inputs", {...}, inputs)
   local outputs = program.graph_:run(inputs)
   local count, results = #outputs, outputs
   if structure.outputs and not structure.plain_outputs then
      results, count = nested.unflatten(structure.outputs, outputs, 1), #structure.outputs
   end
   rawset(self, "program", program)
   rawset(self, "state_", {
      graph = program.graph_, inputs = inputs, outputs = outputs, results = results,
      count = count, structure = structure.inputs, arguments = select("#", ...),
      sizes = sizes_of(inputs),
   })
end

--- Runs the model.
---@param ... Tensor  the arguments of the model, tensors or tables of tensors
---@return Tensor ...  the results of the model, which the next call overwrites
function Frozen:__call(...)
   local state = rawget(self, "state_")
   if not state then
      begin(self, ...)
      state = rawget(self, "state_")
   else
      local given, list, n = select("#", ...), state.inputs, 0
      if given ~= state.arguments then
         torch.raise(("freeze: expected %d arguments, as in the first call, got %d"):format(
            state.arguments, given))
      end
      for i = 1, given do
         local structure = state.structure
         n = fill(list, n, structure and structure[i][2] or 0, (select(i, ...)), i)
      end
      local fine, message = pcall(state.graph.run_into, state.graph, list, n, state.outputs)
      if not fine then fail(state, message) end
   end
   if state.count == 1 then return state.results[1] end
   return table.unpack(state.results, 1, state.count)
end
Frozen.forward = Frozen.__call

function Frozen:__tostring()
   return self.program and "Frozen " .. tostring(self.program) or "Frozen (not called yet)"
end

--- Returns a model in a form for loops with a time budget: games, audio, control. From the fourth
--- call on, calls allocate nothing, neither of Lua nor of the C library, and their results are
--- tensors that the next call overwrites. The values are bitwise the same as the model's; results
--- have no gradients. The model is traced in the first call, as by torch.export, so its Lua code
--- does not run again. Later changes of the parameters' values in place take effect. Other changes
--- do not: of attributes, hooks and modes, and of parameters that are replaced or get other memory,
--- for example by `.data`.
---
---     local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()):eval()
---     local frozen = torch.freeze(model)
---     local x = torch.ones(1, 2)
---     print(frozen(x):equal(model(x)), rawequal(frozen(x), frozen(x)))
---     --> true	true
---
--- A program of torch.export can also be frozen. So can a training step of torch.export_step after
--- it was saved and loaded, because it then no longer depends on the script.
---@param model nn.Module|function|export.Program  a module must be in evaluation mode
---@return Frozen
return function(model)
   local program = class.isinstance(model, Program) and model or nil
   if not program and not args.is_callable(model) then
      args.refuse("freeze", "model", "a module, a function or a program", model)
   end
   if not program and type(model) == "table" and model.training == true then
      torch.raise "freeze: model: expected a module in evaluation mode; call model:eval()"
   end
   if program and rawget(program, "link_") then
      torch.raise("freeze: model: the step follows its model and optimizer in this script; save "
         .. "it, and freeze the program that torch.export.load returns")
   end
   local frozen = setmetatable({}, Frozen)
   rawset(frozen, program and "program" or "model_", model)
   return frozen
end
