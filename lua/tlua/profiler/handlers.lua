-- handlers.lua - functions for torch.profiler.profile's option on_trace_ready.

local torch = require "tlua"
local args = require "tlua.args"
local notice = require "tlua.utils.notice"

local M = {}

local written = 0

local signature = args.signature [[tensorboard_trace_handler(dir_name: string,
   worker_name: string = 'tlua', use_gzip: boolean = false)]]

--- Returns a function for on_trace_ready that writes a trace into a folder where TensorBoard's
--- profiler plugin looks for it: `dir_name`/`worker_name`.N.pt.trace.json. If writing fails, a
--- message goes to the host's logger or the standard error, and the program continues.
---@param dir_name string  created if it does not exist
---@param options? {worker_name: string, use_gzip: boolean}  worker_name is "tlua" by default;
--- use_gzip must be false, because traces are not compressed
---@return fun(prof: profiler.Profile)
function M.tensorboard_trace_handler(...)
   local a = signature(...)
   local dir, worker_name = a.dir_name, a.worker_name
   if dir == "" then args.refuse("tensorboard_trace_handler", "dir_name", "a folder", dir) end
   if a.use_gzip then
      args.refuse("tensorboard_trace_handler", "use_gzip", "false; traces are not compressed", true)
   end
   return function(prof)
      written = written + 1
      local path = ("%s/%s.%d%03d.pt.trace.json"):format(dir, worker_name, os.time(), written)
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
