-- Tests that wrappers change observations, rewards and actions as Gymnasium's wrappers do.

local torch = require "tlua"
local rl = require "tlua.rl"

local recorded = dofile "rocks/rl/spec/fixtures/wrappers.lua"

-- An environment that replays recorded steps, and records the actions it gets.
local Script = torch.class("Script")

function Script:__init()
   self.action_space, self.at, self.actions = rl.Box({-1, -1}, {1, 1}), 0, {}
   self.observation_space = rl.Box({-9, -9, -9}, {9, 9, 9})
end

function Script:_next()
   self.at = self.at + 1
   return table.unpack(recorded.rows[self.at])
end

function Script:reset() return (self:_next()), {} end

function Script:step(action)
   self.actions[#self.actions + 1] = action
   local observation, reward, terminated, truncated = self:_next()
   return observation, reward, terminated, truncated, {}
end

local function close(expected, got)
   for i, x in ipairs(expected) do
      if math.abs(x - got[i]) > 1e-6 * math.max(1, math.abs(x)) then return false end
   end
   return #expected == #got
end

local makers <const> = {
   NormalizeObservation = function(env) return rl.NormalizeObservation(env) end,
   NormalizeReward = function(env) return rl.NormalizeReward(env, {gamma = 0.9}) end,
   FrameStackObservation = function(env) return rl.FrameStackObservation(env, 3) end,
   FrameStackObservation_zero = function(env) return rl.FrameStackObservation(env, 3, {padding_type = "zero"}) end,
   RecordEpisodeStatistics = function(env) return rl.RecordEpisodeStatistics(env) end,
   ClipAction = function(env) return rl.ClipAction(env) end,
}

describe("a wrapper", function()
   for name, make in pairs(makers) do
      it("gives what Gymnasium's gives: " .. name, function()
         local script = Script()
         local env = make(script)
         for i, row in ipairs(recorded[name]) do
            if #row == 1 then
               assert.is_true(close(row[1], (env:reset())), "row " .. i)
            else
               local observation, reward, terminated, truncated, info = env:step {script.at * 0.3 - 4, 0.5}
               assert.is_true(close(row[1], observation), "row " .. i)
               assert.is_true(close({row[2]}, {reward}), "row " .. i)
               assert.same({row[3], row[4]}, {terminated, truncated})
               if name == "RecordEpisodeStatistics" then
                  assert.equal(row[5] ~= nil, info.episode ~= nil)
                  if row[5] then assert.is_true(close({row[5].r, row[5].l}, {info.episode.r, info.episode.l})) end
               end
            end
         end
         for i, action in ipairs(recorded[name].actions or {}) do
            assert.is_true(close(action, script.actions[i]))
         end
      end)
   end

   it("hands on what it does not change", function()
      local inner = rl.make("FrozenLake-v1", {max_episode_steps = 3})
      local closed = false
      inner.unwrapped.close = function() closed = true end
      local env = rl.RecordEpisodeStatistics(rl.NormalizeReward(inner))
      assert.same(inner:reset {seed = 4}, (env:reset {seed = 4}))
      assert.equal(inner.unwrapped, env.unwrapped)
      assert.equal(inner.action_space, env.action_space)
      assert.equal(inner:render(), env:render())
      env:close()
      assert.is_true(closed)
   end)

   it("keeps its statistics when it is told to", function()
      local env = rl.NormalizeObservation(rl.make "CartPole-v1")
      env:reset {seed = 1}
      env.update_running_mean = false
      local mean = {table.unpack(env.obs_rms.mean)}
      env:step(1)
      assert.same(mean, env.obs_rms.mean)
   end)

   it("serves agents, alone and in several environments", function()
      local list = {}
      for i = 1, 2 do
         list[i] = rl.FrameStackObservation(rl.NormalizeReward(rl.NormalizeObservation(rl.make "CartPole-v1")), 2)
      end
      local agent = rl.PPO(rl.VectorEnv(list), {n_steps = 8, seed = 1})
      agent:learn(32)
      assert.equal(32, agent.num_timesteps)
      assert.equal(8, agent.observation_size)
   end)

   it("keeps the statistics of the newest episodes", function()
      local env = rl.RecordEpisodeStatistics(rl.make("Pendulum-v1", {max_episode_steps = 2}), {buffer_length = 2})
      for _ = 1, 3 do
         env:reset()
         env:step {0}
         env:step {0}
      end
      assert.equal(3, env.episode_count)
      assert.same({2, 2}, env.length_queue)
      assert.equal(2, #env.return_queue)
      assert.is_true(env.time_queue[2] >= 0)
   end)

   it("refuses what does not fit", function()
      local pole, lake = rl.make "CartPole-v1", rl.make "FrozenLake-v1"
      local function refuses(text, call, ...) assert.matches(text, select(2, pcall(call, ...)), 1, true) end
      refuses("rl.ClipAction: env: expected an environment whose action_space is a Box", rl.ClipAction, pole)
      refuses("rl.NormalizeObservation: env: expected an environment whose observation_space is a Box",
         rl.NormalizeObservation, lake)
      refuses("rl.FrameStackObservation: env: expected an environment whose observation_space is a Box",
         rl.FrameStackObservation, lake, 2)
      refuses("rl.FrameStackObservation: stack_size: expected an integer of at least 1, got 0",
         rl.FrameStackObservation, pole, 0)
      refuses('rl.FrameStackObservation: padding_type: expected reset or zero, got "none"', rl.FrameStackObservation,
         pole, 2, {padding_type = "none"})
      refuses("rl.NormalizeReward: gamma: expected a number from 0 to 1, got 2", rl.NormalizeReward, pole, {gamma = 2})
      refuses("rl.NormalizeReward: epsilon: expected a number above 0, got 0", rl.NormalizeReward, pole, {epsilon = 0})
      refuses("rl.RecordEpisodeStatistics: buffer_length: expected an integer of at least 1, got 0",
         rl.RecordEpisodeStatistics, pole, {buffer_length = 0})
      refuses("rl.Wrapper: env: expected one environment, such as rl.make(id), got an instance of rl.VectorEnv",
         rl.Wrapper, rl.make_vec("CartPole-v1", 2))
      refuses("rl.NormalizeReward.step: expected a call as a method of an instance", rl.NormalizeReward(pole).step, 1)
      local twice = rl.RecordEpisodeStatistics(rl.RecordEpisodeStatistics(rl.make("CartPole-v1",
         {max_episode_steps = 1})))
      twice:reset()
      refuses('stats_key: info already has "episode"', twice.step, twice, 1)
      local clip = rl.ClipAction(rl.make "Pendulum-v1")
      clip:reset()
      refuses("rl.Pendulum.step: action: expected a list of 1 numbers, got 0", clip.step, clip, 0)
      refuses("rl.Pendulum.step: action: expected a list of 1 numbers", clip.step, clip, {1, 2})
      for _, action in ipairs {{0 / 0}, torch.tensor {0 / 0}} do
         refuses("rl.ClipAction.step: action: expected numbers, got NaN at position 1", clip.step, clip, action)
      end
      refuses("rl.FrameStackObservation: stack_size: expected at most 4194304 observations of 4 numbers, got",
         rl.FrameStackObservation, pole, 1 << 40)
   end)

   it("refuses what an environment of the user's returns", function()
      local Odd = torch.class("Odd", rl.Wrapper)
      local observation, reward, ended = {0, 0, 0, 0}, 1.0, false
      function Odd:reset() return observation, {} end
      function Odd:step() return observation, reward, ended, false, {} end
      local function refuses(text, call, ...)
         local ok, message = pcall(call, ...)
         assert.is_false(ok)
         assert.matches(text, message, 1, true)
         assert.matches("wrappers_spec.lua:", message, 1, true)
      end
      local odd = Odd(rl.make "CartPole-v1")
      local all = {rl.NormalizeObservation(odd), rl.FrameStackObservation(odd, 2), rl.NormalizeReward(odd),
         rl.RecordEpisodeStatistics(odd), rl.TimeLimit(odd, 5)}
      for i, env in ipairs(all) do
         env:reset()
         for _, wrong in ipairs {torch.tensor(1.0), "1", 0 / 0, false} do
            reward = wrong
            refuses("Odd.step: reward: expected a number as its second result, got ", function() env:step(1) end)
         end
         reward, ended = 1.0, nil
         refuses("Odd.step: terminated: expected a boolean as its third result, got nil",
            function() env:step(1) end)
         ended = false
         if i <= 2 then
            for _, wrong in ipairs {{1, 2, 3}, {1, 2, 3, 4, 5}, torch.zeros(3)} do
               observation = wrong
               local got = (" observation: expected a list of 4 numbers, got a list of %d values"):format(#wrong)
               refuses("Odd.step:" .. got, function() env:step(1) end)
               refuses("Odd.reset:" .. got, function() env:reset() end)
            end
            observation = {1, 2, 0 / 0, 4}
            refuses("Odd.reset: observation: expected numbers, got ", function() env:reset() end)
            observation = torch.zeros(4)
            assert.equal(4 * i, #env:reset())
         end
         observation = {0, 0, 0, 0}
      end
      reward = torch.tensor(1.0)
      refuses("Odd.step: reward: expected a number as its second result", function()
         rl.evaluate_policy(setmetatable({predict = function() return 1 end}, {}), odd)
      end)
      reward, observation = 1.0, {1}
      refuses("Odd.reset: observation: expected a list of 4 numbers, got a list of 1 values",
         function() rl.VectorEnv({odd}):reset() end)
   end)
end)
