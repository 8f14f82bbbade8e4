-- handlers.lua - functions for torch.profiler.profile's option on_trace_ready.

local torch = require "tlua"
local notice = require "tlua.utils.notice"

local M = {}

local written = 0

--- Returns a function for on_trace_ready that writes a trace into a folder where TensorBoard's
--- profiler plugin looks for it: `dir`/`worker_name`.N.pt.trace.json. If writing fails, a message
--- is printed on stderr and the program continues.
---@param dir string  created if it does not exist
---@param worker_name? string
---@return fun(prof: profiler.Profile)
function M.tensorboard_trace_handler(dir, worker_name)
   if type(dir) ~= "string" or dir == "" then
      torch.raise("tensorboard_trace_handler: dir: expected the name of a folder")
   end
   return function(prof)
      written = written + 1
      local path = ("%s/%s.%d%03d.pt.trace.json"):format(dir, worker_name or "tlua", os.time(),
         written)
      local ok, message = torch.io.make_folder(dir)
      if ok then
         ok, message = pcall(prof.export_chrome_trace, prof, path)
      else
         message = ("tensorboard_trace_handler: %s: %s"):format(dir, message)
      end
      if not ok then notice("%s", message) end
   end
end

return M
