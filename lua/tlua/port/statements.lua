-- statements.lua - Python's statements as lines of Lua, with the comments and blank lines between
-- them.

local classes = require "tlua.port.classes"
local imports = require "tlua.port.imports"
local loops = require "tlua.port.loops"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"

local is = types.is

local emit = {}

-- Comments and blank lines ------------------------------------------------------------------------

-- Writes the comments and one blank line from where the source was left up to a line.
local function gap(P, line)
   local blank = false
   for at = P.source_line, line - 1 do
      local comment = P.comments[at]
      if comment and comment.own and not (at == 1 and comment.text:sub(1, 1) == "!") then
         if blank and #P.lines > 0 and P.lines[#P.lines] ~= "" then P:line "" end
         blank = false
         P:line(P.comment(comment))
      elseif P.blank[at] then
         blank = true
      end
   end
   if blank and #P.lines > 0 and P.lines[#P.lines] ~= "" and not P.at_block_start then
      P:line ""
   end
   P.source_line = math.max(P.source_line, line)
end

-- Puts the comment behind a source line behind the last line written.
local function trailing(P, line)
   local comment = P.comments[line]
   if comment and not comment.own and #P.lines > 0 then
      P.lines[#P.lines] = P.lines[#P.lines] .. " " .. P.comment(comment)
   end
end

--- Writes what expressions have put before their statement.
function Porter:flush_pre()
   for _, line in ipairs(self.pre) do self.lines[#self.lines + 1] = line end
   self.pre = {}
end

-- A line whose text may have several lines, after what has to come before it.
local function put(P, text)
   P:flush_pre()
   P:line(text)
end

-- Blocks ------------------------------------------------------------------------------------------

local function declared_before(P, stmt)
   local plan = P:function_scope().plan
   local names = plan and plan.before[stmt]
   if not names then return nil end
   local list = {}
   for i, name in ipairs(names) do list[i] = P:name(name) end
   return list
end

--- Writes statements, one level deeper unless `same_level`.
function Porter:block(statements, same_level)
   if not same_level then self.level = self.level + 1 end
   for i, stmt in ipairs(statements) do
      self.at_block_start = i == 1 and not same_level
      gap(self, stmt.first or stmt.line)
      self.at_block_start = false
      self.current_line = stmt.line
      local names = declared_before(self, stmt)
      if names then self:line("local " .. table.concat(names, ", ")) end
      self.last_in_block = i == #statements
      local handler = emit[stmt._]
      if handler then
         handler(self, stmt)
      else
         self:note(stmt, "no translation for Python's " .. stmt._)
         self:line("-- port: " .. stmt._ .. " is not translated")
      end
      self.source_line = math.max(self.source_line, stmt.last + 1)
   end
   -- Comments that end the block, as their column tells.
   local column = statements[1] and statements[1].col or 0
   local at, last = self.source_line, nil
   while self.comments[at] or self.blank[at] do
      local comment = self.comments[at]
      if comment and (not comment.own or comment.col < column) then break end
      if comment then last = at end
      at = at + 1
   end
   if last and column > 0 then gap(self, last + 1) end
   if not same_level then self.level = self.level - 1 end
end

-- Assignments -------------------------------------------------------------------------------------

local function declares(P, stmt, name)
   local plan = P:function_scope().plan
   return plan and plan.at[stmt] and plan.at[stmt][name] and P.scope.kind ~= "class"
end

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
   return (P:emit(target))
end

-- first, *rest = list
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
      local new = name_node._ == "Name" and declares(P, stmt, name_node.id) and "local " or ""
      local right = rest and ("%s(%s, %d)"):format(P:py "slice", text, i)
         or ("%s[%d]"):format(text, i)
      P:flush_pre()
      P:line(("%s%s = %s"):format(new, target_text(P, name_node), right))
   end
end

-- Several targets from one value.
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
         if item._ == "Name" and (blank or declares(P, stmt, item.id)) then
            count = count + 1
            if not (blank and has_blank) then new[#new + 1] = names[i] end
            has_blank = has_blank or blank
         end
      end
   end
   local left, right = table.concat(names, ", "), table.concat(texts, ", ")
   if count == #names then
      put(P, ("local %s = %s"):format(left, right))
   else
      P:flush_pre()
      if #new > 0 then P:line("local " .. table.concat(new, ", ")) end
      P:line(("%s = %s"):format(left, right))
   end
   for _, item in ipairs(after) do P:unpack_into(item.target, item.name, item.ty, stmt) end
end

--- Unpacks a table into the names of a tuple, by a line of its own.
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
         all_new = all_new and item._ == "Name" and (stmt == true or declares(self, stmt, item.id))
      end
   end
   self:line(("%s%s = table.unpack(%s)"):format(all_new and "local " or "",
      table.concat(names, ", "), name))
   for _, item in ipairs(after) do self:unpack_into(item.target, item.name, nil, stmt) end
end

-- x = a if c else b, where a may be false or nil.
local function assign_choice(P, stmt, target, value)
   local yes = P:inline(value.body)
   if types.never_false(yes.ty) then return false end
   local name = target_text(P, target)
   local test = P:condition(value.test).t
   P:flush_pre()
   if target._ == "Name" and declares(P, stmt, target.id) then P:line("local " .. name) end
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
         return put(P, ("%s:load_state_dict(%s)"):format(object, P:emit(value)))
      end
   end
   local new = target._ == "Name" and declares(P, stmt, target.id)
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
   if target._ == "Subscript" and target.slice._ == "Slice"
         and is(target.value.ty, "list") then
      P:note(stmt, "an assignment to a slice of a list")
   end
   put(P, ("%s%s = %s"):format(new and "local " or "", name, text))
end

function emit.Assign(P, stmt)
   local value = stmt.value
   local last = stmt.targets[#stmt.targets]
   assign_one(P, stmt, last, value)
   for i = #stmt.targets - 1, 1, -1 do
      local source = last._ == "Name" and last or value
      if source == last then source = {_ = "Name", id = last.id, line = stmt.line} end
      assign_one(P, stmt, stmt.targets[i], source)
   end
   trailing(P, stmt.last)
end

function emit.AnnAssign(P, stmt)
   if not stmt.value then
      if stmt.target._ == "Name" then
         P:set_type(stmt.target.id, types.by_annotation(stmt.annotation))
      end
      return
   end
   assign_one(P, stmt, stmt.target, stmt.value)
   trailing(P, stmt.last)
end

local in_place = {Add = "add_", Sub = "sub_", Mult = "mul_", Div = "div_"}

-- Whether others may hold the tensor that a name stands for: parameters and loop variables.
local function is_shared(P, target)
   if target._ ~= "Name" then return target._ == "Attribute" end
   local scope = P:function_scope()
   return scope.parameters and scope.parameters[target.id] and not scope.assigned_so_far[target.id]
      or scope.loop_names and scope.loop_names[target.id] or false
end

function emit.AugAssign(P, stmt)
   local target, op = stmt.target, stmt.op._
   local e = P:expr(target)
   if is(e.ty, "list") and op == "Add" then
      local value = stmt.value
      if value._ == "List" and #value.elts == 1 and value.elts[1]._ ~= "Starred" then
         local text, item = P:emit(value.elts[1])
         P:refine(target, types.list_of(item.ty))
         put(P, ("table.insert(%s, %s)"):format(e.t, text))
      else
         put(P, ("%s(%s, %s)"):format(P:py "extend", e.t, P:emit(value)))
      end
   elseif is(e.ty, "tensor") and in_place[op] and is_shared(P, target) then
      put(P, ("%s:%s(%s)"):format(P:text(e, "prefix"), in_place[op], P:emit(stmt.value)))
   else
      local sum = P:expr {_ = "BinOp", left = target, op = stmt.op, right = stmt.value,
         line = stmt.line, last = stmt.last}
      local ty = sum.ty
      if not ty and is(e.ty, "int num float") then ty = types.num end
      put(P, ("%s = %s"):format(target_text(P, target), sum.t))
      if target._ == "Name" then P:set_type(target.id, ty or e.ty) end
   end
   trailing(P, stmt.last)
end

function emit.Delete(P, stmt)
   for _, target in ipairs(stmt.targets) do
      if target._ == "Subscript" then
         local object, e = P:emit(target.value, "prefix")
         if target.slice._ == "Slice" then
            put(P, ("%s(%s)"):format(P:py "clear", object))
            if target.slice.lower or target.slice.upper then
               P:note(stmt, "del of a part of a list: py.clear empties all of it")
            end
         elseif is(e.ty, "list") then
            put(P, ("table.remove(%s, %s)"):format(object,
               require "tlua.port.subscripts".moved(P, target.slice, 1)))
         else
            put(P, P:emit(target) .. " = nil")
         end
      else
         put(P, target_text(P, target) .. " = nil")
      end
   end
   trailing(P, stmt.last)
end

-- Expressions as statements -----------------------------------------------------------------------

-- A text in the source that nobody reads, such as a docstring, as comments.
local function comment_text(P, text)
   local lines = {}
   for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = (line:gsub("%s+$", "")) end
   while lines[#lines] == "" do lines[#lines] = nil end
   while lines[1] == "" do table.remove(lines, 1) end
   local least
   for i = 2, #lines do
      local space = lines[i]:match "^(%s*)%S"
      if space and (not least or #space < least) then least = #space end
   end
   for i, line in ipairs(lines) do
      local body = i == 1 and line:gsub("^%s+", "") or line:sub((least or 0) + 1)
      P:line(("-- " .. body):gsub("%s+$", ""))
   end
end

function emit.Expr(P, stmt)
   local value = stmt.value
   if value.kind == "str" then
      comment_text(P, value.text)
   elseif value.kind == "ellipsis" then
      return
   elseif value._ == "ListComp" then
      local e = P:expr(value)
      put(P, "local _ = " .. e.t)
   else
      local e = P:expr(value)
      if e.t == "" then return trailing(P, stmt.last) end
      local is_call = e.statement or e.t:find "[%)}\"']$" and e.p == Porter.prec.prefix
         and not e.t:find "^%("
      put(P, is_call and e.t or "local _ = " .. e.t)
   end
   trailing(P, stmt.last)
end

function emit.Pass(P, stmt) trailing(P, stmt.last) end
function emit.Global() end
function emit.Nonlocal() end

function emit.Assert(P, stmt)
   local test = P:condition(stmt.test).t
   local message = stmt.msg and ", " .. P:emit(stmt.msg) or ""
   put(P, ("assert(%s%s)"):format(test, message))
   trailing(P, stmt.last)
end

function emit.Raise(P, stmt)
   local exc = stmt.exc
   if not exc then
      put(P, ("error(%s, 0)"):format(P.caught or '"raised again"'))
   elseif exc._ == "Call" and exc.args[1] then
      put(P, ("error(%s)"):format(P:emit(exc.args[1])))
   else
      put(P, ("error %q"):format(exc.id or exc.func and exc.func.id or "error"))
   end
   trailing(P, stmt.last)
end

-- Control -----------------------------------------------------------------------------------------

local function return_text(P, stmt)
   local value = stmt.value
   local fn = P:function_scope().fn
   if not value then return "return", types.none end
   if value.kind == "none" then return "return nil", types.none end
   if value._ == "Tuple" and fn and fn.count then
      local parts, es = {}, {}
      for i, item in ipairs(value.elts) do
         local text, e = P:emit(item)
         if e.ty and e.ty.multi then text = "{" .. text .. "}" end
         parts[i], es[i] = text, e.ty or false
      end
      return "return " .. table.concat(parts, ", "), types.tuple_of(es, true)
   end
   local text, e = P:emit(value)
   return "return " .. text, e.ty
end

function emit.Return(P, stmt)
   local last = P.last_in_block
   local value = stmt.value
   local fn = P:function_scope().fn
   if P.inside_pcall then
      P:note(stmt, "return within try: it leaves only pcall's function here")
   end
   local choice = value and value._ == "IfExp"
   local tuple = value and (value._ == "Tuple"
      or choice and (value.body._ == "Tuple" or value.orelse._ == "Tuple"))
   if tuple and fn and fn.class and not fn.count then
      P:note(stmt, "a tuple, and something else or another number of values elsewhere: it stays a "
         .. "table, which callers have to unpack")
   end
   if choice and fn and fn.count then
      put(P, "if " .. P:condition(value.test).t .. " then")
      P.level, P.last_in_block = P.level + 1, true
      emit.Return(P, {_ = "Return", value = value.body, line = stmt.line, last = stmt.last})
      P.level, P.last_in_block = P.level - 1, last
      P:line "end"
      return emit.Return(P, {_ = "Return", value = value.orelse, line = stmt.line,
         last = stmt.last})
   end
   if choice and not types.never_false(P:inline(value.body).ty) then
      local test = P:condition(value.test).t
      put(P, "if " .. test .. " then")
      P:line("   return " .. P:inline(value.body).t)
      P:line "end"
      put(P, "return " .. P:inline(value.orelse).t)
      return
   end
   local text, ty = return_text(P, stmt)
   if fn then
      if not (ty and ty.k == "none") or not fn.result then fn.result = types.join(fn.result, ty) end
   end
   put(P, last and text or "do " .. text .. " end")
   trailing(P, stmt.last)
end

function emit.Break(P, stmt)
   if P.inside_pcall then
      P:note(stmt, "break within try: a function cannot leave the loop around it")
   end
   P:line(P.loop and P.loop.flag and ("%s = true break"):format(P.loop.flag) or "break")
   trailing(P, stmt.last)
end

function emit.Continue(P, stmt)
   if P.inside_pcall then
      P:note(stmt, "continue within try: a function cannot go on with the loop around it")
      P:line(P.last_in_block and "return" or "do return end")
      return
   end
   P:line "goto continue"
   trailing(P, stmt.last)
end

-- isinstance(x, torch.Tensor): the name, since each branch then knows more of it.
local function tested_tensor(P, test)
   if test._ == "Call" and test.func.id == "isinstance" and test.args[1]._ == "Name" then
      local path = P:path(test.args[2])
      if path == "torch.Tensor" or path == "torch.autograd.Variable" then return test.args[1].id end
   elseif test._ == "Call" and P:path(test.func) == "torch.is_tensor"
         and test.args[1]._ == "Name" then
      return test.args[1].id
   end
end

-- Writes a branch that knows what holds before it; what it has learnt is joined by `merge`.
local function branch(P, before, learnt, body)
   local scope = P:function_scope()
   scope.types = setmetatable({}, {__index = before})
   for name, ty in pairs(before) do scope.types[name] = ty end
   body()
   learnt[#learnt + 1] = setmetatable(scope.types, nil)
end

local function merge(P, before, learnt)
   local types_now = {}
   for name, ty in pairs(before) do types_now[name] = ty end
   local names = {}
   for _, found in ipairs(learnt) do
      for name in pairs(found) do names[name] = true end
   end
   for name in pairs(names) do
      local ty
      for _, found in ipairs(learnt) do ty = types.join(ty, found[name]) end
      types_now[name] = ty
   end
   P:function_scope().types = types_now
end

function emit.If(P, stmt)
   local word = "if"
   local learnt, tensors = {}, {}
   local before = P:function_scope().types
   while true do
      local could = P.can_hoist
      if word == "elseif" then P.can_hoist = false end
      local test = P:condition(stmt.test).t
      P.can_hoist = could
      put(P, ("%s %s then"):format(word, test))
      trailing(P, stmt.test.last)
      P.source_line = math.max(P.source_line, stmt.test.last + 1)
      local tensor = tested_tensor(P, stmt.test)
      local body = stmt.body
      branch(P, before, learnt, function()
         if tensor then P:set_type(tensor, types.tensor) end
         P:block(body)
      end)
      if tensor then tensors[tensor] = true end
      local rest = stmt.orelse
      local only = rest and #rest == 1 and rest[1]._ == "If" and rest[1]
      if not only or declared_before(P, only) or P.comments[only.line - 1] then
         branch(P, before, learnt, function()
            for name in pairs(tensors) do P:forget(name) end
            if rest and #rest > 0 then
               P:line "else"
               P:block(rest)
            end
         end)
         break
      end
      word, stmt = "elseif", only
   end
   merge(P, before, learnt)
   P:line "end"
end

-- Writes a loop's body, with the label that `continue` goes to.
local function loop_body(P, stmt)
   local outer, outer_pcall = P.loop, P.inside_pcall
   P.loop, P.inside_pcall = {flag = stmt.broke}, false
   P.level = P.level - 1
   P.source_line = math.max(P.source_line, (stmt.iter or stmt.test).last + 1)
   P:block(stmt.body)
   if walk.has(stmt.body, "Continue") then
      P.level = P.level + 1
      P:line "::continue::"
      P.level = P.level - 1
   end
   P.loop, P.inside_pcall = outer, outer_pcall
   P:line "end"
   if stmt.broke then
      P:line(("if not %s then"):format(stmt.broke))
      P:block(stmt.orelse)
      P:line "end"
   end
end

-- for ... else: the else belongs to a loop that no break has left.
local function open_else(P, stmt)
   if stmt.orelse and #stmt.orelse > 0 then
      stmt.broke = P:fresh "broke"
      P:line(("local %s = false"):format(stmt.broke))
   else
      stmt.broke = nil
   end
end

function emit.For(P, stmt)
   open_else(P, stmt)
   local scope = P:function_scope()
   local own = scope.plan and scope.plan.own[stmt] or {}
   local leaks = {}
   scope.loop_names = scope.loop_names or {}
   walk.each(stmt.target, function(child)
      if child._ == "Name" and child.stored then
         if not own[child.id] and child.id ~= "_" then leaks[child.id] = true end
         scope.loop_names[child.id] = true
      end
   end)
   loops.open(P, stmt.target, stmt.iter, stmt.body, leaks)
   trailing(P, stmt.iter.last)
   loop_body(P, stmt)
end

function emit.While(P, stmt)
   open_else(P, stmt)
   local could = P.can_hoist
   P.can_hoist = false
   local test = P:condition(stmt.test).t
   P.can_hoist = could
   P:line(("while %s do"):format(test == "1 ~= 0" and "true" or test))
   trailing(P, stmt.test.last)
   P.level = P.level + 1
   loop_body(P, stmt)
end

-- Whether a file's name is only used as an argument of torch.save and torch.load.
local function only_passed_on(P, name, body)
   local uses, passed = 0, 0
   for _, stmt in ipairs(body) do
      walk.each(stmt, function(child)
         if child._ == "Name" and child.id == name then uses = uses + 1 end
         if child._ == "Call" then
            local path = P:path(child.func)
            if path == "torch.save" or path == "torch.load" then
               for _, item in ipairs(child.args) do
                  if item.id == name then passed = passed + 1 end
               end
            end
         end
      end)
   end
   return uses > 0 and uses == passed
end

function emit.With(P, stmt)
   P:flush_pre()
   P:line "do"
   P.level = P.level + 1
   for _, item in ipairs(stmt.items) do
      local call, target = item.context_expr, item.optional_vars
      local name = target and target._ == "Name" and target.id
      local plain = name and call._ == "Call" and call.func.id == "open"
         and only_passed_on(P, name, stmt.body)
      local own = P:function_scope().plan.own[stmt]
      if plain then
         put(P, ("local %s = %s"):format(P:name(name), P:emit(call.args[1])))
         P:set_type(name, types.str)
      else
         local text, e = P:emit(call)
         local lua_name = name and P:name(name) or "_"
         put(P, ("local %s <close> = %s"):format(lua_name, text))
         if name then P:set_type(name, e.ty) end
      end
      if name and own and not own[name] then
         P:note(stmt, ("`%s` is used after its with"):format(name))
      end
   end
   P.level = P.level - 1
   trailing(P, stmt.items[#stmt.items].context_expr.last)
   P.source_line = math.max(P.source_line, stmt.items[#stmt.items].context_expr.last + 1)
   P:block(stmt.body)
   P:line "end"
end

function emit.Try(P, stmt)
   local ok, message = P:fresh "ok", P:fresh "message"
   local returns = walk.has(stmt.body, "Return")
   local always = returns and stmt.body[#stmt.body]._ == "Return"
   local handlers = stmt.handlers
   P:flush_pre()
   local ignores = #handlers == 1 and #handlers[1].body == 1 and handlers[1].body[1]._ == "Pass"
      and not always and #(stmt.orelse or {}) == 0
   if ignores then handlers = {} end
   P:line(always and ("local results = table.pack(pcall(function()") or
      ignores and "pcall(function()" or
      ("local %s, %s = pcall(function()"):format(ok, message))
   local outer = P.inside_pcall
   P.inside_pcall = not always
   P.source_line = math.max(P.source_line, stmt.line + 1)
   P:block(stmt.body)
   P.inside_pcall = outer
   P:line(always and "end))" or "end)")
   if always then
      P:line "if results[1] then return table.unpack(results, 2, results.n) end"
      if #handlers > 0 then P:line(("local %s = results[2]"):format(message)) end
   end
   if #handlers > 1 then
      P:note(stmt, "several except clauses: the first one gets all errors, which have no classes")
   end
   local handler = handlers[1]
   if handler then
      if not always then P:line(("if not %s then"):format(ok)) end
      local caught = P.caught
      P.caught = message
      P.source_line = math.max(P.source_line, handler.line + 1)
      if handler.type and handler.type.id == "KeyboardInterrupt" then
         P:line(("   if not tostring(%s):find \"interrupted\" then error(%s, 0) end"):format(
            message, message))
      end
      local used = false
      for _, inner in ipairs(handler.body) do
         walk.each(inner, function(child) used = used or child.id == handler.name end)
      end
      if handler.name and used then
         P:line(("%slocal %s = %s"):format(always and "" or "   ", P:name(handler.name), message))
         P:set_type(handler.name, types.str)
      end
      P:block(handler.body, always)
      P.caught = caught
      if stmt.orelse and #stmt.orelse > 0 and not always then
         P:line "else"
         P:block(stmt.orelse)
      end
      if not always then P:line "end" end
   end
   if stmt.finalbody and #stmt.finalbody > 0 then
      P:block(stmt.finalbody, true)
      if not handler and not ignores then
         P:line(("if not %s then error(%s, 0) end"):format(ok, message))
      end
   end
end

-- Definitions -------------------------------------------------------------------------------------

function emit.Import(P, stmt)
   imports.import(P, stmt, declares)
   trailing(P, stmt.last)
end

function emit.ImportFrom(P, stmt)
   imports.import_from(P, stmt, declares)
   trailing(P, stmt.last)
end

function emit.FunctionDef(P, stmt) classes.define(P, stmt, declares) end
function emit.ClassDef(P, stmt) classes.class(P, stmt, declares) end

Porter.comment_lines = comment_text
Porter.put = put

return emit
