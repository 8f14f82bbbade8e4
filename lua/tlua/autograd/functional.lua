-- functional.lua - torch.autograd.functional: functions that return the derivatives of a function
-- at an input.
--
-- Each function here takes a function fn and an input, which is a tensor or a list of tensors, and
-- passes the tensors to fn, which must return one tensor. If the input is a list, the derivatives
-- are lists as well.

local torch = require "tlua"
local args = require "tlua.args"
local recording = require "tlua.autograd.recording"

local M = {}

-- Returns a list of tensors that require gradients and have the values of the inputs, and whether
-- the inputs were a single tensor. With create_graph, gradients flow on to inputs that require
-- them.
local function prepare(name, inputs, create_graph, is_complex_allowed)
   local single = torch.is_tensor(inputs)
   if not single and type(inputs) ~= "table" then
      args.refuse(name, "inputs", "a tensor or a list of tensors", inputs)
   end
   local list = {}
   for i, input in ipairs(single and {inputs} or inputs) do
      if not torch.is_tensor(input) or not (input:is_floating_point()
            or is_complex_allowed and input:is_complex()) then
         args.refuse(name, "input " .. i, "a floating-point tensor", input)
      end
      if create_graph and input.requires_grad then
         list[i] = input:view_as(input)
      else
         list[i] = recording.leaf(input)
      end
   end
   return list, single
end

local function call(name, fn, list)
   local output = fn(table.unpack(list))
   if not torch.is_tensor(output) then
      args.refuse(name, "the function", "one that returns a tensor", output)
   end
   return output
end

-- Returns the gradients of `output` with respect to the tensors in `list`, with zeros for a tensor
-- on which the output does not depend. `seed` is the gradient of the output. `strict`, if given, is
-- the title of a function that raises an error for such a tensor.
local function gradients(output, list, seed, create_graph, strict)
   if not output.requires_grad then
      if strict then
         torch.raise(strict .. ": strict: the output does not depend on the inputs")
      end
      local zeros = {}
      for i, input in ipairs(list) do zeros[i] = torch.zeros_like(input) end
      return zeros
   end
   local found = table.pack(torch.autograd.grad({output}, list, {
      grad_outputs = seed and {seed} or nil, retain_graph = true, create_graph = create_graph,
      allow_unused = true,
   }))
   for i, input in ipairs(list) do
      if strict and not found[i] then
         torch.raise(("%s: strict: the output does not depend on input %d"):format(strict, i))
      end
      found[i] = found[i] or torch.zeros_like(input)
   end
   return found
end

local function finish(list, single)
   if single then return list[1] end
   return list
end

local take = {}
for name, strategy in pairs {jacobian = "strategy", hessian = "outer_jacobian_strategy"} do
   take[name] = args.signature(("autograd.functional.%s(fn: callable, inputs: any, "
      .. "create_graph: boolean = false, strict: boolean = false, vectorize: boolean = false, "
      .. "%s: string = 'reverse-mode')"):format(name, strategy))
end
for _, name in ipairs {"vjp", "jvp", "vhp", "hvp"} do
   take[name] = args.signature("autograd.functional." .. name .. "(fn: callable, inputs: any, "
      .. "v: any?, create_graph: boolean = false, strict: boolean = false)")
end

-- Raises an error for an unknown strategy. The names are PyTorch's; here the derivatives are always
-- computed in reverse, row by row.
local function check_strategy(title, name, strategy)
   if strategy ~= "reverse-mode" and strategy ~= "forward-mode" then
      args.refuse(title, name, '"reverse-mode" or "forward-mode"', strategy)
   end
end

