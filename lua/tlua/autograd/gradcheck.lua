-- gradcheck.lua - compares derivatives with finite differences, for operators, modules and
-- user-defined functions. Inputs should be float64 or complex128: in float32 the differences are
-- too inaccurate. Complex tensors are checked as pairs of real numbers: the real and the imaginary
-- parts vary separately. Of sparse and nested tensors only the values vary; their positions are
-- fixed.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local signature = args.signature [[gradcheck(fn: callable, inputs: any, eps: number = 1e-6,
   atol: number = 1e-5, rtol: number = 1e-3, raise_exception: boolean = true,
   check_undefined_grad: boolean = true, masked: boolean?)]]

local function wants_gradient(value)
   return torch.is_tensor(value) and value.requires_grad
end

-- Returns a list of fn's floating-point results; complex results become pairs of real numbers.
local function outputs_of(fn, inputs)
   local results = table.pack(fn(table.unpack(inputs, 1, inputs.n)))
   if results.n == 1 and type(results[1]) == "table" and not getmetatable(results[1]) then
      results = table.pack(table.unpack(results[1]))
   end
   local outputs = {}
   for i = 1, results.n do
      local result = results[i]
      if torch.is_tensor(result) and torch._sparse_parts(result) then result = result:to_dense() end
      if torch.is_tensor(result) and result.is_nested then result = result:values() end
      if torch.is_tensor(result) and result:is_complex() then result = result:view_as_real() end
      if torch.is_tensor(result) and result:is_floating_point() then
         outputs[#outputs + 1] = result
      end
   end
   return outputs
end

-- Returns the matrices of central differences (elements of input number `which`, elements of
-- output), one for each key of `checked`, which are numbers of fn's outputs. The elements of the
-- input are changed one after another, and restored.
local function numerical_jacobians(fn, inputs, which, checked, eps)
   local _ <close> = torch.no_grad()
   local input = inputs[which]
   local saved = input:detach():clone()
   local flat = saved:reshape(-1):clone()
   local columns, sides = {}, {}
   for o in pairs(checked) do columns[o] = {} end
   for element = 1, flat:numel() do
      local x = flat[element]:item()
      for side, offset in ipairs {eps, -eps} do
         flat[element] = x + offset
         input.data:copy_(flat:view_as(saved))
         local outputs, values = outputs_of(fn, inputs), {}
         for o in pairs(checked) do
            values[o] = outputs[o]:to("float64"):reshape(-1):clone()
         end
         sides[side] = values
      end
      flat[element] = x
      for o, list in pairs(columns) do
         list[element] = (sides[1][o] - sides[2][o]):div_(2 * eps)
      end
   end
   input.data:copy_(saved)
   local jacobians = {}
   for o, list in pairs(columns) do jacobians[o] = #list > 0 and torch.stack(list) or nil end
   return jacobians
end

-- Computes the Jacobian matrices of the output with respect to the tensors in `wanted`, by one
-- backward pass for each element of the output.
local function analytical_jacobians(output, wanted)
   local n = output:numel()
   local rows = {}
   for k = 1, #wanted do rows[k] = {} end
   for element = 1, n do
      local seed = torch.zeros(n, {dtype = output.dtype, device = output.device})
      seed[element] = 1
      seed = seed:view(output.shape)
      local grads = table.pack(torch.autograd.grad({output}, wanted,
         {grad_outputs = {seed}, retain_graph = true, allow_unused = true}))
      for k, input in ipairs(wanted) do
         local grad = grads[k]
         if grad and (grad.dtype ~= input.dtype or not torch.equal(
            torch.tensor(grad.shape, {dtype = "int64"}),
            torch.tensor(input.shape, {dtype = "int64"}))) then
            error(("the gradient of input %d is %s, the input %s"):format(
               k, args.describe(grad), args.describe(input)), 0)
         end
         rows[k][element] = (grad or torch.zeros_like(input)):to("float64"):reshape(-1)
      end
   end
   local jacobians = {}
   for k = 1, #wanted do
      jacobians[k] = #rows[k] > 0 and torch.stack(rows[k]):t() or nil
   end
   return jacobians
end

-- Returns a text that describes the element at which two matrices differ most beyond the tolerance,
-- or nil if all differences are within the tolerance.
local function worst_difference(analytical, numerical, atol, rtol)
   local excess = (analytical - numerical):abs() - numerical:abs() * rtol - atol
   excess = excess:nan_to_num(math.huge)
   local both_nan = torch.isnan(analytical):logical_and(torch.isnan(numerical))
   excess = excess:masked_fill(both_nan, -1)
   if excess:numel() == 0 or excess:max():item() <= 0 then return nil end
   local position = excess:reshape(-1):argmax():item() - 1
   local columns = excess:size(2)
   local i, j = position // columns + 1, position % columns + 1
   return ("the derivative of element %d of the output by element %d of the input is %.9g, by "
      .. "differences %.9g"):format(j, i, analytical[i][j]:item(), numerical[i][j]:item())
end

-- Returns zeros in the place of a result's derivatives.
local function zero_jacobians(output, wanted)
   local jacobians = {}
   for k, input in ipairs(wanted) do
      jacobians[k] = torch.zeros(input:numel(), output:numel(), {dtype = "float64"})
   end
   return jacobians
end

-- Returns a hint at the likely cause of a fault, or "".
local function cause_of(recorded, input)
   if not recorded then
      return "; no result requires a gradient: was it computed with detach, item or no_grad?"
   end
   return input.dtype == "float32" and "; differences need inputs of float64" or ""
end

-- Returns a text that describes the first error in the derivatives, or nil if all derivatives are
-- right.
local function find_fault(a, inputs)
   local wanted, places = {}, {}
   for i = 1, inputs.n do
      if wants_gradient(inputs[i]) then
         wanted[#wanted + 1] = inputs[i]
         places[#places + 1] = i
      end
   end
   if #wanted == 0 then return "no input requires a gradient" end
   local outputs = outputs_of(a.fn, inputs)
   if #outputs == 0 then return "no result is a floating-point tensor" end
   -- All derivatives are computed before the numerical differences. These change the inputs in
   -- place, after which the graph cannot be used.
   local analytical, recorded = {}, false
   for _, output in ipairs(outputs) do recorded = recorded or output.requires_grad end
   -- As in PyTorch, a result that does not require a gradient is skipped if another result does.
   -- Otherwise the function must be constant.
   for o, output in ipairs(outputs) do
      analytical[o] = output.requires_grad and analytical_jacobians(output, wanted)
         or recorded and {} or zero_jacobians(output, wanted)
   end
   local by_input = {}
   for o in ipairs(outputs) do
      for k, place in ipairs(places) do
         if analytical[o][k] and not by_input[k] then
            local checked = {}
            for other in ipairs(outputs) do checked[other] = analytical[other][k] and true end
            by_input[k] = numerical_jacobians(a.fn, inputs, place, checked, a.eps)
         end
         local numerical = analytical[o][k] and by_input[k][o]
         if numerical then
            local fault = worst_difference(analytical[o][k], numerical, a.atol, a.rtol)
            if fault then
               return ("output %d, input %d: %s%s"):format(o, place, fault,
                  cause_of(recorded, inputs[place]))
            end
         end
      end
   end
end

-- Returns the arguments as a list; a single tensor becomes a list of one.
local function to_list(inputs)
   if torch.is_tensor(inputs) then return {n = 1, inputs} end
   if type(inputs) ~= "table" then
      args.refuse("gradcheck", "inputs", "a tensor or a list of arguments", inputs)
   end
   return {n = inputs.n or #inputs, table.unpack(inputs, 1, inputs.n or #inputs)}
end

-- If an input is a sparse or a nested tensor, returns the tensor of its values, and a function that
-- makes a sparse or nested tensor from new values. Otherwise returns nil.
local function opened(a, i, input)
   local parts = torch._sparse_parts(input)
   if parts then
      if a.masked == false then
         torch.raise(("gradcheck: masked: expected true or nil with the sparse input %d, whose "
            .. "gradient has its positions only; got false"):format(i))
      end
      local make = require "tlua.sparse.value".with_values
      return parts.values, function(values) return make(parts, values) end
   elseif input.is_nested then
      return input:values(), getmetatable(input).shell(input).wrap
   end
end

-- Replaces sparse and nested inputs that require a gradient by the tensors of their values. Returns
-- a function that makes the sparse and nested tensors from the values and then calls fn, and the
-- list of the new inputs. The gradient of a sparse tensor exists only at the tensor's positions.
-- The option masked = false asks for gradients at all other positions as well, so sparse inputs are
-- then refused.
local function with_values(a, inputs)
   local fn, list, changed = a.fn, {n = inputs.n, table.unpack(inputs, 1, inputs.n)}, {}
   for i = 1, inputs.n do
      if wants_gradient(inputs[i]) then
         local values, make = opened(a, i, inputs[i])
         if values then
            changed[i], list[i] = make, values:detach():clone():requires_grad_()
         end
      end
   end
   if not next(changed) then return fn, inputs end
   return function(...)
      local given = table.pack(...)
      for i, make in pairs(changed) do given[i] = make(given[i]) end
      return fn(table.unpack(given, 1, given.n))
   end, list
end

-- Replaces complex inputs that require a gradient by real tensors of their real and imaginary
-- parts. Returns a function that makes the complex tensors from the parts and then calls fn, and
-- these inputs.
local function with_parts(fn, inputs)
   local parts, changed = {n = inputs.n, table.unpack(inputs, 1, inputs.n)}, {}
   for i = 1, inputs.n do
      if wants_gradient(inputs[i]) and inputs[i]:is_complex() then
         parts[i] = inputs[i]:detach():view_as_real():clone():requires_grad_()
         changed[#changed + 1] = i
      end
   end
   if #changed == 0 then return fn, inputs end
   return function(...)
      local values = table.pack(...)
      for _, i in ipairs(changed) do values[i] = values[i]:view_as_complex() end
      return fn(table.unpack(values, 1, values.n))
   end, parts
end

local function judge(a, inputs)
   local fault = find_fault(a, inputs)
   if not fault then return true end
   if a.raise_exception then torch.raise("gradcheck: " .. fault) end
   return false, fault
end

--- Checks the derivatives of fn's results with respect to the inputs that require a gradient. A
--- mismatch raises an error that describes it, or, with `raise_exception = false`, returns false
--- and the message. If an input is sparse, only its stored elements vary, as with PyTorch's option
--- masked = true.
---
---     local x = torch.randn(3, {dtype = torch.float64}):requires_grad_()
---     print(torch.autograd.gradcheck(torch.sin, {x}))
---     --> true
---@param fn function
---@param inputs Tensor|any[]
---@param options? {eps: number, atol: number, rtol: number, raise_exception: boolean,
--- check_undefined_grad: boolean, masked: boolean}  check_undefined_grad has no effect
---@return boolean
---@return string? fault
function M.gradcheck(...)
   local a = signature(...)
   local inputs
   a.fn, inputs = with_parts(with_values(a, to_list(a.inputs)))
   return judge(a, inputs)
end

--- Checks second derivatives: the gradient is checked as a function of the inputs and of the
--- results' gradients, which are random.
---@param fn function
---@param inputs Tensor|any[]
---@param options? {eps: number, atol: number, rtol: number, raise_exception: boolean,
--- check_undefined_grad: boolean, masked: boolean}  check_undefined_grad has no effect; masked: nil
--- or true; false is refused for sparse inputs, as by gradcheck
---@return boolean
---@return string? fault
function M.gradgradcheck(...)
   local a = signature(...)
   local inputs
   a.fn, inputs = with_parts(with_values(a, to_list(a.inputs)))
   local n = inputs.n
   local seeds = {}
   for _, output in ipairs(outputs_of(a.fn, inputs)) do
      if output.requires_grad then
         seeds[#seeds + 1] = torch.randn(output.shape, {dtype = output.dtype,
            requires_grad = true})
      end
   end
   local all = {n = n + #seeds, table.unpack(inputs, 1, n)}
   for i, seed in ipairs(seeds) do all[n + i] = seed end
   local fn = a.fn
   a.fn = function(...)
      local values = table.pack(...)
      local outputs, wanted = {}, {}
      local create_graph = torch.is_grad_enabled() -- numerical differences need no graph
      local _ <close> = torch.enable_grad()
      for _, output in ipairs(outputs_of(fn, {n = n, table.unpack(values, 1, n)})) do
         if output.requires_grad then outputs[#outputs + 1] = output end
      end
      for i = 1, n do
         if wants_gradient(values[i]) then wanted[#wanted + 1] = values[i] end
      end
      local grads = table.pack(torch.autograd.grad(outputs, wanted, {create_graph = create_graph,
         allow_unused = true, grad_outputs = {table.unpack(values, n + 1)}}))
      local found = {}
      for i = 1, #wanted do
         if grads[i] then found[#found + 1] = grads[i] end
      end
      return table.unpack(found)
   end
   return judge(a, all)
end

return M
