-- graph_passes.lua - fast passes of graphs of plain layers. A plain layer inherits the gradient
-- methods of Module unchanged. The forward pass records all plain layers in one autograd history,
-- and one backward call computes all gradients. Besides its operators, a layer only stores its
-- output and the versions of its tensors. Other modules may come between the graph's inputs and the
-- plain layers; their own methods compute them.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"

local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local detach, tag = tlua.detach, types.tag
local Module = base.Module
local has_options, options_of = records.has_options, records.options

local M = {}

-- Plain layers ------------------------------------------------------------------------------------

local own = {}
for _, name in ipairs {"updateOutput", "updateGradInput", "accGradParameters", "backward"} do
   own[name] = Module[name]
end

local function has_own_methods(module)
   for name, method in next, own do
      if module[name] ~= method then return false end
   end
   return true
end

local function is_plain(module)
   return module.compute and module.train ~= false and rawget(module, "modules") == nil
      and has_own_methods(module)
end

-- Returns whether all inputs of a step are inputs of the graph.
local function comes_first(plan, step)
   if step.input then return false end
   for _, source in ipairs(step.sources) do
      local module = plan[source].module
      if not plan[source].input or module and not module.compute then return false end
   end
   return true
end

-- Sorts the steps of a graph's plan into plain layers and modules that come first. Returns nil if
-- there are modules of other kinds.
local function sort_steps(plan)
   local sorted, seen = {plain = {}, first = {}, classes = {}}, {}
   for i, step in ipairs(plan) do
      local module = step.module
      if module and is_plain(module) then
         sorted.plain[i] = module
         local class = getmetatable(module)
         if not seen[class] then table.insert(sorted.classes, class) end
         seen[class] = true
      elseif module then
         if not comes_first(plan, step) then return nil end
         sorted.first[i] = module
      end
   end
   return sorted
end

-- `known` maps a layer to its options at the last call, and `writes` maps a layer to true if calls
-- change its options. If all options of a layer are plain values, `counts` has their number, and
-- they are compared here. If some are tensors or tables, records.lua compares their versions.
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

-- Returns whether a layer's options are those of its last call.
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

-- Returns whether the plain layers are still plain. Layers with unchanged options need no check.
local function are_plain(sorted, n)
   for _, class in ipairs(sorted.classes) do
      if not has_own_methods(class) then return false end
   end
   local plain = sorted.plain
   for i = 1, n do
      local module = plain[i]
      if module and not is_unchanged(module) then
         if not is_plain(module) then return false end
         known[module], counts[module] = nil, nil
      end
   end
   return true
end

-- Passes ------------------------------------------------------------------------------------------

-- The sorted steps of each plan, and the last pass of each graph, whose tables are used again.
local sorted_of, passes = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"})

--- Forgets the last pass of a graph.
function M.forget(self) passes[self] = nil end

local function note(pass, tensor)
   local n = pass.count + 1
   pass.count, pass.noted[n], pass.versions[n] = n, tensor, field(tensor, "_version")
end

-- Returns a tensor that begins an autograd history.
local function leaf(pass, tensor)
   local made = detach(tensor)
   if tlua.is_floating_point(made) then made.requires_grad = true end
   note(pass, tensor)
   return made
end

-- Returns a tree with fn(pass, tensor) in the place of each tensor.
local function map(fn, pass, tree)
   if is_tensor(tree) then return fn(pass, tree) end
   if type(tree) ~= "table" then return tree end
   local made = {}
   for key, value in next, tree do made[key] = map(fn, pass, value) end
   return made
end

