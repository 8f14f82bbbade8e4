-- Tests files that torch.save writes for PyTorch. Python's own library reads them (unpickle.py). If PYTHON names a
-- Python that has PyTorch, PyTorch reads them too. Also tests torch.load with PyTorch's files.

local torch = require "tlua"
local shell = require "spec.support.shell"
local sorted = require "spec.support.sorted"

local path
before_each(function() path = os.tmpname() .. ".pt" end)
after_each(function() os.remove(path) end)

local plain_python = shell.python "import zipfile, pickletools"
local pytorch = shell.python "import torch"

-- Saves an object, and returns the text that unpickle.py prints for the file.
local function unpickled(object)
   torch.save(object, path)
   local text = shell.ok(("%s spec/fixtures/formats/unpickle.py %s"):format(plain_python, shell.quote(path)))
   return text:match "^(.*)\n(%d+) storages\n$"
end

-- Runs a line of Python and returns its output. In the line, d is the object that PyTorch has read from the file with
-- weights_only=True.
local function in_pytorch(code)
   return shell.ok(("%s -c %s %s"):format(pytorch, shell.quote("import sys, torch\n"
      .. "d = torch.load(sys.argv[1], weights_only=True)\n" .. code), shell.quote(path)))
end

local function round_trip(object, options)
   torch.save(object, path)
   return torch.load(path, options)
end

