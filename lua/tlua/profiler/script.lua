-- script.lua - `tlua --profile script.lua`: profiles an unmodified script, prints a summary on
-- stderr, and with --html also writes a page.

local torch = require "tlua"

local M = {}

local prof, page, exit

--- Begins to record.
---@param html? string  the page to write
function M.start(html)
   page = html
   prof = torch.profiler.profile {
      profile_memory = html ~= nil, with_flops = true, with_modules = true,
   }
   prof.of_script = true
   exit = _G.os.exit
   _G.os.exit = function(...)
      M.finish()
      return exit(...)
   end
end

--- Ends the recording, prints the summary, and writes the page if there is one. A second call has
--- no effect.
function M.finish()
   if not prof then return end
   local done = prof
   prof, _G.os.exit = nil, exit
   if not done.running and not done.gave_way then return end
   done:stop()
   io.stdout:flush()
   io.stderr:write("\n", done:key_averages():table {row_limit = 20}, "\n", done:summary())
   if done.gave_way then
      io.stderr:write("tlua --profile: the script has begun a profile of its own; this is what " ..
         "came before\n")
   end
   if not page then return end
   local ok, message = pcall(done.export_html, done, page, arg and arg[0])
   io.stderr:write(ok and "the report is in " .. page or tostring(message), "\n")
end

return M
