-- Tests `tlua run`, the launcher of ranks.

local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

local function alone(n, code, options)
   options = options or {}
   options.alone = true
   return ranks.run(n, code, options)
end

describe("tlua run", function()
   it("gives ranks their numbers, and their output with the rank in front", function()
      local output, status = alone(3, [[
         for _, name in ipairs {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"} do
            io.write(os.getenv(name), " ")
         end
         print(arg[1], #arg)
         io.stderr:write("no end of line")
      ]])
      assert.equal(0, status)
      for rank = 0, 2 do
         assert.matches(("[%d] %d %d 3 3 nil\t0\n"):format(rank, rank, rank), output, nil, true)
         assert.matches(("[%d] no end of line\n"):format(rank), output, nil, true)
      end
   end)

   it("passes arguments on", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", "print(...)")
      local output = shell.ok(("%s run -n 2 %s/a.lua --lr 0.1 'two words'"):format(ranks.tlua, folder))
      assert.matches("[1] --lr\t0.1\ttwo words\n", output, nil, true)
   end))

   it("ends all ranks when one fails, and shows its traceback last", function()
      local output, status = alone(3, [[
         if os.getenv "RANK" == "1" then error "bad luck" end
         while true do dist._sleep(1) end
      ]])
      assert.equal(1, status)
      assert.matches("rank 1 was the first to fail, with status 1:\n.-bad luck\nstack traceback:.*$", output)
      assert.equal(5, select(2, alone(2, "os.exit(5)")))
   end)

   it("names the first of several ranks that ended between two of its checks", function()
      local major, minor = shell.ok "uname -sr":match "^Linux (%d+)%.(%d+)"
      if not major or major * 1000 + minor < 5003 then
         -- The test needs pidfds, which report that a process has ended. They exist from Linux 5.3 on.
         return pending "needs Linux 5.3"
      end
      local output, status = alone(2, [[
         local function stat(pid) -- Returns a process's state and the number of its parent.
            local file <close> = io.open(("/proc/%s/stat"):format(pid))
            return (file and file:read "a" or ""):match ".*%) (%a) (%d+)"
         end
         local _, launcher = stat "self"
         if os.getenv "RANK" == "1" then
            os.execute("kill -STOP " .. launcher)
            io.open(FOLDER .. "/pid", "w"):write(io.open "/proc/self/stat":read "n"):close()
            os.exit(7)
         end
         local pid
         repeat
            dist._sleep(0.01)
            local file <close> = io.open(FOLDER .. "/pid")
            pid = file and file:read "n"
         until pid and stat(pid) == "Z"
         os.execute(("(sleep 0.3; kill -CONT %s) >/dev/null 2>&1 &"):format(launcher))
         os.exit(3)
      ]])
      assert.equal(7, status, output)
      assert.matches("rank 1 was the first to fail, with status 7", output, 1, true)
   end)

   it("restarts all ranks as often as allowed", function()
      local output, status = alone(2, [[
         print("attempt " .. os.getenv "TLUA_RESTART_COUNT")
         dist.init_process_group()
         dist.barrier()
         if os.getenv "TLUA_RESTART_COUNT" ~= "2" and dist.get_rank() == 1 then os.exit(9) end
         dist.barrier()
      ]], {launch = "--max-restarts 2"})
      assert.equal(0, status, output)
      assert.matches("attempt 2", output)
      assert.equal(9, select(2, alone(1, "os.exit(9)", {launch = "--max-restarts 1"})))
   end)

   it("leaves no process behind when it is interrupted or killed", function()
      for _, signal in ipairs {"INT", "TERM", "KILL"} do
         shell.with_folder(function(folder)
            shell.write(folder .. "/a.lua", ([[
               local file = io.open("/proc/self/stat")
               local out = io.open(%q .. "/pid" .. os.getenv "RANK", "w")
               out:write(file:read("n"), "\n")
               out:close()
               while true do torch.distributed._sleep(1) end]]):format(folder))
            local output = shell.run(([[%s run -n 2 %s/a.lua >/dev/null 2>&1 & run=$!
               until [ -s %s/pid0 ] && [ -s %s/pid1 ]; do sleep 0.01; done
               kill -%s $run; wait $run; echo "status $?"
               lives() { [ -e /proc/$1 ] && ! grep -q ') Z' /proc/$1/stat; }
               for i in $(seq 600); do # they end by themselves, but wait for a processor
                  lives $(cat %s/pid0) || lives $(cat %s/pid1) || break
                  sleep 0.1
               done
               lives $(cat %s/pid0) && echo left
               lives $(cat %s/pid1) && echo left; true]]):format(ranks.tlua, folder, folder, folder,
               signal, folder, folder, folder, folder))
            local status = {INT = 130, TERM = 143, KILL = 137}
            assert.matches("status " .. status[signal], output)
            assert.is_nil(output:find "left", output)
         end)
      end
   end)

   -- Starts two launchers that behave as if they ran on two machines. They meet at a free port of this machine.
   local function two_nodes(folder, code, options)
      shell.write(folder .. "/a.lua", code)
      local start = ("%s run -n 2 --nnodes 2 --rdzv 127.0.0.1:%d --timeout 120 %s --node-rank"):format(
         ranks.tlua, ranks.free_port(), options or "")
      return shell.run(("cd %s && (%s 1 a.lua >other 2>&1; echo \"status $?\" >>other) & cd %s && " ..
         "%s 0 a.lua; echo \"status $?\"; wait; cat other"):format(folder, start, folder, start))
   end

   it("joins the ranks of several launchers, the first of which is met at --rdzv", shell.in_folder(function(folder)
      local output = two_nodes(folder, [[
            local dist = torch.distributed
            dist.init_process_group()
            local t = torch.ones(1)
            dist.all_reduce(t)
            dist.barrier()
            print(("%s is %s of node %s: %g"):format(os.getenv "RANK", os.getenv "LOCAL_RANK",
               os.getenv "GROUP_RANK", t:item()))]])
      for rank, line in ipairs {"0 is 0 of node 0: 4", "1 is 1 of node 0: 4", "2 is 0 of node 1: 4",
         "3 is 1 of node 1: 4"} do
         assert.matches(("[%d] %s\n"):format(rank - 1, line), output, nil, true)
      end
      assert.equal(2, select(2, output:gsub("status 0", "")), output)
   end))

   it("starts the ranks of all launchers again when one of them is killed", shell.in_folder(function(folder)
      local output = two_nodes(folder, [[
            local dist = torch.distributed
            dist.init_process_group()
            dist.barrier()
            if os.getenv "TLUA_RESTART_COUNT" == "0" and dist.get_rank() == 3 then
               os.execute "kill -9 $PPID"
            end
            dist.barrier()
            print("attempt " .. os.getenv "TLUA_RESTART_COUNT" .. " done")]], "--max-restarts 1")
      assert.equal(4, select(2, output:gsub("attempt 1 done", "")), output)
      assert.is_nil(output:find "attempt 0 done", output)
      assert.equal(2, select(2, output:gsub("status 0", "")), output)
   end))

   it("says in one line that a port is taken", function()
      ranks.ok(1, ([[
         local store = dist.TCPStore("127.0.0.1", 0, {is_master = true})
         local pipe = io.popen(("%%s run --rdzv 127.0.0.1:%%d a.lua 2>&1"):format(%q, store.port))
         local text = pipe:read "a"
         pipe:close()
         assert(text:find("Address already in use", 1, true), text)
      ]]):format(ranks.tlua), {alone = true})
   end)

   it("gives the ranks a secret of their own, and keeps to the user's", function()
      local function secrets(env, options)
         local list = {}
         local output = ranks.ok(2, "print('secret ' .. os.getenv 'TLUA_SECRET')", {alone = true,
            env = env, launch = options})
         for secret in output:gmatch "secret (%S+)" do list[#list + 1] = secret end
         return list
      end
      local one, two = secrets "env -u TLUA_SECRET", secrets "env -u TLUA_SECRET"
      assert.matches("^%x+$", one[1])
      assert.equal(64, #one[1])
      assert.equal(one[1], one[2])
      assert.not_equal(one[1], two[1])
      assert.same({"a-secret-of-mine", "a-secret-of-mine"}, secrets "TLUA_SECRET=a-secret-of-mine")
      shell.with_folder(function(folder)
         local file = folder .. "/secret"
         shell.write(file, "one-from-the-file\nand no more\n")
         shell.ok("chmod 600 " .. file)
         assert.same({"one-from-the-file", "one-from-the-file"}, secrets("TLUA_SECRET=a-secret-of-mine",
            "--secret-file " .. file))
         shell.ok("chmod 644 " .. file)
         local output, status = shell.run(("%s run --secret-file %s a.lua"):format(ranks.tlua, file))
         assert.equal(1, status)
         assert.matches("run: " .. file .. ": expected mode 600, got 644", output, nil, true)
      end)
   end)

   it("runs two jobs at once, each in its own world", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            local dist = torch.distributed
            dist.init_process_group()
            local sum = torch.full({1}, tonumber(arg[1]))
            for _ = 1, 50 do
               local t = torch.full({1}, tonumber(arg[1]))
               dist.all_reduce(t)
               assert(t:item() == 2 * sum:item())
            end
            print("job " .. arg[1] .. " is done")]])
      local start = ("%s run -n 2 --timeout 120 %s/a.lua "):format(ranks.tlua, folder)
      local output = shell.run(("(%s1 & %s2 & %s3 & wait) 2>&1"):format(start, start, start))
      for job = 1, 3 do assert.equal(2, select(2, output:gsub(("job %d is done"):format(job), "")), output) end
   end))

   it("waits by a monotonic clock", function()
      if not shell.has "cc" then return pending "needs a C compiler" end
      if os.getenv "SPEC_SANITIZED" == "1" then
         return pending "a sanitizer's runtime must be the first library, so none can be preloaded"
      end
      shell.with_folder(function(folder)
         shell.write(folder .. "/jump.c", [[
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <time.h>
            /* Each look at the date finds it a year before or after. */
            int clock_gettime(clockid_t clock, struct timespec *t) {
              static __thread int calls;
              int (*real)(clockid_t, struct timespec *) =
                  (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
              int status = real(clock, t);
              if (clock == CLOCK_REALTIME) t->tv_sec += (++calls % 2 ? 1 : -1) * 365 * 86400;
              return status;
            }]])
         shell.ok(("cd %s && cc -shared -fPIC -o jump.so jump.c -ldl"):format(folder))
         shell.write(folder .. "/a.lua", [[
            local dist, data = torch.distributed, torch.data
            -- the test shows nothing unless the system's clock really jumps
            assert(math.abs(torch.io.time() - torch.io.time()) > 3e7)
            dist.init_process_group()
            for _ = 1, 50 do dist.all_reduce(torch.ones(1)) end
            local set, n = data.TensorDataset(torch.arange(64)), 0
            local loader = data.DataLoader(set, {batch_size = 4, num_workers = 2, timeout = 100})
            for _ in loader:iter() do n = n + 1 end
            dist.barrier()
            print("batches " .. n)]])
         local output, status = shell.run(("LD_PRELOAD=%s/jump.so %s run -n 2 --timeout 120 %s/a.lua"):format(
            folder, ranks.tlua, folder))
         assert.equal(0, status, output)
         assert.equal(2, select(2, output:gsub("batches 16", "")), output)
      end)
   end)

   it("starts many ranks if few files may be open", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            torch.distributed.init_process_group()
            torch.distributed.barrier()
            local limit = io.popen "ulimit -Sn"
            print("limit " .. limit:read "n")]])
      local run = ("%s run -n 12 --timeout 120 %s/a.lua"):format(ranks.tlua, folder)
      local output, status = shell.run("ulimit -Sn 40; " .. run)
      assert.equal(0, status, output)
      assert.equal(12, select(2, output:gsub("limit 40", "")), output)
      -- A limit of thirty open files is too low. The launcher must raise an error and must not hang.
      output, status = shell.run("ulimit -n 30; " .. run)
      assert.equal(1, status, output)
      assert.matches("run: a process could not be started: Too many open files", output, nil, true)
   end))

   it("reads nothing from standard input if a rank could not be started", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", "print(torch.distributed.is_available())")
      -- The launcher opens this named pipe as its input, which never ends.
      shell.ok(("mkfifo %s/input"):format(folder))
      local output, status = shell.run(("ulimit -n 16; timeout 60 %s run -n 8 %s/a.lua <>%s/input")
         :format(ranks.tlua, folder, folder))
      assert.matches("Too many open files", output, nil, true)
      assert.equal(1, status, output)
   end))

   it("explains wrong command lines", function()
      local output, status = shell.run(ranks.tlua .. " run -n none a.lua")
      assert.equal(1, status)
      assert.matches("%-n: expected 1 to 128 processes, got 'none'\nusage: tlua run", output)
      assert.matches("unknown option, got '%-%-nproc'", (shell.run(ranks.tlua .. " run --nproc 3 a.lua")))
      assert.matches("%-%-node%-rank: expected 0 to 1, got '3'",
         (shell.run(ranks.tlua .. " run --nnodes 2 --node-rank 3 --rdzv localhost:1 a.lua")))
      assert.matches("expected a script", (shell.run(ranks.tlua .. " run -n 3")))
      assert.matches("usage: tlua run", (shell.ok(ranks.tlua .. " run --help")))
   end)
end)
