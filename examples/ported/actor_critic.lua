-- An agent learns by advantage actor-critic to walk along a corridor to the treasure at its end:
--
--    tlua examples/ported/actor_critic.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("actor_critic.lua", "Learns to walk to a treasure.")
parser:option("--episodes", "episodes to learn from", 150)
parser:option("--length", "cells of the corridor", 8)
parser:option("--gamma", "discount of a reward a step later", 0.95)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local Policy, parent = torch.class("Policy", nn.Module)

function Policy:__init(cells)
   parent.__init(self)
   self.affine = nn.Linear(cells, 32)
   self.action_head = nn.Linear(32, 2)
   self.value_head = nn.Linear(32, 1)
end

function Policy:forward(x)
   x = F.relu(self.affine(x))
   return F.softmax(self.action_head(x), -1), self.value_head(x)
end

local model = Policy(opt.length)
local optimizer = optim.Adam(model:parameters(), {lr = 1e-2})
local states = torch.eye(opt.length)

local function play(longest)
   local cell, taken = 1, {}
   for _ = 1, longest do
      local probabilities, value = model(states[cell])
      -- action 1 goes back, action 2 goes ahead
      local action = torch.multinomial(probabilities, 1):item()
      cell = math.max(1, cell + (action == 2 and 1 or -1))
      local arrived = cell == opt.length
      taken[#taken + 1] = {log = probabilities[action]:log(), value = value[1],
                           reward = arrived and 1 or -0.01}
      if arrived then break end
   end
   return taken
end

local steps = {}
for episode = 1, opt.episodes do
   local taken = play(100)
   steps[episode] = #taken

   local result, policy_loss, value_loss = 0, {}, {}
   for i = #taken, 1, -1 do
      result = taken[i].reward + opt.gamma * result
      local advantage = result - taken[i].value:item()
      policy_loss[#policy_loss + 1] = -taken[i].log * advantage
      value_loss[#value_loss + 1] = F.smooth_l1_loss(taken[i].value, torch.tensor(result))
   end
   optimizer:zero_grad()
   local loss = torch.stack(policy_loss):sum() + torch.stack(value_loss):sum()
   loss:backward()
   optimizer:step()
end

local function mean(from, to)
   local sum = 0
   for i = from, to do sum = sum + steps[i] end
   return sum / (to - from + 1)
end
print(("steps to the treasure: %.1f at first, %.1f at last, %d at best"):format(
   mean(1, 10), mean(opt.episodes - 9, opt.episodes), opt.length - 1))
