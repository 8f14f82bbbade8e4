-- evaluation.lua - measures the returns that agents reach.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.rl.checks"

local M = {}

local take = args.signature [[rl.evaluate_policy(agent: object, env: object,
   n_eval_episodes: count = 10, deterministic: boolean = true, seed: integer?)]]

--- Plays episodes with an agent, and returns the mean and the standard deviation of their returns.
---
---     local rl = torch.rl
---     local agent = rl.PPO(rl.make "CartPole-v1", {seed = 1})
---     local mean = rl.evaluate_policy(agent, rl.make "CartPole-v1", {seed = 1})
---     print(mean > 5)
---     --> true
---@param agent table  an agent, or any object with predict(observation, deterministic)
---@param env rl.Env|rl.TimeLimit  one environment
---@param options? {n_eval_episodes: integer, deterministic: boolean, seed: integer}  seed: the
--- seed of the first episode
---@return number mean
---@return number deviation
function M.evaluate_policy(...)
   local a = take(...)
   if not a.agent.predict then
      args.refuse("rl.evaluate_policy", "agent", "an object with predict", a.agent)
   elseif a.env.num_envs then
      args.refuse("rl.evaluate_policy", "env", "one environment, such as rl.make(id)", a.env)
   elseif a.n_eval_episodes < 1 then
      args.refuse("rl.evaluate_policy", "n_eval_episodes", "at least 1", a.n_eval_episodes)
   end
   local returns = {}
   for i = 1, a.n_eval_episodes do
      local observation = a.env:reset(i == 1 and a.seed and {seed = a.seed} or {})
      local sum, over = 0.0, false
      while not over do
         local reward, terminated, truncated
         observation, reward, terminated, truncated = a.env:step(
            a.agent:predict(observation, a.deterministic))
         checks.results(a.env, reward, terminated, truncated)
         sum, over = sum + reward, terminated or truncated
      end
      returns[i] = sum
   end
   local list = torch.tensor(returns, {dtype = "float64"})
   return list:mean():item(), list:std({unbiased = false}):item()
end

return M
