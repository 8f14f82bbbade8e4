-- Tests that error messages of torch.rl name the user's mistake, and that options out of range are refused.

local torch = require "tlua"
local rl = require "tlua.rl"

-- Returns an environment of a user-defined class, in which some methods are replaced or missing.
local function env(methods, spaces)
   local Coin = torch.class("Coin", rl.Env)
   function Coin:__init()
      self.action_space, self.observation_space = rl.Discrete(2), rl.Box({-1}, {1})
      for name, space in pairs(spaces or {}) do self[name] = space or nil end
   end
   function Coin:start() end
   function Coin:observe() return {0.5} end
   function Coin:advance(action) return action == 2 and 1.0 or 0.0, true end
   for name, method in pairs(methods) do Coin[name] = method or nil end
   return Coin()
end

local function step(methods, spaces)
   local coin = env(methods, spaces)
   coin:reset {seed = 1}
   return coin:step(2)
end

local function refuses(text, call, ...)
   local ok, message = pcall(call, ...)
   assert.is_false(ok, "no error: " .. text)
   assert.matches(text, message, 1, true)
   assert.matches("misuse_spec.lua:%d+:", message)
end

describe("an environment of a user's class", function()
   it("without a method is named", function()
      refuses("Coin.start: is not defined; a class derived from rl.Env defines start(), which begins an episode",
         step, {start = false})
      refuses("Coin.observe: is not defined", step, {observe = false})
      refuses("Coin.advance: is not defined", step, {advance = false})
      refuses("Coin.render: is not defined", function() env({}):render() end)
   end)

   it("without a reward or an end is named", function()
      refuses("Coin.advance: reward: expected a number as its first result, got nil", step,
         {advance = function() return nil, true end})
      refuses("Coin.advance: reward: expected a number as its first result, got", step,
         {advance = function() return math.huge - math.huge, true end})
      refuses("Coin.advance: terminated: expected a boolean as its second result, got nil", step,
         {advance = function() return 1 end})
   end)

   it("with another observation than its space is named", function()
      refuses("Coin.observe: observation: expected a list of 1 numbers, got a list of 2 values", step,
         {observe = function() return {1, 2} end})
      refuses("Coin.observe: observation: expected a list of 1 numbers, got nil", step, {observe = function() end})
      refuses("Coin.observe: observation: expected numbers, got \"x\" at position 1", step,
         {observe = function() return {"x"} end})
      refuses("Coin.observe: observation: expected an integer from 1 to 3, got 4", step,
         {observe = function() return 4 end}, {observation_space = rl.Discrete(3)})
   end)

   it("without spaces is named", function()
      local Bare = torch.class("Bare", rl.Env)
      refuses("Bare: action_space: expected a rl.Discrete or a rl.Box, set in __init, got nil",
         function() Bare():reset() end)
      refuses("Bare: action_space: expected a rl.Discrete or a rl.Box", rl.PPO, Bare())
      refuses("expected environments of one kind, got action_space (Discrete 2) and, at position 2, action_space "
         .. "(Discrete 3)", rl.VectorEnv, {env {}, env({}, {action_space = rl.Discrete(3)})})
   end)

   it("may return tensors; lists follow", function()
      local tensor = env {observe = function() return torch.tensor {0.25} end}
      assert.same({0.25}, (tensor:reset()))
      assert.same({0.25}, (tensor:step(1)))
      assert.same({1, 1}, {table.unpack(rl.VectorEnv({tensor}):reset().shape)})
   end)

   it("that has methods of its own is checked in a VectorEnv", function()
      local Own = torch.class("Own")
      function Own:__init() self.action_space, self.observation_space = rl.Discrete(2), rl.Box({0}, {1}) end
      function Own:reset() return torch.tensor {0.5}, {} end
      function Own:step() return {0.5}, nil, true, false, {} end
      local envs = rl.VectorEnv {Own()}
      assert.equal(0.5, envs:reset():item())
      refuses("Own.step: reward: expected a number as its second result, got nil", envs.step, envs, torch.tensor {1})
   end)
end)

