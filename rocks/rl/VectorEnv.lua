-- VectorEnv.lua - runs several environments step by step together, with tensors for their batches.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"

--- Several environments of one kind that make steps together. Observations, rewards and the ends of
--- episodes are tensors with one row or element for each environment. An environment whose episode
--- ends begins a new one at once. info.final_observation has the observations at the end of the
--- step, before new episodes begin.
---
---     local envs = torch.rl.make_vec("CartPole-v1", 2)
---     envs:reset {seed = 1}
---     local observations, rewards = envs:step(torch.tensor {1, 2})
---     print(table.concat(observations.shape, " "), rewards)
---     --> 2 4	tensor([1., 1.])
---@class rl.VectorEnv
---@field num_envs integer  the number of environments
---@field envs rl.Env[]  the environments
---@field action_space rl.Discrete|rl.Box  the set of actions of each
---@field observation_space rl.Discrete|rl.Box  the set of observations of each
---@overload fun(envs: rl.Env[]): rl.VectorEnv
local VectorEnv = class.class("rl.VectorEnv")

-- Returns a text by which two spaces are compared: the kind of the space, and the number of its
-- elements or bounds. Returns nil if `space` is no space.
local function size_of(space)
   if type(space) ~= "table" then return nil end
   return space.n and "Discrete " .. space.n or space.low and "Box " .. #space.low
end

-- Raises an error if an environment has no spaces, or if its spaces differ from those of the first
-- one.
local function check_spaces(i, env, first)
   for _, name in ipairs {"action_space", "observation_space"} do
      local size = size_of(env[name])
      if not size then
         args.refuse(torch.type(env), name, "a rl.Discrete or a rl.Box, set in __init", env[name])
      elseif size ~= size_of(first[name]) then
         torch.raise(("rl.VectorEnv: envs: expected environments of one kind, got %s (%s) and, at "
            .. "position %d, %s (%s)"):format(name, size_of(first[name]), i, name, size))
      end
   end
end

-- Returns an environment's observation as Lua values. Raises an error if the space is a Box and the
-- observation does not fit it.
local function plain(env, method, observation)
   local low = env.observation_space.low
   if low then return checks.observation(torch.type(env) .. method, observation, #low) end
   if torch.is_tensor(observation) then return observation:tolist() end
   return observation
end

---@param envs rl.Env[]  the environments
function VectorEnv:__init(envs)
   if type(envs) ~= "table" or #envs == 0 then
      args.refuse("rl.VectorEnv", "envs", "a list of environments", envs)
   end
   for i = 1, #envs do
      local env = envs[i]
      if type(env) ~= "table" or not getmetatable(env) or not env.step then
         args.refuse("rl.VectorEnv", "envs", "a list of environments", env)
      end
      check_spaces(i, env, envs[1])
      for k = 1, i - 1 do
         if rawequal(envs[k], env) then
            torch.raise(("rl.VectorEnv: envs: %d and %d are the same environment"):format(k, i))
         end
      end
   end
   self.envs, self.num_envs = envs, #envs
   self.action_space, self.observation_space = envs[1].action_space, envs[1].observation_space
   self.returns, self.lengths = {}, {}
end

--- Begins an episode in each environment.
---@param options? {seed: integer}  seed: the seed of the first environment; each further
--- environment gets the next integer
---@return Tensor observations
---@return table info
function VectorEnv:reset(options)
   checks.method(self, VectorEnv, "reset", "envs")
   args.check_options("rl.VectorEnv.reset", options, "seed")
   local seed, list = options and options.seed, {}
   if seed ~= nil and not (math.type(seed) and math.tointeger(seed)) then
      args.refuse("rl.VectorEnv.reset", "seed", "an integer", seed)
   end
   for i, env in ipairs(self.envs) do
      list[i] = plain(env, ".reset", (env:reset(seed and {seed = seed + i - 1} or {})))
      self.returns[i], self.lengths[i] = 0, 0
   end
   return torch.tensor(list), {}
end

-- Raises an error unless the space has each action of a list. All actions are checked before the
-- first environment makes its step, so that a wrong action changes no environment.
local function check_actions(space, list)
   for i, action in ipairs(list) do
      local found, expected = checks.action(space, action)
      if found == nil then
         args.refuse("rl.VectorEnv.step", ("actions[%d]"):format(i), expected, action)
      end
   end
end

--- Makes a step in each environment.
---@param actions Tensor  one action for each environment
---@return Tensor observations
---@return Tensor rewards
---@return Tensor terminated  a bool tensor
---@return Tensor truncated  a bool tensor
---@return table info  final_observation, and for the episodes that have finished the lists
---  `returns` and `lengths`
function VectorEnv:step(actions)
   checks.method(self, VectorEnv, "step", "envs")
   if not torch.is_tensor(actions) or actions:dim() == 0
         or actions:size(1) ~= self.num_envs then
      args.refuse("rl.VectorEnv.step", "actions", ("a tensor of %d actions"):format(self.num_envs),
         actions)
   end
   local list = actions:tolist()
   check_actions(self.action_space, list)
   local observations, final, rewards, ends, cuts = {}, {}, {}, {}, {}
   local info = {returns = {}, lengths = {}}
   local any = false
   for i, env in ipairs(self.envs) do
      local observation, reward, terminated, truncated = env:step(list[i])
      checks.results(env, reward, terminated, truncated)
      observation = plain(env, ".step", observation)
      self.returns[i], self.lengths[i] = self.returns[i] + reward, self.lengths[i] + 1
      final[i] = observation
      if terminated or truncated then
         any = true
         table.insert(info.returns, self.returns[i])
         table.insert(info.lengths, self.lengths[i])
         self.returns[i], self.lengths[i] = 0, 0
         observation = plain(env, ".reset", (env:reset()))
      end
      observations[i], rewards[i] = observation, reward + 0.0
      ends[i], cuts[i] = terminated, truncated
   end
   local batch = torch.tensor(observations)
   info.final_observation = any and torch.tensor(final) or batch
   return batch, torch.tensor(rewards), torch.tensor(ends), torch.tensor(cuts), info
end

--- Closes all environments.
function VectorEnv:close()
   checks.method(self, VectorEnv, "close", "envs")
   for _, env in ipairs(self.envs) do
      if env.close then env:close() end
   end
end

--- Returns the picture of each environment.
---@return string[]
function VectorEnv:render()
   checks.method(self, VectorEnv, "render", "envs")
   local list = {}
   for i, env in ipairs(self.envs) do list[i] = env:render() end
   return list
end

return VectorEnv
