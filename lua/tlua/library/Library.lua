-- Library.lua - torch.library.Library: the operators of a namespace, by their schemas.
--
--    local lib = torch.library.Library("mylib", "DEF")
--    lib:define "scale(Tensor x, float by=2) -> Tensor"
--    lib:impl("scale", function(x, by) return x * by end, "CPU")
--    print(torch.ops.mylib.scale(torch.tensor {1.0, 2.0}, {by = 3}))
--    --> tensor([3., 6.])
--
-- These operators are like those of custom_op, but a schema checks their arguments.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

---@class library.Library
---@field ns string  the namespace of its operators
---@field kind "DEF"|"IMPL"|"FRAGMENT"  "DEF", "IMPL" or "FRAGMENT"
local Library = class.class("library.Library")

local kinds <const> = {DEF = true, IMPL = true, FRAGMENT = true}
local defined = {} -- the namespaces that have a Library of kind DEF

--- Makes a library for a namespace.
---@param ns string  the namespace
---@param kind "DEF"|"IMPL"|"FRAGMENT"  DEF: the namespace's one definition, FRAGMENT: more
--- operators for it, IMPL: implementations alone
function Library:__init(ns, kind)
   if type(ns) ~= "string" or not ns:find "^[%a_][%w_]*$" then
      args.refuse("library.Library", "ns", 'a name such as "mylib"', ns)
   end
   if not kinds[kind] then
      args.refuse("library.Library", "kind", '"DEF", "IMPL" or "FRAGMENT"', kind)
   end
   if kind == "DEF" then
      if defined[ns] then
         torch.raise(('library.Library: the namespace %s is defined already; use "FRAGMENT"')
            :format(ns))
      end
      defined[ns] = true
   end
   self.ns, self.kind = ns, kind
end

function Library:__tostring()
   return ("Library(kind=%s, ns=%s)"):format(self.kind, self.ns)
end

local function full_name(self, name)
   if type(name) == "table" and name.name then return name.name end
   if type(name) ~= "string" then
      args.refuse("library.Library:impl", "op_name", "an operator or its name", name)
   end
   return name:find("::", 1, true) and name or self.ns .. "::" .. name
end

--- Adds an operator without implementations.
---@param schema string  "scale(Tensor x, float by=2) -> Tensor"
---@return string name
function Library:define(schema)
   if self.kind == "IMPL" then
      torch.raise('library.Library:define: a Library of kind "IMPL" only implements')
   end
   local name, rest = tostring(schema):match "^%s*([%w_:]+)%s*(%(.*)$"
   if type(schema) ~= "string" or not name then
      args.refuse("library.Library:define", "schema",
         'a name and a schema, such as "scale(Tensor x) -> Tensor"', schema)
   end
   torch.library.define(full_name(self, name), rest)
   return name
end

--- Implements an operator.
---@param op_name string|library.CustomOp  the operator, or its name with or without the namespace
---@param fn fun(...): any
---@param dispatch_key? string  "CPU", "CUDA", "Meta", or "" and "CompositeExplicitAutograd" for all
--- devices, or "CompositeImplicitAutograd" for a function whose operators have the derivatives
function Library:impl(op_name, fn, dispatch_key)
   torch.library._implement("library.Library:impl", full_name(self, op_name), dispatch_key or "",
      fn)
end

return Library
