-- assignments.lua - translates Python's assignments and deletions to lines of Lua.

local subscripts = require "tlua.port.subscripts"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"

local is = types.is

local M = {}

local function remember(P, target, ty)
   if target._ == "Name" then
      P:set_type(target.id, ty)
   elseif target._ == "Subscript" then
      P:expr(target.value)
      local holder = target.value
      if is(holder.ty, "dict") and ty then
         P:refine(holder, types.dict_of(types.join(holder.ty.v, ty)))
      end
   elseif target._ == "Attribute" then
      P:expr(target.value)
      local holder = target.value.ty
      if is(holder, "inst") and ty then
         holder.c.fields[target.attr] = types.join(holder.c.fields[target.attr], ty)
      elseif holder and holder.k == "args" then
         holder.fields[target.attr] = ty
      end
   end
end

local function target_text(P, target)
   if target._ == "Name" then return P:name(target.id) end
   if target._ == "Attribute" then
      return P:field(P:emit(target.value, "prefix"), target.attr)
   end
   local text = P:emit(target)
   if text:find "^py%.from_end%(" then
      P:note(target, "an assignment to an item of a call's result: give the result a name")
   end
   return text
end

-- Returns whether a target of an assignment uses a variable that an earlier target sets, as in `i,
-- xs[i] = 1, 9`: Python evaluates and assigns targets from left to right, while Lua evaluates all
-- targets first.
local function is_in_sequence(targets)
   local set, found = {}, false
   for _, target in ipairs(targets) do
      if target._ == "Name" then
         set[target.id] = true
      else
         walk.each(target, function(child)
            if child._ == "Name" and set[child.id] then found = true end
         end)
      end
   end
   return found
end

-- Translates `first, *rest = list`.
local function assign_rest(P, stmt, target, value)
   local text, e = P:emit(value, "prefix")
   if value._ ~= "Name" and value._ ~= "Attribute" then
      P:flush_pre()
      local name = P:fresh "list"
      P:line(("local %s = %s"):format(name, text))
      text = name
   end
   local item = e.ty and e.ty.e
   for i, part in ipairs(target.elts) do
      local rest = part._ == "Starred"
      local name_node = rest and part.value or part
      remember(P, name_node, rest and types.list_of(item) or item)
      local new = name_node._ == "Name" and P:declares(stmt, name_node.id) and "local " or ""
      local right = rest and ("%s(%s, %d)"):format(P:py "slice", text, i)
         or ("%s[%d]"):format(text, i)
      P:flush_pre()
      P:line(("%s%s = %s"):format(new, target_text(P, name_node), right))
   end
end

