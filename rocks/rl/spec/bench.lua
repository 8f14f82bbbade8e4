-- Measures how many steps in the environment agents make per second, including the time for learning:
--
--    tlua rocks/rl/spec/bench.lua [steps] [name]
--
-- With a name, only rows that contain it are measured. Each figure is the median of three runs, in steps per second of
-- processor time, with one thread. bench.py measures the same for Stable Baselines3. The last rows are upper bounds for
-- SAC and TD3: they compute only the matrix products between hidden layers that a step needs.

local torch = require "tlua"
local rl = torch.rl

torch.set_num_threads(1)

local steps <const> = tonumber(arg[1]) or 20000

-- Returns the function of a row of the table below that computes only matrix products: n products of (256, a) by (a, b)
-- for each update. Between two hidden layers of widths a and b, a forward pass needs one such product, and the
-- gradients of the input and of the weight need one each.
local function products(n, a, b)
   return function()
      local x, w, out = torch.randn(256, a), torch.randn(a, b), torch.empty(256, b)
      return function(count)
         -- The first 100 steps fill the buffer without learning, so they are not counted here.
         for _ = 1, (count // 20 - 100) * n do torch.mm(x, w, {out = out}) end
      end
   end
end

local rows <const> = {
   {"environment alone, CartPole-v1", function()
      local env = rl.make "CartPole-v1"
      return function(n)
         env:reset {seed = 1}
         for i = 1, n do
            local _, _, terminated, truncated = env:step(i % 2 + 1)
            if terminated or truncated then env:reset() end
         end
      end
   end},
   {"PPO, CartPole-v1, 8 environments", function()
      local agent = rl.PPO(rl.make_vec("CartPole-v1", 8), {n_steps = 256, batch_size = 256, n_epochs = 10, seed = 1})
      return function(n) agent:learn(n) end
   end},
   {"PPO, CartPole-v1, 1 environment", function()
      local agent = rl.PPO(rl.make "CartPole-v1", {seed = 1})
      return function(n) agent:learn(n) end
   end},
   {"DQN, CartPole-v1, 1 environment", function()
      local agent = rl.DQN(rl.make "CartPole-v1", {seed = 1, double = false})
      return function(n) agent:learn(n) end
   end},
   {"SAC, Pendulum-v1, 1 environment", function()
      local agent = rl.SAC(rl.make "Pendulum-v1", {seed = 1})
      return function(n) agent:learn(n // 20) end
   end, 20},
   {"TD3, Pendulum-v1, 1 environment", function()
      local agent = rl.TD3(rl.make "Pendulum-v1", {seed = 1})
      return function(n) agent:learn(n // 20) end
   end, 20},
   -- An update of SAC has two forward passes of the actor, two forward passes of each critic and one of each target
   -- network. It has gradients of the critics, of their input and of the actor.
   {"products of SAC alone", products(16, 256, 256), 20},
   -- An update of TD3 has forward passes of the critics, of their target networks and of the target actor. In every
   -- second update, the actor and one critic are computed too.
   {"products of TD3 alone", products(11.5, 400, 300), 20},
}

local function measure(row)
   local rates, made = {}, steps // (row[3] or 1)
   for i = 1, 3 do
      local run = row[2]()
      local begun = os.clock()
      run(steps)
      rates[i] = made / (os.clock() - begun)
   end
   table.sort(rates)
   print(("%-34s %9.0f steps a second"):format(row[1], rates[2]))
end

for _, row in ipairs(rows) do
   if row[1]:find(arg[2] or "", 1, true) then measure(row) end
end
