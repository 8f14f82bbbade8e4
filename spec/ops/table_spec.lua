-- Tests every operator of the operator table, with the examples of the operator's entry. Compares first and second
-- gradients with finite differences, and tests whether overloads, memory layouts and dtypes agree. All failures of an
-- operator are reported as one list; each failure has its aspect and its example.

local torch = require "tlua"
local table_of = require "spec.support.table"
local sorted = require "spec.support.sorted"

-- Maps operators to the aspects that are not tested for them, with the reason.
local exceptions = {
   as_strided = {layouts = "it is about the memory's layout", expanded = "it is about the memory's layout"},
   view = {layouts = "it refuses layouts that need a copy", expanded = "it refuses layouts that need a copy"},
   view_as = {layouts = "it refuses layouts that need a copy", expanded = "it refuses layouts that need a copy"},
   view_as_complex = {
      layouts = "it refuses layouts that are no pairs",
      expanded = "it refuses layouts that are no pairs",
      float32 = "its result is no floating-point tensor",
   },
   complex = {float32 = "its result is no floating-point tensor"},
   polar = {float32 = "its result is no floating-point tensor"},
   eig = {float32 = "the signs of eigenvectors depend on rounding"},
   batch_norm = {arguments = "it updates the running statistics"},
   instance_norm = {arguments = "it updates the running statistics"},
}

-- The results of these operators are on a device that a build may lack. spec/ops/device_spec.lua tests these operators.
local elsewhere <const> = {cuda = true, sim = true}

-- Tolerances, which are multiplied by the larger of 1 and the value. An operator may round each of its intermediate
-- results.
local tolerance <const> = {float32 = 2e-5, float16 = 1e-2, bfloat16 = 6e-2}

local function floating(x) return x:is_floating_point() end

-- Comparing results -------------------------------------------------------------------------

-- Converts a tensor to float64 or complex128, for comparisons across dtypes.
local function widen(x)
   if x:is_complex() then return x:detach():to "complex128" end
   return floating(x) and x:detach():to "float64" or x
end

-- Returns complex numbers as pairs of real numbers, so that a NaN in one part does not hide the other part.
local function parts(t) return torch.is_tensor(t) and t:is_complex() and t:view_as_real() or t end

local function difference(expected, actual, tol)
   local ok, fault = pcall(assert.close, parts(expected), parts(actual), tol)
   return not ok and (type(fault) == "table" and fault.message or tostring(fault)) or nil
end

-- Compares packed results with the expected ones. Returns a description of a difference, or nil.
local function compare(expected, actual, tol)
   return table_of.compare(expected, actual, function(e, a) return difference(e:detach(), a:detach(), tol) end)
end

-- Aspects ----------------------------------------------------------------------------------------- An aspect is a
-- function that tests one property. Its arguments are the row and an example's arguments. It returns a description of a
-- failure, or nil.

local aspects = {}

