-- Agent.lua - the base class of agents. It stores the environments and does what all agents have in
-- common: choosing actions, the loop of learning, saving and loading.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"
local VectorEnv = require "tlua.rl.VectorEnv"
local nn = torch.nn

--- The base class of agents. An agent can learn, choose actions, and be saved and loaded.
---
---     local rl = torch.rl
---     local agent = rl.A2C(rl.make "CartPole-v1", {seed = 1})
---     agent:learn(10)
---     print(torch.isinstance(agent, rl.Agent), agent.num_timesteps)
---     --> true	10
---@class rl.Agent
---@field num_timesteps integer  the number of steps so far
---@field episode_returns number[]  the returns of the last 100 episodes
local Agent = class.class("rl.Agent")

--- Stores the environments, and finds the sizes of their observations and actions.
function Agent:_take_env(env)
   local name = torch.type(self)
   if type(env) ~= "table" or not getmetatable(env) or not env.step then
      args.refuse(name, "env", "an environment, or several of rl.make_vec", env)
   end
   if not class.isinstance(env, VectorEnv) then env = VectorEnv {env} end
   self.env = env
   local actions, observations = env.action_space, env.observation_space
   self.is_discrete = actions.n ~= nil
   self.action_size = actions.n or #actions.low
   self.observation_size = observations.n or #observations.low
   self.positions = observations.n ~= nil
   self.num_timesteps, self.episode_returns = 0, {}
end

--- Converts observations to the input of networks. In a discrete space, the number of an
--- observation becomes a one-hot vector.
function Agent:_encode(observations)
   if not self.positions then return observations:float() end
   return nn.functional.one_hot(observations:long(), self.observation_size):float()
end

