-- bench.lua - measures the time of operators, layers and training steps. If a Python with PyTorch is found, PyTorch is
-- measured too:
--
--    make bench
--    ./tlua spec/bench/bench.lua --group overhead,mlp --threads 1 --quick
--    ./tlua spec/bench/bench.lua --device cuda
--
-- Both programs take turns, row by row and round by round, so that other load on the machine affects both alike. Times
-- are medians, in microseconds for one run of the row; `ratio` is PyTorch's time divided by ours. rows.lua describes
-- the form of rows; model_rows.lua has more rows.
--
-- For a memory-bound row, the last column is its bandwidth divided by the bandwidth of a plain copy of
-- as many bytes (copy_, a memcpy split over the threads), measured in the same rounds; 1 means that
-- the row costs only its memory traffic. For a loader that runs beside training steps, the column is
-- the time of the steps alone divided by their time with the loader; 1 means that the loader is
-- hidden.
--
-- With --device all tensors are on that device. The rows then come from gpu_rows.lua and have larger sizes, and a
-- measurement ends when the device has finished its work.
--
-- With --best a time is the fastest of many short measurements. On a shared machine this minimum shows the cost of the
-- code, while the median also shows the load of other programs. With --cpu a time is processor time, summed over the
-- process's threads. On one thread, other load hardly changes it. (Rows that wait for a loader or a device need the
-- wall clock instead.)

local torch = require "tlua"

local here = arg[0]:match("^(.*)/") or "."

local function parse()
   local parser = torch.utils.options("bench.lua", "Times operators, with PyTorch's times beside.")
   parser:option("--group", "only these groups of rows, separated by commas", "")
   parser:option("--filter", "only rows whose names contain this", "")
   parser:option("--threads", "numbers of threads, separated by commas", "1,2")
   parser:option("--python", "a Python that may have torch; default: those in the usual places", "")
   parser:option("--device", "where tensors are, for both", "cpu")
   parser:flag("--quick", "fewer rounds: rough figures")
   parser:flag("--best", "the fastest of many short measurements in place of medians")
   parser:flag("--cpu", "processor time in place of the wall clock")
   parser:flag("--alone", "without PyTorch")
   return parser:parse()
end

local options = parse()
local on_device <const> = options.device ~= "cpu"
local wait <const> = on_device and torch[options.device:match("^%a+")].synchronize or function() end

-- The shortest duration of a measurement in seconds, and the number of measurements of which the median is taken.
local duration <const> = options.best and 0.002 or options.quick and 0.005 or 0.03
local repeats <const> = options.best and (options.quick and 10 or 40) or options.quick and 3 or 7

-- Our side ----------------------------------------------------------------------------------

-- Returns a function that runs the row a given number of times and returns the elapsed seconds.
local function compile(row)
   local text = ("local torch, nn, F, clock, wait = ...\n%s\nreturn function(rounds)\n" ..
      "wait() local start = clock()\nfor _ = 1, rounds do %s end\nwait() return clock() - start\nend"
      ):format(row.setup[1], row.lua)
   local make = assert(load(text, "=" .. row.name))
   torch.manual_seed(1)
   local run = make(torch, torch.nn, torch.nn.functional, options.cpu and os.clock or torch.io.clock, wait)
   run(1)
   return run
end

-- Their side --------------------------------------------------------------------------------

local Python = torch.class("Python")

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function find_python()
   local candidates = options.python ~= "" and {options.python} or {"python3", "/usr/bin/python3"}
   for _, command in ipairs(candidates) do
      if os.execute(quote(command) .. " -c 'import torch' >/dev/null 2>&1") then return command end
   end
end

-- Starts Python. This program sends requests through a pipe, and reads the replies from a named pipe.
function Python:__init(command)
   local pipe = assert(io.popen("mktemp -d"))
   self.folder = pipe:read("l")
   pipe:close()
   local answers = self.folder .. "/answers"
   assert(os.execute("mkfifo " .. answers))
   self.requests = assert(io.popen(("exec %s %s/bench.py %s %s >%s"):format(quote(command),
      quote(here), options.device, options.cpu and "cpu" or "wall", answers), "w"))
   self.answers = assert(io.open(answers))
   self.version = self.answers:read("l")
end

function Python:ask(...)
   self.requests:write(...)
   self.requests:write("\n")
   self.requests:flush()
   return self.answers:read("l") or "error: Python has ended"
end

function Python:close()
   self.requests:close()
   self.answers:close()
   os.execute("rm -r " .. self.folder)
end

-- Sends a row to Python, which compiles it. If PyTorch lacks a function that the row calls, returns nil and a message.
function Python:compile(row)
   local function one_line(text) return (text:gsub("\n", "\x1f")) end
   local answer = self:ask("setup ", one_line(row.setup[2]), "\x1e", one_line(row.python))
   if answer ~= "ok" then return nil, answer end
   return function(rounds) return tonumber(self:ask("run ", rounds)) end
end

