-- Compare.lua - shows measurements side by side, in a table with a row for each sub_label and a
-- column for each description.

local args = require "tlua.args"
local class = require "tlua.class"
local Measurement = require "tlua.utils.benchmark.Measurement"
local text = require "tlua.profiler.text"

---     local benchmark = torch.utils.benchmark
---     local timer = benchmark.Timer {stmt = "torch.ones(2)", label = "fill"}
---     local compare = benchmark.Compare {timer:timeit(10)}
---     print(tostring(compare):find "fill" ~= nil)
---     --> true
---@class utils.benchmark.Compare
local Compare = class.class("utils.benchmark.Compare")

---@param results utils.benchmark.Measurement[]
function Compare:__init(results)
   if type(results) ~= "table" then
      args.refuse("utils.benchmark.Compare", "results", "a list of measurements", results)
   end
   self.results = {}
   self:extend_results(results)
end

--- Adds measurements to the tables.
---@param results utils.benchmark.Measurement[]
function Compare:extend_results(results)
   for _, m in ipairs(results) do
      if not class.isinstance(m, Measurement) then
         args.refuse("utils.benchmark.Compare", "results", "a list of measurements", m)
      end
      self.results[#self.results + 1] = m
   end
end

--- Makes printed times leave out insignificant digits.
function Compare:trim_significant_figures() self.trimmed = true end

--- Makes a terminal show the fastest time of each row in green and much slower times in red.
---@param rowwise? boolean  false turns the colours off
function Compare:colorize(rowwise) self.coloured = rowwise ~= false end

local function ordered(results, field)
   local list, seen = {}, {}
   for _, m in ipairs(results) do
      local key = field(m)
      if not seen[key] then
         seen[key] = true
         list[#list + 1] = key
      end
   end
   return list
end

local function row_name(m)
   local name = m.task.sub_label or m.task.stmt or ""
   if m.task.env then name = "(" .. m.task.env .. ") " .. name end
   return m.task.num_threads == 1 and name or ("%s [%d threads]"):format(name, m.task.num_threads)
end

local function one_table(self, label, results)
   local rows = ordered(results, row_name)
   local names = ordered(results, function(m) return m.task.description or "" end)
   local cells, least = {}, math.huge
   for _, m in ipairs(results) do
      cells[row_name(m) .. "\0" .. (m.task.description or "")] = m
      least = math.min(least, m.median)
   end
   local unit, unit_name = Measurement.unit(least)
   local columns, lines = {{label, left = true}}, {}
   for _, name in ipairs(names) do columns[#columns + 1] = {name} end
   for r, row in ipairs(rows) do
      lines[r] = {row}
      local best = math.huge
      for _, name in ipairs(names) do
         local m = cells[row .. "\0" .. name]
         best = m and math.min(best, m.median) or best
      end
      for c, name in ipairs(names) do
         local m = cells[row .. "\0" .. name]
         local shown = ""
         if m then
            shown = self.trimmed and Measurement.rounded(m.median / unit, m.significant_figures)
               or ("%.1f"):format(m.median / unit)
         end
         if m and self.coloured then
            local ratio = m.median / best
            local code = ratio <= 1.05 and 32 or ratio > 1.5 and 31
            if code then shown = ("\27[%dm%s\27[0m"):format(code, shown) end
         end
         lines[r][c + 1] = shown
      end
   end
   return text.columns(columns, lines) .. ("Times are in %s.\n"):format(
      ({s = "seconds", ms = "milliseconds (ms)", us = "microseconds (us)",
        ns = "nanoseconds (ns)"})[unit_name])
end

function Compare:__tostring()
   local parts = {}
   for _, label in ipairs(ordered(self.results, function(m) return m.task.label or "" end)) do
      local those = {}
      for _, m in ipairs(self.results) do
         if (m.task.label or "") == label then those[#those + 1] = m end
      end
      parts[#parts + 1] = one_table(self, label, those)
   end
   return table.concat(parts, "\n")
end

--- Prints the tables of all measurements.
function Compare:print() print(tostring(self)) end

return Compare
