-- Shows the memory that a forward and a backward pass use, step by step, as a table:
--
--    tlua examples/memory.lua
--    tlua examples/memory.lua --device sim
--    tlua examples/memory.lua --device cuda --size 20000
local torch = require "tlua"

local parser = torch.utils.options("memory.lua", "Shows what tensors take, step by step.")
parser:option("--size", "rows and columns of the matrices", 5000)
parser:option("--device", "where to compute: cpu, cuda, cuda:1, sim", "cpu")
local opt = parser:parse()

-- What is measured -----------------------------------------------------------------------------

local kind = opt.device:match "^%a+"
-- the module of the device, torch.cuda or torch.sim; false for the CPU
local device = kind ~= "cpu" and torch[kind]

-- Returns the bytes used by tensors, their maximum since the last call, and the cached bytes.
local function measure()
   if not device then
      local stats = torch.memory_stats()
      return stats.used, nil, stats.used + stats.cached
   end
   local now, most = device.memory_allocated(opt.device), device.max_memory_allocated(opt.device)
   device.reset_peak_memory_stats(opt.device)
   return now, most, device.memory_reserved(opt.device)
end

local before = measure()

local function gigabytes(bytes)
   return bytes and ("%8.2f GB"):format(bytes / 1e9) or "          -"
end

local function row(step)
   local now, most, reserved = measure()
   print(("%-34s%s%s%s"):format(step, gigabytes(now - before),
      gigabytes(most and most - before), gigabytes(reserved)))
end

-- The steps ------------------------------------------------------------------------------------

print(("float32 matrices of %d x %d on %s: %s each"):format(
   opt.size, opt.size, opt.device, gigabytes(4 * opt.size ^ 2):match "%S.*"))
print(("%-34s%11s%11s%11s"):format("", "now", "at most", "reserved"))

local x = torch.randn(opt.size, opt.size, {device = opt.device})
local w = torch.randn(opt.size, opt.size, {device = opt.device, requires_grad = true})
row "x and w"

-- When the scope ends, it releases the tensors made inside, except the returned ones, without
-- waiting for the garbage collector.
local loss = torch.scope(function()
   local h = x:matmul(w)
   local y = h:relu()
   row "h = x:matmul(w), y = h:relu()"
   return y:sum()
end)
row "the loss, whose graph has kept y"

loss:backward()
row "after backward: x, w and w.grad"
