-- common.lua - defines functions that are called by the programs in common_spec.lua.

raw = dist.group.WORLD.raw
n = 100003

function common(count, dtype) return raw:common(torch.zeros(1, {dtype = dtype}), count or n) end

function random(dtype)
   torch.manual_seed(rank + 1)
   local t = torch.randn(n) * 50
   return dtype and t:to(dtype) or t
end

function mappings()
   local count = 0
   for line in io.lines "/proc/self/maps" do
      if line:find("/memfd:tlua", 1, true) then count = count + 1 end
   end
   return count
end

function slots()
   local size, most, resident = 0, 0, 0
   for line in io.lines "/proc/self/smaps" do
      if line:match "^%x+%-%x+ " then
         local from, to = line:match "^(%x+)%-(%x+) .*/memfd:tlua"
         size = from and tonumber(to, 16) - tonumber(from, 16) or 0
      elseif line:find "^Rss:" and size > most then
         most, resident = size, tonumber(line:match "%d+")
      end
   end
   return resident
end

function files()
   local pipe = io.popen("ls -l /proc/$PPID/fd | grep -c /memfd:tlua")
   local count = pipe:read "n"
   pipe:close()
   return count
end
