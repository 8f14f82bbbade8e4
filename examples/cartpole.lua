-- An agent learns by policy gradients (REINFORCE, Williams 1992) to balance a pole on a cart. It
-- pushes the cart to the left or to the right:
--
--    tlua examples/cartpole.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local Categorical = torch.distributions.Categorical

local parser = torch.utils.options("cartpole.lua", "Learns to balance a pole.")
parser:option("--updates", "updates of the policy", 80)
parser:option("--carts", "carts that are tried for each update", 16)
parser:option("--longest", "steps after which an episode ends", 500)
parser:option("--discount", "what a reward a step later is worth", 0.99)
parser:option("--lr", "learning rate of Adam", 1e-2)
parser:option("--seed", "what the random numbers start from", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- The cart ---------------------------------------------------------------------------------------
-- The model is that of A. Barto, R. Sutton, C. Anderson, 1983: a pole of 1 m and 0.1 kg on a cart
-- of 1 kg, which is pushed with 10 N for 0.02 s at a time. An episode ends when the pole leans by
-- 12 degrees or the cart is 2.4 m away.

local Cart = torch.class "Cart"

function Cart:__init()
   local start = ((torch.rand(4) - 0.5) / 10):tolist()
   self.x, self.speed, self.angle, self.turning = table.unpack(start)
end

function Cart:state()
   return {self.x, self.speed, self.angle, self.turning}
end

-- Pushes the cart to the left (1) or to the right (2); returns whether the pole still stands.
function Cart:push(action)
   local gravity, mass, pole_mass, half, force, seconds = 9.8, 1.1, 0.1, 0.5, 10, 0.02
   local push = action == 2 and force or -force
   local sin, cos = math.sin(self.angle), math.cos(self.angle)
   local common = (push + pole_mass * half * self.turning ^ 2 * sin) / mass
   local turn = (gravity * sin - cos * common) / (half * (4 / 3 - pole_mass * cos ^ 2 / mass))
   local acceleration = common - pole_mass * half * turn * cos / mass
   self.x = self.x + seconds * self.speed
   self.speed = self.speed + seconds * acceleration
   self.angle = self.angle + seconds * self.turning
   self.turning = self.turning + seconds * turn
   return math.abs(self.x) < 2.4 and math.abs(self.angle) < math.rad(12)
end

-- The policy: scores of both pushes --------------------------------------------------------------

local policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
local optimizer = optim.Adam(policy:parameters(), {lr = opt.lr})

-- Simulates several carts at once; returns the states, the actions and the length of each episode.
local function play(count)
   local _ <close> = torch.no_grad()
   local running, episodes = {}, {}
   for i = 1, count do
      episodes[i] = {cart = Cart(), states = {}, actions = {}}
      running[i] = episodes[i]
   end
   for _ = 1, opt.longest do
      if #running == 0 then break end
      local states = {}
      for i, episode in ipairs(running) do states[i] = episode.cart:state() end
      local actions = Categorical({logits = policy(torch.tensor(states))}):sample():tolist()
      local still = {}
      for i, episode in ipairs(running) do
         table.insert(episode.states, states[i])
         table.insert(episode.actions, actions[i])
         if episode.cart:push(actions[i]) then still[#still + 1] = episode end
      end
      running = still
   end
   return episodes
end

-- Each step has a reward of one. The return of an action is the sum of all later rewards.
local function returns(episode)
   local list, sum = {}, 0
   for i = #episode.actions, 1, -1 do
      sum = 1 + opt.discount * sum
      list[i] = sum
   end
   return list
end

-- Training ---------------------------------------------------------------------------------------

local function append(list, items)
   table.move(items, 1, #items, #list + 1, list)
end

local lengths = {}
local bar = torch.utils.Progress {total = opt.updates, label = "training", unit = "updates"}
for update = 1, opt.updates do
   local states, actions, worth = {}, {}, {}
   local episodes = play(opt.carts)
   for _, episode in ipairs(episodes) do
      append(states, episode.states)
      append(actions, episode.actions)
      append(worth, returns(episode))
   end
   local advantage = torch.tensor(worth)
   advantage = (advantage - advantage:mean()) / (advantage:std() + 1e-8)

   optimizer:zero_grad()
   local choice = Categorical {logits = policy(torch.tensor(states))}
   local loss = -(choice:log_prob(torch.tensor(actions)) * advantage):mean()
   loss:backward()
   optimizer:step()

   lengths[update] = #actions / #episodes
   bar:step(1, ("%.0f steps"):format(lengths[update]))
end
bar:finish()
print(torch.utils.plot.curves(lengths, {title = "steps until the pole falls", lines = 10}))
print(("first: %.0f steps, last: %.0f of at most %d"):format(
   lengths[1], lengths[#lengths], opt.longest))
