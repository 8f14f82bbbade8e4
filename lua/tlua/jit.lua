-- jit.lua - torch.jit: tlua has no TorchScript. Model code may ask whether it is being scripted,
-- and may mark functions for the compiler. trace, save and load are those of torch.export;
-- functions that compile raise an error with a replacement.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"

local M = {}

--- Returns false: TorchScript does not compile this code.
---@return boolean
function M.is_scripting() return false end

--- Returns whether torch.export or torch.jit.trace is tracing this code.
---@return boolean
function M.is_tracing() return torch.compiler.is_exporting() end

checked.queries(M, "jit.", "is_scripting is_tracing")

--- Traces a model, as torch.export(model, inputs) does: all sizes are fixed to the sizes of the
--- inputs, except in the dimensions that `dynamic` names.
---
---     local program = torch.jit.trace(nn.Linear(2, 1), torch.ones(3, 2))
---     print(#program(torch.ones(3, 2)))
---     --> 3
---@param model nn.Module|function
---@param inputs Tensor|table
---@param options? {dynamic: table<string, table>, names: string[]}
---@return export.Program
function M.trace(model, inputs, options) return torch.export(model, inputs, options) end

--- Saves a program to a file, as torch.export.save does.
---@param program export.Program
---@param path string
function M.save(program, path) torch.export.save(program, path) end

local take_load = args.signature "jit.load(f: string, map_location: device?)"

--- Loads a program from a file, as torch.export.load does. Files of TorchScript are another format.
---@param f string  the path of the file
---@param map_location? string|torch.device  the device on which the program will run; the default
--- device if not given
---@return export.Program
function M.load(...)
   local a = take_load(...)
   local program = torch.export.load(a.f)
   return a.map_location and program:to(a.map_location) or program
end

--- Returns the function unchanged: there is no compiler whose treatment of the function could
--- change.
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
   script = "use the module as it is, or torch.export(m, inputs)",
   trace_module = "use torch.export(m, inputs)",
   freeze = "use torch.freeze(m:eval())",
   optimize_for_inference = "use the module as it is, after m:eval()",
}

--- Raises an error that names a replacement, because there is no TorchScript.
---@names jit.script jit.trace_module jit.freeze jit.optimize_for_inference
---@param ... any
for name, advice in pairs(instead) do
   M[name] = function()
      torch.raise(("jit.%s: there is no TorchScript; %s"):format(name, advice))
   end
end

return M
