-- printing.lua - prints tensors as Torch7 did, with columns of equal width. If the numbers are very
-- large or small, they are divided by a common factor, which is printed above the rows.

local torch = require "tlua"
local types = require "tlua.torch7.types"

local T, field, methods = torch, types.field, types.methods

local line_width <const> = 80

-- Returns the number of digits before the decimal point of a number. For example, it is 1 for 1 to
-- 9.99, 0 for 0.1 to 0.99 and -1 for 0.01 to 0.099.
local function exponent(value)
   if value == 0 then return 1 end
   return math.floor(math.log(value, 10) + 1e-12) + 1
end

-- Chooses one format for all elements. Returns the format, its width, the common factor, and
-- whether all numbers are integers.
local function choose(values)
   local low, high, whole = math.huge, 0, true
   for _, value in ipairs(values) do
      local size = math.abs(value)
      if size < math.huge then
         low, high = math.min(low, size), math.max(high, size)
         whole = whole and math.ceil(value) == value
      elseif size ~= size then
         whole = false
      end
   end
   if low == math.huge then low = 0 end
   local small, large = exponent(low), exponent(high)
   if whole then
      if large > 9 then return "%11.4e", 11, 1, false end
      return ("%%%dd"):format(large + 1), large + 1, 1, true
   elseif large - small > 4 then
      local width = (math.abs(large) > 99 or math.abs(small) > 99) and 12 or 11
      return ("%%%d.4e"):format(width), width, 1, false
   elseif large > 5 or large < 0 then
      return "%7.4f", 7, 10.0 ^ (large - 1), false
   end
   local width = large == 0 and 7 or large + 6
   return ("%%%d.4f"):format(width), width, 1, false
end

local function writer(values)
   local format, width, factor, whole = choose(values)
   return function(value)
      value = value / factor
      if value ~= value or math.abs(value) == math.huge then
         local text = value ~= value and "nan" or value > 0 and "inf" or "-inf"
         return (" "):rep(width - #text) .. text
      end
      return format:format(whole and math.tointeger(value) or value)
   end, width, factor
end

local function rule(factor, indent) return ("%s%g *\n"):format(indent, factor) end

local function vector(values)
   local write, _, factor = writer(values)
   local lines = {}
   if factor ~= 1 then lines[1] = rule(factor, "") end
   for _, value in ipairs(values) do lines[#lines + 1] = write(value) .. "\n" end
   return table.concat(lines)
end

local function flat(rows)
   local values = {}
   for _, row in ipairs(rows) do table.move(row, 1, #row, #values + 1, values) end
   return values
end

local function matrix(rows, indent)
   local write, width, factor = writer(flat(rows))
   local columns = #rows[1]
   local at_once = math.max((line_width - #indent) // (width + 1), 1)
   local out = {}
   for first = 1, columns, at_once do
      local last = math.min(first + at_once - 1, columns)
      if at_once < columns then
         if first ~= 1 then out[#out + 1] = "\n" end
         out[#out + 1] = ("%sColumns %d to %d\n"):format(indent, first, last)
      end
      if factor ~= 1 then out[#out + 1] = rule(factor, indent) end
      for _, row in ipairs(rows) do
         local cells = {}
         for c = first, last do cells[#cells + 1] = write(row[c]) end
         out[#out + 1] = indent .. table.concat(cells, " ") .. "\n"
      end
   end
   return table.concat(out)
end

local function stack(values, depth, place, out)
   if depth == 2 then
      if #out > 0 then out[#out + 1] = "\n" end
      out[#out + 1] = ("(%s,.,.) = \n"):format(table.concat(place, ","))
      out[#out + 1] = matrix(values, " ")
      return
   end
   for i, inner in ipairs(values) do
      place[#place + 1] = i
      stack(inner, depth - 1, place, out)
      place[#place] = nil
   end
end

--- Formats a tensor's elements and type as Torch7 did.
---@param x Tensor
---@return string
local function describe(x)
   local name = types.kind_of(x).tensor.__typename
   if methods.numel(x) == 0 then return ("[%s with no dimension]\n"):format(name) end
   local sizes = field(x, "shape")
   local values = methods.tolist(methods.to(T.detach(x), "cpu"))
   local text
   if #sizes == 1 then
      text = vector(values)
   elseif #sizes == 2 then
      text = matrix(values, "")
   else
      local out = {}
      stack(values, #sizes, {}, out)
      text = table.concat(out)
   end
   return ("%s[%s of size %s]\n"):format(text, name, table.concat(sizes, "x"))
end

types.Tensor.__tostring = describe
return describe
