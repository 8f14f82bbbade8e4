-- statements.lua - translates Python's statements, with the comments and blank lines between them.

local classes = require "tlua.port.classes"
local imports = require "tlua.port.imports"
local Porter = require "tlua.port.Porter"

-- Maps each kind of statement, named as by Python's parser, to the function that writes it.
local emit = {}
for _, module in ipairs {"assignments", "control"} do
   for kind, write in pairs(require("tlua.port." .. module)) do emit[kind] = write end
end

-- Comments and blank lines ------------------------------------------------------------------------

-- Writes the comments of the source between the last written line and `line`, and at most one blank
-- line.
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

--- Appends the comment of a source line to the last line written.
---@param line integer
function Porter:trailing(line)
   local comment = self.comments[line]
   if comment and not comment.own and #self.lines > 0 then
      self.lines[#self.lines] = self.lines[#self.lines] .. " " .. self.comment(comment)
   end
end

--- Writes the lines that expressions need before their statement.
function Porter:flush_pre()
   for _, line in ipairs(self.pre) do self.lines[#self.lines + 1] = line end
   self.pre = {}
end

--- Writes a statement, which may have several lines. Lines that its expressions need, such as
--- declarations of helper variables, are written before it.
---@param text string
function Porter:put(text)
   self:flush_pre()
   self:line(text)
end

--- Returns whether a statement declares a local variable.
---@param stmt table
---@param name string
function Porter:declares(stmt, name)
   local plan = self:function_scope().plan
   return plan and plan.at[stmt] and plan.at[stmt][name] and self.scope.kind ~= "class"
end

-- Blocks ------------------------------------------------------------------------------------------

--- Returns the names of local variables that are declared before a statement; nil if there are
--- none.
---@param stmt table
---@return string[]?
function Porter:declared_before(stmt)
   local plan = self:function_scope().plan
   local names = plan and plan.before[stmt]
   if not names then return nil end
   local list = {}
   for i, name in ipairs(names) do list[i] = self:name(name) end
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
      local names = self:declared_before(stmt)
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
   -- comments after the last statement belong to the block if they begin at the block's column or
   -- beyond
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

-- Expressions as statements -----------------------------------------------------------------------

-- Writes a string that is a whole statement, such as a docstring, as comments.
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
      P:put("local _ = " .. e.t)
   else
      local e = P:expr(value)
      if e.t == "" then return P:trailing(stmt.last) end
      local is_call = e.statement or e.t:find "[%)}\"']$" and e.p == Porter.prec.prefix
         and not e.t:find "^%("
      P:put(is_call and e.t or "local _ = " .. e.t)
   end
   P:trailing(stmt.last)
end

function emit.Pass(P, stmt) P:trailing(stmt.last) end
function emit.Global() end
function emit.Nonlocal() end

function emit.Assert(P, stmt)
   local test = P:condition(stmt.test).t
   local message = stmt.msg and ", " .. P:emit(stmt.msg) or ""
   P:put(("assert(%s%s)"):format(test, message))
   P:trailing(stmt.last)
end

function emit.Raise(P, stmt)
   local exc = stmt.exc
   if not exc then
      P:put(("error(%s, 0)"):format(P.caught or '"raised again"'))
   elseif exc._ == "Call" and exc.args[1] then
      P:put(("error(%s)"):format(P:emit(exc.args[1])))
   else
      P:put(("error %q"):format(exc.id or exc.func and exc.func.id or "error"))
   end
   P:trailing(stmt.last)
end

-- Definitions -------------------------------------------------------------------------------------

function emit.Import(P, stmt)
   imports.import(P, stmt, Porter.declares)
   P:trailing(stmt.last)
end

function emit.ImportFrom(P, stmt)
   imports.import_from(P, stmt, Porter.declares)
   P:trailing(stmt.last)
end

function emit.FunctionDef(P, stmt) classes.define(P, stmt, Porter.declares) end
function emit.ClassDef(P, stmt) classes.class(P, stmt, Porter.declares) end

Porter.comment_lines = comment_text

return emit