local function new_leaf(pass, tensor)
   local made = leaf(pass, tensor)
   if field(made, "requires_grad") then pass.leaves[#pass.leaves + 1] = made end
   return made
end

-- Returns the leaves of a tree of tensors.
local function leaves_of(pass, tree) return map(new_leaf, pass, tree) end

local function without_history(pass, tensor)
   local made = tag(detach(methods.dim(tensor) == 0 and tlua.unsqueeze(tensor, 1) or tensor))
   note(pass, made)
   return made
end

-- Returns a layer's output without a history, with Torch7's types.
local function result(pass, value) return map(without_history, pass, value) end

-- Returns the leaf of a layer's parameter. `wanted` lists the layer, the field, its value and the
-- field of its gradient, and `parameters` the leaves.
local function parameter(pass, module, name, grad_name)
   local value = rawget(module, name)
   if value == nil or not is_tensor(value) or methods.numel(value) == 0 then return nil end
   local made, wanted, n = leaf(pass, value), pass.wanted, #pass.parameters
   pass.parameters[n + 1] = made
   n = 4 * n
   wanted[n + 1], wanted[n + 2], wanted[n + 3], wanted[n + 4] = module, name, value, grad_name
   return made
end

-- Returns the leaves of a layer's parameters. A layer that is called twice has one set.
local function parameters_of(pass, module)
   if rawget(module, "weight") == nil and rawget(module, "bias") == nil then return nil, nil end
   local pair = pass.pairs[module]
   if not pair then
      pair = {parameter(pass, module, "weight", "gradWeight") or false,
         parameter(pass, module, "bias", "gradBias") or false}
      pass.pairs[module] = pair
   end
   return pair[1] or nil, pair[2] or nil
end

local function compute(pass, module, input, given)
   local options = known[module]
   local is_new = not options
   if is_new then options = options_of(module) end
   if module.prepare then module:prepare(given) end
   local value = module.compute(module, input, parameters_of(pass, module))
   if is_new or writes[module] then
      if not has_options(module, options) then
         writes[module], options = true, options_of(module)
      end
      remember(module, options)
   end
   return value
end

local function gather(sources, values)
   if #sources == 1 then return values[sources[1]] end
   local list = {}
   for k = 1, #sources do list[k] = values[sources[k]] end
   return list
end

local function new_pass(self)
   local pass = {noted = {}, versions = {}, values = {}, outputs = {}, wanted = {}}
   passes[self] = pass
   return pass
end

local function clear(pass)
   for i = #pass.noted, pass.count + 1, -1 do pass.noted[i] = nil end
end

-- Returns the output of a layer that returns its input, or an element of it, and nil otherwise.
local function same_output(value, x, given)
   if rawequal(value, x) then return given end
   if type(x) ~= "table" or #x < 3 then return nil end
   for k = 1, #x do
      if rawequal(x[k], value) then return given[k] end
   end
end

--- Computes a graph's output, if the graph has only plain layers and modules that come first.
---@param self table
---@param plan table
---@param input any
---@return boolean done
function M.forward(self, plan, input)
   local pass = passes[self]
   if pass then pass.is_done = false end
   if self.train == false or records.is_running() then return false end
   local n = #plan
   local sorted = sorted_of[plan] or sort_steps(plan)
   sorted_of[plan] = sorted
   if not sorted then return false end
   if not are_plain(sorted, n) then
      sorted_of[plan] = nil
      return false
   end
   pass = pass or new_pass(self)
   pass.count, pass.leaves, pass.parameters, pass.pairs = 0, {}, {}, {}
   pass.given = records.flatten(input, {})
   local inputs = leaves_of(pass, input)
   local single, plain = plan.n_inputs == 1, sorted.plain
   local values, outputs = pass.values, pass.outputs
   for i = 1, n do
      local step = plan[i]
      local at = step.input
      local x, given
      if not at then
         x, given = gather(step.sources, values), gather(step.sources, outputs)
      elseif single then
         x, given = inputs, input
      else
         x, given = inputs[at], input[at]
      end
      local module = plain[i]
      if module then
         local value = compute(pass, module, x, given)
         local output = same_output(value, x, given) or result(pass, value)
         values[i], outputs[i], module.output = value, output, output
      elseif step.module then
         outputs[i] = step.module:updateOutput(given)
         values[i] = leaves_of(pass, outputs[i])
      else
         local key = step.select
         if key then x, given = x[key], given[key] end
         values[i], outputs[i] = x, given
      end
   end
   clear(pass)
   pass.inputs, pass.is_done = inputs, true
   self.output = gather(plan.ends, outputs)
   return true
end

--- Returns the inputs of each step at the last call.
function M.given(self, plan, input)
   local pass, list = passes[self], {}
   if not pass or not pass.outputs[1] then
      tlua.raise "nn.gModule: backward needs a forward call"
   end
   for i, step in ipairs(plan) do
      if step.input then
         list[i] = plan.n_inputs == 1 and input or input[step.input]
      else
         list[i] = gather(step.sources, pass.outputs)
      end
   end
   return list
end

-- Returns whether the inputs, parameters, options and outputs are those of the pass.
local function is_current(pass, sorted, input)
   local given = records.flatten(input, {})
   if #given ~= #pass.given then return false end
   for i = 1, #given do
      if not rawequal(given[i], pass.given[i]) then return false end
   end
   local noted, versions = pass.noted, pass.versions
   for i = 1, pass.count do
      if field(noted[i], "_version") ~= versions[i] then return false end
   end
   local wanted = pass.wanted
   for i = 1, 4 * #pass.parameters, 4 do
      if not rawequal(wanted[i][wanted[i + 1]], wanted[i + 2]) then return false end
   end
   local outputs, plain = pass.outputs, sorted.plain
   for i = 1, #outputs do
      local module = plain[i]
      if module and not (rawequal(module.output, outputs[i]) and is_unchanged(module)) then
         return false
      end
   end
   return true
end

local function add(a, b)
   if a == nil then return b end
   if b == nil then return a end
   if is_tensor(a) then return tag(tlua.add(a, b)) end
   local made = {}
   for key, value in pairs(a) do made[key] = add(value, b[key]) end
   for key, value in pairs(b) do
      if a[key] == nil then made[key] = value end
   end
   return made
end
M.add = add

-- Returns the gradients of a tree of leaves, with zeros for leaves that have no gradient.
local function gradient_of(by_leaf, tree)
   if is_tensor(tree) then return tag(by_leaf[tree] or tlua.zeros_like(tree)) end
   if type(tree) ~= "table" then return tree end
   local made = {}
   for key, value in next, tree do made[key] = gradient_of(by_leaf, value) end
   return made
end

-- Calls `backward` of the modules that come first. Returns the gradients of the graph's inputs.
local function backward_first(plan, pass, sorted, by_leaf, scale)
   local into = {}
   for i, module in next, sorted.first do
      local sources = plan[i].sources
      local given = gather(sources, pass.outputs)
      local g = module:backward(given, gradient_of(by_leaf, pass.values[i]), scale)
      for k, source in ipairs(sources) do
         local at = plan[source].input
         into[at] = add(into[at], #sources == 1 and g or g[k])
      end
   end
   return into
end

local function input_gradient(by_leaf, tree, from_first)
   if from_first == nil then return gradient_of(by_leaf, tree) end
   if is_tensor(tree) and not by_leaf[tree] then return from_first end
   return add(gradient_of(by_leaf, tree), from_first)
end

-- Adds the gradients of parameters, which begin after position n of a list, to the layers' sums.
local function add_gradients(pass, list, n, scale)
   local wanted, options = pass.wanted, {alpha = scale}
   for k = 1, #pass.parameters do
      local g, sum = list[n + k], wanted[4 * k - 3][wanted[4 * k]]
      if g and sum then tlua.add_(sum, g, options) end
   end
end

--- Computes all gradients of a graph, if its last call allows it.
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
   local leaves, by_leaf = pass.leaves, {}
   local n = #leaves
   table.move(pass.parameters, 1, #pass.parameters, n + 1, leaves)
   local list = records.gradients(gather(plan.ends, pass.values), leaves, gradOutput, false)
   pass.is_done = false
   for i = 1, n do by_leaf[leaves[i]] = list[i] end
   add_gradients(pass, list, n, scale)
   local plain = sorted.plain
   for i = 1, #plan do
      local module = plain[i]
      if module then module.gradInput = nil end
   end
   local from_first = next(sorted.first) and backward_first(plan, pass, sorted, by_leaf, scale)
      or {}
   if plan.n_inputs == 1 then
      self.gradInput = input_gradient(by_leaf, pass.inputs, from_first[1])
   else
      self.gradInput = {}
      for k = 1, plan.n_inputs do
         self.gradInput[k] = input_gradient(by_leaf, pass.inputs[k], from_first[k])
      end
   end
   return true
end

return M
