-- argparse.lua - translates Python's argparse to torch.utils.options, whose parser has the same
-- methods under Lua's names: option, flag, argument.

local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local prec = Porter.prec

local M = {}

local function options_of(node)
   local options = {}
   for _, item in ipairs(node.keywords) do
      if item.arg then options[item.arg] = item.value end
   end
   return options
end

--- Translates `argparse.ArgumentParser(description=...)`.
function M.parser(P, node)
   P.uses_torch = true
   local options = options_of(node)
   local name = options.prog and P:emit(options.prog) or "arg[0]"
   local text = options.description and ", " .. P:emit(options.description) or ""
   return {t = ("torch.utils.options(%s%s)"):format(name, text), p = prec.prefix,
      ty = {k = "parser", fields = {}}}
end

local kinds = {int = types.int, float = types.float, str = types.str, bool = types.bool}

local function field_of(names, options)
   if options.dest then return options.dest.text end
   local best
   for _, name in ipairs(names) do
      local field = name:gsub("^%-+", ""):gsub("%-", "_")
      if not best or #field > #best then best = field end
   end
   return best
end

-- Returns the text and the type of an option's default, or nil if it has none. The default of a
-- float option is written as a float: 1 becomes 1.0.
local function default_of(P, options)
   local node = options.default
   if not node or node.kind == "none" then return nil end
   local text, e = P:emit(node)
   local is_float = options.type and options.type.id == "float"
   if is_float and e.ty == types.int and text:find "^%-?%d+$" then
      text = text .. ".0"
   end
   return text, e.ty
end

--- Translates `parser.add_argument(...)`.
function M.add(P, node, object, ty)
   local names, options = {}, options_of(node)
   for i, item in ipairs(node.args) do names[i] = item.text or "" end
   local help = options.help and P:emit(options.help) or '""'
   local field = field_of(names, options)
   local action = options.action and options.action.text
   local list = ("%q"):format(table.concat(names, " "))
   if action == "store_true" or action == "store_false" then
      if action == "store_false" then
         P:note(node, ("--%s with store_false: a flag is false until it is given here")
            :format(field))
      end
      ty.fields[field] = types.bool
      local more = help ~= '""' and ", " .. help or ""
      return {t = ("%s:flag(%s%s)"):format(object, list, more), p = prec.prefix, ty = types.none}
   end
   local default, default_type = default_of(P, options)
   local named = options.type and (options.type.id or options.type.attr)
   ty.fields[field] = default and (kinds[named] or default_type or types.str)
      or setmetatable({maybe = true}, {__index = kinds[named] or types.str})
   local method = names[1] and names[1]:sub(1, 1) == "-" and "option" or "argument"
   local text = ("%s:%s(%s, %s%s)"):format(object, method, list, help,
      default and ", " .. default or "")
   if options.choices then text = text .. (":choices(%s)"):format(P:emit(options.choices)) end
   if options.nargs then P:note(node, ("--%s: several values (nargs)"):format(field)) end
   if not default and named and (named == "int" or named == "float") then
      text = text .. ":convert(tonumber)"
   elseif named and not kinds[named] or named == "bool" then
      P:note(node, ("--%s: type %s; :convert(fn) takes a function of the text"):format(field,
         named))
   end
   return {t = text, p = prec.prefix, ty = types.none}
end

--- Translates `parser.parse_args()`.
function M.parse(object, ty)
   return {t = object .. ":parse()", p = prec.prefix, ty = {k = "args", fields = ty.fields}}
end

return M
