-- subscripts.lua - translates subscripts: positions from 0 become positions from 1, and slices
-- become ranges that include their end.

local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local is = types.is
local prec = Porter.prec

local M = {}

-- Returns the value of an integer literal, which may be negative.
local function literal(node)
   if node._ == "Constant" and node.kind == "int" then
      return math.tointeger(tonumber(node.text))
   end
   if node._ == "UnaryOp" and node.op._ == "USub" and node.operand.kind == "int" then
      local value = math.tointeger(tonumber(node.operand.text))
      return value and -value
   end
end
M.literal = literal

local function is_negative(node)
   return node._ == "UnaryOp" and node.op._ == "USub"
end

--- Returns the text of an integer expression plus `n`. The sum of `i - 1` and 1 is written `i`.
---@param P port.Porter
---@param node table
---@param n integer
---@return string text
---@return table e  the translation without the addition
function M.moved(P, node, n)
   local value = literal(node)
   if value then
      return tostring(value + n), {t = tostring(value), p = prec.atom, ty = types.int}
   end
   if node._ == "BinOp" and (node.op._ == "Add" or node.op._ == "Sub") then
      local by = literal(node.right)
      if by then
         local left, e = P:emit(node.left, "add")
         local total = (node.op._ == "Add" and by or -by) + n
         if is(e.ty, "pos") then total = total - n end
         if total == 0 then return left, e end
         return ("%s %s %d"):format(left, total > 0 and "+" or "-", math.abs(total)), e
      end
   end
   local text, e = P:emit(node, n == 0 and "or" or "add")
   if n == 0 or is(e.ty, "pos") then return text, e end
   return ("%s %s %d"):format(text, n > 0 and "+" or "-", math.abs(n)), e
end

-- Ranges ------------------------------------------------------------------------------------------

-- Returns the texts of the first position, of the last position (which belongs to the slice) and of
-- the step of a slice. Positions count from 1. A text is nil if the slice leaves that part out.
local function bounds(P, slice)
   local first, last
   local function may_be_negative(node)
      local ty = not literal(node) and P:inline(node).ty
      return ty and ty.neg
   end
   if slice.lower and slice.lower.kind ~= "none" then
      if is_negative(slice.lower) then
         first = P:emit(slice.lower)
      elseif may_be_negative(slice.lower) then
         first = ("%s(%s)"):format(P:py "position", (P:emit(slice.lower)))
      else
         first = M.moved(P, slice.lower, 1)
      end
   end
   if slice.upper and slice.upper.kind ~= "none" then
      if is_negative(slice.upper) then
         last = M.moved(P, slice.upper, -1)
      elseif may_be_negative(slice.upper) then
         last = ("%s(%s)"):format(P:py "stop", (P:emit(slice.upper)))
      else
         last = P:emit(slice.upper)
      end
   end
   local step = slice.step and slice.step.kind ~= "none" and P:emit(slice.step) or nil
   if first == "1" and not step then first = nil end
   return first, last, step
end

-- Translates a slice of one dimension of a tensor to a range such as {1, -1}, one of the entries in
-- x[{...}].
local function tensor_range(P, slice)
   local first, last, step = bounds(P, slice)
   if step and step:sub(1, 1) == "-" then
      P:note(slice, "a slice that runs backwards: x:flip(dim) is its counterpart for tensors")
   end
   if not first and not last and not step then return "{}" end
   local parts = {first or "1", last or "-1"}
   parts[3] = step ~= "1" and step or nil
   return "{" .. table.concat(parts, ", ") .. "}"
end

-- Returns whether an integer expression may be negative, so that Python would count from the end. A
-- difference may be negative, unless its variable is known to be large enough.
local function may_be_negative(P, node)
   if node._ ~= "BinOp" then
      local ty = node._ == "Name" and P:inline(node).ty
      return ty and ty.neg or false
   end
   if node.op._ == "Add" then
      return may_be_negative(P, node.left) or may_be_negative(P, node.right)
   end
   if node.op._ ~= "Sub" then return false end
   local by, left = literal(node.right), node.left
   local ty = P:inline(left).ty
   if not by then return true end
   if by <= 0 then return may_be_negative(P, left) end
   if ty and ty.low then return ty.low < by end
   return not (by == 1 and left._ ~= "Name") -- len(x) - 1
end

-- Tensors -----------------------------------------------------------------------------------------

