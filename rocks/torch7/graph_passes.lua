-- graph_passes.lua - fast forward and backward passes of graphs. A layer is plain if it inherits
-- the gradient methods of Module unchanged. If there is a formula for a plain layer's gradients
-- (formulas.lua), the forward pass stores only the layer's output and the versions of its tensors;
-- otherwise it also stores an autograd history of this layer. Modules that are not plain compute
-- their outputs and gradients by their own methods. graph_code.lua writes the functions that call
-- one step of a graph after another.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"
local formulas = require "tlua.torch7.formulas"
local code = require "tlua.torch7.graph_code"

local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local detach, tag, close = tlua.detach, types.tag, types.close
local Module = base.Module
local has_options, options_of = records.has_options, records.options

local M = {}

-- Plain layers ------------------------------------------------------------------------------------

local methods_of_plain <const> = {
   updateOutput = Module.updateOutput, updateGradInput = Module.updateGradInput,
   accGradParameters = Module.accGradParameters, backward = Module.backward,
}

-- Returns whether a layer is plain, which is defined at the top of this file.
local function is_plain(module)
   if not module.compute or module.train == false or rawget(module, "modules") then return false end
   for name, method in next, methods_of_plain do
      if module[name] ~= method then return false end
   end
   return true
end

-- Returns whether a layer has parameters with which a linear layer can be computed.
local function is_linear(module)
   local weight, bias = rawget(module, "weight"), rawget(module, "bias")
   return is_tensor(weight) and methods.dim(weight) == 2 and methods.numel(weight) > 0
      and (bias == nil or is_tensor(bias) and methods.numel(bias) > 0)
end

local names_of_plain <const> = {"compute", "train", "modules", "updateOutput", "updateGradInput",
   "accGradParameters", "backward"}

-- Appends to the list `fields` all fields that decide whether a module is plain: the module's own
-- fields and the fields of its classes.
local function note_fields(fields, seen, module)
   local at = module
   while type(at) == "table" and not seen[at] do
      seen[at] = true
      for _, name in ipairs(names_of_plain) do
         local n = fields.n
         fields[n + 1], fields[n + 2], fields[n + 3] = at, name, rawget(at, name)
         fields.n = n + 3
      end
      local meta = getmetatable(at)
      at = at == module and meta or meta and meta.__index
   end
end

-- The first set has layers whose gradients are computed from their inputs, the second set has
-- layers whose gradients are computed from their outputs. `false` stands for a layer without a
-- formula, which autograd differentiates.
local needs_input <const> = {Linear = true, CMulTable = true, [false] = true}
local needs_output <const> = {Sigmoid = true, Tanh = true, LogSoftMax = true}

