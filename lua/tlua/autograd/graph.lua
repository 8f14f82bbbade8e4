-- graph.lua - torch.autograd.graph: inspects the recorded graph, and lets hooks change the tensors
-- that nodes save.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"' end

local function shape_text(shape) return "(" .. table.concat(shape, ", ") .. ")" end

-- Returns a sorted list of {tensor, name}. The names are the paths of a module's parameters, or the
-- keys of a table of tensors.
local function names_of(names)
   local list = {}
   if names == nil then return list end
   if type(names) ~= "table" then
      args.refuse("autograd.graph.dot", "names", "a module or a table of tensors", names)
   end
   if names.named_parameters then
      for path, parameter in names:named_parameters() do list[#list + 1] = {parameter, path} end
   else
      for name, tensor in pairs(names) do
         if torch.is_tensor(tensor) then list[#list + 1] = {tensor, tostring(name)} end
      end
   end
   table.sort(list, function(a, b) return a[2] < b[2] end)
   return list
end

--- Returns the graph that computed a tensor, in the language of Graphviz (`dot -Tsvg`). Boxes are
--- derivatives, labelled with the shapes of their results. Ellipses are leaves, labelled with their
--- shapes and with their paths or names in `names`.
---@param tensor Tensor
---@param names? nn.Module|table<string, Tensor>
---@return string
function M.dot(tensor, names)
   if not torch.is_tensor(tensor) then
      args.refuse("autograd.graph.dot", "tensor", "a tensor", tensor)
   end
   local known = names_of(names)
   if not tensor.grad_fn then
      torch.raise("autograd.graph.dot: the tensor has no grad_fn; nothing was recorded")
   end
   local lines = {"digraph {", "  rankdir=BT; node [fontsize=10];"}
   local leaves, seen, edges = {}, {}, {}
   local function leaf_id(leaf)
      for i, other in ipairs(leaves) do
         if other == leaf then return "l" .. i end
      end
      leaves[#leaves + 1] = leaf
      local name = "leaf"
      for _, pair in ipairs(known) do
         if pair[1] == leaf then name = pair[2] end
      end
      lines[#lines + 1] = ("  l%d [shape=ellipse, style=filled, fillcolor=lightblue, label=%s];")
         :format(#leaves, quoted(name .. "\n" .. shape_text(leaf.shape)))
      return "l" .. #leaves
   end
   local waiting = {tensor.grad_fn}
   seen[tensor.grad_fn.sequence] = true
   while #waiting > 0 do
      local node = table.remove(waiting)
      local shapes = {}
      for i, shape in ipairs(node.shapes) do shapes[i] = shape_text(shape) end
      lines[#lines + 1] = ("  n%d [shape=box, label=%s];"):format(node.sequence,
         quoted(tostring(node):match "^<(.*)>$" .. "\n" .. table.concat(shapes, " ")))
      for _, edge in ipairs(node.next_functions) do
         local from = edge[1]
         if torch.is_tensor(from) then
            edges[#edges + 1] = ("  %s -> n%d;"):format(leaf_id(from), node.sequence)
         elseif from then
            edges[#edges + 1] = ("  n%d -> n%d;"):format(from.sequence, node.sequence)
            if not seen[from.sequence] then
               seen[from.sequence] = true
               waiting[#waiting + 1] = from
            end
         end
      end
   end
   table.move(edges, 1, #edges, #lines + 1, lines)
   lines[#lines + 1] = "}\n"
   return table.concat(lines, "\n")
end

-- Saved tensors -----------------------------------------------------------------------------------

--- Passes the tensors that operators save for their derivatives through `pack`, while fn runs with
--- the remaining arguments, or, without fn, until the returned scope is closed. pack returns the
--- object to keep in place of the tensor: another tensor, or any other value. In the backward pass,
--- `unpack` turns that object into a tensor of the same shape, dtype and device as the packed one.
--- Parameters and results are packed as well. pack runs without recording, and must not change its
--- argument. If such scopes are nested, only the innermost pair of functions is used.
---
---     local _ <close> = torch.autograd.graph.saved_tensors_hooks(
---        function(t) return t:to "bfloat16" end, function(t) return t:to "float32" end)
---
---@param pack fun(tensor: Tensor): any
---@param unpack fun(packed: any): Tensor
---@param fn? function
---@param ... any  fn's arguments
---@return any ...  fn's results, or the scope
function M.saved_tensors_hooks(pack, unpack, ...)
   return torch.autograd._saved_tensors_hooks(pack, unpack, ...)
end

--- Forbids saved_tensors_hooks in a scope, for functions that do not work with such hooks. Opening
--- saved_tensors_hooks inside raises an error with the given message.
---@param error_message string
---@param fn? function
---@param ... any  fn's arguments
---@return any ...  fn's results, or a scope to be closed
function M.disable_saved_tensors_hooks(error_message, ...)
   return torch.autograd._disable_saved_tensors_hooks(error_message, ...)
end

local on_cpu = args.signature "save_on_cpu(pin_memory: boolean = false)"

--- Keeps the tensors saved for the backward pass in the CPU's memory, and copies them back to their
--- device when the pass needs them. Tensors that are already on the CPU are not copied.
---@param pin_memory? boolean  whether to use pinned memory, from which a GPU copies faster (false)
---@param fn? function
---@param ... any  fn's arguments
---@return any ...  fn's results, or a scope to be closed
function M.save_on_cpu(pin_memory, ...)
   if type(pin_memory) == "function" then return M.save_on_cpu(false, pin_memory, ...) end
   local pin = on_cpu(pin_memory).pin_memory
   local function pack(t)
      if t.is_cpu then return t end
      local copy = t:cpu()
      return {device = t.device, copy = pin and copy:pin_memory() or copy}
   end
   local function unpack(packed)
      if torch.is_tensor(packed) then return packed end
      return packed.copy:to(packed.device)
   end
   return torch.autograd._saved_tensors_hooks(pack, unpack, ...)
end

-- Gradient edges ------------------------------------------------------------------------------

--- The destination of a tensor's gradient. `autograd.grad` and `autograd.backward` accept edges in
--- place of tensors, among outputs and inputs. An edge keeps its tensor alive only if the tensor is
--- a leaf. After the tensor is changed in place, the edge still refers to the value before the
--- change.
---
---     local x = torch.ones(2, {requires_grad = true})
---     local edge = torch.autograd.graph.get_gradient_edge(x)
---     print(torch.autograd.grad((x * 3):sum(), edge))
---     --> tensor([3., 3.])
---@class autograd.GradientEdge
---@field node userdata|Tensor  the grad_fn, or for a leaf the leaf itself, in place of PyTorch's
--- AccumulateGrad
---@field output_nr integer  the number of the node's result, from 1

--- Returns the edge of a tensor that requires a gradient.
---@param tensor Tensor
---@return autograd.GradientEdge
function M.get_gradient_edge(tensor) return torch.autograd._get_gradient_edge(tensor) end

--- Makes an edge from an entry of `next_functions`: GradientEdge(table.unpack(entry)).
---@param node userdata|Tensor  a node, such as x.grad_fn, or a leaf
---@param output_nr integer  the number of the node's result, from 1
---@return autograd.GradientEdge
function M.GradientEdge(node, output_nr) return torch.autograd._gradient_edge(node, output_nr) end

-- Hooks on several gradients ----------------------------------------------------------------------

local multi_grad = args.signature [[register_multi_grad_hook(tensors: table, fn: callable,
   mode: string = 'all')]]

-- Returns a function that returns the table of the running backward pass; hooks store values in
-- this table between their calls.
local function per_pass()
   local kept = {}
   return function(make)
      local number, depth = torch.autograd._pass()
      -- A pass that failed has left its table behind, which is removed here.
      for other in pairs(kept) do
         if other > number or depth == 0 and other ~= number then kept[other] = nil end
      end
      kept[number] = kept[number] or make()
      return kept[number], function() kept[number] = nil end
   end
end

-- Returns the hook for tensor i in mode "all". The hook that is called last in a pass calls fn with
-- the gradients of all tensors.
local function all_hook(tensors, fn, state, i)
   return function(grad)
      local pass, forget = state(function()
         local waits = 0
         for _, tensor in ipairs(tensors) do
            if torch.autograd._pass_visits(tensor) then waits = waits + 1 end
         end
         return {waits = waits, grads = {}}
      end)
      pass.grads[i] = grad
      pass.waits = pass.waits - 1
      if pass.waits > 0 then return end
      forget()
      fn(pass.grads)
   end
end

local function any_hook(fn, state)
   return function(grad)
      local pass = state(function() return {} end)
      if pass.called then return end
      pass.called = true
      fn(grad)
   end
end

--- Registers fn, which is called once in each backward pass. With mode "all" it is called when the
--- gradients of all given tensors that the pass visits have been computed, and gets a table of the
--- gradients by position (nil for tensors that are not visited); with "any" it is called at the
--- first gradient.
---@param tensors Tensor[]
---@param fn fun(grads: table<integer, Tensor>)|fun(grad: Tensor)
---@param options? {mode: "all"|"any"}
---@return {remove: fun(self)} handle
function M.register_multi_grad_hook(...)
   local a = multi_grad(...)
   if a.mode ~= "all" and a.mode ~= "any" then
      args.refuse("register_multi_grad_hook", "mode", '"all" or "any"', a.mode)
   end
   local tensors, handles, state = {}, {}, per_pass()
   for i, tensor in ipairs(a.tensors) do
      if not torch.is_tensor(tensor) then
         args.refuse("register_multi_grad_hook", ("tensors[%d]"):format(i), "a tensor", tensor)
      end
      if a.mode == "any" and tensor.requires_grad or a.mode == "all" then
         tensors[#tensors + 1] = tensor
      end
   end
   for i, tensor in ipairs(tensors) do
      handles[i] = tensor:register_hook(a.mode == "all" and all_hook(tensors, a.fn, state, i)
         or any_hook(a.fn, state))
   end
   return {remove = function() for _, handle in ipairs(handles) do handle:remove() end end}
end

return M
