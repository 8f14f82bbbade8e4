-- shell.lua - runs programs for specs.

local shell = {}

--- The path of the program under test, and the path of the folder with its build.
shell.tlua = os.getenv("TLUA") or "./tlua"
shell.build = os.getenv("TLUA_BUILD") or "build"

--- Returns the command that starts the program under test. If this process runs in a wrapper, such as an emulator, the
--- command uses the same wrapper.
---@param anywhere? boolean  whether the command must work in any folder
---@return string
function shell.start(anywhere)
   local program = anywhere and shell.ok("realpath " .. shell.quote(shell.tlua)):match("[^\n]+")
   return (os.getenv "SPEC_WRAP" or "") .. " " .. shell.quote(program or shell.tlua)
end

--- Quotes a text for the shell.
---@param text string
---@return string
function shell.quote(text) return "'" .. tostring(text):gsub("'", "'\\''") .. "'" end

--- Runs a command line. Returns the combined text of its stdout and stderr.
---@param command string
---@return string output
---@return integer status  the shell's status: 128 + n for a program ended by signal n
function shell.run(command)
   local pipe = assert(io.popen("{ " .. command .. "\n} 2>&1; echo \"=$?\""))
   local text = pipe:read("a")
   pipe:close()
   local output, status = text:match("^(.*)=(%d+)\n$")
   -- if the command line has ended the shell itself, the status is unknown
   if not output then return text, -1 end
   return output, tonumber(status)
end

--- Runs a command that must succeed. If the command fails, raises an error that contains the output.
---@param command string
---@return string output
function shell.ok(command)
   local output, status = shell.run(command)
   if status ~= 0 then error(("status %d from: %s\n%s"):format(status, command, output), 2) end
   return output
end

--- Returns whether a command exists.
---@param name string
---@return boolean
function shell.has(name) return select(2, shell.run("command -v " .. name .. " >/dev/null")) == 0 end

--- Returns a Python that can run the code, quoted for the shell, or nil if there is none.
---@param code string  such as "import numpy"
---@return string?
function shell.python(code)
   for _, name in ipairs {os.getenv "PYTHON" or "python3", "/usr/bin/python3"} do
      name = shell.quote(name)
      if select(2, shell.run(("%s -c %s"):format(name, shell.quote(code)))) == 0 then return name end
   end
   return nil
end

--- Calls fn with the path of a new folder, and removes the folder afterwards.
---@param fn fun(folder: string): ...
function shell.with_folder(fn)
   local folder = shell.ok("mktemp -d"):match("[^\n]+")
   local results = table.pack(xpcall(fn, function(e) return e end, folder))
   os.execute("rm -rf " .. shell.quote(folder))
   if not results[1] then error(results[2], 0) end
   return table.unpack(results, 2, results.n)
end

--- Returns a test that calls fn with the path of a new folder, and removes the folder afterwards.
---@param fn fun(folder: string): ...
---@return fun()
function shell.in_folder(fn) return function() return shell.with_folder(fn) end end

--- Returns the content of a file.
---@param path string
---@return string
function shell.read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read("a")
end

--- Replaces the content of a file by a text.
---@param path string
---@param text string
function shell.write(path, text)
   local file <close> = assert(io.open(path, "wb"))
   assert(file:write(text))
end

return shell
