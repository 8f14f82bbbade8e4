-- marks.lua - maps values to positions on an axis, and puts labelled tick marks at round
-- numbers.

local M = {}

-- Returns the smallest step that divides a range into at most n parts and is 1, 2 or 5 times a
-- power of ten.
local function round_step(range, n)
   local power = 10.0 ^ math.floor(math.log(range / n, 10))
   for _, factor in ipairs {1, 2, 5} do
      if range / (factor * power) <= n + 1e-9 then return factor * power end
   end
   return 10 * power
end

local function label(value, step)
   if math.abs(value) < step * 1e-6 then return "0" end
   if math.abs(value) >= 1e6 or step < 1e-4 then return ("%g"):format(value) end
   local places = math.max(0, math.ceil(-math.log(step, 10) - 1e-9))
   return ("%." .. places .. "f"):format(value)
end

-- Returns tick marks at the powers of ten whose exponents are from `low` to `high`. If there are
-- more than n, only every second, third or later one is returned.
local function powers(low, high, n)
   local marks = {}
   local first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
   local step = math.max(1, math.ceil((last - first) / n))
   for e = first, last, step do marks[#marks + 1] = {at = e, text = ("1e%d"):format(e)} end
   return marks
end

--- Returns an axis for a range of values, with tick marks.
---@param low number
---@param high number
---@param n integer  the largest number of marks
---@param logarithmic? boolean
---@return {place: fun(value: number): number?, marks: table[]}  `place` maps a value to a position
---  from 0 to 1, and a mark is {at = position from 0 to 1, text = string}
function M.axis(low, high, n, logarithmic)
   low, high = low + 0.0, high + 0.0
   if logarithmic then low, high = math.log(low, 10), math.log(high, 10) end
   -- a tenth of the values is used if the range would overflow
   local unit = high - low > 1e308 and 0.1 or 1
   low, high = low * unit, high * unit
   local size = math.max(math.abs(low), math.abs(high))
   if high - low <= 1e-12 * size or high - low < 1e-300 then
      local more = size == 0 and 1 or math.max(size * 0.1, 1e-300)
      low, high = math.max(low - more, -1.7e308), math.min(high + more, 1.7e308)
   end
   local range = high - low
   local marks = logarithmic and powers(low, high, n) or {}
   if #marks < 2 then
      marks = {}
      local step = round_step(range, n)
      for k = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
         local text = label(k * step / unit, step / unit)
         if logarithmic then text = ("%.3g"):format(10 ^ (k * step)) end
         marks[#marks + 1] = {at = k * step, text = text}
      end
   end
   for _, mark in ipairs(marks) do mark.at = (mark.at - low) / range end
   return {
      marks = marks,
      place = function(value)
         if logarithmic then
            if value <= 0 then return nil end
            value = math.log(value, 10)
         end
         return (value * unit - low) / range
      end,
   }
end

return M
