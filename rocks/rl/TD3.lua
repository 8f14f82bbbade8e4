-- TD3.lua - twin delayed deep deterministic policy gradients (Fujimoto et al., 2018), and DDPG
-- (Lillicrap et al., 2016), which is TD3 with one critic, without delay and without noise in the
-- target actions. Names and defaults are those of Stable Baselines3.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local off_policy = require "tlua.rl.off_policy"
local nn = torch.nn

local M = {}

local options <const> = off_policy.OPTIONS:format("1e-3", 256, "0.005", 1)
   .. ", action_noise: object?, hidden: integers?, seed: integer?"

-- Creates an actor, a network whose outputs lie between -1 and 1.
local function make_actor(self)
   local net = self._mlp(self.observation_size, self.hidden, self.action_size, nn.ReLU)
   return nn.Sequential(net, nn.Tanh())
end

--- Learns a deterministic policy by TD3, in continuous spaces of actions.
---
---     local rl = torch.rl
---     local agent = rl.TD3(rl.make "Pendulum-v1", {learning_starts = 8,
---        hidden = 8, batch_size = 4, seed = 1,
---        action_noise = rl.NormalActionNoise({0}, {0.1})})
---     agent:learn(12)
---     print(agent.num_timesteps)
---     --> 12
---@class rl.TD3: rl.Agent
---@field num_timesteps integer  the number of steps so far
---@field actor nn.Module  the policy's network
---@field critics nn.Module[]  the networks of values
---@overload fun(env: rl.VectorEnv, options?: table): rl.TD3
M.TD3 = class.class("rl.TD3", off_policy.Continuous)

function M.TD3:_make(a, critics)
   self:_begin(a.env, a, {400, 300})
   self.actor, self.actor_target = make_actor(self), make_actor(self)
   self.actor_target:load_state_dict(self.actor:state_dict())
   self:_make_critics(critics)
   self.actor_optimizer = torch.optim.Adam(self.actor:parameters(), {lr = a.learning_rate})
   self.updates = 0
end

local take_td3 = args.signature("rl.TD3(env: object, " .. options .. [[, policy_delay: count = 2,
   target_policy_noise: number = 0.2, target_noise_clip: number = 0.5)]])

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- action_noise: rl.ActionNoise, policy_delay: integer, target_policy_noise: number,
--- target_noise_clip: number, hidden: integer[], seed: integer}  train_freq: the number of steps
--- between updates; gradient_steps: the number of updates after these steps, or -1 for one update
--- for each step; policy_delay: the number of updates of the critics for each update of the actor;
--- target_policy_noise: the standard deviation of the noise in the target actions;
--- target_noise_clip: the largest absolute value of this noise; action_noise: noise that is added
--- to actions between -1 and 1
function M.TD3:__init(...) self:_make(take_td3(...), 2) end

function M.TD3:_parts()
   local parts = self:_critic_parts()
   parts.actor, parts.actor_target = self.actor, self.actor_target
   parts.actor_optimizer = self.actor_optimizer
   return parts
end

function M.TD3:_draw(input) return self.actor(input) end

function M.TD3:_act(input) return self:_to_env(self.actor(input)):tolist() end

-- Returns the actions that the target network chooses for the next observations, with noise added
-- to them.
local function next_actions(self, observations)
   local actions = self.actor_target(observations)
   if self.target_policy_noise == 0 or self.target_noise_clip == 0 then return actions end
   local noise = torch.randn_like(actions) * self.target_policy_noise
   return (actions + noise:clamp(-self.target_noise_clip, self.target_noise_clip)):clamp(-1, 1)
end

function M.TD3:_update()
   self.updates = self.updates + 1
   local batch = self.buffer:sample(self.batch_size)
   self:_fit_critics(batch, torch.no_grad(function()
      local after = self._least(self.targets, batch.next_observations,
         next_actions(self, batch.next_observations))
      return batch.rewards + self.gamma * (1 - batch.terminated) * after
   end), 1)
   if self.updates % self.policy_delay ~= 0 then return end
   self:_fit_actor(function()
      local input = torch.cat({batch.observations, self.actor(batch.observations)}, 2)
      return -self.critics[1](input):mean()
   end)
   self:_follow_critics()
   self:_follow(self.actor_target:parameters(), self.actor:parameters())
end

-- DDPG --------------------------------------------------------------------------------------------

--- Learns a deterministic policy by DDPG, in continuous spaces of actions.
---
---     local rl = torch.rl
---     local agent = rl.DDPG(rl.make "Pendulum-v1", {learning_starts = 8,
---        hidden = 8, batch_size = 4, seed = 1})
---     agent:learn(12)
---     print(agent.num_timesteps)
---     --> 12
---@class rl.DDPG: rl.TD3
---@field num_timesteps integer  the number of steps so far
---@field actor nn.Module  the policy's network
---@field critics nn.Module[]  the network of values, in a list
---@overload fun(env: rl.VectorEnv, options?: table): rl.DDPG
M.DDPG = class.class("rl.DDPG", M.TD3)

local take_ddpg = args.signature("rl.DDPG(env: object, " .. options .. ")")

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, buffer_size: integer, learning_starts: integer,
--- batch_size: integer, tau: number, gamma: number, train_freq: integer, gradient_steps: integer,
--- action_noise: rl.ActionNoise, hidden: integer[], seed: integer}  train_freq: the number of steps
--- between updates; gradient_steps: the number of updates after these steps, or -1 for one update
--- for each step; action_noise: noise that is added to actions between -1 and 1
function M.DDPG:__init(...)
   local a = take_ddpg(...)
   a.policy_delay, a.target_policy_noise, a.target_noise_clip = 1, 0, 0
   self:_make(a, 1)
end

return M
