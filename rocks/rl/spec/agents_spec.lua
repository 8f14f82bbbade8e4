-- Tests that agents learn to solve simple environments, and tests the parts of agents.

local torch = require "tlua"
local rl = require "tlua.rl"
local shell = require "spec.support.shell"

-- In this environment, the observation tells which action is the best.
local Tell = torch.class("Tell", rl.Env)

function Tell:__init(continuous)
   self.action_space = continuous and rl.Box({-2.0}, {2.0}) or rl.Discrete(2)
   self.observation_space = rl.Box({-1.0}, {1.0})
end

function Tell:start() self.state, self.count = self:uniform(1, -1, 1)[1], 0 end

function Tell:observe() return {self.state} end

function Tell:advance(action)
   local reward
   if type(action) == "table" then
      reward = -(action[1] - self.state) ^ 2
   else
      reward = (action == 2) == (self.state > 0) and 1.0 or 0.0
   end
   self.state, self.count = self:uniform(1, -1, 1)[1], self.count + 1
   return reward, self.count == 10
end

local function several(n, continuous)
   local list = {}
   for i = 1, n do list[i] = Tell(continuous) end
   return rl.VectorEnv(list)
end

local agents <const> = {
   PPO = function() return rl.PPO(several(4), {n_steps = 64, learning_rate = 3e-3, seed = 1}), 4000, 9.5 end,
   A2C = function() return rl.A2C(several(8), {learning_rate = 3e-3, seed = 1}), 8000, 9 end,
   DQN = function() return rl.DQN(several(4), {learning_rate = 3e-3, gamma = 0.5, seed = 1}), 4000, 9.3 end,
   ["DQN with duels and priorities"] = function()
      return rl.DQN(several(4), {learning_rate = 3e-3, gamma = 0.5, dueling = true, prioritized = true, seed = 1}),
         4000, 9.3
   end,
   ["PPO in continuous actions"] = function()
      return rl.PPO(several(4, true), {n_steps = 64, learning_rate = 3e-3, seed = 1}), 12000, -1, true
   end,
   TD3 = function()
      return rl.TD3(several(1, true), {learning_rate = 3e-3, gamma = 0.5, hidden = 32, batch_size = 64, seed = 1,
         action_noise = rl.NormalActionNoise({0}, {0.3})}), 1200, -0.5, true
   end,
   DDPG = function()
      return rl.DDPG(several(2, true), {learning_rate = 3e-3, gamma = 0.5, hidden = 32, batch_size = 64, seed = 1,
         gradient_steps = -1, action_noise = rl.OrnsteinUhlenbeckActionNoise({0}, {0.3}, {dt = 1})}), 1200, -0.5, true
   end,
   SAC = function()
      return rl.SAC(several(1, true), {learning_rate = 3e-3, gamma = 0.5, hidden = 32, batch_size = 64, seed = 1}),
         1200, -0.5, true
   end,
}

describe("an agent", function()
   for name, make in pairs(agents) do
      it("learns: " .. name, function()
         local agent, steps, goal, continuous = make()
         agent:learn(steps)
         assert.is_true(agent.num_timesteps >= steps)
         local mean = rl.evaluate_policy(agent, Tell(continuous), {seed = 3})
         assert.is_true(mean > goal, mean)
         shell.with_folder(function(folder)
            agent:save(folder .. "/agent.safetensors")
            local other = make():load(folder .. "/agent.safetensors")
            assert.same(agent:predict {0.3}, other:predict {0.3})
         end)
      end)
   end

   it("learns in an environment of positions", function()
      local agent = rl.DQN(rl.make_vec("CliffWalking-v1", 2), {learning_starts = 20, seed = 1})
      agent:learn(100)
      assert.is_true(agent:predict(1) >= 1)
   end)

   it("stops when its callback says so", function()
      local agent = rl.A2C(several(2), {seed = 1})
      agent:learn(1000, function() return true end)
      assert.equal(10, agent.num_timesteps)
   end)

   it("refuses what does not fit", function()
      assert.raises("rl.SAC: env: expected an environment with a Box of actions", function() rl.SAC(several(1)) end)
      assert.raises("rl.DQN: env: expected an environment with a Discrete space of actions",
         function() rl.DQN(several(1, true)) end)
      assert.raises("rl.PPO: unknown option n_step; did you mean n_steps?",
         function() rl.PPO(several(1), {n_step = 3}) end)
      assert.raises("total_timesteps: expected an integer of at least 1, got 0.5",
         function() rl.A2C(several(1)):learn(0.5) end)
      shell.with_folder(function(folder)
         rl.A2C(several(1)):save(folder .. "/a.safetensors")
         assert.raises("expected the state of an rl.PPO, got that of rl.A2C",
            function() rl.PPO(several(1)):load(folder .. "/a.safetensors") end)
      end)
   end)
end)

