-- Wrapper.lua - the base class of wrappers, which change the inputs or outputs of an environment.

local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"

--- The base class of wrappers. A wrapper is an environment that passes all calls on to another one.
--- A derived class replaces reset or step.
---
---     local Half = torch.class("Half", torch.rl.Wrapper)
---     function Half:step(action)
---        local observation, reward, ended, cut, info = self.env:step(action)
---        return observation, reward / 2, ended, cut, info
---     end
---     local env = Half(torch.rl.make "CartPole-v1")
---     env:reset {seed = 1}
---     local _, reward = env:step(1)
---     print(reward)
---     --> 0.5
---@class rl.Wrapper
---@field env rl.Env|rl.Wrapper  the environment
---@field unwrapped rl.Env  the environment without any wrapper
---@field action_space rl.Discrete|rl.Box  the set of actions
---@field observation_space rl.Discrete|rl.Box  the set of observations
---@overload fun(env: rl.Env|rl.Wrapper): rl.Wrapper
local Wrapper = class.class("rl.Wrapper")

---@param env rl.Env|rl.Wrapper  the environment
function Wrapper:__init(env)
   if type(env) ~= "table" or not getmetatable(env) or not env.step or env.num_envs then
      args.refuse(getmetatable(self).__name, "env", "one environment, such as rl.make(id)", env)
   end
   self.env, self.unwrapped = env, env.unwrapped or env
   self.action_space, self.observation_space = env.action_space, env.observation_space
end

--- Begins an episode, as rl.Env.reset does.
---@param options? {seed: integer}  seed: the seed of the random numbers
---@return any observation
---@return table info
function Wrapper:reset(options)
   checks.method(self, Wrapper, "reset", "env")
   return self.env:reset(options or {})
end

--- Makes a step, as rl.Env.step does.
---@param action integer|number[]  the action
---@return any observation
---@return number reward
---@return boolean terminated
---@return boolean truncated
---@return table info
function Wrapper:step(action)
   checks.method(self, Wrapper, "step", "env")
   return self.env:step(action)
end

--- Returns a picture of the state as a text.
---@return string
function Wrapper:render()
   checks.method(self, Wrapper, "render", "env")
   return self.env:render()
end

--- Frees the environment's resources.
function Wrapper:close()
   checks.method(self, Wrapper, "close", "env")
   if self.env.close then self.env:close() end
end

return Wrapper
