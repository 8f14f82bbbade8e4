-- ranks.lua - runs Lua code on several ranks, like `tlua run`.

local shell = require "spec.support.shell"

local M = {}

-- The code that every rank runs first. `check` compares, and its message names the rank and the
-- values.
local head = [[
torch.set_num_threads(1)
local dist = torch.distributed
local function list(x) return torch.is_tensor(x) and x:tolist() or x end
local function show(x)
   if type(x) ~= "table" then return tostring(x) end
   local parts = {}
   for i, y in ipairs(x) do parts[i] = show(y) end
   return "{" .. table.concat(parts, ", ") .. "}"
end
function check(expected, actual, what)
   expected, actual = show(list(expected)), show(list(actual))
   if expected ~= actual then
      error(("%s: expected %s, got %s"):format(what or "check", expected, actual), 2)
   end
end
BACKEND = os.getenv "SPEC_DIST_BACKEND" or "shm"
function refused(text, fn, ...)
   local ok, message = pcall(fn, ...)
   if ok then error("no error: expected " .. text, 2) end
   if not message:find(text, 1, true) then
      error(("expected %s, got %s"):format(text, message), 2)
   end
end
LIMIT = 1e-5 -- tolerance for values computed in another order
function near(a, b, limit, what)
   local off = (a - b):abs():max():item()
   if not (off <= (limit or LIMIT)) then error((what or "value") .. " is off by " .. off, 2) end
end
-- Prints "told", and waits for the other ranks before it ends: mpirun ends all ranks with the first
-- one, and "has ended" is another error than the expected one.
function told()
   print "told"
   io.stdout:flush()
   local store, names = dist.group.WORLD.store, {}
   store:set("told" .. dist.get_rank(), "")
   for i = 1, dist.get_world_size() do names[i] = "told" .. i - 1 end
   pcall(store.wait, store, names, 300) -- The store may belong to a rank that has already ended.
end
function near_model(model, alone, limit)
   local full, theirs = dist.fsdp.full_tensor, alone:parameters()
   for i, p in ipairs(model:parameters()) do
      near(full(p), theirs[i], limit, "parameter " .. i)
      if theirs[i].grad then near(full(p, p.grad), theirs[i].grad, limit, "gradient " .. i) end
   end
end
]]

local joined = [[
dist.init_process_group {backend = BACKEND, timeout = TIMEOUT}
local rank, size = dist.get_rank(), dist.get_world_size()
]]

-- Writes `head` to a file that all programs run, so that the first line of a program is line 1 of
-- its own file.
local function write_head(folder, text)
   text = text .. "FOLDER = " .. ("%q"):format(folder) .. "\n"
   shell.write(folder .. "/head.lua", (("\n" .. text):gsub("\nlocal ", "\n")))
end

-- Seconds that ranks wait for other ranks, which may have to wait for a processor. A spec that
-- tests the timeout gives a shorter one to a group or a call that begins when all are there.
local patience <const> = 120

--- Runs code on n ranks that have joined, or, with `alone`, that have not.
---@param n integer
---@param code string  with `dist`, `rank` and `size`, `check`, `refused`, `near` and `told`
---@param options? {alone: boolean, env: string, launch: string, breaks: boolean}  `breaks`: leaves a
--- group that cannot be used
---@return string output  of all, with the rank in front
---@return integer status
function M.run(n, code, options)
   options = options or {}
   return shell.with_folder(function(folder)
      write_head(folder, head .. (options.alone and "" or
         joined:gsub("TIMEOUT", patience)))
      shell.write(folder .. "/ranks.lua", ("dofile %q; "):format(folder .. "/head.lua") .. code)
      return shell.run(("cd %s && %s %s run -n %d --timeout 120 %s ranks.lua"):format(folder, options.env or "",
         shell.quote(M.tlua), n, options.launch or ""))
   end)
end

M.tlua = shell.ok("realpath " .. shell.quote(shell.tlua)):match "[^\n]+"

--- Runs code that must succeed.
---@return string output
function M.ok(n, code, options)
   local output, status = M.run(n, code, options)
   if status ~= 0 then error(("status %d\n%s"):format(status, output), 2) end
   return output
end

-- Calls the cases of a spec file, with `runner` in place of this module; after(name, ok, message)
-- is called for each.
local function each_case(file, runner, after)
   local env = setmetatable({
      describe = function(_, fn) fn() end,
      it = function(name, fn)
         runner.name = name
         after(name, pcall(fn))
      end,
      require = function(what) return what == "spec.dist.ranks" and runner or require(what) end,
      assert = require "luassert",
   }, {__index = _G})
   assert(loadfile(file, "t", env))()
end

local function left_out() error("left out", 0) end

--- Returns whether nobody listens at a port of this machine.
---@param port integer
---@return boolean
function M.is_free(port)
   local dist = require "tlua".distributed
   local ok, store = pcall(dist.TCPStore, "127.0.0.1", port, {is_master = true})
   if ok then store:close() end
   return ok
