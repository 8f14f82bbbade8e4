-- sys.lua - Torch7's package sys: time, commands, and colours for the terminal.

local tlua = require "tlua"
local args = require "tlua.args"
local paths = require "tlua.torch7.paths"

local M = {}

local started = tlua.io.clock()

function M.clock() return tlua.io.clock() end
function M.tic() started = tlua.io.clock() end
function M.toc(verbose)
   local passed = tlua.io.clock() - started
   if verbose then print(passed) end
   return passed
end

--- Runs a command, and returns its output without the final line break.
function M.execute(command)
   if type(command) ~= "string" then
      args.refuse("sys.execute", "command", "a string", command)
   end
   local handle <close> = assert(io.popen(command .. " 2>&1"))
   return (handle:read "a":gsub("\n$", ""))
end
M.fexecute = M.execute

--- Waits for the given time. tlua's sleep lasts at most a second, so it is called repeatedly.
function M.sleep(seconds)
   if type(seconds) ~= "number" or seconds ~= seconds then
      args.refuse("sys.sleep", "seconds", "a number", seconds)
   end
   while seconds > 0 do
      tlua.distributed._sleep(math.min(seconds, 1))
      seconds = seconds - 1
   end
end
function M.usleep(microseconds)
   if type(microseconds) ~= "number" or microseconds ~= microseconds then
      args.refuse("sys.usleep", "microseconds", "a number", microseconds)
   end
   M.sleep(microseconds / 1e6)
end

for name, options in pairs {ls = "", ll = "-l ", la = "-a ", lla = "-la "} do
   M[name] = function(path)
      return M.execute("ls " .. options .. "'" .. tostring(path or "."):gsub("'", "'\\''") .. "'")
   end
end
function M.pwd() return paths.cwd() end
M.prefix = paths.install_prefix

--- Returns the folder and the name of the calling file.
---@return string? folder
---@return string? name
function M.fpath()
   local path = debug.getinfo(2, "S").source:match "^@(.*)$"
   if not path then return nil end
   path = paths.concat(path)
   return paths.dirname(path), paths.basename(path)
end
function M.uname() return paths.uname():lower() end
M.OS = M.uname()
M.dirname, M.basename, M.concat, M.dirp, M.filep = paths.dirname, paths.basename, paths.concat,
   paths.dirp, paths.filep
--- Returns the parts of a string that are separated by matches of a pattern. An empty first or last
--- part is left out.
---@param text string
---@param pattern string
---@return string[]
function M.split(text, pattern)
   if type(text) ~= "string" then args.refuse("sys.split", "text", "a string", text) end
   if type(pattern) ~= "string" then args.refuse("sys.split", "pattern", "a string", pattern) end
   local parts, from = {}, 1
   while true do
      local first, last = text:find(pattern, from)
      if not first or last < first then break end
      if first > 1 then parts[#parts + 1] = text:sub(from, first - 1) end
      from = last + 1
   end
   if from <= #text then parts[#parts + 1] = text:sub(from) end
   return parts
end

function M.isNaN(x) return x ~= x end

function M.usePrompt() end

-- Maps the names of colours to escape sequences: red, Red (bold), _red (underlined) and onred (as
-- background).
M.COLORS = {none = "\27[0m"}
for i, name in ipairs {"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"} do
   M.COLORS[name] = ("\27[0;3%dm"):format(i - 1)
   M.COLORS[name:sub(1, 1):upper() .. name:sub(2)] = ("\27[1;3%dm"):format(i - 1)
   M.COLORS["_" .. name] = ("\27[4;3%dm"):format(i - 1)
   M.COLORS["on" .. name] = ("\27[4%dm"):format(i - 1)
end

return M
