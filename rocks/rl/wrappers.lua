-- wrappers.lua - wrappers with Gymnasium's names: ClipAction, NormalizeObservation,
-- NormalizeReward, FrameStackObservation and RecordEpisodeStatistics.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"
local spaces = require "tlua.rl.spaces"
local Wrapper = require "tlua.rl.Wrapper"

local M = {}

-- Returns the number of bounds of a space. Raises an error if the space `name` of `env` is not a
-- Box.
local function box_size(title, env, name)
   local space = type(env) == "table" and env[name]
   if not space or not space.low then
      args.refuse(title, "env", ("an environment whose %s is a Box"):format(name), env)
   end
   return #space.low
end

local function unbounded(n)
   local low, high = {}, {}
   for i = 1, n do low[i], high[i] = -math.huge, math.huge end
   return spaces.Box(low, high)
end

-- Makes a step in the wrapped environment, checks the results and returns them. If the observations
-- are in a Box of n numbers, an observation becomes a list.
local function step(self, action, n)
   local env = self.env
   local observation, reward, terminated, truncated, info = env:step(action)
   checks.results(env, reward, terminated, truncated)
   if n then observation = checks.observation(torch.type(env) .. ".step", observation, n) end
   return observation, reward, terminated, truncated, info
end

-- Resets the wrapped environment, checks the results and returns them.
local function reset(self, options, n)
   local observation, info = self.env:reset(options or {})
   return checks.observation(torch.type(self.env) .. ".reset", observation, n), info
end

-- ClipAction --------------------------------------------------------------------------------------

--- Clips actions to the bounds of the environment's space. The wrapper's own space is unbounded.
---
---     local rl = torch.rl
---     local env = rl.ClipAction(rl.make "MountainCarContinuous-v0")
---     env:reset {seed = 1}
---     local _, reward = env:step {100}
---     print(reward)
---     --> -0.1
---@class rl.ClipAction: rl.Wrapper
---@overload fun(env: rl.Env|rl.Wrapper): rl.ClipAction
M.ClipAction = class.class("rl.ClipAction", Wrapper)

local take_clip = args.signature "rl.ClipAction(env: object)"

---@param env rl.Env|rl.Wrapper  the environment, whose action_space is a Box
function M.ClipAction:__init(...)
   local env = take_clip(...).env
   local n = box_size("rl.ClipAction", env, "action_space")
   Wrapper.__init(self, env)
   self.inner, self.action_space = env.action_space, unbounded(n)
end

--- Makes a step, as rl.Env.step does.
---@param action number[]  the action
---@return any observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function M.ClipAction:step(action)
   checks.method(self, M.ClipAction, "step", "env")
   if torch.is_tensor(action) then action = action:tolist() end
   if type(action) ~= "table" then return self.env:step(action) end
   local clipped = {}
   for i, x in ipairs(action) do
      local low, high = self.inner.low[i], self.inner.high[i]
      if x ~= x then
         torch.raise(("rl.ClipAction.step: action: expected numbers, got NaN at position %d")
            :format(i))
      end
      clipped[i] = type(x) == "number" and low and math.max(low, math.min(high, x)) or x
   end
   return self.env:step(clipped)
end

-- Running statistics ------------------------------------------------------------------------------

-- Keeps the running mean and variance of each of `n` columns of numbers.
local Running = class.class("rl.Running")

function Running:__init(n)
   self.mean, self.var, self.count = {}, {}, 1e-4
   for i = 1, n do self.mean[i], self.var[i] = 0.0, 1.0 end
end

function Running:update(row)
   local count = self.count
   local total = count + 1
   for i, x in ipairs(row) do
      local delta = x - self.mean[i]
      self.mean[i] = self.mean[i] + delta / total
      self.var[i] = (self.var[i] * count + delta * delta * count / total) / total
   end
   self.count = total
end

-- NormalizeObservation ----------------------------------------------------------------------------

--- Normalises observations: subtracts the running mean and divides by the running standard
--- deviation.
---
---     local rl = torch.rl
---     local env = rl.NormalizeObservation(rl.make "CartPole-v1")
---     env:reset {seed = 1}
---     for _ = 1, 5 do env:step(1) end
---     print(env.obs_rms.count > 6, env.update_running_mean)
---     --> true	true
---@class rl.NormalizeObservation: rl.Wrapper
---@field obs_rms {mean: number[], var: number[], count: number}  the statistics
---@field update_running_mean boolean  whether observations update the statistics; a program may
--- set it to false for an evaluation
---@overload fun(env: rl.Env|rl.Wrapper, options?: table): rl.NormalizeObservation
M.NormalizeObservation = class.class("rl.NormalizeObservation", Wrapper)

local take_observation = args.signature
   "rl.NormalizeObservation(env: object, epsilon: number = 1e-8)"

---@param env rl.Env|rl.Wrapper  the environment, whose observation_space is a Box
---@param options? {epsilon: number}  epsilon: a number that is added to the variance
function M.NormalizeObservation:__init(...)
   local a = take_observation(...)
   checks.ranges("rl.NormalizeObservation", a)
   local n = box_size("rl.NormalizeObservation", a.env, "observation_space")
   Wrapper.__init(self, a.env)
   self.observation_space = unbounded(n)
   self.obs_rms, self.epsilon, self.update_running_mean = Running(n), a.epsilon, true
