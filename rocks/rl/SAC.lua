-- SAC.lua - soft actor-critic (Haarnoja et al., 2018), with two critics and an entropy coefficient
-- that is learnt.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Agent = require "tlua.rl.Agent"
local checks = require "tlua.rl.checks"
local ReplayBuffer = require "tlua.rl.ReplayBuffer"
local nn = torch.nn

--- Learns a policy by soft actor-critic, in continuous spaces of actions.
---
---     local rl = torch.rl
---     local options = {learning_starts = 8, hidden = 8, batch_size = 4, seed = 1}
---     local agent = rl.SAC(rl.make "Pendulum-v1", options)
---     agent:learn(12)
---     print(agent.num_timesteps)
---     --> 12
---@class rl.SAC: rl.Agent
---@field num_timesteps integer  the number of steps so far
---@field actor nn.Module  the policy's network
---@field critics nn.Module[]  the networks of values
---@overload fun(env: rl.VectorEnv, options?: table): rl.SAC
local SAC = class.class("rl.SAC", Agent)

local take = args.signature [[rl.SAC(env: object, learning_rate: number = 3e-4,
   buffer_size: count = 100000, learning_starts: count = 100, batch_size: count = 256,
   tau: number = 0.005, gamma: number = 0.99, train_freq: count = 1, gradient_steps: count = 1,
   hidden: integers?, seed: integer?)]]

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- hidden: integer[], seed: integer}  train_freq: the steps between updates
function SAC:__init(...)
   local a = take(...)
   self:_take_env(a.env)
   if self.is_discrete then
      args.refuse("rl.SAC", "env", "an environment with a Box of actions", a.env)
   elseif not self.env.action_space:is_bounded() then
      torch.raise "rl.SAC: env: expected actions with finite bounds, got a Box with an infinite one"
   end
   checks.ranges("rl.SAC", a)
   if a.batch_size > a.buffer_size then
      torch.raise(("rl.SAC: batch_size: expected at most buffer_size (%d), got %d"):format(
         a.buffer_size, a.batch_size))
   end
   for name, value in pairs(a) do
      if name ~= "env" then self[name] = value end
   end
   if a.seed then torch.manual_seed(a.seed) end
   local hidden = checks.hidden("rl.SAC", a.hidden, {256, 256})
   local space = self.env.action_space
   local low, high = torch.tensor(space.low):float(), torch.tensor(space.high):float()
   self.middle, self.half = (high + low) / 2, (high - low) / 2
   self.actor = self._mlp(self.observation_size, hidden, 2 * self.action_size, nn.ReLU)
   self.critics, self.targets = {}, {}
   local parameters = {}
   for i = 1, 2 do
      local size = self.observation_size + self.action_size
      self.critics[i] = self._mlp(size, hidden, 1, nn.ReLU)
      self.targets[i] = self._mlp(size, hidden, 1, nn.ReLU)
      self.targets[i]:load_state_dict(self.critics[i]:state_dict())
      local own = self.critics[i]:parameters()
      table.move(own, 1, #own, #parameters + 1, parameters)
   end
   self.log_alpha = torch.zeros(1):requires_grad_()
   local lr = {lr = a.learning_rate}
   self.actor_optimizer = torch.optim.Adam(self.actor:parameters(), lr)
   self.critic_optimizer = torch.optim.Adam(parameters, lr)
   self.alpha_optimizer = torch.optim.Adam({self.log_alpha}, lr)
   self.buffer = ReplayBuffer(a.buffer_size, self.observation_size, self.action_size)
end

function SAC:_parts()
   return {actor = self.actor, critic1 = self.critics[1], critic2 = self.critics[2],
      target1 = self.targets[1], target2 = self.targets[2], log_alpha = self.log_alpha,
      actor_optimizer = self.actor_optimizer, critic_optimizer = self.critic_optimizer,
      alpha_optimizer = self.alpha_optimizer}
end

-- Draws actions from -1 to 1; returns them and the logarithms of their densities.
local function draw(self, input)
   local output = self.actor(input)
   local n = self.action_size
   local mean, log_std = output:narrow(2, 1, n), output:narrow(2, n + 1, n):clamp(-20, 2)
   local noise = torch.randn_like(mean)
   local raw = mean + log_std:exp() * noise
   local actions = raw:tanh()
   local log_p = -0.5 * noise * noise - log_std - 0.5 * math.log(2 * math.pi)
   -- the density of tanh: log(1 - tanh(x)^2), computed without cancellation
   log_p = log_p - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
   return actions, log_p:sum(2)
end

function SAC:_act(input, deterministic)
   local actions
   if deterministic then
      actions = self.actor(input):narrow(2, 1, self.action_size):tanh()
   else
      actions = draw(self, input)
   end
   return (actions * self.half + self.middle):tolist()
end

local function least(nets, input)
   return torch.minimum(nets[1](input), nets[2](input)):view(-1)
end

local function update(self)
   local batch = self.buffer:sample(self.batch_size)
   local alpha = self.log_alpha:detach():exp()
   local goals = torch.no_grad(function()
      local actions, log_p = draw(self, batch.next_observations)
      local after = least(self.targets, torch.cat({batch.next_observations, actions}, 2))
      return batch.rewards + self.gamma * (1 - batch.terminated) * (after - alpha * log_p)
   end)
   local input = torch.cat({batch.observations, batch.actions}, 2)
   local loss = 0
   for i = 1, 2 do
      loss = loss + 0.5 * nn.functional.mse_loss(self.critics[i](input):view(-1), goals)
   end
   self.critic_optimizer:zero_grad()
   loss:backward()
   self.critic_optimizer:step()

   local actions, log_p = draw(self, batch.observations)
   local values = least(self.critics, torch.cat({batch.observations, actions}, 2))
   self.actor_optimizer:zero_grad();
   (alpha * log_p - values):mean():backward()
   self.actor_optimizer:step()

   self.alpha_optimizer:zero_grad();
   (-(self.log_alpha * (log_p:detach() - self.action_size)):mean()):backward()
   self.alpha_optimizer:step()

   local _ <close> = torch.no_grad()
   for i = 1, 2 do
      local own = self.critics[i]:parameters()
      for k, parameter in ipairs(self.targets[i]:parameters()) do
         parameter:lerp_(own[k]:detach(), self.tau)
      end
   end
end

function SAC:_iterate()
   local n = self.env.num_envs
   for _ = 1, math.max(1, self.train_freq // n) do
      local input = self:_encode(self.observations)
      local actions
      if self.num_timesteps < self.learning_starts then
         actions = torch.rand(n, self.action_size) * 2 - 1
      else
         actions = torch.no_grad(function() return (draw(self, input)) end)
      end
      local observations, rewards, ends, _, info = self.env:step(actions * self.half + self.middle)
      self.buffer:add(input, actions, rewards, self:_encode(info.final_observation), ends)
      self.observations = observations
      self:_note(info)
      self.num_timesteps = self.num_timesteps + n
   end
   if self.num_timesteps <= self.learning_starts then return end
   for _ = 1, self.gradient_steps do update(self) end
end

return SAC