local function aspect(name, check) aspects[#aspects + 1] = {name = name, check = check} end

-- Returns the operator as a function of only the arguments that require a gradient.
local function as_function(args, call)
   local position = {}
   for i, x in ipairs(table_of.leaves(args)) do position[x] = i end
   return function(...)
      local given = {...}
      local replaced = table_of.map(args, function(x) return given[position[x]] or x end)
      return table.unpack(table_of.tensors(call(replaced)))
   end
end

-- For the gradient check, an entry may have the options of gradcheck and two more. `second = false` leaves out second
-- derivatives. `symmetric = true` is for operators that read only one triangle of a symmetric matrix: their derivative
-- is defined only for symmetric changes of the matrix.
--
-- With a sanitizer, values are not tested, so a single backward pass replaces the finite differences.
local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"

local function backward_pass(inputs, fn)
   local copies, sum = {}, 0
   for i, x in ipairs(inputs) do copies[i] = x:detach():clone():requires_grad_() end
   for _, x in ipairs {fn(table.unpack(copies))} do
      if x.requires_grad and x:is_complex() then x = x:view_as_real() end
      if x.requires_grad then sum = sum + x:sum() end
   end
   if sum ~= 0 then torch.autograd.grad(sum, copies, {allow_unused = true}) end
end

local function check_gradient(which, row, args, call)
   local inputs = table_of.leaves(args)
   if #inputs == 0 then return end
   if sanitized then return backward_pass(inputs, as_function(args, call)) end
   local options = {raise_exception = false}
   for key, value in pairs(row.gradcheck) do options[key] = value end
   options.second, options.symmetric = nil, nil
   local fn = as_function(args, call)
   local function symmetric(x, ...) return fn((x + x:transpose(-1, -2)) / 2, ...) end
   local ok, fault = torch.autograd[which](row.gradcheck.symmetric and symmetric or fn, inputs, options)
   return not ok and fault or nil
end

aspect("gradient", function(row, args)
   if not row.gradcheck then return end
   return check_gradient("gradcheck", row, args, function(a) return table_of.call(row, a) end)
end)

-- Differentiates the derivatives once, which is enough with a sanitizer.
local function second_pass(row, args)
   local inputs, sum = table_of.leaves(args), 0
   if #inputs == 0 then return end
   for _, x in ipairs(table_of.tensors(table_of.call(row, args))) do
      if x.requires_grad and x:is_complex() then x = x:view_as_real() end
      if x.requires_grad then sum = sum + (x * x):sum() end
   end
   if sum == 0 then return end
   local again = 0
   local grads = table.pack(torch.autograd.grad(sum, inputs, {create_graph = true, allow_unused = true}))
   for i = 1, grads.n do
      local grad = grads[i]
      if grad and grad:is_complex() then grad = grad:view_as_real() end
      if grad and grad.requires_grad then again = again + grad:sum() end
   end
   if again ~= 0 then torch.autograd.grad(again, inputs, {allow_unused = true}) end
end

aspect("second gradient", function(row, args)
   if not row.gradcheck or row.gradcheck.second == false then return end
   if sanitized then return second_pass(row, args) end
   return check_gradient("gradgradcheck", row, args, function(a) return table_of.call(row, a) end)
end)

aspect("function and method", function(row, args)
   if not (row.func and row.method and torch.is_tensor(args[1])) then return end
   return compare(table_of.call(row, args), table_of.call_method(row, row.name, args), 0)
end)

aspect("arguments", function(row, args)
   if row.name:find("_$") then return end
   local copy = table_of.fresh(args)
   table_of.call(row, args)
   return compare(copy, args, 0)
end)

-- Returns whether the result has the shape of the first argument, so that it can overwrite it.
local function fits(x, result)
   if #x.shape ~= #result.shape then return false end
   for d, size in ipairs(x.shape) do
      if result.shape[d] ~= size then return false end
   end
   return torch.can_cast(result.dtype, x.dtype)
end

aspect("in place", function(row, args)
   if not row.inplace or row.name:find("_$") or not torch.is_tensor(args[1]) then return end
   local expected = table_of.call(row, args)
   local name = row.name .. "_"
   if not row.method then
      args = table_of.fresh(args)
      local self = args[1]:detach()
      torch.manual_seed(7)
      args[1] = self
      local result = table_of.find({path = row.path .. "_"})(table.unpack(args, 1, args.n))
      if result ~= self then return "does not return its argument" end
      return compare({n = 1, expected[1]:to(self.dtype)}, {n = 1, self}, 0)
   end
   if not fits(args[1], expected[1]) then
      if pcall(table_of.call_method, row, name, args) then return "a result that does not fit was accepted" end
      return
   end
   local self = args[1]:clone()
   torch.manual_seed(7)
   local result = self[name](self, table.unpack(args, 2, args.n))
   if result ~= self then return "does not return self" end
   return compare({n = 1, expected[1]:to(self.dtype)}, {n = 1, result}, 1e-14) or
      row.gradcheck and expected[1].requires_grad and check_gradient("gradcheck", row, args,
         function(a)
            return {n = 1, self[name](a[1]:clone(), table.unpack(a, 2, a.n))}
         end)
end)

-- Returns a copy of the arguments in which the last argument, the table of options, has one more option.
local function with_option(args, key, value)
   local copy = {n = args.n + 1, table.unpack(args, 1, args.n)}
   local last = args[args.n]
   if type(last) == "table" and #last == 0 and next(last) ~= nil then
      copy.n = args.n
      last = table_of.map(last, function(x) return x end)
   else
      last = {}
   end
   last[key] = value
   copy[copy.n] = last
   return copy
end

aspect("out", function(row, args)
   if not row.out then return end
   local plain = table_of.map(args, function(x) return x:detach() end)
   local expected = table_of.call(row, plain)[1]
   local out = torch.zeros(2, 1, 3, {dtype = expected.dtype})
   local result = table_of.call(row, with_option(plain, "out", out))[1]
   if result ~= out then return "does not return out" end
   return compare({n = 1, expected}, {n = 1, out}, 0)
end)

-- Maps names of memory layouts to functions that change the layout of a tensor.
local layouts = {
   transposed = function(x)
      if x:dim() < 2 then return x end
      return x:transpose(1, -1):contiguous():transpose(1, -1)
   end,
   strided = function(x)
      if x:dim() == 0 then return x end
      local shape = x.shape
      shape[1] = shape[1] * 2 + 1
      local view = torch.zeros(shape, {dtype = x.dtype})[{{2, -1, 2}}]
      return view:copy_(x)
   end,
}

aspect("layouts", function(row, args)
   if row.name:find("_$") then return end
   local plain = table_of.map(args, function(x) return x:detach() end)
   local expected = table_of.call(row, plain)
   for name, change in sorted(layouts) do
      local fault = compare(expected, table_of.call(row, table_of.map(plain, change)), 1e-12)
      if fault then return name .. ": " .. fault end
   end
end)

-- Expands tensors, so that several elements share the same memory.
aspect("expanded", function(row, args)
   if row.name:find("_$") then return end
   local expanded = table_of.map(args, function(x)
      x = x:detach()
      if x:dim() == 0 or x:numel() == 0 then return x end
      return x:narrow(1, 1, 1):expand_as(x)
   end)
   local plain = table_of.map(expanded, function(x) return x:contiguous() end)
   -- the call may fail, because these values may make a matrix singular
   local ok, expected = pcall(table_of.call, row, plain)
   return ok and compare(expected, table_of.call(row, expanded), 1e-12) or nil
end)

local function to_dtype(dtype) return function(x) return floating(x) and x:detach():to(dtype) or x end end

-- The inputs are rounded to values that the dtype can represent.
local function check_dtype(row, args, dtype)
   local narrow = table_of.map(args, to_dtype(dtype))
   local wide = table_of.map(narrow, to_dtype("float64"))
   local ok, actual = pcall(table_of.call, row, narrow)
   if not ok then
      -- the example passes if the error says that there is no kernel for this half-precision dtype
      return (dtype == "float32" or not tostring(actual):find(dtype)) and tostring(actual) or nil
   end
   local expected = table_of.tensors(table_of.call(row, wide))
   for i, result in ipairs(table_of.tensors(actual)) do
      if floating(result) ~= floating(expected[i]) then return "results of other dtypes" end
      local fault = difference(widen(expected[i]), widen(result), tolerance[dtype])
      if fault then return ("result %d: %s"):format(i, fault) end
   end
end

for _, dtype in ipairs {"float32", "float16", "bfloat16"} do
   aspect(dtype, function(row, args)
      if table_of.takes(row, "Generator") or row.name:find("_$") then return end
      return check_dtype(row, args, dtype)
   end)
end

-- An operator may accept or refuse empty inputs, but a call must not crash, and an error must be one of the library's
-- own.
aspect("empty", function(row, args)
   for i = 1, args.n do
      local x = args[i]
      for dim = 1, torch.is_tensor(x) and x:dim() or 0 do
         local empty = {n = args.n, table.unpack(args, 1, args.n)}
         empty[i] = x:detach():narrow(dim, 1, 0)
         local ok, fault = pcall(table_of.call, row, empty)
         if not ok and not tostring(fault):find(row.name:gsub("_$", ""), 1, true) then
            return ("%s (dimension %d of argument %d is empty)"):format(fault, dim, i)
         end
      end
   end
end)

aspect("NaN", function(row, args)
   if row.name:find("_$") or table_of.doc(row):find("NaN") then return end
   local any = false
   local nan = table_of.map(args, function(x)
      any = any or (floating(x) and x:numel() > 0)
      return floating(x) and torch.full_like(x:detach(), 0 / 0) or x
   end)
   if not any then return end
   local ok, results = pcall(table_of.call, row, nan)
   if not ok then return end
   local seen
   for _, result in ipairs(table_of.tensors(results)) do
      if floating(result) and result:numel() > 0 then seen = seen or result:isnan():any():item() end
   end
   return seen == false and "NaN disappears, and the manual does not say so" or nil
end)

-- The specs ---------------------------------------------------------------------------------

local function gives_floats(row, args)
   for _, x in ipairs(table_of.tensors(table_of.call(row, args))) do
      if floating(x) then return true end
   end
   return false
end

-- Checks an operator on tensors: it must have a derivative, or give a reason for having none, or return no
-- floating-point tensor.
local function check_entry(row)
   if not table_of.takes(row, "Tensor", "Operand", "Tensor[]") or row.nondiff then return end
   if #row.examples == 0 then return not elsewhere[row.name] and "the entry has no examples" or nil end
   if row.differentiable then
      for _, text in ipairs(row.examples) do
         for _, x in ipairs(table_of.tensors(table_of.call(row, table_of.arguments(text)))) do
            if x.requires_grad then return end
         end
      end
      return "no result of any example requires a gradient"
   end
   for _, text in ipairs(row.examples) do
      if gives_floats(row, table_of.arguments(text)) then
         return "has neither a derivative nor `nondiff` that says why"
      end
   end
end

-- The aspects that are tested with complex numbers. All other aspects are about dtypes and messages.
local of_complex <const> = {
   gradient = true, ["second gradient"] = true, ["in place"] = true, layouts = true, expanded = true,
   ["function and method"] = true, arguments = true,
}

local real_results <const> = {abs = true, angle = true}
local real_examples <const> = {
   ["T(3), P(3), {rounding_mode = 'floor'}"] = "complex quotients are not rounded",
   ["T(2, 4), {correction = 0, aweights = P(4)}"] = "weights of observations are real",
}

local function check_complex(row, text, faults)
   for _, a in ipairs(aspects) do
      local excepted = exceptions[row.name] and exceptions[row.name][a.name]
         or a.name == "in place" and real_results[row.name]
      if of_complex[a.name] and not excepted then
         local args = table_of.arguments(text, nil, true)
         local ok, fault = xpcall(a.check, debug.traceback, row, args)
         if fault then faults[#faults + 1] = ("%s: %s(%s): %s"):format(a.name, row.path, text, fault) end
         if not ok then break end
      end
   end
end

local function check_example(row, text, faults)
   for _, a in ipairs(aspects) do
      local excepted = exceptions[row.name] and exceptions[row.name][a.name]
      if not excepted then
         local ok, fault = xpcall(a.check, debug.traceback, row, table_of.arguments(text))
         if fault then faults[#faults + 1] = ("%s: %s(%s): %s"):format(a.name, row.path, text, fault) end
         if not ok then break end -- if one aspect raises an error, all later aspects would raise the same error
      end
   end
end

describe("operator", function()
   for _, row in ipairs(table_of.rows()) do
      it(row.form, function()
         local faults = {}
         local ok, fault = pcall(check_entry, row)
         if fault then faults[1] = (ok and "entry: " or "") .. tostring(fault) end
         if ok then
            for _, text in ipairs(row.examples) do check_example(row, text, faults) end
         end
         assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
      end)
   end
end)

-- These operators accept complex numbers for some arguments, but not for the arguments that are floating-point tensors
-- in their examples.
local real_only <const> = {
   complex = "its parts are real", polar = "its magnitudes and angles are real",
   view_as_complex = "it views real numbers",
}

describe("operator on complex numbers", function()
   for _, row in ipairs(table_of.rows()) do
      if row.complex and row.gradcheck and #row.examples > 0 and not real_only[row.name] then
         it(row.form, function()
            local faults = {}
            for _, text in ipairs(row.examples) do
               if not real_examples[text] then check_complex(row, text, faults) end
            end
            assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
         end)
      end
   end
end)
