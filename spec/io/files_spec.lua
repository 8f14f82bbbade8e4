local torch = require "tlua"
local safetensors = require "tlua.io.safetensors"
local sorted = require "spec.support.sorted"

local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

local function write(text)
   local file <close> = assert(io.open(path, "wb"))
   file:write(text)
end

local function read()
   local file <close> = assert(io.open(path, "rb"))
   return file:read("a")
end

-- Returns the contents of a safetensors file with this header and these bytes of data.
local function file_of(header, data) return string.pack("<I8", #header) .. header .. (data or "") end

describe("torch.save and torch.load", function()
   it("keep every dtype", function()
      local tensors = {
         float32 = torch.tensor {1.5, -0.0, math.huge},
         float64 = torch.tensor({1 / 3, 1e300}, {dtype = "float64"}),
         float16 = torch.tensor({0.5, 65504}, {dtype = "float16"}),
         bfloat16 = torch.tensor({0.5, 3e38}, {dtype = "bfloat16"}),
         int8 = torch.tensor({-128, 127}, {dtype = "int8"}),
         int16 = torch.tensor({-32768, 32767}, {dtype = "int16"}),
         int32 = torch.tensor({-2147483648, 7}, {dtype = "int32"}),
         int64 = torch.tensor {math.mininteger, math.maxinteger},
         uint8 = torch.tensor({0, 255}, {dtype = "uint8"}),
         bool = torch.tensor {true, false},
      }
      torch.save(tensors, path)
      local loaded = torch.load(path)
      for dtype, tensor in sorted(tensors) do
         assert.equal(dtype, loaded[dtype].dtype)
         assert.close(tensor, loaded[dtype], 0)
      end
   end)

   it("keep shapes, 0-d and empty ones too, and views by value", function()
      local x = torch.arange(0, 6):view(2, 3)
      torch.save({a = torch.tensor(3.5), b = torch.empty(0, 3), c = x:t(), d = x[2]}, path)
      local loaded = torch.load(path)
      assert.same({}, loaded.a.shape)
      assert.equal(3.5, loaded.a:item())
      assert.same({0, 3}, loaded.b.shape)
      assert.same({{0, 3}, {1, 4}, {2, 5}}, loaded.c:tolist())
      assert.same({3, 4, 5}, loaded.d:tolist())
   end)

   it("store elements little-endian, and complex numbers as a real and an imaginary part", function()
      local z = torch.complex(torch.tensor {1.5, -2.0}, torch.tensor {0.25, 3.0})
      local short = torch.tensor({258, -2}, {dtype = "int16"})
      local bytes = string.pack("<ffff", 1.5, 0.25, -2, 3)
      torch.save({z = z, short = short}, path)
      local content = read()
      assert.is_number(content:find(bytes, 1, true))
      assert.is_number(content:find("\2\1\254\255", 1, true))
      assert.is_true(torch.equal(z, torch.load(path).z))
      assert.is_true(torch.equal(z, torch.frombuffer(bytes, {dtype = "complex64"})))
   end)

   it("keep a state dict as plain tensors of safetensors", function()
      local model = torch.nn.Linear(2, 3)
      torch.save(model:state_dict(), path)
      assert.is_nil(read():find("tlua", 1, true))
      assert.same({}, select(2, torch.load(path, {metadata = true})))
      local again = torch.nn.Linear(2, 3)
      again:load_state_dict(torch.load(path))
      assert.is_true(torch.equal(model.weight, again.weight))
   end)

   it("keep checkpoints: nested tables, numbers, strings, booleans", function()
      local checkpoint = {
         model = {["1.weight"] = torch.ones(2)},
         list = {1, {torch.zeros(1), 2.0}, "three"},
         epoch = 3, loss = 0.1, best = math.huge, none = -math.huge, done = false,
         text = "äß\n\"quoted\"", bytes = "\255\0\1",
         sparse = {[1] = "a", [3] = "c", x = true}, empty = {}, ["$odd"] = {["$tensor"] = 1},
      }
      torch.save(checkpoint, path)
      local loaded = torch.load(path)
      assert.same({1, 1}, loaded.model["1.weight"]:tolist())
      assert.same({0}, loaded.list[2][1]:tolist())
      loaded.model, loaded.list[2][1] = nil, 0
      checkpoint.model, checkpoint.list[2][1] = nil, 0
      assert.same(checkpoint, loaded)
      assert.equal("integer", math.type(loaded.epoch))
      assert.equal("float", math.type(loaded.list[2][2]))
      torch.save({nan = 0 / 0}, path)
      local nan = torch.load(path).nan
      assert.is_true(nan ~= nan)
   end)

   it("keep a model and its optimizer in training", function()
      torch.manual_seed(1)
      local function make()
         local model = torch.nn.Linear(2, 1)
         return model, torch.optim.Adam(model:parameters(), {lr = 0.1})
      end
      local function step(model, optimizer)
         optimizer:zero_grad()
         model(torch.ones(1, 2)):sum():backward()
         optimizer:step()
      end
      local model, optimizer = make()
      step(model, optimizer)
      torch.save({model = model:state_dict(), optimizer = optimizer:state_dict()}, path)
      local again, other = make()
      local checkpoint = torch.load(path)
      again:load_state_dict(checkpoint.model)
      other:load_state_dict(checkpoint.optimizer)
      step(model, optimizer)
      step(again, other)
      assert.is_true(torch.equal(model.weight, again.weight))
   end)

   it("keep a single tensor or value", function()
      torch.save(torch.ones(2), path)
      assert.same({1, 1}, torch.load(path):tolist())
      torch.save("text", path)
      assert.equal("text", torch.load(path))
   end)

   it("keep metadata", function()
      torch.save({a = torch.ones(1)}, path, {metadata = {format = "pt"}})
      local _, metadata = torch.load(path, {metadata = true})
      assert.same({format = "pt"}, metadata)
      assert.raises("metadata: expected a table of strings",
         function() torch.save({}, path, {metadata = {n = 3}}) end)
   end)

   it("keep an empty table", function()
      torch.save({}, path)
      assert.same({}, torch.load(path))
   end)

   it("load files of other programs", function()
      write(file_of('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  ', string.pack("<ff", 1.5, -2)))
      assert.same({1.5, -2}, torch.load(path).x:tolist())
   end)

   it("align the data of every tensor", function()
      torch.save({a = torch.ones(3, {dtype = "int8"}), b = torch.ones(1), c = torch.ones(1):double()}, path)
      local text = read()
      local length = string.unpack("<I8", text)
      assert.equal(0, length % 8)
      local entries = safetensors.parse(text:sub(9, 8 + length), #text - 8 - length)
      assert.same({"c", "b", "a"}, {entries[1].name, entries[2].name, entries[3].name})
   end)
end)

describe("torch.save", function()
   it("names a value that cannot be saved, and its place", function()
      local function refused(text, object) assert.raises(text, path, function() torch.save(object, path) end) end
      refused("a.2: a function cannot be saved", {a = {1, print}})
      refused("an instance of nn.ReLU cannot be saved; save its state", {m = torch.nn.ReLU()})
      local loop = {}
      loop.inner = {loop}
      refused("inner.1: the table contains itself", loop)
      refused("two tensors of this name", {["a.b"] = torch.ones(1), a = {b = torch.ones(1)}})
      refused("a table as a key", {[{}] = 1})
   end)

   it("refuses tensors without values by name, and leaves no file", function()
      local empty, gone = torch.empty({2}, {device = "meta"}), torch.ones(2)
      gone:release()
      os.remove(path)
      for _, ending in ipairs {"pt", "safetensors", "npz"} do
         local name = path .. "." .. ending
         assert.raises(name .. ": w: the tensor is on the meta device and has no values; "
            .. 'module:to_empty{device = "cpu"}', function() torch.save({w = empty}, name) end)
         assert.raises("save: " .. name .. ": w: the tensor was released",
            function() torch.save({w = gone}, name) end)
         assert.is_nil(io.open(name))
      end
      assert.raises("save: expected the object before the path, got the path first",
         function() torch.save(path, {w = torch.ones(2)}) end)
      assert.raises("save: " .. path .. ".npy: the tensor is on the meta device",
         function() torch.save(empty, path .. ".npy") end)
      assert.raises("m.state.2: the tensor was released",
         function() torch.save({m = {state = {torch.ones(1), gone}}}, path) end)
      assert.raises("m.1.bias: the tensor is on the meta device", function()
         local m = torch.nn.Sequential(torch.nn.Linear(2, 2, {device = "meta"}))
         torch.save({m = m:state_dict()}, path)
      end)
   end)

   it("leaves the old file when it fails", function()
      torch.save({a = torch.ones(1)}, path)
      local before = read()
      pcall(torch.save, {a = print}, path)
      assert.equal(before, read())
   end)

   it("leaves no file behind when it fails", function()
      local folder = os.tmpname()
      os.remove(folder)
      assert.is_true(os.execute("mkdir '" .. folder .. "'"))
      local _ <close> = setmetatable({}, {__close = function() os.execute("rm -r '" .. folder .. "'") end})
      assert.raises(folder, function() torch.save({a = torch.ones(1)}, folder) end)
      assert.raises("No such file", function() torch.save({a = torch.ones(1)}, folder .. "/none/x.safetensors") end)
      local listing <close> = io.popen("ls -A '" .. folder .. "' '" .. folder .. "'.* 2>/dev/null")
      assert.equal("", (listing:read("a"):gsub(folder:gsub("%p", "%%%0") .. ":%s*", "")))
   end)
end)

describe("torch.load", function()
   local function refused(text, ...)
      local texts = {...}
      write(text)
      texts[#texts + 1] = function() torch.load(path) end
      assert.raises(path, table.unpack(texts))
   end

   it("names a file that is not there", function()
      assert.raises("load: /nowhere/x.safetensors: No such file", function() torch.load("/nowhere/x.safetensors") end)
      assert.raises("/tmp", function() torch.load("/tmp") end)
   end)

   it("refuses files that are too short", function()
      refused("", "shorter than 8 bytes")
      refused("abc", "shorter than 8 bytes")
      refused(string.pack("<I8", 100) .. "{}", "its header should have 100")
      refused(string.pack("<i8", -1) .. "{}", "its header should have more than 2^63")
      refused(string.pack("<I8", 1 << 62) .. "{}", "its header should have")
   end)

   it("refuses headers that are not a JSON object", function()
      refused(file_of(""), "not JSON")
      refused(file_of("[]"), "not a JSON object")
      refused(file_of("null"), "not a JSON object")
      refused(file_of('{"a":1'), "not JSON")
      refused(file_of(("["):rep(100000)), "nested too deeply")
      refused(file_of('{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
         .. '"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "occurs twice")
   end)

   it("refuses entries with wrong offsets, shapes or dtypes", function()
      local function entry(text, ...) refused(file_of('{"x":' .. text .. "}", ("\0"):rep(8)), 'tensor "x"', ...) end
      entry("3", "expected an object")
      entry('{"dtype":"F32","shape":[2]}', "no pair of offsets")
      entry('{"dtype":"F31","shape":[2],"data_offsets":[0,8]}', "unknown dtype F31")
      entry('{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}', "unknown field")
      entry('{"dtype":"F32","shape":2,"data_offsets":[0,8]}', "not a list of sizes")
      entry('{"dtype":"F32","shape":{},"data_offsets":[0,8]}', "not a list of sizes")
      entry('{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}', "not a list of sizes")
      entry('{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}', "not a list of sizes")
      entry('{"dtype":"F32","shape":[3],"data_offsets":[0,8]}', "takes 12 bytes")
      entry('{"dtype":"F32","shape":[2],"data_offsets":[0,9]}', "outside of the file's 8 bytes")
      entry('{"dtype":"F32","shape":[2],"data_offsets":[8,0]}', "outside of the file's")
      entry('{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}', "takes too many bytes")
      entry('{"dtype":"F32","shape":[9223372036854775807,0,2],"data_offsets":[0,8]}', "takes too many bytes")
      entry('{"dtype":"F32","shape":[' .. ("1,"):rep(19) .. '2],"data_offsets":[0,8]}', "20 dimensions")
   end)

   it("refuses gaps and overlaps", function()
      local form = '{"a":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]},'
         .. '"b":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}'
      local function two(a_size, a_first, a_last, b_size, b_first, b_last)
         return file_of(form:format(a_size, a_first, a_last, b_size, b_first, b_last), ("\0"):rep(8))
      end
      refused(two(4, 0, 4, 5, 3, 8), 'tensor "b"', "byte 4", "got 3")
      refused(two(4, 0, 4, 3, 5, 8), 'tensor "b"', "byte 4", "got 5")
      refused(two(4, 0, 4, 2, 4, 6), "2 bytes of data belong to no")
      refused(two(4, 4, 8, 0, 0, 0), 'tensor "a"', "byte 0")
   end)

   it("refuses metadata that are not strings", function()
      refused(file_of('{"__metadata__":3}'), "__metadata__")
      refused(file_of('{"__metadata__":{"a":3}}'), "expected a string")
   end)

   it("refuses an invalid structure of tables", function()
      local function structure(text, ...)
         local quoted = text:gsub('"', '\\"')
         refused(file_of('{"__metadata__":{"tlua.structure":"' .. quoted .. '"}}'), ...)
      end
      structure("{", "not JSON")
      structure('{"a":{"$tensor":"b"}}', "names a tensor b that the file lacks")
      structure('{"a":{"$tensor":{}}}', "that the file lacks")
      structure('{"a":{"$code":"os.exit()"}}', "unknown mark $code")
      structure('{"a":{"$bytes":"0"}}', "malformed string")
      structure('{"a":{"$float":"1"}}', "unknown number")
      structure('{"a":{"$pairs":[[1]]}}', "malformed table")
      structure('{"a":{"$pairs":[[{"$float":"nan"},1]]}}', "malformed key")
      structure('{"a":null}', "null")
   end)

   it("raises an error or loads data for files with any byte damaged", function()
      torch.save({a = torch.randn(3, 4), b = torch.tensor {true, false}, c = {n = 5, list = {1.5, "x"}}}, path)
      local whole = read()
      local random = torch.randint(0, 256, {500, 2}):tolist()
      local header = 8 + string.unpack("<I8", whole)
      for i, pair in ipairs(random) do
         local at = (i * 7919 + pair[1]) % math.min(#whole, header) + 1
         local damaged = whole:sub(1, at - 1) .. string.char(pair[2]) .. whole:sub(at + 1)
         if i % 5 == 0 then damaged = damaged:sub(1, at) end
         write(damaged)
         local ok, message = pcall(torch.load, path)
         assert.is_true(ok or message:find(path, 1, true) ~= nil, message)
      end
   end)
end)

describe("torch.io.read", function()
   it("keeps its file while it works", function()
      write(("x"):rep(64))
      for _ = 1, 100 do assert.same(("x"):byte(), torch.io.read(io.open(path, "rb"), {64}, "uint8")[64]:item()) end
   end)

   it("names the wrong argument", function()
      local file <close> = assert(io.open(path, "rb"))
      assert.raises("io.read: expected a file, got 3", function() torch.io.read(3, {1}, "uint8") end)
      assert.raises("io.read: shape", function() torch.io.read(file, "x", "uint8") end)
      assert.raises("io.read: dtype", function() torch.io.read(file, {1}, "uint9") end)
      assert.raises("io.read: more than 16",
         function() torch.io.read(file, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "uint8") end)
      file:close()
      assert.raises("io.read: the file is closed", function() torch.io.read(file, {1}, "uint8") end)
   end)

   it("notices that a finalizer has closed the file", function()
      write(("x"):rep(64))
      local file = assert(io.open(path, "rb"))
      local ran
      for _ = 1, 100000 do
         if ran then break end
         setmetatable({}, {__gc = function()
            ran = true
            file:close()
         end})
         pcall(torch.io.read, file, {1}, "uint8")
      end
      assert.raises("io.read: the file is closed", function() torch.io.read(file, {1}, "uint8") end)
   end)
end)

it("torch.io.write and crc32 refuse a tensor of a device", function()
   local x = torch.ones({3}, {device = "sim"})
   local file <close> = assert(io.tmpfile())
   assert.raises("io.write: expected a tensor of the CPU, got one of sim:0", function() torch.io.write(file, x) end)
   assert.raises("io.crc32: expected a tensor of the CPU, got one of sim:0", function() torch.io.crc32(x) end)
   assert.equal(torch.io.crc32(("<fff"):pack(1, 1, 1)), torch.io.crc32(x:cpu()))
end)

describe("torch.load of a damaged file", function()
   -- Returns the error message of a failed load, or nil if the load succeeded. The message must begin with the file's
   -- name.
   local function refusal()
      local ok, message = pcall(torch.load, path)
      if ok then return nil end
      assert.matches("^[^\n]-: load: " .. path:gsub("%p", "%%%0") .. ": .", message)
      return message
   end

   it("names the file for any damage", function()
      for header, part in pairs {
         [''] = "not JSON", ['null'] = "not a JSON object", ['[]'] = "not a JSON object", ['7'] = "not a JSON object",
         ['{'] = "not JSON", ['{"a":1}'] = "expected an object", ['{"a":null}'] = '"a"',
         ['{"__metadata__":null}'] = "__metadata__", ['{"__metadata__":[]}'] = "__metadata__",
         ['{"__metadata__":{"a":1}}'] = "expected a string",
         ['{"a":{"dtype":null,"shape":[0],"data_offsets":[0,0]}}'] = "unknown dtype",
         ['{"a":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}}'] = "unknown dtype F4",
         ['{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}'] = "shape",
         ['{"a":{"dtype":"F32","shape":[0.5],"data_offsets":[0,0]}}'] = "shape",
         ['{"a":{"dtype":"F32","shape":{},"data_offsets":[0,0]}}'] = "shape",
         ['{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'] = "lie outside",
         ['{"a":{"dtype":"F32","shape":[0,4611686018427387904,8],"data_offsets":[0,0]}}'] = "too many",
         ['{"a":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,0]}}'] = "too many",
         ['{"a":{"dtype":"U8","shape":[],"data_offsets":[0,0],"data_offsets":[0,0]}}'] = "twice",
         ['{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'] = "twice",
         ['{"__metadata__":{"tlua.structure":"{"}}'] = "structure",
         ['{"__metadata__":{"tlua.structure":"{\\"$tensor\\":\\"x\\"}"}}'] = "the file lacks",
      } do
         write(file_of(header))
         assert.matches(part, refusal(), 1, true)
      end
      for _, text in ipairs {"", "short", ("\255"):rep(8), ("\255"):rep(7) .. "\127{}", ("\0"):rep(8),
         string.pack("<I8", 3) .. "{}"} do
         write(text)
         assert.is_string(refusal())
      end
   end)

   it("names the file after any change of bytes", function()
      torch.save({a = torch.arange(10), b = {c = torch.ones(3, {dtype = "bool"}), d = 0 / 0, e = "\255"},
         [1] = {1, 2, {}}}, path)
      local text = read()
      math.randomseed(5)
      local refused = 0
      for _ = 1, 600 do
         local bytes = {text:byte(1, -1)}
         for _ = 1, math.random(3) do
            local kind, at = math.random(4), math.random(#bytes - 90)
            if kind == 1 then
               bytes[at] = math.random(0, 255)
            elseif kind == 2 then
               table.remove(bytes, at)
            elseif kind == 3 then
               table.insert(bytes, at, math.random(32, 126))
            else
               for i = #bytes, math.random(#bytes), -1 do bytes[i] = nil end
            end
            if #bytes < 100 then break end
         end
         write(string.char(table.unpack(bytes)))
         if refusal() then refused = refused + 1 end
      end
      assert.is_true(refused > 400)
   end)

   it("names the file if memory is short", function()
      write(file_of('{"a":{"dtype":"U8","shape":[3000000],"data_offsets":[0,3000000]}}', ("x"):rep(3000000)))
      torch.set_memory_limit(torch.memory_stats().used + 1000000)
      local message = refusal()
      torch.set_memory_limit(0)
      assert.matches("out of memory", message)
   end)
end)
