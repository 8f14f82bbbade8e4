-- expressions.lua - translates Python's expressions, except calls (calls.lua), subscripts
-- (subscripts.lua) and formatted strings (format.lua).

local calls = require "tlua.port.calls"
local comprehensions = require "tlua.port.comprehensions"
local format = require "tlua.port.format"
local library = require "tlua.port.library"
local literals = require "tlua.port.literals"
local subscripts = require "tlua.port.subscripts"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"

local is = types.is
local prec = Porter.prec

local emit = {}

--- Translates an expression.
---@param node table
---@return {t: string, p: integer, ty: table?}
function Porter:expr(node)
   local handler = emit[node._]
   if not handler then
      self:note(node, "no translation for Python's " .. node._)
      return {t = ('error "port: %s"'):format(node._), p = prec.prefix}
   end
   local e = handler(self, node)
   node.ty = e.ty
   return e
end

--- Translates an expression, with parentheses if its precedence is lower than `least`.
function Porter:emit(node, least)
   local e = self:expr(node)
   return self:text(e, least or "or"), e
end

--- Translates an expression that the script evaluates only in some cases, such as the second
--- operand of `and`. So no lines that the expression needs may be written before the statement.
function Porter:inline(node)
   local could = self.can_hoist
   self.can_hoist = false
   local e = self:expr(node)
   self.can_hoist = could
   return e
end

-- Literals and names ------------------------------------------------------------------------------

emit.Constant = literals.constant

function emit.Name(P, node)
   local ty = P:lookup(node.id)
   if not ty and not P:is_known(node.id) then
      local known = library.builtin_values[node.id]
      if known then return {t = known, p = prec.prefix, ty = types.fn} end
   end
   return {t = P:name(node.id), p = prec.prefix, ty = ty}
end

function emit.JoinedStr(P, node) return format.joined(P, node) end

function emit.Tuple(P, node) return literals.list(P, node, "tuple") end
function emit.List(P, node) return literals.list(P, node, "list") end
function emit.Dict(P, node) return literals.dict(P, node) end

function emit.Set(P, node)
   return {t = P:py "set" .. "{" .. literals.items(P, node.elts) .. "}", p = prec.prefix,
      ty = types.set}
end

function emit.Starred(P, node)
   return {t = "table.unpack(" .. P:emit(node.value) .. ")", p = prec.prefix}
end

-- Attributes --------------------------------------------------------------------------------------

local tensor_fields = {
   shape = types.list_of(types.int), dtype = types.dtype, device = types.device,
   grad = types.tensor, data = types.tensor, T = types.tensor, is_cuda = types.bool,
   requires_grad = types.bool, ndim = types.int, real = types.tensor, imag = types.tensor,
}

local function field_type(P, object, name)
   if not object then return nil end
   if object.k == "tensor" then return tensor_fields[name] end
   if object.k == "inst" then return P:field_of(object.c, name) end
   if object.k == "args" then return object.fields and object.fields[name] end
   if object.k == "nn" and (name == "weight" or name == "bias") then return types.tensor end
   if object.k == "nn" and name == "training" then return types.bool end
   if object.k == "nn" and name:find "_features$" then return types.int end
   if object.k == "optimizer" and name == "param_groups" then return types.list_of(types.dict) end
   if object.k == "loader" and name == "dataset" then return types.dataset end
   if object.k == "class" and name == "__name__" then return types.str end
end

function emit.Attribute(P, node)
   local path = P:path(node)
   if path then return library.value(P, node, path) end
   local inner = node.value
   if node.attr == "__name__" and inner._ == "Attribute" and inner.attr == "__class__" then
      P.uses_torch = true
      return {t = ('torch.type(%s):match("[^.]*$")'):format(P:emit(inner.value)), p = prec.prefix,
         ty = types.str}
   elseif node.attr == "__name__" and inner._ == "Call" and inner.func.id == "type" then
      P.uses_torch = true
      return {t = ('torch.type(%s):match("[^.]*$")'):format(P:emit(inner.args[1])), p = prec.prefix,
         ty = types.str}
   end
   local object, e = P:emit(inner, "prefix")
   local ty = e.ty
   if is(ty, "tuple") and (node.attr == "values" or node.attr == "indices") then
      return subscripts.result(P, e, node.attr == "values" and 0 or 1, ty)
   end
   if is(ty, "tensor") and node.attr == "ndim" then
      return {t = object .. ":dim()", p = prec.prefix, ty = types.int}
   end
   if P:is_property(ty, node.attr) then
      return {t = object .. ":" .. node.attr .. "()", p = prec.prefix}
   end
   if P:is_method_name(ty, node.attr) and not P:field_of(ty and ty.c, node.attr) then
      return calls.bound(P, node, object)
   end
   return {t = P:field(object, node.attr), p = prec.prefix, ty = field_type(P, ty, node.attr)}
