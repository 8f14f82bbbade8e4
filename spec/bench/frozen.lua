-- frozen.lua - measures how much the duration of calls of torch.freeze's functions varies. Prints the median, the 99th
-- and the 99.9th percentile and the longest of a million calls, in microseconds, and the ratio of the 99.9th percentile
-- to the median. Run it on a core of its own, because calls take long if the system runs another process in the middle:
--
--    taskset -c 1 chrt -f 50 build/tlua spec/bench/frozen.lua [CALLS]

local torch = require "tlua"

local here = arg[0]:match "^(.*)/" or "."
local calls = math.tointeger(arg[1] or 1000000)

torch.set_num_threads(1)
torch.manual_seed(1)

-- A loop that takes about 10 microseconds.
local function loop()
   local sum = 0
   for i = 1, 3000 do sum = sum + i end
   return sum
end
local rows = dofile(here .. "/../embed/freeze.lua")
table.insert(rows, 1, {"a loop without tlua", function() return loop end})

local clock = torch.io.clock
local times = {}
for i = 1, calls do times[i] = 0.0 end

print(("%-46s %8s %8s %8s %8s %6s"):format("microseconds", "median", "99 %", "99.9 %", "longest", "ratio"))
for _, row in ipairs(rows) do
   local call = row[2]()
   for _ = 1, 1000 do call() end
   collectgarbage()
   for i = 1, calls do
      local start = clock()
      call()
      times[i] = clock() - start
   end
   table.sort(times)
   local function at(part) return 1e6 * times[math.ceil(part * calls)] end
   local median, late = at(0.5), at(0.999)
   print(("%-46s %8.1f %8.1f %8.1f %8.1f %6.2f"):format(row[1], median, at(0.99), late, at(1), late / median))
end
