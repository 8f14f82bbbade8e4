-- Tests the dtypes that kernels can store but not compute with: float8, and unsigned integers of 16 to 64 bits.
-- Conversions are compared with PyTorch's bits by hashes. stored.py writes the hashes to spec/fixtures/stored.txt.

local torch = require "tlua"
local device = require "spec.support.device"

local float8 <const> = {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"}
local unsigned <const> = {"uint16", "uint32", "uint64"}
local is_float8, is_unsigned, is_float = {}, {}, {}
for _, name in ipairs(float8) do is_float8[name] = true end
for _, name in ipairs(unsigned) do is_unsigned[name] = true end
for name in ("float32 float64 float16 bfloat16"):gmatch "%S+" do is_float[name] = true end

if device.name == "cuda" then
   it("dtypes without loops of their own are refused on a GPU by their names", function()
      for _, name in ipairs {"float8_e4m3fn", "float8_e8m0fnu", "uint16", "uint64"} do
         assert.raises(("there are no %s tensors on cuda:0 yet"):format(name),
            function() torch.zeros(2, {dtype = name}) end)
      end
   end)
   return
end

local function hash_of(t)
   local h = 0xcbf29ce484222325
   local list = t:clone():untyped_storage():tolist()
   for i = 1, #list do h = (h ~ list[i]) * 0x100000001b3 end
   return ("%016x"):format(h)
end

-- Replaces all NaN, whose bits may differ, by the same NaN.
local function plain(x)
   if not is_float[x.dtype] then return x end
   local nan = torch.tensor({0x7fc00000}, {dtype = "int32"}):view "float32":to(x.dtype)
   return torch.where(x:isnan(), nan, x)
end

local function every_byte() return torch.arange(256):to "uint8" end

local function float32_sample()
   local parts = {torch.arange(0, 1 << 32, 65537, {dtype = "int64"}):to "int32":view "float32"}
   for _, dtype in ipairs(float8) do
      local x = every_byte():view(dtype):to "float32"
      x = x[x:isfinite()]:double():sort()
      local halves = ((x:narrow(1, 2, x:size(1) - 1) + x:narrow(1, 1, x:size(1) - 1)) / 2):float()
      local bits = halves:view "int32"
      table.move({halves, (bits - 1):view "float32", (bits + 1):view "float32"}, 1, 3, #parts + 1, parts)
   end
   return plain(torch.cat(parts))
end

local sample
local function values(dtype)
   if dtype == "float32" or dtype == "float64" then
      sample = sample or float32_sample()
      return sample:to(dtype)
   elseif dtype == "float16" or dtype == "bfloat16" then
      return torch.arange(65536):to "int32":to "int16":view(dtype)
   elseif dtype == "int8" or dtype == "uint8" then
      return torch.arange(256):to(dtype)
   elseif is_float8[dtype] then
      return every_byte():view(dtype)
   elseif dtype == "bool" then
      return torch.tensor {false, true}
   end
   return (torch.arange(0, 65536, 1, {dtype = "int64"}) * 1125899906842597):to(dtype)
end

describe("dtypes without loops of their own", function()
   it("are converted from and to all dtypes with PyTorch's bits", function()
      local count, wrong = 0, {}
      for line in io.lines "spec/fixtures/stored.txt" do
         local from, to, expected = line:match "^(%w+) (%w+) (%x+)$"
         if not from then from, to, expected = line:match "^([%w_]+) ([%w_]+) (%x+)$" end
         if from then
            local x = values(from)
            if (is_float[from] or is_float8[from]) and to ~= "bool" and not is_float[to] and not is_float8[to] then
               local top = math.min(torch.iinfo(to).max, 2.0^31)
               local wide = x:to "float32"
               x = x[wide:ge(0):logical_and(wide:lt(top))]
            end
            count = count + 1
            if hash_of(plain(device.to and device.to(x):to(to):cpu() or x:to(to))) ~= expected then
               wrong[#wrong + 1] = from .. " to " .. to
            end
         end
      end
      assert.equal(216, count)
      assert.equal("", table.concat(wrong, ", "))
   end)

   it("have PyTorch's limits", function()
      local limits = {float8_e4m3fn = {448, 0.125, 2.0^-6}, float8_e5m2 = {57344, 0.25, 2.0^-14},
         float8_e4m3fnuz = {240, 0.125, 2.0^-7}, float8_e5m2fnuz = {57344, 0.25, 2.0^-15},
         float8_e8m0fnu = {2.0^127, 1, 2.0^-127}}
      for dtype, want in pairs(limits) do
         local f = torch.finfo(dtype)
         assert.same(want, {f.max, f.eps, f.tiny})
         assert.equal(dtype == "float8_e8m0fnu" and f.tiny or -f.max, f.min)
      end
      assert.equal(65535, torch.iinfo "uint16".max)
      assert.equal(4294967295, torch.iinfo "uint32".max)
      assert.equal(2.0^64, torch.iinfo "uint64".max)
      assert.raises("full: 1e+06 does not fit in a tensor of dtype float8_e4m3fn",
         function() torch.full({2}, 1e6, {dtype = "float8_e4m3fn"}) end)
      assert.raises("full: 65536 does not fit in a tensor of dtype uint16",
         function() torch.full({2}, 65536, {dtype = "uint16"}) end)
   end)

   it("are printed with all digits", function()
      assert.equal("tensor([448.0000,   1.5000], dtype=torch.float8_e4m3fn)",
         tostring(torch.tensor({1e9, 1.5}, {device = "cpu"}):to "float8_e4m3fn"))
      assert.equal("tensor([18446744073709551615,                    7], dtype=torch.uint64)",
         tostring(torch.tensor({-1, 7}, {dtype = "uint64", device = "cpu"})))
   end)

   it("are saved in safetensors files by that format's names, and in .npy files", function()
      local path = os.tmpname()
      local names = {float8_e4m3fn = "F8_E4M3", float8_e5m2 = "F8_E5M2", float8_e4m3fnuz = "F8_E4M3FNUZ",
         float8_e5m2fnuz = "F8_E5M2FNUZ", float8_e8m0fnu = "F8_E8M0", uint16 = "U16", uint32 = "U32", uint64 = "U64"}
      for dtype, name in pairs(names) do
         local x = torch.tensor({1, 2, 4}):to(dtype)
         torch.save({x = x}, path .. ".safetensors")
         local file <close> = assert(io.open(path .. ".safetensors", "rb"))
         assert.truthy(file:read "a":find('"dtype":"' .. name .. '"', 1, true))
         local back = torch.load(path .. ".safetensors").x
         assert.equal(dtype, back.dtype)
         assert.same({1.0, 2.0, 4.0}, back:to "float64":tolist())
         if is_unsigned[dtype] then
            torch.save(x, path .. ".npy")
            back = torch.load(path .. ".npy")
            assert.equal(dtype, back.dtype)
            assert.same({1, 2, 4}, back:tolist())
         end
      end
      for _, ending in ipairs {"", ".safetensors", ".npy"} do os.remove(path .. ending) end
   end)

   it("are moved, compared and indexed", function()
      for _, dtype in ipairs {float8[1], float8[2], float8[3], float8[4], float8[5], table.unpack(unsigned)} do
         local x = torch.tensor({{1, 2}, {4, 8}}):to(dtype)
         local function list(t)
            assert.equal(dtype, t.dtype)
            return t:to "int64":tolist()
         end
         assert.same({{1, 2}, {4, 8}, {1, 2}, {4, 8}}, list(torch.cat {x, x}))
         assert.same({{1, 2, 1, 2}, {4, 8, 4, 8}}, list(torch.cat({x, x}, 2)))
         assert.same({{1, 1}, {2, 2}}, list(torch.stack({x[1], x[1]}, 2)))
         assert.same({{4, 8}, {1, 2}}, list(x:flip(1)))
         assert.same({{2, 1}, {8, 4}}, list(x:index_select(2, torch.tensor {2, 1})))
         assert.same({{1, 4}, {2, 8}}, list(x:t():contiguous()))
         assert.same({4, 8}, list(x[2]))
         assert.same({2, 8}, list(x[{{}, 2}]))
         assert.same({4, 8}, list(x[torch.tensor {false, true}]:flatten()))
         assert.same({{true, false}, {false, false}}, x:eq(1):tolist())
         assert.same({{false, true}, {true, true}}, x:ne(1):tolist())
         assert.same({{1, 2}, {2, 2}}, list(torch.where(x:eq(1), x, torch.full_like(x, 2))))
         x[1] = 16
         x[x:eq(4)] = 2
         x[torch.tensor {1}] = torch.ones(2)
         assert.same({{1, 1}, {2, 8}}, list(x))
         assert.same({{1, 1}, {4, 64}}, list(x * x))
      end
   end)

   it("compute what PyTorch computes with unsigned integers", function()
      local big = 2.0^63
      local x = torch.tensor({5, big, big + 4096, 7}, {dtype = "uint64"})
      assert.same({5, 7, big, big + 4096}, (x:sort()):tolist())
      assert.same({6, big, big + 4096, 7}, x:maximum(torch.full_like(x, 6)):tolist())
      assert.same({4, big, big, 4}, x:bitwise_and(torch.tensor({4, big, big, 4}, {dtype = "uint64"})):tolist())
      assert.equal(4108, x:sum():item())
      assert.equal("int64", x:sum().dtype)
      local y = torch.tensor({1, 4, 65535}, {dtype = "uint16"})
      assert.same({1.0, 2.0}, y[{{1, 2}}]:sqrt():tolist())
      assert.same({3, 12, 65533}, (y * 3):tolist())
      assert.same({0.5, 2.0, 32767.5}, (y / 2):tolist())
      assert.same({2, 4, 100}, y:clamp(2, 100):tolist())
      assert.equal("float32", (y * torch.ones(3)).dtype)
      assert.raises("clamp: -1 does not fit in a tensor of dtype uint16", function() y:clamp(-1, 2) end)
      assert.is_false(y:is_signed())
      assert.equal(y, y:clamp_(1, 4))
      assert.same({1, 4, 4}, y:tolist())
   end)

   it("refuse other operators and promotion by name", function()
      local x, y = torch.ones(2, {dtype = "float8_e5m2"}), torch.ones(2, {dtype = "uint32"})
      local hint = [[; convert the tensor, as in x:to "%s"]]
      for name, call in pairs {add = function(t) return t + t end, sub = function(t) return 1 - t end,
         lt = function(t) return t:lt(t) end, argmax = function(t) return t:argmax() end,
         add_ = function(t) return t:add_(1) end, std = function(t) return t:std() end,
         softmax = function(t) return t:softmax(1) end, max = function(t) return t:max() end} do
         local _, message = pcall(call, x)
         assert.truthy(message:find(name .. ": not implemented for 'float8_e5m2'" .. hint:format "float32", 1, true))
         _, message = pcall(call, y)
         assert.truthy(message:find(name .. ": not implemented for 'uint32'" .. hint:format "int64", 1, true))
      end
      assert.raises("mul: not implemented for 'float8_e5m2'", function() return x * 2 end)
      assert.raises("mul_: a tensor of shape [2, 2] does not fit self of shape [2]",
         function() y:mul_(torch.ones(2, 2, {dtype = "uint32"})) end)
      assert.raises("where: not implemented for 'uint32'", function() return torch.where(y) end)
      assert.raises("where: not implemented for 'float8_e5m2'", function() return torch.where(x, y, y) end)
      assert.raises("eq: uint32 and float8_e5m2 have no common dtype",
         function() return y:eq(torch.tensor(1.0):to "float8_e5m2") end)
      assert.raises("rand: not implemented for 'uint32'", function() torch.rand(2, {dtype = "uint32"}) end)
      assert.raises("sum: not implemented for 'uint32'",
         function() torch.ones(2):sum {dtype = "uint32"} end)
      assert.raises("mul: float8_e5m2 and float32 have no common dtype; convert one of them",
         function() return x * torch.ones(2) end)
      assert.raises("promote_types: uint32 and int32 have no common dtype",
         function() torch.promote_types("uint32", "int32") end)
      assert.raises("cat: float8_e5m2 and uint32 have no common dtype", function() torch.cat {x, y} end)
   end)

   it("pass gradients through conversions, and refuse them elsewhere", function()
      local x = torch.tensor({1.0, 300.0}, {requires_grad = true})
      x:to "float8_e4m3fn":to "float32":mul(torch.tensor {2.0, 3.0}):sum():backward()
      assert.same({2.0, 3.0}, x.grad:tolist())
      local narrow = x:to "float8_e4m3fn"
      assert.raises("cat: gradients of float8_e4m3fn pass through conversions and views alone; call detach() first",
         function() torch.cat {narrow, narrow} end)
   end)

   it("gradients of float8 are not added, as in PyTorch", function()
      local x = torch.tensor({1.0, 2.0}, {requires_grad = true})
      local narrow = x:to "float8_e4m3fn"
      local message = "backward: two gradients of float8_e4m3fn cannot be added; a tensor of this dtype must be used"
      assert.raises(message, function() (narrow:float() + narrow:float() * 2):sum():backward() end)
      local leaf = narrow:detach():requires_grad_()
      leaf:float():sum():backward()
      assert.same({1, 1}, leaf.grad:float():tolist())
      assert.raises(message, function() leaf:float():sum():backward() end)
   end)

   it("are refused as positions", function()
      local F = torch.nn.functional
      local x, at = torch.tensor {10.0, 20, 30}, torch.tensor {1, 2}
      for dtype in ("uint16 uint32 uint64"):gmatch "%S+" do
         local i = at:to(dtype)
         for name, call in pairs {
            ["index_select: argument 3"] = function() return x:index_select(1, i) end,
            ["scatter_: argument 3"] = function() return x:scatter_(1, i, 5) end,
            ["take: argument 2"] = function() return x:take(i) end,
            ["index_put: argument 2"] = function() return x:index_put({i}, torch.tensor(3.0)) end,
            ["index: index"] = function() return x[i] end,
            ["embedding: argument 1"] = function() return F.embedding(i, torch.eye(3)) end,
            ["cross_entropy: argument 2"] = function() return F.cross_entropy(torch.eye(2), i) end,
         } do
            assert.raises(name .. ": expected positions as int64 or int32, got " .. dtype, call)
         end
         assert.raises("expected positions as int64 or int32, got " .. dtype, function() x[i] = 0 end)
         assert.raises("expected positions as int64 or int32, got " .. dtype, function() return i[i] end)
      end
   end)
end)

-- PyTorch 2.15 gives the same results for arithmetic, promotion and `abs`, and the same name of the dtype in files.
describe("complex32", function()
   local z <const> = torch.complex
   local function make() return torch.tensor({z(1, 2), z(-3.5, 0.25)}):to "complex32" end

   it("rounds both parts to float16, and converts to all dtypes", function()
      local x = torch.tensor({z(1 / 3, 1e5), z(1e-8, -2)}):to "complex32"
      assert.equal(4, x:element_size())
      assert.is_true(x:is_complex() and torch.chalf == x.dtype)
      assert.same({0.333251953125, math.huge, 0.0, -2.0}, x:view_as_real():flatten():tolist())
      assert.same({z(1, 2), z(-3.5, 0.25)}, make():to "complex128":tolist())
      assert.same({1, -3}, make():int():tolist())
      assert.same({z(1, 0)}, torch.ones(1, {dtype = "float8_e5m2"}):to "complex32":tolist())
      assert.equal(65504, torch.finfo "complex32".max)
      local y = torch.ones(2, {dtype = "complex64", requires_grad = true})
      y:chalf():to "complex64".real:sum():backward()
      assert.same({z(1, 0), z(1, 0)}, y.grad:tolist())
   end)

   it("shares memory with pairs of float16", function()
      local x = make()
      x.imag:mul_(2)
      assert.same({z(1, 4), z(-3.5, 0.5)}, x:tolist())
      assert.equal("complex32", torch.ones(3, 2):half():view_as_complex().dtype)
      x[1] = z(5, 6)
      assert.same({z(5, 6), z(-3.5, 0.5)}, torch.stack {x[1], x[2]}:tolist())
   end)

   it("has PyTorch's few operators", function()
      local x = make()
      assert.same({z(2, 4), z(-7, 0.5)}, (x + x):tolist())
      assert.same({z(-3, 4), z(12.1875, -1.75)}, (x * x):tolist())
      assert.same({z(-1, -2), z(3.5, -0.25)}, (-x):tolist())
      assert.same({z(1, -2), z(-3.5, -0.25)}, x:conj():tolist())
      assert.same({"float16", 2.236328125, 3.509765625}, {x:abs().dtype, table.unpack(x:abs():tolist())})
      assert.equal("complex64", (x + torch.ones(2)).dtype)
      assert.equal("complex32", (x + torch.ones(2):half()).dtype)
      for dtype, want in pairs {int64 = "complex32", float16 = "complex32", bfloat16 = "complex64",
         float64 = "complex128", complex64 = "complex64"} do
         assert.equal(want, torch.promote_types("complex32", dtype))
      end
      for name, fn in pairs {sum = torch.sum, exp = torch.exp, ["fft.fft"] = torch.fft.fft} do
         assert.raises(name .. ": not implemented for 'complex32'; convert the tensor, as in x:to \"complex64\"",
            function() fn(x) end)
      end
   end)

   it("is printed, and saved as by PyTorch", function()
      assert.equal("tensor([ 1.0000+2.0000j, -3.5000+0.2500j], dtype=torch.complex32)", tostring(make():cpu()))
      local path = os.tmpname() .. ".pt"
      torch.save(make(), path)
      local file = assert(io.open(path, "rb"))
      assert.truthy(file:read "a":find("complex32", 1, true))
      file:close()
      local back = torch.load(path)
      assert.equal("complex32", back.dtype)
      assert.same(make():tolist(), back:tolist())
      os.remove(path)
   end)
end)
