-- Tests `tlua fit --sweep`.

local Asha = require "tlua.trainer.sweep_asha"
local shell = require "spec.support.shell"

local CONFIG <const> = [[
   local torch = require "tlua"
   return {
      build = function(model, data)
         if model.width == 13 then error "width 13 is unlucky" end
         -- This process is the parent of the shell that `os.execute` starts. Its own parent is the shell that waits for
         -- it.
         if model.width == 14 then os.execute "kill -9 $PPID" end
         if model.width == 15 then os.execute "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat) $PPID" end
         local x = torch.randn(data.count, 3)
         local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
         local net = torch.nn.Sequential(torch.nn.Linear(3, model.width), torch.nn.Linear(model.width, 1))
         return torch.trainer.Learner(net, torch.nn.MSELoss(), {lr = model.lr, optimizer = model.optimizer}),
            torch.data.DataLoader(set, {batch_size = 4, shuffle = true}),
            torch.data.DataLoader(set, {batch_size = 4})
      end,
      model = {width = 4, lr = 0.01, optimizer = "Adam", sizes = {1}}, data = {count = 16}, seed = 1,
      trainer = {max_epochs = 4, logger = false, enable_model_summary = false},
      sweep = SWEEP,
   }]]

-- Makes a folder with a configuration, and calls fn(fit, folder). fit(words) runs `tlua fit` in this folder.
local function with_config(fn, sweep)
   return shell.with_folder(function(folder)
      local file <close> = assert(io.open(folder .. "/config.lua", "w"))
      file:write((CONFIG:gsub("SWEEP", sweep or "nil")))
      file:close()
      local tlua = shell.start(true)
      return fn(function(words)
         return shell.run(("cd %s && %s fit config.lua %s 2>&1"):format(folder, tlua, words))
      end, folder)
   end)
end

