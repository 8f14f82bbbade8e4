-- Files of others, made by spec/fixtures/formats/make.py.

local torch = require "tlua"
local shell = require "spec.support.shell"

local folder <const> = "spec/fixtures/formats/"
local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

-- Loads a text as a file whose name ends so.
local function load_text(ending, text, options)
   local name = path .. ending
   shell.write(name, text)
   local results = table.pack(pcall(torch.load, name, options))
   os.remove(name)
   return table.unpack(results, 1, results.n)
end

describe("torch.load of NumPy's files", function()
   it("reads every dtype and both orders", function()
      local expected = torch.arange(0, 6):view(2, 3):double() * 1.5
      local dtypes = {f2 = "float16", f4 = "float32", f8 = "float64", i1 = "int8", i2 = "int16",
         i4 = "int32", i8 = "int64", u1 = "uint8", u2 = "int32", u4 = "int64", u8 = "int64",
         b1 = "bool", big_f4 = "float32", big_i8 = "int64", fortran = "float64"}
      local arrays = torch.load(folder .. "arrays.npz")
      for name, dtype in pairs(dtypes) do
         assert.equal(dtype, arrays[name].dtype, name)
         local values = dtype:find "float" and expected or expected:to(dtype)
         assert.close(values:double(), arrays[name]:double(), 0)
      end
      assert.same({1, 2}, arrays.fortran:stride())
   end)

   it("refuses arrays of objects, and says what is wrong with a file", function()
      assert.raises("object.npy: elements of type '|O' cannot be read", function()
         torch.load(folder .. "object.npy")
      end)
      local header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n"
      local ok, message = load_text(".npy", "\x93NUMPY\1\0" .. string.pack("<s2", header) .. "1234")
      assert.is_false(ok)
      assert.matches("expected more bytes from byte %d+ on, got 4", message)
   end)
end)

describe("torch.load of PyTorch's checkpoints", function()
   it("reads tensors and plain data", function()
      local checkpoint = torch.load(folder .. "checkpoint.pt")
      assert.same({{0, 1, 2}, {3, 4, 5}}, checkpoint.model.w:tolist())
      assert.equal("bfloat16", checkpoint.model.b.dtype)
      assert.same({{0, 3}, {1, 4}, {2, 5}}, checkpoint.turned:tolist())
      assert.equal(4, checkpoint.state[0].step:item())
      assert.same({3, 0.5, nil, {1, "two", true}},
         {checkpoint.epoch, checkpoint.lr, checkpoint.none, checkpoint.tuple})
   end)

   it("refuses every other class by its name, and runs nothing", function()
      assert.raises("evil.pt: the class posix.system is refused", function()
         torch.load(folder .. "evil.pt")
      end)
   end)

   it("still reads what torch.save has written under such a name", function()
      local name = path .. ".pt"
      torch.save({a = torch.ones(2)}, name)
      assert.same({1, 1}, torch.load(name).a:tolist())
      os.remove(name)
   end)
end)

describe("torch.load of GGUF files", function()
   it("reads floats and blocks of few bits as the gguf package does", function()
      local tensors, metadata = torch.load(folder .. "blocks.gguf", {metadata = true})
      local expected = torch.load(folder .. "blocks.npz")
      for _, name in ipairs {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"} do
         assert.same({1, 256}, tensors[name].shape)
         assert.close(expected[name], tensors[name]:float(), 0)
      end
      assert.equal(7, metadata["test.number"])
      assert.same({"a", "b"}, metadata["test.list"])
   end)
end)

describe("torch.load of IDX files", function()
   it("reads bytes and big-endian numbers", function()
      local ok, x = load_text("-idx2-ubyte", "\0\0\8\2\0\0\0\2\0\0\0\3\1\2\3\4\5\6")
      assert.is_true(ok, x)
      assert.same({{1, 2, 3}, {4, 5, 6}}, x:tolist())
      x = select(2, load_text(".idx", "\0\0\13\1\0\0\0\2" .. string.pack(">ff", 1.5, -2)))
      assert.same({1.5, -2}, x:tolist())
      local message = select(2, load_text(".idx", "\0\0\8\2\255\255\255\255\255\255\255\255"))
      assert.matches("bytes", message)
   end)

   it("reads them packed by gzip", function()
      local name = path .. "-idx1-ubyte"
      shell.write(name, "\0\0\8\1\0\0\0\2\7\9")
      shell.ok("gzip -f " .. shell.quote(name))
      assert.same({7, 9}, torch.load(name .. ".gz"):tolist())
      os.remove(name .. ".gz")
   end)
end)

describe("torch.load of images", function()
   it("says what it cannot read", function()
      local ok, message = load_text(".png", "no image at all")
      assert.is_false(ok)
      assert.matches("neither a PNG nor a JPEG file", message)
   end)
end)

describe("a large safetensors file", function()
   it("opens at once, and is read where it is looked at", function()
      local n = 10 << 30
      local header = ('{"x":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}'):format(
         n // 4096, n)
      header = header .. (" "):rep(-#header % 8)
      local file <close> = assert(io.open(path, "wb"))
      file:write(string.pack("<I8", #header), header)
      file:seek("cur", n - 4)
      file:write(string.pack("<f", 2.5))
      file:close()
      local x = torch.load(path).x
      assert.equal(n // 4096, x:size(1))
      assert.equal(2.5, x[{-1, -1}]:item())
      x[{1, 1}] = 3
      assert.equal(3, x[{1, 1}]:item())
      assert.equal(0, torch.load(path).x[{1, 1}]:item())
   end)

   it("may be mapped when it is small, or read when it is large", function()
      torch.save({a = torch.arange(0, 4)}, path)
      assert.same({0, 1, 2, 3}, torch.load(path, {mmap = true}).a:tolist())
      assert.same({0, 1, 2, 3}, torch.load(path, {mmap = false}).a:tolist())
   end)
end)

describe("a damaged file", function()
   it("of any kind is refused with its name, and nothing worse", function()
      local seed = 7
      local function random(n) -- the same bytes in every run
         seed = (seed * 6364136223846793005 + 1442695040888963407) & math.maxinteger
         return (seed >> 33) % n
      end
      local kinds = {["arrays.npz"] = ".npz", ["checkpoint.pt"] = ".pt", ["blocks.gguf"] = ".gguf"}
      local read, refused = 0, 0
      for name, ending in pairs(kinds) do
         local text = shell.read(folder .. name)
         for _ = 1, 250 do
            local at = random(#text) + 1
            local changed = text:sub(1, at - 1) .. string.char(random(256)) .. text:sub(at + 1)
            if random(4) == 0 then changed = changed:sub(1, random(#changed)) end
            local ok, message = load_text(ending, changed)
            if ok then
               read = read + 1
            else
               refused = refused + 1
               assert.truthy(tostring(message):find("load: " .. path, 1, true), message)
            end
         end
      end
      assert.truthy(refused > 50 and read > 50)
   end)
end)

describe("torch.save", function()
   it("refuses names that torch.load would take for another format", function()
      for _, ending in ipairs {".npy", ".npz", ".gguf", ".PNG", "-idx1-ubyte"} do
         local name = path .. ending
         assert.raises("save: " .. name .. ": the name tells another format", function()
            torch.save(torch.ones(1), name)
         end)
         assert.is_nil(io.open(name))
      end
      for _, ending in ipairs {".pt", ".bin"} do
         local name = path .. ending
         torch.save({x = torch.ones(1)}, name)
         assert.equal(1, torch.load(name).x:item())
         os.remove(name)
      end
   end)
end)
