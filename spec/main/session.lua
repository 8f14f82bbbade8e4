-- session.lua - runs sessions of the command, through a pipe or at a terminal, for the specs in this folder.

local shell = require "spec.support.shell"

local M = {}

local tlua = shell.quote(shell.tlua)

-- Arguments of `env` that hide the user's settings and history from the specs.
local clean <const> = "env -u LUA_INIT -u LUA_INIT_5_4 -u LUA_PATH -u LUA_PATH_5_4 " ..
   "-u INPUTRC -u EDITRC LC_ALL=C.UTF-8 TERM=vt100 "

--- Runs `tlua ARGUMENTS` with `input` as stdin. `env` holds NAME=VALUE words, which set environment variables.
---@param arguments string  the arguments, in the shell's syntax
---@param options? {input: string?, env: string?}
---@return {out: string, err: string, status: integer}
function M.run(arguments, options)
   options = options or {}
   return shell.with_folder(function(folder)
      local path = shell.quote(folder)
      shell.write(folder .. "/in", options.input or "")
      local _, status = shell.run(("%s HOME=%s XDG_STATE_HOME=%s %s %s %s <%s/in >%s/out 2>%s/err"):
         format(clean, path, path, options.env or "", tlua, arguments, path, path, path))
      return {out = shell.read(folder .. "/out"), err = shell.read(folder .. "/err"), status = status}
   end)
end

--- Writes `text` to a file, and runs it as a script with the arguments.
---@param text string
---@param arguments? string
---@return {out: string, err: string, status: integer, path: string}
function M.script(text, arguments)
   return shell.with_folder(function(folder)
      local path = folder .. "/script.lua"
      shell.write(path, text)
      local result = M.run(shell.quote(path) .. " " .. (arguments or ""))
      result.path = path
      return result
   end)
end

--- Sends lines to the interactive mode through a pipe. Returns the replies, without the banner and the prompts.
---@param input string
---@param env? string
---@return string out
---@return string err
function M.ask(input, env)
   local result = M.run([[-e "_PROMPT, _PROMPT2 = '', ''" -i]], {input = input, env = env})
   assert(result.status == 0, result.err)
   return result.out:gsub("^[^\n]*\n", ""):gsub("\n$", ""), result.err
end

local pty -- the path of the compiled spec/main/pty.c

local function build_pty()
   if pty then return pty end
   local folder = shell.ok("mktemp -d"):match("[^\n]+")
   local function remove() os.execute("rm -rf " .. shell.quote(folder)) end
   M.cleaner = setmetatable({}, {__gc = remove}) -- removes the folder after all specs have run
   local command = ("%s -o %s spec/main/pty.c"):format(os.getenv("CC") or "cc", shell.quote(folder .. "/pty"))
   local output, status = shell.run(command)
   -- before glibc 2.34, the functions for pseudo-terminals are in a separate library, libutil
   if status ~= 0 then output, status = shell.run(command .. " -lutil") end
   assert(status == 0, output)
   pty = folder .. "/pty"
   return pty
end


--- Runs a session at a terminal. The lines say what to wait for and what to type, as described in spec/main/pty.c.
--- `libraries` is a folder in which shared libraries are searched first, `state` is the folder of the history, and
--- `env` has NAME=VALUE words. With `plain`, the session does not wait for the editor of lines.
---@param lines string[]
---@param options? {libraries: string?, state: string?, plain: boolean?, arguments: string?, env: string?}
---@return string shown
---@return integer status
function M.terminal(lines, options)
   options = options or {}
   return shell.with_folder(function(folder)
      local quoted = shell.quote(folder)
      local text = table.concat(lines, "\n") .. "\n"
      if options.plain then text = text:gsub("~\n", "") end
      shell.write(folder .. "/lines", text)
      local libraries = options.libraries and "LD_LIBRARY_PATH=" .. shell.quote(options.libraries)
      return shell.run(("%s HOME=%s XDG_STATE_HOME=%s %s %s %s %s/lines %s"):format(
         clean, quoted, shell.quote(options.state or folder), libraries or "", options.env or "",
         shell.quote(build_pty()), quoted, tlua .. " " .. (options.arguments or "")))
   end)
end

return M
