-- Tests TD3, DDPG and SAC: their updates against PyTorch's results, action noise, and the code that agents with a
-- replay buffer have in common.

local torch = require "tlua"
local rl = require "tlua.rl"

local recorded = dofile "rocks/rl/spec/fixtures/td3.lua"

-- An environment whose actions are two numbers from -1 to 1.
local Two = torch.class("Two", rl.Env)

function Two:__init()
   self.action_space, self.observation_space = rl.Box({-1, -1}, {1, 1}), rl.Box({-1, -1, -1}, {1, 1, 1})
end

function Two:start() self.count = 0 end

function Two:observe() return {0.1, 0.2, 0.3} end

function Two:advance()
   self.count = self.count + 1
   return 1.0, self.count == 3
end

local function fill(net, seed)
   local _ <close> = torch.no_grad()
   for i, p in ipairs(net:parameters()) do
      p:copy_((torch.arange(p:numel(), {dtype = "float64"}) * 1.7 + (seed + i - 1)):sin():view(p.shape) * 0.5)
   end
end

local function column(n, seed)
   local x = (torch.arange(6 * n, {dtype = "float64"}) * 0.9 + seed):cos():float()
   return n == 1 and x or x:view(6, n)
end

describe("an update of", function()
   for _, name in ipairs {"TD3", "DDPG"} do
      it(name .. " is that of Stable Baselines3's formulas", function()
         local options = {hidden = 4, learning_rate = 0.01, tau = 0.1, gamma = 0.9, seed = 1}
         if name == "TD3" then options.target_policy_noise = 0.0 end
         local agent = rl[name](Two(), options)
         fill(agent.actor, 1)
         fill(agent.actor_target, 2)
         for i, critic in ipairs(agent.critics) do
            fill(critic, 2 + i)
            fill(agent.targets[i], 4 + i)
         end
         local batch = {observations = column(3, 1), actions = column(2, 2), rewards = column(1, 3),
            next_observations = column(3, 4), terminated = column(1, 5):gt(0.5):float()}
         agent.buffer.sample = function() return batch end
         for _ = 1, 3 do agent:_update() end
         local nets, count = agent:_parts(), 0
         for key, expected in pairs(recorded[name]) do
            local list = {}
            for i, p in ipairs(nets[key]:parameters()) do list[i] = p:detach():view(-1) end
            assert.is_true(torch.allclose(torch.tensor(expected), torch.cat(list), {atol = 1e-6}), key)
            count = count + 1
         end
         assert.equal(name == "TD3" and 6 or 4, count)
      end)
   end

   it("SAC takes the coefficient of the entropy as a number, or learns it", function()
      local function updated(ent_coef, count)
         local agent = rl.SAC(Two(), {hidden = 4, learning_rate = 0.01, seed = 1, ent_coef = ent_coef})
         local batch = {observations = column(3, 1), actions = column(2, 2), rewards = column(1, 3),
            next_observations = column(3, 4), terminated = column(1, 5):gt(0.5):float()}
         agent.buffer.sample = function() return batch end
         torch.manual_seed(7)
         for _ = 1, count do agent:_update() end
         local list = {}
         for _, p in ipairs(agent.actor:parameters()) do list[#list + 1] = p:detach():view(-1) end
         return torch.cat(list), agent
      end
      -- The first update uses the initial coefficient, so it is the same for both agents. Later updates use the
      -- coefficient that has been learnt.
      local fixed, agent = updated(0.5, 1)
      local learnt, other = updated("auto_0.5", 1)
      assert.is_true(torch.allclose(fixed, learnt, {atol = 1e-6}))
      assert.is_nil(agent:_parts().log_alpha)
      assert.is_true(math.abs(other.log_alpha:item() - math.log(0.5)) > 1e-3)
      assert.is_true(torch.allclose(updated("auto", 1), updated(1.0, 1), {atol = 1e-6}))
      assert.is_false(torch.allclose(updated(0.5, 3), updated("auto_0.5", 3), {atol = 1e-6}))
      assert.is_false(torch.allclose(updated(0.0, 3), updated(0.5, 3), {atol = 1e-4}))
      for value, got in pairs {["auto_0"] = '"auto_0"', fixed = '"fixed"', [true] = "true"} do
         assert.raises('rl.SAC: ent_coef: expected "auto", "auto_" with a positive initial value, or a number of at '
            .. "least 0, got " .. got, function() rl.SAC(Two(), {ent_coef = value}) end)
      end
      assert.raises("rl.SAC: ent_coef: expected a number of at least 0, got -1",
         function() rl.SAC(Two(), {ent_coef = -1}) end)
   end)

   it("SAC, TD3 and DDPG follows each step with gradient_steps = -1", function()
      for _, name in ipairs {"SAC", "TD3", "DDPG"} do
         local agent = rl[name](rl.VectorEnv {Two(), Two()}, {learning_starts = 4, train_freq = 4, gradient_steps = -1,
            batch_size = 2, hidden = 4, seed = 1})
         local count = 0
         agent._update = function() count = count + 1 end
         agent:learn(12)
         assert.equal(8, count)
      end
   end)
end)

describe("noise for actions", function()
   it("is normal, with its means and deviations", function()
      torch.manual_seed(1)
      local x = rl.NormalActionNoise({1, -1}, {0.5, 2}):sample(20000)
      assert.is_true(torch.allclose(x:mean(1), torch.tensor {1.0, -1.0}, {atol = 0.05}))
      assert.is_true(torch.allclose(x:std(1), torch.tensor {0.5, 2.0}, {atol = 0.05}))
   end)

   it("returns to its mean, and begins anew where an episode has ended", function()
      local noise = rl.OrnsteinUhlenbeckActionNoise({1}, {0}, {dt = 1, initial_noise = {0.5}})
      assert.is_true(torch.allclose(noise:sample(2), torch.tensor {{0.575}, {0.575}}))
      noise:reset(torch.tensor {true, false})
      assert.is_true(torch.allclose(noise:sample(2), torch.tensor {{0.575}, {0.63875}}))
      noise:reset()
      assert.is_true(torch.allclose(noise:sample(2), torch.tensor {{0.575}, {0.575}}))
   end)

   it("is added to the actions, which stay between -1 and 1, as the buffer keeps them", function()
      local agent = rl.TD3(Two(), {learning_starts = 2, batch_size = 2, hidden = 4, seed = 1,
         action_noise = rl.NormalActionNoise({0, 5}, {0, 0})})
      agent:learn(6)
      local actions = agent.buffer.columns[2]:narrow(1, 1, 6)
      assert.is_true(actions:select(2, 2):eq(1):all():item())
      assert.is_true(actions:abs():max():item() <= 1)
   end)

   it("is refused if it does not fit", function()
      local function refuses(text, call, ...) assert.matches(text, select(2, pcall(call, ...)), 1, true) end
      refuses("rl.NormalActionNoise: sigma: expected as many numbers as mean, got 1 and 2", rl.NormalActionNoise,
         {0, 0}, {1})
      refuses("rl.NormalActionNoise: sigma: expected numbers of at least 0, got -1", rl.NormalActionNoise, {0}, {-1})
      local still = rl.OrnsteinUhlenbeckActionNoise({0}, {0})
      still:sample(3):add_(100) -- changing a sample in place must not change the state of the noise
      assert.equal(0, still:sample(3):abs():max():item())
      refuses("rl.OrnsteinUhlenbeckActionNoise.reset: dones: expected a bool tensor of 3 elements", still.reset, still,
         torch.tensor {true})
      for _, noise in ipairs {rl.NormalActionNoise({0}, {1}), rl.OrnsteinUhlenbeckActionNoise({0}, {1})} do
         local name = torch.type(noise)
         refuses(name .. ".reset: dones: expected a bool tensor, got true", noise.reset, noise, true)
         refuses(name .. ".sample: n: expected an integer of at least 1, got nil", noise.sample, noise)
         refuses(name .. ".sample: n: expected an integer of at least 1, got 0", noise.sample, noise, 0)
         refuses(".reset: expected a call as a method of an instance, noise:reset(...)", noise.reset, true)
      end
      refuses("rl.OrnsteinUhlenbeckActionNoise: dt: expected a number of at least 0, got -1",
         rl.OrnsteinUhlenbeckActionNoise, {0}, {1}, {dt = -1})
      refuses("rl.TD3: action_noise: expected the mean of 2 actions, got 1", rl.TD3, Two(),
         {action_noise = rl.NormalActionNoise({0}, {1})})
      refuses("rl.SAC: action_noise: expected an rl.NormalActionNoise or an rl.OrnsteinUhlenbeckActionNoise, got an "
         .. "instance of Two", rl.SAC, Two(), {action_noise = Two()})
      refuses("rl.DDPG: env: expected an environment with a Box of actions", rl.DDPG, rl.make "CartPole-v1")
      refuses("rl.TD3: policy_delay: expected an integer of at least 1, got 0", rl.TD3, Two(), {policy_delay = 0})
      refuses("rl.TD3: target_policy_noise: expected a number of at least 0, got -1", rl.TD3, Two(),
         {target_policy_noise = -1})
      refuses("rl.DDPG: gradient_steps: expected an integer of at least 1, or -1 for one update a step, got 0", rl.DDPG,
         Two(), {gradient_steps = 0})
      refuses("rl.DDPG: unknown option policy_delay", rl.DDPG, Two(), {policy_delay = 2})
      refuses("rl.TD3: env: expected actions with finite bounds", rl.TD3, (function()
         local env = Two()
         env.action_space = rl.Box({-1, -1}, {1, math.huge})
         return env
      end)())
   end)
end)
