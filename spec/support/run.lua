-- run.lua [OPTION...] [FILE or FOLDER...]: runs specs, several at a time. Each file has a separate
-- process, so that a crash fails only one file. Without files, runs every *_spec.lua of spec and of
-- the packages in rocks, and the C programs of spec/embed, spec/core and spec/lua, which make has
-- built. Prints a line for each file with its tests, its duration and the processor seconds of its
-- processes, the whole output of failed files, and the totals as the last line.
--
--   --jobs N           how many at a time (1), of which each is to have a gigabyte of memory
--   --filter PATTERN   only tests whose names match
--   --exclude PREFIX   no files whose paths begin so; may be given several times
--   --wrap COMMAND     before the program, as in --wrap 'valgrind -q'
--   --within SECONDS   files that have not begun or ended by then have failed
--
-- Environment variables name the program under test, TLUA (./tlua by default), the build folder, TLUA_BUILD
-- (build), and the time limit for each file, SPEC_TIMEOUT (1800 s). Specs find the value of --wrap in
-- SPEC_WRAP.

local function parse(arguments)
   local options = {jobs = "1", wrap = "", exclude = {}, roots = {}}
   local i = 1
   while i <= #arguments do
      local name = arguments[i]:match("^%-%-(%a+)$")
      if name then
         local value = assert(arguments[i + 1], "a value is missing after --" .. name)
         if name == "exclude" then
            table.insert(options.exclude, value)
         else
            options[name] = value
         end
         i = i + 2
      else
         table.insert(options.roots, arguments[i])
         i = i + 1
      end
   end
   return options
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function lines_of(command)
   local lines = {}
   local pipe = assert(io.popen(command))
   for line in pipe:lines() do lines[#lines + 1] = line end
   pipe:close()
   return lines
end

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read("a")
end

local function write(path, text)
   local file <close> = assert(io.open(path, "wb"))
   assert(file:write(text))
end

local function excluded(path, prefixes)
   for _, prefix in ipairs(prefixes) do
      if path:sub(1, #prefix) == prefix then return true end
   end
   return false
end

-- The files that take longest begin first. If one of them began last, the processors would wait for it at the end.
local longest <const> = {
   "spec/build/packages_spec.lua", "spec/examples/deploy_spec.lua", "spec/profiles/runtime_spec.lua",
   "spec/build/rock_spec.lua",
   "spec/cuda/fusion_spec.lua", "spec/dist/mpi_spec.lua", "spec/examples/hosts_spec.lua",
   "rocks/trainer/spec/resume_spec.lua", "spec/lua/operators_test.c", "spec/ops/threads_spec.lua",
   "spec/ops/attention_spec.lua", "spec/embed/opening.c", "spec/embed/sandbox.c",
   "spec/cuda/kernels_spec.lua", "spec/build/make_spec.lua", "rocks/trainer/spec/sweep_spec.lua",
   "spec/ops/bfloat16_spec.lua", "spec/ops/table_spec.lua", "rocks/serve/spec/versions_spec.lua",
   "rocks/vision/spec/models_spec.lua", "spec/build/reference_spec.lua", "spec/build/install_spec.lua",
   "spec/core/cudnn_spec.lua", "spec/examples/examples_spec.lua", "rocks/notebook/spec/kernel_spec.lua",
   "spec/ops/fuzz_spec.lua", "spec/examples/ported_spec.lua", "spec/lua/finalizer_spec.lua",
   "spec/portable/bits_spec.lua", "spec/main/limits_spec.lua", "spec/memory/pacer_spec.lua",
   "spec/dist/nodes_spec.lua", "rocks/trainer/spec/other_ranks_spec.lua", "spec/lua/interrupted_spec.lua",
   "rocks/hub/spec/hub_spec.lua", "spec/cuda/traffic_spec.lua", "spec/utils/wrong_arguments_spec.lua",
   "spec/dist/checkpoint_spec.lua",
}

-- Returns the spec files below the given folders. The files that take longest come first, the others in the order of
-- their paths.
local function find(options)
   local roots = options.roots
   local all = #roots == 0
   local quoted = {}
   for i, root in ipairs(all and {"spec", "rocks"} or roots) do quoted[i] = quote(root) end
   local files = {}
   for _, path in ipairs(lines_of("find " .. table.concat(quoted, " ") ..
      " -name '*_spec.lua' -o -path '*spec/embed/*.c' -o -path '*spec/core/*.c'" ..
      " -o -path '*spec/lua/*.c' | sort")) do
      if not excluded(path, options.exclude) then files[#files + 1] = path end
   end
   local rank = {}
   for i, path in ipairs(files) do rank[path] = i end
   for i, path in ipairs(longest) do rank[path] = i - #longest end
   table.sort(files, function(a, b) return rank[a] < rank[b] end)
   return files
end

local tlua = os.getenv("TLUA") or "./tlua"
local build = os.getenv("TLUA_BUILD") or "build"
local timeout = os.getenv("SPEC_TIMEOUT") or "1800"
local within -- true if all files share one time limit

-- Unsets environment variables that must not reach the programs of specs: variables of Lua, of the user's language, of
-- a cluster's job and of mpirun.
local clean <const> = [[
unset LUA_INIT LUA_INIT_5_4 LUA_INIT_5_5 LANGUAGE RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE \
   GROUP_RANK MASTER_ADDR MASTER_PORT PMIX_RANK PMIX_NAMESPACE \
   $(env | sed -nE 's/^((SLURM|PMI|OMPI_COMM_WORLD|MPI_LOCAL)[A-Z0-9_]*)=.*/\1/p')
export LC_ALL=C.UTF-8
]]

local function command_for(path, options)
   local program
   if path:find("%.c$") then
      program = build .. "/" .. path:gsub("%.c$", "")
      local windows = io.open(program .. ".exe")
      if windows then windows:close() end
      program = quote(program .. (windows and ".exe" or ""))
   else
      program = quote(tlua) .. " spec/support/busted.lua --output=plainTerminal" ..
         (options.filter and " --filter=" .. quote(options.filter) or "") .. " " .. quote(path)
   end
   local limit = timeout
   local text = ""
   if options.within then
      text = ("left=$((%d - $(date +%%s))); [ $left -gt 0 ] || exit 124\n" ..
         "[ $left -lt %s ] || left=%s\n"):format(os.time() + tonumber(options.within), timeout, timeout)
      limit = "$left"
   end
   return ("%s%sexport SPEC_WRAP=%s; exec timeout --foreground -k 10 %s %s %s\n"):format(
      clean, text, quote(options.wrap), limit, options.wrap, program)
end

-- Describes the exit status of a program that has ended without reporting its results.
local function fate(status)
   if status == 124 or status == 137 then
      return within and "no time was left" or "stopped after " .. timeout .. " s"
   end
   if status > 128 then return "killed by signal " .. (status - 128) end
   return "ended with status " .. status
end

-- Returns the numbers of passed, failed and skipped tests in a file's output, and a remark.
local function judge_busted(output, status, filtered)
   local passed, failures, errors, skipped =
      output:match("(%d+) success%a* / (%d+) failure%a* / (%d+) error%a* / (%d+) pending")
   if not passed then return 0, 1, 0, fate(status) .. " without a result" end
   local failed = failures + errors
   if status ~= 0 and failed == 0 then
      return passed, 1, skipped, fate(status) .. " after the tests"
   elseif passed + failed + skipped == 0 and not filtered then
      return 0, 1, 0, "holds no test"
   end
   return passed, failed, skipped
end

-- Returns the numbers of passed and failed tests of a C program. Its output is empty, or has lines "ok ..." and "not ok
-- ...".
local function judge_program(output, status)
   local _, passed = ("\n" .. output):gsub("\nok ", "")
   local _, failed = ("\n" .. output):gsub("\nnot ok ", "")
   if status ~= 0 then return passed, math.max(failed, 1), 0, fate(status) end
   return math.max(passed, 1), failed, 0
end

-- Returns the processor seconds in the output of the shell's `times`, whose second line is that of ended processes.
local function processor_seconds(times)
   local sum = 0
   for minutes, seconds in (times:match("\n(.*)") or ""):gmatch("(%d+)m([%d.]+)s") do
      sum = sum + tonumber(minutes) * 60 + tonumber(seconds)
   end
   return sum
end

local function report(path, output, spent, passed, failed, remark)
   local seconds = output:match("pending : ([%d.]+) second")
   print(("%-4s %4d  %7s  %5.1f  %s%s"):format(failed == 0 and "ok" or "FAIL", passed,
      seconds and ("%.1f s"):format(seconds) or "", spent, path, remark and ": " .. remark or ""))
   for name in output:gmatch("\nPending %-> [^\n]*\n([^\n]*)") do print("        skipped: " .. name) end
   -- Prints each failure in a few adjacent lines, because readers of a long log look for its text near the failure.
   for kind, rest in (output .. "\n\n"):gsub("\n\n", "\n\n\n"):gmatch "\n(%u%l+) %-> (.-)\n\n" do
      if kind == "Failure" or kind == "Error" then
         local count = 0
         for line in rest:gmatch "[^\n]+" do
            count = count + 1
            if count <= 8 then print(("        %s%s"):format(count == 1 and kind:lower() .. ": " or "   ", line)) end
         end
      end
   end
   for line in ("\n" .. output):gmatch("\nnot ok [^\n]*") do print("        " .. line:sub(2)) end
   io.stdout:flush()
end

-- Returns the requested number of jobs, or fewer: each job needs a free gigabyte of memory, and a machine or container
-- may have many processors but little memory.
local function jobs_for(asked)
   local left = math.huge
   local function at_most(path, pattern, unit)
      local file <close> = io.open(path)
      local found = file and tonumber(file:read("a"):match(pattern))
      if found then left = math.min(left, found * unit / 2 ^ 30) end
   end
   at_most("/proc/meminfo", "MemAvailable:%s*(%d+) kB", 1024)
   at_most("/sys/fs/cgroup/memory.max", "^(%d+)\n", 1)
   at_most("/sys/fs/cgroup/memory/memory.limit_in_bytes", "^(%d+)\n", 1)
   return math.max(1, math.floor(math.min(tonumber(asked), left)))
end

local function run(files, options, folder)
   local list = {}
   for i, path in ipairs(files) do
      list[i] = tostring(i)
      write(folder .. "/" .. i, command_for(path, options))
   end
   write(folder .. "/list", table.concat(list, "\n") .. "\n")

   local passed, failed, skipped = 0, 0, 0
   local broken = {}
   -- Each job writes a line when it ends, with the job's number and status.
   local jobs <close> = assert(io.popen(("xargs -P %d -I{} sh -c "):format(jobs_for(options.jobs)) ..
      quote(("sh %s/{} >%s/{}.out 2>&1 </dev/null; status=$?; times >%s/{}.times; echo {} $status"):format(
         folder, folder, folder)) .. " <" .. folder .. "/list"))
   for line in jobs:lines() do
      local i, status = line:match("^(%d+) (%d+)$")
      local path = files[tonumber(i)]
      local output = read(folder .. "/" .. i .. ".out")
      local spent = processor_seconds(read(folder .. "/" .. i .. ".times"))
      status = tonumber(status)
      local judge = path:find("%.c$") and judge_program or judge_busted
      local p, f, s, remark = judge(output, status, options.filter)
      p, f, s = math.tointeger(p), math.tointeger(f), math.tointeger(s)
      report(path, output, spent, p, f, remark)
      passed, failed, skipped = passed + p, failed + f, skipped + s
      if f > 0 or #files == 1 then broken[#broken + 1] = {path = path, output = output} end
   end
   for _, file in ipairs(broken) do print(("\n==== %s\n%s"):format(file.path, file.output)) end
   return passed, failed, skipped
end

local options = parse(arg)
within = options.within ~= nil
local files = find(options)
local folder = lines_of("mktemp -d")[1]
local passed, failed, skipped = run(files, options, folder)
os.execute("rm -rf " .. quote(folder))

print(("%d passed, %d failed%s"):format(passed, failed, skipped > 0 and (", %d skipped"):format(skipped) or ""))
os.exit(failed == 0 and passed > 0)
