-- sweep_report.lua - ranks the trials of a sweep, and prints tables of them.

local configs = require "tlua.trainer.config"
local plan = require "tlua.trainer.sweep_plan"

local M = {}

--- Converts the text of a number in a result file to a number. NaN and infinities are stored as
--- texts.
---@param text string?
---@return number
function M.number(text)
   if text == "inf" then return math.huge end
   if text == "-inf" then return -math.huge end
   return tonumber(text) or 0 / 0
end

--- Returns a number and a noun, in the singular or plural.
---@param n integer
---@param noun string
---@return string
function M.count(n, noun) return ("%d %s%s"):format(n, noun, n == 1 and "" or "s") end

--- Returns at most `count` of the trials that have succeeded: the best ones, best first. Equal
--- values are ordered by the trials' numbers. NaN is worse than every number.
---@param sweep table
---@param trials table[]
---@param count integer
---@return table[]
function M.best_of(sweep, trials, count)
   local list = {}
   for _, trial in ipairs(trials) do
      if trial.status == "done" then list[#list + 1] = trial end
   end
   table.sort(list, function(a, b)
      local x, y = a.value, b.value
      if x ~= x or y ~= y then
         if (x ~= x) ~= (y ~= y) then return y ~= y end
         return a.number < b.number
      elseif x == y then
         return a.number < b.number
      end
      if sweep.mode == "min" then return x < y end
      return x > y
   end)
   return table.move(list, 1, math.min(count, #list), 1, {})
end

local function values_text(sweep, trial)
   local list = {}
   for i, name in ipairs(sweep.names) do
      list[i] = ("%s=%s"):format(name, configs.text_of(trial.values[name]))
   end
   return table.concat(list, ", ")
end

--- Returns a line about a trial that has ended.
---@param sweep table
---@param trial table
---@return string
function M.line(sweep, trial)
   local title = ("trial %d of %d (%s)"):format(trial.number, #sweep.trials,
      values_text(sweep, trial))
   if trial.status == "failed" then
      return ("%s failed: %s (see %s/trial-%d/log.txt)"):format(title, trial.failure, sweep.folder,
         trial.number)
   end
   return ("%s: %s = %.6g after %s"):format(title, sweep.monitor, trial.value,
      M.count(trial.epochs, "epoch"))
end

local function cell(value)
   local text = value == nil and "" or tostring(value)
   return text:find '[,"\r\n]' and '"' .. text:gsub('"', '""') .. '"' or text
end

--- Returns all trials as CSV, in the order of their numbers.
---@param sweep table
---@return string
function M.csv(sweep)
   local header = {"trial", "status", "epochs", "steps", cell(sweep.monitor)}
   for _, name in ipairs(sweep.names) do header[#header + 1] = cell(name) end
   header[#header + 1] = "failure"
   local lines = {table.concat(header, ",")}
   for _, trial in ipairs(sweep.trials) do
      local row = {trial.number, trial.status, cell(trial.epochs), cell(trial.steps),
         trial.value and ("%.9g"):format(trial.value) or ""}
      for _, name in ipairs(sweep.names) do
         row[#row + 1] = cell(configs.text_of(trial.values[name]))
      end
      row[#row + 1] = cell(trial.failure)
      lines[#lines + 1] = table.concat(row, ",")
   end
   return table.concat(lines, "\n") .. "\n"
end

--- Prints the best trial and its configuration. Returns false if no trial has succeeded with a
--- value other than NaN.
---@param sweep table
---@param trials table[]  the trials of the last comparison
---@param command_of fun(sweep: table, trial: table): string
---@param config table
---@return boolean
function M.conclude(sweep, trials, command_of, config)
   local failed = {}
   for _, trial in ipairs(sweep.trials) do
      if trial.status == "failed" then failed[#failed + 1] = trial.number end
   end
   print(("results: %s/results.csv"):format(sweep.folder))
   if #failed > 0 then
      print(("failed: %d of %d trials: %s"):format(#failed, #sweep.trials,
         table.concat(failed, ", ")))
   end
   local best = M.best_of(sweep, trials, 1)[1]
   if not best or best.value ~= best.value then
      print(("no trial has a value of %s"):format(sweep.monitor))
      return false
   end
   print(("best: trial %d, %s = %.6g after %s"):format(best.number, sweep.monitor, best.value,
      M.count(best.epochs, "epoch")))
   print("tlua " .. command_of(sweep, best))
   print(configs.text(plan.with_values(config, sweep.names, best.values)))
   return true
end

return M
