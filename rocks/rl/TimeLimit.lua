-- TimeLimit.lua - limits the number of steps in the episodes of an environment.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"
local Wrapper = require "tlua.rl.Wrapper"

local take = args.signature "rl.TimeLimit(env: object, max_episode_steps: count)"

--- Truncates the episodes of an environment after a number of steps.
---
---     local env = torch.rl.TimeLimit(torch.rl.make("Pendulum-v1").env, 2)
---     env:reset {seed = 1}
---     print(select(4, env:step {0.0}))
---     print(select(4, env:step {0.0}))
---     --> false	{}
---     --> true	{}
---@class rl.TimeLimit: rl.Wrapper
---@overload fun(env: rl.Env, max_episode_steps: integer): rl.TimeLimit
local TimeLimit = class.class("rl.TimeLimit", Wrapper)

---@param env rl.Env  the environment
---@param max_episode_steps integer  the number of steps, at least 1
function TimeLimit:__init(...)
   local a = take(...)
   checks.ranges("rl.TimeLimit", a)
   Wrapper.__init(self, a.env)
   self.limit, self.count = a.max_episode_steps, 0
end

--- Begins an episode, as rl.Env.reset does.
---@param options? {seed: integer}  seed: the seed of the random numbers
---@return any observation
---@return table info
function TimeLimit:reset(options)
   checks.method(self, TimeLimit, "reset", "env")
   self.count = 0
   return self.env:reset(options or {})
end

--- Makes a step, as rl.Env.step does.
---@param action integer|number[]  the action
---@return any observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function TimeLimit:step(action)
   if type(self) ~= "table" or not self.limit then checks.method(self, TimeLimit, "step", "env") end
   if self.count >= self.limit then
      torch.raise "rl.TimeLimit.step: the episode was cut off; call reset"
   end
   local observation, reward, terminated, truncated, info = self.env:step(action)
   checks.results(self.env, reward, terminated, truncated)
   self.count = self.count + 1
   return observation, reward, terminated, truncated or self.count >= self.limit, info
end

return TimeLimit
