-- DQN.lua - deep Q-learning (Mnih et al., 2015), with double (van Hasselt et al., 2016), duelling
-- (Wang et al., 2016) and prioritised (Schaul et al., 2016) variants.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Agent = require "tlua.rl.Agent"
local checks = require "tlua.rl.checks"
local ReplayBuffer = require "tlua.rl.ReplayBuffer"
local nn = torch.nn

local Duel = class.class("rl.Duel", nn.Module)

function Duel:__init(body, size, actions)
   self.body, self.value, self.advantage = body, nn.Linear(size, 1), nn.Linear(size, actions)
end

function Duel:forward(x)
   x = self.body(x):relu()
   local advantage = self.advantage(x)
   return self.value(x) + advantage - advantage:mean(2, {keepdim = true})
end

--- Learns the values of actions by Q-learning, in discrete spaces of actions.
---
---     local rl = torch.rl
---     local env = rl.make "CartPole-v1"
---     local agent = rl.DQN(env, {learning_starts = 20, seed = 1})
---     agent:learn(40)
---     print(agent.num_timesteps)
---     --> 40
---@class rl.DQN: rl.Agent
---@field num_timesteps integer  the number of steps so far
---@field net nn.Module  the network
---@overload fun(env: rl.VectorEnv, options?: table): rl.DQN
local DQN = class.class("rl.DQN", Agent)

local take = args.signature [[rl.DQN(env: object, learning_rate: number = 1e-4,
   buffer_size: count = 100000, learning_starts: count = 100, batch_size: count = 32,
   tau: number = 1, gamma: number = 0.99, train_freq: count = 4, gradient_steps: count = 1,
   target_update_interval: count = 10000, exploration_fraction: number = 0.1,
   exploration_initial_eps: number = 1, exploration_final_eps: number = 0.05,
   max_grad_norm: number = 10, double: boolean = true, dueling: boolean = false,
   prioritized: boolean = false, hidden: integers?, seed: integer?)]]

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- target_update_interval: integer, exploration_fraction: number, exploration_initial_eps: number,
--- exploration_final_eps: number, max_grad_norm: number, double: boolean, dueling: boolean,
--- prioritized: boolean, hidden: integer[], seed: integer}  train_freq: the steps between updates
function DQN:__init(...)
   local a = take(...)
   self:_take_env(a.env)
   if not self.is_discrete then
      args.refuse("rl.DQN", "env", "an environment with a Discrete space of actions", a.env)
   end
   checks.ranges("rl.DQN", a)
   if a.batch_size > a.buffer_size then
      torch.raise(("rl.DQN: batch_size: expected at most buffer_size (%d), got %d"):format(
         a.buffer_size, a.batch_size))
   end
   for name, value in pairs(a) do
      if name ~= "env" then self[name] = value end
   end
   if a.seed then torch.manual_seed(a.seed) end
   local hidden = checks.hidden("rl.DQN", a.hidden, {64, 64})
   local function net()
      if not a.dueling then
         return self._mlp(self.observation_size, hidden, self.action_size, nn.ReLU)
      end
      local inner = table.move(hidden, 1, #hidden - 1, 1, {})
      return Duel(self._mlp(self.observation_size, inner, hidden[#hidden], nn.ReLU),
         hidden[#hidden], self.action_size)
   end
   self.net, self.target = net(), net()
   self.target:load_state_dict(self.net:state_dict())
   self.optimizer = torch.optim.Adam(self.net:parameters(), {lr = a.learning_rate})
   self.buffer = ReplayBuffer(a.buffer_size, self.observation_size, 1,
      {prioritized = a.prioritized})
   self.updates, self.since_target = 0, 0
end

function DQN:_parts() return {net = self.net, target = self.target, optimizer = self.optimizer} end

function DQN:_act(input) return self.net(input):argmax(2):tolist() end

-- Returns the probability of a random action.
local function epsilon(self)
   local part = self.num_timesteps / math.max(1, self.goal * self.exploration_fraction)
   local first, last = self.exploration_initial_eps, self.exploration_final_eps
   return first + (last - first) * math.min(1, part)
end

local function explore(self, input)
   local _ <close> = torch.no_grad()
   local n = self.env.num_envs
   local random = torch.randint(1, self.action_size + 1, {n})
   if self.num_timesteps < self.learning_starts then return random end
   return torch.where(torch.rand(n):lt(epsilon(self)), random, self.net(input):argmax(2))
end

local function update(self)
   local beta = 0.4 + 0.6 * math.min(1, self.num_timesteps / self.goal)
   local batch = self.buffer:sample(self.batch_size, beta)
   local goals = torch.no_grad(function()
      local after = self.target(batch.next_observations)
      local best
      if self.double then
         best = after:gather(2, self.net(batch.next_observations):argmax(2, {keepdim = true}))
      else
         best = after:amax(2, {keepdim = true})
      end
      return batch.rewards + self.gamma * (1 - batch.terminated) * best:view(-1)
   end)
   local values = self.net(batch.observations):gather(2, batch.actions:long()):view(-1)
   local losses = nn.functional.smooth_l1_loss(values, goals, {reduction = "none"})
   if batch.weights then
      losses = losses * batch.weights
      self.buffer:update_priorities(batch.indices, goals - values)
   end
   self.optimizer:zero_grad()
   losses:mean():backward()
   nn.utils.clip_grad_norm_(self.net:parameters(), self.max_grad_norm)
   self.optimizer:step()
end

local function follow(self)
   local _ <close> = torch.no_grad()
   local own = self.net:parameters()
   for i, parameter in ipairs(self.target:parameters()) do
      parameter:lerp_(own[i]:detach(), self.tau)
   end
end

function DQN:_iterate()
   local n = self.env.num_envs
   for _ = 1, math.max(1, self.train_freq // n) do
      local input = self:_encode(self.observations)
      local actions = explore(self, input)
      local observations, rewards, ends, _, info = self.env:step(actions)
      self.buffer:add(input, actions:view(-1, 1), rewards, self:_encode(info.final_observation),
         ends)
      self.observations = observations
      self:_note(info)
      self.num_timesteps, self.since_target = self.num_timesteps + n, self.since_target + n
      if self.since_target >= self.target_update_interval then
         self.since_target = 0
         follow(self)
      end
      if self.num_timesteps >= self.goal then break end
   end
   if self.num_timesteps <= self.learning_starts then return end
   for _ = 1, self.gradient_steps do update(self) end
end

return DQN
