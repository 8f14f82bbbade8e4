-- Tests products of 8-bit numbers, fake quantization, quantized tensors and torch.ao.quantization. The expected values
-- were computed by PyTorch 2.15.

local torch = require "tlua"
local device = require "spec.support.device"
local Q, nn = torch.ao.quantization, torch.nn

-- Returns n integers from -128 to 127.
local function ints(n, seed)
   local i = torch.arange(n)
   return ((i * i * 7919 + i * seed) % 256 - 128):to "int8"
end

local function pattern(step, modulus, shift, divisor) return (torch.arange(24) * step % modulus - shift) / divisor end

local function same(expected, value, tolerance) assert.close(torch.tensor(expected), value, tolerance or 1e-6) end

describe("products of 8-bit numbers", function()
   it("_int_mm is exact", function()
      for _, case in ipairs {{3, 5, 7, -7276, 25340, 64764}, {20, 1500, 9, 1761176, 17824800, -51828192},
         {1, 33, 1, -26688, -26688, 22976}} do
         local m, k, n, first, sum, unsigned_sum = table.unpack(case)
         local a, b = ints(m * k, 3):view(m, k), ints(k * n, 11):view(k, n)
         local product = torch._int_mm(a, b)
         assert.equal("int32", product.dtype)
         assert.equal(first, product:flatten()[1]:item())
         assert.equal(sum, product:sum():item())
         assert.equal(unsigned_sum, torch._int_mm(a:view "uint8", b):sum():item())
      end
      assert.same({2, 3}, torch._int_mm(ints(0, 1):view(2, 0), ints(0, 1):view(0, 3)).shape)
      assert.raises("_int_mm: self: expected int8 or uint8", function() torch._int_mm(torch.ones(2, 2), ints(4, 1)) end)
      assert.raises("_int_mm: shapes (2, 3) and (2, 3) do not fit: 3 columns and 2 rows",
         function() torch._int_mm(ints(6, 1):view(2, 3), ints(6, 1):view(2, 3)) end)
   end)

   it("_scaled_mm multiplies by scales of tensors or of rows and columns", function()
      if device.name == "cuda" then return pending "float8 tensors are on the CPU alone" end
      local a = (ints(48, 3):view(3, 16):float() / 16):to "float8_e4m3fn"
      local b = (ints(32, 5):view(16, 2):float() / 32):to "float8_e5m2"
      local half, two = torch.tensor(0.5), torch.tensor(2.0)
      assert.same({{101, 233}, {88, 203}, {221, 93}}, torch._scaled_mm(a, b, half, two):view "uint8":tolist())
      same({{53.1640625, -7.15625}, {33.59375, 0.5703125}, {-106.84375, 15.28125}},
         torch._scaled_mm(a, b, torch.tensor {{0.5}, {1.0}, {2.0}}, torch.tensor {{2.0, 0.25}},
            {bias = torch.tensor {1.0, 2.0}, out_dtype = "float32"}))
      assert.same({{89, 220}, {75, 191}, {209, 81}},
         torch._scaled_mm(a, b, half, two, {scale_result = torch.tensor(3.0)}):view "uint8":tolist())
      assert.raises("_scaled_mm: scale_a: expected one number or a shape of (3, 1)",
         function() torch._scaled_mm(a, b, torch.ones(3), two) end)
      assert.raises("_scaled_mm: self: expected a float8 matrix",
         function() torch._scaled_mm(a:float(), b, half, two) end)
   end)
end)

