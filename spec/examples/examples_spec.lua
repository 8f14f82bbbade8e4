-- Tests that the programs in examples/ run unchanged.
local shell = require "spec.support.shell"

local tlua = shell.start()

-- Runs digits.lua in a separate folder. Returns the program's output and status.
local function digits(arguments)
   return shell.with_folder(function(folder)
      local weights = shell.quote(folder .. "/digits.safetensors")
      local output, status = shell.run(("%s examples/digits.lua --save %s %s"):format(tlua, weights, arguments))
      local saved = io.open(folder .. "/digits.safetensors", "rb")
      if saved then saved:close() end
      return output, status, saved ~= nil
   end)
end

describe("examples/tour.lua", function()
   it("runs to its end", function()
      assert.equal("tour: ok\n", shell.ok(tlua .. " --device cpu examples/tour.lua"))
   end)

   it("runs to its end on the simulated device", function()
      assert.equal("tour: ok\n", shell.ok(tlua .. " --device sim examples/tour.lua"))
   end)
end)

describe("examples/digits_trainer.lua", function()
   it("trains, saves the best epoch and tests with it", shell.in_folder(function(folder)
      local output = shell.ok(("%s examples/digits_trainer.lua --epochs 4 --logs %s"):format(tlua, folder))
      assert.truthy(tonumber(output:match "test_accuracy +([%d.]+)") > 0.85, output)
      assert.matches("epoch=%d%-step=%d+%.ckpt\n$", shell.ok(("ls %s/tlua_logs/version_0/checkpoints"):format(folder)))
   end))
end)

describe("examples/karate.lua", function()
   it("finds communities, and draws the club", shell.in_folder(function(folder)
      local output = shell.ok(("%s examples/karate.lua --svg %s/club.svg"):format(tlua, folder))
      local right = tonumber(output:match "(%d+) of 30 other members are in their community")
      assert.is_true(right and right >= 20, output)
      local svg = shell.read(folder .. "/club.svg")
      assert.equal(34, select(2, svg:gsub("<circle", "")))
      assert.equal(78, select(2, svg:gsub("<line", "")))
   end))
end)

describe("examples/agents.lua", function()
   for agent, steps in pairs {ppo = 2000, dqn = 1500, sac = 200} do
      it("learns for some steps: " .. agent, shell.in_folder(function(folder)
         local output = shell.ok(("%s examples/agents.lua --agent %s --steps %d --save %s/agent.safetensors"):format(
            tlua, agent, steps, folder))
         assert.matches("\n20 other episodes: %-?[%d.]+, deviation [%d.]+\n$", output)
         assert.matches("agent.safetensors", shell.ok("ls " .. folder), 1, true)
      end))
   end
end)

describe("examples/deploy", function()
   it("trains in a C program without Lua, and goes on with what it saved", function()
      if os.getenv "SPEC_SANITIZED" == "1" then
         return pending "the program would need the sanitizer's options"
      end
      shell.with_folder(function(folder)
         shell.ok(("%s examples/deploy/export_step.lua --save %s/step.tlp --infer %s/digits.tlp --steps 1000"):format(
            tlua, folder, folder))
         shell.ok(("%s -Isrc -o %s/train examples/deploy/train.c %s/libtlua.a -lm -ldl -lpthread"):format(
            os.getenv "CC" or "cc", folder, shell.quote(shell.build)))
         local first = shell.ok(("%s/train %s/step.tlp %s/digits.tlp examples/data/digits.csv %s/saved.tlp"):format(
            folder, folder, folder, folder))
         assert.truthy(tonumber(first:match "(%d+) of 360 new digits read right\n$") > 320, first)
         local later = shell.ok(("%s/train %s/saved.tlp %s/digits.tlp examples/data/digits.csv"):format(
            folder, folder, folder))
         assert.truthy(tonumber(later:match "epoch  1: loss ([%d.]+)") < 0.3, later)
         local _, status = shell.run(("%s/train %s/digits.tlp %s/digits.tlp examples/data/digits.csv"):format(
            folder, folder, folder))
         assert.equal(1, status)
      end)
   end)
end)

it("examples/profile.lua shows why a loop is slow, and fewer calls after its repair", function()
   local output = shell.ok(tlua .. " examples/profile.lua --steps 3")
   assert.matches("== the slow loop ==.*backward.*waiting for data.*== the repaired loop ==", output)
   local times = output:match "makes (%d+) times fewer calls"
   assert.is_true(tonumber(times) >= 5, output)
end)

describe("examples/miniproject.lua", function()
   it("trains in full and mixed precision, and shows where the time goes", shell.in_folder(function(folder)
      local output = shell.ok(("%s examples/miniproject.lua --epochs 3 --width 32 --blocks 1 "
         .. "--logs %s"):format(tlua, folder))
      for _, dtype in ipairs {"float32", "bfloat16"} do
         assert.matches("== " .. dtype .. ": %d+ parameters ==.*The most expensive modules.*mixers", output)
         local accuracy = output:match("\n" .. dtype .. " +[%d.]+ +([%d.]+) +[%d.]+\n")
         assert.is_true(tonumber(accuracy) > 0.7, output)
      end
      assert.matches("accuracy  %(bfloat16: .*float32: ", shell.ok(tlua .. " top --once " .. folder))
   end))
end)

