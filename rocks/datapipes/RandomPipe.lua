-- RandomPipe.lua - the base class of pipes that draw random numbers. It manages their seeds. A
-- DataLoader seeds the pipes in each epoch, with the same seed in all workers. Without a
-- DataLoader, the pipes draw seeds from the generator of torch.manual_seed.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local fetch = require "tlua.data.fetch"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

---@class data.datapipes.RandomPipe: data.IterDataPipe
local RandomPipe = class.class("data.datapipes.RandomPipe", IterDataPipe)

RandomPipe.enabled = true

--- Turns shuffling on or off.
---@param shuffle? boolean  true by default
---@return data.datapipes.RandomPipe self
function RandomPipe:set_shuffle(shuffle)
   if shuffle ~= nil and type(shuffle) ~= "boolean" then
      args.refuse(torch.type(self) .. ".set_shuffle", "shuffle", "a boolean", shuffle)
   end
   self.enabled = shuffle ~= false
   return self
end

--- Sets the seed of the next iteration. Later iterations draw their seeds from the default
--- generator.
---@param seed integer
---@return data.datapipes.RandomPipe self
function RandomPipe:set_seed(seed)
   if math.type(seed) ~= "integer" then
      args.refuse(torch.type(self) .. ".set_seed", "seed", "an integer", seed)
   end
   self.seed = seed
   return self
end

--- Returns a function that takes n and draws an integer from 1 to n. The seed of the current
--- iteration determines the integers.
---@return fun(n: integer): integer
function RandomPipe:draw()
   local seed, count = self.seed, 0
   self.seed = nil
   if not seed then
      seed = torch.randint(0, math.maxinteger, {1}, {dtype = "int64", device = "cpu"}):item()
   end
   return function(n)
      count = count + 1
      return fetch.seed(seed, count) % n + 1
   end
end

return RandomPipe