describe("fake quantization", function()
   local x, grad

   before_each(function()
      x = pattern(37, 48, 20, 7.0):view(2, 3, 4):requires_grad_()
      grad = pattern(11, 13, 5, 3.0):view(2, 3, 4)
   end)

   local function sums(y)
      y:backward(grad)
      return torch.stack {y:double():sum(), (y:double() * grad):sum(), x.grad:double():sum()}
   end

   it("rounds per tensor and per channel, and passes gradients inside the range", function()
      local y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 15)
      same({5.200000338256359, 5.600000119705991, 7.333333283662796}, sums(y):float())
      x.grad = nil
      y = torch.fake_quantize_per_channel_affine(x, torch.tensor {0.1, 0.3, 0.07},
         torch.tensor({1, -2, 0}, {dtype = "int32"}), 2, -8, 15)
      same({9.5999995470047, 3.959999759594597, 4.3333331644535065}, sums(y):float())
      same({0.0, 25.5, 0.0}, torch.fake_quantize_per_tensor_affine(torch.tensor {0 / 0, 1 / 0, -1 / 0}, 0.1, 0, 0, 255))
      assert.raises("zero_point: expected quant_min to quant_max, 0 to 255, got 300",
         function() torch.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255) end)
   end)

   it("learns scales and zero points", function()
      local scale, zero = torch.tensor({0.1}, {requires_grad = true}), torch.tensor({1.3}, {requires_grad = true})
      torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, -8, 15, 0.5):backward(grad)
      same({33.47618865966797}, scale.grad)
      same({-0.15}, zero.grad)
      scale = torch.tensor({0.1, 0.3, 0.07}, {requires_grad = true})
      zero = torch.tensor({1.0, -2.4, 0.2}, {requires_grad = true})
      torch._fake_quantize_learnable_per_channel_affine(x, scale, zero, 2, -8, 15, 0.5):backward(grad)
      same({47.833335876464844, 0.6825391054153442, 6.687075138092041}, scale.grad, 1e-5)
      same({0.016666673123836517, 0.0, -0.21000000834465027}, zero.grad)
   end)
end)

describe("quantized tensors", function()
   it("have integers, scales and PyTorch's text", function()
      local x = torch.tensor({{-1, 0, 1}, {2, 0.25, 300}}, {device = "cpu"})
      local q = torch.quantize_per_tensor(x, 0.1, 10, "quint8")
      assert.equal([==[
tensor([[-1.0000,  0.0000,  1.0000],
        [ 2.0000,  0.2000, 24.5000]], size=(2, 3), dtype=torch.quint8,
       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)]==], tostring(q))
      assert.same({{0, 10, 20}, {30, 12, 255}}, q:int_repr():tolist())
      assert.same({{0, 10, 20}, {30, 12, 127}}, torch.quantize_per_tensor(x, 0.1, 10, "qint8"):int_repr():tolist())
      assert.same({{0, 10, 20}, {30, 12, 3010}}, torch.quantize_per_tensor(x, 0.1, 10, "qint32"):int_repr():tolist())
      assert.equal("per_tensor_affine", q:qscheme())
      assert.same({0.1, 10, "quint8"}, {q:q_scale(), q:q_zero_point(), q.dtype})
      local scales, zeros = torch.tensor({0.1, 0.5}, {device = "cpu"}), torch.tensor({0, 3}, {device = "cpu"})
      local c = torch.quantize_per_channel(x, scales, zeros, 1, "quint8")
      assert.raises("quantize_per_channel: scales: expected finite numbers above 0", function()
         torch.quantize_per_channel(x, torch.tensor({0.1, math.huge}, {device = "cpu"}), zeros, 1, "quint8")
      end)
      assert.same({{0, 0, 10}, {7, 3, 255}}, c:int_repr():tolist())
      same({{0.0, 0.0, 1.0}, {2.0, 0.0, 126.0}}, c:dequantize())
      same({{0.0, 2.0}, {0.0, 0.0}, {1.0, 126.0}}, c:transpose(1, 2):dequantize())
      same({{-1.0, 0.0, 1.0}, {2.0, 0.2, 24.5}}, torch.dequantize(q))
      assert.is_true(q:equal(q:clone()))
      assert.is_false(q:equal(c))
      for _, fn in ipairs {function() return q + q end, function() return q:add(1) end,
         function() return torch.add(q, 1) end} do
         assert.raises("add: is not defined for quantized tensors; dequantize() makes a dense one", fn)
      end
      assert.raises("q_scale: expected a tensor quantized per tensor, got one of per_channel_affine",
         function() c:q_scale() end)
      assert.raises("quantize_per_tensor: zero_point: expected an integer from 0 to 255 for quint8, got 300",
         function() torch.quantize_per_tensor(x, 0.1, 300, "quint8") end)
   end)
end)

