-- init.lua - the Lua half of `torch`. The C half calls this chunk with the table that holds the
-- operators; it adds the modules written in Lua, each loaded when it is first used, so that
-- starting costs nothing for what a program does not need.

local torch = ...

--- Makes fields load on first use. Once loaded a field is an ordinary one; until then `pairs` does
--- not show it, but the metatable's `lazy` lists it, for completion.
---@param target table
---@param modules table<string, string>  field -> the Lua module that it is
---@param members table<string, string>  field -> the Lua module that has a field of that name
local function load_on_use(target, modules, members)
   local lazy = {}
   for _, list in ipairs {modules, members} do
      for name, module in pairs(list) do
         if target[name] == nil then lazy[name] = module end -- what is there in C stays
      end
   end
   setmetatable(target, {
      lazy = lazy,
      __index = function(_, name)
         local module = lazy[name]
         if not module then return nil end
         local value = require(module)
         if members[name] then value = value[name] end
         rawset(target, name, value)
         return value
      end,
   })
end

load_on_use(torch, {
   nn = "tlua.nn",
   optim = "tlua.optim",
   data = "tlua.data",
   utils = "tlua.utils",
}, {
   class = "tlua.class",
   isinstance = "tlua.class",
   type = "tlua.class",
   save = "tlua.io",
   load = "tlua.io",
   help = "tlua.repl.manual",
})

load_on_use(torch.autograd, {
   Function = "tlua.autograd.Function",
   functional = "tlua.autograd.functional",
}, {
   gradcheck = "tlua.autograd.gradcheck",
   gradgradcheck = "tlua.autograd.gradcheck",
})

return torch
