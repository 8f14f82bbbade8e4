-- Tests a file that another program truncates while a tensor uses the file's bytes.

local session = require "spec.main.session"

-- Uses only one thread. If another thread read the missing pages, the error would be raised in the main coroutine
-- instead.
local head <const> = [[
torch.set_num_threads(1)
local path = os.tmpname()
torch.save({a = torch.ones(1 << 20), b = torch.ones(1 << 20)}, path)
local t = torch.load(path, {mmap = true})
-- shortens the file in place: opening it for writing truncates it, and the tensor keeps the same file
local function cut(bytes)
   local file = io.open(path, "rb")
   local text = file:read(bytes)
   file:close()
   file = io.open(path, "wb")
   file:write(text)
   file:close()
end
cut(1 << 16)
]]

describe("a mapped file that was cut", function()
   it("raises an error at the line that reads it, and the program goes on", function()
      local result = session.script(head .. [[
         local ok, message = pcall(function() local s = t.b:sum() return s end)
         print(ok, message)
         print(t.a[1]:item(), pcall(function() local s = t.a:clone() return s end))
         print(pcall(coroutine.wrap(function() return (t.a + 0):sum():item() end)))
         os.remove(path)]])
      assert.equal("", result.err)
      assert.equal(0, result.status)
      local lines = {}
      for line in result.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
      assert.matches("^false\t[^\n]*script.lua:%d+: a file has become shorter while it was mapped", lines[1])
      assert.matches("^1.0\tfalse\t[^\n]*a file has become shorter", lines[2])
      assert.matches("^true\t%d", lines[3]) -- the missing pages read as zeros
   end)

   it("raises an error in a coroutine, and ends a program that does not catch it", function()
      local result = session.script(head .. [[
         os.remove(path)
         print(coroutine.resume(coroutine.create(function() return t.b:sum():item() end)))
         local s = t.a:sum()
         print(s)]])
      assert.matches("^false\t[^\n]*a file has become shorter[^\n]*\n$", result.out)
      assert.matches("script.lua:%d+: a file has become shorter", result.err)
      assert.equal(1, result.status)
   end)

   it("raises an error if many threads read it", function()
      local result = session.script(head:gsub("1%)", "4)", 1) .. [[
         os.remove(path)
         print(pcall(function() local s = t.b:sum() return s end))]])
      assert.matches("^false\t[^\n]*a file has become shorter", result.out)
      assert.equal(0, result.status)
   end)

   it("is named in the error if a line writes its elements", function()
      local result = session.script(head .. [[
         local copy = io.open(path .. ".copy", "wb")
         copy:setvbuf "no" -- without a buffer, the call write() of the system reads the mapped elements
         print(torch.io.write(copy, t.a))
         copy:close()
         print(pcall(torch.save, {b = t.b}, path .. ".safetensors"))
         print(io.open(path .. ".safetensors"))
         os.remove(path .. ".copy")
         os.remove(path)
         print(path)]])
      local path = result.out:match "(%S+)\n$"
      assert.matches("^nil\tthe tensor's elements are in the mapped file " .. path
         .. ", which has become shorter: those behind its end are lost\n", result.out)
      assert.matches("a file has become shorter while it was mapped, " .. path .. ": what", result.out, 1, true)
      assert.matches("\nnil\t", result.out)
      assert.equal(0, result.status)
   end)

   it("lets any other SIGBUS end the process", function()
      local result = session.script [[
         local pid = io.popen("echo $PPID"):read("n")
         os.execute("kill -BUS " .. pid)
         for _ = 1, 1e9 do end
         print "alive"]]
      assert.equal("", result.out)
      assert.is_true(result.status ~= 0)
   end)
end)
