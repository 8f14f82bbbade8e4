-- hooks.lua - lists of hook functions, which are called in order.

local args = require "tlua.args"

local M = {}

--- Adds a function to a list; the `remove` method of the returned handle removes the function.
---@param list function[]
---@param name string  the function that the user has called, for the message
---@param hook function
---@param prepend? boolean  call it before the existing hooks
---@return {remove: fun(self: table)} handle
function M.add(list, name, hook, prepend)
   if type(hook) ~= "function" then args.refuse(name, "hook", "a function", hook) end
   local entry = {hook}
   table.insert(list, prepend and 1 or #list + 1, entry)
   return {
      remove = function()
         for i, other in ipairs(list) do
            if other == entry then table.remove(list, i) end
         end
      end,
   }
end

--- Iterates over the functions that are in the lists when the iteration starts, so that a function
--- may remove itself while it runs.
---@param ... function[]
---@return fun(): function?
function M.each(...)
   local found, i = {}, 0
   for _, list in ipairs {...} do
      for _, entry in ipairs(list) do found[#found + 1] = entry[1] end
   end
   return function()
      i = i + 1
      return found[i]
   end
end

return M
