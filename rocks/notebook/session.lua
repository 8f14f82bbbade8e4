-- session.lua - runs a notebook's cells with the rules of the interactive mode, and passes their
-- outputs to a function. The kernel and `tlua notebook run` use this module.

local torch = require "tlua"
local chunk = require "tlua.repl.chunk"
local complete = require "tlua.repl.complete"
local guard = require "tlua.notebook.guard"
local help = require "tlua.repl.help"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"
local mime = require "tlua.notebook.mime"
local repl = require "tlua.repl"

local type_of = torch.type -- copied here, because cells may change the table torch

local M = {}

---@class notebook.Session
---@field count integer  the number of the last cell
local Session = {}
Session.__index = Session

--- the session whose cell is running, or nil; torch.notebook.display reads it
M.current = nil

--- Creates a session. For each output, the session calls publish(kind, content) with the type and
--- the content of a message in Jupyter's protocol.
---@param publish fun(kind: string, content: table)
---@return notebook.Session
function M.new(publish)
   return setmetatable({count = 0, publish = publish, history = {}, displays = 0}, Session)
end

-- Progress bars ------------------------------------------------------------------------------

-- Returns a stream to which a progress bar writes. Each text replaces the previous text of the bar
-- in the notebook.
local function progress_stream(session)
   local stream, id, shown = {keeps_bar = true}, nil, ""
   local function show(text)
      if text == shown then return end
      shown = text
      local first = not id
      id = id or session:new_display()
      session:display({["text/plain"] = messages.clean(text)}, id, not first)
   end
   function stream:write(...)
      local text = table.concat({...}):gsub("\r\27%[K", ""):gsub("\n$", "")
      if text ~= "" then stream.text = text end
      return self
   end
   function stream:flush()
      if stream.text then show(stream.text) end
      return self
   end
   return stream
end

--- Returns a stream for a new progress bar, or nil if no cell is running. utils.Progress calls this
--- function.
---@return table? stream
function torch._notebook_stream()
   return M.current and progress_stream(M.current)
end

-- Showing ------------------------------------------------------------------------------------

function Session:new_display()
   self.displays = self.displays + 1
   return "tlua-" .. messages.new_id()
end

--- Shows a MIME bundle as an output of the running cell.
---@param bundle table<string, string>
---@param id? string
---@param again? boolean  whether to replace the display with this id
function Session:display(bundle, id, again)
   local changed = guard.leave()
   io.stdout:flush()
   self.publish(again and "update_display_data" or "display_data",
      {data = bundle, metadata = {}, transient = id and {display_id = id} or {}})
   if changed then guard.enter() end
end

-- Shows the values of an expression as the interactive mode does. A single value may be shown in a
-- richer form than text.
local function show(session, ...)
   local n = select("#", ...)
   -- If a cell ends with display(x), x has already been shown.
   if n == 0 or n == 1 and type_of(...) == "notebook.Handle" then return end
   local text = repl.show(80, ...)
   local bundle
   if n == 1 then
      bundle = mime.bundle(..., text)
   else
      bundle = {["text/plain"] = messages.clean(text)}
   end
   io.stdout:flush()
   session.publish("execute_result",
      {execution_count = session.count, data = bundle, metadata = {}})
end

-- Running ------------------------------------------------------------------------------------