end

emit.Subscript = subscripts.emit

-- Operators ---------------------------------------------------------------------------------------

local binary = {
   Add = {"+", "add"}, Sub = {"-", "add"}, Mult = {"*", "mul"}, Div = {"/", "mul"},
   FloorDiv = {"//", "mul"}, Mod = {"%", "mul"}, Pow = {"^", "pow"}, BitOr = {"|", "bor"},
   BitAnd = {"&", "band"}, BitXor = {"~", "bxor"}, LShift = {"<<", "shift"},
   RShift = {">>", "shift"},
}

local function number_type(a, b, op)
   if is(a, "tensor") or is(b, "tensor") then
      local mask = is(a, "tensor") and a.bool and is(b, "tensor") and b.bool
      return mask and op:find "^Bit" and types.mask or types.tensor
   end
   if op == "Div" then return (a and b) and types.float or nil end
   local whole = is(a, "int pos bool") and is(b, "int pos bool")
   if whole then return (a.neg or b.neg) and types.negative or types.int end
   if is(a, "int pos bool num float") and is(b, "int pos bool num float") then
      return (is(a, "float") or is(b, "float")) and types.float or types.num
   end
   return nil
end

local function concat(P, left, right)
   local function part(e)
      local inner = e.t:match "^tostring(%b())$"
      if inner and is(e.inner, "int str") then return inner:sub(2, -2) end
      if e.p == prec.atom and e.t:find "^%d" then return "(" .. e.t .. ")" end
      return P:text(e, "concat")
   end
   return {t = part(left) .. " .. " .. part(right), p = prec.concat, ty = types.str}
end

-- Translates `a ** b`. `2 ** 10` is an integer in Python, but Lua's ^ always gives a float.
local function power(P, node, left, right)
   if is(left.ty, "int") and is(right.ty, "int") then
      local exponent = subscripts.literal(node.right)
      if exponent and exponent < 0 then
         local base = left.p > prec.pow and left.t or "(" .. left.t .. ")"
         return {t = base .. " ^ " .. right.t, p = prec.pow, ty = types.float}
      elseif exponent and exponent < 63 and node.left.kind == "int" and node.left.text == "2" then
         return {t = "1 << " .. P:text(right, "add"), p = prec.shift, ty = types.int}
      end
      return {t = P:py "power" .. ("(%s, %s)"):format(left.t, right.t), p = prec.prefix,
         ty = types.int}
   end
   local base = left.p > prec.pow and left.t or "(" .. left.t .. ")"
   return {t = base .. " ^ " .. P:text(right, "unary"), p = prec.pow,
      ty = number_type(left.ty, right.ty, "Pow")}
end

local function on_lists(P, node, left, right)
   local op = node.op._
   if op == "Add" and (is(left.ty, "list tuple") or is(right.ty, "list tuple")) then
      return {t = ("%s(%s, %s)"):format(P:py "concat", left.t, right.t), p = prec.prefix,
         ty = left.ty or right.ty}
   elseif op == "Mult" and (is(left.ty, "list tuple str") or is(right.ty, "list tuple str")) then
      local list, count = left, right
      if is(right.ty, "list tuple str") then list, count = right, left end
      if is(list.ty, "str") then
         return {t = P:text(list, "prefix") .. (":rep(%s)"):format(count.t), p = prec.prefix,
            ty = types.str}
      end
      return {t = ("%s(%s, %s)"):format(P:py "rep", list.t, count.t), p = prec.prefix,
         ty = list.ty}
   end
end

function emit.BinOp(P, node)
   local op = node.op._
   if op == "Mod" and (node.left._ == "JoinedStr" or node.left.kind == "str") then
      return format.percent(P, node)
   end
   local left, right = P:expr(node.left), P:expr(node.right)
   if op == "MatMult" then
      return {t = ("%s:matmul(%s)"):format(P:text(left, "prefix"), right.t), p = prec.prefix,
         ty = types.tensor}
   elseif op == "Mod" and is(left.ty, "str") then
      return {t = ("%s:format(%s)"):format(P:text(left, "prefix"), right.t), p = prec.prefix,
         ty = types.str}
   end
   local special = on_lists(P, node, left, right)
   if special then return special end
   if op == "Add" and (is(left.ty, "str") or is(right.ty, "str")) then
      return concat(P, left, right)
   end
   if op == "Pow" then return power(P, node, left, right) end
   local sign, level = table.unpack(binary[op])
   local needs = prec[level]
   local a = left.p < needs and "(" .. left.t .. ")" or left.t
   local b = right.p <= needs and "(" .. right.t .. ")" or right.t
   return {t = ("%s %s %s"):format(a, sign, b), p = needs,
      ty = number_type(left.ty, right.ty, op)}
