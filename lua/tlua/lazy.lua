-- lazy.lua - tables whose fields are loaded when they are first used, so that starting costs
-- nothing for what a program does not need.

local M = {}

--- Which module has which field.
---@param package string  what the modules' names begin with, such as "tlua.nn"
---@param names table<string, string>  the last part of a module's name -> the fields that it has
---@return table<string, string> modules  field -> module
function M.modules(package, names)
   local modules = {}
   for module, fields in pairs(names) do
      for field in fields:gmatch "[%w_]+" do modules[field] = package .. "." .. module end
   end
   return modules
end

--- Makes fields of `target` load on first use. A module either has a field of that name, or is the
--- value itself, as one that can be called always is. Once loaded it is an ordinary field; until
--- then `pairs` does not show it, but the metatable's `lazy` lists it, for completion.
---@param target table
---@param modules table<string, string>  field -> the Lua module that it comes from
---@return table target
function M.load(target, modules)
   return setmetatable(target, {
      lazy = modules,
      __index = function(_, name)
         local module = modules[name]
         if not module then return nil end
         local value = require(module)
         local meta = getmetatable(value)
         if type(value) == "table" and not (meta and meta.__call) then
            local field = rawget(value, name)
            if field ~= nil then value = field end
         end
         rawset(target, name, value)
         return value
      end,
   })
end

return M
