-- control.lua - translates Python's control flow: return, break, continue, if, loops, with and try.

local loops = require "tlua.port.loops"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"

local M = {}

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

function M.Return(P, stmt)
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
      P:put("if " .. P:condition(value.test).t .. " then")
      P.level, P.last_in_block = P.level + 1, true
      M.Return(P, {_ = "Return", value = value.body, line = stmt.line, last = stmt.last})
      P.level, P.last_in_block = P.level - 1, last
      P:line "end"
      return M.Return(P, {_ = "Return", value = value.orelse, line = stmt.line,
         last = stmt.last})
   end
   if choice and not types.never_false(P:inline(value.body).ty) then
      local test = P:condition(value.test).t
      P:put("if " .. test .. " then")
      P:line("   return " .. P:inline(value.body).t)
      P:line "end"
      P:put("return " .. P:inline(value.orelse).t)
      return
   end
   local text, ty = return_text(P, stmt)
   if fn then
      if not (ty and ty.k == "none") or not fn.result then fn.result = types.join(fn.result, ty) end
   end
   P:put(last and text or "do " .. text .. " end")
   P:trailing(stmt.last)
end

-- The body of a `try` becomes a function that pcall calls, and cannot contain break or continue.
-- Writes a return of the word `word` in place of one; the lines after pcall test the word
-- (leave_after).
local function leave_pcall(P, word)
   P:line((P.last_in_block and "return %q" or "do return %q end"):format(word))
end

function M.Break(P, stmt)
   if P.inside_pcall then
      leave_pcall(P, "break")
   else
      P:line(P.loop and P.loop.flag and ("%s = true break"):format(P.loop.flag) or "break")
   end
   P:trailing(stmt.last)
end

function M.Continue(P, stmt)
   if P.inside_pcall then
      leave_pcall(P, "continue")
   else
      P:line "goto continue"
   end
   P:trailing(stmt.last)
end

-- Writes, after a pcall, the tests for the words that leave_pcall returns, with the break or
-- continue for each of them.
local function leave_after(P, stmt, ok, message)
   for _, kind in ipairs {"Break", "Continue"} do
      if walk.has(stmt.body, kind) then
         P:line(("if %s and %s == %q then"):format(ok, message, kind:lower()))
         P.level, P.last_in_block = P.level + 1, true
         M[kind](P, {last = stmt.last})
         P.level = P.level - 1
         P:line "end"
      end
   end
end

-- Returns the name x of a test isinstance(x, torch.Tensor), which decides x's type in each
-- branch.
local function tested_tensor(P, test)
   if test._ == "Call" and test.func.id == "isinstance" and test.args[1]._ == "Name" then
      local path = P:path(test.args[2])
      if path == "torch.Tensor" or path == "torch.autograd.Variable" then return test.args[1].id end
   elseif test._ == "Call" and P:path(test.func) == "torch.is_tensor"
         and test.args[1]._ == "Name" then
      return test.args[1].id
   end
end

-- Writes a branch by calling `body`. The branch begins with the types in `before`, and the types
-- known at its end are appended to `learnt`. `merge` then joins the types of all branches.
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

function M.If(P, stmt)
   local word = "if"
   local learnt, tensors = {}, {}
   local before = P:function_scope().types
   while true do
      local could = P.can_hoist
      if word == "elseif" then P.can_hoist = false end
      local test = P:condition(stmt.test).t
      P.can_hoist = could
      P:put(("%s %s then"):format(word, test))
      P:trailing(stmt.test.last)
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
      if not only or P:declared_before(only) or P.comments[only.line - 1] then
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

-- Prepares the translation of `for ... else` or `while ... else`, whose else branch runs if no
-- break has left the loop: declares the variable that records a break.
local function open_else(P, stmt)
   if stmt.orelse and #stmt.orelse > 0 then
      stmt.broke = P:fresh "broke"
      P:line(("local %s = false"):format(stmt.broke))
   else
      stmt.broke = nil
   end
end

function M.For(P, stmt)
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
   P:trailing(stmt.iter.last)
   loop_body(P, stmt)
end

function M.While(P, stmt)
   open_else(P, stmt)
   local could = P.can_hoist
   P.can_hoist = false
   local test = P:condition(stmt.test).t
   P.can_hoist = could
   P:line(("while %s do"):format(test == "1 ~= 0" and "true" or test))
   P:trailing(stmt.test.last)
   P.level = P.level + 1
   loop_body(P, stmt)
end

-- Returns whether a file variable is only passed to torch.save and torch.load.
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

function M.With(P, stmt)
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
         P:put(("local %s = %s"):format(P:name(name), P:emit(call.args[1])))
         P:set_type(name, types.str)
      else
         local text, e = P:emit(call)
         local lua_name = name and P:name(name) or "_"
         P:put(("local %s <close> = %s"):format(lua_name, text))
         if name then P:set_type(name, e.ty) end
      end
      if name and own and not own[name] then
         P:note(stmt, ("`%s` is used after its with"):format(name))
      end
   end
   P.level = P.level - 1
   P:trailing(stmt.items[#stmt.items].context_expr.last)
   P.source_line = math.max(P.source_line, stmt.items[#stmt.items].context_expr.last + 1)
   P:block(stmt.body)
   P:line "end"
end

function M.Try(P, stmt)
   local ok, message = P:fresh "ok", P:fresh "message"
   local returns = walk.has(stmt.body, "Return")
   local always = returns and stmt.body[#stmt.body]._ == "Return"
   local leaves = walk.has(stmt.body, "Break") or walk.has(stmt.body, "Continue")
   if leaves and returns then
      P:note(stmt, "return beside break or continue within try: tell them apart after pcall")
      leaves = false
   end
   local handlers = stmt.handlers
   P:flush_pre()
   local ignores = #handlers == 1 and #handlers[1].body == 1 and handlers[1].body[1]._ == "Pass"
      and not always and #(stmt.orelse or {}) == 0
   if ignores then handlers = {} end
   P:line(always and ("local results = table.pack(pcall(function()") or
      ignores and not leaves and "pcall(function()" or
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
         P:line(leaves and ("elseif %s == nil then"):format(message) or "else")
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
   if leaves then leave_after(P, stmt, ok, message) end
end

return M