describe("an element of a quantized tensor", function()
   it("is read as a quantized tensor, and takes the rounded value", function()
      local q = torch.quantize_per_tensor(torch.tensor {1.0, 2.0}, 0.1, 10, torch.quint8)
      q[1] = 0.5
      assert.same({15, 30}, q:int_repr():tolist())
      assert.equal(10, q[1]:q_zero_point())
      assert.same({0.5, {0.5, 2}}, {q[1]:item(), q:tolist()})
      q[{{1, 2}}] = torch.tensor {0.7, 100}
      assert.same({17, 255}, q:int_repr():tolist())
      q[1] = torch.quantize_per_tensor(torch.tensor(1.0), 0.2, 3, "quint8")
      q[torch.tensor {false, true}] = -0.52
      assert.same({20, 5}, q:int_repr():tolist())
      local c = torch.quantize_per_channel(torch.ones(2, 2), torch.tensor {0.1, 0.2}, torch.tensor {0, 1}, 1, "quint8")
      c[1] = 0.5
      assert.same({{5, 5}, {6, 6}}, c:int_repr():tolist())
      assert.close(0.1, c[1]:q_scale(), 1e-8)
      assert.raises("cannot assign to \"scale\"", function() q.scale = 2 end)
      assert.raises("float: a quantized tensor has no conversion to float32", function() q:float() end)
      assert.raises("q: a quantized tensor cannot be saved", function() torch.save({q = q}, "q.npz") end)
   end)
end)

