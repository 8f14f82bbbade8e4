-- Tests torch.ops.quantized, the modules of torch.ao.nn.quantized, and files with quantized tensors. PyTorch 2.15 has
-- written spec/fixtures/quantized.pt; the script is next to the file.

local torch = require "tlua"
local nn, Q, nnq = torch.nn, torch.ao.quantization, torch.ao.nn.quantized
local O = torch.ops.quantized

local function recorded()
   return torch.load("spec/fixtures/quantized.pt", {map_location = torch.get_default_device()})
end

local function tensor(list, scale, zero, dtype)
   return torch.quantize_per_tensor(torch.tensor(list), scale, zero, dtype or "quint8")
end

local function same(expected, q, label)
   assert.equal(expected.dtype, q.dtype, label)
   assert.equal(expected:q_scale(), q:q_scale(), label)
   assert.equal(expected:q_zero_point(), q:q_zero_point(), label)
   assert.same(expected:int_repr():tolist(), q:int_repr():tolist(), label)
end

describe("torch.ops.quantized", function()
   it("has PyTorch's scales and integers", function()
      local seen = {}
      for i, case in ipairs(recorded().cases) do
         local given = case.args
         if case.name:find "^cat" then given[2] = given[2] + 1 end
         same(case.result, O[case.name](table.unpack(given)), ("case %d, %s"):format(i, case.name))
         seen[case.name] = true
      end
      for name in pairs(O) do assert.is_true(seen[name], name) end
   end)

   it("adds and multiplies by a number under the plain names, too", function()
      local q = tensor({-1.0, 2}, 0.5, 10)
      same(O.add_scalar(q, 1.5), O.add(q, 1.5))
      same(O.mul_scalar_relu(q, -2), O.mul_relu(q, -2))
   end)

   it("keeps 32-bit integers exact", function()
      local a, b = tensor({3e4, -5e4}, 1.0, 0, "qint32"), tensor({7e4, 6e4}, 1.0, 0, "qint32")
      assert.same({2100000000, -2147483648}, O.mul(a, b, 1, 0):int_repr():tolist())
   end)

   it("refuses arguments that do not fit", function()
      local q = tensor({-1.0, 2}, 0.5, 10)
      local channels = torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 1, "quint8")
      for message, fn in pairs {
         ["add: qb: expected a tensor quantized per tensor, got a float32 tensor"] =
            function() O.add(q, torch.ones(2), 1, 0) end,
         ["add: qa: expected a tensor quantized per tensor, got a quint8 quantized"] =
            function() O.add(channels, q, 1, 0) end,
         ["add: qb: expected a tensor quantized per tensor, got 3"] = function() O.add(q, 3, 1, 0) end,
         ["add: qb: expected a quint8 tensor on "] =
            function() O.add(q, tensor({1.0, 2}, 1, 0, "qint8"), 1, 0) end,
         ["add: scale: expected a number or a tensor of one, got nil"] = function() O.add(q, q) end,
         ["mul: scale: expected a finite number above 0, got 0"] = function() O.mul(q, q, 0, 0) end,
         ["mul: zero_point: expected an integer from 0 to 255 for quint8, got 256"] =
            function() O.mul(q, q, 1, 256) end,
         ["add_scalar: b: expected a finite number, got inf"] = function() O.add_scalar(q, math.huge) end,
         ["add_scalar: b: expected a number of less than 2^31 steps of the scale, 0.5, got 1e+20"] =
            function() O.add_scalar(q, 1e20) end,
         ["cat: qx[1]: expected a tensor quantized per tensor, got nil"] = function() O.cat({}, 1) end,
         ["torch.ops.quantized: no field 'conv3d'"] = function() return O.conv3d end,
         ["library.opcheck: quantized::add is an operator of torch"] =
            function() torch.library.opcheck("quantized::add", {q, q, 1, 0}) end,
      } do
         assert.raises(message, fn)
      end
   end)
end)

