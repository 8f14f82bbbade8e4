-- jit.lua - torch.jit: there is no TorchScript. Model code asks whether it is being scripted and
-- marks functions for the compiler; that works. What would compile, save or load says what to use.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Whether this code is compiled by TorchScript: false.
---@return boolean
function M.is_scripting() return false end

--- Whether this code is being traced: false.
---@return boolean
function M.is_tracing() return false end

-- Marks: the function itself.
for _, name in ipairs {"ignore", "unused", "export", "script_if_tracing"} do
   M[name] = function(fn)
      if not args.is_callable(fn) then args.refuse("jit." .. name, "fn", "a function", fn) end
      return fn
   end
end

local instead <const> = {
   script = "use the module as it is",
   trace = "use the module as it is",
   trace_module = "use the module as it is",
   freeze = "use the module as it is, after m:eval()",
   optimize_for_inference = "use the module as it is, after m:eval()",
   save = "save its weights with torch.save(m:state_dict(), path)",
   load = "make the module and load its weights with m:load_state_dict(torch.load(path))",
}

for name, advice in pairs(instead) do
   M[name] = function()
      torch.raise(("jit.%s: there is no TorchScript; %s"):format(name, advice))
   end
end

return M
