-- compiler.lua - torch.compile and torch.compiler. lua/tlua/compile has the parts: watch.lua finds
-- the values on which a call depends, state.lua takes a snapshot of these values, record.lua
-- records a program, optimize.lua makes the program faster, and calls.lua chooses between programs
-- and the function.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"

local M = {}

local take = args.signature [[compile(model: callable?, fullgraph: boolean = false,
   dynamic: boolean?, backend: any?, mode: string?, options: table?, disable: boolean = false)]]

local modes <const> = {
   default = true, ["max-autotune"] = true, ["max-autotune-no-cudagraphs"] = true,
}

local function check(...)
   local a = take(...)
   if a.mode == "reduce-overhead" then
      torch.raise('compile: mode: "reduce-overhead" stands for captured CUDA graphs, which '
         .. 'torch.compile does not make (see torch.cuda.graph); expected "default" or '
         .. '"max-autotune"')
   end
   if a.mode and not modes[a.mode] then
      args.refuse("compile", "mode",
         '"default", "max-autotune" or "max-autotune-no-cudagraphs"', a.mode)
   end
   return a
end

local function as_it_is(fn) return fn end

-- Maps a compiled module or function to its object of class compile.Compiled (calls.lua).
local compiled <const> = setmetatable({}, {__mode = "k"})

local function calls_of(fn, options)
   return require "tlua.compile.calls"(fn, options)
end

local function wrap_function(fn, options)
   local calls = calls_of(fn, options)
   local function call(...) return calls:__call(...) end
   compiled[call] = calls
   return call
end

local function wrap(fn, options)
   -- whether the debug library exists, which a sandbox lacks
   local can_watch = debug and debug.sethook
   if options.disable or options.backend == "eager" or not can_watch then return fn end
   if class.isinstance(fn, torch.nn.Module) then
      local module = require "tlua.compile.OptimizedModule"(fn)
      compiled[module] = calls_of(fn, options)
      module:_calls(compiled[module])
      return module
   end
   return wrap_function(fn, options)
end

--- Returns a module or a function with the same results, which runs optimized programs where it
--- can (see torch.export). The first two calls with arguments of one kind are watched. From the
--- third call on, a program runs: constants are computed once, batch norm is merged into the layer
--- before it, and equal and unused calls are removed. The program serves only calls like the first
--- two:
---
--- * Tensors have the same dtype, device, sizes, strides and requires_grad; other arguments have
---   the same values. Grad mode, inference mode and the defaults of dtype and device are the same.
--- * All that the function can reach is the same: the upvalues of the script's functions that were
---   called, the global variables that were read, the fields of the tables and modules found
---   there, at any depth, and the library's functions that were called. Tensors have the same
---   memory; their values may change.
---
--- Other calls lead to another program, up to 8 in all. The function itself runs in these cases;
--- `torch.compiler.explain` names the case:
--- * The call has side effects or results that may vary (print, io, os, math.random, pcall,
---   coroutines, C functions from outside the library).
--- * The call assigns a variable or a field, or changes an argument or another tensor.
--- * The call branches on a tensor's values, or returns a view of an argument or a parameter.
--- * The call runs under autocast or vmap.
--- * The program was no faster than the function on the CPU.
---
--- A call that records gradients becomes a program on the CPU. The program uses the script's own
--- parameters, and its results have the same gradients as the function's, so that `.grad`, hooks,
--- optimizers, second derivatives and the errors of changed tensors are the same as with the
--- function. It may change buffers, such as the running statistics of a batch norm, and is not
--- optimized further. The function itself runs while autograd packs saved tensors or detects
--- anomalies, and if the call uses a torch.autograd.Function. torch.export_step makes programs of
--- whole training steps.
---
--- With the option `dynamic`, one program serves all batch sizes from 2 on. The batch size is the
--- first size of the first argument, and of other arguments that have the same first size. The
--- first call with each batch size is recorded. If the function then makes other calls, this batch
--- size gets a separate program. A program with a dynamic size is not optimized further.
---
--- Long chains of elementwise operators run block by block in the cache. Results may differ from
--- the function's by rounding where batch norm was merged, and have the same bits otherwise. Two
--- changes are not noticed: new functions added to the library's own tables, and writes to a
--- tensor's memory by another library that shares it.
---
---     local conv, norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
---     local model = nn.Sequential(conv, norm, nn.ReLU()):eval()
---     local fast, x = torch.compile(model), torch.randn(1, 3, 32, 32)
---     local _ <close> = torch.no_grad()
---     for _ = 1, 3 do fast(x) end
---     print(torch.allclose(fast(x), model(x), {atol = 1e-5}))
---     --> true
---@generic T
---@param model? T  a module or a function; without one, the result is a function that takes it
---@param options? {fullgraph: boolean, dynamic: boolean, backend: any, mode: string,
--- options: table, disable: boolean}  fullgraph: whether a call that cannot become a program raises
--- an error; dynamic: whether one program serves all batch sizes; backend: "eager" to get the model
--- itself back, "tlua" (the default), or a function that takes the graph and the list of its inputs
--- and returns the function to call instead of the program; mode: "default", or "max-autotune"
--- (also named "max-autotune-no-cudagraphs"), which also compares the optimized program with the
--- recorded one and keeps the faster, at the cost of more calls; disable: whether to return the
--- model itself, as where Lua's debug library is missing
---@return T model
function M.compile(...)
   local a = check(...)
   if select("#", ...) > 0 and a.model == nil and select(1, ...) == nil then
      args.refuse("compile", "model", "a module or a function", nil)
   end
   if a.model == nil then return function(fn) return wrap(fn, a) end end
   return wrap(a.model, a)