describe("a model with skip connections", function()
   local Net = torch.class("Net", nn.Module)

   function Net:__init()
      nn.Module.__init(self)
      self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
      self.conv1, self.conv2 = nn.Conv2d(2, 4, 3, {padding = 1}), nn.Conv2d(4, 4, 3, {padding = 1})
      self.skip, self.join, self.gate = nnq.FloatFunctional(), nnq.FloatFunctional(), nnq.FloatFunctional()
      self.fc = nn.Linear(8, 3)
   end

   function Net:forward(x)
      x = self.conv1(self.quant(x)):relu()
      x = self.skip:add_relu(self.conv2(x), x)
      x = self.join:cat({x, self.gate:mul(x, x)}, 2)
      x = nn.functional.adaptive_avg_pool2d(self.skip:mul_scalar(x, 0.75), 1)
      return self.dequant(self.fc(x:flatten(2)))
   end

   local function net()
      local new = Net():eval()
      new.qconfig = Q.default_qconfig
      return new
   end

   it("is prepared and converted as in PyTorch", function()
      local model = recorded().model
      local plain = net()
      plain:load_state_dict(model.state)
      local prepared = Q.prepare(plain)
      assert.close(plain(model.seen), prepared(model.seen), 1e-6)
      local small = Q.convert(prepared)
      assert.equal("ao.nn.quantized.QFunctional", torch.type(small.skip))
      local state = small:state_dict()
      for path, value in pairs(model.scales) do
         if path:find "scale$" or path:find "zero_point$" then
            assert.close(value:double(), state[path]:double(), 1e-6)
         end
      end
      assert.close(model.y, small(model.x), 1e-6)
   end)

   it("is saved and loaded", function()
      local model = recorded().model
      local plain = net()
      plain:load_state_dict(model.state)
      local prepared = Q.prepare(plain)
      prepared(model.seen)
      local small = Q.convert(prepared)
      for _, ending in ipairs {".safetensors", ".pt"} do
         local path = os.tmpname() .. ending
         torch.save(small:state_dict(), path)
         local other = Q.convert(Q.prepare(net()))
         assert.matches("scale: the prepared model had seen no data", select(2, pcall(other, model.x)), 1, true)
         other:load_state_dict(torch.load(path))
         assert.is_true(torch.equal(small(model.x), other(model.x)))
         os.remove(path)
      end
   end)

   it("computes with floating-point tensors before it is converted", function()
      local x, y = torch.tensor {1.0, -3}, torch.tensor {2.0, 2}
      for _, f in ipairs {nnq.FloatFunctional(), nnq.FXFloatFunctional()} do
         assert.same({{3, -1}, {3, 0}, {2, -6}, {2, -2}, {2, -6}, {1, -3, 2, 2}, -4},
            {f:add(x, y):tolist(), f:add_relu(x, y):tolist(), f:mul(x, y):tolist(), f:add_scalar(x, 1):tolist(),
               f:mul_scalar(x, 2):tolist(), f:cat({x, y}):tolist(), f:matmul(x, y):item()})
         assert.raises("FloatFunctional: the module is not called itself", function() f(x) end)
      end
   end)

   it("refuses tensors that no QuantStub has quantized", function()
      local f = nnq.QFunctional()
      f.scale, f.zero_point = 0.25, 3
      local q = tensor({1.0, 2}, 0.5, 10)
      assert.same({11, 19}, f:add(q, q):int_repr():tolist())
      assert.equal("QFunctional(scale=0.25, zero_point=3)", tostring(f))
      local state = f:state_dict()
      local other = nnq.QFunctional()
      other:load_state_dict(state)
      same(f:mul(q, q), other:mul(q, q))
      state.scale = torch.tensor(-1.0)
      assert.raises("scale: expected a finite number of at least 0", function() other:load_state_dict(state) end)
      assert.raises("QFunctional:add: y: expected a quantized tensor, which a QuantStub before the layer makes, got a "
         .. "float32 tensor", function() f:add(q, torch.ones(2)) end)
      assert.raises("QFunctional:cat: x: expected a list of tensors", function() f:cat(q) end)
      f.scale = "x"
      assert.raises("QFunctional: scale: expected a number or a tensor of one", function() f:add(q, q) end)
   end)
end)

it("quantized tensors are averaged in integers", function()
   local x = torch.tensor({{{{-1.0, 0.26, 3, 1}, {0.5, 2, 0, 0}}}})
   local q = torch.quantize_per_tensor(x, 0.1, 10, "quint8")
   local F = nn.functional
   -- The integers are 0, 13, 40, 20 and 15, 30, 10, 10. Their means are 4.5 and 10 above the zero point.
   assert.same({14, 20}, F.avg_pool2d(q, 2):int_repr():flatten():tolist())
   assert.same({14, 20}, F.adaptive_avg_pool2d(q, {1, 2}):int_repr():flatten():tolist())
   assert.same({17}, q:mean({3, 4}):int_repr():flatten():tolist())
end)

describe("files with quantized tensors", function()
   it("are PyTorch's, and are written in the same form", function()
      local all = recorded()
      assert.same({"quint8", "per_channel_affine"}, {all.dtype, all.scheme})
      assert.same({1000007, -1999993}, all.wide:int_repr():tolist())
      assert.is_true(all.cases[1].args[1][{{3, 5}}]:equal(all.view))
      assert.equal(2, all.channels:q_per_channel_axis())
      assert.is_true(torch.equal(all.channels_dense, all.channels:dequantize()))
      for _, ending in ipairs {".safetensors", ".pt"} do
         local path = os.tmpname() .. ending
         torch.save({channels = all.channels, deep = {all.view}, wide = all.wide}, path)
         local again = torch.load(path)
         assert.is_true(again.channels:equal(all.channels:cpu()))
         assert.is_true(again.deep[1]:equal(all.view:cpu()))
         assert.is_true(again.wide:equal(all.wide:cpu()))
         torch.save(all.view, path)
         assert.is_true(torch.load(path):equal(all.view:cpu()))
         os.remove(path)
      end
   end)

   it("are refused where a format has no such tensors, and where parts do not fit", function()
      local q = tensor({1.0, 2}, 0.5, 10)
      assert.raises("a: a quantized tensor cannot be saved in this format: .safetensors and .pt files take it",
         function() torch.save({a = q}, "q.npz") end)
      local path = os.tmpname() .. ".safetensors"
      local function damaged(from, to)
         torch.save({a = q}, path)
         local file = assert(io.open(path, "rb"))
         local bytes = file:read "a"
         file:close()
         local header = bytes:sub(9, 8 + string.unpack("<i8", bytes))
         local changed, n = header:gsub(from, to)
         assert.equal(1, n)
         file = assert(io.open(path, "wb"))
         file:write(string.pack("<i8", #changed), changed, bytes:sub(9 + #header))
         file:close()
         return function() torch.load(path) end
      end
      for message, change in pairs {
         ["expected a scale above 0"] = {'\\"scale\\":0.5', '\\"scale\\":-1'},
         ["the zero point is out of range"] = {'\\"zero_point\\":10', '\\"zero_point\\":256'},
         ["the integers have another dtype"] = {'\\"quint8\\"', '\\"qint8\\"'},
      } do
         assert.raises("the structure has a malformed quantized tensor: " .. message, damaged(table.unpack(change)))
      end
      os.remove(path)
   end)
end)