-- Translates an assignment of one value to several targets.
local function assign_tuple(P, stmt, target, value)
   local e
   local texts, es = {}, {}
   if (value._ == "Tuple" or value._ == "List") and #value.elts == #target.elts then
      for i, item in ipairs(value.elts) do
         local text, inner = P:emit(item)
         texts[i] = inner.ty and inner.ty.multi and "{" .. text .. "}" or text
         es[i] = inner.ty or false
      end
   else
      e = P:expr(value)
      es = e.ty and e.ty.es or {}
      local text = e.t
      local multi = e.ty and e.ty.multi or e.of_object or not e.ty and value._ == "Call"
      if is(e.ty, "tensor") and e.of_object then
         es = {}
      elseif is(e.ty, "tensor") then
         text = ("table.unpack(%s:unbind(1))"):format(P:text(e, "prefix"))
      elseif not multi then
         text = ("table.unpack(%s)"):format(text)
         if is(e.ty, "list") then
            for i = 1, #target.elts do es[i] = e.ty.e or false end
         end
      end
      texts[1] = text
   end
   local last = target.elts[#target.elts]
   if last._ == "Starred" and value._ ~= "Tuple" then
      return assign_rest(P, stmt, target, value)
   end
   local names, new, after = {}, {}, {}
   local count, has_blank = 0, false
   for i, item in ipairs(target.elts) do
      if item._ == "Starred" then
         P:note(item, "a starred target: Lua has no rest of an assignment")
         item = item.value
      end
      if item._ == "Tuple" or item._ == "List" then
         names[i] = P:fresh "state"
         new[#new + 1], count = names[i], count + 1
         after[#after + 1] = {target = item, name = names[i], ty = es[i] or nil}
      else
         if not (item._ == "Name" and item.id == "_") then remember(P, item, es[i] or nil) end
         names[i] = target_text(P, item)
         local blank = item.id == "_"
         if item._ == "Name" and (blank or P:declares(stmt, item.id)) then
            count = count + 1
            if not (blank and has_blank) then new[#new + 1] = names[i] end
            has_blank = has_blank or blank
         end
      end
   end
   local left, right = table.concat(names, ", "), table.concat(texts, ", ")
   if is_in_sequence(target.elts) then
      P:flush_pre()
      local values = {}
      for i in ipairs(names) do values[i] = P:fresh "value" end
      P:line(("local %s = %s"):format(table.concat(values, ", "), right))
      local is_new = {}
      for _, name in ipairs(new) do is_new[name] = true end
      for i, name in ipairs(names) do
         P:line(("%s%s = %s"):format(is_new[name] and "local " or "", name, values[i]))
         is_new[name] = nil
      end
   elseif count == #names then
      P:put(("local %s = %s"):format(left, right))
   else
      P:flush_pre()
      if #new > 0 then P:line("local " .. table.concat(new, ", ")) end
      P:line(("%s = %s"):format(left, right))
   end
   for _, item in ipairs(after) do P:unpack_into(item.target, item.name, item.ty, stmt) end
end

--- Writes a line that unpacks a table, `name`, into the variables of a tuple of targets.
function Porter:unpack_into(target, name, ty, stmt)
   local names, all_new, after = {}, true, {}
   for i, item in ipairs(target.elts) do
      if item._ == "Tuple" then
         names[i] = self:fresh "pair"
         after[#after + 1] = {target = item, name = names[i]}
      else
         names[i] = target_text(self, item)
         local of_item = ty and (ty.es and ty.es[i] or ty.e) or nil
         if item._ == "Name" then self:set_type(item.id, of_item) end
         all_new = all_new and item._ == "Name" and (stmt == true or self:declares(stmt, item.id))
      end
   end
   self:line(("%s%s = table.unpack(%s)"):format(all_new and "local " or "",
      table.concat(names, ", "), name))
   for _, item in ipairs(after) do self:unpack_into(item.target, item.name, nil, stmt) end
end

-- Translates `x = a if c else b` to an `if` statement if `a` may be false or nil, since `c and a or
-- b` would then be wrong. Returns false, and writes nothing, for any other `a`.
local function assign_choice(P, stmt, target, value)
   local yes = P:inline(value.body)
   if types.never_false(yes.ty) then return false end
   local name = target_text(P, target)
   local test = P:condition(value.test).t
   P:flush_pre()
   if target._ == "Name" and P:declares(stmt, target.id) then P:line("local " .. name) end
   local no = P:inline(value.orelse)
   P:line(("if %s then %s = %s else %s = %s end"):format(test, name, yes.t, name, no.t))
   remember(P, target, types.join(yes.ty, no.ty))
   return true
end

local function assign_one(P, stmt, target, value)
   if target._ == "Tuple" or target._ == "List" then return assign_tuple(P, stmt, target, value) end
   if value._ == "IfExp" and assign_choice(P, stmt, target, value) then return end
   if value._ == "Call" and P:path(value.func) == "torch.load" then
      local object, e = P:emit(target, "prefix")
      if is(e.ty, "nn") or is(e.ty, "inst") and e.ty.c.is_module then
         P:note(stmt, "torch.load of a module: its state_dict is loaded into the one that is there")
         return P:put(("%s:load_state_dict(%s)"):format(object, P:emit(value)))
      end
   end
   local new = target._ == "Name" and P:declares(stmt, target.id)
   local comprehension = value.generators ~= nil
   if comprehension and new then value.wanted_name = P:name(target.id) end
   local e = P:expr(value)
   value.wanted_name = nil
   local text = e.t
   if e.ty and e.ty.multi then
      text = "{" .. text .. "}"
      e.ty = types.tuple_of(e.ty.es)
   end
   remember(P, target, e.ty)
   local name = target_text(P, target)
   if comprehension and new and e.hoisted then return P:flush_pre() end
   if e.statement and e.t == "" then return end
   if target._ == "Subscript" and target.slice._ == "Slice" then
      local holder = target.value.ty
      local by_list = is(e.ty, "list tuple") and not is(holder, "tensor")
      if is(holder, "list") or not holder and by_list then
         return P:put(subscripts.set_slice(P, target, text))
      elseif not is(holder, "tensor") then
         P:note(stmt, ("`%s` is taken for a tensor; py.set_slice assigns to a part of a list")
            :format(P:emit(target.value)))
      end
   end
   P:put(("%s%s = %s"):format(new and "local " or "", name, text))
end

function M.Assign(P, stmt)
   local value = stmt.value
   local last = stmt.targets[#stmt.targets]
   assign_one(P, stmt, last, value)
   for i = #stmt.targets - 1, 1, -1 do
      local source = last._ == "Name" and last or value
      if source == last then source = {_ = "Name", id = last.id, line = stmt.line} end
      assign_one(P, stmt, stmt.targets[i], source)
   end
   P:trailing(stmt.last)
end

function M.AnnAssign(P, stmt)
   if not stmt.value then
      if stmt.target._ == "Name" then
         P:set_type(stmt.target.id, types.by_annotation(stmt.annotation))
      end
      return
   end
   assign_one(P, stmt, stmt.target, stmt.value)
   P:trailing(stmt.last)
end

local in_place = {Add = "add_", Sub = "sub_", Mult = "mul_", Div = "div_"}

-- Returns whether other variables may hold the same tensor as a variable. The result is true for
-- parameters and loop variables.
local function is_shared(P, target)
   if target._ ~= "Name" then return target._ == "Attribute" end
   local scope = P:function_scope()
   return scope.parameters and scope.parameters[target.id] and not scope.assigned_so_far[target.id]
      or scope.loop_names and scope.loop_names[target.id] or false
end

function M.AugAssign(P, stmt)
   local target, op = stmt.target, stmt.op._
   local e = P:expr(target)
   if is(e.ty, "list") and op == "Add" then
      local value = stmt.value
      if value._ == "List" and #value.elts == 1 and value.elts[1]._ ~= "Starred" then
         local text, item = P:emit(value.elts[1])
         P:refine(target, types.list_of(item.ty))
         P:put(("table.insert(%s, %s)"):format(e.t, text))
      else
         P:put(("%s(%s, %s)"):format(P:py "extend", e.t, P:emit(value)))
      end
   elseif is(e.ty, "tensor") and in_place[op] and is_shared(P, target) then
      P:put(("%s:%s(%s)"):format(P:text(e, "prefix"), in_place[op], P:emit(stmt.value)))
   else
      local sum = P:expr {_ = "BinOp", left = target, op = stmt.op, right = stmt.value,
         line = stmt.line, last = stmt.last}
      local ty = sum.ty
      if not ty and is(e.ty, "int num float") then ty = types.num end
      P:put(("%s = %s"):format(target_text(P, target), sum.t))
      if target._ == "Name" then P:set_type(target.id, ty or e.ty) end
   end
   P:trailing(stmt.last)
end

function M.Delete(P, stmt)
   for _, target in ipairs(stmt.targets) do
      if target._ == "Subscript" then
         local object, e = P:emit(target.value, "prefix")
         if target.slice._ == "Slice" then
            P:put(("%s(%s)"):format(P:py "clear", object))
            if target.slice.lower or target.slice.upper then
               P:note(stmt, "del of a part of a list: py.clear empties all of it")
            end
         elseif is(e.ty, "list") then
            P:put(("table.remove(%s, %s)"):format(object,
               subscripts.position(P, object, target.slice)))
         elseif not e.ty and subscripts.literal(target.slice) then
            P:note(stmt, ("`%s` is taken for a list; an item of a table by key is set to nil")
               :format(object))
            P:put(("table.remove(%s, %s)"):format(object,
               subscripts.position(P, object, target.slice)))
         else
            P:put(P:emit(target) .. " = nil")
         end
      else
         P:put(target_text(P, target) .. " = nil")
      end
   end
   P:trailing(stmt.last)
end

return M
