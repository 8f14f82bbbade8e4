-- TimeLimit.lua - ends episodes of an environment after a number of steps.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local take = args.signature "rl.TimeLimit(env: object, max_episode_steps: count)"

--- Truncates the episodes of an environment after a number of steps.
---
---     local env = torch.rl.TimeLimit(torch.rl.make("Pendulum-v1").env, 2)
---     env:reset {seed = 1}
---     print(select(4, env:step {0.0}))
---     print(select(4, env:step {0.0}))
---     --> false	{}
---     --> true	{}
---@class rl.TimeLimit
---@field env rl.Env  the environment
---@field action_space rl.Discrete|rl.Box  the set of actions
---@field observation_space rl.Discrete|rl.Box  the set of observations
---@overload fun(env: rl.Env, max_episode_steps: integer): rl.TimeLimit
local TimeLimit = class.class("rl.TimeLimit")

---@param env rl.Env  the environment
---@param max_episode_steps integer  the number of steps, at least 1
function TimeLimit:__init(...)
   local a = take(...)
   if a.max_episode_steps < 1 then
      args.refuse("rl.TimeLimit", "max_episode_steps", "at least 1", a.max_episode_steps)
   end
   self.env, self.limit = a.env, a.max_episode_steps
   self.action_space, self.observation_space = a.env.action_space, a.env.observation_space
   self.count = 0
end

--- Begins an episode, as rl.Env.reset does.
---@param options? {seed: integer}  seed: what the random numbers start from
---@return any observation
---@return table info
function TimeLimit:reset(options)
   self.count = 0
   return self.env:reset(options or {})
end

--- Acts, as rl.Env.step does.
---@param action integer|number[]  the action
---@return any observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function TimeLimit:step(action)
   if self.count >= self.limit then
      torch.raise "rl.TimeLimit.step: the episode was cut off; call reset"
   end
   local observation, reward, terminated, truncated, info = self.env:step(action)
   self.count = self.count + 1
   return observation, reward, terminated, truncated or self.count >= self.limit, info
end

return TimeLimit
