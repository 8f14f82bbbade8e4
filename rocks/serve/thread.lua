-- thread.lua - runs a server in the interpreter of a thread, which torch.serve.start has started.

local control = require "tlua.serve.control"
local notice = require "tlua.utils.notice"

local jobs = {}
local running

function jobs.start(settings)
   settings.log = function(text)
      if not settings.quiet then notice("serve: %s", text) end
   end
   running = control.start(settings)
   return running.server:id(), running.server:port()
end

-- Returns whether Server:stop has been called. Server:stop sets the first counter of queue 0 for
-- this purpose.
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
