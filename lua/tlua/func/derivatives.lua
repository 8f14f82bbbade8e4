-- derivatives.lua - torch.func.grad and related functions, which transform functions. Arguments and
-- results may be tensors, or nested tables of them.
--
-- Each call of a transformed function differentiates with respect to its own stand-ins for the
-- arguments. If an argument, or another tensor that the function uses, requires gradients, the
-- results can be differentiated again. Everything uses reverse mode: J v is the derivative of the
-- linear map v^T J with respect to v.

local torch = require "tlua"
local args = require "tlua.args"
local batched = require "tlua.func.batched"
local pushforward = require "tlua.autograd.pushforward"
local recording = require "tlua.autograd.recording"
local tree = require "tlua.func.tree"

local M = {}

-- Preparing -----------------------------------------------------------------------------------

local function any_recorded(leaves)
   for _, leaf in ipairs(leaves) do
      if leaf.requires_grad then return true end
   end
   return false
end

-- Jacobians are defined here for real arguments and results, as in PyTorch.
local real_only <const> = {["func.jacrev"] = true, ["func.jacfwd"] = true}

-- Returns a new leaf tensor with the values of `leaf`. Operators applied to the new leaf are
-- recorded. Within vmap each example gets its own leaf, since examples have separate derivatives.
local function recording_leaf(title, leaf)
   if not leaf:is_floating_point() and (real_only[title] or not leaf:is_complex()) then
      args.refuse(title, "argument", "floating-point tensors", leaf)
   end
   if args.kind_of(leaf) then args.refuse(title, "argument", "dense tensors", leaf) end
   local whole = batched.lift(leaf)
   return batched.lower(whole.requires_grad and whole:view_as(whole) or recording.leaf(whole))
end