-- Translates one index of a tensor: an integer, a range, a mask, positions, nil or "...".
local function tensor_index(P, node)
   if node._ == "Slice" then return tensor_range(P, node) end
   if node.kind == "none" then
      P.uses_torch = true
      return "torch.newaxis"
   elseif node.kind == "ellipsis" then
      return '"..."'
   end
   local value = literal(node)
   if value then return tostring(value >= 0 and value + 1 or value) end
   if is_negative(node) then return P:emit(node) end
   local e = P:expr(node)
   if is(e.ty, "tensor") then
      if not e.ty.bool and not e.ty.pos then
         P:note(node, ("`%s` as positions: they count from 1 (a mask needs nothing)"):format(e.t))
      end
      return e.t
   elseif is(e.ty, "list tuple") then
      P:note(node, ("`%s` as positions: they count from 1"):format(e.t))
      return e.t
   elseif e.ty and e.ty.neg or is(e.ty, "int num") and may_be_negative(P, node) then
      return ("%s(%s)"):format(P:py "position", e.t)
   elseif is(e.ty, "int pos num") then
      return (M.moved(P, node, 1))
   elseif e.ty then
      return e.t
   end
   if node._ == "Compare" or node._ == "UnaryOp" then return e.t end
   return M.moved(P, node, 1) .. P:mark(node, "index?",
      ("`%s` is taken for a position that counts from 0; a mask needs no `+ 1`"):format(e.t))
end

local function is_range(node)
   return node._ == "Slice" or node.kind == "none" or node.kind == "ellipsis"
end

local function on_tensor(P, object, index)
   if index._ == "Tuple" then
      local parts = {}
      for i, item in ipairs(index.elts) do parts[i] = tensor_index(P, item) end
      return ("%s[{%s}]"):format(object, table.concat(parts, ", "))
   end
   local text = tensor_index(P, index)
   if is_range(index) then return ("%s[{%s}]"):format(object, text) end
   return ("%s[%s]"):format(object, text)
end

-- Lists and strings -----------------------------------------------------------------------------

local function list_slice(P, object, slice, ty)
   local first, last, step = bounds(P, slice)
   if is(ty, "str") then
      if step then P:note(slice, "a slice of a string with a step") end
      return ("%s:sub(%s%s)"):format(object, first or "1", last and ", " .. last or "")
   end
   if step == "-1" and not first and not last then
      return ("%s(%s)"):format(P:py "reversed", object)
   end
   local parts = {object, first or "1", last or step and "-1", step}
   return ("%s(%s)"):format(P:py "slice", table.concat(parts, ", "))
end

--- Returns the position in Lua of the list item that a Python index refers to.
---@param P port.Porter
---@param object string  the list
---@param node table
---@return string
function M.position(P, object, node)
   local value = literal(node)
   if value and value < 0 or is_negative(node) then
      local back = value and -value - 1
      if back == 0 then return "#" .. object end
      if back then return ("#%s - %d"):format(object, back) end
      return ("#%s + 1 - %s"):format(object, (P:emit(node.operand, "mul")))
   end
   local e = not value and P:inline(node)
   if e and (e.ty and e.ty.neg or is(e.ty, "int num") and may_be_negative(P, node)) then
      return ("%s(%s, #%s)"):format(P:py "position", e.t, object)
   end
   return (M.moved(P, node, 1))
end

local function list_item(P, object, node)
   local value = literal(node)
   -- The object's text contains a call, which must run only once, so a function takes the object as
   -- an argument.
   if value and value < 0 and object:find "[%(]" then
      return ("%s(%s, %d)"):format(P:py "from_end", object, -value)
   end
   return ("%s[%s]"):format(object, M.position(P, object, node))
end

--- Translates an assignment to a slice of a list.
---@param P port.Porter
---@param target table  a Subscript with a Slice
---@param text string  the values
---@return string
function M.set_slice(P, target, text)
   local first, last, step = bounds(P, target.slice)
   if step then P:note(target, "an assignment to a slice of a list with a step") end
   return ("%s(%s, %s, %s, %s)"):format(P:py "set_slice", (P:emit(target.value, "prefix")),
      first or "1", last or "-1", text)
end

--- Translates `f(x)[0]`, where Lua's f returns several results: selects one of them, here the
--- first.
function M.result(P, e, position, ty)
   local item = ty.es and ty.es[position + 1]
   if not ty.multi then
      return {t = ("%s[%d]"):format(P:text(e, "prefix"), position + 1), p = prec.prefix, ty = item}
   end
   if position == 0 then return {t = "(" .. e.t .. ")", p = prec.prefix, ty = item} end
   return {t = ("(select(%d, %s))"):format(position + 1, e.t), p = prec.prefix, ty = item}
end

-- Translates `x.shape[i]` and `x.size()[i]`.
local function size_of(P, node)
   local inner = node.value
   local position = literal(node.slice)
   local holder = inner._ == "Attribute" and inner.attr == "shape" and inner.value
      or inner._ == "Call" and inner.func._ == "Attribute" and inner.func.attr == "size"
         and #inner.args == 0 and #inner.keywords == 0 and inner.func.value
   if not holder or not position or P:path(holder) then return nil end
   local object = P:emit(holder, "prefix")
   return {t = ("%s:size(%d)"):format(object, position < 0 and position or position + 1),
      p = prec.prefix, ty = types.int}
