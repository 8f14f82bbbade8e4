-- Tests stores, and the ways in which the processes of a job find each other.

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

   it("separates keys by a prefix", function()
      local part = dist.PrefixStore("a", dist.PrefixStore("b", store))
      part:set("key", "value")
      assert.equal("value", store:get("b/a/key"))
      part:wait({"key"})
   end)

   it("appends to a value, and sets several keys at once", function()
      store:append("list", "a\0")
      other:append("list", "")
      other:append("list", "bc")
      assert.equal("a\0bc", store:get("list"))
      store:multi_set({"m1", "m2"}, {"x", ""})
      assert.same({"", "x"}, other:multi_get({"m2", "m1"}))
      assert.raises("values: expected a list of 2 strings", function() store:multi_set({"m1", "m2"}, {"x"}) end)
      assert.raises("keys: expected a list of strings, got 3", function() store:multi_get(3) end)
      assert.raises("append: value: expected a string, got 3", function() store:append("x", 3) end)
   end)

   -- These cases are in PyTorch's documentation of compare_set.
   it("sets a key if it has the expected value", function()
      -- as the key does not exist yet, it is not set, and the call returns the second value
      assert.equal("first", store:compare_set("c", "first", "second"))
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
      assert.raises("no process has set 'never' within 0.05 s", function() third:get("never") end)
      assert.raises("timeout: expected seconds, got \"1\"", function() third:set_timeout("1") end)
      assert.raises("timeout: expected seconds from 0 on", function() third:set_timeout(-1) end)
      third:close()
   end)

   it("names the key that it stops waiting for", function()
      assert.raises("no process has set 'never' within 0.05 s", function() store:wait("never", 0.05) end)
      assert.raises("no process has set 'never' within 0.05 s", function() other:get("never", 0.05) end)
      assert.raises("key: expected a string", function() store:set(nil, "x") end)
      assert.raises("value: expected a string", function() store:set("x", 1) end)
   end)

   it("raises errors after its server has ended", function()
      store:close()
      assert.raises("the connection was closed", function() other:set("x", "y") end)
      assert.raises("the connection was lost before", function() other:get("x") end)
      assert.raises("the store is closed", function() store:get("x") end)
      other:close()
   end)
end)

describe("the secret of a store", function()
   local function tcp(port, options)
      options.timeout = 5
      return dist.TCPStore(options.host or "127.0.0.1", port, {is_master = options.is_master,
         timeout = 5, secret = options.secret})
   end

   it("is required of each connection", function()
      local store = tcp(0, {is_master = true, secret = "a-secret-of-mine"})
      local other = tcp(store.port, {secret = "a-secret-of-mine"})
      other:set("key", "value")
      assert.equal("value", store:get "key")
      assert.raises("the secret of the store there is another one than this process has",
         function() tcp(store.port, {secret = "a-secret-of-yours"}) end)
      assert.raises("asks for the job's secret, and this process has none",
         function() tcp(store.port, {secret = false}) end)
      other:close()
      store:close()
   end)

   it("is required if other machines can reach the store", function()
      assert.raises("a store that other machines can reach needs a secret: set TLUA_SECRET",
         function() dist.TCPStore("", 0, {is_master = true}) end)
      dist.TCPStore("", 0, {is_master = true, secret = false}):close()
      dist.TCPStore("", 0, {is_master = true, secret = "a-secret-of-mine"}):close()
   end)

   it("is a string of some length, or false", function()
      assert.raises("expected a secret of 16 to 511 characters, got 5",
         function() tcp(0, {is_master = true, secret = "short"}) end)
      assert.raises("TCPStore: secret: expected a string, or false to trust all processes that can connect, got 7",
         function() tcp(0, {is_master = true, secret = 7}) end)
   end)

   it("may come from the environment", function()
      ranks.ok(2, [[
         local rank = tonumber(os.getenv "RANK")
         if rank == 0 then
            local store = dist.TCPStore("127.0.0.1", 0, {is_master = true})
            refused("this process has none", dist.TCPStore, "127.0.0.1", store.port, {secret = false})
            dist.TCPStore("127.0.0.1", store.port):close()
            dist.TCPStore("127.0.0.1", store.port, {secret = os.getenv "TLUA_SECRET"}):close()
         end
      ]], {alone = true})
   end)
end)

-- Wraps a command so that it runs as another user. Only root may do this.
local function as_other(command) return "setpriv --reuid=12345 --regid=12345 --clear-groups " .. command end

local function has_other()
   return shell.ok "id -u" == "0\n" and shell.has "setpriv" and select(2, shell.run(as_other "true")) == 0
end

-- Returns whether another user can run tlua. If tlua is in a private folder, the other user can only run setpriv.
local function other_runs_program()
   return has_other() and select(2, shell.run(as_other("env " .. ranks.tlua .. " -v"))) == 0
end

