-- guard.lua - allows only one iteration of a pipe at a time: beginning a second iteration ends the
-- first one. Otherwise two loops over the same pipe would take items from each other, because pipes
-- have buffers, and some sources can be read only once.

local torch = require "tlua"
local args = require "tlua.args"
local scopes = require "tlua.scope"

local M = {}

local weak <const> = {__mode = "k"}
-- maps each pipe to its current iteration; all earlier iterations are invalid
local current = setmetatable({}, weak)
local starting = setmetatable({}, weak) -- the set of pipes whose method `iter` is running

--- Raises an error if an iterator is not callable.
---@param pipe data.IterDataPipe
---@param from string  the method that has returned the iterator
---@param next_item any
function M.check_next(pipe, from, next_item)
   local meta = getmetatable(next_item)
   if type(next_item) ~= "function" and not (type(meta) == "table" and meta.__call) then
      args.refuse(torch.type(pipe), from, "a function that gives the next item", next_item)
   end
end

--- Returns an iterator over the items that `next_item` returns. After the end, every further call
--- returns nil. A call raises an error if `is_valid` returns false.
---@param pipe data.IterDataPipe  the pipe that messages name
---@param next_item fun(): any ...
---@param is_valid fun(): boolean
---@return fun(): any ...
function M.items(pipe, next_item, is_valid)
   local ended = false
   local function pass(first, ...)
      if first == nil then ended = true end
      return first, ...
   end
   return function()
      if ended then return nil end
      if not is_valid() then
         torch.raise(("%s: this iteration ended when another one of the same pipe began; expected "
            .. "one at a time, or pipes that fork has made"):format(torch.type(pipe)))
      end
      return pass(next_item())
   end
end

--- Resets a pipe and begins an iteration with `iter`, a method of the pipe's class. If this method
--- calls `iter` of the parent class, the call belongs to the same iteration.
---@param pipe data.IterDataPipe
---@param iter fun(pipe): fun(): any ...
---@return fun(): any ...
function M.start(pipe, iter)
   if starting[pipe] then return iter(pipe) end
   local iteration <const> = {}
   local next_item
   current[pipe] = iteration
   do
      starting[pipe] = true
      local _ <close> = scopes.new(function() starting[pipe] = nil end)
      pipe:reset()
      next_item = iter(pipe)
   end
   M.check_next(pipe, "iter", next_item)
   return M.items(pipe, next_item, function() return current[pipe] == iteration end)
end

--- Returns a guarded version of a method `iter`, which replaces the method that a class defines.
---@param iter fun(pipe): fun(): any ...
---@return fun(pipe): fun(): any ...
function M.wrap(iter)
   return function(pipe) return M.start(pipe, iter) end
end

return M