describe("a sweep", function()
   it("trains once for each combination of values, and names failed trials", function()
      with_config(function(fit, folder)
         local words = '--sweep grid --sweep.model.width "{2, 13}" --sweep.model.lr "{0.1, 0.01}" --sweep.workers 2'
         local said, status = fit(words)
         assert.equal(0, status)
         assert.matches("4 trials, 2 at a time, in sweep\n", said)
         assert.matches("trial 2 of 4 %(model.lr=0.1, model.width=13%) failed: [^\n]*width 13 is unlucky %(see "
            .. "sweep/trial%-2/log.txt%)\n", said)
         assert.matches("failed: 2 of 4 trials: 2, 4\n", said)
         local csv = shell.read(folder .. "/sweep/results.csv")
         assert.matches("^trial,status,epochs,steps,val_loss,model.lr,model.width,failure\n"
            .. "1,done,4,16,[%d.e-]+,0.1,2,\n2,failed,,,,0.1,13,[^\n]*unlucky\n3,done,4,16,", csv)
         local number, value, command, text =
            said:match "best: trial (%d), val_loss = (%S+) after 4 epochs\ntlua (fit [^\n]+)\n(return .*)$"
         local config = assert(load(text))()
         assert.equal(2, config.model.width)
         assert.equal(number == "1" and 0.1 or 0.01, config.model.lr)
         -- The sweep has printed the command of its best trial. This command gives the same value.
         local again = fit(command:gsub("^fit config.lua ", ""))
         assert.matches("val_loss +" .. value:gsub("%p", "%%%0") .. "\n", again)
         -- the second run of the sweep trains nothing again
         local second = fit(words)
         assert.matches("4 of 4 results are there already\nresults: ", second)
         assert.equal(csv, shell.read(folder .. "/sweep/results.csv"))
      end)
   end)

   it("draws values that depend only on the seed, also with more trials and workers", function()
      with_config(function(fit, folder)
         local words = '--sweep random --sweep.model.lr "{min = 1e-4, max = 1, log = true}" --sweep.model.width '
            .. '"{min = 2, max = 9}" --sweep.model.optimizer \'{"SGD", "Adam"}\' --trainer.max_epochs 1 '
         local function csv(more, place)
            local said, status = fit(words .. more .. " --sweep.folder " .. place)
            assert.equal(0, status, said)
            return shell.read(("%s/%s/results.csv"):format(folder, place))
         end
         local three = csv("--sweep.trials 3", "a")
         assert.equal(three, csv("--sweep.trials 3 --sweep.workers 3", "b"))
         local five = csv("--sweep.trials 5", "a")
         assert.equal(three, five:sub(1, #three))
         assert.not_equal(three, csv("--sweep.trials 3 --sweep.seed 1", "c"))
         for lr, optimizer, width in five:gmatch "\n%d,done,1,4,[%d.e-]+,([%d.e-]+),(%a+),(%d+)," do
            assert.is_true(tonumber(lr) > 1e-4 and tonumber(lr) < 1 and tonumber(width) >= 2 and tonumber(width) <= 9)
            assert.is_true(optimizer == "SGD" or optimizer == "Adam")
         end
      end)
   end)

   it("trains the best trials longer, from their checkpoints", function()
      with_config(function(fit, folder)
         local said, status = fit '--sweep halving --sweep.factor 2'
         assert.equal(0, status, said)
         assert.matches("4 trials, 2 at a time, in halves\n", said)
         assert.matches("2 of 4 trials go on after 1 epoch\n", said)
         assert.matches("1 of 4 trials go on after 2 epochs\n", said)
         local counts = {}
         for state, epochs in shell.read(folder .. "/halves/results.csv"):gmatch "\n%d,(%a+),(%d)," do
            counts[state .. epochs] = (counts[state .. epochs] or 0) + 1
         end
         assert.same({stopped1 = 2, stopped2 = 1, done4 = 1}, counts)
         local value, command = said:match "val_loss = (%S+) after 4 epochs\ntlua fit config.lua ([^\n]+)\nreturn"
         assert.matches("val_loss +" .. value:gsub("%p", "%%%0") .. "\n", (fit(command)))
      end, [[{workers = 2, folder = "halves", space = {["model.lr"] = {0.1, 0.03, 0.01, 0.003}}}]])
   end)

   it("takes trials on without waiting for others, by results that one worker repeats", function()
      with_config(function(fit, folder)
         local words = '--sweep asha --sweep.trials 7 --sweep.factor 2 --sweep.model.lr '
            .. '"{min = 1e-3, max = 0.3, log = true}" --trainer.max_epochs 4 --sweep.folder '
         local said, status = fit(words .. "a")
         assert.equal(0, status, said)
         -- Each trial that was trained for longer must have been among the best half of its rung.
         local values, rung, begun, promotions = {{}, {}, {}}, {}, 0, 0
         local rungs <const> = {["1"] = 1, ["2"] = 2, ["4"] = 3}
         for line in said:gmatch "[^\n]+" do
            local number, epoch = line:match "^trial (%d) goes on until epoch (%d)"
            if number then
               local at, worse = rungs[epoch] - 1, 0
               for other, value in pairs(values[at]) do
                  if other ~= number and value >= values[at][number] then worse = worse + 1 end
               end
               local count = 0
               for _ in pairs(values[at]) do count = count + 1 end
               assert.equal(rung[number], at)
               assert.is_true(count - worse <= count // 2, line)
               promotions = promotions + 1
            end
            local name, value, epochs = line:match "^trial (%d) of 7 .*val_loss = (%S+) after (%d)"
            if name then
               begun = math.max(begun, tonumber(name))
               rung[name], values[rungs[epochs]][name] = rungs[epochs], tonumber(value)
            end
         end
         assert.equal(7, begun)
         assert.is_true(promotions >= 3 and next(values[3]) ~= nil)
         local csv = shell.read(folder .. "/a/results.csv")
         assert.equal((said:gsub("in a\n", "in b\n"):gsub(": a/", ": b/")), (fit(words .. "b")))
         assert.equal(csv, shell.read(folder .. "/b/results.csv"))
         -- If the last results of a sweep are missing, the sweep repeats only the trainings that produce them.
         local results = {}
         for number, epochs in said:gmatch "\ntrial (%d) of 7 [^\n]* after (%d) epochs?%f[\n]" do
            results[#results + 1] = ("trial-%s/result-%s.json"):format(number, epochs)
         end
         shell.ok(("cd %s/b && rm results.csv %s"):format(folder, table.concat(results, " ", #results - 2)))
         local again = fit(words .. "b")
         assert.matches("%d+ of 7 results are there already\n", again)
         assert.equal(csv, shell.read(folder .. "/b/results.csv"))
         local parallel = fit(words .. "c --sweep.workers 2")
         assert.matches("best: trial %d, val_loss = %S+ after 4 epochs\n", parallel)
      end)
   end)

   it("loses only the trials whose processes are killed", function()
      with_config(function(fit, folder)
         for _, workers in ipairs {1, 2} do
            local said, status = fit(('--sweep asha --sweep.factor 2 --sweep.model.width "{14, 3, 15, 4, 5, 6}" '
               .. '--sweep.folder %d --sweep.workers %d'):format(workers, workers))
            assert.equal(0, status, said)
            assert.matches("trial 1 of 6 [^\n]* failed: was killed by signal 9 ", said)
            assert.matches("trial 3 of 6 [^\n]* failed: was killed by signal 9 ", said)
            assert.matches("failed: 2 of 6 trials: 1, 3\n", said)
            assert.matches("best: trial [2456], val_loss = %S+ after 4 epochs\n", said)
            local ended = 0
            local csv = shell.read(("%s/%d/results.csv"):format(folder, workers))
            for _ in csv:gmatch "\n%d,%a+,[124]," do ended = ended + 1 end
            assert.equal(4, ended)
         end
      end)
   end)

   it("goes on after it was killed", function()
      with_config(function(fit, folder)
         local words = '--sweep grid --sweep.model.lr "{0.1, 0.03, 0.01, 0.003, 0.001, 0.3}" --sweep.workers 2'
         local whole = fit(words .. " --sweep.folder whole")
         -- The inner shell replaces itself by the command, so the number in the file `pid` is the number of the
         -- command's process.
         local tlua = shell.start(true)
         shell.run(([[cd %s && { sh -c 'echo $$ >pid; exec %s fit config.lua %s' & }
            until ls sweep/trial-*/result-all.json; do sleep 0.02; done; kill -9 $(cat pid); wait]]):format(folder,
            tlua:gsub("'", ""), words))
         assert.equal(6, select(2, whole:gsub("after 4 epochs\n", "")) - 1)
         local said, status = fit(words)
         assert.equal(0, status, said)
         assert.matches("%d of 6 results are there already\n", said)
         assert.equal(shell.read(folder .. "/whole/results.csv"), shell.read(folder .. "/sweep/results.csv"))
      end)
   end)

   it("refuses a damaged description of a sweep", function()
      with_config(function(fit, folder)
         assert(os.execute(("mkdir %s/sweep"):format(folder)))
         for text, expected in pairs {['{"config"'] = "sweep/sweep.json: at byte 10: ",
            ["5"] = "sweep/sweep.json: expected a JSON object, got 5"} do
            local file <close> = assert(io.open(folder .. "/sweep/sweep.json", "w"))
            file:write(text)
            file:flush()
            local said, status = fit '--sweep grid --sweep.model.width "{2}"'
            assert.equal(1, status)
            assert.matches("tlua fit: " .. expected, said, 1, true)
            assert.equal(text, shell.read(folder .. "/sweep/sweep.json"))
         end
      end)
   end)

   it("fails if no trial succeeds, or none logs the monitored value", function()
      with_config(function(fit)
         local said, status = fit '--sweep grid --sweep.model.width "{13}"'
         assert.equal(1, status)
         assert.matches("no trial has a value of val_loss\n", said)
         said, status = fit '--sweep grid --sweep.model.lr "{0.1}" --sweep.monitor loss --sweep.folder other'
         assert.equal(1, status)
         assert.matches('failed: "loss" was not logged; there are train_loss, val_loss', said)
      end)
   end)

   it("names wrong options before it trains", function()
      with_config(function(fit)
         for _, row in ipairs {
            {"--sweep gird --sweep.model.lr {0.1}",
               "--sweep: expected grid, random, halving or asha, got gird; did you mean grid?"},
            {"--sweep grid", "--sweep: expected values to try, such as --sweep.model.lr"},
            {"--sweep.model.lr {0.1}", "--sweep.model.lr: expected --sweep grid, random, halving or asha, too"},
            {"--sweep grid --sweep.model.rl {0.1}", "model has no such field"},
            {"--sweep grid --sweep.model.width {1.5}", "--model.width: expected an integer, got 1.5"},
            {"--sweep grid --sweep.model.lr 0.1", "--sweep.model.lr: got 0.1; expected a list such as {0.1, 0.01}"},
            {"--sweep grid --sweep.model.lr {}", "--sweep.model.lr: got "},
            {"--sweep grid --sweep.model.lr '{min = 0, max = 1}'", "a grid needs a list of values, got a range"},
            {"--sweep random --sweep.model.lr '{min = 0, max = 1}'", "expected the number of trials"},
            {"--sweep random --sweep.trials 0 --sweep.model.lr {1}",
               "--sweep.trials: expected an integer of at least 1"},
            {"--sweep random --sweep.trials 2 --sweep.model.lr '{min = 0, max = 1, log = true}'",
               "log needs min above 0"},
            {"--sweep random --sweep.trials 2 --sweep.model.lr '{min = 2, max = 1}'", "min the lesser"},
            {"--sweep random --sweep.trials 2 --sweep.model.lr '{min = 1, max = 2, step = 1}'", "unknown field step"},
            {"--sweep grid --sweep.trials 2 --sweep.model.lr {1}", "a grid has as many trials as its lists"},
            {"--sweep grid --sweep.wrokers 2 --sweep.model.lr {1}",
               "unknown option --sweep.wrokers; did you mean workers?"},
            {"--sweep grid --sweep.mode least --sweep.model.lr {1}", "--sweep.mode: expected min or max, got least"},
            {"--sweep halving --trainer.max_epochs 1 --sweep.model.lr {1}", "expected trainer.max_epochs above"},
            {"--sweep asha --trainer.max_epochs 1 --sweep.model.lr {1}",
               "--sweep asha: expected trainer.max_epochs above"},
            {"--sweep halving --sweep.trainer.max_epochs {1}", "halving chooses the number of epochs itself"},
            {"--sweep grid --sweep.model.lr {1} --trainer.max_epoch 2", "did you mean max_epochs?"},
            {"--sweep grid --sweep.model.lr {1} --print-config", "--print-config: expected no --sweep"},
         } do
            local said, status = fit(row[1])
            assert.equal(1, status, row[1])
            assert.is_truthy(said:find(row[2], 1, true), row[1] .. "\n" .. said)
         end
      end)
   end)
end)

describe("the choice of asynchronous halving", function()
   -- Records a value for a trial that ASHA has begun. Without a value, the trial has failed.
   local function note(asha, trial, rung, value)
      trial.status, trial.value = value and "done" or "failed", value
      asha:note(trial, rung)
   end

   it("promotes the best third of a rung as soon as there is one, and else begins a trial", function()
      local trials = {}
      for number = 1, 8 do trials[number] = {number = number, status = "waiting"} end
      local asha = Asha {trials = trials, budgets = {1, 3, 9}, factor = 3, mode = "min"}
      for number = 1, 4 do assert.same({trials[number], 1}, {asha:take(number - 1)}) end
      note(asha, trials[2], 1, 0.5)
      note(asha, trials[1], 1, 0.7)
      assert.same({trials[5], 1}, {asha:take(2)}) -- of two results, the best third is no result, so a new trial begins
      note(asha, trials[4], 1, 0.6)
      assert.same({trials[2], 2}, {asha:take(2)}) -- trials 3 and 5 are still running
      assert.same({trials[6], 1}, {asha:take(3)})
      note(asha, trials[3], 1) -- a trial that has failed is not counted at any rung
      note(asha, trials[5], 1, 0.4)
      assert.same({trials[5], 2}, {asha:take(2)}) -- trial 5 is now the best of 4 results
      assert.same({trials[7], 1}, {asha:take(3)})
      note(asha, trials[6], 1, 0 / 0) -- NaN is the worst value
      note(asha, trials[7], 1, 0.45)
      assert.same({trials[7], 2}, {asha:take(2)}) -- the best third of 6 results are the results of trials 5 and 7
      note(asha, trials[5], 2, 0.3)
      note(asha, trials[2], 2, 0.2)
      assert.same({trials[8], 1}, {asha:take(1)})
      note(asha, trials[8], 1, 0.9)
      assert.is_nil(asha:take(1)) -- trial 7 is still running
      note(asha, trials[7], 2)
      -- Nothing runs or can begin, no trial is in a rung's best third, and none has reached rung 3. So the best trial
      -- is promoted all the same.
      assert.same({trials[2], 3}, {asha:take(0)})
      note(asha, trials[2], 3)
      assert.same({trials[5], 3}, {asha:take(0)}) -- trial 2 has failed, so trial 5 is promoted instead
      note(asha, trials[5], 3, 0.1)
      assert.is_nil(asha:take(0))
      assert.same({trials[5]}, asha:finished())
   end)

   it("takes the greatest values with mode = max", function()
      local trials = {{number = 1}, {number = 2}, {number = 3}}
      local asha = Asha {trials = trials, budgets = {1, 2}, factor = 3, mode = "max"}
      for number = 1, 3 do
         asha:take(0)
         note(asha, trials[number], 1, number)
      end
      assert.same({trials[3], 2}, {asha:take(0)})
   end)
end)
