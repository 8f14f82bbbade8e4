-- Tests Torch7's files and the .t7 format.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"

local function data()
   local x = torch.range(1, 6):resize(2, 3)
   local list = {1, 2.5, "text\n", true, false, x = x, row = x[2], longs = torch.LongTensor {1, 2 ^ 40},
      bytes = torch.ByteTensor {1, 255}, empty = torch.Tensor(), float = torch.FloatTensor {0.1},
      turned = x:t(), size = x:size(), chars = torch.CharStorage():string "abc"}
   list.itself = list
   return list
end

describe("Torch7's format", function()
   for _, format in ipairs {"binary", "ascii", "b32", "b64"} do
      it("keeps values, sharing and loops as " .. format, function()
         local object = data()
         if format == "b32" then object.longs = torch.LongTensor {1, 2} end
         local read = torch.deserialize(torch.serialize(object, format), format)
         assert.same({1, 2.5, "text\n", true, false}, table.move(read, 1, 5, 1, {}))
         assert.equal("integer", math.type(read[1]))
         assert.equal(read, read.itself)
         assert.same(object.x:totable(), read.x:totable())
         assert.same(object.turned:totable(), read.turned:totable())
         assert.same(object.longs:totable(), read.longs:totable())
         assert.same({1, 255}, read.bytes:totable())
         assert.equal(0, read.empty:dim())
         assert.equal("torch.FloatTensor", read.float:type())
         assert.equal(object.float[1], read.float[1])
         assert.same({2, 3}, read.size:totable())
         assert.equal("abc", read.chars:string())
         read.x[2][1] = 77
         assert.equal(77.0, read.row[1])
         assert.equal(77.0, read.turned[1][2])
      end)
   end

   it("is as the documents describe it", function()
      assert.equal("1\n3.5\n", torch.serialize(3.5, "ascii"))
      assert.equal("2\n2\nhi\n", torch.serialize("hi", "ascii"))
      assert.equal("5\n1\n", torch.serialize(true, "ascii"))
      assert.equal("3\n1\n1\n1\n1\n2\n1\nb\n", torch.serialize({"b"}, "ascii"))
      assert.equal("4\n1\n3\nV 1\n17\ntorch.FloatTensor\n1\n2\n1\n1\n4\n2\n3\nV 1\n18\ntorch.FloatStorage\n2\n1 2\n",
         torch.serialize(torch.FloatTensor {1, 2}, "ascii"))
      assert.equal("\1\0\0\0" .. string.pack("<d", 2), torch.serialize(2))
   end)

   it("reads Cuda's and cudnn's names, unknown classes and functions without running code", function()
      local x = torch.deserialize("4\n1\n3\nV 1\n16\ntorch.CudaTensor\n1\n2\n1\n1\n4\n2\n3\nV 1\n17\n"
         .. "torch.CudaStorage\n2\n1 2\n", "ascii")
      assert.same({1.0, 2.0}, x:float():totable())
      local layer = torch.deserialize("4\n1\n3\nV 1\n10\ncudnn.ReLU\n3\n2\n0\n", "ascii")
      assert.equal("nn.ReLU", torch.type(layer))
      local unknown = torch.deserialize("4\n1\n3\nV 1\n7\nno.Such\n3\n2\n1\n2\n1\na\n1\n5\n", "ascii")
      assert.same({__typename = "no.Such", a = 5}, unknown)
      for _, text in ipairs {"8\n1\n3\nabc\n3\n2\n0\n", "7\n1\n3\nabc\n3\n2\n0\n", "6\n3\nabc\n3\n2\n0\n"} do
         local stub = torch.deserialize(text, "ascii")
         assert.raises("saved as code", function() stub() end)
      end
      local object = torch.deserialize(torch.serialize {f = function() error "ran" end})
      assert.raises("saved as code", function() object.f() end)
   end)

   it("keeps modules, with their shared parameters, and classes of programs", function()
      local a = nn.Linear(2, 2)
      local model = nn.Sequential():add(a):add(nn.Tanh()):add(a:clone("weight", "bias"))
      local x = torch.randn(3, 2)
      local y = model:forward(x):clone()
      local path = os.tmpname()
      torch.save(path, model)
      local read = torch.load(path)
      os.remove(path)
      assert.is_true((read:forward(x) - y):abs():max() < 1e-12)
      read:get(1).weight:fill(0)
      assert.equal(0.0, read:get(3).weight:norm())
      local Own = torch.class("SpecStored", {})
      function Own:__init(n) self.n = n end
      function Own:write(file) file:writeObject(self.n * 2) end
      function Own:read(file) self.n = file:readObject() end
      assert.equal(6, torch.deserialize(torch.serialize(Own(3))).n)
   end)

   it("refuses unsupported contents, by name", function()
      local function refused(message, text, format)
         assert.raises(message, function() torch.deserialize(text, format or "ascii") end)
      end
      refused("unknown type 99", "99\n")
      refused("expected 1 numbers", "")
      refused("a table of 1000000 fields", "3\n1\n1000000\n")
      refused("expected 2000000000 bytes", "2\n2000000000\nx\n")
      refused("expected -5 bytes", "2\n-5\nx\n")
      refused("a tensor that ends at element 9 of a storage of 2",
         "4\n1\n3\nV 1\n17\ntorch.FloatTensor\n1\n9\n1\n1\n4\n2\n3\nV 1\n18\ntorch.FloatStorage\n2\n1 2\n")
      refused("with a storage of type boolean", "4\n1\n3\nV 1\n17\ntorch.FloatTensor\n1\n9\n1\n1\n5\n1\n")
      refused("values within one another", "3\n1\n1\n" .. (function()
         local parts = {}
         for i = 2, 3000 do parts[i - 1] = ("1\n1\n3\n%d\n1\n"):format(i) end
         return table.concat(parts)
      end)())
   end)

   it("survives changed bytes: each file is read, or refused with an error", function()
      local seed = 12345
      local function random(n)
         seed = (seed * 1103515245 + 12345) % 2147483648
         return seed // 65536 % n + 1
      end
      local rounds = tonumber(os.getenv "T7_MUTATIONS") or 1500
      local texts = {torch.serialize(data()), torch.serialize(data(), "ascii"),
         torch.serialize(nn.Sequential():add(nn.Linear(2, 2)):add(nn.Tanh()))}
      local read, refused = 0, 0
      for i = 1, rounds do
         local k = i % 3 + 1
         local bytes = {texts[k]:byte(1, -1)}
         for _ = 1, random(3) do bytes[random(#bytes)] = random(4) == 1 and random(256) - 1 or random(12) - 1 end
         local text = string.char(table.unpack(bytes)):sub(1, random(8) == 1 and random(#bytes) or -1)
         local good, result = pcall(torch.deserialize, text, k == 2 and "ascii" or "binary")
         if good then
            read = read + 1
         else
            refused = refused + 1
            assert.equal("string", type(result))
         end
      end
      assert.equal(rounds, read + refused)
      assert.is_true(read > 0 and refused > 0)
   end)
end)

describe("Torch7's files", function()
   it("write and read numbers, storages and text", function()
      for _, mode in ipairs {"ascii", "binary"} do
         local file = torch.MemoryFile()
         file[mode](file)
         file:writeInt(-5)
         file:writeDouble(0.1)
         file:writeLong(torch.LongStorage {1, 2 ^ 33})
         file:writeByte(200)
         file:writeString "line one\nline two\n"
         file:seek(1)
         assert.equal(-5, file:readInt())
         assert.equal(0.1, file:readDouble())
         assert.same({1, 2 ^ 33}, file:readLong(2):totable())
         assert.equal(200, file:readByte())
         assert.equal("line one", file:readString "*l")
         assert.matches("^line two\n", file:readString "*a")
         assert.equal(file:storage():size(), file:position())
      end
   end)

   it("report errors, or note them in quiet mode", function()
      local file = torch.MemoryFile "r"
      assert.raises("expected 1 numbers", function() file:readInt() end)
      file:quiet()
      file:clearError()
      assert.equal(0, file:readInt())
      assert.is_true(file:hasError())
      file:close()
      assert.is_false(file:isOpened())
      assert.raises("the file is closed", function() file:readInt() end)
      assert.raises("not writable", function() torch.MemoryFile("r"):writeInt(1) end)
      assert.raises("the file is closed", function() file:synchronize() end)
      local binary = torch.MemoryFile "rw":binary()
      assert.raises("writeByte: expected a number from 0 to 255, got 300", function() binary:writeByte(300) end)
      assert.raises("writeInt: expected a number from -2147483648 to 2147483647, got 1e+30",
         function() binary:writeInt(1e30) end)
      assert.raises("writeString: expected a string, got table", function() binary:writeString {} end)
      binary:writeByte(255)
      binary:writeLong(-1.5) -- a number is rounded downwards
      binary:seek(1)
      assert.equal(255, binary:readByte())
      assert.equal(-2, binary:readLong())
      assert.raises("readInt: expected a number or a storage, got string", function() binary:readInt "x" end)
      assert.raises("torch.deserializeFromStorage: expected a CharStorage, got number",
         function() torch.deserializeFromStorage(5) end)
      assert.raises("No such file", function() torch.DiskFile("/no/such/file") end)
      assert.is_nil(torch.DiskFile("/no/such/file", "r", true)) -- the manual's page on DiskFile promises nil
   end)

   it("are on disk, change in both encodings, and are commands' pipes", function()
      local path = os.tmpname()
      local file = torch.DiskFile(path, "w"):binary():bigEndianEncoding()
      file:writeInt(1)
      file:writeInt(torch.IntStorage {2, 3})
      file:close()
      file = torch.DiskFile(path, "rw"):binary()
      assert.equal(1 << 24, file:readInt())
      file:bigEndianEncoding()
      assert.same({2, 3}, file:readInt(2):totable())
      file:seek(5)
      file:writeInt(9)
      file:close()
      file = torch.DiskFile(path):binary():bigEndianEncoding()
      assert.same({1, 9, 3}, file:readInt(3):totable())
      file:close()
      os.remove(path)
      assert.equal("7 8", torch.PipeFile("echo 7 8"):readString "*l")
   end)
end)

describe("Torch7's command line", function()
   it("refuses wrong arguments, and then still prints", function()
      local cmd, shown = torch.CmdLine(), print
      assert.raises("CmdLine:option: name: expected a string, got number", function() cmd:option(5) end)
      assert.raises("CmdLine:argument: name: expected a string, got nil", function() cmd:argument() end)
      assert.raises("CmdLine:parse: list: expected a table, got number", function() cmd:parse(5) end)
      assert.raises("CmdLine:string: params: expected a table, got nil", function() cmd:string "x" end)
      assert.raises("CmdLine:log: path: expected a path or an open file, got number", function() cmd:log(5) end)
      assert.equal(shown, print)
   end)

   local function new()
      local cmd = torch.CmdLine()
      cmd:text "A program"
      cmd:option("-size", 10, "its size")
      cmd:option("-fast", false, "whether it is fast")
      cmd:option("-name", "x", "its name")
      cmd:argument("file", "a file")
      return cmd
   end

   it("reads options with their types, and names experiments", function()
      local params = new():parse {"-size", "12", "in.t7", "-fast", "-name", "y"}
      assert.same({size = 12, fast = true, name = "y", file = "in.t7"}, params)
      assert.equal("run,file=in.t7,fast=t,name=y", new():string("run", params, {size = true}))
      assert.equal("run,name=x", new():string("run", {size = 10, name = "x"}, {name = false}))
      assert.same({size = 10, fast = false, name = "x"}, new():default())
      assert.same({size = 10, fast = false, name = "x", file = "f"}, new():parse {"f"})
   end)
end)

it("Torch7's tester counts assertions, and raises if a test fails", function()
   local shell = require "spec.support.shell"
   local text = shell.ok(("%s --torch7 -e %s"):format(shell.start(), shell.quote [[
      local tester, suite = torch.Tester(), torch.TestSuite()
      function suite.good()
         tester:eq(1, 1)
         tester:eq(torch.ones(2), torch.ones(2))
         tester:ne({1, 2}, {1, 3})
         tester:assertlt(1, 2)
         tester:assertTensorEq(torch.ones(2), torch.ones(2) + 1e-9, 1e-6)
         tester:assertError(error)
         tester:assertErrorPattern(function() error "some text" end, "text")
      end
      print(pcall(function() function suite.good() end end))
      tester:add(suite)
      tester:setSummaryOnly(true)
      tester:run()
      print(tester.countasserts)
      tester:add(function() tester:eq(1, 2) end, "bad")
      print(pcall(tester.run, tester))
      print(#tester.failures)
      tester:disable "bad"
      tester:run()
      print(#tester.failures)]]))
   for _, part in ipairs {"TestSuite: Test good is already defined.", " [PASS]\nCompleted 7 asserts in 1 test ",
      "\n7\n",
      "An error was found while running tests!\n1\n", "0 failures and 0 errors and 1 disabled\n0\n"} do
      assert.matches(part, text, 1, true)
   end
end)

it("Torch7's tester reports as its document shows", function()
   local shell = require "spec.support.shell"
   local text, status = shell.run(("%s --torch7 -e %s"):format(shell.start(), shell.quote [[
      local tester, suite, order = torch.Tester(), torch.TestSuite(), {}
      function suite.testA() tester:eq(torch.Tensor {1, 2, 3}, torch.Tensor {1, 2, 4}, "a and b") end
      function suite.testB() tester:eq({2, torch.Tensor {1}}, {2, torch.Tensor {1.001}}, 0.01, "close") end
      function suite.testC() tester:assertNoError(function() return "hello " .. world end, "no error") end
      function suite.testD() tester:asserteq(torch.ones(1), torch.ones(1), "the same object") end
      function suite.testE() error "it broke" end
      function suite.testF() end
      tester:add(suite):disable "testF"
      tester:add(function(name) order[#order + 1] = "+" .. name end, "_setUp")
      tester:add(function(name) order[#order + 1] = "-" .. name end, "_tearDown")
      pcall(tester.run, tester)
      print(#order, order[1], order[2])
      torch.Tester():add(function() end, "one"):run "on"]]))
   assert.equal(0, status)
   for _, part in ipairs {"Running 6 tests\n1/6 testA ", ("."):rep(63) .. " [FAIL]\n2/6 testB ", "3/6 testC ",
      " [ERROR]\n6/6 testF ", " [SKIP]\nCompleted 4 asserts in 6 tests with 3 failures and 1 error and 1 disabled\n",
      "a and b\nthe largest difference is 1, the tolerance 0\n", "no error\ngot an error: ", "the same object\n",
      "testE\n", "it broke", "9\t+testA\t-testA\n",
      "Running 1 test\n1/1 one ", "Completed 0 asserts in 1 test with 0 failures and 0 errors\n"} do
      assert.matches(part, text, 1, true)
   end
end)

it("a MemoryFile writes into the storage that it was given", function()
   local storage = torch.CharStorage():string "old"
   local file = torch.MemoryFile(storage, "w"):noAutoSpacing()
   file:writeString "hello"
   assert.equal("hello\0", file:storage():string())
   file:writeString " you"
   file:close()
   assert.equal("hello you\0", storage:string())
   assert.equal("hello you", torch.MemoryFile(storage, "r"):readString "*a")
   local both = torch.MemoryFile(torch.CharStorage():string "1 2", "rw")
   assert.equal(1, both:readInt())
end)

it("modules read and write files by methods that call those of nn.Module", function()
   local Counted, parent = torch.class("nn.SpecCounted", "nn.Linear")
   function Counted:write(file)
      file:writeInt(7)
      parent.write(self, file)
   end
   function Counted:read(file, version)
      self.count = file:readInt()
      parent.read(self, file, version)
   end
   local module, x = nn.Sequential():add(nn.SpecCounted(3, 2)), torch.ones(3)
   for _, format in ipairs {"binary", "ascii"} do
      local loaded = torch.deserialize(torch.serialize(module, format), format)
      assert.equal(7, loaded:get(1).count)
      assert.same(module:forward(x):totable(), loaded:forward(x):totable())
   end
   local lie = torch.MemoryFile()
   lie:writeInt(7)
   lie:writeObject "text"
   lie:seek(1)
   local good, problem = pcall(module:get(1).read, nn.SpecCounted(1, 1), lie)
   assert.is_false(good)
   assert.matches("nn.SpecCounted: read: expected a table of fields, got string", problem, 1, true)
   for _, method in ipairs {"read", "write"} do
      assert.raises(("nn.Linear: %s: file: expected a file of Torch7, got nil"):format(method),
         function() parent[method](torch.factory "nn.Linear"()) end)
   end
end)
