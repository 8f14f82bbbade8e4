-- Measures a training step of a two-layer model on 10^5 nodes and 10^6 edges:
--
--    tlua rocks/graphs/spec/bench.lua gcn|sage|gat [steps]
--
-- Uses one thread, and prints the median milliseconds of processor time of a step, and the growth of resident memory up
-- to its peak in megabytes. bench.py measures PyTorch Geometric in the same way.

local torch = require "tlua"
local graphs = torch.graphs

torch.set_num_threads(1)
torch.manual_seed(1)

local kind, steps = arg[1] or "gcn", tonumber(arg[2]) or 10
local nodes <const>, edges <const>, width <const>, classes <const> = 100000, 1000000, 64, 16

local edge_index = torch.randint(1, nodes + 1, {2, edges})
local x, y = torch.randn(nodes, width), torch.randint(1, classes + 1, {nodes})
local Model = ({gcn = graphs.nn.GCN, sage = graphs.nn.GraphSAGE, gat = graphs.nn.GAT})[kind]
local model = Model(width, width, 2, classes)
local optimizer = torch.optim.Adam(model:parameters(), {lr = 0.01})

-- Returns a figure of this process from /proc/self/status, such as the resident memory, in megabytes.
local function status(name)
   for line in io.lines "/proc/self/status" do
      local value = line:match("^" .. name .. ":%s*(%d+)")
      if value then return tonumber(value) / 1024 end
   end
end

local function step()
   optimizer:zero_grad()
   local loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
   loss:backward()
   optimizer:step()
   return loss:item()
end

local file <close> = assert(io.open("/proc/self/clear_refs", "w"))
file:write "5"
file:flush()
local before = status "VmRSS"
local begin = os.clock()
step()
local first = os.clock() - begin
local times = {}
for i = 1, steps do
   begin = os.clock()
   step()
   times[i] = os.clock() - begin
end
table.sort(times)
print(("%s: %.0f ms a step, the first %.0f ms; %.0f MB"):format(kind, 1e3 * times[(steps + 1) // 2], 1e3 * first,
   status "VmHWM" - before))
