-- definitions.lua - records a script's definitions: functions with their parameters, and classes
-- with their methods and fields. The translation of calls uses the records to order arguments, and
-- the translation of attributes uses them to distinguish methods from fields.

local types = require "tlua.port.types"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"

local M = {}

-- Functions ---------------------------------------------------------------------------------------

-- Returns the number of values in a returned tuple; 0 for any other expression.
local function returned_by(value)
   if value and value._ == "IfExp" then
      local n = returned_by(value.body)
      return n == returned_by(value.orelse) and n or 0
   end
   if not value or value._ ~= "Tuple" then return 0 end
   for _, item in ipairs(value.elts) do
      if item._ == "Starred" then return 0 end
   end
   return #value.elts
end

-- Returns the number of values that a function returns, if each of its return statements returns a
-- tuple of the same length.
local function returned_count(node)
   local count
   local function visit(child)
      if child ~= node and walk.opens_scope(child) then return false end
      if child._ == "Return" and count ~= 0 then
         local n = returned_by(child.value)
         if count and count ~= n then n = 0 end
         count = n
      end
   end
   walk.each(node, visit)
   return count and count > 1 and count or nil
end

local function has_decorator(node, name)
   for _, decorator in ipairs(node.decorator_list or {}) do
      if (decorator.id or decorator.attr or decorator.func and (decorator.func.id
            or decorator.func.attr)) == name then
         return true
      end
   end
   return false
end

