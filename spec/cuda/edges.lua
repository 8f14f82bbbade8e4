-- edges.lua BITS - tests three limits of a GPU: a tensor of more than 2^BITS elements, an allocation that is too large,
-- and a captured collective in an NCCL process group of one rank. Prints a line for each test.

local torch = require "tlua"
local device = require "spec.support.device"
local cuda = torch.cuda
local bits <const> = tonumber(arg[1] or 31)
local on <const> = {device = "cuda"}

local function say(name, ...) print(name .. ":", ...) io.stdout:flush() end

-- Tests a tensor with more elements than an index of 32 bits can count. If an index wraps around, the values at the end
-- of the tensor are wrong.
do
   local n <const> = (1 << bits) + 77
   local x = torch.zeros(n, {device = "cuda", dtype = torch.int8})
   x:narrow(1, n - 9, 10):fill_(3)
   local y = x + 1
   assert(y:narrow(1, n - 9, 10):sum():item() == 40, "the last elements are wrong")
   assert(x:sum():item() == 30, "the sum is wrong")
   assert(y[1]:item() == 1 and y:amax():item() == 4, "the first element or the maximum is wrong")
   assert(x:nonzero():select(-1, 1)[1]:item() == n - 9, "the position of a large index is wrong")
   x:release()
   y:release()
   say("elements", n)
end

-- Tests an allocation that is too large. It raises an error, and afterwards the device must work as before.
do
   cuda.empty_cache()
   local _, total = cuda.mem_get_info()
   local ok, message = pcall(torch.empty, total, on)
   assert(not ok and tostring(message):find("out of memory", 1, true), message)
   local kept, count = {}, 0
   ok, message = pcall(function()
      while true do
         kept[#kept + 1] = torch.empty(total // 16, {device = "cuda", dtype = torch.uint8})
         count = count + 1
      end
   end)
   assert(not ok and tostring(message):find("out of memory", 1, true), message)
   assert(count >= 10, "memory ended after " .. count .. " of 16 parts")
   for _, x in ipairs(kept) do x:release() end
   cuda.empty_cache()
   assert(torch.ones(1 << 20, on):sum():item() == 1 << 20)
   say("out of memory", count .. " of 16 parts fitted, and the device works after it")
end

-- This test needs NCCL, NVIDIA's library, and so the driver of a real GPU.
if device.is_emulated() then
   say("nccl", "left out on an emulated GPU")
elseif torch.distributed.is_nccl_available() then
   torch.distributed.init_process_group {
      backend = "nccl", rank = 0, world_size = 1, init_method = "tcp://127.0.0.1:29517",
   }
   local x, g = torch.ones(1000, on), cuda.Graph()
   torch.distributed.all_reduce(x)
   local y = cuda.graph(g, function()
      local z = x * 2
      torch.distributed.all_reduce(z)
      return z:sum()
   end)
   g:replay()
   assert(y:item() == 2000, "a captured all_reduce is wrong")
   torch.distributed.destroy_process_group()
   say("nccl", "one rank, captured")
else
   say("nccl", "not available")
end
