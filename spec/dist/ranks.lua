-- ranks.lua - runs Lua code on several ranks, as `tlua run` does.

local shell = require "spec.support.shell"

local M = {}

local programs <const> = shell.ok("realpath spec/dist/programs"):match "[^\n]+"

-- Returns a statement that runs a file of spec/dist/programs. The statement is in the first line of a program, so that
-- line numbers in errors are those of the spec's text.
local function running(name) return ("dofile %q; "):format(("%s/%s.lua"):format(programs, name)) end

-- Writes the file of common functions, which every program in the folder runs first.
local function write_head(folder, text)
   shell.write(folder .. "/head.lua", ("%s\nFOLDER, PROGRAMS = %q, %q\n%s"):format(running "head", folder,
      programs, text))
end

-- The ranks' timeout in seconds, which is long because a rank may have to wait for a processor. A spec that tests
-- timeouts passes a shorter one to a group or a call that begins after all ranks have started.
local patience <const> = 120

local joined <const> = ([[
dist.init_process_group {backend = BACKEND, timeout = %d}
rank, size = dist.get_rank(), dist.get_world_size()
]]):format(patience)

--- Runs code on n ranks of a process group or, with `alone`, on ranks without a group.
---@param n integer
---@param code string  may use `dist`, `rank`, `size`, `check`, `refused`, `near` and `told`
---@param options? {alone: boolean, env: string, launch: string, breaks: boolean}  `breaks`: whether
--- the code makes the group unusable
---@return string output  the output of all ranks, each line after its rank
---@return integer status
function M.run(n, code, options)
   options = options or {}
   return shell.with_folder(function(folder)
      write_head(folder, options.alone and "" or joined)
      shell.write(folder .. "/ranks.lua", ("dofile %q; "):format(folder .. "/head.lua") .. code)
      return shell.run(("cd %s && %s %s run -n %d --timeout 120 %s ranks.lua"):format(folder, options.env or "",
         shell.quote(M.tlua), n, options.launch or ""))
   end)
end

M.tlua = shell.ok("realpath " .. shell.quote(shell.tlua)):match "[^\n]+"

--- Runs code that must succeed on all ranks.
---@return string output
function M.ok(n, code, options)
   local output, status = M.run(n, code, options)
   if status ~= 0 then error(("status %d\n%s"):format(status, output), 2) end
   return output
end

--- Returns a function that takes the text of a program, and prepends a statement that runs a file of
--- spec/dist/programs.
---@param name string
---@return fun(text: string): string
function M.following(name) return function(text) return running(name) .. text end end

-- Returns a function that calls run(n, code) for each n; `numbers` is one number of ranks or a list of numbers.
local function each_number(run, numbers, code)
   return function()
      for _, n in ipairs(type(numbers) == "table" and numbers or {numbers}) do run(n, code) end
   end
end

--- Returns a test that runs code on n ranks: `it(name, ranks:case(2, code))`.
---@param n integer|integer[]  for a list, the code runs once for each number
---@param code string
---@return fun()
function M:case(n, code) return each_number(function(...) self.ok(...) end, n, code) end

--- Returns variants of `ok` and `case` that first run the file `name` from spec/dist/programs, and then the code passed
--- to them.
---@param name string
function M:run_after(name)
   local function run(n, code, options) return self.ok(n, running(name) .. code, options) end
   return run, function(n, code) return each_number(run, n, code) end
end

-- Runs those cases of a spec file whose names match one of the patterns, or all cases if there are no patterns.
-- `runner` replaces this module in the spec file. after(name, ok, message) is called after each case.
local function each_case(file, runner, after, patterns)
   local function chosen(name)
      for _, pattern in ipairs(patterns or {""}) do
         if name:find(pattern) then return true end
      end
      return false
   end
   local env = setmetatable({
      describe = function(_, fn) fn() end,
      it = function(name, fn)
         if not chosen(name) then return end
         runner.name = name
         after(name, pcall(fn))
      end,
      require = function(what) return what == "spec.dist.ranks" and runner or require(what) end,
      assert = require "luassert",
   }, {__index = _G})
   assert(loadfile(file, "t", env))()
end

local function left_out() error("left out", 0) end

--- Returns whether no process listens on a port of this machine.
---@param port integer
---@return boolean
function M.is_free(port)
   local dist = require "tlua".distributed
   local ok, store = pcall(dist.TCPStore, "127.0.0.1", port, {is_master = true})
   if ok then store:close() end
   return ok
end

--- Returns a free port. The system does not assign it to another program, because it is below the range of such ports.
---@return integer
function M.free_port()
   for _ = 1, 1000 do
      local port = math.random(15000, 30000)
      if M.is_free(port) then return port end
   end
   error "no port is free"
end

-- Loads a spec file and returns its calls of `ok` as a list of {n =, name =, code =}, without running the programs; n
-- is the number of ranks. Calls with options are left out, because some of these programs make the group unusable.
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

-- The command lines of `mpirun` for both libraries. Each one allows more processes than the machine has cores.
local mpirun = {
   openmpi = "mpirun.openmpi --allow-run-as-root --oversubscribe -q -x SPEC_DIST_BACKEND -n %d",
   mpich = "mpirun.mpich -n %d",
}

--- Runs code by mpirun on n ranks of an MPI group or, with `alone`, on ranks without a group.
---@param mpi "openmpi"|"mpich"
---@param n integer
---@param code string
---@param options? {alone: boolean, env: string}
---@return string output
---@return integer status
function M.mpirun(mpi, n, code, options)
   options = options or {}
   return shell.with_folder(function(folder)
      write_head(folder, options.alone and "" or joined)
      shell.write(folder .. "/ranks.lua", "dofile 'head.lua'; " .. code)
      return shell.run(("cd %s && %s SPEC_DIST_BACKEND=mpi timeout 600 %s %s ranks.lua"):format(folder,
         options.env or "", mpirun[mpi]:format(n), shell.quote(M.tlua)))
   end)
end

--- Runs the cases of a spec file by mpirun. Each program runs separately, on as many ranks as its
--- case requires, so that it can read files of earlier programs. Cases that must fail are left
--- out.
---@param mpi "openmpi"|"mpich"
---@param file string
---@param patterns? string[]  patterns of the cases' names; by default all cases run
---@return integer count  number of cases that passed
function M.each_by_mpi(mpi, file, patterns)
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
   end, patterns)
   return passed
end

--- Runs the cases of spec files by mpirun. For each number n of ranks, one program runs all cases that need n ranks.
---@param mpi "openmpi"|"mpich"
---@param files string[]
---@return integer count  number of programs that passed on all their ranks
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
         write_head(folder, "")
         for i, code in ipairs(by_n[n]) do shell.write(("%s/%d.lua"):format(folder, i), code.code) end
         shell.write(folder .. "/each.lua", ("COUNT = %d %s"):format(#by_n[n], running "each"))
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
