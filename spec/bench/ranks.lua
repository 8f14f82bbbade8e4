-- ranks.lua - measures collectives and a DDP step on two ranks, and compares the times with those of PyTorch's gloo:
--
--    ./tlua spec/bench/ranks.lua [--python FILE] [--rounds 3]
--
-- Both programs take turns, each with one thread per rank; a row's time is the smallest of the
-- rounds' medians, in microseconds on rank 0. `ratio` is PyTorch's time divided by ours.

local torch = require "tlua"

local here = arg[0]:match "^(.*)/" or "."

-- Measures the median duration of n calls in seconds. Each rank runs `before`, and then all ranks begin the call
-- together. With `work`, also measures the processor time of all threads of the rank, and prints it as the row
-- NAME_cpu.
local function time(name, n, fn, dist, before, work)
   local seconds, computed = {}, {}
   for i = -2, n do
      if before then before() end
      dist.barrier()
      local start, busy = torch.io.clock(), os.clock()
      fn()
      if i > 0 then seconds[i], computed[i] = torch.io.clock() - start, os.clock() - busy end
   end
   if dist.get_rank() ~= 0 then return end
   local function print_median(row, list)
      table.sort(list)
      print(("row %s %.9f"):format(row, list[n // 2 + 1]))
   end
   print_median(name, seconds)
   if work then print_median(name .. "_cpu", computed) end
end

local function measure()
   local nn, dist = torch.nn, torch.distributed
   torch.set_num_threads(1)
   dist.init_process_group()
   for _, row in ipairs {{"all_reduce_4KB", 1 << 10, 400}, {"all_reduce_1MB", 1 << 18, 60},
      {"all_reduce_64MB", 1 << 24, 7}} do
      local t = torch.ones(row[2])
      time(row[1], row[3], function() dist.all_reduce(t, "max") end, dist)
      t:fill_(0)
      time(row[1] .. "_sum", row[3], function() dist.all_reduce(t) end, dist)
   end
   local images, classes = torch.rand(32, 1, 8, 8), torch.randint(1, 11, {32})
   local model = nn.parallel.DistributedDataParallel(nn.Sequential(
      nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(32, 64, 3, {padding = 1}), nn.ReLU(),
      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10)))
   local adam = torch.optim.Adam(model:parameters(), {lr = 1e-3})
   local criterion = nn.CrossEntropyLoss()
   time("ddp_step_digits", 60, function()
      adam:zero_grad()
      criterion(model(images), classes):backward()
      adam:step()
   end, dist)
   -- A GPT of four layers. Its backward pass and the exchange of gradients are measured separately and together.
   local gpt = nn.Sequential(nn.Embedding(256, 128), nn.TransformerEncoder(
      nn.TransformerEncoderLayer(128, 4, 512, {dropout = 0, activation = "gelu", batch_first = true}),
      4), nn.Linear(128, 256))
   local tokens, following = torch.randint(1, 257, {4, 64}), torch.randint(1, 257, {4 * 64})
   local function loss(net) return criterion(net(tokens):view(-1, 256), following) end
   local ddp = nn.parallel.DistributedDataParallel(gpt)
   local adamw = torch.optim.AdamW(gpt:parameters(), {lr = 1e-3})
   time("ddp_step_gpt", 20, function()
      adamw:zero_grad()
      loss(ddp):backward()
      adamw:step()
   end, dist)
   local value
   local function backward() value:backward() end
   local function before(net) return function() value = loss(net) end end
   local scope = ddp:no_sync()
   -- removes the buffers from the processor's caches, as a training pass does
   time("gpt_exchange", 20, function()
      for _, bucket in ipairs(ddp.buckets) do dist.all_reduce(bucket:buffer(), "avg") end
   end, dist, function() loss(ddp):backward() end, true)
   time("gpt_backward", 20, backward, dist, before(ddp), true)
   getmetatable(scope).__close()
   time("gpt_backward_ddp", 20, backward, dist, before(ddp), true)
   dist.destroy_process_group()
end

if os.getenv "TLUA_STORE" then return measure() end

-- The driver ---------------------------------------------------------------------------------

local parser = torch.utils.options("ranks.lua", "Times collectives, with PyTorch's times beside.")
parser:option("--python", "a Python that may have torch", "python3")
parser:option("--rounds", "how often each is run", 3)
local options = parser:parse()

local names, least = {}, {}

local function collect(command, column)
   local pipe = assert(io.popen(command .. " 2>&1"))
   local text = pipe:read "a"
   pipe:close()
   for name, seconds in text:gmatch "row (%S+) (%S+)" do
      if not least[name] then
         least[name] = {}
         names[#names + 1] = name
      end
      least[name][column] = math.min(least[name][column] or math.huge, tonumber(seconds))
   end
   return text
end

local tlua = arg[-1] or "tlua"
for _ = 1, options.rounds do
   local text = collect(("%s run -n 2 %s/ranks.lua"):format(tlua, here), 1)
   if not least[names[1]] then error(text) end
   collect(("%s %s/ranks.py"):format(options.python, here), 2)
   local start = torch.io.clock()
   local eight = ("%s run -n 8 %s/ranks_start.lua"):format(tlua, here)
   assert(os.execute(eight))
   least.start_of_8 = {math.min(torch.io.clock() - start, (least.start_of_8 or {math.huge})[1])}
end
names[#names + 1] = "start_of_8"
print(("%-22s %12s %12s %7s"):format("row", "tlua us", "gloo us", "ratio"))
for _, name in ipairs(names) do
   local ours, theirs = least[name][1], least[name][2]
   print(("%-22s %12.1f %12s %7s"):format(name, ours * 1e6, theirs and ("%.1f"):format(theirs * 1e6)
      or "-", theirs and ("%.2f"):format(theirs / ours) or "-"))
end
local apart = math.max(least.gpt_backward[1], least.gpt_exchange[1])
print(("a backward pass with its exchange costs %.2f of the larger of the two"):format(
   least.gpt_backward_ddp[1] / apart))
-- If the ranks' own threads use all processors, exchanging the gradients slows the backward pass down.
local alone = least.gpt_backward_cpu[1]
print(("processor time: %.2f of a backward pass alone; the exchange's %.2f make it at least %.2f"):format(
   least.gpt_backward_ddp_cpu[1] / alone, least.gpt_exchange_cpu[1] / alone,
   1 + least.gpt_exchange_cpu[1] / alone))
