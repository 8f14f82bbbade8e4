-- thread_worker.lua - runs jobs in a thread of the package `threads`; each thread has its own Lua
-- interpreter. The file returns a function that C code calls once when the thread starts. That call
-- returns a second function, which C code calls for each job.

--- Prepares a thread, and returns a function that runs jobs. A job is {code = a text}, {inits =
--- packed functions}, or a packed function with its arguments.
---@param _ fun(worker): boolean
---@param _ any
---@param id integer  the number of the thread, from 0
---@param settings table  default: the name of the default tensor type; shared: whether tensors
--- keep their memory; seed: the seed of the calling interpreter
return function(_, _, id, settings)
   require "tlua.torch7.start"
   local torch = require "tlua.torch7.torch"
   local values = require "tlua.torch7.thread_values"
   torch.setdefaulttensortype(settings.default)
   -- The seed depends on the thread's number, so that each thread draws other random numbers.
   torch.manualSeed(settings.seed + id + 1)
   rawset(_G, "__threadid", id + 1)

   local function run(fn, ...) return values.pack(settings.shared, fn(...)) end
   return function(job)
      if job.code then
         local fn, problem = load(job.code)
         if not fn then error(problem, 0) end
         fn()
      elseif job.inits then
         -- The functions are unpacked and called one after another, since a function may need a
         -- package that the previous function has loaded.
         for _, packed in ipairs(job.inits) do (values.unpack(packed))(id + 1) end
      else
         return run(values.unpack(job))
      end
   end
end
