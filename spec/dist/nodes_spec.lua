-- Tests launchers on several machines (tlua run --nnodes). Machines join and leave while a program runs, and the first
-- machine dies. Network namespaces act as machines if the system permits them.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

-- A program that counts steps until a file named "enough" exists. After a restart with other machines, it continues
-- from the last count.
local program = [[
local dist = torch.distributed
dist.init_process_group()
local rank, size = dist.get_rank(), dist.get_world_size()
local function read(name)
   local file <close> = io.open(name)
   return file and file:read "a"
end
local state = {tonumber(read "step") or 0, false}
dist.broadcast_object_list(state)
print(("world %s of %d from step %d"):format(os.getenv "TLUA_RESTART_COUNT", size, state[1]))
while not state[2] do
   local t = torch.ones(1)
   dist.all_reduce(t)
   assert(t:item() == size)
   dist._sleep(0.01)
   if rank == 0 then
      local file = torch.io.replace "step"
      file:write(state[1] + 1)
      torch.io.commit(file)
      state = {state[1] + 1, read "enough" ~= nil}
   end
   dist.broadcast_object_list(state)
end
print "done"
]]

-- Shell functions that control launchers. `start` starts a launcher under a name. `await` waits until the launcher's
-- output has a line that matches a pattern. `forget` deletes the output so far. `end` waits until the launcher ends.
local driver = [[
start() { name=$1; shift; : >$name.out; (exec "$@" >>$name.out 2>&1) & eval "pid_$name=\$!"; }
# After this, `await` finds no earlier line. A job may have started more than once, first with only
# some of the machines, since others may start slowly.
forget() { for name; do : >$name.out; done; }
await() {
   for i in $(seq 3000); do grep -q "$2" $1.out 2>/dev/null && return; sleep 0.1; done
   echo "waited in vain for '$2' of $1:"; cat *.out; kill -9 $pids $(jobs -p) 2>/dev/null; exit 1
}
end() { eval "wait \$pid_$1"; echo "$1 ended with status $?"; }
]]

local function drive(code)
   return shell.with_folder(function(folder)
      shell.write(folder .. "/program.lua", program)
      shell.write(folder .. "/drive.sh", driver .. code)
      return shell.run(("cd %s && TLUA=%s sh ./drive.sh; grep -h done *.out | sort"):format(folder,
         shell.quote(ranks.tlua)))
   end)
end

local function elastic(options)
   return ("%s run -n 1 --max-restarts 20 --timeout 120 %s --rdzv 127.0.0.1:%d program.lua"):format(
      "$TLUA", options, ranks.free_port())
end

describe("tlua run --nnodes MIN:MAX", function()
   it("continues with fewer machines, and with more machines", function()
      local output = drive(([[
         run="LAUNCH"
         start a $run; start b $run; start c $run
         await a "of 3 from step"; await b "of 3 from step"; await c "of 3 from step"
         forget a c
         kill -9 $pid_b
         await a "of 2 from step"; await c "of 2 from step"
         forget a c
         start d $run
         await a "of 3 from step [1-9]"; await c "of 3 from step [1-9]"; await d "of 3 from step [1-9]"
         touch enough
         end a; end c; end d
      ]]):gsub("LAUNCH", (elastic "--nnodes 2:3")))
      for name in ("acd"):gmatch "." do assert.matches(name .. " ended with status 0", output) end
      assert.equal(3, select(2, output:gsub("%[%d%] done", "")), output)
   end)

   it("continues without the machine that served the store", function()
      local output = drive(([[
         run="LAUNCH"
         start a $run; await a "world 0 of 1"
         start b $run; start c $run
         await a "of 3 from step"; await b "of 3 from step"; await c "of 3 from step"
         forget b c
         kill -9 $pid_a
         await b "of 2 from step [1-9]"; await c "of 2 from step [1-9]"
         touch enough
         end b; end c
      ]]):gsub("LAUNCH", (elastic "--nnodes 1:3")))
      assert.matches("b ended with status 0", output)
      assert.matches("c ended with status 0", output)
   end)

   it("restarts failed ranks --max-restarts times, then ends with their status", function()
      local output, status = shell.run(("%s run -n 2 --nnodes 1:2 --max-restarts 1 --rdzv 127.0.0.1:%d %s"):format(
         shell.quote(ranks.tlua), ranks.free_port(), shell.quote "/nowhere.lua"))
      assert.equal(1, status)
      assert.matches("machine 1 of 1, round 1", output)
      assert.matches("machine 1 of 1, round 2", output)
      assert.is_nil(output:find "round 3")
   end)

   it("says how many launchers came if there are too few", function()
      local output, status = shell.run(("%s run --nnodes 2:3 --timeout 2 --rdzv 127.0.0.1:%d x.lua"):format(
         shell.quote(ranks.tlua), ranks.free_port()))
      assert.equal(1, status)
      assert.matches("expected at least 2 launchers within 2 s, got 1", output)
      output = shell.run(shell.quote(ranks.tlua) .. " run --nnodes 3:2 --rdzv x:1 x.lua")
      assert.matches("--nnodes: expected MIN:MAX of at most 1024, got '3:2'", output, nil, true)
      output = shell.run(shell.quote(ranks.tlua) .. " run --nnodes 1:2 x.lua")
      assert.matches("--rdzv: expected HOST:PORT", output, nil, true)
   end)
end)

