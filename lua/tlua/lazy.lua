-- lazy.lua - tables whose fields are loaded when they are first used, so that starting costs
-- nothing for what a program does not need.

--- Makes fields of `target` load on first use. A module either is the field's value, or has a field
--- of that name. Once loaded it is an ordinary field; until then `pairs` does not show it, but the
--- metatable's `lazy` lists it, for completion.
---@param target table
---@param modules table<string, string>  field -> the Lua module that it comes from
---@return table target
return function(target, modules)
   return setmetatable(target, {
      lazy = modules,
      __index = function(_, name)
         local module = modules[name]
         if not module then return nil end
         local value = require(module)
         if type(value) == "table" then
            local field = rawget(value, name)
            if field ~= nil then value = field end
         end
         rawset(target, name, value)
         return value
      end,
   })
end
