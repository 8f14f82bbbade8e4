-- Env.lua - the base of environments.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

--- The base of environments. A class derived from it sets action_space and observation_space, and
--- defines start(), which begins an episode, observe(), and advance(action), which returns the
--- reward and whether the episode has terminated.
---
---     local Coin = torch.class("Coin", torch.rl.Env)
---     function Coin:__init()
---        self.action_space = torch.rl.Discrete(2)
---        self.observation_space = torch.rl.Discrete(1)
---     end
---     function Coin:start() end
---     function Coin:observe() return 1 end
---     function Coin:advance(action) return action == 2 and 1.0 or 0.0, true end
---     local coin = Coin()
---     coin:reset {seed = 1}
---     print(coin:step(2))
---     --> 1	1.0	true	false	{}
---@class rl.Env
---@field action_space rl.Discrete|rl.Box  the set of actions
---@field observation_space rl.Discrete|rl.Box  the set of observations
---@field state any  what the next step depends on; a program may set it
local Env = class.class("rl.Env")

local take_reset = args.signature "rl.Env.reset(seed: integer?)"

local empty <const> = setmetatable({}, {__tostring = function() return "{}" end,
   __newindex = function() error("info: is shared, and cannot be changed", 2) end})

--- Begins an episode.
---@param options? {seed: integer}  seed: what the environment's random numbers start from
---@return any observation  a list of numbers for a Box, an integer for a Discrete space
---@return table info
function Env:reset(...)
   local seed = take_reset(...).seed
   if seed then
      self.generator = torch.Generator():manual_seed(seed)
   elseif not self.generator then
      self.generator = torch.Generator():manual_seed(torch.randint(0, 1 << 40, {1},
         {dtype = "int64", device = "cpu"}):item())
   end
   self.running = true
   self:start()
   return self:observe(), empty
end

--- Acts, and returns what follows.
---@param action integer|number[]  an element of action_space
---@return any observation
---@return number reward
---@return boolean terminated  whether the task has ended
---@return boolean truncated  whether the episode was cut off
---@return table info
function Env:step(action)
   if self.running == nil then
      torch.raise(torch.type(self) .. ".step: call reset before the first step")
   end
   if not self.running then
      torch.raise(torch.type(self) .. ".step: the episode has ended; call reset")
   end
   local reward, terminated
   if type(action) == "number" and math.tointeger(action) then action = math.tointeger(action) end
   if self.action_space.n then
      if not self.action_space:contains(action) then
         args.refuse(torch.type(self) .. ".step", "action", "an integer from 1 to "
            .. self.action_space.n, action)
      end
   else
      if torch.is_tensor(action) then action = action:tolist() end
      local count = #self.action_space.low
      if type(action) ~= "table" or #action ~= count or type(action[1]) ~= "number"
         or action[1] ~= action[1] then
         args.refuse(torch.type(self) .. ".step", "action", ("a list of %d numbers"):format(count),
            action)
      end
   end
   reward, terminated = self:advance(action)
   self.running = not terminated
   return self:observe(), reward, terminated, false, empty
end

--- Returns uniform random numbers of the environment's generator.
---@param n integer  how many
---@param low number  the lower bound
---@param high number  the upper bound
---@return number[]
function Env:uniform(n, low, high)
   local list = torch.rand(n, {generator = self.generator, dtype = "float64"}):tolist()
   for i = 1, n do list[i] = low + (high - low) * list[i] end
   return list
end

return Env