describe("users without the secret", function()
   local connect = [[-e 'torch.distributed.TCPStore("127.0.0.1", PORT, {timeout = 5})' 2>&1]]

   it("are refused", function()
      if not other_runs_program() then return pending "needs root, setpriv, and a program that every user may run" end
      local run = shell.run
      local theirs = ("env -u TLUA_SECRET %s -e %s"):format(ranks.tlua, shell.quote [[
         local s = torch.distributed.TCPStore("127.0.0.1", 0, {is_master = true})
         print(s.port) io.stdout:flush() io.read()]])
      shell.with_folder(function(folder)
         shell.ok("chmod 755 " .. folder)
         -- A process of root may do anything. But a process of another ordinary user must not be accepted as a store by
         -- an ordinary user.
         local output = run(([[cd %s; mkfifo hold; (%s <hold >port) & exec 3>hold
            until [ -s port ]; do sleep 0.01; done
            setpriv --reuid=12346 --regid=12346 --clear-groups %s %s; echo "status $?"
            %s %s; echo "status $?"; echo >&3; wait]]):format(folder, as_other(theirs), ranks.tlua,
            (connect:gsub("PORT", "io.open('port'):read 'n'"):gsub("'port'", '"port"'):gsub("'n'", '"n"')),
            as_other(ranks.tlua),
            (connect:gsub("PORT", "io.open('port'):read 'n'"):gsub("'port'", '"port"'):gsub("'n'", '"n"'))))
         assert.matches("the store there belongs to another user, and there is no secret.-status 1.-status 0", output)
      end)
   end)

   it("cannot replace a job's file", function()
      if not has_other() then return pending "needs root, and setpriv" end
      shell.with_folder(function(folder)
         shell.ok("chmod 1777 " .. folder)
         local path = folder .. "/meet"
         shell.ok(as_other(("sh -c 'umask 077; echo 1 0123456789abcdef >%s'"):format(path)))
         assert.raises("FileStore: " .. path .. ": expected a file of this user (0), it is of user 12345",
            function() dist.FileStore(path, {timeout = 60}) end)
      end)
   end)
end)

describe("FileStore", function()
   it("writes a file that nobody else may read", shell.in_folder(function(folder)
      local path = folder .. "/meet"
      local store = dist.FileStore(path, {is_master = true, timeout = 5})
      assert.matches("^%-rw%-%-%-%-%-%-%- 1 ", shell.ok("ls -l " .. path))
      local other = dist.FileStore(path, {timeout = 60})
      other:set("key", "value")
      assert.equal("value", store:get "key")
      other:close()
      shell.ok("chmod 644 " .. path)
      assert.raises("expected mode 600, got 644", function() dist.FileStore(path, {timeout = 0.05}) end)
      shell.ok(("mv %s %s.1 && ln -s %s.1 %s"):format(path, path, path, path))
      assert.raises("expected a plain file, got a link", function() dist.FileStore(path, {timeout = 60}) end)
      store:close()
      assert.raises("no/meet", function() dist.FileStore(folder .. "/no/meet", {is_master = true, timeout = 5}) end)
   end))
end)

it("destroy_process_group removes the keys of groups", function()
   ranks.ok(2, [[
         dist.init_process_group {timeout = 120}
         local rank, store = dist.get_rank(), dist.group.WORLD.store
         local function settled() -- waits until no rank adds or deletes keys, and counts the keys
            dist.barrier()
            local n = store:num_keys()
            dist.barrier()
            return n
         end
         local before = settled()
         for _ = 1, 30 do
            local group = dist.new_group()
            dist.all_reduce(torch.ones(1), {group = group})
            for only = 0, 1 do dist.destroy_process_group(dist.new_group {only}) end
            dist.destroy_process_group(group)
         end
         check(before, settled())
         local port, address = tonumber(os.getenv "MASTER_PORT"), os.getenv "MASTER_ADDR"
         dist.barrier()
         local watch = dist.TCPStore(address, port)
         dist.destroy_process_group()
         watch:add("left", 1)
         while watch:add("left", 0) < 2 do dist._sleep(0.01) end
         check(1, watch:num_keys()) -- the only remaining key is "left"
      ]], {alone = true})
end)

it("HashStore is a store of one process, also of a group of one rank", function()
   ranks.ok(1, [[
         local store = dist.HashStore {timeout = 0.05}
         store:set("key", "value")
         check("value", store:get("key"))
         check(2, store:add("n", 2))
         refused("no process has set 'never' within 0.05 s", store.get, store, "never")
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

describe("get", function()
   it("waits for a key that another rank sets", ranks:case(2, [[
      local store = dist.group.WORLD.store
      if rank == 0 then
         check("found", store:get("late"))
         store:set("done", "")
      else
         dist._sleep(0.05)
         store:set("late", "found")
         store:wait({"late", "done"})
      end
   ]]))
end)

describe("a file or an address as init_method", function()
   it("starts a group without environment variables", function()
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
         -- the ranks meet again, under the same name as the first time
         meet("file://" .. FOLDER .. "/meet")
         local port = tonumber(os.getenv "SPEC_PORT")
         meet("tcp://127.0.0.1:" .. port)
         meet(("tcp://127.0.0.1:%d?rank=%d&world_size=2"):format(port, rank))
         assert(not io.open(FOLDER .. "/meet"))
      ]], {alone = true, env = "SPEC_PORT=" .. ranks.free_port()})
   end)

   it("starts a group with the ranks of mpirun's variables", shell.in_folder(function(folder)
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
   end))
end)
