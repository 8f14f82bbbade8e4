-- table.lua - gives specs access to the operator table: its rows, their example arguments, and calls of every form of a
-- row.

local shell = require "spec.support.shell"
local torch = require "tlua"

local M = {}

--- Returns all overloads of operators, one row each, sorted by name.
---@return table[] rows  {name, path, form, method, func, inplace, out, view, differentiable, complex,
---   gradcheck, nondiff, params = {{name, type, optional}, ...}, examples = {text, ...}}
function M.rows() return dofile(shell.build .. "/gen/gradlist.lua") end

--- Returns the manual's entry for a row.
---@param row table
---@return string
function M.doc(row)
   M.manual = M.manual or dofile(shell.build .. "/gen/manual.lua")
   return M.manual[row.path]
end

--- Returns whether a row has a parameter of one of the types.
---@param row table
---@param ... string  types, written as in schemas
---@return boolean
function M.takes(row, ...)
   for _, param in ipairs(row.params) do
      for _, type in ipairs {...} do
         if param[2] == type then return true end
      end
   end
   return false
end

-- Examples ----------------------------------------------------------------------------------

-- The default of `resize`: returns the sizes of an example's tensors unchanged.
local function as_written(...) return {...} end
local resize = as_written

local function randn(...) return torch.randn(resize(...), {dtype = "float64"}) end

local function uniform(from, to)
   return function(...)
      local x = torch.rand(resize(...), {dtype = "float64"}) * (to - from) + from
      return x:requires_grad_()
   end
end

