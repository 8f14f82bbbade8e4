-- VectorEnv.lua - several environments that step together, with batches of tensors.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

--- Several environments of one kind that step together: observations, rewards and ends are tensors.
--- An environment whose episode ends begins a new one at once; info.final_observation has the last
--- observation of each.
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

---@param envs rl.Env[]  the environments
function VectorEnv:__init(envs)
   if type(envs) ~= "table" or #envs == 0 or type(envs[1]) ~= "table" or not envs[1].step then
      args.refuse("rl.VectorEnv", "envs", "a list of environments", envs)
   end
   for i, env in ipairs(envs) do
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
---@param options? {seed: integer}  seed: that of the first one; the others count up from it
---@return Tensor observations
---@return table info
function VectorEnv:reset(options)
   args.check_options("rl.VectorEnv.reset", options, "seed")
   local seed, list = options and options.seed, {}
   for i, env in ipairs(self.envs) do
      list[i] = env:reset(seed and {seed = seed + i - 1} or {})
      self.returns[i], self.lengths[i] = 0, 0
   end
   return torch.tensor(list), {}
end

--- Acts in each environment.
---@param actions Tensor  one for each
---@return Tensor observations
---@return Tensor rewards
---@return Tensor terminated  of booleans
---@return Tensor truncated  of booleans
---@return table info  final_observation, and lists of the finished episodes: returns, lengths
function VectorEnv:step(actions)
   if not torch.is_tensor(actions) or actions:dim() == 0
         or actions:size(1) ~= self.num_envs then
      args.refuse("rl.VectorEnv.step", "actions", ("a tensor of %d actions"):format(self.num_envs),
         actions)
   end
   local list = actions:tolist()
   local observations, final, rewards, ends, cuts = {}, {}, {}, {}, {}
   local info = {returns = {}, lengths = {}}
   local any = false
   for i, env in ipairs(self.envs) do
      local observation, reward, terminated, truncated = env:step(list[i])
      self.returns[i], self.lengths[i] = self.returns[i] + reward, self.lengths[i] + 1
      final[i] = observation
      if terminated or truncated then
         any = true
         table.insert(info.returns, self.returns[i])
         table.insert(info.lengths, self.lengths[i])
         self.returns[i], self.lengths[i] = 0, 0
         observation = env:reset()
      end
      observations[i], rewards[i] = observation, reward + 0.0
      ends[i], cuts[i] = terminated, truncated
   end
   local batch = torch.tensor(observations)
   info.final_observation = any and torch.tensor(final) or batch
   return batch, torch.tensor(rewards), torch.tensor(ends), torch.tensor(cuts), info
end

return VectorEnv
