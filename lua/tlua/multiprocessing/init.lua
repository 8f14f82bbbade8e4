-- init.lua - torch.multiprocessing: starts processes that run a given function.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local package_of = require "tlua.multiprocessing.package_of"

-- the processes that spawn starts call this function
local M = {_run = package_of.run}

-- Puts a text in single quotes for the shell.
local function quote(text)
   return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function exists(path)
   local file <close> = io.open(path)
   return file ~= nil
end

-- Returns the path of the command `tlua`: the command that runs this process, or the command
-- installed or built beside the library.
local function find_program()
   local own = torch._library_path()
   if not own:find "%.%a+[%d.]*$" and exists(own) then return own end
   local folder = own:match "^(.*)/" or "."
   for _, place in ipairs {"/tlua", "/../bin/tlua", "/../../../bin/tlua"} do
      if exists(folder .. place) then return folder .. place end
   end
   return "tlua"
end

-- Makes a folder that no other user can access, since its files are loaded as code.
local function private_folder()
   local pipe <close>, why = io.popen "umask 077 && mktemp -d 2>&1"
   local path = pipe and pipe:read "l"
   if not path and pipe then
      -- A shell that cannot open files prints no error, so the message gives its exit status and a
      -- likely cause.
      local _, how, number = pipe:close()
      why = ("mktemp gave none (%s %d); may too few files be open (ulimit -n)?"):format(how, number)
   end
   if not path or path:sub(1, 1) ~= "/" then
      torch.raise("spawn: no folder for temporary files: " .. (path or why))
   end
   return path
end

--- Processes that spawn has started.
---
---     local multiprocessing = torch.multiprocessing
---     local options = {nprocs = 2, join = false}
---     local context = multiprocessing.spawn(function(rank)
---        assert(rank == 0 or rank == 1)
---     end, options)
---     print(torch.type(context), context:join())
---     --> multiprocessing.ProcessContext	true
---@class multiprocessing.ProcessContext
local ProcessContext = class.class("multiprocessing.ProcessContext")

-- The ProcessContexts that have not been joined. They must not be collected, because collecting one
-- would close its pipe, which would end its processes.
local running = {} -- luacheck: ignore 241

function ProcessContext:__init(folder, pipe, nprocs)
   self.folder, self.pipe, self.nprocs = folder, pipe, nprocs
   running[self] = true
end

-- Returns the number and the error message of the rank that failed first, or nil if no rank has
-- failed.
local function first_error(folder, n)
   local rank, when, text
   for i = 0, n - 1 do
      local file <close> = io.open(("%s/error.%d"):format(folder, i))
      local at = file and file:read "n"
      if at and (not when or at < when) then
         file:read "l"
         rank, when, text = i, at, file:read "a"
      end
   end
   return rank, text
end

--- Waits until all processes have ended. An error in one process ends all other processes; join
--- raises the error with its rank and traceback.
---@param timeout? number  seconds; without it, waits without limit
---@return boolean ended  false if the time was over first
function ProcessContext:join(timeout)
   if timeout ~= nil and (type(timeout) ~= "number" or timeout < 0) then
      args.refuse("join", "timeout", "seconds", timeout)
   end
   if not self.pipe then return true end
   local deadline = torch.io.clock() + (timeout or math.huge)
   -- The processes would end if the pipe were closed earlier.
   while not exists(self.folder .. "/ended") do
      if torch.io.clock() >= deadline then return false end
      torch.distributed._sleep(0.01)
   end
   local _, _, status = self.pipe:close()
   self.pipe, running[self] = nil, nil
   local rank, text = first_error(self.folder, self.nprocs)
   os.execute("rm -rf " .. quote(self.folder))
   if status == 0 then return true end
   if rank then torch.raise(("spawn: rank %d has failed: %s"):format(rank, text)) end
   torch.raise(("spawn: a process has ended with status %d"):format(status))
end

local take = args.signature [[multiprocessing.spawn(fn: callable, args: table?, nprocs: count = 1,
   join: boolean = true, daemon: boolean = false, start_method: string = 'spawn')]]

local options <const> = {args = true, nprocs = true, join = true, daemon = true,
   start_method = true}

-- Raises an error for a table of options with a misspelt name, which would otherwise be taken for
-- the function's arguments.
local function check_arguments(arguments)
   for key in pairs(arguments) do
      if type(key) == "string" and key ~= "n" then
         args.unknown_option("multiprocessing.spawn", key, options)
      end
   end
end

--- Runs fn(rank, table.unpack(args)) in `nprocs` processes, with ranks from 0, and waits for them.
--- They are started in the manner of `tlua run`: their environment has RANK, WORLD_SIZE and the
--- other variables, so that init_process_group needs only a back end, and their output lines begin
--- with the rank. The function is sent as bytecode, with its upvalues, the globals that it names
--- and copies of CPU tensors; modules are sent by name. The function's changes to these values do
--- not reach this process. With join = false the result has a method join(seconds?). When this
--- process ends, the other processes end as well. An error in one process ends all other processes,
--- and the call raises this error.
---@param fn function
---@param options? {args: table, nprocs: integer, join: boolean}
---@return multiprocessing.ProcessContext?
function M.spawn(fn, ...)
   local a = take(fn, ...)
   if type(a.fn) ~= "function" then args.refuse("spawn", "fn", "a function", a.fn) end
   if a.args then check_arguments(a.args) end
   if a.nprocs < 1 or a.nprocs > 128 then
      args.refuse("spawn", "nprocs", "1 to 128 processes", a.nprocs)
   end
   if a.start_method ~= "spawn" then
      args.refuse("spawn", "start_method", '"spawn", the only one there is', a.start_method)
   end
   local folder = private_folder()
   local ok, why = pcall(package_of.write, folder, a.fn, a.args or {})
   if not ok then
      os.execute("rm -rf " .. quote(folder))
      why = tostring(why):gsub("^[^\n]-:%d+: ", "")
      torch.raise(why:find "^spawn: " and why or ("spawn: %s: %s"):format(folder, why))
   end
   io.stdout:flush()
   local path = quote(folder)
   local pipe = assert(io.popen(("%s run --until-eof -n %d %s/rank.lua; status=$?; : >%s/ended; " ..
      "exit $status"):format(quote(find_program()), a.nprocs, path, path), "w"))
   torch._keep(pipe)
   local context = ProcessContext(folder, pipe, a.nprocs)
   if not a.join then return context end
   context:join()
end

--- Returns "spawn", the way in which processes are started.
---@return string
function M.get_start_method()
   return "spawn"
end
checked.queries(M, "multiprocessing.", "get_start_method")

--- Accepts "spawn", the only supported way: a forked process would lack the engine's threads.
---@param method string
function M.set_start_method(method)
   if method ~= "spawn" then
      args.refuse("set_start_method", "method", '"spawn", the only one there is', method)
   end
end

return M
