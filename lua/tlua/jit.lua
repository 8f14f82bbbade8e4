-- jit.lua - torch.jit: there is no TorchScript. Model code may ask whether it is being scripted,
-- and mark functions for the compiler: both work. Functions that compile, save or load raise an
-- error with a replacement.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Tells whether this code is compiled by TorchScript: always false.
---@return boolean
function M.is_scripting() return false end

--- Tells whether this code is being traced: always false.
---@return boolean
function M.is_tracing() return false end

--- Returns the function unchanged: there is no compiler for which it could be marked.
---@names jit.ignore jit.unused jit.export jit.script_if_tracing
---@param fn function
---@return function fn
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

--- Raises an error with a replacement: there is no TorchScript.
---@names jit.script jit.trace jit.trace_module jit.freeze jit.optimize_for_inference jit.save
---@names jit.load
---@param ... any
for name, advice in pairs(instead) do
   M[name] = function()
      torch.raise(("jit.%s: there is no TorchScript; %s"):format(name, advice))
   end
end

return M
