-- calls.lua - translates calls. Keyword arguments go into a trailing table, or into their positions
-- if the script itself defines the function. Dimensions and positions are counted from 1.

local argparse = require "tlua.port.argparse"
local library = require "tlua.port.library"
local literals = require "tlua.port.literals"
local methods = require "tlua.port.methods"
local python = require "tlua.port.functions_of_python"
local subscripts = require "tlua.port.subscripts"
local torch_names = require "tlua.port.torch_names"
local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local is = types.is
local prec = Porter.prec

local M = {}

-- Dimensions and positions ----------------------------------------------------------------------

local counted = {dim = "dim", ["dim[]"] = "dim", ["dim[][]"] = "dim", index = "index",
   ["index[]"] = "index"}

-- Translates an argument that is a dimension or a position. Such arguments count from 0 in Python
-- and from 1 in Lua.
local function from_one(P, node, kind)
   if node._ == "Tuple" or node._ == "List" then
      local parts = {}
      for i, item in ipairs(node.elts) do parts[i] = from_one(P, item, kind) end
      return "{" .. table.concat(parts, ", ") .. "}"
   end
   local value = subscripts.literal(node)
   if value then return tostring(value >= 0 and value + 1 or value) end
   if node.kind == "none" or node.kind == "bool" then return P:emit(node) end
   if node._ == "UnaryOp" and node.op._ == "USub" then return P:emit(node) end
   local text, e = subscripts.moved(P, node, 1)
   if is(e.ty, "list tuple tensor") then
      P:note(node, ("`%s`: %s counts from 1"):format(e.t,
         kind == "dim" and "a dimension" or "a position"))
      return e.t
   end
   if is(e.ty, "pos") or kind == "index" and is(e.ty, "int") then return text end
   return text .. P:mark(node, kind .. "?",
      ("`%s` counts from 0; a negative one needs no `+ 1`"):format(e.t))
end

local function keyword_of(node, name)
   for _, keyword in ipairs(node.keywords) do
      if keyword.arg == name then return true end
   end
   return false
end

-- Returns the overload of an operator that fits a call, because it has all keywords of the call and
-- enough positional parameters.
local function choose_form(forms, node, has_self)
   local best
   for _, form in ipairs(forms or {}) do
      local names = {}
      for _, parameter in ipairs(form) do names[parameter.name] = parameter.kind end
      local fits = #node.args + (has_self and 1 or 0) <= #form
      local variadic = #form > 0 and form[#form].kind:find "%.%.%."
      -- A parameter of kind `true` belongs to an overload that is chosen only if the call has the
      -- parameter as a keyword.
      for i, parameter in ipairs(form) do
         if parameter.kind == "true" and i > #node.args + (has_self and 1 or 0) then
            fits = fits and keyword_of(node, parameter.name)
         end
      end
      for i = 1, #node.args do
         local parameter = form[i + (has_self and 1 or 0)]
         local given = node.args[i]
         if parameter and (parameter.kind == "dim" or parameter.kind == "index")
               and (given.kind == "str" or is(given.ty, "tensor") or given.kind == "float") then
            fits = false
         end
      end
      for _, keyword in ipairs(node.keywords) do
         if keyword.arg and not names[keyword.arg] and keyword.arg ~= "axis" then
            fits = fits and (keyword.arg == "out" or keyword.arg == "requires_grad"
               or keyword.arg == "inplace" or keyword.arg == "dtype" or keyword.arg == "device")
         end
      end
      if fits or variadic then
         best = best or form
         best.by_name = names
      end
   end
   return best
end

-- Returns whether a call returns one tensor: the call has no option, such as `return_indices`, that
-- adds results.
local function gives_one(form, node)
   for _, parameter in ipairs(form or {}) do
      if parameter.name:find "^return_" then
         local given = keyword_of(node, parameter.name)
         for i = 1, #node.args do given = given or form[i] == parameter end
         return not given
      end
   end
   return false
end