end

local Explanation = {}
Explanation.__index = Explanation

function Explanation:__tostring()
   local lines = {}
   if self.program then
      lines[1] = ("a program of %d calls, with guards on %d fields, %d variables and %d tensors")
         :format(self.calls, self.fields, self.variables, self.tensors)
      lines[2] = self.unoptimized and "optimizations were left out: " .. self.unoptimized
   else
      lines[1] = "no program: " .. tostring(self.reason)
   end
   return table.concat(lines, "\n")
end

--- Calls a function three times, or up to six times if the first calls load files of the library,
--- as a compiled function of torch.compile would be called. Describes the program that was made, or
--- says why there is none.
---
---     local function f(x) return x * 2 + 1 end
---     local function g(x) if x:sum():item() > 0 then return x end return -x end
---     print(torch.compiler.explain(g, torch.ones(2)).program)
---     --> nil
---@param fn any  a module or a function
---@param ... any  the arguments of the calls
---@return {program: export.Program, reason: string, calls: integer, fields: integer, variables:
--- integer, tensors: integer, times: number[], unoptimized: string?} explanation  program: nil if
--- there is none, and `reason` says why; times: the seconds that one call of the function and one
--- of the program take; unoptimized: why optimizations were left out
function M.explain(fn, ...)
   if not args.is_callable(fn) then
      args.refuse("compiler.explain", "fn", "a module or a function", fn)
   end
   local inner = compiled[fn]
   local calls = calls_of(inner and inner.fn or fn, {})
   -- Up to 6 calls are made, because the first calls may load files of the library. Such calls are
   -- not recorded.
   for k = 1, 6 do
      if k <= 3 or not calls.made and #calls.reasons == 0 then calls:__call(...) end
   end
   local made = setmetatable({times = calls.times}, Explanation)
   made.reason = calls.reasons[#calls.reasons] or calls.reason
   local entry = calls.made
   if entry then
      local state = entry.state
      made.program = getmetatable(torch.export).wrap(entry.better or entry.handle)
      made.calls = #made.program.graph_:calls().calls
      made.fields, made.variables = state.fields, (state.upvalues.n + state.globals.n) // 3
      made.tensors, made.unoptimized = state.tensors.n // 4, entry.problem
   elseif not made.reason then
      made.reason = "the arguments are not tensors and plain data, or the state changes"
   end
   return made
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

--- Returns false: torch.compile records calls that run as they do without it.
---@return boolean
function M.is_compiling() return false end

--- Returns whether torch.export is tracing this code.
---@return boolean
function M.is_exporting()
   local watch = package.loaded["tlua.compile.watch"]
   return torch._tracing() and not (watch and watch.compiling())
end

--- Discards the programs of all compiled modules and functions.
function M.reset()
   for _, calls in pairs(compiled) do calls:__init(calls.fn, calls.options) end
end

--- Does nothing. In PyTorch this function marks the beginning of an iteration.
function M.cudagraph_mark_step_begin() end

--- Returns the list of names that `backend` accepts.
---@return string[]
function M.list_backends() return {"eager", "tlua"} end

checked.queries(M, "compiler.", [[is_compiling is_exporting reset cudagraph_mark_step_begin
   list_backends]])
M.is_dynamo_compiling = M.is_compiling

return M