describe("torch.ao.quantization", function()
   local function check(observer, inputs, scale, zero, low, high)
      for _, x in ipairs(inputs) do observer(torch.tensor(x)) end
      local s, z = observer:calculate_qparams()
      same(scale, s)
      assert.same(zero, z:tolist())
      assert.same({low or 0, high or 255}, {observer.quant_min, observer.quant_max})
   end

   it("observes ranges", function()
      local one, two = {-1.0, 2, 3}, {{-1.0, 2, 3}, {1, 2, 8}}
      check(Q.MinMaxObserver(), {one}, {4 / 255}, {64})
      local symmetric = {dtype = "qint8", qscheme = "per_tensor_symmetric"}
      check(Q.MinMaxObserver(symmetric), {one}, {3 / 127.5}, {0}, -128, 127)
      symmetric.reduce_range = true
      check(Q.MinMaxObserver(symmetric), {one}, {3 / 63.5}, {0}, -64, 63)
      check(Q.MinMaxObserver {qscheme = "per_tensor_symmetric"}, {one}, {3 / 127.5}, {128})
      check(Q.MinMaxObserver {quant_min = 0, quant_max = 127}, {one}, {4 / 127}, {32}, 0, 127)
      check(Q.MinMaxObserver(), {}, {1.0}, {0})
      check(Q.MovingAverageMinMaxObserver(), {one, {-2.0, 2, 7}}, {(3.04 + 1.01) / 255}, {64})
      check(Q.PerChannelMinMaxObserver(), {two}, {4 / 255, 8 / 255}, {64, 0})
      check(Q.PerChannelMinMaxObserver {ch_axis = 2}, {two}, {2 / 255, 2 / 255, 8 / 255}, {127, 0, 0})
      check(Q.MovingAveragePerChannelMinMaxObserver(), {two, {{-2.0, 2, 3}, {1, 2, 9}}},
         {4.01 / 255, 8.01 / 255}, {64, 0})
      assert.raises("unknown option foo", function() Q.MinMaxObserver {foo = 1} end)
   end)

   -- The expected values are PyTorch 2.15's {scale, zero point, min_val, max_val, sum of count times position over the
   -- histogram}.
   it("chooses ranges by histograms as PyTorch does", function()
      local expected <const> = {{0.0565626174, 127, -7.19585514, 7.25583839, 9173249},
         {0.185618386, 40, -7.35581398, 40, 2863769.75}, {0.0289574675, 0, 0, 7.38776159, 2776297.25},
         {0.0578059368, 127, -7.36243677, 7.38527822, 9194852}, {0.0577125438, 0, -7.35834932, 7.36026573, 1147286.88},
         {0.115314506, 64, -7.38836145, 7.31401157, 1153342.5}}
      for i, row in ipairs(expected) do
         local n, options = torch.arange(3000, {dtype = "float64"}), {bins = i < 5 and 2048 or 256}
         if i == 5 then options.dtype, options.qscheme = "qint8", "per_tensor_symmetric" end
         if i == 6 then options.reduce_range = true end
         local observer = Q.HistogramObserver(options)
         for k = 0, 2 do
            local x = (n * (0.7 + i) + k):sin() * ((n * (0.37 * i) + k):cos() * (1 + k * 0.5)):exp()
            if i == 2 then x[6] = 40 end
            if i == 3 then x = x:abs() end
            if i == 4 then x[8] = math.huge end
            observer(x:float())
         end
         local scale, zero = observer:calculate_qparams()
         assert.close({row[1]}, scale, 1e-8)
         assert.same({row[2]}, zero:tolist())
         assert.close({row[3], row[4]}, torch.stack {observer.min_val, observer.max_val}, 1e-6)
         local places = torch.arange(0, options.bins)
         assert.is_true(math.abs((observer.histogram * places):sum():item() / row[5] - 1) < 1e-6)
      end
      assert.equal(0, Q.HistogramObserver():calculate_qparams():item() - 1)
      local one = Q.HistogramObserver {bins = 4}
      one(torch.tensor {2.0})
      one(torch.tensor {4.0, 0})
      assert.same({1, 0, 1, 1}, one.histogram:tolist())
      assert.raises("HistogramObserver: bins: expected an integer of at least 1, got 0",
         function() Q.HistogramObserver {bins = 0} end)
      for backend, dtypes in pairs {x86 = 127, qnnpack = 255} do
         assert.equal(dtypes, Q.get_default_qconfig(backend).activation().quant_max)
      end
      assert.raises('get_default_qconfig: backend: expected "x86", "fbgemm" or "qnnpack", got "mkl"',
         function() Q.get_default_qconfig "mkl" end)
   end)

   it("rounds and quantizes models", function()
      local fake = Q.FakeQuantize()
      same({-1.0039216, 1.9921569, 2.9960785}, fake(torch.tensor {-1.0, 2, 3}), 1e-5)
      local linear = torch.nn.Linear(8, 3)
      torch.no_grad(function()
         linear.weight:copy_((torch.arange(24) * 37 % 48 - 20):view(3, 8) / 17.0)
         linear.bias:copy_(torch.tensor {0.1, -0.2, 0.3})
      end)
      local model = torch.nn.Sequential(linear, torch.nn.Identity())
      local small = Q.quantize_dynamic(model, {torch.nn.Linear})
      same({{2.59655166, 5.46144438, 1.53543031}, {-0.648436546, 5.33110094, 4.55562305}},
         small((torch.arange(16) * 11 % 13 - 5):view(2, 8) / 3.0))
      assert.equal(linear, model[1])
      assert.close(0.011995386332273, small[1]:weight():q_scale(), 1e-9)
   end)

   it("converts layers to PyTorch's integers (fixtures/static_quantization.py)", function()
      local recorded = torch.load "spec/fixtures/static_quantization.pt"
      local layers = {
         linear = function() return torch.nn.Linear(24, 7) end,
         linear_plain = function() return torch.nn.Linear(130, 3, false) end,
         conv1d = function() return torch.nn.Conv1d(4, 6, 3, {stride = 2, padding = 1}) end,
         conv2d = function() return torch.nn.Conv2d(4, 6, 3, {padding = 1}) end,
         conv2d_groups = function()
            return torch.nn.Conv2d(8, 8, {3, 2}, {stride = {2, 1}, padding = {2, 0}, dilation = {2, 1}, groups = 4})
         end,
         conv2d_plain = function() return torch.nn.Conv2d(3, 5, 1, {bias = false}) end,
         conv3d = function() return torch.nn.Conv3d(2, 3, 2, {padding = 1}) end,
      }
      for name, make in pairs(layers) do
         for kind, qconfig in pairs {tensor = Q.default_qconfig, channel = Q.default_per_channel_qconfig} do
            local function value(key)
               local x = recorded[("%s/%s/%s"):format(name, kind, key)]
               return x and x:to(torch.get_default_device())
            end
            local layer = make()
            layer:load_state_dict {weight = value "weight", bias = value "bias"}
            local model = torch.nn.Sequential(Q.QuantStub(), layer, Q.DeQuantStub()):eval()
            model.qconfig = qconfig
            local prepared = Q.prepare(model)
            for i = 0, 1 do prepared(value("seen" .. i)) end
            local converted = Q.convert(prepared)
            -- The floating-point ranges depend on the order of sums, but the integers do not.
            assert.is_true(torch.allclose(converted[2].scale, value "scale", {rtol = 1e-6}))
            converted[2].scale:fill_(value "scale":item())
            local y = converted[2](converted[1](value "x"))
            assert.equal(value "zero":item(), y:q_zero_point(), name)
            assert.is_true(torch.equal(value "y", y:int_repr()), name .. " " .. kind)
            assert.is_true(torch.equal(y:dequantize(), converted(value "x")))
            assert.equal(layer, model[2])
            local again = Q.convert(prepared)
            again:load_state_dict(converted:state_dict())
            assert.is_true(torch.equal(y:int_repr(), again[2](again[1](value "x")):int_repr()))
         end
      end
   end)

   it("refuses models that have seen no data, or values that are not finite", function()
      for _, qconfig in ipairs {Q.default_qconfig, Q.get_default_qconfig "x86"} do
         local model = torch.nn.Sequential(Q.QuantStub(), torch.nn.Linear(4, 3), Q.DeQuantStub())
         model.qconfig = qconfig
         local x = torch.randn(2, 4)
         local prepared = Q.prepare(model)
         local empty = Q.convert(prepared)
         assert.raises("Quantize: scale: the prepared model had seen no data when it was converted",
            function() empty(x) end)
         local quantized = torch.quantize_per_tensor(x, 0.1, 0, "quint8")
         assert.raises("QuantizedLinear: scale: the prepared model had seen no data",
            function() empty[2](quantized) end)
         prepared(x)
         local full = Q.convert(prepared)
         empty:load_state_dict(full:state_dict())
         assert.is_true(torch.equal(full(x), empty(x)))
      end
      for _, value in ipairs {math.huge, 0 / 0} do
         local model = torch.nn.Sequential(Q.QuantStub(), torch.nn.Linear(4, 3))
         model.qconfig = Q.default_qconfig
         local prepared = Q.prepare(model)
         prepared(torch.full({2, 4}, value))
         assert.raises(": expected finite numbers, got", function() Q.convert(prepared) end)
      end
      local broken = torch.nn.Sequential(torch.nn.Linear(4, 3))
      broken[1].weight.data:fill_(0 / 0)
      broken.qconfig = Q.default_qconfig
      assert.raises("convert: model: 1.weight: expected finite numbers, got",
         function() Q.convert(Q.prepare(broken)) end)
      assert.raises("convert: model: expected a model that prepare has returned, got one without observers",
         function() Q.convert(torch.nn.Sequential(torch.nn.Linear(4, 3))) end)
   end)

   it("leaves out_proj of attention, and names the missing stub", function()
      local model = torch.nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, batch_first = true})
      model:eval()
      model.self_attn.qconfig = Q.default_qconfig
      assert.raises("prepare: model: expected a field qconfig", function() Q.prepare(model) end)
      model.self_attn.qconfig, model.qconfig = nil, Q.default_qconfig
      local x = torch.randn(2, 3, 8)
      local prepared = Q.prepare(model)
      prepared(x)
      local converted = Q.convert(prepared)
      assert.equal("nn.Linear", torch.type(converted.self_attn.out_proj))
      assert.raises("in dimension -1, which a QuantStub before the layer makes, got a float32 tensor",
         function() converted(x) end)
      local twice = Q.convert(converted)
      assert.equal(torch.type(converted.linear1), torch.type(twice.linear1))
   end)

   it("prepares and converts parts of a model, and refuses what it cannot", function()
      local part = nn.Sequential(Q.QuantStub(), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3),
         Q.DeQuantStub())
      part.qconfig = Q.QConfig(Q.MovingAverageMinMaxObserver, Q.default_qconfig.weight)
      local model = nn.Sequential(part, nn.Linear(3, 2)):eval()
      local prepared = Q.prepare(model)
      prepared(torch.randn(4, 1, 4, 4))
      local small = Q.convert(prepared)
      assert.equal("nn.Linear", torch.type(small[2]))
      assert.equal("qint8", small[1][5]:weight().dtype)
      local x = torch.randn(2, 1, 4, 4)
      assert.is_true((small(x) - model(x)):abs():max():item() < 0.2)
      local state = small[1][5]:state_dict()
      for field, value in pairs {integers = torch.ones(3, 8), zero_point = torch.ones(1), scale = torch.zeros(1)} do
         local wrong = {}
         for key, own in pairs(state) do wrong[key] = own end
         wrong[field] = value
         local ok, why = pcall(small[1][5].load_state_dict, small[1][5], wrong)
         assert.is_false(ok)
         assert.is_truthy(why:find(field, 1, true))
      end
      assert.raises("prepare: model: expected a field qconfig in the model", function() Q.prepare(nn.Linear(2, 2)) end)
      local bare = nn.Sequential(nn.Linear(2, 2))
      bare.qconfig = Q.default_qconfig
      assert.raises("convert: model: 1 has no observer; call prepare first", function() Q.convert(bare) end)
      assert.raises("QuantizedLinear: x: expected a quint8 tensor quantized per tensor, with a size of 8 in dimension "
         .. "-1, which a QuantStub before the layer makes, got a float32", function() small[1][5](torch.ones(1, 8)) end)
      bare.qconfig = 3
      assert.raises("prepare: qconfig: expected a QConfig, got 3", function() Q.prepare(bare) end)
   end)

   it("keeps the scale of a layer in its state", function()
      local a, b = torch.nn.Linear(8, 3), torch.nn.Linear(8, 3)
      local small, other = Q.DynamicQuantizedLinear(a), Q.DynamicQuantizedLinear(b)
      other:load_state_dict(small:state_dict())
      local x = torch.randn(2, 8)
      assert.close(small(x), other(x), 0)
      local m = torch.masked.masked_tensor(x, x:gt(0))
      for _, value in ipairs {m, torch.tensor(1.0), x:to "meta", x:double(), 3} do
         assert.raises("DynamicQuantizedLinear: x: expected a float32 tensor on " .. tostring(x.device),
            function() small(value) end)
      end
      torch.no_grad(function() b.weight[2] = 0 / 0 end)
      for _, layer in ipairs {b, torch.nn.Linear(2, 2, {device = "meta"})} do
         assert.raises("layer: expected a weight of finite numbers", function() Q.DynamicQuantizedLinear(layer) end)
      end
      local message = "DynamicQuantizedLinear: x: expected finite numbers, got inf or NaN among them"
      for _, value in ipairs {0 / 0, 1 / 0, -1 / 0} do
         x[1][2] = value
         assert.raises(message, function() small(x) end)
      end
   end)

   it("refuses states that are no quantized layer's, and keeps its dtypes", function()
      local small = Q.DynamicQuantizedLinear(torch.nn.Linear(2, 2))
      local x, before = torch.randn(3, 2), small:state_dict()
      local y = small(x)
      local function refused(field, value, message)
         local state = {}
         for key, tensor in pairs(before) do state[key] = tensor:clone() end
         state[field] = value
         for _, assign in ipairs {false, true} do
            assert.raises("the state does not fit ao.quantization.DynamicQuantizedLinear: not accepted: "
               .. message, function() small:load_state_dict(state, {assign = assign}) end)
         end
         assert.close(y, small(x), 0)
      end
      refused("integers", torch.tensor {{300, 1}, {2, 3}}, "integers: expected an int8 tensor, got an int64 tensor of")
      refused("integers", torch.ones(2, 2), "integers: expected an int8 tensor, got a float32 tensor of")
      for _, value in ipairs {-1.0, 0.0, 0 / 0, math.huge} do
         refused("scale", torch.tensor(value), "scale: expected a finite number above 0, got " .. value)
      end
      refused("scale", torch.tensor(1e300, {dtype = "float64"}), "scale: expected a finite number above 0, got inf")
      refused("scale", torch.tensor(1), "scale: expected a floating-point tensor, got an int64 tensor")
      refused("integers", torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, "qint8"),
         "integers: expected a dense tensor, got a qint8 quantized tensor of shape (2, 2)")
      for _, name in ipairs {"half", "bfloat16", "double"} do
         small[name](small)
         assert.close(y, torch.nn.Sequential(small)[name](torch.nn.Sequential(small))(x), 0)
      end
      assert.equal("float32", small.scale.dtype)
      assert.equal("float32", small.bias.dtype)
   end)

   it("copies quantized tensors in place, and loads them into buffers", function()
      local q = torch.quantize_per_tensor(torch.tensor {1.0, 2}, 0.5, 1, "qint8")
      local p = torch.quantize_per_tensor(torch.tensor {3.0, 4}, 0.25, 2, "qint8")
      local m = torch.nn.Module()
      m:register_buffer("q", q)
      m:load_state_dict {q = p}
      assert.is_true(m.q:equal(p))
      assert.same({3.0, 4}, q:tolist())
      assert.equal(q, q:copy_(torch.tensor(0.6)))
      assert.same({0.5, 0.5}, q:tolist())
      local c = torch.quantize_per_channel(torch.ones(2, 2), torch.tensor {0.1, 0.2}, torch.tensor {0, 0}, 1, "qint8")
      assert.raises("copy_: src: expected a tensor like self, a qint8 quantized tensor of shape (2), got a qint8",
         function() q:copy_(c) end)
      assert.raises("copy_: src: expected a tensor, got 3", function() q:copy_(3) end)
      assert.raises("copy_: is not defined for quantized tensors", function() torch.ones(2):copy_(q) end)
      assert.raises("not accepted: q: expected a quantized tensor, got a float32 tensor of shape (2)",
         function() m:load_state_dict {q = torch.ones(2)} end)
      assert.raises("load_state_dict: the state does not fit nn.Linear: not accepted: weight: expected a dense tensor, "
         .. "got a qint8 quantized tensor of shape (2, 2)", function()
         torch.nn.Linear(2, 2):load_state_dict {weight = c, bias = torch.ones(2)}
      end)
   end)

   it("quantize_dynamic takes PyTorch's arguments and keeps hooks", function()
      local layer = nn.Linear(4, 4)
      local model, calls = nn.Sequential(layer, nn.Dropout(0.5), layer), 0
      layer:register_forward_hook(function() calls = calls + 1 end)
      local small = Q.quantize_dynamic(model, {nn.Linear}, torch.qint8)
      assert.is_true(model.training)
      assert.is_false(small.training or small[1].training or small[2].training)
      assert.equal(small[1], small[3])
      small(torch.ones(1, 4))
      assert.equal(2, calls)
      assert.equal(nn.Linear, getmetatable(Q.quantize_dynamic(model, {})[1]))
      assert.raises('quantize_dynamic: dtype: expected "qint8", got "float16"',
         function() Q.quantize_dynamic(model, {nn.Linear}, "float16") end)
      assert.raises("quantize_dynamic: qconfig_spec: expected a list of nn.Linear, got",
         function() Q.quantize_dynamic(model, {nn.Conv2d}) end)
      local Double = torch.class("Double", nn.Linear)
      function Double:forward(x) return 2 * nn.Linear.forward(self, x) end
      assert.equal(Double, getmetatable(Q.quantize_dynamic(nn.Sequential(Double(2, 2)))[1]))
      local encoder = nn.TransformerEncoderLayer(8, 2, 16):eval()
      local y = torch.randn(3, 2, 8)
      assert.close(encoder(y), Q.quantize_dynamic(encoder)(y), 0.1)
      assert.equal(model, Q.quantize_dynamic(model, nil, {inplace = true}))
      assert.equal(model[1], model[3])
      assert.not_equal(layer, model[1])
   end)
