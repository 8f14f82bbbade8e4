-- document.lua - reads notebooks from files (.ipynb, nbformat 4), runs their cells without Jupyter,
-- and writes them with the outputs.

local torch = require "tlua"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"
local notebook = require "tlua.notebook"
local replace_file = require "tlua.io.replace"
local session = require "tlua.notebook.session"

local M = {}

local function fail(path, why)
   torch.raise(("notebook.run: %s: %s"):format(path, why))
end

-- Returns a word for the type of a JSON value, for messages.
local function kind_of(value)
   if value == nil then return "nothing" end
   if value == json.null then return "null" end
   if type(value) == "table" then return json.is_array(value) and "a list" or "an object" end
   return type(value) == "string" and "a text" or tostring(value)
end

-- Raises an error if a notebook is in a language other than Lua, because a run would overwrite the
-- outputs of its cells.
local function check_metadata(path, document)
   local info = document.metadata
   if json.is_array(info) and #info == 0 or info == json.null then document.metadata = nil end
   info = document.metadata
   if info == nil then return end
   if type(info) ~= "table" or json.is_array(info) then
      fail(path, "metadata: expected an object, got " .. kind_of(info))
   end
   local spec = info.kernelspec
   local language = type(spec) == "table" and spec.language
   if type(language) == "string" and language:lower() ~= "lua" then
      fail(path, ('metadata: kernelspec: language: expected "lua", got "%s"'):format(language))
   end
end

--- Reads a notebook. Raises an error if the file is not a notebook.
---@param path string
---@return table document
function M.read(path)
   local file <close>, why = io.open(path, "rb")
   if not file then torch.raise("notebook.run: " .. why) end
   local text, cause = file:read "a"
   if not text then fail(path, "expected a notebook, an .ipynb file: " .. cause) end
   local document, problem = json.decode(text)
   if problem then fail(path, problem) end
   if type(document) ~= "table" or math.type(document.nbformat) ~= "integer" then
      fail(path, "expected a notebook, a JSON object with nbformat, got " .. kind_of(document))
   end
   if document.nbformat ~= 4 then
      fail(path, ("expected nbformat 4, got %d"):format(document.nbformat))
   end
   if not json.is_array(document.cells) then
      fail(path, "cells: expected a list, got " .. kind_of(document.cells))
   end
   check_metadata(path, document)
   for i, cell in ipairs(document.cells) do
      local source = type(cell) == "table" and cell.source
      if type(source) ~= "string" and not json.is_array(source) then
         fail(path, ("cell %d: source: expected a text or a list of lines, got %s"):format(i,
            kind_of(type(cell) == "table" and cell.source or cell)))
      end
      if type(cell.cell_type) ~= "string" then
         fail(path, ("cell %d: cell_type: expected a text, got %s"):format(i,
            kind_of(cell.cell_type)))
      end
      if json.is_array(source) then
         for _, line in ipairs(source) do
            if type(line) ~= "string" then
               fail(path, ("cell %d: source: expected lines of text, got %s"):format(i,
                  kind_of(line)))
            end
         end
      end
   end
   return document
end

--- Returns a cell's text.
---@param cell table
---@return string
function M.source(cell)
   return type(cell.source) == "string" and cell.source or table.concat(cell.source)
end

