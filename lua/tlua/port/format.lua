-- format.lua - translates formatted strings: f"{x:.2f}", "{}".format(x) and "%d" % x become
-- string.format.

local literals = require "tlua.port.literals"
local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local is = types.is
local prec = Porter.prec

local M = {}

-- Converts a Python format specification to C's, for a value of a given type; returns nil if C has
-- no equivalent.
local function convert(spec, ty)
   local fill, align, sign, hash, zero, width, comma, dot, kind =
      spec:match "^(.?)([<>=^])([+ -]?)(#?)(0?)(%d*)([,_]?)(%.?%d*)([%a%%]?)$"
   if not fill then
      fill, align = "", ""
      sign, hash, zero, width, comma, dot, kind =
         spec:match "^([+ -]?)(#?)(0?)(%d*)([,_]?)(%.?%d*)([%a%%]?)$"
   end
   if not sign or comma ~= "" or align == "^" or (fill ~= "" and fill ~= " ") then return nil end
   if kind:find "^[%%bnxXo]$" then return nil end
   if sign == "-" then sign = "" end
   local left = align == "<" or align == "" and width ~= "" and (kind == "s" or kind == "")
      and not is(ty, "int pos float num bool tensor")
   if kind == "" then kind = dot ~= "" and (is(ty, "str") and "s" or "g") or "s" end
   if kind == "s" and sign .. zero ~= "" then
      kind = is(ty, "float") and "g" or "d"
   end
   if kind == "F" then kind = "f" end
   return "%" .. (left and "-" or "") .. sign .. hash .. zero .. width .. dot .. kind, kind
end

-- Returns the text of an argument for a conversion of string.format. A tensor of one element is
-- converted to a number, and a list to text as Python prints it.
local function argument(P, e, kind)
   if kind:find "[dfgeEGxXo]" and is(e.ty, "tensor") then
      return P:text(e, "prefix") .. ":item()"
   elseif kind == "s" and is(e.ty, "list tuple dict set args") then
      return ("%s(%s)"):format(P:py "str", e.t)
   end
   return e.t
end

