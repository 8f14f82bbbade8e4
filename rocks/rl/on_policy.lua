-- on_policy.lua - PPO (Schulman et al., 2017) and A2C (Mnih et al., 2016), with the names and the
-- defaults of Stable Baselines3.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Agent = require "tlua.rl.Agent"
local checks = require "tlua.rl.checks"
local compute_gae = require "tlua.rl.advantages".compute_gae
local nn = torch.nn

local M = {}

local options <const> = [[learning_rate: number = %s, n_steps: count = %d, batch_size: count = 64,
   n_epochs: count = %d, gamma: number = 0.99, gae_lambda: number = %s, clip_range: number = 0.2,
   ent_coef: number = 0, vf_coef: number = 0.5, max_grad_norm: number = 0.5,
   normalize_advantage: boolean = %s, hidden: integers?, seed: integer?)]]

local function orthogonal(net, last_gain)
   local layers = {}
   for _, layer in ipairs(net:modules()) do
      if torch.type(layer) == "nn.Linear" then layers[#layers + 1] = layer end
   end
   for i, layer in ipairs(layers) do
      nn.init.orthogonal_(layer.weight, i == #layers and last_gain or math.sqrt(2))
      nn.init.zeros_(layer.bias)
   end
   return net
end

local function begin(self, env, a)
   self:_take_env(env)
   for name, value in pairs(a) do
      if name ~= "env" then self[name] = value end
   end
   checks.ranges(torch.type(self), a)
   if a.normalize_advantage and a.n_steps * self.env.num_envs < 2 then
      torch.raise(("%s: n_steps: expected at least 2 steps of all environments together with "
         .. "normalize_advantage, got %d of %d"):format(torch.type(self), a.n_steps,
         self.env.num_envs))
   elseif a.normalize_advantage and a.batch_size == 1 then
      args.refuse(torch.type(self), "batch_size", "at least 2 with normalize_advantage", 1)
   end
   if a.seed then torch.manual_seed(a.seed) end
   local hidden = checks.hidden(torch.type(self), a.hidden, {64, 64})
   self.actor = orthogonal(
      self._mlp(self.observation_size, hidden, self.action_size, nn.Tanh), 0.01)
   self.critic = orthogonal(self._mlp(self.observation_size, hidden, 1, nn.Tanh), 1)
   self.parameters = {}
   for _, net in ipairs {self.actor, self.critic} do
      for _, p in ipairs(net:parameters()) do table.insert(self.parameters, p) end
   end
   if not self.is_discrete then
      self.log_std = torch.zeros(self.action_size):requires_grad_()
      table.insert(self.parameters, self.log_std)
   end
end

local log_root <const> = 0.5 * math.log(2 * math.pi)

-- Returns the log probabilities of actions for the given output of the actor. Also returns the mean
-- entropy, or nil if the entropy's coefficient is 0.
local function evaluate(self, output, actions)
   local weighs = self.ent_coef ~= 0
   if self.is_discrete then
      local log_p = output:log_softmax(2)
      return log_p:gather(2, actions:view(-1, 1)):view(-1),
         weighs and -(log_p:exp() * log_p):sum(2):mean() or nil
   end
   local z = (actions - output) / self.log_std:exp()
   local log_p = (-0.5 * z * z - self.log_std - log_root):sum(2)
   return log_p, weighs and (self.log_std + 0.5 + log_root):sum() or nil
end

-- Returns the total loss: the policy's loss plus the weighted loss of the values, minus the
-- weighted entropy.
local function total(self, policy_loss, entropy, value_loss)
   local loss = policy_loss + self.vf_coef * value_loss
   return entropy and loss - self.ent_coef * entropy or loss
end

local function draw(self, output)
   if self.is_discrete then return torch.multinomial(output:softmax(2), 1):view(-1) end
   return output + self.log_std:exp() * torch.randn_like(output)
end

-- Returns the actions clipped to the bounds of the space.
local function bounded(self, actions)
   if self.is_discrete then return actions end
   local space = self.env.action_space
   return torch.maximum(torch.minimum(actions, torch.tensor(space.high)), torch.tensor(space.low))
end

local function collect(self)
   local rows = {observations = {}, actions = {}, log_p = {}, values = {}, rewards = {}, dones = {}}
   local _ <close> = torch.no_grad()
   for t = 1, self.n_steps do
      local input = self:_encode(self.observations)
      local output = self.actor(input)
      local actions = draw(self, output)
      rows.observations[t], rows.actions[t] = input, actions
      rows.log_p[t] = evaluate(self, output, actions)
      rows.values[t] = self.critic(input):view(-1)
      local next_observations, rewards, ends, cuts, info = self.env:step(bounded(self, actions))
      -- A truncated episode would have continued. So the discounted value of its last observation
      -- is added to the reward.
      if cuts:any():item() then
         local after = self.critic(self:_encode(info.final_observation)):view(-1)
         rewards = rewards + self.gamma * after * (cuts:float() * (1 - ends:float()))
      end
      rows.rewards[t], rows.dones[t] = rewards, ends:logical_or(cuts):float()
      self.observations = next_observations
      self:_note(info)
   end
   self.num_timesteps = self.num_timesteps + self.n_steps * self.env.num_envs
   local last = self.critic(self:_encode(self.observations)):view(-1)
   local values = torch.stack(rows.values)
   local advantages, returns = compute_gae(torch.stack(rows.rewards), values,
      torch.stack(rows.dones), last, self.gamma, self.gae_lambda)
   return {observations = torch.cat(rows.observations), actions = torch.cat(rows.actions),
      log_p = torch.cat(rows.log_p), advantages = advantages:view(-1), returns = returns:view(-1)}
end

local function step(self, loss)
   self.optimizer:zero_grad()
   loss:backward()
   self.optimizer:step {max_norm = self.max_grad_norm}
end

local function normalized(self, advantages)
   if not self.normalize_advantage or advantages:numel() < 2 then return advantages end
   return (advantages - advantages:mean()) / (advantages:std() + 1e-8)
end

local function act(self, input, deterministic)
   local output = self.actor(input)
   if deterministic then
      return (self.is_discrete and output:argmax(2) or bounded(self, output)):tolist()
   end
   return bounded(self, draw(self, output)):tolist()
end

local function parts(self)
   return {actor = self.actor, critic = self.critic, optimizer = self.optimizer,
      log_std = self.log_std}
end

-- PPO ---------------------------------------------------------------------------------------------

--- Learns a policy by proximal policy optimisation, in discrete and continuous spaces of actions.
---
---     local rl = torch.rl
---     local envs = rl.make_vec("CartPole-v1", 2)
---     local agent = rl.PPO(envs, {n_steps = 16, seed = 1})
---     agent:learn(64)
---     print(agent.num_timesteps)
---     --> 64
---@class rl.PPO: rl.Agent
---@field num_timesteps integer  the number of steps so far
---@field actor nn.Module  the policy's network
---@field critic nn.Module  the network for the values of observations
---@overload fun(env: rl.VectorEnv, options?: table): rl.PPO
M.PPO = class.class("rl.PPO", Agent)

local take_ppo = args.signature("rl.PPO(env: object, "
   .. options:format("3e-4", 2048, 10, "0.95", "true"))

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, n_steps: integer, batch_size: integer, n_epochs:
--- integer, gamma: number, gae_lambda: number, clip_range: number, ent_coef: number, vf_coef:
--- number, max_grad_norm: number, normalize_advantage: boolean, hidden: integer[], seed: integer}
--- n_steps: the number of steps in each environment between updates
function M.PPO:__init(...)
   local a = take_ppo(...)
   begin(self, a.env, a)
   self.optimizer = torch.optim.Adam(self.parameters, {lr = a.learning_rate, eps = 1e-5})
end

M.PPO._act, M.PPO._parts = act, parts

function M.PPO:_iterate()
   local data = collect(self)
   local n = data.returns:size(1)
   for _ = 1, self.n_epochs do
      local order, mixed = torch.randperm(n), {}
      for name, values in pairs(data) do mixed[name] = values:index_select(1, order) end
      for from = 1, n, self.batch_size do
         local count = math.min(self.batch_size, n - from + 1)
         local function rows(name) return mixed[name]:narrow(1, from, count) end
         local input = rows "observations"
         local log_p, entropy = evaluate(self, self.actor(input), rows "actions")
         local advantages = normalized(self, rows "advantages")
         local ratio = (log_p - rows "log_p"):exp()
         local clipped = ratio:clamp(1 - self.clip_range, 1 + self.clip_range)
         local policy_loss = -torch.minimum(advantages * ratio, advantages * clipped):mean()
         local value_loss = nn.functional.mse_loss(self.critic(input):view(-1), rows "returns")
         step(self, total(self, policy_loss, entropy, value_loss))
      end
   end
end

-- A2C ---------------------------------------------------------------------------------------------

--- Learns a policy by advantage actor-critic, with one optimizer step after every n_steps steps of
--- the environments. With gae_lambda = 1 and a large n_steps, this is REINFORCE with a baseline.
---
---     local rl = torch.rl
---     local agent = rl.A2C(rl.make_vec("CartPole-v1", 2), {seed = 1})
---     agent:learn(50)
---     print(agent.num_timesteps)
---     --> 50
---@class rl.A2C: rl.Agent
---@field num_timesteps integer  the number of steps so far
---@field actor nn.Module  the policy's network
---@field critic nn.Module  the network for the values of observations
---@overload fun(env: rl.VectorEnv, options?: table): rl.A2C
M.A2C = class.class("rl.A2C", Agent)

local take_a2c = args.signature("rl.A2C(env: object, "
   .. options:format("7e-4", 5, 1, "1.0", "false"):gsub("batch_size: count = 64,%s*n_epochs: "
   .. "count = 1, ", ""):gsub("clip_range: number = 0.2,%s*", ""))

---@param env rl.VectorEnv|rl.Env  the environments
---@param options? {learning_rate: number, n_steps: integer, gamma: number, gae_lambda: number,
--- ent_coef: number, vf_coef: number, max_grad_norm: number, normalize_advantage: boolean, hidden:
--- integer[], seed: integer}  n_steps: the number of steps in each environment between updates
function M.A2C:__init(...)
   local a = take_a2c(...)
   begin(self, a.env, a)
   self.optimizer = torch.optim.RMSprop(self.parameters, {lr = a.learning_rate, alpha = 0.99,
      eps = 1e-5})
end

M.A2C._act, M.A2C._parts = act, parts

function M.A2C:_iterate()
   local data = collect(self)
   local log_p, entropy = evaluate(self, self.actor(data.observations), data.actions)
   local policy_loss = -(normalized(self, data.advantages) * log_p):mean()
   local value_loss = nn.functional.mse_loss(self.critic(data.observations):view(-1), data.returns)
   step(self, total(self, policy_loss, entropy, value_loss))
end

return M
