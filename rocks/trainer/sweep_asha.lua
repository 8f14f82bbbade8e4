-- sweep_asha.lua - asynchronous successive halving (ASHA): chooses the trials that a sweep's
-- processes train.
--
-- A sweep compares trials after several numbers of epochs; each of these numbers is a rung. A free
-- process looks at the trials in the top 1/factor of each rung, from the highest rung down. It
-- promotes the best one that has not been promoted yet, which means that the trial is trained up to
-- the next rung. If there is none, it begins a new trial. So no process waits for another. Source:
-- Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2018, algorithm 2. In the
-- paper, trials never run out. Here they do: if nothing is left to begin or promote, no trial is
-- running, and no trial has a result at the last rung, then the best trial that can be promoted
-- from the highest possible rung is promoted.

local class = require "tlua.class"
local report = require "tlua.trainer.sweep_report"

local Asha = class.class "trainer.Asha"

---@param sweep table  trials, budgets, factor and mode are used
function Asha:__init(sweep)
   self.sweep, self.values = sweep, {}
   for _, trial in ipairs(sweep.trials) do
      trial.rung = 0 -- the highest rung up to which the training of the trial was started
      self.values[trial] = {}
   end
end

--- Records that the training of a trial up to a rung has ended. A trial that has failed gets no
--- result at this rung.
---@param trial table
---@param rung integer
function Asha:note(trial, rung)
   trial.rung = rung
   if trial.status == "failed" then return end
   self.values[trial][rung] = trial.value
   trial.status = rung == #self.sweep.budgets and "done" or "stopped"
end

-- Returns the trials with a result at a rung, best first.
local function ranked(self, rung)
   local list = {}
   for _, trial in ipairs(self.sweep.trials) do
      local value = self.values[trial][rung]
      if value ~= nil then
         list[#list + 1] = {number = trial.number, value = value, status = "done", trial = trial}
      end
   end
   return report.best_of(self.sweep, list, #list)
end

-- Returns the best of the first `count` trials in a rung's list that has not been promoted yet.
-- Returns nil if all have been promoted.
local function to_promote(list, rung, count)
   for i = 1, count do
      local trial = list[i].trial
      if trial.rung == rung then return trial end
   end
end

--- Returns the next trial to train and the rung up to which it is trained, and records that its
--- training has begun. Returns nil if no training can begin now; it may begin when a running trial
--- ends.
---@param running integer  the number of trials that are being trained
---@return table? trial
---@return integer? rung
function Asha:take(running)
   local top = #self.sweep.budgets
   local function begin(trial, rung)
      trial.rung = rung
      return trial, rung
   end
   for rung = top - 1, 1, -1 do
      local list = ranked(self, rung)
      local trial = to_promote(list, rung, #list // self.sweep.factor)
      if trial then return begin(trial, rung + 1) end
   end
   for _, trial in ipairs(self.sweep.trials) do
      if trial.rung == 0 then return begin(trial, 1) end
   end
   if running > 0 or #ranked(self, top) > 0 then return nil end
   for rung = top - 1, 1, -1 do
      local list = ranked(self, rung)
      local trial = to_promote(list, rung, #list)
      if trial then return begin(trial, rung + 1) end
   end
   return nil
end

--- Returns the trials that have a result at the last rung, best first.
---@return table[]
function Asha:finished()
   local list = ranked(self, #self.sweep.budgets)
   for i, entry in ipairs(list) do list[i] = entry.trial end
   return list
end

return Asha
