-- Porter.lua - the state of one translation from Python to Lua: the lines written so far, scopes
-- with the types of their variables, facts about the script's functions and classes, and notes,
-- which tell the user which code must be translated by hand.
--
-- The script is translated several times: each pass uses the types of parameters, fields and
-- results that the previous pass has inferred, and the last pass writes the text. An expression's
-- translation is a table with the fields `t`, its text, `p`, its precedence (`Porter.prec`), and
-- `ty`, its type (types.lua).

local class = require "tlua.class"
local types = require "tlua.port.types"

local Porter = class.class "port.Porter"

-- The precedence of Lua's operators; `prefix` stands for expressions that may be called and indexed
-- without parentheses.
Porter.prec = {
   ["or"] = 1, ["and"] = 2, compare = 3, bor = 4, bxor = 5, band = 6, shift = 7, concat = 8,
   add = 9, mul = 10, unary = 11, pow = 12, atom = 13, prefix = 14,
}

local width <const> = 100
Porter.width = width

local reserved = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
   return then true until while
   arg assert coroutine debug error getmetatable io ipairs load math next os pairs pcall print py
   require select setmetatable string table tonumber tostring torch type utf8]]):gmatch "%a+" do
   reserved[word] = true
end

---@param script table  a script in the form that reader.read returns
---@param known table  facts from earlier passes: functions, classes, last types; this pass adds to
--- them
function Porter:__init(script, known)
   self.comments, self.blank = script.comments, script.blank
   self.known = known
   self.lines, self.level = {}, 0
   self.notes, self.noted = {}, {}
   self.pre, self.can_hoist, self.hoisted = {}, true, {}
   self.uses_py, self.uses_torch = false, false
   self.depth = 0
end

-- Text --------------------------------------------------------------------------------------------

function Porter:indent(extra)
   return ("   "):rep(self.level + (extra or 0))
end

--- Adds a line with the current indent.
function Porter:line(text)
   self.lines[#self.lines + 1] = text == "" and "" or self:indent() .. text
end

--- Returns the text of an expression, in parentheses if the precedence is lower than `least`.
function Porter:text(e, least)
   if e.p < Porter.prec[least] then return "(" .. e.t .. ")" end
   return e.t
end

--- Converts a Python name to a valid Lua name.
function Porter:name(id)
   if reserved[id] then
      local ty = self:lookup(id)
      -- An imported module such as math keeps its name, because it has the same name in Lua.
      if ty and ty.k == "lib" and ty.path == id then return id end
      return id .. "_"
   end
   return id
end

--- Returns an access to a field: `.name` or `["end"]`.
function Porter:field(object, name)
   if reserved[name] and load("local t = {} t." .. name .. " = 1") == nil then
      return ("%s[%q]"):format(object, name)
   end
   return object .. "." .. name
end

--- Converts a Python comment to a Lua comment. A space before a bracket prevents `--[[`, which
--- would begin a comment of several lines.
function Porter.comment(comment)
   return (comment.text:sub(1, 1) == "[" and "-- " or "--") .. comment.text
end

--- Returns a name for a temporary variable. The name is not used in the function yet.
function Porter:fresh(base)
   local scope = self:function_scope()
   scope.temporaries = scope.temporaries or {}
   local n = (scope.temporaries[base] or 0) + 1
   local name
   repeat
      name = n == 1 and base or base .. n
      n = n + 1
   until not self:is_known(name) and not reserved[name]
   scope.temporaries[base] = n - 1
   return name
end

--- Returns the text of an access to the function `name` of the runtime (port/python), and records
--- that the script needs the runtime.
function Porter:py(name)
   self.uses_py = true
   return "py." .. name
end

-- Notes -------------------------------------------------------------------------------------------

--- Adds a note that the user must translate something by hand.
---@param node table|integer  a node or a source line
---@param text string
function Porter:note(node, text)
   local line = type(node) == "table" and (node.line or self.current_line) or node or 0
   local key = line .. text
   if not self.noted[key] then
      self.noted[key] = true
      self.notes[#self.notes + 1] = {line = line, text = text}
   end
end

--- Adds a note that a name of a Python package has no counterpart in tlua. All uses of names with
--- the same hint share one note.
---@param node table
---@param path string
---@param hint string
function Porter:missing(node, path, hint)
   local key = "missing " .. hint
   local line = node.line or self.current_line or 0
   local note = self.noted[key]
   if not note then
      note = {line = line, text = path .. ": " .. hint, uses = {}, seen = {}}
      self.noted[key] = note
      self.notes[#self.notes + 1] = note
   end
   if line > note.line and not note.seen[line] then
      note.seen[line] = true
      note.uses[#note.uses + 1] = line
      table.sort(note.uses)
   end
end

--- Adds a note, and returns a comment that marks the place in the translated text to which the note
--- belongs.
function Porter:mark(node, word, text)
   self:note(node, text)
   return (" --[[ port: %s ]]"):format(word)
end

-- Scopes ------------------------------------------------------------------------------------------

function Porter:open(kind, node, fields)
   local key = node
   local scope = fields or {}
   scope.kind, scope.node, scope.parent = kind, node, self.scope
   scope.types = {}
   self.known.last[key] = self.known.last[key] or {}
   scope.last = self.known.last[key]
   self.scope = scope
   return scope
end

function Porter:close()
   local scope = self.scope
   for name, ty in pairs(scope.types) do scope.last[name] = ty end
   self.scope = scope.parent
end

function Porter:function_scope()
   local scope = self.scope
   while scope.kind == "class" or scope.kind == "comprehension" do scope = scope.parent end
   return scope
end

local function find(self, id)
   local scope, nested = self.scope, false
   while scope do
      local visible = scope.kind ~= "class" or scope == self.scope
      if visible and scope.variables[id] then return scope, nested end
      nested = nested or scope.kind == "function"
      scope = scope.parent
   end
end

--- Returns whether the script has a variable of this name in the current scope or around it.
function Porter:is_known(id) return find(self, id) ~= nil end

--- Returns the type of a variable, or nil if it is unknown.
function Porter:lookup(id)
   local scope, nested = find(self, id)
   if not scope then return nil end
   local ty
   if nested then
      ty = scope.last[id] or scope.types[id]
   else
      ty = scope.types[id] or scope.last[id]
   end
   return ty and ty.k ~= "unknown" and ty or nil
end

function Porter:set_type(id, ty)
   local scope, nested = find(self, id)
   if not scope then return end
   if nested then
      scope.last[id] = types.join(scope.last[id], ty)
   else
      scope.types[id] = ty
   end
end

--- Sets the type of a variable to unknown.
function Porter:forget(id)
   local scope = find(self, id)
   if scope then scope.types[id] = {k = "unknown"} end
end

-- Paths -------------------------------------------------------------------------------------------

--- Returns the full dotted name, such as "torch.nn.functional", of an expression that begins with
--- an imported name. Returns nil for other expressions.
---@return string? path
function Porter:path(node)
   if node._ == "Name" then
      local ty = self:lookup(node.id)
      return ty and ty.k == "lib" and ty.path or nil
   elseif node._ == "Attribute" then
      local path = self:path(node.value)
      return path and path .. "." .. node.attr
   end
end

return Porter
