-- Kills trainings by SIGKILL at random places, resumes them, and compares their weights and metrics
-- with those of a training that was not killed:
--
--    tlua rocks/trainer/spec/kills.lua [kills] [ranks] [strategy] [seed]
--
-- kills: the number of kills, 100 by default. strategy: "auto", "ddp", "fsdp" or "sharded" (fsdp with a folder for each
-- checkpoint). A training is resumed, and killed again, until it ends. The exit status is 1 if a result differs.

package.path = "./?.lua;" .. package.path
local shell = require "spec.support.shell"
local killed = dofile "rocks/trainer/spec/killed.lua"

local kills, ranks = tonumber(arg[1] or 100), tonumber(arg[2] or 1)
local strategy = arg[3] or "auto"
math.randomseed(tonumber(arg[4] or 1))

local hooks <const> = {"on_train_start", "on_train_batch_start", "on_after_backward",
   "on_before_optimizer_step", "on_train_batch_end", "on_validation_start", "on_validation_end",
   "on_train_epoch_end", "on_save_checkpoint"}

shell.with_folder(function(folder)
   local run = killed.runner(folder, ranks, strategy)
   local whole = run "whole"
   local done, trainings, equal = 0, 0, 0
   while done < kills do
      trainings = trainings + 1
      local name, story = "training" .. trainings, {}
      local result, resumes
      repeat
         local hook = hooks[math.random(#hooks)]
         local often = hook:find "batch" or hook:find "backward" or hook:find "save" or hook:find "step"
         local kill = done < kills and {hook = hook, call = math.random(often and 8 or 2),
            rank = math.random(0, ranks - 1)} or nil
         result = run(name, kill, resumes)
         if not result then
            done = done + 1
            story[#story + 1] = ("%s %d"):format(kill.hook, kill.call)
         end
         -- A resumed training gets another seed. So it must be started anew, with the first seed, if there is no
         -- checkpoint yet.
         local _, status = shell.run(("ls -d %s/%s/*.ckpt"):format(folder, name))
         resumes = status == 0 and "resumes" or nil
      until result
      if result == whole then
         equal = equal + 1
      else
         print(("training %d differs; it was killed at %s"):format(trainings, table.concat(story, ", ")))
      end
      os.execute(("rm -rf %s/%s"):format(folder, name))
   end
   print(("%d ranks, strategy %s: %d kills in %d trainings, %d of them with the same bits"):format(
      ranks, strategy, done, trainings, equal))
   if equal < trainings then os.exit(1, true) end
end)
