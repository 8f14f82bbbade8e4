-- watch.lua - records calls of modules, steps of optimizers, and the program's own calls of the
-- garbage collector as spans while a profile is running.

local torch = require "tlua"
local spans = require "tlua.profiler.spans"

local M = {}

-- the modules that are being called, as {module, path}; the outermost call comes first
local active = {}

-- Maps a module to a table from its descendants to their paths, which may be outdated.
local paths = setmetatable({}, {__mode = "k"})

local function paths_below(module)
   local found = setmetatable({}, {__mode = "k"})
   for path, below in module:named_modules() do found[below] = path end
   paths[module] = found
   return found
end

-- Returns a module's path from the outermost module that is being called, as "Sequential.1".
local function path_of(module)
   for i = #active, 1, -1 do
      local outer = active[i]
      local known = paths[outer.module]
      local inner = known and known[module] or paths_below(outer.module)[module]
      if inner then return inner == "" and outer.path or outer.path .. "." .. inner end
   end
   return (torch.type(module):gsub("^nn%.", ""))
end

-- A to-be-closed value that ends a module's call, even after an error.
local Call = {}
function Call:__close()
   for i = #active, self.depth, -1 do active[i] = nil end
   torch._span_close(self.session, self.event)
end

local function call_module(call, module, ...)
   if not torch._spans_seen() then return call(module, ...) end
   local path = path_of(module)
   local depth = #active + 1
   active[depth] = {module = module, path = path}
   local class = torch.type(module):gsub("^nn%.", "")
   local name = path == class and path or ("%s (%s)"):format(path, class)
   local session, event = torch._span_open("module", name)
   local _ <close> = setmetatable({depth = depth, session = session, event = event}, Call)
   return call(module, ...)
end

local function call_step(step, optimizer, closure, options)
   local name = "Optimizer.step#" .. torch.type(optimizer):match "[^.]*$"
   return spans.call("optimizer", name, step, optimizer, closure, options)
end

local collect -- the program's own function collectgarbage, while watched_collect replaces it

local function watched_collect(what, ...)
   if what == nil or what == "collect" or what == "step" then
      return spans.call("collector", "collector: collectgarbage", collect, what, ...)
   end
   return collect(what, ...)
end

local function watch_collections(on)
   local now = _G.collectgarbage
   if on and now ~= watched_collect then
      collect, _G.collectgarbage = now, watched_collect
   elseif not on and now == watched_collect then
      _G.collectgarbage = collect
   end
end

local serial = 0

--- Starts, or with `on` false stops, recording spans for steps of optimizers, calls of
--- collectgarbage and, if `modules` is true, calls of modules.
---@param on boolean
---@param modules? boolean
---@return integer serial  the number of this watch, for `leave`
function M.set(on, modules)
   serial = serial + 1
   local Module = require "tlua.nn.modules.Module"
   Module._watch(on and modules and call_module or nil)
   rawset(require "tlua.optim.Optimizer", "around", on and call_step or nil)
   watch_collections(on)
   active = {}
   return serial
end

--- Stops watching, unless another watch has begun since `watch` was returned by `set`.
---@param watch? integer
function M.leave(watch)
   if watch == serial then M.set(false) end
end

return M
