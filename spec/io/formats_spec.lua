-- Tests reading files that other programs write. spec/fixtures/formats/make.py has made the files.

local torch = require "tlua"
local shell = require "spec.support.shell"
local sorted = require "spec.support.sorted"

local folder <const> = "spec/fixtures/formats/"
local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

-- Writes a text to a file with the given extension, and loads that file.
local function load_text(ending, text, options)
   local name = path .. ending
   shell.write(name, text)
   local results = table.pack(pcall(torch.load, name, options))
   os.remove(name)
   return table.unpack(results, 1, results.n)
end

-- Sets each checksum in a zip file to 0. PyTorch writes 0 when it does not compute checksums.
local function without_checksums(text)
   for _, entry in pairs(require "tlua.io.zip".open(torch.io.bytes(text))) do
      text = text:gsub(("<I4"):pack(entry.crc):gsub("%W", "%%%0"), "\0\0\0\0")
   end
   return text
end

describe("torch.load of NumPy's files", function()
   it("reads every dtype and both orders", function()
      local expected = torch.arange(0, 6):view(2, 3):double() * 1.5
      local dtypes = {f2 = "float16", f4 = "float32", f8 = "float64", i1 = "int8", i2 = "int16",
         i4 = "int32", i8 = "int64", u1 = "uint8", u2 = "uint16", u4 = "uint32", u8 = "uint64",
         b1 = "bool", big_f4 = "float32", big_i8 = "int64", fortran = "float64"}
      local arrays = torch.load(folder .. "arrays.npz")
      for name, dtype in sorted(dtypes) do
         assert.equal(dtype, arrays[name].dtype, name)
         local values = dtype:find "float" and expected or expected:to(dtype)
         assert.close(values:double(), arrays[name]:double(), 0)
      end
      assert.same({1, 2}, arrays.fortran:stride())
   end)

   it("refuses arrays of objects, and names the mistake in a file", function()
      assert.raises("object.npy: elements of type '|O' cannot be read",
         function() torch.load(folder .. "object.npy") end)
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

   it("compares stored entries with their checksums, if they have one", function()
      local text = shell.read "spec/fixtures/formats/checkpoint.pt"
      local name = os.tmpname() .. ".pt"
      local archive = torch.io.bytes(text)
      local checked = 0
      for file, entry in pairs(require "tlua.io.zip".open(archive)) do
         if file:find "/data/%d+$" and entry.size > 0 then
            local n, extra = ("<I2I2"):unpack(text, entry.offset + 27)
            local first = entry.offset + 30 + n + extra + 1
            local damaged = text:sub(1, first - 1) .. string.char(text:byte(first) ~ 1) .. text:sub(first + 1)
            shell.write(name, damaged)
            assert.raises(name .. ": a file in the zip file is damaged", function() torch.load(name) end)
            assert.is_true((load_text(".pt", damaged, {mmap = true})))
            assert.is_true((load_text(".pt", without_checksums(damaged))))
            checked = checked + 1
         end
      end
      os.remove(name)
      assert.truthy(checked > 0)
   end)

   it("refuses every other class by its name, and runs nothing", function()
      assert.raises("evil.pt: the class posix.system is refused", function() torch.load(folder .. "evil.pt") end)
   end)

   it("still reads safetensors, which torch.save has written under such a name", function()
      torch.save({a = torch.ones(2)}, path)
      local ok, loaded = load_text(".pt", shell.read(path))
      assert.is_true(ok, loaded)
      assert.same({1, 1}, loaded.a:tolist())
   end)

   it("recognises them under any file name, and says if the format is too old", function()
      local checkpoint = shell.read(folder .. "checkpoint.pt")
      for _, ending in ipairs {"", ".bin", ".model", ".safetensors"} do
         local ok, loaded = load_text(ending, checkpoint)
         assert.is_true(ok, loaded)
         assert.equal(3, loaded.epoch)
      end
      local ok, message = load_text(".pt", "\x80\2\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")
      assert.is_false(ok)
      assert.matches("PyTorch's format from before version 1.6", message)
   end)
end)

it("torch.load of GGUF files reads floats and blocks of few bits as the gguf package does", function()
   local tensors, metadata = torch.load(folder .. "blocks.gguf", {metadata = true})
   local expected = torch.load(folder .. "blocks.npz")
   for _, name in ipairs {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
         "Q6_K", "IQ4_NL", "IQ4_XS"} do
      assert.same({1, 256}, tensors[name].shape)
      assert.close(expected[name], tensors[name]:float(), 0)
   end
   assert.equal(7, metadata["test.number"])
   assert.same({"a", "b"}, metadata["test.list"])
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

   it("unpacks no more than the header of a file announces", function()
      local name = path .. "-idx1-ubyte"
      shell.ok(("(printf '\\0\\0\\10\\1\\0\\0\\0\\2'; head -c 3000000 /dev/zero) | gzip -1 >%s.gz"):format(
         shell.quote(name)))
      assert.raises("damaged", function() torch.load(name .. ".gz") end)
      shell.ok(("(printf '\\0\\0\\10\\1\\177\\0\\0\\0'; head -c 3000 /dev/zero) | gzip -1 >%s.gz"):format(
         shell.quote(name)))
      assert.raises("is larger than what is packed", function() torch.load(name .. ".gz") end)
      os.remove(name .. ".gz")
   end)

   it("reads files compressed by gzip", function()
      local name = path .. "-idx1-ubyte"
      shell.write(name, "\0\0\8\1\0\0\0\2\7\9")
      shell.ok("gzip -f " .. shell.quote(name))
      assert.same({7, 9}, torch.load(name .. ".gz"):tolist())
      os.remove(name .. ".gz")
   end)
end)

describe("torch.load of images", function()
   local function check(name, distance)
      local ok, image = pcall(torch.load, folder .. name)
      if not ok and image:find("needs lib", 1, true) then return pending(image) end
      assert.is_true(ok, image)
      local expected = torch.load(folder .. "images.npz")[name:match "%w+"]
      if expected:dim() == 2 then expected = expected:unsqueeze(3) end
      assert.equal("uint8", image.dtype)
      assert.close(expected:permute {3, 1, 2}:int(), image:int(), distance)
   end

   it("reads PNG files, with opacity", function() check("alpha.png", 0) end)
   it("reads JPEG files of three channels", function() check("color.jpg", 1) end)
   it("reads gray JPEG files", function() check("gray.jpg", 1) end)

   -- C code of a library that replaces dlopen when it is preloaded. Its dlopen does not find libraries whose names
   -- contain jpeg, png, webp or libz.
   local hidden <const> = [[
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <string.h>
      void *dlopen(const char *name, int flags) {
        if (name && (strstr(name, "jpeg") || strstr(name, "png") || strstr(name, "webp") || strstr(name, "libz")))
          return 0;
        void *(*real)(const char *, int);
        *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
        return real(name, flags);
      }]]

   it("says which library is missing", function()
      if shell.ok "uname" ~= "Linux\n" or os.getenv "SPEC_SANITIZED" == "1" then
         return pending "needs Linux's loader by itself"
      end
      shell.with_folder(function(place)
         shell.write(place .. "/hidden.c", hidden)
         local shim = shell.quote(place .. "/hidden.so")
         if not os.execute(("%s -shared -fPIC -o %s %s -ldl 2>%s/log"):format(os.getenv "CC" or "cc",
            shim, shell.quote(place .. "/hidden.c"), shell.quote(place))) then
            return pending "needs a C compiler"
         end
         shell.write(place .. "/load.lua", "print(select(2, pcall(require 'tlua'.load, arg[1])))")
         local function message(name)
            return shell.ok(("LD_PRELOAD=%s %s %s %s"):format(shim,
               shell.quote(shell.build .. "/tlua"), shell.quote(place .. "/load.lua"),
               shell.quote(name)))
         end
         assert.matches("color.jpg: a JPEG file needs libturbojpeg, which was not found; see `tlua doctor`",
            message(folder .. "color.jpg"), 1, true)
         assert.matches("alpha.png: a PNG file needs libpng, which was not found",
            message(folder .. "alpha.png"), 1, true)
         shell.write(place .. "/x.webp", "RIFF\0\0\0\0WEBPVP8L")
         assert.matches("x.webp: a WebP file needs libwebp, which was not found", message(place .. "/x.webp"), 1,
            true)
         shell.write(place .. "/x-idx1-ubyte.gz", "\x1f\x8b\8\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0")
         assert.matches("needs zlib, which was not found", message(place .. "/x-idx1-ubyte.gz"), 1, true)
      end)
   end)

   it("names the unsupported feature of an image", function()
      local ok, message = load_text(".png", "no image at all")
      assert.is_false(ok)
      assert.matches("neither a PNG, a JPEG nor a WebP file", message)
      for _, name in ipairs {"color.jpg", "alpha.png"} do
         local text = shell.read(folder .. name)
         ok, message = load_text(name, text:sub(1, #text // 2))
         assert.is_false(ok)
         assert.matches(name, message, 1, true)
      end
   end)
end)

describe("a large safetensors file", function()
   it("opens at once, and is read at the elements that are used", function()
      if string.pack("=i2", 1) ~= "\1\0" then return pending "this machine swaps the bytes of each element it reads" end
      if string.packsize "T" < 8 then return pending "the file is longer than the addresses of 32 bits reach" end
      local n = 10 << 30
      local header = ('{"x":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}'):format(n // 4096, n)
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

   it("may be mapped although small, or read although large", function()
      torch.save({a = torch.arange(0, 4)}, path)
      assert.same({0, 1, 2, 3}, torch.load(path, {mmap = true}).a:tolist())
      assert.same({0, 1, 2, 3}, torch.load(path, {mmap = false}).a:tolist())
   end)
end)

-- SPEC_MUTATIONS=10000 makes these tests run 10,000 mutations of each kind.
describe("a damaged file", function()
   local seed = 7
   local function random(n) -- the random numbers are the same in every run
      seed = (seed * 6364136223846793005 + 1442695040888963407) & math.maxinteger
      return (seed >> 33) % n
   end

   -- Returns a damaged copy of a text: one or more bytes are changed, a piece is removed, or the end is cut off.
   local function mutated(text)
      for _ = 1, random(8) == 0 and 8 or 1 do
         local at = random(#text) + 1
         text = text:sub(1, at - 1) .. string.char(random(256)) .. text:sub(at + 1)
      end
      if random(6) == 0 then
         local at = random(#text) + 1
         text = text:sub(1, at - 1) .. text:sub(at + random(20))
      end
      if random(4) == 0 then text = text:sub(1, random(#text + 1)) end
      return text
   end

   local function load_csv(name)
      local csv = torch.data.CSV(name)
      return csv:read()
   end

   -- Maps each file extension to the contents of a file, and to the function that loads such files.
   local function kinds()
      local own, packed = path .. ".safetensors", path .. ".npz"
      torch.save({a = torch.arange(0, 6):view(2, 3), b = {1, "x", torch.ones(2):bfloat16()}}, own)
      torch.save({a = torch.arange(0, 6):view(2, 3), b = torch.ones(40, 5)}, packed, {compress = true})
      local checkpoint = shell.read(folder .. "checkpoint.pt")
      local list = {
         {".npz", shell.read(folder .. "arrays.npz")}, {".npy", shell.read(folder .. "saved.npy")},
         {".pt", checkpoint}, {".pt", without_checksums(checkpoint)}, {".npz", shell.read(packed)},
         {".gguf", shell.read(folder .. "blocks.gguf")},
         {".png", shell.read(folder .. "alpha.png")}, {".jpg", shell.read(folder .. "color.jpg")},
         {".safetensors", shell.read(own)}, {".idx", "\0\0\8\2\0\0\0\2\0\0\0\3\1\2\3\4\5\6"},
         {".csv", 'id,text,x\n1,"a ""b""\nc",0.5\n22,,-1e-3\n\n3,"",nan\n', load_csv},
      }
      os.remove(own)
      os.remove(packed)
      return list
   end

   it("is refused with its name, in every format", function()
      local count = tonumber(os.getenv "SPEC_MUTATIONS") or 100
      local used = torch.memory_stats().used
      local read, refused = 0, 0
      for _, kind in ipairs(kinds()) do
         local ending, text, load_it = table.unpack(kind)
         local name = path .. ending
         for _ = 1, count do
            shell.write(name, mutated(text))
            local ok, message = pcall(load_it or torch.load, name)
            if ok then
               read = read + 1
            else
               refused = refused + 1
               assert.truthy(tostring(message):find(name, 1, true), message)
            end
         end
         os.remove(name)
      end
      assert.truthy(refused > count and read > count)
      collectgarbage()
      collectgarbage()
      assert.truthy(torch.memory_stats().used - used < 1 << 20)
   end)
end)

describe("torch.save", function()
   it("refuses names that torch.load would take for another format", function()
      for _, ending in ipairs {".gguf", "-idx1-ubyte", ".npy.gz"} do
         local name = path .. ending
         assert.raises("save: " .. name .. ": the name tells another format",
            function() torch.save(torch.ones(1), name) end)
         assert.is_nil(io.open(name))
      end
   end)

   it("refuses unknown file endings, and lists the known ones", function()
      for _, ending in ipairs {".model", ".safetensor", ".tmp", ".csv", ".pt.zip"} do
         local name = path .. ending
         assert.raises("save: " .. name .. ": no format has the ending ." .. ending:match "%w+$",
            "known are .safetensors, .st or no ending; .pt", function()
               torch.save(torch.ones(1), name)
            end)
         assert.is_nil(io.open(name))
      end
   end)

   it("chooses the format by the ending", function()
      local begins = {
         [".pt"] = "PK\3\4", [".pth"] = "PK\3\4", [".bin"] = "PK\3\4", [".ckpt"] = "PK\3\4", [".pth.tar"] = "PK\3\4",
         [".PT"] = "PK\3\4", [".pt.tmp"] = "PK\3\4", [".safetensors"] = "", [".st"] = "", [""] = "", [".1000"] = "",
         ["-v1.5"] = "", [".safetensors.tmp"] = "",
      }
      for ending, begin in pairs(begins) do
         local name = path .. ending
         torch.save({x = torch.ones(1)}, name)
         local text = shell.read(name)
         assert.equal(begin == "", ("<I8"):unpack(text) < #text, ending)
         assert.equal(begin, text:sub(1, #begin), ending)
         assert.equal(1, torch.load(name).x:item())
         os.remove(name)
      end
   end)
end)

describe("torch.save for NumPy", function()
   local name
   after_each(function() os.remove(name) end)

   it("writes the bytes that numpy.save writes", function()
      name = path .. ".npy"
      torch.save(torch.arange(0, 6):view(2, 3):float() * 1.5, name)
      assert.equal(shell.read(folder .. "saved.npy"), shell.read(name))
   end)

   it("writes every dtype and shape, and views by value", function()
      name = path .. ".npz"
      local x = torch.arange(0, 24):view(2, 3, 4)
      local arrays = {zero = torch.tensor(2.5), none = torch.ones(0, 3), turned = x:permute {3, 1, 2},
         grad = torch.ones(2, {requires_grad = true}), ["a/b c"] = x:bool()}
      for _, dtype in ipairs {"float16", "float32", "float64", "int8", "int16", "int32", "int64",
         "uint8", "bool"} do
         arrays[dtype] = x:to(dtype)
      end
      torch.save(arrays, name)
      local read = torch.load(name)
      for key, array in sorted(arrays) do
         assert.equal(array.dtype, read[key].dtype, key)
         assert.same(array.shape, read[key].shape, key)
         assert.truthy(array:equal(read[key]), key)
      end
      local count = 0
      for _ in pairs(read) do count = count + 1 end
      assert.equal(14, count)
      torch.save({}, name)
      assert.same({}, torch.load(name))
   end)

   it("writes files that NumPy reads", function()
      local python = shell.python "import numpy"
      if not python then return pending "needs Python 3 with NumPy" end
      name = path .. ".npz"
      local x = torch.arange(0, 6):view(2, 3)
      torch.save({a = x, b = x:t():double() / 4, c = x:gt(2), d = torch.tensor(7, {dtype = "int8"})}, name)
      assert.equal("[[0, 1, 2], [3, 4, 5]] int64 [[0.0, 0.75], [0.25, 1.0], [0.5, 1.25]] float64 "
         .. "[[False, False, False], [True, True, True]] bool 7 int8 None\n", shell.ok(python
         .. " -c 'import numpy, sys, zipfile; z = numpy.load(sys.argv[1]); "
         .. "print(*[w for k in sorted(z) for w in (z[k].tolist(), z[k].dtype)], "
         .. "zipfile.ZipFile(sys.argv[1]).testzip())' " .. shell.quote(name)))
   end)

   it("writes .npz compressed, for itself and for NumPy", function()
      name = path .. ".npz"
      local x = torch.arange(0, 4096):view(64, 64)
      local arrays = {a = x, turned = x:t():float(), few = torch.tensor(2.5), none = torch.ones(0, 3)}
      torch.save(arrays, name)
      local plain = #shell.read(name)
      torch.save(arrays, name, {compress = true})
      assert.truthy(#shell.read(name) < plain / 2)
      local read = torch.load(name)
      for key, array in pairs(arrays) do assert.truthy(array:equal(read[key]), key) end
      local python = shell.python "import numpy"
      if python then
         assert.equal("8386560 None\n", shell.ok(python .. " -c 'import numpy, sys, zipfile; "
            .. "print(numpy.load(sys.argv[1])[\"a\"].sum(), zipfile.ZipFile(sys.argv[1]).testzip())' "
            .. shell.quote(name)))
      end
      assert.raises("compress: only .npz files are written compressed",
         function() torch.save(x, path .. ".npy", {compress = true}) end)
   end)

   it("says that an array in a .npz file is damaged", function()
      name = path .. ".npz"
      for _, compress in ipairs {true, false} do
         torch.save({a = torch.arange(0, 4096):int()}, name, {compress = compress})
         local bytes, at = shell.read(name), compress and 3000 or 9000
         shell.write(name, bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 16) .. bytes:sub(at + 1))
         assert.raises(name .. ": ", "damaged", function() torch.load(name) end)
      end
   end)

   it("names a value that it cannot write, and keeps the old file", function()
      name = path .. ".npy"
      torch.save(torch.ones(2), name)
      local cases = {{{}, "expected a tensor, got table"}, {torch.ones(1):bfloat16(), "NumPy has no dtype bfloat16"}}
      for _, case in ipairs(cases) do
         assert.raises("save: " .. name .. ": " .. case[2], function() torch.save(case[1], name) end)
         assert.same({1, 1}, torch.load(name):tolist())
      end
      assert.raises("metadata: only .safetensors files have a place for them",
         function() torch.save(torch.ones(1), name, {metadata = {a = "b"}}) end)
      os.remove(name)
      name = path .. ".npz"
      assert.raises("expected a table of tensors, got Tensor", function() torch.save(torch.ones(1), name) end)
      assert.raises("x: expected a table from names to tensors, got number", function() torch.save({x = 1}, name) end)
      assert.raises("1: expected a table from names to tensors, got number",
         function() torch.save({torch.ones(1)}, name) end)
      assert.raises("h: NumPy has no dtype bfloat16", function() torch.save({h = torch.ones(1):bfloat16()}, name) end)
      assert.is_nil(io.open(name))
   end)
end)
