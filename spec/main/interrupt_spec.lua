-- Tests Ctrl-C in a script. The test sends the same signal as a terminal does.

local session = require "spec.main.session"
local shell = require "spec.support.shell"

-- A script that sends SIGINT `times` times. It waits until the program has used another quarter of a second of
-- processor time before each signal; on a busy machine this may take long. By then the program is inside the code to be
-- interrupted, and has handled the previous signal. With `waits`, or if the system does not report processor time, the
-- script waits for a fixed time before each signal.
local sender <const> = [[
   pid=$1 times=$2 waits=$3
   used() { # of processors, in ticks
      read -r line 2>/dev/null </proc/$pid/stat || line=
      set -- ${line##*) }
      [ -n "${13}" ] || exit
      echo $(( ${12} + ${13} ))
   }
   while [ $times -gt 0 ]; do
      if [ $waits = true ] || ! begin=$(used); then
         sleep 0.4
      else
         until now=$(used) || exit; [ $(( now - begin )) -ge 25 ]; do sleep 0.02; done
      fi
      kill -INT $pid || exit
      times=$(( times - 1 ))
   done]]

-- Runs the program, which begins in line 3 of a script, and meanwhile sends SIGINT to it `times` times.
local function interrupted(program, times, waits)
   local text = ("%q"):format(("set -- $PID %d %s\n%s"):format(times or 1, waits or false, sender))
   return session.script(([[
      local pid = io.popen("echo $PPID"):read("n") -- PPID is the shell's parent
      os.execute("( PID=" .. pid .. "\n" .. %s .. ") >/dev/null 2>&1 &")
      %s]]):format((text:gsub("\\\n", "\\n")), program))
end

describe("SIGINT", function()
   it("ends a script with a traceback and status 1", function()
      local result = interrupted("while true do end")
      assert.matches("script.lua:3: interrupted!\nstack traceback:\n", result.err)
      assert.equal(1, result.status)
   end)

   it("raises an error that pcall catches, once", function()
      local result = interrupted([[
         print(pcall(function() while true do end end))
         local x = 0
         for i = 1, 1e7 do x = x + i end
         print("went on")]])
      assert.matches("^false\t[^\n]*script.lua:3: interrupted!\nwent on\n$", result.out)
      assert.equal(0, result.status)
   end)

   it("closes variables", function()
      local result = interrupted([[
         local x <close> = setmetatable({}, {__close = function() print "closed" end})
         while true do end]])
      assert.equal("closed\n", result.out)
   end)

   it("ends waiting for input", function()
      local result = interrupted([[
         local pipe = io.popen "echo $$; exec sleep 600"
         local sleeper = pipe:read "l"
         print(pcall(pipe.read, pipe, "a"))
         os.execute("kill " .. sleeper)]], 1, true)
      assert.matches("^false\t[^\n]*interrupted!", result.out)
   end)

   -- The source of a C function that gets SIGINT just before a read that blocks, which can happen in io.read. If
   -- nothing interrupts the read, another process ends it after a minute, and the status is then 3.
   local late <const> = [[
      #include <signal.h>
      #include <unistd.h>
      int strike(void *L) {
         int ends[2];
         char byte;
         if (pipe(ends)) return 0;
         pid_t sleeper = fork();
         if (sleeper == 0) {
            sleep(60);
            _exit(0);
         }
         close(ends[1]);
         raise(SIGINT);
         if (read(ends[0], &byte, 1) == 0) _exit(3);
         kill(sleeper, SIGKILL);
         return 0;
      }]]

   it("ends a wait that begins just after it", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/late.c", late)
         shell.ok(("%s -shared -fPIC -o %s/late.so %s/late.c"):format(os.getenv "CC" or "cc", shell.quote(folder),
            shell.quote(folder)))
         local result = session.script(([[
            print(pcall(assert(package.loadlib(%q, "strike"))))
            local n = 0
            for i = 1, 1e6 do n = n + i end
            print "went on"]]):format(folder .. "/late.so"))
         assert.matches("^false\t[^\n]*interrupted!\nwent on\n$", result.out)
         assert.equal(0, result.status)
      end)
   end)

   it("ends a loop of tensor operations", function()
      local result = interrupted([[
         local x = torch.ones(8, 8)
         print(pcall(function() while true do x = x + 1 end end))
         print((x - x):sum():item())]])
      assert.matches("^false\t[^\n]*interrupted!?\n0%.?0?\n$", result.out)
   end)

   -- Each of these calls would take many seconds. The test measures processor time, because elapsed time depends on
   -- other programs.
   it("ends a long operator at any point", function()
      local calls = {
         "local x = torch.ones(3500, 3500, {dtype = 'int64'}) return x:matmul(x)",
         "local x = torch.ones(8, 128, 256, 256) return F.conv2d(x, torch.ones(128, 128, 15, 15))",
         "local x = torch.ones(60, 1500, 1500, {dtype = 'float64'}) return x:matmul(x)",
      }
      for i, call in ipairs(calls) do
         local result = interrupted(([[
            local F = torch.nn.functional
            torch.set_num_threads(%d)
            print(pcall(function() %s end))
            print(os.clock() < 4, torch.ones(3):sum():item())]]):format(i % 2 + 1, call))
         assert.matches("^false\t[^\n]*interrupted!\ntrue\t3%.0\n$", result.out)
      end
   end)

   it("reaches a coroutine", function()
      local result = interrupted([[
         local co = coroutine.create(function() while true do end end)
         local inner = coroutine.wrap(function() return coroutine.resume(co) end)
         print(inner())
         local n = 0
         for i = 1, 1e7 do n = n + i end
         print(coroutine.status(co))]])
      assert.matches("^false\t[^\n]*script.lua:3: interrupted!\ndead\n$", result.out)
   end)

   it("ends the process the third time if the program goes on", function()
      local result = interrupted("string.find(string.rep('a', 300000), '.-b')", 3)
      assert.equal(128 + 2, result.status)
   end)
end)
