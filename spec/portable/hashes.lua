-- hashes.lua - prints a line for each group of calls in calls.lua. The line has a 32-bit hash for each call:
--    tlua spec/portable/hashes.lua [fast] [threads]
-- With "fast", the portable mode is off, which shows which calls differ without it.

local torch = require "tlua"
local calls = require "spec.portable.calls"
local table_of = require "spec.support.table"

local fast = arg[1] == "fast"
if fast then table.remove(arg, 1) end
if arg[1] then torch.set_num_threads(math.tointeger(tonumber(arg[1]))) end
if not fast then torch.use_deterministic_algorithms("portable") end

local words <const> = {[1] = "uint8", [2] = "int16", [4] = "int32", [8] = "int64"}

-- Returns the elements as int64. All NaN get the same bits.
local function as_integers(x)
   x = x:detach()
   if x:is_complex() then x = torch.view_as_real(x:resolve_conj()) end
   if x:is_floating_point() then x = torch.where(x:isnan(), torch.full_like(x, 12345.678), x) end
   x = x:contiguous():reshape(-1)
   local word = words[x:element_size()]
   return (x.dtype == "bool" and x or x:view(word)):to "int64"
end

-- Integer arithmetic wraps around, so the hash does not depend on the order of sums and products.
local function hash_tensor(x)
   local bits = as_integers(x)
   local n = bits:numel()
   local size = table.concat(x.shape, ",")
   local h = 0xcbf29ce484222325
   for i = 1, #size do h = (h ~ size:byte(i)) * 0x100000001b3 end
   if n == 0 then return h end
   local place = torch.arange(1, n + 1, {dtype = "int64"}) * 0x5851f42d4c957f2d + 0x14057b7ef767814f
   local mixed = (bits + place) * (place ~ (place >> 29))
   return h ~ (mixed ~ (mixed >> 31)):sum():item()
end

local function hash(value)
   if torch.is_tensor(value) and value.layout and tostring(value.layout) ~= "strided" then return 1 end
   local h = 17
   if type(value) == "table" then
      for _, x in ipairs(table_of.tensors(value)) do h = h * 0x100000001b3 ~ hash_tensor(x) end
      for i = 1, value.n or 0 do
         local item = value[i]
         if type(item) == "number" or type(item) == "boolean" then
            local number = tonumber(item) or (item and 1 or 0)
            h = h * 0x100000001b3 ~ hash_tensor(torch.tensor({number}, {dtype = "float64"}))
         end
      end
      return h
   end
   if torch.is_tensor(value) then return hash_tensor(value) end
   for i = 1, #tostring(value) do h = (h ~ tostring(value):byte(i)) * 0x100000001b3 end
   return h
end

local order, groups, count = {}, {}, 0
calls.run(function(group, value)
   if not groups[group] then
      groups[group] = {}
      order[#order + 1] = group
   end
   local h = hash(value)
   count = count + 1
   table.insert(groups[group], ("%08x"):format((h ~ (h >> 32)) & 0xffffffff))
end)
for _, group in ipairs(order) do print(group .. ": " .. table.concat(groups[group], " ")) end
io.stderr:write(count, " calls\n")
