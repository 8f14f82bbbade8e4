-- args.lua - checks the arguments of functions and constructors written in Lua, which are declared
-- in PyTorch's notation:
--
--    local signature = args.signature [[nn.Conv2d(in_channels: count, out_channels: count,
--       kernel_size: integers, stride: integers = 1, bias: boolean = true)]]
--    local a = signature(...)      -- a.in_channels, a.stride, ...
--
-- Arguments are taken by position and, from a table with string keys as the last argument, by
-- name. A parameter without default must be given, unless its type ends in `?`. A wrong argument
-- raises an error at the user's line.
--
-- Functions without a signature read their options by over_defaults, if they have a table of
-- defaults, or pass their table of options to check_options. All three ways refuse an unknown
-- option, with an error that has the closest name and a list of the options.

local torch = require "tlua"

local M = {}

-- Loads tlua.utils.suggest on demand: it is needed only for errors, and for deciding whether a
-- table is a table of options or an argument's value.
local function suggest() return require "tlua.utils.suggest" end

--- Returns the name of the kind of a sparse or other wrapped tensor; nil for any other value.
---@param value any
---@return string?
function M.kind_of(value)
   local meta = type(value) == "userdata" and getmetatable(value)
   return type(meta) == "table" and meta.title or nil
end

--- Puts the indefinite article before a dtype or the name of a class: "an int64", "a float32".
---@param word string
---@return string
function M.with_article(word) return (word:find "^[aeioAEIO]" and "an " or "a ") .. word end

-- Returns a field of a tensor. Tensors of the package torch7 lack tlua's fields, so the function
-- that finds these fields for other tensors is used.
local function field_of(tensor, name)
   local value = tensor[name]
   if value ~= nil then return value end
   return debug.getmetatable(torch.empty(0)).__index(tensor, name)
end

--- Describes a value for messages.
---@param value any
---@return string
function M.describe(value)
   local kind = type(value)
   if kind == "string" then return ("%q"):format(value) end
   if kind == "number" or kind == "boolean" or kind == "nil" then return tostring(value) end
   if torch.is_tensor(value) then
      if not pcall(value.dim, value) then return "a tensor that was released" end
      return ("%s %s of shape (%s)"):format(M.with_article(field_of(value, "dtype")),
         M.kind_of(value) or "tensor", table.concat(field_of(value, "shape"), ", "))
   end
   local name = torch.type(value)
   local meta = getmetatable(value)
   if kind == "table" and type(meta) == "table" and meta.ancestors then
      return ("the class %s; call it for an instance"):format(value.__name)
   end
   return name == kind and "a " .. kind or "an instance of " .. name
end

--- Converts a value to a number: a boolean becomes 1 or 0, and a tensor of one element becomes this
--- element.
---@param who string  the function, for messages
---@param name string  the argument's name
---@param value any
---@return number
function M.to_number(who, name, value)
   local number = value
   if torch.is_tensor(value) and value:numel() == 1 then number = value:item() end
   if type(number) == "boolean" then number = number and 1 or 0 end
   if type(number) ~= "number" then M.refuse(who, name, "a number or a tensor of one", value) end
   return number + 0.0
end

--- Returns whether a value can be called: a function, or an object with `__call`.
---@param value any
---@return boolean
function M.is_callable(value)
   local meta = getmetatable(value)
   return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

local function to_integer(value)
   return math.type(value) ~= nil and math.tointeger(value) or nil
end

local function to_integers(value)
   if type(value) ~= "table" then return to_integer(value) end
   local list = {}
   for i = 1, #value do
      list[i] = to_integer(value[i])
      if not list[i] then return nil end
   end
   return list
end

local function of_type(name)
   return function(value)
      if type(value) == name then return value end
      return nil
   end
end

