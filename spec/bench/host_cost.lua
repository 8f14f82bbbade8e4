-- host_cost.lua - measures the time that the host needs to call an operator on a GPU. No GPU is needed, because the
-- emulated driver skips kernels (TLUA_EMULATED_IDLE). `make host-cost` runs this program, which fails if a call costs
-- more than the limit. The measurement does not include the real driver's time for a launch.

local torch = require "tlua"

local limit <const> = 1.5 -- microseconds
local calls <const>, rounds <const> = 20000, 7

torch.set_default_device("cuda")
local a, b, x = torch.ones(8, 8), torch.ones(8, 8), torch.ones(32, 64)

local rows = {
   {"a + b", function() for _ = 1, calls do local _ = a + b end end},
   {"a:add_(b)", function() for _ = 1, calls do a:add_(b) end end},
   {"a:exp()", function() for _ = 1, calls do local _ = a:exp() end end},
   {"a:sum(2)", function() for _ = 1, calls do local _ = a:sum(2) end end},
   {"x:softmax(2)", function() for _ = 1, calls do local _ = x:softmax(2) end end},
   {"x:t():contiguous()", function() for _ = 1, calls do local _ = x:t():contiguous() end end},
}

local above = 0
print(("%-20s %s"):format("", "us a call, the least of " .. rounds))
for _, row in ipairs(rows) do
   local least = math.huge
   for _ = 1, rounds do
      local start = torch.io.clock()
      row[2]()
      least = math.min(least, (torch.io.clock() - start) / calls * 1e6)
   end
   if least > limit then above = above + 1 end
   print(("%-20s %.2f%s"):format(row[1], least, least > limit and "  <" or ""))
end
os.exit(above == 0)
