-- Tests the back end "nccl" on emulated GPUs. A replacement for NCCL (spec/cuda/nccl) logs the calls and passes the
-- data between processes. `make emulated` builds the emulator and the replacement.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

local plugins = os.getenv "TLUA_PLUGINS"
local there = plugins and io.open(plugins .. "/libnccl.so.2")
if there then there:close() end

-- The beginning of each program. Its function `called` checks which NCCL calls were made since `called` last ran.
local head = [[
torch.cuda.set_device(tonumber(os.getenv "LOCAL_RANK"))
function notes()
   local list = {}
   for line in io.lines(("%s/log.%d"):format(os.getenv "TLUA_NCCL_FOLDER", dist.get_rank())) do
      list[#list + 1] = line
   end
   return list
end
local same = check
function check(expected, actual, ...)
   local function plain(x)
      if torch.is_tensor(x) then x = x:tolist() end
      if type(x) == "number" then return math.tointeger(x) or x end
      if type(x) ~= "table" then return x end
      local list = {}
      for i, y in ipairs(x) do list[i] = plain(y) end
      return list
   end
   same(plain(expected), plain(actual), ...)
end
local seen = 0
function called(...)
   local list, expected = notes(), {...}
   check(expected, table.move(list, seen + 1, #list, 1, {}), "calls")
   seen = #list
end
local function gpu(data, options)
   return torch.tensor(data, {device = "cuda", dtype = options and options.dtype or "float32"})
end
]]
local join = [[
dist.init_process_group {backend = "nccl", timeout = %g}
local rank, size = dist.get_rank(), dist.get_world_size()
called(("Init %%d of %%d, blocking 0"):format(rank, size))
]]

-- Runs code on n ranks that have joined a process group. Options: alone (the ranks do not join), env (settings), fails
-- (the program may fail).
local function on(n, code, options)
   options = options or {}
   return shell.with_folder(function(folder)
      local env = ("TLUA_EMULATED_DEVICES=4 TLUA_EMULATED_LAZY=1 LD_LIBRARY_PATH=%s TLUA_NCCL_FOLDER=%s %s"):format(
         shell.quote(plugins), shell.quote(folder), options.env or "")
      local begin = options.alone and "" or join:format(120)
      local output, status = ranks.run(n, ((head .. begin):gsub("\n", " ")) .. code, {alone = true, env = env})
      if not options.fails and status ~= 0 then error(("status %d\n%s"):format(status, output), 2) end
      return output, status
   end)
end

local function by(what, fn)
   it(what, function()
      if not there then return pending "only with make emulated" end
      fn()
   end)
end

describe("groups by nccl", function()
   by("run each collective by NCCL's own call, on a separate stream", function()
      on(2, [[
         local t = gpu {1, 2, 3} * (rank + 1)
         dist.all_reduce(t)
         check({3, 6, 9}, t)
         called "AllReduce 3 float32 sum in place on stream 1"
         dist.all_reduce(t, "avg")
         check({3, 6, 9}, t)
         called "AllReduce 3 float32 avg in place on stream 1"
         t = gpu({rank, 5}, {dtype = "bfloat16"})
         dist.all_reduce(t, "max")
         check({1, 5}, t)
         called "AllReduce 2 bfloat16 max in place on stream 1"
         t = gpu({rank == 0, false}, {dtype = "bool"})
         dist.all_reduce(t)
         check({true, false}, t)
         called "AllReduce 2 uint8 max in place on stream 1"
         t = gpu {rank, 7}
         dist.broadcast(t, 1)
         check({1, 7}, t)
         called "Broadcast 8 uint8 1 in place on stream 1"
         dist.reduce(t, 1, "product")
         check(rank == 1 and {1, 49} or {1, 7}, t)
         called "Reduce 2 float32 prod 1 in place on stream 1"
         local whole = torch.zeros({4}, {device = "cuda"})
         dist.all_gather_into_tensor(whole, gpu {rank, rank + 10})
         check({0, 10, 1, 11}, whole)
         called "AllGather 8 uint8 on stream 1"
         local out = torch.zeros({2}, {device = "cuda"})
         dist.reduce_scatter_tensor(out, gpu {1, 2, 3, 4})
         check(rank == 0 and {2, 4} or {6, 8}, out)
         called "ReduceScatter 2 float32 sum on stream 1"
      ]])
   end)

   by("run collectives that NCCL lacks by several calls in one NCCL group", function()
      on(2, [[
         local list = {torch.zeros({1}, {device = "cuda"}), torch.zeros({3}, {device = "cuda"})}
         dist.all_gather(list, torch.ones({2 * rank + 1}, {device = "cuda"}) * (rank + 1))
         check({1}, list[1])
         check({2, 2, 2}, list[2])
         -- each rank sends from its input, and receives in place
         local own = rank == 0 and {"", " in place"} or {" in place", ""}
         called(("Broadcast 4 uint8 0%s on stream 1"):format(own[1]),
            ("Broadcast 12 uint8 1%s on stream 1"):format(own[2]), "Group of 2")
         local out = torch.zeros({2}, {device = "cuda"})
         dist.reduce_scatter(out, {gpu {1, 2}, gpu {3, 4}})
         check(rank == 0 and {2, 4} or {6, 8}, out)
         called(("Reduce 2 float32 sum 0%s on stream 1"):format(rank == 1 and " in place" or ""),
            ("Reduce 2 float32 sum 1%s on stream 1"):format(rank == 0 and " in place" or ""), "Group of 2")
         out = torch.zeros({2}, {device = "cuda"})
         dist.all_to_all_single(out, gpu {rank, rank + 10})
         check(rank == 0 and {0, 1} or {10, 11}, out)
         called("Send 4 uint8 0 on stream 1", "Recv 4 uint8 0 on stream 1", "Send 4 uint8 1 on stream 1",
            "Recv 4 uint8 1 on stream 1", "Group of 4")
         local parts = rank == 0 and {torch.zeros({1}, {device = "cuda"}), torch.zeros({1}, {device = "cuda"})}
         dist.gather(gpu {rank + 5}, parts or nil, 0)
         if rank == 0 then
            check({5}, parts[1])
            check({6}, parts[2])
            called("Send 4 uint8 0 on stream 1", "Recv 4 uint8 0 on stream 1", "Recv 4 uint8 1 on stream 1",
               "Group of 3")
         else
            called "Send 4 uint8 0 on stream 1"
         end
         local one = torch.zeros({1}, {device = "cuda"})
         dist.scatter(one, rank == 1 and {gpu {8}, gpu {9}} or nil, 1)
         check({8 + rank}, one)
      ]])
   end)

   by("send messages in both directions in one NCCL group", function()
      on(2, [[
         local t = torch.zeros({2}, {device = "cuda"})
         if rank == 0 then dist.send(gpu {1, 2}, 1) else dist.recv(t, 0) check({1, 2}, t) end
         called(rank == 0 and "Send 8 uint8 1 on stream 1" or "Recv 8 uint8 0 on stream 1")
         local other = 1 - rank
         local works = dist.batch_isend_irecv {dist.P2POp(dist.isend, gpu {rank, 3}, other),
            dist.P2POp(dist.irecv, t, other)}
         for _, work in ipairs(works) do work:wait() end
         check({other, 3}, t)
         called(("Send 8 uint8 %d on stream 1"):format(other), ("Recv 8 uint8 %d on stream 1"):format(other),
            "Group of 2")
         refused("recv: src: nccl receives from no rank but a named one", dist.recv, t)
      ]])
   end)

   by("keep the order of streams before and after a call", function()
      on(2, [[
         local t = torch.zeros({1000}, {device = "cuda"})
         for i = 1, 20 do
            t:fill_(i)
            local work = dist.all_reduce(t, {async_op = true})
            local busy = torch.ones({1000}, {device = "cuda"}) * i -- meanwhile
            work:wait()
            local twice = t + busy
            check(3 * i, twice[1000]:item())
         end
         local s = torch.cuda.Stream()
         local u = torch.ones({10}, {device = "cuda"})
         local work = dist.all_reduce(u, {async_op = true})
         torch.cuda.stream(s, function()
            work:wait()
            check(20, u:sum():item())
         end)
         work:wait()
         check(true, work:is_completed() or work:wait(5))
         check(true, work:is_success())
      ]])
   end)

   by("send CPU tensors and plain values through the device", function()
      on(2, [[
         local t = torch.tensor({rank, 2}, {dtype = "int64", device = "cpu"})
         dist.all_reduce(t)
         check({1, 4}, t)
         check("cpu", t.device)
         local list = {}
         dist.all_gather_object(list, {name = "rank " .. rank})
         check("rank 1", list[2].name)
         local column = torch.zeros({2, 2}, {device = "cuda"})
         column:select(2, 1):fill_(rank + 1)
         dist.all_reduce(column:select(2, 1)) -- strided
         check({{3, 0}, {3, 0}}, column)
      ]])
   end)

   by("wait at a barrier, and end in an orderly way", function()
      local output = on(2, [[
         dist.barrier()
         called "AllReduce 1 float32 sum in place on stream 1"
         local last = torch.ones({4}, {device = "cuda"})
         dist.all_reduce(last) -- the program destroys the group without waiting for this call first
         local file = ("%s/log.%d"):format(os.getenv "TLUA_NCCL_FOLDER", rank)
         dist.destroy_process_group()
         check({2, 2, 2, 2}, last)
         local text = io.open(file):read "a"
         check(true, text:find("Finalize\nDestroy\n$") ~= nil, text)
         check(nil, text:find "WRONG" or text:find "Abort")
         print "ended"
      ]])
      assert.equal(2, select(2, output:gsub("ended", "")), output)
   end)

   by("train: gradients are those of one process, buckets are registered, groups are of some ranks", function()
      on(2, [[
         torch.manual_seed(1)
         local model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)):to "cuda"
         local x = torch.randn({8, 4}, {device = "cpu"}):to "cuda"
         model(x):pow(2):mean():backward()
         local expected = {}
         for i, p in ipairs(model:parameters()) do
            expected[i] = p.grad:clone()
            p.grad = nil
         end
         local ddp = torch.nn.parallel.DistributedDataParallel(model)
         for _ = 1, 3 do
            for _, p in ipairs(model:parameters()) do p.grad = nil end
            ddp(x:narrow(1, 4 * rank + 1, 4)):pow(2):mean():backward()
            for i, p in ipairs(model:parameters()) do
               check(true, (p.grad - expected[i]):abs():max():item() < 1e-6, "gradient " .. i)
            end
         end
         local text = table.concat(notes(), "\n")
         check(true, text:find "Register %d+" ~= nil)
         check(nil, text:find "WRONG")
         local alone = dist.new_group({rank == 0 and 0 or 0})
         if rank == 0 then
            local t = gpu {5}
            dist.all_reduce(t, {group = alone})
            check({5}, t)
         end
         dist.barrier()
      ]])
   end)

   -- If two ranks both send first, they wait forever, because a send ends only when the other rank receives.
   by("run pipelines with one NCCL group for all simultaneous messages of a stage", function()
      for _, case in ipairs {{2, "ScheduleGPipe", 1}, {3, "Schedule1F1B", 1}, {2, "ScheduleInterleaved1F1B", 2},
         {4, "Schedule1F1B", 1}, {3, "ScheduleInterleavedZeroBubble", 1}, {2, "ScheduleInterleavedZeroBubble", 2}} do
         local n, kind, here = table.unpack(case)
         on(n, ("local kind, here = %q, %d\n"):format(kind, here) .. [[
            local nn, pipe = torch.nn, dist.pipelining
            local stages, whole = {}, nn.Sequential()
            torch.manual_seed(1)
            for _ = 1, here * size do whole:add(nn.Sequential(nn.Linear(4, 4), nn.Tanh())) end
            local x, y = torch.randn(8, 4), torch.randn(8, 4)
            nn.functional.mse_loss(whole(x), y):backward()
            local model = nn.Sequential()
            torch.manual_seed(1)
            for _ = 1, here * size do model:add(nn.Sequential(nn.Linear(4, 4), nn.Tanh())) end
            model:to "cuda"
            for i = 1, here do
               local at = rank + (i - 1) * size
               stages[i] = pipe.PipelineStage(model[at + 1], at, here * size)
            end
            local list = kind:find "Interleaved" and stages or stages[1]
            local schedule = pipe[kind](list, size * 2, {loss_fn = nn.functional.mse_loss})
            x, y = torch.cat {x, x}, torch.cat {y, y}
            if size == 3 then x, y = x:narrow(1, 1, 12), y:narrow(1, 1, 12) end
            schedule.loss_fn = function(out, target) return nn.functional.mse_loss(out, target) end
            local o = {target = rank == size - 1 and y:to "cuda" or nil}
            if rank == 0 then schedule:step(x:to "cuda", o) else schedule:step(o) end
            for _, stage in ipairs(stages) do
               for i, p in ipairs(stage.submodule:parameters()) do
                  local expected = whole[stage.stage_index + 1]:parameters()[i].grad
                  if size ~= 3 then check(true, (p.grad:cpu() - expected):abs():max():item() < 1e-6) end
               end
            end
            local text, both = table.concat(notes(), "\n"), 0
            for bracket in text:gmatch "(%C+\n%C+)\nGroup of 2" do
               if bracket:find "Send" and bracket:find "Recv" then both = both + 1 end
            end
            check(true, kind == "ScheduleGPipe" or both > 0, text)
            check(nil, text:find "WRONG")
         ]])
      end
   end)

   by("report a failed stage on all ranks", function()
      local output = on(3, [[
         local nn, pipe = torch.nn, dist.pipelining
         local Worse = torch.class("Worse", nn.Module)
         local n = 0
         function Worse:forward(t)
            n = n + 1
            if n == 2 then error("on purpose", 0) end
            return t * nn.Parameter(torch.ones({4}, {device = "cuda"}))
         end
         local stage = pipe.PipelineStage(rank == 1 and Worse() or nn.Linear(4, 4):to "cuda", rank, size,
            {device = "cuda"})
         local schedule = pipe.Schedule1F1B(stage, 4, {loss_fn = nn.functional.mse_loss})
         local x = torch.ones({8, 4}, {device = "cuda"})
         refused("on purpose", function()
            if rank == 0 then schedule:step(x) else schedule:step {target = rank == 2 and x or nil} end
            torch.cuda.synchronize() -- until now, the program has not waited for work on the stream
         end)
         refused("on purpose", function()
            dist.barrier()
            torch.cuda.synchronize()
         end)
         told()
      ]], {fails = true})
      assert.equal(3, select(2, output:gsub("told", "")), output)
   end)

   by("end a call at its timeout on all ranks; the next wait names the missing ranks", function()
      local output = on(3, [[
         local t, store = torch.ones({4}, {device = "cuda"}), dist.group.WORLD.store
         local group = dist.new_group(nil, {timeout = 3})
         dist.barrier() -- after this barrier all ranks have started
         dist.all_reduce(t, {group = group})
         if rank == 2 then
            store:wait {"late0", "late1"}
            refused("did not arrive within 3 s", function()
               for _ = 1, 2 do -- the first rank may still find the files of the other ranks
                  dist.all_reduce(t, {group = group})
                  t:sum():item()
               end
            end)
         else
            local work = dist.all_reduce(t, {group = group, async_op = true})
            work:wait() -- on a GPU, wait() makes only the stream wait, not the host
            refused("all_reduce: rank 2 did not arrive within 3 s; rank 0 waits in all_reduce number 2 " ..
               "of float32 [4] at ", function() return t:sum():item() end)
            check(true, work:exception():find("rank 2 did not arrive", 1, true) ~= nil)
            refused("rank 2 did not arrive", function() dist.barrier {group = group} end)
            local list = notes()
            check("Abort", list[#list])
            store:set("late" .. rank, "")
         end
         told()
      ]])
      assert.equal(3, select(2, output:gsub("told", "")), output)
   end)

   by("detect different calls with TLUA_DISTRIBUTED_DEBUG=detail", function()
      local output = on(2, [[
         local t = torch.ones({2}, {device = "cuda"})
         for _ = 1, 4 do dist.all_reduce(t) end
         refused("ranks make different calls: rank ", function()
            if rank == 0 then dist.all_reduce(t) else dist.broadcast(t, 0) end
            dist.barrier()
         end)
         told()
      ]], {env = "TLUA_DISTRIBUTED_DEBUG=detail"})
      assert.equal(2, select(2, output:gsub("told", "")), output)
   end)

   by("report NCCL's errors by the name of its call", function()
      local output = on(2, [[
         local t = torch.ones({2}, {device = "cuda"})
         refused("all_reduce: cuda: ncclAllReduce: system error: as the environment says",
            function() dist.all_reduce(t) end)
         refused("ncclAllReduce", function() dist.barrier() end)
         print "told"
      ]], {env = "TLUA_NCCL_FAIL=AllReduce"})
      assert.equal(2, select(2, output:gsub("told", "")), output)
      output = on(1, [[
         refused("cuda: nccl: remote error", function() dist.broadcast(gpu {1}, 0) end)
         print "told"
      ]], {env = "TLUA_NCCL_BREAK=Broadcast"})
      assert.matches("told", output)
      output = on(1, [[
         refused("init_process_group: cuda: ncclCommInitRankConfig: system error", dist.init_process_group,
            {backend = "nccl", timeout = 5})
         print "told"
      ]], {alone = true, env = "TLUA_NCCL_FAIL=Init"})
      assert.matches("told", output)
      on(1, [[
         local ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1):to "cuda")
         ddp(gpu {{1, 2}}):sum():backward() -- this call works without registered memory
      ]], {env = "TLUA_NCCL_FAIL=Register"})
   end)

   by("refuse a GPU that another rank uses, on every rank", function()
      local output = on(3, [[
         refused("uses, too; expected one GPU for each rank", dist.init_process_group,
            {backend = "nccl", timeout = 120, device_id = os.getenv "RANK" == "1" and "cuda:1" or "cuda:0"})
         print "told"
         dist._sleep(0.5)
      ]], {alone = true})
      assert.equal(3, select(2, output:gsub("told", "")), output)
   end)

   by("sum complex numbers by their parts, and refuse their products", function()
      on(2, [[
         local t = torch.tensor({torch.complex(rank + 1, 2), torch.complex(0, -rank)}, {device = "cuda"})
         dist.all_reduce(t)
         assert(t[1]:item() == torch.complex(3, 4) and t[2]:item() == torch.complex(0, -1), tostring(t))
         refused("all_reduce: op: nccl has no 'product' of complex64", dist.all_reduce, t, "product")
      ]])
   end)

   by("refuse dtypes that NCCL cannot sum", function()
      on(1, [[
         refused("all_reduce: op: nccl has no 'bxor' of int32", dist.all_reduce,
            gpu({1}, {dtype = "int32"}), "bxor")
         refused("all_reduce: nccl reduces no int16", dist.all_reduce, gpu({1}, {dtype = "int16"}))
         local t = gpu({1}, {dtype = "int16"})
         dist.broadcast(t, 0) -- without registration, the data is sent as bytes, and the group still works
         check({1}, t)
      ]])
   end)

   by("report a missing NCCL", function()
      local output = on(1, [[
         refused("init_process_group: cuda: nccl", dist.init_process_group, {backend = "nccl", timeout = 5})
         print "told"
      ]], {alone = true, env = "LD_LIBRARY_PATH=/nowhere"})
      assert.matches("told", output)
   end)
end)