local function all_rows()
   if on_device then
      local rows = dofile(here .. "/gpu_rows.lua")
      return table.move(dofile(here .. "/step_rows.lua"), 1, 1000, #rows + 1, rows)
   end
   local rows = dofile(here .. "/rows.lua")
   table.move(dofile(here .. "/model_rows.lua"), 1, 1000, #rows + 1, rows)
   return rows
end

-- Measuring ---------------------------------------------------------------------------------

-- Returns how many runs of a row are needed for one measurement of the shortest duration.
local function calibrate(run)
   local rounds = 1
   while true do
      local seconds = run(rounds)
      if seconds >= duration then return rounds end
      rounds = math.ceil(rounds * math.min(10, 1.2 * duration / math.max(seconds, 1e-9)))
   end
end

local function typical(list)
   table.sort(list)
   if options.best then return list[1] end
   local half = (#list + 1) // 2
   return (list[half] + list[#list + 1 - half]) / 2
end

-- Returns the microseconds that each function takes for one run. The functions are measured in turn.
local function measure(runs)
   local rounds, times = {}, {}
   for i, run in ipairs(runs) do rounds[i], times[i] = calibrate(run), {} end
   for k = 1, repeats do
      for i, run in ipairs(runs) do times[i][k] = run(rounds[i]) / rounds[i] * 1e6 end
   end
   for i in ipairs(runs) do times[i] = typical(times[i]) end
   return times
end

-- The table ---------------------------------------------------------------------------------

local function number(x)
   if not x then return "" end
   return (x < 10 and "%.3f" or x < 1000 and "%.1f" or "%.0f"):format(x)
end

local function print_row(name, threads, ours, theirs, ratio, share)
   print(("%-52s %7s %12s %12s %8s %8s"):format(name, threads, ours, theirs, ratio, share))
   io.stdout:flush()
end

local function quotient(a, b) return a and b and ("%.2f"):format(a / b) or "" end

local function split(text)
   local set = {}
   for word in text:gmatch("[^,]+") do set[#set + 1] = word end
   return set
end

local function selected(row, groups)
   if options.filter ~= "" and not row.name:find(options.filter, 1, true) then return false end
   for _, name in ipairs(groups) do
      if row.group == name then return true end
   end
   return #groups == 0
end

local function summary(ratios)
   if #ratios == 0 then return end
   local ahead, logs = 0, 0
   for _, ratio in ipairs(ratios) do
      if ratio >= 1 then ahead = ahead + 1 end
      logs = logs + math.log(ratio)
   end
   print(("%d of %d rows ahead, geometric mean of ratios %.2f"):format(ahead, #ratios, math.exp(logs / #ratios)))
end

-- Returns a row's function that copies a tensor and moves this many bytes: it reads half of them and writes the other
-- half.
local function copy_of(bytes)
   return compile {name = "copy", lua = "to:copy_(from)", setup = {
      ("local from, to = torch.ones(%d), torch.ones(%d)"):format(bytes // 8, bytes // 8)}}
end

-- Measures a row. Returns a list of times, of which tlua's come first, the number of tlua's times, PyTorch's function,
-- and a message if PyTorch lacks a function.
local function times_of(row, python)
   local run = compile(row)
   local theirs, fault
   if python and row.python then theirs, fault = python:compile(row) end
   local alone = row.alone and compile {name = "alone", setup = {""}, lua = row.alone}
   local runs = {run, row.bytes and copy_of(row.bytes) or alone}
   local count = #runs
   runs[count + 1] = theirs
   return measure(runs), count, theirs, fault
end

local failures = 0

-- Measures one row and prints the times. Returns the ratio to PyTorch's time, if there is one.
local function bench(row, threads, python)
   local ok, times, count, theirs, fault = pcall(times_of, row, python)
   if not ok then
      failures = failures + 1
      print_row(row.name, threads, "failed", "", "", "")
      print("   " .. tostring(times))
      return nil
   end
   local our_time, their_time = times[1], theirs and times[count + 1]
   print_row(row.name, threads, number(our_time), number(their_time), quotient(their_time, our_time),
      quotient(count == 2 and times[2], our_time))
   if fault then io.stderr:write("   PyTorch: ", fault, "\n") end
   return their_time and their_time / our_time
end

-- Prints which implementations computed the rows on a GPU: cuDNN's, cuBLASLt's, or our own kernels.
local function print_paths()
   local names = {}
   local stats = torch.backends.cuda.stats()
   for name, count in pairs(stats) do
      if count > 0 then names[#names + 1] = ("%s %d"):format(name, count) end
   end
   table.sort(names)
   print("paths taken: " .. table.concat(names, ", "))
end

local function main()
   if on_device then torch.set_default_device(options.device) end
   local command = not options.alone and find_python()
   local python = command and Python(command)
   local config = torch.config()
   print(("tlua %s, %s, %s"):format(torch._VERSION, config.cpu_isa, python and python.version or "no PyTorch"))
   local groups, ratios = split(options.group), {}
   for _, threads in ipairs(on_device and {"1"} or split(options.threads)) do
      threads = math.tointeger(tonumber(threads)) or error("--threads: expected numbers", 0)
      torch.set_num_threads(threads)
      if python then python:ask("threads ", threads) end
      local group
      for _, row in ipairs(all_rows()) do
         if selected(row, groups) and (row.threads or threads) == threads then
            if row.group ~= group then
               group = row.group
               print()
               print_row(group .. ", microseconds", "threads", "tlua", "PyTorch", "ratio", "copy")
            end
            ratios[#ratios + 1] = bench(row, threads, python)
         end
      end
   end
   print()
   summary(ratios)
   if options.device:find "^cuda" then print_paths() end
   if python then python:close() end
   if failures > 0 then error(("%d rows have failed"):format(failures), 0) end
end

main()