-- Returns symmetric positive definite matrices of shape (..., n, n). The arguments are the sizes up to the first n.
local function positive_definite(...)
   local sizes = {...}
   sizes[#sizes + 1] = sizes[#sizes]
   local x = randn(table.unpack(sizes))
   local one = torch.eye(x:size(-1), {dtype = "float64"})
   return (x:matmul(x:transpose(-1, -2)) + one):requires_grad_()
end

local names = {
   T = function(...) return randn(...):requires_grad_() end,
   Z = function(...) return torch.complex(randn(...), randn(...)):requires_grad_() end,
   P = uniform(0.5, 2),
   U = uniform(-0.9, 0.9),
   SPD = positive_definite,
   I = function(n, ...) return torch.randint(1, n + 1, resize(...)) end,
   M = function(...) return torch.rand(resize(...)):lt(0.5) end,
}
local environment = setmetatable(names, {__index = _G})

-- Examples make tensors by these functions. They are redefined here, so that floating-point tensors become complex.
local function as_complex(make)
   return function(...)
      local parts = {make(...):detach(), make(...):detach()}
      return torch.complex(parts[1], parts[2]):requires_grad_()
   end
end
local function hermitian_positive_definite(...)
   local sizes = {...}
   sizes[#sizes + 1] = sizes[#sizes]
   local x = torch.complex(randn(table.unpack(sizes)), randn(table.unpack(sizes)))
   local one = torch.eye(x:size(-1), {dtype = "float64"})
   return (x:matmul(x.mH) + one):requires_grad_()
end
local complex_names = setmetatable({
   T = names.Z, P = as_complex(names.P), U = as_complex(names.U), SPD = hermitian_positive_definite,
}, {__index = environment})

--- Replaces each tensor in a value by fn(tensor), including tensors in nested tables.
---@param value any
---@param fn fun(x: Tensor): Tensor
---@return any
function M.map(value, fn)
   if torch.is_tensor(value) then return fn(value) end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = M.map(item, fn) end
   return copy
end

--- Returns all tensors in a value, in order.
---@param value any
---@return Tensor[]
function M.tensors(value)
   local list = {}
   local function visit(item)
      if torch.is_tensor(item) then
         list[#list + 1] = item
      elseif type(item) == "table" then
         for i = 1, item.n or #item do visit(item[i]) end
         local keys = {}
         for key in pairs(item) do
            if type(key) == "string" and key ~= "n" then keys[#keys + 1] = key end
         end
         table.sort(keys)
         for _, key in ipairs(keys) do visit(item[key]) end
      end
   end
   visit(value)
   return list
end

--- Returns all tensors in a value that require a gradient, in order.
---@param value any
---@return Tensor[]
function M.leaves(value)
   local list = {}
   for _, x in ipairs(M.tensors(value)) do
      if x.requires_grad then list[#list + 1] = x end
   end
   return list
end

--- Compares packed results with the expected ones: how many there are, their tensors (by `difference`), and all other
--- values. Returns a description of a difference, or nil.
---@param expected table
---@param actual table
---@param difference fun(expected: Tensor, actual: Tensor): string?
---@return string?
function M.compare(expected, actual, difference)
   if expected.n ~= actual.n then return ("%d results instead of %d"):format(actual.n, expected.n) end
   local e, a = M.tensors(expected), M.tensors(actual)
   if #e ~= #a then return ("%d tensors instead of %d"):format(#a, #e) end
   for i = 1, #e do
      local fault = difference(e[i], a[i])
      if fault then return ("result %d: %s"):format(i, fault) end
   end
   for i = 1, expected.n do
      local plain = type(expected[i]) ~= "table" and not torch.is_tensor(expected[i])
      if plain and expected[i] ~= actual[i] and expected[i] == expected[i] then
         return ("result %d: %s instead of %s"):format(i, actual[i], expected[i])
      end
   end
end

--- Returns copies of the arguments as new leaves, with the same values, dtypes, strides and requires_grad.
---@param args table
---@return table
function M.fresh(args)
   return M.map(args, function(x)
      local copy = x:detach():clone()
      return x.requires_grad and copy:requires_grad_() or copy
   end)
end

--- Evaluates the text of an example. Random arguments are the same in every call.
---@param text string
---@param sizes? fun(...: integer): integer[]  maps the sizes of each tensor to other sizes
---@param complex? boolean  whether floating-point tensors become complex
---@return table args  packed by table.pack
function M.arguments(text, sizes, complex)
   torch.manual_seed(42)
   local names_of = complex and complex_names or environment
   local chunk = assert(load("return " .. text, "=" .. text, "t", names_of))
   resize = sizes or as_written
   local args = table.pack(pcall(chunk))
   resize = as_written
   if not args[1] then error(args[2], 0) end
   return M.fresh(table.pack(table.unpack(args, 2, args.n)))
end

-- Calls -------------------------------------------------------------------------------------

--- Returns the function of a row, which is in torch or in a table below torch.
---@param row table
---@return function
function M.find(row)
   local value = torch
   for name in row.path:gmatch("[^.]+") do
      if name ~= "torch" then value = value[name] end
   end
   return value
end

--- Calls an operator as a function if it has one, otherwise as a method, and packs the results. Random operators draw
--- the same numbers in every call. If the operator overwrites a tensor (its name ends with an underscore), the tensor
--- is copied first.
---@param row table
---@param args table  packed by table.pack
---@param unseeded? boolean  whether random operators draw other numbers in each call
---@return table results  packed by table.pack
function M.call(row, args, unseeded)
   if not row.func then return M.call_method(row, row.name, args, unseeded) end
   local self = args[1]
   if row.inplace and row.name:find("_$") and torch.is_tensor(self) then self = self:clone() end
   if not unseeded then torch.manual_seed(7) end
   return table.pack(M.find(row)(self, table.unpack(args, 2, args.n)))
end

--- Calls an operator as a method of the first argument. All other rules are those of M.call.
---@param row table
---@param name string
---@param args table
---@param unseeded? boolean
---@return table results
function M.call_method(row, name, args, unseeded)
   local self = args[1]
   if row.inplace and name:find("_$") and torch.is_tensor(self) then self = self:clone() end
   if not unseeded then torch.manual_seed(7) end
   return table.pack(self[name](self, table.unpack(args, 2, args.n)))
end

--- Operators whose sum of results has no gradient, with the reason.
M.undefined = {eig = "the sum of eigenvectors depends on their phases"}

--- Returns the gradients of the sum of all results, including real and imaginary parts. Returns nil if autograd has not
--- recorded the results. In the list, false stands for an input without a gradient.
function M.gradients(args, results)
   local inputs, loss = M.leaves(args), nil
   for _, x in ipairs(M.tensors(results)) do
      if x.requires_grad then
         local sum = (x:is_complex() and torch.view_as_real(x) or x):sum()
         loss = loss and loss + sum or sum
      end
   end
   if not loss or #inputs == 0 then return nil end
   local grads = table.pack(torch.autograd.grad(loss, inputs, {allow_unused = true}))
   for i = 1, grads.n do grads[i] = grads[i] or false end
   return grads
end

return M