--- Returns the table that describes a function of the script: its name, parameters and so on. Each
--- pass over the script gets the same table, and so finds the types that earlier passes have
--- inferred.
---@param known table
---@param node table  FunctionDef
---@param class? table  the class, if the function is a method
---@return table fn
function M.fn(known, node, class)
   if known.functions[node] then return known.functions[node] end
   local fn = {name = node.name, node = node, params = {}, seen = {}, class = class}
   local arguments = node.args
   local all = {}
   for _, field in ipairs {"posonlyargs", "args"} do
      for _, arg in ipairs(arguments[field] or {}) do
         all[#all + 1] = {name = arg.arg, node = arg}
      end
   end
   local defaults = arguments.defaults or {}
   for i, default in ipairs(defaults) do all[#all - #defaults + i].default = default end
   for i, arg in ipairs(arguments.kwonlyargs or {}) do
      all[#all + 1] = {name = arg.arg, node = arg, default = arguments.kw_defaults[i] or nil}
   end
   fn.static = class and has_decorator(node, "staticmethod")
   fn.class_method = class and has_decorator(node, "classmethod")
   fn.property = class
      and (has_decorator(node, "property") or has_decorator(node, "cached_property"))
   if class and not fn.static and all[1] then
      fn.self_name = all[1].name
      table.remove(all, 1)
   end
   fn.params = all
   fn.vararg = arguments.vararg and arguments.vararg.arg
   fn.kwarg = arguments.kwarg and arguments.kwarg.arg
   fn.count = returned_count(node)
   fn.generator = walk.has(node.body, "Yield")
   known.functions[node] = fn
   return fn
end

-- Classes -----------------------------------------------------------------------------------------

--- Returns the table that describes a class of the script. Each pass over the script gets the same
--- table.
---@param known table
---@param node table  ClassDef
---@return table class
function M.class(known, node)
   if known.classes[node] then return known.classes[node] end
   local class = {name = node.name, node = node, methods = {}, fields = {}, properties = {}}
   known.classes[node] = class
   known.all_classes[#known.all_classes + 1] = class
   class.is_dataclass = has_decorator(node, "dataclass")
   local dataclass = {}
   for _, stmt in ipairs(node.body) do
      if stmt._ == "FunctionDef" then
         local fn = M.fn(known, stmt, class)
         class.methods[stmt.name] = fn
         if fn.property then class.properties[stmt.name] = true end
      elseif stmt._ == "AnnAssign" and class.is_dataclass then
         dataclass[#dataclass + 1] = {name = stmt.target.id, default = stmt.value,
            node = {annotation = stmt.annotation}}
      end
   end
   if class.is_dataclass and not class.methods.__init__ then
      class.methods.__init__ = {name = "__init__", params = dataclass, seen = {}, class = class}
      class.made_init = class.methods.__init__
      for _, parameter in ipairs(dataclass) do
         class.fields[parameter.name] = types.by_annotation(parameter.node.annotation)
      end
   end
   return class
end

-- Questions of the porter -------------------------------------------------------------------------

--- Returns a method of one of the script's classes or of its ancestors.
---@param name string  the name in Python
---@return table? fn
function Porter:find_method(class, name)
   while class do
      if class.methods[name] then return class.methods[name] end
      class = class.parent
   end
end

--- Returns the type of a field that a class's methods assign; nil if there is none.
function Porter:field_of(class, name)
   while class do
      if class.fields[name] then return class.fields[name] end
      class = class.parent
   end
end

--- Returns the first method of this name in any of the script's classes, and whether another one
--- has another number of parameters.
function Porter:method_anywhere(name)
   local found, several
   for _, class in ipairs(self.known.all_classes) do
      local fn = class.methods[name]
      if fn then
         several = several or found ~= nil and #found.params ~= #fn.params
         found = found or fn
      end
   end
   return found, several
end

--- Returns whether one of the script's classes has a field of this name that holds a layer or a
--- function.
function Porter:is_callable_field(name)
   for _, class in ipairs(self.known.all_classes) do
      local ty = class.fields[name]
      if types.is(ty, "nn module fn inst") then return true end
   end
   return false
end

function Porter:is_property(ty, name)
   if types.is(ty, "inst") then
      local class = ty.c
      while class do
         if class.properties[name] then return true end
         class = class.parent
      end
      return false
   end
   if ty then return false end
   for _, class in ipairs(self.known.all_classes) do
      if class.properties[name] then return true end
   end
   return false
end

function Porter:is_method_name(ty, name)
   return types.is(ty, "inst") and self:find_method(ty.c, name) ~= nil
end

local metamethods = {
   __init__ = "__init", __len__ = "__len", __getitem__ = "get", __call__ = "__call",
   __repr__ = "__tostring", __str__ = "__tostring", __eq__ = "__eq", __lt__ = "__lt",
   __le__ = "__le", __add__ = "__add", __sub__ = "__sub", __mul__ = "__mul",
   __truediv__ = "__div", __neg__ = "__unm", __mod__ = "__mod", __pow__ = "__pow",
   __matmul__ = "__matmul", __setitem__ = "set", __contains__ = "contains", __iter__ = "iter",
   __floordiv__ = "__idiv",
}

--- Returns a method's name in Lua.
function Porter:method_name(name)
   return metamethods[name] or (load("local t = {} t." .. name .. " = 1") and name or name .. "_")
end

--- Records the type `ty` of the argument that a call passes at a position.
function Porter:saw_argument(fn, position, ty)
   if ty and ty.k ~= "none" and fn.seen then
      fn.seen[position] = types.join(fn.seen[position], ty)
   elseif ty and fn.seen then
      fn.nilable = fn.nilable or {}
      fn.nilable[position] = true
   end
end

--- Records a more precise type of the variable or the field that the node `node` names.
function Porter:refine(node, ty)
   if node._ == "Name" then
      self:set_type(node.id, types.join(self:lookup(node.id), ty))
   elseif node._ == "Attribute" then
      local holder = node.value.ty
      if types.is(holder, "inst") then
         holder.c.fields[node.attr] = types.join(holder.c.fields[node.attr], ty)
      end
   end
end

--- Returns the class whose method is being written.
function Porter:current_class()
   local scope = self.scope
   while scope do
      if scope.class then return scope.class end
      scope = scope.parent
   end
end

--- Returns the type of a function's parameter: from its annotation, the arguments of calls, its
--- default, or its name.
function Porter:parameter_type(fn, position)
   local parameter = fn.params[position]
   local annotated = types.by_annotation(parameter.node and parameter.node.annotation)
   if annotated then return annotated end
   local seen = fn.seen and fn.seen[position]
   if seen and seen.k ~= "mixed" then
      if parameter.default and parameter.default.kind == "none" then
         return types.join(types.none, seen)
      end
      return seen
   end
   local default = parameter.default
   if default and default.kind ~= "none" then
      local kinds = {int = types.int, float = types.float, str = types.str, bool = types.bool}
      if kinds[default.kind] then return kinds[default.kind] end
      local displays = {List = types.list, Dict = types.dict, Set = types.set}
      if displays[default._] then return displays[default._] end
   end
   local named = types.by_name(parameter.name)
   if fn.class and fn.class.is_module and fn.name == "forward" and not default then
      return named or types.tensor
   end
   if default then
      return named and default.kind == "none" and types.join(types.none, named) or named
   end
   return named
end

return M
