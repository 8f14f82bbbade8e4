-- SAC.lua - soft actor-critic (Haarnoja et al., 2018), with two critics and an entropy coefficient
-- that is learnt or given.

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
local SAC = class.class("rl.SAC", off_policy.Continuous)

local take = args.signature("rl.SAC(env: object, "
   .. off_policy.OPTIONS:format("3e-4", 256, "0.005", 1)
   .. ", ent_coef: any = 'auto', action_noise: object?, hidden: integers?, seed: integer?)")

-- Returns the logarithm of the initial entropy coefficient. Returns nil if ent_coef is a number,
-- since the coefficient is then not learnt.
local function initial_log(ent_coef)
   if type(ent_coef) == "number" and ent_coef == ent_coef then return nil end
   local value = ent_coef == "auto" and 1
      or type(ent_coef) == "string" and tonumber(ent_coef:match "^auto_(.+)$")
   if not value or not (value > 0 and value < math.huge) then
      args.refuse("rl.SAC", "ent_coef",
         '"auto", "auto_" with a positive initial value, or a number of at least 0', ent_coef)
   end
   return math.log(value)
end

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- ent_coef: number|string, action_noise: rl.ActionNoise, hidden: integer[], seed: integer}
--- ent_coef: the coefficient of the entropy; "auto" learns it, beginning with 1, and "auto_0.1"
--- beginning with 0.1; train_freq: the number of steps between updates; gradient_steps: the
--- number of updates after these steps, or -1 for one update for each step; action_noise: noise
--- that is added to actions between -1 and 1
function SAC:__init(...)
   local a = take(...)
   local log_alpha = initial_log(a.ent_coef)
   self:_begin(a.env, a, {256, 256})
   self.actor = self._mlp(self.observation_size, self.hidden, 2 * self.action_size, nn.ReLU)
   self:_make_critics(2)
   local lr = {lr = a.learning_rate}
   self.actor_optimizer = torch.optim.Adam(self.actor:parameters(), lr)
   if not log_alpha then return end
   self.log_alpha = torch.tensor {log_alpha}:requires_grad_()
   self.alpha_optimizer = torch.optim.Adam({self.log_alpha}, lr)
end

function SAC:_parts()
   local parts = self:_critic_parts()
   parts.actor, parts.actor_optimizer = self.actor, self.actor_optimizer
   parts.log_alpha, parts.alpha_optimizer = self.log_alpha, self.alpha_optimizer
   return parts
end

-- Draws an action between -1 and 1 for each observation. Returns the actions, and the logarithms of
-- their probability densities.
local function draw(self, input)
   local output = self.actor(input)
   local n = self.action_size
   local mean, log_std = output:narrow(2, 1, n), output:narrow(2, n + 1, n):clamp(-20, 2)
   local noise = torch.randn_like(mean)
   local raw = mean + log_std:exp() * noise
   local actions = raw:tanh()
   local log_p = -0.5 * noise * noise - log_std - 0.5 * math.log(2 * math.pi)
   -- Because of tanh, log(1 - tanh(x)^2) must be subtracted from the log density. In the form
   -- below, no digits cancel.
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

function SAC:_update()
   local batch = self.buffer:sample(self.batch_size)
   local alpha = self.log_alpha and self.log_alpha:detach():exp() or self.ent_coef
   self:_fit_critics(batch, torch.no_grad(function()
      local actions, log_p = draw(self, batch.next_observations)
      local after = self._least(self.targets, batch.next_observations, actions)
      return batch.rewards + self.gamma * (1 - batch.terminated) * (after - alpha * log_p)
   end), 0.5)

   local log_p
   self:_fit_actor(function()
      local actions
      actions, log_p = draw(self, batch.observations)
      return (alpha * log_p - self._least(self.critics, batch.observations, actions)):mean()
   end)

   if self.log_alpha then
      self.alpha_optimizer:zero_grad();
      (-(self.log_alpha * (log_p:detach() - self.action_size)):mean()):backward()
      self.alpha_optimizer:step()
   end

   self:_follow_critics()
end

function SAC:_draw(input) return (draw(self, input)) end

return SAC
