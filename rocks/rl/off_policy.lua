-- off_policy.lua - the base classes of agents with a replay buffer. They collect steps, update the
-- networks, and let target networks follow the trained networks.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"
local ActionNoise = require "tlua.rl.noise".ActionNoise
local Agent = require "tlua.rl.Agent"
local ReplayBuffer = require "tlua.rl.ReplayBuffer"
local nn = torch.nn

local M = {}

-- The base class of agents with a replay buffer. A derived class defines _explore(input), which
-- returns actions in the form that the buffer stores; _to_env(actions), which converts them for the
-- environment; and _update(), which makes a step of the optimizers.
local OffPolicy = class.class("rl.OffPolicy", Agent)
M.OffPolicy = OffPolicy

--- Declares the options that these agents have in common. The placeholders %s and %d stand for
--- defaults that differ between the agents.
M.OPTIONS = [[learning_rate: number = %s, buffer_size: count = 1000000,
   learning_starts: count = 100, batch_size: count = %d, tau: number = %s, gamma: number = 0.99,
   train_freq: count = %d, gradient_steps: integer = 1]]

--- Stores the environments and the options, and creates the buffer. `kind` is the kind of the space
--- of actions, "Discrete" or "Box".
function OffPolicy:_begin(env, a, kind, hidden, action_size)
   local name = torch.type(self)
   self:_take_env(env)
   if self.is_discrete ~= (kind == "Discrete") then
      args.refuse(name, "env", kind == "Discrete" and "an environment with a Discrete space of "
         .. "actions" or "an environment with a Box of actions", env)
   elseif kind == "Box" and not self.env.action_space:is_bounded() then
      torch.raise(name .. ": env: expected actions with finite bounds, got a Box with an infinite "
         .. "one")
   end
   checks.ranges(name, a)
   if a.batch_size > a.buffer_size then
      torch.raise(("%s: batch_size: expected at most buffer_size (%d), got %d"):format(name,
         a.buffer_size, a.batch_size))
   end
   for option, value in pairs(a) do
      if option ~= "env" then self[option] = value end
   end
   self.hidden = checks.hidden(name, a.hidden, hidden)
   if a.seed then torch.manual_seed(a.seed) end
   self.buffer = ReplayBuffer(a.buffer_size, self.observation_size, action_size or self.action_size,
      {prioritized = a.prioritized or false})
end

--- Moves the parameters of all target networks towards the parameters of the trained networks by
--- one fused operation.
---@param targets Tensor[]
---@param parameters Tensor[]
function OffPolicy:_follow(targets, parameters)
   local _ <close> = torch.no_grad()
   torch._fused_step_(targets, parameters, {}, {}, "lerp", {self.tau})
end

--- Does nothing. It is called after each step of the n environments, and a derived class may
--- override it.
function OffPolicy:_stepped(n) end -- luacheck: no unused args

--- Does nothing. It is called after a step with which episodes have ended, and a derived class may
--- override it. `dones` is true for the environments whose episodes have ended.
function OffPolicy:_ended(dones) end -- luacheck: no unused args

