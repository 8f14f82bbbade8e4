-- Tests programs under low system limits (ulimit). Under each limit, a program must succeed, or raise an error that
-- names the resource that was exhausted.

local shell = require "spec.support.shell"

local tlua <const> = shell.ok("realpath " .. shell.quote(shell.tlua)):match "[^\n]+"

-- Whether a sanitizer or valgrind watches the program. These need more stack and more open files, so some tests are
-- skipped.
local watched <const> = os.getenv "SPEC_SANITIZED" == "1" or (os.getenv "SPEC_WRAP" or "") ~= ""

-- A program with the deepest recursion through C functions that Lua allows. Its innermost call runs operators of tlua,
-- which need stack, too.
local deep <const> = [[
   local depth = 0
   local function deeper(text)
      depth = depth + 1
      pcall(function() return torch.ones(300, 300):matmul(torch.ones(300, 300)):std() end)
      return (text:gsub("x", deeper))
   end
   local function deepest()
      local ok, message = pcall(deeper, "x")
      assert(not ok and message:find "C stack overflow", message)
      assert(depth > 150, depth)
   end
]]

describe("a limit of the stack", function()
   it("is raised where that is allowed, and does not hold for threads", function()
      if watched then return pending "sanitizers and valgrind need more stack" end
      shell.with_folder(function(folder)
         shell.write(folder .. "/a.lua", deep .. [[
            deepest()
            local set = torch.data.TensorDataset(torch.arange(4))
            for _ in torch.data.DataLoader(set, {num_workers = 2, collate_fn = function(list)
               depth = 0
               deepest()
               return list
            end}):iter() do end
            print "over"]])
         for _, limit in ipairs {64, 256} do
            local output, status = shell.run(("ulimit -Ss %d; %s %s/a.lua"):format(limit, tlua, folder))
            assert.equal(0, status, output)
            assert.equal("over\n", output)
         end
      end)
   end)

   it("that cannot be raised is named", function()
      if watched then return pending "sanitizers and valgrind need more stack" end
      local output, status = shell.run("ulimit -s 256; " .. tlua .. " -e 'print(1)'")
      assert.equal(1, status)
      assert.equal("tlua: the stack is limited to less than 1 MiB: raise the limit (ulimit -s)\n", output)
   end)
end)

describe("a limit of the address space", function()
   it("gives products without OpenBLAS, which would wait for its memory for ever", function()
      if watched then return pending "sanitizers and valgrind need more memory" end
      for _, limit in ipairs {180000, 300000} do
         local output, status = shell.run(("ulimit -v %d; timeout 60 %s -e %s 2>&1"):format(limit, tlua, shell.quote [[
            torch.set_num_threads(1)
            print(torch.ones(1000, 1000):matmul(torch.ones(1000)):sum():item())]]))
         assert.equal("1000000.0\n", output)
         assert.equal(0, status)
      end
   end)
end)

describe("too few open files", function()
   -- Runs a command with limits of 6 to 24 open files, all at the same time. Each run must succeed, or raise an error
   -- that names the limit. Returns the number of failed runs.
   local function with_few_files(command, folder)
      local most = 24
      shell.run(([[cd %s
         for n in $(seq 6 %d); do
            { (ulimit -n $n; exec %s) >$n.out 2>&1 </dev/null; echo "status $?" >$n.status; } &
         done; wait]]):format(folder, most, command))
      local failed = 0
      for n = 6, most do
         local output, status = shell.read(folder .. "/" .. n .. ".out"), shell.read(folder .. "/" .. n .. ".status")
         if status ~= "status 0\n" then
            failed = failed + 1
            assert.equal("status 1\n", status, n .. ": " .. output)
            assert.truthy(output:find "oo many open files" or output:find "ulimit %-n" or
               output:find "file descriptors", n .. ": " .. output)
         end
      end
      return failed, most - 5
   end

   it("are named by the launcher", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            torch.distributed.init_process_group()
            torch.distributed.barrier()]])
      local failed, all = with_few_files(("timeout 100 %s run -n 2 --timeout 10 a.lua"):format(tlua), folder)
      assert(failed > 0 and failed < all, failed)
   end))

   it("are named by spawn", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            torch.multiprocessing.spawn(function()
               torch.distributed.init_process_group()
               torch.distributed.barrier()
            end, {nprocs = 2})]])
      local failed, all = with_few_files(("timeout 100 %s a.lua"):format(tlua), folder)
      assert(failed > 0 and failed < all, failed)
   end))
end)