-- Makes two connected network namespaces, which act as machines. Removes them when `work` ends.
local function with_hosts(work)
   local name = ("tlua%06d"):format(math.random(0, 999999))
   local a, b = name .. "a", name .. "b"
   local function ip(...) return select(2, shell.run("ip " .. (...):format(a, b))) == 0 end
   if not shell.has "ip" or not ip "netns add %s" then return false end
   local function joined()
      for _, command in ipairs {
         ("netns add %s"):format(b),
         ("-n %s link add eth0 type veth peer name eth0 netns %s"):format(a, b),
         ("-n %s addr add 10.77.0.1/24 dev eth0"):format(a), ("-n %s addr add 10.77.0.2/24 dev eth0"):format(b),
         ("-n %s link set eth0 up"):format(a), ("-n %s link set eth0 up"):format(b),
         ("-n %s link set lo up"):format(a), ("-n %s link set lo up"):format(b),
         -- `ip netns exec` mounts file systems, which the system may forbid
         ("netns exec %s true"):format(a),
      } do if not ip(command) then return false end end
      return true
   end
   local there = joined()
   local ok, why = true, nil
   if there then ok, why = pcall(work, ("ip netns exec %s "):format(a), ("ip netns exec %s "):format(b)) end
   shell.run(("ip netns del %s; ip netns del %s"):format(a, b))
   if not ok then error(why, 0) end
   return there
end

-- Returns a number of a Slurm job for which the port where the ranks meet is free. The port is 15000 + (31 job + step)
-- % 15000.
local job
repeat
   job = math.random(0, 999999)
until ranks.is_free(15000 + job * 31 % 15000)

-- Returns the environment variables that srun sets for rank `rank` of two ranks. Each rank has its own host in the
-- list.
local function slurm(rank, list, more)
   return ("env -u RANK -u WORLD_SIZE -u MASTER_PORT SLURM_PROCID=%d SLURM_NTASKS=2 SLURM_LOCALID=0 " ..
      "SLURM_JOB_ID=%d SLURM_STEP_ID=0 SLURM_NNODES=2 SLURM_JOB_NODELIST=%s %s "):format(rank,
      job, shell.quote(list), more or "")
end

