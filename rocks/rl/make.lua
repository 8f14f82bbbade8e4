-- make.lua - creates environments by their names in Gymnasium.

local torch = require "tlua"
local args = require "tlua.args"
local classic = require "tlua.rl.classic"
local suggest = require "tlua.utils.suggest"
local toys = require "tlua.rl.toys"
local TimeLimit = require "tlua.rl.TimeLimit"

local M = {}

-- Maps each name to a class of environments, the limit of steps in an episode (if there is one),
-- and options that differ from the class's defaults.
local registry <const> = {
   ["CartPole-v0"] = {classic.CartPole, 200}, ["CartPole-v1"] = {classic.CartPole, 500},
   ["Acrobot-v1"] = {classic.Acrobot, 500}, ["MountainCar-v0"] = {classic.MountainCar, 200},
   ["MountainCarContinuous-v0"] = {classic.MountainCarContinuous, 999},
   ["Pendulum-v1"] = {classic.Pendulum, 200}, ["FrozenLake-v1"] = {toys.FrozenLake, 100},
   ["FrozenLake8x8-v1"] = {toys.FrozenLake, 200, {map_name = "8x8"}},
   ["Taxi-v3"] = {toys.Taxi, 200}, ["Taxi-v4"] = {toys.Taxi, 200},
   ["CliffWalking-v1"] = {toys.CliffWalking},
   ["CliffWalkingSlippery-v1"] = {toys.CliffWalking, nil, {is_slippery = true}},
   ["Blackjack-v1"] = {toys.Blackjack, nil, {sab = true}},
}

local take, names_of_all = args.declare [[rl.make(id: string, max_episode_steps: count?,
   render_mode: string?, map_name: string?, desc: table?, is_slippery: boolean?,
   success_rate: number?, reward_schedule: numbers?, natural: boolean?, sab: boolean?, g: number?,
   goal_velocity: number?, sutton_barto_reward: boolean?)]]

-- Returns the options of an environment. `names` are the options that its class takes. Raises an
-- error for an option that only other environments take.
local function options_of(a, names, defaults)
   local known, options = {id = true, max_episode_steps = true, render_mode = true}, {}
   for _, name in ipairs(names) do
      known[name] = true
      if a[name] ~= nil then options[name] = a[name] else options[name] = defaults[name] end
   end
   for _, name in ipairs(names_of_all()) do
      if a[name] ~= nil and not known[name] then
         torch.raise(("rl.make: %s: %s has no such option; it takes max_episode_steps, "
            .. "render_mode%s"):format(name, a.id, #names > 0 and ", " .. table.concat(names, ", ")
            or ""))
      end
   end
   return options
end

--- Creates an environment by its name in Gymnasium.
---
---     local env = torch.rl.make "CartPole-v1"
---     env:reset {seed = 1}
---     local observation, reward, terminated = env:step(2)
---     print(#observation, reward, terminated)
---     --> 4	1.0	false
---@param id string  the name, such as "CartPole-v1"
---@param options? {max_episode_steps: integer, render_mode: string, map_name: string, desc:
--- string[], is_slippery: boolean, success_rate: number, reward_schedule: number[], natural:
--- boolean, sab: boolean, g: number, goal_velocity: number, sutton_barto_reward: boolean}
--- max_episode_steps: the limit of steps in an episode, if not the default; render_mode: the form
--- of pictures: "ansi" for toys, "svg" for classic control; map_name: FrozenLake's map, "4x4" or
--- "8x8"; desc: FrozenLake's map as rows of S (start), F (ice), H (hole), G (goal); is_slippery:
--- whether moves in FrozenLake and CliffWalking may go sideways instead; success_rate: the
--- probability of moving in the chosen direction; reward_schedule: the rewards of goal, hole and
--- ice; natural: whether Blackjack pays 1.5 for a natural, an ace and a ten at once; sab: whether
--- Blackjack follows the rules of Sutton and Barto; g: the Pendulum's gravity; goal_velocity: the
--- least speed of a car at its goal; sutton_barto_reward: whether CartPole's reward is 0 in each
--- step and -1 at the end
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
   local cls, limit = entry[1], a.max_episode_steps or entry[2]
   local options = options_of(a, cls.option_names(), entry[3] or {})
   if a.render_mode and a.render_mode ~= cls.render_mode then
      args.refuse("rl.make", "render_mode", ("%q for %s"):format(cls.render_mode, a.id),
         a.render_mode)
   end
   local env = cls(options)
   return limit and TimeLimit(env, limit) or env
end

--- Creates several environments that make steps together.
---
---     local envs = torch.rl.make_vec("CartPole-v1", 3)
---     print(table.concat(envs:reset({seed = 1}).shape, " "))
---     --> 3 4
---@param id string  the name, such as "CartPole-v1"
---@param num_envs integer  the number of environments
---@param options? {max_episode_steps: integer, render_mode: string, map_name: string,
--- desc: string[], is_slippery: boolean, success_rate: number, reward_schedule: number[],
--- natural: boolean, sab: boolean, g: number, goal_velocity: number, sutton_barto_reward: boolean}
--- max_episode_steps: as for `make`; render_mode, map_name, desc, is_slippery, success_rate,
--- reward_schedule, natural, sab, g, goal_velocity, sutton_barto_reward: as for `make`
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
