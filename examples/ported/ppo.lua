-- An agent learns by proximal policy optimization (Schulman et al. 2017) to move a point in the
-- plane to its goal, by continuous actions:
--
--    tlua examples/ported/ppo.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("ppo.lua", "Moves a point to its goal.")
parser:option("--updates", "rounds of playing and learning", 40)
parser:option("--points", "points that move at a time", 32)
parser:option("--steps", "steps of an episode", 16)
parser:option("--clip", "largest change of a probability's ratio", 0.2)
parser:option("--gamma", "discount of a reward a step later", 0.9)
parser:option("--lambda", "weight of later advantages", 0.95)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
local critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
local log_std = nn.Parameter(torch.full({2}, -0.5))
local parameters = actor:parameters()
for _, p in ipairs(critic:parameters()) do table.insert(parameters, p) end
table.insert(parameters, log_std)
local optimizer = optim.Adam(parameters, {lr = 3e-3, eps = 1e-5})

-- Returns the logarithm of a normal distribution's density, summed over the two numbers of each
-- action.
local function log_prob(mean, action)
   local scaled = (action - mean) / log_std:exp()
   return (scaled ^ 2 / -2 - log_std - 0.5 * math.log(2 * math.pi)):sum(-1)
end

-- Returns states, actions, log-probabilities, values and rewards, each (steps, points, ...).
local function play()
   local _ <close> = torch.no_grad()
   local position, goal = torch.rand(opt.points, 2) * 2 - 1, torch.rand(opt.points, 2) * 2 - 1
   local s, a, l, v, r = {}, {}, {}, {}, {}
   for t = 1, opt.steps do
      s[t] = torch.cat({position, goal}, 2)
      local mean = actor(s[t])
      a[t] = mean + log_std:exp() * torch.randn_like(mean)
      l[t], v[t] = log_prob(mean, a[t]), critic(s[t]):squeeze(-1)
      position = position + a[t]:clamp(-0.5, 0.5)
      r[t] = -(position - goal):norm(2, -1)
   end
   return torch.stack(s), torch.stack(a), torch.stack(l), torch.stack(v), torch.stack(r)
end

local first, last
for _ = 1, opt.updates do
   local states, actions, old_logs, values, rewards = play()
   local advantages, running = torch.zeros_like(rewards), torch.zeros(opt.points)
   for t = opt.steps, 1, -1 do
      local later = t < opt.steps and values[t + 1] or torch.zeros(opt.points)
      local delta = rewards[t] + opt.gamma * later - values[t]
      running = delta + opt.gamma * opt.lambda * running
      advantages[t] = running
   end
   local returns = (advantages + values):flatten()
   advantages = (advantages - advantages:mean()) / (advantages:std() + 1e-8)
   states, actions = states:flatten(1, 2), actions:flatten(1, 2)
   old_logs, advantages = old_logs:flatten(), advantages:flatten()

   for _ = 1, 4 do
      for _, index in ipairs(torch.randperm(states:size(1)):split(128)) do
         local ratio = (log_prob(actor(states[index]), actions[index]) - old_logs[index]):exp()
         local clipped = ratio:clamp(1 - opt.clip, 1 + opt.clip)
         local advantage = advantages[index]
         local policy_loss = -torch.min(ratio * advantage, clipped * advantage):mean()
         local value_loss = F.mse_loss(critic(states[index]):squeeze(-1), returns[index])
         local loss = policy_loss + 0.5 * value_loss
         optimizer:zero_grad()
         loss:backward()
         nn.utils.clip_grad_norm_(parameters, 0.5)
         optimizer:step()
      end
   end
   last = rewards:mean():item()
   first = first or last
end
print(("mean distance to the goal: %.3f at first, %.3f at last"):format(-first, -last))