describe("ranks that srun has started", function()
   local script = [[
      torch.distributed.init_process_group {backend = "shm", timeout = 120}
      local dist = torch.distributed
      assert(dist.get_node_local_rank() == 0)
      local t = torch.ones(1) * (dist.get_rank() + 1)
      dist.all_reduce(t)
      dist.barrier()
      print(("rank %d of %d has %g"):format(dist.get_rank(), dist.get_world_size(), t:item()))
   ]]

   local function on(first, second)
      return shell.with_folder(function(folder)
         shell.write(folder .. "/s.lua", script)
         return shell.run(("cd %s; %s %s s.lua & %s %s s.lua; wait"):format(folder, second,
            shell.quote(ranks.tlua), first, shell.quote(ranks.tlua)))
      end)
   end

   it("meet at the first host of srun's list", function()
      local output = on(slurm(0, "localhost,other[1-3]"), slurm(1, "localhost,other[1-3]"))
      assert.matches("rank 0 of 2 has 3", output)
      assert.matches("rank 1 of 2 has 3", output)
   end)

   it("meet in a file if there is one host, and at MASTER_ADDR if that is set", function()
      local output = on(slurm(0, "nowhere", "SLURM_NNODES=1"), slurm(1, "nowhere", "SLURM_NNODES=1"))
      assert.matches("rank 1 of 2 has 3", output)
      output = on(slurm(0, "nowhere[1-2]", "MASTER_ADDR=127.0.0.1"),
         slurm(1, "nowhere[1-2]", "MASTER_ADDR=127.0.0.1"))
      assert.matches("rank 1 of 2 has 3", output)
   end)

   it("meet over hosts", function()
      local there = with_hosts(function(first, second)
         local secret <const> = "TLUA_SECRET=0123456789abcdef"
         local output = on(first .. slurm(0, "10.77.0.[1-2]", secret), second .. slurm(1, "10.77.0.[1-2]", secret))
         assert.matches("rank 0 of 2 has 3", output)
         assert.matches("rank 1 of 2 has 3", output)
      end)
      if not there then return pending "no network namespaces" end
   end)

   it("are told by MPI over several hosts", function()
      local output = shell.run(slurm(0, "a,b") .. "TLUA_PLUGINS=/nowhere TLUA_MPI=openmpi " ..
         shell.quote(ranks.tlua) .. " -e 'torch.distributed.init_process_group()'")
      assert.matches("mpi: there is no /nowhere/tlua_mpi_openmpi.so", output, nil, true)
   end)
end)

describe("machines", function()
   it("meet by the address of the first one", function()
      local there = with_hosts(function(first, second)
         local run = "$TLUA run -n 2 --nnodes 2 --timeout 120 --secret-file secret --rdzv 10.77.0.1:29500 " ..
            "--node-rank %d program.lua"
         local output = drive(([[
            touch enough
            (umask 077; echo "a secret of machines" >secret)
            start a %s; start b %s
            end a; end b; cat *.out
         ]]):format(first .. run:format(0), second .. run:format(1)))
         assert.equal(4, select(2, output:gsub("of 4 from step 0", "")), output)
         assert.matches("a ended with status 0", output)
         assert.matches("b ended with status 0", output)
      end)
      if not there then return pending "no network namespaces" end
   end)

   it("are refused without the secret, on either side", function()
      local there = with_hosts(function(first, second)
         local run = "%s $TLUA run -n 1 --nnodes 2 --timeout 20 --rdzv 10.77.0.1:29500 --node-rank %d program.lua"
         local known, other = "env TLUA_SECRET=0123456789abcdef", "env TLUA_SECRET=another-secret-0"
         local output = drive(("start a %s; end a; cat a.out"):format(first .. run:format("env", 0)))
         assert.matches("10.77.0.1:29500: a store that other machines can reach needs a secret: set TLUA_SECRET",
            output, nil, true)
         local function second_is(environment)
            return drive(("start a %s; start b %s; end b; kill $pid_a; end a; cat b.out"):format(
               first .. run:format(known, 0), second .. run:format(environment, 1)))
         end
         output = second_is "env"
         assert.matches("asks for the job's secret, and this process has none: set TLUA_SECRET", output, nil, true)
         assert.matches("b ended with status 1", output)
         output = second_is(other)
         assert.matches("10.77.0.1:29500: the secret of the store there is another one", output, nil, true)
         output = second_is "env TLUA_SECRET=short"
         assert.matches("run: TLUA_SECRET: expected a secret of 16 to 511 characters, got 5", output, nil, true)
      end)
      if not there then return pending "no network namespaces" end
   end)

   it("that join and leave also meet there", function()
      local there = with_hosts(function(first, second)
         local run = "env TLUA_SECRET=0123456789abcdef $TLUA run -n 1 --nnodes 1:2 --max-restarts 20 " ..
            "--timeout 120 --rdzv 10.77.0.1:29500 program.lua"
         local output = drive(([[
            start a %s; await a "world 0 of 1"
            start b %s; await b "of 2 from step"; await a "of 2 from step"
            forget a
            kill -9 $pid_b
            await a "of 1 from step"
            touch enough
            end a
         ]]):format(first .. run, second .. run))
         assert.matches("a ended with status 0", output)
      end)
      if not there then return pending "no network namespaces" end
   end)
end)
