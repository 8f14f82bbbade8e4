-- random.lua - functions that draw random numbers for transforms from the generator that
-- torch.manual_seed seeds, and functions that check the ranges of random numbers.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

function M.uniform(low, high) return low + (high - low) * torch.rand(1):item() end

function M.chance(p) return torch.rand(1):item() < p end

-- Returns a random integer from 0 to n - 1.
function M.below(n) return torch.randint(0, n, {1}):item() end

-- Returns a random integer from low to high, including both.
function M.between(low, high) return torch.randint(low, high + 1, {1}):item() end

-- Rounds to the nearest integer, or to the even one of two nearest integers.
function M.round(x)
   local rounded = math.floor(x + 0.5)
   return x % 1 == 0.5 and rounded % 2 == 1 and rounded - 1 or rounded
end

-- Returns {-d, d} if `value` is a number d. Otherwise returns `value`, which must be a list of
-- numbers whose length is one of the further arguments.
function M.angles(title, name, value, ...)
   if type(value) == "number" then
      if not (value >= 0 and value < math.huge) then
         args.refuse(title, name, "a number of at least 0", value)
      end
      return {-value, value}
   end
   local fits, lengths = false, {...}
   for _, n in ipairs(lengths) do fits = fits or #value == n end
   if not fits then
      args.refuse(title, name, "a number or a list of " .. table.concat(lengths, " or "), #value)
   end
   for i = 1, #value - 1, 2 do
      if value[i] ~= value[i] or value[i] > value[i + 1] or value[i + 1] ~= value[i + 1] then
         args.refuse(title, name, "increasing numbers", value[i + 1])
      end
   end
   return value
end

-- Raises an error unless a value is {low, high} with limit_low <= low <= high <= limit_high.
function M.check_range(title, name, value, limit_low, limit_high)
   local low, high = value[1], value[2]
   local are_numbers = #value == 2 and math.type(low) and math.type(high)
   local is_nan = low ~= low or high ~= high
   if not are_numbers or is_nan or low < limit_low or high > limit_high or low > high then
      args.refuse(title, name, ("two increasing numbers from %g to %g"):format(limit_low,
         limit_high), are_numbers and ("{%s, %s}"):format(low, high) or value)
   end
end

return M