describe("torch.save to a .pt file", function()
   it("writes plain data as Python's", function()
      if not plain_python then return pending "needs Python 3" end
      local function check(expected, value) assert.equal(expected, (unpickled(value))) end
      check("[1, 2.5, 'x', True]", {1, 2.5, "x", true})
      check("{0: 'a', 2: [False]}", {[0] = "a", [2] = {false}})
      check("{1: 'a', 3: 'b', 'x': 'c'}", {"a", [3] = "b", x = "c"})
      check("{1: 'a', 2: 'b'}", torch.io.as_dict {"a", "b"})
      check("{'list': [], 'table': {}}", {list = torch.io.as_list {}, table = {}})
      check("[1099511627776, -5, inf, nan]", {1 << 40, -5, math.huge, 0 / 0})
      check("{1.5: 2, True: 1}", {[true] = 1, [1.5] = 2})
      check("'\\xe4'", "ä")
      check("[b'\\xff\\x00x', b'\\xff\\x00x']", {"\255\0x", "\255\0x"})
      check("None", require "tlua.utils.json".null)
      check("9223372036854775807", math.maxinteger)
   end)

   it("writes tensors of every dtype, shape and order", function()
      if not plain_python then return pending "needs Python 3" end
      local x = torch.arange(0, 6):view(2, 3)
      local function check(expected, tensor) assert.equal(expected, (unpickled(tensor))) end
      check("T(LongStorage, 0, 0, (2, 3), (3, 1), False) [0, 1, 2, 3, 4, 5]", x)
      check("T(LongStorage, 0, 0, (3, 2), (1, 3), False) [0, 3, 1, 4, 2, 5]", x:t())
      check("T(LongStorage, 0, 0, (2,), (3,), False) [1, 4]", x[{{}, 2}])
      check("T(FloatStorage, 0, 0, (), (), False) [2.5]", torch.tensor(2.5))
      check("T(FloatStorage, 0, 0, (0, 3), (3, 1), False) []", torch.empty(0, 3))
      check("T(FloatStorage, 0, 0, (3,), (0,), False) [1.0, 1.0, 1.0]", torch.ones(1):expand(3))
      check("T(BoolStorage, 0, 0, (2,), (1,), False) [True, False]", torch.tensor {true, false})
      check("T(BFloat16Storage, 0, 0, (1,), (1,), False) [16256]", torch.ones(1):bfloat16())
      check("T(FloatStorage, 0, 0, (1,), (1,), True) [1.0]", torch.ones(1, {requires_grad = true}))
      check("P(T(FloatStorage, 0, 0, (1,), (1,), False) [1.0], True)", torch.nn.Parameter(torch.ones(1)))
      check("OrderedDict{'a': T(FloatStorage, 0, 0, (1,), (1,), False) [1.0]}", {a = torch.ones(1)})
      for dtype, storage in sorted {float16 = "Half", float32 = "Float", float64 = "Double", int8 = "Char",
         int16 = "Short", int32 = "Int", int64 = "Long", uint8 = "Byte"} do
         local number = dtype:find "float" and "2.0" or "2"
         check(("T(%sStorage, 0, 0, (1,), (1,), False) [%s]"):format(storage, number),
            torch.full({1}, 2, {dtype = dtype}))
      end
   end)

   it("writes the shape of a tensor without dimensions as an empty list", function()
      torch.save({shape = torch.tensor(1.0).shape}, path)
      assert.equal(0, #torch.load(path).shape)
   end)

   it("writes shared memory once", function()
      if not plain_python then return pending "needs Python 3" end
      local x = torch.arange(0, 1000):float()
      local a, b = x:narrow(1, 11, 4), x:narrow(1, 13, 2)
      local text, storages = unpickled {a, b, b, x:narrow(1, 901, 1)}
      assert.equal("2", storages) -- the elements 11 to 14 share one storage, and 901 is in a second storage
      assert.equal("[T(FloatStorage, 0, 0, (4,), (1,), False) [10.0, 11.0, 12.0, 13.0], "
         .. "T(FloatStorage, 0, 2, (2,), (1,), False) [12.0, 13.0], "
         .. "T(FloatStorage, 0, 2, (2,), (1,), False) [12.0, 13.0], "
         .. "T(FloatStorage, 1, 0, (1,), (1,), False) [900.0]]", text)
      assert.truthy(#shell.read(path) < 2000)
      local loaded = torch.load(path)
      loaded[1][3] = 7
      assert.equal(7, loaded[2][1]:item())
      assert.equal(loaded[2], loaded[3])
      -- two tensors of different dtypes that share memory
      local bytes = torch.io.bytes(("<ff"):pack(1, 2))
      text = unpickled {torch.frombuffer(bytes, {dtype = "float32"}), bytes}
      assert.matches("T(FloatStorage, 0, 0, (2,), (1,), False) [1.0, 2.0], T(ByteStorage, 1, 0, (8,)", text, 1, true)
   end)

   it("writes a table once that occurs twice, and the same bytes for the same object", function()
      local inner = {1}
      local loaded = round_trip {a = inner, b = inner, c = torch.ones(2)}
      assert.equal(loaded.a, loaded.b)
      local before = shell.read(path)
      torch.save({c = torch.ones(2), b = inner, a = inner}, path)
      assert.equal(before, shell.read(path))
   end)

   it("names a value that cannot be saved, and its place, and keeps the old file", function()
      torch.save({1}, path)
      local function refused(message, object)
         assert.raises("save: " .. path .. ": " .. message, function() torch.save(object, path) end)
         assert.same({1}, torch.load(path))
      end
      refused("a.2: a function cannot be saved", {a = {1, print}})
      refused("m: an instance of nn.ReLU cannot be saved; save its state", {m = torch.nn.ReLU()})
      local loop = {}
      loop.inner = {loop}
      refused("inner.1: the table contains itself", loop)
      refused("a table as a key cannot be saved", {[{}] = 1})
      refused("x: keys that are equal in Python, true and 1 or false and 0", {x = {[true] = 1, [1] = 2, [3] = 1}})
      assert.raises("metadata: only .safetensors files have a place for them",
         function() torch.save({1}, path, {metadata = {a = "b"}}) end)
   end)

   it("takes float8 and wide unsigned integers, as PyTorch's files have them", function()
      local d = torch.load "spec/fixtures/formats/stored.pt"
      assert.is_true(d.e4m3.is_parameter)
      local function check(read)
         assert.same({"float8_e4m3fn", "uint16", "uint64"}, {read.e4m3.dtype, read.uint16.dtype, read.uint64.dtype})
         assert.same({1, 448}, read.e4m3:float():tolist())
         assert.same({0, 1, 65535}, read.uint16:tolist())
         assert.same({{1}, {-1}}, read.uint64:view "int64":tolist())
         read.part[1] = 7
         assert.equal(7, read.uint16[2]:item())
         read.part[1] = 1
      end
      check(d)
      check(round_trip(d))
      check(round_trip(d, {map_location = "sim"}))
      if pytorch then
         assert.equal("torch.uint16 [0, 1, 65535] [1, 65535] [[1], [18446744073709551615]] [1.0, 448.0] True\n",
            in_pytorch("print(d['uint16'].dtype, d['uint16'].tolist(), d['part'].tolist(), d['uint64'].tolist(), "
               .. "d['e4m3'].tolist(), type(d['e4m3']) is torch.nn.Parameter)"))
      end
      for dtype in ("float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu uint32"):gmatch "%S+" do
         local x = torch.tensor {1.0, 2.0}:to(dtype)
         assert.equal(dtype, round_trip(x).dtype)
         assert.same({1, 2}, torch.load(path):float():tolist())
      end
   end)

   it("refuses masked tensors", function()
      local m = torch.masked.masked_tensor(torch.ones(2), torch.tensor {true, false})
      for _, name in ipairs {path, path .. ".st", path .. ".npz"} do
         assert.raises("m: a masked tensor cannot be saved; save the tensors that it is made of",
            function() torch.save({m = m}, name) end)
      end
   end)

   it("takes tensors of another device", function()
      local x = torch.arange(0, 4):float():to "sim"
      local loaded = round_trip {x, x:narrow(1, 3, 2)}
      assert.equal(torch.device "cpu", loaded[1].device)
      assert.same({0, 1, 2, 3}, loaded[1]:tolist())
      loaded[1][3] = 9
      assert.same({9, 3}, loaded[2]:tolist())
   end)

   it("is read by PyTorch", function()
      if not pytorch then return pending "needs Python 3 with PyTorch; PYTHON names it" end
      local x = torch.arange(0, 6):view(2, 3):float()
      torch.save({
         x = x, t = x:t(), row = x[2], bits = torch.tensor {true, false}, half = x:half(),
         brain = x:bfloat16(), scalar = torch.tensor(3), none = torch.empty(0, 2, {dtype = "int8"}),
         parameter = torch.nn.Parameter(x), list = {1, "two", {3.5}}, ids = {[0] = "a", [2] = "b"},
         bytes = "\255\0", model = torch.nn.Linear(3, 2):state_dict(),
      }, path)
      assert.equal("[0.0, 3.0, 1.0, 4.0, 2.0, 5.0] (1, 3) 3 torch.float16 torch.bfloat16 [True, False] "
         .. "3 torch.Size([0, 2]) torch.int8 Parameter True [1, 'two', [3.5]] {0: 'a', 2: 'b'} b'\\xff\\x00' "
         .. "OrderedDict ['bias', 'weight'] 12\n",
         in_pytorch [[print(d["t"].flatten().tolist(), d["t"].stride(), d["row"].storage_offset(),
            d["half"].dtype, d["brain"].dtype, d["bits"].tolist(), d["scalar"].item(), d["none"].shape,
            d["none"].dtype, type(d["parameter"]).__name__, d["parameter"].requires_grad, d["list"], d["ids"],
            d["bytes"], type(d["model"]).__name__, list(d["model"]), d["row"].data_ptr() - d["t"].data_ptr())
torch.nn.Linear(3, 2).load_state_dict(d["model"])
assert torch.equal(torch.load(sys.argv[1], mmap=True)["x"], d["x"])]])
   end)
end)

describe("torch.load of a .pt file", function()
   it("returns the saved values", function()
      local x = torch.arange(0, 6):view(2, 3)
      local object = {
         epoch = 3, loss = 0.1, best = math.huge, done = false, text = "äß\n", bytes = "\255\0\1",
         sparse = {[1] = "a", [3] = "c", x = true}, [7] = {[0] = 1}, list = {1, {2.0}, "three"},
      }
      assert.same(object, round_trip(object))
      assert.equal("text", round_trip "text")
      assert.is_true(torch.equal(x:t(), round_trip(x:t())))
      assert.same({1, 3}, round_trip(x:t()):stride())
      assert.same({0, 3}, round_trip(torch.empty(0, 3)).shape)
      local parameter = round_trip(torch.nn.Parameter(torch.ones(2)))
      assert.is_true(parameter.is_parameter and parameter.requires_grad)
      assert.is_true(round_trip(torch.ones(2, {requires_grad = true})).requires_grad)
      assert.is_nil(round_trip(require "tlua.utils.json".null))
   end)

   it("puts tensors on the device of map_location, and they go on sharing memory", function()
      local x = torch.arange(0, 4):float()
      local object = {a = x, b = x:narrow(1, 3, 2)}
      for _, where in ipairs {"sim", "sim:0"} do
         local loaded = round_trip(object, {map_location = where})
         assert.equal(torch.device "sim:0", loaded.a.device)
         loaded.a:fill_(5)
         assert.same({5, 5}, loaded.b:tolist())
      end
      assert.equal(torch.device "cpu", round_trip(object, {map_location = {["cuda:1"] = "sim"}}).a.device)
      assert.equal(torch.device "sim:0", round_trip(object, {map_location = {cpu = "sim"}}).b.device)
      assert.equal(torch.device "sim:0", round_trip(object, {device = "sim"}).b.device)
      local seen = {}
      local function place(storage, location)
         seen[#seen + 1] = {storage:numel(), location}
         return storage:to "sim"
      end
      assert.equal(torch.device "sim:0", round_trip(object, {map_location = place}).a.device)
      assert.same({{4, "cpu"}}, seen)
      assert.equal(torch.device "cpu", round_trip(object, {map_location = function() end}).a.device)
      assert.equal(torch.device "sim:0", round_trip(object, {map_location = function() return "sim" end}).a.device)
   end)

   it("takes map_location for other formats", function()
      for _, ending in ipairs {".npy", ".safetensors"} do
         local name = path .. ending
         torch.save(torch.ones(2), name)
         assert.equal(torch.device "sim:0", torch.load(name, {map_location = "sim"}).device)
         assert.equal(torch.device "sim:0", torch.load(name, {map_location = {cpu = "sim"}}).device)
         os.remove(name)
      end
   end)

   it("names the wrong option", function()
      torch.save({torch.ones(1)}, path)
      local function refused(message, options)
         assert.raises("load: " .. message, function() torch.load(path, options) end)
      end
      refused("map_location: expected a device, a table from devices to devices, or a function, got 3",
         {map_location = 3})
      refused("map_location: expected a device such as", {map_location = "gpu"})
      refused("map_location: expected a device such as", {map_location = {cpu = "gpu"}})
      refused("device and map_location are the same", {map_location = "cpu", device = "cpu"})
      refused("weights_only: expected true, got false: loading runs no code of a file", {weights_only = false})
      refused("unknown option map_loc; did you mean map_location?", {map_loc = "cpu"})
      assert.raises("map_location: expected a function that returns its tensor", function()
         torch.load(path, {map_location = function() return torch.ones(3) end})
      end)
      assert.equal(1, torch.load(path, {weights_only = true})[1]:item())
   end)

   it("maps the file, or reads it", function()
      torch.save({torch.arange(0, 4)}, path)
      assert.same({0, 1, 2, 3}, torch.load(path, {mmap = true})[1]:tolist())
      assert.same({0, 1, 2, 3}, torch.load(path, {mmap = false})[1]:tolist())
   end)
end)

it("torch.save to a .png file writes images that torch.load reads", function()
   local name = path .. ".png"
   for channels = 1, 4 do
      local image = torch.randint(0, 256, {channels, 5, 7}):to "uint8"
      torch.save(image, name)
      local ok, loaded = pcall(torch.load, name)
      if not ok and loaded:find("needs lib", 1, true) then return pending(loaded) end
      assert.is_true(torch.equal(image, loaded))
   end
   torch.save(torch.ones(2, 3):to "uint8", name)
   assert.same({1, 2, 3}, torch.load(name).shape)
   local function refused(message, image)
      assert.raises("save: " .. name .. ": a PNG file takes " .. message, function() torch.save(image, name) end)
   end
   refused("uint8 from 0 to 255, got float32; from 0 to 1: (x * 255)", torch.ones(3, 2, 2))
   refused("an image of shape (1 to 4 channels, height, width), got", torch.ones(5, 2, 2):to "uint8")
   refused("a tensor, got a table", {})
   os.remove(name)
end)

describe("torch.save to a .jpg file", function()
   -- Returns a smooth image, which a lossy format changes little.
   local function picture(channels, height, width)
      local rows = torch.linspace(20, 200, height):view(1, height, 1)
      local columns = torch.linspace(0, 50, width):view(1, 1, width)
      local shift = torch.arange(0, channels):view(channels, 1, 1) * 2
      return (rows + columns + shift):to "uint8"
   end

   local function needs_library()
      local ok, message = pcall(torch.io.encode_jpeg, picture(3, 8, 8))
      return not ok and message:find("needs lib", 1, true) and message
   end

   it("writes images that torch.load reads", function()
      if needs_library() then return pending(needs_library()) end
      for _, ending in ipairs {".jpg", ".jpeg", ".JPG"} do
         local name = path .. ending
         for _, channels in ipairs {1, 3} do
            local image = picture(channels, 37, 53)
            torch.save(image, name)
            local loaded = torch.load(name)
            assert.same({channels, 37, 53}, loaded.shape)
            assert.is_true((loaded:int() - image:int()):abs():max():item() <= 4)
         end
         torch.save(picture(1, 9, 7):squeeze(1), name)
         assert.same({1, 9, 7}, torch.load(name).shape)
         os.remove(name)
      end
   end)

   it("is closer to the image at a higher quality, and larger", function()
      if needs_library() then return pending(needs_library()) end
      torch.manual_seed(1)
      local image = torch.randint(0, 256, {3, 64, 64}):to "uint8"
      local function error_at(quality)
         local name = path .. ".jpg"
         torch.save(image, name, {quality = quality})
         local distance = (torch.load(name):float() - image:float()):abs():mean():item()
         os.remove(name)
         return distance, torch.io.encode_jpeg(image, quality):numel()
      end
      local low, small = error_at(10)
      local high, large = error_at(95)
      assert.is_true(high < low and large > 2 * small)
      local default = torch.io.encode_jpeg(image)
      assert.is_true(torch.equal(default, torch.io.encode_jpeg(image, {quality = 75})))
   end)

   it("takes images that are not contiguous, or channels last", function()
      if needs_library() then return pending(needs_library()) end
      local image = picture(3, 16, 24)
      local bytes = torch.io.encode_jpeg(image)
      local last = image:permute({2, 3, 1}):contiguous():permute({3, 1, 2})
      assert.is_true(torch.equal(bytes, torch.io.encode_jpeg(last)))
      assert.equal("\xFF\xD8\xFF", torch.io.text(bytes, 1, 3))
   end)

   it("refuses other images and qualities", function()
      local name = path .. ".jpg"
      local image = torch.zeros(3, 4, 4, {dtype = "uint8"})
      local function refused(message, object, options)
         assert.raises("save: " .. name .. ": " .. message, function() torch.save(object, name, options) end)
      end
      refused("a JPEG file takes an image of shape (1 or 3 channels, height, width), got",
         torch.zeros(4, 2, 2, {dtype = "uint8"}))
      refused("a JPEG file takes an image of shape (1 or 3 channels, height, width), got",
         torch.zeros(3, 0, 2, {dtype = "uint8"}))
      refused("a JPEG file takes uint8 from 0 to 255, got float32", torch.ones(3, 2, 2))
      refused("a JPEG file takes a tensor, got a table", {})
      refused("quality: expected an integer from 1 to 100, got 0", image, {quality = 0})
      refused("quality: expected an integer from 1 to 100, got 101", image, {quality = 101})
      refused("a JPEG file takes at most 65535 pixels a side", torch.zeros(1, 1, 65536, {dtype = "uint8"}))
      assert.raises("quality: only .jpg files have one",
         function() torch.save(image, path .. ".png", {quality = 9}) end)
      assert.raises("io.encode_jpeg: a JPEG file takes a tensor, got 2", function() torch.io.encode_jpeg(2) end)
      assert.is_nil(io.open(name))
      for _, shape in ipairs {{3}, {2, 2, 2}, {0, 2, 3}, {1, 2, 2, 3}} do
         assert.raises("io._jpeg: expected pixels of shape (height, width, 1 or 3), got",
            function() assert(torch.io._jpeg(torch.zeros(shape, {dtype = "uint8"}), 75)) end)
      end
   end)
end)

it("torch.io.encode_png returns a file's bytes, which decode_image reads", function()
   local image = torch.arange(0, 24):view(2, 3, 4):to "uint8"
   local bytes = torch.io.encode_png(image)
   local decoded, message = torch.io.decode_image(bytes)
   if not decoded and message:find("needs lib", 1, true) then return pending(message) end
   assert.is_true(torch.equal(image, decoded))
   assert.raises("io.encode_png: a PNG file takes uint8", function() torch.io.encode_png(torch.ones(3, 2, 2)) end)
end)
