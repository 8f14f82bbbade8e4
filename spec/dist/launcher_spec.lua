-- `tlua run`.

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

   it("passes arguments on", function()
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", "print(...)")
         local output = shell.ok(("%s run -n 2 %s/a.lua --lr 0.1 'two words'"):format(
            ranks.tlua, folder))
         assert.matches("[1] --lr\t0.1\ttwo words\n", output, nil, true)
      end)
   end)

   it("ends all when one fails, and shows that one's traceback last", function()
      local output, status = alone(3, [[
         if os.getenv "RANK" == "1" then error "bad luck" end
         while true do dist._sleep(1) end
      ]])
      assert.equal(1, status)
      assert.matches("rank 1 was the first to fail, with status 1:\n.-bad luck\nstack traceback:.*$", output)
      assert.equal(5, select(2, alone(2, "os.exit(5)")))
   end)

   it("starts all again as often as it may", function()
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
               for i in 1 2 3 4 5 6 7 8 9 10; do
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

   it("explains wrong command lines", function()
      local output, status = shell.run(ranks.tlua .. " run -n none a.lua")
      assert.equal(1, status)
      assert.matches("%-n: expected 1 to 128 processes, got 'none'\nusage: tlua run", output)
      assert.matches("unknown option, got '%-%-nproc'", (shell.run(ranks.tlua .. " run --nproc 3 a.lua")))
      assert.matches("expected a script", (shell.run(ranks.tlua .. " run -n 3")))
      assert.matches("usage: tlua run", (shell.ok(ranks.tlua .. " run --help")))
   end)
end)