local function concat_shapes(first, second)
   local shape = {table.unpack(first)}
   for _, n in ipairs(second) do shape[#shape + 1] = n end
   return shape
end

--- Returns all first derivatives: for each input a tensor whose shape is the output's shape
--- followed by the input's shape.
---
---     local square = function(x) return x * x end
---     print(torch.autograd.functional.jacobian(square, torch.tensor {1.0, 2.0}))
---     --> tensor([[2., 0.],
---     -->         [0., 4.]])
---@param fn fun(...: Tensor): Tensor
---@param inputs Tensor|Tensor[]
---@param options? {create_graph: boolean, strict: boolean, vectorize: boolean, strategy: string}
--- create_graph: whether the result has gradients; strict: whether an output that does not depend
--- on an input is an error instead of zeros; vectorize and strategy do not
--- change the result, and are accepted for programs that were written for PyTorch
---@return Tensor|Tensor[]
function M.jacobian(...)
   local a, title <const> = take.jacobian(...), "autograd.functional.jacobian"
   check_strategy(title, "strategy", a.strategy)
   local _ <close> = recording()
   local list, single = prepare(title, a.inputs, a.create_graph)
   local output = call(title, a.fn, list)
   local rows = {}
   for k = 1, #list do rows[k] = {} end
   local flat = output:reshape(-1)
   for element = 1, flat:numel() do
      local grads = gradients(flat[element], list, nil, a.create_graph, a.strict and title)
      for k, grad in ipairs(grads) do rows[k][element] = grad end
   end
   local jacobians = {}
   for k, input in ipairs(list) do
      local shape = concat_shapes(output.shape, input.shape)
      jacobians[k] = #rows[k] > 0 and torch.stack(rows[k]):reshape(shape)
         or torch.zeros(shape, {dtype = input.dtype, device = input.device})
   end
   return finish(jacobians, single)
end

--- Returns all second derivatives of a function whose result is one number. For an input of shape
--- (n, m) the result has the shape (n, m, n, m); for a list of inputs it is a list of lists.
---
---     local cubes = function(x) return (x ^ 3):sum() end
---     print(torch.autograd.functional.hessian(cubes, torch.tensor {1.0, 2.0}))
---     --> tensor([[ 6.,  0.],
---     -->         [ 0., 12.]])
---@param fn fun(...: Tensor): Tensor
---@param inputs Tensor|Tensor[]
---@param options? {create_graph: boolean, strict: boolean, vectorize: boolean,
--- outer_jacobian_strategy: string}
--- create_graph: whether the result has gradients; strict: whether an output that does not depend
--- on an input is an error instead of zeros; vectorize and outer_jacobian_strategy do not
--- change the result, and are accepted for programs that were written for PyTorch
---@return Tensor|Tensor[][]
function M.hessian(...)
   local a, title <const> = take.hessian(...), "autograd.functional.hessian"
   check_strategy(title, "outer_jacobian_strategy", a.outer_jacobian_strategy)
   local _ <close> = recording()
   local list, single = prepare(title, a.inputs, a.create_graph)
   local rows = {}
   for i = 1, #list do
      local function gradient(...)
         local output = call(title, a.fn, {...})
         if output:numel() ~= 1 then
            args.refuse(title, "the function", "one that returns one number", output)
         end
         return gradients(output, {...}, nil, true, a.strict and title)[i]
      end
      rows[i] = M.jacobian(gradient, list, {create_graph = a.create_graph, strict = a.strict})
   end
   if single then return rows[1][1] end
   return rows
end

-- Returns v as a list of tensors, after checking that they have the shapes of `tensors`. If v is
-- nil, `tensors` must be a single tensor of one element, and the result is the number 1 as such a
-- tensor.
local function direction(name, v, tensors)
   if v == nil then
      if #tensors ~= 1 or tensors[1]:numel() ~= 1 then
         torch.raise(name .. ": v: expected a tensor, unless there is only one number, got nil")
      end
      return {torch.ones_like(tensors[1])}
   end
   local list, usable = torch.is_tensor(v) and {v} or v, {}
   if type(list) ~= "table" then args.refuse(name, "v", "a tensor or a list of tensors", v) end
   for i, tensor in ipairs(tensors) do
      local given = list[i]
      if not torch.is_tensor(given)
         or table.concat(given.shape, ",") ~= table.concat(tensor.shape, ",") then
         args.refuse(name, "v", ("a tensor of shape (%s)"):format(table.concat(tensor.shape, ", ")),
            given)
      end
      if given:is_complex() and not tensor:is_complex() then
         args.refuse(name, "v", "a real tensor", given)
      end
      usable[i] = recording.usable(given)
   end
   return usable
end

--- Returns the function's result and v^T J, where J is the Jacobian of the function.
---@param fn fun(...: Tensor): Tensor
---@param inputs Tensor|Tensor[]
---@param v? Tensor  a tensor of the result's shape; 1 by default if the result is a single number
---@param options? {create_graph: boolean, strict: boolean}  create_graph: whether the results
--- have gradients; strict: whether an output that does not depend on an input is an error instead
--- of zeros
---@return Tensor output
---@return Tensor|Tensor[]
function M.vjp(...)
   local a = take.vjp(...)
   local _ <close> = recording()
   local list, single = prepare("autograd.functional.vjp", a.inputs, a.create_graph, true)
   local output = call("autograd.functional.vjp", a.fn, list)
   local v = direction("autograd.functional.vjp", a.v, {output})
   local grads = gradients(output, list, v[1], a.create_graph,
      a.strict and "autograd.functional.vjp")
   return a.create_graph and output or output:detach(), finish(grads, single)
end

--- Returns the function's result and J v, where J is the Jacobian of the function. J v is computed
--- as the derivative of v^T J with respect to v.
---@param fn fun(...: Tensor): Tensor
---@param inputs Tensor|Tensor[]
---@param v? Tensor|Tensor[]  tensors of the inputs' shapes; 1 by default if the input is a single
--- number
---@param options? {create_graph: boolean, strict: boolean}  create_graph: whether the results
--- have gradients; strict: whether an output that does not depend on an input is an error instead
--- of zeros
---@return Tensor output
---@return Tensor
function M.jvp(...)
   local a = take.jvp(...)
   local _ <close> = recording()
   local list = prepare("autograd.functional.jvp", a.inputs, a.create_graph, true)
   local output = call("autograd.functional.jvp", a.fn, list)
   local v = direction("autograd.functional.jvp", a.v, list)
   local dummy = torch.zeros_like(output):requires_grad_()
   local grads = gradients(output, list, dummy, true, a.strict and "autograd.functional.jvp")
   local sum = torch.zeros({}, {device = output.device})
   for i, grad in ipairs(grads) do
      local product = grad * v[i]:conj()
      sum = sum + (product:is_complex() and product.real or product):sum()
   end
   local product = gradients(sum, {dummy}, nil, a.create_graph)[1]
   return a.create_graph and output or output:detach(), product
end

-- Returns fn's result, and the product of fn's Hessian and v, as the gradient of v times fn's
-- gradient. fn must return one number.
local function second_order(name, a)
   local _ <close> = recording()
   local list, single = prepare(name, a.inputs, a.create_graph)
   local output = call(name, a.fn, list)
   if output:numel() ~= 1 then
      args.refuse(name, "the function", "one that returns one number", output)
   end
   local v = direction(name, a.v, list)
   local sum = torch.zeros({}, {dtype = output.dtype, device = output.device})
   local strict = a.strict and name
   for i, grad in ipairs(gradients(output, list, nil, true, strict)) do
      sum = sum + (grad * v[i]):sum()
   end
   local product = gradients(sum, list, nil, a.create_graph, strict)
   return a.create_graph and output or output:detach(), finish(product, single)
end

--- Returns the function's result and v^T H, where H is the Hessian; the function must return one
--- number.
---@param fn fun(...: Tensor): Tensor
---@param inputs Tensor|Tensor[]
---@param v? Tensor|Tensor[]
---@param options? {create_graph: boolean, strict: boolean}  create_graph: whether the results
--- have gradients; strict: whether an output that does not depend on an input is an error instead
--- of zeros
---@return Tensor output
---@return Tensor|Tensor[]
function M.vhp(...)
   return second_order("autograd.functional.vhp", take.vhp(...))
end

--- Returns the function's result and H v, which equals v^T H since H is symmetric.
---@param fn fun(...: Tensor): Tensor
---@param inputs Tensor|Tensor[]
---@param v? Tensor|Tensor[]
---@param options? {create_graph: boolean, strict: boolean}  create_graph: whether the results
--- have gradients; strict: whether an output that does not depend on an input is an error instead
--- of zeros
---@return Tensor output
---@return Tensor|Tensor[]
function M.hvp(...)
   return second_order("autograd.functional.hvp", take.hvp(...))
end

return M
