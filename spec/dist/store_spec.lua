-- Stores, and the ways to find the others.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"
local torch = require "tlua"
local dist = torch.distributed

describe("TCPStore", function()
   local store = dist.TCPStore("127.0.0.1", 0, {is_master = true, timeout = 5})
   local other = dist.TCPStore("127.0.0.1", store.port, {timeout = 5})

   it("keeps values of any bytes", function()
      local bytes = ("\0\1\255"):rep(50000)
      store:set("bytes", bytes)
      assert.equal(bytes, other:get("bytes"))
      store:set("bytes", "")
      assert.equal("", other:get("bytes"))
   end)

   it("adds, counts and deletes", function()
      assert.equal(3, store:add("n", 3))
      assert.equal(1, other:add("n", -2))
      assert.equal("1", store:get("n"))
      local before = store:num_keys()
      assert.is_true(store:check({"n"}))
      assert.is_false(store:check({"n", "m"}))
      assert.is_true(other:delete_key("n"))
      assert.is_false(other:delete_key("n"))
      assert.equal(before - 1, store:num_keys())
   end)

   it("has parts with a prefix", function()
      local part = dist.PrefixStore("a", dist.PrefixStore("b", store))
      part:set("key", "value")
      assert.equal("value", store:get("b/a/key"))
      part:wait({"key"})
   end)

   it("puts bytes behind a value, and several keys at once", function()
      store:append("list", "a\0")
      other:append("list", "")
      other:append("list", "bc")
      assert.equal("a\0bc", store:get("list"))
      store:multi_set({"m1", "m2"}, {"x", ""})
      assert.same({"", "x"}, other:multi_get({"m2", "m1"}))
      assert.raises("values: expected a list of 2 strings", function()
         store:multi_set({"m1", "m2"}, {"x"})
      end)
      assert.raises("keys: expected a list of strings, got 3", function() store:multi_get(3) end)
      assert.raises("append: value: expected a string, got 3", function() store:append("x", 3) end)
   end)

   -- The cases of PyTorch's documentation of compare_set.
   it("sets a key that has the value that is expected", function()
      assert.equal("first", store:compare_set("c", "first", "second")) -- there is none
      assert.is_false(store:check({"c"}))
      assert.equal("first", store:compare_set("c", "", "first"))
      assert.equal("first", other:compare_set("c", "", "second"))
      assert.equal("first", other:compare_set("c", "firs", "tsecond"))
      assert.equal("", other:compare_set("c", "first", ""))
      assert.equal("", store:get("c"))
      assert.equal("value", dist.PrefixStore("p", other):compare_set("c", "", "value"))
      assert.equal("value", store:get("p/c"))
      assert.raises("desired_value: expected a string", function() store:compare_set("c", "x") end)
      assert.raises("expected_value: expected a string", function() store:compare_set("c", 1, 2) end)
   end)

   it("waits as long as set_timeout says", function()
      local third = dist.TCPStore("127.0.0.1", store.port, {timeout = 50})
      third:set_timeout(0.05)
      assert.equal(0.05, third.timeout)
      assert.raises("nobody has set 'never' within 0.05 s", function() third:get("never") end)
      assert.raises("timeout: expected seconds, got \"1\"", function() third:set_timeout("1") end)
      assert.raises("timeout: expected seconds from 0 on", function() third:set_timeout(-1) end)
      third:close()
   end)

   it("gives up waiting for a key, by name", function()
      assert.raises("nobody has set 'never' within 0.05 s", function() store:wait("never", 0.05) end)
      assert.raises("nobody has set 'never' within 0.05 s", function() other:get("never", 0.05) end)
      assert.raises("key: expected a string", function() store:set(nil, "x") end)
      assert.raises("value: expected a string", function() store:set("x", 1) end)
   end)

   it("fails when it has gone", function()
      store:close()
      assert.raises("the other side has gone", function() other:set("x", "y") end)
      assert.raises("the connection was lost before", function() other:get("x") end)
      assert.raises("the store is closed", function() store:get("x") end)
      other:close()
   end)
end)

describe("HashStore", function()
   it("is a store of one process, also of a group of one rank", function()
      ranks.ok(1, [[
         local store = dist.HashStore {timeout = 0.05}
         store:set("key", "value")
         check("value", store:get("key"))
         check(2, store:add("n", 2))
         refused("nobody has set 'never' within 0.05 s", store.get, store, "never")
         dist.init_process_group {store = store, rank = 0, world_size = 1}
         local t = torch.ones(2)
         dist.all_reduce(t)
         check({1.0, 1.0}, t)
         dist.destroy_process_group()
         store:close()
         refused("the store is closed", store.get, store, "key")
         refused("unknown option time", dist.HashStore, {time = 3})
      ]], {alone = true})
   end)
end)

describe("get", function()
   it("waits for a key that another rank sets", function()
      ranks.ok(2, [[
         local store = dist.group.WORLD.store
         if rank == 0 then
            check("found", store:get("late"))
            store:set("done", "")
         else
            dist._sleep(0.05)
            store:set("late", "found")
            store:wait({"late", "done"})
         end
      ]])
   end)
end)

describe("a file and an address", function()
   it("are rendezvous without an environment", function()
      ranks.ok(2, [[
         local rank = math.tointeger(tonumber(os.getenv "RANK"))
         local function meet(method)
            dist.init_process_group {init_method = method, rank = rank, world_size = 2, timeout = 120}
            local t = torch.ones(1)
            dist.all_reduce(t)
            check({2.0}, t)
            dist.barrier()
            dist.destroy_process_group()
         end
         meet("file://" .. FOLDER .. "/meet")
         meet("file://" .. FOLDER .. "/meet") -- once more by the same name
         local port = tonumber(os.getenv "SPEC_PORT")
         meet("tcp://127.0.0.1:" .. port)
         meet(("tcp://127.0.0.1:%d?rank=%d&world_size=2"):format(port, rank))
         assert(not io.open(FOLDER .. "/meet"))
      ]], {alone = true, env = "SPEC_PORT=" .. ranks.free_port()})
   end)

   it("are found by what mpirun tells a process", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", [[
            local dist = torch.distributed
            dist.init_process_group {timeout = 120}
            local t = torch.ones(1)
            dist.all_reduce(t)
            dist.barrier()
            print(dist.get_rank() .. " has " .. t:item())]])
         local start = ("PMIX_NAMESPACE=a.1 TMPDIR=%s OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK="):format(folder)
         local output = shell.run(("%s0 %s %s/a.lua & %s1 %s %s/a.lua; wait"):format(start,
            ranks.tlua, folder, start, ranks.tlua, folder))
         assert.matches("0 has 2.0", output)
         assert.matches("1 has 2.0", output)
      end)
   end)
end)
