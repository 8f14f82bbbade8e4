-- Tests torch.nn.functional, indexing and sorting by comparing them with PyTorch. Each result and gradient is reduced
-- to one number, and functional.py has written the expected numbers to spec/fixtures/functional.lua. Calls that PyTorch
-- refuses must raise errors.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional
local families = dofile "spec/fixtures/functional.lua"

-- Tolerances are relative to the number, or absolute if the number is below 1. PyTorch stores some constants in float32
-- even for computations in float64, and results are sums of rounded elements; the tolerances allow for both.
local tolerance <const> = {float64 = 1e-7, float32 = 2e-4}

-- Inputs and sums, as in functional.py ---------------------------------------------------------

-- Returns a number in [0, 1) for element k. Each input has its own `seed`.
local function fraction(k, seed)
   local word <const> = 0xffffffff
   local h = k * 2654435761 + seed * 40503 * 65537 + 12345 & word
   h = (h ~ h >> 15) * 2246822519 & word
   h = (h ~ h >> 13) * 3266489917 & word
   return ((h ~ h >> 16) & 0xffffff) / 0x1000000
end

local kinds = {
   f = function(u) return 4 * u - 2 end,
   p = function(u) return 0.1 + 0.8 * u end,
   s = function(u) return u < 0.5 and 1.0 or -1.0 end,
   g = function(u, n) return math.floor(u * n) + 1.0 end,
   i = function(u, n) return math.floor(u * n) + 1 end,
   m = function(u) return u < 0.5 end,
}
local dtypes = {f = "float64", p = "float64", s = "float64", g = "float64", i = "int64", m = "bool"}

-- Returns a list that has, for each row, `length` different numbers from 1 to n. The order differs from row to row.
local function distinct(n, length, rows, seed)
   local values = {}
   for row = 0, rows - 1 do
      local all = {}
      for v = 1, n do all[v] = v end
      table.sort(all, function(a, b) return fraction(a + row * n, seed) < fraction(b + row * n, seed) end)
      table.move(all, 1, length, #values + 1, values)
   end
   return values
end

local function make(text, seed)
   local letter, n, rest = text:match("^%s*(%a)(%d*)%s?(.*)$")
   local shape, count = {}, 1
   for size in rest:gmatch("%d+") do
      shape[#shape + 1] = math.tointeger(size)
      count = count * shape[#shape]
   end
   n = math.tointeger(n)
   local values = {}
   if letter == "u" then
      local last = shape[#shape] or 1
      values = distinct(n, last, count // last, seed)
   else
      for k = 1, count do values[k] = kinds[letter](fraction(k, seed), n) end
   end
   local x = torch.tensor(values, {dtype = dtypes[letter] or "int64"}):reshape(shape)
   return letter:find("[fpg]") and x:requires_grad_() or x
end

local function weights(shape)
   local values, count = {}, 1
   for _, size in ipairs(shape) do count = count * size end
   for k = 1, count do values[k] = 1 + fraction(k, 99) end
   return torch.tensor(values, {dtype = "float64"}):reshape(shape)
end

-- Comparing --------------------------------------------------------------------------------------

local function digest(x) return (x:detach():to("float64") * weights(x.shape)):sum():item() end

local function same_number(expected, actual, tol)
   if expected ~= expected or actual ~= actual then return expected ~= expected and actual ~= actual end
   return expected == actual or math.abs(expected - actual) <= tol * math.max(1, math.abs(expected))
end

-- Compares a result with the expected value. Returns a description of the mismatch, or nil. If `narrow` is true, the
-- tensor was computed in float32.
local function compare(what, expected, x, narrow)
   local dtype, shape, number = table.unpack(expected)
   if narrow and dtype == "float64" then dtype = "float32" end
   if x.dtype ~= dtype or table.concat(x.shape, ",") ~= table.concat(shape, ",") then
      return ("%s is %s [%s] instead of %s [%s]"):format(what, x.dtype, table.concat(x.shape, ","), dtype,
         table.concat(shape, ","))
   end
   local tol = tolerance[dtype] or 0
   local actual = digest(x)
   if not same_number(number, actual, tol) then
      return ("%s sums to %.17g instead of %.17g"):format(what, actual, number)
   end
end

local function loss_of(outputs)
   local loss
   for _, x in ipairs(outputs) do
      if x.requires_grad then
         local part = (x * weights(x.shape)):sum()
         loss = loss and loss + part or part
      end
   end
   return loss
end

-- Applies fn to each input of a row, and calls the row's function with the new inputs.
local function call(row, fn)
   local inputs, seed = {}, 0
   for text in (row[2] .. ";"):gmatch("(.-);") do
      seed = seed + 1
      inputs[seed] = fn(make(text, seed))
   end
   -- Only the CPU checks that the arguments are probabilities; PyTorch does the same.
   if not row[3] and row[1]:find("binary_cross_entropy(", 1, true) then
      for k, input in ipairs(inputs) do inputs[k] = input:cpu() end
   end
   local chunk = assert(load("local torch, F, x, y, z, w = ... return " .. row[1], "=call"))
   local results = table.pack(pcall(chunk, torch, F, table.unpack(inputs)))
   if not row[3] and results[1] then -- a device reports errors at the next wait
      results = table.pack(pcall(function() return torch.zeros(1):item() end))
   end
   return inputs, results
end

local function check(row, fn, narrow)
   local inputs, results = call(row, fn)
   if not row[3] then return results[1] and "PyTorch refuses it" or nil end
   if not results[1] then return tostring(results[2]) end
   local outputs = table.pack(table.unpack(results, 2, results.n))
   if #outputs ~= #row[3] then return ("%d results instead of %d"):format(#outputs, #row[3]) end
   for i, expected in ipairs(row[3]) do
      local fault = compare("result " .. i, expected, outputs[i], narrow)
      if fault then return fault end
   end
   if #row[4] == 0 then return end
   local wanted = {}
   for _, x in ipairs(inputs) do
      if x.requires_grad then wanted[#wanted + 1] = x end
   end
   local grads = table.pack(torch.autograd.grad(loss_of(outputs), wanted, {allow_unused = true}))
   for i, expected in ipairs(row[4]) do
      local grad = grads[i] or torch.zeros_like(wanted[i])
      local fault = compare("gradient " .. i, expected, grad, narrow)
      if fault then return fault end
   end
end

-- Each function turns an input of a test into the tensor that the test uses: unchanged, not contiguous, or in float32.
local ways = {
   plain = function(x) return x end,
   strided = function(x)
      if x:dim() == 0 then return x end
      local shape = x.shape
      shape[#shape] = shape[#shape] * 2 + 1
      local view = torch.zeros(shape, {dtype = x.dtype}):slice(-1, 2, -1, 2)
      view:copy_(x:detach())
      return x.requires_grad and view:requires_grad_() or view
   end,
   float32 = function(x)
      if not x:is_floating_point() then return x end
      local narrow = x:detach():to("float32")
      return x.requires_grad and narrow:requires_grad_() or narrow
   end,
}

for family, rows in sorted(families) do
   describe(family, function()
      for number, row in ipairs(rows) do
         it(("%d: %s"):format(number, row[1]), function()
            local faults = {}
            for way, fn in sorted(ways) do
               local literal = way == "float32" and row[1]:find("float64")
               local fault = not literal and check(row, fn, way == "float32")
               if fault then faults[#faults + 1] = way .. ": " .. fault end
            end
            assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
         end)
      end
   end)
end
