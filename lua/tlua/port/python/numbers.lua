-- numbers.lua - implements Python's int, float, round and similar functions.

local torch = require "tlua"
local M = require "tlua.port.python.base"

local show <const> = M.show

--- Implements int(x): converts to an integer, rounding towards zero; parses text.
function M.int(value, base)
   if torch.is_tensor(value) then value = value:item() end
   if type(value) == "boolean" then return value and 1 or 0 end
   if type(value) == "string" then
      local number = math.tointeger(tonumber(value, base))
      return number or error(("int: value: expected an integer's text, got %q"):format(value), 2)
   end
   return math.tointeger(value >= 0 and math.floor(value) or math.ceil(value))
end

--- float(x).
function M.float(value)
   if torch.is_tensor(value) then value = value:item() end
   if type(value) == "boolean" then return value and 1.0 or 0.0 end
   local number = tonumber(value)
   if not number then
      error(("float: value: expected a number's text, got %s"):format(show(value)), 2)
   end
   return number + 0.0
end

--- Implements Python's round(x, digits), which rounds halves to the even neighbour.
function M.round(x, digits)
   local scale = 10.0 ^ (digits or 0)
   local scaled = x * scale
   local whole = math.floor(scaled + 0.5)
   if scaled + 0.5 == whole and whole % 2 == 1 then whole = whole - 1 end
   if digits then return whole / scale end
   return math.tointeger(whole)
end

--- Computes a ** b for integers, or pow(a, b, modulus) for a modulus below 2^31. The result is an
--- integer unless b is negative.
function M.power(a, b, modulus)
   if modulus and (modulus < 1 or modulus >= 1 << 31 or b < 0) then
      error(("pow: modulus: expected 1 to 2^31 - 1 and no negative exponent, got %s and %s"):format(
         show(modulus), show(b)), 2)
   end
   if b < 0 then return a ^ b end
   local result = 1
   local function limit(n) return modulus and n % modulus or n end
   a = limit(a)
   while b > 0 do
      if b & 1 == 1 then result = limit(result * a) end
      a, b = limit(a * a), b >> 1
   end
   return limit(result)
end

--- divmod(a, b).
function M.divmod(a, b) return a // b, a % b end

--- Returns the value of one of two branches, and computes only that branch.
function M.choose(condition, yes, no)
   if condition then return yes() end
   return no()
end

--- Returns whether a value is true in Python, where 0, "" and empty containers are false.
function M.truth(value)
   if torch.is_tensor(value) then
      local item = value:item()
      return item ~= 0 and item ~= false
   end
   if type(value) ~= "table" then
      return value ~= nil and value ~= false and value ~= 0 and value ~= ""
   end
   local meta = getmetatable(value)
   if type(meta) == "table" and meta.__len then return #value > 0 end
   -- an object with a metatable is always true
   return meta and torch.type(value) ~= "table" or next(value) ~= nil
end

--- Implements `value or rest()` with Python's truth values.
function M.either(value, rest)
   if M.truth(value) then return value end
   return rest()
end

--- Converts a position that counts from 0, or from the end if negative, to a position in Lua. With
--- n, for a table of n items, the result is from 1 to n; without n, for tensors and texts, it may
--- be negative.
function M.position(i, n)
   if i >= 0 then return i + 1 end
   return n and n + 1 + i or i
end

--- Converts the end of a slice, which Python excludes, to a last position.
function M.stop(i) return i < 0 and i - 1 or i end

--- Returns the value, or the default if it is nil.
function M.default(value, default)
   if value == nil then return default end
   return value
end

return M
