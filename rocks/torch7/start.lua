-- start.lua - implements `tlua --torch7`. Makes Torch7's packages available as globals and to
-- `require`, and defines the functions of Lua 5.1 that Torch7 programs use.

local classes = require "tlua.torch7.classes"

local modules = {torch = "torch", nn = "nn", optim = "optim", image = "image", paths = "paths",
   xlua = "xlua", sys = "sys", nngraph = "nngraph", cutorch = "cutorch", cunn = "nn", cudnn = "nn",
   gnuplot = "gnuplot", trepl = "trepl", rnn = "rnn", dpnn = "rnn", threads = "threads",
   tds = "tds", dataset = "dataset", ["dataset.Dataset"] = "dataset", class = "class",
   cjson = "cjson"}

-- These packages become globals when they are required.
local globals = {cutorch = true, cunn = true, cudnn = true, gnuplot = true, rnn = true, dpnn = true}

for name, file in pairs(modules) do
   package.preload[name] = function()
      local value = require("tlua.torch7." .. file)
      if globals[name] and rawget(_G, name) == nil then rawset(_G, name, value) end
      if (name == "cunn" or name == "cudnn") then require "cutorch" end
      return value
   end
end
package.preload.argcheck = function() return require "tlua.torch7.argcheck".argcheck end
package.preload["argcheck.env"] = function() return require "tlua.torch7.argcheck".env end
package.preload["argcheck.usage"] = function() return require "tlua.torch7.argcheck".usage end
package.preload["threads.queue"] = function() return require "tlua.torch7.thread_queue".Queue end
package.preload["threads.serialize"] = function()
   return require "tlua.torch7.thread_queue".serialize
end
package.preload["threads.safe"] = function() return require "tlua.torch7.threads".safe end

-- The table has the functions of Lua 5.1 that Lua 5.4 lacks.
local older = {unpack = table.unpack, loadstring = load, table = {maxn = function(list)
   local most = 0
   for key in pairs(list) do
      if type(key) == "number" then most = math.max(most, key) end
   end
   return most
end, getn = function(list) return #list end}, math = {
   pow = function(x, y) return x ^ y end, log10 = function(x) return math.log(x, 10) end,
   mod = math.fmod, ldexp = function(x, n) return x * 2.0 ^ n end,
   cosh = function(x) return (math.exp(x) + math.exp(-x)) / 2 end,
   sinh = function(x) return (math.exp(x) - math.exp(-x)) / 2 end,
   tanh = function(x)
      local e = math.exp(-2 * math.abs(x))
      return (x < 0 and -1 or 1) * (1 - e) / (1 + e)
   end,
}, string = {gfind = string.gmatch}}

for name, value in pairs(older) do
   if type(value) == "function" then
      if rawget(_G, name) == nil then rawset(_G, name, value) end
   else
      for field, fn in pairs(value) do _G[name][field] = _G[name][field] or fn end
   end
end

require "tlua.torch7.environments"

for _, name in ipairs {"torch", "nn", "optim", "image", "paths", "xlua", "sys"} do
   local value = require("tlua.torch7." .. modules[name])
   rawset(_G, name, value)
   package.loaded[name] = value
   classes.root(name, value)
end

require "tlua.torch7.trepl".install()

return true