end

function emit.UnaryOp(P, node)
   local op = node.op._
   if op == "Not" then return P:negated(node.operand) end
   local e = P:expr(node.operand)
   if op == "UAdd" then return e end
   if op == "Invert" then
      return {t = "~" .. P:text(e, "unary"), p = prec.unary, ty = e.ty}
   end
   local text = P:text(e, "unary")
   if text:sub(1, 1) == "-" then text = "(" .. text .. ")" end
   return {t = "-" .. text, p = prec.unary, ty = is(e.ty, "int pos") and types.negative or e.ty}
end

-- Conditions --------------------------------------------------------------------------------------

local function truth_text(P, e)
   if is(e.ty, "int float num pos") then return P:text(e, "add") .. " ~= 0", prec.compare end
   if is(e.ty, "str") then return P:text(e, "add") .. ' ~= ""', prec.compare end
   if is(e.ty, "list tuple") then return "#" .. P:text(e, "prefix") .. " > 0", prec.compare end
   if is(e.ty, "dict set") then return ("next(%s) ~= nil"):format(e.t), prec.compare end
   if is(e.ty, "tensor") then
      local bool = e.ty.bool and "" or " ~= 0"
      return P:text(e, "prefix") .. ":item()" .. bool, e.ty.bool and prec.prefix or prec.compare
   end
end

--- Translates an expression used as a condition: values that are false in Python must be false in
--- Lua.
function Porter:condition(node)
   local kind = node._
   if kind == "BoolOp" or kind == "Compare" or kind == "UnaryOp" and node.op._ == "Not" then
      node.is_condition = true
      return self:expr(node)
   end
   local e = self:expr(node)
   local ty = e.ty or kind == "Name" and types.by_name(node.id) or nil
   if types.plain_truth(ty) then return e end
   local text, p = truth_text(self, e)
   if text then return {t = text, p = p, ty = types.bool} end
   if e.ty and e.ty.k == "lib" then return e end
   if not e.ty or e.ty.k == "mixed" then
      return {t = ("%s(%s)"):format(self:py "truth", e.t), p = prec.prefix, ty = types.bool}
   end
   return e
end

