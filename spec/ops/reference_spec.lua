-- Tests operators by comparing them with PyTorch. ops.py has written the expected values, dtypes and shapes to
-- spec/fixtures/ops.lua. Inputs have several layouts. Calls that PyTorch refuses must raise errors.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local rows = dofile "spec/fixtures/ops.lua"

-- Tolerances are relative to the value, or absolute for values below 1. The fixture has nine digits. Half-precision
-- results may differ in the last place, because PyTorch rounds some results twice.
local tolerance <const> = {float32 = 1e-5, float64 = 1e-8, float16 = 4e-3, bfloat16 = 7e-2}

local layouts = {
   row_major = function(x) return x end,
   transposed = function(x)
      if x:dim() < 2 then return x end
      return x:transpose(1, -1):contiguous():transpose(1, -1)
   end,
   strided = function(x)
      if x:dim() == 0 then return x end
      local sizes = x.shape
      sizes[#sizes] = sizes[#sizes] * 2 + 1
      local view = torch.ones(sizes, {dtype = x.dtype}):slice(-1, 2, -1, 2)
      view:copy_(x)
      return view
   end,
}

local function read(item) return torch.tensor(item[3], {dtype = item[1]}):reshape(item[2]) end

-- Returns all results as a flat list, including the tensors of lists.
local function collect(...)
   local list = {}
   for _, result in ipairs(table.pack(...)) do
      if type(result) == "table" then
         table.move(result, 1, #result, #list + 1, list)
      else
         list[#list + 1] = result
      end
   end
   return list
end

local function compare(expected, actual)
   if type(expected) ~= "table" then
      return expected ~= actual and ("%s instead of %s"):format(actual, expected) or nil
   end
   local ok, fault = pcall(assert.close, read(expected), actual, tolerance[expected[1]] or 0)
   return not ok and (type(fault) == "table" and fault.message or tostring(fault)) or nil
end

-- Compares a row's results in a layout with the expected values. Returns a description of the difference, or nil.
local function check(row, change)
   local text, inputs, expected = row.text, row.inputs, row.expected
   local args = {}
   for i, item in ipairs(inputs) do args[i] = change(read(item)) end
   local call = assert(load("local torch, x, y, z = ... return " .. text, "=call"))
   local results = table.pack(pcall(call, torch, table.unpack(args)))
   if not results[1] then
      return expected and results[2] or nil
   elseif not expected then
      return "PyTorch refuses it"
   end
   local list = collect(table.unpack(results, 2, results.n))
   if #list ~= #expected then return ("%d results instead of %d"):format(#list, #expected) end
   for i, item in ipairs(expected) do
      local fault = compare(item, list[i])
      if fault then return fault end
   end
   for i, item in ipairs(inputs) do
      if compare(item, args[i]) then return "changes its arguments" end
   end
end

local function describe_inputs(inputs)
   local texts = {}
   for i, item in ipairs(inputs) do texts[i] = ("%s(%s)"):format(item[1], table.concat(item[2], ", ")) end
   return table.concat(texts, ", ")
end

-- Returns the calls of the fixture, grouped by operator, in the order of the fixture.
local function by_name()
   local groups, order = {}, {}
   for _, row in ipairs(rows) do
      local name = row[1]:match("^[%a]+[.:]([%w_]+)")
      if not groups[name] then
         groups[name] = {}
         order[#order + 1] = name
      end
      for i = 2, #row do table.insert(groups[name], {text = row[1], inputs = row[i][1], expected = row[i][2]}) end
   end
   return groups, order
end

local groups, order = by_name()

describe("values and gradients are PyTorch's:", function()
   for _, name in ipairs(order) do
      it(name, function()
         local faults = {}
         for _, row in ipairs(groups[name]) do
            for layout, change in sorted(layouts) do
               local fault = check(row, change)
               if fault then
                  faults[#faults + 1] = ("%s with %s, %s: %s"):format(row.text,
                     describe_inputs(row.inputs), layout, fault)
               end
            end
         end
         assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
      end)
   end
end)