it("examples/ddp.lua learns on two processes", function()
   local output = shell.ok(shell.quote(shell.tlua) .. " run -n 2 examples/ddp.lua --epochs 2")
   local accuracy = tonumber(output:match "2 processes: .*test accuracy: ([%d.]+)")
   assert.truthy(accuracy > 0.9, output)
end)

describe("examples/memory.lua", function()
   local function amounts(arguments)
      local output = shell.ok(tlua .. " examples/memory.lua " .. arguments)
      local found = {}
      for now in output:gmatch "\n%l[^\n]- +(%d%.%d%d) GB" do found[#found + 1] = now end
      return found, output
   end

   it("shows the gigabytes that a GPU would need", function()
      local found, output = amounts "--device sim"
      assert.same({"0.20", "0.40", "0.30", "0.30"}, found, output)
      assert.matches("float32 matrices of 5000 x 5000 on sim: 0.10 GB each", output, 1, true)
   end)

   it("shows the same on the CPU", function()
      assert.same({"0.02", "0.04", "0.03", "0.03"}, (amounts "--size 1600"))
   end)
end)

describe("examples/streams.lua", function()
   it("computes the same with one stream and with two, in any order of work", function()
      local sums = {}
      for seed = 1, 3 do
         local output = shell.ok(("TLUA_SIM_SEED=%d %s examples/streams.lua --size 64 --parts 5"):format(seed, tlua))
         assert.matches("5 parts of 64 x 64, 4 products each, on simulated device 0\n" ..
            "one stream +%d+%.%d%d ms\ntwo streams +%d+%.%d%d ms", output)
         sums[seed] = output:match "sum +([%d.]+), the same both ways"
      end
      assert.same({sums[1], sums[1], sums[1]}, sums)
   end)

   it("says that the CPU has no streams", function()
      local output, status = shell.run(tlua .. " examples/streams.lua --device cpu")
      assert.equal(1, status)
      assert.matches("--device: expected sim or cuda, got cpu", output, 1, true)
   end)
end)

-- With a sanitizer, training takes minutes, so the program trains for only one epoch.
local sanitized = os.getenv "SPEC_SANITIZED" == "1"

describe("examples/digits.lua", function()
   it("runs without options", function()
      local output, status, saved = digits("--epochs 1")
      assert.equal(0, status, output)
      assert.is_true(saved)
      assert.matches("\ntest accuracy: 0%.%d%d%d%d %(%d+/360%)\n", output)
   end)

   it("explains its options and refuses others", function()
      local output, status = digits("--help")
      assert.equal(0, status)
      for option in ("epochs batch lr seed threads device data save"):gmatch "%a+" do
         assert.matches("--" .. option, output, 1, true)
      end
      output, status = digits("--epoch 3")
      assert.equal(2, status)
      assert.matches("did you mean --epochs?", output, 1, true)
   end)

   it("says which file is missing", function()
      local output, status = digits("--data /nowhere/digits.csv")
      assert.equal(1, status)
      assert.matches("/nowhere/digits.csv: No such file", output, 1, true)
   end)
end)

if sanitized then return end

describe("a whole training of examples/digits.lua", function()
   it("learns to read digits", function()
      local output, status, saved = digits("--seed 1")
      assert.equal(0, status, output)
      local accuracy, right, all = output:match "\ntest accuracy: (%d%.%d%d%d%d) %((%d+)/(%d+)%)\n"
      assert.equal("360", all)
      assert.close(tonumber(right) / 360, tonumber(accuracy), 1e-4)
      assert.is_true(tonumber(accuracy) >= 0.975, "accuracy " .. accuracy)
      assert.is_true(saved)
      assert.matches("training took %d+%.%d+ s", output)
      assert.matches("1437 digits to learn from, 360 to test with", output, 1, true)
      assert.matches("epoch 12/12  loss 0%.%d+", output)
   end)

   for seed = 2, 3 do
      it("learns with another seed, " .. seed, function()
         local output, status = digits("--seed " .. seed)
         assert.equal(0, status, output)
         local right = tonumber(output:match "\ntest accuracy: %d%.%d%d%d%d %((%d+)/360%)\n")
         assert.is_true(right >= 351, output) -- 0.975 of 360
      end)
   end

   -- Trains for one epoch, and returns the output without the times.
   local function result(arguments)
      local output = digits("--epochs 1 " .. arguments)
      return (output:gsub("%d+ digits/s", ""):gsub("took [%d.]+ s", "")
         :gsub("%d+ threads", ""):gsub("saved to [^\n]+", ""))
   end

   it("gives the same results on the simulated device", function()
      local first = result("--seed 4")
      assert.matches("loss %d", first)
      assert.equal(first, result("--seed 4 --device sim"))
   end)

   it("gives the same results for the same seed and any number of threads", function()
      local first = result("--seed 4 --threads 1")
      assert.equal(first, result("--seed 4 --threads 2"))
      assert.not_equal(first, result("--seed 5 --threads 1"))
   end)
end)
