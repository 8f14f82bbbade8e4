-- SAC.lua - soft actor-critic (Haarnoja et al., 2018), with two critics and an entropy coefficient
-- that is learnt.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local off_policy = require "tlua.rl.off_policy"
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
local SAC = class.class("rl.SAC", off_policy.OffPolicy)

local take = args.signature("rl.SAC(env: object, "
   .. off_policy.OPTIONS:format("3e-4", 256, "0.005", 1) .. ", hidden: integers?, seed: integer?)")

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- hidden: integer[], seed: integer}  train_freq: the steps between updates
function SAC:__init(...)
   local a = take(...)
   self:_begin(a.env, a, "Box", {256, 256})
   local hidden = self.hidden
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
   return self:_to_env(actions):tolist()
end

local function least(nets, input)
   return torch.minimum(nets[1](input), nets[2](input)):view(-1)
end

function SAC:_update()
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

   for i = 1, 2 do self:_follow(self.targets[i], self.critics[i]) end
end

function SAC:_explore(input)
   if self.num_timesteps < self.learning_starts then
      return torch.rand(self.env.num_envs, self.action_size) * 2 - 1
   end
   return (draw(self, input))
end

function SAC:_to_env(actions) return actions * self.half + self.middle end

return SAC