describe("a call with a dot for a colon", function()
   it("is named", function()
      local coin, agent = env {}, rl.A2C(env {}, {seed = 1})
      coin:reset()
      refuses("rl.Env.step: expected a call as a method of an instance, env:step(...); it was called with 1 as the "
         .. "object", coin.step, 1)
      refuses("rl.Env.reset: expected a call as a method of an instance", coin.reset, {seed = 1})
      refuses("rl.Env.reset: expected a call as a method of an instance", coin.reset)
      refuses("rl.TimeLimit.step: expected a call as a method", rl.make("CartPole-v1").step, 1)
      refuses("rl.VectorEnv.step: expected a call as a method of an instance, envs:step(...)",
         rl.make_vec("CartPole-v1", 1).step, torch.tensor {1})
      refuses("rl.Agent.learn: expected a call as a method of an instance, agent:learn(...)", agent.learn, 100)
      refuses("rl.Agent.predict: expected a call as a method", agent.predict, {0.5})
      refuses("rl.Agent.save: expected a call as a method", agent.save, "x")
      refuses("rl.Agent.load: expected a call as a method", agent.load, "x")
      refuses("rl.ReplayBuffer.sample: expected a call as a method", rl.ReplayBuffer(1, 1, 1).sample, 5)
   end)
end)

describe("an observation for predict", function()
   it("has the size of the space", function()
      local agent = rl.A2C(env {}, {seed = 1})
      refuses("rl.A2C.predict: observation: expected 1 numbers of one environment, got a table", agent.predict, agent,
         {1, 2})
      refuses("rl.A2C.predict: observation: expected 1 numbers of one environment, got nil", agent.predict, agent)
   end)
end)

describe("a Box", function()
   it("refuses bounds that are none", function()
      refuses("rl.Box: high: expected bounds of at least low, got -1 for 1 at position 1", rl.Box, {1}, {-1})
      refuses("rl.Box: high: expected bounds of at least low", rl.Box, {0 / 0}, {1})
   end)

   it("draws elements of itself, with one bound or none", function()
      for _, space in ipairs {rl.Box({0}, {math.huge}), rl.Box({-math.huge}, {0}), rl.Box({-1}, {1})} do
         for _ = 1, 50 do assert.is_true(space:contains(space:sample())) end
      end
   end)

   it("without finite bounds is refused by an agent that scales actions", function()
      for _, bounds in ipairs {{-math.huge, math.huge}, {-1, math.huge}} do
         refuses("rl.SAC: env: expected actions with finite bounds, got a Box with an infinite one", rl.SAC,
            env({}, {action_space = rl.Box({bounds[1]}, {bounds[2]})}))
      end
   end)
end)

describe("an option out of its range", function()
   local continuous = {action_space = rl.Box({-1}, {1})}
   for kind, rows in pairs {
      PPO = {"gamma: expected a number from 0 to 1, got 2", {gamma = 2},
         "n_steps: expected an integer of at least 1, got 0", {n_steps = 0},
         "n_steps: expected at least 2 steps of all environments", {n_steps = 1},
         "batch_size: expected at least 2 with normalize_advantage, got 1", {batch_size = 1},
         "learning_rate: expected a number above 0, got -0.1", {learning_rate = -0.1},
         "learning_rate: expected a number above 0, got inf", {learning_rate = math.huge},
         "clip_range: expected a number above 0, got 0", {clip_range = 0},
         "n_epochs: expected an integer of at least 1, got 0", {n_epochs = 0},
         "gae_lambda: expected a number from 0 to 1, got 1.5", {gae_lambda = 1.5},
         "max_grad_norm: expected a number above 0", {max_grad_norm = 0},
         "hidden: expected sizes of at least 1, got 0", {hidden = {8, 0}}},
      A2C = {"n_steps: expected an integer of at least 1, got 0", {n_steps = 0},
         "gamma: expected a number from 0 to 1, got -1", {gamma = -1},
         "vf_coef: expected a number of at least 0, got -1", {vf_coef = -1}},
      DQN = {"batch_size: expected at most buffer_size (16), got 32", {buffer_size = 16},
         "tau: expected a number above 0, at most 1, got 0", {tau = 0},
         "train_freq: expected an integer of at least 1, got 0", {train_freq = 0},
         "exploration_fraction: expected a number from 0 to 1, got 2", {exploration_fraction = 2},
         "target_update_interval: expected an integer of at least 1", {target_update_interval = 0}},
      SAC = {"batch_size: expected at most buffer_size (16), got 256", {buffer_size = 16},
         "gamma: expected a number from 0 to 1, got 1.1", {gamma = 1.1},
         "tau: expected a number above 0, at most 1, got 2", {tau = 2},
         "learning_rate: expected a number above 0, got 0", {learning_rate = 0}},
   } do
      it("is refused by " .. kind, function()
         for i = 1, #rows, 2 do
            refuses(("rl.%s: %s"):format(kind, rows[i]), rl[kind], env({}, kind == "SAC" and continuous or nil),
               rows[i + 1])
         end
      end)
   end

   it("is refused by a buffer and by estimates", function()
      refuses("rl.ReplayBuffer: alpha: expected a number of at least 0, got -1", rl.ReplayBuffer, 3, 1, 1,
         {alpha = -1})
      local x = torch.ones(2, 1)
      refuses("rl.compute_gae: gamma: expected a number from 0 to 1, got 2", rl.compute_gae, x, x, x, torch.ones(1),
         2, 1)
   end)
end)

