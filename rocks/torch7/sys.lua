-- sys.lua - Torch7's package sys: time, commands, and colours for the terminal.

local tlua = require "tlua"
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
   local handle <close> = assert(io.popen(command .. " 2>&1"))
   return (handle:read "a":gsub("\n$", ""))
end
M.fexecute = M.execute

function M.sleep(seconds) os.execute(("sleep %g"):format(seconds)) end
function M.ls(path) return M.execute("ls " .. (path or ".")) end
function M.uname() return paths.uname():lower() end
M.OS = M.uname()
M.dirname, M.basename, M.concat, M.dirp, M.filep = paths.dirname, paths.basename, paths.concat,
   paths.dirp, paths.filep
function M.usePrompt() end

M.COLORS = {none = "\27[0m", black = "\27[0;30m", red = "\27[0;31m", green = "\27[0;32m",
   yellow = "\27[0;33m", blue = "\27[0;34m", magenta = "\27[0;35m", cyan = "\27[0;36m",
   white = "\27[0;37m"}

return M