function Porter:negated(node)
   if node._ == "Compare" and #node.ops == 1 then
      local op = node.ops[1]._
      local opposite = ({In = "NotIn", Is = "IsNot", Eq = "NotEq", NotIn = "In", IsNot = "Is"})[op]
      if opposite then
         return emit.Compare(self, {_ = "Compare", left = node.left, ops = {{_ = opposite}},
            comparators = node.comparators, line = node.line})
      end
   end
   local e = self:condition(node)
   local swapped = {[" ~= 0"] = " == 0", [' ~= ""'] = ' == ""'}
   if e.p == prec.compare and node._ ~= "Compare" and node._ ~= "BoolOp" then
      for tail, other in pairs(swapped) do
         if e.t:sub(-#tail) == tail then
            return {t = e.t:sub(1, -#tail - 1) .. other, p = prec.compare, ty = types.bool}
         end
      end
      local list = e.t:match "^(#.*) > 0$"
      if list then return {t = list .. " == 0", p = prec.compare, ty = types.bool} end
   end
   return {t = "not " .. self:text(e, "unary"), p = prec.unary, ty = types.bool}
end

-- Translates Python's `a or b` for an `a` that may be 0, "" or an empty list. These values are
-- false in Python but true in Lua.
local function either(P, e, rest)
   local test, p = truth_text(P, e)
   if test and e.t:find "^[%a_][%w_.]*$" then
      return {t = ("%s and %s or %s"):format(P:text({t = test, p = p}, "and"), e.t,
         P:text(rest, "or")), p = prec["or"]}
   end
   return {t = ("%s(%s, function() return %s end)"):format(P:py "either", e.t, rest.t),
      p = prec.prefix}
end

-- Translates `x or default` as a value.
local function first_true(P, node)
   local list, ty = {}, nil
   for i, value in ipairs(node.values) do
      local could = P.can_hoist
      P.can_hoist = could and i == 1
      list[i] = P:expr(value)
      P.can_hoist = could
      ty = i == 1 and list[i].ty or types.join(ty, list[i].ty)
   end
   local result = list[#list]
   for i = #list - 1, 1, -1 do
      local e = list[i]
      local known = is(e.ty, "int pos float num str list tuple dict set") and not e.ty.maybe
      if known or not e.ty or e.ty.k == "mixed" then
         result = either(P, e, result)
      else
         result = {t = P:text(e, "or") .. " or " .. P:text(result, "or"), p = prec["or"]}
      end
   end
   result.ty = ty
   return result
end

function emit.BoolOp(P, node)
   if not node.is_condition and node.op._ == "Or" then return first_true(P, node) end
   local level = node.op._ == "And" and "and" or "or"
   local parts, all_bool = {}, true
   for i, value in ipairs(node.values) do
      local could = P.can_hoist
      P.can_hoist = could and i == 1
      -- the last operand is translated as a value, unless the whole expression is a condition
      local e
      if node.is_condition or i < #node.values and not is(P:expr(value).ty, "none") then
         e = P:condition(value)
      else
         e = P:expr(value)
      end
      P.can_hoist = could
      parts[i] = P:text(e, level)
      all_bool = all_bool and is(e.ty, "bool")
   end
   return {t = table.concat(parts, " " .. level .. " "), p = prec[level],
      ty = (all_bool or node.is_condition) and types.bool or nil}
end

local tensor_compare = {Lt = "lt", LtE = "le", Gt = "gt", GtE = "ge", Eq = "eq", NotEq = "ne"}
local swapped = {Lt = "Gt", LtE = "GtE", Gt = "Lt", GtE = "LtE", Eq = "Eq", NotEq = "NotEq"}
local compare = {
   Lt = "<", LtE = "<=", Gt = ">", GtE = ">=", Eq = "==", NotEq = "~=", Is = "==", IsNot = "~=",
}

-- Translates `"a" in text`, `key in dict` and `x in [1, 2]`.
local function membership(P, left, right_node, negative)
   local right = P:expr(right_node)
   local text, p
   if (right_node._ == "List" or right_node._ == "Tuple") and #right_node.elts > 0
         and #right_node.elts <= 4 then
      local parts = {}
      for i, item in ipairs(right_node.elts) do
         parts[i] = ("%s %s %s"):format(P:text(left, "add"), negative and "~=" or "==",
            P:emit(item, "add"))
      end
      local word = negative and "and" or "or"
      return {t = table.concat(parts, " " .. word .. " "),
         p = #parts == 1 and prec.compare or prec[word], ty = types.bool}
   elseif is(right.ty, "dict set args") then
      text = ("%s[%s] %s nil"):format(P:text(right, "prefix"), left.t, negative and "==" or "~=")
      p = prec.compare
   elseif is(right.ty, "str") then
      text = ("%s:find(%s, 1, true) %s nil"):format(P:text(right, "prefix"), left.t,
         negative and "==" or "~=")
      p = prec.compare
   else
      text = ("%s%s(%s, %s)"):format(negative and "not " or "", P:py "contains", right.t, left.t)
      p = negative and prec.unary or prec.prefix
   end
   return {t = text, p = p, ty = types.bool}
end

-- Translates `text.find(part) != -1`.
local function found(P, node)
   local call, op, bound = node.left, node.ops[1]._, node.comparators[1]
   local method = call._ == "Call" and call.func._ == "Attribute" and call.func.attr == "find"
   local minus = bound._ == "UnaryOp" and bound.operand.text == "1"
   local yes = op == "NotEq" and minus or op == "GtE" and bound.text == "0"
   local no = op == "Eq" and minus or op == "Lt" and bound.text == "0"
   if not method or #call.args ~= 1 or not (yes or no) then return nil end
   local object = P:expr(call.func.value)
   if not is(object.ty, "str") then return nil end
   return {t = ("%s:find(%s, 1, true) %s nil"):format(P:text(object, "prefix"),
      P:emit(call.args[1]), yes and "~=" or "=="), p = prec.compare, ty = types.bool}
end

-- Adds a note if the script compares a position from torch, which counts from 1 in tlua, with a
-- number that counts from 0.
local function note_position(P, left, right_node)
   local ty = left.ty
   if ty and (ty.k == "pos" or ty.k == "tensor" and ty.pos) and subscripts.literal(right_node) then
      P:note(right_node, ("`%s` is a position, which counts from 1: %s has to, too"):format(left.t,
         subscripts.literal(right_node)))
   end
end

local function compare_pair(P, left, op, right_node, right)
   note_position(P, left, right_node)
   if op == "In" or op == "NotIn" then
      return membership(P, left, right_node, op == "NotIn")
   end
   right = right or P:expr(right_node)
   if tensor_compare[op] and (is(left.ty, "tensor") or is(right.ty, "tensor")) then
      local a, b, method = left, right, tensor_compare[op]
      if not is(left.ty, "tensor") then a, b, method = right, left, tensor_compare[swapped[op]] end
      return {t = ("%s:%s(%s)"):format(P:text(a, "prefix"), method, b.t), p = prec.prefix,
         ty = types.mask}
   end
   local listed = is(left.ty, "list tuple dict set") or is(right.ty, "list tuple dict set")
   if listed and (op == "Eq" or op == "NotEq") then
      local negative = op == "NotEq"
      return {t = ("%s%s(%s, %s)"):format(negative and "not " or "", P:py "equal", left.t, right.t),
         p = negative and prec.unary or prec.prefix, ty = types.bool}
   end
   return {t = ("%s %s %s"):format(P:text(left, "bor"), compare[op], P:text(right, "bor")),
      p = prec.compare, ty = types.bool}
end

local pure = {size = true, dim = true, item = true, numel = true}

-- Returns whether evaluating an expression twice may differ from evaluating it once: it does for
-- f(), but not for x:size(1).
local function computes(P, node)
   if not walk.has({node}, "Call") then return false end
   local text = P:inline(node).t
   return text:find("(", 1, true) and not pure[text:match "^[%w_.]+:(%a+)%(%-?%d*%)$" or ""]
end

-- Translates `a < f() < b` to a call of a function, so that f() is called once.
local function chain_of_calls(P, node)
   local first, middle, last = node.left, node.comparators[1], node.comparators[2]
   local low = P:inline(first)
   local value = P:inline(middle)
   local name = P:fresh "middle"
   local bound = {t = name, p = prec.atom, ty = value.ty}
   local below = compare_pair(P, {t = name .. "_", p = prec.atom, ty = low.ty}, node.ops[1]._,
      middle, bound)
   local above = compare_pair(P, bound, node.ops[2]._, last, P:inline(last))
   return {t = ("(function(%s_, %s) return %s and %s end)(%s, %s)"):format(name, name,
      P:text(below, "and"), P:text(above, "and"), low.t, value.t), p = prec.prefix,
      ty = types.bool}
end

function emit.Compare(P, node)
   if #node.ops == 1 then
      local text = found(P, node)
      if text then return text end
   elseif #node.ops == 2 and computes(P, node.comparators[1]) then
      return chain_of_calls(P, node)
   end
   local left = P:expr(node.left)
   local parts = {}
   for i, op in ipairs(node.ops) do
      local e = compare_pair(P, left, op._, node.comparators[i])
      parts[i] = e
      left = P:expr(node.comparators[i])
   end
   if #parts == 1 then return parts[1] end
   local texts = {}
   for i, e in ipairs(parts) do texts[i] = P:text(e, "and") end
   return {t = table.concat(texts, " and "), p = prec["and"], ty = types.bool}
end

function emit.IfExp(P, node)
   local test = P:condition(node.test)
   local yes, no = P:inline(node.body), P:inline(node.orelse)
   local ty = types.join(yes.ty, no.ty)
   if types.never_false(yes.ty) and not yes.t:find "\n" and not no.t:find "\n" then
      return {t = ("%s and %s or %s"):format(P:text(test, "and"), P:text(yes, "compare"),
         P:text(no, "compare")), p = prec["or"], ty = ty}
   end
   -- This form calls only one of the functions. `c and a or b` would return b if a is false or nil.
   return {t = ("%s(%s, function() return %s end, function() return %s end)"):format(
      P:py "choose", test.t, yes.t, no.t), p = prec.prefix, ty = ty}
end

-- Functions ---------------------------------------------------------------------------------------

function emit.Lambda(P, node)
   local could = P.can_hoist
   P.can_hoist = false
   local text = P:lambda(node)
   P.can_hoist = could
   return {t = text, p = prec.atom, ty = types.fn}
end

emit.Call = calls.emit
emit.ListComp = comprehensions.list
emit.GeneratorExp = comprehensions.list
emit.SetComp = comprehensions.set
emit.DictComp = comprehensions.dict

function emit.NamedExpr(P, node)
   P:note(node, "an assignment within an expression: give it a line of its own")
   return P:expr(node.value)
end

function emit.Await(P, node)
   P:note(node, "await has no counterpart")
   return P:expr(node.value)
end

function emit.Yield(P, node)
   return {t = ("coroutine.yield(%s)"):format(node.value and P:emit(node.value) or ""),
      p = prec.prefix}
end

function emit.Slice(P, node)
   P:note(node, "a slice outside brackets")
   return {t = "nil", p = prec.atom}
end

return emit
