-- Tests ranks that are killed at random moments. The result must equal that of an uninterrupted training bit for bit,
-- and no files or processes may remain. SPEC_KILLS is the number of kills (3 by default).

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

local asked = tonumber(os.getenv "SPEC_KILLS")
local kills = asked or 3
local root = shell.ok("pwd"):match "[^\n]+"

local function train(steps, options)
   return ("%s run -n 2 %s %s/examples/elastic.lua --steps %d"):format(shell.quote(ranks.tlua), options, root, steps)
end

local function last_line(output) return output:match "%[0%] (step %d+: %d+ of %d+ digits right, weights %x+)" end

-- Trains without interruption, and then again while ranks are killed. Returns whether enough ranks were killed before
-- the second training ended.
local function train_and_kill(folder, steps)
   local expected = last_line(shell.ok(("cd %s && %s --fresh --checkpoint alone"):format(folder, train(steps, ""))))
   assert.truthy(expected)
   -- A script that repeatedly kills one of the launcher's children after up to 0.6 seconds.
   shell.write(folder .. "/kill.sh", ([[
      # lists only tlua's files, since other programs create and delete files there too
      shared() { ls /dev/shm 2>/dev/null | grep tlua; }
      before=$(shared)
      (exec %s --checkpoint "$PWD/killed" >out 2>&1) & run=$!
      done=0 seed=%d
      while [ $done -lt %d ] && [ -e /proc/$run ]; do
         seed=$(( (seed * 1103515245 + 12345) %% 2147483648 ))
         sleep 0.$(( seed / 65536 %% 6 ))$(( seed / 1024 %% 10 ))
         set -- $(cat /proc/$run/task/$run/children 2>/dev/null)
         [ $# -gt 0 ] || continue
         [ $(( seed / 4096 %% 2 )) = 0 ] || shift $(( $# - 1 ))
         kill -9 $1 2>/dev/null && done=$(( done + 1 ))
      done
      wait $run
      echo "status $?, killed $done" >>out
      sleep 0.2
      for p in /proc/[0-9]*; do
         tr '\0' ' ' <$p/cmdline | grep -q "checkpoint $PWD/killed" && echo "left a process" >>out
      done 2>/dev/null
      [ "$before" = "$(shared)" ] || echo "left shared memory" >>out
      cat out]]):format(train(steps, "--max-restarts " .. kills), os.time() % 65536, kills))
   local output = shell.run("cd " .. folder .. " && sh ./kill.sh")
   assert.matches("status 0", output)
   assert.equal(expected, last_line(output), output)
   assert.is_nil(output:find "left a process", output)
   assert.is_nil(output:find "left shared memory", output)
   return tonumber(output:match "killed (%d+)") >= (asked or 1)
end

describe("a training whose ranks are killed", function()
   it("goes on from its last checkpoint and ends with the same bits", function()
      local steps, enough = 300 * kills, false
      while not enough do
         assert.truthy(steps < 1e6)
         enough = shell.with_folder(function(folder) return train_and_kill(folder, steps) end)
         steps = 4 * steps -- on a fast machine, the training must be longer so that it can be interrupted
      end
   end)

   it("takes a checkpoint up with another number of ranks", shell.in_folder(function(folder)
      local command = ("cd %s && %s run -n %%d %%s %s/examples/elastic.lua --steps %%d"):format(folder,
         shell.quote(ranks.tlua), root)
      local output = shell.ok(command:format(2, "--max-restarts 1", 40) .. " --die-at 35")
      assert.matches("going on from step 30", output)
      assert.matches("going on from step 40", shell.ok(command:format(3, "", 60)))
   end))
end)