-- Formats a value as JSON in Jupyter's style: keys are sorted, and each level is indented by one
-- space.
local function pretty(value, indent)
   local inner = indent .. " "
   if type(value) ~= "table" or value == json.null then return json.encode(value) end
   local parts = {}
   local is_list = json.is_array(value) or #value > 0
   if is_list then
      for i, item in ipairs(value) do parts[i] = inner .. pretty(item, inner) end
   else
      local keys = {}
      for key in pairs(value) do keys[#keys + 1] = key end
      table.sort(keys)
      for i, key in ipairs(keys) do
         parts[i] = inner .. json.encode(key) .. ": " .. pretty(value[key], inner)
      end
   end
   if #parts == 0 then return is_list and "[]" or "{}" end
   local open, close = "{", "}"
   if is_list then open, close = "[", "]" end
   return ("%s\n%s\n%s%s"):format(open, table.concat(parts, ",\n"), indent, close)
end

--- Writes a notebook.
---@param document table
---@param path string
function M.write(document, path)
   local text = pretty(document, "") .. "\n"
   local failure = replace_file(path, function(file)
      local ok, why = file:write(text)
      if not ok then return why end
   end)
   if failure then fail(path, failure) end
end

-- Splits a text into lines. Each line keeps its newline, as in the texts of .ipynb files.
local function lines_of(text)
   local list = json.as_array {}
   for line in text:gmatch "[^\n]*\n?" do
      if line ~= "" then list[#list + 1] = line end
   end
   return list
end

local function stored_bundle(bundle)
   local data = {}
   for kind, text in pairs(bundle) do
      data[kind] = kind:find "^image/[^s]" and text or lines_of(text)
   end
   return data
end

-- Returns an object that collects the outputs of cells in the form of .ipynb files. A display with
-- an id can be replaced by a later cell.
local function collector()
   local self = {shown = {}}

   function self.begin(outputs) self.outputs = outputs end

   function self.stream(name, text)
      if text == "" then return end
      local last = self.outputs[#self.outputs]
      if last and last.output_type == "stream" and last.name == name then
         last.text = lines_of(table.concat(last.text) .. text)
      else
         self.outputs[#self.outputs + 1] = {output_type = "stream", name = name,
            text = lines_of(text)}
      end
   end

   function self.publish(kind, content)
      local outputs = self.outputs
      if kind == "update_display_data" then
         local shown = self.shown[content.transient.display_id]
         if shown then shown.data = stored_bundle(content.data) end
      elseif kind == "display_data" then
         local output = {output_type = kind, data = stored_bundle(content.data), metadata = {}}
         outputs[#outputs + 1] = output
         local id = content.transient.display_id
         if id then self.shown[id] = output end
      elseif kind == "execute_result" then
         outputs[#outputs + 1] = {output_type = kind, data = stored_bundle(content.data),
            metadata = {}, execution_count = content.execution_count}
      elseif kind == "error" then
         outputs[#outputs + 1] = {output_type = kind, ename = content.ename,
            evalue = content.evalue, traceback = content.traceback}
      end
   end

   return self
end

-- Redirects stdout and stderr to files. Returns three results: a function that reads the new text
-- of descriptor 1 or 2, a function that ends the redirection, and a descriptor of the previous
-- stderr.
local function capture()
   local kernel = torch._kernel
   local captured = {}
   local function finish()
      for fd, c in pairs(captured) do
         kernel.release(fd, c.previous)
         c.reader:close()
      end
      captured = {}
   end
   for fd = 1, 2 do
      local path = os.tmpname()
      local writer <close> = assert(io.open(path, "a"))
      local reader = assert(io.open(path, "rb"))
      os.remove(path)
      io.stdout:flush()
      local previous, why = kernel.capture(fd, writer)
      if not previous then
         finish()
         torch.raise("notebook.run: " .. why)
      end
      captured[fd] = {previous = previous, reader = reader}
   end
   return function(fd)
      io.stdout:flush()
      io.stderr:flush()
      local reader = captured[fd].reader
      reader:seek("cur", 0) -- this call clears the end-of-file mark, so that new text can be read
      return messages.clean(reader:read "a")
   end, finish, captured[2].previous
end

local function run_cells(document, path, options, log, texts)
   local collect = collector()
   local function take_streams()
      collect.stream("stdout", texts(1))
      collect.stream("stderr", texts(2))
   end
   local made = session.new(function(kind, content)
      take_streams()
      collect.publish(kind, content)
   end)
   local first
   for i, cell in ipairs(document.cells) do
      if cell.cell_type == "code" then
         cell.outputs = json.as_array {}
         collect.begin(cell.outputs)
         local failure = made:execute(M.source(cell))
         take_streams()
         cell.execution_count = M.source(cell):find "%S" and made.count or json.null
         if not options.quiet then
            torch._kernel.put(log, ("%s: cell %d of %d%s\n"):format(path, i, #document.cells,
               failure and ": " .. failure.evalue or ""))
         end
         if failure and not first then first = ("cell %d: %s"):format(i, failure.evalue) end
         if failure and (not options.allow_errors or failure.ename == "Interrupted") then
            return first
         end
      end
   end
   return first
end

--- Runs a notebook; see torch.notebook.run.
---@param path string
---@param options {output: string?, allow_errors: boolean, quiet: boolean}
---@return table document
---@return string? failure
function M.run(path, options)
   local document = M.read(path)
   local texts, finish, log = capture()
   local restore = notebook._open(nil)
   local ok, failure = pcall(run_cells, document, path, options, log, texts)
   restore()
   finish()
   if not ok then error(failure, 0) end
   local info = type(document.metadata) == "table" and document.metadata or {}
   info.language_info = {name = "lua", version = "5.4", mimetype = "text/x-lua",
      file_extension = ".lua"}
   info.kernelspec = info.kernelspec
      or {name = "tlua", display_name = "Lua (tlua)", language = "lua"}
   document.metadata = info
   local output = options.output or path
   if output ~= "" then M.write(document, output) end
   return document, failure
end

return M