-- Returns the text of a call's arguments, on several lines if one would be too long. `taken` is
-- the width in columns of the part of the call that is already written.
local function filled(P, taken, arguments)
   local list = table.concat(arguments, ", ")
   if 3 * P.level + taken + #list <= Porter.width - 10 or #arguments < 2 then return list end
   local lines, line = {}, P:indent(1)
   for i, item in ipairs(arguments) do
      local word = item .. (i < #arguments and ", " or "")
      if #line + #word > Porter.width and line:find "%S" then
         lines[#lines + 1] = line:gsub("%s+$", "")
         line = P:indent(1)
      end
      line = line .. word
   end
   lines[#lines + 1] = line
   return "\n" .. table.concat(lines, "\n")
end

-- Makes a call of string.format from a list of pieces. A piece is a string, or a table {e =
-- expression, spec = format specification, repr = boolean}.
local function build(P, node, pieces)
   local text, arguments, plain = {}, {}, {}
   for _, piece in ipairs(pieces) do
      if type(piece) == "string" then
         text[#text + 1] = piece:gsub("%%", "%%%%")
         plain[#plain + 1] = piece
      else
         local e = piece.e
         local conversion, kind = convert(piece.spec or "", e.ty)
         if conversion then
            text[#text + 1] = conversion
            arguments[#arguments + 1] = argument(P, e, kind)
         else
            text[#text + 1] = "%s"
            arguments[#arguments + 1] = ("%s(%s, %s)"):format(P:py "format", e.t,
               literals.quote(piece.spec))
         end
         if piece.repr and is(e.ty, "str") then text[#text] = "'%s'" end
         if e.ty and e.ty.multi then
            P:note(node, "several results in a string: only the first one is shown")
         end
      end
   end
   if #arguments == 0 then
      return {t = literals.quote(table.concat(plain)), p = prec.atom, ty = types.str}
   end
   local head = "(" .. literals.quote(table.concat(text)) .. "):format("
   return {t = head .. filled(P, #head, arguments) .. ")", p = prec.prefix, ty = types.str}
end

-- f-strings ---------------------------------------------------------------------------------------

local function spec_text(P, spec)
   if not spec then return "" end
   local text = {}
   for _, value in ipairs(spec.values) do
      if value._ == "Constant" then
         text[#text + 1] = value.text
      else
         P:note(value, "a width that is computed within a format: {x:{width}}")
      end
   end
   return table.concat(text)
end

--- f"..."
function M.joined(P, node)
   local pieces = {}
   for _, value in ipairs(node.values) do
      if value._ == "Constant" then
         pieces[#pieces + 1] = value.text
      else
         pieces[#pieces + 1] = {
            e = P:expr(value.value), spec = spec_text(P, value.format_spec),
            repr = value.conversion == 114,
         }
      end
   end
   return build(P, node, pieces)
end

-- "{}".format -------------------------------------------------------------------------------------

-- Returns the argument to which a field such as "{}", "{0}" or "{name}" refers, and the number of
-- fields without a number so far, which `counter` was before this field.
local function field_node(call, field, counter)
   local name = field:match "^[%w_]*"
   if name == "" then return call.args[counter + 1], counter + 1 end
   local number = math.tointeger(tonumber(name))
   if number then return call.args[number + 1], counter end
   for _, keyword in ipairs(call.keywords) do
      if keyword.arg == name then return keyword.value, counter end
   end
end

--- Translates `"text {} {:.2f}".format(...)`; returns nil if the text is not a literal or a field
--- is not supported.
function M.method(P, call)
   local holder = call.func.value
   if holder.kind ~= "str" then return nil end
   local pieces, position, counter = {}, 1, 0
   local text = holder.text
   while position <= #text do
      local brace = text:find("[{}]", position)
      if not brace then break end
      if text:sub(brace, brace + 1) == "{{" or text:sub(brace, brace + 1) == "}}" then
         pieces[#pieces + 1] = text:sub(position, brace)
         position = brace + 2
      else
         pieces[#pieces + 1] = text:sub(position, brace - 1)
         local field, rest = text:match("^{([^{}:!]*)([^{}]*)}()", brace)
         if not field then return nil end
         local conversion, spec = rest:match "^(!?%a?):?(.*)$"
         local node
         node, counter = field_node(call, field, counter)
         if not node or node._ == "Starred" or field:find "[.[]" then return nil end
         pieces[#pieces + 1] = {e = P:expr(node), spec = spec, repr = conversion == "!r"}
         position = brace + 2 + #field + #rest
      end
   end
   pieces[#pieces + 1] = text:sub(position)
   return build(P, call, pieces)
end

-- "%d" % x ----------------------------------------------------------------------------------------

--- Translates Python's `text % values` to string.format. The conversions of both, such as %d, are
--- those of C.
function M.percent(P, node)
   local text = P:expr(node.left)
   local nodes = node.right._ == "Tuple" and node.right.elts or {node.right}
   local kinds = {}
   for kind in (node.left.text or ""):gsub("%%%%", ""):gmatch "%%[-+ #0%d.]*(%a)" do
      kinds[#kinds + 1] = kind
   end
   local list = {}
   for i, item in ipairs(nodes) do
      local e = P:expr(item)
      if node.right._ ~= "Tuple" and is(e.ty, "tuple") then
         list[i] = ("table.unpack(%s)"):format(e.t)
      else
         list[i] = argument(P, e, kinds[i] or "s")
      end
   end
   if text.t:find "%%r" then text.t = text.t:gsub("%%r", "%%s") end
   return {t = ("(%s):format(%s)"):format(text.t, filled(P, #text.t + 12, list)), p = prec.prefix,
      ty = types.str}
end

--- Translates several arguments of Python's print to one string in Lua, in which `separator` stands
--- between the arguments.
function M.spaced(P, node, nodes, separator)
   local pieces = {}
   for i, item in ipairs(nodes) do
      if i > 1 then pieces[#pieces + 1] = separator end
      if item._ == "Constant" and item.kind == "str" then
         pieces[#pieces + 1] = item.text
      elseif item._ == "JoinedStr" then
         for _, value in ipairs(item.values) do
            pieces[#pieces + 1] = value._ == "Constant" and value.text or {
               e = P:expr(value.value), spec = spec_text(P, value.format_spec),
               repr = value.conversion == 114,
            }
         end
      else
         pieces[#pieces + 1] = {e = P:expr(item)}
      end
   end
   return build(P, node, pieces)
end

return M