-- Prepares the arguments for fn: replaces those at `positions` by stand-ins. Returns four values:
-- the packed arguments; a list of all stand-ins; a list of functions, each of which rebuilds one
-- argument's structure from such a list; and whether an argument requires gradients.
local function prepare(title, given, positions)
   local packed, inputs, rebuilds = table.pack(table.unpack(given, 1, given.n)), {}, {}
   local recorded = any_recorded((tree.flatten {table.unpack(given, 1, given.n)}))
   for k, position in ipairs(positions) do
      if position < 1 or position > given.n then
         torch.raise(("%s: argnums: expected positions from 1 to %d, got %d"):format(
            title, given.n, position))
      end
      local leaves, rebuild = tree.flatten(given[position])
      if #leaves == 0 then
         args.refuse(title, "argument " .. position, "a tensor or a table of tensors",
            given[position])
      end
      local own, first = {}, #inputs
      for i, leaf in ipairs(leaves) do
         own[i] = recording_leaf(title, leaf)
         inputs[#inputs + 1] = own[i]
      end
      packed[position] = rebuild(own)
      rebuilds[k] = function(list)
         return rebuild {table.unpack(list, first + 1, first + #leaves)}
      end
   end
   return packed, inputs, rebuilds, recorded
end

-- `rebuilds` has, for each position, a function that rebuilds an argument's structure from a list
-- of tensors. Returns a list of the rebuilt structures, or the only structure if `single` is true.
local function arrange(rebuilds, list, single)
   if single then return rebuilds[1](list) end
   local all = {}
   for k, rebuild in ipairs(rebuilds) do all[k] = rebuild(list) end
   return all
end

local function positions_of(argnums)
   if type(argnums) == "number" then return {argnums}, true end
   return argnums, false
end

-- Calls fn. Returns its result, a list if there are several results; with has_aux the last result
-- is returned separately.
local function call(fn, packed, has_aux)
   local results = table.pack(fn(table.unpack(packed, 1, packed.n)))
   local aux
   if has_aux then
      aux = results[results.n]
      results.n = results.n - 1
   end
   if results.n == 1 then return results[1], aux end
   return {table.unpack(results, 1, results.n)}, aux
end

local function detached(value)
   return tree.map(value, function(leaf)
      return torch.is_tensor(leaf) and leaf:detach() or leaf
   end)
end

-- Returns tensors in the form that autograd records: as ordinary tensors in which the dimensions of
-- the examples of `level` nested calls of vmap come first.
local function lifted(tensors, level)
   if level == 0 then return tensors end
   local list = {}
   for i, tensor in ipairs(tensors) do list[i] = batched.lift(tensor, level) end
   return list
end

-- Returns whether results must be differentiable, because they depend on tensors that require
-- gradients.
local function kept(recorded, outputs, inputs)
   if recorded then return true end
   local level = batched.depth()
   return torch.autograd._reaches_others(lifted(outputs, level), lifted(inputs, level))
end

-- Returns the gradients of the outputs, weighted by `seeds`, with respect to the inputs; a missing
-- gradient is zero. The outputs and inputs were made inside `level` nested calls of vmap. If more
-- calls of vmap are active now, only the seeds may differ between the examples of these additional
-- calls, and each of these examples needs one backward pass.
local function pull(outputs, seeds, inputs, keep, level)
   local recorded, weights = {}, {}
   for i, output in ipairs(outputs) do
      if output.requires_grad then
         recorded[#recorded + 1], weights[#weights + 1] = output, seeds[i]
      end
   end
   local now, found = batched.depth(), {}
   if #recorded > 0 then
      found = table.pack(torch.autograd.grad(lifted(recorded, level), lifted(inputs, level), {
         grad_outputs = batched.in_front(weights, level), retain_graph = true,
         create_graph = keep, allow_unused = true, is_grads_batched = now > level,
      }))
   end
   local grads = {}
   for i, input in ipairs(inputs) do
      grads[i] = found[i] and batched.lower(batched.behind(found[i], level))
         or torch.zeros_like(input:detach())
   end
   return grads
end

local function tensors_of(title, output)
   local leaves = tree.flatten(output)
   if #leaves == 0 then
      args.refuse(title, "the function", "one that returns tensors", output)
   end
   for _, leaf in ipairs(real_only[title] and leaves or {}) do
      if leaf:is_complex() then
         args.refuse(title, "the function", "one that returns real tensors", leaf)
      end
   end
   return leaves
end

-- Gradients -----------------------------------------------------------------------------------

local function check_scalar(title, output)
   if not torch.is_tensor(output) or output:numel() ~= 1 or output:is_complex() then
      args.refuse(title, "the function", "one that returns one number as a tensor, a real one",
         output)
   end
end

local function gradient(title, a, given)
   local positions, single = positions_of(a.argnums)
   local _ <close> = recording()
   local packed, inputs, rebuilds, recorded = prepare(title, given, positions)
   local output, aux = call(a.fn, packed, a.has_aux)
   check_scalar(title, output)
   local keep, seed = kept(recorded, {output}, inputs), torch.ones_like(output:detach())
   local grads = arrange(rebuilds, pull({output}, {seed}, inputs, keep, batched.depth()), single)
   if keep then return grads, output, aux end
   return grads, output:detach(), detached(aux)
end

local function taker(name)
   return args.signature(("func.%s(fn: callable, argnums: integers = 1, has_aux: boolean = false)")
      :format(name))
end

local take_grad, take_grad_and_value = taker "grad", taker "grad_and_value"

--- Returns a function that computes the gradient of fn's result, a single number, with respect to
--- an argument. For a list of positions it returns the list of gradients. With `has_aux` it also
--- returns fn's last result.
---
---     local slope = torch.func.grad(function(x) return x ^ 3 end)
---     print(slope(torch.tensor(2.0)))
---     --> tensor(12.)
---@param fn fun(...): Tensor
---@param options? {argnums: integer|integer[], has_aux: boolean}  argnums: 1 by default
---@return fun(...): Tensor|table, any
function M.grad(...)
   local a = take_grad(...)
   return function(...)
      local grads, _, aux = gradient("func.grad", a, table.pack(...))
      if a.has_aux then return grads, aux end
      return grads
   end
end

--- Returns a function that computes the gradient, like `grad`, and also returns fn's result.
---
---     local both = torch.func.grad_and_value(function(x) return x ^ 3 end)
---     print(both(torch.tensor(2.0)))
---     --> tensor(12.)	tensor(8.)
---@param fn fun(...): Tensor
---@param options? {argnums: integer|integer[], has_aux: boolean}
---@return fun(...): Tensor|table, Tensor, any
function M.grad_and_value(...)
   local a = take_grad_and_value(...)
   return function(...)
      local grads, value, aux = gradient("func.grad_and_value", a, table.pack(...))
      if a.has_aux then return grads, value, aux end
      return grads, value
   end
end

-- Products with the Jacobian ------------------------------------------------------------------

local function same_shape(a, b)
   return table.concat(a.shape, ",") == table.concat(b.shape, ",")
end

-- Returns the tensors in the nested tables `value`. Raises an error unless their number and their
-- shapes are equal to those of `tensors`.
local function fitting(title, what, value, tensors)
   local leaves = tree.flatten(value)
   if #leaves ~= #tensors then
      torch.raise(("%s: %s: expected %d tensors, got %d"):format(title, what, #tensors, #leaves))
   end
   for i, leaf in ipairs(leaves) do
      if not same_shape(leaf, tensors[i]) then
         args.refuse(title, what, ("a tensor of shape (%s)"):format(
            table.concat(tensors[i].shape, ", ")), leaf)
      end
      if leaf:is_complex() and not tensors[i]:is_complex() then
         args.refuse(title, what, "a real tensor", leaf)
      end
      leaves[i] = recording.usable(leaf)
   end
   return leaves
end

local function count(n)
   local list = {}
   for i = 1, n do list[i] = i end
   return list
end

-- Removes the table {has_aux = ...} after the arguments, if there is one.
local function split_options(...)
   local given = table.pack(...)
   local last = given[given.n]
   if tree.is_node(last) and type(last.has_aux) == "boolean" and next(last, "has_aux") == nil
      and next(last) == "has_aux" then
      given[given.n] = nil
      given.n = given.n - 1
      return given, last.has_aux
   end
   return given, false
end

local function check_function(title, fn)
   local meta = getmetatable(fn)
   if type(fn) ~= "function" and not (type(meta) == "table" and meta.__call) then
      args.refuse(title, "fn", "a function", fn)
   end
end

--- Returns fn's result, and a function that computes vector-Jacobian products: it maps a vector
--- with the shape of the result to one gradient for each argument. With `{has_aux = true}` after
--- the arguments, fn's last result is returned as the third value.
---
---     local square = function(x) return x * x end
---     local y, pull = torch.func.vjp(square, torch.tensor {1.0, 2.0})
---     print(y, pull(torch.tensor {1.0, 1.0}))
---     --> tensor([1., 4.])	tensor([2., 4.])
---@param fn fun(...): any
---@param ... Tensor|table  fn's arguments
---@return any output  a list if fn has several results
---@return fun(...): any vjp_fn
---@return any aux
function M.vjp(fn, ...)
   check_function("func.vjp", fn)
   local given, has_aux = split_options(...)
   local _ <close> = recording()
   local packed, inputs, rebuilds, recorded = prepare("func.vjp", given, count(given.n))
   local output, aux = call(fn, packed, has_aux)
   local outputs, level = tensors_of("func.vjp", output), batched.depth()
   local keep = kept(recorded, outputs, inputs)
   local function vjp_fn(...)
      local seeds = fitting("func.vjp", "cotangents", {...}, outputs)
      local again = keep or any_recorded(seeds)
      local grads = arrange(rebuilds, pull(outputs, seeds, inputs, again, level), false)
      return table.unpack(grads)
   end
   if not keep then output, aux = detached(output), detached(aux) end
   return output, vjp_fn, aux
end

-- Linearizes fn at the given arguments. Returns fn's results as a list of tensors, a function that
-- maps tangents of the inputs to tangents of the results, and further results of `prepare` and
-- `call`.
local function linear(title, fn, given, positions, has_aux)
   local packed, inputs, rebuilds, recorded = prepare(title, given, positions)
   local output, aux = call(fn, packed, has_aux)
   local outputs, dummies, level = tensors_of(title, output), {}, batched.depth()
   local keep = kept(recorded, outputs, inputs)
   for i, leaf in ipairs(outputs) do
      local zeros = torch.zeros_like(batched.lift(leaf:detach()))
      dummies[i] = batched.lower(zeros:requires_grad_(
         leaf:is_floating_point() or leaf:is_complex()))
   end
   local grads
   do
      local _ <close> = pushforward()
      grads = pull(outputs, dummies, inputs, true, level)
   end
   -- The gradients are J^T u, where J is the Jacobian of fn and u the dummies. Their derivative
   -- with respect to u, applied to tangents v, is therefore J v.
   local function push(tangents, again)
      local _ <close> = recording()
      for i, grad in ipairs(grads) do tangents[i] = tangents[i]:to(grad.dtype) end
      return pull(grads, tangents, dummies, keep or again, level)
   end
   return outputs, push, {
      output = keep and output or detached(output), aux = keep and aux or detached(aux),
      inputs = inputs, rebuilds = rebuilds, keep = keep,
   }
end

local take_jvp = args.signature [[func.jvp(fn: callable, primals: any, tangents: any,
   strict: boolean = false, has_aux: boolean = false)]]

local function as_list(value)
   if torch.is_tensor(value) then return {value} end
   return value
end

--- Returns fn's result and J v, the change of the result as its arguments change along v.
---@param fn fun(...): any
---@param primals Tensor|table[]  fn's only argument, or the list of all
---@param tangents Tensor|table[]  v, shaped as the primals
---@param options? {has_aux: boolean, strict: boolean}  strict has no effect
---@return any output
---@return any tangent  shaped as the result
---@return any aux
function M.jvp(...)
   local a = take_jvp(...)
   local primals, tangents = as_list(a.primals), as_list(a.tangents)
   if type(primals) ~= "table" then
      args.refuse("func.jvp", "primals", "a tensor or a list of arguments", primals)
   end
   local _ <close> = recording()
   local given = {n = #primals, table.unpack(primals)}
   local _, push, info = linear("func.jvp", a.fn, given, count(given.n), a.has_aux)
   local directions = fitting("func.jvp", "tangents", tangents, info.inputs)
   local _, rebuild = tree.flatten(info.output)
   local tangent = rebuild(push(directions, any_recorded(directions)))
   if a.has_aux then return info.output, tangent, info.aux end
   return info.output, tangent
end

--- Returns fn's result, and a function that maps v to J v without calling fn again.
---@param fn fun(...): any
---@param ... Tensor|table  fn's arguments
---@return any output
---@return fun(...): any jvp_fn
function M.linearize(fn, ...)
   check_function("func.linearize", fn)
   local given = table.pack(...)
   local _ <close> = recording()
   local _, push, info = linear("func.linearize", fn, given, count(given.n), false)
   local _, rebuild = tree.flatten(info.output)
   return info.output, function(...)
      local directions = fitting("func.linearize", "tangents", {...}, info.inputs)
      return rebuild(push(directions, any_recorded(directions)))
   end
end

-- Whole Jacobians -----------------------------------------------------------------------------

local function joined(first, second)
   local shape = {table.unpack(first)}
   for _, n in ipairs(second) do shape[#shape + 1] = n end
   return shape
end

-- Returns a tensor like another, with a one at the k-th element and zeros elsewhere.
local function unit(tensor, k)
   local places = torch.arange(1, tensor:numel() + 1, {dtype = "int64", device = tensor.device})
   return places:eq(k):to(tensor.dtype):view(tensor.shape)
end

local function zeros_for(tensors)
   local list = {}
   for i, tensor in ipairs(tensors) do list[i] = torch.zeros_like(tensor:detach()) end
   return list
end

-- Calls visit(i, k, unit vectors) for element k of tensor i, for all elements of all tensors. The
-- third argument is a list of tensors of the same shapes, which are 0 except for a 1 at that
-- element.
local function each_unit(tensors, visit)
   local list = zeros_for(tensors)
   for i, tensor in ipairs(tensors) do
      local zero = list[i]
      for k = 1, tensor:numel() do
         list[i] = unit(tensor, k)
         visit(i, k, list)
      end
      list[i] = zero
   end
end

-- Stacks the tensors rows[1], rows[2], ... into a tensor of shape (n, ...). An empty list gives an
-- empty tensor like `like`.
local function stacked(rows, like)
   if #rows > 0 then return torch.stack(rows) end
   local shape = joined({0}, like.shape)
   return torch.zeros(shape, {dtype = like.dtype, device = like.device})
end

local function taker_of_jacobian(name)
   return args.signature(([[func.%s(fn: callable, argnums: integers = 1, has_aux: boolean = false,
      randomness: string = 'error', chunk_size: count?)]]):format(name))
end

local take_jacrev, take_jacfwd = taker_of_jacobian "jacrev", taker_of_jacobian "jacfwd"
local take_hessian = args.signature "func.hessian(fn: callable, argnums: integers = 1)"

-- Arranges tensors, matrix[output][input], in nested tables like fn's result, whose items are
-- nested tables like fn's arguments.
local function table_of(matrix, output, rebuilds, single)
   local _, rebuild = tree.flatten(output)
   local rows = {}
   for i, row in ipairs(matrix) do rows[i] = arrange(rebuilds, row, single) end
   return rebuild(rows)
end

local function finish(a, jacobian, aux)
   if a.has_aux then return jacobian, aux end
   return jacobian
end

--- Returns a function that computes the Jacobian of fn's result with respect to an argument, row by
--- row. The Jacobian's shape is the result's shape followed by the argument's shape. jacrev is the
--- best choice if there are fewer results than inputs. The options randomness and chunk_size are
--- accepted for PyTorch's programs, and have no effect.
---
---     local jacobian = torch.func.jacrev(function(x) return x * x end)
---     print(jacobian(torch.tensor {1.0, 2.0}))
---     --> tensor([[2., 0.],
---     -->         [0., 4.]])
---@param fn fun(...): any
---@param options? {argnums: integer|integer[], has_aux: boolean}
---@return fun(...): any
function M.jacrev(...)
   local a = take_jacrev(...)
   local positions, single = positions_of(a.argnums)
   return function(...)
      local _ <close> = recording()
      local packed, inputs, rebuilds, recorded = prepare("func.jacrev", table.pack(...), positions)
      local output, aux = call(a.fn, packed, a.has_aux)
      local outputs, level = tensors_of("func.jacrev", output), batched.depth()
      local keep, rows = kept(recorded, outputs, inputs), {}
      for i in ipairs(outputs) do
         rows[i] = {}
         for j in ipairs(inputs) do rows[i][j] = {} end
      end
      each_unit(outputs, function(i, k, seeds)
         local grads = pull(outputs, seeds, inputs, keep, level)
         for j, grad in ipairs(grads) do rows[i][j][k] = grad end
      end)
      local matrix = {}
      for i, leaf in ipairs(outputs) do
         matrix[i] = {}
         for j, input in ipairs(inputs) do
            matrix[i][j] = stacked(rows[i][j], input):reshape(joined(leaf.shape, input.shape))
         end
      end
      return finish(a, table_of(matrix, output, rebuilds, single), keep and aux or detached(aux))
   end
end

--- Returns a function that computes the same Jacobian as `jacrev`, column by column. jacfwd is the
--- best choice if there are fewer inputs than results.
---
---     local jacobian = torch.func.jacfwd(function(x) return x * x end)
---     print(jacobian(torch.tensor {1.0, 2.0}))
---     --> tensor([[2., 0.],
---     -->         [0., 4.]])
---@param fn fun(...): any
---@param options? {argnums: integer|integer[], has_aux: boolean}
---@return fun(...): any
function M.jacfwd(...)
   local a = take_jacfwd(...)
   local positions, single = positions_of(a.argnums)
   return function(...)
      local _ <close> = recording()
      local outputs, push, info = linear("func.jacfwd", a.fn, table.pack(...), positions, a.has_aux)
      local columns = {}
      for i in ipairs(outputs) do
         columns[i] = {}
         for j in ipairs(info.inputs) do columns[i][j] = {} end
      end
      each_unit(info.inputs, function(j, k, directions)
         for i, tangent in ipairs(push(directions, false)) do
            columns[i][j][k] = tangent:reshape(-1)
         end
      end)
      local matrix = {}
      for i, leaf in ipairs(outputs) do
         matrix[i] = {}
         for j, input in ipairs(info.inputs) do
            local flat = stacked(columns[i][j], leaf:detach():reshape(-1))
            matrix[i][j] = flat:t():reshape(joined(leaf.shape, input.shape))
         end
      end
      return finish(a, table_of(matrix, info.output, info.rebuilds, single), info.aux)
   end
end

--- Returns a function that computes the Hessian of fn's result. The Hessian's shape is the result's
--- shape followed twice by the argument's shape.
---
---     local hessian = torch.func.hessian(function(x) return (x ^ 3):sum() end)
---     print(hessian(torch.tensor {1.0, 2.0}))
---     --> tensor([[ 6.,  0.],
---     -->         [ 0., 12.]])
---@param fn fun(...): any
---@param options? {argnums: integer|integer[]}
---@return fun(...): any
function M.hessian(...)
   local a = take_hessian(...)
   local options = {argnums = a.argnums}
   return M.jacrev(M.jacrev(a.fn, options), options)
end

return M