-- Lists the steps whose outputs must not change before the backward pass.
local function kept_steps(plan, sorted)
   local is_kept, kept = {}, {}
   for i, step in ipairs(plan) do
      local name = step.module and (sorted.names[i] or false)
      if needs_input[name] then
         for _, source in ipairs(step.sources) do is_kept[source] = true end
      end
      if needs_output[name] then is_kept[i] = true end
   end
   for i = 1, #plan do
      if is_kept[i] then kept[#kept + 1] = i end
   end
   return kept
end

-- Prepares a plan: finds the plain layers, their functions and their formulas, and generates the
-- functions that compute the graph.
local function sort_steps(plan)
   local sorted = {plain = {}, formulas = {}, names = {}, modules = {}, linear = {}, judged = {}}
   local fields, seen = {n = 0}, {}
   for i, step in ipairs(plan) do
      local module = step.module
      sorted.modules[i] = module or false
      if module then
         note_fields(fields, seen, module)
         local formula = is_plain(module) and formulas.by_compute[module.compute]
         if formula and formula.name == "Linear" and not is_linear(module) then formula = nil end
         local name = formula and code.is_written(step, formula.name) and formula.name or nil
         if is_plain(module) and not name then sorted.plain[i] = module end
         sorted.formulas[i], sorted.names[i] = formula or nil, name
         if name == "Linear" then table.insert(sorted.linear, module) end
         if needs_output[name] then table.insert(sorted.judged, i) end
      end
   end
   sorted.kept = kept_steps(plan, sorted)
   sorted.note = tlua._note(nil, {n = 0}, fields, {n = 0})
   sorted.forward, sorted.backward = code.compile(plan, sorted.names, M.to, M.from)
   return sorted
end

-- `known` maps a layer to its options in the last call, and `writes` maps a layer to true if calls
-- change its options. If all options of a layer are plain values, `counts` has their number and
-- is_unchanged compares them. If some are tensors or tables, records.lua compares their versions.
local known, counts, writes = {}, {}, {}
for _, map in ipairs {known, counts, writes} do setmetatable(map, {__mode = "k"}) end
local no_option <const> = records.no_option

local function remember(module, options)
   known[module] = options
   counts[module] = nil
   if options[records.versions_key] then return end
   local count = 0
   for _ in next, options do count = count + 1 end
   counts[module] = count
end

-- Returns whether a layer's options are the same as in its last call.
local function is_unchanged(module)
   local options, count = known[module], counts[module]
   if not count then return options ~= nil and has_options(module, options) end
   for key, value in next, module do
      if not no_option[key] then
         if options[key] ~= value then return false end
         count = count - 1
      end
   end
   return count == 0
end

-- Passes ------------------------------------------------------------------------------------------

-- `sorted_of` maps each plan to the result of sort_steps. `passes` maps each graph to its last
-- pass, whose tables the next pass reuses.
local sorted_of, passes = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"})

--- Drops the record of a graph's last pass.
function M.forget(self)
   if passes[self] then passes[self].outputs = nil end
   passes[self] = nil
end

local function note(pass, tensor)
   local n = pass.count + 1
   pass.count, pass.noted[n], pass.versions[n] = n, tensor, field(tensor, "_version")
end

local function note_all(pass, tree)
   if is_tensor(tree) then return note(pass, tree) end
   if type(tree) ~= "table" then return end
   for _, value in next, tree do note_all(pass, value) end
end

-- Returns a copy of a tree with fn(pass, tensor) in place of each tensor.
local function map(fn, pass, tree)
   if is_tensor(tree) then return fn(pass, tree) end
   if type(tree) ~= "table" then return tree end
   local made = {}
   for key, value in next, tree do made[key] = map(fn, pass, value) end
   return made
end

-- Returns a layer's output with Torch7's type. An output that has an autograd history becomes a
-- tensor without one.
local function result(value)
   if field(value, "requires_grad") then value = detach(value) end
   return tag(value)
end

-- Does the same as `result`, gives a tensor without dimensions one dimension, and records the
-- version of the output.
local function noted_result(pass, value)
   local made = result(methods.dim(value) == 0 and tlua.unsqueeze(value, 1) or value)
   note(pass, made)
   return made
end

-- Returns a layer's parameter, and records its version, since a program may change the parameter
-- before it calls `backward`.
local function parameter(pass, module, name)
   local value = rawget(module, name)
   if value == nil or not is_tensor(value) or methods.numel(value) == 0 then return nil end
   note(pass, value)
   local wanted, n = pass.wanted, pass.n_wanted
   wanted[n + 1], wanted[n + 2], wanted[n + 3] = module, name, value
   pass.n_wanted = n + 3
   return value
end

local function new_leaf(leaves, tensor)
   local made = detach(tensor)
   if tlua.is_floating_point(made) then
      made.requires_grad = true
      leaves[#leaves + 1] = made
   end
   return made
end

-- Computes a layer with an autograd history. Appends the leaves of this history to `leaves`: first
-- the parameters, and then the inputs that need gradients.
local function recorded(module, x, weight, bias)
   local leaves = {weight = weight, bias = bias}
   weight, bias = weight and new_leaf(leaves, weight), bias and new_leaf(leaves, bias)
   leaves.input = map(new_leaf, leaves, x)
   leaves.value = module.compute(module, leaves.input, weight, bias)
   return leaves.value, leaves
end

-- Computes a plain layer that has no formula. Returns its output and the record of its history.
local function compute(pass, module, x)
   local options = is_unchanged(module) and known[module]
   local is_new = not options
   if is_new then options = options_of(module) end
   if module.prepare then module:prepare(x) end
   local value, record = recorded(module, x, parameter(pass, module, "weight"), parameter(pass,
      module, "bias"))
   if is_new or writes[module] then
      if not has_options(module, options) then
         writes[module], options = true, options_of(module)
      end
      remember(module, options)
   end
   return value, record
end

local function gather(sources, values)
   if #sources == 1 then return values[sources[1]] end
   local list = {}
   for k = 1, #sources do list[k] = values[sources[k]] end
   return list
end

-- Returns a + b, where `a` is the output of a layer that only this sum uses. If both have the same
-- size, the sum is written into the memory of `a`, and the second result is false. Otherwise the
-- second result is `a`.
local function sum_into(module, a, b)
   if M.keeps or not tlua.is_same_size(a, b) or field(a, "dtype") ~= field(b, "dtype") then
      return result(tlua.add(a, b)), a
   end
   module.output = nil
   return methods.add_(a, b), false
end

-- Returns whether the tensors that the pass has used still have the same elements, and whether the
-- layers still have the same parameters.
local function has_versions(pass)
   local noted, versions = pass.noted, pass.versions
   for i = 1, pass.count do
      if field(noted[i], "_version") ~= versions[i] then return false end
   end
   local wanted = pass.wanted
   for i = 1, pass.n_wanted, 3 do
      if not rawequal(wanted[i][wanted[i + 1]], wanted[i + 2]) then return false end
   end
   return true
end

-- Returns the number of the last step that calls a layer.
local function last_step(plan, module)
   for i = #plan, 1, -1 do
      if plan[i].module == module then return i end
   end
end

-- Returns the output of a step. If the output has been freed, computes it again.
local function output_of(pass, plan, i)
   local outputs, step = pass.outputs, plan[i]
   if outputs[i] == false then
      local list, module = {}, step.module
      for k, source in ipairs(step.sources) do list[k] = output_of(pass, plan, source) end
      if step.input then list[1] = plan.n_inputs == 1 and pass.input or pass.input[step.input] end
      local name = pass.sorted.names[i]
      local fn = formulas.to[name]
      outputs[i] = result(name == "Linear" and fn(module, list[1]) or fn(list[1], list[2]))
      -- If the graph calls a layer several times, the field `output` has the result of the last
      -- call.
      if last_step(plan, module) == i then module.output = outputs[i] end
   end
   return outputs[i]
end

-- Computes again those inputs of a step that have been freed.
local function restore(pass, plan, step)
   for _, source in ipairs(step.sources) do output_of(pass, plan, source) end
end

local function new_pass(self)
   local pass = {noted = {}, versions = {}, wanted = {}, graph = self}
   passes[self] = pass
   return pass
end

-- Maps the layers of graphs to the last pass of their graph.
local pass_of = setmetatable({}, {__mode = "k"})

-- Computes the output of a layer's last call again, which has been freed.
local function freed_output(pass, module)
   local i = last_step(pass.plan, module)
   return i and output_of(pass, pass.plan, i)
end

-- Returns the gradInput of a layer, which the last backward pass has freed, by computing the
-- gradients of all layers of the graph again.
local function freed_gradient(pass, module)
   local last = pass.last
   if not last then return nil end
   for i, g in ipairs(last.list) do
      if is_tensor(g) and field(g, "_version") ~= last[i] then return nil end
   end
   pass.last = nil
   M.back(pass.graph, "updateGradInput", pass.input, last.gradOutput)
   return rawget(module, "gradInput")
end

-- Returns a function that computes a field of a layer again by fn(pass, layer) after a pass of the
-- layer's graph has freed the field. The function returns nil if inputs, parameters or gradients
-- have changed since then.
local function from_pass(fn)
   return function(module)
      local pass = pass_of[module]
      if pass and pass.outputs and has_versions(pass) then return fn(pass, module) end
   end
end
local freed <const> = {output = from_pass(freed_output), gradInput = from_pass(freed_gradient)}

-- Makes the fields that passes have freed available again, for all layers of a plan: a field is
-- computed when a program reads it.
local function supply(pass, plan)
   for _, step in ipairs(plan) do
      if step.module then
         pass_of[step.module] = pass
         classes.supply(step.module, freed)
      end
   end
end

-- Stores gradOutput, the gradient of the graph's output, and `list`, its tensors, with their
-- versions. freed_gradient computes the freed gradients from them.
local function note_gradients(pass, gradOutput, list)
   local last = {gradOutput = gradOutput, list = list}
   for i = 1, #list do
      local g = list[i]
      last[i] = is_tensor(g) and field(g, "_version") or 0
   end
   pass.last = last
end

local function clear(pass)
   for i = #pass.noted, pass.count + 1, -1 do pass.noted[i] = nil end
   for i = #pass.wanted, pass.n_wanted + 1, -1 do pass.wanted[i] = nil end
end

-- Checks whether a layer only returns its input or an element of its input, `x`. If so, returns the
-- same element of `given`, which has the same tensors without autograd history; otherwise returns
-- nil.
local function same_output(value, x, given)
   if rawequal(value, x) then return given end
   if type(x) ~= "table" then return nil end
   for k = 1, #x do
      if rawequal(x[k], value) then return given[k] end
   end
end

-- Frees the output of a layer that only a sum uses, and returns false. An output whose size differs
-- from the sum's size is not freed but returned.
local function shed(module, output, total)
   if M.keeps or not tlua.is_same_size(output, total) then return output end
   module.output = nil
   close(output)
   return false
end

-- Computes a step for which the graph's generated function has no lines of its own.
local function other(pass, i, x)
   local module = pass.sorted.modules[i]
   local formula, plain = pass.sorted.formulas[i], pass.sorted.plain[i]
   pass.given[i] = x
   local output
   if not plain then
      output = module:updateOutput(x)
      return output
   elseif formula then
      output = formula.gives_input and x or map(noted_result, pass, module:compute(x))
   else
      local value, record = compute(pass, module, x)
      pass.records[i] = record
      output = same_output(value, record.input, x) or map(noted_result, pass, value)
   end
   module.output = output
   return output
end

-- Records the tensors of a graph's input. Returns false if one of them has no dimensions; such
-- inputs are not handled here.
local function note_inputs(pass, input)
   pass.inputs = records.flatten(input, {})
   for _, x in ipairs(pass.inputs) do
      if is_tensor(x) then
         if methods.dim(x) == 0 then return false end
         note(pass, x)
      end
   end
   return true
end

--- Computes a graph's output, and records what `backward` needs.
---@param self table
---@param plan table
---@param input any
---@return boolean done
function M.forward(self, plan, input)
   local pass = passes[self]
   if pass then pass.is_done = false end
   if self.train == false or records.is_running() then return false end
   local sorted = sorted_of[plan]
   if not sorted or not tlua._note_holds(sorted.note) then
      sorted = sort_steps(plan)
      sorted_of[plan] = sorted
   end
   pass = pass or new_pass(self)
   if pass.sorted ~= sorted then supply(pass, plan) end
   pass.plan, pass.input, pass.outputs, pass.last = plan, input, nil, nil
   pass.sorted, pass.count, pass.n_wanted, pass.records, pass.given = sorted, 0, 0, {}, {}
   if not note_inputs(pass, input) then return false end
   for _, module in ipairs(sorted.linear) do
      parameter(pass, module, "weight")
      parameter(pass, module, "bias")
   end
   local outputs = sorted.forward(pass, sorted.modules, input)
   pass.outputs = outputs
   for _, i in ipairs(sorted.kept) do note_all(pass, outputs[i]) end
   clear(pass)
   pass.is_done = true
   self.output = gather(plan.ends, outputs)
   return true
end

--- Returns the inputs that each step had in the last call, and the graph's input.
function M.given(self, plan, input)
   local pass = passes[self]
   if not pass or not pass.outputs then
      tlua.raise "nn.gModule: backward needs a forward call"
   end
   local list = {}
   for i, step in ipairs(plan) do
      restore(pass, plan, step)
      if step.input then list[i] = plan.n_inputs == 1 and input or input[step.input]
      else list[i] = pass.given[i] or gather(step.sources, pass.outputs) end
   end
   return list
end

-- Returns whether the recorded pass still holds: its inputs, parameters, options and outputs have
-- not changed.
local function is_current(pass, sorted, input)
   local inputs = records.flatten(input, {})
   if #inputs ~= #pass.inputs then return false end
   for i = 1, #inputs do
      if not rawequal(inputs[i], pass.inputs[i]) then return false end
   end
   if not has_versions(pass) then return false end
   local outputs = pass.outputs
   for _, i in ipairs(sorted.judged) do
      if not rawequal(sorted.modules[i].output, outputs[i]) then return false end
   end
   for i, module in next, sorted.plain do
      if not (rawequal(module.output, outputs[i])
         and (sorted.formulas[i] or is_unchanged(module))) then
         return false
      end
   end
   return tlua._note_holds(sorted.note)
end

-- Sums of gradients -------------------------------------------------------------------------------

-- During a backward pass, nothing outside the pass refers to the gradients between layers. So each
-- gradient is freed as soon as it has been used, and the next gradient gets the same memory, which
-- is still in the processor's cache.

local function release(tree)
   if is_tensor(tree) then
      close(tree)
   elseif type(tree) == "table" then
      for _, value in next, tree do release(value) end
   end
end

-- Returns the sum of two trees of gradients. Frees both if `owned` is true.
local function add(a, b, owned)
   if not a then return b end
   if not b then return a end
   if is_tensor(a) then
      local made = tag(tlua.add(a, b))
      if owned then
         close(a)
         close(b)
      end
      return made
   end
   local made = {}
   for key, value in pairs(a) do made[key] = add(value, b[key], owned) end
   for key, value in pairs(b) do
      if a[key] == nil then made[key] = value end
   end
   return made
end
M.add = add

--- Returns the gradients for a table of outputs. An output without a gradient gets zeros.
local function filled(output, g)
   if is_tensor(output) or type(output) ~= "table" then return g end
   local made = {}
   for k, x in ipairs(output) do
      made[k] = g[k] ~= nil and filled(x, g[k]) or records.map(function(one)
         return is_tensor(one) and tag(tlua.zeros_like(one)) or one
      end, x)
   end
   return made
end
M.filled = filled

-- Converts a gradient that no formula of this file computed (gradOutput, or the gradInput of a
-- module) to the type and size of the output to which it belongs.
local function fitted(output, g, at)
   if g == nil then return nil end
   if is_tensor(output) ~= is_tensor(g) then
      tlua.raise(("backward: gradOutput %d: expected a %s, got a %s"):format(at,
         is_tensor(output) and "tensor" or type(output), is_tensor(g) and "tensor" or type(g)))
   end
   if is_tensor(output) then return tag(detach(records.gradient_like(output, g, at))) end
   if type(output) ~= "table" or type(g) ~= "table" then return g end
   local made = {}
   for key, value in next, g do made[key] = fitted(output[key], value, at) end
   return made
end

local function tagged(_, g) return tag(g) end

-- Returns the gradient of a plain layer's input, computed by autograd from the history in `record`.
local function unrecorded(module, record, g, scale)
   local list = records.gradients(record.value, record, g, false)
   local at = 0
   for _, name in ipairs {"weight", "bias"} do
      if record[name] then
         at = at + 1
         local sum = module[name == "weight" and "gradWeight" or "gradBias"]
         if list[at] and sum then tlua.add_(sum, list[at], {alpha = scale}) end
      end
   end
   local by_leaf = {}
   for k = at + 1, #record do by_leaf[record[k]] = list[k] end
   return map(function(_, leaf) return tag(by_leaf[leaf] or tlua.zeros_like(leaf)) end, nil,
      record.input)
end

local function plain_gradient(pass, i, module, formula, g, scale)
   local record = pass.records[i]
   if formula then
      local x = pass.given[i]
      local made = formula.gradient(module, x, pass.outputs[i], g, scale)
      if made ~= nil then return map(tagged, nil, made) end
      local _
      _, record = recorded(module, x, parameter(pass, module, "weight"), parameter(pass, module,
         "bias"))
   end
   return unrecorded(module, record, filled(pass.outputs[i], g), scale)
end

-- Adds g to the gradient of element `key` of a step's output, which is a table. The lists in
-- pass.split belong to the pass, so they may be changed in place.
local function add_to_element(pass, grads, source, key, g)
   local list = pass.split[source]
   if not list or list ~= grads[source] then
      list = {}
      if grads[source] then
         for k, value in next, grads[source] do list[k] = value end
      end
      pass.split[source], grads[source] = list, list
   end
   list[key] = add(list[key], g, not M.keeps)
end

-- Adds the gradients of a step's inputs to the gradients of the steps or graph inputs from which
-- they come.
local function pass_on(pass, step, g, grads, into)
   local at, sources = step.input, step.sources
   if at then into[at] = add(into[at], g, not M.keeps) end
   local n = #sources
   for k = 1, n do
      local part, source = g, sources[k]
      if n > 1 then part = g[k] end
      if part ~= nil then
         grads[source], pass.split[source] = add(grads[source], part, not M.keeps), nil
      end
   end
end

-- Computes the gradients of a step by general code. The generated function calls it for a step
-- without lines of its own, and for a step whose inputs differ in size.
local function back_other(pass, i, g, grads, into, scale)
   local sorted, step = pass.sorted, pass.plan[i]
   local module = step.module
   if not module then return pass_on(pass, step, g, grads, into) end
   local given = pass.given[i]
   if given == nil then
      restore(pass, pass.plan, step)
      given = gather(step.sources, pass.outputs)
      pass.given[i] = given
   end
   if sorted.plain[i] or sorted.names[i] then
      local used = g
      g = plain_gradient(pass, i, module, sorted.formulas[i], g, scale)
      module.gradInput = M.keeps and g or nil
      if not M.keeps then release(used) end
   else
      module:backward(given, filled(pass.outputs[i], g), scale)
      g = module.gradInput
      -- an empty gradient means that the module computes no gradient for its input
      local is_empty = is_tensor(g) and methods.numel(g) == 0
      g = not is_empty and fitted(given, g, i) or nil
   end
   if g ~= nil then pass_on(pass, step, g, grads, into) end
end

-- These functions end the backward pass of a step. p is the gradient of its input; if there are two
-- inputs, p and q are their gradients. end_step clears gradInput and frees g, the gradient of the
-- output, unless p or q is the same tensor. end_kept_step sets gradInput and frees nothing.
local function end_step(module, g, p, q)
   module.gradInput = nil
   if rawequal(g, p) or rawequal(g, q) then return end
   if is_tensor(g) then close(g) else release(g) end
end
local function end_kept_step(module, _, p, q)
   module.gradInput = q and {tag(p), tag(q)} or map(tagged, nil, p)
end

-- Returns the gradients of an input of the graph. `seen` contains the keys of the storages that the
-- program already holds, so that the results do not share them.
local function input_gradient(seen, input, g)
   if is_tensor(input) then
      if g == nil then return tag(tlua.zeros_like(input)) end
      if seen[types.storage_key(g)] then g = tlua.clone(g) end
      seen[types.storage_key(g)] = true
      return tag(g)
   end
   if type(input) ~= "table" then return g end
   local made = {}
   for key, value in next, input do made[key] = input_gradient(seen, value, g and g[key]) end
   return made
end

local function storages_of(list)
   local seen = {}
   for _, x in ipairs(list) do
      if is_tensor(x) then seen[types.storage_key(x)] = true end
   end
   return seen
end

--- Sets whether layers of graphs keep their gradInput, as Torch7's layers do. By default the memory
--- of a gradient is reused as soon as the previous layer has used the gradient, which is faster.
---@param keep boolean
function M.keep_gradients(keep) M.keeps = keep end

-- Returns a list with the gradient of each step's output, taken from gradOutput, or false for steps
-- that are not outputs of the graph.
local function gradients_of(plan, outputs, gradOutput)
   local grads, ends = {}, plan.ends
   for i = 1, #plan do grads[i] = false end
   for i, at in ipairs(ends) do
      local g = gradOutput
      if #ends > 1 then g = gradOutput[i] end
      grads[at] = add(grads[at], fitted(outputs[at], g, i), true) or false
   end
   return grads
end

--- Computes all gradients of a graph, if it has not changed since its last call.
---@param self table
---@param plan table
---@param input any
---@param gradOutput any
---@param scale number
---@return boolean done
function M.backward(self, plan, input, gradOutput, scale)
   local pass, sorted = passes[self], sorted_of[plan]
   if not (pass and sorted and pass.is_done and is_current(pass, sorted, input)) then
      return false
   end
   if gradOutput == nil then
      tlua.raise "nn.gModule: backward: gradOutput: expected a tensor or a table, got nil"
   end
   pass.is_done, pass.split, pass.last = false, {}, nil
   local into, outputs = {}, pass.outputs
   sorted.backward(pass, sorted.modules, outputs, input, gradients_of(plan, outputs, gradOutput),
      into, scale, M.keeps and end_kept_step or end_step, not M.keeps)
   pass.records = {}
   local list = records.flatten(gradOutput, {})
   if not M.keeps then note_gradients(pass, gradOutput, list) end
   local seen = storages_of(list)
   if plan.n_inputs == 1 then
      self.gradInput = input_gradient(seen, input, into[1])
   else
      self.gradInput = {}
      for k = 1, plan.n_inputs do
         self.gradInput[k] = input_gradient(seen, input[k], into[k])
      end
   end
   return true
end

-- The functions that the generated functions of a graph call: M.to in the forward pass, M.from in
-- the backward pass.
M.to = {result = result, other = other, shed = shed, sum_into = sum_into}
M.from = {add = add, add_to_element = add_to_element, back_other = back_other}
for name, fn in next, formulas.to do M.to[name] = fn end
for name, fn in next, formulas.from do M.from[name] = fn end

return M
