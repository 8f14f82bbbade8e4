-- Measures how many steps of the environment agents make in a second, with their learning:
--
--    tlua rocks/rl/spec/bench.lua [steps]
--
-- One thread; steps a second of processor time, the median of three runs. bench.py is the same for
-- Stable Baselines3.

local torch = require "tlua"
local rl = torch.rl

torch.set_num_threads(1)

local steps <const> = tonumber(arg[1]) or 20000

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
}

for _, row in ipairs(rows) do
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
