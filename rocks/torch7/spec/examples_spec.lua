-- Runs the examples under `tlua --torch7`. They are programs in the style of Torch7.

local shell = require "spec.support.shell"

local function run(name, arguments)
   local script = ("local f = assert(loadfile 'rocks/torch7/examples/%s.lua') arg = {%s} print(f())"):format(name,
      arguments or "")
   return shell.ok(("%s --torch7 -e %s"):format(shell.tlua, shell.quote(script)))
end

local function numbers_of(text)
   local list = {}
   for word in text:match("([^\n]*)\n$"):gmatch "%S+" do list[#list + 1] = tonumber(word) end
   return list
end

describe("the example", function()
   it("linear_regression approaches least squares", function()
      local out = run "linear_regression"
      assert.matches("epoch 600: loss", out)
      local losses = numbers_of(out)
      assert.is_true(losses[1] < 1.2 * losses[2])
   end)

   it("logistic_regression tells three kinds apart", function()
      local out = run "logistic_regression"
      assert.matches("global correct", out)
      assert.is_true(numbers_of(out)[1] > 0.95)
   end)

   it("lenet learns bars by StochasticGradient, on the CPU and on the simulated device", function()
      local out = run "lenet"
      assert.matches("you have reached the maximum number of iterations", out)
      assert.is_true(numbers_of(out)[1] > 0.9)
      if require "tlua".sim.is_available() then
         assert.matches("of 6 correct", run("lenet", "'-cuda', '-examples', '6', '-epochs', '1'"))
      end
   end)

   it("char_rnn learns through time by clones, on the CPU and on the simulated device", function()
      local losses = numbers_of(run "char_rnn")
      assert.is_true(losses[2] < 0.6 * losses[1])
      if require "tlua".sim.is_available() then
         local moved = numbers_of(run("char_rnn", "'-cuda', '-steps', '2'"))
         local plain = numbers_of(run("char_rnn", "'-steps', '2'"))
         assert.is_true(math.abs(moved[1] - plain[1]) < 1e-4)
      end
   end)

   it("rnn counts ones by a recurrent network, on the CPU and on the simulated device", function()
      local results = numbers_of(run("rnn", "'-steps', '150'"))
      assert.is_true(results[2] < 0.1 * results[1])
      assert.is_true(results[3] > 0.95)
      if require "tlua".sim.is_available() then
         local moved = numbers_of(run("rnn", "'-cuda', '-steps', '2', '-module', 'GRU'"))
         local plain = numbers_of(run("rnn", "'-steps', '2', '-module', 'GRU'"))
         assert.is_true(math.abs(moved[1] - plain[1]) < 1e-4)
      end
   end)

   it("threads trains with parts of a batch, with the losses of one thread", function()
      local two, one = numbers_of(run "threads"), numbers_of(run("threads", "'-threads', '1'"))
      assert.is_true(two[2] < 0.8 * two[1])
      assert.is_true(math.abs(two[2] - one[2]) < 1e-9)
   end)

   it("siamese brings vectors of one kind together", function()
      local distances = numbers_of(run "siamese")
      assert.is_true(distances[1] < 0.5 * distances[2])
   end)

   it("dcgan trains two networks against each other", function()
      local out = run("dcgan", "'-steps', '20'")
      assert.matches("step 20: G %d", out)
      assert.matches("torch.FloatTensor of size 16x1x16x16", out)
   end)

   it("tracker runs a network from .t7 files", function()
      local out = run "tracker"
      assert.matches("ascii: nn.Sequential sees the object", out)
      assert.is_true(numbers_of(out)[1] < 1e-12)
   end)
end)
