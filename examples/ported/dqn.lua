-- An agent finds the way through a grid with a wall by deep Q-learning, with a replay memory and a
-- target network (Mnih et al. 2015):
--
--    tlua examples/ported/dqn.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("dqn.lua", "Finds the way through a grid.")
parser:option("--episodes", "episodes to learn from", 120)
parser:option("--batch", "transitions in a batch", 64)
parser:option("--gamma", "discount of a reward a step later", 0.95)
parser:option("--tau", "share of the new weights that the target takes over at each step", 0.02)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)
math.randomseed(opt.seed)

-- The grid: the start is at the lower left, the goal at the lower right, and a wall is between
-- them.
local maze = {
   ".....",
   ".....",
   "..#..",
   "..#..",
   "S.#.G",
}
local moves = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}}

-- Returns the row and column after a move, the reward, and whether the goal is reached.
local function step(row, column, action)
   local r, c = row + moves[action][1], column + moves[action][2]
   local cell = maze[r] and maze[r]:sub(c, c) or ""
   if cell == "" or cell == "#" then return row, column, -0.05, false end
   if cell == "G" then return r, c, 1, true end
   return r, c, -0.01, false
end

local function encode(row, column)
   local x = torch.zeros(10)
   x[row], x[5 + column] = 1, 1
   return x
end

local function build() return nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 4)) end
local policy_net, target_net = build(), build()
target_net:load_state_dict(policy_net:state_dict())
local optimizer = optim.AdamW(policy_net:parameters(), {lr = 2e-3, amsgrad = true})

local memory, capacity, pushed = {}, 2000, 0
local function push(...)
   pushed = pushed + 1
   memory[(pushed - 1) % capacity + 1] = {...}
end

local function optimize_model()
   if #memory < opt.batch then return end
   local columns = {{}, {}, {}, {}, {}}
   for i = 1, opt.batch do
      local transition = memory[math.random(#memory)]
      for k = 1, 5 do columns[k][i] = transition[k] end
   end
   local state, next_state = torch.stack(columns[1]), torch.stack(columns[4])
   local action = torch.tensor(columns[2]):unsqueeze(2)
   local reward, running = torch.tensor(columns[3]), torch.tensor(columns[5])

   local values = policy_net(state):gather(2, action):squeeze(2)
   local next_values = torch.no_grad(function() return (target_net(next_state):max(2)) end)
   local loss = F.smooth_l1_loss(values, reward + opt.gamma * next_values * running)
   optimizer:zero_grad()
   loss:backward()
   nn.utils.clip_grad_value_(policy_net:parameters(), 100)
   optimizer:step()

   torch.no_grad(function()
      local from = policy_net:state_dict()
      for name, p in pairs(target_net:state_dict()) do p:lerp_(from[name], opt.tau) end
   end)
end

for episode = 1, opt.episodes do
   local row, column = 5, 1
   local epsilon = math.max(0.05, 1 - episode / (opt.episodes * 0.6))
   for _ = 1, 60 do
      local x = encode(row, column)
      local action = math.random(4)
      if math.random() > epsilon then
         action = torch.no_grad(function() return policy_net(x):argmax():item() end)
      end
      local r, c, reward, done = step(row, column, action)
      push(x, action, reward, encode(r, c), done and 0.0 or 1.0)
      row, column = r, c
      optimize_model()
      if done then break end
   end
end

local row, column, steps = 5, 1, 0
local done, _
repeat
   local action = policy_net(encode(row, column)):argmax():item()
   row, column, _, done = step(row, column, action)
   steps = steps + 1
until done or steps == 60
if done then
   print(("reaches the goal in %d steps; the shortest way has 10"):format(steps))
else
   print "is lost"
end
