-- thread.lua - the interpreter of a thread that runs a server for torch.serve.start.

local control = require "tlua.serve.control"

local jobs = {}
local running

function jobs.start(settings)
   settings.log = function(text)
      if not settings.quiet then io.stderr:write("serve: ", text, "\n") end
   end
   running = control.start(settings)
   return running.server:id(), running.server:port()
end

-- Whether the program wants the server to end: a counter of the control's queue.
local function ends(server) return server:counters(0)[1] > 0 end

function jobs.serve(_, stopped)
   while not stopped() and not ends(running.server) do control.step(running, 0.05) end
   control.stop(running)
end

return function(stopped, handle)
   return function(job, settings)
      return jobs[job](settings, function() return stopped(handle) end)
   end
end
