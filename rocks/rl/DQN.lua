-- DQN.lua - deep Q-learning (Mnih et al., 2015), with double (van Hasselt et al., 2016), duelling
-- (Wang et al., 2016) and prioritised (Schaul et al., 2016) variants.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local off_policy = require "tlua.rl.off_policy"
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
local DQN = class.class("rl.DQN", off_policy.OffPolicy)

local take = args.signature("rl.DQN(env: object, " .. off_policy.OPTIONS:format("1e-4", 32, "1", 4)
   .. [[, target_update_interval: count = 10000, exploration_fraction: number = 0.1,
   exploration_initial_eps: number = 1, exploration_final_eps: number = 0.05,
   max_grad_norm: number = 10, double: boolean = true, dueling: boolean = false,
   prioritized: boolean = false, hidden: integers?, seed: integer?)]])

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- target_update_interval: integer, exploration_fraction: number, exploration_initial_eps: number,
--- exploration_final_eps: number, max_grad_norm: number, double: boolean, dueling: boolean,
--- prioritized: boolean, hidden: integer[], seed: integer}  train_freq: the number of steps between
--- updates
function DQN:__init(...)
   local a = take(...)
   self:_begin(a.env, a, "Discrete", {64, 64}, 1)
   local hidden = self.hidden
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
   self.since_target = 0
end

function DQN:_parts() return {net = self.net, target = self.target, optimizer = self.optimizer} end

function DQN:_act(input) return self.net(input):argmax(2):tolist() end

-- Returns the current probability of a random action. It falls linearly during the first part of
-- the learning.
local function epsilon(self)
   local part = self.num_timesteps / math.max(1, self.goal * self.exploration_fraction)
   local first, last = self.exploration_initial_eps, self.exploration_final_eps
   return first + (last - first) * math.min(1, part)
end

function DQN:_explore(input)
   local n = self.env.num_envs
   local random = torch.randint(1, self.action_size + 1, {n})
   if self.num_timesteps < self.learning_starts then return random end
   return torch.where(torch.rand(n):lt(epsilon(self)), random, self.net(input):argmax(2))
end

function DQN:_to_env(actions) return actions end

function DQN:_update()
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
   self.optimizer:step {max_norm = self.max_grad_norm}
end

function DQN:_stepped(n)
   self.since_target = self.since_target + n
   if self.since_target >= self.target_update_interval then
      self.since_target = 0
      self:_follow(self.target:parameters(), self.net:parameters())
   end
end

return DQN
