-- functions_of_python.lua - translates calls of Python's builtins and standard library. Each
-- handler takes the porter and the call's node, and returns the translation or nil.

local argparse = require "tlua.port.argparse"
local format = require "tlua.port.format"
local torch_names = require "tlua.port.torch_names"
local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local is = types.is
local prec = Porter.prec

local M = {builtins = {}, library = {}}

local builtins, library = M.builtins, M.library

local function prefix(text, ty) return {t = text, p = prec.prefix, ty = ty} end

local function keyword(node, name)
   for _, item in ipairs(node.keywords) do
      if item.arg == name then return item.value end
   end
end

-- Translates all arguments of a call unchanged, for a function that has the same parameters in Lua.
local function arguments(P, node, first)
   local list = {}
   for i = first or 1, #node.args do list[#list + 1] = (P:emit(node.args[i])) end
   return table.concat(list, ", ")
end

-- Builtins --------------------------------------------------------------------------------------

function builtins.print(P, node)
   local separator, ending, file = " ", nil, nil
   local sep, last = keyword(node, "sep"), keyword(node, "end")
   if sep and sep.kind == "str" then separator = sep.text end
   if last then ending = P:emit(last, "concat") end
   if keyword(node, "file") then file = P:emit(keyword(node, "file"), "prefix") end
   local text
   if #node.args == 0 then
      text = '""'
   elseif #node.args == 1 then
      local e = P:expr(node.args[1])
      text = e.t
      if is(e.ty, "list tuple dict set args") and not e.ty.multi then
         text = ("%s(%s)"):format(P:py "str", text)
      end
      if node.args[1]._ == "Starred" then
         text = ("table.concat(%s, %q)"):format(P:emit(node.args[1].value), separator)
      end
   else
      text = format.spaced(P, node, node.args, separator).t
   end
   if not ending and not file then
      return prefix(("print(%s)"):format(#node.args == 0 and "" or text), types.none)
   end
   local writer = file and file .. ":write" or "io.write"
   ending = ending or '"\\n"'
   local single = #node.args == 1 and is(node.args[1].ty, "str")
   local first = #node.args ~= 1 and text or single and text or ("tostring(%s)"):format(text)
   local tail = ending == '""' and "" or ", " .. ending
   return prefix(("%s(%s%s)"):format(writer, first, tail), types.none)
end

function builtins.len(P, node)
   local object, e = P:emit(node.args[1], "prefix")
   if is(e.ty, "dict set args") then
      return prefix(("%s(%s)"):format(P:py "len", e.t), types.int)
   end
   if e.p < prec.prefix and e.ty and is(e.ty, "list tuple") then object = "(" .. e.t .. ")" end
   return {t = "#" .. object, p = prec.unary, ty = types.int}
end

function builtins.range(P, node)
   return prefix(("%s(%s)"):format(P:py "range_list", arguments(P, node)), types.list_of(types.int))
end

function builtins.str(P, node)
   if #node.args == 0 then return {t = '""', p = prec.atom, ty = types.str} end
   local e = P:expr(node.args[1])
   if is(e.ty, "str") then return e end
   if is(e.ty, "list tuple dict set") then
      return prefix(("%s(%s)"):format(P:py "str", e.t), types.str)
   end
   local result = prefix(("tostring(%s)"):format(e.t), types.str)
   result.inner = e.ty
   return result
end
builtins.repr = builtins.str

function builtins.int(P, node)
   if #node.args == 0 then return {t = "0", p = prec.atom, ty = types.int} end
   local e = P:expr(node.args[1])
   if is(e.ty, "int") then return e end
   return prefix(("%s(%s)"):format(P:py "int", e.t .. (node.args[2] and ", "
      .. P:emit(node.args[2]) or "")), types.int)
end

function builtins.float(P, node)
   local argument = node.args[1]
   if argument and argument.kind == "str" then
      local text = argument.text:lower()
      local signs = {inf = "math.huge", ["-inf"] = "-math.huge", ["+inf"] = "math.huge",
         nan = "(0 / 0)", infinity = "math.huge", ["-infinity"] = "-math.huge"}
      if signs[text] then return {t = signs[text], p = prec.unary, ty = types.float} end
   end
   local e = P:expr(argument)
   if is(e.ty, "float") then return e end
   if is(e.ty, "tensor") then return prefix(P:text(e, "prefix") .. ":item()", types.float) end
   if is(e.ty, "int num") then
      return {t = P:text(e, "add") .. " + 0.0", p = prec.add, ty = types.float}
   end
   return prefix(("%s(%s)"):format(P:py "float", e.t), types.float)
end

function builtins.bool(P, node)
   local e = P:condition(node.args[1])
   return e
end

local function extreme(name)
   return function(P, node)
      if #node.args == 1 or keyword(node, "key") then
         local key = keyword(node, "key")
         return prefix(("%s(%s%s)"):format(P:py(name), P:emit(node.args[1]),
            key and ", " .. P:emit(key) or ""), (node.args[1].ty or {}).e)
      end
      local list, ty = {}, nil
      for i, item in ipairs(node.args) do
         local text, e = P:emit(item)
         list[i], ty = text, types.join(ty, e.ty)
      end
      if is(ty, "tensor") then
         P:note(node, name .. " of tensors: torch." .. name .. "imum")
      end
      return prefix(("math.%s(%s)"):format(name, table.concat(list, ", ")), ty)
   end
end
builtins.max, builtins.min = extreme "max", extreme "min"

function builtins.abs(P, node)
   local text, e = P:emit(node.args[1])
   if is(e.ty, "tensor") then return prefix(P:text(e, "prefix") .. ":abs()", types.tensor) end
   return prefix(("math.abs(%s)"):format(text), e.ty)
end

function builtins.sum(P, node)
   local text, e = P:emit(node.args[1])
   if is(e.ty, "tensor") then return prefix(P:text(e, "prefix") .. ":sum(1)", types.tensor) end
   local start = node.args[2] and ", " .. P:emit(node.args[2]) or ""
   return prefix(("%s(%s%s)"):format(P:py "sum", text, start), e.ty and e.ty.e)
end

function builtins.round(P, node)
   local text = arguments(P, node)
   return prefix(("%s(%s)"):format(P:py "round", text), node.args[2] and types.float or types.int)
end

function builtins.sorted(P, node)
   local text, e = P:emit(node.args[1])
   local options = {}
   for _, name in ipairs {"key", "reverse"} do
      if keyword(node, name) then
         options[#options + 1] = name .. " = " .. P:emit(keyword(node, name))
      end
   end
   local tail = #options > 0 and ", {" .. table.concat(options, ", ") .. "}" or ""
   return prefix(("%s(%s%s)"):format(P:py "sorted", text, tail), types.list_of(e.ty and e.ty.e
      or is(e.ty, "dict set") and types.str or nil))
end

local function on_list(name, ty)
   return function(P, node)
      return prefix(("%s(%s)"):format(P:py(name), arguments(P, node)), ty)
   end
end
builtins.any, builtins.all = on_list("any", types.bool), on_list("all", types.bool)
builtins.map, builtins.filter = on_list("map", types.list), on_list("filter", types.list)
builtins.divmod = on_list("divmod", types.tuple_of({types.int, types.int}, true))
builtins.hash = on_list("hash", types.int)
builtins.zip = on_list("zip_list", types.list_of(types.tuple))
builtins.enumerate = on_list("enumerate_list", types.list_of(types.tuple))

function builtins.reversed(P, node)
   local text, e = P:emit(node.args[1])
   return prefix(("%s(%s)"):format(P:py "reversed", text), is(e.ty, "list") and e.ty or types.list)
end

-- Translates `list(x)` and `tuple(x)` to a copy. A new table to which nothing else refers, such as
-- a literal, is not copied.
local function listed(P, node)
   if #node.args == 0 then return {t = "{}", p = prec.atom, ty = types.list} end
   local inner = node.args[1]
   local e = P:expr(inner)
   if inner._ == "ListComp" or inner._ == "GeneratorExp" then return e end
   if inner._ == "Call" and is(e.ty, "list") then return e end
   if e.ty and e.ty.k == "iter" and e.ty.spread then
      return prefix(("%s(%s(%s))"):format(P:py "list", P:py "packed", e.t), types.list)
   end
   return prefix(("%s(%s)"):format(P:py "list", e.t), is(e.ty, "list") and e.ty
      or is(e.ty, "str") and types.list_of(types.str) or is(e.ty, "nn module")
      and types.list_of(types.nn) or types.list)
end
builtins.list, builtins.tuple = listed, listed

function builtins.dict(P, node)
   local parts = {}
   for _, item in ipairs(node.keywords) do
      if item.arg then parts[#parts + 1] = item.arg .. " = " .. P:emit(item.value) end
   end
   local own = "{" .. table.concat(parts, ", ") .. "}"
   local merged = {}
   for _, item in ipairs(node.args) do merged[#merged + 1] = P:emit(item) end
   for _, item in ipairs(node.keywords) do
      if not item.arg then merged[#merged + 1] = P:emit(item.value) end
   end
   if #merged == 0 then return {t = own, p = prec.atom, ty = types.dict} end
   if #parts > 0 then merged[#merged + 1] = own end
   return prefix(("%s(%s)"):format(P:py "merge", table.concat(merged, ", ")), types.dict)
end

function builtins.set(P, node)
   return prefix(("%s(%s)"):format(P:py "set", arguments(P, node)), types.set)
end

local python_types = {
   int = 'math.type(%s) == "integer"', float = 'math.type(%s) == "float"',
   str = 'type(%s) == "string"', bool = 'type(%s) == "boolean"', list = 'type(%s) == "table"',
   tuple = 'type(%s) == "table"', dict = 'type(%s) == "table"', set = 'type(%s) == "table"',
}

local function instance_test(P, object, class_node)
   local path = P:path(class_node)
   local test = class_node._ == "Name" and not P:is_known(class_node.id)
      and python_types[class_node.id]
   if test then return test:format(object) end
   P.uses_torch = true
   if path == "torch.Tensor" or path == "torch.autograd.Variable" then
      return ("torch.is_tensor(%s)"):format(object)
   elseif path == "torch.nn.Parameter" then
      return ("torch.is_tensor(%s) and %s.requires_grad"):format(object, object)
   end
   return ("torch.isinstance(%s, %s)"):format(object, P:emit(class_node))
end

function builtins.isinstance(P, node)
   local object = P:emit(node.args[1])
   local class_node = node.args[2]
   if class_node._ ~= "Tuple" then
      local text = instance_test(P, object, class_node)
      return {t = text, p = text:find " [=a]" and prec.compare or prec.prefix, ty = types.bool}
   end
   local parts, seen = {}, {}
   for _, item in ipairs(class_node.elts) do
      local text = instance_test(P, object, item)
      if not seen[text] then parts[#parts + 1] = text end
      seen[text] = true
   end
   return {t = table.concat(parts, " or "), p = #parts > 1 and prec["or"] or prec.compare,
      ty = types.bool}
end

function builtins.type(P, node)
   P.uses_torch = true
   P:note(node, "type(x): torch.type gives a class's name as a string")
   return prefix(("torch.type(%s)"):format(arguments(P, node)), types.str)
end

function builtins.callable(P, node)
   return {t = ('type(%s) == "function"'):format(P:emit(node.args[1])), p = prec.compare,
      ty = types.bool}
end

local function indexed(P, node)
   local object = P:emit(node.args[1], "prefix")
   local name = node.args[2]
   if name.kind == "str" and name.text:find "^[%a_][%w_]*$" then
      return P:field(object, name.text)
   end
   return ("%s[%s]"):format(object, P:emit(name))
end

function builtins.getattr(P, node)
   local text = indexed(P, node)
   local path = P:path(node.args[1])
   local ty = path == "torch.nn" and {k = "lib", path = "torch.nn.?"} or nil
   if not node.args[3] then return {t = text, p = prec.prefix, ty = ty} end
   if node.args[3].kind == "none" then return {t = text, p = prec.prefix} end
   return prefix(("%s(%s, %s)"):format(P:py "default", text, P:emit(node.args[3])))
end

function builtins.hasattr(P, node)
   return {t = indexed(P, node) .. " ~= nil", p = prec.compare, ty = types.bool}
end

function builtins.setattr(P, node)
   return {t = indexed(P, node) .. " = " .. P:emit(node.args[3]), p = prec.prefix, ty = types.none,
      statement = true}
end

function builtins.next(P, node)
   local inner = node.args[1]
   local method = inner._ == "Call" and inner.func._ == "Attribute" and inner.func.attr
   if inner._ == "Call" and inner.func.id == "iter" then
      local text, e = P:emit(inner.args[1], "prefix")
      if is(e.ty, "loader") then
         return prefix(text .. ":iter()()", types.tuple_of({types.tensor, types.tensor}, true))
      end
   elseif method == "parameters" then
      return prefix(P:emit(inner, "prefix") .. "[1]", types.tensor)
   end
   return prefix(P:emit(inner, "prefix") .. "()")
end

function builtins.iter(P, node)
   local text, e = P:emit(node.args[1], "prefix")
   if is(e.ty, "loader") then
      return prefix(text .. ":iter()", {k = "iter", spread = true})
   end
   return prefix(("%s(%s)"):format(P:py "each", text), {k = "iter"})
end

function builtins.open(P, node)
   local mode = node.args[2] or keyword(node, "mode")
   local text = ("io.open(%s%s)"):format(P:emit(node.args[1]), mode and ", " .. P:emit(mode) or "")
   return prefix(("assert(%s)"):format(text), types.file)
end

library["io.open"], library["codecs.open"] = builtins.open, builtins.open

function builtins.input(P, node)
   if node.args[1] then P:note(node, "input(prompt): write the prompt by io.write") end
   return prefix('io.read "l"', types.str)
end

function builtins.exit(P, node)
   return prefix(("os.exit(%s)"):format(node.args[1] and P:emit(node.args[1]) or ""), types.none)
end
builtins.quit = builtins.exit

function builtins.ord(P, node)
   return prefix(("utf8.codepoint(%s)"):format(arguments(P, node)), types.int)
end

function builtins.chr(P, node)
   return prefix(("utf8.char(%s)"):format(arguments(P, node)), types.str)
end

function builtins.id(P, node) return prefix(arguments(P, node)) end

function builtins.format(P, node)
   return prefix(("%s(%s)"):format(P:py "format", arguments(P, node)), types.str)
end

-- Translates `pow(a, b)` of integers, `pow(a, b, modulus)`, and `math.pow(a, b)`, which is a float.
function builtins.pow(P, node, path)
   local whole = node.args[3] ~= nil
   if not path and not whole then
      whole = types.is(P:expr(node.args[1]).ty, "int pos") and types.is(P:expr(node.args[2]).ty,
         "int pos")
   end
   if whole then
      return prefix(("%s(%s)"):format(P:py "power", arguments(P, node)), types.int)
   end
   return {t = ("(%s) ^ (%s)"):format(P:emit(node.args[1]), P:emit(node.args[2])), p = prec.pow,
      ty = types.num}
end

-- Library ---------------------------------------------------------------------------------------

-- Maps functions of Python to functions of Lua or torch that take the same arguments, with the type
-- of their results.
local same = {
   ["math.sqrt"] = {"math.sqrt", types.float}, ["math.exp"] = {"math.exp", types.float},
   ["math.log"] = {"math.log", types.float}, ["math.sin"] = {"math.sin", types.float},
   ["math.cos"] = {"math.cos", types.float}, ["math.tan"] = {"math.tan", types.float},
   ["math.atan"] = {"math.atan", types.float}, ["math.atan2"] = {"math.atan", types.float},
   ["math.floor"] = {"math.floor", types.int}, ["math.ceil"] = {"math.ceil", types.int},
   ["math.fabs"] = {"math.abs", types.float},
   ["time.time"] = {"torch.io.time", types.float},
   ["time.perf_counter"] = {"torch.io.clock", types.float},
   ["time.monotonic"] = {"torch.io.clock", types.float},
   ["timeit.default_timer"] = {"torch.io.clock", types.float},
   ["random.random"] = {"math.random", types.float},
   ["random.randint"] = {"math.random", types.int},
   ["random.seed"] = {"math.randomseed", types.none},
   ["numpy.random.seed"] = {"torch.manual_seed", types.none},
   ["os.remove"] = {"os.remove", types.none}, ["os.rename"] = {"os.rename", types.none},
   ["os.getenv"] = {"os.getenv", types.str}, ["sys.exit"] = {"os.exit", types.none},
   ["os.system"] = {"os.execute", types.none},
   ["gc.collect"] = {"collectgarbage", types.none},
   ["json.dumps"] = {"torch.utils.json.encode", types.str},
   ["json.loads"] = {"torch.utils.json.decode", types.dict},
}

-- Functions of Python that the runtime (port/python) has under the same name, except for the names
-- below.
for path, ty in pairs {
   ["os.makedirs"] = types.none, ["os.mkdir"] = types.none, ["os.path.exists"] = types.bool,
   ["os.path.isfile"] = types.bool, ["os.path.isdir"] = types.bool,
   ["os.path.basename"] = types.str, ["os.path.dirname"] = types.str,
   ["random.shuffle"] = types.none, ["random.sample"] = types.list, ["random.choice"] = false,
   ["random.uniform"] = types.float, ["random.randrange"] = types.int,
   ["copy.deepcopy"] = false, ["copy.copy"] = false,
   ["collections.Counter"] = types.dict, ["collections.defaultdict"] = types.dict,
} do
   local name = ({["os.path.isfile"] = "exists", ["os.path.isdir"] = "exists",
      ["os.mkdir"] = "makedirs", ["copy.copy"] = "copy"})[path] or path:match "[%w_]+$"
   library[path] = function(P, node)
      local e = node.args[1] and P:expr(node.args[1])
      return prefix(("%s(%s)"):format(P:py(name), arguments(P, node)),
         ty or e and (name == "choice" and e.ty and e.ty.e or name:find "copy" and e.ty) or nil)
   end
end

for path, row in pairs(same) do
   library[path] = function(P, node)
      if row[1]:find "^torch" then P.uses_torch = true end
      return prefix(("%s(%s)"):format(row[1], arguments(P, node)), row[2])
   end
end

library["math.pow"] = function(P, node) return builtins.pow(P, node, "math.pow") end
library["math.log2"] = function(P, node)
   return prefix(("math.log(%s, 2)"):format(arguments(P, node)), types.float)
end
library["math.log10"] = function(P, node)
   return prefix(("math.log(%s, 10)"):format(arguments(P, node)), types.float)
end
library["math.prod"] = on_list("prod", types.int)
library["functools.reduce"] = on_list("reduce")
library["itertools.chain"] = on_list("concat", types.list)
library["itertools.count"] = on_list("count", {k = "iter"})
library["itertools.product"] = on_list("product", {k = "iter", spread = true})

library["os.path.join"] = function(P, node)
   local parts = {}
   for i, item in ipairs(node.args) do parts[i] = (P:emit(item, "concat")) end
   return {t = table.concat(parts, ' .. "/" .. '), p = prec.concat, ty = types.str}
end
library["os.path.realpath"] = function(P, node) return P:expr(node.args[1]) end
library["os.path.abspath"] = library["os.path.realpath"]
library["os.path.expanduser"] = library["os.path.realpath"]
library["os.listdir"] = on_list("listdir", types.list_of(types.str))

library["collections.deque"] = function(P, node)
   local limit = keyword(node, "maxlen") or node.args[2]
   if limit then
      local first = node.args[1] and P:emit(node.args[1]) or "{}"
      return prefix(("%s(%s, %s)"):format(P:py "deque", first, P:emit(limit)),
         {k = "list", limited = true})
   end
   return {t = node.args[1] and P:emit(node.args[1]) or "{}", p = prec.atom, ty = types.list}
end
library["collections.OrderedDict"] = function(P, node)
   if #node.args == 0 then return {t = "{}", p = prec.atom, ty = types.dict} end
   return prefix(P:emit(node.args[1]), types.dict)
end
library["functools.partial"] = function(P, node)
   P:note(node, "functools.partial: give the arguments by a function of your own")
   return prefix(("%s(%s)"):format(P:py "partial", arguments(P, node)), types.fn)
end
library["argparse.ArgumentParser"] = argparse.parser
library["warnings.filterwarnings"] = function()
   return {t = "", p = prec.prefix, statement = true}
end
library["warnings.warn"] = function(P, node)
   return prefix(("warn(%s)"):format(P:emit(node.args[1])), types.none)
end
library["sys.stdout.flush"] = function() return prefix("io.stdout:flush()", types.none) end
library["sys.stdout.write"] = function(P, node)
   return prefix(("io.write(%s)"):format(arguments(P, node)), types.none)
end

-- PyTorch's, where tlua's form is another ---------------------------------------------------------

local function identity(P, node) return P:expr(node.args[1]) end
library["torch.autograd.Variable"] = function(P, node)
   local e = P:expr(node.args[1])
   return {t = e.t, p = e.p, ty = types.tensor}
end
library["torch.from_numpy"] = library["torch.autograd.Variable"]
library["torch.jit.script"] = identity
library["torch.compile"] = identity
library["numpy.asarray"] = identity
library["numpy.finfo"] = function(P, node)
   P.uses_torch = true
   return prefix(("torch.finfo(%s)"):format(P:emit(node.args[1])), {k = "finfo"})
end

-- Returns the texts of a list of pairs, or nil if the node is anything else.
local function pairs_of(P, node)
   if not node or node._ ~= "List" and node._ ~= "Tuple" then return nil end
   local list = {}
   for i, pair in ipairs(node.elts) do
      if pair._ ~= "Tuple" and pair._ ~= "List" or #pair.elts ~= 2 then return nil end
      list[i] = ("{%s, %s}"):format(P:emit(pair.elts[1]), (P:emit(pair.elts[2])))
   end
   return list
end

-- Returns a handler that makes the layer `name` from the list of pairs in an OrderedDict.
local function of_pairs(name)
   return function(P, node)
      local dict = #node.args == 1 and node.args[1]
      if not dict or dict._ ~= "Call" or P:path(dict.func) ~= "collections.OrderedDict" then
         return nil
      end
      local texts = pairs_of(P, dict.args[1])
      if not texts then
         P:note(node, ("nn.%s: expected a list of pairs {name, module}"):format(name))
         return nil
      end
      P.uses_torch = true
      return prefix(("%s {%s}"):format(P:emit(node.func), table.concat(texts, ", ")),
         types.layer(name))
   end
end
library["torch.nn.Sequential"] = of_pairs "Sequential"
library["torch.nn.ModuleDict"] = of_pairs "ModuleDict"

-- tlua's torch.save cannot save whole modules, so their parameters are saved
library["torch.save"] = function(P, node)
   local text, e = P:emit(node.args[1], "prefix")
   if not (is(e.ty, "nn module") or is(e.ty, "inst") and e.ty.c.is_module) then return nil end
   P.uses_torch = true
   P:note(node, "torch.save: a module is saved by its state_dict here, and loaded into one that is "
      .. "there already")
   return prefix(("torch.save(%s:state_dict(), %s)"):format(text, arguments(P, node, 2)),
      types.none)
end

-- Maps NumPy's functions to torch's functions that take arguments at the same positions.
local from_numpy = {
   array = "tensor", concatenate = "cat", float32 = "float32", clip = "clamp", arange = "arange",
   random_randn = "randn", random_rand = "rand", expand_dims = "unsqueeze", power = "pow",
   ["random.randn"] = "randn", ["random.rand"] = "rand", ["random.permutation"] = "randperm",
}
for name in ([[zeros ones zeros_like ones_like full eye linspace sin cos tan tanh exp log sqrt abs
   mean sum std var argmax argmin stack where sort unique dot matmul sign floor ceil isnan cumsum
   outer prod]]):gmatch "%w+" do
   from_numpy[name] = name
end

--- Returns torch's name of a NumPy function with the same arguments, if there is one.
---@return string? path
function M.numpy(path)
   local name = from_numpy[path:match "^numpy%.(.*)$" or ""]
   return name and torch_names.find("torch." .. name) ~= nil and "torch." .. name or nil
end

return M
