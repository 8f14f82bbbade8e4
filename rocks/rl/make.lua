-- make.lua - makes environments by Gymnasium's names.

local torch = require "tlua"
local args = require "tlua.args"
local classic = require "tlua.rl.classic"
local suggest = require "tlua.utils.suggest"
local toys = require "tlua.rl.toys"
local TimeLimit = require "tlua.rl.TimeLimit"

local M = {}

-- Maps names to classes and the number of steps of an episode, if it is limited.
local registry <const> = {
   ["CartPole-v0"] = {classic.CartPole, 200}, ["CartPole-v1"] = {classic.CartPole, 500},
   ["Acrobot-v1"] = {classic.Acrobot, 500}, ["MountainCar-v0"] = {classic.MountainCar, 200},
   ["MountainCarContinuous-v0"] = {classic.MountainCarContinuous, 999},
   ["Pendulum-v1"] = {classic.Pendulum, 200}, ["FrozenLake-v1"] = {toys.FrozenLake, 100},
   ["FrozenLake8x8-v1"] = {toys.FrozenLake8x8, 200}, ["Taxi-v3"] = {toys.Taxi, 200},
   ["Taxi-v4"] = {toys.Taxi, 200}, ["CliffWalking-v1"] = {toys.CliffWalking},
   ["Blackjack-v1"] = {toys.Blackjack},
}

local take = args.signature "rl.make(id: string, max_episode_steps: count?)"

--- Makes an environment by Gymnasium's name.
---
---     local env = torch.rl.make "CartPole-v1"
---     env:reset {seed = 1}
---     local observation, reward, terminated = env:step(2)
---     print(#observation, reward, terminated)
---     --> 4	1.0	false
---@param id string  such as "CartPole-v1"
---@param options? {max_episode_steps: integer}  max_episode_steps: another limit of an episode
---@return rl.Env|rl.TimeLimit
function M.make(...)
   local a = take(...)
   local entry = registry[a.id]
   if not entry then
      local names = {}
      for name in pairs(registry) do names[#names + 1] = name end
      table.sort(names)
      torch.raise(("rl.make: id: there is no environment %q%s; there are %s"):format(a.id,
         suggest.hint(a.id, names), table.concat(names, ", ")))
   end
   local limit = a.max_episode_steps or entry[2]
   local env = entry[1]()
   return limit and TimeLimit(env, limit) or env
end

--- Makes several environments that step together.
---
---     local envs = torch.rl.make_vec("CartPole-v1", 3)
---     print(table.concat(envs:reset({seed = 1}).shape, " "))
---     --> 3 4
---@param id string  such as "CartPole-v1"
---@param num_envs integer  how many
---@param options? {max_episode_steps: integer}  those of `make`
---@return rl.VectorEnv
function M.make_vec(id, num_envs, options)
   if math.type(num_envs) ~= "integer" or num_envs < 1 then
      args.refuse("rl.make_vec", "num_envs", "an integer of at least 1", num_envs)
   end
   local list = {}
   for i = 1, num_envs do list[i] = M.make(id, options) end
   return require "tlua.rl.VectorEnv"(list)
end

return M
