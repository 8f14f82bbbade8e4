-- Tests texts that are shown to users: progress bars, confusion matrices and suggestions.
local torch = require "tlua"
local suggest = torch.utils.suggest

it("torch.utils.suggest finds the name that was meant", function()
   local names = {"padding", "stride", "padding_mode", "lr", "betas"}
   for typed, meant in pairs {
      paddin = "padding", pading = "padding", Stride = "stride", stirde = "stride",
      bettas = "betas", padding_mod = "padding_mode",
   } do
      assert.equal(meant, suggest.nearest(typed, names))
   end
   assert.is_nil(suggest.nearest("momentum", names))
   assert.equal("lr", suggest.nearest("lr_", {lr = 1, eps = 2}))
   assert.equal("", suggest.hint("xyz", names))
end)

describe("torch.utils.ConfusionMatrix", function()
   it("counts which class was taken for which", function()
      local confusion = torch.utils.ConfusionMatrix(3)
      confusion:add(torch.tensor {1, 2, 2, 3}, torch.tensor {1, 2, 3, 3})
      confusion:add(torch.tensor {{0.1, 0.9, 0.0}}, torch.tensor {1})
      assert.same({{1, 1, 0}, {0, 1, 0}, {0, 1, 1}}, confusion.counts:tolist())
      assert.same({5, 3, 0.6}, {confusion:total(), confusion:correct(), confusion:accuracy()})
   end)

   it("is printed as a table", function()
      local confusion = torch.utils.ConfusionMatrix(2, {names = {"cat", "dog"}})
      confusion:add(torch.tensor {1, 1, 2}, torch.tensor {1, 2, 2})
      assert.equal(table.concat({
         "    | cat dog   recall",
         "----+--------",
         "cat |   1   .  100.0 %",
         "dog |   1   1   50.0 %",
      }, "\n"), tostring(confusion))
   end)

   it("refuses classes that do not exist", function()
      local confusion = torch.utils.ConfusionMatrix(2)
      assert.raises("expected classes from 1 to 2", function() confusion:add(torch.tensor {3}, torch.tensor {1}) end)
      assert.raises("as many targets as predictions",
         function() confusion:add(torch.tensor {1, 2}, torch.tensor {1}) end)
   end)
end)

describe("torch.utils.Progress", function()
   local path
   before_each(function() path = os.tmpname() end)
   after_each(function() os.remove(path) end)

   it("writes only the last line into a file", function()
      local file = assert(io.open(path, "w"))
      local bar = torch.utils.Progress {total = 4, stream = file}
      for _ = 1, 4 do bar:step(1, "note") end
      bar:finish "all done"
      file:close()
      local text <close> = assert(io.open(path))
      assert.equal("all done\n", text:read "a")
   end)

   it("shows share, bar and note", function()
      local bar = torch.utils.Progress {total = 8, label = "epoch 1", width = 4, unit = "digits"}
      bar.live = false
      bar:step(3)
      local text = bar:render "loss 1"
      assert.matches("^epoch 1 █▌··  38%%", text)
      assert.matches("digits/s", text)
      assert.matches("loss 1$", text)
      bar:step(5)
      assert.matches("████ 100%%", bar:render())
   end)

   it("goes around any loop", function()
      local file <close> = assert(io.open(path, "w"))
      local function collect(what)
         local bar = torch.utils.Progress {stream = file}
         local list = {}
         for a, b in bar:each(what) do list[#list + 1] = {a, b} end
         return list, bar
      end
      local numbers, bar = collect(3)
      assert.same({{1}, {2}, {3}}, numbers)
      assert.same({3, 3}, {bar.done, bar.total})
      assert.same({{1, "a"}, {2, "b"}}, (collect {"a", "b"}))
      local lines, open = collect(("x y z"):gmatch "%a")
      assert.equal(3, #lines)
      assert.is_nil(open.total)
      assert.equal(3, open.done)
      local dataset = torch.data.TensorDataset(torch.arange(1, 6), torch.arange(1, 6))
      local batches, loaded = collect(torch.data.DataLoader(dataset, {batch_size = 2}))
      assert.same({3, 3}, {#batches, loaded.total})
      assert.same({1, 2}, batches[1][2]:tolist())
      assert.same({}, (collect(0)))
      assert.raises("Progress.each: what: expected a number of steps, a list, a loader",
         function() torch.utils.Progress():each(true) end)
   end)

   it("shows values, and a count where there is no total", function()
      local bar = torch.utils.Progress {label = "reading", unit = "lines"}
      bar.live = false
      bar:step(12)
      bar:set {loss = 0.123456, epoch = 3}
      assert.matches("^reading 12 lines  [%d.]+ lines/s  epoch 3, loss 0.1235$", bar:render())
   end)

   it("says how long a slow step takes", function()
      local bar = torch.utils.Progress {total = 10, unit = "epochs", width = 4}
      bar.live = false
      bar:step(2)
      bar.begun = bar.begun - 100
      assert.matches("50 s for each of the epochs  6:4%d left", bar:render())
      bar.begun = bar.begun + 99
      bar.elapsed = function() return 1 end
      assert.matches("2.0 epochs/s  4 s left", bar:render(), 1, true)
   end)
end)