-- Removes the lines of a traceback that come after the cell's own lines and belong to this module.
local function cut(trace)
   local kept = {}
   for line in (trace .. "\n"):gmatch "(.-)\n" do
      if line:find "%[C%]: in function 'xpcall'" then break end
      kept[#kept + 1] = line
   end
   return table.concat(kept, "\n")
end

local function with_traceback(message)
   local text = message
   if type(message) ~= "string" then
      local meta = debug.getmetatable(message)
      if type(meta) == "table" and rawget(meta, "__tostring") then
         local ok, own = pcall(tostring, message)
         return {message = ok and type(own) == "string" and own or "(error object without a text)"}
      end
      text = type(message) == "number" and tostring(message)
         or string.format("(error object is a %s value)", type(message))
   end
   return {message = text, trace = debug.traceback(nil, 2)}
end

-- Returns the content of an error message. Replies and outputs have this form in common.
local function error_content(kind, message, trace)
   local lines = json.as_array {}
   local whole = messages.clean(message .. (trace and "\n" .. cut(trace) or ""))
   for line in (whole .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
   return {ename = kind, evalue = messages.clean(message:match "^[^\n]*"), traceback = lines}
end

local pack, sethook, gethook = table.pack, debug.sethook, debug.gethook

-- Calls a cell's function, and then removes a debug hook that the cell may have set. Both happen in
-- one statement, because the hook could fail at the beginning of the next line.
local function call(fn)
   local all, _ = pack(xpcall(fn, with_traceback)), type(gethook()) == "function" and sethook()
   return all
end

-- Runs a compiled chunk. Returns a table of its results, or nil and the content of the error.
local function run(fn, code, of_cell)
   repl.begin_line()
   if of_cell then guard.enter() end
   local results = call(fn)
   guard.leave()
   local ok, failure = results[1], results[2]
   -- If the error handler has failed too, the failure is a plain text.
   if not ok and type(failure) ~= "table" then failure = {message = tostring(failure)} end
   local interrupted = not ok and failure.message:find "interrupted!" ~= nil
   repl.end_line(interrupted)
   if ok then return table.pack(table.unpack(results, 2, results.n)) end
   local message = failure.message
   if not interrupted then
      local good, explained = pcall(repl.explain, message, code)
      if good then message = explained end
   end
   return nil, error_content(interrupted and "Interrupted" or "Error", message, failure.trace)
end

local function as_text(value)
   if value == nil or value == json.null then return nil end
   return value
end

--- Runs a cell.
---@param code string
---@param silent? boolean  whether the cell shows nothing and gets no number
---@param store? boolean  whether the history keeps the cell; true by default
---@return table? failure  the content of the cell's error
function Session:execute(code, silent, store)
   local blank = not code:find "%S"
   if not silent and store ~= false and not blank then
      self.count = self.count + 1
      self.history[#self.history + 1] = {self.count, code}
   end
   if blank then return nil end
   local outer = M.current
   M.current = self
   local fn, kind = chunk.compile_cell(code, ("=In[%d]"):format(self.count))
   local results, failure
   if kind then
      results, failure = run(fn, code, true)
   else
      failure = error_content("SyntaxError", fn --[[@as string]])
   end
   if results and not silent then
      local first = kind == "expression" and 2 or 1
      -- The value's metamethods __tostring and __mime may raise errors, so they are called like a
      -- cell.
      local _, problem = run(function()
         show(self, table.unpack(results, first, results.n))
      end, code)
      failure = problem
   end
   M.current = outer
   pcall(io.stdout.flush, io.stdout)
   pcall(io.stderr.flush, io.stderr)
   if failure and not silent then self.publish("error", failure) end
   if #self.history > 0 and results and results.n > 1 and self.history[#self.history][1]
      == self.count then
      local _, text = pcall(tostring, results[2])
      self.history[#self.history][3] = as_text(messages.clean(tostring(text)))
   end
   return failure
end

--- Evaluates an expression for a client. Returns a MIME bundle, or nil and the content of the
--- error.
---@param text string
---@return table? bundle
---@return table? failure
function Session:evaluate(text)
   local fn, kind = chunk.compile(text, "=expression")
   if kind ~= "expression" then
      return nil, error_content("SyntaxError", kind and "expected an expression" or fn)
   end
   local bundle
   local _, failure = run(function()
      guard.enter()
      local results = table.pack(fn())
      guard.leave()
      bundle = mime.bundle(results[2])
   end, text)
   return bundle, failure
end

-- Positions in Jupyter count characters; those in Lua count bytes ------------------------------

local function to_bytes(code, characters)
   local n = utf8.len(code)
   if not n then return math.max(0, math.min(#code, characters)) end
   return utf8.offset(code, math.max(0, math.min(n, characters)) + 1) - 1
end

local function to_characters(code, bytes)
   return utf8.len(code, 1, bytes) or bytes
end

local word_end <const> = "[^%s\"'`+%-*/%%^#&|~<>=(){},;\\?!@$]*$"

--- Completes the word before the cursor.
---@param code string
---@param cursor integer  the number of characters before the cursor
---@return string[] matches  the words that can replace the text from `first` to `last`
---@return integer first
---@return integer last
function Session:complete(code, cursor)
   local bytes = to_bytes(code, cursor)
   local before = code:sub(1, bytes)
   local word = before:match(word_end)
   local matches = repl.complete(word, before:sub(1, #before - #word))
   return matches, to_characters(code, #before - #word), to_characters(code, bytes)
end

-- Returns the dotted name, such as torch.nn, at a position in bytes. If there is no name, returns
-- the name of the function within whose call the position is.
local function subject_at(code, bytes)
   local left = code:sub(1, bytes):match "[%w_.:]*$"
   local right = code:sub(bytes + 1):match "^[%w_]*"
   local word = left .. right
   if word:find "^[%a_]" and not word:find "[.:]$" then return word end
   local text = code:sub(1, bytes):gsub("%b()", ""):gsub("%b{}", "")
   return text:match "([%a_][%w_.:]*)%s*[({\"'][^()]*$"
end

--- Returns the manual's text for the name at the cursor, or nil.
---@param code string
---@param cursor integer
---@return string?
function Session:inspect(code, cursor)
   local subject = subject_at(code, to_bytes(code, cursor))
   if not subject then return nil end
   local path = subject:gsub(":", ".")
   local value = complete.follow(path, _G)
   local manual = require "tlua.repl.manual"
   local text = (value ~= nil and manual.help(value)) or manual.help(path)
   if not text and value ~= nil then
      local ok, shown = pcall(function()
         return require("tlua.repl.display").value({width = 80}, value)
      end)
      text = ok and type_of(value) .. "\n" .. shown or nil
      if type(value) == "function" then text = help.text(value) end
   end
   return text and messages.clean(text)
end

--- Returns whether code is "complete", "incomplete" or "invalid", and the indentation of the next
--- line.
---@param code string
---@return string status
---@return string indent
function Session:is_complete(code)
   local _, kind, more = chunk.compile_cell(code, "=cell")
   if kind then return "complete", "" end
   if not more then return "invalid", "" end
   return "incomplete", code:match "([ \t]*)[^\n]*$" .. "   "
end

return M