--- Makes train_freq steps in the environments, and then gradient_steps updates.
function OffPolicy:_iterate()
   local n, made = self.env.num_envs, 0
   for _ = 1, math.max(1, self.train_freq // n) do
      local input = self:_encode(self.observations)
      local actions = torch.no_grad(function() return self:_explore(input) end)
      local observations, rewards, ends, cuts, info = self.env:step(self:_to_env(actions))
      self.buffer:add(input, actions:view(n, -1), rewards, self:_encode(info.final_observation),
         ends)
      self.observations = observations
      self:_note(info)
      if #info.returns > 0 then self:_ended(ends:logical_or(cuts)) end
      self.num_timesteps, made = self.num_timesteps + n, made + n
      self:_stepped(n)
      if self.num_timesteps >= self.goal then break end
   end
   if self.num_timesteps <= self.learning_starts then return end
   for _ = 1, self.gradient_steps == -1 and made or self.gradient_steps do self:_update() end
end

-- Continuous actions ------------------------------------------------------------------------------

-- The base class of agents with continuous actions. Their networks compute actions between -1 and
-- 1, which are also stored in the buffer. A derived class defines _draw(input), which returns the
-- actions of the policy, and _update().
local Continuous = class.class("rl.Continuous", OffPolicy)
M.Continuous = Continuous

--- Stores the environments and the options, and creates the buffer.
function Continuous:_begin(env, a, hidden)
   OffPolicy._begin(self, env, a, "Box", hidden)
   local noise, space = a.action_noise, self.env.action_space
   if noise and not class.isinstance(noise, ActionNoise) then
      args.refuse(torch.type(self), "action_noise",
         "an rl.NormalActionNoise or an rl.OrnsteinUhlenbeckActionNoise", noise)
   elseif noise and noise.mean:numel() ~= self.action_size then
      torch.raise(("%s: action_noise: expected the mean of %d actions, got %d"):format(
         torch.type(self), self.action_size, noise.mean:numel()))
   end
   if noise then noise:reset() end
   local low, high = torch.tensor(space.low):float(), torch.tensor(space.high):float()
   self.middle, self.half = (high + low) / 2, (high - low) / 2
end

--- Creates critics, their target networks, and one optimizer for all critics.
function Continuous:_make_critics(count)
   self.critics, self.targets = {}, {}
   local parameters, size = {}, self.observation_size + self.action_size
   for i = 1, count do
      self.critics[i] = self._mlp(size, self.hidden, 1, nn.ReLU)
      self.targets[i] = self._mlp(size, self.hidden, 1, nn.ReLU)
      self.targets[i]:load_state_dict(self.critics[i]:state_dict())
      local own = self.critics[i]:parameters()
      table.move(own, 1, #own, #parameters + 1, parameters)
   end
   self.critic_parameters, self.target_parameters = parameters, {}
   for _, target in ipairs(self.targets) do
      local own = target:parameters()
      table.move(own, 1, #own, #self.target_parameters + 1, self.target_parameters)
   end
   self.critic_optimizer = torch.optim.Adam(parameters, {lr = self.learning_rate})
end

--- Returns the critics' parts of a saved agent: the critics, their target networks and their
--- optimizer.
function Continuous:_critic_parts()
   local parts = {critic_optimizer = self.critic_optimizer}
   for i, critic in ipairs(self.critics) do
      parts["critic" .. i], parts["target" .. i] = critic, self.targets[i]
   end
   return parts
end

--- Returns the lowest of the values that several critics give to each action.
function Continuous._least(nets, observations, actions)
   local input = torch.cat({observations, actions}, 2)
   local least = nets[1](input)
   for i = 2, #nets do least = torch.minimum(least, nets[i](input)) end
   return least:view(-1)
end

--- Makes an optimizer step that brings the critics' values for a batch closer to `goals`. `factor`
--- is a factor of the loss.
function Continuous:_fit_critics(batch, goals, factor)
   local input, loss = torch.cat({batch.observations, batch.actions}, 2), nil
   for _, critic in ipairs(self.critics) do
      local own = nn.functional.mse_loss(critic(input):view(-1), goals)
      if factor ~= 1 then own = factor * own end
      loss = loss and loss + own or own
   end
   self.critic_optimizer:zero_grad()
   loss:backward()
   self.critic_optimizer:step()
end

--- Makes an optimizer step of the actor. loss() computes the actor's loss through the critics.
--- Meanwhile, the weights of the critics get no gradients.
function Continuous:_fit_actor(loss)
   local parameters = self.critic_parameters
   for i = 1, #parameters do parameters[i]:requires_grad_(false) end
   local ok, value = pcall(loss)
   for i = 1, #parameters do parameters[i]:requires_grad_(true) end
   if not ok then error(value, 0) end
   self.actor_optimizer:zero_grad()
   value:backward()
   self.actor_optimizer:step()
end

function Continuous:_follow_critics()
   self:_follow(self.target_parameters, self.critic_parameters)
end

function Continuous:_explore(input)
   local n = self.env.num_envs
   local actions
   if self.num_timesteps < self.learning_starts then
      actions = torch.rand(n, self.action_size) * 2 - 1
   else
      actions = self:_draw(input)
   end
   if not self.action_noise then return actions end
   return (actions + self.action_noise:sample(n)):clamp(-1, 1)
end

function Continuous:_ended(dones)
   if self.action_noise then self.action_noise:reset(dones) end
end

function Continuous:_to_env(actions) return actions * self.half + self.middle end

return M
