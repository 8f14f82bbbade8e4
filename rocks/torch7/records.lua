-- records.lua - records the calls of layers. `updateOutput` runs a layer's function on detached
-- inputs and parameters, so that autograd records it. Both halves of `backward`, updateGradInput
-- and accGradParameters, compute gradients from this record. The records of all layers in a
-- container form a run, whose gradients are computed in one pass.

local tlua = require "tlua"
local types = require "tlua.torch7.types"

local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local detach, grad = tlua.detach, tlua.autograd.grad

local M = {}

-- Trees: a tensor, or a table of trees ------------------------------------------------------------

-- Returns the keys of a table other than the positions 1 to n, in ascending order. Returns nil if
-- there are none.
local function names_of(tree, n)
   local count = 0
   for _ in next, tree do count = count + 1 end
   if count == n then return nil end
   local names = {}
   for key in next, tree do
      local is_position = math.type(key) == "integer" and key >= 1 and key <= n
      if not is_position then names[#names + 1] = key end
   end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   return names
end

local function is_branch(tree) return type(tree) == "table" and not getmetatable(tree) end

--- Returns a copy of a tree of tables with fn(value) in place of each value that is not a table. fn
--- is called first for the values at positions 1, 2 and so on, and then for the other keys.
local function map(fn, tree)
   if not is_branch(tree) then return fn(tree) end
   local made, n = {}, #tree
   for i = 1, n do
      local value = tree[i]
      if type(value) == "table" then made[i] = map(fn, value) else made[i] = fn(value) end
   end
   local names = names_of(tree, n)
   if names then
      for _, key in ipairs(names) do made[key] = map(fn, tree[key]) end
   end
   return made
end
M.map = map

--- Appends the values of a tree to a list, in the order of `map`.
local function flatten(tree, into)
   if not is_branch(tree) then
      into[#into + 1] = tree
      return into
   end
   local n = #tree
   for i = 1, n do
      local value = tree[i]
      if type(value) == "table" then flatten(value, into) else into[#into + 1] = value end
   end
   local names = names_of(tree, n)
   if names then
      for _, key in ipairs(names) do flatten(tree[key], into) end
   end
   return into
end

-- Returns a tensor's version, a number that changes when the elements change.
local function version(x) return is_tensor(x) and field(x, "_version") or 0 end

-- Runs --------------------------------------------------------------------------------------------

-- While a container computes its output, `links` maps each layer's output to the tensor with the
-- output's autograd history, and the next layer continues this history. So the container's
-- `backward` can compute the gradients of all layers in one pass. If the container contains a
-- module that defines its own gradients, the field `whole` of the run is false, and each module
-- computes its gradients separately.

local run -- the run that is being recorded; nil outside a container
local ending = setmetatable({}, {__close = function() run = nil end})

-- The runs and records of the last calls of modules. They are not stored in the modules, so that
-- they are not saved to files.
local runs, records = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"})

-- Maps the function updateOutput of a module class whose calls belong to runs to the gradient
-- methods of this class. A module that has replaced one of these methods is excluded: its calls
-- belong to no run.
local members = {}
local methods_of_gradients <const> = {"updateGradInput", "accGradParameters", "backward"}

--- Declares that calls of a class's modules belong to the run of the container that calls them.
---@param class table
---@param passes? "forwards"|"backwards"  if the class is a container, the order in which it passes
--- gradients to its modules
function M.join(class, passes)
   local own = {passes = passes or false}
   for _, name in ipairs(methods_of_gradients) do own[name] = class[name] end
   members[class.updateOutput] = own
end

-- Returns whether calls of a module belong to the run of its container.
local function is_member(module)
   local own = members[module.updateOutput]
   return own and module.train ~= false and module.updateGradInput == own.updateGradInput
      and module.accGradParameters == own.accGradParameters and module.backward == own.backward
      and (rawget(module, "modules") == nil or own.passes and module.modules[1] ~= nil)
end

local function leaf(x)
   if not is_tensor(x) then return x end
   local linked = run and run.links[x]
   -- Each layer gets its own view of the tensor, because the gradient of this view is the layer's
   -- gradInput.
   if linked then return run.views and methods.view_as(linked, linked) or linked end
   local made = detach(x)
   if tlua.is_floating_point(made) then made.requires_grad = true end
   return made
end

-- Computes the output of `module`, a container within another container. Each tensor of its input
-- is replaced by a view, whose gradient is the gradInput of the inner container.
local function forward_container(outer, module, input)
   local call = {module = module, steps = {}}
   table.insert(outer.containers, call)
   if not outer.passes then return module:updateOutput(input) end
   local links, before, n = outer.links, {}, 0
   call.leaves = map(function(x)
      if not is_tensor(x) then return x end
      for i = 1, n, 2 do
         -- If two inputs are the same tensor, autograd would compute only one gradient for both.
         if rawequal(before[i], x) then outer.whole = false end
      end
      before[n + 1], before[n + 2], n = x, links[x] or false, n + 2
      local view = leaf(x)
      if field(view, "requires_grad") then links[x] = view end
      return view
   end, input)
   local around = outer.steps
   table.insert(around, call)
   outer.steps = call.steps
   local output = module:updateOutput(input)
   outer.steps = around
   for i = n - 1, 1, -2 do links[before[i]] = before[i + 1] or nil end
   return output
end

--- Computes the output of a module within a container. The call joins the container's run if the
--- module allows it.
---@param module table
---@param input any
---@return any output
function M.forward(module, input)
   local outer = run
   if outer == nil then return module:updateOutput(input) end
   if is_member(module) then
      if rawget(module, "modules") then return forward_container(outer, module, input) end
      return module:updateOutput(input)
   end
   outer.whole, run = false, nil
   local output = module:updateOutput(input)
   run = outer
   return output
end

--- Converts a layer's result to Torch7's type. A tensor without dimensions becomes a vector of one
--- element.
local function result(value)
   if not is_tensor(value) then return value end
   if methods.dim(value) == 0 then value = tlua.unsqueeze(value, 1) end
   local made = types.tag(detach(value))
   if run and field(value, "requires_grad") then run.links[made] = value end
   return made
end
M.result = result

-- Stores the tensors in a call's input, and their versions, in a record.
local function note_inputs(made, input)
   if is_tensor(input) then
      made.input, made.version = input, version(input)
      return
   end
   made.inputs, made.versions = flatten(input, {}), {}
   for i, x in ipairs(made.inputs) do made.versions[i] = version(x) end
end

-- Returns whether a record was made for this input and the input's elements have not changed since.
local function has_input(made, input)
   if made.input ~= nil then
      return rawequal(made.input, input) and version(input) == made.version
   end
   if is_tensor(input) then return false end
   local inputs = flatten(input, {})
   if #inputs ~= #made.inputs then return false end
   for i, x in ipairs(inputs) do
      if not rawequal(x, made.inputs[i]) or version(x) ~= made.versions[i] then return false end
   end
   return true
end

-- Returns whether the elements of a record's inputs have not changed since the call.
local function inputs_are_unchanged(made)
   if made.input ~= nil then return version(made.input) == made.version end
   for i, x in ipairs(made.inputs) do
      if version(x) ~= made.versions[i] then return false end
   end
   return true
end

-- A layer's options are the fields that its function may read, such as a constant or a mask. Fields
-- that a call writes, and fields that are compared separately, are left out.
local no_option = {}
for name in ([[output gradInput weight bias gradWeight gradBias last started cell userGradPrevOutput
   userGradPrevCell _indices loss]]):gmatch "%S+" do no_option[name] = true end
local deepest <const> = 4

-- In a list of options, the value at this key is a table with the versions of the tensors.
local versions_key <const> = {}

-- Returns the options of a layer, or the elements of an option that is a table.
local function options_of(from, skip, depth)
   local options, versions = {}, nil
   for key, value in next, from do
      if not skip[key] then
         options[key] = value
         local kind, noted = type(value), nil
         if kind == "table" then
            if types.is_storage(value) then
               noted = version(value.elements)
            elseif depth < deepest and not getmetatable(value) then
               noted = options_of(value, {}, depth + 1)
            end
         elseif kind == "userdata" then
            noted = version(value)
         end
         if noted then
            versions = versions or {}
            versions[key] = noted
         end
      end
   end
   options[versions_key] = versions
   return options
end

local function options_are_unchanged(from, skip, options)
   local versions = options[versions_key]
   for key, value in next, from do
      if not skip[key] then
         if not rawequal(options[key], value) then return false end
         local noted = versions and versions[key]
         if type(noted) == "table" then
            if not options_are_unchanged(value, {}, noted) then return false end
         elseif noted and noted ~= version(types.is_storage(value) and value.elements or value) then
            return false
         end
      end
   end
   for key in next, options do
      if rawget(from, key) == nil and key ~= versions_key then return false end
   end
   return true
end

--- Returns a layer's options, so that has_options can compare them later.
---@param self table
---@param skip? table<string, true>  the fields that are not options
---@return table options
function M.options(self, skip) return options_of(self, skip or no_option, 1) end

--- Returns whether a layer's options equal those that M.options has returned earlier.
---@param self table
---@param options table
---@param skip? table<string, true>
---@return boolean
function M.has_options(self, options, skip)
   return options_are_unchanged(self, skip or no_option, options)
end

local function copied(list) return table.move(list, 1, #list, 1, {}) end

-- Stores the outputs and options of a run's modules, and the lists of modules in its containers.
local function note_outputs(self, made)
   local calls = made.calls
   made.outputs, made.options, made.members = {}, {}, {}
   for i = 1, #calls, 2 do
      local module = calls[i]
      if made.outputs[module] ~= nil then made.repeats = true end
      -- These are the options of the layer's last call. An earlier call of the same layer may have
      -- had other options.
      made.outputs[module], made.options[module] = module.output, calls[i + 1].options
   end
   -- The modules of a graph are in its plan, so they are not listed here.
   if not made.passes then return end
   made.members[self] = copied(self.modules)
   for _, call in ipairs(made.containers) do
      made.members[call.module] = copied(call.module.modules)
   end
end

-- Returns whether the modules of a run, their outputs and their options have not changed since the
-- call.
local function modules_are_unchanged(made)
   for module, output in next, made.outputs do
      if not rawequal(module.output, output) or not M.has_options(module, made.options[module]) then
         return false
      end
   end
   for container, list in next, made.members do
      if #container.modules ~= #list then return false end
      for i, module in ipairs(list) do
         if container.modules[i] ~= module then return false end
      end
   end
   return true
end

--- Computes a container's output, `forward(self, input)`, and records the run.
---@param self table
---@param forward fun(self: table, input: any): any
---@param input any
---@param passes? "forwards"|"backwards"  the order in which the container passes gradients to its
--- modules; if nil, `backward` does not compute gradInput of the modules
---@return any output
function M.run(self, forward, input, passes)
   if run or self.train == false then return forward(self, input) end
   local made = {links = {}, calls = {}, containers = {}, steps = {}, whole = true,
      passes = passes, views = passes ~= nil}
   note_inputs(made, input)
   made.leaves = map(leaf, input)
   local leaves = flatten(made.leaves, {})
   for i, x in ipairs(made.inputs or {input}) do
      if is_tensor(x) and field(leaves[i], "requires_grad") then
         if made.links[x] then made.whole = false end
         made.links[x] = leaves[i]
      end
   end
   run, runs[self] = made, made
   local _ <close> = ending
   made.output = forward(self, input)
   note_outputs(self, made)
   return made.output
end

-- Records
-- -------------------------------------------------------------------------------------------

--- Drops the records of a module's last call.
function M.forget(self) records[self], runs[self] = nil, nil end

local function parameter(self, name)
   local value = rawget(self, name)
   return value ~= nil and is_tensor(value) and methods.numel(value) > 0 and value or nil
end

--- Returns whether a layer has parameters.
function M.has_parameters(self) return parameter(self, "weight") or parameter(self, "bias") end

--- Maps the function `compute` of a layer to a function that adds the gradients of the layer's
--- parameters, times `scale`, to the layer's gradWeight and gradBias. Its arguments are the input
--- and the gradient of the output, without autograd history. A run calls this function because it
--- is cheaper than to get gradients from autograd and add them.
---@type table<function, fun(self: table, x: Tensor, g: Tensor, scale: number)>
M.accumulate = {}

-- Returns whether a run adds the gradients of a call's parameters by a function in M.accumulate.
local function is_accumulated(call)
   local module = call.module
   return M.accumulate[module.compute] and call.weight_leaf and module.gradWeight
      and is_tensor(call.output)
end

local function has_duplicates(list)
   for i = 2, #list do
      for k = 1, i - 1 do
         if rawequal(list[i], list[k]) then return true end
      end
   end
   return false
end

-- Returns the tensors on which a layer's function runs: detached copies of the inputs, which share
-- the inputs' memory.
local function leaves_of(made, input)
   if made.input ~= nil then return leaf(input) end
   if not run or run.passes or not has_duplicates(made.inputs) then return map(leaf, input) end
   run.views = true
   local leaves = map(leaf, input)
   run.views = false
   return leaves
end

--- Calls a layer's function on leaves, so that autograd records the call. Returns the record of the
--- call.
---@param self table
---@param input any
---@return table record
function M.record(self, input)
   local made = {run = run, module = self}
   note_inputs(made, input)
   made.leaves = leaves_of(made, input)
   local weight, bias = parameter(self, "weight"), parameter(self, "bias")
   if weight then made.weight, made.weight_version = weight, version(weight) end
   if bias then made.bias, made.bias_version = bias, version(bias) end
   made.weight_leaf, made.bias_leaf = leaf(weight), leaf(bias)
   made.output = self.compute(self, made.leaves, made.weight_leaf, made.bias_leaf)
   made.options = M.options(self)
   records[self] = made
   if run then
      local calls = run.calls
      calls[#calls + 1], calls[#calls + 2] = self, made
      if run.passes then table.insert(run.steps, made) end
   end
   return made
end

local function is_unchanged(self, name, value, noted)
   return value == nil or rawequal(self[name], value) and version(value) == noted
end

local function parameters_are_unchanged(self, made)
   return is_unchanged(self, "weight", made.weight, made.weight_version)
      and is_unchanged(self, "bias", made.bias, made.bias_version)
end

local once_more = setmetatable({}, {__close = function() M.again = false end})

--- Calls a function fn that repeats a call which has been recorded before. Meanwhile, modules draw
--- no new random numbers and do not change their states, so that the result is the same.
function M.once_more(fn, ...)
   local outer = run
   local _ <close> = once_more
   M.again, run = true, nil
   local made = fn(...)
   run = outer
   return made
end

--- Returns the record of a layer's last call. The record must belong to this input and these
--- parameters and must still have its autograd history. Otherwise the call is recorded again.
---@param self table
---@param input any
---@return table record
function M.record_of(self, input)
   local made = records[self]
   if made and not made.spent and not (made.run and made.run.spent) and has_input(made, input)
      and parameters_are_unchanged(self, made) and M.has_options(self, made.options) then
      return made
   end
   return M.once_more(M.record, self, input)
end

-- Gradients ---------------------------------------------------------------------------------------

-- Raises an error about a gradient. `name` is the gradient's name in the message, or its position
-- in gradOutput.
local function refuse_gradient(name, expected, got)
   if type(name) == "number" then name = "gradOutput " .. name end
   tlua.raise(("backward: %s: expected %s, got %s"):format(name, expected, got))
end

local function check_gradient(g, name)
   if not is_tensor(g) then refuse_gradient(name, "a tensor", "a " .. type(g)) end
end

--- Converts the gradient of an output to the output's dtype and size. `name` is the gradient's name
--- in messages, or its position in gradOutput.
local function gradient_like(output, g, name)
   check_gradient(g, name)
   local dtype = field(output, "dtype")
   if field(g, "dtype") ~= dtype then g = methods.to(g, dtype) end
   if tlua.is_same_size(g, output) then return g end
   if methods.numel(g) ~= methods.numel(output) then
      refuse_gradient(name, methods.numel(output) .. " elements", methods.numel(g))
   end
   return tlua.reshape(g, field(output, "shape"))
end
M.gradient_like = gradient_like

-- Appends the outputs that have an autograd history to the list `kept`, and their gradients to
-- `grads`. A table of gradients has the same keys as the table of outputs. `n` is the number of
-- tensors visited before the call. Returns the number visited after it.
local function pair_gradients(output, g, kept, grads, n)
   if is_tensor(output) then
      n = n + 1
      if g ~= nil then check_gradient(g, n) end
      if g and field(output, "requires_grad") then
         local count = #kept + 1
         kept[count], grads[count] = output, gradient_like(output, g, n)
      end
      return n
   end
   if not is_branch(output) then return n end
   if g ~= nil and not is_branch(g) then
      tlua.raise("backward: gradOutput: expected a table of gradients, got a "
         .. (is_tensor(g) and "tensor" or type(g)))
   end
   for key, value in next, output do
      n = pair_gradients(value, g and g[key], kept, grads, n)
   end
   return n
end

-- Returns a list with the gradient of each leaf; nil stands for a leaf without a gradient.
local function gradients(output, leaves, gradOutput, retain)
   if gradOutput == nil then
      tlua.raise "backward: gradOutput: expected a tensor or a table, got nil"
   end
   local outputs, grads = {}, {}
   pair_gradients(output, gradOutput, outputs, grads, 0)
   if #outputs == 0 or #leaves == 0 then return {} end
   return {grad(outputs, leaves, grads, {retain_graph = retain, allow_unused = true})}
end

local function wanted(leaves, into)
   if is_tensor(leaves) then
      if field(leaves, "requires_grad") then into[#into + 1] = leaves end
      return into
   end
   for _, x in ipairs(flatten(leaves, {})) do
      if is_tensor(x) and field(x, "requires_grad") then into[#into + 1] = x end
   end
   return into
end

local function parameter_leaves(made, into)
   if made.weight_leaf then into[#into + 1] = made.weight_leaf end
   if made.bias_leaf then into[#into + 1] = made.bias_leaf end
   return into
end

-- Returns the gradients of a call's inputs, in the shape of the inputs. They begin at position `at`
-- of `list`. Also returns the position after them.
local function input_gradients(made, list, at)
   return map(function(x)
      if not is_tensor(x) then return x end
      if not field(x, "requires_grad") then return types.tag(tlua.zeros_like(x)) end
      at = at + 1
      return types.tag(list[at - 1] or tlua.zeros_like(x))
   end, made.leaves), at
end

local function add_gradient(sum, gradient, scale)
   if not gradient or not sum then return end
   if scale == 1 then tlua.add_(sum, gradient) else tlua.add_(sum, gradient, {alpha = scale}) end
end

-- Adds the gradients of a call's parameters, times `scale`, to the layer's gradWeight and gradBias.
-- The gradients to add are in `list`, from position `at` on. Returns the position after them.
local function add_gradients(self, made, list, at, scale)
   if made.weight_leaf then
      add_gradient(self.gradWeight, list[at], scale)
      at = at + 1
   end
   if made.bias_leaf then
      add_gradient(self.gradBias, list[at], scale)
      at = at + 1
   end
   return at
end

--- Returns the gradients of a layer's inputs, computed from the record of its call.
function M.grad_input(self, input, gradOutput)
   local made = M.record_of(self, input)
   local list = gradients(made.output, wanted(made.leaves, {}), gradOutput, true)
   return (input_gradients(made, list, 1))
end

--- Adds the gradients of a layer's parameters, times `scale`, to gradWeight and gradBias.
function M.add_gradients(self, input, gradOutput, scale)
   local made = M.record_of(self, input)
   local list = gradients(made.output, parameter_leaves(made, {}), gradOutput, true)
   add_gradients(self, made, list, 1, scale)
end

--- Adds the gradients of a layer's parameters, times `scale`, to the parameters themselves.
function M.update_parameters(self, input, gradOutput, scale)
   local made = M.record_of(self, input)
   local list = gradients(made.output, parameter_leaves(made, {}), gradOutput, true)
   add_gradient(made.weight, list[1], scale)
   add_gradient(made.bias, list[made.weight and 2 or 1], scale)
end

--- Computes all gradients of a layer in one pass, and returns the gradients of its inputs.
function M.backward(self, input, gradOutput, scale)
   local made = M.record_of(self, input)
   -- If a container has recorded the layer together with its other layers, the graph of autograd is
   -- kept, because the backward calls of these layers still need it.
   local retain = made.run ~= nil
   local list = gradients(made.output, parameter_leaves(made, wanted(made.leaves, {})), gradOutput,
      retain)
   if not retain and #list > 0 then made.spent = true end
   local gradInput, at = input_gradients(made, list, 1)
   add_gradients(self, made, list, at, scale)
   return gradInput
end

local function is_current(self, made, input)
   if not made or made.spent or not made.whole or not rawequal(made.output, self.output)
      or not has_input(made, input) or not modules_are_unchanged(made) then
      return false
   end
   local calls = made.calls
   for i = 1, #calls, 2 do
      if not (inputs_are_unchanged(calls[i + 1])
         and parameters_are_unchanged(calls[i], calls[i + 1])) then
         return false
      end
   end
   return true
end

-- Sets the field gradInput of modules, in the order in which containers pass gradients to them. So
-- a module that is called several times ends with the gradient that it receives last.
local function set_gradients(steps, passes, given)
   local n, backwards = #steps, passes == "backwards"
   for i = 1, n do
      local step = steps[backwards and n + 1 - i or i]
      step.module.gradInput = given[step]
      if step.steps then
         set_gradients(step.steps, members[step.module.updateOutput].passes, given)
      end
   end
end

--- Computes the gradients of all layers of a container in one pass. Returns false without computing
--- anything if a module or tensor has changed since the last call of the container.
---@param self table
---@param input any
---@param gradOutput any
---@param scale number
---@return boolean done
function M.backward_run(self, input, gradOutput, scale)
   local made = runs[self]
   if not is_current(self, made, input) then return false end
   local leaves, calls = wanted(made.leaves, {}), made.calls
   for i = 2, #calls, 2 do
      local call = calls[i]
      if made.passes then wanted(call.leaves, leaves) end
      call.accumulated = is_accumulated(call)
      if call.accumulated then leaves[#leaves + 1] = call.output
      else parameter_leaves(call, leaves) end
   end
   for _, call in ipairs(made.passes and made.containers or {}) do wanted(call.leaves, leaves) end
   local output = map(function(x) return is_tensor(x) and made.links[x] or false end, made.output)
   local list = gradients(output, leaves, gradOutput, false)
   if #list == 0 then return false end
   made.spent, made.links = true, nil
   local gradInput, at = input_gradients(made, list, 1)
   local given = {}
   self.gradInput = gradInput
   for i = 2, #calls, 2 do
      local call = calls[i]
      if made.passes then given[call], at = input_gradients(call, list, at) end
      local module = call.module
      module.gradInput = given[call]
      if not call.accumulated then
         at = add_gradients(module, call, list, at, scale)
      else
         local g = list[at]
         if g then M.accumulate[module.compute](module, detach(call.leaves), g, scale) end
         at = at + 1
      end
   end
   for _, call in ipairs(made.containers) do
      if made.passes then given[call], at = input_gradients(call, list, at) end
      call.module.gradInput = given[call]
   end
   if made.repeats then set_gradients(made.steps, made.passes, given) end
   return true
end

--- Returns whether a container's call is being recorded.
function M.is_running() return run ~= nil end

M.leaf, M.flatten, M.wanted, M.version, M.gradients = leaf, flatten, wanted, version, gradients
M.no_option, M.versions_key = no_option, versions_key

return M
