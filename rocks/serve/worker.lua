-- worker.lua - serves one version of a model in the interpreter of a thread. The module returns a
-- function. C code calls this function once when the thread starts. The call returns a second
-- function, which C code calls for each job. The jobs are "copy", "load", which returns the model's
-- description, and "serve", which ends when the model's queue is closed and empty.

local torch = require "tlua"
local library = require "tlua.serve.library"

local kinds <const> = {
   program = "tlua.serve.program", language = "tlua.serve.language", script = "tlua.serve.script",
}

return function(stopped, handle, _, spec)
   local http = assert(library.open())
   local server = assert(http.attach(spec.server), "the server has ended")
   local queue, options = spec.queue, spec.options
   local model

   local jobs = {}

   -- Copies the model's file. Returns true if the copy was made, and false if no copy is needed or
   -- possible.
   function jobs.copy()
      local from <close> = spec.copy and io.open(spec.path, "rb")
      local to <close> = from and io.open(spec.copy, "wb")
      if not to then return false end
      while not stopped(handle) do
         local part, problem = from:read(1 << 20)
         if part == nil then return not problem and to:flush() ~= nil end
         if not to:write(part) then return false end
      end
      return false
   end

   local function load()
      if options.threads then torch.set_num_threads(options.threads) end
      model = require(kinds[spec.kind]).load(spec, http)
      return model:describe()
   end

   function jobs.load(copied)
      local path = spec.path
      if copied then spec.path = spec.copy end
      local ok, result = pcall(load)
      if ok then return result end
      -- The message names the copy; its path is replaced by the path of the model.
      local text = tostring(result)
      local first, last = text:find(spec.path, 1, true)
      error(first and text:sub(1, first - 1) .. path .. text:sub(last + 1) or text, 0)
   end

   local function count(counter, n) server:count(queue, counter, n) end

   function jobs.serve()
      -- If the model cannot run requests together, each of its threads takes one request at a time,
      -- so that the other threads can take the next requests.
      local most = model.batch and model.max_batch_size or options.instances == 1 and 16 or 1
      local linger = model.batch and options.max_queue_delay or 0
      local _ <close> = torch.no_grad()
      if model.serve then
         return model:serve(server, queue, function() return stopped(handle) end, count)
      end
      while not stopped(handle) do
         local batch <close> = server:batch(queue, most, 0.25, linger)
         if not batch then break end
         if batch:size() > 0 then model:answer(batch, count) end
      end
   end

   return function(job, ...) return jobs[job](...) end
end
