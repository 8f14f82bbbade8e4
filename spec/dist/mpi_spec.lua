-- Tests the back end "mpi" with Open MPI and MPICH. Runs cases of other specs, which normally use groups in shared
-- memory, and tests the behaviour that only "mpi" has.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

local function there(mpi)
   local file = io.open(("%s/tlua_mpi_%s.so"):format(shell.build, mpi))
   if file then file:close() end
   return file and shell.has("mpirun." .. mpi)
end

for _, mpi in ipairs {"openmpi", "mpich"} do
   describe("groups by " .. mpi, function()
      local function by(what, fn)
         it(what, function()
            if not there(mpi) then return pending("no " .. mpi) end
            fn()
         end)
      end

      by("give the results of groups in shared memory", function()
         -- The back end uses both libraries in the same way, so modules that use groups are tested with only one of the
         -- two.
         local files = {"collectives", "messages", "mesh"}
         if mpi == "openmpi" then
            for _, name in ipairs {"ddp", "fsdp", "tensor", "context", "optim", "pipelining"} do
               table.insert(files, name)
            end
         end
         for i, name in ipairs(files) do files[i] = ("spec/dist/%s_spec.lua"):format(name) end
         assert.truthy(ranks.all_by_mpi(mpi, files) > (mpi == "openmpi" and 80 or 30))
      end)

      local function once(...) if mpi == "openmpi" then by(...) end end
      once("write checkpoints that other numbers of ranks read, and train a GPT on 2 x 2 x 2", function()
         -- These tests create process groups in different ways. The files of checkpoints do not depend on the back end,
         -- so few of their tests run here.
         assert.equal(5, ranks.each_by_mpi(mpi, "spec/dist/checkpoint_spec.lua", {
            "meta device", "^writes each element once", "^is written by async_save", "^leaves the old files if a rank",
            "^gives and takes whole states$"}))
         assert.equal(2, ranks.each_by_mpi(mpi, "spec/dist/gpt_spec.lua"))
      end)

      by("name calls that differ, with both lines", function()
         local output = ranks.mpirun(mpi, 2, [[
            local t = torch.ones(2, 3)
            if rank == 0 then
               refused("rank 0 all_reduce number 1 of float32 [2, 3] at ", dist.all_reduce, t)
            else
               refused("rank 1 barrier number 1 at ranks.lua:5", function() dist.barrier() end)
            end
            refused("ranks make different calls: rank 0", dist.barrier)
            told()
         ]])
         assert.equal(2, select(2, output:gsub("told", "")), output)
      end)

      by("end a call after its timeout and name the missing ranks", function()
         local output = ranks.mpirun(mpi, 3, [[
            local t, store = torch.ones(4), dist.group.WORLD.store
            local group = dist.new_group(nil, {timeout = 3})
            dist.barrier() -- the barrier ensures that all ranks have started
            dist.all_reduce(t, {group = group})
            if rank == 2 then
               store:wait {"late0", "late1"}
               refused("did not arrive within 3 s", dist.all_reduce, t, {group = group})
            else
               refused("all_reduce: rank 2 did not arrive within 3 s; rank 0 waits in all_reduce number 2 " ..
                  "of float32 [4] at ranks.lua:", function() dist.all_reduce(t, {group = group}) end)
               store:set("late" .. rank, "")
            end
            told()
         ]])
         assert.equal(3, select(2, output:gsub("told", "")), output)
      end)

      by("name messages and parts of wrong sizes", function()
         local output = ranks.mpirun(mpi, 2, [[
            if rank == 0 then
               dist.send(torch.ones(3), 1)
            else
               refused("recv from rank 0 of float32 [2] at ", dist.recv, torch.ones(2), 0)
               refused("rank 0 has sent 12 bytes, expected were 8", dist.barrier)
            end
            told()
         ]])
         assert.equal(2, select(2, output:gsub("told", "")), output)
         output = ranks.mpirun(mpi, 2, [[
            refused("all_gather number 1 of float32 [", dist.all_gather,
               {torch.ones(1), torch.ones(1)}, torch.ones(rank + 1))
            told()
         ]])
         assert.equal(2, select(2, output:gsub("told", "")), output)
      end)

      by("end all ranks when one fails", function()
         local output, status = ranks.mpirun(mpi, 2, [[
            if rank == 1 then error "bad luck" end
            dist.barrier()
         ]])
         assert.matches("bad luck", output)
         assert.not_equal(0, status)
         -- the error came before the timeout
         assert.is_nil(output:find("did not arrive within", 1, true), output)
      end)

      by("refuse other numbers and other ways to meet", function()
         local output, status = ranks.mpirun(mpi, 2, [[
            local function join(options)
               options.backend = "mpi"
               return dist.init_process_group(options)
            end
            refused("world_size: MPI says 2, got 3", join, {world_size = 3})
            refused("init_method: ranks of \"mpi\" find one another by MPI", join,
               {init_method = "tcp://localhost:1"})
            join {timeout = 120}
            refused("send: tag: mpi has 0 to ", dist.send, torch.ones(1), 1 - dist.get_rank(), {tag = -1})
            dist.barrier()
         ]], {alone = true})
         assert.equal(0, status, output)
      end)

      by("meet in shared memory, too, without `tlua run`", function()
         local output, status = ranks.mpirun(mpi, 2, [[
            dist.init_process_group {timeout = 120}
            local t = torch.ones(1)
            dist.all_reduce(t)
            dist.barrier()
            print(dist.get_rank() .. " has " .. t:item() .. " by " .. dist.get_backend())
         ]], {alone = true})
         assert.equal(0, status, output)
         assert.matches("0 has 2.0 by shm", output)
         assert.matches("1 has 2.0 by shm", output)
      end)

      it("name missing libraries in one line", shell.in_folder(function(folder)
         local code = "torch.distributed.init_process_group {backend = 'mpi'}"
         local output, status = shell.run(("TLUA_PLUGINS=%s TLUA_MPI=%s %s -e %s"):format(folder, mpi,
            ranks.tlua, shell.quote(code)))
         assert.equal(1, status)
         assert.matches(("mpi: there is no %s/tlua_mpi_%s.so: build tlua where "):format(folder, mpi),
            output, nil, true)
      end))
   end)
end

it("the back end mpi names the ranks that mpirun did not start", function()
   local output, status = shell.run(("env -u PMIX_RANK %s -e %s"):format(ranks.tlua,
      shell.quote "torch.distributed.init_process_group {backend = 'mpi'}"))
   assert.equal(1, status)
   assert.matches("this process was started neither by mpirun nor by srun", output)
end)
