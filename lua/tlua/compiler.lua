-- compiler.lua - torch.compile and torch.compiler. There is no compiler yet: a module or function
-- is returned unchanged and runs operator by operator, with the same results.
-- torch.cuda.capture_step and torch.cuda.make_graphed_callables reduce the overhead of steps on a
-- GPU.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"

local M = {}

local take = args.signature [[compile(model: callable?, fullgraph: boolean = false,
   dynamic: boolean?, backend: any?, mode: string?, options: table?, disable: boolean = false)]]

local modes <const> = {
   default = true, ["reduce-overhead"] = true, ["max-autotune"] = true,
   ["max-autotune-no-cudagraphs"] = true,
}

local function check(...)
   local a = take(...)
   if a.mode and not modes[a.mode] then
      args.refuse("compile", "mode",
         '"default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs"', a.mode)
   end
   return a
end

local function as_it_is(fn) return fn end

--- Returns the model or function unchanged, since nothing is compiled yet. Options are checked, so
--- programs written for PyTorch run, and wrong names are reported. If only options are given, the
--- result is a function that returns its argument, as PyTorch's decorator does.
---@generic T
---@param model? T  a module or a function
---@param options? {fullgraph: boolean, dynamic: boolean, backend: any, mode: string,
--- options: table, disable: boolean}
---@return T model
function M.compile(...)
   local a = check(...)
   if select("#", ...) > 0 and a.model == nil and select(1, ...) == nil then
      args.refuse("compile", "model", "a module or a function", nil)
   end
   return a.model == nil and as_it_is or a.model
end

--- Returns the function unchanged. Without a function, returns a decorator that returns its
--- argument unchanged.
---@generic T
---@param fn? T
---@param options? {recursive: boolean, reason: string}
---@return T fn
function M.disable(fn, options)
   if type(fn) == "table" and not getmetatable(fn) and options == nil then fn = nil end
   if fn ~= nil and not args.is_callable(fn) then
      args.refuse("compiler.disable", "fn", "a module or a function", fn)
   end
   return fn == nil and as_it_is or fn
end

--- Returns the function unchanged: there is no compiler whose treatment of the function could
--- change.
---@names compiler.allow_in_graph compiler.assume_constant_result compiler.nested_compile_region
---@param fn function
---@return function fn
for _, name in ipairs {"allow_in_graph", "assume_constant_result", "nested_compile_region"} do
   M[name] = function(fn)
      if not args.is_callable(fn) then
         args.refuse("compiler." .. name, "fn", "a function", fn)
      end
      return fn
   end
end

--- Returns false: tlua has no compiler, so no code is being compiled.
---@return boolean
function M.is_compiling() return false end

--- Returns whether torch.export is tracing this code.
---@return boolean
function M.is_exporting() return torch._tracing() end

--- Does nothing: there is no compiled code to discard.
function M.reset() end

--- Does nothing. In PyTorch this function marks the beginning of an iteration.
function M.cudagraph_mark_step_begin() end

--- Returns the list of names that `backend` accepts, which is empty.
---@return string[]
function M.list_backends() return {} end

checked.queries(M, "compiler.", [[is_compiling is_exporting reset cudagraph_mark_step_begin
   list_backends]])
M.is_dynamo_compiling = M.is_compiling

return M