-- Maps each type to {its name in messages, a function that converts an argument}. The function
-- returns nil if the argument does not fit.
local types = {
   any = {"a value", function(value) return value end},
   number = {"a number", of_type "number"},
   string = {"a string", of_type "string"},
   device = {'a device such as "cpu" or "cuda:0"', torch._to_device},
   boolean = {"a boolean", of_type "boolean"},
   ["function"] = {"a function", of_type "function"},
   table = {"a table", of_type "table"},
   -- A table for a parameter of the type `names` may be given by position, even if the parameter is
   -- optional. Other optional tables must be given by name (is_value).
   names = {"a table", function(value)
      return type(value) == "table" and value or nil
   end},
   object = {"an object", function(value)
      return type(value) == "table" and getmetatable(value) and value or nil
   end},
   integer = {"an integer", to_integer},
   dim = {"an integer", to_integer}, -- the number of a dimension, which counts from 1
   count = {"an integer of at least 0", function(value)
      local n = to_integer(value)
      return n and n >= 0 and n or nil
   end},
   -- layers are created one by one, so a number that is far too large would take hours
   layers = {"an integer from 0 to 65536", function(value)
      local n = to_integer(value)
      return n and n >= 0 and n <= 65536 and n or nil
   end},
   integers = {"an integer or a list of integers", to_integers},
   numbers = {"a list of numbers", function(value)
      if type(value) ~= "table" then return nil end
      for i = 1, #value do
         if type(value[i]) ~= "number" then return nil end
      end
      return value
   end},
   callable = {"a function", function(value)
      return M.is_callable(value) and value or nil
   end},
   tensor = {"a tensor", function(value)
      return torch.is_tensor(value) and value or nil
   end},
   -- a number, or a complex number for operators that accept one
   factor = {"a number", function(value)
      if type(value) == "number" then return value end
      if type(value) ~= "userdata" or torch.is_tensor(value) then return nil end
      return pcall(torch.tensor, value) and value or nil
   end},
   scalar = {"a number or a tensor with one", function(value)
      if type(value) == "number" then return value end
      local fits = torch.is_tensor(value) and value:numel() == 1 and value:is_floating_point()
      return fits and value or nil
   end},
}

-- Maps the title of each function declared so far to the function's signature.
local declared = {}

local function parse_literal(text)
   local constants = {["true"] = true, ["false"] = false, inf = math.huge, ["-inf"] = -math.huge}
   if constants[text] ~= nil then return constants[text] end
   local quoted = text:match "^'(.*)'$"
   if quoted then return quoted end
   return assert(math.tointeger(text) or tonumber(text), "cannot read the default " .. text)
end

