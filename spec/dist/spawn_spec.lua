-- Tests torch.multiprocessing.spawn, which runs a function on several ranks.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

-- Writes a script that calls torch.multiprocessing.spawn, and runs it.
local function script(code)
   return shell.with_folder(function(folder)
      shell.write(folder .. "/a.lua", code)
      local output, status = shell.run(("cd %s && TMPDIR=%s %s a.lua"):format(folder, folder, ranks.tlua))
      return output .. shell.run(("cd %s; ls -d tmp*"):format(folder)):gsub(".*No such.*", ""), status
   end)
end

describe("spawn", function()
   it("runs a function on ranks from 0, with its arguments, upvalues and globals", function()
      local output, status = script [[
         local dist = torch.distributed
         local scale = 10
         local function helper(x) return x * scale end
         function global(x) return helper(x) + 1 end
         local function work(rank, size, t, p, missing, options)
            dist.init_process_group {backend = "gloo", rank = rank, world_size = size}
            assert(dist.get_backend() == "gloo" and missing == nil and options.lr == 0.5)
            assert(p.is_parameter and p.requires_grad and p:item() == 5)
            local x = global(t) * (rank + 1)
            dist.all_reduce(x)
            print(("rank %d of %d: %g %g, %s"):format(rank, size, x[1]:item(), x[2]:item(), x.dtype))
            dist.destroy_process_group()
         end
         local t = torch.tensor({1, 2}, {dtype = "float64"})
         torch.multiprocessing.spawn(work, {nprocs = 2, args = table.pack(2, t,
            nn.Parameter(torch.tensor(5.)), nil, {lr = 0.5})})
         print "over"
      ]]
      assert.equal(0, status, output)
      assert.matches("[0] rank 0 of 2: 33 63, float64\n", output, 1, true) -- (10 t + 1) (1 + 2)
      assert.matches("[1] rank 1 of 2: 33 63, float64\n", output, 1, true)
      assert.matches("over\n$", output) -- the launcher has removed the ranks' folder
      assert.equal(1, select(2, output:gsub('"gloo" is the back end "shm" here', "")), output)
   end)

   it("takes an address, as PyTorch's programs give one", function()
      local output, status = script(([[
         local function work(rank, port)
            local dist = torch.distributed
            dist.init_process_group("gloo", {init_method = "tcp://localhost:" .. port, rank = rank, world_size = 3})
            local model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1), {find_unused_parameters = false,
               gradient_as_bucket_view = true, static_graph = false, broadcast_buffers = true,
               bucket_cap_mb = 25})
            model(torch.ones(1, 2) * rank):sum():backward()
            print("gradient " .. model.module.weight.grad[1][1]:item())
            dist.barrier {device_ids = {rank}}
         end
         torch.multiprocessing.spawn(work, {%d}, 3)
      ]]):format(ranks.free_port()))
      assert.equal(0, status, output)
      -- The gradient is 1, which is the mean of 0, 1 and 2.
      assert.equal(3, select(2, output:gsub("gradient 1%.0", "")), output)
   end)

   it("raises the error of the rank that has failed first, and ends the others", function()
      local output, status = script [[
         local ok, why = pcall(torch.multiprocessing.spawn, function(rank)
            if rank == 1 then error "bad luck" end
            while true do torch.distributed._sleep(1) end
         end, {nprocs = 3})
         print(ok, why)
         print(pcall(torch.multiprocessing.spawn, function() os.exit(3) end))
      ]]
      assert.equal(0, status, output)
      assert.matches("false\t[^\n]*a.lua:1: spawn: rank 1 has failed: a.lua:2: bad luck\nstack traceback:", output)
      assert.matches("spawn: a process has ended with status 3", output, 1, true)
   end)

   it("gives a handle without join", function()
      local output, status = script [[
         local context = torch.multiprocessing.spawn(function(rank)
            while not io.open "go" do torch.distributed._sleep(0.01) end
            print("rank " .. rank)
         end, {nprocs = 2, join = false})
         assert(context:join(0) == false)
         io.open("go", "w"):close()
         assert(context:join() == true and context:join() == true)
         print "over"
      ]]
      assert.equal(0, status, output)
      assert.matches("rank 0\n.*over\n", output)
      assert.matches("rank 1\n.*over\n", output)
   end)

   it("leaves no process behind when this one is killed", function()
      local output = script [[
         torch.multiprocessing.spawn(function(rank)
            local file = io.open("pid" .. rank, "w")
            file:write((io.open "/proc/self/stat":read "n"))
            file:close()
            while true do torch.distributed._sleep(1) end
         end, {nprocs = 2, join = false})
         local function pid(rank)
            local file <close> = io.open("pid" .. rank)
            return file and file:read "n"
         end
         while not (pid(0) and pid(1)) do torch.distributed._sleep(0.01) end
         os.execute(([=[(
            for i in $(seq 600); do
               lives() { [ -e /proc/$1 ] && ! grep -q ') Z' /proc/$1/stat; }
               lives %d || lives %d || { echo "all gone"; exit; }
               sleep 0.1
            done; echo left) & kill -9 $PPID; wait]=]):format(pid(0), pid(1)))
      ]]
      assert.matches("all gone", output)
   end)

   it("names values that cannot be sent, at the caller's line", function()
      local spawn = require "tlua".multiprocessing.spawn
      local thread = coroutine.create(print)
      local line = debug.getinfo(1, "l").currentline + 2
      assert.raises("spawn: the function at spec/dist/spawn_spec.lua:" .. line .. ", upvalue 'thread' is a coroutine",
         function() spawn(function() return thread end) end)
      assert.raises("multiprocessing.spawn: fn: expected a function, got 3", function() spawn(3) end)
      assert.raises("nprocs: expected 1 to 128 processes, got 0", function() spawn(print, {nprocs = 0}) end)
      assert.raises('start_method: expected "spawn", the only one there is, got "fork"',
         function() spawn(print, {start_method = "fork"}) end)
      assert.raises("multiprocessing.spawn: unknown option nproc; did you mean nprocs?; there are fn, args",
         function() spawn(print, {nproc = 2}) end)
   end)
