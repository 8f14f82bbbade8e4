-- worker.lua - the script of a DataLoader worker's interpreter. The module returns a function,
-- which C code calls once. That function returns the function that C code then calls for each job.

local torch = require "tlua"
local fetch = require "tlua.data.fetch"
local get_worker_info = require "tlua.data.get_worker_info"
local items = require "tlua.data.items"

-- Removes the standard functions that the main program lacks, so that a worker has the same
-- functions as the program.
local function restrict(libraries)
   for name, library in pairs(package.loaded) do
      local allowed = libraries[name]
      if libraries.standard[name] then
         for field in pairs(library) do
            if not (allowed and allowed[field]) and library[field] ~= library then
               library[field] = nil
            end
         end
      end
   end
end

-- Loads the globals torch, nn and optim when they are first used. Some of the program's globals
-- could not be sent to the worker. Reading such a global raises an error with the reason.
local function explain_globals()
   local missing = debug.getregistry()["tlua.missing"] or {}
   local modules = {torch = "tlua", nn = "tlua.nn", optim = "tlua.optim"}
   setmetatable(_G, {__index = function(globals, name)
      if missing[name] then error(missing[name], 2) end
      local module = modules[name]
      if not module then return nil end
      rawset(globals, name, require(module))
      return rawget(globals, name)
   end})
end

local function seed(number)
   torch.manual_seed(number)
   math.randomseed(number)
end

--- Prepares the interpreter of a worker, and returns a function that makes one batch for each job.
---@param stopped fun(worker): boolean
---@param worker any  the worker's description
---@param id integer  from 0
---@param source table  the source that fetch.lua takes, with the further fields worker_init_fn,
--- num_workers, pin_device, default_dtype, default_device, libraries
---@param base integer  the seed of the first epoch
return function(stopped, worker, id, source, base)
   explain_globals()
   restrict(source.libraries)
   torch.set_default_dtype(source.default_dtype)
   torch.set_default_device(source.default_device)
   source.stopped = function() return stopped(worker) end
   get_worker_info.info = {
      id = id, num_workers = source.num_workers, seed = base + id, dataset = source.dataset,
   }
   seed(fetch.seed(base, -1 - id))
   if source.is_pipe then
      items.pipe_settings(source.dataset).apply_sharding(source.dataset,
         source.num_workers * source.world_size, id * source.world_size + source.rank)
   end
   if source.worker_init_fn then source.worker_init_fn(id) end

   local function finish(...)
      if source.pin_device then return fetch.pin(source.pin_device, ...) end
      return ...
   end

   local epoch, next_batch -- the current epoch of a stream, and the iterator over its batches
   return function(epoch_base, number, positions)
      get_worker_info.info.seed = epoch_base + id
      seed(fetch.seed(epoch_base, number))
      if positions then return finish(fetch.batch(source, positions)) end
      if epoch ~= epoch_base then
         epoch, next_batch = epoch_base, fetch.stream(source, epoch_base)
      end
      return finish(next_batch())
   end
end
