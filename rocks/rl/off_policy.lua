-- off_policy.lua - what agents that learn from a replay buffer share: options, collecting steps,
-- updates, and target networks that follow.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"
local Agent = require "tlua.rl.Agent"
local ReplayBuffer = require "tlua.rl.ReplayBuffer"

local M = {}

-- A class derived from it defines _explore(input), which returns actions as the buffer keeps them,
-- _to_env(actions), which returns them as the environment takes them, and _update(), a step of the
-- optimizers.
local OffPolicy = class.class("rl.OffPolicy", Agent)
M.OffPolicy = OffPolicy

--- The options that these agents have in common, with the defaults that differ.
M.OPTIONS = [[learning_rate: number = %s, buffer_size: count = 100000,
   learning_starts: count = 100, batch_size: count = %d, tau: number = %s, gamma: number = 0.99,
   train_freq: count = %d, gradient_steps: integer = 1]]

--- Takes the environments and the options, and makes the buffer. `kind`: "Discrete" or "Box".
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

--- Moves the parameters of a target network towards those of a network.
function OffPolicy:_follow(target, net)
   local _ <close> = torch.no_grad()
   local own = net:parameters()
   for i, parameter in ipairs(target:parameters()) do
      parameter:lerp_(own[i]:detach(), self.tau)
   end
end

--- Is called after each step of the environments; n: their number.
function OffPolicy:_stepped(n) end -- luacheck: no unused args

--- Makes train_freq steps, and then gradient_steps updates.
function OffPolicy:_iterate()
   local n, made = self.env.num_envs, 0
   for _ = 1, math.max(1, self.train_freq // n) do
      local input = self:_encode(self.observations)
      local actions = torch.no_grad(function() return self:_explore(input) end)
      local observations, rewards, ends, _, info = self.env:step(self:_to_env(actions))
      self.buffer:add(input, actions:view(n, -1), rewards, self:_encode(info.final_observation),
         ends)
      self.observations = observations
      self:_note(info)
      self.num_timesteps, made = self.num_timesteps + n, made + n
      self:_stepped(n)
      if self.num_timesteps >= self.goal then break end
   end
   if self.num_timesteps <= self.learning_starts then return end
   for _ = 1, self.gradient_steps == -1 and made or self.gradient_steps do self:_update() end
end

return M
