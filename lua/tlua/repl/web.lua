-- web.lua - `tlua help`: prints the manual's text on a name, or with --web opens the reference in a
-- browser.

local torch = require "tlua"

local M = {}

local usage <const> = [[
usage: tlua help [name]
       tlua help --web [name]
The manual's text on a name such as nn.Linear or torch.add; with --web the reference, opened in a
browser where `make docs install` has put it.
]]

local function exists(path)
   local file <close> = io.open(path)
   return file ~= nil
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Returns the path of the reference's first page: installed beside the command, or built in its
--- checkout.
---@param program string  the command's path
---@return string? path
function M.page(program)
   local folder = program:match "^(.*)/[^/]*$" or "."
   for _, path in ipairs {folder .. "/../share/doc/tlua/html/index.html",
      folder .. "/docs/index.html"} do
      if exists(path) then return path end
   end
end

-- Opens a page by the system's own command; returns false if the system has none.
local function open(path)
   for _, command in ipairs {"xdg-open", "open"} do
      if os.execute(("command -v %s >/dev/null 2>&1"):format(command)) then
         return os.execute(("%s %s >/dev/null 2>&1"):format(command, quote(path))) == true
      end
   end
   return false
end

local function web(name)
   local path = M.page(torch._library_path())
   if not path then
      io.stderr:write("tlua help: the reference was not found: `make docs install` puts it beside "
         .. "the command\n")
      return false
   end
   if name then
      local page = path:gsub("[^/]*$", "") .. name:gsub("^torch%.", "") .. ".html"
      if exists(page) then path = page end
   end
   print(path)
   open(path)
   return true
end

--- Runs the command.
---@param words string[]  the words after `tlua help`
---@return boolean  whether the command succeeded
function M.command(words)
   local wants_web = words[1] == "--web"
   local name = words[wants_web and 2 or 1]
   if name == "--help" or #words > (wants_web and 2 or 1) then
      local is_question = name == "--help"
      io[is_question and "stdout" or "stderr"]:write(usage)
      return is_question
   end
   if wants_web then return web(name) end
   local manual = require "tlua.repl.help"
   if name then print(manual.text(name)) else print(manual.text()) end
   return true
end

return M
