-- Env.lua - the base class of environments.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.rl.checks"

--- The base class of environments. A derived class sets action_space and observation_space. It
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
---@field state any  the state on which the next step depends; a program may set it
local Env = class.class("rl.Env")

local take_reset = args.signature "rl.Env.reset(seed: integer?)"

local empty <const> = setmetatable({}, {__tostring = function() return "{}" end,
   __newindex = function() error("info: is shared, and cannot be changed", 2) end})

-- Methods of the user's class -------------------------------------------------------------------

local function lacking(self, method, what)
   torch.raise(("%s.%s: is not defined; a class derived from rl.Env defines %s"):format(
      torch.type(self), method, what))
end

--- Begins an episode. A derived class must define this method.
function Env:start() lacking(self, "start", "start(), which begins an episode") end

--- Returns the observation of the current state. A derived class must define this method.
---@return any observation  a list of numbers for a Box, an integer for a Discrete space
function Env:observe() lacking(self, "observe", "observe(), which returns the observation") end

--- Makes a step with an action. A derived class must define this method.
---@param action integer|number[]  an element of action_space
---@return number reward
---@return boolean terminated  whether the task has ended
function Env:advance(action) -- luacheck: no unused args
   lacking(self, "advance", "advance(action), which returns the reward and whether the episode has "
      .. "terminated")
end

--- Returns a picture of the state as a text: letters, or an SVG document. A derived class may
--- define this method.
---@return string
function Env:render()
   lacking(self, "render", "render(), which returns a picture, if it has one")
end

--- Frees the environment's resources. A derived class may define this method.
function Env:close() end

-- Returns an observation as Lua values: a list for a Box, an integer for a Discrete space. Raises
-- an error if the observation is not in the space.
local function checked(self, observation)
   local space = self.observation_space
   if torch.is_tensor(observation) then observation = observation:tolist() end
   local n = space.n
   if n then
      local position = math.type(observation) and math.tointeger(observation)
      if position and position >= 1 and position <= n then return position end
      args.refuse(torch.type(self) .. ".observe", "observation", "an integer from 1 to " .. n,
         observation)
   end
   return checks.observation(torch.type(self) .. ".observe", observation, #space.low)
end

local function check_spaces(self)
   for _, name in ipairs {"action_space", "observation_space"} do
      local space = self[name]
      if type(space) ~= "table" or space.n == nil and space.low == nil then
         args.refuse(torch.type(self), name, "a rl.Discrete or a rl.Box, set in __init", space)
      end
   end
end

--- Begins an episode.
---@param options? {seed: integer}  seed: the seed of the environment's random numbers
---@return any observation  a list of numbers for a Box, an integer for a Discrete space
---@return table info
function Env:reset(...)
   if type(self) ~= "table" or not self.advance then checks.method(self, Env, "reset", "env") end
   local seed = take_reset(...).seed
   check_spaces(self)
   if seed then
      self.generator = torch.Generator():manual_seed(seed)
   elseif not self.generator then
      self.generator = torch.Generator():manual_seed(torch.randint(0, 1 << 40, {1},
         {dtype = "int64", device = "cpu"}):item())
   end
   self.last_action = nil
   self:start()
   self.running = true
   return checked(self, self:observe()), empty
end

--- Makes a step with an action, and returns its results.
---@param action integer|number[]  an element of action_space
---@return any observation
---@return number reward
---@return boolean terminated  whether the task has ended
---@return boolean truncated  whether the episode was cut off
---@return table info
function Env:step(action)
   if type(self) ~= "table" or not self.advance then checks.method(self, Env, "step", "env") end
   if self.running == nil then
      torch.raise(torch.type(self) .. ".step: call reset before the first step")
   end
   if not self.running then
      torch.raise(torch.type(self) .. ".step: the episode has ended; call reset")
   end
   if torch.is_tensor(action) then action = action:tolist() end
   local found, expected = checks.action(self.action_space, action)
   if found == nil then
      args.refuse(torch.type(self) .. ".step", "action", expected, action)
   end
   action = found
   local reward, terminated = self:advance(action)
   if type(reward) ~= "number" or reward ~= reward then
      args.refuse(torch.type(self) .. ".advance", "reward", "a number as its first result", reward)
   elseif type(terminated) ~= "boolean" then
      args.refuse(torch.type(self) .. ".advance", "terminated", "a boolean as its second result",
         terminated)
   end
   self.last_action, self.running = action, not terminated
   return checked(self, self:observe()), reward, terminated, false, empty
end

--- Returns uniform random numbers from the environment's generator.
---@param n integer  the number of random numbers
---@param low number  the lower bound
---@param high number  the upper bound
---@return number[]
function Env:uniform(n, low, high)
   local list = torch.rand(n, {generator = self.generator, dtype = "float64"}):tolist()
   for i = 1, n do list[i] = low + (high - low) * list[i] end
   return list
end

return Env
