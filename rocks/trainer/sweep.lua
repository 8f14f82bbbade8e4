-- sweep.lua - `tlua fit config.lua --sweep method`: trains a configuration with many combinations
-- of values, each in its own process.
--
-- A sweep's folder has the file sweep.json, which describes the sweep, and a folder for each trial.
-- A trial's folder has result-N.json after N epochs (result-all.json without a limit), log.txt, and
-- the trial's logs and checkpoints. Trials depend only on the description, and results that exist
-- are not computed again. So the same command continues a sweep that was killed.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local program = require "tlua.utils.program"
local replace_file = require "tlua.io.replace"
local Asha = require "tlua.trainer.sweep_asha"
local configs = require "tlua.trainer.config"
local plan = require "tlua.trainer.sweep_plan"
local report = require "tlua.trainer.sweep_report"
local setup = require "tlua.trainer.setup"

local M = {}

local fail <const> = configs.fail

-- Files -------------------------------------------------------------------------------------------

-- Returns the object in a JSON file, or nil if there is no file. Raises an error if the file is
-- damaged.
local function read_json(path)
   local file <close> = io.open(path, "rb")
   if not file then return nil end
   local text, why = file:read "a"
   if not text then torch.raise(("tlua fit: %s: %s"):format(path, why)) end
   local value, message = json.decode(text)
   if type(value) ~= "table" then
      torch.raise(("tlua fit: %s: %s"):format(path,
         message or "expected a JSON object, got " .. args.describe(value)))
   end
   return value
end

local function write(path, text)
   local failure = replace_file(path, function(file)
      local ok, message = file:write(text)
      if not ok then return message end
   end)
   if failure then torch.raise(("tlua fit: %s: %s"):format(path, failure)) end
end

local function make_folder(path)
   local made, message = torch.io.make_folder(path)
   if not made then torch.raise(("tlua fit: %s: %s"):format(path, message)) end
end

local function folder_of(sweep, trial) return ("%s/trial-%d"):format(sweep.folder, trial.number) end

local function result_path(folder, budget)
   return ("%s/result-%s.json"):format(folder, budget or "all")
end

-- Creates the folder of a sweep, or continues the sweep that is in it.
local function enter(sweep)
   make_folder(sweep.folder)
   local path, text = sweep.folder .. "/sweep.json", json.encode(plan.description(sweep)) .. "\n"
   local old = read_json(path)
   if old then
      local ours = json.decode(text)
      for _, name in ipairs {"config", "method", "monitor", "mode", "words", "space", "seed",
         "trials", "budgets"} do
         if old[name] ~= ours[name] then
            fail(("--sweep.folder: %s has a sweep with another %s; remove the folder, or choose "
               .. "another"):format(sweep.folder, name))
         end
      end
   end
   write(path, text)
end

-- A trial's process -------------------------------------------------------------------------------

