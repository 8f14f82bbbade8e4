-- Starting: scripts are started by shells, in loops, by impatient people.

local shell = require "spec.support.shell"

-- Sanitizers and valgrind have their own idea of speed.
local plain_build = not shell.build:find("/")

-- The fastest of several rounds, in milliseconds for one start: other work on
-- the machine makes a start slower, never faster.
local function start_time(arguments)
   local rounds <const>, starts <const> = 5, 10
   local script = ("a=$(date +%%s%%N); for i in 1 2 3 4 5 6 7 8 9 10; do %s %s; done; " ..
      "b=$(date +%%s%%N); echo $((b - a))"):format(shell.quote(shell.tlua), arguments)
   local best = math.huge
   for _ = 1, rounds do best = math.min(best, tonumber(shell.ok(script)) / starts / 1e6) end
   return best
end

describe("starting", function()
   it("takes less than 10 ms", function()
      if not plain_build then return pending("a build for checking, not for speed") end
      local time = start_time("-e ''")
      assert.is_true(time < 10, ("%.2f ms"):format(time))
   end)

   it("and a first sum less than 20 ms", function()
      if not plain_build then return pending("a build for checking, not for speed") end
      local time = start_time("-e 'assert(torch.ones(3):sum():item() == 3)'")
      assert.is_true(time < 20, ("%.2f ms"):format(time))
   end)
end)