end)

-- The expected integers were computed by PyTorch 2.15's engine fbgemm, with the weights and inputs of the code below.
describe("fused layers", function()
   local function wave(fn, step, scale, ...)
      local n = 1
      for _, size in ipairs {...} do n = n * size end
      return (fn(torch.arange(n, {dtype = "float64"}) * step) * scale):float():reshape(...)
   end

   local function model()
      local conv, norm, linear = nn.Conv2d(2, 3, 3, {padding = 1}), nn.BatchNorm2d(3), nn.Linear(48, 3)
      local function set(to, list) to.data:copy_(torch.tensor(list)) end
      conv.weight.data:copy_(wave(torch.cos, 1.7, 1, 3, 2, 3, 3))
      set(conv.bias, {0.1, -0.2, 0.3})
      set(norm.weight, {1.0, 0.5, 2})
      set(norm.bias, {0.0, 0.5, -1})
      set(norm.running_mean, {0.2, -0.1, 0.4})
      set(norm.running_var, {1.5, 0.7, 2.0})
      linear.weight.data:copy_(wave(torch.sin, 0.9, 0.2, 3, 48))
      set(linear.bias, {0.5, 0.25, -0.5})
      return nn.Sequential(Q.QuantStub(), conv, norm, nn.ReLU(), nn.Flatten(), linear, nn.ReLU(),
         Q.DeQuantStub()):eval()
   end

   local x <const> = wave(torch.sin, 0.37, 1, 2, 2, 4, 4)

   it("compute what the layers compute, and have PyTorch's integers after convert", function()
      local plain = model()
      local fused = Q.fuse_modules(plain, {{"2", "3", "4"}, {"6", "7"}})
      assert.close(plain(x), fused(x), 1e-5)
      assert.equal("nn.BatchNorm2d", torch.type(plain[3]))
      assert.equal("nn.Identity", torch.type(fused[3]))
      fused.qconfig = Q.default_per_channel_qconfig
      local prepared = Q.prepare(fused)
      prepared(x)
      local converted = Q.convert(prepared)
      local q = converted[2](converted[1](x))
      assert.close(0.00855181086808443, q:q_scale(), 1e-9)
      assert.same({6, 0, 0, 59, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 97, 55, 54, 99, 32, 50, 51, 101, 0, 45, 48, 0, 49,
         51, 50, 5, 0, 0, 0, 0, 0, 0, 0, 49, 0, 0, 0, 0, 0, 0, 0, 0, 49, 0, 0, 59, 0, 0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0,
         102, 53, 54, 72, 89, 54, 53, 127, 0, 50, 50, 47, 13, 50, 51, 1, 0, 0, 0, 0, 47, 0, 0, 6, 0, 0, 0, 0, 0, 0,
         0, 0},
         q:int_repr():flatten():tolist())
      assert.same({{107, 88, 0}, {127, 64, 0}}, converted[6](q:flatten(2)):int_repr():tolist())
   end)

   it("are refused where modules do not follow one another in this way", function()
      assert.raises("ao.quantization.fuse_modules: modules_to_fuse: expected Linear or Conv, a batch norm, and ReLU",
         function() Q.fuse_modules(model(), {"4", "5"}) end)
      assert.raises("ao.quantization.fuse_modules: modules_to_fuse: expected names of modules in the model, got \"9\"",
         function() Q.fuse_modules(model(), {"2", "9"}) end)
      assert.raises("ao.quantization.fuse_modules: model: expected a model in evaluation mode",
         function() Q.fuse_modules(model():train(), {"2", "3"}) end)
   end)
end)

-- The expected integers are PyTorch 2.15's.
it("quantized tensors are joined, and pooled", function()
   local a = torch.quantize_per_tensor(torch.tensor {-1, 0.26, 3}, 0.1, 10, "quint8")
   local b = torch.quantize_per_tensor(torch.tensor {0.5, 2}, 0.05, 3, "quint8")
   assert.same({0, 13, 40, 15, 30}, torch.cat {a, b}:int_repr():tolist())
   local d = torch.quantize_per_tensor(torch.sin(torch.arange(16, {dtype = "float32"})):reshape(1, 1, 4, 4), 0.01, 100,
      "quint8")
   assert.same({184, 191, 199, 199}, torch.nn.functional.max_pool2d(d, 2):int_repr():flatten():tolist())
   assert.raises("cat: tensors[2]: expected a tensor quantized per tensor, of the dtype of the first",
      function() torch.cat {a, torch.ones(2)} end)
end)