end)

describe("torch.distributed, called as in PyTorch's programs,", function()
   local torch = require "tlua"
   local dist = torch.distributed

   it("has the sampler under PyTorch's name", function()
      assert.equal(torch.data.DistributedSampler, torch.utils.data.distributed.DistributedSampler)
      assert.equal(torch.data.RandomSampler, torch.utils.data.sampler.RandomSampler)
   end)

   it("raises errors that name the replacement", function()
      assert.raises("torch.distributed.launch: it is a command here: `tlua run -n 4 script.lua`",
         function() return dist.launch end)
      assert.raises("torch.distributed.run: it is a command here", function() return dist.run end)
      assert.raises("torch.distributed.rpc: there are no remote calls", function() return dist.rpc end)
      assert.raises("torch.distributed.fsdp.FullyShardedDataParallel: torch.distributed.fsdp.fully_shard(model)",
         function() return dist.fsdp.FullyShardedDataParallel end)
      if not torch.cuda.is_available() then
         assert.raises('backend "nccl" needs a GPU for each rank, and this process finds none',
            function() dist.init_process_group "nccl" end)
      end
   end)

   it("takes PyTorch's arguments and -1 for unknown numbers", function()
      ranks.ok(2, [[
         dist.init_process_group {backend = "gloo", init_method = "env://", rank = -1, world_size = -1,
            timeout = 120, group_name = ""}
         check("gloo", dist.get_backend())
         check(true, dist.is_initialized())
         check("gloo", dist.get_backend(dist.new_group()))
         check("shm", dist.get_backend(dist.new_group(nil, {backend = "shm"})))
         dist.barrier {device_ids = {0}}
         refused("output_device", nn.parallel.DistributedDataParallel, nn.Linear(1, 1), {output_device = 0})
         dist.destroy_process_group()
         check(false, dist.is_initialized())
         refused("rank: expected an integer from 0 on, got -2", dist.init_process_group, {rank = -2})
      ]], {alone = true})
   end)

   it("takes torchrun's options in `tlua run`", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            torch.distributed.init_process_group()
            print(os.getenv "RANK" .. " of " .. os.getenv "WORLD_SIZE" .. " at " .. os.getenv "MASTER_PORT")]])
      local output = shell.ok(("%s run --standalone --nnodes=1 --nproc_per_node=2 --rdzv_backend=c10d " ..
         "--rdzv-id 7 %s/a.lua"):format(ranks.tlua, folder))
      assert.matches("1 of 2 at ", output)
      local port = ranks.free_port()
      output = shell.ok(("%s run --nproc-per-node 2 --node_rank 0 --master_addr=127.0.0.1 --master_port=%d %s/a.lua")
         :format(ranks.tlua, port, folder))
      assert.matches("1 of 2 at " .. port, output)
   end))
end)