describe("compute_gae", function()
   it("is the formula's sum, and ends with an episode", function()
      local rewards, values = torch.tensor {{1.0}, {2.0}, {3.0}}, torch.tensor {{0.5}, {0.4}, {0.3}}
      local dones, gamma, lambda = torch.tensor {{0.0}, {1.0}, {0.0}}, 0.9, 0.8
      local advantages, returns = rl.compute_gae(rewards, values, dones, torch.tensor {0.7}, gamma, lambda)
      local third = 3 + gamma * 0.7 - 0.3
      local second = 2 - 0.4
      local first = 1 + gamma * 0.4 - 0.5 + gamma * lambda * second
      for i, expected in ipairs {first, second, third} do
         assert.is_true(math.abs(expected - advantages[{i, 1}]:item()) < 1e-6)
         assert.is_true(math.abs(expected + values[{i, 1}]:item() - returns[{i, 1}]:item()) < 1e-6)
      end
   end)
end)

describe("a replay buffer", function()
   it("keeps the newest transitions", function()
      local buffer = rl.ReplayBuffer(4, 1, 1)
      for i = 1, 6 do
         local x = torch.full({1, 1}, i)
         buffer:add(x, x, x:view(1), x, torch.zeros(1))
      end
      assert.equal(4, #buffer)
      local batch = buffer:sample(200)
      assert.equal(3, batch.rewards:min():item())
      assert.equal(6, batch.rewards:max():item())
   end)

   it("draws by priorities", function()
      local buffer = rl.ReplayBuffer(4, 1, 1, {prioritized = true})
      local x = torch.arange(1, 5):float()
      buffer:add(x:view(4, 1), x:view(4, 1), x, x:view(4, 1), torch.zeros(4))
      buffer:update_priorities(torch.arange(1, 5), torch.tensor {0.0, 0.0, 5.0, 0.0})
      local batch = buffer:sample(100)
      assert.is_true(batch.rewards:eq(3):float():mean():item() > 0.95)
      assert.is_true(batch.weights:max():item() <= 1)
   end)
end)

describe("misuse of torch.rl", function()
   it("is an error that names the argument", function()
      local ones, buffer = torch.ones(3, 2), rl.ReplayBuffer(4, 3, 1)
      local env = rl.make "CartPole-v1"
      for text, call in pairs {
         ["rl.compute_gae: values: expected a tensor of the shape of rewards"] = function()
            rl.compute_gae(ones, torch.ones(3, 1), ones, torch.ones(2), 0.9, 0.9)
         end,
         ["rl.compute_gae: last_values: expected a tensor of the shape of one step"] = function()
            rl.compute_gae(ones, ones, ones, torch.ones(1), 0.9, 0.9)
         end,
         ["rl.ReplayBuffer.add: observations: expected a tensor of shape (2, 3)"] = function()
            buffer:add(torch.ones(2, 1), torch.ones(2, 1), torch.ones(2), torch.ones(2, 3), torch.zeros(2))
         end,
         ["rl.ReplayBuffer.add: rewards: expected a tensor of shape (2)"] = function()
            buffer:add(torch.ones(2, 3), torch.ones(2, 1), torch.ones(5), torch.ones(2, 3), torch.zeros(2))
         end,
         ["rl.VectorEnv: envs: 1 and 2 are the same environment"] = function() rl.VectorEnv {env, env} end,
         ["rl.make: unknown option max_steps"] = function() rl.make_vec("CartPole-v1", 2, {max_steps = 3}) end,
      } do
         assert.matches(text, select(2, pcall(call)), 1, true)
      end
   end)

   it("is not what options of make_vec and predict are", function()
      local envs = rl.make_vec("CartPole-v1", 2, {max_episode_steps = 2})
      envs:reset {seed = 1}
      envs:step(torch.tensor {1, 1})
      local _, _, _, truncated = envs:step(torch.tensor {1, 1})
      assert.same({true, true}, truncated:tolist())
      torch.manual_seed(1)
      local agent, seen = rl.PPO(rl.make_vec("CartPole-v1", 1)), {}
      for _ = 1, 60 do seen[agent:predict({0, 0, 0, 0}, {deterministic = false})] = true end
      assert.same({true, true}, seen)
   end)
end)