end

local function normalized(self, observation)
   local rms, list = self.obs_rms, {}
   if self.update_running_mean then rms:update(observation) end
   for i, x in ipairs(observation) do
      list[i] = (x - rms.mean[i]) / math.sqrt(rms.var[i] + self.epsilon)
   end
   return list
end

--- Begins an episode, as rl.Env.reset does.
---@param options? {seed: integer}  seed: the seed of the random numbers
---@return number[] observation
---@return table info
function M.NormalizeObservation:reset(options)
   checks.method(self, M.NormalizeObservation, "reset", "env")
   local observation, info = reset(self, options, #self.obs_rms.mean)
   return normalized(self, observation), info
end

--- Makes a step, as rl.Env.step does.
---@param action integer|number[]  the action
---@return number[] observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function M.NormalizeObservation:step(action)
   checks.method(self, M.NormalizeObservation, "step", "env")
   local observation, reward, terminated, truncated, info = step(self, action,
      #self.obs_rms.mean)
   return normalized(self, observation), reward, terminated, truncated, info
end

-- NormalizeReward ---------------------------------------------------------------------------------

--- Divides rewards by the running standard deviation of the discounted returns.
---
---     local rl = torch.rl
---     local env = rl.NormalizeReward(rl.make "Pendulum-v1", {gamma = 0.9})
---     env:reset {seed = 1}
---     env:step {0.5}
---     print(env.return_rms.count > 1)
---     --> true
---@class rl.NormalizeReward: rl.Wrapper
---@field return_rms {mean: number[], var: number[], count: number}  the statistics
---@field update_running_mean boolean  whether rewards update the statistics; a program may set it
--- to false for an evaluation
---@overload fun(env: rl.Env|rl.Wrapper, options?: table): rl.NormalizeReward
M.NormalizeReward = class.class("rl.NormalizeReward", Wrapper)

local take_reward = args.signature
   "rl.NormalizeReward(env: object, gamma: number = 0.99, epsilon: number = 1e-8)"

---@param env rl.Env|rl.Wrapper  the environment
---@param options? {gamma: number, epsilon: number}  gamma: the discount; epsilon: is added to the
--- variance
function M.NormalizeReward:__init(...)
   local a = take_reward(...)
   checks.ranges("rl.NormalizeReward", a)
   Wrapper.__init(self, a.env)
   self.gamma, self.epsilon, self.sum = a.gamma, a.epsilon, 0.0
   self.return_rms, self.update_running_mean = Running(1), true
end

--- Makes a step, as rl.Env.step does.
---@param action integer|number[]  the action
---@return any observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function M.NormalizeReward:step(action)
   checks.method(self, M.NormalizeReward, "step", "env")
   local observation, reward, terminated, truncated, info = step(self, action)
   self.sum = (terminated and 0.0 or self.sum * self.gamma) + reward
   if self.update_running_mean then self.return_rms:update {self.sum} end
   return observation, reward / math.sqrt(self.return_rms.var[1] + self.epsilon), terminated,
      truncated, info
end

-- FrameStackObservation ---------------------------------------------------------------------------

--- Concatenates the newest observations to one list, the oldest first.
---
---     local rl = torch.rl
---     local env = rl.FrameStackObservation(rl.make "Pendulum-v1", 4)
---     print(#env:reset {seed = 1}, #env.observation_space.low)
---     --> 12	12
---@class rl.FrameStackObservation: rl.Wrapper
---@overload fun(env: rl.Env|rl.Wrapper, stack_size: integer,
--- options?: table): rl.FrameStackObservation
M.FrameStackObservation = class.class("rl.FrameStackObservation", Wrapper)

local most_numbers <const> = 1 << 24

local take_stack = args.signature [[rl.FrameStackObservation(env: object, stack_size: count,
   padding_type: string = 'reset')]]

---@param env rl.Env|rl.Wrapper  the environment, whose observation_space is a Box
---@param stack_size integer  the number of observations
---@param options? {padding_type: string}  padding_type: what precedes the first observation:
--- copies of it ("reset") or zeros ("zero")
function M.FrameStackObservation:__init(...)
   local title <const> = "rl.FrameStackObservation"
   local a = take_stack(...)
   checks.ranges(title, a)
   if a.padding_type ~= "reset" and a.padding_type ~= "zero" then
      args.refuse(title, "padding_type", "reset or zero", a.padding_type)
   end
   local n = box_size(title, a.env, "observation_space")
   if a.stack_size > most_numbers // n then
      args.refuse(title, "stack_size", ("at most %d observations of %d numbers"):format(
         most_numbers // n, n), a.stack_size)
   end
   Wrapper.__init(self, a.env)
   local low, high = {}, {}
   for i = 0, a.stack_size - 1 do
      table.move(a.env.observation_space.low, 1, n, i * n + 1, low)
      table.move(a.env.observation_space.high, 1, n, i * n + 1, high)
   end
   self.observation_space = spaces.Box(low, high)
   self.stack_size, self.padding_type, self.width = a.stack_size, a.padding_type, n
   self.frames = {}
end

-- Replaces the oldest observation by a new one. Returns all kept observations, concatenated to one
-- list.
local function stacked(self, observation)
   local n, frames = self.width, self.frames
   local list = table.move(frames, n + 1, n * self.stack_size, 1, {})
   table.move(observation, 1, n, n * (self.stack_size - 1) + 1, list)
   self.frames = list
   return table.move(list, 1, #list, 1, {})
end

--- Begins an episode, as rl.Env.reset does.
---@param options? {seed: integer}  seed: the seed of the random numbers
---@return number[] observation
---@return table info
function M.FrameStackObservation:reset(options)
   checks.method(self, M.FrameStackObservation, "reset", "env")
   local observation, info = reset(self, options, self.width)
   for i = 0, self.width * self.stack_size - 1 do
      self.frames[i + 1] = self.padding_type == "reset" and observation[i % self.width + 1] or 0.0
   end
   return stacked(self, observation), info
end

--- Makes a step, as rl.Env.step does.
---@param action integer|number[]  the action
---@return number[] observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function M.FrameStackObservation:step(action)
   checks.method(self, M.FrameStackObservation, "step", "env")
   local observation, reward, terminated, truncated, info = step(self, action, self.width)
   return stacked(self, observation), reward, terminated, truncated, info
end

-- RecordEpisodeStatistics -------------------------------------------------------------------------

--- Records the returns, lengths and durations of episodes. In an episode's last step, the table
--- `info` contains them in the field `episode`, as r, l and t (in seconds).
---
---     local rl = torch.rl
---     local env = rl.RecordEpisodeStatistics(
---        rl.make("CartPole-v1", {max_episode_steps = 2}))
---     env:reset {seed = 1}
---     env:step(1)
---     local info = select(5, env:step(2))
---     print(info.episode.r, info.episode.l, env.episode_count)
---     --> 2.0	2	1
---@class rl.RecordEpisodeStatistics: rl.Wrapper
---@field episode_count integer  the number of episodes that have ended
---@field return_queue number[]  the returns of the newest episodes, the oldest first
---@field length_queue integer[]  the lengths of these episodes
---@field time_queue number[]  the durations of these episodes in seconds
---@overload fun(env: rl.Env|rl.Wrapper, options?: table): rl.RecordEpisodeStatistics
M.RecordEpisodeStatistics = class.class("rl.RecordEpisodeStatistics", Wrapper)

local take_record = args.signature [[rl.RecordEpisodeStatistics(env: object,
   buffer_length: count = 100, stats_key: string = 'episode')]]

---@param env rl.Env|rl.Wrapper  the environment
---@param options? {buffer_length: integer, stats_key: string}  buffer_length: the number of
--- episodes that the lists keep; stats_key: the name of the field of info with the statistics
function M.RecordEpisodeStatistics:__init(...)
   local a = take_record(...)
   checks.ranges("rl.RecordEpisodeStatistics", a)
   Wrapper.__init(self, a.env)
   self.buffer_length, self.stats_key = a.buffer_length, a.stats_key
   self.episode_count, self.episode_returns, self.episode_lengths = 0, 0.0, 0
   self.return_queue, self.length_queue, self.time_queue = {}, {}, {}
   self.begun = torch.io.clock()
end

--- Begins an episode, as rl.Env.reset does.
---@param options? {seed: integer}  seed: the seed of the random numbers
---@return any observation
---@return table info
function M.RecordEpisodeStatistics:reset(options)
   checks.method(self, M.RecordEpisodeStatistics, "reset", "env")
   self.episode_returns, self.episode_lengths, self.begun = 0.0, 0, torch.io.clock()
   return self.env:reset(options or {})
end

local function push(self, list, value)
   list[#list + 1] = value
   if #list > self.buffer_length then table.remove(list, 1) end
end

--- Makes a step, as rl.Env.step does.
---@param action integer|number[]  the action
---@return any observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function M.RecordEpisodeStatistics:step(action)
   checks.method(self, M.RecordEpisodeStatistics, "step", "env")
   local observation, reward, terminated, truncated, given = step(self, action)
   self.episode_returns = self.episode_returns + reward
   self.episode_lengths = self.episode_lengths + 1
   if not terminated and not truncated then
      return observation, reward, terminated, truncated, given
   end
   local info = {}
   for name, value in pairs(given or {}) do info[name] = value end
   if info[self.stats_key] ~= nil then
      torch.raise(("rl.RecordEpisodeStatistics.step: stats_key: info already has %q; give one of "
         .. "two wrappers another name"):format(self.stats_key))
   end
   local seconds = torch.io.clock() - self.begun
   info[self.stats_key] = {r = self.episode_returns, l = self.episode_lengths, t = seconds}
   push(self, self.return_queue, self.episode_returns)
   push(self, self.length_queue, self.episode_lengths)
   push(self, self.time_queue, seconds)
   self.episode_count, self.begun = self.episode_count + 1, torch.io.clock()
   return observation, reward, terminated, truncated, info
end

return M
