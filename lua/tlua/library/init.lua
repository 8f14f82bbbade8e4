-- init.lua - torch.library: user-defined operators written in Lua.
--
--    local scale = torch.library.custom_op("mylib::scale", function(x, by)
--       return x * by
--    end)
--    scale:register_fake(function(x) return torch.empty_like(x) end)
--    scale:register_autograd(function(ctx, grad) return grad * ctx.by, nil end, {
--       setup_context = function(ctx, inputs) ctx.by = inputs[2] end,
--    })
--    local y = torch.ops.mylib.scale(x, 3)
--
-- Autograd, autocast, vmap and the profiler treat a user-defined operator as one operator, even if
-- its kernel calls another library by DLPack, or a C module of the user.

local torch = require "tlua"
local args = require "tlua.args"
local CustomOp = require "tlua.library.CustomOp"
local lazy = require "tlua.lazy"
local schemas = require "tlua.library.schema"
local suggest = require "tlua.utils.suggest"

local M = lazy.load({}, lazy.modules("tlua.library", {Library = "Library", opcheck = "opcheck"}))

local namespaces = {}

local function names_of(list)
   local names = {}
   for name in pairs(list) do names[#names + 1] = name end
   return names
end

-- Makes a namespace of torch.ops with the operators in `own`. Reading an operator that does not
-- exist raises an error.
local function new_namespace(space, own)
   own = own or {}
   namespaces[space] = own
   return setmetatable({}, {
      names = own, -- the function torch.has reads this field
      __index = function(_, name)
         if own[name] then return own[name] end
         torch.raise(("torch.ops.%s has no operator %s%s"):format(space, tostring(name),
            suggest.hint(tostring(name), names_of(own))))
      end,
      __newindex = function(_, name)
         torch.raise(("torch.ops.%s.%s: cannot be set; use torch.library.custom_op"):format(space,
            tostring(name)))
      end,
      __pairs = function() return pairs(own) end,
   })
end

local views = {}

-- Returns the operators of torch.ops.quantized, which are loaded when they are first used.
local function quantized_operators()
   local own = lazy.load({}, lazy.modules("tlua.ao", {operators = [[add add_relu add_scalar
      add_scalar_relu mul mul_relu mul_scalar mul_scalar_relu cat cat_relu matmul]]}))
   return lazy.entitle(own, "torch.ops.quantized")
end
views.quantized = new_namespace("quantized", quantized_operators())

--- Operators by namespace and name: torch.ops.mylib.scale.
---@names torch.ops
---@type table<string, table<string, library.CustomOp>>
M.ops = setmetatable({}, {
   names = views,
   __index = function(_, space)
      if views[space] then return views[space] end
      torch.raise(("torch.ops has no namespace %s%s"):format(tostring(space),
         suggest.hint(tostring(space), names_of(views))))
   end,
   __newindex = function(_, name)
      torch.raise(("torch.ops.%s: cannot be set; use torch.library.custom_op"):format(
         tostring(name)))
   end,
   __pairs = function() return pairs(views) end,
})

local function split(who, name)
   local space, own
   if type(name) == "string" then space, own = name:match "^([%a_][%w_]*)::([%a_][%w_]*)$" end
   if not space then
      args.refuse(who, "name", 'a namespace and a name, such as "mylib::scale"', name)
   end
   return space, own
end

local function find(who, op)
   if type(op) == "table" and getmetatable(op) == CustomOp then return op end
   local space, name = split(who, op)
   local found = namespaces[space] and namespaces[space][name]
   if type(found) == "function" then
      torch.raise(("%s: %s is an operator of torch; expected one of custom_op"):format(who, op))
   end
   if found then return found end
   local known = {}
   for other, operators in pairs(namespaces) do
      for own in pairs(operators) do known[#known + 1] = other .. "::" .. own end
   end
   torch.raise(("%s: no operator %s%s"):format(who, op, suggest.hint(op, known)))
end

M._find = find

local function enter(space, name, op)
   if not namespaces[space] then views[space] = new_namespace(space) end
   namespaces[space][name] = op
   return op
end

local take = args.signature [[library.custom_op(name: string, fn: callable?, mutates_args: any?,
   device_types: any?)]]

--- Makes an operator from a Lua function. A second operator with the same name replaces the first.
--- Without fn it returns a function that takes fn, like a decorator.
---@param name string  "namespace::name"
---@param fn? fun(...): any  the kernel; results are new tensors, arguments keep their values
---@param options? {mutates_args: string[], device_types: string|string[]}  mutates_args: the names
--- of the parameters that fn changes in place ({} where PyTorch has ()); device_types: the kinds of
--- devices for which fn is the kernel, by default all
---@return library.CustomOp|fun(fn: function): library.CustomOp
function M.custom_op(name, ...)
   local fn, options = ...
   if select("#", ...) == 2 and args.is_callable(options) and not args.is_callable(fn) then
      -- the arguments were (name, options, fn), since the options may come before the function
      fn, options = options, fn
   elseif type(fn) == "table" and not args.is_callable(fn) and options == nil then
      fn, options = nil, fn
   end
   if options ~= nil and type(options) ~= "table" then
      args.refuse("library.custom_op", "options", "a table", options)
   end
   local named = {name = name, fn = fn}
   for key, value in pairs(options or {}) do named[key] = value end
   local a = take(named)
   local space, own = split("library.custom_op", a.name)
   local mutates = a.mutates_args or {}
   if type(mutates) ~= "table" then
      args.refuse("library.custom_op", "mutates_args", "a list of names", mutates)
   end
   local function define(kernel)
      if not args.is_callable(kernel) then
         args.refuse("library.custom_op", "fn", "a function", kernel)
      end
      return enter(space, own, CustomOp(a.name, mutates, a.device_types, kernel))
   end
   if a.fn then return define(a.fn) end
   return define
end

-- Operators by their schemas -------------------------------------------------------------------

--- Makes an operator from a schema, without implementations; `impl` adds implementations. Unlike an
--- operator of custom_op, this operator checks its arguments, fills in defaults, and accepts a last
--- table of arguments by name.
---@param qualname string  "namespace::name"
---@param schema string  "(Tensor x, float by=2) -> Tensor"; Tensor(a!) is changed in place
---@return library.CustomOp
function M.define(qualname, schema)
   local space, own = split("library.define", qualname)
   local known = namespaces[space] and namespaces[space][own]
   if known then torch.raise(("library.define: %s is defined already"):format(qualname)) end
   return enter(space, own,
      CustomOp(qualname, nil, nil, nil, schemas.read("library.define", schema)))
end

-- Maps each kind of device, and each of PyTorch's dispatch keys, to the kind of device for which an
-- implementation is registered: "any" for all, "meta" for register_fake, or "composite" for
-- register_composite.
local targets <const> = {
   default = "any", [""] = "any", CompositeExplicitAutograd = "any", cpu = "cpu", CPU = "cpu",
   cuda = "cuda", CUDA = "cuda", sim = "sim", meta = "meta", Meta = "meta",
   CompositeImplicitAutograd = "composite",
}

function M._implement(who, qualname, types, fn)
   local op = find(who, qualname)
   if not args.is_callable(fn) then args.refuse(who, "fn", "a function", fn) end
   for _, kind in ipairs(type(types) == "table" and types or {types or "default"}) do
      local target = targets[kind]
      if target == "meta" then
         op:register_fake(fn)
      elseif target == "composite" then
         op:register_composite(fn)
      elseif target then
         op:register_kernel(target ~= "any" and target or nil, fn)
      elseif tostring(kind):find "^Autograd" then
         torch.raise(who .. ": derivatives are given to library.register_autograd")
      else
         local known = names_of(targets)
         table.sort(known)
         args.refuse(who, "types", "one of " .. table.concat(known, ", ", 2), kind)
      end
   end
   return fn
end

--- Implements an operator that `define` has made. Without fn, returns a function that takes the
--- implementation.
---@param qualname string  "namespace::name"
---@param types string|string[]  kinds of devices ("default" for all), or PyTorch's dispatch keys
---@param fn? fun(...): any
---@return function
function M.impl(qualname, types, fn)
   if fn ~= nil then return M._implement("library.impl", qualname, types, fn) end
   return function(f) return M._implement("library.impl", qualname, types, f) end
end

--- Calls the method register_fake of the operator `op`, which is an operator or its name.
---@param op string|library.CustomOp
---@param fn fun(...): any
function M.register_fake(op, fn) find("library.register_fake", op):register_fake(fn) end

--- Calls the method register_autograd of the operator `op`, which is an operator or its name.
---@param op string|library.CustomOp
---@param backward fun(ctx: autograd.Context, ...): any
---@param options? {setup_context: fun(ctx: autograd.Context, inputs: table, output: any)}
function M.register_autograd(op, backward, options)
   find("library.register_autograd", op):register_autograd(backward, options)
end

--- Calls the method register_kernel of the operator `op`, which is an operator or its name.
---@param op string|library.CustomOp
---@param device_types? string|string[]
---@param fn fun(...): any
function M.register_kernel(op, device_types, fn)
   find("library.register_kernel", op):register_kernel(device_types, fn)
end

--- Calls the method register_vmap of the operator `op`, which is an operator or its name.
---@param op string|library.CustomOp
---@param fn fun(info: table, in_dims: table, ...): any, any
function M.register_vmap(op, fn) find("library.register_vmap", op):register_vmap(fn) end

--- Calls the method register_autocast of the operator `op`, which is an operator or its name.
---@param op string|library.CustomOp
---@param device_type string
---@param cast_inputs string
function M.register_autocast(op, device_type, cast_inputs)
   find("library.register_autocast", op):register_autocast(device_type, cast_inputs)
end

return M
