-- Tests that environments make the same transitions as Gymnasium's.

local torch = require "tlua"
local rl = require "tlua.rl"

local recorded = dofile "rocks/rl/spec/fixtures/transitions.lua"

local function bare(name)
   local env = rl.make(name)
   return env.env or env
end

local function close(expected, got) return math.abs(expected - got) <= 1e-6 * math.max(1, math.abs(expected)) end

describe("the transitions of", function()
   for _, name in ipairs {"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"} do
      it(name .. " are Gymnasium's", function()
         local env = bare(name)
         for i, row in ipairs(recorded[name]) do
            env:reset {seed = 1}
            env.state = {table.unpack(row[1])}
            local observation, reward, terminated = env:step(row[2])
            for k, x in ipairs(row[3]) do
               assert.is_true(close(x, observation[k]), ("row %d: %g, %g"):format(i, x, observation[k]))
            end
            assert.is_true(close(row[4], reward), ("row %d: %g, %g"):format(i, row[4], reward))
            assert.equal(row[5], terminated)
         end
      end)
   end

   for _, name in ipairs {"FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1"} do
      it(name .. " have Gymnasium's probabilities", function()
         local env = bare(name)
         for _, row in ipairs(recorded[name]) do
            local found = {}
            for _, outcome in ipairs(env:outcomes(row[1], row[2])) do
               local key = ("%d %g %s"):format(outcome[2], outcome[3], outcome[4])
               found[key] = (found[key] or 0) + outcome[1]
            end
            for _, outcome in ipairs(row[3]) do
               local key = ("%d %g %s"):format(outcome[2], outcome[3], outcome[4])
               assert.is_true(close(outcome[1], found[key] or -1), ("%d %d: %s"):format(row[1], row[2], key))
               found[key] = nil
            end
            assert.is_nil(next(found))
         end
      end)
   end

   it("Blackjack-v1 are Gymnasium's with the same cards", function()
      local env = bare "Blackjack-v1"
      for _, row in ipairs(recorded["Blackjack-v1"]) do
         local at = 0
         env.draw = function()
            at = at + 1
            return row[1][at]
         end
         assert.same(row[2], env:reset {seed = 1})
         for i, action in ipairs(row[3]) do
            local observation, reward, terminated = env:step(action)
            assert.same(row[4][i], {observation, reward, terminated})
         end
      end
   end)
end)

describe("an environment", function()
   it("begins in the same way with the same seed", function()
      for _, name in ipairs {"CartPole-v1", "Taxi-v3", "Pendulum-v1", "Blackjack-v1"} do
         local one, two = rl.make(name), rl.make(name)
         assert.same(one:reset {seed = 5}, (two:reset {seed = 5}))
         assert.same(one:reset(), (two:reset()))
      end
   end)

   it("truncates an episode, and says so", function()
      local env = rl.make("Pendulum-v1", {max_episode_steps = 3})
      env:reset {seed = 1}
      local ends = {}
      for i = 1, 3 do ends[i] = select(4, env:step {0.0}) end
      assert.same({false, false, true}, ends)
   end)

   it("steps with others in batches, and begins anew", function()
      local envs = rl.make_vec("CartPole-v1", 3)
      local first = envs:reset {seed = 1}
      assert.same({3, 4}, {table.unpack(first.shape)})
      local finished = 0
      for _ = 1, 60 do
         local _, _, _, _, info = envs:step(torch.tensor {1, 2, 1})
         finished = finished + #info.returns
      end
      assert.is_true(finished >= 9)
   end)

   it("refuses what it does not know", function()
      local env = rl.make "CartPole-v1"
      assert.raises("rl.CartPole.step: call reset before the first step", function() env:step(1) end)
      env:reset()
      for _ = 1, 20 do
         if select(3, env:step(1)) then break end
      end
      assert.raises("rl.CartPole.step: the episode has ended; call reset", function() env:step(1) end)
      env:reset()
      assert.raises("rl.CartPole.step: action: expected an integer from 1 to 2, got 0", function() env:step(0) end)
      assert.raises('there is no environment "CartPole-v2"; did you mean CartPole-v',
         function() rl.make "CartPole-v2" end)
      local pendulum = rl.make "Pendulum-v1"
      pendulum:reset()
      assert.raises("action: expected a list of 1 numbers, got 1", function() pendulum:step(1) end)
      assert.raises("unknown option sede; did you mean seed?", function() env:reset {sede = 1} end)
   end)
end)
