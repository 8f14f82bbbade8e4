-- Tests how torch.save replaces an existing file: which kinds of files may be replaced, which properties of the file
-- are kept, and what a failure leaves behind.

local shell = require "spec.support.shell"
local torch = require "tlua"

local tlua, quote = shell.start(), shell.quote

local folder
before_each(function() folder = shell.ok("mktemp -d"):match("[^\n]+") end)
after_each(function() shell.ok("rm -rf " .. quote(folder)) end)

local function path(name) return folder .. "/" .. name end

-- Returns the names of all files in the folder, including hidden files.
local function names()
   local found = {}
   for name in shell.ok("ls -A " .. quote(folder)):gmatch("[^\n]+") do found[#found + 1] = name end
   return found
end

local function stat(format, name)
   return shell.ok(("stat -c %s %s"):format(format, quote(path(name)))):match("[^\n]+")
end

-- Saves a tensor with the given value to the file `name`. Returns whether the file then contains the value.
local function save(name, value)
   torch.save(torch.tensor {value}, path(name))
   return torch.load(path(name))[1]:item() == value
end

describe("torch.save over a file", function()
   it("keeps the file's mode", function()
      for _, mode in ipairs {"600", "644", "640", "755", "4711"} do
         save("x", 1)
         shell.ok(("chmod %s %s"):format(mode, quote(path "x")))
         assert.is_true(save("x", 2))
         assert.equal(mode, stat("%a", "x"))
      end
      assert.same({"x"}, names())
   end)

   it("gives a new file the mode of the umask", function()
      for umask, mode in pairs {["022"] = "644", ["077"] = "600", ["002"] = "664"} do
         shell.ok(("cd %s; umask %s; %s -e 'torch.save({}, \"new%s\")'"):format(quote(folder), umask,
            shell.start(true), umask))
         assert.equal(mode, stat("%a", "new" .. umask))
      end
   end)

   it("keeps the file's owner, if it may", function()
      if shell.ok("id -u") ~= "0\n" then return pending("needs root") end
      save("x", 1)
      if select(2, shell.run("chown 12345:54321 " .. quote(path "x"))) ~= 0 then
         return pending "needs a root that knows other users" -- a container may not allow root to call chown
      end
      assert.is_true(save("x", 2))
      assert.equal("12345:54321", stat("%u:%g", "x"))
   end)

   it("replaces the target of a link, not the link", function()
      shell.ok(("cd %s; mkdir a b; ln -s ../b/file a/link; ln -s a/link link; ln -s %s/b/file absolute")
         :format(quote(folder), quote(folder)))
      assert.is_true(save("link", 1)) -- the file that the link names does not exist yet
      assert.is_true(save("link", 2))
      assert.equal(2, torch.load(path "b/file")[1]:item())
      assert.is_true(save("absolute", 3))
      assert.equal(3, torch.load(path "a/link")[1]:item())
      assert.equal("symbolic link", stat("%F", "link"))
      assert.equal("symbolic link", stat("%F", "a/link"))
      assert.equal("regular file", stat("%F", "b/file"))
      shell.ok(("cd %s; ln -s one two; ln -s two one"):format(quote(folder)))
      local circle = path "one"
      assert.raises("save: ", circle, "symbolic links", function() torch.save({}, circle) end)
   end)

   it("works in the current folder", function()
      shell.ok(("cd %s; for i in 1 2; do %s -e 'torch.save({1}, \"here\")'; done"):format(quote(folder),
         shell.start(true)))
      assert.same({"here"}, names())
   end)
end)

describe("torch.save to a path that is not a file", function()
   it("writes into a pipe", function()
      shell.ok(("cd %s; mkfifo pipe; (cat pipe >part; mv part copy) >/dev/null 2>&1 &"):format(quote(folder)))
      torch.save({x = torch.tensor {5, 6}}, path "pipe")
      shell.ok(("cd %s; until [ -e copy ]; do sleep 0.01; done"):format(quote(folder)))
      assert.same({5, 6}, torch.load(path "copy").x:tolist())
      assert.equal("fifo", stat("%F", "pipe"))
   end)

   it("writes into devices", function()
      torch.save({1}, "/dev/null")
      assert.equal("character special file\n", shell.ok("stat -c %F /dev/null"))
      assert.raises("save: /dev/full: No space left on device",
         function() torch.save({torch.zeros(10000)}, "/dev/full") end)
      assert.equal("character special file\n", shell.ok("stat -c %F /dev/full"))
   end)

   it("writes to the standard output", function()
      shell.ok(("%s -e 'torch.save({7}, \"/dev/stdout\")' >%s"):format(tlua, quote(path "out")))
      shell.ok(("%s -e 'torch.save({8}, \"/dev/stdout\")' | cat >%s"):format(tlua, quote(path "cat")))
      assert.equal(7, torch.load(path "out")[1])
      assert.equal(8, torch.load(path "cat")[1])
   end)

   it("refuses a folder by name", function()
      local file = path "folder"
      shell.ok("mkdir " .. quote(file))
      assert.raises("save: " .. file .. ": Is a directory", function() torch.save({}, file) end)
      file = folder .. "/none/x"
      assert.raises("save: " .. file .. ": No such file", function() torch.save({}, file) end)
      file = folder .. "/x\0y"
      assert.raises("save: path: a byte 0", function() torch.save({}, file) end)
      assert.raises("load: path: a byte 0", function() torch.load(file) end)
      assert.same({"folder"}, names())
   end)
end)

describe("a failure of torch.save", function()
   it("leaves the old file and no other", function()
      save("x", 1)
      local too_large = [[
         torch.set_num_threads(1)
         local ok, message = pcall(torch.save, torch.zeros(1000000), arg[1])
         io.stdout:write(message)
      ]]
      shell.write(path "script.lua", too_large)
      local output = shell.ok(("trap '' XFSZ; ulimit -f 64; %s %s %s"):format(tlua,
         quote(path "script.lua"), quote(path "x")))
      assert.matches("save: " .. path "x" .. ": File too large", output, 1, true)
      assert.equal(1, torch.load(path "x")[1]:item())
      assert.same({"script.lua", "x"}, names())
   end)

   it("leaves the old file after an error in Lua", function()
      save("x", 1)
      local ok = pcall(function()
         local file <close> = assert(torch.io.replace(path "x"))
         file:write("half a file")
         error("stopped")
      end)
      assert.is_false(ok)
      assert.same({"x"}, names())
      do
         local file = assert(torch.io.replace(path "x"))
         file:write("half a file")
         file:close()
         assert.raises("closed", function() torch.io.commit(file) end)
      end
      torch.io.replace(path "x"):write("half a file")
      collectgarbage()
      collectgarbage()
      assert.equal(1, torch.load(path "x")[1]:item())
      assert.same({"x"}, names())
      local other <close> = assert(io.open(path "x"))
      assert.raises("io.commit: expected a file that io.replace has made", function() torch.io.commit(other) end)
      assert.raises("io.replace: expected a path, got nothing", function() torch.io.replace() end)
   end)

   it("leaves no file after a signal, if the system supports files without names", function()
      -- Some file systems, such as older ones in containers, do not support unnamed files. spec/core/replace_test.c
      -- tests how a failure leaves files on them.
      do
         local file <close> = assert(torch.io.replace(path "try"))
         file:write "1"
         local nameless = #names() == 0
         file:close()
         if not nameless and not shell.python(("import os; os.open(%q, os.O_TMPFILE | os.O_RDWR)"):format(folder)) then
            return pending "needs files without names"
         end
      end
      save("x", 1)
      shell.write(path "script.lua", [[
         local file = assert(torch.io.replace(arg[1]))
         assert(file:write(("half"):rep(100000)))
         file:flush()
         os.execute("kill -9 $PPID")
      ]])
      local _, status = shell.run(("%s %s %s"):format(tlua, quote(path "script.lua"), quote(path "x")))
      assert.equal(137, status)
      assert.equal(1, torch.load(path "x")[1]:item())
      assert.same({"script.lua", "x"}, names())
   end)
end)
