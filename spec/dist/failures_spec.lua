-- Tests ranks that fail, that end early, or that make other calls than the other ranks. All ranks must get errors
-- before the timeout.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

-- Checks that `count` ranks have called told(), which prints "told".
local function assert_told(count, output) assert.equal(count, select(2, output:gsub("told", "")), output) end

describe("a rank that has ended", function()
   -- Rank 1 exits with status 0. After a failure, the launcher would end all other ranks some seconds later. The
   -- messages of the other ranks show that they did not wait until the timeout.
   it("is named by all others at once", function()
      assert_told(2, ranks.ok(3, [[
         local t = torch.ones(10)
         dist.all_reduce(t)
         if rank == 1 then os.exit(0) end
         refused("rank 1 has ended and is missing in all_reduce number 2 of float32 [10] at ",
            dist.all_reduce, t)
         refused("rank 1 has ended", dist.barrier) -- every later call fails with the same error
         print "told"
      ]]))
   end)

   it("is noticed by a rank that waits for a message, too", function()
      assert_told(1, ranks.ok(2, [[
         if rank == 1 then os.exit(0) end
         refused("rank 1 has ended and is missing in recv from rank 1 of float32 [1] at ",
            dist.recv, torch.ones(1), 1)
         print "told"
      ]]))
   end)

   it("is noticed when it was killed", function()
      local output, status = ranks.run(2, [[
         if rank == 1 then
            local file = io.open("/proc/self/stat")
            os.execute("kill -9 " .. file:read("n"))
         end
         refused("rank 1 has ended", dist.barrier)
         print "told"
      ]])
      assert.equal(137, status, output)
      assert_told(1, output)
   end)

   it("ends calls in progress with an error", function()
      assert_told(1, ranks.ok(2, [[
         if rank == 1 then os.exit(0) end
         local work = dist.all_reduce(torch.ones(1), {async_op = true})
         refused("all_reduce: rank 1 has ended", work.wait, work)
         assert(work:exception():find "rank 1 has ended" and not work:is_success())
         print "told"
      ]]))
   end)
end)

describe("calls that differ", function()
   it("are an error on both ranks that names both lines", ranks:case(2, [[
      local t = torch.ones(2, 3)
      if rank == 0 then
         refused("rank 0 all_reduce number 1 of float32 [2, 3] at ", dist.all_reduce, t)
      else
         refused("rank 1 barrier number 1 at ranks.lua:5", function() dist.barrier() end)
      end
      refused("ranks make different calls: rank ", dist.barrier)
   ]]))

   it("differ by dtype, size, operation and root", function()
      for _, code in ipairs {
         "dist.all_reduce(torch.ones(2, {dtype = rank == 0 and 'float32' or 'float64'}))",
         "dist.all_reduce(torch.ones(2 + rank))",
         "dist.all_reduce(torch.ones(2), rank == 0 and 'sum' or 'max')",
         "dist.broadcast(torch.ones(2), rank) dist.barrier()",
      } do
         ranks.ok(2, ("refused('ranks make different calls', function() %s end)"):format(code))
      end
   end)

   it("differ by shape if details are turned on", function()
      local code = "local t = torch.ones(6):view(rank + 2, 3 - rank)\n%s"
      ranks.ok(2, code:format "dist.all_reduce(t)")
      ranks.ok(2, code:format [[
         refused("rank 1 all_reduce number 1 of float32 [3, 2]", dist.all_reduce, t)]],
         {env = "TLUA_DISTRIBUTED_DEBUG=detail"})
   end)

   it("differ by the sizes of parts", ranks:case(2, [[
      refused("all_gather number 1 of float32 [", dist.all_gather,
         {torch.ones(1), torch.ones(1)}, torch.ones(rank + 1))
   ]]))
end)

