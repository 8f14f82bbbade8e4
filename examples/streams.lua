-- Copies data to the device while the device computes. The program does the same work on one stream
-- and on two streams, and times both by events:
--
--    tlua examples/streams.lua
--    tlua examples/streams.lua --device cuda --size 4096 --parts 32
--
-- A GPU copies and computes at once, so with two streams the work takes as long as the copies or
-- the computations, whichever take longer. The simulated device runs queued work one item at a
-- time, in an order that TLUA_SIM_SEED determines. On this device both ways take equally long, and
-- a missing event leads to a wrong sum.
local torch = require "tlua"

local parser = torch.utils.options("streams.lua", "Copies to the device while it computes.")
parser:option("--device", "sim, cuda or cuda:1", "sim")
parser:option("--parts", "of the data, copied one by one", 8)
parser:option("--size", "rows and columns of a part", 256)
parser:option("--steps", "products that are computed of a part", 4)
local opt = parser:parse()

local kind = opt.device:match "^%a+"
if kind ~= "sim" and kind ~= "cuda" then
   error("--device: expected sim or cuda, got " .. opt.device, 0)
end
local device = torch[kind]
local _ <close> = device.device(opt.device)
local size = {opt.size, opt.size}

-- The host's part of the data is in pinned memory, which the device can copy while the host does
-- other work.
torch.manual_seed(1)
local parts = {}
for i = 1, opt.parts do parts[i] = torch.rand(size):pin_memory(kind) end
local weight = torch.rand(size):mul_(2 / opt.size):to(opt.device)

local function compute(x)
   for _ = 1, opt.steps do x = x:matmul(weight) end
   return x:sum()
end

-- Both ways ------------------------------------------------------------------------------------

local function on_one_stream()
   local total = torch.zeros(1, {device = opt.device})
   for _, part in ipairs(parts) do total:add_(compute(part:to(opt.device, nil, true))) end
   return total
end

-- There are two buffers: the device computes with one while the other is filled. A buffer may be
-- read after its event in `filled`, and overwritten after its event in `used`.
local copies = device.Stream()

local function on_two_streams()
   local total = torch.zeros(1, {device = opt.device})
   local main = device.current_stream()
   copies:wait_stream(main)
   local buffers, filled, used = {}, {}, {}
   for b = 1, 2 do
      buffers[b] = torch.empty(size, {device = opt.device})
      filled[b], used[b] = device.Event(), device.Event()
      used[b]:record()
   end
   for i, part in ipairs(parts) do
      local b = i % 2 + 1
      device.stream(copies, function()
         copies:wait_event(used[b])
         buffers[b]:copy_(part, true)
         filled[b]:record()
      end)
      main:wait_event(filled[b])
      total:add_(compute(buffers[b]))
      used[b]:record()
   end
   return total
end

-- Calls fn, which queues work and returns a sum. Returns the milliseconds that the device needs for
-- the work, and the sum.
local function timed(fn)
   local first = device.Event {enable_timing = true}
   local last = device.Event {enable_timing = true}
   first:record()
   local total = fn()
   last:record()
   last:synchronize()
   return first:elapsed_time(last), total:item()
end

-- the first run is a warm-up: it allocates buffers, makes plans, and lets the clock rates rise
for _, fn in ipairs {on_one_stream, on_two_streams} do timed(fn) end
local one, expected = timed(on_one_stream)
local two, sum = timed(on_two_streams)
assert(sum == expected, ("the sums differ: %g and %g"):format(expected, sum))

print(("%d parts of %d x %d, %d products each, on %s"):format(
   opt.parts, opt.size, opt.size, opt.steps, device.get_device_name()))
print(("one stream    %8.2f ms"):format(one))
print(("two streams   %8.2f ms   %.2f times as fast"):format(two, one / two))
print(("sum           %8.6g, the same both ways"):format(sum))
