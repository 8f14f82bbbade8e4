-- Tests short runs of examples/ported, which are programs in the style of PyTorch. Each program must learn something.
local shell = require "spec.support.shell"

local tlua = shell.start()

-- Maps each program to its arguments, a pattern for the number that it prints, and bounds for the number. Without
-- learning, the number would be far outside of these bounds.
local programs = {
   -- an episode needs at least 7 steps; guessing needs 31 on average
   actor_critic = {"", "([%d.]+) at last", 7, 12},
   char_rnn_names = {"--steps 1000", "accuracy: ([%d.]+)", 0.9, 1},         -- guessing: 0.33
   -- for images of noise, this difference would be 1 or more
   dcgan = {"--epochs 3", "differs from the digits' by ([%d.]+)", 0, 0.5},
   dqn = {"", "reaches the goal in (%d+) steps", 10, 14},
   graph_attention = {"", "all nodes: ([%d.]+)", 0.8, 1},   -- guessing: 0.33
   llama = {"--steps 100", "41 42 43 4(%d) 4", 4, 4},
   loaders = {"", "2 workers: (%d+) words", 40, 40},
   maml = {"--steps 100", "([%d.]+) at last", 0, 0.5},
   ppo = {"--updates 25", "([%d.]+) at last", 0, 0.8},      -- 3.2 initially
   pruning = {"", "pruned 3 *%d+.%d %% of weights, accuracy ([%d.]+)", 0.8, 1},
   seq2seq = {"--steps 250", "rows written right: ([%d.]+)", 0.5, 1},       -- guessing: 4e-6
   siamese = {"--steps 150", "([%d.]+) of known digits", 0.85, 1},          -- guessing: 0.5
   style_transfer = {"--steps 20", "([%d.]+) after", 0, 0.01},       -- 0.015 initially
   time_sequence = {"--steps 3", "step 3  test loss ([%d.]+)", 0, 0.1},
   transformer = {"", "in their place: ([%d.]+)", 0.7, 1},  -- guessing: 0.1
   unet = {"--steps 80", "new pictures: ([%d.]+)", 0.7, 1},     -- after only 20 steps, the score would be 0.3
   word_language_model = {"--epochs 3", "epoch 3[^\n]* perplexity ([%d.]+)", 1, 3.5}, -- guessing: 9
}

-- With a sanitizer, only these programs run. The others would take minutes, and the specs of layers already run the
-- same code.
local quick <const> = {actor_critic = true, graph_attention = true, loaders = true, maml = true}
local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"

describe("examples/ported", function()
   local names = {}
   for path in shell.ok("ls examples/ported/*.lua"):gmatch "([%w_]+)%.lua" do names[#names + 1] = path end

   for _, name in ipairs(names) do
      local row = programs[name]
      if row and (quick[name] or not sanitized) then
         it("learns in " .. name .. ".lua", function()
            local output, status = shell.run(("%s examples/ported/%s.lua %s"):format(tlua, name, row[1]))
            assert.equal(0, status, output)
            local figure = tonumber(output:match(row[2]))
            assert.is_truthy(figure, output)
            assert.is_true(figure >= row[3] and figure <= row[4], output)
         end)
      end
   end

   it("agrees with torch in micrograd.lua", function()
      assert.matches("torch agrees", shell.ok(tlua .. " examples/ported/micrograd.lua"), 1, true)
   end)

   it("trains on from a file as without a break in checkpoints.lua", function()
      local output = shell.ok(tlua .. " examples/ported/checkpoints.lua")
      local straight, continued = output:match "loss ([%d.]+) without a break, ([%d.]+) from"
      assert.is_truthy(straight, output)
      assert.equal(straight, continued)
      assert.matches("2 entries missing, 0 unexpected", output, nil, true)
   end)

   it("has a row in this spec for every program", function()
      for _, name in ipairs(names) do
         assert.is_truthy(programs[name] or name == "micrograd" or name == "checkpoints", name)
      end
   end)
end)