-- Returns the callbacks of a configuration as a list. Callbacks that save checkpoints in a folder
-- of their own (dirpath) get a folder within the trial's folder instead.
local function callbacks_of(options, folder, budget)
   local given = options.callbacks or {}
   if not setup.is_list(given) then given = {given} end
   local list = table.move(given, 1, #given, 1, {})
   for _, callback in ipairs(list) do
      if type(callback) == "table" and callback.is_checkpoint and callback.dirpath then
         callback.dirpath = folder .. "/checkpoints"
      end
   end
   if budget then
      -- The module and its schedules are created with the whole number of epochs as max_epochs.
      -- Only then is max_epochs reduced to the epochs of this round.
      list[#list + 1] = {on_train_start = function(_, run) run.max_epochs = budget end}
   end
   return list
end

--- Prepares a configuration for a trial: its files go to the trial's folder, and it continues from
--- its newest checkpoint. Returns a function that writes the trainer's result. Returns nil if the
--- result exists already, so that nothing must be trained.
---@param config table
---@param place string  the folder, a colon and the number of epochs or "all"
---@return fun(run: trainer.Trainer)?
function M.prepare_trial(config, place)
   local folder, budget = place:match "^(.*):(%w+)$"
   if not folder then fail "--trial: expected a folder, a colon, and a number of epochs or all" end
   budget = math.tointeger(tonumber(budget))
   make_folder(folder)
   local path = result_path(folder, budget)
   -- This loop waits until no process of a killed sweep computes this trial any more.
   while true do
      local file = assert(io.open(folder .. "/lock", "ab"))
      if torch.io._hold(file, folder .. "/lock") then
         M.lock = file -- this field keeps the lock until the process ends
         break
      end
      file:close()
      torch.distributed._sleep(0.1)
   end
   local done <close> = io.open(path, "rb")
   if done then return nil end
   local options = config.trainer or {}
   config.trainer = options
   options.callbacks = callbacks_of(options, folder, budget)
   options.default_root_dir, options.enable_progress_bar = folder, false
   config.ckpt_path = "last"
   return function(run)
      local metrics = {}
      for name, value in pairs(run.callback_metrics) do
         value = torch.is_tensor(value) and value:item() or value
         metrics[name] = ("%.17g"):format(value)
      end
      write(path, json.encode {metrics = metrics, epochs = run.current_epoch,
         steps = run.global_step} .. "\n")
   end
end

-- Processes ---------------------------------------------------------------------------------------

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Returns the command line that trains with the values of a trial.
local function command_of(sweep, trial)
   local words = {"fit", sweep.path}
   table.move(sweep.words, 1, #sweep.words, 3, words)
   for _, name in ipairs(sweep.names) do
      words[#words + 1] = ("--%s=%s"):format(name, configs.text_of(trial.values[name]))
   end
   for i, word in ipairs(words) do words[i] = word:find "^[%w_./=+-]+$" and word or quote(word) end
   return table.concat(words, " ")
end

-- Opens and locks a file that the processes of a trial inherit, so that the lock lasts as long as
-- any of these processes lives. Returns nil if the system has no locks, or if processes of a killed
-- sweep still hold the lock. In these cases the lock cannot tell whether the trial has ended.
local function watch(path)
   if package.config:sub(1, 1) == "\\" then return nil end
   local file = assert(io.open(path, "ab"))
   if torch.io._hold(file, path) then
      local other <close> = assert(io.open(path, "ab"))
      if not torch.io._hold(other, path) then return file end
   end
   file:close()
   return nil
end

-- Returns true if all processes of a trial are known to have ended, and otherwise false.
local function has_ended(process)
   if not process.watched then return false end
   local file <close> = assert(io.open(process.watched, "ab"))
   return torch.io._hold(file, process.watched)
end

local function start(sweep, trial, budget)
   local folder = folder_of(sweep, trial)
   make_folder(folder)
   local ended = folder .. "/ended"
   os.remove(ended)
   local threads = ""
   if sweep.workers > 1 and not os.getenv "OMP_NUM_THREADS" then
      local share = torch.get_num_threads() // sweep.workers
      threads = ("OMP_NUM_THREADS=%d "):format(math.max(1, share))
   end
   local line = ("%s%s %s --trial %s >%s 2>&1; echo $? >%s"):format(threads, quote(program()),
      command_of(sweep, trial), quote(("%s:%s"):format(folder, budget or "all")),
      quote(folder .. "/log.txt"), quote(ended))
   local lock = watch(folder .. "/alive")
   local handle = assert(io.popen(line, "r"))
   if lock then lock:close() end
   return {trial = trial, ended = ended, handle = handle, watched = lock and folder .. "/alive"}
end

-- Returns the reason why a trial has failed, from its log: the last line that is an error message.
-- If there is none, returns the last line, or a note that the log is empty.
local function reason(path)
   local file <close> = io.open(path, "rb")
   local last, told
   for line in (file and file:read "a" or ""):gmatch "[^\n]+" do
      if line:find "^stack traceback" then break end
      if not line:find "^%s" then told = line end
      last = line
   end
   return told or last or "its log is empty"
end

local function read_status(process)
   local file <close> = io.open(process.ended, "rb")
   return file and file:read "n"
end

-- Records how a trial's process has ended. Returns false if the process is still running.
local function collect(sweep, process, budget)
   local status = read_status(process)
   if not status then
      if not has_ended(process) then return false end
      -- The shell writes the status. If the shell was killed, there is none.
      status = read_status(process) or 128 + 9
   end
   process.handle:close()
   os.remove(process.ended)
   if status == 130 or status == 143 then torch.raise "tlua fit: the sweep was interrupted" end
   local folder = folder_of(sweep, process.trial)
   local path = result_path(folder, budget)
   local result = read_json(path)
   if result and result.metrics and not result.metrics[sweep.monitor] then
      local names = {}
      for name in pairs(result.metrics) do names[#names + 1] = name end
      table.sort(names)
      result.failure = ("%q was not logged; there are %s"):format(sweep.monitor,
         table.concat(names, ", "))
   elseif not result then
      local why = status > 128 and ("was killed by signal %d"):format(status - 128)
         or reason(folder .. "/log.txt")
      result = {failure = why, metrics = {}}
   end
   write(path, json.encode(result) .. "\n")
   return true
end

-- Loads a trial's result after a number of epochs, if it exists.
local function load_result(sweep, trial, budget)
   local result = read_json(result_path(folder_of(sweep, trial), budget))
   if not result then return false end
   trial.failure, trial.epochs, trial.steps = result.failure, result.epochs, result.steps
   if result.failure then
      trial.status = "failed"
   else
      trial.status, trial.value = "done", report.number(result.metrics[sweep.monitor])
   end
   return true
end

local function save_results(sweep) write(sweep.folder .. "/results.csv", report.csv(sweep)) end

local function told_of_results(sweep, count, total)
   if count > 0 then print(("%d of %d results are there already"):format(count, total)) end
   save_results(sweep)
end

-- Runs trainings in at most `workers` processes at a time. take(n) gets the number of running
-- trials. It returns the next trial and the epoch until which this trial is trained (false for no
-- limit), or nil if no trial can begin now. When a process has ended, note(trial, budget) is called
-- with the trial and this epoch. The function `work` itself returns when `take` returns nil and no
-- trial is running.
local function work(sweep, take, note)
   local running = {}
   while true do
      while #running < sweep.workers do
         local trial, budget = take(#running)
         if not trial then break end
         local process = start(sweep, trial, budget or nil)
         process.budget = budget or nil
         running[#running + 1] = process
      end
      if #running == 0 then return end
      for i = #running, 1, -1 do
         local process = running[i]
         if collect(sweep, process, process.budget) then
            table.remove(running, i)
            load_result(sweep, process.trial, process.budget)
            print(report.line(sweep, process.trial))
            note(process.trial, process.budget)
            save_results(sweep)
         end
      end
      torch.distributed._sleep(0.02)
   end
end

-- Trains all trials up to a number of epochs.
local function run_all(sweep, trials, budget)
   local waiting = {}
   for _, trial in ipairs(trials) do
      if not load_result(sweep, trial, budget or nil) then waiting[#waiting + 1] = trial end
   end
   told_of_results(sweep, #trials - #waiting, #trials)
   work(sweep, function() return table.remove(waiting, 1), budget end, function() end)
end

-- Trains all trials in rounds. The methods "grid" and "random" have one round. Successive halving
-- trains all trials for a few epochs in its first round, and the best of them for longer in each
-- following round. Returns the trials of the last round.
local function run_rounds(sweep)
   local trials = sweep.trials
   for i, budget in ipairs(sweep.budgets) do
      run_all(sweep, trials, budget)
      if i == #sweep.budgets then break end
      trials = report.best_of(sweep, trials, math.max(1, #trials // sweep.factor))
      for _, trial in ipairs(sweep.trials) do
         if trial.status == "done" then trial.status = "stopped" end
      end
      for _, trial in ipairs(trials) do trial.status = "done" end
      if #trials == 0 then break end
      print(("%d of %d trials go on after %s"):format(#trials, #sweep.trials,
         report.count(budget, "epoch")))
   end
   return trials
end

-- Trains by asynchronous successive halving. Returns the trials that were trained to the end.
local function run_asha(sweep)
   local asha, rungs, count = Asha(sweep), {}, 0
   for rung, budget in ipairs(sweep.budgets) do rungs[budget] = rung end
   for _, trial in ipairs(sweep.trials) do
      for rung, budget in ipairs(sweep.budgets) do
         if not load_result(sweep, trial, budget) then break end
         asha:note(trial, rung)
         count = count + 1
      end
   end
   told_of_results(sweep, count, #sweep.trials)
   work(sweep, function(running)
      local trial, rung = asha:take(running)
      if not trial then return nil end
      if rung > 1 then
         print(("trial %d goes on until epoch %d"):format(trial.number, sweep.budgets[rung]))
      end
      return trial, sweep.budgets[rung]
   end, function(trial, budget) asha:note(trial, rungs[budget]) end)
   return asha:finished()
end

--- Runs a sweep. Returns whether a trial has succeeded with a value other than NaN.
---@param path string  the file of the configuration
---@param config table
---@param settings table[]  {name, text} of the command line
---@return boolean
function M.run(path, config, settings)
   local sweep = plan.make(path, config, settings)
   enter(sweep)
   print(("%d trials, %d at a time, in %s"):format(#sweep.trials, sweep.workers, sweep.folder))
   local trials = (sweep.method == "asha" and run_asha or run_rounds)(sweep)
   save_results(sweep)
   return report.conclude(sweep, trials, command_of, config)
end

return M
