-- lazy.lua - tables whose fields are loaded when they are first used, so that starting costs
-- nothing for what a program does not need.

--- Makes fields of `target` load on first use. A module either has a field of that name, or is the
--- value itself, as one that can be called always is. Once loaded it is an ordinary field; until
--- then `pairs` does not show it, but the metatable's `lazy` lists it, for completion.
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
