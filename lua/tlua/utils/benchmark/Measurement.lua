-- Measurement.lua - the times measured by a Timer, and their statistics.

local args = require "tlua.args"
local class = require "tlua.class"

---     local timer = torch.utils.benchmark.Timer {stmt = "torch.ones(2)"}
---     local measurement = timer:timeit(10)
---     print(measurement.number_per_run, measurement.median > 0)
---     --> 10	true
---@class utils.benchmark.Measurement
---@field number_per_run integer  the number of calls in a block
---@field raw_times number[]  seconds of each block
---@field times number[]  seconds of one call, ascending
---@field median number  seconds of one call
---@field mean number  seconds of one call
---@field iqr number  the range between the quartiles, in seconds of one call
---@field significant_figures integer  the number of significant digits of the median
local Measurement = class.class("utils.benchmark.Measurement")

-- Returns a quantile by linear interpolation, as numpy's percentile does.
local function quantile(sorted, q)
   local at = 1 + (#sorted - 1) * q
   local low = math.floor(at)
   local high = math.min(low + 1, #sorted)
   return sorted[low] + (sorted[high] - sorted[low]) * (at - low)
end

-- Returns the number of significant digits of the median, by PyTorch's rule: the decimal logarithm
-- of the median divided by an uncertainty. The uncertainty is half the width of the 90 % confidence
-- interval for the mean of the middle half of the times, but at least 25 ns.
local function figures(self)
   local n = #self.times
   local first, last = n // 4 + 1, math.ceil(3 * n / 4)
   local count, sum, squares = last - first + 1, 0, 0
   for i = first, last do sum = sum + self.times[i] end
   for i = first, last do squares = squares + (self.times[i] - sum / count) ^ 2 end
   local interval = math.max(1.645 * (squares / count) ^ 0.5 / count ^ 0.5, 25e-9)
   if self.median <= 0 then return 1 end
   return math.max(1, math.min(math.floor(math.log(self.median / interval, 10)), 5))
end

local take = args.signature [[utils.benchmark.Measurement(task: table, number: integer,
   raw: numbers)]]

---@param task {label?: string, sub_label?: string, description?: string, num_threads: integer}
---@param number integer
---@param raw number[]
function Measurement:__init(task, number, raw)
   take(task, number, raw)
   if #raw == 0 then args.refuse("utils.benchmark.Measurement", "raw", "times", raw) end
   self.task, self.number_per_run, self.raw_times = task, number, raw
   self.times = {}
   local sum = 0
   for i, seconds in ipairs(raw) do
      self.times[i] = seconds / number
      sum = sum + self.times[i]
   end
   table.sort(self.times)
   self.mean, self.median = sum / #raw, quantile(self.times, 0.5)
   self.iqr = quantile(self.times, 0.75) - quantile(self.times, 0.25)
   self.significant_figures = figures(self)
   self.has_warnings = #raw > 1 and self.iqr / math.max(self.median, 1e-12) > 0.1
end

local units = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}

--- Returns the unit in which a time is printed: the unit's length in seconds, and its name.
---@param seconds number
---@return number, string
function Measurement.unit(seconds)
   for _, unit in ipairs(units) do
      if seconds >= unit[1] then return unit[1], unit[2] end
   end
   return 1e-9, "ns"
end

--- Formats a number with `digits` significant digits.
function Measurement.rounded(value, digits)
   if value == 0 then return "0" end
   local decimals = digits - 1 - math.floor(math.log(math.abs(value), 10))
   if decimals <= 0 then
      local step = 10.0 ^ -decimals
      return ("%.0f"):format(math.floor(value / step + 0.5) * step)
   end
   return ("%." .. decimals .. "f"):format(value)
end

function Measurement:__tostring()
   local unit, name = Measurement.unit(self.median)
   local function shown(value)
      return Measurement.rounded(value / unit, self.significant_figures) .. " " .. name
   end
   local task, lines = self.task, {}
   lines[1] = table.concat({task.label or task.stmt or "function", task.sub_label}, ": ")
   if task.description then lines[#lines + 1] = task.description end
   if #self.times > 1 then
      lines[#lines + 1] = "  Median: " .. shown(self.median)
      lines[#lines + 1] = "  IQR:    " .. shown(self.iqr)
   else
      lines[#lines + 1] = "  " .. shown(self.median)
   end
   lines[#lines + 1] = ("  %d measurement%s, %d runs per measurement, %d thread%s"):format(
      #self.times, #self.times == 1 and "" or "s", self.number_per_run, task.num_threads,
      task.num_threads == 1 and "" or "s")
   if self.has_warnings then
      lines[#lines + 1] = ("  The spread is %.0f %% of the median: other programs may have run.")
         :format(100 * self.iqr / self.median)
   end
   return table.concat(lines, "\n")
end

return Measurement