end

--- Returns a port that is free and stays free: it is below those that the system assigns.
---@return integer
function M.free_port()
   for _ = 1, 1000 do
      local port = math.random(15000, 30000)
      if M.is_free(port) then return port end
   end
   error "no port is free"
end

-- Collects the arguments that a spec file passes to `ok`, for each number of ranks, instead of
-- running them: {n =, name =, code =}. Calls with options are left out, such as those that leave a
-- broken group.
local function record(file)
   local list, recorder = {}, setmetatable({run = left_out}, {__index = M})
   function recorder.ok(n, code, options)
      if not options and not recorder.name:find "^are errors" then
         list[#list + 1] = {n = n, name = recorder.name, code = code}
      end
   end
   each_case(file, recorder, function() end)
   return list
end

local each = [[
for i = 1, CODES do
   dofile "head.lua"
   dist.init_process_group {backend = BACKEND, timeout = 120}
   rank, size = dist.get_rank(), dist.get_world_size()
   local ok, message = xpcall(dofile, debug.traceback, i .. ".lua")
   print(("%d %s on rank %d %s"):format(i, ok and "passed" or "failed", rank, ok and "" or message))
   if not ok then os.exit(1) end
   if dist.is_initialized() then
      dist.barrier()
      dist.destroy_process_group()
   end
end
]]

-- The command lines of `mpirun`, which allow more processes than the machine has cores.
local mpirun = {
   openmpi = "mpirun.openmpi --allow-run-as-root --oversubscribe -q -x SPEC_DIST_BACKEND -n %d",
   mpich = "mpirun.mpich -n %d",
}

--- Runs code by mpirun on n ranks that have joined by MPI, or, with `alone`, that have not.
---@param mpi "openmpi"|"mpich"
---@param n integer
---@param code string
---@param options? {alone: boolean, env: string}
---@return string output
---@return integer status
function M.mpirun(mpi, n, code, options)
   options = options or {}
   return shell.with_folder(function(folder)
      write_head(folder, head .. (options.alone and "" or
         joined:gsub("TIMEOUT", patience)))
      shell.write(folder .. "/ranks.lua", "dofile 'head.lua'; " .. code)
      return shell.run(("cd %s && %s SPEC_DIST_BACKEND=mpi timeout 600 %s %s ranks.lua"):format(folder,
         options.env or "", mpirun[mpi]:format(n), shell.quote(M.tlua)))
   end)
end

--- Runs the cases of a spec file by mpirun, each program of a case in its place, for files whose
--- programs read the files of earlier ones. Cases that are meant to fail are left out.
---@param mpi "openmpi"|"mpich"
---@param file string
---@return integer count  number of cases that passed
function M.each_by_mpi(mpi, file)
   local passed, runner = 0, setmetatable({run = left_out}, {__index = M})
   function runner.ok(n, code, options)
      options = options or {}
      if options.env or options.launch or options.breaks then left_out() end
      if not options.alone then code = code .. "\ndist.barrier() dist.destroy_process_group()" end
      local output, status = M.mpirun(mpi, n, code, options)
      if status ~= 0 then
         error(("%q, on %d ranks of %s: status %d\n%s"):format(runner.name, n, mpi, status, output), 0)
      end
      return output
   end
   each_case(file, runner, function(_, ok, message)
      if not ok and message ~= "left out" then error(message, 0) end
      if ok then passed = passed + 1 end
   end)
   return passed
end

--- Runs the cases of spec files for n ranks by mpirun, all in one program for each n.
---@param mpi "openmpi"|"mpich"
---@param files string[]
---@return integer count  number of codes that passed on all of their ranks
function M.all_by_mpi(mpi, files)
   local by_n, numbers, passed = {}, {}, 0
   for _, file in ipairs(files) do
      for _, code in ipairs(record(file)) do
         if not by_n[code.n] then
            by_n[code.n] = {}
            numbers[#numbers + 1] = code.n
         end
         table.insert(by_n[code.n], code)
      end
   end
   for _, n in ipairs(numbers) do
      shell.with_folder(function(folder)
         write_head(folder, head)
         for i, code in ipairs(by_n[n]) do shell.write(("%s/%d.lua"):format(folder, i), code.code) end
         shell.write(folder .. "/each.lua", (each:gsub("CODES", #by_n[n])))
         local output, status = shell.run(("cd %s && SPEC_DIST_BACKEND=mpi timeout 600 %s %s each.lua")
            :format(folder, mpirun[mpi]:format(n), shell.quote(M.tlua)))
         for i, code in ipairs(by_n[n]) do
            local _, on = output:gsub(("%%f[%%d]%d passed on rank"):format(i), "")
            if on ~= n then
               error(("%q, on %d ranks of %s: status %d\n%s"):format(code.name, n, mpi, status, output))
            end
            passed = passed + 1
         end
         if status ~= 0 then error(("status %d of %s\n%s"):format(status, mpi, output)) end
      end)
   end
   return passed
end

return M
