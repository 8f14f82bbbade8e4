-- system.lua - measures the machine and the process, with W&B's names for the values: processor
-- load, memory, threads, and the memory of tensors on GPUs. Without /proc, only the GPUs are
-- measured.

local torch = require "tlua"
local read_file = require "tlua.utils.read_file"

local M = {}

local function read(path) return read_file(path) or "" end

-- Returns the busy time and the total time of all processors since boot.
local function times()
   local busy, total, i = 0, 0, 0
   for word in (read "/proc/stat":match "^cpu +([^\n]+)" or ""):gmatch "%d+" do
      i = i + 1
      total = total + tonumber(word)
      -- Field 4 is the idle time, and field 5 is the time of waiting for I/O. All other fields
      -- count as busy time.
      if i ~= 4 and i ~= 5 then busy = busy + tonumber(word) end
   end
   return busy, total
end

--- Returns a function that measures values and returns them by name. Its value `cpu` is the load in
--- percent since the function's previous call.
---@return fun(): table<string, number>
function M.sampler()
   local busy, total = times()
   return function()
      local figures = {}
      local now_busy, now_total = times()
      if now_total > total then
         figures.cpu = 100 * (now_busy - busy) / (now_total - total)
      end
      busy, total = now_busy, now_total
      local memory, status = read "/proc/meminfo", read "/proc/self/status"
      local all = tonumber(memory:match "MemTotal: +(%d+)")
      local free = tonumber(memory:match "MemAvailable: +(%d+)")
      local own = tonumber(status:match "VmRSS:%s+(%d+)")
      if all and free then
         figures.memory_percent = 100 * (all - free) / all
         figures["proc.memory.availableMB"] = free / 1024
      end
      if own then
         figures["proc.memory.rssMB"] = own / 1024
         if all then figures["proc.memory.percent"] = 100 * own / all end
      end
      figures["proc.cpu.threads"] = tonumber(status:match "Threads:%s+(%d+)")
      if torch.cuda.is_available() then
         for i = 0, torch.cuda.device_count() - 1 do
            figures[("gpu.%d.memoryAllocatedBytes"):format(i)] = torch.cuda.memory_allocated(i)
         end
      end
      return figures
   end
end

return M
