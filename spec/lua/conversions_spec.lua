-- Tests conversions between tensors and Lua values. The expected values are those of PyTorch 2 and NumPy.

local torch = require "tlua"
local shell = require "spec.support.shell"

describe("torch.frombuffer", function()
   it("reads the elements of a string", function()
      -- The expected values are the result of torch.frombuffer(struct.pack("<5h", 1, -2, 3, 4, 5), dtype=torch.int16,
      -- count=2, offset=4).
      local text = ("<i2i2i2i2i2"):pack(1, -2, 3, 4, 5)
      assert.same({1, -2, 3, 4, 5}, torch.frombuffer(text, {dtype = "int16"}):tolist())
      local part = torch.frombuffer(text, {dtype = "int16", count = 2, offset = 4})
      assert.equal("int16", part.dtype)
      assert.same({3, 4}, part:tolist())
      assert.same({0xFFFE0001 - (1 << 32)}, torch.frombuffer(text, {dtype = "int32", count = 1}):tolist())
      assert.same({false, true}, torch.frombuffer("\0\1", {dtype = "bool"}):tolist())
      assert.equal(0.5, torch.frombuffer("x" .. ("<d"):pack(0.5), {dtype = "float64", offset = 1})[1]:item())
      assert.is_true(torch.frombuffer(("<f"):pack(1), {dtype = "float32", requires_grad = true}).requires_grad)
   end)

   it("shares the memory of a tensor of bytes", function()
      local bytes = torch.frombuffer(("<ff"):pack(1, 2), {dtype = "uint8"})
      local x = torch.frombuffer(bytes, {dtype = "float32"})
      assert.same({1, 2}, x:tolist())
      x[2] = 3
      assert.equal(("<f"):pack(3), torch.io.text(bytes, 5, 4))
   end)

   it("names the argument that does not fit", function()
      local function refused(message, ...)
         local given = table.pack(...)
         assert.raises("frombuffer: " .. message, function() torch.frombuffer(table.unpack(given, 1, given.n)) end)
      end
      refused("buffer: expected a string or a tensor, got a table", {1}, {dtype = "int8"})
      refused("dtype is missing", "abcd")
      refused("the 5 bytes behind the offset are no multiple of 2, the size of int16", "abcde", {dtype = "int16"})
      refused("offset: expected less than the buffer's 2 bytes, got 2", "ab", {dtype = "int8", offset = 2})
      refused("offset: expected less than the buffer's 0 bytes, got 0", "", {dtype = "int8"})
      refused("count: expected at most 1 elements of int16 in 3 bytes, got 2", "abcd",
         {dtype = "int16", count = 2, offset = 1})
      refused("count: expected at least 1, or -1 for all, got 0", "ab", {dtype = "int8", count = 0})
      refused("buffer: expected a string or a contiguous tensor of uint8 on the CPU", torch.ones(2), {dtype = "int8"})
   end)
end)

describe("tables", function()
   it("are converted to tensors and back", function()
      local x = torch.from_table {{1, 2}, {3, 4}}
      assert.equal("int64", x.dtype)
      assert.same({{1, 2}, {3, 4}}, x:numpy())
      assert.same({{1, 2}, {3, 4}}, x:tolist())
      assert.equal("float16", torch.from_table({1.5}, {dtype = "float16"}).dtype)
      assert.equal(2.5, torch.tensor(2.5):numpy())
      assert.same({{1, 2}, {3, 4}}, torch.from_numpy(x:numpy()):tolist())
      assert.equal(x, torch.from_numpy(x))
      assert.raises("from_table: data: expected a table of numbers, got 3", function() torch.from_table(3) end)
      assert.raises("from_numpy: data: expected a tensor or a table of numbers, got \"x.npy\"",
         function() torch.from_numpy "x.npy" end)
   end)

   it("cannot be made from tensors for which PyTorch refuses numpy()", function()
      assert.raises("numpy: the tensor requires a gradient; use x:detach():numpy()",
         function() torch.ones(1, {requires_grad = true}):numpy() end)
      assert.raises("numpy: the tensor is on sim:0; use x:cpu():numpy()",
         function() torch.ones(1, {device = "sim"}):numpy() end)
   end)
end)

it("torch.asarray copies if it must, or if copy = true", function()
   local x = torch.ones(2)
   assert.equal(x:data_ptr(), torch.asarray(x):data_ptr())
   assert.equal(x:data_ptr(), torch.asarray(x, {dtype = "float32", copy = false}):data_ptr())
   assert.not_equal(x:data_ptr(), torch.asarray(x, {copy = true}):data_ptr())
   assert.equal("float64", torch.asarray(x, {dtype = "float64"}).dtype)
   assert.same({1, 2}, torch.asarray {1, 2}:tolist())
   assert.is_true(torch.asarray(x, {requires_grad = true}).requires_grad)
   assert.is_false(x.requires_grad)
   assert.raises("asarray: copy: expected nil or true, since the tensor with another dtype or device",
      function() torch.asarray(x, {dtype = "int8", copy = false}) end)
   assert.raises("asarray: copy: expected nil or true, since a table cannot be had as it is",
      function() torch.asarray({1}, {copy = false}) end)
end)

it("torch.io.decode_image also takes a file's bytes as a string", function()
   local text = shell.read "spec/fixtures/formats/alpha.png"
   local image, message = torch.io.decode_image(text)
   if not image and message:find("needs lib", 1, true) then return pending(message) end
   assert.is_true(torch.equal(torch.load "spec/fixtures/formats/alpha.png", image))
   assert.is_true(torch.equal(image, torch.io.decode_image(torch.io.bytes(text))))
   assert.same({nil, "neither a PNG, a JPEG nor a WebP file"}, {torch.io.decode_image "text"})
   assert.raises("io.decode_image: expected a file's bytes as a string or as a tensor of uint8, got 3",
      function() torch.io.decode_image(3) end)
   assert.raises("io.decode_image: expected a contiguous tensor of uint8",
      function() torch.io.decode_image(torch.ones(3)) end)
end)
