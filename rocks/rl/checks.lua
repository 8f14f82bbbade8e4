-- checks.lua - checks of a user's input that environments and agents have in common.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- Raises an error if a method was called without an object, for example as env.step(1) instead of
--- env:step(1).
---@param self any  the first argument of the method
---@param cls table  the class of the method
---@param method string  the method's name
---@param word string  a name for such an object in the message
function M.method(self, cls, method, word)
   local meta = getmetatable(self)
   if type(self) == "table" and meta and class.isinstance(self, cls) then return end
   torch.raise(("%s.%s: expected a call as a method of an instance, %s:%s(...); it was called with "
      .. "%s as the object"):format(cls.__name, method, word, method, args.describe(self)))
end

--- Returns an action, as an integer if the space is discrete. If the action does not fit the space,
--- returns nil and a description of actions that fit. A list of numbers fits a Box if it has as
--- many numbers as the Box has bounds, even if they are outside of these bounds.
---@param space rl.Discrete|rl.Box
---@param action any
---@return integer|number[]|nil action
---@return string? expected
function M.action(space, action)
   if space.n then
      local position = math.type(action) and math.tointeger(action)
      if position and position >= 1 and position <= space.n then return position end
      return nil, "an integer from 1 to " .. space.n
   end
   local count = #space.low
   local fits = type(action) == "table" and #action == count
   for i = 1, fits and count or 0 do
      fits = fits and type(action[i]) == "number" and action[i] == action[i]
   end
   if fits then return action end
   return nil, ("a list of %d numbers"):format(count)
end

--- Raises an error unless the results of an environment's step are a reward and two booleans.
---@param env table  the environment
---@param reward any
---@param terminated any
---@param truncated any
function M.results(env, reward, terminated, truncated)
   if type(reward) ~= "number" or reward ~= reward then
      args.refuse(torch.type(env) .. ".step", "reward", "a number as its second result", reward)
   elseif type(terminated) ~= "boolean" then
      args.refuse(torch.type(env) .. ".step", "terminated", "a boolean as its third result",
         terminated)
   elseif type(truncated) ~= "boolean" then
      args.refuse(torch.type(env) .. ".step", "truncated", "a boolean as its fourth result",
         truncated)
   end
end

--- Returns an observation in a Box as a list. Raises an error unless it has n numbers.
---@param title string  the method that has returned the observation, for the message
---@param observation any  a list or a tensor
---@param n integer
---@return number[]
function M.observation(title, observation, n)
   local list = torch.is_tensor(observation) and observation:tolist() or observation
   if type(list) ~= "table" or #list ~= n then
      torch.raise(("%s: observation: expected a list of %d numbers, got %s"):format(title, n,
         type(list) == "table" and ("a list of %d values"):format(#list) or args.describe(list)))
   end
   for i = 1, n do
      local x = list[i]
      if type(x) ~= "number" or x ~= x then
         torch.raise(("%s: observation: expected numbers, got %s at position %d"):format(title,
            args.describe(x), i))
      end
   end
   return list
end

-- Maps the name of an interval to {test, text}. The test tells whether a number lies in the
-- interval, and the text describes the interval in messages.
local intervals <const> = {
   positive = {function(x) return x > 0 and x < math.huge end, "a number above 0"},
   not_negative = {function(x) return x >= 0 and x < math.huge end, "a number of at least 0"},
   share = {function(x) return x >= 0 and x <= 1 end, "a number from 0 to 1"},
   part = {function(x) return x > 0 and x <= 1 end, "a number above 0, at most 1"},
   updates = {function(x) return x >= 1 or x == -1 end,
      "an integer of at least 1, or -1 for one update a step"},
   count = {function(x) return x >= 1 end, "an integer of at least 1"},
}

local options <const> = {
   learning_rate = "positive", n_steps = "count", batch_size = "count", n_epochs = "count",
   gamma = "share", gae_lambda = "share", clip_range = "positive", ent_coef = "not_negative",
   vf_coef = "not_negative", max_grad_norm = "positive", buffer_size = "count", tau = "part",
   train_freq = "count", gradient_steps = "updates", target_update_interval = "count",
   exploration_fraction = "share", exploration_initial_eps = "share",
   exploration_final_eps = "share", policy_delay = "count", target_policy_noise = "not_negative",
   target_noise_clip = "not_negative", alpha = "not_negative", epsilon = "positive",
   stack_size = "count", buffer_length = "count", max_episode_steps = "count",
}

--- Raises an error if an option of an agent, a buffer or a wrapper is out of range.
---@param title string  the function's name, for the message
---@param a table<string, any>  the options
function M.ranges(title, a)
   for name, interval in pairs(options) do
      local value, row = a[name], intervals[interval]
      if type(value) == "number" and not row[1](value) then
         args.refuse(title, name, row[2], value)
      end
   end
end

--- Returns a list with the sizes of the hidden layers, after checking them.
---@param title string  the function's name, for the message
---@param hidden? integer|integer[]
---@param default integer[]
---@return integer[]
function M.hidden(title, hidden, default)
   if hidden == nil then return default end
   if type(hidden) == "number" then hidden = {hidden} end
   for _, size in ipairs(hidden) do
      if size < 1 then args.refuse(title, "hidden", "sizes of at least 1", size) end
   end
   return hidden
end

return M