describe("a wrong argument of a method", function()
   it("of VectorEnv.step changes no environment", function()
      local envs = rl.make_vec("CartPole-v1", 2)
      envs:reset {seed = 1}
      local before = {table.unpack(envs.envs[1].unwrapped.state)}
      refuses("rl.VectorEnv.step: actions[2]: expected an integer from 1 to 2, got 5", envs.step, envs,
         torch.tensor {1, 5})
      assert.same(before, envs.envs[1].unwrapped.state)
      local pendulums = rl.make_vec("Pendulum-v1", 2)
      pendulums:reset()
      refuses("rl.VectorEnv.step: actions[2]: expected a list of 1 numbers", pendulums.step, pendulums,
         torch.tensor {{0.5}, {0 / 0}})
      refuses("rl.VectorEnv.reset: seed: expected an integer, got \"a\"", envs.reset, envs, {seed = "a"})
      envs:reset {seed = 1.0}
      refuses("rl.VectorEnv: envs: expected a list of environments, got nil", rl.VectorEnv,
         {envs.envs[1], nil, envs.envs[2]})
   end)

   it("of ReplayBuffer.update_priorities is named", function()
      local buffer = rl.ReplayBuffer(10, 1, 1, {prioritized = true})
      buffer:add(torch.ones(3, 1), torch.ones(3, 1), torch.ones(3), torch.ones(3, 1), torch.zeros(3))
      local title <const> = "rl.ReplayBuffer.update_priorities: "
      refuses(title .. "indices: expected an int64 tensor of one dimension, got nil", buffer.update_priorities, buffer)
      refuses(title .. "indices: expected positions from 1 to 3, the number of transitions, got 4",
         buffer.update_priorities, buffer, torch.tensor {1, 4}, torch.ones(2))
      refuses(title .. "priorities: expected real numbers of shape (2)", buffer.update_priorities, buffer,
         torch.tensor {1, 2}, torch.ones(1))
      for _, dtype in ipairs {"float64", "float16", "int64"} do
         buffer:update_priorities(torch.tensor {1, 2}, torch.tensor({-1, 2}, {dtype = dtype}))
         local a, b = table.unpack(buffer.priorities:narrow(1, 1, 2):tolist())
         assert.is_true(math.abs(a - 1) < 1e-5 and math.abs(b - 2) < 1e-5, dtype)
      end
   end)

   it("of predict is named if an observation has NaN", function()
      local agent = rl.A2C(rl.make "CartPole-v1", {seed = 1})
      refuses("rl.A2C.predict: observation: expected 4 numbers of one environment", agent.predict, agent,
         {0, 0, 0, 0 / 0})
   end)

   it("of load, a file of networks of other sizes, changes nothing", function()
      local path = os.tmpname()
      rl.A2C(rl.make "CartPole-v1", {seed = 1, hidden = {8}}):save(path)
      local agent = rl.A2C(rl.make "CartPole-v1", {seed = 2, hidden = {9}})
      local before = agent.actor[1].weight:clone()
      refuses("expected a tensor of shape (", agent.load, agent, path)
      assert.is_true(torch.equal(before, agent.actor[1].weight))
      local same = rl.A2C(rl.make "CartPole-v1", {seed = 3, hidden = {8}})
      assert.equal(same, same:load(path))
      os.remove(path)
   end)
end)