end

-- Translates `object[index]` for a container of a known type. Returns nil for other types.
local function element(P, object, e, node)
   local ty, index = e.ty, node.slice
   if is(ty, "tensor") then
      return {t = on_tensor(P, object, index), p = prec.prefix,
         ty = ty.bool and types.mask or ty.pos and types.positions or types.tensor}
   elseif is(ty, "str") then
      if index._ == "Slice" then
         return {t = list_slice(P, object, index, ty), p = prec.prefix, ty = types.str}
      end
      local at = literal(index)
      local e_index = not at and P:inline(index)
      local text
      if e_index and e_index.ty and e_index.ty.neg then
         text = ("%s(%s)"):format(P:py "position", e_index.t)
      else
         text = at and tostring(at < 0 and at or at + 1) or M.moved(P, index, 1)
      end
      return {t = ("%s:sub(%s, %s)"):format(object, text, text), p = prec.prefix, ty = types.str}
   elseif is(ty, "list tuple nn module") then
      if index._ == "Slice" then
         return {t = list_slice(P, object, index, ty), p = prec.prefix, ty = ty}
      end
      if is(ty, "nn module") and (index.kind == "str" or is(P:inline(index).ty, "str")) then
         return {t = ("%s[%s]"):format(object, P:emit(index)), p = prec.prefix, ty = types.nn}
      end
      local at = literal(index)
      local item = ty.e or ty.es and at and ty.es[at + 1]
      if is(ty, "nn module") then item = ty.e or types.nn end
      return {t = list_item(P, object, index), p = prec.prefix, ty = item}
   elseif is(ty, "dict args") then
      return {t = ("%s[%s]"):format(object, P:emit(index)), p = prec.prefix, ty = ty.v}
   end
end

local function on_unknown(P, object, node)
   local index = node.slice
   if index._ == "Slice" or index._ == "Tuple" then
      return {t = on_tensor(P, object, index), p = prec.prefix, ty = types.tensor}
   end
   local value = literal(index)
   if index.kind == "str" then
      if index.text:find "^[%a_][%w_]*$" then
         return {t = P:field(object, index.text), p = prec.prefix}
      end
      return {t = ("%s[%s]"):format(object, P:emit(index)), p = prec.prefix}
   elseif value then
      local text = value < 0 and value or value + 1
      -- The object's text contains no call, so it may be evaluated twice.
      if value < 0 and not object:find "[%({]" then
         text = ("%s(%d, #%s)"):format(P:py "position", value, object)
      end
      return {t = ("%s[%s]"):format(object, text), p = prec.prefix}
   end
   local e = P:expr(index)
   if e.ty and not is(e.ty, "int num") then
      return {t = ("%s[%s]"):format(object, e.t), p = prec.prefix}
   end
   if is(e.ty, "int num") then
      return {t = ("%s[%s%s]"):format(object, M.moved(P, index, 1), P:mark(node, "index?",
         ("`%s` is taken for a position; as the key of a table it needs no `+ 1`"):format(e.t))),
         p = prec.prefix}
   end
   return {t = ("%s[%s%s]"):format(object, e.t, P:mark(node, "index?",
      ("`%s` is taken for a key; as a position it needs `+ 1`"):format(e.t))), p = prec.prefix}
end

--- Translates `object[index]`.
function M.emit(P, node)
   local size = size_of(P, node)
   if size then return size end
   local path = P:path(node.value)
   if path == "os.environ" then
      return {t = ("os.getenv(%s)"):format(P:emit(node.slice)), p = prec.prefix, ty = types.str}
   elseif path == "sys.argv" then
      return {t = ("arg[%s]"):format(P:emit(node.slice)), p = prec.prefix, ty = types.str}
   end
   local object, e = P:emit(node.value, "prefix")
   local position = literal(node.slice)
   if is(e.ty, "tuple") and e.ty.multi and position and position >= 0 then
      return M.result(P, e, position, e.ty)
   end
   if is(e.ty, "inst") then
      local method = P:find_method(e.ty.c, "__getitem__")
      if method then
         local at = literal(node.slice)
         if e.ty.c.is_dataset and not (at and at < 0) then
            return {t = ("%s:get(%s)"):format(object, (M.moved(P, node.slice, 1))), p = prec.prefix,
               ty = method.result}
         end
         return {t = ("%s:get(%s)"):format(object, P:emit(node.slice)), p = prec.prefix,
            ty = method.result}
      end
   end
   return element(P, object, e, node) or on_unknown(P, object, node)
end

return M
