-- Tests the options of environments and the pictures that render() returns.

local torch = require "tlua"
local rl = require "tlua.rl"

local recorded = dofile "rocks/rl/spec/fixtures/options.lua"

local function close(expected, got) return math.abs(expected - got) <= 1e-6 * math.max(1, math.abs(expected)) end

describe("the options of", function()
   for _, case in ipairs(recorded.outcomes) do
      local words = {}
      for option in pairs(case.options) do words[#words + 1] = option end
      table.sort(words)
      it(("%s (%s) change the probabilities as Gymnasium's"):format(case.name, table.concat(words, ", ")), function()
         local env = rl.make(case.name, case.options)
         env = env.unwrapped or env
         for _, row in ipairs(case.rows) do
            local got = env:outcomes(row[1], row[2])
            assert.equal(#row[3], #got)
            for i, outcome in ipairs(row[3]) do
               assert.is_true(close(outcome[1], got[i][1]))
               assert.same({table.unpack(outcome, 2)}, {table.unpack(got[i], 2)})
            end
         end
      end)
   end

   it("Blackjack-v1 change the rewards as Gymnasium's", function()
      for _, row in ipairs(recorded.blackjack) do
         local env, at = rl.make("Blackjack-v1", {sab = row.sab, natural = row.natural}), 0
         env.draw = function()
            at = at + 1
            return row.cards[at]
         end
         env:reset()
         assert.equal(row.reward, (select(2, env:step(1))))
      end
   end)

   it("classic control change the steps as Gymnasium's", function()
      for _, row in ipairs(recorded.states) do
         local env = rl.make(row.name, row.options).unwrapped
         env:reset()
         env.state = row.state
         local observation, reward, terminated = env:step(row.action)
         for i, x in ipairs(row.observation) do assert.is_true(close(x, observation[i]), row.name) end
         assert.is_true(close(row.reward, reward), row.name)
         assert.equal(row.terminated, terminated)
      end
   end)

   it("FrozenLake-v1 choose among several beginnings", function()
      local env, seen = rl.make("FrozenLake-v1", {desc = {"SFFS", "FHFG"}}), {}
      for seed = 1, 40 do seen[env:reset {seed = seed}] = true end
      assert.same({[1] = true, [4] = true}, seen)
   end)

   it("environments are refused by name", function()
      for text, call in pairs {
         ['rl.FrozenLake: map_name: expected 4x4 or 8x8, got "3x3"'] = {"FrozenLake-v1", {map_name = "3x3"}},
         ["rl.FrozenLake: desc: expected rows of one length with the letters S, F, H and G, got \"FX\" at position 2"] =
            {"FrozenLake-v1", {desc = {"SF", "FX"}}},
         ["rl.FrozenLake: desc: expected at least one S"] = {"FrozenLake-v1", {desc = {"FG"}}},
         ["rl.FrozenLake: success_rate: expected a number from 0 to 1, got 2"] = {"FrozenLake-v1", {success_rate = 2}},
         ["rl.FrozenLake: reward_schedule: expected three rewards"] = {"FrozenLake-v1", {reward_schedule = {1}}},
         ["rl.make: unknown option is_slipery; did you mean is_slippery?"] = {"FrozenLake-v1", {is_slipery = true}},
         ["rl.make: is_slippery: Pendulum-v1 has no such option; it takes max_episode_steps, render_mode, g"] =
            {"Pendulum-v1", {is_slippery = true}},
         ["rl.make: g: Taxi-v4 has no such option; it takes max_episode_steps, render_mode"] = {"Taxi-v4", {g = 1}},
         ["rl.Pendulum: g: expected a finite number, got inf"] = {"Pendulum-v1", {g = math.huge}},
         ["rl.make: sab: expected a boolean, got 1"] = {"Blackjack-v1", {sab = 1}},
         ['rl.make: render_mode: expected "ansi" for Taxi-v4, got "human"'] = {"Taxi-v4", {render_mode = "human"}},
         ['rl.make: render_mode: expected "svg" for CartPole-v1, got "rgb_array"'] =
            {"CartPole-v1", {render_mode = "rgb_array"}},
         ["rl.make: id: expected a string, got 3"] = {3},
         ["rl.make: max_episode_steps: expected an integer of at least 0, got"] =
            {"CartPole-v1", {max_episode_steps = "x"}},
         ["rl.TimeLimit: max_episode_steps: expected an integer of at least 1, got 0"] =
            {"CartPole-v1", {max_episode_steps = 0}},
      } do
         assert.raises(text, function() rl.make(table.unpack(call)) end)
      end
   end)
end)

describe("render", function()
   it("draws Gymnasium's letters", function()
      for _, case in ipairs(recorded.pictures) do
         local options = {render_mode = "ansi"}
         for name, value in pairs(case.options) do options[name] = value end
         local env = rl.make(case.name, options)
         env:reset {seed = 1}
         local inner = env.unwrapped or env
         inner.state, inner.last_action = case.state, case.action or nil
         assert.equal(case.text, env:render())
      end
   end)

   it("shows a hand of Blackjack, and the dealer's at the end", function()
      local env = rl.make "Blackjack-v1"
      local cards, at = {10, 7, 5, 4, 3, 9}, 0
      env.draw = function()
         at = at + 1
         return cards[at]
      end
      env:reset()
      assert.equal("player: 5 4 (9), dealer: 10\n", env:render())
      env:step(2)
      env:step(1)
      assert.equal("player: 5 4 3 (12), dealer: 10 7 (17)\n", env:render())
   end)

   it("draws classic control as SVG", function()
      for _, name in ipairs {"CartPole-v1", "Acrobot-v1",
         "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"} do
         local env = rl.make(name, {render_mode = "svg"})
         assert.raises(".render: call reset before the first picture", function() env:render() end)
         env:reset {seed = 1}
         local text = env:render()
         assert.matches("^<svg xmlns=.*</svg>\n$", text)
         local opened = select(2, text:gsub("<%w", ""))
         local closed = select(2, text:gsub("/>", "")) + select(2, text:gsub("</", ""))
         assert.equal(opened, closed)
         env:close()
      end
   end)

   it("and close reach all environments of a VectorEnv, and those in wrappers", function()
      local envs, closed = rl.make_vec("FrozenLake-v1", 2), 0
      envs:reset {seed = 1}
      assert.equal(2, #envs:render())
      for _, env in ipairs(envs.envs) do env.unwrapped.close = function() closed = closed + 1 end end
      envs:close()
      assert.equal(2, closed)
      local Bare = torch.class("Bare", rl.Env)
      Bare():close()
   end)
end)
