-- classes.lua - translates the functions and classes of a Python script to Lua.

local definitions = require "tlua.port.definitions"
local library = require "tlua.port.library"
local scope = require "tlua.port.scope"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"

local M = {}

-- Functions ---------------------------------------------------------------------------------------

-- Returns the parameter list of a function in Lua.
local function parameter_list(P, fn)
   local names = {}
   for i, parameter in ipairs(fn.params) do names[i] = P:name(parameter.name) end
   if fn.kwarg then names[#names + 1] = P:name(fn.kwarg) end
   if fn.vararg then
      if fn.kwarg then names[#names] = nil end
      names[#names + 1] = "..."
   end
   return table.concat(names, ", ")
end

-- Returns whether the default of a parameter must be evaluated only once, when the function is
-- defined, as in Python. Defaults such as constants may be evaluated at each call.
local function is_evaluated_once(P, node)
   if node._ == "Constant" or P:path(node) then return false end
   if node._ == "UnaryOp" then return is_evaluated_once(P, node.operand) end
   if node._ == "Tuple" then
      for _, item in ipairs(node.elts) do
         if is_evaluated_once(P, item) then return true end
      end
      return false
   end
   if node._ ~= "Name" then return node._ ~= "Lambda" end
   return not types.is(P:lookup(node.id), "fn class lib")
end

-- Writes variables before a function that store the values of the defaults that are evaluated only
-- once.
local function keep_defaults(P, fn)
   for _, parameter in ipairs(fn.params) do
      local default = parameter.default
      parameter.kept = nil
      if default and is_evaluated_once(P, default) then
         local text = P:emit(default)
         local name = P:fresh(P:name(parameter.name) .. "_default")
         P:put(("local %s = %s"):format(name, text))
         parameter.kept = name
      end
   end
end

local scopes_of_gradient = {no_grad = true, inference_mode = true, enable_grad = true}
local dropped = {property = true, staticmethod = true, classmethod = true, dataclass = true,
   cached_property = true, wraps = true, overload = true, abstractmethod = true, script = true,
   lru_cache = true, cache = true, compile = true}

local function decorator_name(node)
   local target = node._ == "Call" and node.func or node
   return target.attr or target.id
end

-- Writes lines at the beginning of a function that open the scopes which replace decorators such as
-- no_grad.
local function open_decorators(P, node)
   for _, decorator in ipairs(node.decorator_list or {}) do
      local name = decorator_name(decorator)
      if scopes_of_gradient[name] then
         P.uses_torch = true
         P:line(("local _ <close> = torch.%s()"):format(name))
      elseif name == "lru_cache" or name == "cache" then
         P:note(node, "@" .. name .. ": results are not kept")
      end
   end
end

-- Opens the scope of a function's body and declares its variables.
local function open_scope(P, node, fn, body)
   local assigned, outer = walk.assigned(body)
   local parameters = {}
   for i, parameter in ipairs(fn.params) do
      parameters[parameter.name] = true
      assigned[parameter.name] = nil
      fn.param_types = fn.param_types or {}
      fn.param_types[i] = P:parameter_type(fn, i)
   end
   if fn.self_name then parameters[fn.self_name] = true end
   if fn.vararg then parameters[fn.vararg] = true end
   if fn.kwarg then parameters[fn.kwarg] = true end
   for name in pairs(parameters) do assigned[name] = nil end
   for name in pairs(outer) do parameters[name] = nil end
   local variables = {}
   for name in pairs(assigned) do variables[name] = true end
   for name in pairs(parameters) do variables[name] = true end
   local opened = P:open("function", node, {variables = variables, parameters = parameters, fn = fn,
      plan = scope.plan(body, assigned), assigned_so_far = assigned})
   for i, parameter in ipairs(fn.params) do opened.types[parameter.name] = fn.param_types[i] end
   if fn.vararg then opened.types[fn.vararg] = types.list end
   if fn.kwarg then opened.types[fn.kwarg] = types.dict end
   if fn.self_name then
      opened.types[fn.self_name] = fn.class_method and {k = "class", c = fn.class}
         or {k = "inst", c = fn.class}
   end
   return opened
end

local function open_parameters(P, fn)
   if fn.vararg then P:line(("local %s = {...}"):format(P:name(fn.vararg))) end
   if fn.self_name and fn.self_name ~= "self" then
      P:line(("local %s = self"):format(P:name(fn.self_name)))
   end
   for _, parameter in ipairs(fn.params) do
      local default = parameter.default
      if default and default.kind ~= "none" then
         local name = P:name(parameter.name)
         P:line(("if %s == nil then %s = %s end"):format(name, name,
            parameter.kept or (P:emit(default))))
      end
   end
   if fn.kwarg and not fn.vararg then
      P:line(("%s = %s or {}"):format(P:name(fn.kwarg), P:name(fn.kwarg)))
   end
   if fn.kwarg and fn.vararg then
      P:note(fn.node, "*args together with **kwargs: options are not taken apart")
   end
end

-- Writes a function's body and its `end`.
local function body_of(P, node, fn)
   local loop, pcall_outside, could = P.loop, P.inside_pcall, P.can_hoist
   P.loop, P.inside_pcall, P.can_hoist = nil, false, true
   open_scope(P, node, fn, node.body)
   P.level = P.level + 1
   P.source_line = math.max(P.source_line, node.line + 1)
   local body = {table.unpack(node.body)}
   if body[1]._ == "Expr" and body[1].value.kind == "str" then
      local doc = table.remove(body, 1)
      P:comment_lines(doc.value.text)
      P.source_line = math.max(P.source_line, doc.last + 1)
   end
   open_parameters(P, fn)
   open_decorators(P, node)
   P.level = P.level - 1
   if fn.generator then
      P.level = P.level + 1
      P:line "return coroutine.wrap(function()"
      P:block(body)
      P:line "end)"
      P.level = P.level - 1
      fn.result = {k = "iter"}
   else
      P:block(body)
   end
   P:close()
   P.loop, P.inside_pcall, P.can_hoist = loop, pcall_outside, could
   P:line "end"
end

-- Writes calls of a function's decorators, except for those that the translation itself replaces,
-- such as torch.no_grad.
local function apply_decorators(P, node, name)
   for i = #(node.decorator_list or {}), 1, -1 do
      local decorator = node.decorator_list[i]
      local word = decorator_name(decorator)
      if not scopes_of_gradient[word] and not dropped[word] and word ~= "setter" then
         P:put(("%s = %s(%s)"):format(name, P:emit(decorator, "prefix"), name))
         P:note(node, ("@%s: called with the function"):format(word))
      end
   end
end

--- Translates `def name(...)`.
function M.define(P, node, declares)
   local fn = definitions.fn(P.known, node)
   P:set_type(node.name, {k = "fn", f = fn})
   local name = P:name(node.name)
   local new = declares(P, node, node.name)
   keep_defaults(P, fn)
   P:line(("%sfunction %s(%s)"):format(new and "local " or "", name, parameter_list(P, fn)))
   body_of(P, node, fn)
   apply_decorators(P, node, name)
end

--- lambda x: ...
function Porter:lambda(node)
   local fn = self.known.functions[node]
   if not fn then
      node.name, node.decorator_list = "lambda", {}
      local wrapped = {_ = "FunctionDef", name = "lambda", args = node.args, body = {},
         line = node.line, last = node.last}
      fn = definitions.fn(self.known, wrapped)
      self.known.functions[node] = fn
   end
   local kept, values = {}, {}
   for _, parameter in ipairs(fn.params) do
      local default = parameter.default
      if default and default.kind ~= "none" then
         local name = self:name(parameter.name)
         parameter.text = self:emit(default)
         if is_evaluated_once(self, default) then
            kept[#kept + 1], values[#values + 1] = name .. "_", parameter.text
            parameter.text = name .. "_"
         end
      end
   end
   open_scope(self, node, fn, {})
   local defaults = {}
   for _, parameter in ipairs(fn.params) do
      if parameter.default and parameter.default.kind ~= "none" then
         local name = self:name(parameter.name)
         defaults[#defaults + 1] = ("if %s == nil then %s = %s end "):format(name, name,
            parameter.text)
      end
   end
   local e = self:expr(node.body)
   fn.result = e.ty
   local text = ("function(%s) %sreturn %s end"):format(parameter_list(self, fn),
      (fn.vararg and ("local %s = {...} "):format(fn.vararg) or "") .. table.concat(defaults), e.t)
   if e.statement then text = ("function(%s) %s end"):format(parameter_list(self, fn), e.t) end
   self:close()
   if #kept == 0 then return text end
   return ("(function(%s) return %s end)(%s)"):format(table.concat(kept, ", "), text,
      table.concat(values, ", "))
end

-- Classes -----------------------------------------------------------------------------------------

local function find_parent(P, node, class)
   local base
   for _, candidate in ipairs(node.bases) do
      if candidate.id ~= "object" and candidate.id ~= "ABC" and candidate.id ~= "Enum" then
         if base then
            P:note(node, "several bases: torch.class has one; the first is kept")
            break
         end
         base = candidate
      end
   end
   if not base then return nil end
   local text, e = P:emit(base)
   class.parent_text, class.parent_path = text, P:path(base)
   if types.is(e.ty, "class") then
      class.parent = e.ty.c
      class.is_module, class.is_dataset = e.ty.c.is_module, e.ty.c.is_dataset
   elseif class.parent_path then
      class.is_module = class.parent_path:find "^torch%.nn%.%u" ~= nil
      class.is_dataset = class.parent_path:find "Dataset$" ~= nil
      class.parent_text = library.torch_text(text)
   elseif base.id == "Exception" or (base.id or ""):find "Error$" then
      P:note(node, "a class of errors: Lua raises any value; error { ... } is common")
      class.parent_text = nil
   end
   return class.parent_text
end

local unsupported = {__enter__ = true, __exit__ = true, __next__ = true, __getattr__ = true,
   __setattr__ = true, __del__ = true, __hash__ = true, __new__ = true}

local function write_method(P, node, class)
   local fn = class.methods[node.name]
   if node.name == "__getitem__" and class.is_dataset and fn.params[1] then
      fn.seen[1] = types.pos
      P:note(node, ("`%s` counts from 1 in a dataset's get"):format(fn.params[1].name))
   end
   if unsupported[node.name] then
      P:note(node, node.name .. " has no counterpart in torch.class")
   end
   local dot = fn.static and "." or ":"
   keep_defaults(P, fn)
   P:line(("function %s%s%s(%s)"):format(P:name(class.name), dot, P:method_name(node.name),
      parameter_list(P, fn)))
   body_of(P, node, fn)
   apply_decorators(P, node, P:name(class.name) .. "." .. node.name)
end

-- Writes the method __init that a dataclass gets, which stores its arguments in fields.
local function write_made_init(P, class)
   local fn = class.made_init
   P:line ""
   P:line(("function %s:__init(%s)"):format(P:name(class.name), parameter_list(P, fn)))
   P.level = P.level + 1
   open_parameters(P, fn)
   for i, parameter in ipairs(fn.params) do
      P:line(("self.%s = %s"):format(parameter.name, P:name(parameter.name)))
      class.fields[parameter.name] = P:parameter_type(fn, i)
   end
   P.level = P.level - 1
   P:line "end"
end

--- Translates `class Name(Base): ...`.
function M.class(P, node, declares)
   local class = definitions.class(P.known, node)
   P.uses_torch = true
   local parent = find_parent(P, node, class)
   P:set_type(node.name, {k = "class", c = class})
   local name = P:name(node.name)
   local new = declares(P, node, node.name)
   P:line(("%s%s = torch.class(%q%s)"):format(new and "local " or "", name, node.name,
      parent and ", " .. parent or ""))
   local variables = walk.assigned(node.body)
   P:open("class", node, {variables = variables, class = class})
   P.source_line = math.max(P.source_line, node.line + 1)
   local body = {}
   for _, stmt in ipairs(node.body) do body[#body + 1] = stmt end
   if body[1] and body[1]._ == "Expr" and body[1].value.kind == "str" then
      local doc = table.remove(body, 1)
      P:comment_lines(doc.value.text)
      P.source_line = math.max(P.source_line, doc.last + 1)
   end
   if class.made_init then write_made_init(P, class) end
   P.class_name = name
   M.class_body(P, body, class, name)
   P:close()
end

--- Translates the statements of a class's body: methods, and fields that all instances share.
function M.class_body(P, body, class, name)
   local level = P.level
   for _, stmt in ipairs(body) do
      if stmt._ == "FunctionDef" then
         P:class_gap(stmt)
         write_method(P, stmt, class)
      elseif stmt._ == "Assign" and stmt.targets[1]._ == "Name" then
         P:class_gap(stmt)
         local text, e = P:emit(stmt.value)
         P:put(("%s.%s = %s"):format(name, stmt.targets[1].id, text))
         class.fields[stmt.targets[1].id] = e.ty
      elseif stmt._ == "AnnAssign" then
         if stmt.value and not class.is_dataclass then
            P:put(("%s.%s = %s"):format(name, stmt.target.id, (P:emit(stmt.value))))
         end
         class.fields[stmt.target.id] = class.fields[stmt.target.id]
            or types.by_annotation(stmt.annotation)
      elseif stmt._ ~= "Pass" and not (stmt._ == "Expr" and stmt.value._ == "Constant") then
         P:note(stmt, "a statement in the body of a class: " .. stmt._)
      end
      P.source_line = math.max(P.source_line, stmt.last + 1)
   end
   P.level = level
end

--- Writes a blank line before a method, and the comments above it.
function Porter:class_gap(stmt)
   local first = stmt.first or stmt.line
   if stmt._ == "FunctionDef" and self.lines[#self.lines] ~= "" then self:line "" end
   for at = self.source_line, first - 1 do
      local comment = self.comments[at]
      if comment and comment.own then self:line("--" .. comment.text) end
   end
   self.source_line = math.max(self.source_line, first)
end

return M