describe("a call that others do not make", function()
   it("ends after the timeout and names the missing ranks and the calls of the others", ranks:case(3, [[
      local t, store = torch.ones(4), dist.group.WORLD.store
      local group = dist.new_group(nil, {timeout = 3})
      dist.barrier() -- the barrier ensures that all ranks have started
      dist.all_reduce(t, {group = group})
      if rank == 2 then
         store:wait {"late0", "late1"}
         refused("did not arrive within", dist.all_reduce, t, {group = group})
      else
         refused("all_reduce: rank 2 did not arrive within 3 s; rank 0 waits in all_reduce number 2 " ..
            "of float32 [4] at ", dist.all_reduce, t, {group = group})
         refused("rank 2 (missing) is elsewhere; its last call was all_reduce number 1 of float32 " ..
            "[4] at ranks.lua:4", dist.all_reduce, t, {group = group})
         store:set("late" .. rank, "")
      end
   ]]))

   it("may have a timeout of its own, which names all that are missing", ranks:case(3, [[
      local store = dist.group.WORLD.store
      if rank == 0 then
         refused("ranks 1 and 2 did not arrive within 0.1 s", dist.monitored_barrier,
            {timeout = 0.1})
         store:set("late", "")
      else
         store:wait "late"
      end
   ]]))
end)

describe("init_process_group", function()
   it("fails when the world does not fill", function()
      ranks.ok(1, [[
         refused("of 2 ranks these did not join within 0.2 s: 1", dist.init_process_group, {
            init_method = "file://" .. FOLDER .. "/rendezvous", rank = 0, world_size = 2,
            timeout = 0.2})
         refused("no store within 0.2 s", dist.init_process_group, {
            init_method = "file://" .. FOLDER .. "/rendezvous", rank = 1, world_size = 2,
            timeout = 0.2})
         assert(not dist.is_initialized())
      ]], {alone = true})
   end)

   it("refuses two ranks of one number", function()
      local output = ranks.run(2, [[
         -- Each rank waits for the other's file, so both have started when the timeout begins.
         local me = math.tointeger(tonumber(os.getenv "RANK"))
         io.open(FOLDER .. "/" .. me, "w"):close()
         while not io.open(FOLDER .. "/" .. 1 - me) do dist._sleep(0.01) end
         local ok, message = pcall(dist.init_process_group, {rank = 0, world_size = 2, timeout = 3})
         print(message)
      ]], {alone = true})
      assert.matches("rank 0 is taken by another process", output)
      assert.matches("of 2 ranks these did not join within 3 s: 1", output)
   end)

   it("refuses a port that is taken and a store that is not there", function()
      ranks.ok(1, [[
         local store = dist.TCPStore("127.0.0.1", 0, {is_master = true})
         refused("Address already in use", dist.init_process_group, {
            init_method = "tcp://127.0.0.1:" .. store.port, rank = 0, world_size = 1, timeout = 1})
         local port = store.port
         store:close()
         refused("no connection to 127.0.0.1:" .. port, dist.init_process_group, {
            init_method = "tcp://127.0.0.1:" .. port, rank = 1, world_size = 2, timeout = 0.2})
      ]], {alone = true})
   end)

   it("refuses impossible arguments", function()
      ranks.ok(1, [[
         local function init(options) return function() dist.init_process_group(options) end end
         refused("rank: expected 0 to 1, got 5", init {rank = 5, world_size = 2})
         refused('backend: expected "shm" (the ranks of one machine), "mpi"', init {backend = "glow"})
         refused("expected env://, file:///PATH or tcp://HOST:PORT", init {init_method = "udp://x"})
         refused("expected tcp://HOST:PORT", init {init_method = "tcp://x", rank = 0, world_size = 1})
         refused("unknown option world", init {world = 2})
         dist.init_process_group()
         refused("there is a process group already", init {})
      ]], {alone = true})
      local output = shell.run(shell.quote(ranks.tlua) .. " -e 'torch.distributed.init_process_group()'")
      assert.matches("there is no RANK and WORLD_SIZE in the environment", output)
   end)
end)