local function kind_at(form, position)
   local parameter = form and form[position]
   if form and not parameter and #form > 0 and form[#form].kind:find "%.%.%." then
      parameter = form[#form]
   end
   return parameter and counted[(parameter.kind:gsub("%.%.%.$", ""))]
end

local function kind_of(form, name)
   if form and form.by_name and form.by_name[name] then return counted[form.by_name[name]] end
   return (name:find "^dims?%d?$" or name == "axis") and "dim" or nil
end

-- Arguments --------------------------------------------------------------------------------------

local function key(name)
   return load("local t = {" .. name .. " = 1}") and name or ("[%q]"):format(name)
end

-- Returns the text of the table that follows the positional arguments. It has the keyword
-- arguments, and the items of dicts that the call unpacks by **.
local function options_text(P, node, form, before)
   local pairs_text, merged, named = {}, {}, {}
   for _, keyword in ipairs(node.keywords) do
      if keyword.arg then
         local kind = kind_of(form, keyword.arg)
         local name = keyword.arg == "axis" and "dim" or keyword.arg
         local value
         if kind then
            value = function() return from_one(P, keyword.value, kind) end
         else
            value = function() return P:expr(keyword.value).t end
         end
         if keyword.value.kind ~= "none" then
            named[#named + 1] = keyword.value
            pairs_text[#pairs_text + 1] = function() return key(name) .. " = " .. value() end
         end
      else
         merged[#merged + 1] = P:emit(keyword.value)
      end
   end
   local own = #pairs_text > 0 and "{" .. literals.layout(P, named, function(i)
      return pairs_text[i]()
   end, before or 8) .. "}" or nil
   if #merged == 0 then return own end
   if #merged == 1 and not own then return merged[1] end
   merged[#merged + 1] = own
   return ("%s(%s)"):format(P:py "merge", table.concat(merged, ", "))
end

-- Joins the text `extra`, arguments that come first, and the text of a call's own arguments.
local function with_extra(extra, text)
   if not extra or text == "" then return extra or text end
   return extra .. (text:sub(1, 1) == "\n" and "," or ", ") .. text
end

-- Translates arguments of which one that is not the last has a `*`. Joins all of them into one
-- list, which is unpacked.
local function spread(P, nodes, options)
   local lists, group = {}, {}
   local function close_group()
      if #group > 0 then lists[#lists + 1] = "{" .. table.concat(group, ", ") .. "}" end
      group = {}
   end
   for _, item in ipairs(nodes) do
      if item._ == "Starred" then
         close_group()
         local e = P:expr(item.value)
         local is_list = is(e.ty, "list tuple") and not e.ty.multi
         lists[#lists + 1] = is_list and e.t or e.ty and e.ty.multi and "{" .. e.t .. "}"
            or ("%s(%s)"):format(P:py "list", e.t)
      else
         local e = item._ == "Options" and {t = options} or P:expr(item)
         group[#group + 1] = e.ty and e.ty.multi and "{" .. e.t .. "}" or e.t
      end
   end
   close_group()
   return ("table.unpack(%s(%s))"):format(P:py "concat", table.concat(lists, ", "))
end

--- Translates a call's arguments.
---@param P port.Porter
---@param node table  the call
---@param form? table  an overload of torch_names
---@param has_self? boolean  the form's first parameter is the object
---@param extra? string  arguments before all others
---@return string
function M.arguments(P, node, form, has_self, extra)
   local nodes = {}
   for i, item in ipairs(node.args) do nodes[i] = item end
   local options = options_text(P, node, form)
   if options then
      nodes[#nodes + 1] = {_ = "Options", line = node.keywords[1].value.line,
         last = node.keywords[#node.keywords].value.last}
   end
   for i, item in ipairs(nodes) do
      local plain = item._ == "Starred" and i < #nodes
      for k = 1, #nodes do plain = plain and not kind_at(form, k + (has_self and 1 or 0)) end
      if plain then return with_extra(extra, spread(P, nodes, options)) end
   end
   local text = literals.layout(P, nodes, function(i)
      local item = nodes[i]
      if item._ == "Options" then return options end
      local kind = kind_at(form, i + (has_self and 1 or 0))
      if kind then return from_one(P, item, kind) end
      if item._ == "Starred" and i < #nodes then
         if not options then
            P:note(item, "`*` before others: table.unpack gives all values only at the end")
         else
            P:note(item, "`*` together with options: build one list of arguments")
         end
      end
      local e = P:expr(item)
      if e.ty and e.ty.multi then return "{" .. e.t .. "}" end
      if is(e.ty, "tuple") and item._ ~= "Starred" and #nodes == 1 then return e.t end
      return e.t
   end, 22, {first = node.line, last = node.last})
   return with_extra(extra, text)
end

-- Functions of the script -------------------------------------------------------------------------

-- Translates the arguments of a call of a function whose parameters are known, and puts each
-- argument at its parameter's position. Returns nil if an argument has a `*`, or if the function
-- has *args and the call has other keywords or both *args and **kwargs get values.
local function placed(P, node, fn, extra)
   local slots, count = {}, 0
   for i, item in ipairs(node.args) do
      if item._ == "Starred" then return nil end
      slots[i] = item
      count = i
   end
   local rest = {}
   local unpacked
   for _, keyword in ipairs(node.keywords) do
      local position
      for i, parameter in ipairs(fn.params) do
         if parameter.name == keyword.arg then position = i end
      end
      if not keyword.arg then
         unpacked = keyword.value
      elseif position then
         slots[position] = keyword.value
         count = math.max(count, position)
      else
         rest[#rest + 1] = keyword
      end
   end
   if fn.vararg and (#rest > 0 or count > #fn.params and fn.kwarg) then return nil end
   local options
   if fn.kwarg and (#rest > 0 or unpacked) then
      options = options_text(P, {keywords = (function()
         local list = {table.unpack(rest)}
         if unpacked then list[#list + 1] = {value = unpacked} end
         return list
      end)()})
      count = #fn.params
   elseif #rest > 0 then
      P:note(node, ("no parameter `%s` in `%s`"):format(rest[1].arg, fn.name or "?"))
   elseif unpacked then
      P:note(node, "`**` to a function of this file: give its parameters one by one")
      options = P:emit(unpacked)
   end
   local nodes = {}
   for i = 1, count do
      nodes[i] = slots[i] or {_ = "Constant", kind = "none", text = "", line = node.line,
         last = node.line}
   end
   if options then nodes[#nodes + 1] = {_ = "Options", line = node.last, last = node.last} end
   local text = literals.layout(P, nodes, function(i)
      if nodes[i]._ == "Options" then return options end
      local e = P:expr(nodes[i])
      P:saw_argument(fn, i, e.ty)
      if e.ty and e.ty.multi then return "{" .. e.t .. "}" end
      return e.t
   end, 22, {first = node.line, last = node.last})
   return with_extra(extra, text)
end

local function known_arguments(P, node, fn, extra)
   return fn and fn.params and placed(P, node, fn, extra) or M.arguments(P, node, nil, nil, extra)
end

--- Translates a method used as a value: a function bound to its object.
function M.bound(_, node, object)
   return {t = ("function(...) return %s:%s(...) end"):format(object, node.attr), p = prec.atom,
      ty = types.fn}
end

-- Returns the type of the result of calling an object of type `ty`, such as a layer.
local function call_result(P, ty)
   if is(ty, "nn") then
      local name = ty.class
      if name == "LSTM" or name == "GRU" or name == "RNN" then
         return types.tuple_of({types.tensor, name == "LSTM" and types.list_of(types.tensor)
            or types.tensor}, true)
      elseif name == "LSTMCell" then
         return types.tuple_of({types.tensor, types.tensor}, true)
      elseif name == "MultiheadAttention" then
         return types.tuple_of({types.tensor, types.tensor}, true)
      end
      return types.tensor
   elseif is(ty, "inst") then
      local method = P:find_method(ty.c, "forward") or P:find_method(ty.c, "__call__")
      return method and method.result
   end
end

-- torch -------------------------------------------------------------------------------------------

local label_takers = {
   ["torch.nn.functional.nll_loss"] = true, ["torch.nn.functional.cross_entropy"] = true,
   ["torch.nn.CrossEntropyLoss"] = true, ["torch.nn.NLLLoss"] = true,
}

local function torch_type(path, form)
   local class = path:match "^torch%.nn%.(%u%w*)$"
   if class == "Parameter" then return types.tensor end
   if class == "ModuleList" then return {k = "module", class = class} end
   if class then return types.layer(class) end
   if path:find "^torch%.nn%.%?" then return types.nn end
   if path:find "lr_scheduler" then return nil end
   if path:find "^torch%.optim%.%u" then return types.optimizer end
   if path:find "DataLoader$" then return types.loader end
   if path == "torch.device" then return types.device end
   if path == "torch.Size" then return types.list_of(types.int) end
   if path == "torch.load" or path:find "Dataset$" or not path:find "^torch%." then return nil end
   if path:find "^torch%.utils" or path:find "^torch%.data" or path:find "^torch%.distributed" then
      return nil
   end
   if path:find "is_available$" then return types.bool end
   if path:find "device_count$" then return types.int end
   if path:find "manual_seed" or path == "torch.save" then return types.none end
   return torch_names.result_type(form, path:match "[%w_]+$")
end

-- Translates a call of a function or a class of PyTorch.
local function torch_call(P, node, path)
   P.uses_torch = true
   for _, item in ipairs(node.args) do P:expr(item) end
   local tlua_path = library.torch_text(path)
   local exists = library.check_torch(P, node, path)
   local form = choose_form(torch_names.forms(tlua_path), node)
   local text = library.value(P, node.func, path).t
   if exists and label_takers[path] then
      P:note(node, path:match "[%w_]+$"
         .. ": class labels count from 1; add 1 to labels that count from 0")
   elseif path == "torch.nn.Embedding" or path == "torch.nn.functional.embedding" then
      P:note(node, "Embedding: positions count from 1; add 1 to those that count from 0")
   end
   local name = path:match "[%w_]+$"
   for _, keyword in ipairs(node.keywords) do
      if keyword.arg == "index" or keyword.arg == "indices" then
         P:note(node, name .. ": positions in tensors count from 1")
      end
   end
   if form then
      for i, item in ipairs(node.args) do
         local parameter = form[i]
         if parameter and parameter.name == "index" and parameter.kind == "Tensor"
               and not (item.ty and item.ty.pos) then
            P:note(node, name .. ": positions in tensors count from 1")
         end
      end
   end
   local arguments = M.arguments(P, node, form)
   local ty = torch_type(path, form)
   if not exists then ty = nil end
   if is(ty, "module") then -- a list of modules keeps the type of its items if it is known
      local list = node.args[1] and node.args[1].ty
      ty = {k = "module", class = ty.class, e = list and list.e}
   end
   if gives_one(form, node) then ty = types.tensor end
   -- max and min return one tensor if they are called with two tensors, or with a tensor and no
   -- other argument
   if (name == "max" or name == "min") and #node.args == 2 and is(node.args[2].ty, "tensor") then
      ty = types.tensor
   elseif (name == "max" or name == "min") and #node.args == 1 and #node.keywords == 0 then
      ty = types.tensor
   end
   if name == "where" and #node.args == 1 then ty = types.list_of(types.positions) end
   return {t = ("%s(%s)"):format(text, arguments), p = prec.prefix, ty = ty}
end

-- Translates a call of a function with a dotted name that belongs to an imported package.
local function path_call(P, node, path)
   local handler = python.library[path]
   local special = handler and handler(P, node)
   if special then return special end
   local numpy = python.numpy(path)
   if numpy then
      P.uses_torch = true
      local form = choose_form(torch_names.forms(numpy), node)
      local positions = numpy == "torch.where" and #node.args == 1
      return {t = ("%s(%s)"):format(numpy, M.arguments(P, node, form)), p = prec.prefix,
         ty = positions and types.list_of(types.positions) or torch_type(numpy, form)}
   end
   if library.is_torch(path) then return torch_call(P, node, path) end
   local callee = library.value(P, node.func, path)
   return {t = ("%s(%s)"):format(P:text(callee, "prefix"), M.arguments(P, node)), p = prec.prefix}
end

-- Methods -----------------------------------------------------------------------------------------

-- Translates `super().method(...)`.
local function super_call(P, node)
   local method = node.func.attr
   local class = P:current_class()
   local parent = class and class.parent_text
   if not parent then return {t = "", p = prec.prefix, statement = true} end
   local name = method == "__init__" and "__init" or method
   local fn = class.parent and P:find_method(class.parent, method)
   if not fn and parent == "nn.Module" and method == "__init__" then
      return {t = parent .. ".__init(self)", p = prec.prefix, ty = types.none}
   end
   local path = class.parent_path
   local form
   if path and library.is_torch(path) then
      form = choose_form(torch_names.forms(library.torch_text(path)), node)
   end
   local arguments = fn and known_arguments(P, node, fn, "self")
      or M.arguments(P, node, form, false, "self")
   return {t = ("%s.%s(%s)"):format(parent, name, arguments), p = prec.prefix,
      ty = fn and fn.result or method == "forward" and types.tensor or nil}
end

local function is_super(node)
   return node._ == "Call" and node.func.id == "super"
end

local function tensor_method(P, node, object, name)
   for _, item in ipairs(node.args) do P:expr(item) end
   local forms = torch_names.method_forms(name)
   local form = choose_form(forms, node, true)
   if name == "size" and #node.args == 0 and #node.keywords == 0 then
      return {t = object .. ":size()", p = prec.prefix, ty = types.list_of(types.int)}
   end
   if not torch_names.is_method(name) and not forms then
      P:note(node, ("%s: tlua's tensors have no such method"):format(name))
   end
   if form then
      for i, item in ipairs(node.args) do
         local parameter = form[i + 1]
         if parameter and parameter.name == "index" and parameter.kind == "Tensor"
               and not (item.ty and item.ty.pos) then
            P:note(node, name .. ": positions in tensors count from 1")
         end
      end
   end
   local arguments = M.arguments(P, node, form, true)
   local ty = name == "size" and types.int or torch_names.result_type(form, name)
   if (name == "max" or name == "min") and #node.args == 0 and #node.keywords == 0 then
      ty = types.tensor
   elseif (name == "max" or name == "min") and is((node.args[1] or {}).ty, "tensor") then
      ty = types.tensor
   end
   local mine = node.func.value.ty
   if is(mine, "tensor") and (name == "clone" or name == "view" or name == "view_as"
         or name == "cpu" or name == "to" or name == "detach" or name == "squeeze") then
      ty = mine
   elseif name == "item" then
      ty = mine and (mine.pos and types.pos or mine.bool and types.bool) or types.num
   elseif name == "sum" then
      ty = types.tensor
   elseif name == "tolist" then
      ty = types.list
   end
   return {t = ("%s:%s(%s)"):format(object, name, arguments), p = prec.prefix, ty = ty}
end

-- Translates a call of a module's method. Some methods return the module, such as `m.train()`,
-- `m.eval()` and `m.to(device)`.
local function module_method(P, node, object, e, name)
   local same = {to = true, cuda = true, cpu = true, train = true, eval = true, double = true,
      float = true, half = true, apply = true, requires_grad_ = true}
   local ty = same[name] and e.ty or nil
   if name == "parameters" then ty = types.list_of(types.tensor) end
   if name == "children" or name == "modules" then ty = types.list_of(types.nn) end
   if name == "state_dict" then ty = types.dict end
   local arguments = M.arguments(P, node)
   if name == "apply" and node.args[1] and node.args[1]._ == "Attribute"
         and node.args[1].value.id == "self" then
      arguments = P:emit(node.args[1])
   end
   return {t = ("%s:%s(%s)"):format(object, name, arguments), p = prec.prefix, ty = ty}
end

-- Translates `object.name(...)` for an object of one of the script's classes.
local function instance_method(P, node, object, ty, name)
   local method = P:find_method(ty.c, name)
   if method then
      local dot = method.static and "." or ":"
      return {t = ("%s%s%s(%s)"):format(object, dot, P:method_name(name),
         known_arguments(P, node, method)), p = prec.prefix, ty = method.result}
   end
   local field = P:field_of(ty.c, name)
   if field then
      return {t = ("%s(%s)"):format(P:field(object, name), M.arguments(P, node)), p = prec.prefix,
         ty = call_result(P, field), of_object = true}
   end
end

-- Returns whether a script's class derives from a class of layers that has a method of this name.
local function is_layer_method(class, name)
   while class.parent do class = class.parent end
   local value = torch_names.find((class.parent_path or "torch.nn.Module") .. "." .. name)
   return type(value) == "function"
end

local function attribute_call(P, node)
   local name, holder = node.func.attr, node.func.value
   if is_super(holder) then return super_call(P, node) end
   local own = holder.kind == "str" and name == "format" and methods.format(P, node)
   if own then return own end
   local object, e = P:emit(holder, "prefix")
   if e.p == prec.atom then object = "(" .. e.t .. ")" end
   local ty = e.ty
   holder.ty = ty
   if name == "item" and (is(ty, "int num float") or ty == nil and holder._ == "Attribute"
         and is(holder.value.ty, "finfo")) then
      return e
   end
   if ty and ty.k == "parser" then
      if name == "add_argument" then return argparse.add(P, node, object, ty) end
      if name == "parse_args" then return argparse.parse(object, ty) end
   end
   if is(ty, "class") then
      local method = P:find_method(ty.c, name)
      local dot = method and method.class_method and ":" or "."
      return {t = ("%s%s%s(%s)"):format(object, dot, P:method_name(name),
         known_arguments(P, node, method)), p = prec.prefix, ty = method and method.result}
   end
   if is(ty, "local") then
      local fn = ty.file and ty.file.functions[name]
      local class = ty.file and ty.file.classes[name]
      if class then fn = P:find_method(class, "__init__") end
      return {t = ("%s.%s(%s)"):format(object, name, known_arguments(P, node, fn)),
         p = prec.prefix, ty = class and {k = "inst", c = class} or fn and fn.result}
   end
   if is(ty, "inst") then
      local found = instance_method(P, node, object, ty, name)
      if found then return found end
      if ty.c.is_module then
         if is_layer_method(ty.c, name) then return module_method(P, node, object, e, name) end
         -- The variable may hold an object of a class of the script that has a method of this name.
         local other = P:method_anywhere(name)
         if other then
            return {t = ("%s:%s(%s)"):format(object, name, known_arguments(P, node, other)),
               p = prec.prefix, ty = other.result}
         end
         return {t = ("%s(%s)"):format(P:field(object, name), M.arguments(P, node)),
            p = prec.prefix, ty = types.tensor, of_object = true}
      end
   end
   if is(ty, "nn module") then
      if name == "append" then return methods.append(P, node, object) end
      return module_method(P, node, object, e, name)
   end
   local special = methods.call(P, node, object, e, name)
   if special then return special end
   if is(ty, "tensor") then return tensor_method(P, node, object, name) end
   if not is(ty, "optimizer loader file dict list str inst") then
      local method, several = P:method_anywhere(name)
      if method and not several then
         return {t = ("%s:%s(%s)"):format(object, name, known_arguments(P, node, method)),
            p = prec.prefix, ty = method.result}
      elseif several and #(node.keywords or {}) > 0 then
         P:note(node, ("%s: several classes have methods of this name, with different parameters: "
            .. "put the arguments in their order"):format(name))
      elseif P:is_callable_field(name) then
         return {t = ("%s(%s)"):format(P:field(object, name), M.arguments(P, node)),
            p = prec.prefix, ty = types.tensor}
      end
      if torch_names.method_forms(name) or torch_names.is_method(name) and not ty then
         return tensor_method(P, node, object, name)
      end
   end
   return {t = ("%s:%s(%s)"):format(object, name, M.arguments(P, node)), p = prec.prefix}
end

-- Calls -------------------------------------------------------------------------------------------

local function name_call(P, node)
   local id = node.func.id
   local ty = P:lookup(id)
   if not ty and not P:is_known(id) then
      local handler = python.builtins[id]
      if handler then return handler(P, node) end
      if id:find "Error$" or id:find "Exception$" then
         return {t = node.args[1] and P:emit(node.args[1]) or ("%q"):format(id), p = prec.prefix,
            ty = types.str}
      end
      P:note(node, ("%s: no such name in this file"):format(id))
   end
   if is(ty, "class") then
      local init = P:find_method(ty.c, "__init__")
      local name = P:name(id)
      return {t = ("%s(%s)"):format(name, known_arguments(P, node, init)), p = prec.prefix,
         ty = {k = "inst", c = ty.c}}
   elseif is(ty, "fn") then
      return {t = ("%s(%s)"):format(P:name(id), known_arguments(P, node, ty.f)), p = prec.prefix,
         ty = ty.f and ty.f.result}
   elseif is(ty, "inst") then
      local method = P:find_method(ty.c, "forward") or P:find_method(ty.c, "__call__")
      return {t = ("%s(%s)"):format(P:name(id), known_arguments(P, node, method)), p = prec.prefix,
         ty = method and method.result, of_object = true}
   end
   return {t = ("%s(%s)"):format(P:name(id), M.arguments(P, node)), p = prec.prefix,
      ty = call_result(P, ty), of_object = true}
end

--- A call.
function M.emit(P, node)
   local func = node.func
   local path = P:path(func)
   if path then return path_call(P, node, path) end
   if func._ == "Name" then return name_call(P, node) end
   if func._ == "Attribute" then return attribute_call(P, node) end
   local callee, e = P:emit(func, "prefix")
   if e.p == prec.atom then callee = "(" .. e.t .. ")" end
   local result = call_result(P, e.ty)
   if e.ty and e.ty.k == "lib" then result = torch_type(e.ty.path) end
   return {t = ("%s(%s)"):format(callee, M.arguments(P, node)), p = prec.prefix, ty = result}
end

return M
