-- spaces.lua - sets of possible actions and observations.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- The set of the integers from 1 to n.
---
---     local space = torch.rl.Discrete(3)
---     print(space:contains(3), space:contains(0))
---     --> true	false
---@class rl.Discrete
---@field n integer  the number of elements
---@overload fun(n: integer): rl.Discrete
M.Discrete = class.class("rl.Discrete")

local take_discrete = args.signature "rl.Discrete(n: count)"

---@param n integer  the number of elements
function M.Discrete:__init(...)
   self.n = take_discrete(...).n
   if self.n < 1 then args.refuse("rl.Discrete", "n", "at least 1", self.n) end
end

--- Returns a random element.
---@param generator? torch.Generator
---@return integer
function M.Discrete:sample(generator)
   return torch.randint(1, self.n + 1, {1}, {generator = generator}):item()
end

--- Returns whether a value is an element.
---@param value any
---@return boolean
function M.Discrete:contains(value)
   return math.type(value) == "integer" and value >= 1 and value <= self.n
end

--- The set of lists of numbers in which each number lies between two bounds.
---
---     local space = torch.rl.Box({-1, -2}, {1, 2})
---     print(space:contains {0.5, 1.5}, space:contains {1.5, 0})
---     --> true	false
---@class rl.Box
---@field low number[]  the lower bounds
---@field high number[]  the upper bounds
---@overload fun(low: number[], high: number[]): rl.Box
M.Box = class.class("rl.Box")

local take_box = args.signature "rl.Box(low: numbers, high: numbers)"

---@param low number[]  the lower bounds
---@param high number[]  the upper bounds
function M.Box:__init(...)
   local a = take_box(...)
   if #a.low ~= #a.high or #a.low == 0 then
      torch.raise(("rl.Box: high: expected as many bounds as low, got %d and %d"):format(#a.low,
         #a.high))
   end
   for i, low in ipairs(a.low) do
      local high = a.high[i]
      if low > high or low ~= low or high ~= high then
         torch.raise(("rl.Box: high: expected bounds of at least low, got %s for %s at position "
            .. "%d"):format(high, low, i))
      end
   end
   self.low, self.high = a.low, a.high
end

--- Returns whether all bounds are finite.
---@return boolean
function M.Box:is_bounded()
   for i, low in ipairs(self.low) do
      if low == -math.huge or self.high[i] == math.huge then return false end
   end
   return true
end

--- Returns a random element. A number between two bounds has a uniform distribution. With only one
--- bound, the distance from the bound has an exponential distribution. A number without bounds has
--- a normal distribution.
---@param generator? torch.Generator
---@return number[]
function M.Box:sample(generator)
   local list = {}
   for i, low in ipairs(self.low) do
      local high = self.high[i]
      if low == -math.huge and high == math.huge then
         list[i] = torch.randn(1, {generator = generator}):item()
      elseif low == -math.huge or high == math.huge then
         local distance = -math.log(1 - torch.rand(1, {generator = generator}):item())
         list[i] = low == -math.huge and high - distance or low + distance
      else
         list[i] = low + (high - low) * torch.rand(1, {generator = generator}):item()
      end
   end
   return list
end

--- Returns whether a value is an element.
---@param value any
---@return boolean
function M.Box:contains(value)
   if torch.is_tensor(value) then value = value:tolist() end
   if type(value) ~= "table" or #value ~= #self.low then return false end
   for i, low in ipairs(self.low) do
      if type(value[i]) ~= "number" or not (value[i] >= low and value[i] <= self.high[i]) then
         return false
      end
   end
   return true
end

return M
