-- reader.lua - parses a Python script into a tree of Lua tables, by the `ast` module of an
-- installed Python 3, which runs the program in `dump.lua`.
--
-- A node has the fields that Python's `ast` module documents for its class; `_` is the class's
-- name, `line` and `last` are its lines. A constant has `kind` (str, bytes, int, float, bool, none,
-- ellipsis, other) and `text`.

local dump = require "tlua.port.dump"
local json = require "tlua.utils.json"

local M = {}

local function quote(text)
   return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Returns the first command that starts a Python of version 3.8 or later. If there is none, returns
-- nil and the value of TLUA_PYTHON.
local function find_python()
   local named = os.getenv "TLUA_PYTHON"
   for _, command in ipairs(named and {named} or {"python3", "python"}) do
      local test = quote(command) .. [[ -c "import sys; sys.exit(sys.version_info < (3, 8))"]]
      if os.execute(test .. " >/dev/null 2>&1") then return command end
   end
   return nil, named
end

-- Replaces each reference {n = position} by the node itself, and each {none = true} by false, in a
-- node's fields.
local function link(value, nodes)
   if type(value) ~= "table" then return value end
   if value.n then return nodes[value.n] end
   if value.none then return false end
   for i, item in ipairs(value) do value[i] = link(item, nodes) end
   return value
end

local function run(python, paths)
   local words = {}
   for i, path in ipairs(paths) do words[i] = quote(path) end
   local program = os.tmpname()
   local file <close> = assert(io.open(program, "w"))
   assert(file:write(dump))
   assert(file:close())
   local pipe = assert(io.popen(("%s %s %s"):format(quote(python), quote(program),
      table.concat(words, " "))))
   local lines = {}
   for line in pipe:lines() do lines[#lines + 1] = line end
   pipe:close()
   os.remove(program)
   return lines
end

-- Returns the script that a line of the Python program's output describes. Returns nil and a
-- message if parsing has failed.
local function script_of(path, line, python)
   local good, answer = pcall(json.decode, line or "")
   if not good then return nil, ("%s: %s printed no syntax tree"):format(path, python) end
   if answer.error then
      local where = answer.line and ":" .. answer.line or ""
      return nil, ("%s%s: %s"):format(path, where, answer.error)
   end
   for _, node in ipairs(answer.nodes) do
      for field, value in pairs(node) do node[field] = link(value, answer.nodes) end
   end
   local comments, blank = {}, {}
   for _, comment in ipairs(answer.comments) do comments[comment.line] = comment end
   for _, at in ipairs(answer.blank) do blank[at] = true end
   return {
      module = link(answer.root, answer.nodes), comments = comments, blank = blank, path = path,
   }
end

--- Reads several scripts, starting Python only once.
---@param paths string[]
---@return table[]? scripts  one table for each path: {module = node, comments = comments by line,
--- blank = set of blank lines, path}, or {message} if the script could not be read; nil if there is
--- no Python
---@return string? message
function M.read_all(paths)
   local python, named = find_python()
   if not python then
      return nil, named and "TLUA_PYTHON: not a Python of version 3.8 or later: " .. named
         or "python3 is needed to read Python, version 3.8 or later: install it (Debian, Ubuntu: "
            .. "apt-get install python3), or name one in the environment: TLUA_PYTHON=/path/python3"
   end
   local lines, scripts = run(python, paths), {}
   for i, path in ipairs(paths) do
      local script, why = script_of(path, lines[i], python)
      scripts[i] = script or {message = why}
   end
   return scripts
end

--- Reads a script.
---@param path string
---@return table? script  the script in the form of read_all; nil on failure
---@return string? message
function M.read(path)
   local file, why = io.open(path)
   if not file then return nil, why end
   file:close()
   local scripts, message = M.read_all {path}
   if not scripts then return nil, message end
   if scripts[1].message then return nil, scripts[1].message end
   return scripts[1]
end

return M