local function parse_parameter(text)
   local name, kinds, default = text:match "^%s*([%w_]+)%s*:%s*([%w_|]+%??)%s*(.-)%s*$"
   assert(name, "cannot read the parameter " .. text)
   local parameter = {name = name, kinds = kinds, optional = kinds:sub(-1) == "?"}
   local expected = {}
   for kind in kinds:gmatch "[%w_]+" do
      local known = assert(types[kind], "unknown type " .. kind)
      parameter[#parameter + 1] = known[2]
      expected[#expected + 1] = known[1]
   end
   parameter.expected = table.concat(expected, " or ")
   if default ~= "" then
      parameter.default = parse_literal(default:match "^=%s*(.*)$")
      parameter.optional = true
   end
   return parameter
end

-- Parses a signature's text. Each signature is parsed at its function's first call, because most
-- declared functions are never called.
local function parse(signature)
   signature.by_name = {}
   for piece in signature.text:gmatch "[^,]+" do
      local parameter = parse_parameter(piece)
      signature[#signature + 1] = parameter
      signature.by_name[parameter.name] = parameter
   end
   signature.text = nil
   return signature
end

-- Returns whether a value is a table of options: only string keys, and no metatable.
local function is_options(value)
   if type(value) ~= "table" or getmetatable(value) then return false end
   for key in pairs(value) do
      if type(key) ~= "string" then return false end
   end
   return true
end

local function convert(signature, parameter, value)
   for i = 1, #parameter do
      local converted = parameter[i](value)
      if converted ~= nil then return converted end
   end
   torch.raise(("%s: %s: expected %s, got %s"):format(
      signature.title, parameter.name, parameter.expected, M.describe(value)))
end

-- Collects names in order from lists, and in alphabetical order from tables that have names as
-- keys.
local function names_in(...)
   local names = {}
   for _, known in ipairs {...} do
      local list = known[1] ~= nil and known or {}
      if list ~= known then
         for name in pairs(known) do list[#list + 1] = name end
         table.sort(list)
      end
      table.move(list, 1, #list, #names + 1, names)
   end
   return names
end

local function unknown_text(title, key, ...)
   local names = names_in(...)
   key = tostring(key)
   if #names == 0 then return ("%s: unknown option %s; it takes none"):format(title, key) end
   return ("%s: unknown option %s%s; there are %s"):format(title, key, suggest().hint(key, names),
      table.concat(names, ", "))
end

--- Raises `title: unknown option <key>; did you mean X?; there are A, B, C`, or, if there are no
--- options, `title: unknown option <key>; it takes none`.
---@param title string  the function's name, for the message
---@param key any  the unknown option
---@param ... string[]|table<string, any>  the options: lists, or tables with the names as keys
function M.unknown_option(title, key, ...) torch.raise(unknown_text(title, key, ...)) end

--- Raises an error if a value is not a table of options, or has an unknown option.
---@param title string  the function's name, for the message
---@param options any  nil passes
---@param ... string  the names of all options
function M.check_options(title, options, ...)
   if options == nil then return end
   if type(options) ~= "table" or getmetatable(options) then
      M.refuse(title, "options", "a table", options)
   end
   for key in pairs(options) do
      local known = false
      for i = 1, select("#", ...) do known = known or key == select(i, ...) end
      if not known then M.unknown_option(title, key, {...}) end
   end
end

--- Returns whether a value fits an option: it has the type `kind` or, without `kind`, the type of
--- the option's default.
---@param value any
---@param default any
---@param kind? string  a type in the notation of signatures, such as "scalar"
---@return boolean fits
---@return string expected
function M.fits_default(value, default, kind)
   if kind then return types[kind][2](value) ~= nil, types[kind][1] end
   return type(value) == type(default), "a " .. type(default)
end

--- Merges the given options with a copy of a table of defaults.
---@param title string  the function's name, for the message
---@param given table
---@param defaults table<string, any>
---@param kinds table<string, string>  the types of options whose type is not that of their default
---@param ... table<string, any>  tables whose keys are further options, of any type
---@return table options
function M.over_defaults(title, given, defaults, kinds, ...)
   if type(given) ~= "table" then M.refuse(title, "options", "a table", given) end
   local options = {}
   for key, value in pairs(given) do
      local default = defaults[key]
      if default ~= nil then
         local fits, expected = M.fits_default(value, default, kinds[key])
         if not fits then M.refuse(title, key, expected, value) end
      else
         local known = false
         for i = 1, select("#", ...) do known = known or select(i, ...)[key] ~= nil end
         if not known then M.unknown_option(title, key, defaults, ...) end
      end
      options[key] = value
   end
   for key, value in pairs(defaults) do
      if options[key] == nil then
         options[key] = type(value) == "table" and table.move(value, 1, #value, 1, {}) or value
      end
   end
   return options
end

local function takes(parameter, kind)
   for _, conversion in ipairs(parameter) do
      if conversion == types[kind][2] then return true end
   end
   return false
end

local function names_of(signature)
   local names = {}
   for i, parameter in ipairs(signature) do names[i] = parameter.name end
   return names
end

-- Raises the error for an unknown option. `position` is the position of the table of options among
-- the arguments, which the user may have meant as the value of the parameter there.
local function refuse_option(signature, key, position)
   local parameter, why = signature[position], unknown_text(signature.title, key,
      names_of(signature))
   if parameter and (takes(parameter, "table") or takes(parameter, "any")) then
      why = ("%s (a table for %s is given as {%s = {...}})"):format(why, parameter.name,
         parameter.name)
   end
   torch.raise(why)
end

-- Returns a table that maps names to arguments: the first n arguments of a list, and the options.
local function by_name(signature, list, n, options)
   local given = {}
   for i = 1, n do given[signature[i].name] = list[i] end
   for key, value in pairs(options) do
      if not signature.by_name[key] then refuse_option(signature, key, n + 1) end
      if given[key] ~= nil then
         torch.raise(("%s: %s is given by position and by name"):format(signature.title, key))
      end
      given[key] = value
   end
   return given
end

-- Returns whether a table, the last argument, is the value of the parameter at its position rather
-- than the table of options. The parameter must accept a table, and no key may be a parameter's
-- name. For an optional parameter, a table counts as options and must be given by name, since
-- otherwise misspelt options would be taken for the value. The exception is the type `names`: its
-- tables may be given by position if no key of two or more letters resembles a parameter's name.
local function is_value(signature, position, value)
   local parameter = signature[position]
   if not parameter or next(value) == nil and parameter.optional then return false end
   if parameter.optional and not takes(parameter, "names") then return false end
   for key in pairs(value) do
      if signature.by_name[key] then return false end
      if parameter.optional and #key > 1 and suggest().nearest(key, signature.by_name) then
         return false
      end
   end
   return takes(parameter, "table") or takes(parameter, "any") or takes(parameter, "names")
end

local function take(signature, ...)
   if signature.text then parse(signature) end
   local n, count = select("#", ...), #signature
   local given, options = {...}, nil
   local last = given[n]
   if type(last) == "table" and is_options(last) and not is_value(signature, n, last) then
      given[n] = nil
      n, options = n - 1, last
   end
   if n > count then
      torch.raise(("%s: expected at most %d arguments, got %d"):format(signature.title, count, n))
   end
   if options then given = by_name(signature, given, n, options) end

   local taken = {}
   for i = 1, count do
      local parameter = signature[i]
      local name = parameter.name
      local value = given[options and name or i]
      if value ~= nil then
         taken[name] = convert(signature, parameter, value)
      elseif parameter.optional then
         taken[name] = parameter.default
      else
         torch.raise(("%s: %s is missing; expected %s"):format(
            signature.title, name, parameter.expected))
      end
   end
   return taken
end

--- Declares the arguments of a function.
---@param text string  "name(parameter: type = default, ...)"
---@return fun(...): table take  takes arguments by position and by name, and returns a
--- table from names to values
---@return fun(): string[] names  returns the names of the parameters
function M.declare(text)
   local title, list = text:match "^%s*([%w_.]+)%s*%((.*)%)%s*$"
   assert(title, "cannot read the signature " .. text)
   local signature = {title = title, text = list}
   declared[title] = signature
   local names
   return function(...) return take(signature, ...) end, function()
      names = names or names_of(M.declaration(signature))
      return names
   end
end

--- Declares arguments as `declare` does, but returns only the function.
---@param text string  "name(parameter: type = default, ...)"
---@return fun(...): table
function M.signature(text)
   return (M.declare(text))
end

--- Returns the signature of a function that is already declared. A signature is a list of
--- parameters.
---@param title string|table  the function's name in messages, or a signature
---@return {title: string, by_name: table, [integer]: table}?
function M.declaration(title)
   local signature = type(title) == "table" and title or declared[title]
   return signature and signature.text and parse(signature) or signature
end

--- Returns the titles of all functions declared so far.
---@return string[]
function M.titles()
   local titles = {}
   for title in pairs(declared) do titles[#titles + 1] = title end
   table.sort(titles)
   return titles
end

--- Expands one number to a list of n, or checks a list of n.
---@param name string  the function's name, for the message
---@param what string  the argument's name
---@param value number|number[]
---@param n integer
---@return number[]
function M.expand(name, what, value, n)
   if type(value) == "number" then
      local list = {}
      for i = 1, n do list[i] = value end
      return list
   end
   if type(value) ~= "table" then
      M.refuse(name, what, ("a number or a list of %d"):format(n), value)
   elseif #value ~= n then
      torch.raise(("%s: %s: expected a number or a list of %d, got %d of them"):format(
         name, what, n, #value))
   end
   return value
end

--- Raises `name: what: expected X, got <value>` at the user's line.
---@param name string
---@param what string
---@param expected string
---@param value any
function M.refuse(name, what, expected, value)
   torch.raise(("%s: %s: expected %s, got %s"):format(name, what, expected, M.describe(value)))
end

-- Returns the results of a pcall, or raises its error. If the message begins with the name of
-- another operator, it is replaced by `name`, the operator that was called.
local function relay(name, title, first, ok, ...)
   if ok then return ... end
   local why = ...
   if type(why) ~= "string" then error(why, 0) end
   if why:find ": attempt to %l+" or why:find ": bad argument #" then
      if not title or M.kind_of(first) == title then
         torch.raise(name .. ": got arguments that do not fit together")
      end
      M.refuse(name, "self", "a " .. title, first)
   end
   local where, who, text = why:match "^(.-:%d+: )([%w_.]+): (.*)$"
   if not where then
      where, who, text = "", why:match "^([%w_.]+): (.*)$"
   end
   local fits = not who or who == name or who:sub(-#name - 1) == "." .. name
   error(fits and why or ("%s%s: %s"):format(where, name, text), 0)
end

--- Maps each function that `named` has returned to the function that it calls.
M.inner = setmetatable({}, {__mode = "k"})

--- Returns a function that calls fn. The messages of its errors begin with `name` instead of the
--- name of another operator that fn calls. fn takes tensors of a wrapped kind without checks, so if
--- Lua itself raises an error in fn, the message says that the arguments are wrong.
---@param name string
---@param fn function
---@param title? string  the kind of tensor that the first argument should be
---@return function
function M.named(name, fn, title)
   local function named(first, ...) return relay(name, title, first, pcall(fn, first, ...)) end
   M.inner[named] = fn
   return named
end

return M