--- Returns a multilayer perceptron with the given sizes of hidden layers.
function Agent._mlp(from, sizes, to, activation)
   local list, size = {}, from
   for _, hidden in ipairs(sizes) do
      list[#list + 1], list[#list + 2] = nn.Linear(size, hidden), activation()
      size = hidden
   end
   list[#list + 1] = nn.Linear(size, to)
   return nn.Sequential(table.unpack(list))
end

--- Appends the returns of the episodes that have just finished to the list, which keeps the newest
--- 100.
function Agent:_note(info)
   for _, value in ipairs(info.returns) do
      table.insert(self.episode_returns, value)
      if #self.episode_returns > 100 then table.remove(self.episode_returns, 1) end
   end
end

--- Returns the mean of the returns of the last 100 episodes. Returns nil if no episode has ended
--- yet.
---@return number?
function Agent:mean_return()
   checks.method(self, Agent, "mean_return", "agent")
   local sum = 0
   for _, value in ipairs(self.episode_returns) do sum = sum + value end
   return #self.episode_returns > 0 and sum / #self.episode_returns or nil
end

-- Returns an observation as Lua values: a list for a Box, an integer for a Discrete space. Raises
-- an error if the observation is not in the space.
local function checked(self, observation)
   if torch.is_tensor(observation) then observation = observation:tolist() end
   local n = self.observation_size
   local fits
   if self.positions then
      fits = math.type(observation) and math.tointeger(observation)
         and observation >= 1 and observation <= n
   else
      fits = type(observation) == "table" and #observation == n
      for i = 1, fits and n or 0 do
         fits = fits and type(observation[i]) == "number" and observation[i] == observation[i]
      end
   end
   if fits then return observation end
   args.refuse(torch.type(self) .. ".predict", "observation", self.positions
      and "an integer from 1 to " .. n or ("%d numbers of one environment"):format(n), observation)
end

--- Returns the agent's action for an observation.
---@param observation any  an observation of one environment
---@param deterministic? boolean|{deterministic: boolean}  whether the action is the best one
--- instead of one drawn from the policy; true by default. DQN, TD3 and DDPG always choose the best
--- action
---@return integer|number[] action
function Agent:predict(observation, deterministic)
   checks.method(self, Agent, "predict", "agent")
   if type(deterministic) == "table" then
      args.check_options("rl.Agent.predict", deterministic, "deterministic")
      deterministic = deterministic.deterministic
   end
   if deterministic ~= nil and type(deterministic) ~= "boolean" then
      args.refuse("rl.Agent.predict", "deterministic", "a boolean", deterministic)
   end
   local batch = self:_encode(torch.tensor {checked(self, observation)})
   local _ <close> = torch.no_grad()
   return self:_act(batch, deterministic ~= false)[1]
end

local function check_steps(self, steps)
   if math.type(steps) ~= "integer" or steps < 1 then
      args.refuse(torch.type(self) .. ".learn", "total_timesteps", "an integer of at least "
         .. "1", steps)
   end
end

--- Learns for a number of steps.
---@param total_timesteps integer  the number of steps, counted over all environments
---@param callback? fun(agent: table): boolean?  called after each update; true ends the learning
---@return table self
function Agent:learn(total_timesteps, callback)
   checks.method(self, Agent, "learn", "agent")
   check_steps(self, total_timesteps)
   if callback ~= nil and not args.is_callable(callback) then
      args.refuse(torch.type(self) .. ".learn", "callback", "a function", callback)
   end
   self.goal = self.num_timesteps + total_timesteps
   self.observations = self.observations or self.env:reset(self.seed and {seed = self.seed} or {})
   while self.num_timesteps < self.goal do
      self:_iterate()
      if callback and callback(self) == true then break end
   end
   return self
end

--- Saves the networks and the optimizers to a file.
---@param path string  the file
function Agent:save(path)
   checks.method(self, Agent, "save", "agent")
   local state = {kind = torch.type(self), num_timesteps = self.num_timesteps, parts = {}}
   for name, part in pairs(self:_parts()) do
      state.parts[name] = torch.is_tensor(part) and part:detach() or part:state_dict()
   end
   torch.save(state, path)
end

-- Raises an error if `saved`, a tensor or a network of a file, has other sizes than the part of the
-- agent into which `load` would copy it.
local function check_sizes(name, path, part_name, part, saved)
   local own
   if torch.is_tensor(part) then
      own, saved = {[part_name] = part}, {[part_name] = saved}
   elseif class.isinstance(part, nn.Module) then
      own = part:state_dict()
   else
      return -- the state of an optimizer belongs to parameters that are checked with the networks
   end
   for key, tensor in pairs(own) do
      local other = type(saved) == "table" and saved[key]
      if torch.is_tensor(tensor) and (not torch.is_tensor(other) or other:size() ~= tensor:size())
      then
         torch.raise(("%s.load: %s: %s: %s: expected a tensor of shape (%s), got %s; was it saved "
            .. "with the same options?"):format(name, path, part_name, key,
            table.concat(tensor.shape, ", "), args.describe(other or nil)))
      end
   end
end

--- Loads a file that `save` has written. The agent must have been created with the same options.
---@param path string  the file
---@return table self
function Agent:load(path)
   checks.method(self, Agent, "load", "agent")
   local state = torch.load(path)
   local name = torch.type(self)
   if type(state) ~= "table" or state.kind ~= name then
      torch.raise(("%s.load: %s: expected the state of an %s, got that of %s"):format(name, path,
         name, type(state) == "table" and tostring(state.kind) or type(state)))
   end
   local saved = type(state.parts) == "table" and state.parts or {}
   for part_name, part in pairs(self:_parts()) do
      if saved[part_name] == nil then
         torch.raise(("%s.load: %s: lacks %s; was it saved with the same options?"):format(name,
            path, part_name))
      end
      check_sizes(name, path, part_name, part, saved[part_name])
   end
   for part_name, part in pairs(self:_parts()) do
      if torch.is_tensor(part) then
         torch.no_grad(function() part:copy_(state.parts[part_name]) end)
      else
         part:load_state_dict(state.parts[part_name])
      end
   end
   self.num_timesteps = state.num_timesteps
   return self
end

return Agent
